/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "python/tensor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CDATA 16	 /* THPVariable: the TensorImpl's pointer … */
#define CDATA_OLD 24 /* … behind a flag, in older versions */
#define NUMEL 96	 /* behind the sizes: 5 sizes and 5 strides inline, then storage_offset, numel, type */
#define DTYPE 104
#define SPARSE_WORDS 12 /* behind the type: where sparse_dim, dense_dim, indices, values begin */
#define INLINE_DIMS 5
#define DIMS_POSSIBLE 64
#define AGREE_MIN 2 /* tensors with dimensions that must fit before a place is used; none may misfit */
#define STORAGE_MAX (1ull << 57)

static const uint16_t sizes_candidates[] = { 56, 64, 48, 72, 80 };

/* By c10::ScalarType. */
static const char *const dtypes[] = {
	"uint8", "int8", "int16", "int32", "int64", "float16",
	"float32", "float64", "complex32", "complex64", "complex128", "bool",
	"qint8", "quint8", "qint32", "bfloat16", "quint4x2", "quint2x4",
	"bits1x8", "bits2x4", "bits4x2", "bits8", "bits16", "float8_e5m2",
	"float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "uint16", "uint32", "uint64",
};
#define DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))

static uint32_t class_of(const struct py_torch *t, uint64_t vtable)
{
	size_t low = 0, high = t->vtables_cnt;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (t->vtables[mid].addr == vtable)
			return t->vtables[mid].class;
		if (t->vtables[mid].addr < vtable)
			low = mid + 1;
		else
			high = mid;
	}
	return MT_CLASS_UNKNOWN;
}

static uint32_t class_at(const struct py_torch *t, struct py *p, uint64_t obj)
{
	return obj ? class_of(t, py_snap__word(p->snap, obj)) : MT_CLASS_UNKNOWN;
}

static int has_storage(uint32_t class)
{
	return class == MT_CLASS_PLAIN || class == MT_CLASS_QUANTIZED || class == MT_CLASS_NESTED;
}

/* Sizes of a tensor if they were at `sizes`; 0 or -EAGAIN. */
static int read_sizes(struct py *p, uint64_t impl, uint16_t sizes, struct py_storage *ret, uint64_t *ret_numel)
{
	uint64_t dims = py_snap__word(p->snap, impl + sizes), at = impl + sizes + 8, product = 1, shape[DIMS_POSSIBLE];
	uint64_t numel = py_snap__word(p->snap, impl + sizes + NUMEL);

	if (dims > DIMS_POSSIBLE)
		return -EAGAIN;
	if (dims > INLINE_DIMS)
		at = py_snap__ptr(p->snap, at);
	if (dims && (!at || py_snap__read(p->snap, at, shape, dims * 8)))
		return -EAGAIN;
	for (uint64_t i = 0; i < dims; i++)
		if (__builtin_mul_overflow(product, shape[i], &product))
			return -EAGAIN;
	if (product != numel || numel > STORAGE_MAX)
		return -EAGAIN;
	*ret_numel = numel;
	ret->dims = dims <= PY_DIMS_MAX ? (uint8_t)dims : PY_DIMS_NONE;
	for (uint64_t i = 0; i < dims && dims <= PY_DIMS_MAX; i++)
		ret->shape[i] = shape[i];
	return 0;
}

static int add_shape(const struct py_torch *t, struct py *p, struct py_storage *s)
{
	uint64_t numel;
	uint32_t dtype;

	s->dims = PY_DIMS_NONE;
	s->dtype = 255;
	if (!t->sizes)
		return 0;
	if (read_sizes(p, s->impl, t->sizes, s, &numel))
		return -EAGAIN;
	dtype = py_snap__int(p->snap, s->impl + t->sizes + DTYPE) & 0xffff;
	if (dtype < DTYPES)
		s->dtype = (uint8_t)dtype;
	return 0;
}

static uint8_t device_of(uint16_t device)
{
	uint8_t type = device & 0xff, index = device >> 8;

	if (type == 0)
		return MT_DEV_CPU;
	return type == 1 && index < MT_DEV_CUDA_MAX ? (uint8_t)(MT_DEV_CUDA0 + index) : MT_DEV_NONE;
}

static int read_storage(const struct py_torch *t, struct py *p, struct py_storage *s)
{
	uint16_t device;

	s->storage = py_snap__ptr(p->snap, s->impl + t->at.impl_storage);
	if (!s->storage)
		return -ENOENT;
	if (class_at(t, p, s->storage) != MT_CLASS_STORAGE ||
	    py_snap__read(p->snap, s->storage + t->at.storage_dev, &device, sizeof(device)))
		return -EAGAIN;
	s->data = py_snap__word(p->snap, s->storage + t->at.storage_data);
	s->bytes = py_snap__word(p->snap, s->storage + t->at.storage_size);
	s->dev = device_of(device);
	/* c10::DataPtr: the argument of its deleter. Other allocators' is an object of theirs (bpf/flow.bpf.c does the same) */
	s->is_own = py_snap__word(p->snap, s->storage + t->at.storage_data + 16) == s->data;
	if (!s->data || !s->bytes || s->dev == MT_DEV_NONE)
		return -ENOENT;
	return s->bytes > STORAGE_MAX ? -EAGAIN : 0;
}

int py_torch__of_impl(struct py_torch *t, struct py *p, uint64_t impl, struct py_storage *ret)
{
	struct py_storage s = { .impl = impl };
	uint32_t class = class_at(t, p, impl);
	int r;

	if (!has_storage(class))
		return class == MT_CLASS_UNKNOWN || class >= MT_CLASS_MAX ? -EAGAIN : -ENOENT;
	r = read_storage(t, p, &s);
	r = r ? r : add_shape(t, p, &s);
	if (!r)
		*ret = s;
	return r;
}

uint64_t py_torch__impl(const struct py_torch *t, struct py *p, uint64_t obj)
{
	uint64_t impl = py_snap__ptr(p->snap, obj + CDATA);

	return class_at(t, p, impl) == MT_CLASS_UNKNOWN ? py_snap__ptr(p->snap, obj + CDATA_OLD) : impl;
}

int py_torch__of_object(struct py_torch *t, struct py *p, uint64_t obj, struct py_storage *ret)
{
	return py_torch__of_impl(t, p, py_torch__impl(t, p, obj), ret);
}

int py_torch__may_train(const struct py_torch *t, struct py *p, uint64_t impl)
{
	return py_snap__word(p->snap, impl + t->at.impl_autograd_meta) != 0;
}

uint64_t py_torch__grad(const struct py_torch *t, struct py *p, uint64_t impl)
{
	uint64_t meta = py_snap__ptr(p->snap, impl + t->at.impl_autograd_meta);

	if (class_at(t, p, meta) != MT_CLASS_META)
		return 0;
	meta = py_snap__ptr(p->snap, meta + t->at.meta_grad);
	return has_storage(class_at(t, p, meta)) || class_at(t, p, meta) == MT_CLASS_SPARSE ? meta : 0;
}

/* indices: int64[sparse dims, elements]; values: [elements, sizes of dense dims]. */
static int are_parts_of(const struct py_storage *of, uint64_t sparse, uint64_t dense, const struct py_storage parts[])
{
	const struct py_storage *indices = &parts[PY_INDICES], *values = &parts[PY_VALUES];

	return sparse && sparse + dense == of->dims && indices->dims == 2 && indices->shape[0] == sparse &&
	       values->dims == dense + 1 && values->shape[0] == indices->shape[1] &&
	       !memcmp(values->shape + 1, of->shape + sparse, dense * 8);
}

int py_torch__sparse(struct py_torch *t, struct py *p, uint64_t impl, struct py_storage ret[PY_SPARSE_PARTS])
{
	struct py_storage of = { .impl = impl };
	uint64_t numel;

	if (class_at(t, p, impl) != MT_CLASS_SPARSE || !t->sizes || read_sizes(p, impl, t->sizes, &of, &numel) ||
	    of.dims >= PY_DIMS_MAX)
		return -EAGAIN;
	for (unsigned i = 1; i <= SPARSE_WORDS; i++) {
		uint64_t at = impl + t->sizes + DTYPE + 8ull * i, sparse = py_snap__word(p->snap, at);
		uint64_t dense = py_snap__word(p->snap, at + 8);
		struct py_storage parts[PY_SPARSE_PARTS];

		if (sparse > of.dims || dense > of.dims ||
		    py_torch__of_impl(t, p, py_snap__ptr(p->snap, at + 16), &parts[PY_INDICES]) ||
		    py_torch__of_impl(t, p, py_snap__ptr(p->snap, at + 24), &parts[PY_VALUES]) ||
		    !are_parts_of(&of, sparse, dense, parts))
			continue;
		if (parts[PY_INDICES].bytes != parts[PY_INDICES].shape[0] * parts[PY_INDICES].shape[1] * 8)
			parts[PY_INDICES].impl = 0;
		memcpy(ret, parts, sizeof(parts));
		return 0;
	}
	return -ENOENT;
}

void py_torch__calibrate(struct py_torch *t, struct py *p, const uint64_t *impls, size_t cnt)
{
	for (size_t c = 0; !t->sizes && c < sizeof(sizes_candidates) / sizeof(sizes_candidates[0]); c++) {
		size_t agree = 0;

		for (size_t i = 0; i < cnt; i++) {
			struct py_storage s;
			uint64_t numel;

			if (read_sizes(p, impls[i], sizes_candidates[c], &s, &numel))
				break;
			agree += numel > 1 && s.dims >= 1; /* zeros and ones fit anywhere */
			if (i + 1 == cnt && agree >= AGREE_MIN)
				t->sizes = sizes_candidates[c];
		}
	}
}

void py_storage__type_text(const struct py_storage *s, char buf[PY_TYPE_TEXT_MAX])
{
	size_t n = (size_t)snprintf(buf, 24, "%s", s->dtype < DTYPES ? dtypes[s->dtype] : "?");

	if (s->dims == PY_DIMS_NONE) {
		snprintf(buf + n, 4, "[?]");
		return;
	}
	buf[n++] = '[';
	for (unsigned i = 0; i < s->dims; i++)
		n += (size_t)snprintf(buf + n, PY_TYPE_TEXT_MAX - n, "%s%llu", i ? "," : "", (unsigned long long)s->shape[i]);
	buf[n++] = ']';
	buf[n] = '\0';
}

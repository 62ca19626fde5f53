/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * python_image: a piece of memory with a CPython in it, made by hand: interpreter, types, torch's modules, a model,
 * an optimizer. For tests that tear it, and as what fuzzing begins with.
 *
 * At IMAGE_BASE is the pointer to the interpreter; then the objects, wherever they came to lie.
 */
#ifndef MT_TESTS_PYTHON_IMAGE_H
#define MT_TESTS_PYTHON_IMAGE_H

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "python/reader.h"

#define IMAGE_BASE 0x100000ull
#define IMAGE_BYTES 65536u
#define IMAGE_INTERP_NEXT 8 /* any place that nothing else is read from */
#define IMAGE_IMPL 0x7001000ull
#define IMAGE_STORAGE 0x7002000ull
#define IMAGE_META 0x7003000ull
#define IMAGE_SPARSE 0x7004000ull

static const struct flow_vtable image_vtables[] = { { IMAGE_IMPL, MT_CLASS_PLAIN }, { IMAGE_STORAGE, MT_CLASS_STORAGE },
						   { IMAGE_META, MT_CLASS_META }, { IMAGE_SPARSE, MT_CLASS_SPARSE } };
static const struct mt_flow_layout image_layout = { .impl_storage = 16, .impl_autograd_meta = 24, .meta_grad = 40,
						     .storage_data = 16, .storage_dev = 40, .storage_size = 48 };

struct image {
	uint8_t bytes[IMAGE_BYTES];
	size_t len; /* of it that is there */
	size_t used;
	const struct py_object_offsets *at;
	uint64_t interp, type, str, dict, list, tuple, mod;	     /* types */
	uint64_t base_tensor, parameter, base_module, net, linear; /* … of torch */
	uint64_t base_optimizer, sgd;
	uint64_t model, layer, opt, modules, params; /* objects: Net, its Linear, the optimizer, Net's _modules, Linear's
							_parameters … */
	uint64_t buffers; /* … and _buffers */
	uint64_t weight;
	unsigned reads, fail_every; /* fault injection: 0 never */
};

static inline int image_read(void *ctx, uint64_t addr, void *buf, size_t len)
{
	struct image *im = ctx;

	if (im->fail_every && ++im->reads % im->fail_every == 0)
		return -EFAULT;
	if (addr < IMAGE_BASE || addr - IMAGE_BASE > im->len || len > im->len - (addr - IMAGE_BASE))
		return -EFAULT;
	memcpy(buf, im->bytes + (addr - IMAGE_BASE), len);
	return 0;
}

static inline void poke(struct image *im, uint64_t addr, uint64_t v)
{
	memcpy(im->bytes + (addr - IMAGE_BASE), &v, 8);
}

static inline uint64_t peek(const struct image *im, uint64_t addr)
{
	uint64_t v;

	memcpy(&v, im->bytes + (addr - IMAGE_BASE), 8);
	return v;
}

static inline uint64_t image_take(struct image *im, size_t size)
{
	uint64_t at = IMAGE_BASE + im->len;

	im->len += (size + 15) & ~15ul;
	if (im->len > IMAGE_BYTES)
		__builtin_trap();
	return at;
}

static inline uint64_t image_obj(struct image *im, uint64_t type, size_t size)
{
	uint64_t at = image_take(im, size);

	poke(im, at, 1);
	poke(im, at + 8, type);
	return at;
}

/* tp_mro = itself, then `base`'s. */
static inline uint64_t image_type(struct image *im, const char *name, uint64_t base, uint64_t flags)
{
	uint64_t at = image_obj(im, im->type, im->at->cached_keys ? im->at->cached_keys + 8u : 400), text = image_take(im, 32);
	uint64_t base_mro = base ? peek(im, base + 344) : 0, cnt = base_mro ? peek(im, base_mro + 16) : 0;
	uint64_t mro = image_obj(im, im->tuple, 24 + 8 * (cnt + 1));

	strcpy((char *)im->bytes + (text - IMAGE_BASE), name);
	poke(im, at + 24, text);
	poke(im, at + 32, 32);
	poke(im, at + 168, flags | 1u << 12 | 1u << 9);
	poke(im, mro + 16, cnt + 1);
	poke(im, mro + 24, at);
	for (uint64_t i = 0; i < cnt; i++)
		poke(im, mro + 32 + 8 * i, peek(im, base_mro + 24 + 8 * i));
	poke(im, at + 344, mro);
	return at;
}

static inline uint64_t image_str(struct image *im, const char *text)
{
	uint64_t at = image_obj(im, im->str, im->at->str_ascii + strlen(text) + 1);

	poke(im, at + 16, strlen(text));
	poke(im, at + 32, 1u << 2 | 1u << 5 | 1u << 6);
	strcpy((char *)im->bytes + (at + im->at->str_ascii - IMAGE_BASE), text);
	return at;
}

/* A table of eight places. kind 0: general, 1: strings, 2: split (no values in it). */
static inline uint64_t image_keys(struct image *im, unsigned kind, uint64_t cnt, const uint64_t *keys, const uint64_t *values)
{
	unsigned old = im->at->keys_are_old, size = old || !kind ? 24 : 16, head = old ? 48 : 40;
	uint64_t at = image_take(im, head + 5 * size);

	if (old) {
		poke(im, at + 8, 8);
		poke(im, at + 24, 5 - cnt);
		poke(im, at + 32, cnt);
	} else {
		poke(im, at + 8, 3 | 3 << 8 | kind << 16);
		poke(im, at + 16, 5 - cnt);
		poke(im, at + 24, cnt);
	}
	for (uint64_t i = 0; i < cnt; i++) {
		poke(im, at + head + i * size + size - 16, keys[i]);
		poke(im, at + head + i * size + size - 8, values ? values[i] : 0);
	}
	return at;
}

static inline uint64_t image_dict(struct image *im, unsigned kind, uint64_t cnt, const uint64_t *keys, const uint64_t *values)
{
	uint64_t at = image_obj(im, im->dict, 48), used = 0;

	for (uint64_t i = 0; i < cnt; i++)
		used += values[i] != 0;
	poke(im, at + 16, used);
	poke(im, at + 32, image_keys(im, kind, cnt, keys, kind == 2 ? NULL : values));
	if (kind == 2) {
		uint64_t vals = image_take(im, im->at->values_header + 8 * 5);

		for (uint64_t i = 0; i < cnt; i++)
			poke(im, vals + im->at->values_header + 8 * i, values[i]);
		poke(im, at + 40, vals);
	}
	return at;
}

static inline uint64_t image_list(struct image *im, uint64_t cnt, const uint64_t *items)
{
	uint64_t at = image_obj(im, im->list, 32), array = image_take(im, 8 * cnt);

	poke(im, at + 16, cnt);
	poke(im, at + 24, array);
	for (uint64_t i = 0; i < cnt; i++)
		poke(im, array + 8 * i, items[i]);
	return at;
}

/* The last of the oldest generation. */
static inline void image_gc_add(struct image *im, uint64_t obj)
{
	uint64_t head = im->interp + im->at->interp_gc + 72, last = peek(im, head + 8);

	poke(im, obj - 16, head);
	poke(im, obj - 8, last);
	poke(im, last, obj - 16);
	poke(im, head + 8, obj - 16);
}

/* An instance: attributes in a dict of its own, or as values along its type's keys. */
static inline uint64_t image_instance(struct image *im, uint64_t type, int inline_values, uint64_t cnt, const uint64_t *keys,
				      const uint64_t *values)
{
	uint64_t start = image_take(im, 32 + 32 + 8 + 8 * 5), at = start + 32, where = 0;

	poke(im, at, 1);
	poke(im, at + 8, type);
	if (im->at->dict_place == PY_DICT_BY_OFFSET) {
		poke(im, type + 288, 16);
		poke(im, at + 16, image_dict(im, inline_values ? 2 : 1, cnt, keys, values));
		image_gc_add(im, at);
		return at;
	}
	poke(im, type + 168, peek(im, type + 168) | 1u << 4 | (im->at->dict_place == PY_DICT_INLINE ? 4 : 0));
	if (!inline_values) {
		poke(im, at - 24, image_dict(im, 1, cnt, keys, values));
		image_gc_add(im, at);
		return at;
	}
	poke(im, type + im->at->cached_keys, image_keys(im, 2, cnt, keys, NULL));
	where = im->at->dict_place == PY_DICT_INLINE ? at + 32 + 8 : image_take(im, 8 * 6) + 8;
	if (im->at->dict_place == PY_DICT_INLINE)
		poke(im, at + 32, cnt | cnt << 8 | 1 << 16 | 1u << 24);
	else
		poke(im, at - (im->at->dict_place == PY_DICT_TWO_WORDS ? 32 : 24),
		     im->at->dict_place == PY_DICT_TWO_WORDS ? where : where - 1);
	for (uint64_t i = 0; i < cnt; i++)
		poke(im, where + 8 * i, values[i]);
	image_gc_add(im, at);
	return at;
}

/* rows × columns of float32 at a made-up address; *ret_impl may be NULL. */
static inline uint64_t image_tensor(struct image *im, uint64_t type, uint64_t data, uint64_t rows, uint64_t cols)
{
	uint64_t at = image_obj(im, type, 32), impl = image_take(im, 176), storage = image_take(im, 96);

	poke(im, at + 16, impl);
	poke(im, impl, IMAGE_IMPL);
	poke(im, impl + 16, storage);
	poke(im, impl + 56, 2);
	poke(im, impl + 64, rows);
	poke(im, impl + 72, cols);
	poke(im, impl + 152, rows * cols);
	poke(im, impl + 160, 6);
	poke(im, storage, IMAGE_STORAGE);
	poke(im, storage + 16, data);
	poke(im, storage + 32, data);
	poke(im, storage + 48, rows * cols * 4);
	return at;
}

static inline void image_grad(struct image *im, uint64_t tensor, uint64_t grad)
{
	uint64_t meta = image_take(im, 96);

	poke(im, meta, IMAGE_META);
	poke(im, meta + 40, peek(im, grad + 16));
	poke(im, peek(im, tensor + 16) + 24, meta);
}

/* A class of tensors with a slot of this name, 32 bytes into each object. */
static inline uint64_t image_slotted(struct image *im, const char *name, const char *slot)
{
	uint64_t at = image_type(im, name, im->base_tensor, 0), member = image_take(im, 48);
	uint64_t descr = image_obj(im, im->mod, 48), key = image_str(im, slot);

	poke(im, descr + 16, at);
	poke(im, descr + 40, member);
	poke(im, member + 8, 16);
	poke(im, member + 16, 32);
	poke(im, at + 264, image_dict(im, 1, 1, &key, &descr));
	return at;
}

/* A tensor of such a class, without memory of its own. */
static inline uint64_t image_wrapper(struct image *im, uint64_t type, uint64_t inner)
{
	uint64_t at = image_obj(im, type, 48), impl = image_take(im, 176);

	poke(im, at + 16, impl);
	poke(im, at + 32, inner);
	poke(im, impl, IMAGE_IMPL);
	poke(im, impl + 48, at);
	return at;
}

/* A sparse one: some rows, and which these are, int64[1,some]. */
static inline uint64_t image_sparse(struct image *im, uint64_t indices, uint64_t values, uint64_t rows, uint64_t cols,
				    uint64_t some)
{
	uint64_t at = image_tensor(im, im->base_tensor, 0, rows, cols), impl = image_take(im, 224);
	uint64_t which = peek(im, image_tensor(im, im->base_tensor, indices, 1, some) + 16);
	uint64_t what = peek(im, image_tensor(im, im->base_tensor, values, some, cols) + 16);

	poke(im, which + 160, 4);
	poke(im, peek(im, which + 16) + 48, some * 8);
	memcpy(im->bytes + (impl - IMAGE_BASE), im->bytes + (peek(im, at + 16) - IMAGE_BASE), 168);
	poke(im, at + 16, impl);
	poke(im, impl, IMAGE_SPARSE);
	poke(im, impl + 16, 0);
	poke(im, impl + 176, 1);
	poke(im, impl + 184, 1);
	poke(im, impl + 192, which);
	poke(im, impl + 200, what);
	return at;
}

#define LIST(...) (const uint64_t[]){ __VA_ARGS__ }
#define COUNT(...) (sizeof(LIST(__VA_ARGS__)) / 8)

static inline void image_types(struct image *im)
{
	im->interp = image_take(im, 8192);
	poke(im, IMAGE_BASE, im->interp);
	for (unsigned i = 24; i <= 104; i += i == 24 ? 24 : 24) { /* empty lists: the three generations and the permanent one */
		if (i == 96)
			i = 104;
		poke(im, im->interp + im->at->interp_gc + i, im->interp + im->at->interp_gc + i);
		poke(im, im->interp + im->at->interp_gc + i + 8, im->interp + im->at->interp_gc + i);
	}
	im->type = IMAGE_BASE + im->len; /* its own type */
	im->type = image_type(im, "type", 0, PY_IS_TYPE);
	im->str = image_type(im, "str", 0, PY_IS_STR);
	im->dict = image_type(im, "dict", 0, PY_IS_DICT);
	im->list = image_type(im, "list", 0, PY_IS_LIST);
	im->tuple = image_type(im, "tuple", 0, PY_IS_TUPLE);
	im->mod = image_type(im, "module", 0, 0);
	im->base_tensor = image_type(im, "torch._C.TensorBase", 0, 0);
	im->parameter = image_type(im, "Parameter", im->base_tensor, 0);
	im->base_module = image_type(im, "Module", 0, 0);
	im->net = image_type(im, "Net", im->base_module, 0);
	im->linear = image_type(im, "Linear", im->base_module, 0);
	im->base_optimizer = image_type(im, "Optimizer", 0, 0);
	im->sgd = image_type(im, "SGD", im->base_optimizer, 0);
}

static inline uint64_t image_module(struct image *im, const char *attr, uint64_t value)
{
	uint64_t at = image_obj(im, im->mod, 24);

	poke(im, at + 16, image_dict(im, 1, 1, LIST(image_str(im, attr)), LIST(value)));
	return at;
}

/* Net { inner: Linear { weight 8×4 with a gradient, bias None, buffer "scale" 1×4 } }, SGD with momentum. */
static inline void image__init(struct image *im, unsigned minor, int inline_values)
{
	uint64_t parameters, buffers, modules, empty, none, group;

	memset(im, 0, sizeof(*im));
	im->at = py_object_offsets(minor);
	image_take(im, 16);
	image_types(im);
	poke(im, im->interp + im->at->interp_modules,
	     image_dict(im, 1, 3, LIST(image_str(im, "torch._C"), image_str(im, "torch.nn.modules.module"),
				       image_str(im, "torch.optim.optimizer")),
			LIST(image_module(im, "TensorBase", im->base_tensor), image_module(im, "Module", im->base_module),
			     image_module(im, "Optimizer", im->base_optimizer))));
	parameters = image_str(im, "_parameters");
	buffers = image_str(im, "_buffers");
	modules = image_str(im, "_modules");
	none = image_obj(im, image_type(im, "NoneType", 0, 0), 16);
	empty = image_dict(im, 1, 0, NULL, NULL);
	im->weight = image_tensor(im, im->parameter, 0xa000, 8, 4);
	image_grad(im, im->weight, image_tensor(im, im->parameter, 0xb000, 8, 4));
	im->params = image_dict(im, 1, 2, LIST(image_str(im, "weight"), image_str(im, "bias")), LIST(im->weight, none));
	im->buffers = image_dict(im, 1, 1, LIST(image_str(im, "scale")), LIST(image_tensor(im, im->parameter, 0xc000, 1, 4)));
	im->layer = image_instance(im, im->linear, inline_values, 3, LIST(parameters, buffers, modules),
				   LIST(im->params, im->buffers, empty));
	im->modules = image_dict(im, 0, 1, LIST(image_str(im, "inner")), LIST(im->layer));
	im->model = image_instance(im, im->net, inline_values, 3, LIST(parameters, buffers, modules),
				   LIST(empty, empty, im->modules));
	group = image_dict(im, 1, 1, LIST(image_str(im, "params")), LIST(image_list(im, 1, LIST(im->weight))));
	im->opt = image_instance(
		im, im->sgd, inline_values, 2, LIST(image_str(im, "state"), image_str(im, "param_groups")),
		LIST(image_dict(im, 0, 1, LIST(im->weight),
				LIST(image_dict(im, 1, 1, LIST(image_str(im, "momentum_buffer")),
						LIST(image_tensor(im, im->parameter, 0xd000, 8, 4))))),
		     image_list(im, 1, LIST(group))));
	im->used = im->len;
	im->len = IMAGE_BYTES; /* what is behind is nothing, but there: pieces are read whole */
}

static inline struct py_reader_opts image_opts(struct image *im)
{
	return (struct py_reader_opts){ .mem = { image_read, im }, .minor = im->at->minor, .interp_head = IMAGE_BASE,
					.interp_next = IMAGE_INTERP_NEXT, .layout = image_layout,
					.vtables = image_vtables,
					.vtables_cnt = sizeof(image_vtables) / sizeof(image_vtables[0]) };
}

static inline int image_reader(struct image *im, struct py_reader **ret)
{
	struct py_reader_opts opts = image_opts(im);

	return py_reader__new(ret, &opts, NULL);
}

#endif

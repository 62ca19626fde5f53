/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * tensor: from a Python tensor to its storage in C++: THPVariable → TensorImpl → StorageImpl.
 *
 * Offsets of fields are the plan's (struct mt_flow_layout), found in the library's own code; a tensor or a
 * storage is recognised by its vtable pointer, which the plan knows too. The place of the sizes is not in
 * code: it is where sizes multiply to the number of elements in every tensor that is tried.
 */
#ifndef MT_PYTHON_TENSOR_H
#define MT_PYTHON_TENSOR_H

#include "base/vtables.h"
#include "memtrace/event.h"
#include "python/objects.h"

#define PY_DIMS_MAX 16 /* of a shape that is reported */

struct py_torch {
	struct mt_flow_layout at;
	const struct flow_vtable *vtables; /* sorted by address; borrowed */
	size_t vtables_cnt;
	uint16_t sizes; /* of TensorImpl: number of dimensions, then sizes; 0: not known yet */
};

struct py_storage {
	uint64_t impl, storage, data, bytes;
	uint64_t shape[PY_DIMS_MAX];
	uint8_t dims;	   /* PY_DIMS_NONE: sizes are not known */
	uint8_t dtype;	   /* c10::ScalarType; 255: not known */
	uint8_t dev;	   /* enum mt_dev */
	uint8_t is_own;	   /* of torch's allocators: others (NumPy, shared memory, files) free it unseen */
};
#define PY_DIMS_NONE 255

/* TensorImpl of a Python tensor; another object gives some address too, or 0. */
uint64_t py_torch__impl(const struct py_torch *t, struct py *p, uint64_t obj);
/* 0; -ENOENT: it has no memory (meta, sparse, wrappers); -EAGAIN: it is no tensor, or torn. */
int py_torch__of_object(struct py_torch *t, struct py *p, uint64_t obj, struct py_storage *ret);
int py_torch__of_impl(struct py_torch *t, struct py *p, uint64_t impl, struct py_storage *ret);
/* 0: it has no place for a gradient, so it requires none. A tensor that required one once, and no longer, gives 1. */
int py_torch__may_train(const struct py_torch *t, struct py *p, uint64_t impl);
/* TensorImpl of a tensor's .grad; 0: none, or of a class without memory and parts. */
uint64_t py_torch__grad(const struct py_torch *t, struct py *p, uint64_t impl);
/*
 * Indices and values of a sparse tensor (COO): 0, -ENOENT, or -EAGAIN: not sparse, or torn. They are the two tensors behind
 * its numbers of dimensions whose sizes fit these, and each other. Indices that are a part of a larger tensor are left out:
 * ret[0].impl is 0.
 */
enum { PY_INDICES = 0, PY_VALUES = 1, PY_SPARSE_PARTS = 2 };
int py_torch__sparse(struct py_torch *t, struct py *p, uint64_t impl, struct py_storage ret[PY_SPARSE_PARTS]);
/* "float32[512,512]", "?" where that is not known. */
#define PY_TYPE_TEXT_MAX (24 + PY_DIMS_MAX * 21)
void py_storage__type_text(const struct py_storage *s, char buf[PY_TYPE_TEXT_MAX]);
/* Finds the place of the sizes from tensors; once enough agreed it stays. */
void py_torch__calibrate(struct py_torch *t, struct py *p, const uint64_t *impls, size_t cnt);

#endif

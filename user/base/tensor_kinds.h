/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* tensor_kinds: the role of a named tensor in its model. Found in Python's objects, reported by EV_TENSOR. */
#ifndef MT_BASE_TENSOR_KINDS_H
#define MT_BASE_TENSOR_KINDS_H

enum ev_tensor {
	EV_TENSOR_PARAMETER = 1,
	EV_TENSOR_BUFFER = 2,
	EV_TENSOR_GRADIENT = 3,
	EV_TENSOR_STATE = 4, /* an optimizer's */
	EV_TENSOR_MAX = 5,
	EV_TENSOR_KIND = 15, /* mask of the above */
	EV_TENSOR_OWN = 16,  /* its memory is from torch's allocators, so its free is seen */
	EV_TENSOR_INNER = 32, /* the tensor is part of another one, which has no memory of its own (DTensor) … */
	EV_TENSOR_RESTS = 64, /* … and that one requires no gradient: a quantised weight's */
	EV_TENSOR_BITS = EV_TENSOR_OWN | EV_TENSOR_INNER | EV_TENSOR_RESTS,
};

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* tensor_kinds: what a tensor with a name is to its model. Found in Python's objects, told by EV_TENSOR. */
#ifndef MT_BASE_TENSOR_KINDS_H
#define MT_BASE_TENSOR_KINDS_H

enum ev_tensor {
	EV_TENSOR_PARAMETER = 1,
	EV_TENSOR_BUFFER = 2,
	EV_TENSOR_GRADIENT = 3,
	EV_TENSOR_STATE = 4, /* an optimizer's */
	EV_TENSOR_MAX = 5,
};

#endif

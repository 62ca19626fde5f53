/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * callconv: where an operator's tensor arguments are when it is entered.
 *
 * Pure over two texts: the mangled name of at::_ops::X::call has the C++ type of each parameter, the schema has what it returns
 * (the hidden result pointer), what is written, optional, and the names. Itanium C++ ABI, libstdc++. Both texts are hostile.
 */
#ifndef MT_PLAN_CALLCONV_H
#define MT_PLAN_CALLCONV_H

#include "memtrace/event.h"
#include "plan/schema.h"

/* For types of one name that differ between versions of torch. */
enum callconv_optional {
	CALLCONV_STD = 0,	  /* c10::optional is std::optional: OptionalArrayRef has 24 bytes */
	CALLCONV_OWN_OPTIONAL = 1, /* c10::optional is torch's own (1.13): OptionalArrayRef has 16 bytes */
};

/*
 * The tensor-like parameters of a function, in order. 0, or
 *   -EINVAL	the name is not that of a function, or holds a construct that no operator has
 *   -ENOTSUP	it is unknown how the type of a parameter or result is passed
 *   -EPROTO	name and schema contradict each other
 *   -E2BIG	more than MT_FLOW_SPEC_ARGS_MAX tensor-like parameters, or a stack word out of reach
 * ret->args_cnt is 0 after a failure.
 */
int callconv__spec(const char *mangled, const struct schema *s, enum callconv_optional opt,
		   struct mt_flow_spec *ret);
/* torch::autograd::…::apply(std::vector<at::Tensor> &&): 1 or 0. */
int callconv__is_node_apply(const char *mangled);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * vtables: the kind of an object of a process, by its vtable pointer. A plan finds them (plan/plan.h); decode distinguishes
 * backward nodes by them, the reader of Python's objects and the kernel side tensors.
 */
#ifndef MT_BASE_VTABLES_H
#define MT_BASE_VTABLES_H

#include <stdint.h>

#include "base/names.h"

/* Backward nodes: → node name ("AddmmBackward0"). */
struct vtable { /* begins with addr: u64_cmp */
	uint64_t addr;
	name_id name;
};

/* A class whose objects are read: TensorImpl's, StorageImpl's, AutogradMeta's. */
struct flow_vtable { /* begins with addr: u64_cmp */
	uint64_t addr;
	uint32_t class; /* enum mt_class */
};

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* holders_frames: variables of functions that refer to an object. Only holders_edges.c includes this. */
#ifndef MT_PYTHON_HOLDERS_FRAMES_H
#define MT_PYTHON_HOLDERS_FRAMES_H

#include "python/holders.h"

struct variable {
	char name[PY_TEXT_MAX];
	char where[PY_HELD_PATH_MAX]; /* function, file and line of its def */
};

/* Of a function that runs now, the outermost one of its thread that has the object: 1. */
int variable__of_frames(struct variable *ret, struct py *p, const struct py_frame_offsets *at, uint64_t obj);
/* The index-th of `cells` that a function has closed over: 1. */
int variable__of_closure(struct variable *ret, struct py *p, const struct py_frame_offsets *at, uint64_t function,
			 uint64_t index, uint64_t cells);

#endif

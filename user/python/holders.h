/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * holders: which container of a process's Python holds the tensors whose memory grows, and by what name it is reached.
 *
 * Found backwards: the tensors of that memory among all objects that the garbage collector knows; the list, dict, deque, tuple
 * or object that has most of them (or of the small containers that have one each); then the references to that, up to a
 * variable of a function that runs, a function's closure, or a module's globals. Each turn is a walk over the collector's
 * lists, so it is done only when something was seen to grow.
 *
 * The process runs meanwhile: a path is what one look found. A container is reported only if it holds a quarter of the
 * tensors looked for, PY_HELD_LEAST at least.
 */
#ifndef MT_PYTHON_HOLDERS_H
#define MT_PYTHON_HOLDERS_H

#include "python/offsets.h"
#include "python/tensor.h"

#define PY_HELD_SETS 4
#define PY_HELD_LEAST 4
#define PY_HELD_PATH_MAX 512

/* Memory that grows, and its set. */
struct py_held {
	uint64_t data;
	uint32_t set; /* below PY_HELD_SETS */
};

struct py_holder {
	uint64_t items; /* of the container that hold it; 0: no such container */
	uint64_t tensors; /* tensors of that set that Python has; 0: only C++ has them */
	uint64_t data; /* of one of them */
	char kind[64];	  /* "list", "OrderedDict", a class's name */
	char path[PY_HELD_PATH_MAX];  /* "__main__.losses", "self.history"; "": no reference that has a name */
	char where[PY_HELD_PATH_MAX]; /* "build.<locals>.step (planted.py:38)": function of the path's first variable; or "" */
};

/* v: by address. ret: by set. The types to look for must be known (struct py's bases). 0, -ENOMEM, -EAGAIN. */
int py_holders__find(struct py *p, struct py_torch *t, const struct py_frame_offsets *at, const struct py_held *v, size_t cnt,
		     struct py_holder ret[PY_HELD_SETS]);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* holders_edges: references of an object, and the way up from it to a name. Only holders.c includes this. */
#ifndef MT_PYTHON_HOLDERS_EDGES_H
#define MT_PYTHON_HOLDERS_EDGES_H

#include "base/map.h"
#include "python/holders.h"

/* From HOLDS_MANY on: containers in which programs keep tensors. */
enum holds { HOLDS_NOTHING = 1, HOLDS_FUNCTION, HOLDS_CLASS, HOLDS_MANY, HOLDS_TUPLE = HOLDS_MANY, HOLDS_LIST, HOLDS_DEQUE,
	     HOLDS_DICT, HOLDS_OBJECT };

struct py_edge {
	uint64_t to;
	uint64_t key; /* of a dict or an attribute: its str, or another object; 0: none */
	uint64_t index; /* of a sequence, or a closure */
};
typedef int (*edge_fn)(void *ctx, const struct py_edge *e); /* an error ends it */

struct hunt {
	struct py *p;
	const struct py_frame_offsets *at;
	struct map kinds;   /* of types */
	struct map modules; /* dicts of modules, and their names in sys.modules */
};

void hunt__init(struct hunt *h, struct py *p, const struct py_frame_offsets *at);
void hunt__done(struct hunt *h);
enum holds hunt__kind(struct hunt *h, const struct py_type *type);
/* 0; -EAGAIN: torn, some may have been reported; fn's. */
int hunt__each_edge(struct hunt *h, uint64_t obj, enum holds kind, edge_fn fn, void *ctx);
/* The name by which it is reached. 0, -ENOMEM, -EAGAIN. */
int hunt__name(struct hunt *h, uint64_t obj, struct py_holder *ret);
#define PY_FUNCTION_CLOSURE 72

#endif

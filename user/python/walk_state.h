/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * walk_state: what the files of a walk share: walk.c, which owns it, calls walk_modules.c, walk_names.c and walk_optimizers.c
 * in this order, these call walk_inner.c, and all of them keep what they find in the tables of walk_tables.c. No other file
 * includes this.
 */
#ifndef MT_PYTHON_WALK_STATE_H
#define MT_PYTHON_WALK_STATE_H

#include "base/map.h"
#include "python/walk.h"

enum { PARAMETERS = 0, BUFFERS = 1, MODULES = 2, DICTS = 3 };

#define NAMELESS UINT32_MAX

struct module_member {
	uint32_t name; /* in the text; NAMELESS: it is unreadable */
	uint32_t module; /* MODULES: index + 1 */
	uint64_t obj;
};

struct module {
	uint64_t obj;
	uint32_t first[DICTS + 1]; /* members[first[i]] up to first[i + 1] */
	uint8_t is_child, is_named;
};

struct parameter {
	struct py_storage at; /* of one without memory of its own the TensorImpl alone */
	uint64_t obj, root;
	uint32_t path;
};

/* A class of tensors that have parts. */
#define WALK_SLOTS 2
#define WALK_WRAPPERS_MAX 32
struct wrapper {
	uint64_t type;
	uint16_t slots[WALK_SLOTS]; /* where its objects have a part; 0: nowhere */
	uint8_t is_flat;	    /* it has a __tensor_flatten__: attributes are parts, too */
};

/* Of a DTensor that an optimizer has: what the walk before called it. */
struct former {
	uint64_t obj, impl, root;
	uint32_t path; /* in former_text */
};

/* Of an address: a number + 1. */
struct about {
	uint64_t addr;
	uint32_t value;
};

struct walk_state {
	struct module *modules;
	size_t modules_cnt, modules_cap;
	uint64_t *addrs; /* of the modules, for walk__modules */
	struct module_member *members;
	size_t members_cnt, members_cap;
	struct map by_addr; /* all seven: struct about. Modules */
	struct map objects; /* parameters → their names; NAMELESS: they have an unreadable one */
	struct map of;      /* parameters → where their path begins, a module's number in `modules` + 1 */
	struct map held;    /* parameters that an optimizer has → 1 */
	struct map held_paths; /* hashes of where those lie that are DTensors → 1 */
	struct map former; /* struct former */
	char *former_text;
	size_t former_len, former_cap;
	struct map data;    /* data pointers → their names, gradients not among them */
	struct map grads;   /* … of these */
	struct parameter *parameters; /* their gradients are looked for */
	size_t parameters_cnt, parameters_cap;
	uint8_t has_torn_optimizer; /* one could not be read whole */
	uint32_t full; /* without gradients */
	size_t names_bytes; /* of `kept`, without gradients and their index */
	struct wrapper wrappers[WALK_WRAPPERS_MAX]; /* classes of tensors without memory, of this walk */
	uint32_t wrappers_cnt;
	uint64_t interned[DICTS]; /* the strings that name the three dicts are one object each, nearly always */
};

/* --- walk_tables.c: memory is counted as it is kept; -ENOSPC: no more, and the walk ends there -------------- */

int walk__keep(struct walk *w, size_t bytes);
/* Room for one more; *cap grows. */
int walk__has_room(struct walk *w, void *array, size_t cnt, size_t *cap, size_t size);
int walk__add_text(struct walk *w, const char *text, uint32_t *ret);
uint32_t walk__get(const struct map *m, uint64_t addr); /* 0: it is not there */
int walk__put(struct walk *w, struct map *m, uint64_t addr, uint32_t value); /* the first value stays */

/* --- walk_modules.c: every module's three dicts ---------------------------------------------------------- */

int walk__is_a(struct walk *w, uint64_t obj, unsigned base); /* WALK_MODULE … */
int walk__read_modules(struct walk *w, const uint64_t *modules, size_t cnt);

/* --- walk_names.c: down from the roots ---------------------------------------------------------------------- */

int walk__name_modules(struct walk *w);
int walk__name_tensor(struct walk *w, struct py_name *n); /* whose path is known; and its kind, if it is one */
int walk__add_name(struct walk *w, const struct py_name *n); /* of memory that has none yet */
struct walk_parts;
int walk__name_parts(struct walk *w, const struct py_name *n, const struct walk_parts *parts); /* n: the wrapper's */

/* --- walk_inner.c: tensors without memory of their own ---------------------------------------------------------- */

#define WALK_PARTS_MAX 8
#define WALK_PART_TEXT 128
struct walk_part {
	struct py_storage at;
	char path[WALK_PART_TEXT]; /* from the wrapper on; "": it is the only one */
};
struct walk_parts {
	struct walk_part v[WALK_PARTS_MAX];
	unsigned cnt; /* 0: there are none, or they cannot be read */
};
void walk__parts(struct walk *w, uint64_t obj, struct walk_parts *ret);
void walk__parts_of_impl(struct walk *w, uint64_t impl, struct walk_parts *ret); /* of a gradient's TensorImpl */

/* --- walk_optimizers.c ---------------------------------------------------------------------------------------- */

/* Before a walk: what the one before called DTensors. 0, -ENOMEM. */
int walk__keep_formers(struct walk *w);
size_t walk__formers_bytes(const struct walk_state *s);
int walk__name_optimizer(struct walk *w, uint64_t obj);
int walk__find_resting(struct walk *w); /* once all are named */

#endif

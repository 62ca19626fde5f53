/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * walk: from modules and optimizers to the names of tensors, as named_parameters(), named_buffers() and an
 * optimizer's state have them.
 *
 * A root is a module that is in no other module's _modules; a name is the path from it. A storage that is found
 * again (tied weights) keeps its first name. Modules that hold each other in a circle have no root and no names.
 */
#ifndef MT_PYTHON_WALK_H
#define MT_PYTHON_WALK_H

#include "base/tensor_kinds.h"
#include "python/tensor.h"

/* Bits of py_type.bases, and where struct py keeps those types. */
enum { WALK_MODULE = 0, WALK_OPTIMIZER = 1, WALK_TENSOR = 2 };

#define WALK_MODULES_MAX 100000u
#define WALK_OPTIMIZERS_MAX 1000u
#define WALK_NAMES_MAX 1000000u
#define WALK_DEPTH_MAX 64
#define WALK_PATH_MAX 900
#define WALK_TORN_KEPT 64
/*
 * Bytes that a look keeps of one process, with the reader's of each name and module. A made-up heap costs its process a
 * few bytes a name, and memtrace the path to it: 600,000 behind paths of 840 bytes took 700 MB. A job of 60,000 parameters
 * with gradients and AdamW's state takes 130 MB. With the trace of a look (python/snap.h) it is 256 MiB.
 */
#define WALK_BYTES_MAX (192u << 20)
#define WALK_REPORTED_BYTES 96

struct py_name {
	struct py_storage at;
	uint64_t obj;  /* GRADIENT: the parameter's */
	uint64_t root; /* module or optimizer that the path begins at */
	uint32_t path; /* in struct walk's text */
	uint64_t of_root; /* STATE: where its parameter's path begins; 0: in no module */
	uint32_t key;  /* STATE: "exp_avg"; else "" */
	uint32_t of;   /* GRADIENT: its parameter, for walk__is_gradient */
	uint8_t kind;  /* enum ev_tensor */
	uint8_t is_inner; /* its memory is that of a part of the object … */
	uint8_t rests;	  /* … which is a parameter, and asks for no gradient, or is a copy of one that is trained */
	uint64_t hash; /* the reader's, of all this; 0: not yet */
};

/* A module that a path leads to. */
struct py_module {
	uint64_t obj, type;
	uint64_t parent; /* the module that it is in; 0: it is a root */
	uint64_t root;
	uint32_t path; /* in struct walk's text; "" of a root */
	uint64_t hash; /* the reader's, of all this; 0: not yet */
	uint8_t is_bare; /* a root without tensors: a loss, or a module made by torch.compile */
};

struct walk {
	struct py *py;
	struct py_torch *torch;
	/* the result */
	struct py_name *names;
	size_t names_cnt, names_cap;
	size_t gradients_at; /* names from here on are gradients */
	struct py_module *paths;
	size_t paths_cnt, paths_cap;
	char *text;
	size_t text_len, text_cap;
	uint32_t modules, roots, optimizers;
	uint32_t circles; /* modules without a root */
	uint32_t torn;	  /* modules, tensors and optimizers that could not be read whole */
	uint32_t full;	  /* what exceeded the limits above */
	size_t kept;	  /* bytes, WALK_BYTES_MAX at most */
	uint32_t nameless; /* members whose own name is unreadable (py__text) */
	uint64_t torn_at[WALK_TORN_KEPT]; /* modules among `torn`, the first of them */
	uint32_t torn_modules;
	int is_untraced; /* the next run need not be known again: a third less work */
	struct walk_state *state;
};

void walk__init(struct walk *w, struct py *py, struct py_torch *torch);
void walk__done(struct walk *w);
/*
 * Two parts: names, then gradients, which come and go. The first is traced (python/snap.h): as long as that is the same it
 * need not be walked again.
 *
 * Modules and optimizers by address; addresses that are no longer one are passed over, submodules not among them
 * are found. Names of an earlier walk are forgotten. 0, -ENOMEM.
 */
int walk__names(struct walk *w, const uint64_t *modules, size_t modules_cnt, const uint64_t *optimizers, size_t optimizers_cnt);
/* Gradients of the parameters that have names; those of an earlier look are forgotten. 0, -ENOMEM. */
int walk__gradients(struct walk *w);
/* The whole way from its parameter, once more; in another look at memory than the one that found it. */
int walk__is_gradient(struct walk *w, const struct py_name *n);
/* All modules of the last run, good until the next; how many. */
size_t walk__modules(const struct walk *w, const uint64_t **ret);
const char *walk__text(const struct walk *w, uint32_t at);

#endif

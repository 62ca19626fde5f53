/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * reader: the names of one process's tensors, read again and again.
 *
 * The process runs meanwhile, so a look may combine parts that never existed together. A name is reported only
 * if two looks in a row found the same: object, TensorImpl, storage, address, size, type and path. The very
 * first look is two. A gradient lives for a part of a step, so its way from the parameter's object to the
 * address is read a second time in the same look instead. Names below a root that is seen for the first time
 * are not reported by a look in which some module could not be read: that module may be the root's parent.
 *
 * One look cannot show whether the memory was given to another block after it: users of a name compare with
 * the allocations and frees of blocks (py_look.begin_ns).
 *
 * Not thread-safe; may be used in one thread after another.
 */
#ifndef MT_PYTHON_READER_H
#define MT_PYTHON_READER_H

#include "python/walk.h"

struct err;
struct py_frame_offsets;
struct py_reader;
struct target;

struct py_reader_opts {
	struct target *target; /* held while the reader lives; or NULL, and … */
	struct py_mem mem; /* … its memory */
	unsigned minor;	      /* CPython 3.minor */
	uint64_t interp_head; /* address of the pointer to the newest interpreter */
	uint64_t interp_next; /* of an interpreter: the one before it */
	struct mt_flow_layout layout;
	const struct flow_vtable *vtables; /* copied */
	size_t vtables_cnt;
	int walks_always; /* for tests: no look uses what the one before read */
};

#define READER_ROOTS_MAX 512

struct py_reported {
	const struct py_name *name; /* its texts: py_reader__text, py_storage__type_text */
	const char *root;	    /* class of the root, "#2" behind the second one of that class */
	const char *of;		    /* of an optimizer's state: its parameter's root; NULL: not known */
	uint64_t hash;		    /* of all that was found */
};

struct py_reported_module {
	const struct py_module *at; /* its path: py_reader__text */
	const char *root;	    /* as above */
	const char *class;
	uint64_t hash;
};

enum py_look_kind { PY_LOOK_KNOWN = 0, PY_LOOK_ALL = 1 }; /* the modules of the last look; all that there are */

struct py_look {
	struct py_reported *reported; /* good until the next look */
	size_t reported_cnt;
	struct py_reported_module *reported_modules; /* each behind the one that it is in */
	size_t reported_modules_cnt;
	uint32_t held_back; /* found, but not the same as in the look before */
	uint32_t modules, roots, optimizers, circles, torn, full, nameless;
	uint32_t others;    /* interpreters that have imported torch, too: only the oldest one's names are reported */
	uint32_t changed;   /* names that the last look did not have */
	int is_cut;	    /* the search ended early, as the lists changed meanwhile, and may have missed some */
	int is_same;	    /* but for gradients all is as the last look had it; nothing was walked */
	uint64_t objects;   /* seen by the garbage collector's lists */
	uint64_t bytes_read;
	size_t kept_bytes; /* until the next look */
	uint64_t begin_ns;	      /* CLOCK_MONOTONIC: nothing in the result was read before */
	uint64_t took_ns, search_ns; /* all of it; of it, for modules */
	uint64_t cpu_ns, search_cpu_ns; /* the same of this thread's CPU time */
};

/* 0; -ENOTSUP: not a known Python; -ENOMEM; with *err. *ret is the caller's, for py_reader__free, untouched on failure. */
int py_reader__new(struct py_reader **ret, const struct py_reader_opts *opts, struct err *err);
void py_reader__free(struct py_reader *r); /* NULL is fine */
/*
 * 0; -ENOENT: torch's modules have not been imported; -EAGAIN: the interpreter is not there (yet), or its memory
 * is not; -ENOMEM. ret is valid with 0.
 */
int py_reader__look(struct py_reader *r, enum py_look_kind kind, struct py_look *ret);
/*
 * The code object that torch.nn.Module runs when a module is called: its first local variable is that module. 0;
 * -ENOENT: torch's modules have not been imported; -EAGAIN, or it is not as expected: -ENOTSUP.
 */
int py_reader__call(struct py_reader *r, uint64_t code_type, uint64_t *ret_code);
struct py_held;
struct py_holder;
/* Holders of memory that grows (python/holders.h); at: of the same Python. As py_reader__look, and forgets nothing of it. */
int py_reader__holders(struct py_reader *r, const struct py_frame_offsets *at, const struct py_held *v, size_t cnt,
		       struct py_holder *ret);
struct py_compiles;
struct py_compiles_seen;
/* Compilations since the last look (python/compiles.h): 0, and none if a look at everything found no torch._dynamo. */
int py_reader__compiles(struct py_reader *r, struct py_compiles_seen *seen, struct py_compiles *ret);
int py_reader__has_compiles(const struct py_reader *r); /* there may be something to look at */
void py_reader__rest(struct py_reader *r); /* gives memory back until the next look */
/* The text of a name or a path of the last look; good until the next one. */
const char *py_reader__text(const struct py_reader *r, uint32_t at);

#endif

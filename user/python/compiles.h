/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * compiles: torch.compile's compilations in a process, with the reasons for recompiling:
 * torch._dynamo.utils._compilation_metrics, a deque of the last 64 compilations, which torch fills with or without logging.
 * Until torch 2.5 times are floats, there is no reason, and a backward has no time at all: it is left out.
 *
 * A compilation is put there when it is over. The deque counts its changes, so a look that finds none new reads a few words,
 * and one that comes too late knows how many it has missed. A backward is a compilation of its own, with the id of its
 * forward. Ids begin again after torch._dynamo.reset(): compilations with the same id differ in time.
 */
#ifndef MT_PYTHON_COMPILES_H
#define MT_PYTHON_COMPILES_H

#include "python/objects.h"

#define PY_COMPILES_MAX 64 /* of one look; torch keeps as many */
#define PY_COMPILE_ID_MAX 32

struct py_compile {
	uint64_t begin_ns, end_ns; /* since the epoch; to the microsecond */
	char id[PY_COMPILE_ID_MAX]; /* "0/1": frame 0, compiled before; "!1/0/0" by compiled autograd */
	char function[PY_TEXT_MAX]; /* "forward (train.py:6)"; "" unknown: of a backward, or none came of it */
	char reason[PY_TEXT_MAX];   /* why again, the first line: "tensor 'x' size mismatch at …"; "" it was the first time */
	char failed[PY_TEXT_MAX];   /* why no code came of it, the first line; "" it did */
	uint8_t is_backward;
};

/* Compilations seen so far; all zero: none. */
struct py_compiles_seen {
	uint64_t deque, type, changes, cnt;
	uint64_t last_ns; /* the latest end; of another deque only later ones are reported */
	unsigned torn;	  /* looks in a row */
};

struct py_compiles {
	struct py_compile v[PY_COMPILES_MAX];
	size_t cnt;
	uint64_t missed; /* ended since the last look, and were not found or not readable */
};

/* Where they are; 0: torch._dynamo has not been imported, or has no such list. */
uint64_t py_compiles__find(struct py *p);
/*
 * Those that ended since the last look; at the first look all. 0; -EAGAIN: the list is gone, or changed meanwhile: nothing
 * is reported before the next look.
 */
int py_compiles__look(struct py *p, uint64_t deque, struct py_compiles_seen *seen, struct py_compiles *ret);

#endif

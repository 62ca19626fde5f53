/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * snap: one look at a process's memory: whole pieces of it, each read once and kept until the look is over.
 *
 * Objects lie close together and are small: a system call for each field took ten times as long as pieces of
 * 16 KiB do (of one that the look before read, from the first to the last page that it needed). What is read is as
 * old as its piece: pieces of one look are milliseconds apart, so the caller has to check data that spans two of
 * them. Holds 16 MiB (64 took longer: more of it had to be made); a piece that was replaced by another is read
 * again when it is needed again.
 *
 * The result of a look depends on the words that it read. They can be kept, with their values (a trace): as long as all
 * of them are unchanged, the same look would have the same result. They are checked in the order of addresses, some pages
 * at a time, which costs a third of the look.
 */
#ifndef MT_PYTHON_SNAP_H
#define MT_PYTHON_SNAP_H

#include "python/mem.h"

struct py_snap;

struct py_snap *py_snap__new(const struct py_mem *mem); /* mem is copied; NULL: no memory */
void py_snap__free(struct py_snap *s);
void py_snap__fresh(struct py_snap *s); /* a new look: nothing is known any more */
/* … and the memory for it */
void py_snap__give_back(struct py_snap *s);
/* Memory there will be read again. */
void py_snap__forget(struct py_snap *s, uint64_t addr, size_t len);
/* 0, or -EFAULT: not all of it is there. */
int py_snap__read(struct py_snap *s, uint64_t addr, void *buf, size_t len);
/* 0 where nothing is. */
uint64_t py_snap__word(struct py_snap *s, uint64_t addr);
uint32_t py_snap__int(struct py_snap *s, uint64_t addr);
/* A plausible pointer, or 0. */
uint64_t py_snap__ptr(struct py_snap *s, uint64_t addr);
uint64_t py_snap__bytes_read(const struct py_snap *s); /* ever */
size_t py_snap__kept_bytes(const struct py_snap *s);   /* the trace: 64 MB at most */

/* What must still be true of a word's value. */
enum py_word {
	PY_WORD_SAME = 1,    /* it is the same: of all that is read by the functions above */
	PY_WORD_COUNT = 2,   /* its lower half is zero or is not, as it was */
	PY_WORD_POINTER = 4, /* it is none, plausible or neither, as it was */
};

/* As py_snap__read, but the trace gets only the words given to py_snap__needs. */
int py_snap__peek(struct py_snap *s, uint64_t addr, void *buf, size_t len);
/* Of a word that was peeked at in this look and had that value. */
void py_snap__needs(struct py_snap *s, uint64_t addr, uint64_t value, enum py_word what);

/* Begins a new look. Words read from here on are kept, if that is wanted; an earlier trace is forgotten. */
void py_snap__trace(struct py_snap *s, int is_wanted);
/* Nothing is the same if there was no memory for the trace, or something that was read was not there. */
void py_snap__trace_end(struct py_snap *s);
/* Everything in the trace is as it was, having been read again; 0 if there is none. */
int py_snap__is_same(struct py_snap *s);

#endif

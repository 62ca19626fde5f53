/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * snap: one look at a process's memory: whole pieces of it, each read once and kept until the look is over.
 *
 * Objects lie close together and are small: a system call for each field took ten times as long as pieces of
 * 16 KiB do (of one that the look before read, from the first to the last page that it needed). What is read is as
 * old as its piece: pieces of one look are milliseconds apart, so whatever hangs
 * together over two of them has to be checked by who reads it. Holds 64 MiB; a piece that another one takes
 * the place of is read again when it is needed again.
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
/* What lies there is to be read again. */
void py_snap__forget(struct py_snap *s, uint64_t addr, size_t len);
/* 0, or -EFAULT: not all of it is there. */
int py_snap__read(struct py_snap *s, uint64_t addr, void *buf, size_t len);
/* 0 where nothing is. */
uint64_t py_snap__word(struct py_snap *s, uint64_t addr);
uint32_t py_snap__int(struct py_snap *s, uint64_t addr);
/* A plausible pointer, or 0. */
uint64_t py_snap__ptr(struct py_snap *s, uint64_t addr);
uint64_t py_snap__bytes_read(const struct py_snap *s); /* ever */

#endif

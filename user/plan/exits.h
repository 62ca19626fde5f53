/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * exits: the `ret` instructions that a call of a function may end with, its tail calls included, so that
 * its result can be seen without a return probe.
 */
#ifndef MT_PLAN_EXITS_H
#define MT_PLAN_EXITS_H

#include <stddef.h>
#include <stdint.h>

struct elf;

#define EXITS_MAX 64

/*
 * File offsets of the rets, at most EXITS_MAX, into ret. Their number, or -ENOTSUP when control goes
 * where it cannot be followed (a computed jump, another file), -E2BIG when there is too much of it.
 */
int exits_find(const struct elf *e, uint64_t vaddr, uint64_t *ret);

#endif

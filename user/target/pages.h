/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * pages: how much of a large process's memory nobody else maps, told in parts. smaps_rollup says more (PSS, huge pages), but
 * the kernel holds the process's mmap lock while it goes through all of one mapping; here it is taken for 2 MiB at a time.
 *
 * A walk goes through /proc/PID/maps as it is when it gets there, and asks for the pages of each mapping (door_pages).
 * Address space that is closed (PROT_NONE) is left out, and what the kernel counts apart (huge pages of hugetlbfs
 * that are anonymous). Nothing is kept but 16 KiB of text and the ranges in it.
 */
#ifndef MT_TARGET_PAGES_H
#define MT_TARGET_PAGES_H

#include <stdint.h>

struct pages_walk;
struct target;

#define PAGES_SPACE_MAX (1ull << 40) /* of mappings that are not closed: one that has more (sanitizers) would never be done */

/* -ESRCH, -EACCES, -ENOMEM. The target is borrowed. */
int pages_walk__new(struct pages_walk **ret, const struct target *t);
void pages_walk__free(struct pages_walk *w);
/*
 * Goes on for one look (2 ms) at least, until until_ns (now_ns()). 1: done, *ret_own has the bytes; 0: not yet; -ESRCH: it has
 * ended, or runs another program; -EFBIG: over PAGES_SPACE_MAX; what the door says.
 */
int pages_walk__go(struct pages_walk *w, uint64_t until_ns, uint64_t *ret_own);

#endif

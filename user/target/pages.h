/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * pages: how much of a large process's memory no other process maps, counted in parts. smaps_rollup has more (PSS, huge pages),
 * but the kernel holds the process's mmap lock while it goes through a whole mapping; here it is taken for 2 MiB at a time.
 *
 * A walk reads the present state of /proc/PID/maps bit by bit, and asks for the pages of each mapping (door_pages). Left out
 * are closed address space (PROT_NONE), and what the kernel counts separately (huge pages of hugetlbfs that are anonymous).
 * Only 16 KiB of text and the ranges in it are kept.
 */
#ifndef MT_TARGET_PAGES_H
#define MT_TARGET_PAGES_H

#include <stdint.h>

struct pages_walk;
struct target;

#define PAGES_SPACE_MAX (1ull << 40) /* of mappings that are not closed: with more (sanitizers) a walk would never end */

/* -ESRCH, -EACCES, -ENOMEM. The target is borrowed. */
int pages_walk__new(struct pages_walk **ret, const struct target *t);
void pages_walk__free(struct pages_walk *w);
/*
 * Goes on for one look (2 ms) at least, until until_ns (now_ns()). 1: done, *ret_own has the bytes; 0: not yet; -ESRCH: it has
 * ended, or runs another program; -EFBIG: over PAGES_SPACE_MAX; the door's errors.
 */
int pages_walk__go(struct pages_walk *w, uint64_t until_ns, uint64_t *ret_own);

#endif

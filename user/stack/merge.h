/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * merge: native frames and Python frames of one moment as one stack.
 *
 * Each call of the interpreter's eval loop stands for the Python frames that it runs: those up to the one that was called from
 * C. Other frames of the interpreter (calls, slots, descriptors) add nothing and are left out, as are those outside of the
 * outermost Python frame (main, a thread's start). Where the native stack ends early, the remaining Python frames follow after
 * a mark.
 */
#ifndef MT_STACK_MERGE_H
#define MT_STACK_MERGE_H

#include <stddef.h>
#include <stdint.h>

#define MERGE_MAX 256 /* frames of one stack, with all marks */

struct frames_in {
	const uint32_t *words; /* as in intern.h, innermost first */
	size_t cnt;
	int is_cut;
};

/* Frame numbers, innermost first, at most MERGE_MAX; `cut`: the frame that marks missing ones. */
size_t merge(const struct frames_in *native, const struct frames_in *python, uint32_t cut, uint32_t *ret);

#endif

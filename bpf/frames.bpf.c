// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The loops over a thread's frames; see lib/frames.h. */
#include "lib/frames.h"

__noinline int frames_settle(struct mt_thread *t, u64 sp)
{
	u32 d;

	if (!t)
		return 0;
	d = t->depth;
	for (int i = 0; i < MT_FRAMES_MAX; i++) {
		struct mt_frame *f;
		u64 word;

		if (!d || d > MT_FRAMES_MAX)
			break;
		f = &t->frames[(d - 1) & (MT_FRAMES_MAX - 1)];
		if (f->flags & MT_FRAME_EXPLICIT)
			break;
		if (sp < f->sp && !return_word(f->sp, &word) && word == f->ret)
			break;
		d--;
	}
	t->depth = d;
	return 0;
}

__noinline int frames_close_same(struct mt_thread *t, u64 sp, u64 hash)
{
	if (!t)
		return 0;
	for (u32 i = 0; i < MT_FRAMES_MAX; i++) {
		const struct mt_frame *f = &t->frames[i];

		if (i >= t->depth)
			break;
		if ((f->flags & MT_FRAME_EXPLICIT) && f->sp == sp && f->ret == hash) {
			t->depth = i;
			break;
		}
	}
	return 0;
}

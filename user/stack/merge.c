/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "stack/merge.h"

#include "stack/intern.h"

struct merged {
	uint32_t *frames;
	size_t cnt;
};

static void put(struct merged *o, uint32_t frame)
{
	if (o->cnt < MERGE_MAX)
		o->frames[o->cnt++] = frame;
}

/* The frames of one eval loop. */
static size_t put_run(struct merged *o, const struct frames_in *python, size_t from)
{
	while (from < python->cnt) {
		uint32_t w = python->words[from++];

		put(o, LIST_FRAME(w));
		if (w & LIST_PYTHON)
			break;
	}
	return from;
}

size_t merge(const struct frames_in *native, const struct frames_in *python, uint32_t cut, uint32_t *ret)
{
	struct merged o = { .frames = ret };
	size_t next = 0;

	for (size_t i = 0; i < native->cnt; i++) {
		uint32_t w = native->words[i];

		if (python->cnt && next == python->cnt)
			break; /* the rest is the start of the interpreter */
		if (!python->cnt || !(w & (LIST_EVAL | LIST_PYTHON)))
			put(&o, LIST_FRAME(w));
		else if (w & LIST_EVAL)
			next = put_run(&o, python, next);
	}
	if (native->cnt && (native->is_cut || next < python->cnt) && !(python->cnt && next == python->cnt))
		put(&o, cut);
	while (next < python->cnt)
		put(&o, LIST_FRAME(python->words[next++]));
	if (python->is_cut)
		put(&o, cut);
	return o.cnt;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/index.h"
#include "base/seed.h"
#include "event/event.h"
#include "view/clean.h"

struct frame_node {
	uint32_t parent, frame;
};

struct frames {
	struct frame_node *nodes; /* [number - 1] */
	uint32_t nodes_cnt, nodes_cap;
	struct ev_frame *frames;
	uint32_t frames_cnt, frames_cap;
	struct index by_frame;
};

struct frames *frames__new(void)
{
	return calloc(1, sizeof(struct frames));
}

void frames__free(struct frames *f)
{
	if (!f)
		return;
	free(f->nodes);
	free(f->frames);
	index__done(&f->by_frame);
	free(f);
}

const struct ev_frame *frames__get(const struct frames *f, uint32_t frame)
{
	return &f->frames[frame];
}

static int is_same(const struct ev_frame *a, const struct ev_frame *b)
{
	return a->function.v == b->function.v && a->file.v == b->file.v && a->line == b->line && a->kind == b->kind;
}

/* Its number; INDEX_NONE: no memory. */
static uint32_t frame_of(struct frames *f, const struct ev_frame *x)
{
	uint64_t hash = hash_two((uint64_t)x->function.v << 32 | x->file.v, (uint64_t)x->line << 8 | x->kind);
	uint32_t at = index_find(&f->by_frame, hash, i, is_same(&f->frames[i], x));

	if (at != INDEX_NONE || !array_has_room(f->frames, f->frames_cnt, f->frames_cap, 256) ||
	    index__add(&f->by_frame, hash, f->frames_cnt) < 0)
		return at;
	f->frames[f->frames_cnt] = *x;
	return f->frames_cnt++;
}

void frames__add(struct frames *f, const struct tl_event *ev)
{
	struct ev_frame x = { .function = ev->function, .file = ev->file, .line = ev->line, .kind = ev->frame_kind };
	uint32_t frame;

	if (ev->node != f->nodes_cnt + 1u || ev->parent >= ev->node)
		return;
	frame = frame_of(f, &x);
	if (frame == INDEX_NONE || !array_has_room(f->nodes, f->nodes_cnt, f->nodes_cap, 256))
		return;
	f->nodes[f->nodes_cnt++] = (struct frame_node){ (uint32_t)ev->parent, frame };
}

size_t frames__path(const struct frames *f, uint32_t node, uint32_t *ret, size_t max)
{
	size_t depth = 0;
	uint32_t n;

	if (node > f->nodes_cnt)
		return 0;
	for (n = node; n; n = f->nodes[n - 1].parent)
		depth++;
	for (n = node; n; n = f->nodes[n - 1].parent)
		if (--depth < max)
			ret[depth] = f->nodes[n - 1].frame;
	for (n = node; n; n = f->nodes[n - 1].parent)
		depth++;
	return depth < max ? depth : max;
}

size_t frame_text(char *buf, size_t size, const struct names *names, const struct ev_frame *f)
{
	const char *file = names__get(names, f->file), *base = strrchr(file, '/');
	char text[CLEAN_BYTES_MAX];
	int n;

	if (f->kind == EV_FRAME_CUT)
		n = snprintf(text, sizeof(text), "(not known)");
	else if (f->kind == EV_FRAME_PYTHON && f->file.v)
		n = snprintf(text, sizeof(text), "%.4000s (%.4000s:%u)", names__get(names, f->function), base ? base + 1 : file,
			     f->line);
	else
		n = snprintf(text, sizeof(text), "%.4000s", names__get(names, f->function));
	return clean_text(buf, size, text, n > 0 ? (size_t)n : 0);
}

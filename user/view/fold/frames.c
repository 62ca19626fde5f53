/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/seed.h"
#include "event/event.h"
#include "view/clean.h"

struct node {
	uint32_t parent, frame;
};

struct frames {
	struct node *nodes; /* [number - 1] */
	uint32_t nodes_cnt, nodes_cap;
	struct view_frame *frames;
	uint32_t frames_cnt, frames_cap;
	uint32_t *slots, mask; /* frame + 1, at most half full */
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
	free(f->slots);
	free(f);
}

const struct view_frame *frames__get(const struct frames *f, uint32_t frame)
{
	return &f->frames[frame];
}

static uint32_t *slot_of(const struct frames *f, const struct view_frame *x)
{
	uint64_t h = hash_two((uint64_t)x->function.v << 32 | x->file.v, (uint64_t)x->line << 8 | x->kind);
	uint32_t at = (uint32_t)h & f->mask;

	for (; f->slots[at]; at = (at + 1) & f->mask) {
		const struct view_frame *o = &f->frames[f->slots[at] - 1];

		if (o->function.v == x->function.v && o->file.v == x->file.v && o->line == x->line && o->kind == x->kind)
			break;
	}
	return &f->slots[at];
}

static int grow_frames(struct frames *f)
{
	uint32_t cap = f->frames_cap ? 2 * f->frames_cap : 256, *slots;
	struct view_frame *all;

	if (f->frames_cnt < f->frames_cap)
		return 0;
	all = reallocarray(f->frames, cap, sizeof(*all));
	if (!all)
		return -1;
	f->frames = all;
	slots = calloc(2 * (size_t)cap, sizeof(*slots));
	if (!slots)
		return -1;
	free(f->slots);
	f->slots = slots;
	f->mask = 2 * cap - 1;
	f->frames_cap = cap;
	for (uint32_t i = 0; i < f->frames_cnt; i++)
		*slot_of(f, &f->frames[i]) = i + 1;
	return 0;
}

static int frame_of(struct frames *f, const struct view_frame *x, uint32_t *ret)
{
	uint32_t *slot;

	if (grow_frames(f))
		return -1;
	slot = slot_of(f, x);
	if (!*slot) {
		f->frames[f->frames_cnt] = *x;
		*slot = ++f->frames_cnt;
	}
	*ret = *slot - 1;
	return 0;
}

void frames__add(struct frames *f, const struct tl_event *ev)
{
	struct view_frame x = { .function = ev->op, .file = ev->region, .line = ev->version, .kind = ev->depth };
	uint32_t frame;

	if (ev->id != f->nodes_cnt + 1u || ev->ptr >= ev->id || frame_of(f, &x, &frame))
		return;
	if (f->nodes_cnt == f->nodes_cap) {
		uint32_t cap = f->nodes_cap ? 2 * f->nodes_cap : 256;
		struct node *nodes = reallocarray(f->nodes, cap, sizeof(*nodes));

		if (!nodes)
			return;
		f->nodes = nodes;
		f->nodes_cap = cap;
	}
	f->nodes[f->nodes_cnt++] = (struct node){ (uint32_t)ev->ptr, frame };
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

size_t frame_text(char *buf, size_t size, const struct names *names, const struct view_frame *f)
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

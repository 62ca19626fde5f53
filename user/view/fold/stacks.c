/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/stacks.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/index.h"
#include "base/seed.h"
#include "event/event.h"
#include "view/clean.h"

#define FRAMES_SHOWN 250 /* of one recorded stack: a node knows its depth in 8 bits */

struct stacks {
	struct stacks_opts opts;
	struct stack_node *nodes; /* the root first; nothing is ever removed */
	uint32_t nodes_cnt, nodes_cap;
	struct index by_node;
	struct open_frames *open;
	struct frames *frames; /* NULL: none were recorded */
};

struct stacks *stacks__new(const struct stacks_opts *opts)
{
	struct stacks *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	if (opts)
		s->opts = *opts;
	s->open = open_frames__new();
	if (!s->open || !array_has_room(s->nodes, s->nodes_cnt, s->nodes_cap, 1024)) {
		stacks__free(s);
		return NULL;
	}
	s->nodes[s->nodes_cnt++] = (struct stack_node){ 0 };
	return s;
}

void stacks__free(struct stacks *s)
{
	if (!s)
		return;
	open_frames__free(s->open);
	index__done(&s->by_node);
	free(s->nodes);
	frames__free(s->frames);
	free(s);
}

const struct stack_node *stacks__node(const struct stacks *s, uint32_t idx)
{
	return &s->nodes[idx];
}

uint32_t stacks__cnt(const struct stacks *s)
{
	return s->nodes_cnt;
}

/* --- nodes ----------------------------------------------------------------------------------------- */

/* The parent itself where there is no room. */
static uint32_t stacks__child(struct stacks *s, uint32_t parent, uint8_t kind, uint32_t value)
{
	uint64_t hash = hash_two(parent * 8ull + kind, value);
	uint32_t at = index_find(&s->by_node, hash, i,
				 s->nodes[i].parent == parent && s->nodes[i].value == value && s->nodes[i].kind == kind);

	if (at != INDEX_NONE)
		return at;
	if (s->nodes[parent].depth == UINT8_MAX || s->nodes_cnt >= STACKS_MAX ||
	    !array_has_room(s->nodes, s->nodes_cnt, s->nodes_cap, 1024) || index__add(&s->by_node, hash, s->nodes_cnt) < 0)
		return parent;
	s->nodes[s->nodes_cnt] = (struct stack_node){ .parent = parent, .value = value, .kind = kind,
						      .depth = (uint8_t)(s->nodes[parent].depth + 1) };
	return s->nodes_cnt++;
}

/* --- threads --------------------------------------------------------------------------------------- */

static struct open_thread *stacks__thread(struct stacks *s, uint32_t pid, uint32_t tid)
{
	int is_new;
	struct open_thread *t = open_frames__thread(s->open, pid, tid, &is_new);

	if (t && is_new)
		t->value = stacks__child(s, 0, STACK_PROCESS, pid);
	return t;
}

static uint32_t stack_thread__top(const struct open_thread *t)
{
	return t->cnt ? (uint32_t)t->open[t->cnt - 1].value : t->value;
}

static int stacks__pop(struct stacks *s, struct open_thread *t, uint32_t keep, uint64_t ts_ns)
{
	int r = 0;

	while (t->cnt > keep && !r) {
		const struct open_frame *over = open_thread__pop(t);

		if (s->opts.end)
			r = s->opts.end(s->opts.ctx, t->pid, t->tid, &s->nodes[over->value], over, ts_ns);
	}
	return r;
}

static int stacks__push(struct stacks *s, struct open_thread *t, const struct tl_event *ev, uint8_t kind, name_id name)
{
	uint32_t node;

	if (t->cnt == OPEN_DEPTH_MAX)
		return 0;
	node = stacks__child(s, stack_thread__top(t), kind, name.v);
	(void)open_thread__push(t, ev, kind == STACK_REGION ? OPEN_REGION : kind == STACK_NODE ? OPEN_NODE : OPEN_OP, node);
	return s->opts.begin ? s->opts.begin(s->opts.ctx, ev, &s->nodes[node]) : 0;
}

static int stacks__region_end(struct stacks *s, struct open_thread *t, const struct tl_event *ev)
{
	for (uint32_t i = t->cnt; i; i--) {
		const struct stack_node *n = &s->nodes[t->open[i - 1].value];

		if (n->kind == STACK_REGION && n->value == ev->region.v)
			return stacks__pop(s, t, i - 1, ev->ts_ns);
	}
	return 0;
}

int stacks__event(struct stacks *s, const struct tl_event *ev)
{
	struct open_thread *t;
	int is_node = ev->op.v == ev->region.v, r;

	if (ev->kind == TL_STACK && !s->frames)
		s->frames = frames__new();
	if (ev->kind == TL_STACK && s->frames)
		frames__add(s->frames, ev);
	if (ev->kind != TL_OP && ev->kind != TL_REGION && ev->kind != TL_REGION_END && ev->kind != TL_CREATE)
		return 0;
	t = stacks__thread(s, ev->pid, ev->tid);
	if (!t)
		return 0;
	if (ev->kind == TL_REGION_END)
		return stacks__region_end(s, t, ev);
	r = stacks__pop(s, t, open_thread__staying(t, ev->depth), ev->ts_ns);
	if (ev->kind == TL_CREATE)
		open_thread__allocated(t, ev);
	if (r || ev->kind == TL_CREATE)
		return r;
	if (ev->kind == TL_REGION)
		return stacks__push(s, t, ev, STACK_REGION, ev->region);
	return stacks__push(s, t, ev, is_node ? STACK_NODE : STACK_OP, ev->op);
}

int stacks__end(struct stacks *s, uint64_t ts_ns)
{
	struct open_thread *t;
	uint32_t pos = 0;
	int r = 0;

	while (!r && (t = open_frames__next(s->open, &pos)))
		r = stacks__pop(s, t, 0, ts_ns);
	return r;
}

/* Innermost operator of a stack, 0 for none. */
static uint32_t stacks__op(const struct stacks *s, uint32_t node)
{
	for (; node; node = s->nodes[node].parent)
		if (s->nodes[node].kind == STACK_OP)
			return s->nodes[node].value;
	return 0;
}

int stacks__has_frames(const struct stacks *s)
{
	return s->frames != NULL;
}

const struct ev_frame *stacks__frame(const struct stacks *s, const struct stack_node *n)
{
	return frames__get(s->frames, n->value);
}

size_t stacks__text(const struct stacks *s, const struct stack_node *n, const struct names *names, char *buf, size_t size)
{
	if (n->kind >= STACK_PYTHON)
		return frame_text(buf, size, names, stacks__frame(s, n));
	return clean_text(buf, size, names__get(names, (name_id){ n->value }), names__len(names, (name_id){ n->value }));
}

static uint8_t kind_of(const struct ev_frame *f)
{
	return f->kind == EV_FRAME_PYTHON ? STACK_PYTHON : f->kind == EV_FRAME_NATIVE ? STACK_NATIVE : STACK_CUT;
}

static uint32_t stacks__recorded(struct stacks *s, const struct tl_event *ev)
{
	uint32_t path[FRAMES_SHOWN], node = stacks__child(s, 0, STACK_PROCESS, ev->pid);
	size_t cnt = frames__path(s->frames, ev->stack, path, FRAMES_SHOWN);

	for (size_t i = 0; i < cnt; i++)
		node = stacks__child(s, node, kind_of(frames__get(s->frames, path[i])), path[i]);
	return ev->op.v ? stacks__child(s, node, STACK_OP, ev->op.v) : node;
}

uint32_t stacks__at(struct stacks *s, const struct tl_event *ev)
{
	struct open_thread *t = ev->kind == TL_CREATE || ev->kind == TL_OOM ? stacks__thread(s, ev->pid, ev->tid) : NULL;
	uint32_t node = t ? stack_thread__top(t) : 0;

	if (ev->stack && s->frames)
		return stacks__recorded(s, ev);
	if (t && stacks__op(s, node) == ev->op.v)
		return node;
	node = stacks__child(s, 0, STACK_PROCESS, ev->pid);
	if (ev->region.v)
		node = stacks__child(s, node, STACK_REGION, ev->region.v);
	return ev->op.v ? stacks__child(s, node, STACK_OP, ev->op.v) : node;
}

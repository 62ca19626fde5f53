/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/stacks.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/index.h"
#include "base/seed.h"
#include "event/event.h"
#include "view/clean.h"

#define FRAMES_SHOWN 250 /* of one recorded stack: a node knows its depth in 8 bits */

struct stack_thread {
	uint32_t pid, tid;
	uint32_t root; /* node of its process */
	uint32_t cnt;
	struct stack_entry open[STACK_DEPTH_MAX];
};

struct stacks {
	struct stacks_opts opts;
	struct stack_node *nodes; /* the root first; nothing is ever removed */
	uint32_t nodes_cnt, nodes_cap;
	struct stack_thread **threads;
	uint32_t threads_cnt, threads_cap;
	struct index by_node, by_thread;
	struct stack_thread *last;
	struct frames *frames; /* NULL: none were recorded */
	uint64_t cut;
};

struct stacks *stacks__new(const struct stacks_opts *opts)
{
	struct stacks *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	if (opts)
		s->opts = *opts;
	if (!array_has_room(s->nodes, s->nodes_cnt, s->nodes_cap, 1024)) {
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
	for (uint32_t i = 0; i < s->threads_cnt; i++)
		free(s->threads[i]);
	index__done(&s->by_thread);
	index__done(&s->by_node);
	free(s->threads);
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

uint64_t stacks__cut(const struct stacks *s)
{
	return s->cut;
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
	    !array_has_room(s->nodes, s->nodes_cnt, s->nodes_cap, 1024) || index__add(&s->by_node, hash, s->nodes_cnt) < 0) {
		s->cut++;
		return parent;
	}
	s->nodes[s->nodes_cnt] = (struct stack_node){ .parent = parent, .value = value, .kind = kind,
						      .depth = (uint8_t)(s->nodes[parent].depth + 1) };
	return s->nodes_cnt++;
}

/* --- threads --------------------------------------------------------------------------------------- */

static struct stack_thread *stacks__thread(struct stacks *s, uint32_t pid, uint32_t tid)
{
	uint64_t hash = hash_u64((uint64_t)pid << 32 | tid);
	struct stack_thread *t = s->last;
	uint32_t at;

	if (t && t->tid == tid && t->pid == pid)
		return t;
	at = index_find(&s->by_thread, hash, i, s->threads[i]->tid == tid && s->threads[i]->pid == pid);
	if (at != INDEX_NONE)
		return s->last = s->threads[at];
	t = calloc(1, sizeof(*t));
	if (!t || s->threads_cnt >= STACK_THREADS_MAX || !array_has_room(s->threads, s->threads_cnt, s->threads_cap, 64) ||
	    index__add(&s->by_thread, hash, s->threads_cnt) < 0) {
		free(t);
		s->cut++;
		return NULL;
	}
	t->pid = pid;
	t->tid = tid;
	t->root = stacks__child(s, 0, STACK_PROCESS, pid);
	s->threads[s->threads_cnt++] = t;
	return s->last = t;
}

static uint32_t stack_thread__top(const struct stack_thread *t)
{
	return t->cnt ? t->open[t->cnt - 1].node : t->root;
}

static void stack_made__add(struct stack_made *to, const struct stack_made *m)
{
	to->bytes += m->bytes;
	if (!to->has_phase) {
		to->phase = m->phase;
		to->has_phase = m->has_phase;
	}
	if (to->root.v)
		return;
	to->module = m->module;
	to->root = m->root;
}

static void stack_thread__born(struct stack_thread *t, const struct tl_event *ev)
{
	const struct stack_made made = { .bytes = ev->size, .module = ev->module, .root = ev->root, .phase = ev->phase,
					 .has_phase = 1 };

	if (t->cnt && ev->dev != MT_DEV_HOST) /* malloc's hold those of tensors */
		stack_made__add(&t->open[t->cnt - 1].made, &made);
}

static int stacks__pop(struct stacks *s, struct stack_thread *t, uint32_t keep, uint64_t ts_ns)
{
	int r = 0;

	for (; t->cnt > keep && !r; t->cnt--) {
		const struct stack_entry *e = &t->open[t->cnt - 1];

		if (s->opts.end)
			r = s->opts.end(s->opts.ctx, t->pid, t->tid, &s->nodes[e->node], e, ts_ns);
		if (t->cnt > 1)
			stack_made__add(&t->open[t->cnt - 2].made, &e->made);
	}
	return r;
}

/* `depth` frames stay; a region that was opened in a frame that is over is over, too. */
static int stacks__settle(struct stacks *s, struct stack_thread *t, const struct tl_event *ev)
{
	uint32_t keep = t->cnt;

	while (keep) {
		const struct stack_entry *e = &t->open[keep - 1];
		int is_region = s->nodes[e->node].kind == STACK_REGION;

		if (is_region ? e->depth <= ev->depth : e->depth < ev->depth)
			break;
		keep--;
	}
	return stacks__pop(s, t, keep, ev->ts_ns);
}

static int stacks__push(struct stacks *s, struct stack_thread *t, const struct tl_event *ev, uint8_t kind, name_id name)
{
	uint32_t node;

	if (t->cnt == STACK_DEPTH_MAX) {
		s->cut++;
		return 0;
	}
	node = stacks__child(s, stack_thread__top(t), kind, name.v);
	t->open[t->cnt++] = (struct stack_entry){ .ts_ns = ev->ts_ns, .node = node, .depth = ev->depth };
	return s->opts.begin ? s->opts.begin(s->opts.ctx, ev, &s->nodes[node]) : 0;
}

static int stacks__region_end(struct stacks *s, struct stack_thread *t, const struct tl_event *ev)
{
	for (uint32_t i = t->cnt; i; i--) {
		const struct stack_node *n = &s->nodes[t->open[i - 1].node];

		if (n->kind == STACK_REGION && n->value == ev->region.v)
			return stacks__pop(s, t, i - 1, ev->ts_ns);
	}
	return 0;
}

int stacks__event(struct stacks *s, const struct tl_event *ev)
{
	struct stack_thread *t;
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
	r = stacks__settle(s, t, ev);
	if (ev->kind == TL_CREATE)
		stack_thread__born(t, ev);
	if (r || ev->kind == TL_CREATE)
		return r;
	if (ev->kind == TL_REGION)
		return stacks__push(s, t, ev, STACK_REGION, ev->region);
	return stacks__push(s, t, ev, is_node ? STACK_NODE : STACK_OP, ev->op);
}

int stacks__end(struct stacks *s, uint64_t ts_ns)
{
	int r = 0;

	for (uint32_t i = 0; i < s->threads_cnt && !r; i++)
		r = stacks__pop(s, s->threads[i], 0, ts_ns);
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

const struct view_frame *stacks__frame(const struct stacks *s, const struct stack_node *n)
{
	return frames__get(s->frames, n->value);
}

size_t stacks__text(const struct stacks *s, const struct stack_node *n, const struct names *names, char *buf, size_t size)
{
	if (n->kind >= STACK_PYTHON)
		return frame_text(buf, size, names, stacks__frame(s, n));
	return clean_text(buf, size, names__get(names, (name_id){ n->value }), names__len(names, (name_id){ n->value }));
}

static uint8_t kind_of(const struct view_frame *f)
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
	struct stack_thread *t = ev->kind == TL_CREATE || ev->kind == TL_OOM ? stacks__thread(s, ev->pid, ev->tid) : NULL;
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

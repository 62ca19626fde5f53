/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * gen_events: events of a training job that never ran, for benchmarks and simulation.
 *
 *	struct gen *g = gen__new(seed, 1, names);
 *	struct event ev;
 *	for (…) gen__next(g, &ev);
 *	gen__free(g);
 *
 * A process is a random program of one step, made once from the seed, that is then run again and
 * again: 250 frames nested one to three deep (forward, backward nodes, optimizer), 200 blocks allocated
 * and 200 freed, two regions, 654 events. Blocks live across part of the step; their addresses come
 * from a heap with one last-freed-first list a size, as an allocator would give them. What makes it
 * unlike a recording played twice: each time between events has its own distribution (a fixed part,
 * a long tail), and in one step of four a few other blocks (never shown as events) come and go,
 * which shifts the heap. Several processes (as ranks of one job) come interleaved by time.
 * The first event is EV_BEGIN, then one EV_PROC a process; a tick and a loss event follow
 * every second.
 */
#ifndef MT_TESTS_GEN_EVENTS_H
#define MT_TESTS_GEN_EVENTS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "event/event.h"

#define GEN_STEP_ALLOCS 200
#define GEN_STEP_FRAMES 250
#define GEN_STEP_MAX (2 * GEN_STEP_ALLOCS + GEN_STEP_FRAMES + 4)
#define GEN_CLASSES 24
#define GEN_EXTRAS 6
#define GEN_PROCS_MAX 64

struct gen_instr {
	uint8_t kind, depth;
	uint16_t slot; /* ALLOC, FREE */
	uint32_t cls;  /* ALLOC, FREE: size class */
	name_id name;
	uint32_t gap_ns; /* usual time before it */
};

struct gen_list {
	uint64_t *addrs;
	size_t cnt, cap;
};

struct gen_proc {
	struct gen_instr prog[GEN_STEP_MAX];
	uint32_t prog_cnt, pc;
	uint32_t pid, seq;
	uint32_t stack[4];
	uint32_t open; /* frames open */
	uint64_t size_of[GEN_CLASSES];
	uint64_t slots[GEN_STEP_ALLOCS];
	struct gen_list freed[GEN_CLASSES];
	uint64_t heap_end;
	uint64_t extra[GEN_EXTRAS]; /* blocks that live from one odd step to the next */
	uint32_t extra_cls[GEN_EXTRAS];
	uint64_t next_ns;
};

struct gen {
	uint64_t rng;
	struct names *names;
	uint32_t proc_cnt, intro;
	uint64_t tick_ns;
	int loss_due;
	struct gen_proc *procs;
};

static inline uint64_t gen__rand(struct gen *g)
{
	uint64_t z = (g->rng += 0x9e3779b97f4a7c15u); /* splitmix64 */

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline uint32_t gen__below(struct gen *g, uint32_t n)
{
	return (uint32_t)((gen__rand(g) >> 32) * n >> 32);
}

/* A gap as seen in traced torch jobs: mostly the usual one and some, now and then a long pause. */
static inline uint64_t gen__gap(struct gen *g, uint32_t usual_ns)
{
	uint64_t r = gen__rand(g);
	uint64_t gap = usual_ns + (r & 127) + ((r >> 7) & 127);

	if (!((r >> 16) & 15))
		gap += (r >> 20) & 1023;
	if (!((r >> 32) & 1023))
		gap += (r >> 42) & 0xffff;
	return gap;
}

/* --- the program of a step ------------------------------------------------------------------- */

static inline void gen_proc__instr(struct gen *g, struct gen_proc *p, uint8_t kind, uint32_t depth,
				   uint32_t slot, uint32_t cls, name_id name)
{
	p->prog[p->prog_cnt++] = (struct gen_instr){
		.kind = kind, .depth = (uint8_t)depth, .slot = (uint16_t)slot, .cls = cls,
		.name = name, .gap_ns = 400 + gen__below(g, 1 << (8 + gen__below(g, 5))),
	};
}

static inline name_id gen__op_name(struct gen *g, uint32_t phase)
{
	static const char *const words[] = {
		"addmm", "mm", "t", "relu", "mul", "add_", "addcmul_", "addcdiv_", "sqrt", "empty",
		"empty_strided", "view", "transpose", "sum", "mean", "pow", "fill_", "zeros_like",
		"copy_", "threshold_backward", "detach", "lerp_", "div", "expand", "linear",
	};
	char buf[64];
	uint32_t i = gen__below(g, sizeof(words) / sizeof(words[0]));

	if (phase == 1)
		snprintf(buf, sizeof(buf), "%cBackward%u", 'A' + (int)i, i % 3);
	else
		snprintf(buf, sizeof(buf), "aten::%s", words[i]);
	return names__add(g->names, buf);
}

static inline void gen_proc__program(struct gen *g, struct gen_proc *p)
{
	uint8_t dies[GEN_STEP_FRAMES][16], dies_cnt[GEN_STEP_FRAMES] = { 0 };
	uint32_t slot_cls[GEN_STEP_ALLOCS], slot = 0, depth = 0;
	name_id fwd = names__add(g->names, "DataParallel.forward");
	name_id opt = names__add(g->names, "Optimizer.step#Adam.step");

	for (uint32_t f = 0; f < GEN_STEP_FRAMES; f++) {
		uint32_t phase = f * 3 / GEN_STEP_FRAMES; /* forward, backward, optimizer */
		uint32_t allocs = (f + 1) * GEN_STEP_ALLOCS / GEN_STEP_FRAMES - slot;
		uint8_t kind = phase == 1 && f % 3 == 0 ? MT_EV_NODE : MT_EV_OP;

		if (f == 0 || f == 2 * GEN_STEP_FRAMES / 3 + 1)
			gen_proc__instr(g, p, MT_EV_REGION_BEGIN, 0, 0, 0, f ? opt : fwd);
		gen_proc__instr(g, p, kind, depth, 0, 0, gen__op_name(g, kind == MT_EV_NODE));
		depth++;
		for (; allocs; allocs--, slot++) {
			uint32_t life = gen__below(g, 4) ? 6 : GEN_STEP_FRAMES - f;
			uint32_t end = f + 1 + gen__below(g, life);

			while (end < GEN_STEP_FRAMES && dies_cnt[end] == 16)
				end++;
			if (end < GEN_STEP_FRAMES)
				dies[end][dies_cnt[end]++] = (uint8_t)slot;
			slot_cls[slot] = gen__below(g, GEN_CLASSES);
			gen_proc__instr(g, p, MT_EV_ALLOC, depth, slot, slot_cls[slot], NAME_NONE);
			if (end >= GEN_STEP_FRAMES) /* a temporary of the op itself */
				gen_proc__instr(g, p, MT_EV_FREE, depth, slot, slot_cls[slot],
						NAME_NONE);
		}
		for (uint32_t i = 0; i < dies_cnt[f]; i++)
			gen_proc__instr(g, p, MT_EV_FREE, depth, dies[f][i], slot_cls[dies[f][i]],
					NAME_NONE);
		depth = gen__below(g, 2) && depth < 3 ? depth : gen__below(g, depth);
		if (f == 2 * GEN_STEP_FRAMES / 3 || f == GEN_STEP_FRAMES - 1) {
			depth = 0;
			gen_proc__instr(g, p, MT_EV_REGION_END, 0, 0, 0, NAME_NONE);
		}
	}
}

/* --- running it ------------------------------------------------------------------------------ */

static inline uint64_t gen_proc__take(struct gen_proc *p, uint32_t cls)
{
	struct gen_list *l = &p->freed[cls];
	uint64_t addr = p->heap_end;

	if (l->cnt)
		return l->addrs[--l->cnt];
	p->heap_end += (p->size_of[cls] + 64 + 63) & ~63ull;
	return addr;
}

static inline void gen_proc__give(struct gen_proc *p, uint32_t cls, uint64_t addr)
{
	struct gen_list *l = &p->freed[cls];

	if (l->cnt == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 64;
		l->addrs = realloc(l->addrs, l->cap * sizeof(*l->addrs));
		if (!l->addrs)
			abort();
	}
	l->addrs[l->cnt++] = addr;
}

/* One step in four begins with blocks that the program does not show coming: the heap shifts. */
static inline void gen_proc__step(struct gen *g, struct gen_proc *p)
{
	if (gen__below(g, 4))
		return;
	for (uint32_t i = 0; i < GEN_EXTRAS; i++) {
		if (p->extra[i])
			gen_proc__give(p, p->extra_cls[i], p->extra[i]);
		p->extra_cls[i] = gen__below(g, GEN_CLASSES);
		p->extra[i] = gen_proc__take(p, p->extra_cls[i]);
	}
}

static inline void gen_proc__next(struct gen *g, struct gen_proc *p, struct event *ev)
{
	const struct gen_instr *in = &p->prog[p->pc];

	if (!p->pc)
		gen_proc__step(g, p);
	memset(ev, 0, sizeof(*ev));
	ev->ts_ns = p->next_ns;
	ev->pid = ev->tid = p->pid;
	ev->kind = in->kind;
	ev->depth = in->depth;
	ev->name = in->name;
	switch (in->kind) {
	case MT_EV_OP:
	case MT_EV_NODE:
		p->stack[in->depth] = ev->seq = ++p->seq;
		break;
	case MT_EV_ALLOC:
		ev->addr = p->slots[in->slot] = gen_proc__take(p, in->cls);
		ev->size = p->size_of[in->cls];
		ev->dev = MT_DEV_CPU;
		break;
	case MT_EV_FREE:
		ev->addr = p->slots[in->slot];
		ev->dev = MT_DEV_CPU;
		gen_proc__give(p, in->cls, ev->addr);
		break;
	default:
		break;
	}
	if (in->kind != MT_EV_OP && in->kind != MT_EV_NODE && in->depth)
		ev->seq = p->stack[in->depth - 1];
	if (++p->pc == p->prog_cnt)
		p->pc = 0;
	p->next_ns += gen__gap(g, p->prog[p->pc].gap_ns);
}

static inline int gen__intro(struct gen *g, struct event *ev)
{
	memset(ev, 0, sizeof(*ev));
	ev->ts_ns = 1000000000u;
	ev->pid = ev->tid = g->procs[0].pid;
	if (g->intro == 0) {
		ev->kind = EV_BEGIN;
		ev->addr = 1700000000000000000u;
		ev->size = 8;
		ev->name = names__add(g->names, "0.1 6.12.0 trainer");
	} else if (g->intro <= g->proc_cnt) {
		ev->kind = EV_PROC;
		ev->pid = ev->tid = g->procs[g->intro - 1].pid;
		ev->name = names__add(g->names, "python3");
		ev->addr = names__add(g->names, "python3 train.py").v;
	} else {
		return 0;
	}
	g->intro++;
	return 1;
}

static inline void gen__next(struct gen *g, struct event *ev)
{
	struct gen_proc *p = &g->procs[0];

	if (gen__intro(g, ev))
		return;
	for (uint32_t i = 1; i < g->proc_cnt; i++)
		if (g->procs[i].next_ns < p->next_ns)
			p = &g->procs[i];
	if (p->next_ns < g->tick_ns) {
		gen_proc__next(g, p, ev);
		return;
	}
	memset(ev, 0, sizeof(*ev));
	ev->ts_ns = g->tick_ns;
	ev->pid = ev->tid = g->procs[0].pid;
	ev->kind = g->loss_due ? EV_LOSS : EV_TICK;
	ev->aux = g->loss_due ? MT_LOSS_RING : 0;
	if (g->loss_due)
		g->tick_ns += 1000000000u;
	g->loss_due = !g->loss_due;
}

static inline void gen__free(struct gen *g)
{
	if (!g)
		return;
	for (uint32_t i = 0; g->procs && i < g->proc_cnt; i++)
		for (int c = 0; c < GEN_CLASSES; c++)
			free(g->procs[i].freed[c].addrs);
	free(g->procs);
	free(g);
}

/* `names` is borrowed and filled. NULL: no memory, or procs is not 1..GEN_PROCS_MAX. */
static inline struct gen *gen__new(uint64_t seed, uint32_t procs, struct names *names)
{
	struct gen *g = procs && procs <= GEN_PROCS_MAX ? calloc(1, sizeof(*g)) : NULL;

	if (!g)
		return NULL;
	g->rng = seed;
	g->names = names;
	g->proc_cnt = procs;
	g->tick_ns = 2000000000u;
	g->procs = calloc(procs, sizeof(*g->procs));
	if (!g->procs) {
		gen__free(g);
		return NULL;
	}
	for (uint32_t i = 0; i < procs; i++) {
		struct gen_proc *p = &g->procs[i];

		p->pid = 4000 + 17 * i;
		p->heap_end = 0x7f0000000000u + ((uint64_t)gen__below(g, 1 << 24) << 12);
		p->next_ns = 1000000000u + gen__below(g, 1000000);
		for (int c = 0; c < GEN_CLASSES; c++)
			p->size_of[c] = c < 2 ? 4u << c
					      : (64 + gen__below(g, 64)) << gen__below(g, 12);
		gen_proc__program(g, p);
	}
	return g;
}

#endif

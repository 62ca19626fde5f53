/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* See world.h. One function an event; each both does it and describes it. */
#include "sim/world.h"

#include <stdio.h>
#include <string.h>

#include "sim/oracle.h"

#define NONSENSE_TID 999999u

static uint64_t world__rand(struct world *w)
{
	uint64_t z = (w->rng += 0x9e3779b97f4a7c15u); /* splitmix64 */

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint32_t world__below(struct world *w, uint32_t n)
{
	return (uint32_t)((world__rand(w) >> 32) * n >> 32);
}

static void names__fill(struct names *names, name_id *ids, uint32_t cnt, const char *form)
{
	char buf[64];

	for (uint32_t i = 0; i < cnt; i++) {
		snprintf(buf, sizeof(buf), form, i);
		ids[i] = names__add(names, buf);
	}
}

void world__init(struct world *w, uint64_t seed, struct names *names)
{
	static const uint32_t losses[] = { 0, 0, 0, 10, 100, 400 };
	static const uint32_t biases[] = { 330, 400, 600 };

	memset(w, 0, sizeof(*w));
	w->rng = seed;
	w->ts = 1000 + world__below(w, 1u << 30);
	w->loss = losses[world__below(w, 6)];
	w->alloc_bias = biases[world__below(w, 3)];
	w->nonsense = world__below(w, 3) ? 0 : 20;
	w->sizes = world__below(w, 2) ? 3 : 0;
	w->regions_lost = (int)world__below(w, 2);
	names__fill(names, w->ops, W_OPS, "aten::op%u");
	names__fill(names, w->nodes, W_OPS, "Node%uBackward0");
	names__fill(names, w->region_names, W_REGIONS, "Optimizer.step#R%u.step");
	names__fill(names, w->comms, 4, "python3-%u");
	w->ops[0] = NAME_NONE; /* the text of a name can be lost */
	w->region_names[0] = NAME_NONE;
}

static void world__tick(struct world *w)
{
	static const uint64_t jumps[] = { 1, 2000, 1000000, 50000000, 3000000000u, 4000000000000u };
	uint32_t r = world__below(w, 1000);

	if (r < 5 && w->ts > 1000)
		w->ts -= world__below(w, 500); /* an event that came late */
	else
		w->ts += world__below(w, 300) + (r < 20 ? world__below(w, 100) * jumps[r % 6] : 0);
}

static void event__init(struct event *ev, struct world *w, const struct w_proc *p,
			const struct w_thread *t, uint8_t kind)
{
	memset(ev, 0, sizeof(*ev));
	ev->ts_ns = w->ts;
	ev->pid = p->pid;
	ev->tid = t ? t->tid : p->pid;
	ev->kind = kind;
	if (t) {
		ev->depth = (uint8_t)t->depth;
		ev->seq = t->depth ? t->frames[t->depth - 1].seq : 0;
	}
}

static int world__delivered(struct world *w)
{
	return world__below(w, 1000) >= w->loss;
}

/* --- frames and regions ---------------------------------------------------------------------------- */

/* Functions return: silently, down to the next frame that has an explicit end. */
static void world__settle(struct world *w, struct w_thread *t)
{
	uint32_t pops = world__below(w, 3) ? 0 : world__below(w, t->depth + 1);

	while (pops-- && t->frames[t->depth - 1].kind != MT_EV_OP_BEGIN)
		t->depth--;
}

static int world__enter(struct world *w, struct w_proc *p, struct w_thread *t, struct event *ev)
{
	static const uint8_t kinds[] = { MT_EV_OP, MT_EV_OP, MT_EV_NODE, MT_EV_OP_BEGIN };
	uint8_t kind = kinds[world__below(w, 4)];
	uint32_t which = world__below(w, W_OPS);
	int delivered = world__delivered(w);
	struct w_frame *f;

	event__init(ev, w, p, t, kind);
	ev->seq = ++t->seq;
	ev->name = kind == MT_EV_NODE ? w->nodes[which] : w->ops[which];
	t->frames_lost |= !delivered;
	if (t->depth == MT_FRAMES_MAX)
		return delivered;
	f = &t->frames[t->depth++];
	*f = (struct w_frame){
		.name = ev->name, .seq = ev->seq, .kind = kind, .delivered = delivered,
	};
	if (delivered && kind == MT_EV_NODE)
		f->entry = ++t->entries;
	return delivered;
}

static int world__op_end(struct world *w, struct w_proc *p, struct w_thread *t, struct event *ev)
{
	uint32_t d = t->depth;

	while (d && t->frames[d - 1].kind != MT_EV_OP_BEGIN)
		d--;
	if (d)
		t->depth = d - 1;
	event__init(ev, w, p, t, MT_EV_OP_END);
	return world__delivered(w);
}

static void thread__resize_regions(struct w_thread *t, uint32_t cnt)
{
	while (t->regions_cnt < cnt && t->regions_cnt < MT_REGIONS_MAX)
		t->regions[t->regions_cnt++] = (struct w_region){ NAME_NONE, ++t->entries };
	t->regions_cnt = cnt < MT_REGIONS_MAX ? cnt : MT_REGIONS_MAX;
}

static int world__region(struct world *w, struct w_proc *p, struct w_thread *t, struct event *ev)
{
	int begin = !t->true_regions || (world__below(w, 2) && t->true_regions < MT_REGIONS_MAX);
	int delivered = !w->regions_lost || world__delivered(w);

	event__init(ev, w, p, t, begin ? MT_EV_REGION_BEGIN : MT_EV_REGION_END);
	if (begin) {
		ev->name = w->region_names[world__below(w, W_REGIONS)];
		ev->aux = t->true_regions++;
	} else {
		ev->aux = --t->true_regions;
	}
	if (!delivered)
		return 0;
	thread__resize_regions(t, ev->aux);
	if (begin)
		t->regions[t->regions_cnt++] = (struct w_region){ ev->name, ++t->entries };
	return 1;
}

static void thread__truth(const struct w_thread *t, struct w_truth *truth)
{
	const struct w_frame *leaf = t->depth ? &t->frames[t->depth - 1] : NULL;
	const struct w_region *top = t->regions_cnt ? &t->regions[t->regions_cnt - 1] : NULL;

	if (leaf && !leaf->delivered)
		truth->lost = 1;
	else if (leaf && leaf->kind != MT_EV_NODE)
		truth->op = leaf->name;
	truth->region = truth->region_alt = top ? top->name : NAME_NONE;
	truth->exact = !t->frames_lost;
	for (uint32_t d = t->depth; d--;) {
		const struct w_frame *f = &t->frames[d];

		if (f->kind != MT_EV_NODE)
			continue;
		if (f->delivered && (!top || f->entry > top->entry))
			truth->region = f->name;
		break; /* an outer node is never the answer */
	}
}

/* --- memory ---------------------------------------------------------------------------------------- */

static uint64_t world__ptr(struct world *w)
{
	return world__below(w, 200) ? 0x7f0000000000u + 64ull * world__below(w, 6000) : 0;
}

static uint8_t world__dev(struct world *w)
{
	static const uint8_t devs[] = { MT_DEV_CPU, MT_DEV_CPU, MT_DEV_HOST, MT_DEV_CUDA0,
					MT_DEV_CUDA0 + 3 };

	return devs[world__below(w, 5)];
}

static int world__alloc(struct world *w, struct w_proc *p, struct w_thread *t, struct event *ev,
			struct w_truth *truth)
{
	event__init(ev, w, p, t, MT_EV_ALLOC);
	ev->dev = world__dev(w);
	ev->addr = world__ptr(w);
	ev->size = w->sizes ? 64 * world__below(w, w->sizes) :
			      world__rand(w) >> (24 + world__below(w, 38));
	thread__truth(t, truth);
	if (w->blocks_cnt < W_BLOCKS)
		w->blocks[w->blocks_cnt++] =
			(struct w_block){ ev->addr, (uint32_t)(p - w->procs), ev->dev };
	return world__delivered(w);
}

static int world__free(struct world *w, struct w_proc *p, struct w_thread *t, struct event *ev)
{
	uint32_t i = w->blocks_cnt ? world__below(w, w->blocks_cnt) : 0;

	event__init(ev, w, p, t, MT_EV_FREE);
	ev->dev = world__dev(w);
	ev->addr = world__ptr(w);
	if (w->blocks_cnt && world__below(w, 30)) { /* else: a block from before the attach */
		ev->pid = w->procs[w->blocks[i].proc].pid;
		ev->tid = ev->pid;
		ev->addr = w->blocks[i].ptr;
		ev->dev = w->blocks[i].dev;
		w->blocks[i] = w->blocks[--w->blocks_cnt];
	}
	return world__delivered(w);
}

static int world__kernel(struct world *w, struct w_proc *p, struct w_thread *t, struct event *ev)
{
	static const uint8_t kinds[] = { MT_EV_MMAP, MT_EV_MMAP, MT_EV_MUNMAP, MT_EV_BRK, MT_EV_RSS };
	static const uint8_t flags[] = { 0, MT_MAP_ANON, MT_MAP_ANON, MT_MAP_REMAP, MT_MAP_REMAP | MT_MAP_STAYS };
	uint32_t page = world__below(w, ORACLE_PAGES);

	event__init(ev, w, p, t, kinds[world__below(w, 5)]);
	ev->addr = ORACLE_MAP_BASE + page * (uint64_t)ORACLE_PAGE;
	ev->size = world__below(w, world__below(w, 2) ? 4 : ORACLE_PAGES - page + 1);
	ev->size *= ORACLE_PAGE;
	if (page * ORACLE_PAGE + ev->size > ORACLE_PAGES * ORACLE_PAGE)
		ev->size = ORACLE_PAGE;
	ev->flags = flags[world__below(w, 5)];
	if (ev->kind == MT_EV_RSS) {
		ev->addr = page % MT_RSS_KINDS;
		ev->size = world__below(w, 1u << 30);
	}
	return world__delivered(w);
}

/* --- processes ------------------------------------------------------------------------------------- */

static void proc__forget(struct world *w, struct w_proc *p)
{
	uint32_t idx = (uint32_t)(p - w->procs);

	for (uint32_t i = 0; i < w->blocks_cnt;) {
		if (w->blocks[i].proc == idx && world__below(w, 10))
			w->blocks[i] = w->blocks[--w->blocks_cnt];
		else
			i++; /* the rest will be freed by a process that does not have it */
	}
}

/* A process comes (also: comes back under its old pid) or becomes another by exec. */
static int world__proc(struct world *w, struct w_proc *p, struct event *ev)
{
	int exec = p->alive && world__below(w, 2);
	uint32_t idx = (uint32_t)(p - w->procs);

	p->pid = 4000 + 10 * idx;
	for (uint32_t i = 0; i < W_THREADS; i++) {
		uint32_t seq = exec ? p->threads[i].seq : 0;

		memset(&p->threads[i], 0, sizeof(p->threads[i]));
		p->threads[i].tid = p->pid + i;
		p->threads[i].seq = seq;
		p->threads[i].frames_lost = exec; /* its numbering goes on where nothing is known */
	}
	proc__forget(w, p);
	event__init(ev, w, p, NULL, EV_PROC);
	ev->name = w->comms[world__below(w, 4)];
	ev->addr = w->comms[world__below(w, 4)].v;
	ev->aux = world__below(w, 2) ? 1 : 0;
	ev->flags = exec ? EV_PROC_EXECED : (uint8_t)world__below(w, 3);
	ev->size = exec ? w->starts : 0;
	if (!exec)
		ev->size = ++w->starts; /* never twice the same: a new process */
	p->alive = 1;
	return 1;
}

static int world__gone(struct world *w, struct w_proc *p, struct event *ev)
{
	event__init(ev, w, p, NULL, EV_GONE);
	ev->aux = world__below(w, 65536);
	p->alive = 0;
	proc__forget(w, p);
	return world__delivered(w);
}

static int world__reported(struct world *w, struct w_proc *p, struct event *ev)
{
	static const uint8_t kinds[] = { EV_COMM, EV_CPU, EV_TICK, MT_EV_STEP, MT_EV_TAG, MT_EV_EXIT,
					 EV_LABEL, EV_COVER, EV_NOTE, EV_COST, EV_SELF };

	event__init(ev, w, p, NULL, kinds[world__below(w, sizeof(kinds))]);
	ev->name = w->comms[world__below(w, 4)];
	ev->addr = world__below(w, 100);
	ev->size = world__below(w, 1u << 20);
	ev->dev = MT_DEV_CPU;
	if (ev->kind == EV_COMM)
		ev->tid += world__below(w, 2);
	return world__delivered(w);
}

/* Of a thread that has no frames: what points at one points at nothing. */
static int world__nonsense(struct world *w, struct w_proc *p, struct event *ev, struct w_truth *truth)
{
	static const uint8_t kinds[] = { MT_EV_ALLOC, MT_EV_ALLOC, MT_EV_FREE, MT_EV_REGION_BEGIN,
					 MT_EV_REGION_END, 0, MT_EV_NAME, 40, 200, 255 };

	event__init(ev, w, p, NULL, kinds[world__below(w, sizeof(kinds))]);
	ev->tid = NONSENSE_TID;
	ev->addr = world__rand(w);
	ev->size = world__rand(w) >> (world__below(w, 2) ? 0 : 40);
	ev->dev = world__below(w, 2) ? MT_DEV_CPU : (uint8_t)world__rand(w);
	ev->depth = (uint8_t)(1 + world__below(w, 255));
	ev->seq = 1 + (uint32_t)world__below(w, 1000);
	ev->aux = (uint32_t)world__rand(w);
	ev->name = w->region_names[world__below(w, W_REGIONS)];
	truth->unchecked = 1;
	truth->lost = 1;
	return 1;
}

static int world__oom(struct world *w, struct w_proc *p, struct w_thread *t, struct event *ev,
		      struct w_truth *truth)
{
	event__init(ev, w, p, t, MT_EV_OOM);
	ev->dev = world__dev(w);
	ev->size = world__rand(w) >> 20;
	thread__truth(t, truth);
	return world__delivered(w);
}

int world__next(struct world *w, struct event *ev, struct w_truth *truth)
{
	struct w_proc *p = &w->procs[world__below(w, W_PROCS)];
	struct w_thread *t = &p->threads[world__below(w, W_THREADS)];
	uint32_t r = world__below(w, 1000);

	memset(truth, 0, sizeof(*truth));
	world__tick(w);
	if (!p->pid || (!p->alive && r < 100) || r < 3)
		return world__proc(w, p, ev);
	if (world__below(w, 1000) < w->nonsense)
		return world__nonsense(w, p, ev, truth);
	if (!p->alive) { /* what comes late of the dead */
		memset(t, 0, sizeof(*t));
		t->tid = p->pid;
		truth->unchecked = 1; /* if its end was not delivered, the model knows older regions */
	}
	if (r < 5)
		return world__gone(w, p, ev);
	if (r < 30)
		return world__reported(w, p, ev);
	if (r < 60)
		return world__kernel(w, p, t, ev);
	world__settle(w, t);
	if (r < 100)
		return world__region(w, p, t, ev);
	if (r < 110)
		return world__oom(w, p, t, ev, truth);
	if (r < 150)
		return world__op_end(w, p, t, ev);
	if (r < 350)
		return world__enter(w, p, t, ev);
	if (r < 350 + w->alloc_bias)
		return world__alloc(w, p, t, ev, truth);
	return world__free(w, p, t, ev);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Labels and where their bytes are counted. A block is a list of spans, each a run of versions with a
 * time and a label; whatever changes a label ends in fblock__refresh, which moves a span's bytes,
 * byte·time and share at the peak from the category where they were counted to the one where they
 * belong now. So every sum over categories stays that of the device, exactly, whenever a label comes.
 *
 * A span was live at the device's peak iff it began in an earlier epoch (device.h: the count of peaks)
 * and did not end before it. Blocks are found by id, never by pointer: nodes and blocks that refer to
 * each other by id need no reference counts, and removed ones are simply not found.
 *
 * Bounds: of more than SPANS_MAX versions with labels of their own neighbours with the same label become
 * one, or else the oldest two; the window of dead blocks is flow_rules.c's.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/seed.h"
#include "event/packed.h"
#include "model/core/check.h"
#include "model/flow/flow_state.h"

#define CHUNK_BITS 10
#define CHUNK (1u << CHUNK_BITS)
#define SLOTS_MIN 4096u

static struct fblock *graph__at(const struct graph *g, uint32_t num)
{
	return &g->chunks[(num - 1) >> CHUNK_BITS][(num - 1) & (CHUNK - 1)];
}

static uint64_t home_of(const struct graph *g, uint64_t id)
{
	return hash_u64(id) & g->mask;
}

static uint64_t graph__probe(const struct graph *g, uint64_t id)
{
	uint64_t i = home_of(g, id);

	while (g->slots[i] && graph__at(g, g->slots[i])->id != id)
		i = (i + 1) & g->mask;
	return i;
}

struct fblock *graph__find(const struct graph *g, uint64_t id)
{
	uint32_t num = g->slots ? g->slots[graph__probe(g, id)] : 0;

	return num ? graph__at(g, num) : NULL;
}

static bool graph__grow(struct graph *g)
{
	uint64_t mask = g->slots ? 2 * g->mask + 1 : SLOTS_MIN - 1;
	uint32_t *slots = calloc(mask + 1, sizeof(*slots)), *old = g->slots;

	if (!slots)
		return false;
	g->slots = slots;
	g->mask = mask;
	for (uint32_t num = 1; num <= g->used; num++)
		if (graph__at(g, num)->id)
			slots[graph__probe(g, graph__at(g, num)->id)] = num;
	free(old);
	return true;
}

static uint32_t graph__number(struct graph *g)
{
	uint32_t num = g->free_head;

	if (num) {
		g->free_head = (uint32_t)graph__at(g, num)->size;
		return num;
	}
	if (g->used >> CHUNK_BITS == g->chunks_cnt) {
		struct fblock **chunks = realloc(g->chunks, (g->chunks_cnt + 1) * sizeof(*chunks));

		if (!chunks)
			return 0;
		g->chunks = chunks;
		chunks[g->chunks_cnt] = calloc(CHUNK, sizeof(**chunks));
		if (!chunks[g->chunks_cnt])
			return 0;
		g->chunks_cnt++;
	}
	return ++g->used;
}

struct fblock *graph__add(struct graph *g, struct block *b)
{
	struct device *d = g->env.devs[g->env.dev_idx[b->dev] - 1];
	struct fblock *f;
	uint32_t num;

	if (((g->live + 1) * 2ull > (g->slots ? g->mask + 1 : 0) && !graph__grow(g)) ||
	    !(num = graph__number(g))) {
		g->env.lost[MT_LOSS_BLOCKS]++;
		return NULL;
	}
	f = graph__at(g, num);
	*f = (struct fblock){ .id = b->id, .size = b->size, .blk = b, .dev = d, .spans_cnt = 1 };
	f->spans = &f->one;
	f->one = (struct label_span){
		/* a block from before a window is counted from its begin on */
		.ts_ns = b->allocated_ts_ns > *g->env.start_ts_ns ? b->allocated_ts_ns : *g->env.start_ts_ns,
		.epoch = b->id <= d->peak_blocks.last_id && d->epoch ? d->epoch - 1 : d->epoch,
		.shown = (uint8_t)b->cat,
	};
	f->flags = b->late ? FB_LATE : 0;
	f->marks = g->env.classes == CLASSES_EXTENDED ? FM_ON : 0;
	g->slots[graph__probe(g, b->id)] = num;
	g->live++;
	b->tracked = 1;
	return f;
}

static bool is_at_peak(const struct fblock *f, const struct label_span *s, const struct label_span *next)
{
	uint64_t end_epoch = next ? next->epoch : f->blk ? UINT64_MAX : f->end_epoch;

	return s->epoch < f->dev->epoch && f->dev->epoch <= end_epoch;
}

static void fblock__plain_at_peak(const struct fblock *f, int64_t moved[CAT_MAX])
{
	for (unsigned i = 0; i < f->spans_cnt; i++) {
		const struct label_span *s = &f->spans[i], *next = i + 1u < f->spans_cnt ? s + 1 : NULL;
		uint8_t to = fblock__plain(f, s->shown);

		if (to == s->shown || !is_at_peak(f, s, next))
			continue;
		moved[s->shown] -= (int64_t)f->size;
		moved[to] += (int64_t)f->size;
	}
}

void graph__plain(const struct graph *g, struct device *const *devs, unsigned cnt, int64_t (*moved)[CAT_MAX])
{
	const struct fblock *f;
	uint32_t num = 0;

	memset(moved, 0, cnt * sizeof(*moved));
	if (g->env.classes == CLASSES_EXTENDED)
		return;
	for (unsigned i = 0; i < cnt; i++)
		if (devs[i]->plain_epoch == devs[i]->epoch)
			memcpy(moved[i], devs[i]->plain, sizeof(devs[i]->plain));
	while ((f = graph__each(g, &num)))
		fblock__plain_at_peak(f, moved[f->dev->idx]);
}

void graph__remove(struct graph *g, struct fblock *f)
{
	uint64_t i = graph__probe(g, f->id), mask = g->mask;
	uint32_t num = g->slots[i];

	if (f->dev->plain_epoch != f->dev->epoch) { /* removed blocks were freed before a new peak */
		memset(f->dev->plain, 0, sizeof(f->dev->plain));
		f->dev->plain_epoch = f->dev->epoch;
	}
	fblock__plain_at_peak(f, f->dev->plain);
	for (uint64_t j = (i + 1) & mask; g->slots[j]; j = (j + 1) & mask) {
		uint64_t home = home_of(g, graph__at(g, g->slots[j])->id);

		if (((j - home) & mask) >= ((j - i) & mask)) {
			g->slots[i] = g->slots[j];
			i = j;
		}
	}
	g->slots[i] = 0;
	if (f->spans != &f->one)
		free(f->spans);
	free(f->sources);
	memset(f, 0, sizeof(*f));
	f->size = g->free_head;
	g->free_head = num;
	g->live--;
}

struct fblock *graph__each(const struct graph *g, uint32_t *num)
{
	while (*num < g->used) {
		struct fblock *f = graph__at(g, ++*num);

		if (f->id)
			return f;
	}
	return NULL;
}

/* --- labels ------------------------------------------------------------------------------------------ */

bool graph__memory(const struct graph *g, uint64_t id, struct event *ret)
{
	const struct fblock *f = graph__find(g, id);
	const struct label_span *s = f ? &f->spans[f->spans_cnt - 1] : NULL;

	if (!f)
		return false;
	event_put_was_flow(ret, &(struct ev_was_flow){
		.flags = f->flags, .marks = f->marks, .made = f->made, .category = s->cat, .by_backward = s->bwd,
		.shown = f->expected && !s->cat ? f->expected - 1 : s->guess });
	return true;
}

void graph__was(struct graph *g, struct block *b, const struct event *ev)
{
	struct ev_was_flow w = event_was_flow(ev);
	struct fblock *f = b->tracked ? NULL : graph__add(g, b);
	struct fproc *p = f ? graph__proc(g, b->pid) : NULL;

	if (!f)
		return;
	f->flags = w.flags & FB_ALL;
	f->acc_step = UINT32_MAX; /* its AccumulateGrad was in a step before */
	f->made = w.made & MADE_ALL;
	if (f->marks)
		f->marks |= w.marks & FM_ALL;
	f->one.cat = w.category < CAT_COMPAT_MAX ? w.category : CAT_UNKNOWN;
	f->one.guess = w.shown < CAT_COMPAT_MAX ? w.shown : CAT_UNKNOWN;
	f->one.bwd = w.by_backward;
	if (p && !(f->flags & (FB_STALE | FB_LATE)) && (f->one.guess || !(f->flags & FB_TOUCHED)))
		ids__push(&p->allocated, f->id, WINDOW_EDGES); /* of the step under way: guesses about it end with that */
	fblock__refresh(g, f);
}

struct arg_of {
	const struct graph *g;
	struct event frame;
	event_fn fn;
	void *ctx;
};

static int arg_of__give(const struct arg_of *a, uint64_t id, uint8_t place, uint8_t flags)
{
	const struct fblock *f = graph__find(a->g, id);
	struct event ev = {
		.ts_ns = a->frame.ts_ns, .kind = EV_ARG, .pid = a->frame.pid, .tid = a->frame.tid, .seq = a->frame.seq,
		.depth = (uint8_t)(a->frame.depth + 1), .aux = event_arg_aux(place, flags, 0), .flags = MT_CLASS_PLAIN,
	};

	if (!f || !f->blk)
		return 0;
	ev.dev = (uint8_t)f->blk->dev;
	ev.addr = f->blk->ptr;
	ev.size = f->size;
	return a->fn(a->ctx, &ev);
}

#define NO_PLACE (EV_ARG_INSIDE - 1) /* what places mean was taken up before */

int graph__each_of_frame(const struct graph *g, const struct thread *th, unsigned frame, struct event ev, event_fn fn,
			 void *ctx)
{
	const struct fthread *t = graph__thread_at(g, th);
	const struct arg_of a = { .g = g, .frame = ev, .fn = fn, .ctx = ctx };
	bool has_edges = t && t->pid == th->pid && t->tid == th->tid && t->leaf == (int)frame && t->leaf_seq == ev.seq;
	int r;

	ev.flags |= th->frames[frame].class == OPC_PY_NODE && ev.kind == MT_EV_NODE ? MT_NODE_PYTHON : 0;
	r = fn(ctx, &ev);
	for (uint32_t i = 0; !r && has_edges && i < t->edges.cnt; i++) {
		const struct edge *e = &t->edges.e[i];

		if (!(e->flags & EDGE_ALLOC))
			r = arg_of__give(&a, e->id, e->flags & EDGE_FALSE ? EV_ARG_INSIDE : NO_PLACE,
					 e->flags & EDGE_TRUE ? MT_FLOW_F_WRITTEN : 0);
	}
	return r;
}

/* Moves a span's bytes and byte·time. `until`: its end; last: it is the block's present label. */
static void fblock__move(struct graph *g, struct fblock *f, struct label_span *s, const struct label_span *next, uint8_t to)
{
	uint64_t now = gaps__clock(g->env.gaps, *g->env.now_ns);
	uint64_t end = next ? next->ts_ns : f->blk ? *g->env.now_ns : f->end_ns;
	struct device *d = f->dev;
	struct device_cat *a = &d->cats[s->shown], *b = &d->cats[to];
	uint64_t since = gaps__clock(g->env.gaps, s->ts_ns), until = gaps__clock(g->env.gaps, end);
	unsigned __int128 w = (unsigned __int128)f->size * (until - since);

	device_cat__settle(a, d->epoch, now);
	device_cat__settle(b, d->epoch, now);
	a->byte_ns -= w;
	b->byte_ns += w;
	if (is_at_peak(f, s, next)) {
		a->at_peak -= f->size;
		b->at_peak += f->size;
	}
	highs__relabel(&d->highs, s->shown, to, f->size, since, next || !f->blk ? until : UINT64_MAX);
	sampled__relabel(d, g->env.sampled, s->shown, to, f->size, since, next || !f->blk ? until : UINT64_MAX);
	if (!next && f->blk) {
		a->live -= f->size;
		b->live += f->size;
		f->blk->cat = to;
		modules__gradient(g->env.modules, f->blk);
	} else if (!next) {
		peak__relabel(&d->peak_blocks, f->id, to);
	}
	s->shown = to;
}

static void fblock__tell(const struct graph *g, const struct fblock *f, uint8_t kind)
{
	if (f->blk && !f->record_comes)
		g->env.tell_block(g->env.ctx, kind, f->blk, f->ver);
}

void fblock__refresh(struct graph *g, struct fblock *f)
{
	for (unsigned i = 0; i < f->spans_cnt; i++) {
		struct label_span *s = &f->spans[i], *next = i + 1u < f->spans_cnt ? s + 1 : NULL;
		uint8_t to = fblock__cat(f, s);

		if (to != s->shown) {
			fblock__move(g, f, s, next, to);
			if (!next)
				fblock__tell(g, f, TL_LABEL);
		}
	}
}

uint8_t graph__lasting(const struct graph *g, uint64_t id)
{
	const struct fblock *f = graph__find(g, id);
	const struct label_span *longest = NULL;
	uint64_t most = 0;

	for (unsigned i = 0; f && i < f->spans_cnt; i++) {
		uint64_t end = i + 1u < f->spans_cnt ? f->spans[i + 1].ts_ns : f->blk ? *g->env.now_ns : f->end_ns;

		if (longest && end - f->spans[i].ts_ns < most)
			continue;
		longest = &f->spans[i];
		most = end - longest->ts_ns;
	}
	return longest ? fblock__settled(f, longest) : CAT_MAX;
}

/* A version's label is not expected of a whole block; most of these are known at allocation anyway. */
static void graph__learn(struct graph *g, const struct fblock *f)
{
	struct habit *h = &g->habits[f->habit % HABITS];
	uint8_t cat = f->spans[f->spans_cnt - 1].shown;

	if (!f->habit)
		return;
	if ((f->flags & FB_TOUCHED) && !(f->flags & (FB_STRONG | FB_TEMP | FB_WEAK)))
		cat = CAT_MAX;
	if (h->place != f->habit || h->cat != cat)
		*h = (struct habit){ .place = f->habit, .cat = cat };
	h->times += h->times < HABIT_SURE;
}

void fblock__end(struct graph *g, struct fblock *f)
{
	/* ends expectations, and guesses about blocks that were no tensors */
	if (!(f->flags & FB_TOUCHED))
		f->flags |= FB_STALE;
	f->expected = 0;
	fblock__refresh(g, f);
	graph__learn(g, f);
	f->blk = NULL;
	f->record_comes = false;
	f->end_ns = *g->env.now_ns;
	f->end_epoch = f->dev->epoch;
}

/* Not seeded: which places share an entry decides what is expected, and must be the same in each replay. */
void graph__expect(struct graph *g, struct fblock *f, uint32_t ordinal)
{
	uint64_t x = ((uint64_t)f->blk->op << 40 | (uint64_t)f->blk->region << 20 | ordinal) ^
		     f->size * 0x9e3779b97f4a7c15u;
	const struct habit *h;

	x *= 0xbf58476d1ce4e5b9u;
	f->habit = (uint32_t)(x >> 32) | 1u << 31;
	h = &g->habits[f->habit % HABITS];
	if (h->place == f->habit && h->times == HABIT_SURE && h->cat < CAT_MAX)
		f->expected = (uint8_t)(h->cat + 1);
}

struct label_span *fblock__span(struct fblock *f, uint32_t ver)
{
	unsigned i = f->spans_cnt;

	while (i > 1 && f->spans[i - 1].ver > ver)
		i--;
	return &f->spans[i - 1];
}

static void label_span__drop(struct fblock *f, unsigned i)
{
	memmove(&f->spans[i], &f->spans[i + 1], (f->spans_cnt - i - 1u) * sizeof(*f->spans));
	f->spans_cnt--;
}

/* Room for one more: two neighbours with the same label become one, else the two oldest. */
static void fblock__squeeze(struct graph *g, struct fblock *f)
{
	struct label_span *s = f->spans;

	for (unsigned i = 1; i < f->spans_cnt; i++) {
		if (s[i].cat == s[i - 1].cat && s[i].shown == s[i - 1].shown && s[i].guess == s[i - 1].guess) {
			label_span__drop(f, i);
			return;
		}
	}
	if (s[0].shown != s[1].shown)
		fblock__move(g, f, &s[0], &s[1], s[1].shown);
	s[0].cat = s[1].cat;
	s[0].guess = s[1].guess;
	label_span__drop(f, 1);
}

static bool fblock__room(struct graph *g, struct fblock *f)
{
	struct label_span *spans;

	if (f->spans != &f->one) {
		if (f->spans_cnt == SPANS_MAX)
			fblock__squeeze(g, f);
		return true;
	}
	spans = malloc(SPANS_MAX * sizeof(*spans));
	if (!spans) {
		g->env.lost[MT_LOSS_BLOCKS]++;
		return false;
	}
	spans[0] = f->one;
	f->spans = spans;
	return true;
}

void fblock__bump(struct graph *g, struct fblock *f, uint64_t ts_ns, bool bwd)
{
	struct label_span *last = &f->spans[f->spans_cnt - 1];
	uint64_t end = f->blk ? *g->env.now_ns : f->end_ns;

	if (f->ver == UINT32_MAX)
		return;
	f->ver++;
	if (!(f->flags & (FB_STRONG | FB_TEMP | FB_WEAK)) && fblock__room(g, f)) {
		last = &f->spans[f->spans_cnt - 1];
		ts_ns = ts_ns < last->ts_ns ? last->ts_ns : ts_ns > end ? end : ts_ns;
		f->spans[f->spans_cnt++] = (struct label_span){
			.ts_ns = ts_ns, .ver = f->ver, .guess = last->cat ? last->cat : last->guess,
			.shown = last->shown, .bwd = bwd,
			.epoch = f->blk ? f->dev->epoch : f->end_epoch,
		};
	}
	fblock__refresh(g, f);
	fblock__tell(g, f, TL_VERSION);
}

/* --- small lists ------------------------------------------------------------------------------------- */

bool ids__push(struct ids *ids, uint64_t id, uint32_t max)
{
	if (ids->cnt >= max || !array_has_room(ids->v, ids->cnt, ids->cap, 64))
		return false;
	ids->v[ids->cnt++] = id;
	return true;
}

struct edge *edges__push(struct edges *es, uint32_t max)
{
	if (es->cnt >= max || !array_has_room(es->e, es->cnt, es->cap, 64))
		return NULL;
	return &es->e[es->cnt++];
}

static void fblock__check(const struct graph *g, const struct fblock *f)
{
	mt_check(graph__find(g, f->id) == f);
	mt_check(f->spans_cnt >= 1 && f->spans_cnt <= SPANS_MAX && f->sources_cnt <= SOURCES_MAX);
	mt_check(!f->blk || (f->blk->id == f->id && f->blk->tracked && f->blk->size == f->size));
	mt_check(!f->blk || f->blk->cat == f->spans[f->spans_cnt - 1].shown);
	mt_check(f->spans[0].ver == 0);
	for (unsigned i = 0; i < f->spans_cnt; i++) {
		const struct label_span *s = &f->spans[i];

		mt_check(s->ver <= f->ver && s->shown < CAT_MAX && s->shown == fblock__cat(f, s));
		mt_check(!i || (s[-1].ver < s->ver && s[-1].ts_ns <= s->ts_ns && s[-1].epoch <= s->epoch));
		mt_check(s->ts_ns <= (f->blk ? *g->env.now_ns : f->end_ns));
	}
}

/* A block is in a node once, whatever other threads do to its mark meanwhile. */
static void fthread__check(const struct graph *g, const struct fthread *t)
{
	mt_check(t->leaf < MT_FRAMES_MAX && t->acc < MT_FRAMES_MAX);
	mt_check(t->leaf >= 0 || !t->edges.cnt);
	for (uint32_t i = 0; i < t->edges.cnt; i++) {
		const struct edge *e = &t->edges.e[i];
		const struct fblock *f = graph__find(g, e->id);

		mt_check(!f || e->ver + !!(e->flags & EDGE_BUMPED) <= f->ver);
		for (uint32_t k = 0; k < i && k < 64; k++)
			mt_check(t->edges.e[k].id != e->id);
	}
}

static void fproc__check(const struct graph *g, const struct fproc *p)
{
	const struct outbox *o = &p->out;
	uint32_t open = 0, edges = 0;

	for (size_t i = 0; i < g->threads_cnt; i++)
		open += g->threads[i]->proc == p && g->threads[i]->leaf >= 0;
	mt_check(open == p->open_nodes);
	mt_check(p->nodes_cnt <= WINDOW_NODES && p->edges.cnt <= WINDOW_EDGES);
	for (uint32_t i = 0; i < p->nodes_cnt; i++) {
		mt_check(p->nodes[i].edges_at == edges && p->nodes[i].step <= p->steps);
		mt_check(!i || p->nodes[i - 1].step <= p->nodes[i].step);
		edges += p->nodes[i].edges_cnt;
	}
	mt_check(edges == p->edges.cnt);
	mt_check(o->at <= o->cnt && o->cnt <= OUTBOX_NODES && o->edges.cnt <= OUTBOX_EDGES);
	mt_check(g->env.nodes || !o->cnt);
	edges = o->edges_at;
	for (uint32_t i = o->at; i < o->cnt; i++)
		edges += o->nodes[i].edges_cnt;
	mt_check(edges == o->edges.cnt);
}

void graph__check(const struct graph *g)
{
	uint32_t in_use = 0, dead = 0;
	const struct block *b;
	size_t pos = 0;

	for (uint32_t num = 1; num <= g->used; num++) {
		const struct fblock *f = graph__at(g, num);

		if (!f->id)
			continue;
		in_use++;
		dead += !f->blk;
		fblock__check(g, f);
	}
	mt_check(in_use == g->live);
	for (size_t i = 0; i < g->threads_cnt; i++)
		fthread__check(g, g->threads[i]);
	for (size_t i = 0; i < g->procs_cnt; i++) {
		const struct fproc *p = g->procs[i];

		fproc__check(g, p);
		for (uint32_t k = p->dead_at; k < p->dead.cnt; k++) {
			const struct fblock *f = graph__find(g, p->dead.v[k]);

			mt_check(!f || !f->blk);
			dead -= f != NULL;
		}
	}
	mt_check(!dead); /* each dead block waits in one window */
	while ((b = blocks__next(g->env.blocks, &pos)))
		mt_check(b->tracked == (graph__find(g, b->id) != NULL) && (b->tracked || !b->cat));
}

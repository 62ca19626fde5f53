/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "estimate/recorded.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/free.h"
#include "base/index.h"
#include "base/regions.h"
#include "base/seed.h"

#define STACK_DEPTH 64

/* Attention in plain operators: float16 and bfloat16 go to float32 first (aten/src/ATen/native/transformers/attention.cpp). */
#define WIDE_OP "aten::_scaled_dot_product_attention_math"

/* Blocks that a thread's last node uses: the use ends when its next node begins. */
struct recorded_thread {
	uint32_t pid, tid;
	uint64_t since_ns;
	name_id op;
	uint64_t *ids;
	size_t cnt, cap;
	int is_forward;	    /* the node is in no backward and no optimizer */
	uint32_t wide_from; /* depth of the open operator that computes in float32, + 1; 0: none */
};

void recorded__init(struct recorded *r)
{
	*r = (struct recorded){ 0 };
}

void recorded__done(struct recorded *r)
{
	for (size_t i = 0; i < r->threads_cnt; i++)
		free(r->threads[i].ids);
	free_all(r->threads, r->blocks, r->frames, r->steps);
	*r = (struct recorded){ 0 };
}

/* --- threads --------------------------------------------------------------------------------------------- */

/* NULL: a thread too many, or no memory. */
static struct recorded_thread *recorded__thread(struct recorded *r, uint32_t pid, uint32_t tid)
{
	struct recorded_thread *t = r->threads ? &r->threads[r->thread_at] : NULL;

	if (t && t->pid == pid && t->tid == tid)
		return t;
	for (size_t i = 0; i < r->threads_cnt; i++)
		if (r->threads[i].pid == pid && r->threads[i].tid == tid)
			return &r->threads[r->thread_at = i];
	if (r->threads_cnt == RECORDED_THREADS_MAX)
		return NULL;
	if (!array_has_one_more(r->threads, r->threads_cnt))
		return NULL;
	r->thread_at = r->threads_cnt++;
	t = &r->threads[r->thread_at];
	*t = (struct recorded_thread){ .pid = pid, .tid = tid };
	return t;
}

/* Each name is compared once. */
static int is_wide_op(struct recorded *r, name_id op)
{
	for (; r->ops_seen < op.v && !r->wide_op; r->ops_seen++)
		if (!strcmp(names__get(r->names, (name_id){ r->ops_seen + 1 }), WIDE_OP))
			r->wide_op = r->ops_seen + 1;
	return op.v && op.v == r->wide_op;
}

/* An operator that is not deeper than an open one ends it. */
static int on_op(struct recorded *r, const struct tl_event *ev)
{
	int is_wide = is_wide_op(r, ev->op);
	struct recorded_thread *t = r->wide_op ? recorded__thread(r, ev->pid, ev->tid) : NULL;

	if (!t)
		return r->wide_op && r->threads_cnt < RECORDED_THREADS_MAX ? -ENOMEM : 0;
	if (t->wide_from && ev->depth < t->wide_from)
		t->wide_from = 0;
	if (is_wide && !t->wide_from)
		t->wide_from = ev->depth + 1u;
	return 0;
}

static int is_in_wide(struct recorded *r, const struct tl_event *alloc)
{
	struct recorded_thread *t = r->wide_op ? recorded__thread(r, alloc->pid, alloc->tid) : NULL;

	return t && t->wide_from && alloc->depth >= t->wide_from;
}

/* --- blocks ---------------------------------------------------------------------------------------------- */

static struct recorded_block *recorded__block(const struct recorded *r, uint64_t id)
{
	return id < r->blocks_cap && r->blocks[id].alloc_ns ? &r->blocks[id] : NULL;
}

/* The innermost Python function of a stack that is not in an installed package; else the innermost one. */
static uint32_t python_line(const struct recorded *r, uint32_t stack)
{
	uint32_t innermost = 0;

	for (unsigned i = 0; stack && stack < r->frames_cap && i < STACK_DEPTH; i++) {
		const struct recorded_frame *f = &r->frames[stack];

		if (f->kind == EV_FRAME_PYTHON && !strstr(names__get(r->names, f->file), "-packages/"))
			return stack;
		if (f->kind == EV_FRAME_PYTHON && !innermost)
			innermost = stack;
		stack = f->parent;
	}
	return innermost;
}

static int on_alloc(struct recorded *r, const struct tl_event *ev)
{
	struct recorded_block *b;

	if (ev->size == TL_SIZE_UNKNOWN || !ev->size)
		return 0;
	if (ev->id >= RECORDED_BLOCKS_MAX) {
		r->left_out++;
		return 0;
	}
	if (!array_reaches(r->blocks, r->blocks_cap, ev->id, 1024))
		return -ENOMEM;
	b = &r->blocks[ev->id];
	*b = (struct recorded_block){ .size = ev->size, .alloc_ns = ev->ts_ns ? ev->ts_ns : 1, .op = ev->op,
				      .region = ev->region, .module = ev->module, .root = ev->root, .pid = ev->pid,
				      .dev = ev->dev, .phase = ev->phase, .is_wide = is_in_wide(r, ev) };
	b->line = python_line(r, ev->stack);
	r->last_id = ev->id > r->last_id ? ev->id : r->last_id;
	r->devs[ev->dev].now += ev->size;
	if (r->devs[ev->dev].now > r->devs[ev->dev].peak) {
		r->devs[ev->dev].peak = r->devs[ev->dev].now;
		r->devs[ev->dev].peak_ns = b->alloc_ns;
	}
	return 0;
}

static void on_free(struct recorded *r, const struct tl_event *ev)
{
	struct recorded_block *b = recorded__block(r, ev->id);

	if (!b || b->free_ns)
		return;
	b->free_ns = ev->ts_ns > b->alloc_ns ? ev->ts_ns : b->alloc_ns;
	if (ev->root.v) { /* modules get their names late */
		b->module = ev->module;
		b->root = ev->root;
	}
	r->devs[b->dev].now -= b->size;
}

static void on_final(struct recorded *r, const struct tl_event *ev)
{
	struct recorded_block *b = recorded__block(r, ev->id);

	if (b)
		b->cat = ev->cat;
}

static void on_name(struct recorded *r, const struct tl_event *ev)
{
	struct recorded_block *b = recorded__block(r, ev->id);

	if (!b)
		return;
	b->path = ev->op;
	b->type = ev->type;
	b->kind = ev->depth;
}

uint64_t recorded_block__free_ns(const struct recorded_block *b)
{
	uint64_t used = b->used_ns > b->alloc_ns ? b->used_ns : b->alloc_ns + 1;

	if (!b->free_ns || !b->used_ns)
		return b->free_ns;
	return used < b->free_ns ? used : b->free_ns;
}

/* --- nodes ----------------------------------------------------------------------------------------------- */

static void node_ends(struct recorded *r, struct recorded_thread *t, uint64_t ts_ns)
{
	for (size_t i = 0; i < t->cnt; i++) {
		struct recorded_block *b = recorded__block(r, t->ids[i]);

		if (b && ts_ns >= b->used_ns) {
			b->used_ns = ts_ns;
			b->last_op = t->op;
			b->forward_used_ns = t->is_forward ? ts_ns : b->forward_used_ns;
		}
	}
	t->cnt = 0;
}

static int is_use(const struct tl_event *node, const struct tl_edge *e)
{
	return e->flags & (TL_EDGE_GIVEN | TL_EDGE_WRITTEN) || (node->op.v && e->flags & TL_EDGE_ALLOCATED);
}

static int is_forward(const struct recorded *r, const struct tl_event *node)
{
	const char *region = names__get(r->names, node->region);

	return node->op.v && !strstr(region, "Backward") && strncmp(region, REGION_OPTIMIZER, strlen(REGION_OPTIMIZER)) &&
	       !strstr(region, "AccumulateGrad");
}

static int on_node(struct recorded *r, const struct tl_event *ev)
{
	struct recorded_thread *t = recorded__thread(r, ev->pid, ev->tid);

	r->nodes++;
	if (!t)
		return r->threads_cnt == RECORDED_THREADS_MAX ? 0 : -ENOMEM;
	node_ends(r, t, ev->ts_ns > t->since_ns ? ev->ts_ns : t->since_ns);
	t->since_ns = ev->ts_ns > t->since_ns ? ev->ts_ns : t->since_ns;
	t->op = ev->op;
	t->is_forward = is_forward(r, ev);
	for (uint32_t i = 0; i < ev->edges_cnt; i++) {
		if (!is_use(ev, &ev->edges[i]))
			continue;
		if (!array_reaches(t->ids, t->cap, t->cnt, 1024))
			return -ENOMEM;
		t->ids[t->cnt++] = ev->edges[i].id;
	}
	return 0;
}

/* --- the stream ------------------------------------------------------------------------------------------ */

static int on_frame(struct recorded *r, const struct tl_event *ev)
{
	if (ev->node >= RECORDED_BLOCKS_MAX)
		return 0;
	if (!array_reaches(r->frames, r->frames_cap, ev->node, 1024))
		return -ENOMEM;
	r->frames[ev->node] = (struct recorded_frame){ .function = ev->function, .file = ev->file, .line = ev->line,
						       .parent = (uint32_t)ev->parent, .kind = ev->frame_kind };
	return 0;
}

/* Step marks where there are any, else the beginnings of Optimizer.step. */
static int on_step(struct recorded *r, const struct tl_event *ev, int is_mark)
{
	if (is_mark && !r->has_marks) {
		r->has_marks = 1;
		r->steps_cnt = 0;
	}
	if (is_mark != r->has_marks || r->steps_cnt == RECORDED_STEPS_MAX)
		return 0;
	if (!array_reaches(r->steps, r->steps_cap, 2 * r->steps_cnt + 1, 1024))
		return -ENOMEM;
	r->steps[2 * r->steps_cnt] = ev->pid;
	r->steps[2 * r->steps_cnt++ + 1] = ev->ts_ns;
	return 0;
}

int recorded__event(struct recorded *r, const struct tl_event *ev)
{
	switch (ev->kind) {
	case TL_NODE:
		return on_node(r, ev);
	case TL_FINAL:
		on_final(r, ev);
		return 0;
	case TL_NAME:
		on_name(r, ev);
		return 0;
	default:
		break;
	}
	r->last_ns = ev->ts_ns > r->last_ns ? ev->ts_ns : r->last_ns;
	switch (ev->kind) {
	case TL_CREATE:
	case TL_PREEXISTING:
		return on_alloc(r, ev);
	case TL_DESTROY:
		on_free(r, ev);
		return 0;
	case TL_OP:
		return on_op(r, ev);
	case TL_STACK:
		return on_frame(r, ev);
	case TL_STEP:
		return on_step(r, ev, 1);
	case TL_REGION:
		return region_is_step(names__get(r->names, ev->region)) ? on_step(r, ev, 0) : 0;
	default:
		return 0;
	}
}

void recorded__end(struct recorded *r)
{
	for (size_t i = 0; i < r->threads_cnt; i++)
		node_ends(r, &r->threads[i], r->last_ns > r->threads[i].since_ns ? r->last_ns : r->threads[i].since_ns);
}

void recorded__began(struct recorded *r, uint64_t ts_ns)
{
	r->first_ns = ts_ns;
}

void recorded__peak_was(struct recorded *r, uint8_t dev, uint64_t bytes, uint64_t ts_ns)
{
	if (r->devs[dev].peak == bytes && ts_ns >= r->devs[dev].peak_ns)
		r->devs[dev].peak_ns = ts_ns;
}

uint8_t recorded__dev(const struct recorded *r)
{
	unsigned best = 0;

	for (unsigned dev = RECORDED_DEVS; dev-- > 3;) /* devices of GPUs follow the host's */
		if (r->devs[dev].peak > r->devs[best].peak)
			best = dev;
	return (uint8_t)(best ? best : r->devs[1].peak ? 1 : 0);
}

/* --- what was kept --------------------------------------------------------------------------------------- */

struct block_end { /* begins with ns: u64_cmp */
	uint64_t ns, size;
};

/* Allocations are in the order of ids; ends are sorted. At the same time an end comes first. */
static void lowest_peak(struct recorded_kept *k, const struct recorded *r, const struct block_end *ends, size_t cnt)
{
	int64_t now = 0;
	size_t at = 0;

	for (uint64_t id = 1; id <= r->last_id; id++) {
		const struct recorded_block *b = recorded__block(r, id);

		if (!b || b->dev != k->dev)
			continue;
		for (; at < cnt && ends[at].ns <= b->alloc_ns; at++)
			now -= (int64_t)ends[at].size;
		now += (int64_t)b->size;
		if (now > (int64_t)k->lowest)
			k->lowest = (uint64_t)now;
	}
}

static int sweep(struct recorded_kept *k, const struct recorded *r)
{
	struct block_end *ends;
	size_t cnt = 0;

	for (uint64_t id = 1; id <= r->last_id; id++) {
		const struct recorded_block *b = recorded__block(r, id);

		cnt += b && b->dev == k->dev && b->free_ns;
	}
	ends = malloc((cnt + 1) * sizeof(*ends));
	if (!ends)
		return -ENOMEM;
	cnt = 0;
	for (uint64_t id = 1; id <= r->last_id; id++) {
		const struct recorded_block *b = recorded__block(r, id);

		/* never before its allocation: that would take off what is not there yet */
		if (b && b->dev == k->dev && b->free_ns) {
			uint64_t ns = recorded_block__free_ns(b);

			ends[cnt++] = (struct block_end){ ns > b->alloc_ns ? ns : b->alloc_ns + 1, b->size };
		}
	}
	qsort(ends, cnt, sizeof(*ends), u64_cmp);
	lowest_peak(k, r, ends, cnt);
	free(ends);
	return 0;
}

/* --- rows ------------------------------------------------------------------------------------------------ */

static int is_alive(const struct recorded_block *b, uint64_t ns)
{
	return b->alloc_ns <= ns && (!b->free_ns || b->free_ns > ns);
}

struct row_map {
	struct recorded_row *rows;
	size_t cnt, cap;
	struct index by_maker;
};

static int is_same(const struct recorded_row *row, const struct recorded_block *b)
{
	return row->op.v == b->op.v && row->region.v == b->region.v && row->last_op.v == b->last_op.v && row->line == b->line &&
	       row->module.v == b->module.v && row->root.v == b->root.v;
}

/* NULL: no memory. */
static struct recorded_row *row_of(struct row_map *m, const struct recorded_block *b)
{
	uint64_t hash = hash_two(hash_two((uint64_t)b->op.v << 32 | b->region.v, (uint64_t)b->last_op.v << 32 | b->line),
				 (uint64_t)b->module.v << 32 | b->root.v);
	uint32_t at = index_find(&m->by_maker, hash, i, is_same(&m->rows[i], b));

	if (at != INDEX_NONE)
		return &m->rows[at];
	if (!array_has_room(m->rows, m->cnt, m->cap, 64) || index__add(&m->by_maker, hash, (uint32_t)m->cnt) < 0)
		return NULL;
	m->rows[m->cnt] = (struct recorded_row){ .op = b->op, .region = b->region, .last_op = b->last_op,
						 .module = b->module, .root = b->root, .line = b->line };
	return &m->rows[m->cnt++];
}

static int by_weight(const void *a, const void *b)
{
	const struct recorded_row *x = a, *y = b;

	return cmp_down(x->at_peak, y->at_peak) ?: cmp_down(x->byte_ns, y->byte_ns) ?: cmp_up(x->op.v, y->op.v) ?:
	       cmp_up(x->region.v, y->region.v) ?: cmp_up(x->last_op.v, y->last_op.v) ?: cmp_up(x->line, y->line) ?:
	       cmp_up(x->module.v, y->module.v) ?: cmp_up(x->root.v, y->root.v);
}

static int kept_rows(struct recorded_kept *k, const struct recorded *r)
{
	struct row_map map = { 0 };

	for (uint64_t id = 1; id <= r->last_id; id++) {
		const struct recorded_block *b = recorded__block(r, id);
		uint64_t end = b ? recorded_block__free_ns(b) : 0;
		struct recorded_row *row;

		if (!b || b->dev != k->dev || !end || end >= b->free_ns)
			continue;
		row = row_of(&map, b);
		if (!row) {
			index__done(&map.by_maker);
			free(map.rows);
			return -ENOMEM;
		}
		row->blocks++;
		row->bytes += b->size;
		row->byte_ns += (double)b->size * (double)(b->free_ns - end);
		k->kept_blocks++;
		k->kept_bytes += b->size;
		k->kept_byte_ns += (double)b->size * (double)(b->free_ns - end);
		if (is_alive(b, k->peak_ns) && end <= k->peak_ns) {
			row->at_peak += b->size;
			k->kept_at_peak += b->size;
		}
	}
	index__done(&map.by_maker);
	if (map.cnt)
		qsort(map.rows, map.cnt, sizeof(*map.rows), by_weight);
	k->rows = map.rows;
	k->rows_cnt = map.cnt;
	return 0;
}

/* --- the process and the step of the peak ---------------------------------------------------------------- */

static uint32_t heaviest_pid(const struct recorded_kept *k, const struct recorded *r)
{
	struct {
		uint32_t pid;
		uint64_t bytes;
	} pids[64] = { { 0 } };
	size_t cnt = 0, best = 0;

	for (uint64_t id = 1; id <= r->last_id; id++) {
		const struct recorded_block *b = recorded__block(r, id);
		size_t i = 0;

		if (!b || b->dev != k->dev || !is_alive(b, k->peak_ns))
			continue;
		while (i < cnt && pids[i].pid != b->pid)
			i++;
		if (i == sizeof(pids) / sizeof(pids[0]))
			continue;
		cnt += i == cnt;
		pids[i].pid = b->pid;
		pids[i].bytes += b->size;
	}
	for (size_t i = 0; i < cnt; i++)
		best = pids[i].bytes > pids[best].bytes ? i : best;
	return pids[best].pid;
}

static void step_around(struct recorded_kept *k, const struct recorded *r)
{
	k->step_from = 0;
	k->step_to = UINT64_MAX;
	for (size_t i = 0; i < r->steps_cnt; i++) {
		uint64_t ns = r->steps[2 * i + 1];

		if (r->steps[2 * i] != k->pid)
			continue;
		if (ns <= k->peak_ns) {
			k->step_from = ns;
		} else {
			k->step_to = ns;
			break;
		}
	}
	k->has_step = k->step_from && k->step_to != UINT64_MAX;
}

int recorded_kept__last_step(struct recorded_kept *k, const struct recorded *r)
{
	uint64_t from = 0, to = 0;

	for (size_t i = 0; i < r->steps_cnt; i++)
		if (r->steps[2 * i] == k->pid) {
			from = to;
			to = r->steps[2 * i + 1];
		}
	if (!from)
		return -ENOENT;
	k->step_from = from;
	k->step_to = to;
	k->has_step = 1;
	return 0;
}

int recorded_kept__step_before(struct recorded_kept *k, const struct recorded *r)
{
	uint64_t from = 0;

	for (size_t i = 0; k->has_step && i < r->steps_cnt; i++)
		if (r->steps[2 * i] == k->pid && r->steps[2 * i + 1] < k->step_from)
			from = r->steps[2 * i + 1];
	if (!from)
		return -ENOENT;
	k->step_to = k->step_from;
	k->step_from = from;
	return 0;
}

int recorded_kept__init(struct recorded_kept *k, const struct recorded *r, uint8_t dev)
{
	int e;

	*k = (struct recorded_kept){ .dev = dev, .peak = r->devs[dev].peak, .peak_ns = r->devs[dev].peak_ns };
	e = sweep(k, r);
	if (!e)
		e = kept_rows(k, r);
	if (e < 0) {
		recorded_kept__done(k);
		return e;
	}
	k->pid = heaviest_pid(k, r);
	step_around(k, r);
	return 0;
}

void recorded_kept__done(struct recorded_kept *k)
{
	free(k->rows);
	*k = (struct recorded_kept){ 0 };
}

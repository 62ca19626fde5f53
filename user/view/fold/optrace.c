/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/optrace.h"

#include <errno.h>
#include <stdlib.h>

#include "timeline/labels.h"
#include "timeline/selection.h"
#include "timeline/spans.h"
#include "view/fold/live.h"
#include "view/fold/open_frames.h"

/* A line, the operator around it, and a mark that is written before it. */
struct waiting {
	struct optrace_line line;
	uint64_t around; /* place of the operator around it + 1; 0: none */
	struct {
		uint64_t ts_ns, allocated, reserved;
		uint8_t kind; /* 0: none */
	} mark;
	uint8_t has_phase; /* known from an allocation in it */
};

struct optrace {
	optrace_fn line;
	void *ctx;
	const struct export_to *to;
	struct live *live;
	struct open_frames *open; /* operators alone: each is the place of its line in the order of lines */
	struct waiting *lines;	    /* a ring; places are never used twice */
	uint64_t first, next;	    /* places of those that wait */
	uint64_t ops, left_out;
	uint64_t now;		      /* bytes in blocks; also in those that are seen late after this */
	uint64_t allocated, reserved; /* as reported */
	uint32_t pid;
	uint64_t from_ns; /* of a part: where it begins */
	uint8_t dev, has_totals, in_gap, has_begun, is_some; /* of its blocks */
};

/* --- process and device ------------------------------------------------------------------------------ */

/* Bytes of its blocks that were live at the device's peak. */
static uint64_t at_peak_of(const struct report *r, uint32_t pid, uint8_t dev)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < r->peak_blocks.cnt; i++)
		if (r->peak_blocks.rows[i].pid == pid && r->peak_blocks.rows[i].dev == dev)
			sum += r->peak_blocks.rows[i].size;
	return sum;
}

/* Of a part: the process that had most at a peak, of those asked for; a GPU before the CPU. 0: none had anything. */
static int choose_both(struct optrace *t, const struct export_to *to)
{
	const struct report *r = to->part ? to->report : NULL;
	size_t devs = r ? r->devs_cnt : 0, cnt = r ? r->procs_cnt * devs : 0;
	uint64_t most = 0;

	for (size_t i = 0; i < cnt; i++) {
		uint32_t pid = r->procs[i / devs].pid;
		uint8_t dev = r->devs[i % devs].dev;
		int is_gpu = dev >= MT_DEV_CUDA0, had_gpu = most && t->dev >= MT_DEV_CUDA0;
		uint64_t bytes;

		if ((to->dev >= 0 && dev != to->dev) || is_gpu < had_gpu || !pid_is_one_of(to->pids, to->pids_cnt, pid))
			continue;
		bytes = at_peak_of(r, pid, dev);
		if (!bytes || (bytes <= most && is_gpu == had_gpu))
			continue;
		most = bytes;
		t->pid = pid;
		t->dev = dev;
	}
	return most != 0;
}

static uint8_t choose_dev(const struct export_to *to)
{
	if (to->dev >= 0)
		return (uint8_t)to->dev;
	return report_dev_find(to->report, MT_DEV_CUDA0) ? MT_DEV_CUDA0 : MT_DEV_CPU;
}

static uint32_t choose_pid(const struct export_to *to)
{
	const struct report_proc *most = NULL;
	const struct report *r = to->report;

	if (!r)
		return 0;
	for (size_t i = 0; i < r->procs_cnt; i++) {
		const struct report_proc *p = &r->procs[i];

		if (p->pid && pid_is_one_of(to->pids, to->pids_cnt, p->pid) && (!most || p->peak > most->peak))
			most = p;
	}
	return most && (most->peak || to->pids_cnt) ? most->pid : r->run.pid;
}

/* Their sum, and the allocator's own, is not of them alone. */
static bool is_of_some(const struct selection *part)
{
	return part && (part->category >= 0 || part->module || part->op);
}

/* Later than a part's begin: blocks seen before are in its events. */
static int is_seen_later(const struct optrace *t, uint64_t ts_ns)
{
	return !t->to->part || ts_ns > t->from_ns;
}

/* Of blocks that were there from the beginning and are seen only later, in a part or behind it. */
static uint64_t bytes_before(const struct optrace *t)
{
	struct labels_late late;
	uint64_t sum = 0;
	size_t pos = 0;

	while (t->to->labels && !labels__next_late(t->to->labels, &pos, &late))
		if (late.pid == t->pid && late.dev == t->dev && is_seen_later(t, late.ts_ns) && late.size != TL_SIZE_UNKNOWN)
			sum += late.size;
	return sum;
}

int optrace__new(struct optrace **ret, const struct export_to *to, optrace_fn line, void *ctx)
{
	struct optrace *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->line = line;
	t->ctx = ctx;
	t->to = to;
	if (!choose_both(t, to)) {
		t->dev = choose_dev(to);
		t->pid = choose_pid(to);
	}
	t->is_some = is_of_some(to->part);
	t->live = live__new(to->labels);
	t->open = open_frames__new();
	t->lines = malloc(OPTRACE_WAIT * sizeof(*t->lines));
	if (!t->live || !t->open || !t->lines) {
		optrace__free(t);
		return -ENOMEM;
	}
	*ret = t;
	return 0;
}

void optrace__free(struct optrace *t)
{
	if (!t)
		return;
	open_frames__free(t->open);
	live__free(t->live);
	free(t->lines);
	free(t);
}

uint32_t optrace__pid(const struct optrace *t)
{
	return t->pid;
}

uint8_t optrace__dev(const struct optrace *t)
{
	return t->dev;
}

int optrace__has_totals(const struct optrace *t)
{
	return t->has_totals;
}

uint64_t optrace__left_out(const struct optrace *t)
{
	return t->left_out;
}

/* --- lines -------------------------------------------------------------------------------------------- */

static struct waiting *slot(const struct optrace *t, uint64_t place)
{
	return &t->lines[place % OPTRACE_WAIT];
}

static struct waiting *line_at(const struct optrace *t, uint64_t place)
{
	return place >= t->first ? slot(t, place) : NULL;
}

static void put_values(const struct optrace *t, struct optrace_line *l)
{
	l->is_open = 0;
	l->allocated = t->has_totals ? t->allocated : t->now;
	l->reserved = t->has_totals ? t->reserved : l->allocated;
}

/* Without an allocation of its own, an operator is in the phase of the one around it, which is known by now. */
static void settle_phase(const struct optrace *t, struct waiting *w)
{
	const struct waiting *around = w->around ? slot(t, w->around - 1) : NULL;

	if (!around || w->has_phase || w->around - 1 + OPTRACE_WAIT < t->next)
		return;
	w->line.phase = around->line.phase;
	w->has_phase = around->has_phase;
}

static int tell_mark(struct optrace *t, const struct waiting *w)
{
	struct optrace_line l = { .ts_ns = w->mark.ts_ns, .index = w->line.index, .allocated = w->mark.allocated,
				  .reserved = w->mark.reserved, .tid = w->line.tid, .kind = w->mark.kind };

	return t->line(t->ctx, &l);
}

static int tell_first(struct optrace *t)
{
	struct waiting *w = slot(t, t->first++);
	int r = w->mark.kind ? tell_mark(t, w) : 0;

	settle_phase(t, w);
	return r ? r : t->line(t->ctx, &w->line);
}

static int tell_ready(struct optrace *t)
{
	int r = 0;

	while (!r && t->first < t->next && !slot(t, t->first)->line.is_open)
		r = tell_first(t);
	return r;
}

static int add_line(struct optrace *t, const struct tl_event *ev, uint8_t kind, struct waiting **ret)
{
	struct waiting *w;
	int r = 0;

	if (t->next - t->first == OPTRACE_WAIT) {
		put_values(t, &slot(t, t->first)->line);
		t->left_out++;
		r = tell_first(t);
	}
	w = slot(t, t->next++);
	*w = (struct waiting){ .line = { .ts_ns = ev->ts_ns, .index = t->ops, .tid = ev->tid, .kind = kind } };
	put_values(t, &w->line);
	*ret = w;
	return r;
}

/* --- threads ------------------------------------------------------------------------------------------ */

/* Operators with `depth` and more frames under them are over. Their allocations also count in the one around them. */
static void settle(struct optrace *t, struct open_thread *th, unsigned depth)
{
	for (uint32_t keep = open_thread__staying(th, depth); th->cnt > keep;) {
		struct waiting *w = line_at(t, open_thread__pop(th)->value);
		struct waiting *around = th->cnt ? line_at(t, th->open[th->cnt - 1].value) : NULL;

		if (!w)
			continue;
		if (w->line.is_open)
			put_values(t, &w->line);
		if (around)
			around->line.created += w->line.created;
	}
}

/* --- decisions ------------------------------------------------------------------------------------------- */

static int on_op(struct optrace *t, struct open_thread *th, const struct tl_event *ev)
{
	int is_node = ev->op.v == ev->region.v, r;
	struct waiting *w;

	if (th->cnt == OPEN_DEPTH_MAX) {
		t->left_out++;
		return 0;
	}
	r = add_line(t, ev, is_node ? OPTRACE_NODE : OPTRACE_OP, &w);
	w->line.name = ev->op;
	w->line.phase = ev->phase;
	w->line.is_open = 1;
	w->around = th->cnt && !is_node ? th->open[th->cnt - 1].value + 1 : 0;
	for (uint32_t i = 0; i < th->cnt; i++)
		w->line.depth += th->open[i].kind == OPEN_OP;
	(void)open_thread__push(th, ev, is_node ? OPEN_NODE : OPEN_OP, t->next - 1);
	t->ops += !is_node;
	return r;
}

/* With what it has allocated. */
static int on_generated(struct optrace *t, const struct open_thread *th, const struct tl_event *ev)
{
	struct waiting *w;
	int r = add_line(t, ev, OPTRACE_OP, &w);

	w->line.name = ev->op;
	w->line.phase = ev->phase;
	w->has_phase = 1;
	w->line.created = ev->size;
	if (t->has_totals) /* the allocator reports them after the block */
		w->line.allocated += ev->size;
	for (uint32_t i = 0; th && i < th->cnt; i++)
		w->line.depth += th->open[i].kind == OPEN_OP;
	t->ops++;
	return r;
}

static int on_region(struct optrace *t, const struct tl_event *ev)
{
	struct waiting *w;
	int r = add_line(t, ev, ev->kind == TL_REGION_END ? OPTRACE_REGION_END : OPTRACE_REGION, &w);

	w->line.name = ev->region;
	return r;
}

/*
 * Forward begins with its first allocation, backward with its first node, which is reported next. The operator of that
 * allocation is part of the forward: the mark goes before it, or before the one that Python called.
 */
static int on_mark(struct optrace *t, struct open_thread *th, const struct tl_event *ev)
{
	static const uint8_t kinds[MARK_MAX] = { [MARK_FW_START] = OPTRACE_FW_START, [MARK_STEP] = OPTRACE_STEP,
						 [MARK_FW_BW_BOUNDARY] = OPTRACE_FW_BW_BOUNDARY };
	struct waiting *w = ev->version == MARK_FW_START && th && th->cnt ? line_at(t, th->open[0].value) : NULL;
	struct optrace_line now = { 0 };
	int r;

	if (ev->version >= MARK_MAX || !kinds[ev->version])
		return 0;
	if (w && !w->mark.kind) {
		put_values(t, &now);
		w->mark.kind = kinds[ev->version];
		w->mark.ts_ns = ev->ts_ns;
		w->mark.allocated = now.allocated;
		w->mark.reserved = now.reserved;
		return 0;
	}
	r = add_line(t, ev, kinds[ev->version], &w);
	w->line.number = ev->ptr;
	return r;
}

/* An allocation in an operator shows the operator's phase; a node is always backward. */
static void reported_phase(struct optrace *t, const struct open_thread *th, uint8_t phase)
{
	for (uint32_t i = th->cnt; i-- > 0 && th->open[i].kind == OPEN_OP;) {
		struct waiting *w = line_at(t, th->open[i].value);

		if (!w || w->has_phase)
			return;
		w->line.phase = phase;
		w->has_phase = 1;
	}
}

/* Categories, modules and operators of blocks that will be seen later are not known yet. */
static void begin(struct optrace *t, uint64_t ts_ns)
{
	t->has_begun = 1;
	t->from_ns = ts_ns;
	t->now = t->is_some ? 0 : bytes_before(t);
}

/* bytes_before has it. */
static int is_counted(const struct optrace *t, const struct tl_event *ev)
{
	return ev->kind == TL_PREEXISTING && !t->is_some && is_seen_later(t, ev->ts_ns) &&
	       (!t->to->labels || labels__was_there(t->to->labels, ev->id));
}

static int on_memory(struct optrace *t, const struct open_thread *th, const struct tl_event *ev)
{
	struct waiting *w = th && th->cnt ? line_at(t, th->open[th->cnt - 1].value) : NULL;
	struct live_change ch;
	int r = live__event(t->live, ev, &ch);

	if (th && ev->kind == TL_CREATE)
		reported_phase(t, th, ev->phase);
	if (r <= 0)
		return r;
	if (ch.to == CAT_MAX) {
		t->now -= ch.b->size < t->now ? ch.b->size : t->now;
	} else if (ch.from == CAT_MAX && !is_counted(t, ev)) {
		t->now += ch.b->size;
		if (w && ev->kind == TL_CREATE)
			w->line.created += ch.b->size;
	}
	return 0;
}

/* Decisions with a thread's depth show which of its operators are over. */
static int tells_depth(const struct tl_event *ev)
{
	return ev->kind == TL_OP || ev->kind == TL_REGION || ev->kind == TL_REGION_END || ev->kind == TL_CREATE ||
	       ev->kind == TL_DESTROY || ev->kind == TL_OOM;
}

static int apply(struct optrace *t, struct open_thread *th, const struct tl_event *ev)
{
	int is_ours = ev->dev == t->dev, r = 0;

	switch (ev->kind) {
	case TL_OP:
		return th ? on_op(t, th, ev) : 0;
	case TL_REGION:
	case TL_REGION_END:
		return on_region(t, ev);
	case TL_MARK:
		return on_mark(t, th, ev);
	case TL_TOTALS:
		if (!is_ours || t->is_some)
			return 0;
		t->has_totals = 1;
		t->allocated = ev->ptr;
		t->reserved = ev->size;
		return 0;
	default:
		if (is_ours)
			r = on_memory(t, th, ev);
		if (!r && is_ours && !t->in_gap && is_line_of_generated(ev, t->to->names))
			r = on_generated(t, th, ev);
		return r;
	}
}

/* In a gap there are none: not all operators have probes, nor all blocks. */
static int is_line(const struct tl_event *ev)
{
	return ev->kind == TL_OP || ev->kind == TL_REGION || ev->kind == TL_REGION_END || ev->kind == TL_MARK;
}

int optrace__event(struct optrace *t, const struct tl_event *ev)
{
	struct open_thread *th;
	int r, is_new;

	if (!t->has_begun && ev->kind != TL_STACK) /* those come from before a part, too */
		begin(t, ev->ts_ns);
	if (ev->kind == TL_GAP)
		t->in_gap = ev->version != 0;
	if (ev->pid != t->pid || ev->kind == TL_NODE || (t->in_gap && is_line(ev)))
		return 0;
	th = open_frames__thread(t->open, ev->pid, ev->tid, &is_new);
	t->left_out += !th && ev->kind == TL_OP;
	if (th && tells_depth(ev))
		settle(t, th, ev->depth);
	r = apply(t, th, ev);
	return r ? r : tell_ready(t);
}

int optrace__end(struct optrace *t)
{
	struct open_thread *th;
	uint32_t pos = 0;

	while ((th = open_frames__next(t->open, &pos)))
		settle(t, th, 0);
	return tell_ready(t);
}

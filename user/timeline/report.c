/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Gives back what model__report built, also half-built: everything it owns is NULL until made. */
#include "timeline/report.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/free.h"
#include "base/text.h"
#include "event/rank_label.h"
#include "timeline/ranks.h"

static void report_ops__done(struct report_ops *r)
{
	for (size_t i = 0; r->rows && i < r->cnt; i++)
		free(r->rows[i].name);
	free(r->rows);
	free(r->none.name);
}

static void report_proc__done(struct report_proc *p)
{
	for (size_t i = 0; p->labels && i < p->labels_cnt; i++)
		free(p->labels[i]);
	free_all(p->labels, p->comm, p->cmdline, p->own.points);
	free(p->devs);
}

static void report_block__done(struct report_block *b)
{
	free_all(b->op, b->region, b->module, b->root, b->name);
}

static void report_oom__done(struct report_oom *o)
{
	for (size_t i = 0; i < o->ops_cnt; i++)
		free(o->ops[i].name);
	for (size_t i = 0; i < o->blocks_cnt; i++)
		report_block__done(&o->blocks[i]);
	free_all(o->comm, o->op, o->region, o->module, o->root, o->api);
}

static void report_frames__free(struct report_frame *frames, size_t cnt)
{
	for (size_t i = 0; frames && i < cnt; i++) {
		free(frames[i].function);
		free(frames[i].file);
	}
	free(frames);
}

static void report_sampling__done(struct report_sampling *s)
{
	free(s->gaps);
	free(s->traced);
	for (size_t i = 0; i < s->learned.ops_cnt; i++)
		free(s->learned.ops[i].name);
	free_all(s->learned.devs, s->learned.ops, s->steps.devs);
	for (size_t i = 0; i < s->kinds_cnt; i++)
		free(s->kinds[i].made.devs);
	free(s->kinds);
}

void report_ranks__free(struct report_ranks *r)
{
	if (!r)
		return;
	for (size_t i = 0; r->rows && i < r->cnt; i++) {
		free_all(r->rows[i].host, r->rows[i].steps, r->rows[i].series.points);
		report_sampling__done(&r->rows[i].sampling);
	}
	free(r->rows);
	free(r->steps);
	report__free(r->worst);
	free(r);
}

void report_saved_row__done(struct report_saved_row *r)
{
	free_all(r->module, r->root, r->class, r->recompute, r->op, r->region, r->node);
}

static void report_run__done(struct report_run *r)
{
	for (size_t i = 0; r->notes && i < r->notes_cnt; i++)
		free(r->notes[i]);
	free_all(r->notes, r->host, r->comm, r->cmdline, r->choice);
}

static void report_probes__done(struct report_probes *r)
{
	for (size_t i = 0; r->covers && i < r->covers_cnt; i++)
		free(r->covers[i].source);
	for (size_t i = 0; r->symbols && i < r->symbols_cnt; i++)
		free(r->symbols[i].name);
	for (size_t i = 0; r->late_ops && i < r->late_ops_cnt; i++)
		free(r->late_ops[i].name);
	free_all(r->covers, r->symbols, r->late_ops);
}

static void report_blocks__done(struct report_blocks *r)
{
	for (size_t i = 0; r->rows && i < r->cnt; i++)
		report_block__done(&r->rows[i]);
	free(r->rows);
}

static void report_stacks__done(struct report_stacks *r)
{
	for (size_t i = 0; r->rows && i < r->cnt; i++)
		report_frames__free(r->rows[i].frames, r->rows[i].frames_cnt);
	free(r->rows);
}

static void report_names__done(struct report_names *r)
{
	for (size_t i = 0; r->rows && i < r->cnt; i++)
		free_all(r->rows[i].path, r->rows[i].root, r->rows[i].type, r->rows[i].key);
	free(r->rows);
}

void tensor_name(char *buf, size_t size, unsigned kind, const char *root, const char *key, const char *path)
{
	snprintf(buf, size, "%s%s%s%s%s%s", kind == EV_TENSOR_GRADIENT ? "gradient of " : "", root,
		 root[0] && key[0] ? " " : "", key, root[0] ? ": " : key[0] ? " " : "", path);
}

static void report_modules__done(struct report_modules *r)
{
	for (size_t i = 0; r->rows && i < r->cnt; i++)
		free_all(r->rows[i].name, r->rows[i].root, r->rows[i].class);
	for (size_t i = 0; i < r->ops_cnt; i++)
		free_all(r->ops[i].op, r->ops[i].module, r->ops[i].root);
	free(r->rows);
	free(r->ops);
}

static void report_saved__done(struct report_saved *r)
{
	for (size_t i = 0; i < r->cnt; i++)
		report_saved_row__done(&r->rows[i]);
	for (size_t i = 0; i < r->blocks_cnt; i++)
		report_saved_row__done(&r->blocks[i].of);
	free_all(r->rows, r->blocks, r->procs);
}

static void report_kernel__done(struct report_kernel *r)
{
	free(r->rss.points);
	for (unsigned i = 0; i < MT_RSS_KINDS; i++)
		free(r->kinds[i].points);
	free(r->pss.points);
	free(r->huge.points);
}

static void report_compiles__done(struct report_compiles *r)
{
	for (size_t i = 0; i < r->rows_cnt; i++)
		free_all(r->rows[i].id, r->rows[i].function, r->rows[i].reason, r->rows[i].failed);
	free(r->rows);
	free(r->whys);
}

static void report_places__done(struct report_places *r)
{
	for (size_t i = 0; i < r->cnt; i++) {
		free(r->rows[i].op);
		free(r->rows[i].buffer);
		free(r->rows[i].nodes);
		free(r->rows[i].where);
	}
	free(r->rows);
}

static void report_leaks__done(struct report_leaks *r)
{
	for (size_t i = 0; i < r->cnt; i++) {
		free_all(r->rows[i].op, r->rows[i].region, r->rows[i].held_by, r->rows[i].held_kind, r->rows[i].held_where);
		report_frames__free(r->rows[i].frames, r->rows[i].frames_cnt);
	}
	free(r->rows);
}

void report__free(struct report *r)
{
	if (!r)
		return;
	report_run__done(&r->run);
	report_probes__done(&r->probes);
	for (size_t i = 0; i < r->ooms.cnt; i++)
		report_oom__done(&r->ooms.rows[i]);
	free(r->driver.rows);
	free(r->driver.pools);
	for (size_t i = 0; r->devs && i < r->devs_cnt; i++)
		free_all(r->devs[i].series.points, r->devs[i].between.points);
	free(r->devs);
	for (size_t i = 0; r->procs && i < r->procs_cnt; i++)
		report_proc__done(&r->procs[i]);
	free(r->procs);
	free(r->lanes.rows);
	report_blocks__done(&r->peak_blocks);
	report_ops__done(&r->ops);
	report_ops__done(&r->regions);
	report_stacks__done(&r->stacks);
	report_names__done(&r->names);
	report_modules__done(&r->modules);
	report_saved__done(&r->saved);
	report_sampling__done(&r->sampling);
	free_all(r->marks.rows, r->marks.steps);
	report_kernel__done(&r->kernel);
	report_leaks__done(&r->leaks);
	report_compiles__done(&r->compiles);
	report_places__done(&r->places);
	report_ranks__free(r->ranks);
	free(r);
}

size_t report_gaps_seen(const struct report *r)
{
	const struct report_sampling *s = &r->sampling;
	size_t end = s->gaps_cnt && s->in_gap ? s->gaps_cnt - 1 : s->gaps_cnt, cnt = 0;

	while (cnt < end && s->gaps[end - 1 - cnt].seen_ns >= s->gaps[end - 1 - cnt].end_ns)
		cnt++;
	return cnt;
}

bool report_growth_is_hidden(const struct report *r)
{
	const struct report_sampling *s = &r->sampling;

	return !r->leaks.cnt && s->is_on && s->gaps_cnt && report_gaps_seen(r) < REPORT_GROWTH_GAPS;
}

const char *report_growth_span(const struct report *r, char buf[REPORT_SPAN_BYTES])
{
	const struct report_sampling *s = &r->sampling;
	uint64_t cnt = r->leaks.ticks;
	bool is_some = r->leaks.per_step && s->is_on && s->gaps_cnt;
	char num[24];

	/* a window of three whole steps has four boundaries */
	if (is_some && s->steps_traced < cnt)
		cnt = s->steps_traced;
	snprintf(buf, REPORT_SPAN_BYTES, "%s %s%s%s%s", fmt_count(num, (double)cnt), is_some ? "traced " : "",
		 r->leaks.per_step ? "step" : "half second", cnt == 1 ? "" : "s", r->leaks.per_step ? "" : " without a step");
	return buf;
}

const struct report_gap *report_gap_around(const struct report *r, uint64_t from_ns, uint64_t to_ns)
{
	for (size_t i = 0; i < r->sampling.gaps_cnt; i++) {
		const struct report_gap *g = &r->sampling.gaps[i];

		if (g->lost_ns == g->end_ns - g->begin_ns && from_ns >= g->begin_ns && to_ns <= g->end_ns)
			return g;
	}
	return NULL;
}

uint64_t report_gap_seen_ns(const struct report *r, uint64_t from_ns)
{
	const struct report_sampling *s = &r->sampling;
	size_t lo = 0, hi = s->gaps_cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->gaps[mid].begin_ns <= from_ns)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && s->gaps[lo - 1].seen_ns > from_ns ? s->gaps[lo - 1].seen_ns : from_ns;
}

static bool report_sees_now(const struct report_sampling *s, uint64_t end_ns)
{
	const struct report_gap *last = s->gaps_cnt ? &s->gaps[s->gaps_cnt - 1] : NULL;

	return last && last->seen_ns > last->begin_ns && last->seen_ns >= end_ns;
}

bool report_dev_between(const struct report *r, const struct report_dev *d, uint64_t *ret)
{
	const struct series *s = &d->between;

	if (!r->sampling.in_gap || !s->cnt || !report_sees_now(&r->sampling, r->run.end_ts_ns))
		return false;
	*ret = s->points[s->cnt - 1].live_end;
	return true;
}

uint64_t report_traced_from_ns(const struct report *r)
{
	uint64_t ret = UINT64_MAX;

	for (size_t i = 0; i < r->procs_cnt; i++)
		if (r->procs[i].set_ts_ns < ret && (r->procs[i].set_ts_ns || r->procs[i].peak || r->procs[i].host_peak))
			ret = r->procs[i].set_ts_ns;
	return ret < r->run.start_ts_ns || ret > r->run.end_ts_ns ? r->run.start_ts_ns : ret;
}

uint64_t report_traced_ns(const struct report *r)
{
	return r->sampling.is_on ? r->sampling.traced_ns :
				   r->run.end_ts_ns - report_traced_from_ns(r) - r->sampling.paused_ns;
}

uint64_t report_seen_ns(const struct report *r)
{
	return r->run.end_ts_ns - r->run.start_ts_ns - r->sampling.paused_ns;
}

double report_learned__share(const struct report_learned *l)
{
	double none = 0, learned = 0;

	for (size_t i = 0; i < l->devs_cnt; i++) {
		none += (double)l->devs[i].none_ns;
		for (int c = 0; c < CAT_MAX; c++)
			learned += (double)l->devs[i].learned_ns[c];
	}
	return learned > 0 ? learned / (learned + none) : 0;
}

static const struct report_proc *find_proc(const struct report *r, uint32_t pid)
{
	for (size_t i = 0; i < r->procs_cnt; i++)
		if (r->procs[i].pid == pid)
			return &r->procs[i];
	return NULL;
}

const struct report_proc *report_proc_last(const struct report *r, uint32_t pid)
{
	for (size_t i = r->procs_cnt; i-- > 0;)
		if (r->procs[i].pid == pid)
			return &r->procs[i];
	return NULL;
}

struct rank_label report_proc_label(const struct report_proc *p)
{
	struct rank_label label = { 0 };

	for (size_t i = 0; i < p->labels_cnt; i++)
		rank_label__add(&label, p->labels[i]);
	return label;
}

#define ANCESTORS_MAX 16

bool report_rank(const struct report *r, uint32_t pid, uint32_t *ret)
{
	const struct report_proc *p = find_proc(r, pid);

	for (int up = 0; p && up < ANCESTORS_MAX; up++, p = find_proc(r, p->ppid)) {
		struct rank_label label = report_proc_label(p);

		if (rank_label__rank(&label, ret) != RANK_NONE)
			return true;
	}
	return false;
}

const struct report_proc *report_rank_first(const struct report *r, uint32_t pid)
{
	const struct report_proc *p = find_proc(r, pid), *first = NULL;
	enum rank_source source, from = RANK_NONE;
	uint32_t rank, of = 0;

	for (int up = 0; p && up < ANCESTORS_MAX; up++, p = find_proc(r, p->ppid)) {
		struct rank_label label = report_proc_label(p);

		source = rank_label__rank(&label, &rank);
		if (source == RANK_NONE)
			continue;
		if (first && (rank != of || source != from))
			break;
		first = p;
		from = source;
		of = rank;
	}
	return first;
}

const struct report_dev *report_dev_find(const struct report *r, uint8_t dev)
{
	for (size_t i = 0; r && i < r->devs_cnt; i++)
		if (r->devs[i].dev == dev)
			return &r->devs[i];
	return NULL;
}

uint64_t report_peak_ts_ns(const struct report *r, uint8_t dev)
{
	const struct report_dev *d = report_dev_find(r, dev);

	return d ? d->peak_ts_ns : 0;
}

uint64_t report_lost_sum(const struct report *r)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < MT_LOSS_MAX; i++)
		if (i != MT_LOSS_STACK_RATE)
			sum += r->run.lost[i];
	return sum;
}

uint64_t report_lost_events(const struct report *r)
{
	static const uint8_t events[] = { MT_LOSS_RING, MT_LOSS_THREAD_STATE, MT_LOSS_DECODE, MT_LOSS_BLOCKS,
					  MT_LOSS_RECORDING, MT_LOSS_SIDEBAND, MT_LOSS_PENDING, MT_LOSS_LIVE_TABLE,
					  MT_LOSS_ORDER, MT_LOSS_DAMAGED, MT_LOSS_SHARE, MT_LOSS_STALLED };
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof(events); i++)
		if (__builtin_add_overflow(sum, r->run.lost[events[i]], &sum))
			sum = UINT64_MAX;
	return sum;
}

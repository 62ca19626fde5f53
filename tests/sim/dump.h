/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* dump: every field of a report as text, so that two reports can be held against each other. */
#ifndef MT_TESTS_SIM_DUMP_H
#define MT_TESTS_SIM_DUMP_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "timeline/report.h"

#define D(x) fprintf(out, #x "=%" PRIu64 "\n", (uint64_t)(x))

static inline void dump_series(FILE *out, const struct series *s)
{
	D(s->cnt);
	D(s->bucket_ns);
	for (size_t i = 0; i < s->cnt; i++)
		fprintf(out, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", s->points[i].ts_ns,
			s->points[i].live_max, s->points[i].live_end);
}

static inline void dump_learned(FILE *out, const struct report_learned *l)
{
	D(l->steps), D(l->unlike), D(l->kinds), D(l->learnt), D(l->again), D(l->checks), D(l->check_bytes), D(l->wrong_bytes);
	D(l->wrong_cat_bytes), D(l->wrong_op_bytes), D(l->no_label_bytes), D(l->no_room), D(l->no_room_bytes);
	for (size_t i = 0; i < l->devs_cnt; i++) {
		D(l->devs[i].dev), D(l->devs[i].byte_ns), D(l->devs[i].none_ns);
		for (int c = 0; c < CAT_MAX; c++)
			D(l->devs[i].learned_ns[c]);
	}
	for (size_t i = 0; i < l->ops_cnt; i++) {
		fprintf(out, "%s\n", l->ops[i].name);
		D(l->ops[i].cnt), D(l->ops[i].byte_ns);
	}
}

static inline void dump_segments(FILE *out, const struct report_segments *s)
{
	D(s->seen), D(s->totals), D(s->requests), D(s->backend), D(s->live), D(s->peak), D(s->peak_ts_ns), D(s->cached);
	D(s->other), D(s->allocated), D(s->allocated_peak), D(s->allocated_before), D(s->reserved), D(s->reserved_peak);
	D(s->reserved_before), D(s->requested), D(s->requested_peak), D(s->rounding), D(s->inactive), D(s->free_cached);
	D(s->largest_free), D(s->resets), D(s->trims), D(s->driver), D(s->allocator), D(s->tensors), D(s->unused);
	D(s->others), D(s->nvml), D(s->nvml_procs), D(s->nvml_used), D(s->nvml_own), D(s->residual);
	D(s->comm), D(s->comm_peak), D(s->comms_made), D(s->comms_ended), D(s->graphs), D(s->launches), D(s->graph_peak);
	D(s->communication);
	for (int i = 0; i < MT_SEG_MAX; i++)
		D(s->kinds[i].live), D(s->kinds[i].peak), D(s->kinds[i].allocs), D(s->kinds[i].frees), D(s->kinds[i].fails);
}

static inline void dump_dev(FILE *out, const struct report_dev *d)
{
	D(d->dev), D(d->live), D(d->peak), D(d->peak_ts_ns), D(d->allocs), D(d->frees);
	D(d->alloc_bytes), D(d->free_bytes), D(d->preexisting_frees), D(d->dropped);
	D(d->dropped_bytes), D(d->ooms), D(d->oom_bytes_last), D(d->byte_ns);
	for (int c = 0; c < CAT_MAX; c++)
		D(d->cats[c].live), D(d->cats[c].at_peak), D(d->cats[c].byte_ns);
	dump_series(out, &d->series);
	dump_segments(out, &d->segs);
}

static inline void dump_oom(FILE *out, const struct report_oom *o)
{
	fprintf(out, "%s|%s|%s|%s|%s|%s\n", o->comm, o->op, o->region, o->api, o->module ? o->module : "",
		o->root ? o->root : "");
	D(o->phase);
	D(o->kind), D(o->dev), D(o->killed), D(o->marked);
	D(o->ts_ns), D(o->pid), D(o->tid), D(o->code), D(o->exit_status), D(o->times);
	D(o->asked), D(o->live), D(o->allocated), D(o->reserved), D(o->unused), D(o->largest_free), D(o->driver);
	D(o->ops_cnt), D(o->blocks_cnt), D(o->rss_total);
	for (int c = 0; c < CAT_MAX; c++)
		D(o->cats[c]);
	for (size_t i = 0; i < o->ops_cnt; i++)
		fprintf(out, "%s %" PRIu64 "\n", o->ops[i].name, o->ops[i].live);
	for (size_t i = 0; i < o->blocks_cnt; i++)
		D(o->blocks[i].id), D(o->blocks[i].size), D(o->blocks[i].has_stream), D(o->blocks[i].stream);
}

static inline void dump_flow(FILE *out, const struct report_flow *f)
{
	D(f->nodes), D(f->edges), D(f->versions), D(f->replays), D(f->output_twice), D(f->input_stale);
	D(f->moved), D(f->unmapped);
	for (int c = 0; c < MT_CLASS_MAX; c++)
		D(f->by_class[c]);
}

static inline void dump_ops(FILE *out, const struct report_op *o, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		fprintf(out, "%s\n", o[i].name);
		D(o[i].is_node), D(o[i].count), D(o[i].alloc_count), D(o[i].alloc_bytes);
		D(o[i].live_count), D(o[i].live), D(o[i].at_peak);
	}
}

static inline void dump_proc(FILE *out, const struct report_proc *p)
{
	fprintf(out, "%s|%s\n", p->comm, p->cmdline);
	D(p->pid), D(p->ppid), D(p->live), D(p->peak), D(p->peak_ts_ns), D(p->allocs), D(p->frees);
	D(p->host_live), D(p->host_peak), D(p->rss_total), D(p->rss_peak), D(p->mapped);
	D(p->mapped_peak), D(p->brk_growth), D(p->cpu_ns), D(p->live_at_exit), D(p->exit_status);
	D(p->gone), D(p->how), D(p->labels_cnt);
	for (int i = 0; i < MT_RSS_KINDS; i++)
		D(p->rss[i]);
	for (size_t i = 0; i < p->labels_cnt; i++)
		fprintf(out, "%s\n", p->labels[i]);
}

static inline void dump_block(FILE *out, const struct report_block *b)
{
	fprintf(out, "%s|%s\n", b->op, b->region);
	D(b->id), D(b->ptr), D(b->size), D(b->allocated_ts_ns), D(b->freed_ts_ns), D(b->pid), D(b->tid);
	D(b->dev), D(b->cat);
}

static inline void dump_head(FILE *out, const struct report *r)
{
	fprintf(out, "%s|%s|%s %a\n", r->run.host, r->run.comm, r->run.cmdline, r->cost.share);
	D(r->run.start_ts_ns), D(r->run.end_ts_ns), D(r->run.epoch_off_ns), D(r->run.pid), D(r->run.ended);
	D(r->run.end_reason), D(r->cost.hits), D(r->cost.ns), D(r->cost.target_cpu_ns), D(r->cost.self_rss);
	D(r->cost.self_cpu_ns), D(r->ops.total), D(r->regions.total), D(r->marks.steps_total);
	for (int i = 0; i < 256; i++)
		D(r->run.events[i]);
	for (int i = 0; i < MT_LOSS_MAX; i++)
		D(r->run.lost[i]);
	for (int i = 0; i < MT_PROG_MAX; i++)
		D(r->cost.programs[i].hits), D(r->cost.programs[i].ns);
	for (size_t i = 0; i < r->probes.covers_cnt; i++) {
		fprintf(out, "%s\n", r->probes.covers[i].source);
		D(r->probes.covers[i].pid), D(r->probes.covers[i].found), D(r->probes.covers[i].attached);
	}
	for (size_t i = 0; i < r->run.notes_cnt; i++)
		fprintf(out, "%s\n", r->run.notes[i]);
}

static inline void dump_module(FILE *out, const struct report_module *r)
{
	const struct report_module_sum *sums[] = { &r->own, &r->all };

	fprintf(out, "module %s|%s|%s\n", r->name ? r->name : "", r->root, r->class);
	D(r->pid), D(r->parent), D(r->depth), D(r->calls), D(r->activation), D(r->activation_live), D(r->input), D(r->output);
	D(r->peak_forward), D(r->peak_backward);
	for (unsigned i = 0; i < 2; i++) {
		D(sums[i]->alloc_count), D(sums[i]->alloc_bytes), D(sums[i]->live_count), D(sums[i]->live), D(sums[i]->at_peak);
		for (unsigned p = 0; p < PHASE_MAX; p++)
			D(sums[i]->by_phase_count[p]), D(sums[i]->by_phase_bytes[p]), D(sums[i]->by_phase_live[p]);
	}
	for (unsigned k = 0; k < EV_TENSOR_MAX; k++)
		D(r->kinds[k]), D(r->kinds_live[k]);
}

static inline void dump_phases(FILE *out, const struct report *r)
{
	for (unsigned i = 0; i < PHASE_MAX; i++) {
		const struct report_phase *p = &r->modules.phases[i];

		D(p->entries), D(p->ns), D(p->alloc_count), D(p->live), D(p->peak);
	}
	for (size_t i = 0; i < r->marks.cnt; i++) {
		const struct report_mark *k = &r->marks.rows[i];

		D(k->at.ts_ns), D(k->at.live), D(k->at.peak), D(k->number), D(k->pid), D(k->tid), D(k->kind);
	}
	for (size_t i = 0; i < r->marks.steps_cnt; i++) {
		D(r->marks.steps[i].number), D(r->marks.steps[i].begin_ts_ns), D(r->marks.steps[i].pid);
		for (unsigned k = 0; k < MARK_MAX; k++)
			D(r->marks.steps[i].at[k].ts_ns), D(r->marks.steps[i].at[k].live), D(r->marks.steps[i].at[k].peak);
	}
}

/* Text of the whole report; to be freed. NULL: no memory. */
static inline char *report_dump(const struct report *r)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	dump_head(out, r);
	dump_flow(out, &r->flow);
	dump_learned(out, &r->sampling.learned);
	for (size_t i = 0; i < r->devs_cnt; i++)
		dump_dev(out, &r->devs[i]);
	dump_ops(out, r->ops.rows, r->ops.cnt);
	dump_ops(out, r->regions.rows, r->regions.cnt);
	dump_ops(out, &r->ops.none, 1);
	for (size_t i = 0; i < r->procs_cnt; i++)
		dump_proc(out, &r->procs[i]);
	for (size_t i = 0; i < r->peak_blocks.cnt; i++)
		dump_block(out, &r->peak_blocks.rows[i]);
	for (size_t i = 0; i < r->modules.cnt; i++)
		dump_module(out, &r->modules.rows[i]);
	dump_phases(out, r);
	dump_series(out, &r->kernel.rss);
	for (size_t i = 0; i < r->ooms.cnt; i++)
		dump_oom(out, &r->ooms.rows[i]);
	fclose(out);
	return text;
}
#undef D

#endif

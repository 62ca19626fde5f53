/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The machine-readable report, schema 1. Field names are a contract: extend, never rename. Sizes are
 * bytes, durations ns, points in time ns since the epoch (0 where there is none).
 *
 * Every number comes from the report alone, so a live report and its replay are the same bytes.
 */
#include <errno.h>

#include "event/event.h"
#include "verdict/verdict.h"
#include "view/json.h"
#include "view/report_words.h"
#include "view/tables/compiles.h"
#include "view/tables/places.h"
#include "view/tables/leaks.h"
#include "view/tables/modules.h"
#include "view/tables/oom.h"
#include "view/tables/ranks.h"
#include "view/tables/saved.h"
#include "view/tables/stacks.h"
#include "view/tables/steps.h"
#include "view/tables/tables.h"
#include "view/tables/verdict.h"
#include "view/view.h"

static uint64_t epoch(const struct report *r, uint64_t ts_ns)
{
	return ts_ns ? ts_ns + (uint64_t)r->run.epoch_off_ns : 0;
}

static void put_gaps(struct json *j, const struct report *r)
{
	const struct report_sampling *s = &r->sampling;

	json__begin(j, "gaps", '['); /* [begin, end, of it not traced] */
	for (size_t i = 0; i < s->gaps_cnt; i++) {
		json__begin_flat(j, NULL, '[');
		json__u64(j, NULL, epoch(r, s->gaps[i].begin_ns));
		json__u64(j, NULL, epoch(r, s->gaps[i].end_ns));
		json__u64(j, NULL, s->gaps[i].lost_ns);
		json__end(j, ']');
	}
	json__end(j, ']');
}

static void put_seen(struct json *j, const struct report_sampling *s, const struct report *r)
{
	size_t i = 0;

	while (i < s->gaps_cnt && s->gaps[i].seen_ns == s->gaps[i].begin_ns)
		i++;
	if (i == s->gaps_cnt)
		return;
	json__begin(j, "seen", '['); /* [begin, end] */
	for (; i < s->gaps_cnt; i++) {
		if (s->gaps[i].seen_ns == s->gaps[i].begin_ns)
			continue;
		json__begin_flat(j, NULL, '[');
		json__u64(j, NULL, epoch(r, s->gaps[i].begin_ns));
		json__u64(j, NULL, epoch(r, s->gaps[i].seen_ns));
		json__end(j, ']');
	}
	json__end(j, ']');
}

static void put_learned(struct json *j, const struct report_learned *l)
{
	if (!l->is_on)
		return;
	json__begin(j, "learned", '{');
	json__u64(j, "steps", l->steps);
	json__u64(j, "steps_unlike", l->unlike);
	json__u64(j, "kinds", l->kinds);
	json__u64(j, "learnt", l->learnt);
	json__u64(j, "relearnt", l->again);
	json__u64(j, "checks", l->checks);
	json__u64(j, "check_bytes", l->check_bytes);
	json__u64(j, "wrong_bytes", l->wrong_bytes);
	json__u64(j, "wrong_category_bytes", l->wrong_cat_bytes);
	json__u64(j, "wrong_op_bytes", l->wrong_op_bytes);
	json__u64(j, "no_label_bytes", l->no_label_bytes);
	json__u64(j, "no_room", l->no_room);
	json__u64(j, "no_room_bytes", l->no_room_bytes);
	json__f64(j, "mismatch", l->check_bytes ? (double)l->wrong_bytes / (double)l->check_bytes : 0);
	json__f64(j, "share", report_learned__share(l));
	json__begin(j, "devices", '{');
	for (size_t i = 0; i < l->devs_cnt; i++) {
		char name[16];

		json__begin(j, dev_name(l->devs[i].dev, name), '{');
		json__u64(j, "byte_ns", l->devs[i].byte_ns);
		json__u64(j, "no_label_ns", l->devs[i].none_ns);
		json__begin(j, "categories", '{');
		for (int c = 0; c < CAT_MAX; c++)
			if (l->devs[i].learned_ns[c])
				json__u64(j, category_name((enum category)c), l->devs[i].learned_ns[c]);
		json__end(j, '}');
		json__end(j, '}');
	}
	json__end(j, '}');
	json__begin(j, "ops", '[');
	for (size_t i = 0; i < l->ops_cnt; i++) {
		json__begin_flat(j, NULL, '{');
		json__str(j, "name", l->ops[i].name);
		json__u64(j, "count", l->ops[i].cnt);
		json__u64(j, "byte_ns", l->ops[i].byte_ns);
		json__end(j, '}');
	}
	json__end(j, ']');
	json__end(j, '}');
}

static void put_sampling(struct json *j, const struct report *r)
{
	const struct report_sampling *s = &r->sampling;

	json__begin(j, "sampling", '{');
	json__u64(j, "steps_seen", s->steps_seen);
	json__u64(j, "steps_traced", s->steps_traced);
	json__u64(j, "windows", s->windows);
	json__u64(j, "traced_ns", s->traced_ns);
	if (s->uncounted_ns)
		json__u64(j, "uncounted_ns", s->uncounted_ns);
	json__u64(j, "unseen_blocks", s->unseen_blocks);
	json__u64(j, "unseen_bytes", s->unseen_bytes);
	json__f64(j, "price_ratio", s->price_ratio);
	if (s->budget > 0)
		json__f64(j, "budget", s->budget);
	if (s->steps.steps) {
		json__begin(j, "mean_step", '{');
		steps_json(j, &s->steps);
		json__end(j, '}');
	}
	kinds_json(j, r);
	windows_json(j, s->traced, s->traced_cnt, r->run.epoch_off_ns);
	put_learned(j, &s->learned);
	put_gaps(j, r);
	put_seen(j, s, r);
	json__end(j, '}');
}

static void put_target(struct json *j, const struct report *r)
{
	json__begin(j, "target", '{');
	json__u64(j, "pid", r->run.pid);
	whose_json(j, r, verdict_jobs(r));
	json__str(j, "comm", r->run.comm);
	json__str(j, "cmdline", r->run.cmdline);
	json__end(j, '}');
	json__str(j, "tracer", r->run.host);
	json__u64(j, "start_ns", epoch(r, r->run.start_ts_ns));
	json__u64(j, "duration_ns", r->run.end_ts_ns - r->run.start_ts_ns);
	json__u64(j, "traced_ns", report_traced_ns(r));
	json__u64(j, "steps", r->marks.steps_total);
	if (r->sampling.pauses)
		json__u64(j, "paused_ns", r->sampling.paused_ns);
	if (r->sampling.is_on)
		put_sampling(j, r);
	else if (r->sampling.gaps_cnt)
		put_gaps(j, r);
}

static void put_events(struct json *j, const struct report *r)
{
	json__begin(j, "events", '{');
	for (unsigned i = 0; i < EV_MAX; i++)
		if (r->run.events[i])
			json__u64(j, event_kind_name((uint8_t)i), r->run.events[i]);
	json__end(j, '}');
	json__begin(j, "lost", '{');
	for (unsigned i = 1; i < MT_LOSS_MAX; i++)
		if (loss_name(i))
			json__u64(j, loss_name(i), r->run.lost[i]);
	json__end(j, '}');
}

static void put_idle(struct json *j, const struct report *r)
{
	json__begin(j, "idle", '{');
	json__u64(j, "operators", r->probes.idle_ops);
	json__u64(j, "probes_taken", r->probes.idle_cnt);
	json__u64(j, "late_total", r->probes.late_ops_total);
	late_ops_json(j, r);
	json__end(j, '}');
}

static void put_attach(struct json *j, const struct report *r)
{
	const struct report_attach *a = &r->probes.attach;

	if (!a->slices)
		return;
	json__begin(j, "attach", '{');
	json__u64(j, "sites", a->sites);
	json__u64(j, "slices", a->slices);
	json__u64(j, "took_ns", a->took_ns);
	json__u64(j, "longest_slice_ns", a->longest_slice_ns);
	json__u64(j, "steps_before", a->steps_before);
	if (a->steps_before) {
		json__u64(j, "median_step_before_ns", a->median_before_ns);
		json__u64(j, "longest_step_before_ns", a->longest_before_ns);
		json__u64(j, "longest_step_ns", a->longest_step_ns);
		json__u64(j, "longest_gap_ns", a->longest_gap_ns);
	}
	json__end(j, '}');
}

static void put_coverage(struct json *j, const struct report *r, int is_brief)
{
	json__begin(j, "coverage", '{');
	json__bool(j, "complete", r->run.ended);
	json__str(j, "end", report_end_word(r));
	covers_json(j, r);
	symbols_json(j, r, is_brief);
	put_idle(j, r);
	json__begin(j, "notes", '[');
	for (size_t i = 0; i < r->run.notes_cnt; i++)
		json__str(j, NULL, r->run.notes[i]);
	json__end(j, ']');
	json__end(j, '}');
}

static void put_price(struct json *j, const struct report_price *p)
{
	if (!p->steps)
		return;
	json__begin(j, "measured", '{');
	json__u64(j, "pid", p->pid);
	json__u64(j, "steps_before", p->steps_before);
	json__u64(j, "median_step_before_ns", p->before_ns);
	json__u64(j, "steps_after", p->steps_after);
	json__u64(j, "median_step_after_ns", p->after_ns);
	json__u64(j, "steps", p->steps);
	json__u64(j, "median_step_ns", p->traced_ns);
	json__f64(j, "lost", p->lost);
	json__f64(j, "error", p->error);
	json__end(j, '}');
}

static void put_overhead(struct json *j, const struct report *r)
{
	json__begin(j, "overhead", '{');
	json__u64(j, "hits", r->cost.hits);
	json__u64(j, "probe_ns", r->cost.ns);
	json__f64(j, "fraction", r->cost.share);
	json__f64(j, "fraction_most", r->cost.share_most);
	put_price(j, &r->cost.price);
	json__u64(j, "target_cpu_ns", r->cost.target_cpu_ns);
	json__u64(j, "self_cpu_ns", r->cost.self_cpu_ns);
	json__u64(j, "self_rss", r->cost.self_rss);
	json__begin(j, "by_probe", '{');
	for (unsigned i = 1; i < MT_PROG_MAX; i++) {
		if (!r->cost.programs[i].hits)
			continue;
		json__begin_flat(j, prog_key(i), '{');
		json__u64(j, "hits", r->cost.programs[i].hits);
		json__u64(j, "ns", r->cost.programs[i].ns);
		json__end(j, '}');
	}
	json__end(j, '}');
	json__end(j, '}');
}

static void put_kernel_series(struct json *j, const struct report *r)
{
	series_json(j, r, &r->kernel.rss, "series");
	json__begin(j, "by_kind", '{'); /* the same over time by kind; pss and huge as often as they are read */
	for (unsigned i = 0; i < MT_RSS_KINDS; i++)
		series_json(j, r, &r->kernel.kinds[i], rss_word(i));
	if (r->kernel.use[MT_USE_RSS]) {
		series_json(j, r, &r->kernel.pss, "pss");
		series_json(j, r, &r->kernel.huge, "huge");
	}
	json__end(j, '}');
}

static void put_kernel(struct json *j, const struct report *r, int is_brief)
{
	uint64_t rss, peak, mapped = 0, brk = 0;

	rss = report_rss(r, &peak);
	if (!peak && !report_has_source(r, "kernel"))
		return;
	for (size_t i = 0; i < r->procs_cnt; i++) {
		mapped += r->procs[i].mapped;
		brk += r->procs[i].brk_growth;
	}
	json__begin(j, "kernel", '{');
	json__u64(j, "rss", rss);
	json__u64(j, "rss_peak", peak);
	json__u64(j, "mapped", mapped);
	json__u64(j, "brk_growth", brk);
	json__u64(j, "framework", report_framework_live(r)); /* cpu blocks of live processes */
	json__u64(j, "unseen", rss > report_framework_live(r) ? rss - report_framework_live(r) : 0);
	if (!is_brief)
		put_kernel_series(j, r);
	json__end(j, '}');
}

/* Without the source `flow` there is no such object. */
static void put_flow(struct json *j, const struct report *r)
{
	static const char *const classes[MT_CLASS_MAX] = {
		[MT_CLASS_UNKNOWN] = "unknown", [MT_CLASS_PLAIN] = "plain",   [MT_CLASS_UNDEFINED] = "undefined",
		[MT_CLASS_OTHER] = "other",	[MT_CLASS_SPARSE] = "sparse", [MT_CLASS_NESTED] = "nested",
		[MT_CLASS_QUANTIZED] = "quantized",
	};
	const struct report_flow *f = &r->flow;

	if (!r->has_flow)
		return;
	json__begin(j, "flow", '{');
	json__str(j, "classes", r->classes == CLASSES_EXTENDED ? "extended" : "compat");
	json__u64(j, "nodes", f->nodes);
	json__u64(j, "edges", f->edges);
	json__u64(j, "versions", f->versions);
	json__u64(j, "replays", f->replays);
	json__u64(j, "output_twice", f->output_twice);
	json__u64(j, "input_stale", f->input_stale);
	json__u64(j, "moved", f->moved);
	json__u64(j, "unmapped", f->unmapped);
	json__begin_flat(j, "without_storage", '{'); /* tensors, by their C++ class */
	for (unsigned i = 0; i < MT_CLASS_MAX; i++)
		json__u64(j, classes[i] ? classes[i] : "?", f->by_class[i]);
	json__end(j, '}');
	json__end(j, '}');
}

int view_report_json(FILE *out, const struct report *r, const struct view_opts *opts)
{
	struct outbuf o;
	struct json j;
	size_t top = opts->top ? opts->top : SIZE_MAX;
	int err = json__begin_doc(&j, &o, out);

	if (err)
		return err;
	verdict_json(&j, r);
	put_target(&j, r);
	put_events(&j, r);
	put_coverage(&j, r, opts->is_brief);
	put_attach(&j, r);
	put_overhead(&j, r);
	oom_json(&j, r);
	devices_json(&j, r, opts->is_brief);
	put_kernel(&j, r, opts->is_brief);
	put_flow(&j, r);
	ops_json(&j, r, top);
	stacks_json(&j, r, top);
	leaks_json(&j, r);
	compiles_json(&j, r);
	places_json(&j, r, top);
	tensors_json(&j, r, top);
	modules_json(&j, r, opts->top);
	saved_json(&j, r, top);
	procs_json(&j, r, opts->is_brief ? VIEW_BRIEF_PROCS : SIZE_MAX);
	ranks_json(&j, r);
	blocks_json(&j, r, top);
	return json__end_doc(&j);
}

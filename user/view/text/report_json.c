/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The machine-readable report, schema 1. Field names are a contract: extend, never rename. Sizes are
 * bytes, durations ns, points in time ns since the epoch (0 where there is none).
 *
 * Every number comes from the report alone, so a live report and its replay are the same bytes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "event/event.h"
#include "plan/plan.h"
#include "view/json.h"
#include "view/report_words.h"
#include "view/tables/leaks.h"
#include "view/tables/marks.h"
#include "view/tables/modules.h"
#include "view/tables/oom.h"
#include "view/tables/ranks.h"
#include "view/tables/segments.h"
#include "view/tables/stacks.h"
#include "view/view.h"

static uint64_t epoch(const struct report *r, uint64_t ts_ns)
{
	return ts_ns ? ts_ns + (uint64_t)r->epoch_off_ns : 0;
}

static void put_target(struct json *j, const struct report *r)
{
	json__begin(j, "target", '{');
	json__u64(j, "pid", r->pid);
	json__str(j, "comm", r->comm);
	json__str(j, "cmdline", r->cmdline);
	json__end(j, '}');
	json__str(j, "tracer", r->host);
	json__u64(j, "start_ns", epoch(r, r->start_ts_ns));
	json__u64(j, "duration_ns", r->end_ts_ns - r->start_ts_ns);
	json__u64(j, "steps", r->steps);
}

static void put_events(struct json *j, const struct report *r)
{
	json__begin(j, "events", '{');
	for (unsigned i = 0; i < EV_MAX; i++)
		if (r->events[i])
			json__u64(j, event_kind_name((uint8_t)i), r->events[i]);
	json__end(j, '}');
	json__begin(j, "lost", '{');
	for (unsigned i = 1; i < MT_LOSS_MAX; i++)
		if (loss_name(i))
			json__u64(j, loss_name(i), r->lost[i]);
	json__end(j, '}');
}

/* Those that fired or could not be set; thousands of operators do neither. */
static void put_symbols(struct json *j, const struct report *r, int is_brief)
{
	size_t attached = 0, fired = 0;

	for (size_t i = 0; i < r->symbols_cnt; i++) {
		attached += r->symbols[i].attached > 0;
		fired += r->symbols[i].fired > 0;
	}
	json__begin(j, "symbols", '{');
	json__u64(j, "found", r->symbols_cnt);
	json__u64(j, "attached", attached);
	json__u64(j, "fired", fired);
	json__begin(j, "list", '[');
	for (size_t i = 0; i < r->symbols_cnt && !is_brief; i++) {
		const struct report_symbol *s = &r->symbols[i];

		if (!s->fired && s->attached == s->found)
			continue;
		json__begin_flat(j, NULL, '{');
		json__str(j, "symbol", s->name);
		json__str(j, "source", source_name((enum source)(1u << (s->source & 31))));
		json__u64(j, "found", s->found);
		json__u64(j, "attached", s->attached);
		json__u64(j, "fired", s->fired);
		json__end(j, '}');
	}
	json__end(j, ']');
	json__end(j, '}');
}

static void put_idle(struct json *j, const struct report *r)
{
	json__begin(j, "idle", '{');
	json__u64(j, "operators", r->idle_ops);
	json__u64(j, "probes_taken", r->idle_probes);
	json__u64(j, "late_total", r->late_ops_total);
	json__begin(j, "late", '[');
	for (size_t i = 0; i < r->late_ops_cnt; i++) {
		json__begin_flat(j, NULL, '{');
		json__str(j, "operator", r->late_ops[i].name);
		json__u64(j, "pid", r->late_ops[i].pid);
		json__u64(j, "ts_ns", r->late_ops[i].ts_ns);
		json__u64(j, "missed_ns", r->late_ops[i].missed_ns);
		json__end(j, '}');
	}
	json__end(j, ']');
	json__end(j, '}');
}

static void put_attach(struct json *j, const struct report *r)
{
	const struct report_attach *a = &r->attach;

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
	json__bool(j, "complete", r->ended);
	json__str(j, "end", report_end_word(r));
	json__begin(j, "sources", '[');
	for (size_t i = 0; i < r->covers_cnt; i++) {
		json__begin_flat(j, NULL, '{');
		json__u64(j, "pid", r->covers[i].pid);
		json__str(j, "source", r->covers[i].source);
		json__u64(j, "found", r->covers[i].found);
		json__u64(j, "attached", r->covers[i].attached);
		json__end(j, '}');
	}
	json__end(j, ']');
	put_symbols(j, r, is_brief);
	put_idle(j, r);
	json__begin(j, "notes", '[');
	for (size_t i = 0; i < r->notes_cnt; i++)
		json__str(j, NULL, r->notes[i]);
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
	json__u64(j, "steps", p->steps);
	json__u64(j, "median_step_ns", p->traced_ns);
	json__f64(j, "lost", p->lost);
	json__f64(j, "error", p->error);
	json__end(j, '}');
}

static void put_overhead(struct json *j, const struct report *r)
{
	json__begin(j, "overhead", '{');
	json__u64(j, "hits", r->probe_hits);
	json__u64(j, "probe_ns", r->probe_ns);
	json__f64(j, "fraction", r->overhead);
	json__f64(j, "fraction_most", r->overhead_most);
	put_price(j, &r->price);
	json__u64(j, "target_cpu_ns", r->target_cpu_ns);
	json__u64(j, "self_cpu_ns", r->self_cpu_ns);
	json__u64(j, "self_rss", r->self_rss);
	json__begin(j, "by_probe", '{');
	for (unsigned i = 1; i < MT_PROG_MAX; i++) {
		if (!r->costs[i].hits)
			continue;
		json__begin_flat(j, prog_key(i), '{');
		json__u64(j, "hits", r->costs[i].hits);
		json__u64(j, "ns", r->costs[i].ns);
		json__end(j, '}');
	}
	json__end(j, '}');
	json__end(j, '}');
}

static void put_series_as(struct json *j, const struct report *r, const struct series *s, const char *key)
{
	json__begin_flat(j, key, '{');
	json__u64(j, "bucket_ns", s->bucket_ns);
	json__begin(j, "points", '['); /* [time, highest in the bucket, at its end] */
	for (size_t i = 0; i < s->cnt; i++) {
		json__begin(j, NULL, '[');
		json__u64(j, NULL, epoch(r, s->points[i].ts_ns));
		json__u64(j, NULL, s->points[i].live_max);
		json__u64(j, NULL, s->points[i].live_end);
		json__end(j, ']');
	}
	json__end(j, ']');
	json__end(j, '}');
}

static void put_series(struct json *j, const struct report *r, const struct series *s)
{
	put_series_as(j, r, s, "series");
}

static void put_cats(struct json *j, const struct report_dev *d)
{
	json__begin(j, "categories", '{');
	for (unsigned i = 0; i < CAT_MAX; i++) {
		const struct report_cat *c = &d->cats[i];

		if (i != CAT_UNKNOWN && !c->live && !c->at_peak && !c->byte_ns)
			continue;
		json__begin_flat(j, category_name((enum category)i), '{');
		json__u64(j, "live", c->live);
		json__u64(j, "at_peak", c->at_peak);
		json__u64(j, "byte_ns", c->byte_ns);
		json__end(j, '}');
	}
	json__end(j, '}');
}

static void put_dev(struct json *j, const struct report *r, const struct report_dev *d, const char *key, int is_brief)
{
	json__begin(j, key, '{');
	json__u64(j, "live", d->live);
	json__u64(j, "peak", d->peak);
	json__u64(j, "peak_ns", epoch(r, d->peak_ts_ns));
	json__u64(j, "allocs", d->allocs);
	json__u64(j, "frees", d->frees);
	json__u64(j, "alloc_bytes", d->alloc_bytes);
	json__u64(j, "free_bytes", d->free_bytes);
	json__u64(j, "preexisting_frees", d->preexisting_frees);
	if (d->carried_blocks) {
		json__u64(j, "carried_blocks", d->carried_blocks);
		json__u64(j, "carried_bytes", d->carried_bytes);
	}
	json__u64(j, "preexisting_blocks", d->preexisting_blocks);
	json__u64(j, "preexisting_bytes", d->preexisting_bytes);
	json__u64(j, "dropped", d->dropped);
	json__u64(j, "dropped_bytes", d->dropped_bytes);
	json__u64(j, "ooms", d->ooms);
	json__u64(j, "oom_bytes_last", d->oom_bytes_last);
	json__u64(j, "byte_ns", d->byte_ns);
	segments_json(j, r, d);
	put_cats(j, d);
	if (!is_brief)
		put_series(j, r, &d->series);
	json__end(j, '}');
}

static void put_devs(struct json *j, const struct report *r, int is_brief)
{
	static const struct report_dev none = { .dev = MT_DEV_HOST };
	const struct report_dev *host = report_dev_find(r, MT_DEV_HOST);
	char name[16];

	json__begin(j, "devices", '{');
	for (size_t i = 0; i < r->devs_cnt; i++)
		if (r->devs[i].dev != MT_DEV_HOST)
			put_dev(j, r, &r->devs[i], dev_name(r->devs[i].dev, name), is_brief);
	json__end(j, '}');
	segments_json_host(j, r);
	if (host || report_has_source(r, "host"))
		put_dev(j, r, host ? host : &none, "host", is_brief);
}

static void put_kernel_series(struct json *j, const struct report *r)
{
	put_series(j, r, &r->rss);
	json__begin(j, "by_kind", '{'); /* the same over time by kind; pss and huge as often as they are read */
	for (unsigned i = 0; i < MT_RSS_KINDS; i++)
		put_series_as(j, r, &r->rss_kinds[i], rss_word(i));
	if (r->use[MT_USE_RSS]) {
		put_series_as(j, r, &r->pss, "pss");
		put_series_as(j, r, &r->huge, "huge");
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
	json__u64(j, "framework", report_framework_live(r)); /* cpu blocks of the processes that are there */
	json__u64(j, "unseen", rss > report_framework_live(r) ? rss - report_framework_live(r) : 0);
	if (!is_brief)
		put_kernel_series(j, r);
	json__end(j, '}');
}

/* Where there was no source `flow`, there is no such object. */
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

static void put_op(struct json *j, const struct report_op *op, const char *key, int can_be_node)
{
	json__begin_flat(j, key, '{');
	if (!key)
		json__str(j, "name", op->name);
	json__u64(j, "count", op->count);
	json__u64(j, "alloc_bytes", op->alloc_bytes);
	json__u64(j, "alloc_count", op->alloc_count);
	json__u64(j, "at_peak", op->at_peak);
	json__u64(j, "live", op->live);
	json__u64(j, "live_count", op->live_count);
	if (can_be_node)
		json__bool(j, "is_node", op->is_node);
	json__end(j, '}');
}

static void put_ops(struct json *j, const struct report *r, size_t top)
{
	json__begin(j, "ops", '[');
	for (size_t i = 0; i < r->ops_cnt && i < top; i++)
		put_op(j, &r->ops[i], NULL, 0);
	json__end(j, ']');
	json__u64(j, "ops_total", r->ops_total);
	put_op(j, &r->no_op, "no_op", 0);
	json__begin(j, "regions", '[');
	for (size_t i = 0; i < r->regions_cnt && i < top; i++)
		put_op(j, &r->regions[i], NULL, 1);
	json__end(j, ']');
	json__u64(j, "regions_total", r->regions_total);
}

/* Where it was read, there is this object. */
static void put_use(struct json *j, const struct report *r, const struct report_proc *p)
{
	if (!p->use_ts_ns)
		return;
	json__begin_flat(j, "use", '{');
	for (unsigned i = 0; i < MT_USES; i++)
		json__u64(j, use_word(i), p->use[i]);
	json__u64(j, "at_ns", epoch(r, p->use_ts_ns));
	json__end(j, '}');
}

static void put_proc(struct json *j, const struct report *r, const struct report_proc *p)
{
	static const char *const how[] = { "attached", "launched", "forked", "execed" };
	char state[32];

	json__begin(j, NULL, '{');
	json__u64(j, "pid", p->pid);
	json__u64(j, "ppid", p->ppid);
	json__str(j, "comm", p->comm);
	json__str(j, "cmdline", p->cmdline);
	json__begin_flat(j, "labels", '[');
	for (size_t i = 0; i < p->labels_cnt; i++)
		json__str(j, NULL, p->labels[i]);
	json__end(j, ']');
	proc_rank_json(j, p);
	json__str(j, "how", p->how < 4 ? how[p->how] : "?");
	json__str(j, "state", proc_state(state, p));
	json__u64(j, "live", p->live);
	json__u64(j, "peak", p->peak);
	json__u64(j, "peak_ns", epoch(r, p->peak_ts_ns));
	json__u64(j, "allocs", p->allocs);
	json__u64(j, "frees", p->frees);
	json__u64(j, "host_live", p->host_live);
	json__u64(j, "host_peak", p->host_peak);
	json__begin_flat(j, "rss", '{');
	json__u64(j, "total", p->rss_total);
	json__u64(j, "peak", p->rss_peak);
	for (unsigned i = 0; i < MT_RSS_KINDS; i++)
		json__u64(j, rss_word(i), p->rss[i]);
	json__end(j, '}');
	put_use(j, r, p);
	json__u64(j, "mapped", p->mapped);
	json__u64(j, "mapped_peak", p->mapped_peak);
	json__u64(j, "brk_growth", p->brk_growth);
	json__u64(j, "cpu_ns", p->cpu_ns);
	json__u64(j, "live_at_exit", p->live_at_exit);
	step_json(j, "highest_step", r, &p->highest_step);
	json__end(j, '}');
}

static void put_procs(struct json *j, const struct report *r, size_t max)
{
	size_t here = 0, skip_here, skip_gone;

	for (size_t i = 0; i < r->procs_cnt; i++)
		here += r->procs[i].gone != 1;
	skip_here = here > max ? here - max : 0;
	skip_gone = r->procs_cnt - skip_here > max ? r->procs_cnt - skip_here - max : 0;
	json__begin(j, "processes", '[');
	for (size_t i = 0; i < r->procs_cnt; i++) {
		size_t *skip = r->procs[i].gone != 1 ? &skip_here : &skip_gone;

		if (*skip)
			(*skip)--;
		else
			put_proc(j, r, &r->procs[i]);
	}
	json__end(j, ']');
}

static void put_block(struct json *j, const struct report *r, const struct report_block *b)
{
	char name[16];

	json__begin_flat(j, NULL, '{');
	json__u64(j, "id", b->id);
	json__str(j, "dev", dev_name(b->dev, name));
	json__hex(j, "ptr", b->ptr);
	json__u64(j, "size", b->size);
	json__str(j, "cat", category_name((enum category)(b->cat < CAT_MAX ? b->cat : CAT_UNKNOWN)));
	json__str_or_null(j, "op", b->op);
	json__str_or_null(j, "region", b->region);
	json__u64(j, "pid", b->pid);
	json__u64(j, "tid", b->tid);
	if (b->name)
		json__str(j, "name", b->name);
	if (b->has_stream)
		json__u64(j, "stream", b->stream);
	json__u64(j, "born_ns", epoch(r, b->born_ts_ns));
	json__u64(j, "freed_ns", epoch(r, b->freed_ts_ns));
	json__end(j, '}');
}

/* "float32[512,512]" as two fields; the text came through a recording, so it may be anything. */
static void put_type(struct json *j, const char *type)
{
	size_t len = strcspn(type, "[");
	char dtype[32];

	snprintf(dtype, sizeof(dtype), "%.*s", (int)(len < 31 ? len : 31), type);
	json__str(j, "dtype", dtype);
	if (!type[len] || type[len + 1] == '?') {
		json__null(j, "shape");
		return;
	}
	json__begin(j, "shape", '[');
	for (const char *c = type + len + 1; *c >= '0' && *c <= '9';) {
		char *end;

		json__u64(j, NULL, strtoull(c, &end, 10));
		c = *end == ',' ? end + 1 : end;
	}
	json__end(j, ']');
}

static void put_tensor(struct json *j, const struct report_tensor *t)
{
	char name[16];

	json__begin_flat(j, NULL, '{');
	json__str(j, "name", t->path);
	json__str(j, "root", t->root);
	json__str(j, "kind", tensor_kind_key(t->kind));
	json__str_or_null(j, "state", t->key);
	put_type(j, t->type);
	json__u64(j, "bytes", t->size);
	json__str(j, "cat", category_name((enum category)(t->cat < CAT_MAX ? t->cat : CAT_UNKNOWN)));
	json__str(j, "dev", dev_name(t->dev, name));
	json__hex(j, "ptr", t->ptr);
	json__u64(j, "id", t->id);
	json__u64(j, "pid", t->pid);
	json__end(j, '}');
}

/* Where Python told no name, there is no such object. */
static void put_names(struct json *j, const struct report *r, size_t top)
{
	if (!r->tensors_total)
		return;
	json__begin(j, "names", '{');
	json__begin(j, "kinds", '{');
	for (unsigned kind = 1; kind < EV_TENSOR_MAX; kind++) {
		json__begin_flat(j, tensor_kind_key(kind), '{');
		json__u64(j, "count", r->named[kind].cnt);
		json__u64(j, "bytes", r->named[kind].bytes);
		json__u64(j, "other_category_count", r->named[kind].differ_cnt);
		json__u64(j, "other_category_bytes", r->named[kind].differ_bytes);
		json__end(j, '}');
	}
	json__end(j, '}');
	json__begin(j, "list", '[');
	for (size_t i = 0; i < r->tensors_cnt && i < top; i++)
		put_tensor(j, &r->tensors[i]);
	json__end(j, ']');
	json__u64(j, "total", r->tensors_total);
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
	put_target(&j, r);
	put_events(&j, r);
	put_coverage(&j, r, opts->is_brief);
	put_attach(&j, r);
	put_overhead(&j, r);
	oom_json(&j, r);
	put_devs(&j, r, opts->is_brief);
	put_kernel(&j, r, opts->is_brief);
	put_flow(&j, r);
	put_ops(&j, r, top);
	stacks_json(&j, r, top);
	leaks_json(&j, r);
	put_names(&j, r, top);
	modules_json(&j, r, opts->top);
	put_procs(&j, r, opts->is_brief ? VIEW_BRIEF_PROCS : SIZE_MAX);
	ranks_json(&j, r);
	json__begin(&j, "peak_blocks", '[');
	for (size_t i = 0; i < r->peak_blocks_cnt && i < top; i++)
		put_block(&j, r, &r->peak_blocks[i]);
	json__end(&j, ']');
	return json__end_doc(&j);
}

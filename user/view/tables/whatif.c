/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/whatif.h"

#include <inttypes.h>
#include <string.h>

#include "event/event.h"
#include "timeline/report.h"
#include "view/json.h"
#include "view/page.h"
#include "view/table.h"

#define WIDTH 100

static double share(const struct whatif *w, uint64_t bytes)
{
	uint64_t all = w->mates.paired + w->mates.alone;

	return all ? (double)bytes / (double)all : 0;
}

static double paired_share(const struct whatif *w)
{
	return share(w, w->mates.paired);
}

static double fit_error(const struct whatif *w)
{
	return (double)w->second_fitted / (double)w->second - 1;
}

static void put_batch(struct page *p, const struct whatif_view *v)
{
	const struct whatif *w = v->w;
	struct sentence s = { 0 };

	if (!v->opts->batch_a)
		return;
	if (v->opts->batch)
		sentence__add(&s, "%" PRIu64 " instead of %" PRIu64, v->opts->batch, v->opts->batch_a);
	else
		sentence__add(&s, "%" PRIu64 " as recorded", v->opts->batch_a);
	sentence__add(&s, "; %.1f %% of the step's bytes %s", 100 * paired_share(w),
		      v->opts->batch_b ? "were found in both recordings" : "go with it, by their kind");
	page__para(p, "batch", s.text);
}

/* The lower and upper bound, and the reasons. */
static void put_sure(struct page *p, const struct whatif_view *v)
{
	const struct whatif *w = v->w;
	const uint64_t *between = v->opts->batch ? w->between : w->largest_between;
	double off = w->variation_a > w->variation_b ? w->variation_a : w->variation_b;
	char a[24], b[24];
	struct sentence s = { 0 };

	if (!v->opts->batch_a || !between[1])
		return;
	sentence__add(&s, "between %s and %s: ", fmt_bytes(a, between[0]), fmt_bytes(b, between[1]));
	if (v->opts->batch_b)
		sentence__add(&s, "%.1f %% of the bytes are in one recording alone, %.1f %% go with no line of the batch",
			      100 * share(w, w->mates.alone), 100 * share(w, w->mates.unsure));
	else
		sentence__add(&s, "of one recording, kinds of blocks alone say what goes with the batch");
	if (off > 0)
		sentence__add(&s, "; the steps before the last one were up to %s off it", fmt_bytes(a, (uint64_t)off));
	page__para(p, "how sure", s.text);
}

/* The answer, and how far its basis is from measured values. */
static void put_largest(struct page *p, const struct whatif_view *v)
{
	const uint64_t most = v->opts->batch_b > v->opts->batch_a ? v->opts->batch_b : v->opts->batch_a;
	const struct whatif *w = v->w;
	char a[24], b[24];
	struct sentence s = { 0 };

	if (!v->opts->budget || !v->opts->batch_a)
		return;
	if (w->largest_batch)
		sentence__add(&s, "The largest batch that fits into %s is %" PRIu64 ", with a peak of %s.",
			      fmt_bytes(a, v->opts->budget), w->largest_batch, fmt_bytes(b, w->at_largest));
	else
		sentence__add(&s, "No batch fits into %s.", fmt_bytes(a, v->opts->budget));
	if (w->second)
		sentence__add(&s, " The fit is %+.2f %% off the measured peak with %" PRIu64, 100 * fit_error(w),
			      v->opts->batch_b);
	else
		sentence__add(&s, " From one recording, nothing to hold it against");
	if (w->largest_batch > most)
		sentence__add(&s, "; %" PRIu64 " is %s times what was recorded.", w->largest_batch,
			      fmt_count(a, (double)w->largest_batch / (double)most));
	else
		sentence__add(&s, ".");
	page__flow(p, 0, s.text);
}

static void put_shard(struct page *p, const struct whatif_view *v)
{
	const struct shard_result *s = &v->w->shard;
	char a[24], b[24], c[24], d[24];

	if (!v->opts->ranks)
		return;
	page__paraf(p, "shard", "of %" PRIu32 " ranks each has %s of %s of parameters; gathered at a time: %s of the root and "
		    "units of at most %s (%zu%s), parameters %s", v->opts->ranks, fmt_bytes(a, s->sharded),
		    fmt_bytes(b, s->parameters), fmt_bytes(c, s->root), fmt_bytes(d, s->largest), s->units,
		    s->is_guess ? ", the members of numbered lists" : "",
		    v->opts->no_reshard ? "kept from forward to backward" : "dropped after forward");
}

static void module(struct cell *c, const void *row)
{
	const struct recompute_module *m = row;

	c->text = m->path;
	if (c->d->as == AS_TEXT) {
		text_fit(c->buf, TEXT_BYTES_MAX, m->path, 50);
		strcat(c->buf, m->is_chosen ? "" : " (not chosen)");
		c->text = c->buf;
	}
}

static void not_kept(struct cell *c, const void *row)
{
	c->num = (uint64_t)((const struct recompute_module *)row)->bytes;
}

/* What autograd keeps of it at present: from the report's module of this path. */
static void kept_now(struct cell *c, const void *row)
{
	const struct recompute_module *m = row;
	const struct whatif_view *v = c->d->of;

	c->none = NONE_NULL;
	for (size_t i = 0; i < v->report->modules.cnt && c->none; i++) {
		const struct report_module *k = &v->report->modules.rows[i];

		if (k->pid != v->opts->a_kept->pid || !k->name || strcmp(k->name, m->path))
			continue;
		c->num = k->all.saved;
		c->none = 0;
	}
}

static const struct column columns[] = {
	{ "module", "module", COL_TEXT, VIA(module), TEXT(6, 30, .wide = 1, .gap = 2) },
	{ "bytes", "not kept", COL_BYTES, VIA(not_kept), TEXT(2, 11) },
	{ "saved", "kept now", COL_BYTES, VIA(kept_now), TEXT(1, 11) },
	{ "time_ns", "runs again", COL_NS, OF(recompute_module, time_ns), TEXT(3, 12) },
	{ "steps", NULL, COL_COUNT, OF(recompute_module, steps) },
	{ "peak_so_far", "peak then", COL_BYTES, OF(recompute_module, peak), TEXT(4, 11) },
	{ "time_so_far_ns", "time in all", COL_NS, OF(recompute_module, time_all_ns), TEXT(5, 12) },
	{ "is_chosen", NULL, COL_BOOL, OF(recompute_module, is_chosen) },
};

static const struct table module_table = TABLE(columns, .spare = -24);

static void put_modules(struct page *p, const struct whatif_view *v)
{
	const struct recompute_result *s = &v->w->recompute;
	struct drawn d = drawn_as(AS_TEXT, v->report);
	size_t least = RECOMPUTE_STEPS_MAX;
	char text[240], a[24];

	d.of = v;
	page__heading(p, "Checkpointed, one after the other");
	table__text(p, &module_table, &d, s->modules, s->cnt, sizeof(*s->modules));
	for (size_t k = 0; k < s->cnt; k++)
		least = s->modules[k].steps < least ? s->modules[k].steps : least;
	snprintf(text, sizeof(text), "Times: the median of %zu recorded step%s, with Python and the tracing in them", least,
		 least == 1 ? "" : "s");
	if (v->probe_share > 0)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), " (its probes took %s of the job's CPU time)",
			 fmt_share(a, v->probe_share, 1));
	page__end_line(p);
	page__flow(p, 0, strcat(text, "."));
}

static void put_checkpoint(struct page *p, const struct whatif_view *v)
{
	const struct recompute_result *s = &v->w->recompute;
	char a[24], b[24];

	if (!v->opts->checkpoint)
		return;
	if (v->opts->budget && !v->opts->batch_a)
		page__paraf(p, "checkpoint", "%zu of %zu module%s, %s of running again a step; %s %s (%s)", s->chosen, s->cnt,
			    s->cnt == 1 ? "" : "s", fmt_ns(a, s->time_ns),
			    s->fits ? "the least that fits into" : "no set fits into", fmt_bytes(b, v->opts->budget),
			    s->is_exact ? "of all sets" : "in the order below");
	else
		page__paraf(p, "checkpoint", "%zu module%s, %s of running again a step", s->chosen, s->chosen == 1 ? "" : "s",
			    fmt_ns(a, s->time_ns));
	put_modules(p, v);
}

int whatif_view_text(FILE *out, const struct whatif_view *v, const struct view_opts *opts)
{
	const struct whatif *w = v->w;
	char safe[TEXT_BYTES_MAX], dev[16], a[24], b[24];
	struct page p;
	int err = page__open(&p, out, opts, WIDTH);

	if (err)
		return err;
	text_fit(safe, sizeof(safe), v->path, 60);
	page__style(&p, STYLE_BOLD);
	page__put(&p, safe);
	page__style(&p, STYLE_PLAIN);
	page__line(&p, ": %s, process %" PRIu32 ", %s", dev_name(v->opts->a_kept->dev, dev), v->opts->a_kept->pid,
		   v->opts->a_kept->has_step ? "the last whole step" : "all of it: no step was seen");
	put_largest(&p, v);
	page__para(&p, "recorded", fmt_bytes(a, w->recorded));
	page__paraf(&p, "estimated", "%s (%+.1f %%)", fmt_bytes(a, w->peak),
		    w->recorded ? 100 * ((double)w->peak / (double)w->recorded - 1) : 0);
	put_batch(&p, v);
	put_sure(&p, v);
	put_shard(&p, v);
	put_checkpoint(&p, v);
	if (v->optimizer)
		page__paraf(&p, "optimizer", "%s; parameters have %s, the recorded optimizer's state %s", v->optimizer,
			    fmt_bytes(a, w->parameters), fmt_bytes(b, w->state));
	if (v->lost)
		page__para(&p, "not seen", "events were lost: what they say is missing here");
	page__end_line(&p);
	page__flow(&p, 0, "Every block of the recorded step keeps its life and gets another size. Bytes of tensors: what an "
			  "allocator keeps in reserve and what libraries take for themselves is not in it.");
	return page__done(&p);
}

static void json_checkpoint(struct json *j, const struct whatif_view *v)
{
	const struct recompute_result *s = &v->w->recompute;
	struct drawn d = drawn_as(AS_JSON, v->report);

	d.of = v;
	json__begin(j, "checkpoint", '{');
	json__u64(j, "chosen", s->chosen);
	json__u64(j, "time_ns", s->time_ns);
	json__f64(j, "probe_share", v->probe_share);
	if (v->opts->budget && !v->opts->batch_a) {
		json__u64(j, "budget", v->opts->budget);
		json__bool(j, "fits", s->fits);
		json__bool(j, "is_exact", s->is_exact);
	}
	table__list(j, "modules", &module_table, &d, s->modules, s->cnt, sizeof(*s->modules));
	json__end(j, '}');
}

int whatif_view_json(FILE *out, const struct whatif_view *v)
{
	const struct whatif *w = v->w;
	struct outbuf o;
	struct json j;
	char dev[16];
	int err = json__begin_doc(&j, &o, out);

	if (err)
		return err;
	json__str(&j, "kind", "what-if");
	json__str(&j, "file", v->path);
	json__str(&j, "device", dev_name(v->opts->a_kept->dev, dev));
	json__u64(&j, "pid", v->opts->a_kept->pid);
	json__bool(&j, "is_whole_step", v->opts->a_kept->has_step);
	json__u64(&j, "lost", v->lost);
	json__u64(&j, "recorded_peak", w->recorded);
	json__u64(&j, "peak_of_all", v->opts->a_kept->peak);
	json__u64(&j, "estimated_peak", w->peak);
	json__u64(&j, "parameters", w->parameters);
	json__u64(&j, "optimizer_state", w->state);
	if (v->opts->batch_a) {
		json__u64(&j, "batch", v->opts->batch ? v->opts->batch : v->opts->batch_a);
		json__f64(&j, "paired_share", paired_share(w));
		json__u64(&j, "estimated_low", w->between[0]);
		json__u64(&j, "estimated_high", w->between[1]);
		json__u64(&j, "step_variation", (uint64_t)w->variation_a);
	}
	if (w->second) {
		json__u64(&j, "second_peak", w->second);
		json__u64(&j, "second_peak_fitted", w->second_fitted);
		json__f64(&j, "fit_error", fit_error(w));
		json__f64(&j, "unsure_share", share(w, w->mates.unsure));
		json__u64(&j, "only_in_second", (uint64_t)w->mates.only_b);
		json__u64(&j, "second_step_variation", (uint64_t)w->variation_b);
	}
	if (v->opts->batch_a && v->opts->budget) {
		json__u64(&j, "budget", v->opts->budget);
		json__u64(&j, "largest_batch", w->largest_batch);
		json__u64(&j, "at_largest_batch", w->at_largest);
		json__u64(&j, "at_largest_batch_low", w->largest_between[0]);
		json__u64(&j, "at_largest_batch_high", w->largest_between[1]);
	}
	if (v->opts->ranks) {
		json__begin(&j, "shard", '{');
		json__u64(&j, "ranks", v->opts->ranks);
		json__u64(&j, "units", v->w->shard.units);
		json__u64(&j, "parameters", v->w->shard.parameters);
		json__u64(&j, "parameters_of_rank", v->w->shard.sharded);
		json__u64(&j, "largest_unit", v->w->shard.largest);
		json__u64(&j, "root", v->w->shard.root);
		json__end(&j, '}');
	}
	if (v->opts->checkpoint)
		json_checkpoint(&j, v);
	return json__end_doc(&j);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The live view where there is no terminal: one line a call, "key=value" fields, bytes and counts as integers. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/text.h"
#include "event/event.h"
#include "view/outbuf.h"
#include "view/report_words.h"
#include "view/tables/leaks.h"
#include "view/tables/segments.h"
#include "view/view.h"

struct dev_before {
	uint64_t allocs, frees;
};

struct live_view {
	FILE *out;
	struct dev_before devs[256]; /* of the report before, by device */
	uint64_t end_ts_ns, steps;
	int has_before;
};

struct live_view *live_view__new(FILE *out)
{
	struct live_view *v = calloc(1, sizeof(*v));

	if (v)
		v->out = out;
	return v;
}

void live_view__free(struct live_view *v)
{
	free(v);
}

/* Per second, between the report before and this one; counters that went back count as 0. */
static double rate(const struct live_view *v, const struct report *r, uint64_t before, uint64_t now)
{
	uint64_t since = v->has_before ? v->end_ts_ns : r->run.start_ts_ns;

	if (r->run.end_ts_ns <= since || now < before)
		return 0;
	return (double)(now - before) * 1e9 / (double)(r->run.end_ts_ns - since);
}

static void live_view__remember(struct live_view *v, const struct report *r)
{
	for (size_t i = 0; i < r->devs_cnt; i++)
		v->devs[r->devs[i].dev] = (struct dev_before){ r->devs[i].allocs, r->devs[i].frees };
	v->end_ts_ns = r->run.end_ts_ns;
	v->steps = r->marks.steps_total;
	v->has_before = 1;
}

static const struct report_op *op_with_most_live(const struct report *r)
{
	const struct report_op *best = NULL;

	for (size_t i = 0; i < r->ops.cnt; i++)
		if (r->ops.rows[i].live && (!best || r->ops.rows[i].live > best->live))
			best = &r->ops.rows[i];
	return best;
}

/* Categories of a device: those of torch.profiler always, others if present. */
static int cat_is_shown(const struct report *r, const struct report_dev *d, unsigned cat)
{
	return d->dev != MT_DEV_HOST && (cat < CAT_COMPAT_MAX || r->classes == CLASSES_EXTENDED);
}

static void put_cat_fields(struct outbuf *o, const struct report *r)
{
	char name[16];

	if (!report_has_cats(r))
		return;
	for (size_t i = 0; i < r->devs_cnt; i++) {
		const struct report_dev *d = &r->devs[i];

		for (unsigned c = 0; c < CAT_MAX; c++)
			if (cat_is_shown(r, d, c))
				outbuf__printf(o, " %s.%s=%" PRIu64, dev_name(d->dev, name),
					       category_name((enum category)c), d->cats[c].live);
	}
}

static int live_view__line(struct live_view *v, const struct report *r)
{
	const struct report_op *op = op_with_most_live(r);
	struct outbuf o;
	uint64_t peak, rss;
	char name[TEXT_BYTES_MAX];
	int err = outbuf__init(&o, v->out);

	if (err)
		return err;
	outbuf__printf(&o, "time_s=%.1f", (double)(r->run.end_ts_ns - r->run.start_ts_ns) / 1e9);
	for (size_t i = 0; i < r->devs_cnt; i++) {
		const struct report_dev *d = &r->devs[i];

		dev_name(d->dev, name);
		outbuf__printf(&o, " %s.live=%" PRIu64 " %s.peak=%" PRIu64 " %s.allocs_per_s=%.0f %s.frees_per_s=%.0f",
			       name, d->live, name, d->peak, name, rate(v, r, v->devs[d->dev].allocs, d->allocs), name,
			       rate(v, r, v->devs[d->dev].frees, d->frees));
		if (segments_are_seen(&d->segs))
			outbuf__printf(&o, " %s.driver=%" PRIu64 " %s.allocator=%" PRIu64 " %s.free=%" PRIu64, name,
				       d->segs.driver, name, d->segs.allocator, name, d->segs.unused);
	}
	put_cat_fields(&o, r);
	rss = report_rss(r, &peak);
	if (peak || report_has_source(r, "kernel"))
		outbuf__printf(&o, " rss=%" PRIu64, rss);
	outbuf__printf(&o, " steps=%" PRIu64 " lost=%" PRIu64 " hits=%" PRIu64 " overhead=%.4f", r->marks.steps_total,
		       report_lost_sum(r), r->cost.hits, r->cost.share);
	if (r->sampling.is_on)
		outbuf__printf(&o, " steps_traced=%" PRIu64 " price=%.4f", r->sampling.steps_traced, r->sampling.price_ratio);
	if (r->compiles.again)
		outbuf__printf(&o, " recompiles=%" PRIu64, r->compiles.again);
	if (op) {
		text_fit(name, sizeof(name), op->name, 120);
		for (char *q; (q = strchr(name, '"'));)
			*q = '\'';
		outbuf__printf(&o, " top=\"%s\" top_live=%" PRIu64, name, op->live);
	}
	if (r->leaks.cnt && !r->leaks.rows[0].is_over) {
		leak_words(name, r->leaks.rows, 60);
		for (char *q; (q = strchr(name, '"'));)
			*q = '\'';
		outbuf__printf(&o, " growing=\"%s\"", name);
	}
	outbuf__char(&o, '\n');
	err = outbuf__flush(&o);
	outbuf__done(&o);
	return err;
}

int live_view__draw(struct live_view *v, const struct report *now)
{
	int err = live_view__line(v, now);

	live_view__remember(v, now);
	return err;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The page of html_page.h around another document: {"schema", "diff": {"sides", "tables"}}; a table is diff --json. */
#include "view/page/diff_page.h"

#include <errno.h>
#include <stdlib.h>

#include "event/event.h"
#include "timeline/report.h"
#include "view/json.h"
#include "view/page/html_doc.h"
#include "view/page/html_page.h"
#include "view/tables/diff.h"
#include "view/tables/verdict.h"

static void put_device(struct json *j, const struct report *r, const struct report_dev *d)
{
	char name[16];

	json__begin(j, dev_name(d->dev, name), '{');
	json__u64(j, "peak", d->peak);
	json__u64(j, "peak_after_ns", d->peak_ts_ns > r->run.start_ts_ns ? d->peak_ts_ns - r->run.start_ts_ns : 0);
	json__begin_flat(j, "points", '['); /* [time since the start, highest]; null: nothing was traced, or not yet */
	for (size_t i = 0; i < d->series.cnt; i++) {
		const struct point *p = &d->series.points[i];

		json__begin(j, NULL, '[');
		json__u64(j, NULL, p->ts_ns > r->run.start_ts_ns ? p->ts_ns - r->run.start_ts_ns : 0);
		if (p->live_max == POINT_UNKNOWN || (!p->live_max && p->ts_ns < report_traced_from_ns(r)))
			json__null(j, NULL);
		else
			json__u64(j, NULL, p->live_max);
		json__end(j, ']');
	}
	json__end(j, ']');
	json__end(j, '}');
}

static void put_side(struct json *j, const struct diff_side *s, const char *path)
{
	const struct report *r = s->end;

	json__begin(j, NULL, '{');
	json__str(j, "file", path);
	json__u64(j, "duration_ns", r->run.end_ts_ns - r->run.start_ts_ns);
	json__u64(j, "from_ns", s->from_ns > r->run.start_ts_ns ? s->from_ns - r->run.start_ts_ns : 0);
	json__u64(j, "whole_steps", s->steps);
	json__u64(j, "lost", report_lost_events(r));
	verdict_json(j, r);
	json__begin(j, "devices", '{');
	for (size_t i = 0; i < r->devs_cnt; i++)
		put_device(j, r, &r->devs[i]);
	json__end(j, '}');
	json__begin_flat(j, "steps", '['); /* [number, highest] of each */
	for (size_t i = 0; i < r->marks.steps_cnt; i++) {
		json__begin(j, NULL, '[');
		json__u64(j, NULL, r->marks.steps[i].number);
		json__u64(j, NULL, step_marks__peak(&r->marks.steps[i]));
		json__end(j, ']');
	}
	json__end(j, ']');
	json__end(j, '}');
}

static int put_table(struct json *j, const struct diff_page *d, enum diff_by by)
{
	const struct view_opts vo = { .top = d->top };
	struct diff diff;
	struct diff_view v = { .diff = &diff, .sides = d->sides, .paths = d->paths, .by = by };
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	int r = f ? diff__make(&diff, &d->sides[0], &d->sides[1], by) : -ENOMEM;

	if (!r) {
		r = diff_view_json(f, &v, &vo);
		diff__done(&diff);
	}
	if (f && fclose(f) && !r)
		r = -ENOMEM;
	if (!r)
		json__raw(j, NULL, text, len);
	free(text);
	return r;
}

static int put_document(FILE *out, const struct diff_page *d)
{
	struct outbuf o;
	struct json j;
	int r = json__begin_doc(&j, &o, out), e;

	if (r)
		return r;
	json__begin(&j, "diff", '{');
	json__begin(&j, "sides", '[');
	for (int i = 0; i < 2; i++)
		put_side(&j, &d->sides[i], d->paths[i]);
	json__end(&j, ']');
	json__begin(&j, "tables", '[');
	for (size_t i = 0; i < d->by_cnt && !r; i++)
		r = put_table(&j, d, d->by[i]);
	json__end(&j, ']');
	json__end(&j, '}');
	e = json__end_doc(&j);
	return r ? r : e;
}

static int put_page(FILE *out, const char *document, size_t len)
{
	struct html_part head = html_page__head(), tail = html_page__tail();
	struct outbuf o;
	int r = outbuf__init(&o, out);

	if (r)
		return r;
	outbuf__put(&o, head.text, head.len);
	html_put_escaped(&o, document, len);
	outbuf__put(&o, tail.text, tail.len);
	r = outbuf__flush(&o);
	outbuf__done(&o);
	return r;
}

int diff_page__write(FILE *out, const struct diff_page *d)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f;
	int r;

	if (html_page__missing())
		return -ENOTSUP;
	f = open_memstream(&text, &len);
	r = f ? put_document(f, d) : -ENOMEM;
	if (f && fclose(f) && !r)
		r = -ENOMEM;
	if (!r)
		r = put_page(out, text, len);
	free(text);
	return r;
}

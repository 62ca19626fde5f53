/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/check.h"

#include <errno.h>
#include <string.h>

#include "event/event.h"
#include "timeline/report.h"
#include "verdict/verdict.h"
#include "view/json.h"
#include "view/page.h"
#include "view/tables/verdict.h"
#include "view/view.h"

#define CATS_SHOWN 4

struct category_share {
	enum category cat;
	uint64_t bytes;
};

/* Categories at the peak, the largest first; returns how many. */
static size_t shares(const struct check_view *v, struct category_share ret[CAT_MAX])
{
	size_t cnt = 0;

	for (int c = 0; c < CAT_MAX; c++) {
		struct category_share s = { (enum category)c, v->dev->cats[c].at_peak };
		size_t at = cnt;

		if (!s.bytes)
			continue;
		for (; at && ret[at - 1].bytes < s.bytes; at--)
			ret[at] = ret[at - 1];
		ret[at] = s;
		cnt++;
	}
	return cnt;
}

static int is_above(const struct check_view *v)
{
	return v->bytes > v->max;
}

/* Its end is missing, and might have been above the limit. */
static int is_cut(const struct check_view *v)
{
	return !v->r->run.ended && !is_above(v);
}

#define SUBJECT_BYTES 160

/* "cpu", "ACTIVATION on cpu", "cpu (--pid 12)" */
static const char *subject(const struct check_view *v, char buf[SUBJECT_BYTES])
{
	const char *choice = v->r->run.choice;
	char dev[16];

	snprintf(buf, SUBJECT_BYTES, "%s%s%s%s%.100s%s", v->category < 0 ? "" : category_name((enum category)v->category),
		 v->category < 0 ? "" : " on ", dev_name(v->dev->dev, dev), choice ? " (" : "", choice ? choice : "",
		 choice ? ")" : "");
	return buf;
}

static uint64_t peak_after_ns(const struct check_view *v)
{
	return v->dev->peak_ts_ns > v->r->run.start_ts_ns ? v->dev->peak_ts_ns - v->r->run.start_ts_ns : 0;
}

int check_view_text(FILE *out, const struct check_view *v, const struct view_opts *opts)
{
	char what[SUBJECT_BYTES], a[24], b[24], c[24], d[24], text[400 + SUBJECT_BYTES], jobs[JOBS_WORDS_BYTES];
	uint64_t lost = report_lost_events(v->r);
	struct category_share cats[CAT_MAX];
	size_t cnt = shares(v, cats), n = 0;
	struct page p;
	int r = page__open(&p, out, opts, PAGE_WIDTH);

	if (r < 0)
		return r;
	page__style(&p, is_above(v) ? STYLE_RED : STYLE_BOLD);
	page__put(&p, is_above(v) ? "above the limit: " : "within the limit: ");
	page__style(&p, STYLE_PLAIN);
	snprintf(text, sizeof(text), "%s had %s at the peak, after %s; %s are allowed, %s %s", subject(v, what),
		 fmt_bytes(a, v->bytes), fmt_ns(d, peak_after_ns(v)), fmt_bytes(b, v->max),
		 fmt_bytes(c, is_above(v) ? v->bytes - v->max : v->max - v->bytes), is_above(v) ? "too much" : "are left");
	page__flow(&p, 2, text);
	text[0] = '\0';
	for (size_t i = 0; i < cnt && i < CATS_SHOWN && v->r->has_flow; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s %s", i ? ", " : "", category_name(cats[i].cat),
				      fmt_bytes(a, cats[i].bytes));
	if (n)
		page__para(&p, "made of", text);
	if (jobs_words(v->r, v->dev, v->path, jobs)[0])
		page__para(&p, "sum", jobs);
	if (lost)
		page__paraf(&p, "lost", "%s events: the peak may have been higher", fmt_count(a, (double)lost));
	if (is_cut(v))
		page__para(&p, "cut", "the recording's end is missing: the peak may have been higher later");
	return page__done(&p);
}

int check_view_json(FILE *out, const struct check_view *v)
{
	struct category_share cats[CAT_MAX];
	size_t cnt = shares(v, cats);
	struct outbuf o;
	struct json j;
	char dev[16];
	int r = json__begin_doc(&j, &o, out);

	if (r < 0)
		return r;
	json__str(&j, "file", v->path);
	json__str(&j, "device", dev_name(v->dev->dev, dev));
	whose_json(&j, v->r, verdict_jobs_on(v->r, v->dev));
	json__str_or_null(&j, "category", v->category < 0 ? NULL : category_name((enum category)v->category));
	json__bool(&j, "ok", !is_above(v));
	json__u64(&j, "bytes", v->bytes);
	json__u64(&j, "max_peak", v->max);
	json__u64(&j, "peak", v->dev->peak);
	json__u64(&j, "peak_after_ns", peak_after_ns(v));
	json__begin_flat(&j, "at_peak", '{');
	for (size_t i = 0; i < cnt; i++)
		json__u64(&j, category_name(cats[i].cat), cats[i].bytes);
	json__end(&j, '}');
	json__u64(&j, "lost", report_lost_events(v->r));
	return json__end_doc(&j);
}

int check_view_md(FILE *out, const struct check_view *v)
{
	char what[SUBJECT_BYTES], a[24], b[24], jobs[JOBS_WORDS_BYTES];
	struct category_share cats[CAT_MAX];
	size_t cnt = v->category < 0 && v->r->has_flow ? shares(v, cats) : 0; /* with one category the others do not count */

	fprintf(out, "**memtrace: peak %s the limit**\n\n| | at the peak | limit |\n|---|---:|---:|\n| %s | %s | %s |\n",
		is_above(v) ? "above" : "within", subject(v, what), fmt_bytes(a, v->bytes), fmt_bytes(b, v->max));
	for (size_t i = 0; i < cnt; i++)
		fprintf(out, "| … %s | %s | |\n", category_name(cats[i].cat), fmt_bytes(a, cats[i].bytes));
	if (jobs_words(v->r, v->dev, v->path, jobs)[0])
		fprintf(out, "\n%s.\n", jobs);
	if (report_lost_events(v->r))
		fprintf(out, "\n%s events were lost: the peak may have been higher.\n",
			fmt_count(a, (double)report_lost_events(v->r)));
	if (is_cut(v))
		fputs("\nThe recording's end is missing: the peak may have been higher later.\n", out);
	return fflush(out) || ferror(out) ? -EIO : 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The live view. On a terminal it lives on the alternate screen, as top(1) does, and draws it whole
 * each time from its top left corner: nothing to get out of step with when the window changes its
 * size. Each line ends with "erase to the end of line", the last with "erase below": no flicker.
 * Line wrap is off meanwhile: a line too long for the window is cut by the terminal.
 *
 * In a pipe: one line a call, "key=value" fields, bytes and counts as plain integers.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "event/event.h"
#include "view/page.h"
#include "view/report_words.h"
#include "view/view.h"

#define FOOT_LINES 5

struct dev_before {
	uint64_t allocs, frees;
};

struct live_view {
	FILE *out;
	int is_tty, is_on_screen;
	struct view_opts opts;
	struct dev_before devs[256]; /* of the report before, by device */
	uint64_t end_ts_ns, steps;
	uint64_t probe_ns, cpu_ns, lost;
	int has_before;
	char message[256];
};

struct live_view *live_view__new(FILE *out, int is_tty, const struct view_opts *opts)
{
	struct live_view *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->out = out;
	v->is_tty = is_tty;
	v->opts = *opts;
	return v;
}

void live_view__free(struct live_view *v)
{
	if (!v)
		return;
	if (v->is_on_screen) {
		fputs("\x1b[?7h\x1b[?25h\x1b[?1049l", v->out);
		fflush(v->out);
	}
	free(v);
}

void live_view__message(struct live_view *v, const char *text)
{
	snprintf(v->message, sizeof(v->message), "%s", text ? text : "");
}

/* Per second, between the report before and this one; counters that went back count as 0. */
static double rate(const struct live_view *v, const struct report *r, uint64_t before, uint64_t now)
{
	uint64_t since = v->has_before ? v->end_ts_ns : r->start_ts_ns;

	if (r->end_ts_ns <= since || now < before)
		return 0;
	return (double)(now - before) * 1e9 / (double)(r->end_ts_ns - since);
}

static void live_view__remember(struct live_view *v, const struct report *r)
{
	for (size_t i = 0; i < r->devs_cnt; i++)
		v->devs[r->devs[i].dev] = (struct dev_before){ r->devs[i].allocs, r->devs[i].frees };
	v->end_ts_ns = r->end_ts_ns;
	v->steps = r->steps;
	v->has_before = 1;
}

/* --- plain lines -------------------------------------------------------------------------------- */

static const struct report_op *op_with_most_live(const struct report *r, const struct report_op *const *shown,
						 size_t shown_cnt)
{
	const struct report_op *best = NULL;

	for (size_t i = 0; i < r->ops_cnt; i++) {
		const struct report_op *op = &r->ops[i];
		int is_shown = 0;

		for (size_t k = 0; k < shown_cnt; k++)
			is_shown |= shown[k] == op;
		if (!is_shown && op->live && (!best || op->live > best->live))
			best = op;
	}
	return best;
}

/* Categories of a device: those of torch.profiler always, further ones where they are. */
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
	const struct report_op *op = op_with_most_live(r, NULL, 0);
	struct outbuf o;
	uint64_t peak, rss;
	char name[TEXT_BYTES_MAX];
	int err = outbuf__init(&o, v->out);

	if (err)
		return err;
	outbuf__printf(&o, "time_s=%.1f", (double)(r->end_ts_ns - r->start_ts_ns) / 1e9);
	for (size_t i = 0; i < r->devs_cnt; i++) {
		const struct report_dev *d = &r->devs[i];

		dev_name(d->dev, name);
		outbuf__printf(&o, " %s.live=%" PRIu64 " %s.peak=%" PRIu64 " %s.allocs_per_s=%.0f %s.frees_per_s=%.0f",
			       name, d->live, name, d->peak, name, rate(v, r, v->devs[d->dev].allocs, d->allocs), name,
			       rate(v, r, v->devs[d->dev].frees, d->frees));
	}
	put_cat_fields(&o, r);
	rss = report_rss(r, &peak);
	if (peak || report_has_source(r, "kernel"))
		outbuf__printf(&o, " rss=%" PRIu64, rss);
	outbuf__printf(&o, " steps=%" PRIu64 " lost=%" PRIu64 " hits=%" PRIu64 " overhead=%.4f", r->steps,
		       report_lost_sum(r), r->probe_hits, r->overhead);
	if (op) {
		text_fit(name, sizeof(name), op->name, 120);
		for (char *q; (q = strchr(name, '"'));)
			*q = '\'';
		outbuf__printf(&o, " top=\"%s\" top_live=%" PRIu64, name, op->live);
	}
	outbuf__char(&o, '\n');
	err = outbuf__flush(&o);
	outbuf__done(&o);
	return err;
}

/* --- the table ------------------------------------------------------------------------------------ */

static void live_view__size(struct live_view *v, unsigned *ret_width, unsigned *ret_height)
{
	struct winsize ws = { 0 };

	if (ioctl(fileno(v->out), TIOCGWINSZ, &ws) < 0)
		ws = (struct winsize){ 0 };
	*ret_width = ws.ws_col ? ws.ws_col : v->opts.width ? v->opts.width : 80;
	*ret_height = ws.ws_row ? ws.ws_row : v->opts.height ? v->opts.height : 24;
}

/* Ends a line of the table: what stood there before is erased. Widths are the callers' business. */
static void end_line(struct page *p)
{
	page__put(p, "\x1b[K");
	page__end_line(p);
}

/* One line of text, cut at the width. */
static void put_line(struct page *p, enum page_style style, const char *text)
{
	char safe[TEXT_BYTES_MAX];

	text_cut(safe, sizeof(safe), text, p->width);
	page__style(p, style);
	page__put(p, safe);
	page__style(p, STYLE_PLAIN);
	end_line(p);
}

static void put_head(struct page *p, const struct live_view *v, const struct report *r)
{
	char text[TEXT_BYTES_MAX], a[24], b[24];
	int n;

	n = snprintf(text, sizeof(text), "memtrace  pid %u  %s", r->pid, fmt_ns(a, r->end_ts_ns - r->start_ts_ns));
	if (r->steps)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "  %s steps (%s/s)", fmt_count(a, (double)r->steps),
			      fmt_count(b, rate(v, r, v->steps, r->steps)));
	snprintf(text + n, sizeof(text) - (size_t)n, "  %.700s",
		 r->cmdline && r->cmdline[0] ? r->cmdline : r->comm ? r->comm : "");
	put_line(p, STYLE_BOLD, text);
}

static void put_devs(struct page *p, const struct live_view *v, const struct report *r)
{
	char text[200], a[24], b[24], c[24], d1[24], name[16];

	put_line(p, STYLE_BOLD, "device             live        peak    allocs/s     frees/s     allocated");
	for (size_t i = 0; i < r->devs_cnt; i++) {
		const struct report_dev *d = &r->devs[i];

		snprintf(text, sizeof(text), "%-11s%12s%12s%12s%12s", dev_name(d->dev, name), fmt_bytes(a, d->live),
			 fmt_bytes(b, d->peak), fmt_count(c, rate(v, r, v->devs[d->dev].allocs, d->allocs)),
			 fmt_count(d1, rate(v, r, v->devs[d->dev].frees, d->frees)));
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%14s", fmt_bytes(a, d->alloc_bytes));
		put_line(p, STYLE_PLAIN, text);
		if (d->ooms) {
			snprintf(text, sizeof(text), "  out of memory %s times, last when asked for %s",
				 fmt_count(a, (double)d->ooms), fmt_bytes(b, d->oom_bytes_last));
			put_line(p, STYLE_RED, text);
		}
	}
	if (!r->devs_cnt)
		put_line(p, STYLE_PLAIN, "  (no block allocated or freed yet)");
}

/* Two to a line where there is room; those that hold nothing now and held nothing at the peak are left out. */
static void put_dev_cats(struct page *p, const struct report *r, const struct report_dev *d)
{
	unsigned shown = 0, each = p->width >= 78 ? 2 : 1;
	char a[24], b[24], text[80];

	for (unsigned c = 1; c <= CAT_MAX; c++) {
		const struct report_cat *cat = &d->cats[c % CAT_MAX]; /* unknown last */

		if (!cat_is_shown(r, d, c % CAT_MAX) || (!cat->live && !cat->at_peak))
			continue;
		snprintf(text, sizeof(text), "%s%-16s%10s%10s", shown % each ? "    " : "",
			 category_name((enum category)(c % CAT_MAX)), fmt_bytes(a, cat->live), fmt_bytes(b, cat->at_peak));
		page__put(p, text);
		if (++shown % each == 0)
			end_line(p);
	}
	if (shown % each)
		end_line(p);
}

static int dev_has_cats(const struct report_dev *d)
{
	for (unsigned c = 1; c < CAT_MAX; c++)
		if (d->cats[c].live || d->cats[c].at_peak)
			return d->dev != MT_DEV_HOST;
	return 0;
}

static void put_cats(struct page *p, const struct report *r)
{
	char text[120], name[16];

	for (size_t i = 0; report_has_cats(r) && i < r->devs_cnt; i++) {
		const struct report_dev *d = &r->devs[i];

		if (!dev_has_cats(d))
			continue;
		put_line(p, STYLE_PLAIN, "");
		snprintf(text, sizeof(text), "on %-13.13s      live   at peak", dev_name(d->dev, name));
		if (p->width >= 78)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "    %-16s      live   at peak", "");
		put_line(p, STYLE_BOLD, text);
		put_dev_cats(p, r, d);
	}
}

static void put_op_rows(struct page *p, const struct report *r, size_t rows)
{
	const struct report_op *shown[64];
	unsigned cols = p->width > 70 ? p->width - 41 : 29;

	if (rows > 64)
		rows = 64;
	put_line(p, STYLE_PLAIN, "");
	page__style(p, STYLE_BOLD);
	page__cell(p, "operator", (int)cols);
	page__put(p, "      live   at peak  allocated    count");
	page__style(p, STYLE_PLAIN);
	end_line(p);
	for (size_t i = 0; i < rows; i++) {
		const struct report_op *op = op_with_most_live(r, shown, i);
		char a[24];

		if (!op)
			break;
		shown[i] = op;
		page__cell(p, op->name, (int)cols);
		page__cell(p, fmt_bytes(a, op->live), -10);
		page__cell(p, fmt_bytes(a, op->at_peak), -10);
		page__cell(p, fmt_bytes(a, op->alloc_bytes), -11);
		page__cell(p, fmt_count(a, (double)op->count), -9);
		end_line(p);
	}
}

static void put_foot(struct page *p, const struct live_view *v, const struct report *r)
{
	char text[400], a[24], b[24], c[24];
	uint64_t peak, rss = report_rss(r, &peak), lost = report_lost_sum(r);
	int n;

	snprintf(text, sizeof(text), "%zu process%s, RSS %s, %zu region names", r->procs_cnt,
		 r->procs_cnt == 1 ? "" : "es", peak ? fmt_bytes(a, rss) : "not told yet", r->regions_total);
	put_line(p, STYLE_PLAIN, text);
	n = snprintf(text, sizeof(text), "memtrace costs this job %s (%s hits, %s); itself ",
		     r->target_cpu_ns ? fmt_share(a, r->overhead, 1) : "?", fmt_count(b, (double)r->probe_hits),
		     fmt_ns(c, r->probe_ns));
	snprintf(text + n, sizeof(text) - (size_t)n, "%s, %s",
		 fmt_share(a, (double)r->self_cpu_ns, (double)(r->end_ts_ns - r->start_ts_ns)),
		 fmt_bytes(b, r->self_rss));
	put_line(p, STYLE_PLAIN, text);
	n = snprintf(text, sizeof(text), lost ? "LOST:" : "lost: nothing");
	for (unsigned i = 1; i < MT_LOSS_MAX && lost && n < 300; i++)
		if (r->lost[i])
			n += snprintf(text + n, sizeof(text) - (size_t)n, " %s %" PRIu64, loss_name(i) ? loss_name(i) : "?",
				      r->lost[i]);
	put_line(p, lost ? STYLE_RED : STYLE_PLAIN, text);
	put_line(p, v->message[0] ? STYLE_RED : STYLE_DIM,
		 v->message[0] ? v->message : "Ctrl-C: detach and show the report");
}

static int live_view__screen(struct live_view *v, const struct report *r)
{
	unsigned width, height, used;
	struct page p;
	int err;

	live_view__size(v, &width, &height);
	err = page__init(&p, v->out, width, v->opts.color);
	if (err)
		return err;
	if (!v->is_on_screen)
		page__put(&p, "\x1b[?1049h\x1b[?25l\x1b[?7l");
	v->is_on_screen = 1;
	page__put(&p, "\x1b[H");
	p.lines_max = height > 2 ? height - 1 : 1; /* the cursor rests on the last line: no scrolling */
	put_head(&p, v, r);
	put_devs(&p, v, r);
	p.lines_max = height > 2 + FOOT_LINES ? height - 1 - FOOT_LINES : 1; /* losses and costs are never pushed out */
	put_cats(&p, r);
	p.lines_max = height > 2 ? height - 1 : 1;
	p.is_full = p.lines >= p.lines_max;
	used = p.lines + 2 + FOOT_LINES; /* the table's head */
	if (height > used + 1)
		put_op_rows(&p, r, v->opts.top < height - 1 - used ? v->opts.top : height - 1 - used);
	put_line(&p, STYLE_PLAIN, "");
	put_foot(&p, v, r);
	p.is_full = 0;
	page__put(&p, "\x1b[J");
	return page__done(&p);
}

int live_view__draw(struct live_view *v, const struct report *now)
{
	int err = v->is_tty ? live_view__screen(v, now) : live_view__line(v, now);

	live_view__remember(v, now);
	return err;
}

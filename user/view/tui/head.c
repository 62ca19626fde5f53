/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tui/head.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "event/event.h"
#include "timeline/report.h"
#include "verdict/verdict.h"
#include "view/report_words.h"
#include "view/tables/leaks.h"
#include "view/tables/segments.h"
#include "view/tui/table.h"

#define COSTS_COLS 58 /* of the coverage line; losses take the rest */

/* Draws at the right end, and shortens the rest of the line. */
static unsigned put_right(struct canvas *c, struct rect *at, enum tui_style style, const char *text)
{
	unsigned cols;
	char safe[TEXT_BYTES_MAX];

	cols = text_cut(safe, sizeof(safe), text, at->w);
	if (cols + 2 > at->w)
		return 0;
	canvas__right(c, at->x, at->y, at->w, style, safe);
	at->w -= cols + 2;
	return cols;
}

void tui_title__draw(struct canvas *c, struct rect at, const struct tui_ui *ui, const struct tui_data *d,
		     const struct report *r, const struct tui_words *words)
{
	char text[TEXT_BYTES_MAX], a[24], b[24];
	size_t jobs = verdict_jobs(r);

	if (!at.h)
		return;
	for (unsigned x = 0; x < at.w; x++)
		canvas__set(c, at.x + x, at.y, ' ', TUI_TITLE, TUI_PLAIN);
	at.x++;
	at.w -= at.w > 2 ? 2 : at.w;
	if (!ui->is_live)
		put_right(c, &at, TUI_TITLE, report_end_word(r));
	else if (ui->is_paused)
		put_right(c, &at, TUI_WARN, "PAUSED");
	if (words->is_recording)
		put_right(c, &at, TUI_BAD, "\xe2\x97\x8f rec");
	put_right(c, &at, TUI_TITLE, fmt_ns(a, r->run.end_ts_ns - r->run.start_ts_ns));
	if (r->sampling.is_on && at.w > 40) { /* the values below are of these alone: always shown */
		snprintf(text, sizeof(text), "traced %s of %s steps", fmt_count(a, (double)r->sampling.steps_traced),
			 fmt_count(b, (double)r->sampling.steps_seen));
		put_right(c, &at, TUI_WARN, text);
		if (r->sampling.learned.is_on && at.w > 50) {
			snprintf(text, sizeof(text), "%s learned between",
				 fmt_share(a, report_learned__share(&r->sampling.learned), 1));
			put_right(c, &at, TUI_WARN, text);
		}
	} else if (r->marks.steps_total && at.w > 40) {
		if (ui->is_live)
			snprintf(text, sizeof(text), "%s steps/s", fmt_count(b, d->steps_s));
		else
			snprintf(text, sizeof(text), "%s steps", fmt_count(b, (double)r->marks.steps_total));
		put_right(c, &at, TUI_TITLE, text);
	}
	if (r->sampling.pauses && at.w > 50) {
		snprintf(text, sizeof(text), "%s not traced", fmt_ns(b, r->sampling.paused_ns));
		put_right(c, &at, TUI_WARN, text);
	}
	if (r->compiles.again && at.w > 60) {
		snprintf(text, sizeof(text), "%s recompile%s", fmt_count(b, (double)r->compiles.again),
			 r->compiles.again == 1 ? "" : "s");
		put_right(c, &at, TUI_WARN, text);
	}
	if (r->run.pid && jobs > 1)
		snprintf(text, sizeof(text), "memtrace  %zu jobs", jobs);
	else if (r->run.pid || !r->procs_cnt)
		snprintf(text, sizeof(text), "memtrace  %u  %.900s", r->run.pid,
			 r->run.cmdline && r->run.cmdline[0] ? r->run.cmdline : r->run.comm ? r->run.comm : "");
	else
		snprintf(text, sizeof(text), "memtrace  all jobs");
	canvas__fit(c, at.x, at.y, at.w, TUI_TITLE, text);
}

/* Each device a tab; the chosen one with its numbers. */
void tui_devs__draw(struct canvas *c, struct rect at, const struct tui_ui *ui, const struct tui_data *d,
		    const struct report *r)
{
	char text[200], a[24], b[24], e[24], f[24], name[16];
	const struct report_dev *dev = ui->dev < r->devs_cnt ? &r->devs[ui->dev] : NULL;
	const struct tui_dev_data *data = dev ? tui_data__dev(d, dev->dev) : NULL;
	unsigned x = at.x, end = at.x + at.w;
	uint64_t peak, rss = report_rss(r, &peak);

	if (!at.h || !dev)
		return;
	for (size_t i = 0; i < r->devs_cnt && x < end && at.w > 24; i++) {
		snprintf(text, sizeof(text), " %s ", dev_name(r->devs[i].dev, name));
		if (i + 6 < ui->dev) /* too many to show the chosen one */
			continue;
		x += canvas__text(c, x, at.y, end - x, i == ui->dev ? TUI_TAB_ON : TUI_TAB, text) + 1;
	}
	if (x >= end)
		return;
	x++;
	x += canvas__text(c, x, at.y, end - x, TUI_DIM, "live ");
	x += canvas__text(c, x, at.y, end > x ? end - x : 0, TUI_BOLD, fmt_bytes(a, dev->live));
	x += canvas__text(c, x, at.y, end > x ? end - x : 0, TUI_DIM, "  peak ");
	x += canvas__text(c, x, at.y, end > x ? end - x : 0, TUI_BOLD, fmt_bytes(a, dev->peak));
	snprintf(text, sizeof(text), " at %s", fmt_ns(a, dev->peak_ts_ns - r->run.start_ts_ns));
	if (dev->peak && dev->peak_ts_ns >= r->run.start_ts_ns && x + 30 < end)
		x += canvas__text(c, x, at.y, end - x, TUI_DIM, text);
	if (dev->ooms && x + 24 < end) {
		snprintf(text, sizeof(text), "  out of memory %s\xc3\x97, last for %s", fmt_count(a, (double)dev->ooms),
			 fmt_bytes(b, dev->oom_bytes_last));
		x += canvas__text(c, x, at.y, end - x, TUI_BAD, text);
	}
	if (segments_are_seen(&dev->segs) && x + 50 < end) {
		snprintf(text, sizeof(text), "  driver %s, free in it %s", fmt_bytes(a, dev->segs.driver),
			 fmt_bytes(b, dev->segs.unused));
		x += canvas__text(c, x, at.y, end - x, TUI_DIM, text);
	}
	at = (struct rect){ x, at.y, end > x ? end - x : 0, 1 };
	if (peak) {
		snprintf(text, sizeof(text), "RSS %s%s", rss ? "" : "peak ", fmt_bytes(a, rss ? rss : peak));
		put_right(c, &at, TUI_DIM, text);
	}
	if (data && ui->is_live) {
		snprintf(text, sizeof(text), "%s allocs/s  %s frees/s", fmt_count(e, data->allocs_s),
			 fmt_count(f, data->frees_s));
		put_right(c, &at, TUI_DIM, text);
	}
}

#define MORE_COLS 5 /* of "‹+12 " and " +12›" */

static unsigned tab_width(unsigned i)
{
	return (unsigned)strlen(tui_tables[i].name) + (i < 10 ? 4 : 2);
}

/* How many tabs from `first` on there is room for; those that there is none for are counted at that end. */
static unsigned tabs_from(unsigned first, unsigned width)
{
	unsigned used = first ? MORE_COLS : 0, i = first;

	while (i < TUI_TABS && used + tab_width(i) + (i + 1 < TUI_TABS ? MORE_COLS : 0) <= width)
		used += tab_width(i++);
	return i - first;
}

/* The moment of the table, if one is held and the table could be of it; else "". */
static void say_moment(char *text, size_t size, const struct tui_ui *ui, const struct tui_data *d)
{
	const struct report *then = tui_data__then(d, ui);
	char a[24];
	int n;

	text[0] = '\0';
	if (!ui->is_held || !tui_tables[ui->tab].follows)
		return;
	if (then)
		n = snprintf(text, size, "as of %s", fmt_ns(a, d->then_ns));
	else
		n = snprintf(text, size, "as of %s", ui->is_live ? "now" : "the end");
	if (d->is_reading)
		snprintf(text + n, size - (size_t)n, ", reading %u %%", d->read_percent);
	else if (!ui->is_live && !ui->has_moment)
		snprintf(text + n, size - (size_t)n, ", not traced then");
}

void tui_tabs__draw(struct canvas *c, struct rect at, struct tui_ui *ui, const struct tui_data *d)
{
	const struct tui_tab_state *t = tui_ui__table(ui);
	unsigned x = at.x, end, first = 0, cnt;
	char text[80];

	if (!at.h)
		return;
	say_moment(text, sizeof(text), ui, d);
	if (text[0] && at.w > 40)
		put_right(c, &at, TUI_WARN, text);
	end = at.x + at.w;
	while (first < (unsigned)ui->tab && first + tabs_from(first, at.w) <= (unsigned)ui->tab) /* the chosen one is seen */
		first++;
	cnt = tabs_from(first, at.w);
	snprintf(text, sizeof(text), "\xe2\x80\xb9+%-3u", first); /* ‹ */
	x += first ? canvas__text(c, x, at.y, at.w, TUI_KEY, text) : 0;
	for (unsigned i = first; i < first + (cnt ? cnt : 1) && x < end; i++) {
		if (i < 10)
			snprintf(text, sizeof(text), " %u %s ", (i + 1) % 10, tui_tables[i].name);
		else
			snprintf(text, sizeof(text), " %s ", tui_tables[i].name);
		x += canvas__text(c, x, at.y, end - x, i == (unsigned)ui->tab ? TUI_TAB_ON : TUI_TAB, text);
	}
	snprintf(text, sizeof(text), " +%u\xe2\x80\xba", TUI_TABS - first - cnt); /* › */
	if (cnt && first + cnt < TUI_TABS)
		x += canvas__text(c, x, at.y, end - x, TUI_KEY, text);
	at = (struct rect){ x, at.y, end > x ? end - x : 0, 1 };
	snprintf(text, sizeof(text), "%zu of %zu", t->rows ? t->row + 1 : 0, t->rows);
	put_right(c, &at, TUI_DIM, text);
}

/* Losses by reason where they fit, else their sum. */
static void put_lost(char *text, size_t size, const struct report *r, uint64_t lost, unsigned cols)
{
	int n = snprintf(text, size, lost ? "LOST" : "lost nothing");
	char a[24];

	for (unsigned i = 1; i < MT_LOSS_MAX && lost && n < 200; i++)
		if (r->run.lost[i] && i != MT_LOSS_STACK_RATE)
			n += snprintf(text + n, size - (size_t)n, " %s %" PRIu64, loss_name(i) ? loss_name(i) : "?",
				      r->run.lost[i]);
	if (lost && (unsigned)n > cols)
		snprintf(text, size, "LOST %s", fmt_count(a, (double)lost));
}

/* Losses and costs, in every state of the screen. */
void tui_coverage__draw(struct canvas *c, struct rect at, const struct tui_data *d, const struct report *r)
{
	unsigned x = at.x + (at.w > 30), end = at.x + at.w;
	uint64_t lost = report_lost_sum(r);
	char text[300], job[24], self[24], rss[24];

	if (!at.h)
		return;
	put_lost(text, sizeof(text), r, lost, at.w > COSTS_COLS + 12 ? at.w - COSTS_COLS : 12);
	x += canvas__text(c, x, at.y, end - x, lost ? TUI_BAD : TUI_GOOD, text);
	snprintf(job, sizeof(job), "?");
	if (r->sampling.is_on)
		fmt_share(job, r->sampling.price_ratio, 1);
	else if (report_price__is_known(&r->cost.price) && !verdict_price_is_others(r)) /* as the verdict has it */
		fmt_share(job, r->cost.price.lost, 1);
	else if (r->cost.target_cpu_ns)
		fmt_share(job, r->cost.share, 1);
	fmt_share(self, (double)r->cost.self_cpu_ns, (double)report_seen_ns(r));
	if (x + 50 < end)
		snprintf(text, sizeof(text), "   costs the job %s   itself %s of a core, %s", job, self,
			 fmt_bytes(rss, r->cost.self_rss));
	else
		snprintf(text, sizeof(text), at.w > 40 ? "   costs the job %s   itself %s" : "  job %s self %s", job, self);
	x += canvas__text(c, x, at.y, end > x ? end - x : 0, TUI_PLAIN, text);
	at = (struct rect){ x, at.y, end > x ? end - x : 0, 1 };
	snprintf(text, sizeof(text), "%s events/s ", fmt_count(job, d->events_s));
	if (d->events_s > 0)
		put_right(c, &at, TUI_DIM, text);
	if (r->leaks.cnt) {
		char words[TEXT_BYTES_MAX], line[TEXT_BYTES_MAX + 16];

		snprintf(line, sizeof(line), "%s: %s ", leak_verb(r->leaks.rows), leak_words(words, r->leaks.rows, 32));
		put_right(c, &at, TUI_WARN, line);
	}
}

struct key_hint {
	const char *key, *what;
	int live_only;
};

void tui_keys__draw(struct canvas *c, struct rect at, struct tui_ui *ui, const struct tui_words *words)
{
	static const struct key_hint hints[] = {
		{ "q", "quit", 0 },	{ "?", "help", 0 },   { "v", "verdict", 0 }, { "Tab", "table", 0 }, { "s", "sort", 0 },
		{ "/", "filter", 0 },
		{ "Space", "pause", 1 }, { "m", "mark", 1 }, { "w", "record", 1 },  { "+-", "time", 0 },  { "g", "chart", 0 },
		{ "d", "device", 0 },   { "Enter", "details", 0 },
	};
	unsigned x = at.x + 1, end = at.x + at.w;
	char text[TUI_FILTER_MAX + 20];

	if (!at.h)
		return;
	if (ui->is_typing) {
		x += canvas__text(c, x, at.y, end - x, TUI_KEY, "filter: ");
		snprintf(text, sizeof(text), "%s\xe2\x96\x8f", ui->filter);
		x += canvas__text(c, x, at.y, end > x ? end - x : 0, TUI_BOLD, text);
		if (end > x + 28)
			canvas__right(c, x, at.y, end - x - 1, TUI_DIM, "Enter keeps, Esc clears");
		return;
	}
	if (words->message && words->message[0]) {
		canvas__fit(c, x, at.y, end - x, TUI_WARN, words->message);
		return;
	}
	if (ui->is_verdict) {
		const struct tui_tab_state *t = &ui->verdict;

		if (t->rows > 1) /* ↑↓ */
			x += canvas__text(c, x, at.y, end - x, TUI_KEY, "\xe2\x86\x91\xe2\x86\x93 PgUp PgDn") + 1;
		snprintf(text, sizeof(text), "lines from %zu of %zu   ", t->row + 1, t->rows + t->page - 1);
		x += canvas__text(c, x, at.y, end > x ? end - x : 0, TUI_DIM, t->rows > 1 ? text : "all of it is here   ");
		x += canvas__text(c, x, at.y, end > x ? end - x : 0, TUI_KEY, "q");
		canvas__text(c, x, at.y, end > x ? end - x : 0, TUI_DIM, " back");
		return;
	}
	if (ui->filter[0]) { /* rows are missing: always shown */
		const struct tui_tab_state *t = tui_ui__table(ui);

		snprintf(text, sizeof(text), "/%s", ui->filter);
		x += canvas__text(c, x, at.y, end - x, TUI_WARN, text) + 2;
		snprintf(text, sizeof(text), "%zu row%s   Esc shows all", t->rows, t->rows == 1 ? "" : "s");
		canvas__text(c, x, at.y, end > x ? end - x : 0, TUI_DIM, text);
		return;
	}
	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
		unsigned cols = (unsigned)(strlen(hints[i].key) + strlen(hints[i].what) + 1);

		if (hints[i].live_only && !ui->is_live)
			continue;
		if (x + cols > end)
			break;
		x += canvas__text(c, x, at.y, end - x, TUI_KEY, hints[i].key) + 1;
		x += canvas__text(c, x, at.y, end - x, TUI_DIM, hints[i].what) + 2;
	}
}

/* --- help -------------------------------------------------------------------------------------------------- */

void tui_help__draw(struct canvas *c, struct rect at, const struct tui_ui *ui)
{
	static const struct key_hint lines[] = {
		{ "q  F10  Ctrl-C", "leave; live: detach, and the report on the normal screen", 0 },
		{ "Tab  1-0  \xe2\x86\x90 \xe2\x86\x92", "another table; \xe2\x80\xb9+3, +3\xe2\x80\xba: so many more", 0 },
		{ "\xe2\x86\x91 \xe2\x86\x93  PgUp PgDn", "a row, a page (also j k); Home, End", 0 },
		{ "Enter  v", "the row's texts in full; the whole verdict", 0 },
		{ "s  S", "sort by the next column, the one before; r turns it round", 0 },
		{ "/", "only rows with this text; Esc: all again", 0 },
		{ "d  D", "next device, the one before", 0 },
		{ "+  -", "the chart's time: less, more", 0 },
		{ "[  ]", "a moment in the chart, what it was made of; Esc: now again", 0 },
		{ "g", "chart: half the screen, none, all", 0 },
		{ "Space", "hold the picture; tracing goes on", 1 },
		{ "m", "mark this moment: \xe2\x97\x86 here, a note in report and recording", 1 },
		{ "w  t", "record all steps in a new file, or end that; trace some soon", 1 },
		{ "chart", "colours: live by category, where each column was fullest", 0 },
		{ "", "grey above: up to the exact maximum of that time; \xe2\x96\xb2 the peak", 0 },
		{ "", "\xe2\x96\x91 not traced (--max-overhead): as high as the steps before", 0 },
		{ "", "\xe2\x94\x9c forward begins, \xe2\x94\xac backward, \xe2\x94\xb4 step ends (if few); "
		      "\xe2\x95\x8c settling", 0 },
		{ "at peak", "what was live at the moment of the device's highest total", 0 },
	};
	unsigned y = at.y;

	canvas__text(c, at.x + 1, y, at.w, TUI_BOLD, "Keys");
	y += at.h > sizeof(lines) / sizeof(lines[0]) + 2 ? 2 : 1;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]) && y < at.y + at.h; i++) {
		if (lines[i].live_only && !ui->is_live)
			continue;
		canvas__text(c, at.x + 1, y, 16, TUI_KEY, lines[i].key);
		if (at.w > 18)
			canvas__text(c, at.x + 18, y, at.w - 18, TUI_PLAIN, lines[i].what);
		y++;
	}
}

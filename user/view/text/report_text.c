/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The report for people. First the verdict; with --by, its first line and the table asked for. Then processes and times;
 * refused memory and killed processes; each device; and short tables of the composition of the peak, sorted, without empty
 * rows, or none behind a table asked for. Last, always, coverage and cost. Verbose: the whole verdict, and all tables in full.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>

#include "event/event.h"
#include "verdict/verdict.h"
#include "view/page.h"
#include "view/report_words.h"
#include "view/tables/compiles.h"
#include "view/tables/places.h"
#include "view/tables/coverage.h"
#include "view/tables/leaks.h"
#include "view/tables/modules.h"
#include "view/tables/oom.h"
#include "view/tables/ranks.h"
#include "view/tables/saved.h"
#include "view/tables/segments.h"
#include "view/tables/stacks.h"
#include "view/tables/steps.h"
#include "view/tables/tables.h"
#include "view/tables/verdict.h"
#include "view/view.h"

#define BLOCKS_SHOWN 10
#define WHYS_SHOWN 3
#define SUMMARY_ROWS 6 /* of tables that were not asked for */

static double per_second(uint64_t n, uint64_t ns)
{
	return ns ? (double)n * 1e9 / (double)ns : 0;
}

/* --- processes and times ----------------------------------------------------------------------- */

static void put_head(struct page *p, const struct report *r)
{
	uint64_t ns = report_seen_ns(r), events = report_events_sum(r); /* ns: steps need no probes */
	char safe[TEXT_BYTES_MAX], text[240], b[24], c[24], traced[TRACED_MAX], steps[STEPS_WORDS_MAX];
	size_t jobs = verdict_jobs(r);

	page__style(p, STYLE_BOLD);
	if (!r->run.pid && r->procs_cnt)
		page__printf(p, "All jobs of the machine: %zu process%s (--by process)", r->procs_cnt,
			     r->procs_cnt == 1 ? "" : "es");
	else if (jobs > 1)
		page__printf(p, "%zu jobs: %zu processes (--by process)", jobs, r->procs_cnt);
	else
		page__printf(p, "Process %u", r->run.pid);
	page__style(p, STYLE_PLAIN);
	page__put(p, "  ");
	text_fit(safe, sizeof(safe), r->run.cmdline && r->run.cmdline[0] ? r->run.cmdline : r->run.comm, p->width - 20);
	page__put(p, jobs > 1 ? "" : safe); /* it would be one of them */
	page__end_line(p);
	report_words_steps(steps, r);
	snprintf(text, sizeof(text), "%s, %s, %s events (%s/s)%s%s",
		 fmt_time(safe, (int64_t)r->run.start_ts_ns + r->run.epoch_off_ns), report_words_traced(traced, r),
		 fmt_count(b, (double)events), fmt_count(c, per_second(events, ns)), steps[0] ? ", " : "", steps);
	page__flow(p, 0, text);
}

/* --- devices ------------------------------------------------------------------------------------- */

static void put_refusals(struct page *p, const struct report_dev *d)
{
	char a[24], b[24];

	if (!d->ooms)
		return;
	page__style(p, STYLE_RED);
	if (d->ooms == 1)
		page__printf(p, "  out of memory once, when asked for %s", fmt_bytes(b, d->oom_bytes_last));
	else
		page__printf(p, "  out of memory %s times, last when asked for %s", fmt_count(a, (double)d->ooms),
			     fmt_bytes(b, d->oom_bytes_last));
	page__style(p, STYLE_PLAIN);
	page__end_line(p);
}

static void put_dev_lines(struct page *p, const struct report *r, const struct report_dev *d)
{
	uint64_t ns = report_traced_ns(r);
	char a[24], b[24], c[24];
	struct sentence s = { 0 };

	sentence__add(&s, "live %s   peak %s", fmt_bytes(a, d->live), fmt_bytes(b, d->peak));
	if (d->peak_ts_ns >= r->run.start_ts_ns && d->peak)
		sentence__add(&s, " after %s", fmt_ns(a, d->peak_ts_ns - r->run.start_ts_ns));
	if (ns)
		sentence__add(&s, "   mean %s", fmt_bytes(a, (uint64_t)((double)d->byte_ns / (double)ns)));
	page__item(p, 2, s.text);
	s.len = 0;
	sentence__add(&s, "allocated %s in %s blocks (%s/s)", fmt_bytes(a, d->alloc_bytes), fmt_count(b, (double)d->allocs),
		      fmt_count(c, per_second(d->allocs, ns)));
	sentence__add(&s, "   freed %s in %s", fmt_bytes(a, d->free_bytes), fmt_count(b, (double)d->frees));
	page__item(p, 2, s.text);
}

static void put_dev(struct page *p, const struct report *r, const struct report_dev *d, int is_verbose)
{
	char a[24], b[24], title[40];

	snprintf(title, sizeof(title), "%s%s", dev_name(d->dev, a), d->dev == MT_DEV_HOST ? " (malloc family)" : "");
	page__heading(p, title);
	put_dev_lines(p, r, d);
	segments_text(p, r, d, is_verbose);
	put_refusals(p, d);
	if (!is_verbose)
		return;
	if (d->carried_blocks)
		page__line(p, "  from before the window: %s in %s blocks", fmt_bytes(a, d->carried_bytes),
			   fmt_count(b, (double)d->carried_blocks));
	if (d->preexisting_blocks)
		page__line(p, "  seen late: %s in %s blocks from before the attach or of others",
			   fmt_bytes(a, d->preexisting_bytes), fmt_count(b, (double)d->preexisting_blocks));
	if (d->preexisting_frees)
		page__line(p, "  freed too: %s blocks from before the attach, of unknown size",
			   fmt_count(a, (double)d->preexisting_frees));
	if (d->dropped)
		page__line(p, "  gone with their process: %s in %s blocks", fmt_bytes(a, d->dropped_bytes),
			   fmt_count(b, (double)d->dropped));
	if (d->unseen_blocks)
		page__line(p, "  ended while nothing was traced: %s in %s blocks", fmt_bytes(a, d->unseen_bytes),
			   fmt_count(b, (double)d->unseen_blocks));
}

/* --- the kernel's view ------------------------------------------------------------------------------------- */

/* Resident memory that no tensor seen so far explains. */
static void put_unseen(struct page *p, const struct report *r, uint64_t rss)
{
	uint64_t seen = report_framework_live(r);
	char a[24], b[24];

	if (!rss || !seen)
		return;
	page__itemf(p, 2, "tensors seen: %s; other memory, and tensors that nothing has used since the attach: %s",
		    fmt_bytes(a, seen), seen < rss ? fmt_bytes(b, rss - seen) : "none");
}

/* The readings of use. Not all is known of large processes. */
static void put_use(struct page *p, const struct report_kernel *k)
{
	char a[24], b[24];
	struct sentence s = { 0 };

	if (k->use[MT_USE_PSS] || !k->use_unknown_cnt)
		sentence__add(&s, "PSS %s, huge pages %s, ", fmt_bytes(a, k->use[MT_USE_PSS]),
			      fmt_bytes(b, k->use[MT_USE_HUGE]));
	sentence__add(&s, "pinned %s, when last read", fmt_bytes(a, k->use[MT_USE_LOCKED] + k->use[MT_USE_PINNED]));
	if (k->use_unknown_cnt)
		sentence__add(&s, "; PSS and huge pages of %" PRIu32 " large process%s not known", k->use_unknown_cnt,
			      k->use_unknown_cnt == 1 ? " are" : "es are");
	page__item(p, 2, s.text);
}

static void put_kernel(struct page *p, const struct report *r)
{
	uint64_t kinds[MT_RSS_KINDS] = { 0 }, mapped = 0, peak, rss = report_rss(r, &peak);
	char a[24], b[24], c[24];
	struct sentence s = { 0 };

	if (!peak)
		return;
	for (size_t i = 0; i < r->procs_cnt; i++) {
		mapped += r->procs[i].mapped;
		for (unsigned k = 0; k < MT_RSS_KINDS; k++)
			kinds[k] += r->procs[i].gone == 1 ? 0 : r->procs[i].rss[k];
	}
	page__heading(p, "Kernel's view");
	if (rss) {
		sentence__add(&s, "RSS %s   peak %s", fmt_bytes(a, rss), fmt_bytes(b, peak));
		sentence__add(&s, "   (anonymous %s, file %s, shared %s)", fmt_bytes(a, kinds[MT_RSS_ANON]),
			      fmt_bytes(b, kinds[MT_RSS_FILE]), fmt_bytes(c, kinds[MT_RSS_SHMEM]));
	} else { /* its processes have ended */
		sentence__add(&s, "RSS peak %s", fmt_bytes(b, peak));
	}
	page__item(p, 2, s.text);
	if (r->kernel.use[MT_USE_RSS])
		put_use(p, &r->kernel);
	put_unseen(p, r, rss);
	if (mapped)
		page__line(p, "  mapped since the attach and not unmapped: %s", fmt_bytes(a, mapped));
}

/* Its size in one line, if it was not asked for. */
static void put_rss(struct page *p, const struct report *r)
{
	uint64_t peak, rss = report_rss(r, &peak);
	char a[24], b[24];

	if (rss)
		page__line(p, "  RSS %s   peak %s", fmt_bytes(a, rss), fmt_bytes(b, peak));
	else if (peak)
		page__line(p, "  RSS peak %s", fmt_bytes(b, peak));
}

/* --- the whole ------------------------------------------------------------------------------------------ */

/* One table, at length. */
static void put_by(struct page *p, const struct report *r, const struct view_opts *opts, enum view_by by)
{
	switch (by) {
	case BY_DEVICE:
		devices_text(p, r);
		break;
	case BY_PROCESS:
		procs_text(p, r, opts->top, 0);
		break;
	case BY_REGION:
		regions_text(p, r, opts->top);
		break;
	case BY_CATEGORY:
		cats_text(p, r, 1);
		steps_text(p, r, 1);
		break;
	case BY_NAME:
		tensors_text(p, r, opts->top, opts->has_by && opts->by == BY_NAME);
		break;
	case BY_SYMBOL:
		symbols_text(p, r, opts->top);
		break;
	case BY_RANK:
		ranks_text(p, r, opts->top);
		break;
	case BY_MODULE:
		modules_text(p, r, opts);
		saved_text(p, r, opts->top);
		break;
	case BY_STACK:
		stacks_text(p, r, opts->top);
		break;
	default:
		ops_text(p, r, opts->top);
	}
}

/* Whether a table is useful without being asked for; ranks are counted only on request. */
static int has_table(const struct report *r, enum view_by by)
{
	return by == BY_CATEGORY ? report_has_cats(r) : by == BY_DEVICE ? r->devs_cnt > 0 :
	       by == BY_STACK    ? r->stacks.total > 0 : by == BY_SYMBOL ? r->probes.symbols_cnt > 0 :
	       by == BY_PROCESS  ? r->procs_cnt > 1 : by != BY_RANK;
}

/* All tables but the one that was asked for, which stands before them. */
static void put_all(struct page *p, const struct report *r, const struct view_opts *opts)
{
	static const enum view_by all[] = { BY_CATEGORY, BY_DEVICE, BY_MODULE, BY_OP, BY_REGION, BY_NAME, BY_STACK, BY_SYMBOL,
					    BY_PROCESS };

	compiles_text(p, r, opts->top, 1);
	places_text(p, r, opts->top);
	leaks_line(p, r);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (has_table(r, all[i]) && !(opts->has_by && opts->by == all[i]))
			put_by(p, r, opts, all[i]);
	blocks_text(p, r, opts->top < BLOCKS_SHOWN ? opts->top : BLOCKS_SHOWN);
	put_kernel(p, r);
}

/* The composition of the peak, in short; more on request. */
static void put_summary(struct page *p, const struct report *r, size_t top)
{
	size_t rows = top < SUMMARY_ROWS ? top : SUMMARY_ROWS;

	if (report_has_cats(r))
		cats_text(p, r, 0);
	steps_text(p, r, 0);
	modules_summary(p, r, rows);
	ops_summary(p, r, rows);
}

static void put_short(struct page *p, const struct report *r, const struct view_opts *opts)
{
	put_rss(p, r);
	compiles_text(p, r, opts->top < WHYS_SHOWN ? opts->top : WHYS_SHOWN, 0);
	if (opts->has_by)
		return;
	put_summary(p, r, opts->top);
	if (r->procs_cnt > 1)
		procs_text(p, r, opts->top < SUMMARY_ROWS ? opts->top : SUMMARY_ROWS, 1);
}

int view_report_text(FILE *out, const struct report *r, const struct view_opts *opts)
{
	struct page p;
	int err = page__open(&p, out, opts, PAGE_WIDTH);

	if (err)
		return err;
	verdict_text(&p, r, opts->path,
		     opts->is_verbose ? VERDICT_MAX : opts->has_by ? VERDICT_SHOWN_BY : VERDICT_SHOWN);
	if (opts->has_by)
		put_by(&p, r, opts, opts->by);
	page__end_line(&p);
	put_head(&p, r);
	oom_text(&p, r);
	for (size_t i = 0; i < r->devs_cnt; i++)
		put_dev(&p, r, &r->devs[i], opts->is_verbose);
	if (opts->is_verbose)
		segments_text_host(&p, r);
	(opts->is_verbose ? put_all : put_short)(&p, r, opts);
	if (opts->is_verbose)
		view_coverage(&p, r);
	else
		view_coverage_short(&p, r);
	return page__done(&p);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Lines on growth: a place whose blocks grow in number, and that nothing grows. */
#include <inttypes.h>

#include "base/text.h"
#include "timeline/report.h"
#include "verdict/facts.h"
#include "verdict/held.h"
#include "verdict/say.h"

static uint64_t bytes_of(double slope)
{
	return slope > 0 ? (uint64_t)((slope < 9e18 ? slope : 9e18) + 0.5) : 0;
}

/* How a recording is made in which each of its blocks has a stack: these may be smaller than --stacks looks at by default. */
static const char *stacks_option(const struct report_leak *k)
{
	int is_small = k->blocks && k->live / k->blocks < STACK_SIZE_DEFAULT;

	return is_small ? "--stacks=python --stack-size 0" : "--stacks=python";
}

/* What to do about what is held, and where one sees it. */
static void say_leak_next(const struct judge *j, struct verdict_line *l, const struct report_leak *row,
			  const struct report_frame *at)
{
	char by[TEXT_BYTES_MAX], file[TEXT_BYTES_MAX];
	const char *path = row->held_by && row->held_by[0] ? row->held_by : NULL;
	uint32_t pid = j->has_file ? 0 : facts_to_record(j->r);

	if (row->held == HELD_GRAPH)
		say(l->next, "keep x.item() or x.detach() in %s, not x: each x keeps its step's graph; ",
		    name(by, path, "that container"));
	else if (row->held == HELD_ITSELF)
		say(l->next, "%s never forgets: clear it, or keep less in it; ", name(by, path, "that container"));
	else if (at)
		say(l->next, "who keeps what %s:%u makes? ", name(file, at->file, "?"), at->line);
	if (!at)
		say(l->next, "a recording with %s says the line; ", stacks_option(row));
	if (pid)
		say_command(l, "memtrace record -p %u -d 60 -o leak.mtr && memtrace report leak.mtr --leaks", pid);
	else
		say_report(j, l, "--leaks");
}

/* ", made at train.py:42 in collect"; of what was caught: how sure that is. */
static void say_line(char *text, const struct report_leak *row, const struct report_frame *at)
{
	char file[TEXT_BYTES_MAX], function[TEXT_BYTES_MAX];

	say(text, ", made at %s:%u", name(file, at->file, "?"), at->line);
	if (at->function && at->function[0])
		say(text, " in %s", name(function, at->function, "?"));
	if (row->caught && row->caught_here == row->caught)
		say(text, " (so were all %" PRIu64 " blocks that were caught)", row->caught);
	else if (row->caught)
		say(text, " (so were %" PRIu64 " of %" PRIu64 " blocks that were caught)", row->caught_here, row->caught);
}

/* "; 3 more places grow, by 14.0 KiB a step": with bytes if the report has all of them, in one unit. */
static void say_others(char *text, const struct report_leaks *k)
{
	size_t others = k->total - 1, alike = 0;
	double slope = 0;
	char a[24];

	for (size_t i = 1; i < k->cnt; i++) {
		slope += k->rows[i].bytes_slope;
		alike += k->rows[i].per_step == k->rows[0].per_step;
	}
	say(text, "; %zu more place%s", others, others > 1 ? "s grow" : " grows");
	if (alike == others)
		say(text, ", by %s a %s", fmt_bytes(a, bytes_of(slope)), k->rows[0].per_step ? "step" : "second");
}

/* ", process 2671 (leak.py)", where it is not the only job. */
static void say_leaker(char *text, const struct judge *j, uint32_t pid)
{
	const struct report_proc *p = j->f->jobs.cnt > 1 ? report_proc_last(j->r, pid) : NULL;
	char buf[TEXT_BYTES_MAX];

	if (p)
		say(text, ", process %u (%s)", pid, verdict_job_name(buf, p));
}

void say_leak(const struct judge *j, struct verdict_line *l)
{
	const struct report_leaks *k = &j->r->leaks;
	const struct report_leak *row = k->rows;
	char a[24], b[24], op[TEXT_BYTES_MAX], held[VERDICT_BYTES - 160];
	const struct report_frame *at;

	l->bytes = bytes_of(row->bytes_slope);
	at = facts_line(row->frames, row->frames_cnt);
	say(l->text, "%s: %s, by %s a %s, ", row->is_over ? "Grew until its process ended" : "Growing",
	    name(op, row->op && row->op[0] ? row->op : row->region, "no operator open"), fmt_bytes(a, l->bytes),
	    row->per_step ? "step" : "second");
	say(l->text, "%s by %s in %" PRIu64 " blocks", fmt_bytes(b, row->live), row->is_over ? "then" : "now", row->blocks);
	say_leaker(l->text, j, row->pid);
	if (row->windows)
		say(l->text, " of the steps traced in %" PRIu64 " windows", row->windows);
	if (at)
		say_line(l->text, row, at);
	held_text(held, sizeof(held), row);
	if (held[0])
		say(l->text, "; %s", held);
	if (k->total > 1)
		say_others(l->text, k);
	say_leak_next(j, l, row, at);
}

/* What grows beside tensors. */
void say_rss(const struct judge *j, struct verdict_line *l)
{
	const struct facts_growing f = j->f->growing;
	static const char probes[] = "--probes framework,flow,regions,kernel,host --stacks=python";
	uint32_t pid = !f.proc ? facts_to_record(j->r) : f.proc->gone == 1 ? 0 : f.proc->pid;
	char a[24], b[24], c[24], whose[TEXT_BYTES_MAX + 40];

	l->bytes = (uint64_t)f.per_second;
	if (f.proc)
		say(l->text, "The memory%s and its job (private to its processes) grows by ", whose_words(whose, f.proc));
	else
		say(l->text, "The job's memory (RSS, without files) grows by ");
	say(l->text, "%s a second, to %s %s", fmt_bytes(a, l->bytes), fmt_bytes(b, f.now), f.is_over ? "by its end" : "by now");
	if (f.is_seen)
		say(l->text, ", and %s of that is not in %s", fmt_bytes(c, f.grown),
		    f.is_host ? "blocks of malloc" : "tensors");
	if (f.is_host) {
		say(l->next, "Python's objects of up to 512 bytes are in no block of malloc; in a job started with "
		    "PYTHONMALLOC=malloc they are");
		return;
	}
	say(l->next, "which line allocates it: ");
	if (pid)
		say_command(l, "memtrace record -p %u %s -d 60", pid, probes);
	else
		say_command(l, "memtrace record %s -o host.mtr -- COMMAND", probes);
}

static void say_growth_hidden(struct verdict_line *l, const struct report *r)
{
	uint32_t pid = facts_to_record(r);
	char a[24], b[24];

	if (report_gaps_seen(r)) {
		say(l->text, "Too short to say whether anything grows: what lives on was seen in %zu of the %u gaps between "
		    "windows that this takes.", report_gaps_seen(r), REPORT_GROWTH_GAPS);
		return;
	}
	say(l->text, "Whether anything grows was not seen: %s of %s steps were traced, and what lives on between them is "
	    "hidden.", fmt_count(a, (double)r->sampling.steps_traced), fmt_count(b, (double)r->sampling.steps_seen));
	if (!pid)
		return;
	say(l->next, "trace all steps for a minute: ");
	say_command(l, "memtrace record -p %u -d 60", pid);
}

void say_growth(const struct judge *j, struct verdict_line *l)
{
	const struct report_leaks *k = &j->r->leaks;
	char a[REPORT_SPAN_BYTES], whose[64] = ""; /* steps are those of the process that had most of them */

	if (j->f->jobs.cnt > 1)
		snprintf(whose, sizeof(whose), " (of %zu jobs the one that made most)", j->f->jobs.cnt);
	if (k->too_short)
		say(l->text, "Too short to say whether anything grows: %s%s, and that takes %u.",
		    report_growth_span(j->r, a), whose, k->ticks_least);
	else if (report_growth_is_hidden(j->r))
		say_growth_hidden(l, j->r);
	else
		say(l->text, "%s, in %s%s.", facts_is_malloc_watched(j->r) ? "Nothing grows" : "No tensors grow",
		    report_growth_span(j->r, a), whose);
}

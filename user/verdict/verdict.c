/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * All rules in the order in which they speak. Each looks at the report and says a line, or nothing. Thresholds are above the
 * rule that has them, and docs/report.md repeats them for people.
 */
#include "verdict/verdict.h"

#include <inttypes.h>

#include "base/text.h"
#include "timeline/report.h"
#include "verdict/facts.h"
#include "verdict/rules.h"

/* --- how complete, and what it cost ---------------------------------------------------------------------- */

static void judge_nothing(const struct judge *j)
{
	const struct report *r = j->r;
	uint64_t seen = r->sampling.steps_seen;
	uint32_t pid = facts_to_record(r);
	struct verdict_line *l;
	char a[24];

	fmt_ns(a, r->run.end_ts_ns - r->run.start_ts_ns);
	if (facts_is_untraced(r)) {
		l = line(j, VERDICT_NOTHING, r->run.is_live ? VERDICT_FACT : VERDICT_HINT, 0);
		say(l->text, "No step was traced %s %s", r->run.is_live ? "yet, in" : "in", a);
		if (seen)
			say(l->text, ", of %" PRIu64 " that %s over", seen, seen == 1 ? "is" : "are");
		say(l->text, r->run.is_live ? ": what memory is used for is known with the first one" :
			     ": what memory is used for was not seen");
		say(l->next, "%s, or all steps at once: --max-overhead none", r->run.is_live ? "wait" : "trace for longer");
	} else if (!facts_device(r)) {
		l = line(j, VERDICT_NOTHING, VERDICT_HINT, 0);
		say(l->text, "Nothing was seen: no block was allocated or freed in %s", a);
		say(l->next, "does this process work on tensors (malloc needs --probes host)?");
		if (pid) {
			say(l->next, " What can be seen of it: ");
			say_command(l, "memtrace plan -p %u", pid);
		}
	}
}

static void judge_rests(const struct judge *j)
{
	const struct report *r = j->r;
	uint64_t lost = report_lost_sum(r);
	int is_whole = !lost && (r->run.ended || r->run.is_live);
	struct verdict_line *l;
	char a[24], b[24];

	l = line(j, is_whole ? VERDICT_COMPLETE : VERDICT_INCOMPLETE, lost ? VERDICT_HINT : VERDICT_FACT, 0);
	if (lost)
		say(l->text, "Incomplete: %s losses (%s), numbers may be too low", fmt_count(a, (double)lost),
		    facts_worst_loss(r));
	else if (r->run.is_live)
		say(l->text, "Complete so far: nothing was lost in %s", fmt_ns(a, r->run.end_ts_ns - r->run.start_ts_ns));
	else if (!r->run.ended)
		say(l->text, "The recording's end is missing; up to there nothing was lost");
	else
		say(l->text, facts_device(r) ? "Complete: nothing was lost in %s" : "Nothing was lost in %s: there was "
		    "nothing to lose",
		    fmt_ns(a, r->run.end_ts_ns - r->run.start_ts_ns));
	if (r->sampling.is_on)
		say(l->text, "; tracing cost the job %s of its time", fmt_share(b, r->sampling.price_ratio, 1));
	else if (report_price__is_known(&r->cost.price))
		say(l->text, "; tracing cost the job %.1f %% of its speed (give or take %.1f %%)", r->cost.price.lost * 100,
		    r->cost.price.error * 100);
	else if (r->cost.target_cpu_ns)
		say(l->text, "; tracing cost %s of the job's CPU time", fmt_share(b, r->cost.share, 1));
	if (report_price__is_vague(&r->cost.price) && !r->sampling.is_on)
		say(l->text, ", and %" PRIu64 " steps before and %" PRIu64 " after the attach are too few, or differ too "
		    "much, to tell what it lost", r->cost.price.steps_before, r->cost.price.steps);
	say(l->text, ".");
}

/* --- all of them ----------------------------------------------------------------------------------------- */

/* What is wrong first, then what can be won; what is alike stays in the order of the rules. */
static void by_severity(struct verdict *v)
{
	for (size_t i = 1; i < v->cnt; i++)
		for (size_t k = i; k && v->lines[k].severity < v->lines[k - 1].severity; k--) {
			struct verdict_line swap = v->lines[k];

			v->lines[k] = v->lines[k - 1];
			v->lines[k - 1] = swap;
		}
}

void verdict__of(struct verdict *v, const struct report *r, const char *file)
{
	const struct judge j = { v, r, file ? file : "FILE" };
	struct facts_steps steps = facts_of_steps(r);

	v->cnt = 0;
	judge_ends(&j);
	judge_leak(&j);
	judge_rss(&j);
	judge_ranks(&j);
	judge_reserved(&j);
	judge_host(&j);
	judge_spike(&j, &steps);
	judge_unseen(&j);
	judge_recompiles(&j);
	judge_peak(&j, &steps);
	judge_host_beside(&j);
	judge_growth(&j);
	judge_nothing(&j);
	judge_rests(&j);
	by_severity(v);
}

const char *verdict_command(const struct verdict_line *l)
{
	return l->next + strlen(l->next) - l->command_len;
}

const char *verdict_kind_name(unsigned kind)
{
	static const char *const names[VERDICT_KINDS] = {
		[VERDICT_OUT_OF_MEMORY] = "out_of_memory", [VERDICT_DIED] = "died", [VERDICT_LEAK] = "leak",
		[VERDICT_RANK] = "rank", [VERDICT_FRAGMENTED] = "fragmented", [VERDICT_RESERVED] = "reserved",
		[VERDICT_WORKERS] = "workers", [VERDICT_SPIKE] = "spike", [VERDICT_ACTIVATIONS] = "activations",
		[VERDICT_STATE] = "state", [VERDICT_PEAK] = "peak", [VERDICT_NOTHING] = "nothing",
		[VERDICT_GROWTH] = "growth", [VERDICT_INCOMPLETE] = "incomplete", [VERDICT_COMPLETE] = "complete",
		[VERDICT_RECOMPILES] = "recompiles",
		[VERDICT_RSS] = "rss",
	};

	return kind < VERDICT_KINDS && names[kind] ? names[kind] : "?";
}

const char *verdict_severity_name(unsigned severity)
{
	return severity == VERDICT_PROBLEM ? "problem" : severity == VERDICT_HINT ? "hint" : "fact";
}

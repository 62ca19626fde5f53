/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Lines on outliers: a rank, a step, a moment between traced steps, a model compiled again. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "timeline/ranks.h"
#include "timeline/report.h"
#include "verdict/facts.h"
#include "verdict/rules.h"
#include "verdict/say.h"

/* 6.2, 48, 102 */
static const char *times(char buf[24], uint64_t more, uint64_t less)
{
	double ratio = (double)more / (double)(less ? less : 1);

	snprintf(buf, 24, ratio < 10 ? "%.2g" : "%.0f", ratio);
	return buf;
}

/* --- ranks ----------------------------------------------------------------------------------------------- */

/* The table that explains most of what it holds beyond the others. Lines of Python are preferred to operators. */
static const char *table_of(const struct report *r, const struct facts_ranks *f, uint64_t more)
{
	uint64_t stacks = 0, all = 0;

	for (size_t i = 0; i < r->stacks.cnt; i++)
		stacks += r->stacks.rows[i].at_peak;
	for (size_t i = 0; i < r->devs_cnt; i++)
		all += r->devs[i].peak;
	if (facts_modules_more(r, f) >= more / RANK_PART)
		return "module";
	return stacks && stacks >= all / RANK_PART ? "stack" : "op";
}

void say_rank(const struct judge *j, struct verdict_line *l)
{
	const struct facts_ranks f = j->f->ranks;
	const char *by = table_of(j->r, &f, f.peak - f.median);
	const struct judge all = of_all(j);
	char a[24], b[24], whose[TEXT_BYTES_MAX + 40];

	l->bytes = f.peak - f.median;
	say(l->text, "Rank %u%s stands out: its peak is %s, ", f.rank, whose_words(whose, f.proc), fmt_bytes(a, f.peak));
	if ((double)f.peak >= RANK_RATIO * (double)f.median)
		say(l->text, "%s times", times(a, f.peak, f.median));
	else
		say(l->text, "%u %% above", percent(f.peak - f.median, f.median));
	say(l->text, " the median of %zu ranks (%s)", f.cnt, fmt_bytes(b, f.median));
	say(l->next, "brought down to the median it saves %s; what it has more of: ", fmt_bytes(a, f.peak - f.median));
	if (f.proc) /* there are other ranks of that number */
		say_report(&all, l, "--pid %u --by %s", f.proc->pid, by);
	else
		say_report(&all, l, "--rank %u --by %s", f.rank, by);
}

/* --- a spike --------------------------------------------------------------------------------------------- */

void say_spike(const struct judge *j, struct verdict_line *l)
{
	const char *by = facts_of_peak_module(j->r).cnt ? "module" : "op";
	const struct facts_steps *f = &j->f->steps;
	char a[24], b[24], more[24], whose[TEXT_BYTES_MAX + 40], pid[24] = "";

	if (j->f->jobs.cnt > 1) /* steps of others have that number, too */
		snprintf(pid, sizeof(pid), " --pid %u", f->proc->pid);
	l->bytes = f->peak - f->median;
	say(l->text, "Step %" PRIu64 "%s peaks at %s, %s times the usual %s", f->proc->highest_step.number,
	    whose_words(whose, j->f->jobs.cnt > 1 ? f->proc : NULL), fmt_bytes(a, f->peak),
	    times(more, f->peak, f->median), fmt_bytes(b, f->median));
	if (f->high > 1)
		say(l->text, ": %zu of %zu steps are that high", f->high, f->cnt);
	else
		say(l->text, ", alone of %zu steps", f->cnt);
	say(l->next, "capped it saves %s; what step %" PRIu64 " has more of (a longer batch, an evaluation?): ",
	    fmt_bytes(a, f->peak - f->median), f->proc->highest_step.number);
	if (j->has_file)
		say_report(j, l, "--at step:%" PRIu64 " --by %s%s", f->proc->highest_step.number, by, pid);
	else /* the next one that is as high */
		say_report(j, l, "--at peak --by %s%s", by, pid);
}

/* Its window came when it was over: how high, and when, is what the kernel kept of it. */
void say_unseen(const struct judge *j, struct verdict_line *l)
{
	const struct facts_unseen u = j->f->unseen;
	char a[24], b[24];

	l->bytes = u.more;
	say(l->text, "RSS was %s higher for a moment after %s than ever in a traced step; what of was not seen",
	    fmt_bytes(a, u.more), fmt_ns(b, after(j->r, u.ts_ns)));
}

/* --- recompiles ------------------------------------------------------------------------------------------ */

#define REASON_COLS 160

/* Of a number that changes: a size, or an int in a module, which dynamo takes for a constant and names in its reason. */
static void say_recompile_next(const struct judge *j, struct verdict_line *l, const char *reason)
{
	if (strstr(reason, "size mismatch")) {
		say(l->next, "torch._dynamo.mark_dynamic(), or batches of one size (drop_last=True)");
	} else if (strstr(reason, "integer attributes of the nn.Module")) {
		say(l->next, "make that integer of the module a tensor, or "
		    "torch._dynamo.config.allow_unspec_int_on_nn_module = True");
	} else {
		say(l->next, "all of them, and why: ");
		say_report(j, l, "-v");
	}
}

void say_given_up(const struct judge *j, struct verdict_line *l)
{
	const struct report_recompile *k = j->f->recompiles.given_up;
	char why[RECOMPILE_REASON_BYTES], text[TEXT_BYTES_MAX], whose[TEXT_BYTES_MAX + 40];

	say(l->text, "torch.compile%s gave up on %s", whose_words(whose, j->f->recompiles.given_up_by),
	    name(text, k->function, "a function"));
	if (k->step)
		say(l->text, " at step %" PRIu64, k->step);
	say(l->text, ": its limit of recompiles is reached, and calls that no compilation fits run uncompiled");
	if (k->reason[0])
		say(l->text, "; this one because %s", recompile_reason(why, k->reason, REASON_COLS));
	say_recompile_next(j, l, k->reason);
}

void say_recompiles(const struct judge *j, struct verdict_line *l)
{
	const struct facts_recompiles *f = &j->f->recompiles;
	char a[24], b[24], text[TEXT_BYTES_MAX], why[RECOMPILE_REASON_BYTES], whose[TEXT_BYTES_MAX + 40];

	l->bytes = f->added;
	say(l->text, "torch.compile%s compiled again %" PRIu64 " time%s: %s of %s", whose_words(whose, f->proc), f->cnt,
	    f->cnt == 1 ? "" : "s", fmt_ns(a, f->ns), fmt_ns(b, report_seen_ns(j->r)));
	if (f->added)
		say(l->text, ", at most %s more meanwhile", fmt_bytes(a, f->added));
	say(l->text, "; most often %s", name(text, f->last->function, "a function"));
	if (f->last->reason[0])
		say(l->text, ", because %s%s", recompile_reason(why, f->last->reason, REASON_COLS),
		    f->varies ? ", and other numbers the times before" : "");
	if (!f->given_up)
		say_recompile_next(j, l, f->last->reason);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Rules about what is unlike its kind: a rank, a step, a moment between traced steps, a model compiled again. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "timeline/ranks.h"
#include "timeline/report.h"
#include "verdict/facts.h"
#include "verdict/rules.h"

/* --- ranks ----------------------------------------------------------------------------------------------- */

#define RANK_RATIO 1.25 /* of the median of all ranks, and … */
#define RANKS_LEAST 3	/* … of fewer none is the odd one */

/* The table that has most of what it holds beyond the others. Lines of Python say more than operators, where there are any. */
static const char *table_of(const struct report *r, uint32_t rank, uint64_t more)
{
	uint64_t stacks = 0, all = 0;

	for (size_t i = 0; i < r->stacks.cnt; i++)
		stacks += r->stacks.rows[i].at_peak;
	for (size_t i = 0; i < r->devs_cnt; i++)
		all += r->devs[i].peak;
	return facts_modules_more(r, rank) >= more / 2 ? "module" : stacks && stacks >= all / 2 ? "stack" : "op";
}

static void say_rank(const struct judge *j, uint32_t rank, uint64_t peak, uint64_t median, size_t cnt)
{
	struct verdict_line *l = line(j, VERDICT_RANK, VERDICT_PROBLEM, peak - median);
	char a[24], b[24];

	say(l->text, "Rank %u stands out: its peak is %s, %.2g times the median of %zu ranks (%s)", rank, fmt_bytes(a, peak),
	    (double)peak / (double)(median ? median : 1), cnt, fmt_bytes(b, median));
	say(l->next, "brought down to the median it saves %s; what it has more of: ", fmt_bytes(a, peak - median));
	say_command(l, "memtrace report %s --rank %u --by %s", j->file, rank, table_of(j->r, rank, peak - median));
}

void judge_ranks(const struct judge *j)
{
	const struct report_ranks *k = j->r->ranks;
	struct facts_ranks f;

	if (k) { /* whoever asked for ranks has had them judged there, by more */
		for (size_t i = 0; i < k->outliers_cnt; i++) {
			const struct report_rank *row = &k->rows[k->outliers[i].row];

			if (k->outliers[i].score > 0 && row->peak > row->median_peak) {
				say_rank(j, row->rank, row->peak, row->median_peak, k->cnt);
				return;
			}
		}
		return;
	}
	f = facts_of_ranks(j->r);
	if (f.cnt >= RANKS_LEAST && (double)f.peak >= RANK_RATIO * (double)f.median)
		say_rank(j, f.rank, f.peak, f.median, f.cnt);
}

/* --- a spike --------------------------------------------------------------------------------------------- */

#define SPIKE_RATIO 1.25   /* of the median step, in … */
#define SPIKE_PERCENT 10   /* … at most so many of the steps, of … */
#define SPIKE_STEPS 8	   /* … at least so many */

void judge_spike(const struct judge *j, const struct facts_steps *f)
{
	struct verdict_line *l;
	char a[24], b[24];

	if (f->cnt < SPIKE_STEPS || !f->proc || (double)f->peak < SPIKE_RATIO * (double)f->median ||
	    f->high * 100 > f->cnt * SPIKE_PERCENT)
		return;
	l = line(j, VERDICT_SPIKE, VERDICT_HINT, f->peak - f->median);
	say(l->text, "Step %" PRIu64 " peaks at %s, %.2g times the usual %s", f->proc->highest_step.number, fmt_bytes(a,
	    f->peak),
	    (double)f->peak / (double)(f->median ? f->median : 1), fmt_bytes(b, f->median));
	if (f->high > 1)
		say(l->text, ": %zu of %zu steps are that high", f->high, f->cnt);
	else
		say(l->text, ", alone of %zu steps", f->cnt);
	say(l->next, "capped it saves %s; what step %" PRIu64 " has more of (a longer batch, an evaluation?): ",
	    fmt_bytes(a, f->peak - f->median), f->proc->highest_step.number);
	say_command(l, "memtrace export %s --to html -o page.html", j->file);
}

/* Its window came when it was over: how high, and when, is what the kernel kept of it. */
void judge_unseen(const struct judge *j)
{
	struct facts_unseen u = facts_of_unseen(j->r);
	char a[24], b[24];

	if (u.more)
		say(line(j, VERDICT_SPIKE, VERDICT_HINT, u.more)->text, "RSS was %s higher for a moment after %s than ever in "
		    "a traced step; what of was not seen", fmt_bytes(a, u.more), fmt_ns(b, after(j->r, u.ts_ns)));
}

/* --- recompiles ------------------------------------------------------------------------------------------ */

#define RECOMPILES_PERCENT 5		  /* of the time went into recompiles, and … */
#define RECOMPILES_LEAST_NS 1000000000ull /* … so much, or … */
#define RECOMPILE_PERCENT 10		  /* … one of them took so many of the peak's bytes more */

#define REASON_COLS 160

/* Of a number that changes: a size, or an int in a module, which dynamo takes for a constant and says so. */
static void say_recompile_next(const struct judge *j, struct verdict_line *l, const char *reason)
{
	if (strstr(reason, "size mismatch")) {
		say(l->next, "torch._dynamo.mark_dynamic(), or batches of one size (drop_last=True)");
	} else if (strstr(reason, "integer attributes of the nn.Module")) {
		say(l->next, "make that integer of the module a tensor, or "
		    "torch._dynamo.config.allow_unspec_int_on_nn_module = True");
	} else {
		say(l->next, "all of them, and why: ");
		say_command(l, "memtrace report %s -v", j->file);
	}
}

/* The first one that torch.compile does not compile any more. NULL: none. */
static const struct report_recompile *given_up(const struct report_compiles *c)
{
	for (size_t i = 0; i < c->rows_cnt; i++)
		if (recompile_gave_up(&c->rows[i]))
			return &c->rows[i];
	return NULL;
}

static void say_given_up(const struct judge *j, const struct report_recompile *k)
{
	struct verdict_line *l = line(j, VERDICT_RECOMPILES, VERDICT_HINT, 0);
	char why[RECOMPILE_REASON_BYTES], text[TEXT_BYTES_MAX];

	say(l->text, "torch.compile gave up on %s", name(text, k->function, "a function"));
	if (k->step)
		say(l->text, " at step %" PRIu64, k->step);
	say(l->text, ": its limit of recompiles is reached, and calls that no compilation fits run uncompiled");
	if (k->reason[0])
		say(l->text, "; this one because %s", recompile_reason(why, k->reason, REASON_COLS));
	say_recompile_next(j, l, k->reason);
}

void judge_recompiles(const struct judge *j)
{
	const struct report_compiles *c = &j->r->compiles;
	const struct report_dev *d = facts_device(j->r);
	uint64_t all_ns = j->r->run.end_ts_ns - j->r->run.start_ts_ns;
	const struct report_recompile_why *w = c->whys_cnt ? &c->whys[0] : NULL;
	const struct report_recompile *up = given_up(c);
	char a[24], b[24], text[TEXT_BYTES_MAX], why[RECOMPILE_REASON_BYTES];
	struct verdict_line *l;

	if (up)
		say_given_up(j, up);
	if (!c->again || !w ||
	    ((c->again_ns < RECOMPILES_LEAST_NS || c->again_ns < all_ns / 100 * RECOMPILES_PERCENT) &&
	     (!d || !c->added || c->added < d->peak / 100 * RECOMPILE_PERCENT)))
		return;
	l = line(j, VERDICT_RECOMPILES, VERDICT_HINT, c->added);
	say(l->text, "torch.compile compiled again %" PRIu64 " time%s: %s of %s", c->again, c->again == 1 ? "" : "s",
	    fmt_ns(a, c->again_ns), fmt_ns(b, all_ns));
	if (c->added)
		say(l->text, ", at most %s more meanwhile", fmt_bytes(a, c->added));
	say(l->text, "; most often %s", name(text, w->last->function, "a function"));
	if (w->last->reason[0])
		say(l->text, ", because %s", recompile_reason(why, w->last->reason, REASON_COLS));
	if (!up)
		say_recompile_next(j, l, w->last->reason);
}

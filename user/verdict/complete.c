/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Lines on how much was seen, what was lost, and what it cost. */
#include <inttypes.h>

#include "base/text.h"
#include "timeline/report.h"
#include "verdict/facts.h"
#include "verdict/rules.h"
#include "verdict/say.h"

void say_untraced(const struct judge *j, struct verdict_line *l)
{
	const struct report *r = j->r;
	uint64_t seen = r->sampling.steps_seen;
	char a[24];

	fmt_ns(a, r->run.end_ts_ns - r->run.start_ts_ns);
	say(l->text, "No step was traced %s %s", r->run.is_live ? "yet, in" : "in", a);
	if (seen)
		say(l->text, ", of %" PRIu64 " that %s over", seen, seen == 1 ? "is" : "are");
	say(l->text, r->run.is_live ? ": what memory is used for is known with the first one" :
		     ": what memory is used for was not seen");
	say(l->next, "%s, or all steps at once: --max-overhead none", r->run.is_live ? "wait" : "trace for longer");
}

void say_nothing(const struct judge *j, struct verdict_line *l)
{
	const struct report *r = j->r;
	int was_probed = report_probes__were_set(&r->probes);
	uint32_t pid = facts_to_record(r);
	char a[24];

	say(l->text, was_probed ? "Nothing was seen: no block was allocated or freed in %s" :
		     "Nothing was seen in %s: no probe was set",
	    fmt_ns(a, r->run.end_ts_ns - r->run.start_ts_ns));
	say(l->next, was_probed ? "did this process make tensors?" : "did this process load PyTorch, and run on after that?");
	say(l->next, " Other memory is seen with --probes host (malloc).");
	if (pid) {
		say(l->next, " What can be seen of it: ");
		say_command(l, "memtrace plan -p %u", pid);
	}
}

/*
 * In the worst case each of memtrace's CPU seconds is one that the job lost (docs/cost.md). Measured losses are up to five
 * times what follows from the probes' time alone, as code runs slower beside them.
 */
int verdict_price_is_others(const struct report *r)
{
	const struct report_cost *c = &r->cost;

	return report_price__is_known(&c->price) && c->share_most > 0 && c->share_most < 1 && c->price.lost < 1 &&
	       c->price.lost / (1 - c->price.lost) > PRICE_OTHERS * c->share_most / (1 - c->share_most);
}

static void say_others(const struct report *r, char *text)
{
	char a[24], b[24];

	say(text, "; traced steps took %.1f times as long as others, of which the probes explain %s and memtrace itself "
		  "at most %s of its time: other work on the machine?", 1 / (1 - r->cost.price.lost),
	    fmt_share(a, r->cost.share, 1), fmt_share(b, r->cost.share_most, 1));
}

void say_complete(const struct judge *j, struct verdict_line *l)
{
	const struct report *r = j->r;
	uint64_t lost = report_lost_sum(r);
	char a[24], b[24];

	if (lost)
		say(l->text, "Incomplete: %s losses (%s), numbers may be too low", fmt_count(a, (double)lost),
		    facts_worst_loss(r));
	else if (r->run.is_live)
		say(l->text, "Complete so far: nothing was lost in %s", fmt_ns(a, r->run.end_ts_ns - r->run.start_ts_ns));
	else if (!r->run.ended)
		say(l->text, "The recording's end is missing; up to there nothing was lost");
	else
		say(l->text, j->f->device ? "Complete: nothing was lost in %s" : report_probes__were_set(&r->probes) ?
			     "Nothing was lost in %s: there was nothing to lose" :
			     "Nothing was lost in %s, as nothing could be seen",
		    fmt_ns(a, r->run.end_ts_ns - r->run.start_ts_ns));
	if (r->sampling.is_on)
		say(l->text, "; tracing cost the job %s of its time", fmt_share(b, r->sampling.price_ratio, 1));
	else if (verdict_price_is_others(r))
		say_others(r, l->text);
	else if (report_price__is_known(&r->cost.price))
		say(l->text, "; tracing cost the job %.1f %% of its speed (give or take %.1f %%)", r->cost.price.lost * 100,
		    r->cost.price.error * 100);
	else if (r->cost.target_cpu_ns)
		say(l->text, "; tracing cost %s of the job's CPU time", fmt_share(b, r->cost.share, 1));
	if (report_price__is_vague(&r->cost.price) && !r->sampling.is_on)
		say(l->text, ", and %" PRIu64 " untraced and %" PRIu64 " traced steps are too few, or differ too much, to "
		    "tell what it lost", report_price__untraced(&r->cost.price), r->cost.price.steps);
	if (l->text[strlen(l->text) - 1] != '?')
		say(l->text, ".");
}

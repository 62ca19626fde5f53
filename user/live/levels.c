/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/levels.h"

#include "event/packed.h"

#define CLOSING_ASK_NS 20000000ull /* between two checks whether all probes are gone */
#define STILL_LEAST_NS 2000000000ull /* marks are not removed and set again for less than this */
#define LEAD_NS 500000000ull /* until the time it takes to set probes is known */

static struct event levels__event(struct levels *l, const struct levels_seen *seen, uint8_t state, enum mt_level level)
{
	l->reported_ns = seen->now_ns;
	return (struct event){ .kind = EV_LEVEL, .flags = state, .depth = level, .addr = l->number, .dev = l->why,
			       .aux = (uint32_t)seen->pid,
			       .size = l->slice || l->is_all ? 0 : event_level_size(l->cadence.steps, l->cadence.align_steps),
			       .seq = event_level_seq(l->cadence.budget.share) };
}

enum mt_level levels__low(const struct levels *l)
{
	return l->is_still ? MT_LEVEL_STILL : l->between;
}

static enum levels_do levels__begin_down(struct levels *l, const struct levels_seen *seen, struct event *ret)
{
	l->at = LEVELS_DOWN;
	l->slice = 0;
	l->due_ns = 0;
	*ret = levels__event(l, seen, EV_LEVEL_GAP, levels__low(l));
	return LEVELS_LOWER;
}

/* All probes are set. */
static enum levels_do levels__begin_window(struct levels *l, const struct levels_seen *seen, struct event *ret)
{
	l->is_all = l->is_held;
	if (l->number && !l->begin_ns && !l->is_all) {
		uint64_t at_ns = cadence__at(&l->cadence, seen->wall_ns);

		l->lead_ns = seen->now_ns - l->window.begin_ns;
		l->begin_ns = at_ns ? seen->now_ns + (at_ns - seen->wall_ns) : 0;
	}
	if (seen->now_ns < l->begin_ns && !l->is_all)
		return LEVELS_NOTHING;
	l->begin_ns = 0;
	l->slice = 0;
	l->at = LEVELS_WINDOW;
	l->number++;
	l->steps = seen->steps;
	l->step_ns = seen->now_ns;
	*ret = levels__event(l, seen, EV_LEVEL_ARMED, MT_LEVEL_FULL);
	return LEVELS_TELL;
}

/* For jobs without steps: a while to see what is there, and a while that counts. */
static enum levels_do levels__slice(struct levels *l, const struct levels_seen *seen, struct event *ret)
{
	uint64_t wait_ns = l->slice ? LEVELS_SLICE_NS : LEVELS_NO_STEPS_NS;

	if (seen->now_ns - l->reported_ns < wait_ns)
		return LEVELS_NOTHING;
	if (l->slice == EV_LEVEL_TRACED && l->is_all)
		return LEVELS_NOTHING;
	if (l->slice == EV_LEVEL_TRACED)
		return levels__begin_down(l, seen, ret);
	l->slice = l->slice ? EV_LEVEL_TRACED : EV_LEVEL_FIRST;
	*ret = levels__event(l, seen, l->slice, MT_LEVEL_FULL);
	return LEVELS_TELL;
}

static enum levels_do levels__window(struct levels *l, const struct levels_seen *seen, struct event *ret)
{
	uint64_t wait_ns = 3 * l->cadence.every_ns > LEVELS_WAIT_NS ? 3 * l->cadence.every_ns : LEVELS_WAIT_NS;

	if (seen->steps != l->steps) {
		l->steps = seen->steps;
		l->step_ns = seen->now_ns;
	}
	if (l->is_all && !l->is_held)
		return seen->is_setting ? LEVELS_NOTHING : levels__begin_down(l, seen, ret);
	if (l->is_held && !l->is_all) /* all probes are set */
		return levels__begin_window(l, seen, ret);
	if (l->slice || !seen->steps || l->is_slow)
		return levels__slice(l, seen, ret);
	if (l->is_all)
		return LEVELS_NOTHING;
	if (seen->window == l->number && seen->state == EV_LEVEL_TAIL) {
		l->window.steps = l->cadence.steps;
		return seen->is_setting ? LEVELS_NOTHING : levels__begin_down(l, seen, ret);
	}
	if (seen->now_ns - l->step_ns <= wait_ns || seen->is_setting)
		return LEVELS_NOTHING;
	l->is_slow = l->cadence.budget.share > 0;
	return levels__begin_down(l, seen, ret);
}

bool levels__has_waited(const struct levels *l, const struct levels_seen *seen)
{
	uint64_t wait_ns = seen->steps && !l->is_still ? LEVELS_WAIT_NS : LEVELS_READ_NS;

	return seen->now_ns - l->window.end_ns >= wait_ns;
}

bool levels__is_low(const struct levels *l, const struct levels_seen *seen)
{
	if (l->at != LEVELS_RESTING || seen->is_setting || seen->is_new)
		return false;
	if (l->between != MT_LEVEL_WATCH) /* allocations are removed first */
		return false;
	return l->is_still || l->cadence.align_steps ||
	       (!seen->is_settled && levels__has_waited(l, seen));
}

static bool levels__is_due(struct levels *l, const struct levels_seen *seen)
{
	if (l->cadence.budget.share > 0 && !seen->is_priced && !levels__has_waited(l, seen))
		return false;
	l->due_ns = l->wanted ? cadence__may(&l->cadence, &l->window) : cadence__next(&l->cadence, &l->window);
	return seen->now_ns >= l->due_ns &&
	       cadence__fits(&l->cadence, &(struct cadence_now){ .wall_ns = seen->wall_ns, .step_no = seen->step_no,
								 .step_ns = seen->step_ns,
								 .lead_ns = l->lead_ns ? l->lead_ns : LEAD_NS });
}

/* The cost of the last window is known, and the next one is not near. Step numbers need the marks. */
static bool levels__may_be_still(const struct levels *l, const struct levels_seen *seen)
{
	return seen->is_expensive && seen->is_settled && seen->is_priced && !l->is_still && l->between == MT_LEVEL_WATCH &&
	       !l->cadence.align_steps && l->due_ns > seen->now_ns && l->due_ns - seen->now_ns >= STILL_LEAST_NS;
}

/* With a budget alone anything can be expensive. Without steps the counters have been read by then. */
static bool levels__blocks_are_expensive(const struct levels *l, const struct levels_seen *seen)
{
	return l->between == MT_LEVEL_BLOCKS && seen->is_expensive && (seen->is_settled || levels__has_waited(l, seen));
}

static enum levels_do levels__begin_still(struct levels *l, const struct levels_seen *seen, struct event *ret)
{
	l->is_still = true;
	l->at = LEVELS_DOWN;
	l->due_ns = 0;
	l->reported_ns = seen->now_ns;
	*ret = (struct event){ 0 }; /* no event: the rest was reported already */
	return LEVELS_LOWER;
}

/* Until the next window. */
static enum levels_do levels__wait(struct levels *l, const struct levels_seen *seen, struct event *ret)
{
	if (!l->is_held && !levels__is_due(l, seen))
		return levels__may_be_still(l, seen) ? levels__begin_still(l, seen, ret) : LEVELS_NOTHING;
	l->at = LEVELS_UP;
	l->why = l->is_held ? EV_WHY_ASKED : l->wanted;
	l->wanted = EV_WHY_DUE;
	l->is_still = l->is_change = false;
	l->window = (struct cadence_window){ .begin_ns = seen->now_ns };
	*ret = levels__event(l, seen, EV_LEVEL_GAP, l->between);
	if (l->is_auto && seen->blocks_fit)
		l->between = MT_LEVEL_BLOCKS;
	return LEVELS_RAISE;
}

static enum levels_do levels__rest(struct levels *l, const struct levels_seen *seen, struct event *ret)
{
	if (seen->is_setting)
		return LEVELS_NOTHING;
	if (levels__blocks_are_expensive(l, seen)) {
		l->between = MT_LEVEL_WATCH;
		l->is_auto = false;
	} else if (!seen->is_new) {
		return levels__wait(l, seen, ret);
	}
	if (l->cadence.budget.share > 0) { /* this costs time, too */
		l->window = (struct cadence_window){ .begin_ns = seen->now_ns };
		l->is_change = true;
	}
	return levels__begin_down(l, seen, ret);
}

enum levels_do levels__turn(struct levels *l, const struct levels_seen *seen, struct event *ret)
{
	if (!cadence__is_on(&l->cadence) || l->is_off)
		return LEVELS_NOTHING;
	if (!l->window.begin_ns) {
		l->window.begin_ns = seen->now_ns;
		*ret = levels__event(l, seen, EV_LEVEL_GAP, MT_LEVEL_WATCH);
		return LEVELS_TELL;
	}
	switch (l->at) {
	case LEVELS_UP:
		return seen->is_setting ? LEVELS_NOTHING : levels__begin_window(l, seen, ret);
	case LEVELS_WINDOW:
		return levels__window(l, seen, ret);
	case LEVELS_DOWN:
		if (l->due_ns) { /* all that had to go is gone */
			l->at = LEVELS_RESTING;
			*ret = levels__event(l, seen, EV_LEVEL_REST, levels__low(l));
			return LEVELS_TELL;
		}
		if (seen->now_ns - l->reported_ns < CLOSING_ASK_NS)
			return LEVELS_NOTHING;
		l->reported_ns = seen->now_ns;
		*ret = (struct event){ 0 }; /* no event: it was reported */
		return LEVELS_LOWER;
	case LEVELS_RESTING:
		return levels__rest(l, seen, ret);
	}
	return LEVELS_NOTHING;
}

void levels__lowered(struct levels *l, int r, uint64_t now_ns)
{
	if (r < 0)
		l->is_off = true;
	if (r)
		return;
	if (!l->window.end_ns) {
		l->window.end_ns = now_ns;
		cadence__over(&l->cadence, &l->window);
	}
	l->due_ns = cadence__next(&l->cadence, &l->window);
}

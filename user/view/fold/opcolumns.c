/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/opcolumns.h"

#include <errno.h>
#include <stdlib.h>

int opcolumns__init(struct opcolumns *c, int with_step, uint64_t around_ns)
{
	c->around_ns = around_ns;
	c->each = c->round_each = 1;
	if (!with_step)
		return 0;
	c->now = calloc(1, sizeof(*c->now));
	c->most = calloc(1, sizeof(*c->most));
	return c->now && c->most ? 0 : -ENOMEM;
}

void opcolumns__done(struct opcolumns *c)
{
	free(c->now);
	free(c->most);
}

/* --- all of them ------------------------------------------------------------------------------------------ */

static void opspan__add(struct opspan *s, int is_first, uint64_t v)
{
	if (is_first || v < s->low)
		s->low = v;
	if (is_first || v > s->high)
		s->high = v;
}

static void opcolumn__join(struct opcolumn *c, const struct opcolumn *other)
{
	if (other->allocated.high > c->allocated.high)
		c->op = other->op;
	opspan__add(&c->allocated, 0, other->allocated.low);
	opspan__add(&c->allocated, 0, other->allocated.high);
	opspan__add(&c->reserved, 0, other->reserved.low);
	opspan__add(&c->reserved, 0, other->reserved.high);
}

static void halve_columns(struct opcolumns *c)
{
	for (uint32_t i = 0; i < OPCOLUMNS_MAX / 2; i++) {
		c->columns[i] = c->columns[2 * i];
		opcolumn__join(&c->columns[i], &c->columns[2 * i + 1]);
	}
	c->each *= 2;
}

static void halve_marks(struct opcolumns *c)
{
	uint32_t cnt = 0;

	c->round_each *= 2;
	for (uint32_t i = 0; i < c->marks_cnt; i++)
		if (!(c->marks[i].round % c->round_each))
			c->marks[cnt++] = c->marks[i];
	c->marks_cnt = cnt;
}

static void add_op(struct opcolumns *c, const struct optrace_line *l)
{
	struct opcolumn *col, one = { .allocated = { l->allocated, l->allocated }, .reserved = { l->reserved, l->reserved },
				      .op = l->name };

	if (c->ops == c->each * OPCOLUMNS_MAX)
		halve_columns(c);
	col = &c->columns[c->ops / c->each];
	if (c->ops++ % c->each)
		opcolumn__join(col, &one);
	else
		*col = one;
	if (l->allocated > c->high)
		c->high = l->allocated;
	if (l->reserved > c->high)
		c->high = l->reserved;
}

static void add_mark(struct opcolumns *c, const struct optrace_line *l)
{
	c->round += l->kind == OPTRACE_STEP;
	while (c->marks_cnt == OPMARKS_MAX && c->round_each < c->round)
		halve_marks(c);
	if (c->marks_cnt < OPMARKS_MAX && !(c->round % c->round_each))
		c->marks[c->marks_cnt++] = (struct opmark){ c->ops, c->round, l->number, l->kind };
}

/* --- a step ------------------------------------------------------------------------------------------------ */

static void opstep__add(struct opstep *s, const struct optrace_line *l)
{
	s->ops++;
	if (l->allocated > s->high)
		s->high = l->allocated;
	if (s->cnt < OPSTEP_MAX)
		s->rows[s->cnt++] = (struct opstep_row){ l->allocated, l->reserved, l->created, l->name, l->phase };
}

/* Of two steps with as much the later one: it is further away from the attach. */
static void end_step(struct opcolumns *c, uint64_t ts_ns)
{
	struct opstep *now = c->now;
	int is_it = now->ops && now->has_number && c->since_ns <= c->around_ns && c->around_ns < ts_ns;

	c->since_ns = ts_ns;
	if (is_it || (!c->is_found && now->ops && now->high >= c->most->high && (now->has_number || !c->most->ops))) {
		c->is_found |= is_it;
		c->now = c->most;
		c->most = now;
	}
	c->now->cnt = c->now->marks_cnt = 0;
	c->now->ops = c->now->high = c->now->number = 0;
	c->now->has_number = 0;
	c->now->first = c->ops;
}

static void add_step_mark(struct opcolumns *c, const struct optrace_line *l)
{
	struct opstep *s = c->now;

	if (l->kind == OPTRACE_STEP) {
		s->number = l->number;
		s->has_number = 1;
		end_step(c, l->ts_ns);
	} else if (s->marks_cnt < OPSTEP_MARKS_MAX) {
		s->marks[s->marks_cnt++] = (struct opmark){ .at = s->ops, .kind = l->kind };
	}
}

/* --- lines ------------------------------------------------------------------------------------------------- */

void opcolumns__add(struct opcolumns *c, const struct optrace_line *l)
{
	if (l->kind >= OPTRACE_FW_START) {
		add_mark(c, l);
		if (c->now)
			add_step_mark(c, l);
	}
	if (l->kind != OPTRACE_OP || l->depth)
		return;
	add_op(c, l);
	if (c->now)
		opstep__add(c->now, l);
}

void opcolumns__end(struct opcolumns *c)
{
	if (c->now)
		end_step(c, UINT64_MAX);
}

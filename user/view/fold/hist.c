/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Every moment goes into all levels. A query takes the coarsest level whose slots are not wider
 * than its span: at most four slots of it per column of a chart, and a ring of 1024 of them reaches
 * back 256 columns at least.
 */
#include "view/fold/hist.h"

#include <stdlib.h>

#include "timeline/report.h"

struct hist_slot {
	uint64_t number; /* since the start, from 1: differs in a slot of the round before; 0 = empty */
	struct tui_comp comp;
};

struct tui_hist {
	struct hist_slot levels[TUI_HIST_LEVELS][TUI_HIST_SLOTS];
};

struct tui_hist *tui_hist__new(void)
{
	return calloc(1, sizeof(struct tui_hist)); /* pages are taken when touched */
}

void tui_hist__free(struct tui_hist *h)
{
	free(h);
}

static uint64_t level_width(unsigned level)
{
	return TUI_HIST_SLOT_NS << (2 * level);
}

void tui_hist__add(struct tui_hist *h, uint64_t rel_ns, const uint64_t cats[CAT_MAX])
{
	struct tui_comp now = { .rel_ns = rel_ns };

	for (unsigned i = 0; i < CAT_MAX; i++) {
		now.cats[i] = cats[i];
		if (__builtin_add_overflow(now.sum, cats[i], &now.sum))
			now.sum = UINT64_MAX;
	}
	for (unsigned level = 0; level < TUI_HIST_LEVELS; level++) {
		uint64_t number = rel_ns / level_width(level) + 1;
		struct hist_slot *s = &h->levels[level][number % TUI_HIST_SLOTS];

		if (s->number != number || now.sum >= s->comp.sum)
			*s = (struct hist_slot){ number, now };
	}
}

void tui_hist__add_report(struct tui_hist *h, const struct report *r, const struct report_dev *dev)
{
	uint64_t cats[CAT_MAX];

	for (unsigned i = 0; i < dev->highs_cnt; i++)
		if (dev->highs[i].ts_ns >= r->run.start_ts_ns)
			tui_hist__add(h, dev->highs[i].ts_ns - r->run.start_ts_ns, dev->highs[i].cats);
	if (r->sampling.in_gap) /* live bytes are unknown then */
		return;
	for (unsigned c = 0; c < CAT_MAX; c++)
		cats[c] = dev->cats[c].live;
	tui_hist__add(h, r->run.end_ts_ns - r->run.start_ts_ns, cats);
}

static const struct tui_comp *slot_at(const struct tui_hist *h, unsigned level, uint64_t rel_ns)
{
	uint64_t number = rel_ns / level_width(level) + 1;
	const struct hist_slot *s = &h->levels[level][number % TUI_HIST_SLOTS];

	return s->number == number ? &s->comp : NULL;
}

static const struct tui_comp *last_before(const struct tui_hist *h, uint64_t at_ns)
{
	for (uint64_t back = 0; back <= TUI_HIST_HOLD_NS && back <= at_ns; back += TUI_HIST_SLOT_NS) {
		const struct tui_comp *c = slot_at(h, 0, at_ns - back);

		if (c && c->rel_ns <= at_ns)
			return c;
	}
	return NULL;
}

int tui_hist__get(const struct tui_hist *h, uint64_t from_ns, uint64_t to_ns, struct tui_comp *ret)
{
	const struct tui_comp *best = NULL;
	unsigned level = 0;
	uint64_t width;

	while (level + 1 < TUI_HIST_LEVELS && to_ns > from_ns && level_width(level + 1) <= to_ns - from_ns)
		level++;
	width = level_width(level);
	for (uint64_t at = from_ns / width * width; at < to_ns && at <= UINT64_MAX - width; at += width) {
		const struct tui_comp *c = slot_at(h, level, at);

		if (c && c->rel_ns >= from_ns && c->rel_ns < to_ns && (!best || c->sum > best->sum))
			best = c;
	}
	if (!best)
		best = last_before(h, from_ns);
	if (!best)
		return 0;
	*ret = *best;
	return 1;
}

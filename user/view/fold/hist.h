/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * tui_hist: the composition of a device's memory over time: of each report so far its own moment and the
 * highest one of each quarter of a second before it, kept in rings of widening slots: the last minutes
 * are fine, the last weeks coarse, and the size is fixed. A slot keeps the fullest moment that fell into
 * it, whole: its parts belong together.
 *
 * (The series in a report are exact, but have only the sum.)
 */
#ifndef MT_VIEW_FOLD_HIST_H
#define MT_VIEW_FOLD_HIST_H

#include <stdint.h>

#include "timeline/timeline.h"

#define TUI_HIST_LEVELS 10
#define TUI_HIST_SLOTS 1024		/* from 4 minutes at the finest … */
#define TUI_HIST_SLOT_NS 250000000ull	/* … four times as long each, to two years */
#define TUI_HIST_HOLD_NS 3000000000ull	/* a moment stands for the time until the next, this long at most */

struct tui_comp {
	uint64_t rel_ns; /* since the start of the trace */
	uint64_t sum;
	uint64_t cats[CAT_MAX];
};

struct report;
struct report_dev;
struct tui_hist;

struct tui_hist *tui_hist__new(void); /* NULL: no memory */
void tui_hist__free(struct tui_hist *h);
/* Times that go back are kept where they fall. */
void tui_hist__add(struct tui_hist *h, uint64_t rel_ns, const uint64_t cats[CAT_MAX]);
/* The moments that a report has of a device, without ends of gaps. */
void tui_hist__add_report(struct tui_hist *h, const struct report *r, const struct report_dev *dev);
/* The fullest moment of [from, to), else the last before it. 0: none is known. */
int tui_hist__get(const struct tui_hist *h, uint64_t from_ns, uint64_t to_ns, struct tui_comp *ret);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* tui_data: data of the reports so far: the latest, histories, rates between them. Reads no clock. */
#ifndef MT_VIEW_TUI_DATA_H
#define MT_VIEW_TUI_DATA_H

#include "timeline/report.h"
#include "view/fold/hist.h"

struct tui_ui;

#define TUI_DEVS_MAX 16 /* devices with a history and rates; further ones have totals alone */
#define TUI_MARKS_MAX 64 /* the oldest go */

struct tui_dev_data {
	uint8_t dev;
	struct tui_hist *hist;
	uint64_t allocs, frees; /* at the rates' last look */
	double allocs_s, frees_s;
};

struct tui_data {
	struct report *now; /* owned */
	struct tui_dev_data devs[TUI_DEVS_MAX];
	size_t devs_cnt;
	uint64_t looked_ns, steps, events; /* at the rates' last look */
	double steps_s, events_s;
	uint64_t marks[TUI_MARKS_MAX]; /* ns since the start */
	size_t marks_cnt;
	struct report *then; /* of a recording's held moment, owned; NULL: it could not be read */
	int has_then;
	uint64_t then_ns; /* which one, since the start */
	int is_reading;	  /* the recording, up to the moment that is held now … */
	unsigned read_percent; /* … of which this is done */
};

/* Takes the report over; rates may stay as they were. 0 or -ENOMEM. */
int tui_data__add(struct tui_data *d, struct report *r, int with_rates);
/* Into the histories alone: for a recording, on the way to its end. */
int tui_data__sample(struct tui_data *d, const struct report *r);
void tui_data__mark(struct tui_data *d);
/*
 * The last report read of a held moment, while one is held: that of then_ns, until the next one is read.
 * NULL: there is none.
 */
const struct report *tui_data__then(const struct tui_data *d, const struct tui_ui *ui);
const struct tui_dev_data *tui_data__dev(const struct tui_data *d, uint8_t dev); /* NULL: none */
void tui_data__done(struct tui_data *d);

#endif

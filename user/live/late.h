/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * late: a recording that somebody begins with a key while a trace goes on, and ends with it. It is of all steps: where windows
 * of some are traced it waits until all are, and holds them for as long as it goes on (windows__hold). It is said on stderr.
 */
#ifndef MT_LIVE_LATE_H
#define MT_LIVE_LATE_H

#include <stdbool.h>

struct model;
struct recorder;
struct windows;

/* All borrowed. */
struct late {
	struct windows *windows;
	struct recorder *recorder;
	struct model *model;
	bool is_wanted; /* it begins when all is traced */
};

void late__asked(struct late *l); /* to begin it, or to end it */
void late__turn(struct late *l);  /* each turn of the loop, after windows' */

#endif

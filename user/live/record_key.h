/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * record_key: the key by which somebody begins a recording while a trace goes on, and ends it. The recording is of all steps:
 * where windows of some are traced it waits until all are, and holds them for as long as it goes on (windows__hold). It is
 * said on stderr.
 */
#ifndef MT_LIVE_RECORD_KEY_H
#define MT_LIVE_RECORD_KEY_H

#include <stdbool.h>

struct model;
struct recorder;
struct windows;

/* All borrowed. */
struct record_key {
	struct windows *windows;
	struct recorder *recorder;
	struct model *model;
	bool is_wanted; /* it begins when all is traced */
};

void record_key__asked(struct record_key *k); /* to begin it, or to end it */
void record_key__turn(struct record_key *k);  /* each turn of the loop, after windows' */

#endif

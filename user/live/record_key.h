/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * record_key: the key with which the user begins and ends a recording while a trace goes on. The recording is of all steps:
 * where windows of some are traced it waits until all are, and holds them for as long as it goes on (windows__hold). Reported
 * on stderr.
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
	bool is_wanted; /* it begins once everything is traced */
};

void record_key__asked(struct record_key *k); /* the key was pressed, to begin or end it */
void record_key__turn(struct record_key *k);  /* each turn of the loop, after windows' */

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/record_key.h"

#include <stdio.h>

#include "live/windows.h"
#include "record/recorder.h"

void record_key__turn(struct record_key *k)
{
	if (!k->is_wanted || !windows__have_all(k->windows))
		return;
	k->is_wanted = false;
	if (!recorder__begin_late(k->recorder, k->model, "all steps"))
		(void)windows__hold(k->windows, false);
}

void record_key__asked(struct record_key *k)
{
	bool ends = recorder__is_late(k->recorder);

	if (!k->recorder->past) {
		fprintf(stderr, "already recording to %s\n", k->recorder->path);
		return;
	}
	k->is_wanted = !ends && !k->is_wanted;
	if (windows__hold(k->windows, k->is_wanted))
		fprintf(stderr, "all steps are traced from the next one on, and recorded\n");
	else if (!k->is_wanted && !ends)
		fprintf(stderr, "not recorded: it had not begun\n");
	if (ends)
		recorder__end_late(k->recorder);
	record_key__turn(k);
}

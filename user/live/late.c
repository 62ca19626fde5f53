/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/late.h"

#include <stdio.h>

#include "live/windows.h"
#include "record/recorder.h"

void late__turn(struct late *l)
{
	if (!l->is_wanted || !windows__have_all(l->windows))
		return;
	l->is_wanted = false;
	if (!recorder__begin_late(l->recorder, l->model, "all steps"))
		(void)windows__hold(l->windows, false);
}

void late__asked(struct late *l)
{
	bool ends = recorder__is_late(l->recorder);

	if (!l->recorder->past) {
		fprintf(stderr, "already recording to %s\n", l->recorder->path);
		return;
	}
	l->is_wanted = !ends && !l->is_wanted;
	if (windows__hold(l->windows, l->is_wanted))
		fprintf(stderr, "all steps are traced from the next one on, and recorded\n");
	else if (!l->is_wanted && !ends)
		fprintf(stderr, "not recorded: it had not begun\n");
	if (ends)
		recorder__end_late(l->recorder);
	late__turn(l);
}

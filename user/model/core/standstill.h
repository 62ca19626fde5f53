/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * standstill: how much longer a step of a process took while memtrace set its probes: compared with its steps just before, by
 * the process's own marks of steps. The step under way when the last probe was set is included.
 */
#ifndef MT_MODEL_STANDSTILL_H
#define MT_MODEL_STANDSTILL_H

#include <stddef.h>
#include <stdint.h>

#include "timeline/report.h"

struct event;

#define STANDSTILL_BEFORE 32 /* steps just before, the last ones */

enum standstill_when { STANDSTILL_BEFORE_IT = 0, STANDSTILL_MEANWHILE, STANDSTILL_LAST_STEP };

/* Of a process. */
struct standstill {
	uint64_t before[STANDSTILL_BEFORE];
	uint64_t before_cnt; /* all there were */
	uint64_t longest_ns; /* meanwhile */
	enum standstill_when when;
};

/* EV_ATTACH: sums of all processes. */
void standstill__attach(struct standstill *s, struct report_attach *sum, const struct event *ev);
/* A step of the process has ended. sum gets the longest of any process. */
void standstill__step(struct standstill *s, struct report_attach *sum, uint64_t took_ns);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * pace: how soon a report may be made again, so that making them never takes more than 1/PACE_FACTOR of a core, however
 * often clients ask. A report's cost is CPU time of the thread that made it: elapsed time is longer where others want the
 * CPU (50 ms of waiting would put the next one off by 10 s), and numbers would be oldest on the busiest machines.
 */
#ifndef MT_SERVE_PACE_H
#define MT_SERVE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define PACE_FACTOR 200

struct pace {
	uint64_t begun_cpu_ns;
	uint64_t made_ns, cost_ns; /* the last one; 0: none */
};

void pace__begin(struct pace *p);
void pace__made(struct pace *p);
bool pace__may(const struct pace *p, uint64_t age_ns); /* after that time since the last one */

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/counting.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "event/event.h"
#include "live/followed.h"
#include "live/naming.h"
#include "live/reported_names.h"
#include "target/target.h"

#define COUNT_MAX 9007199254740992.0 /* integers up to here are exact */

enum { DTYPE_INT = 3, DTYPE_LONG = 4, DTYPE_FLOAT = 6, DTYPE_DOUBLE = 7 }; /* c10::ScalarType */

/* A count is an integer above 0. */
static uint64_t count_of(const uint8_t bytes[8], uint8_t dtype)
{
	int32_t number;
	int64_t wide;
	float single;
	double v;

	memcpy(&number, bytes, sizeof(number));
	memcpy(&wide, bytes, sizeof(wide));
	memcpy(&single, bytes, sizeof(single));
	memcpy(&v, bytes, sizeof(v));
	v = dtype == DTYPE_INT ? number : dtype == DTYPE_LONG ? (double)wide : dtype == DTYPE_FLOAT ? (double)single : v;
	return v >= 1 && v <= COUNT_MAX && floor(v) == v ? (uint64_t)v : 0;
}

static size_t dtype_bytes(uint8_t dtype)
{
	return dtype == DTYPE_INT || dtype == DTYPE_FLOAT ? 4 : dtype == DTYPE_LONG || dtype == DTYPE_DOUBLE ? 8 : 0;
}

void counting__turn(const struct counting *c)
{
	const struct process *p;

	for (size_t at = 0; c->naming && (p = followed__next(c->followed, &at));) {
		uint8_t bytes[8] = { 0 };
		struct step_count_place count;
		uint64_t steps, now = now_ns();

		if (!naming__count_of(c->naming, p->pid, &count) || !dtype_bytes(count.dtype) ||
		    target__read(p->target, count.addr, bytes, dtype_bytes(count.dtype)) < 0)
			continue;
		steps = count_of(bytes, count.dtype);
		if (steps)
			tell__event(&c->tell, (struct event){ .ts_ns = now, .kind = EV_STEPS, .pid = (uint32_t)p->pid,
							      .size = steps });
	}
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * price: what tracing costs a process, measured on itself: the time of its steps with all probes set, against those just
 * before, when only the marks of steps were. Calibration measures a hit in a loop; this includes the job's own caches, threads
 * that wait for each other, and the CPU time that memtrace takes from it. A process that was launched, or makes no steps, has
 * none.
 */
#ifndef MT_MODEL_PRICE_H
#define MT_MODEL_PRICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "timeline/report.h"

#define PRICE_STEPS 256			 /* of each side that are kept */
#define PRICE_STEPS_MIN 4		 /* of each side; with fewer nothing is reported */
#define PRICE_TRACED_NS 20000000000ull /* after the last probe was set: what comes later may be other work */

enum price_when { PRICE_BEFORE = 0, PRICE_SETTING, PRICE_UNDER_WAY, PRICE_TRACED };

/* Durations of steps, ns: all, or evenly spread ones. */
struct price_sample {
	uint64_t v[PRICE_STEPS];
	uint64_t seen, stride; /* stride 0: 1 */
	size_t cnt;
};

/* Of a process. */
struct price {
	struct price_sample before, traced;
	uint64_t since_ns; /* of PRICE_TRACED */
	enum price_when when;
};

/* EV_ATTACH: operators begin to be set, or all are. */
void price__attach(struct price *p, int begins);
/* A step of the process has ended, at now_ns. */
void price__step(struct price *p, uint64_t took_ns, uint64_t now_ns);
/* … in a session with gaps: it was whole, and traced, or not: all such are compared. */
void price__sampled(struct price *p, bool traced, uint64_t took_ns);
/* sum gets the process with the most steps to compare. */
void price__report(const struct price *p, uint32_t pid, struct report_price *sum);

#endif

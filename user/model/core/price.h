/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * price: what tracing costs a process, measured on itself: the time of its steps with all probes set, against those just
 * before, when only the marks of steps were, and those just after, when only these were left. Calibration measures a hit in a
 * loop; this includes the job's own caches, threads that wait for each other, and the CPU time that memtrace takes from it. A
 * process that was launched, or makes no steps, has none.
 */
#ifndef MT_MODEL_PRICE_H
#define MT_MODEL_PRICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "timeline/report.h"

#define PRICE_STEPS 256			 /* of each sample that are kept */
#define PRICE_STEPS_MIN 4		 /* of each sample; one with fewer says nothing */
#define PRICE_TRACED_NS 20000000000ull /* traced steps are compared with others that are not further away than this */

enum price_when { PRICE_BEFORE = 0, PRICE_SETTING, PRICE_UNDER_WAY, PRICE_TRACED };

/* Durations of steps, ns: all, or evenly spread ones. */
struct price_sample {
	uint64_t v[PRICE_STEPS];
	uint64_t seen, stride; /* stride 0: 1 */
	size_t cnt;
};

/* Of a process. */
struct price {
	struct price_sample before, traced, after; /* traced: after the last probe was set */
	struct price_sample last[2]; /* the latest traced ones, and those before: 0.5 to 1 times PRICE_TRACED_NS together */
	uint64_t since_ns, last_ns;  /* of PRICE_TRACED, of last[0] */
	uint64_t end_ns;	     /* of the latest traced one */
	bool is_long;		     /* the latest traced steps are others than the first */
	enum price_when when;
};

/* EV_ATTACH: operators begin to be set, or all are. */
void price__attach(struct price *p, int begins);
/* A step of the process has ended, at now_ns. */
void price__step(struct price *p, uint64_t took_ns, uint64_t now_ns);
bool price__has_traced(const struct price *p); /* enough steps to compare others with */
/* One of the steps that were watched after the last traced one. */
void price__after(struct price *p, uint64_t took_ns);
/* price__step, in a session with gaps: it was whole, and traced, or not: all such are compared. */
void price__sampled(struct price *p, bool traced, uint64_t took_ns);
/* sum gets the process with the most steps to compare. */
void price__report(const struct price *p, uint32_t pid, struct report_price *sum);

#endif

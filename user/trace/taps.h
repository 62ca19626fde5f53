/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * taps: what is needed to read data from a tracer without any right: its rings, its counters and the cost of a hit. The tracer
 * itself may be in another process (keeper/), which hands them over as descriptors and plain numbers.
 */
#ifndef MT_TRACE_TAPS_H
#define MT_TRACE_TAPS_H

#include <stddef.h>
#include <stdint.h>

#include "trace/calib.h"
#include "trace/rings.h"
#include "trace/trace.h"

struct err;
struct mt_counters; /* include/memtrace/shared.h */
struct mt_shares;
struct taps;

#define TAPS_FDS_MAX (MT_RINGS_MAX + 1)

struct taps_desc {
	uint64_t ring_bytes; /* each */
	uint64_t bss_bytes;
	uint32_t rings_cnt;
	uint32_t use_perf, tells_victims;
	uint32_t kernel_ns;
	struct calib calib;
	struct insn_classes classes;
};

/* What changes with each attach. */
struct taps_progs {
	uint8_t class[MT_PROG_MAX]; /* enum insn_class: cheapest among the sites set; 0: none */
	uint64_t failed_cnt;	    /* sites that could not be set */
};

/* fds: rings_cnt rings, then the programs' memory; ownership is taken in any case. 0 or -errno. */
int taps__new(struct taps **ret, const struct taps_desc *desc, const int *fds, size_t fds_cnt, struct err *err);
void taps__free(struct taps *t);
void taps__set_progs(struct taps *t, const struct taps_progs *progs);
int taps__tells_victims(const struct taps *t);
const struct insn_classes *taps__insn_classes(const struct taps *t);

/* Like the tracer's functions of the same names. */
int taps__fd(const struct taps *t);
int taps__drain(struct taps *t, uint64_t budget_ns, int (*fn)(void *ctx, const void *rec, size_t len), void *ctx,
		struct drained *ret);
void taps__counters(const struct taps *t, struct trace_counters *ret);
/* Each process's amount in each ring, and the processes that had events left out: as many as there are rings. */
const struct mt_shares *taps__shares(const struct taps *t, size_t *ret_cnt);
/* A process with more live blocks than its share of --min-size's table; each once (of many the last ones). 0: no more. */
pid_t taps__next_live_over(struct taps *t);
uint64_t taps__looked_up(const struct taps *t);

/* --- for the tracer, which has the same numbers in other places ------------------------------------------ */

struct costs {
	const struct calib *calib;
	const struct insn_classes *classes;
	unsigned kernel_ns;
	struct taps_progs progs;
};
unsigned costs_of(const struct costs *c, enum mt_prog prog);
void counters_sum(const struct mt_counters *per_cpu, const struct costs *c, struct trace_counters *ret);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* merge_state: what a merge holds while it runs; for merge*.c alone. */
#ifndef MT_EVENT_MERGE_STATE_H
#define MT_EVENT_MERGE_STATE_H

#include <stdbool.h>

#include "base/map.h"
#include "event/merge_scan.h"

struct names;
struct rec_reader;
struct rec_writer;

#define MERGE_AUX_MAX 256 /* of COST and LOSS */

/* The two values of a counter: the last ones of a file, or the sums over all. */
struct counter {
	uint64_t key; /* kind << 32 | thing (event/kinds.h) */
	uint64_t addr, size;
	bool is_known;
};

/* A frame under its callers, of all files together. */
struct merge_stack {
	uint32_t parent, name, file, line; /* parent: number + 1 */
	uint8_t kind;
};

struct merge_source {
	struct merge_scan scan;
	struct rec_reader *reader;
	size_t clock; /* the first file that has the same one */
	int64_t shift_ns;
	int64_t drift_ppt; /* parts in 10^12 that its clock is too fast … */
	uint64_t drift_from_ns; /* … counted from here on, and back */
	const struct event *evs;
	size_t cnt, at;
	uint64_t next_ns; /* of evs[at], in the merged recording's time */
	bool has_traced, is_tracing; /* from when its probes were set, but for pauses of its own, to its end */
	uint32_t *names, *stacks; /* this file's ids → those of the merged recording */
	size_t names_cnt, stacks_cnt, stacks_cap;
	struct map counters; /* struct counter: as it had them last */
};

struct merge {
	struct merge_source *src;
	size_t cnt;
	size_t *heap, heap_cnt; /* of indices */
	size_t tracing_cnt; /* sources that trace now; none: a pause, where one has before */
	bool is_paused;
	struct names *names;
	struct rec_writer *out;
	struct merge_machine *machines; /* .global only of use */
	uint32_t machines_cnt;
	struct map sum; /* struct counter */
	struct merge_stack *stacks;
	uint32_t stacks_cnt, stacks_cap;
	struct index by_stack;
	uint64_t begin_ns, now_ns; /* of the merged recording */
	int each; /* a note for each file, however many */
	struct err *err;
	struct merge_info *info;
};

/* merge_clock.c: all times become those of one clock; *ret_off: its offset from the wall clock. 0 or -errno. */
int merge__align(struct merge *m, enum merge_align align, int64_t *ret_off);
/* Ascends as ts_ns does. */
uint64_t merge_source__time(const struct merge_source *s, uint64_t ts_ns);

/* merge_event.c */
/* Zeroed if it was not there; NULL: no memory. */
struct counter *counters__of(struct map *counters, uint8_t kind, uint32_t thing);
uint64_t counters__lost(const struct map *counters, uint32_t reason);
uint32_t merge_source__pid(const struct merge_source *s, uint32_t pid);
int merge__names(struct merge *m, struct merge_source *s, struct event *ev); /* ids become those of the merged recording */
/* Rewrites the next event of s for the merged recording. 1: write it; 0: do not; -ENOMEM. */
int merge__translate(struct merge *m, struct merge_source *s, struct event *ev);

#endif

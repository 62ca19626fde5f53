/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* merge_scan: the first pass over a file to be merged: its processes and machines, and the steps to compare its clock by. */
#ifndef MT_EVENT_MERGE_SCAN_H
#define MT_EVENT_MERGE_SCAN_H

#include "event/event.h"
#include "event/merge.h"

struct err;

struct merge_step {
	uint64_t number, ts_ns;
};

struct merge_machine {
	uint32_t local;	  /* its number in the file */
	uint32_t global;  /* in the merged recording */
	uint64_t boot;	  /* 0: not known */
	char *host;
};

struct merge_scan {
	int64_t epoch_off_ns;
	int has_begin, is_merged;
	int has_levels; /* it traces some steps only (docs/sampling.md) */
	struct merge_machine *machines; /* one at least */
	size_t machines_cnt;
	uint32_t step_pid; /* whose steps they are */
	int is_marked;	   /* by STEP */
	int from_start;	   /* they were counted from the process's own beginning */
	struct merge_step *steps; /* those whose number is a multiple of the stride, so that they reach to the end */
	size_t steps_cnt, steps_cap;
	uint64_t stride, counted; /* counted: steps without numbers so far */
	uint64_t first_ns, last_ns;
	uint64_t traced_ns; /* from then on: a process began with its probes, or all were set; 0: neither is known */
	uint64_t events, cut_bytes;
	int ended;
	uint32_t end_reason;
	int64_t world;
	uint8_t *ranks; /* bits */
	uint32_t *pids; /* of the processes that it reports on, ascending, each once */
	size_t pids_cnt, pids_cap;
};

/* All of the file. 0, or -errno with *err; *s is to be given to merge_scan__done either way. */
int merge_scan__read(struct merge_scan *s, const char *path, struct err *err);
void merge_scan__done(struct merge_scan *s);

#endif

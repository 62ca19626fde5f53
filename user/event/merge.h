/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * merge: several recordings become one, as if one memtrace had seen it all: of several machines, or of several processes of
 * one. What comes out is an ordinary recording; it may be merged again.
 *
 * Clocks. Each recording has its own monotonic clock and its offset from the wall clock. Recordings of one boot share a clock,
 * and their times are not changed. Others are put on the first file's wall clock; where both have steps with known numbers
 * (marks, or optimizer steps counted from the job's start), these steps are aligned: ranks of a synchronous job take a step
 * together, however wrong their clocks are. A clock that runs faster than another one is slowed down, where that shows in the
 * distances of the steps (merge_clock.c).
 *
 * Pids. Machine n's have n << EV_MACHINE_SHIFT added; the first machine keeps its own. A machine is a boot.
 *
 * Time that no file has traced, between the end of one recording and the next one whose probes are set, is a pause (EV_PAUSE):
 * nothing of it is known, and no mean, rate or series includes it.
 *
 * Counters of memtrace itself (costs, losses, symbols fired, its own CPU) are added up. Files are read twice.
 */
#ifndef MT_EVENT_MERGE_H
#define MT_EVENT_MERGE_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct outfile_how;

#define MERGE_FILES_MAX 256 /* merges of merges go further */
#define MERGE_STEPS_MAX 4096 /* of a file, from its first to its last: for its clock */
#define MERGE_STEPS_LEAST 3
#define MERGE_DRIFT_PPT_MAX 500000000ll /* 500 parts in a million: no clock is that fast */

enum merge_align { MERGE_ALIGN_STEPS = 0, MERGE_ALIGN_CLOCK }; /* CLOCK: wall clocks alone */
enum merge_how { MERGE_FIRST = 0, MERGE_SAME_BOOT, MERGE_BY_STEPS, MERGE_BY_CLOCK };

/* How each file was merged. */
struct merge_file_info {
	const char *path;
	uint32_t machine; /* of its first one */
	enum merge_how how;
	int64_t clock_ns;    /* taken off its wall clock in the middle of its steps, so that it agrees with the first file's */
	int64_t drift_ppt;   /* parts in 10^12 that it is too fast, and slowed down by; 0: none that shows */
	uint64_t spread_ns;  /* BY_STEPS: median distance of its steps from the first file's afterwards */
	size_t steps_common;
	uint64_t events, cut_bytes;
	int ended; /* its end was seen */
};

struct merge_info {
	struct merge_file_info *files;
	size_t files_cnt;
	uint32_t machines_cnt;
	uint64_t events; /* written */
	int64_t world;	/* as the ranks were reported; -1: not */
	uint32_t ranks_cnt; /* different ones that were seen, at most MERGE_RANKS_MAX */
	uint32_t missing[16];
	size_t missing_cnt, missing_total;
};

#define MERGE_RANKS_MAX 65536

/*
 * 0 or -errno; then `out` is as it was. *ret is filled in either case, give it to merge_info__done. The lines of
 * merge_info__words become notes of the merged recording.
 */
int merge_files(const char *const *paths, size_t cnt, const char *out, const struct outfile_how *how,
		enum merge_align align, int each, struct merge_info *ret, struct err *err);
/* Reports how each file was merged; of many files, unless `each`, a line for each way. 0, or what `say` returned. */
int merge_info__words(const struct merge_info *info, int each, int (*say)(void *ctx, const char *line), void *ctx);
void merge_info__done(struct merge_info *info);

#endif

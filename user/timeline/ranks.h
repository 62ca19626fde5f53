/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * ranks: the ranks of a distributed job side by side, as plain data: what `report --by rank` renders. Filled by the room
 * model (model/ranks.h); which ranks differ from the others is decided here, by numbers alone.
 *
 * All bytes are of one kind of memory: the GPUs' if any rank has blocks there, else the framework's CPU blocks, else malloc's.
 */
#ifndef MT_TIMELINE_RANKS_H
#define MT_TIMELINE_RANKS_H

#include "event/rank_label.h"
#include "timeline/report.h"

#define RANKS_MAX 1024	     /* with a row of their own */
#define RANK_STEPS_MAX 1024  /* the last ones */
#define RANK_MISSING_MAX 64  /* numbers that are named */
#define RANK_OUTLIERS_MAX 16
#define RANK_OUTLIER_SCORE 3.5 /* the usual bound of a modified z-score */
#define RANK_RATIO 1.25	/* of two ranks the larger stands out from so many times the other's peak on; the verdict's, too */

enum rank_memory { RANK_MEM_CPU = 0, RANK_MEM_CUDA, RANK_MEM_HOST, RANK_MEMS };

struct report_step {
	uint64_t number, ts_ns, peak; /* peak: from this mark to the next */
};

struct report_rank {
	uint32_t idx; /* in order of appearance: the key of the room that fills it in */
	uint32_t rank;
	uint8_t source;		/* enum rank_source */
	struct rank_label label; /* of its first process */
	uint32_t machine;	/* its number in a merged recording, else 0 */
	uint32_t pid, launcher; /* its first process, and the parent of that */
	uint64_t began_ns, ended_ns; /* ended_ns: UINT64_MAX, not yet */
	char *host;		/* name of its machine; "" not known */
	uint8_t gone;		/* of that process, as in report_proc */
	uint32_t exit_status;
	size_t procs_cnt;	/* workers included */
	uint64_t live, peak, peak_ts_ns;
	uint64_t median_peak;	/* of its job */
	uint64_t rss_peak;	/* highest of one of its processes */
	struct report_cat cats[CAT_MAX];
	struct report_step *steps; /* in order of time */
	size_t steps_cnt;
	uint64_t steps_total;
	struct report_sampling sampling; /* of it alone */
	uint8_t steps_marked; /* they carry numbers of their own; else they were counted, and aligned by time */
	struct series series; /* of the same buckets as all others */
};

/* A step that all ranks with steps have. */
struct report_step_row {
	uint64_t number, ts_ns; /* when the first rank began it */
	uint64_t late_ns;	/* how much later the last one did */
	uint64_t min, median, max;
	uint32_t max_row; /* in rows[] */
};

struct report_outlier {
	uint32_t row;	   /* in rows[] */
	uint8_t cat;	   /* what makes most of the difference */
	double score;	   /* modified z-score, negative: below */
	int64_t more, cat_more; /* bytes of its peak above the median rank's */
};

struct report_ranks {
	uint8_t memory; /* enum rank_memory */
	struct report_rank *rows; /* by job, source, number, machine */
	size_t cnt;
	size_t not_listed; /* past RANKS_MAX: in others */
	uint64_t others_live, others_peak; /* processes that are no rank */
	uint32_t world; /* as the ranks were reported; 0: not */
	uint32_t missing[RANK_MISSING_MAX];
	size_t missing_cnt, missing_total;
	size_t died; /* ranks whose process ended by a signal or failed */
	/* rows[] by peak; the lowest and the median one of the job that has the highest */
	uint32_t max_row, min_row, median_row;
	size_t jobs_cnt;
	size_t claimed; /* pairs of rows that one job cannot have: the same number at the same time */
	struct report_outlier outliers[RANK_OUTLIERS_MAX]; /* the farthest first */
	size_t outliers_cnt;
	struct report_step_row *steps;
	size_t steps_cnt;
	uint64_t start_ts_ns; /* of the series */
	int64_t epoch_off_ns;
	struct report *worst; /* of the rank with the highest peak alone, as if nothing else had been traced */
};

void report_ranks__free(struct report_ranks *r); /* NULL is fine */
/* From rows[] all that follows from them: sorts them first. 0 or -ENOMEM. */
int report_ranks__judge(struct report_ranks *r);
/* Bucket i of the series of all rows: highest, median and lowest maximum, POINT_UNKNOWN in gaps. false: there is none. */
int report_ranks__bucket(const struct report_ranks *r, size_t i, uint64_t *ret_max, uint64_t *ret_median, uint64_t *ret_min);

#endif

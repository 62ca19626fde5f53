/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * rules: all thresholds of the verdict, in the order of the rules, and what a rule is. The rules themselves: rules.c.
 * docs/report.md repeats the thresholds for people.
 */
#ifndef MT_VERDICT_RULES_H
#define MT_VERDICT_RULES_H

#include "verdict/verdict.h"

struct judge;

/* --- the end: what was live before it is printed, if it rose … */
#define RISE_NS 2000000000ull /* … over more: in less a job begins, … */
#define RISE_PART 5	      /* … by such a part of what it had then */

/* --- what grows: model/growth_report.c decides which places of tensors do */
#define LEAK_SHARE 100		    /* a place is a problem if it has grown by such a part of the peak; below it is a hint */
#define GROWING_NS 5000000000ull    /* RSS: less time is how a job begins (REPORT_LOADING_NS: before its first step) */
#define GROWING_LEAST (64ull << 20) /* … libraries and caches have as much */
#define GROWING_PART 20		    /* … of all that the processes have */
#define EXIT_PART 8		    /* … of the time: what follows the last step, if shorter, is how a job ends */
#define WORKERS_GROW_PART 2	    /* … of it DataLoader's workers make less than such a part: their own rule explains it */
#define GROWN_PART 2		    /* of the peak: it is mostly growth: the leak's line has the advice */

/* --- ranks */
#define RANKS_LEAST 2 /* one of them with RANK_RATIO (timeline/ranks.h) times the median; of two that is the lower one */
#define RANK_PART 2	/* such a part of what it has more is in modules, or of all peaks in stacks: that table is proposed */

/* --- what a GPU's allocator reserved and never gave out */
#define IDLE_PERCENT 20		      /* of what was reserved at most was never allocated, and … */
#define IDLE_LEAST (64ull << 20)      /* … so many bytes: below, it is how allocators round */
#define DEVICE_PERCENT 5	      /* … and of the device: less does no harm on it */
#define FULL_PERCENT 90		      /* of the device's memory is reserved: idle bytes are missing elsewhere */
#define EXPANDABLE_PAGE (20ull << 20) /* c10's kLargeBuffer: what it maps and unmaps of a segment of large blocks */

/* --- holes of the C library's allocator */
#define HOLES_PERCENT 30	   /* of a process's anonymous memory holds nothing, half of the time since the peak, and … */
#define HOLES_LEAST (256ull << 20) /* … so many bytes: less is what libraries have of their own */
#define HOLES_STEPS 8		   /* since the peak so many steps are over, … */
#define HOLES_NS 5000000000ull	   /* … or where there are none so much time: what a step uses again is no hole */
#define HOLES_BESIDE 10		   /* a GPU's peak is so many times as high: that is the answer, and this a fact */

/* --- DataLoader's workers */
#define WORKERS_PERCENT 25	    /* of the memory of all processes is the workers' own, and … */
#define WORKERS_LEAST (64ull << 20) /* … so many bytes; or it has grown by so many */
#define GROWS_READS 3		    /* of a worker that grows: readings, and … */
#define GROWS_PERCENT 60	    /* … of the steps from one to the next so many go up */
#define COPIED_PART 2		    /* of what it grew by is no longer shared: by copy-on-write */

/* --- memory beside tensors */
#define BESIDE_PERCENT 50	    /* of a process's anonymous memory is in no tensor, and … */
#define BESIDE_LEAST (512ull << 20) /* … so many bytes: Python, torch and what a job imports have 150 to 300 MiB, … */
#define BESIDE_CUDA (2ull << 30)    /* … CUDA's libraries and contexts more */
#define BESIDE_MALLOC_PART 2	    /* such a part of it is in blocks of malloc: these show whose it is */

/* --- a spike */
#define SPIKE_RATIO 1.25	   /* of the median step, in … */
#define SPIKE_PERCENT 10	   /* … at most so many of the steps, of … */
#define SPIKE_STEPS 8		   /* … at least so many */
#define SPIKE_PART 2		   /* as far above the median as such a part of the highest is one of these */
#define UNSEEN_LEAST (16ull << 20) /* between windows of traced steps: as much as is worth a window (live/windows.c), … */
#define UNSEEN_PART 2		   /* … and down again by such a part of it */

/* --- recompiles */
#define RECOMPILES_PERCENT 5		  /* of the time went into recompiles, and … */
#define RECOMPILES_LEAST_NS 1000000000ull /* … so much, or … */
#define RECOMPILE_PERCENT 10		  /* … one of them took so many of the peak's bytes more */

/* --- the peak */
#define MOST_PERCENT 60		/* of the peak: activations, or state, are what it is about */
#define NEAR_PART 100		/* a part of the peak: so much less still counts as reached */
#define PART_PERCENT 5		/* of the peak: parts below are not named, and savings below not proposed */
#define MODULE_PERCENT 50	/* of what a module made: where one inside it has so much, it is that one's */
#define GAIN_LEAST (2ull << 20) /* the smallest piece that a GPU's allocator asks its driver for: less moves no limit */
#define GAIN_OF_REFUSED 10	/* a part of what was refused the last time; less would not have helped */
#define ASKED_TIMES 10		/* … so many times all that the process had: such a request may be an error */
#define SHARD_LEAST (1ull << 30) /* less is not worth sharding */
#define STATE_OF_ADAM 3 / 2	/* more of it than parameters: two moments a weight, and 8 bits each would do */
#define ALL_STEPS_S 10		/* so long all steps are recorded for estimate, and as long as … */
#define ALL_STEPS 20		/* … so many take */

/* --- what is to be typed */
#define RECORD_S 60 /* a recording that is made to look closer, in a live view */

/* --- what tracing cost: steps took longer by … */
#define PRICE_OTHERS 10 /* … so many times what the probes' time and memtrace's own explain: that was other work */

#define SILENT ((enum verdict_severity)0)

/* One line of the verdict, if the rule applies. */
struct rule {
	enum verdict_kind kind;
	enum verdict_severity (*when)(const struct judge *j); /* SILENT: it does not apply */
	void (*say)(const struct judge *j, struct verdict_line *l);
};

/* In the order of their lines. */
extern const struct rule rules[];
extern const size_t rules_cnt;

#endif

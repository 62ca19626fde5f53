/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * paid: what windows of tracing cost a job, measured on its own steps. A stretch is a window with the setting and the removal
 * of its probes: from the step under way at the first probe's setting to the step under way at the last one's removal. Its cost
 * is the time of its steps, less the time that as many took on average just before and after, when they were only watched.
 *
 * Kinds of steps are not distinguished: over windows at random distances the average is right. A step that took far longer
 * than others (a checkpoint, a machine that slept) is left out, on both sides. Without steps, and for the marks of steps, the
 * cost is a multiple of the calibrated one, as measured on jobs (docs/cost.md). Marks cost all the time: those that are hit in
 * a stretch slow the steps that it is compared with just as much.
 */
#ifndef MT_MODEL_PAID_H
#define MT_MODEL_PAID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAID_BUCKETS 16		   /* of watched steps: the latest */
#define PAID_BUCKET_NS 100000000ull /* a step at least */
/*
 * Steps so soon after a stretch belong to its cost, too: its after-effects (cold caches, a look at names, links that are still
 * being freed) are no part of a step's usual time.
 */
#define PAID_SETTLE_NS 500000000ull
#define PAID_AFTER 5		   /* so many buckets after a stretch: then its cost is final */
#define PAID_LONG_TIMES 4	   /* longer than so many steps, and … */
#define PAID_LONG_NS 250000000ull  /* … so much more: that is odd, … */
#define PAID_CALIBRATED 2.0	   /* times the calibrated cost, beside the job's own work, in windows; */
#define PAID_BLOCKS 1.5		   /* so many times between them, of allocations (docs/sampling.md); */
#define PAID_MARKS 1.25		   /* so many times where marks are all that is hit (docs/cost.md) */
#define PAID_ODD 8		   /* … but so many are not, one after the other */

struct paid_bucket {
	uint64_t steps, ns;
};

/* Counters: what all probes took by calibration, and the CPU time that the job used. ts_ns 0: none yet. */
struct paid_read {
	uint64_t ts_ns, probe_ns, cpu_ns;
};

enum paid_step { PAID_WATCHED, PAID_TRACED, PAID_BESIDE /* partly */ };

/* All 0 at first. */
struct paid {
	struct paid_bucket watched[PAID_BUCKETS];
	size_t at; /* of the one that is being filled */
	/* the latest stretch */
	uint64_t stretches, begin_ns, end_ns;
	uint64_t steps, ns, traced_steps, traced_ns;
	uint64_t traced_blocks; /* allocations and frees of the traced ones */
	unsigned after, odd; /* odd: in a row */
	uint64_t odds;	     /* in all */
	bool is_open;
	double beside_ns; /* a watched step just before and after it, on average; 0: not known yet */
	double lost_ns, least_ns; /* of those before: by steps; by calibration alone */
	/* calibration: readings of counters: the last, the last before the stretch, the first since all is at rest, or still */
	struct paid_read read, before, rest, still;
	double watch; /* share of the time that marks take, of the latest rest with a result */
	double cpus;  /* that the job used in it, on average; 0: not known yet */
	bool sees_blocks; /* allocations and frees have probes in rests, too: these are marks like others, and cost more */
	double blocks; /* … share of the time that these then take, by calibration alone; else 0 */
	double left; /* the same of probes that stay when marks have gone */
	uint64_t since_ns; /* when the latest stretch began; 0: no marks are set any more */
	uint64_t still_ns; /* when they went; 0: they are set */
	bool is_settled; /* enough steps were watched after the latest stretch, and the time that marks take is known */
	double marks_ns;   /* the time that marks took until then, in stretches and rests */
};

/* Probes are set, being set or removed; or only marks are left. */
void paid__change(struct paid *p, bool is_rest, uint64_t now_ns);
void paid__level(struct paid *p, bool sees_blocks); /* of rests from now on */
void paid__still(struct paid *p, uint64_t now_ns); /* marks of steps have gone, too */
/* blocks: allocations and frees in it, as far as they were seen. */
void paid__step(struct paid *p, enum paid_step what, uint64_t took_ns, uint64_t blocks, uint64_t now_ns);
void paid__read(struct paid *p, const struct paid_read *now);
/* The share of its CPU time that the job would lose if these were seen in each step; hit_ns: calibrated. 0: not known. */
double paid__of_blocks(const struct paid *p, double hit_ns);

double paid__step_ns(const struct paid *p); /* of a watched step, on average; 0: not known */
double paid__last(const struct paid *p);    /* what the latest stretch has cost so far, ns; below 0: noise */
/* The time that marks took since it began, while they were set, beyond that of the probes that stay without them. */
double paid__marks_beside(const struct paid *p, uint64_t now_ns);
double paid__probes(const struct paid *p);  /* what its probes took by calibration alone */
bool paid__is_measured(const struct paid *p); /* … by steps on both sides: it stands */
double paid__all(const struct paid *p, uint64_t now_ns); /* with what marks cost, in them and between */

#endif

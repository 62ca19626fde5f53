/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The trace itself: its probes, what it costs, what was traced. */
#ifndef MT_TIMELINE_REPORT_TRACING_H
#define MT_TIMELINE_REPORT_TRACING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "memtrace/event.h"
#include "timeline/report_steps.h"

struct report_cover {
	uint32_t pid;
	char *source;
	uint64_t found, attached;
};

/* A probed symbol, in all processes together. */
struct report_symbol {
	char *name;	 /* "aten::addmm", "malloc", "memtrace:op_begin" */
	uint32_t source; /* bit number of its enum source (plan/plan.h) */
	uint64_t found, attached; /* sites: overloads, libraries, processes */
	uint64_t fired;
};

/* Probes of operators were set while processes ran: sums, and of the process that felt it most how it did. */
struct report_attach {
	uint64_t sites, slices, took_ns, longest_slice_ns; /* slices 0: none were */
	uint64_t steps_before; /* that could be compared with, 0: none */
	uint64_t median_before_ns, longest_before_ns, longest_step_ns, longest_gap_ns;
};

/* An idle operator, whose probe was taken away until it was called. */
struct report_late_op {
	char *name;
	uint32_t pid;
	uint64_t ts_ns;	    /* when its probe was set again */
	uint64_t missed_ns; /* before that, in which calls of it may be missing */
};

struct report_probes {
	struct report_cover *covers;
	size_t covers_cnt;
	struct report_symbol *symbols; /* by fired, then name; all of them */
	size_t symbols_cnt;
	uint64_t idle_ts_ns;	       /* when probes of idle operators were first taken away; 0: never */
	uint64_t idle_ops, idle_cnt;   /* those without a probe in the end; probes taken away, in all processes */
	struct report_attach attach;
	struct report_late_op *late_ops; /* the first ones */
	size_t late_ops_cnt;
	uint64_t late_ops_total;
};

/* False: nothing could be seen; no source was found, or the kernel took none of its probes. */
static inline int report_probes__were_set(const struct report_probes *p)
{
	for (size_t i = 0; i < p->covers_cnt; i++)
		if (p->covers[i].attached)
			return 1;
	return 0;
}

/* What tracing costs a process, by its own steps: medians of traced ones, and of those just before and just after the trace. */
struct report_price {
	uint32_t pid;
	uint64_t steps_before, steps_after, steps; /* that were compared; steps: traced ones, 0: nothing could be compared */
	uint64_t before_ns, after_ns, traced_ns;   /* 0: there are none of these */
	double lost;  /* share of its speed; below 0: it was faster, which is noise or a disturbance of the steps before */
	double error; /* of lost, either way, 95 % */
};

static inline uint64_t report_price__untraced(const struct report_price *p) /* steps */
{
	return p->steps_before + p->steps_after;
}

/* A loss that stands out of the steps' own differences is known if these are no more than half of it, else it is vague. */
static inline bool report_price__is_known(const struct report_price *p)
{
	return p->steps && p->lost > p->error && p->error <= p->lost / 2;
}

static inline bool report_price__is_vague(const struct report_price *p)
{
	return p->steps && p->lost > p->error && p->error > p->lost / 2;
}

/* The steps before took longer than noise explains. */
static inline bool report_price__is_reversed(const struct report_price *p)
{
	return p->steps && p->lost < -p->error;
}

struct report_program {
	uint64_t hits, ns;
};

struct report_cost {
	struct report_price price;
	struct report_program programs[MT_PROG_MAX]; /* the latest of each */
	uint64_t hits, ns;     /* their sums */
	uint64_t target_cpu_ns; /* CPU time all followed processes used since their first EV_CPU */
	double share;	       /* ns / target_cpu_ns; 0 if unknown */
	double share_most;     /* ... where threads wait for the probed one and memtrace's time is the job's; no bound */
	uint64_t self_rss, self_cpu_ns;
};

/* A stretch in which nothing was traced; of so many that some were joined, lost_ns of it. */
struct report_gap {
	uint64_t begin_ns, end_ns, lost_ns; /* CLOCK_MONOTONIC; one that is open ends with the report */
	uint64_t seen_ns; /* until then allocations were seen, though no operators; begin_ns: never */
};

/* A window of whole traced steps. */
struct report_window {
	uint64_t begin_ns, end_ns; /* of its first step, of its last one */
	uint64_t step;	/* number of the first one by the optimizer's own count, the same for all ranks; 0: not known */
	uint64_t steps; /* 0: it was one of time */
	uint8_t why;	/* enum ev_level_why */
};

/* Byte·time in gaps. */
struct report_learned_dev {
	uint8_t dev;
	uint64_t byte_ns; /* of all that lived */
	uint64_t learned_ns[CAT_MAX], none_ns; /* of what was allocated while no operator was seen; none: it has no label */
};

struct report_learned_op {
	char *name;
	uint64_t cnt, byte_ns;
};

/* Labels that allocations in gaps learned from traced steps (model/core/learned.h). */
struct report_learned {
	uint8_t is_on;
	uint64_t steps, unlike; /* of which something was not traced: of a kind that is known, or not */
	uint64_t kinds, learnt, again; /* again: a check was wrong by more than a fiftieth of its bytes */
	uint64_t checks, check_bytes, wrong_bytes, wrong_cat_bytes, wrong_op_bytes, no_label_bytes;
	uint64_t no_room, no_room_bytes; /* there was no room for: below they are not, or not to their end */
	struct report_learned_dev *devs;
	size_t devs_cnt;
	struct report_learned_op *ops; /* the most byte·time first */
	size_t ops_cnt;
};

/* Of the byte·time allocated while no operator was seen: the labelled share. */
double report_learned__share(const struct report_learned *l);

/* Windows of tracing, and gaps between them (docs/sampling.md). */
struct report_sampling {
	uint8_t is_on, in_gap; /* in_gap: at the report's end */
	struct report_gap *gaps; /* by time; 1024 at most */
	size_t gaps_cnt;
	struct report_window *traced; /* the latest 64, by time */
	size_t traced_cnt;
	uint64_t steps_seen, steps_traced; /* of all processes; traced: whole, with all probes */
	uint64_t windows;
	uint64_t paused_ns; /* between recordings that were merged, of all time: not even RSS is known, nor are steps */
	uint32_t pauses;
	uint64_t traced_ns; /* time that byte·time is of */
	uint64_t uncounted_ns; /* steps were not counted, their marks cost too much of the budget: of the machine with most */
	uint64_t unseen_blocks, unseen_bytes; /* whose end fell into a gap */
	double budget;	    /* share of the time that the job was to lose at most; 0: none was given */
	struct report_steps steps; /* what a step is made of on average, in the process whose steps are counted */
	struct report_step_kind *kinds; /* of its steps; the most common one first; 8 at most */
	size_t kinds_cnt;
	uint64_t steps_unsorted; /* of its steps: while probes came and went, or of a kind that is not known */
	struct report_learned learned;
	double price_ratio; /* share of the time lost until now; 0: nothing beyond noise */
};

/* Source `flow`: what the graph was made of, and where torch.profiler's checks would have failed. */
struct report_flow {
	uint64_t nodes, edges, versions; /* closed nodes, their edges, in-place writes */
	uint64_t replays;		 /* windows labelled again, because parameters were found */
	uint64_t output_twice;		 /* one version of a block made by two nodes (threads that overlap) */
	uint64_t input_stale;		 /* a node was given a version that another one had replaced when it was over */
	uint64_t by_class[MT_CLASS_MAX]; /* tensors without a storage of their own, by enum mt_class */
	uint64_t moved;			 /* storages whose tensor took them over from another block */
	uint64_t unmapped;		 /* late blocks that ended with their mapping */
	uint8_t has_parts;		 /* parameters that Python holds are parts of tensors without memory (DTensor) */
	uint8_t has_compiled;		 /* forward passes that torch.compile's inductor generated ran */
};

#endif

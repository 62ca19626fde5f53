/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * report: the state of a trace as plain data: what every view renders, and nothing else decides.
 * Built by model__report; strings are copies (bytes as they came from the target: views escape).
 * Sizes in bytes, times in ns; *_ts_ns are CLOCK_MONOTONIC, add epoch_off_ns for epoch time.
 */
#ifndef MT_TIMELINE_REPORT_H
#define MT_TIMELINE_REPORT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memtrace/loss.h"
#include "timeline/report_compiles.h"
#include "timeline/report_places.h"
#include "timeline/report_leaks.h"
#include "timeline/report_memory.h"
#include "timeline/report_modules.h"
#include "timeline/report_names.h"
#include "timeline/report_oom.h"
#include "timeline/report_ops.h"
#include "timeline/report_procs.h"
#include "timeline/report_tracing.h"

struct report_ranks;

/* What was traced, when and where, and how complete that is. */
struct report_run {
	uint64_t start_ts_ns, end_ts_ns; /* first and last event */
	int64_t epoch_off_ns;
	char *host;   /* EV_BEGIN's name */
	uint32_t pid; /* main target */
	char *comm, *cmdline;
	char *choice; /* options that chose these processes of a recording, "--pid 12"; NULL: it is of all */
	int ended; /* EV_END seen */
	int is_live; /* of a trace that goes on: its end is still to come, not missing */
	uint32_t end_reason;
	uint64_t events[256];	    /* by kind */
	uint64_t lost[MT_LOSS_MAX]; /* latest EV_LOSS per reason, the model's own added */
	char **notes;
	size_t notes_cnt;
};

struct report {
	uint8_t classes;  /* enum classes: which categories devs[].cats has */
	uint8_t has_flow; /* flow means something */
	struct report_flow flow;
	struct report_run run;
	struct report_probes probes;
	struct report_cost cost;
	struct report_sampling sampling;
	struct report_ooms ooms;
	struct report_driver driver;
	struct report_dev *devs; /* framework devices and MT_DEV_HOST, those seen, by number */
	size_t devs_cnt;
	struct report_proc *procs; /* in order of appearance; last one may be pid 0: all that have no row */
	size_t procs_cnt;
	struct report_lanes lanes;
	struct report_blocks peak_blocks; /* the largest that live at the peak */
	struct report_ops ops, regions;
	struct report_stacks stacks;
	struct report_names names;
	struct report_modules modules;
	struct report_saved saved;
	struct report_marks marks;
	struct report_kernel kernel;
	struct report_compiles compiles;
	struct report_places places; /* of generated code */
	struct report_leaks leaks;
	struct report_ranks *ranks; /* timeline/ranks.h; NULL: was not asked for */
};

/* The usual ways of ending a program: no sign of a problem with memory. */
static inline bool signal_sends_away(int sig)
{
	return sig == SIGTERM || sig == SIGINT || sig == SIGHUP || sig == SIGPIPE;
}

#define REPORT_GROWTH_GAPS 3 /* where some steps are traced: blocks have to stay over so many gaps, … */
#define REPORT_GROWTH_WINDOWS (REPORT_GROWTH_GAPS + 1) /* … which are between so many windows */
/* In so many gaps, the latest that are over, allocations were seen all the time. */
size_t report_gaps_seen(const struct report *r);
/* Nothing grew in what was traced, but blocks that live on through gaps are not seen, or gaps were few: it may still grow. */
bool report_growth_is_hidden(const struct report *r);
/* What its answer rests on: "161 steps", "3 traced steps", "12 half seconds without a step". */
#define REPORT_SPAN_BYTES 56
const char *report_growth_span(const struct report *r, char buf[REPORT_SPAN_BYTES]);
/* The gap in which all of [from_ns, to_ns] lies and of which nothing is known; NULL: there is none. */
const struct report_gap *report_gap_around(const struct report *r, uint64_t from_ns, uint64_t to_ns);
/* Until when allocations were seen in the gap that from_ns is in; that time itself: they were not, or there is none. */
uint64_t report_gap_seen_ns(const struct report *r, uint64_t from_ns);
/* Live bytes at the report's end, where nothing is traced then but allocations are seen. false: that is not so. */
bool report_dev_between(const struct report *r, const struct report_dev *d, uint64_t *ret);
/* The time that means and rates are of: since the probes were set, or the traced part of that. */
uint64_t report_traced_ns(const struct report *r);
/* Time that steps, RSS and memtrace itself were seen in: all but pauses between merged recordings. */
uint64_t report_seen_ns(const struct report *r);
/* When all probes were in the first process that has memory: before, they were planned, steps watched without them, and set. */
uint64_t report_traced_from_ns(const struct report *r);

const struct report_proc *report_proc_last(const struct report *r, uint32_t pid); /* of several lives of a pid; or NULL */
struct rank_label report_proc_label(const struct report_proc *p); /* from its labels (event/rank_label.h) */
/* The rank that a process names, or, if it names none, the nearest of its ancestors that does. */
bool report_rank(const struct report *r, uint32_t pid, uint32_t *ret);
/* The process that its launcher started: the topmost above this one that names the same rank, or it; NULL: it has no rank. */
const struct report_proc *report_rank_first(const struct report *r, uint32_t pid);

void report__free(struct report *r); /* NULL is fine */
const struct report_dev *report_dev_find(const struct report *r, uint8_t dev); /* NULL: not seen; r may be NULL */
/* When a device was at its peak: of several moments as high the one that was chosen. 0: it is not there; r may be NULL. */
uint64_t report_peak_ts_ns(const struct report *r, uint8_t dev);
uint64_t report_lost_sum(const struct report *r); /* of all reasons but MT_LOSS_STACK_RATE */
/* Of them, events: those that docs/losses.md marks. The others left a detail out. */
uint64_t report_lost_events(const struct report *r);

#endif

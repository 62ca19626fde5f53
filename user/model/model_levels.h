/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Windows of traced steps. */
#ifndef MT_MODEL_MODEL_LEVELS_H
#define MT_MODEL_MODEL_LEVELS_H

#include <stdbool.h>
#include <stdint.h>

#include "model/core/paid.h"
#include "timeline/report_tracing.h"

struct event;
struct model;
struct proc;

/* The windows of one machine (model_levels.c). */
struct sampler {
	uint32_t machine, pid; /* pid: whose steps are counted */
	uint8_t state, level, why; /* enum ev_level_state, mt_level, ev_level_why */
	uint64_t window, want, left; /* steps */
	uint64_t align; /* the first traced one has a multiple of that as its number; 0: any */
	uint64_t since_ns, set_ns;   /* of the state; of the last ARMED */
	uint64_t row;		     /* of the window under way: its number among all machines', from 1; 0: it has none */
	uint64_t still_ns, uncounted_ns; /* since when no mark of steps is set, 0: they are; for how long before that */
	bool is_all;		     /* all steps are wanted: this window goes on until an event ends it */
	bool rests_blind; /* at its last rest allocations were not seen, or there was none */
	uint64_t blocks_at_step; /* allocations and frees of all processes until the last boundary */
	double budget;		     /* share of the time that may be lost; 0: none was set */
	struct paid paid;	     /* by the process whose steps are counted */
};

#define LEVELS_KEPT 64 /* windows that are reported one by one: the latest */

struct reported_levels {
	struct sampler *samplers; /* none: all the time is traced */
	size_t cnt, cap;
	uint64_t steps_seen, steps_traced, windows;
	struct report_window kept[LEVELS_KEPT]; /* by number */
};

/* model_core.c */
struct sampler *model__sampler(const struct model *m, uint32_t pid); /* of its machine; NULL: none */
bool model__is_blind(const struct model *m, uint32_t pid); /* probes of its operators may be missing */
/* What is allocated now, or ends with this boundary, is of a step that is seen whole: growth may count it. */
bool model__sees_growth(const struct model *m, uint32_t pid, bool is_boundary);
/* model_levels.c */
void model__level(struct model *m, const struct event *ev); /* EV_LEVEL, EV_PAUSE */
void model__level_step(struct model *m, struct proc *p, uint64_t took_ns); /* a boundary; took_ns 0: the first of an era */
void model__stayed(struct model *m, const struct event *ev); /* EV_STAYED */
void model__paid_read(struct model *m, const struct event *ev); /* EV_SELF: counters were read */
void model__levels_done(struct model *m);
/* model_sampled.c: of the process whose steps are counted: a step is over; a traced one begins; the one under way is dropped */
void model__sample_over(struct model *m, const struct proc *p, enum paid_step what, uint64_t took_ns);
void model__sample_begins(struct model *m, const struct proc *p);
void model__sample_gone(struct model *m);

#endif

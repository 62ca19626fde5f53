/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * modules: the nn.Modules of all processes (EV_MODULE), the memory allocated in their forwards and backwards, and phases.
 *
 * A row is a module: one Python object as long as it has one name. Row 0 is no module. A row may be used before its EV_MODULE
 * (EV_MODULE_AT), then it has no name and no parent yet. Sums (bytes allocated, live, at the peak) are of the module itself,
 * the innermost one; values with a peak of their own are of the module with all that is in it.
 *
 * MODULES_MAX rows, of one process half of what the others leave; blocks without a row belong to no module and are counted.
 * Rows of processes that are gone stay.
 */
#ifndef MT_MODEL_MODULES_H
#define MT_MODEL_MODULES_H

#include <stdbool.h>

#include "base/index.h"
#include "event/event.h"
#include "model/core/tally.h"
#include "timeline/timeline.h"

#define MODULES_MAX (TALLY_ROWS_MAX - 1)
#define MODULES_DEEP_MAX 64 /* modules in modules */
#define MODULE_INPUTS_MAX 8 /* blocks that are known to be the inputs of one call */
#define MARKS_MAX 4096	    /* the last ones */
#define STEPS_MAX 1024	    /* the last ones */

struct block;
struct device;

/* Blocks allocated in one phase with this module innermost. */
struct module_phase {
	uint64_t alloc_count, alloc_bytes, live;
};

/* Of a module with all that is in it: now, and at its own highest. */
struct high {
	uint64_t live, peak;
};

/* Bytes given to, or got from, a call: of the one that runs, and the most. */
struct module_flow {
	uint64_t call, most;
};

struct module_row {
	uint64_t addr;
	uint32_t pid;
	uint32_t parent; /* row; 0: a root, or not known */
	bool reported;
	uint32_t turn; /* order of the first EV_MODULE, from 1 */
	uint8_t deep; /* modules around it */
	uint8_t inputs_at;
	name_id path, root, class;
	uint64_t calls; /* as far as seen: two without an allocation elsewhere between them are one */
	struct module_phase phases[PHASE_MAX];
	struct high made;		  /* allocated in its forward: activations and temporaries */
	struct high kinds[EV_TENSOR_MAX]; /* named storages of it: parameters … */
	uint64_t peak_forward, peak_backward; /* of all live bytes of the process, while it ran */
	struct module_flow in, out;
	uint64_t inputs[MODULE_INPUTS_MAX]; /* ids */
};

struct phase_sum {
	uint64_t entries, ns, alloc_count, alloc_bytes, live, peak; /* peak: of all live bytes of a process in it */
};

/* How many rows are a process's. */
struct modules_of {
	uint32_t pid, cnt;
};

/* The row of a (pid, address), or of a (pid, path, root). */
struct module_places {
	struct module_place {
		uint64_t a, b;
		uint32_t row;
	} *all;
	uint32_t cnt, cap;
	struct index index;
};

struct modules {
	struct module_row *rows; /* [0] is none */
	uint32_t cnt, cap, turns;
	struct modules_of *owners;
	size_t owners_cnt, owners_cap, owner_at;
	struct module_places by_addr, by_path; /* by pid and address; by pid | root << 32 and path */
	struct tally tally; /* by row: of what it made */
	struct tally held;  /* by row, its cells alone: blocks that no module made, and it holds by name. Row 0: all of them */
	struct phase_sum phases[PHASE_MAX];
	struct report_mark *marks; /* a ring of MARKS_MAX, or NULL */
	uint64_t marks_cnt; /* all that were */
	uint64_t marks_by_kind[MARK_MAX];
	struct step_marks *steps; /* a ring of STEPS_MAX, or NULL */
	uint64_t steps_cnt;	  /* all that were */
	bool in_gap; /* highest values do not count */
};

int modules__init(struct modules *s); /* 0 or -ENOMEM; zeroed by the caller */
void modules__done(struct modules *s);
/* EV_MODULE. False: no room. */
bool modules__define(struct modules *s, const struct event *ev);
/* The module at an address, made if need be. 0: none, or no room (*ret_full). */
uint32_t modules__at(struct modules *s, uint32_t pid, uint64_t addr, bool *ret_full);
/* A module by its path; root none: the first one reported. 0: none. */
uint32_t modules__of_path(const struct modules *s, uint32_t pid, name_id path, name_id root);
/* The innermost module that contains, or is, both; 0: none. */
uint32_t modules__around(const struct modules *s, uint32_t a, uint32_t b);
void modules__drop_pid(struct modules *s, uint32_t pid); /* its addresses mean nothing any more */
void modules__mark(struct modules *s, const struct report_mark *mark);
void modules__step(struct modules *s, const struct step_marks *step);
void modules__gap(struct modules *s, bool begins);

void modules__allocated(struct modules *s, const struct block *b, uint64_t process_live);
void modules__freed(struct modules *s, const struct block *b);
void modules__late(struct modules *s, uint64_t bytes); /* a block of no module's, live from now on */
/* A block that was seen late is of this module and phase. */
void modules__move(struct modules *s, struct block *b, uint32_t row, uint8_t phase, unsigned dev_idx, uint64_t epoch);
/* From `old` to `row`: calls begin. */
void modules__enter(struct modules *s, uint32_t row, uint32_t old);
/* An operator of module `row` (0: of none) was given a block in a forward pass. */
void modules__used(struct modules *s, struct block *b, uint32_t row);
void modules__named(struct modules *s, uint32_t row, uint8_t kind, uint64_t bytes);
void modules__unnamed(struct modules *s, uint32_t row, uint8_t kind, uint64_t bytes);
/* A block that no module made is held by a module by its name, or no longer. False: no memory. */
bool modules__hold(struct modules *s, uint32_t row, const struct block *b, const struct device *d);
void modules__let_go(struct modules *s, uint32_t row, const struct block *b, const struct device *d, bool is_dead);
/* Its category is another one, or it has a name. */
void modules__gradient(struct modules *s, struct block *b);
void modules__check(const struct modules *s);

#endif

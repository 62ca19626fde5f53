/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * recompute: a recorded step with torch.utils.checkpoint around some modules: a block that is allocated in such a module's
 * forward and lives until its backward ends with its last use in the forward, and the forward runs again before the module's
 * backward, where those blocks live on and the others are allocated and freed as before. Its inputs stay until then; blocks
 * used after it (its outputs) are unchanged.
 *
 * A module's forward lasts from its first allocation to the next allocation outside of it: running it again costs that time.
 * The result is the median of the last steps, as a single step may have waited for something.
 */
#ifndef MT_ESTIMATE_RECOMPUTE_H
#define MT_ESTIMATE_RECOMPUTE_H

#include "estimate/items.h"

#define RECOMPUTE_MODULES_MAX 1024
#define RECOMPUTE_STEPS_MAX 15 /* whose times are looked at */

struct recompute_opts {
	const struct recorded *r;
	const struct recorded_kept *kept; /* whose step the items are */
	const char *modules; /* patterns of paths, by commas */
	uint64_t budget;     /* 0: none */
	double more;	     /* of the batch than recorded */
	int is_cpu;
};

struct recompute_module {
	char *path;
	double bytes;	  /* that are not kept */
	uint64_t time_ns; /* of running it again: the median of so many steps */
	size_t steps;
	uint64_t peak, time_all_ns; /* with this one and all before it */
	int is_chosen;
};

struct recompute_result {
	struct recompute_module *modules; /* the trade-off: most bytes for a microsecond first */
	size_t cnt, chosen;
	uint64_t time_ns; /* of those that are chosen */
	int fits;	  /* with a budget: a set was found */
	int is_exact;	  /* all sets were looked at */
};

/*
 * Chooses all modules, or with a budget the set that costs least time and fits, else all; the items are those of that choice.
 * 0, -ENOMEM; -ENOENT: no such module has a forward and a backward in the step; -E2BIG.
 */
int recompute__apply(struct recompute_result *res, struct items *i, const struct recompute_opts *o);
void recompute_result__done(struct recompute_result *res);

#endif

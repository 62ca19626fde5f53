/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * diff: two traces, row by row: how much each held at the peak, after the last whole step and on average over whole steps,
 * and what it allocated a step. Traces of different length compare because what adds up is divided by steps (or seconds).
 */
#ifndef MT_TIMELINE_DIFF_H
#define MT_TIMELINE_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct report;
struct report_stack;

enum diff_by { DIFF_BY_OP = 0, DIFF_BY_CATEGORY, DIFF_BY_DEVICE, DIFF_BY_REGION, DIFF_BY_SYMBOL, DIFF_BY_STACK,
	       DIFF_BY_MODULE, DIFF_BY_NAME, DIFF_BY_RANK };

/*
 * NAN: not known for rows of that kind. The last three are those of a step, or of a second. DIFF_END is of the end of the
 * compared stretch, as a job that runs on is left in the middle of a step; of names and ranks it is of the trace's.
 */
enum diff_value { DIFF_PEAK = 0, DIFF_END, DIFF_MEAN, DIFF_ALLOCS, DIFF_BYTES, DIFF_FIRED, DIFF_VALUES };

struct diff_named {
	const char *name; /* tensor_name() */
	uint64_t bytes;
};

/* All of it is borrowed; reports have all rows. */
struct diff_side {
	const struct report *from, *to, *end; /* as of both ends of the compared stretch, and of the trace */
	const double *op_means, *region_means, *stack_means; /* over the stretch, of end's rows; last of ops and stacks: none */
	const double *category_means; /* the same, CAT_MAX of each of end's devices */
	const struct diff_named *named; /* BY_NAME: what lived at the peak, without gradients */
	size_t named_cnt;
	uint64_t from_ns, to_ns;
	uint64_t steps; /* whole ones in the stretch; 0: none was seen */
	int is_sampled; /* some steps were traced: what adds up is not known, of either side (docs/sampling.md) */
};

struct diff_row {
	char *name; /* of a stack its frames, innermost first, a line each: what both sides are matched by */
	const struct report_stack *stack; /* BY_STACK: of A or B, for its frames; NULL: blocks without one */
	double a[DIFF_VALUES], b[DIFF_VALUES];
	bool is_before; /* it may differ by blocks from before the attach alone (timeline/diff_before.h) */
};

struct diff {
	struct diff_row *rows; /* by growth, the most shrunk last; then rows that may differ by blocks from before the attach */
	size_t cnt;
	int per_step; /* both have steps */
	int is_sampled; /* one side is */
	double before_a, before_b; /* of its peak, from before the attach, in no known row; 0: rows do not depend on it */
};

/* Devices and categories of all; ret is the caller's, for diff__done. 0 or -ENOMEM. */
int diff__make(struct diff *ret, const struct diff_side *a, const struct diff_side *b, enum diff_by by);
void diff__done(struct diff *d);
/* Time in the stretch that means are of. */
uint64_t diff_side__traced_ns(const struct diff_side *s);
/* No block was seen in it, on any device. */
bool diff_side__is_empty(const struct diff_side *s);
#define DIFF_SAME_PART 100 /* of a peak: less is how runs differ */
/* The device whose peak changed most, of those that A has, and what it is in B; NULL: none. */
const struct report_dev *diff_peak_changed(const struct report *a, const struct report *b, uint64_t *ret_to);
/* B - A; of what neither has NAN. */
static inline double diff_row__change(const struct diff_row *r, enum diff_value v)
{
	return r->b[v] - r->a[v];
}

#endif

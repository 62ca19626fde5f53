/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * compared: a recording as a side of a diff (timeline/diff.h). It is read twice, once for its steps, once for the events
 * between; twice more for the names of blocks live at its peak. Of a recording with gaps all that was traced is compared
 * (docs/sampling.md). The first two of more than eight steps are left out: in them older blocks are seen late.
 */
#ifndef MT_REPLAY_COMPARED_H
#define MT_REPLAY_COMPARED_H

#include <stdbool.h>

#include "replay/chosen.h"
#include "replay/held_moment.h"
#include "replay/replay.h"
#include "timeline/diff.h"

/* The caller sets path, asked, classes and with_categories, the rest is zeros: nothing was read. */
struct compared {
	const char *path;	/* borrowed, as what `asked` points to */
	struct selection asked; /* its processes */
	enum classes classes;
	bool with_categories; /* their means are shown: labels of blocks need a file in TMPDIR */
	struct chosen chosen;
	struct report *scanned; /* of the first reading, with a row of each table */
	struct replay_end end;
	struct diff_side side; /* what all this is for; of the rest it borrows */
	struct report *at[2], *report; /* as of the stretch's ends, and of the trace: with all rows */
	size_t at_cnt;
	double *op_means, *region_means, *stack_means, *category_means;
	struct labels *labels;	 /* of the first reading, for category_means; both NULL without categories */
	struct held_moment peak; /* compared__name() */
	struct diff_named *named;
};

/* The first reading. 0, or -errno; compared__done() in both cases. */
int compared__scan(struct compared *c, struct err *err);
/* The second one: all of c->side but names. by: whether ranks are compared. 0 or -errno. */
int compared__read(struct compared *c, enum diff_by by, struct err *err);
/* Of both, where a device has another peak: tensors live at it. 0 or -errno. */
int compared__name(struct compared *a, struct compared *b, struct err *err);
void compared__done(struct compared *c);

#endif

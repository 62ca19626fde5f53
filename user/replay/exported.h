/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * exported: a recording in one of the formats that exports have (view/view.h). It is read twice. A block's category is final
 * only later (a gradient's bytes are autograd's own until something takes them), so a first reading collects the final labels
 * of all blocks, and a second one writes. One reading alone writes the labels known at each moment.
 */
#ifndef MT_REPLAY_EXPORTED_H
#define MT_REPLAY_EXPORTED_H

#include "base/err.h"
#include "replay/filter.h"
#include "replay/replay.h"
#include "view/view.h"

struct exported {
	/* What is asked for, of the caller's, who has all that this borrows. */
	const char *path;
	const struct export_format *format;
	struct export_to to; /* out, path, recording, sort and ops; the rest is filled in here */
	const char *out_name; /* for errors */
	struct selection asked;
	enum classes classes;
	bool has_live_labels; /* those known at each moment, where the format can do without final ones */
	bool is_part;	      /* filter's sieve stands before the format; set here, too, for a format that is of one step */
	bool has_moment;      /* … or the format shows the moment of asked.at in the whole */
	void (*progress)(void *ctx, double share); /* of all readings */
	void *ctx;
	/* exported__init(): */
	unsigned passes;
	struct filter filter;
	/* exported__learn(), if there are two: */
	struct report *first;
	struct names *names; /* all, while the second one's are still being read */
	struct labels *labels;
	struct export_at at;
	/* exported__write(): */
	struct report *report;
	struct replay_end end;
	struct export_ctx *state; /* the format's */
	unsigned pass;
	int64_t epoch_off_ns;
	struct err err; /* a sink's, which replay_run() does not know */
};

void exported__init(struct exported *x); /* for exported__done() */
/* The first of two readings. 0, or -errno: a part asked for is missing, with those there are. */
int exported__learn(struct exported *x, struct err *err);
/* The last one: to x->to.out. 0 or -errno. */
int exported__write(struct exported *x, struct err *err);
void exported__done(struct exported *x);

#endif

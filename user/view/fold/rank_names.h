/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * rank_names: "rank 0", and where a recording has several jobs "rank 0 JOB", as the table of ranks has it (timeline/ranks.h).
 * Two jobs without names are distinguished if two launchers have started the same rank.
 */
#ifndef MT_VIEW_FOLD_RANK_NAMES_H
#define MT_VIEW_FOLD_RANK_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "event/rank_label.h"

struct report;

struct rank_name {
	uint32_t pid;
	char text[RANK_TEXT_BYTES + 16]; /* "": it has no rank */
};

/* Texts of pids. 0 or -ENOMEM. */
int rank_names__fill(struct rank_name *names, size_t cnt, const struct report *r);

#endif

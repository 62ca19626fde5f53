/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* selection: the part of a recording that was asked for, as it was typed; sieve.h is what becomes of it. */
#ifndef MT_TIMELINE_SELECTION_H
#define MT_TIMELINE_SELECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "timeline/spans.h"

#define SELECTION_PIDS_MAX 64

/* All is borrowed. */
struct selection {
	struct when at, from, to;
	int dev, category;	 /* -1: all */
	const char *module, *op; /* NULL: all */
	const uint32_t *pids;	 /* pids_cnt 0: all */
	size_t pids_cnt;
	int64_t rank;	/* -1: all */
	bool is_of_two; /* recordings, each with its own: --pid A,B */
};

#endif

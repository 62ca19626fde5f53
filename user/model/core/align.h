/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * align: pairs the allocations of a step with those of another one, by their sizes and order. Steps mostly repeat each other
 * to the byte; a few more or fewer do not shift the rest, and where all sizes differ but their number does not, their places
 * decide.
 *
 * Two ways, of which the better one counts. By sizes: both go on together while they agree; where they do not, the nearest
 * place is searched from which ALIGN_RUN of them agree again, ALIGN_NEAR away at most on both sides, or ALIGN_FAR on one.
 * Allocations between two such places are paired by order if both sides have as many, else left unpaired. By place: the n-th
 * is the n-th. Work is linear in the number of allocations: the search has a limit (ALIGN_WORK).
 */
#ifndef MT_MODEL_ALIGN_H
#define MT_MODEL_ALIGN_H

#include <stdbool.h>
#include <stdint.h>

#define ALIGN_RUN 4
#define ALIGN_NEAR 32
#define ALIGN_FAR 4096
#define ALIGN_WORK 64 /* comparisons an allocation, at most */
#define ALIGN_NONE UINT32_MAX

struct align_item {
	uint64_t size;
	uint8_t dev;
	uint8_t is_freed; /* in its step */
};

struct align_fit {
	double fits;   /* pairs of one size, and half of those that only have alike lives; of `most` */
	uint64_t most; /* the more of both */
	bool is_exact; /* all alike */
	bool by_place; /* sizes differ, places do not */
};

/* ret: for each of a its pair in b, or ALIGN_NONE. */
struct align_fit align__find(const struct align_item *a, uint32_t a_cnt, const struct align_item *b, uint32_t b_cnt,
			    uint32_t *ret);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * kinds: which kinds of steps a job makes, by marks alone, also between windows: how many regions began in a step (batches of a
 * DataLoader, optimizers, the job's own), and how long it took. Steps with different numbers of regions are different kinds.
 * Those with the same number are split by durations that differ by a factor of 1.4 at least, where hardly any lie in between,
 * or far fewer than on either side. Traced steps are slower: they are matched by order where there are as many kinds among
 * them, or more, of which the nearest are joined. Else it is as if all were slower by the factor that fits best: near to
 * watched steps, and as often of each kind as those.
 *
 * On a busy machine steps are slow, too: kinds that make the same memory are joined in model_sampled.c. Steps of the same
 * duration that make different blocks cannot be distinguished.
 */
#ifndef MT_MODEL_KINDS_H
#define MT_MODEL_KINDS_H

#include <stdint.h>

#define KINDS_MAX 8	  /* at most; and numbers of regions */
#define KINDS_BUCKETS 512 /* of durations: eight an octave */

struct kinds_of_marks {
	uint64_t marks;
	uint32_t watched[KINDS_BUCKETS], traced[KINDS_BUCKETS];
};

/* All 0 at first. 33 KiB. */
struct kinds {
	struct kinds_of_marks v[KINDS_MAX]; /* in order of appearance; the last one has all that come later, too */
	unsigned cnt;
};

struct kind {
	uint64_t marks;
	unsigned watched_from, watched_to, traced_from, traced_to; /* buckets; to: not any more */
	uint64_t watched, traced; /* steps */
	uint8_t all_marks; /* regions are no help: those of traced steps differ, as some have probes in windows alone */
};

void kinds__step(struct kinds *k, uint64_t marks, uint64_t took_ns, int is_traced);
/* By number of steps, the most common one first; returns how many. */
unsigned kinds__find(const struct kinds *k, struct kind ret[KINDS_MAX]);
/* The kind of a traced step; KINDS_MAX: none of these. */
unsigned kinds__of(const struct kind *v, unsigned cnt, uint64_t marks, uint64_t took_ns);
uint64_t kinds__median_ns(const struct kinds *k, const struct kind *v, int is_traced); /* to a bucket's width; 0: no step */

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * sampled: the memory of each traced step of a sampled recording, on each device: bytes by category, on average over the
 * step and at its own peak. A late label is applied to the steps in which the block was live.
 *
 * Keeps SAMPLED_MAX steps; of more those of every second window, of every fourth, … so that they are spread over the whole
 * session. Of one window the first steps.
 *
 * Whether a block was live at a step's peak is decided by time: one that ended in the same nanosecond was not.
 */
#ifndef MT_MODEL_SAMPLED_H
#define MT_MODEL_SAMPLED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "timeline/timeline.h"

#define SAMPLED_MAX 1024

struct device;

/* All times by the clock of gaps. */
struct sampled_bytes {
	uint64_t peak, peak_ns;
	uint64_t at_peak[CAT_MAX];
	unsigned __int128 byte_ns[CAT_MAX]; /* of the one under way: all until it began */
};

/* A device's part: v[i] is of step i; steps from before it was there have nothing. */
struct sampled_dev {
	struct sampled_bytes *v;
	size_t cnt, cap;
	struct sampled_bytes open;
	uint64_t high; /* of the step under way, so far; UINT64_MAX: there is none */
};

struct sampled_step {
	uint64_t window;
	uint64_t begin_ns, end_ns;
	uint64_t marks; /* regions that began in it */
};

/* All 0 at first. */
struct sampled {
	struct sampled_step *v; /* by time */
	size_t cnt, cap;
	struct sampled_step open;
	uint64_t open_ts_ns; /* when it began, by the real clock; 0: no step is under way */
	uint32_t open_pid;
	unsigned shift; /* of 1 << shift windows one is kept */
};

/* A step of the process begins, whole and traced; the last one is over or was given up. */
void sampled__begin(struct sampled *s, struct device *const *devs, unsigned devs_cnt, uint32_t pid, uint64_t window,
		    uint64_t ts_ns);
/* The process's step, which began then, is over; so many regions began in it. Ignored if it is not under way. */
void sampled__end(struct sampled *s, struct device *const *devs, unsigned devs_cnt, uint32_t pid, uint64_t marks,
		  uint64_t begin_ts_ns, uint64_t ts_ns);
/* Nothing is traced any more: the step under way will not be whole. */
void sampled__give_up(struct sampled *s, struct device *const *devs, unsigned devs_cnt);
void sampled__done(struct sampled *s);

/* A block is allocated, and live bytes are the most in this step. */
void sampled__peak(struct device *d, uint64_t clock_ns);
/* Relabels `size` bytes that were live from a to b (UINT64_MAX: still live). */
void sampled__relabel(struct device *d, const struct sampled *s, uint8_t from, uint8_t to, uint64_t size, uint64_t a_ns,
		      uint64_t b_ns);
void sampled__check(const struct sampled *s, const struct device *d);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * wire_plan: of a plan, what it takes to set it: a head and arrays of plain structs, one behind the other. What a plan says to
 * people, and its descriptors, stay behind: libraries are named by (device, inode).
 *
 * Whoever reads one copies it first; reading checks that every index is in its array and every kind is one that there is.
 * What an offset leads to cannot be checked: it is a place in a file that the process has mapped.
 */
#ifndef MT_KEEPER_WIRE_PLAN_H
#define MT_KEEPER_WIRE_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "plan/plan.h"

/* Bytes written, or -E2BIG. wanted: NULL or a byte a site. */
int64_t wire_plan_write(void *buf, size_t size, const struct plan *plan, const uint8_t *wanted);

struct wire_plan {
	struct plan plan; /* libraries have fd -1; pointers go into the bytes, but for libs */
	const uint8_t *wanted; /* or NULL */
};

/* The bytes (aligned to 8) must outlive it. 0, -EINVAL: nonsense, -ENOMEM. */
int wire_plan__read(struct wire_plan *ret, const void *bytes, size_t len);
void wire_plan__done(struct wire_plan *w);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * wire_plan: the part of a plan that is needed to set it: a head and arrays of plain structs, one after the other. Texts for
 * people, and descriptors, are left out: libraries are named by (device, inode).
 *
 * The reader copies it first; reading checks that every index is in its array and every kind exists. What an offset points to
 * cannot be checked: it is a place in a file that the process has mapped.
 */
#ifndef MT_KEEPER_WIRE_PLAN_H
#define MT_KEEPER_WIRE_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "plan/plan.h"

/* Bytes written, or -E2BIG. wanted: NULL or a byte per site. */
int64_t wire_plan_write(void *buf, size_t size, const struct plan *plan, const uint8_t *wanted);

struct wire_plan {
	struct plan plan; /* libraries have fd -1; pointers point into the bytes, except libs */
	const uint8_t *wanted; /* or NULL */
};

/* The bytes (aligned to 8) must outlive it. 0, -EINVAL: invalid, -ENOMEM. */
int wire_plan__read(struct wire_plan *ret, const void *bytes, size_t len);
void wire_plan__done(struct wire_plan *w);

#endif

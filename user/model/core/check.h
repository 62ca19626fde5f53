/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * check: how the x__check() functions of this room report a broken invariant. Never called on the
 * way of an event: only tests, sim and fuzz walk the invariants.
 */
#ifndef MT_MODEL_CHECK_H
#define MT_MODEL_CHECK_H

#define mt_check(cond)                                                                             \
	do {                                                                                       \
		if (!(cond))                                                                       \
			check_failed(#cond, __FILE__, __LINE__);                                   \
	} while (0)

_Noreturn void check_failed(const char *cond, const char *file, int line);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* signals: those with which a user ends a program. */
#ifndef MT_BASE_SIGNALS_H
#define MT_BASE_SIGNALS_H

#include <signal.h>

static inline sigset_t signals_that_end(void)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGHUP);
	return mask;
}

#endif

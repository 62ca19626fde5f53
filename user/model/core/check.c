/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/core/check.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void check_failed(const char *cond, const char *file, int line)
{
	fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, cond);
	abort();
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* held: what holds growing blocks, as text for the verdict and the table of leaks. */
#ifndef MT_VERDICT_HELD_H
#define MT_VERDICT_HELD_H

#include <stddef.h>

struct report_leak;

/* "held by losses, a list with 1204 of them when it was looked at, a variable of train (train.py:12)"; "": not known. */
void held_text(char *buf, size_t size, const struct report_leak *l);

#endif

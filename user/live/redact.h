/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* redact: what --redact leaves of the arguments of a process. People put passwords into them. */
#ifndef MT_LIVE_REDACT_H
#define MT_LIVE_REDACT_H

#include <stddef.h>

/* "/opt/py/bin/python train.py --token x": "python". The last part of the first argument, into buf; returns it. */
const char *redact_cmdline(char *buf, size_t size, const char *cmdline);
/* "RANK=3": yes. "MASTER_ADDR=10.0.0.1", "RAY_JOB_ID=of-jane": no. Only numbers stay: reports by rank need them. */
int redact_keeps_label(const char *label);

#endif

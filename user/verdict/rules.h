/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* rules: what a rule of the verdict is given, and how it says a line (verdict.c, host.c). */
#ifndef MT_VERDICT_RULES_H
#define MT_VERDICT_RULES_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "verdict/verdict.h"

struct report;

struct judge {
	struct verdict *v;
	const struct report *r;
	const char *file;
};

/* Room for one more is always there: rules are fewer than lines. */
static inline struct verdict_line *line(const struct judge *j, enum verdict_kind kind, enum verdict_severity severity,
					uint64_t bytes)
{
	struct verdict_line *l = &j->v->lines[j->v->cnt < VERDICT_MAX ? j->v->cnt++ : VERDICT_MAX - 1];

	*l = (struct verdict_line){ .kind = (uint8_t)kind, .severity = (uint8_t)severity, .bytes = bytes };
	return l;
}

/* Behind what a text of VERDICT_BYTES says already; cut where it is full. */
static inline void say(char *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline void say(char *text, const char *fmt, ...)
{
	size_t len = strlen(text);
	va_list args;

	va_start(args, fmt);
	vsnprintf(text + len, VERDICT_BYTES - len, fmt, args);
	va_end(args);
}

void judge_host(const struct judge *j); /* what the machine's memory is held by: holes, workers */

#endif

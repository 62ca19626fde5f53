/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* rules: what a rule of the verdict is given, how it says a line, and which rules there are (a file a subject). */
#ifndef MT_VERDICT_RULES_H
#define MT_VERDICT_RULES_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "timeline/report.h"
#include "verdict/verdict.h"

struct facts_steps;

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

/* Whether all of it has room. */
static inline int say_args(char *text, const char *fmt, va_list args)
{
	size_t len = strlen(text);

	return vsnprintf(text + len, VERDICT_BYTES - len, fmt, args) < (int)(VERDICT_BYTES - len);
}

/* Behind what a text of VERDICT_BYTES says already; cut where it is full. */
static inline void say(char *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline void say(char *text, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say_args(text, fmt, args);
	va_end(args);
}

/* What to type: the end of what is next, words before it. One that has no room is none. */
static inline void say_command(struct verdict_line *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline void say_command(struct verdict_line *l, const char *fmt, ...)
{
	size_t before = strlen(l->next);
	va_list args;
	int has_room;

	va_start(args, fmt);
	has_room = say_args(l->next, fmt, args);
	va_end(args);
	l->command_len += (uint16_t)(strlen(l->next) - before);
	if (!has_room) {
		l->next[strlen(l->next) - l->command_len] = '\0';
		l->command_len = 0;
	}
}

/* A name of the target's, or what stands for none. */
static inline const char *name(char buf[TEXT_BYTES_MAX], const char *text, const char *none)
{
	text_fit(buf, TEXT_BYTES_MAX, text && text[0] ? text : none, 48);
	return buf;
}

static inline uint64_t after(const struct report *r, uint64_t ts_ns)
{
	return ts_ns > r->run.start_ts_ns ? ts_ns - r->run.start_ts_ns : 0;
}

/* ends.c */
void judge_ends(const struct judge *j);
/* growth.c */
void judge_leak(const struct judge *j);
void judge_growth(const struct judge *j);
void judge_rss(const struct judge *j);
/* host.c: what the machine's memory is held by */
void judge_host(const struct judge *j);
void judge_host_beside(const struct judge *j); /* behind the peak: what is little beside a GPU's */
/* peak.c */
void judge_peak(const struct judge *j, const struct facts_steps *f);
/* reserved.c */
void judge_reserved(const struct judge *j);
/* steps.c: what is unlike its kind */
void judge_ranks(const struct judge *j);
void judge_spike(const struct judge *j, const struct facts_steps *f);
void judge_unseen(const struct judge *j);
void judge_recompiles(const struct judge *j);

#endif

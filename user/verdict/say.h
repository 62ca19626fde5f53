/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * say: what a rule is given, how it writes its line, and the sentences of all rules (rules.c: when they apply). Each is given
 * its line with the rule's kind and severity, and bytes 0.
 */
#ifndef MT_VERDICT_SAY_H
#define MT_VERDICT_SAY_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "timeline/report.h"
#include "verdict/facts.h"
#include "verdict/verdict.h"

struct judge {
	const struct report *r;
	const struct facts *f; /* of r */
	const char *file, *whole; /* the recording with the options of the report, "job.mtr --pid 12"; the recording alone */
	int has_file;		  /* 0: no recording is kept, and file is a placeholder */
};

/* For commands that choose a process or rank themselves. */
static inline struct judge of_all(const struct judge *j)
{
	struct judge all = *j;

	all.file = j->whole;
	return all;
}

/* Whether all of it fits. */
static inline int say_args(char *text, const char *fmt, va_list args)
{
	size_t len = strlen(text);

	return vsnprintf(text + len, VERDICT_BYTES - len, fmt, args) < (int)(VERDICT_BYTES - len);
}

/* Appends to a text of VERDICT_BYTES; cut where it is full. */
static inline void say(char *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline void say(char *text, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	say_args(text, fmt, args);
	va_end(args);
}

/* A command, at the end of `next`, text before it. One that does not fit is left out. */
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

/* `memtrace report` of it with such options; where none is kept, of one that is made first. */
void say_report(const struct judge *j, struct verdict_line *l, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* A name of the target's, or what stands for none. */
static inline const char *name(char buf[TEXT_BYTES_MAX], const char *text, const char *none)
{
	text_fit(buf, TEXT_BYTES_MAX, text && text[0] ? text : none, 48);
	return buf;
}

/* " of process 2671 (leak.py)", where there are several jobs; p NULL: "". */
const char *whose_words(char buf[TEXT_BYTES_MAX + 40], const struct report_proc *p);

static inline uint64_t after(const struct report *r, uint64_t ts_ns)
{
	return ts_ns > r->run.start_ts_ns ? ts_ns - r->run.start_ts_ns : 0;
}

/* ends.c */
void say_refused(const struct judge *j, struct verdict_line *l);
void say_died(const struct judge *j, struct verdict_line *l);
void say_exit(const struct judge *j, struct verdict_line *l);
/* growth.c */
void say_leak(const struct judge *j, struct verdict_line *l);
void say_rss(const struct judge *j, struct verdict_line *l);
void say_growth(const struct judge *j, struct verdict_line *l);
/* steps.c: what is unlike its kind */
void say_rank(const struct judge *j, struct verdict_line *l);
void say_spike(const struct judge *j, struct verdict_line *l);
void say_unseen(const struct judge *j, struct verdict_line *l);
void say_given_up(const struct judge *j, struct verdict_line *l);
void say_recompiles(const struct judge *j, struct verdict_line *l);
/* reserved.c */
void say_idle(const struct judge *j, struct verdict_line *l);
/* host.c: the machine's memory */
void say_holes(const struct judge *j, struct verdict_line *l);
void say_beside(const struct judge *j, struct verdict_line *l);
void say_workers(const struct judge *j, struct verdict_line *l);
/* peak.c */
void say_peak(const struct judge *j, struct verdict_line *l);
/* complete.c */
void say_untraced(const struct judge *j, struct verdict_line *l);
void say_nothing(const struct judge *j, struct verdict_line *l);
void say_complete(const struct judge *j, struct verdict_line *l);

#endif

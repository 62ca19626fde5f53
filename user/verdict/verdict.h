/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * verdict: what a report concludes, in sentences: problems, bytes that can be saved, how high the peak is, when, of what and
 * whose, what grows, how complete it all is. Every view begins with it.
 *
 * A report goes in, lines come out: no clock, no file, no other state. rules.c has all rules and their order, rules.h all
 * thresholds, a file for each subject the sentences. Problems come first, then hints, then facts. Texts are one line of safe
 * UTF-8.
 */
#ifndef MT_VERDICT_VERDICT_H
#define MT_VERDICT_VERDICT_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

struct report;
struct report_dev;
struct report_proc;

#define VERDICT_MAX 16
#define VERDICT_BYTES 512

enum verdict_kind {
	VERDICT_OUT_OF_MEMORY = 1, /* memory was refused, or the kernel killed for want of it */
	VERDICT_DIED,		   /* a process ended by a signal, or with an error */
	VERDICT_LEAK,		   /* a place whose blocks grow in number */
	VERDICT_RANK,		   /* a rank that has more than its like */
	VERDICT_FRAGMENTED,	   /* reserved, free, and in pieces */
	VERDICT_RESERVED,	   /* reserved, free, and whole */
	VERDICT_WORKERS,	   /* DataLoader's children hold copies */
	VERDICT_SPIKE,		   /* a few steps are far above the others */
	VERDICT_ACTIVATIONS,	   /* the peak, and most of it are activations */
	VERDICT_STATE,		   /* the peak, and most of it are parameters, gradients, optimizer state */
	VERDICT_PEAK,		   /* the peak, and neither */
	VERDICT_NOTHING,	   /* no block was seen, or no step of those that are traced now and then */
	VERDICT_GROWTH,		   /* nothing grows, or it is too early to judge */
	VERDICT_INCOMPLETE,	   /* something was lost */
	VERDICT_COMPLETE,	   /* nothing was; what tracing cost */
	VERDICT_RECOMPILES,	   /* torch.compile compiles again and again, or takes memory for it */
	VERDICT_RSS,		   /* memory of the processes grows, and tensors do not; or most of it is in no tensor */
	VERDICT_KINDS,
};

enum verdict_severity {
	VERDICT_PROBLEM = 1, /* wrong, or on its way there */
	VERDICT_HINT,	     /* bytes that can be won, or a doubt */
	VERDICT_FACT,
};

struct verdict_line {
	uint8_t kind, severity;
	uint64_t bytes;		   /* that it is about; 0: none */
	char text[VERDICT_BYTES];
	char next[VERDICT_BYTES];  /* what to do about it: a change, what that saves, a command; "" nothing */
	uint16_t command_len;	   /* so many of its bytes, the last ones, are a command for a shell; 0: none are */
};

struct verdict {
	struct verdict_line lines[VERDICT_MAX];
	size_t cnt;
};

/* Steps took longer by far more than tracing can have cost: other work on the machine slowed them. */
int verdict_price_is_others(const struct report *r);

/*
 * file: the recording as typed in a shell, for commands, which cover the same part of it as the report; NULL: none is kept,
 * and commands begin with making one.
 */
void verdict__of(struct verdict *v, const struct report *r, const char *file);
/* How many jobs that have nothing to do with one another had memory: with more than one there is no main process. */
size_t verdict_jobs(const struct report *r);
size_t verdict_jobs_on(const struct report *r, const struct report_dev *d); /* that had some on it */
/* The script that a process runs, else what the kernel calls it. */
const char *verdict_job_name(char buf[TEXT_BYTES_MAX], const struct report_proc *p);
const char *verdict_command(const struct verdict_line *l); /* the end of its `next`; "" none */
const char *verdict_kind_name(unsigned kind);	      /* "out_of_memory" …, a contract of JSON */
const char *verdict_severity_name(unsigned severity); /* "problem", "hint", "fact" */

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * follow: what happens to the processes of a session: late libraries, forks, execs, ends, new jobs. Keeps the table of
 * processes (live/followed.h), requests their probes (live/probing.h), and reports all of it as events.
 */
#ifndef MT_LIVE_FOLLOW_H
#define MT_LIVE_FOLLOW_H

#include <stdint.h>
#include <sys/types.h>

#include "event/event.h"
#include "live/followed.h"
#include "live/tell.h"

struct decode;
struct err;
struct follow;
struct keeper;
struct probing;
struct sb_record;
struct usage;

struct follow_env {
	int children; /* follow children too */
	int all;      /* and every process that maps a job's library (target/jobs.h) */
	int redact;   /* of a command line only the program is reported */
	struct followed *followed;
	struct probing *probing;
	struct usage *usage;
	struct decode *decode;
	struct keeper *keeper;
	struct tell tell;
	int epoll_fd;	    /* a pidfd of every process is added … */
	uint32_t epoll_tag; /* … with data.u64 = index << 32 | this */
};

struct follow *follow__new(const struct follow_env *env); /* NULL: no memory */
void follow__free(struct follow *f);
/*
 * The first attach of a process: begins to plan all of it (live/probing.h). may_be_empty: nothing to probe is no error, because
 * libraries are probed as they come (a command just started, a child). since_ns: when the user asked, for the "attached to"
 * line on stderr.
 */
int follow__attach(struct follow *f, pid_t pid, enum ev_proc_how how, uint64_t since_ns, int may_be_empty,
		   struct err *err);
/* Every job that exists now and is not followed. Failures are warnings. */
void follow__attach_jobs(struct follow *f);
/* Existing children of a process. Failures are warnings. */
void follow__attach_children(struct follow *f, pid_t pid);
/* For sideband__drain; follow__settle then does what the records require. */
int follow__sideband_record(void *follow, const struct sb_record *rec);
void follow__settle(struct follow *f);
/* Something may have happened without a record: the next settling looks at everything again. */
void follow__look_again(struct follow *f);
/* The pidfd of process `index` is readable: were the rings, read until read_ns, read up to its end? */
int follow__is_read(struct follow *f, uint32_t index, uint64_t read_ns);
/* They were, and it has ended. Returns its wait status if it is our child, else 0. */
int follow__gone(struct follow *f, uint32_t index);
uint64_t follow__sideband_lost(const struct follow *f);
uint64_t follow__procs_left_out(const struct follow *f); /* processes that found no place in the table */
void follow__push_gone_all(struct follow *f); /* EV_GONE (detached) of each: the trace is over */

#endif

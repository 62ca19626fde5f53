/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * follow: the processes of a session: who is traced, with which plans, and what happens to them:
 * late libraries, forks, execs, ends. Knows target, plan and trace; says all that it learns as
 * events through `push`.
 */
#ifndef MT_LIVE_FOLLOW_H
#define MT_LIVE_FOLLOW_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "event/event.h"
#include "live/followed.h"
#include "plan/plan.h"

struct decode;
struct err;
struct sb_record;
struct keeper;
struct follow;

struct follow_env {
	struct plan_opts plan; /* what to probe; only_new_libs is set by follow itself */
	int children;	       /* follow them too */
	int all;	       /* and every process that maps a job's library (target/jobs.h) */
	int redact;	       /* of a command line its program alone is told */
	int quiet;	       /* no "attached to" lines */
	struct names *names;
	struct decode *decode;
	struct keeper *keeper;
	int epoll_fd;		      /* a pidfd of every process is added … */
	uint32_t epoll_tag;	      /* … with data.u64 = index << 32 | this */
	void (*push)(void *ctx, struct event ev); /* ts_ns 0 = now */
	uint64_t (*steps)(void *ctx, pid_t pid);  /* how many a process has begun or ended; 0: none yet */
	void *ctx;
};

int follow__new(struct follow **ret, const struct follow_env *env, struct err *err);
void follow__free(struct follow *f);
/*
 * The first attach of a process: begins to plan all of it (beside the loop: live/planner.h); follow__plan_ready begins to set
 * that, and follow__turn_set goes on. may_be_empty: nothing to probe is no error, because libraries are probed as they come
 * (a command just started, a child). since_ns: when the user asked, for the "attached to" line on stderr.
 */
int follow__attach(struct follow *f, pid_t pid, enum ev_proc_how how, uint64_t since_ns, int may_be_empty,
		   struct err *err);
/* Readable as long as a plan is ready; then only one is taken at a time, since rings fill meanwhile. */
int follow__plans_fd(const struct follow *f);
void follow__plan_ready(struct follow *f);
/* Sets some of what is to be set: each turn of the loop. */
void follow__turn_set(struct follow *f);
int follow__sleep_ms(const struct follow *f); /* until then at most; -1: for good */
/* 1: what was asked for until now is not all planned and set; 0: it is; -errno: one that was named could not be. */
int follow__awaits(struct follow *f, struct err *err);
/* Every job that is there now and not followed. Failures are warnings. */
void follow__attach_jobs(struct follow *f);
/* Children that a process has already. Failures are warnings. */
void follow__attach_children(struct follow *f, pid_t pid);
/* For sideband__drain; then follow__settle does what they called for. */
int follow__sideband_record(void *follow, const struct sb_record *rec);
void follow__settle(struct follow *f);
/* Something may have happened that no record tells of: the next settling looks at everything again. */
void follow__look_again(struct follow *f);
/* The pidfd of process `index` is readable: have the rings, which were read until read_ns, been read to its end? */
int follow__is_read(struct follow *f, uint32_t index, uint64_t read_ns);
/* It has ended, and that is so. Returns its wait status if it is our child, else 0. */
int follow__gone(struct follow *f, uint32_t index);
pid_t follow__tree(const struct follow *f, pid_t pid); /* of processes that hang together (live/followed.h) */
int follow__is_followed(const struct follow *f, pid_t pid);
size_t follow__pids(const struct follow *f, pid_t *ret, size_t max); /* living ones; how many */
size_t follow__live_cnt(const struct follow *f);
uint64_t follow__sideband_lost(const struct follow *f);
uint64_t follow__procs_left_out(const struct follow *f); /* that found no room among those that are followed */
uint64_t follow__sites_left_out(const struct follow *f); /* that were found, beyond a tree's share of places */
uint64_t follow__files_lost(const struct follow *f); /* files of processes that were not looked at */
void follow__push_usage(struct follow *f); /* EV_CPU of each */
/* MT_EV_RSS of those whose turn it is and whose memory moved; `all`: of each, to the page. */
void follow__push_resident(struct follow *f, int all);
/*
 * Looks from time to time which operators are called, takes the probes of those away that are not, when nothing new has
 * come for a while, and sets them again when they are called after all.
 */
void follow__turn_idle(struct follow *f);
/* At once, if an operator was called for the first time since: for each wake of the tracer. */
void follow__late_ops(struct follow *f);
/* EV_USE of those whose turn it is; `all`: of each, where that is quick. */
void follow__push_uses(struct follow *f, int all);
/* Ends the trace of all: detaches, EV_GONE (detached) for each. */
void follow__detach_all(struct follow *f);
void follow__push_gone_all(struct follow *f);

#endif

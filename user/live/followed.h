/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * followed: the processes that are followed now, and which plans are set in each.
 *
 * A process keeps its place, which epoll knows, until it is taken out; then the place is free again.
 */
#ifndef MT_LIVE_FOLLOWED_H
#define MT_LIVE_FOLLOWED_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "memtrace/event.h"
#include "plan/plan.h"

struct counters;
struct counters_places;
struct target;

/* At one time; of one tree of processes half of what the others leave, where there are others or may be. */
#define FOLLOW_PROCS_MAX 1024
/*
 * Places with a probe, each counted in each process: some 0.3 KiB of the kernel's memory, with its cover. With perf uprobes
 * two descriptors each, of a million. The same parts of them.
 */
#define FOLLOW_PLACES_MAX (1u << 21)
#define FOLLOW_PLACES_PERF_MAX (3u << 17)
#define FOLLOW_PLACES_FILE 64 /* a file that has any counts as so many more: its descriptors and links */

/* A plan that a process and its forked children share: the same files at the same addresses. */
struct plan_ref {
	struct plan *plan;
	uint8_t *seen; /* its guards that were set in one of its processes */
	unsigned users;
};

struct plan_ref *plan_ref__new(struct plan *plan); /* one user; takes the plan over, also on failure. NULL: no memory */
void plan_ref__put(struct plan_ref *ref);

/* A plan that was set in a process. */
struct proc_plan {
	struct plan_ref *ref;
	int is_full;   /* with the operators that nobody has called */
	int is_unread; /* which those are cannot be read: they stay */
};

/* What became of the sites of a process since it was said last. */
struct proc_attach {
	uint64_t since_ns; /* 0: nothing is to be said */
	uint64_t attached_by_source[SRC_CNT];
	uint32_t attached, failed;
	int way; /* 1: perf uprobes */
};

/* The plan that is being made of a process, and how it is to be set: see live/setter.h. */
struct proc_asked {
	uint64_t ticket; /* 0: none is */
	uint8_t only_new, is_named, is_hasty, is_still, is_awaited;
};

/* live/usage.c: what was read of a process last, and when it is read next. */
struct proc_usage {
	uint64_t rss_at_ns, rss_told[MT_RSS_KINDS], rss_high;
	uint64_t use_at_ns, use_took_ns;
	struct pages_walk *walk; /* of a large one: its pages, as far as they are counted. NULL: none is going on */
	int is_use_noted;	 /* it was said that its use is not read, and why */
};

/* live/gpu_counters.c: what a process's CUDA allocator has counted. */
struct proc_counters {
	uint64_t image_ns;  /* of which program all this is */
	uint64_t at_ns;	    /* not before this time is it looked at again */
	uint64_t find_ns;   /* … and its places looked for */
	uint64_t wait_ns;   /* … so long after the last time, each time longer */
	uint64_t global;    /* where the allocator's pointer is, as a plan's maker found it; 0: not known */
	struct counters_places *places; /* NULL: not found yet */
	struct counters *told;		/* of each of them */
};

struct process {
	struct target *target;
	struct proc_plan *plans; /* all that were set: the first, and one per batch of new libraries */
	size_t plans_cnt;
	uint64_t found[SRC_CNT], attached[SRC_CNT]; /* sites of them, by source */
	pid_t pid;
	pid_t parent; /* followed when this one was; 0: none */
	pid_t tree; /* process group of the first that was followed of its tree: what a shell calls a job */
	int is_tree_over; /* it was said that children of its tree found no room */
	int pidfd, lock_fd;
	size_t index;	  /* its place */
	struct proc_asked asked;
	int has_new_libs; /* sideband saw a mapping */
	uint64_t look_ns; /* not before this time are its libraries looked at again */
	unsigned early_cnt; /* times since its last exec that it seemed to be in the middle of one */
	int has_execed;
	uint64_t gone_ns;  /* its end was noticed then; 0: not yet */
	uint64_t image_ns; /* execs up to this time are accounted for */
	struct proc_usage usage;
	struct proc_counters counters;
	struct proc_attach attach;
	uint64_t places;       /* with a probe, or on their way to one; and its files (FOLLOW_PLACES_FILE) */
	int is_places_over;    /* it was named as the one whose tree has no more places */
	unsigned settings_cnt; /* plans that are on their way into it (live/setter.h) */
	uint64_t looked_ns, steps_base; /* live/retire.c: when its guards were read last; steps when one was news last */
};

void proc_usage__done(struct proc_usage *u);

struct followed;

/*
 * With a free place, not followed yet; of the tree of `parent` if that is not NULL. 0, -ENOMEM; -ENOSPC: there is no room, or,
 * where there are other trees or `may_have_others`, not for its tree.
 */
int process__new(struct process **ret, struct followed *f, pid_t pid, const struct process *parent, int may_have_others);
void process__free(struct process *p); /* not followed, or not any more; NULL is fine */
void process__drop_plans(struct process *p);
void proc_counters__done(struct proc_counters *c);
/* What a plan takes of the places that can be probed: of its files, and (*ret_sites) its sites that are wanted; NULL: all. */
uint64_t plan_places(const struct plan *plan, const uint8_t *wanted, uint64_t *ret_sites);
/* A user of ref. NULL: no memory. */
struct proc_plan *process__add_plan(struct process *p, struct plan_ref *ref, int is_full);

struct followed {
	struct process **procs; /* NULL: nobody's place */
	size_t procs_cnt, live_cnt;
};

void followed__add(struct followed *f, struct process *p); /* takes it over */
struct process *followed__take(struct followed *f, size_t index); /* the caller's now; NULL: nobody is there */
struct process *followed__find(const struct followed *f, pid_t pid);
/* The first at a place from *at on, which moves behind it: begin with 0. NULL: that was all. */
struct process *followed__next(const struct followed *f, size_t *at);
size_t followed__pids(const struct followed *f, pid_t *ret, size_t max); /* how many */
pid_t followed__tree(const struct followed *f, pid_t pid); /* of processes that hang together; of no followed one: itself */
/* Has the process's tree `places` more, of max? */
int followed__may_probe(const struct followed *f, const struct process *p, uint64_t places, uint64_t max, int may_have_others);
void followed__done(struct followed *f);

#endif

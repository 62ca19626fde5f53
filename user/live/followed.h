/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * followed: the processes that are followed now, and the plans set in each.
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

/* At one time; one tree of processes has half of what the others leave, where there are others or may be. */
#define FOLLOW_PROCS_MAX 1024
/*
 * Places with a probe, counted once per process: some 0.3 KiB of the kernel's memory each, with the cover. With perf uprobes
 * two descriptors each, of a million. Shares are as above.
 */
#define FOLLOW_PLACES_MAX (1u << 21)
#define FOLLOW_PLACES_PERF_MAX (3u << 17)
#define FOLLOW_PLACES_FILE 64 /* a file with any place counts as this many more: its descriptors and links */

/* A plan that a process and its forked children share: the same files at the same addresses. */
struct plan_ref {
	struct plan *plan;
	uint8_t *seen; /* guards that were set in one of its processes */
	unsigned users;
};

struct plan_ref *plan_ref__new(struct plan *plan); /* one user; takes over the plan, also on failure. NULL: no memory */
void plan_ref__put(struct plan_ref *ref);

/* A plan that was set in a process. */
struct proc_plan {
	struct plan_ref *ref;
	int is_full;   /* includes operators that nobody has called */
	int is_unread; /* which operators are called cannot be read: all stay */
};

/* Results for the sites of a process since they were last reported. */
struct proc_attach {
	uint64_t since_ns; /* 0: nothing to report */
	uint64_t attached_by_source[SRC_CNT];
	uint32_t attached, failed;
	int way; /* 1: perf uprobes */
};

/* The plan that is being made for a process, and how to set it: see live/setter.h. */
struct proc_asked {
	uint64_t ticket; /* 0: none */
	uint8_t only_new, is_named, is_hasty, is_still, is_awaited;
};

/* live/usage.c: the last readings of a process, and when the next are due. */
struct proc_usage {
	uint64_t rss_at_ns, rss_reported[MT_RSS_KINDS], rss_high;
	uint64_t use_at_ns, use_took_ns;
	struct pages_walk *walk; /* pages of a large process, as far as they are counted. NULL: no count is under way */
	int is_use_noted;	 /* the note why its use is not read was written */
};

/* live/gpu_counters.c: counters of a process's CUDA allocator. */
struct proc_counters {
	uint64_t image_ns;  /* the program that these belong to */
	uint64_t at_ns;	    /* not read again before this time */
	uint64_t find_ns;   /* … nor its places looked for */
	uint64_t wait_ns;   /* the last wait, longer each time */
	uint64_t global;    /* address of the allocator's pointer, as found while planning; 0: unknown */
	struct counters_places *places; /* NULL: not found yet */
	struct counters *reported;		/* as last reported, of each place */
};

struct process {
	struct target *target;
	struct proc_plan *plans; /* all that were set: the first, and one for each batch of new libraries */
	size_t plans_cnt;
	uint64_t found[SRC_CNT], attached[SRC_CNT]; /* numbers of sites, by source */
	pid_t pid;
	pid_t parent; /* followed when this one was added; 0: none */
	pid_t tree; /* process group of the first followed process of its tree: what a shell calls a job */
	int is_tree_over; /* noted: children of its tree found no place */
	int pidfd, lock_fd;
	size_t index;	  /* its place */
	struct proc_asked asked;
	int has_new_libs; /* sideband saw a mapping */
	uint64_t look_ns; /* its libraries are not looked at again before this time */
	unsigned early_cnt; /* times since its last exec that it seemed to be in the middle of one */
	int has_execed;
	uint64_t gone_ns;  /* when its end was noticed; 0: not yet */
	uint64_t image_ns; /* execs up to this time are accounted for */
	struct proc_usage usage;
	struct proc_counters counters;
	struct proc_attach attach;
	uint64_t places;       /* with a probe, or on their way to one, and its files (FOLLOW_PLACES_FILE) */
	int is_places_over;    /* noted: its tree has no more places */
	unsigned settings_cnt; /* plans that are being set in it (live/setter.h) */
	uint64_t looked_ns, steps_base; /* live/retire.c: when its guards were last read; steps when a guard was last new */
};

void proc_usage__done(struct proc_usage *u);

struct followed;

/*
 * With a free place, not followed yet; in the tree of `parent` if that is not NULL. 0, -ENOMEM; -ENOSPC: no place is left, or,
 * where there are other trees or `may_have_others`, none for its tree.
 */
int process__new(struct process **ret, struct followed *f, pid_t pid, const struct process *parent, int may_have_others);
void process__free(struct process *p); /* not or no longer followed; NULL is fine */
void process__drop_plans(struct process *p);
void proc_counters__done(struct proc_counters *c);
/* Places that a plan takes: those of its files, and (*ret_sites) its wanted sites; NULL: all sites. */
uint64_t plan_places(const struct plan *plan, const uint8_t *wanted, uint64_t *ret_sites);
/* A user of ref. NULL: no memory. */
struct proc_plan *process__add_plan(struct process *p, struct plan_ref *ref, int is_full);

struct followed {
	struct process **procs; /* NULL: a free place */
	size_t procs_cnt, live_cnt;
};

void followed__add(struct followed *f, struct process *p); /* takes ownership */
struct process *followed__take(struct followed *f, size_t index); /* now the caller's; NULL: the place is free */
struct process *followed__find(const struct followed *f, pid_t pid);
/* The first process at a place from *at on, which moves behind it: begin with 0. NULL: no more. */
struct process *followed__next(const struct followed *f, size_t *at);
size_t followed__pids(const struct followed *f, pid_t *ret, size_t max); /* returns how many */
pid_t followed__tree(const struct followed *f, pid_t pid); /* of related processes; of a process that is not followed: itself */
/* May the process's tree have `places` more, of max? */
int followed__may_probe(const struct followed *f, const struct process *p, uint64_t places, uint64_t max, int may_have_others);
void followed__done(struct followed *f);

#endif

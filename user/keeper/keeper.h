/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * keeper: memtrace in two processes. The one that was started gives all its rights away before it reads a byte of the target, a
 * file or the network; a small one that it forks keeps them, and does on request what needs them: it sets probes, opens what
 * only a tracer may open, reads memory (door.h), takes the lock of a process.
 *
 * This is the asking half's view. Nothing else changes for it: rings and counters are mapped here (trace/taps.h), so events
 * take no detour. If this process ends, for whatever reason, so does the keeper, and every probe with it. If the keeper ends,
 * requests give -EPIPE and keeper__fd hangs up.
 *
 * Functions about probes: from one thread. Those of the door: from any.
 */
#ifndef MT_KEEPER_KEEPER_H
#define MT_KEEPER_KEEPER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/names.h"
#include "keeper/wards.h"
#include "trace/trace.h"

struct asker;
struct err;
struct keeper;
struct mt_catch; /* include/memtrace/shared.h */

/* Takes a lock on a process, and may wait for it; *ret_fd may be -1: none is available. */
typedef int keep_lock(pid_t pid, uint64_t start_ns, uint64_t wait_ns, int *ret_fd, struct err *err);

struct keeper_opts {
	const struct asker *as;	 /* the user that this process becomes */
	struct wards_opts wards; /* the processes that requests may be about */
	const char *writes;	 /* the directory below which it may write files; NULL: none */
	keep_lock *lock; /* run by the keeper; the descriptor is handed over */
	void (*at_end)(const void *ctx); /* NULL, or run by the keeper when this process has ended, for whatever reason */
	const void *end_ctx;		 /* as at the start */
};

/*
 * Forks the keeper, routes the door through it, gives all rights of this process away for good. Before there are threads; one
 * per process. It changes what children inherit (limits, signals): start commands before.
 */
int keeper__start(struct keeper **ret, const struct keeper_opts *opts, struct err *err);
/* Waits until all probes are gone; the keeper gets no request after it. NULL is fine. */
void keeper__untrace(struct keeper *k);
void keeper__free(struct keeper *k); /* … and until its process is gone; NULL is fine */
int keeper_gone(struct err *err); /* the error for that: -EPIPE, with text */
int keeper__fd(const struct keeper *k); /* hangs up (EPOLLHUP) when the keeper is gone; never readable */
pid_t keeper__pid(const struct keeper *k);
/* CPU time in ns and resident bytes of the keeper. 0 or -errno. */
int keeper__usage(struct keeper *k, uint64_t *ret_cpu_ns, uint64_t *ret_rss);
/*
 * From here on looks at the process that are held up take places of that tree's share (lookers.h); 0: it has ended. Other
 * processes are trees of their own. 0 or -ENOMEM.
 */
int keeper__tree(struct keeper *k, pid_t pid, pid_t tree);
uint64_t keeper__held_up_cnt(struct keeper *k); /* looks that a process held up, or that were not tried for that reason */
pid_t keeper__next_held_up(struct keeper *k);	/* returns each of those processes once (the last ones); 0: all were reported */
int keeper__lock(struct keeper *k, pid_t pid, uint64_t start_ns, uint64_t wait_ns, int *ret_fd, struct err *err);

/* The tracer's functions of the same names (trace/trace.h). Except the first, only after keeper__trace. */
int keeper__trace(struct keeper *k, const struct tracer_opts *opts, struct err *err);
int keeper__attach(struct keeper *k, pid_t pid, const struct plan *plan, struct attach_stats *ret, struct err *err);
int keeper__retire(struct keeper *k, pid_t pid, const struct plan *plan, const uint8_t *wanted, struct retire_stats *ret);
int keeper__lower(struct keeper *k, pid_t pid, enum mt_level level, uint64_t *ret_taken);
void keeper__detach(struct keeper *k, pid_t pid);
int keeper__follow(struct keeper *k, pid_t pid, struct err *err);
int keeper__python(struct keeper *k, pid_t pid, const struct mt_py_proc *how);
int keeper__catch(struct keeper *k, pid_t pid, const struct mt_catch *what);
int keeper__modules(struct keeper *k, pid_t pid, const struct mt_module_proc *how);
int keeper__module(struct keeper *k, pid_t pid, uint64_t obj, int has_name);
int keeper__plain_place(struct keeper *k, pid_t pid, uint64_t hash);
pid_t keeper__next_live_over(struct keeper *k); /* taps.h */
uint64_t keeper__looked_up(const struct keeper *k);
int keeper__each_fired(struct keeper *k, void (*fn)(void *ctx, name_id sym, uint64_t cnt), void *ctx);
const struct insn_classes *keeper__insn_classes(const struct keeper *k);
int keeper__tells_victims(const struct keeper *k);
int keeper__ring_fd(const struct keeper *k);
int keeper__drain(struct keeper *k, uint64_t budget_ns, int (*fn)(void *ctx, const void *rec, size_t len), void *ctx,
		  struct drained *ret);
void keeper__counters(const struct keeper *k, struct trace_counters *ret);
const struct mt_shares *keeper__shares(const struct keeper *k, size_t *ret_cnt);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * session: one live trace from attach to detach: target → plan → trace → decode → order → model and recording. The engine
 * behind `memtrace -p` and `memtrace record`; the only place that connects the rooms of the street. One thread, one epoll loop;
 * SIGINT and SIGTERM end it in order.
 */
#ifndef MT_LIVE_SESSION_H
#define MT_LIVE_SESSION_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/outfile.h"
#include "live/cadence.h"
#include "memtrace/event.h"
#include "timeline/timeline.h"

struct err;
struct keeper;
struct report;
struct session;

struct session_opts {
	const pid_t *pids; /* processes to attach to … */
	size_t pids_cnt;
	char *const *launch; /* … or a command to start and follow (NULL-terminated argv) … */
	const char *user;    /* … as this user; NULL: the one that called sudo */
	int all;	     /* … or every job of the machine, now and later: goes on when none is left */
	int follow;	     /* follow children, too (default 1) */
	int names;	     /* read names of modules and parameters from Python */
	int modules;	     /* with names: the module whose forward or backward allocated a block */
	int redact;	     /* of command lines only the program is reported, of labels only numbers */
	int quiet;	     /* no "attached to" lines */
	int keep_idle;	     /* operators that are never called keep their probes */
	unsigned sources;    /* enum source */
	enum classes classes;
	const char *const *usdt;
	size_t usdt_cnt;
	uint64_t min_size;    /* host allocations below this are not reported */
	uint64_t ring_bytes;  /* all rings together; 0 = default */
	uint64_t duration_ns; /* 0 = until Ctrl-C or the target's end */
	unsigned stacks;      /* bits of enum mt_stacks: allocations of stack_size and more get one; CATCH: some that grow */
	uint64_t stack_size;
	/*
	 * The budget of windows. Where windows are not possible, or do not help, the session fails when probes take more than
	 * this share of the processes' CPU time. 0: no limit.
	 */
	double max_overhead;
	int is_budget_own; /* the budget is the default: where it cannot be held, the session goes on and notes that */
	/* Windows of traced steps, with `between` set until the next; without windows and budget everything is traced. */
	struct cadence cadence;
	enum mt_level between;
	int is_between_auto; /* … which becomes MT_LEVEL_BLOCKS where that fits the budget */
	int force_perf;	      /* one perf uprobe a site instead of uprobe_multi (old kernels' way) */
	const char *record_path; /* NULL = no recording */
	struct outfile_how how;  /* how it and others are written */
	uint64_t window_ns;	 /* record_path gets the latest stretch of the trace, at its end or on request; 0: all of it */
	uint64_t window_bytes;	 /* memory for that */
	double new_peak;	 /* … or when a device holds this share more than ever before; 0: never */
	size_t top;		 /* rows in the reports handed to on_tick and ret_final */
	unsigned tick_ms;	 /* counters are read, recordings flushed; 0 = 1000 */
	unsigned view_ms;	 /* on_tick; 0 = tick_ms */
	/* All named processes are attached. NULL: not called. */
	void (*on_start)(void *ctx);
	/* < 0 ends the session; 1: the callee owns the report now, else it is borrowed. */
	int (*on_tick)(void *ctx, struct report *now);
	/* stdin is readable, or a signal came that is not ours: bits of enum session_wish, < 0 ends. NULL: not watched. */
	int (*on_input)(void *ctx);
	/* The path for SESSION_RECORD, asked for then. NULL: that wish never comes. */
	const char *(*late_path)(void *ctx);
	/* watch_fd is readable. NULL: not watched. < 0 ends the session. */
	int (*on_watch)(void *ctx, const struct session *s);
	int watch_fd;
	void *ctx;
	/*
	 * NULL, or what the keeper does when this process has ended, for whatever reason, with the rights that this one gave
	 * away. The keeper stays until then, and is the caller's: in *ret_keeper, once it was started.
	 */
	void (*at_end)(const void *end_ctx);
	const void *end_ctx;
	struct keeper **ret_keeper;
};

/* From on_watch: the present report. The caller's. 0 or -ENOMEM. */
int session_report(const struct session *s, size_t top, struct report **ret);

enum session_wish {
	SESSION_END = 1,
	SESSION_MARK = 2, /* a note with the time, in the report and the recording, and on stderr */
	SESSION_TRACE = 8, /* a window as soon as possible */
	SESSION_RECORD = 4, /* records all steps from now on, until the next such wish or the end; the result is on stderr */
};

/*
 * 0 or -errno. *ret_final (may be set on failure too: what was seen until then) is the caller's;
 * *ret_exit_status: wait status of the launched command (0 if none).
 */
int session_run(const struct session_opts *opts, struct report **ret_final, int *ret_exit_status,
		struct err *err);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * session: one live trace from attach to detach: target → plan → trace → decode → order → model and
 * recording. The engine behind `memtrace -p` and `memtrace record`; the only place where the rooms
 * of the street meet. One thread, one epoll loop; SIGINT and SIGTERM end it in order.
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
	const char *user;    /* … as this user; NULL: whom sudo was for */
	int all;	     /* … or every job of the machine, now and later: goes on when none is left */
	int follow;	     /* children too (default 1) */
	int names;	     /* of modules and parameters, from Python */
	int modules;	     /* with names: which module's forward or backward made a block */
	int redact;	     /* of command lines the program alone is told, of labels numbers */
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
	 * The budget of windows; where these are not possible, or do not help, probes may take such a share of the processes'
	 * CPU time, or the session fails. 0: no limit.
	 */
	double max_overhead;
	int is_budget_own; /* nobody asked for it: the session goes on where it cannot be held, and says so */
	/* Windows of traced steps, with `between` set until the next; neither that nor a budget: all is traced. */
	struct cadence cadence;
	enum mt_level between;
	int force_perf;	      /* one perf uprobe a site instead of uprobe_multi (old kernels' way) */
	const char *record_path; /* NULL = no recording */
	struct outfile_how how;  /* it and others are written */
	uint64_t window_ns;	 /* record_path gets the last while of the trace, when it ends or somebody asks; 0: all of it */
	uint64_t window_bytes;	 /* of memory, for that */
	double new_peak;	 /* … or when a device holds this share more than ever before; 0: never */
	size_t top;		 /* rows in the reports handed to on_tick and ret_final */
	unsigned tick_ms;	 /* counters are read, recordings flushed; 0 = 1000 */
	unsigned view_ms;	 /* on_tick; 0 = tick_ms */
	/* All processes that were named are attached to. NULL: nobody wants to know. */
	void (*on_start)(void *ctx);
	/* < 0 ends the session; 1: the report is the callee's now, else it is only lent. */
	int (*on_tick)(void *ctx, struct report *now);
	/* stdin can be read, or a signal came that is not ours: bits of enum session_wish, < 0 ends. NULL: not watched. */
	int (*on_input)(void *ctx);
	/* Where SESSION_RECORD records to; asked then. NULL: such a wish never comes. */
	const char *(*late_path)(void *ctx);
	/* watch_fd can be read. NULL: not watched. < 0 ends the session. */
	int (*on_watch)(void *ctx, const struct session *s);
	int watch_fd;
	void *ctx;
	/*
	 * NULL, or what the keeper does when this process is gone, however it ended, with the rights that this one gave away.
	 * The keeper stays until then, and is the caller's: in *ret_keeper, once it was started.
	 */
	void (*at_end)(const void *end_ctx);
	const void *end_ctx;
	struct keeper **ret_keeper;
};

/* From on_watch: how it stands now. The caller's. 0 or -ENOMEM. */
int session_report(const struct session *s, size_t top, struct report **ret);

enum session_wish {
	SESSION_END = 1,
	SESSION_MARK = 2, /* a note with the time, in the report and the recording; told on stderr */
	SESSION_TRACE = 8, /* a window as soon as may be */
	SESSION_RECORD = 4, /* all steps from now on, until it comes again or the end; what comes of it is told on stderr */
};

/*
 * 0 or -errno. *ret_final (may be set on failure too: what was seen until then) is the caller's;
 * *ret_exit_status: wait status of the launched command (0 if none).
 */
int session_run(const struct session_opts *opts, struct report **ret_final, int *ret_exit_status,
		struct err *err);

#endif

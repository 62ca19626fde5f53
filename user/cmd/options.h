/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * options: the command line, from one table. The same rows parse, explain (--help), fill the man page
 * and name the nearest word when one is mistyped.
 */
#ifndef MT_CMD_OPTIONS_H
#define MT_CMD_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/asker.h"
#include "serve/gate.h"
#include "serve/listen.h"
#include "timeline/selection.h"
#include "view/view.h"

struct err;
struct outfile;

enum command {
	CMD_LIVE = 0, CMD_RECORD, CMD_REPORT, CMD_EXPORT, CMD_DIFF, CMD_MERGE, CMD_ESTIMATE, CMD_PLAN, CMD_DOCTOR, CMD_SERVE,
	CMD_PS, CMD_COMPLETION, CMD_CHECK, CMD_MCP,
	CMD_CNT,
};

#define OPT_PIDS_MAX SELECTION_PIDS_MAX
#define OPT_NAMES_MAX 16
#define OPT_USDT_MAX 64
#define OPT_FILES_MAX 257 /* one more than merge takes, so that it can refuse */

struct options {
	enum command cmd;
	struct asker asker; /* the user who runs the command: from main, not from the command line */
	int help, version, man;
	pid_t pids[OPT_PIDS_MAX];
	pid_t pids_b[OPT_PIDS_MAX]; /* diff, estimate: of file_b, where pids are of file; as many */
	size_t pids_cnt;
	const char *names[OPT_NAMES_MAX]; /* --name: in place of -p */
	size_t names_cnt;
	const char *shell; /* completion */
	char *config[2]; /* texts of the files of defaults: options point into them */
	unsigned config_cnt;
	int is_bare; /* only the program's name was typed */
	char *const *launch; /* argv after "--", or NULL */
	const char *user;    /* --user, or NULL */
	const char *file;    /* the recording to read, or NULL */
	const char *file_b;  /* diff: the other one */
	const char *files[OPT_FILES_MAX]; /* merge; mcp: directories, too */
	size_t files_cnt;
	int align_clock;     /* --align clock */
	const char *out;     /* -o, or NULL */
	struct listen_addr listen; /* --listen */
	const char *token_file;
	const char *allow_hosts[GATE_HOSTS_MAX];
	size_t allow_hosts_cnt;
	gid_t socket_group;
	int has_socket_group;
	const char *format;  /* --to */
	unsigned sources;    /* enum source */
	const char *usdt[OPT_USDT_MAX];
	size_t usdt_cnt;
	uint64_t min_size, ring_size, duration_ns, max_loss;
	uint64_t every_ns; /* --every: with --steps of the tracing commands; 0: not given */
	uint64_t align_steps, align_ns; /* --align of the tracing commands: one of them, or none */
	enum { BETWEEN_DEFAULT, BETWEEN_WATCH, BETWEEN_BLOCKS, BETWEEN_AUTO } between;
	double max_overhead; /* share of the time, 0: no limit */
	int has_max_overhead; /* it was given, `none` too */
	int is_budget_own; /* not asked for: a default (options.c) */
	double new_peak; /* share; 0: not asked for */
	uint64_t window_ns, window_size; /* 0: all of the trace is recorded; the default */
	unsigned stacks; /* --stacks: bits of enum mt_stacks */
	uint64_t stack_size;
	int has_stack_size; /* it was given */
	uint64_t max_peak; /* check */
	int category;	   /* check: enum category, -1 = all */
	struct when at, from, to; /* of report and export */
	int64_t rank;		  /* -1: not given */
	const char *module, *op, *sort;
	double fail_share; /* diff --fail-if peak+5%: 0.05; below 0: not given */
	uint64_t fail_bytes; /* … peak+1G */
	int md;
	size_t top; /* 0 = the view's own default */
	enum view_by by;
	unsigned depth, phase; /* of BY_MODULE; phase: enum phase + 1 */
	int has_by; /* --by was given */
	enum classes classes;
	int labels_live; /* --labels live */
	int dev;	 /* --device: enum mt_dev, -1 = not given */
	uint64_t batch, batches[2], budget; /* estimate: 0 = not given */
	uint64_t ranks;			    /* estimate --shard */
	const char *units;
	int no_reshard;
	const char *checkpoint;
	int optimizer;		  /* enum whatif_optimizer, and its name */
	const char *optimizer_name;
	double dtype; /* bytes against those recorded; 0 = not given */
	const char *count; /* estimate --device: a device's name, "all", or NULL */
	uint64_t steps;	 /* --steps, of --flow or of a window: 0 = not given, UINT64_MAX = all */
	int flow, leaks;
	int all_jobs; /* -a */
	int redact;   /* command lines are not shown */
	struct outfile *held; /* out, opened while we had the rights to: cmd/offline.h; NULL: not yet */
	int force;    /* outputs replace files of their name */
	int no_follow, no_names, no_modules, keep_idle, force_perf, json, csv, tui, ops, all, no_color, quiet, verbose;
};

/* 0, or -EINVAL / -ENOTSUP with message and hint: a mistake in usage, exit 2. Strings point into argv. */
int options__parse(struct options *o, int argc, char *const *argv, struct err *err);

const char *command_name(enum command cmd); /* "" for the live view */
void options_help(FILE *out, enum command cmd); /* CMD_LIVE: the overview */
/* A shell's script to complete command lines. 0, or -EINVAL: none of "bash zsh fish". */
int completion_write(FILE *out, const char *shell);
void options_man(FILE *out, const char *version); /* roff; docs/memtrace.1 is this */

#endif

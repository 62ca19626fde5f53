/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * view: renders plain data (struct report, struct tl_event). Decides nothing, reads no clock but the
 * ones in the data. Every view ends with, or carries, the coverage block: time covered, losses, overhead.
 * Strings come from the target: views escape control bytes and invalid UTF-8.
 */
#ifndef MT_VIEW_VIEW_H
#define MT_VIEW_VIEW_H

#include <stdio.h>

#include "timeline/report.h"
#include "timeline/timeline.h"

struct names;

enum view_by { BY_OP = 0, BY_DEVICE, BY_PROCESS, BY_REGION, BY_CATEGORY, BY_SYMBOL, BY_STACK, BY_NAME, BY_RANK,
	       BY_MODULE };

struct view_opts {
	size_t top;	 /* rows of a table; JSON: 0 = all that the report has */
	enum view_by by; /* subject of the main table */
	unsigned depth;	 /* BY_MODULE: levels of the tree, 0 = all */
	unsigned phase;	 /* BY_MODULE: enum phase + 1, 0 = all */
	int color;	 /* 0 or 1: the caller looked at isatty and NO_COLOR */
	unsigned width;	 /* columns, 0 = 100 */
	int is_verbose;	 /* all tables with all rows that are not empty, and all of coverage and cost */
	int has_by;	 /* `by` was asked for: that table alone */
	const char *path; /* the recording as a shell takes it, for commands that are proposed; NULL: "FILE" */
	int is_brief;	 /* JSON: without series and symbols, and of processes VIEW_BRIEF_PROCS */
};

#define VIEW_BRIEF_PROCS 64 /* at most, the latest; live processes before ended ones, ended before helpers that ended */

/* 0 or -errno of a failed write. */
int view_report_text(FILE *out, const struct report *r, const struct view_opts *opts);
int view_leaks_text(FILE *out, const struct report *r, const struct view_opts *opts); /* report --leaks */
int view_report_json(FILE *out, const struct report *r, const struct view_opts *opts);
int view_report_md(FILE *out, const struct report *r, const struct view_opts *opts); /* Markdown, in short */
int view_report_csv(FILE *out, const struct report *r, const struct view_opts *opts); /* the main table, but BY_STACK */

/* The live view without a terminal: a plain line per call. With one: view/tui/tui.h. */
struct live_view;
struct live_view *live_view__new(FILE *out); /* NULL: no memory */
void live_view__free(struct live_view *v);
int live_view__draw(struct live_view *v, const struct report *now);

/* Exporters: a table of formats, each one file. They get the decisions one by one. */
struct export_ctx; /* private state of a format */
struct selection; /* timeline/selection.h */
struct labels;	   /* timeline/labels.h */
struct sieve;	   /* timeline/sieve.h */
/* The moment of --at in a whole recording (EXPORT_MOMENT), as report --at means it. */
struct export_at {
	const char *text;	   /* "step 100" */
	const struct sieve *sieve; /* settled: its span; the owner of a block (sieve__owner) */
	uint8_t dev;		   /* of the moment, of all processes */
	uint64_t peak_ns;	   /* the report's, of that device */
};
struct export_to {
	FILE *out;		  /* written in order; never closed by a format; may be a pipe */
	const struct names *names; /* borrowed, grows while events come */
	const char *path;	  /* of out, NULL: stdout; a format may go by its suffix (.gz) */
	const struct labels *labels; /* from a first pass, all of the recording's; NULL: labels as they were reported */
	const struct report *report; /* of that first pass, at its end; NULL without it */
	const char *recording;	  /* its name as a shell takes it, without directories; NULL: not known */
	int dev;		  /* --device: enum mt_dev; -1: the format's default */
	const char *sort; /* --sort: one of the format's words; NULL: its own order */
	const struct selection *part; /* of the recording; blocks live at its begin come first, as preexisting. NULL: all */
	const struct export_at *at; /* EXPORT_MOMENT: the one to show; NULL: none was asked for */
	const struct span *span; /* of the part, in the monotonic clock; NULL: all */
	const uint32_t *pids;	  /* of the part, by --pid or --rank; borrowed */
	size_t pids_cnt;	  /* 0: all processes */
	int ops;		  /* --ops: a view of operators writes all of them */
	int color, width;
};
#define EXPORT_TABLE_ROWS 500 /* with EXPORT_TABLES */
enum export_need {
	EXPORT_OPS = 1,	   /* TL_OP, TL_REGION* always, not with --ops only */
	EXPORT_NODES = 2,  /* TL_NODE */
	EXPORT_LABELS = 4, /* to->labels and to->report, always: a pass over the recording before this one */
	EXPORT_FILE = 16,  /* opens to->path itself: no pipe, no .gz */
	EXPORT_TABLES = 32, /* to->report has rows of operators, regions, blocks: EXPORT_TABLE_ROWS of each */
	EXPORT_MARKS = 64, /* TL_MARK */
	EXPORT_GAPS = 512, /* TL_GAP */
	EXPORT_RANKS = 128, /* to->report->ranks, where there are two or more */
	EXPORT_COMPAT = 8, /* knows torch.profiler's categories only */
	EXPORT_BINARY = 256, /* not for a terminal */
	EXPORT_COMPILES = 2048, /* TL_COMPILED */
	EXPORT_PINNED = 4096, /* TL_PINNED */
	EXPORT_STRETCH = 8192, /* does not show one moment */
	EXPORT_ONE_STEP = 32768, /* of one step, where no time was asked for: the one that has the peak */
	EXPORT_MOMENT = 16384, /* shows one moment of the whole recording: to->at */
	EXPORT_PART = 1024, /* is made of decisions only: what is written of a part is true of the part */
};
struct export_format {
	const char *name; /* "jsonl" */
	const char *help; /* one line */
	unsigned needs;	  /* enum export_need */
	const char *chooses; /* EXPORT_MOMENT: how its reader chooses a process, a stretch of time, … */
	const char *sorts; /* what --sort takes: "time, size"; the first is its own order; NULL: it has that alone */
	const char *(*missing)(void); /* NULL, or NULL: nothing; else why this build cannot write the format */
	size_t size;	  /* of its struct export_ctx, which begins with the struct outbuf that it writes to … */
	int writes_itself; /* … or it is no such format */
	/* Called in this order: begin (of zeros), event × n, end. Each 0 or -errno. `to` lives as long. */
	int (*begin)(struct export_ctx *c, const struct export_to *to);
	int (*event)(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns);
	int (*end)(struct export_ctx *c, const struct report *r); /* NULL: nothing is left to write; r NULL: after a failure */
	void (*done)(struct export_ctx *c); /* frees its content, also half-begun; NULL: nothing */
};
int export_begin(const struct export_format *f, struct export_ctx **ret, const struct export_to *to);
/* One decision, if the format gets its kind: event's result, or 0. */
int export_event(const struct export_format *f, struct export_ctx *c, const struct export_to *to, const struct tl_event *ev,
		 int64_t epoch_off_ns);
int export_end(const struct export_format *f, struct export_ctx *c, const struct report *r); /* frees c, which may be NULL */
const struct export_format *export_format_find(const char *name); /* NULL: unknown */
const struct export_format *const *export_formats(void);	   /* NULL-terminated */

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* options_table: the rows behind options.h: every option and every command, with explanations. */
#ifndef MT_CMD_OPTIONS_TABLE_H
#define MT_CMD_OPTIONS_TABLE_H

#include "cmd/options.h"

struct err;

struct option_def {
	const char *name; /* "--probes"; NULL ends the table */
	char letter;	  /* 'p', 0 = none */
	const char *arg;  /* "PID"; NULL: takes no value; "[=WHICH]": may have one, after = */
	const char *help; /* a sentence without its point; default and unit included */
	unsigned cmds;	  /* bits: 1 << enum command */
	int (*parse)(struct options *o, const char *value, struct err *err); /* value NULL without arg */
	const char *words; /* values that a shell may offer, blanks between; NULL: see cmd/completion.c */
};

/* Parsers that have a file of their own: options_estimate.c, options_filter.c. */
int on_batch(struct options *o, const char *value, struct err *err);
int on_batches(struct options *o, const char *value, struct err *err);
int on_budget(struct options *o, const char *value, struct err *err);
int on_optimizer(struct options *o, const char *value, struct err *err);
int on_dtype(struct options *o, const char *value, struct err *err);
int on_shard(struct options *o, const char *value, struct err *err);
int on_units(struct options *o, const char *value, struct err *err);
int on_checkpoint(struct options *o, const char *value, struct err *err);
int on_no_reshard(struct options *o, const char *value, struct err *err);
int on_count(struct options *o, const char *value, struct err *err);
int on_at(struct options *o, const char *value, struct err *err);
int on_from(struct options *o, const char *value, struct err *err);
int on_until(struct options *o, const char *value, struct err *err);
int on_rank(struct options *o, const char *value, struct err *err);
int on_module(struct options *o, const char *value, struct err *err);
int on_op(struct options *o, const char *value, struct err *err);
int on_sort(struct options *o, const char *value, struct err *err);
int on_export_sort(struct options *o, const char *value, struct err *err);
int filter_has_sense(const struct options *o, struct err *err); /* 0, or -EINVAL: options that do not go together */

static inline int option_value_is_optional(const struct option_def *d)
{
	return d->arg && d->arg[0] == '[';
}

extern const struct option_def option_defs[];

struct command_def {
	const char *name;
	const char *synopsis; /* lines, without "memtrace" */
	const char *summary;  /* for the overview */
	const char *about;    /* a paragraph */
	const char *examples; /* lines: command, tab, what it does */
};

extern const struct command_def command_defs[CMD_CNT];

/* Exit codes, lines "code, tab, meaning". */
extern const char exit_codes[];

#endif

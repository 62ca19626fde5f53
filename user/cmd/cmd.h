/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * cmd: the commands, one file each, and their shared functions. Only this room and main.c print errors.
 *
 * A command returns an exit code (below; record: that of its command, if that failed), or -errno with *err
 * filled: main prints it, once, and exits with 1; with 4 for -ECANCELED, which is --max-overhead's alone.
 */
#ifndef MT_CMD_CMD_H
#define MT_CMD_CMD_H

#include <errno.h>
#include <stdbool.h>

#include "cmd/options.h"

struct chosen;
struct err;
struct outfile_how;
struct replay_end;
struct report;

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_LOST = 3, EXIT_OVERHEAD = 4, EXIT_LIMIT = 5 };

#define NO_TABLE ENXIO /* -errno of a report that has no rows for its --by, though it may have other tables (main.c) */

int cmd_live(const struct options *o, struct err *err);
int cmd_record(const struct options *o, struct err *err);
int cmd_report(const struct options *o, struct err *err);
int report_browse(const struct options *o, const struct chosen *c, struct err *err); /* cmd_report with --tui */
int report_moment(const struct options *o, struct err *err); /* cmd_report where is_filtered() and not is_of_processes() */
int is_filtered(const struct options *o); /* a part of the recording is asked for (filter.h) */
bool diff_spools(const struct options *o); /* what it shows needs every block's label */
bool is_of_processes(const struct options *o); /* --pid or --rank alone: all of the report, of these processes */
int cmd_export(const struct options *o, struct err *err);
int cmd_diff(const struct options *o, struct err *err);
int cmd_estimate(const struct options *o, struct err *err);
int cmd_plan(const struct options *o, struct err *err);
int cmd_doctor(const struct options *o, struct err *err);
int cmd_merge(const struct options *o, struct err *err);
int cmd_serve(const struct options *o, struct err *err);
int cmd_check(const struct options *o, struct err *err);
int cmd_mcp(const struct options *o, struct err *err);
int cmd_completion(const struct options *o, struct err *err);
int cmd_ps(const struct options *o, struct err *err);

/* --name becomes pids. 0, or -errno with *err. */
int find_named(struct options *o, struct err *err);
/*
 * Only the program's name was typed: asks for a job on the terminal, to o->pids. 0; 1: none was chosen; -errno.
 */
int pick_job(struct options *o, struct err *err);

#define TOP_TEXT 20
#define TOP_JSON 1000

/* Effective capabilities that tracing needs, as bits of the numbers in <linux/capability.h>. */
uint64_t rights_missing(void);
/* CAP_BPF and CAP_PERFMON without CAP_SYS_ADMIN, which is enough on some machines only. */
int rights_are_narrow(void);
/* "CAP_SYS_ADMIN, CAP_SYS_PTRACE" into buf. */
const char *rights_names(uint64_t missing, char *buf, size_t size);
/* 0, or -EPERM with the way out. */
int rights_check(struct err *err);

/* The part of a recording that the options ask for: all is borrowed from *o. */
struct selection selection_of(const struct options *o);
/* The same options for o->file_b, the second of two recordings, as if it were the first. */
struct options options_of_second(const struct options *o);
/* The processes of o->file that were asked for, for chosen__done(). 0, or -errno: there is no such process. */
int find_chosen(struct chosen *c, const struct options *o, struct err *err);

/* EXIT_LOST when more events were lost than --max-loss allows, else EXIT_OK. */
int loss_exit_code(const struct options *o, const struct report *r);
/* 0, or -EINVAL: the recording has gaps, and the command needs all of a job's allocations. */
int refuse_gaps(const struct report *r, const char *path, struct err *err);
/* 0, or -ENODATA: --device names one that has no block. */
int has_device(const struct options *o, const struct report *r, struct err *err);
struct view_opts view_opts_of(const struct options *o);
/* As --json and --by ask for, to stdout: 0 or -errno with *err. */
int report_write(const struct options *o, const struct report *r, struct err *err);
/* Prints on stderr if a recording's end is missing, or it is damaged (the report's MT_LOSS_DAMAGED). */
void replay_say(const char *path, uint64_t damaged_events, const struct replay_end *end);
/* How files are written: as the asker, replacing others with --force. Valid as long as *o. */
struct outfile_how outputs_of(const struct options *o);
/* Rows to ask a report for, so that report_write's output is complete. */
size_t report_top(const struct options *o);
/* path as a shell takes it, quoted where needed; buf of TEXT_BYTES_MAX. */
const char *shell_word(char *buf, const char *path);

#endif

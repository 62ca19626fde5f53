/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* trace_opts: shared by the live view and record: from options to a session, and its last messages. */
#ifndef MT_CMD_TRACE_OPTS_H
#define MT_CMD_TRACE_OPTS_H

#include "cmd/options.h"
#include "live/session.h"

struct report;

void session_opts_from(struct session_opts *so, const struct options *o);
/* memtrace-PID-YYYYmmdd-HHMMSS.mtr; of a command its name instead of a pid. */
void recording_default_path(const struct options *o, char *buf, size_t size);
/* On stderr: the recording's path, size and losses, and the command to look at it. */
void recording_say(const char *path, const struct report *r);
/* On stderr, if the command ended badly. Returns its exit code as a shell has it (128 and the signal), or 0. */
int launched_say(const struct options *o, int wait_status);
/* On stderr, if the command is still there: record leaves it to run. */
void launched_say_on(const struct options *o, pid_t pid);
uint64_t file_bytes(const char *path); /* 0 if there is none */

#endif

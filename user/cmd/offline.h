/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * offline: report, export, diff, merge, estimate and mcp need no rights, and their input may come from anybody: they give
 * their rights away before they read a byte of it.
 *
 * Under sudo they become the asker for good; capabilities of the program's file are dropped: then files are opened with the
 * asker's own rights. Root itself keeps its uid without a capability; files are opened before, and a process that does
 * nothing else gives the output its name (outfile__lend). Then, for every user: a filter of system calls, and files are
 * written only beside the output, and exports' spools in their place. A root without capabilities is still the owner of
 * /etc/passwd.
 */
#ifndef MT_CMD_OFFLINE_H
#define MT_CMD_OFFLINE_H

struct err;
struct options;

/* Nothing for other commands. 0 or -errno. */
int offline_drop(struct options *o, struct err *err);
/* The last part of it, for a command that mcp has started: where files are written, and the filter. 0 or -errno. */
int offline_confine(const struct options *o, struct err *err);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * offline: report, export, diff, merge, estimate and mcp need no rights, and get their input from anybody: so they give away
 * what they have before they look at a byte of it.
 *
 * Behind sudo they become the asker for good; who has capabilities of the program's file loses them: then files are opened
 * with the asker's own rights. Root himself keeps his uid without a capability; files are opened before, and the output
 * is given its name by a process that does nothing else (outfile__lend). Then, whoever it is: a filter of system calls, and
 * files are written beside the output alone, and exports' spools where those belong. A root without capabilities is still
 * the owner of /etc/passwd.
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

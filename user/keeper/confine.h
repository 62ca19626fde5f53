/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * confine: what each half of memtrace gives away, for good, and what a command does that only reads files. Before there are
 * threads.
 */
#ifndef MT_KEEPER_CONFINE_H
#define MT_KEEPER_CONFINE_H

#include <stddef.h>

struct asker;
struct err;

/*
 * The asking half: another user's uid, no capability, no_new_privs, a filter of system calls; files are written below this
 * directory alone, where the kernel can see to that. 0 or -errno.
 */
int confine_self(const struct asker *as, const char *writes, struct err *err);
/* The keeper: no_new_privs, a filter, and of the capabilities only those that its requests take. 0 or -errno. */
int confine_keeper(void);

/*
 * A command that has no keeper: no capability, no_new_privs, the filter of the asking half; files are written below these
 * directories alone. Who it runs as is the caller's matter. A kernel that has no such filter is told with -v. 0 or -errno.
 */
int confine_reader(const char *const *writes, size_t writes_cnt, struct err *err);
/* The same without the filter, for who starts such commands: each has it of its own. */
int confine_starter(const char *const *writes, size_t writes_cnt, struct err *err);

#endif

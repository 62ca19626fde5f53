/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * confine: what each half of memtrace gives away, for good; also for a command that only reads files. Call it before there are
 * threads.
 */
#ifndef MT_KEEPER_CONFINE_H
#define MT_KEEPER_CONFINE_H

#include <stddef.h>

struct asker;
struct err;

/*
 * The asking half: another user's uid, no capability, no_new_privs, a filter of system calls; files can only be written below
 * this directory, where the kernel can enforce that. 0 or -errno.
 */
int confine_self(const struct asker *as, const char *writes, struct err *err);
/* The keeper: no_new_privs, a filter, and only the capabilities that its requests need. 0 or -errno. */
int confine_keeper(void);

/*
 * A command without a keeper: no capability, no_new_privs, the filter of the asking half; files can only be written below these
 * directories. Its user is the caller's decision. A kernel without such a filter is reported with -v. 0 or -errno.
 */
int confine_reader(const char *const *writes, size_t writes_cnt, struct err *err);
/* The same without the filter, for a process that starts such commands: each sets its own. */
int confine_starter(const char *const *writes, size_t writes_cnt, struct err *err);

#endif

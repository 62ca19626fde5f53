/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* confine: what each half of memtrace gives away, for good. Private to keeper/; before there are threads. */
#ifndef MT_KEEPER_CONFINE_H
#define MT_KEEPER_CONFINE_H

struct asker;
struct err;

/*
 * The asking half: another user's uid, no capability, no_new_privs, a filter of system calls; files are written below this
 * directory alone, where the kernel can see to that. 0 or -errno.
 */
int confine_self(const struct asker *as, const char *writes, struct err *err);
/* The keeper: no_new_privs, a filter, and of the capabilities only those that its requests take. 0 or -errno. */
int confine_keeper(void);

#endif

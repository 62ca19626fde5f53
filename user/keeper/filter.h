/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * filter: which system calls each half may make from now on, and where the asking half may write. For all threads that come;
 * needs no_new_privs. Private to keeper/.
 */
#ifndef MT_KEEPER_FILTER_H
#define MT_KEEPER_FILTER_H

/*
 * The asking half: what a program does that reads files, talks to a terminal and answers on sockets that are open already. No
 * program is started, no process traced, no socket opened, no right taken. 0 or -errno.
 */
int filter_self(void);
/*
 * The keeper: all but what would make it more than it is. 0 or -errno. Trying instructions at the start (trace/selftest.h)
 * takes children and signals, so those go later: when it is done, and before anything that the target wrote has been read.
 */
int filter_keeper(void);
int filter_keeper_more(void);
/*
 * Files are written, made and removed below this directory alone (Landlock). 0; -EOPNOTSUPP: the kernel cannot do that;
 * -errno.
 */
int filter_writes(const char *dir);

#endif

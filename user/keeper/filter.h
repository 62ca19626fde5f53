/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * filter: which system calls each half may make from now on, and where the asking half may write. Inherited by all later
 * threads; needs no_new_privs. Private to keeper/.
 */
#ifndef MT_KEEPER_FILTER_H
#define MT_KEEPER_FILTER_H

#include <stddef.h>

/*
 * The asking half: enough for a program that reads files, uses a terminal and answers on sockets that are already open. It can
 * start no program, trace no process, open no socket, gain no right. 0 or -errno.
 */
int filter_self(void);
/*
 * The keeper: everything except what would give it more rights. 0 or -errno. Trying instructions at the start
 * (trace/selftest.h) needs children and signals, so those are forbidden later: when it is done, and before anything that the
 * target wrote is read.
 */
int filter_keeper(void);
int filter_keeper_more(void);
/*
 * Files can only be written, made and removed below these directories (Landlock); a name that is no directory is a file to
 * write to. 0; -EOPNOTSUPP: not supported by the kernel; -errno.
 */
int filter_writes(const char *const *names, size_t cnt);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* proc_io: whole small files of a /proc directory, capped; private to target/. */
#ifndef MT_TARGET_PROC_IO_H
#define MT_TARGET_PROC_IO_H

#include <stddef.h>

/*
 * Reads dirfd/name up to cap bytes into *ret (malloc'ed, NUL-terminated for convenience, caller
 * frees). 0 or -errno; longer files are cut at cap without an error.
 */
int proc_read(int dirfd, const char *name, size_t cap, char **ret, size_t *ret_len);
/* The same for an open file, which stays the caller's. */
int proc_read_fd(int fd, size_t cap, char **ret, size_t *ret_len);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* infile: files that are opened with rights which are given away before a byte of them is read. */
#ifndef MT_BASE_INFILE_H
#define MT_BASE_INFILE_H

/* Opens a file, to be found by this name (a borrowed string). Failures are left to the later open, which reports them. */
void infile_hold(const char *path);
/* A separate descriptor of a held file, to be read with pread; -1: none is held. */
int infile_find(const char *path);

struct err;
/*
 * Holds standard input under the name "-" (until the caller ends): that file itself, or, since recordings are read more than
 * once, the content of a pipe, in a file without a name in TMPDIR, /var/tmp or /tmp. 0 or -errno.
 */
int infile_hold_stdin(struct err *err);

#endif

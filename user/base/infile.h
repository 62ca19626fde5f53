/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* infile: files that are opened with rights which are given away before a byte of them is looked at. */
#ifndef MT_BASE_INFILE_H
#define MT_BASE_INFILE_H

/* Opens it, to be found by this name (a borrowed string). No regular file, or none to be had: who opens it says so. */
void infile_hold(const char *path);
/* A descriptor of its own of a file that is held, to be read with pread; -1: there is none. */
int infile_find(const char *path);

struct err;
/*
 * Standard input, to be found by the name "-" (until who calls it ends): the very file, or, since recordings are read more
 * than once, what a pipe brings, in a file without a name in TMPDIR, /var/tmp or /tmp. 0 or -errno.
 */
int infile_hold_stdin(struct err *err);

#endif

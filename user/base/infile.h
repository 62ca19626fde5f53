/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* infile: files that are opened with rights which are given away before a byte of them is looked at. */
#ifndef MT_BASE_INFILE_H
#define MT_BASE_INFILE_H

/* Opens it, to be found by this name (a borrowed string). No regular file, or none to be had: who opens it says so. */
void infile_hold(const char *path);
/* A descriptor of its own of a file that is held, to be read with pread; -1: there is none. */
int infile_find(const char *path);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * dump: writes a file of the window to the disk beside the loop, while the trace goes on: 256 MiB and their sync take
 * seconds, and a disk may stall for any time. The file's contents are in memory by then.
 *
 * By a thread and not a process, since no process can be created by now. A thread that waits for a dead disk keeps memtrace
 * from ending, but not from taking its probes away.
 */
#ifndef MT_RECORD_DUMP_H
#define MT_RECORD_DUMP_H

#include <stdint.h>

#include "base/err.h"
#include "base/outfile.h"

struct dump;

/* A file in memory, to be read and written; -errno. */
int dump_memory(void);
/*
 * Puts memory (theirs from here on, also after a failure) into a file that is called like path with the first number that is
 * free: job.mtr → job-1.mtr. how is borrowed. 0 or -errno.
 */
int dump__start(struct dump **ret, int memory, const char *path, const struct outfile_how *how, struct err *err);
/* Waits for it: 0 and its name, good until dump__free; its failure; or -ETIMEDOUT: not finished yet. */
int dump__await(struct dump *d, uint64_t wait_ns, const char **ret_path, struct err *err);
void dump__free(struct dump *d); /* NULL is fine; an unfinished one keeps its memory */

/* job.mtr → job-3.mtr, the first that is not there yet. 0, -ENAMETOOLONG or -EEXIST: all are. */
int numbered_path(char *buf, size_t size, const char *path);

#endif

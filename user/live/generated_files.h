/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * generated_files: the contents of inductor's files (python/generated.h), each read once, through a process that runs it
 * (target/script.h).
 *
 * A file's name is the hash of its text, so files are kept by name: processes that run the same file share one, whatever
 * directory, mount or container they have it in, and an edited file is detected (-ESTALE: its lines are not those that run).
 *
 * At most GENERATED_FILES_MAX files of GENERATED_FILES_BYTES_MAX together, parsed; the least recently requested one is dropped.
 * A file that could not be read is tried again after a second, then two, up to a minute; meanwhile the answer is the same.
 * Reading has READ_PART of the time: names cost nothing to make, and each may stand for 8 MiB. One thread at a time.
 */
#ifndef MT_LIVE_GENERATED_FILES_H
#define MT_LIVE_GENERATED_FILES_H

#include <stdint.h>
#include <sys/types.h>

#include "python/generated.h"

#define GENERATED_FILES_MAX 256		    /* one typically has 10 KB */
#define GENERATED_FILES_BYTES_MAX (64u << 20)
#define GENERATED_FAILED_MAX 256	    /* files that could not be read: the oldest entry is dropped */
#define GENERATED_RETRY_MIN_NS 1000000000ull
#define GENERATED_RETRY_MAX_NS 60000000000ull
#define GENERATED_READ_PART 20		    /* of the time: 5 % … */
#define GENERATED_READ_AHEAD_NS 2000000000ull /* … after this much without a limit */

struct generated_files;

struct generated_files_counts {
	uint64_t read;	  /* files that were parsed */
	uint64_t refused; /* tries: files that must not be read, or are gone, or were edited */
	uint64_t edited;  /* of these: the text does not match the name's hash */
	uint64_t put_off; /* calls without time left for reading */
	uint64_t dropped; /* files dropped in favour of others */
};

struct generated_files *generated_files__new(void); /* NULL: no memory */
void generated_files__free(struct generated_files *g); /* NULL is fine */

/*
 * What a line of a file records about the memory that is allocated there; `path`: as in the process's code objects. Texts are
 * valid until the next call. May take up to 5 s where a file system does not answer, once a process.
 *
 * 0, or: -ENOENT: the file has nothing about that line · -EPERM: inductor names no file so (found at once) · -EINVAL:
 * inductor's, but no graph (a kernel's) · -ESTALE: edited · -EAGAIN: no time for it now, or it is being written · -ENOLINK: it
 * is gone · others: why it cannot be read (door.h: script).
 */
int generated_files__line(struct generated_files *g, pid_t pid, const char *path, unsigned line, struct generated_line *ret);
struct generated_files_counts generated_files__counts(const struct generated_files *g);

/* Tests: the clock, in ns; and what reads a file (target/script_read.h). */
typedef int (*generated_files_reader)(pid_t pid, const char *path, char **ret, size_t *ret_len);
void generated_files__use(struct generated_files *g, uint64_t (*clock_ns)(void), generated_files_reader read);

#endif

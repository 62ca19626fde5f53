/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * generated_files: what inductor's files say (python/generated.h), each read once, of the process that runs it
 * (target/script.h).
 *
 * A file's name is the hash of its text, so files are kept by name: processes that run the same have one, whatever directory,
 * mount or container they have it in, and one that was edited is found out (-ESTALE: its lines are not those that run).
 *
 * At most GENERATED_FILES_MAX files of GENERATED_FILES_BYTES_MAX together, parsed; the one that was asked for longest ago goes.
 * What could not be read is asked for again after a second, then two, up to a minute; meanwhile the answer is the same.
 * Reading has READ_PART of the time: names cost nothing to make, and each may be that of 8 MiB. One thread at a time.
 */
#ifndef MT_LIVE_GENERATED_FILES_H
#define MT_LIVE_GENERATED_FILES_H

#include <stdint.h>
#include <sys/types.h>

#include "python/generated.h"

#define GENERATED_FILES_MAX 256		    /* one has 10 KB, as they come */
#define GENERATED_FILES_BYTES_MAX (64u << 20)
#define GENERATED_FAILED_MAX 256	    /* files that could not be read: the oldest is forgotten */
#define GENERATED_RETRY_MIN_NS 1000000000ull
#define GENERATED_RETRY_MAX_NS 60000000000ull
#define GENERATED_READ_PART 20		    /* of the time: 5 % … */
#define GENERATED_READ_AHEAD_NS 2000000000ull /* … and so much before that counts */

struct generated_files;

struct generated_files_counts {
	uint64_t read;	  /* files that were parsed */
	uint64_t refused; /* tries: files that are not to be read, or gone; edited ones too */
	uint64_t edited;  /* of these: their text is not what their name says */
	uint64_t put_off; /* calls: there was no time left for reading */
	uint64_t dropped; /* files that went, for others */
};

struct generated_files *generated_files__new(void); /* NULL: no memory */
void generated_files__free(struct generated_files *g); /* NULL is fine */

/*
 * What a line of a file says of the memory that is allocated there; `path`: as the process's code objects have it. Texts are
 * good until the next call. May take up to 5 s where a file system does not answer, once a process.
 *
 * 0, or: -ENOENT: the file says nothing of that line · -EPERM: inductor calls no file so (found at once) · -EINVAL: inductor's,
 * but no graph (a kernel's) · -ESTALE: edited · -EAGAIN: no time for it now, or it is being written · -ENOLINK: it is gone ·
 * others: why it cannot be read (door.h: script).
 */
int generated_files__line(struct generated_files *g, pid_t pid, const char *path, unsigned line, struct generated_line *ret);
struct generated_files_counts generated_files__counts(const struct generated_files *g);

/* Tests: the clock, in ns; and what reads a file (target/script_read.h). */
typedef int (*generated_files_reader)(pid_t pid, const char *path, char **ret, size_t *ret_len);
void generated_files__use(struct generated_files *g, uint64_t (*clock_ns)(void), generated_files_reader read);

#endif

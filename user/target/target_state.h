/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * target_state: one process as shared by the files of target.h: target.c, which opens and frees it, target_libs.c and
 * target_usage.c; target_files.c reads for all of them. No other file includes this.
 */
#ifndef MT_TARGET_TARGET_STATE_H
#define MT_TARGET_TARGET_STATE_H

#include "target/door.h"
#include "target/proc_text.h"
#include "target/target.h"

#define CMDLINE_BYTES_MAX 4096
#define AUXV_BYTES_MAX	  1024

struct file_id {
	uint64_t dev, ino;
};

struct target {
	pid_t pid;
	int dirfd, pidfd;
	uint8_t auxv[AUXV_BYTES_MAX]; /* as of open */
	size_t auxv_len;
	struct proc_stat stat; /* as of open */
	char cmdline[CMDLINE_BYTES_MAX];
	char *labels[TARGET_LABELS_MAX];
	size_t labels_cnt;
	int is_early;
	unsigned holders; /* besides the first one */
	struct lib *libs; /* in order of address */
	size_t libs_cnt;
	size_t unseen;
	struct file_id *seen; /* sorted: every library that it ever had, so that one that is loaded again is not new */
	size_t seen_cnt;
};

/* --- target_files.c -------------------------------------------------------------------------------------- */

/* Both return the error, with text and hint in *err: -ESRCH; r, or -ESRCH where r means that. */
int target__no_such(pid_t pid, struct err *err);
int target__fail(const struct target *t, int r, const char *what, struct err *err);
/* 0, or -errno: -ESRCH: it has ended, -EFBIG … as in proc_io.h. *ret is malloc'ed, the caller's, NUL-terminated. */
int target__read_file(const struct target *t, enum door_file which, size_t cap, char **ret, size_t *ret_len);
/* 0 or -errno; -ESRCH: it has ended, or is a zombie. */
int target__stat(const struct target *t, struct proc_stat *ret);

/* --- target_libs.c ----------------------------------------------------------------------------------- */

/* Marks the parent's libraries as not new for its child. 0 or -ENOMEM. */
int target__see_as(struct target *t, const struct target *parent);
void target__drop_libs(struct target *t);

#endif

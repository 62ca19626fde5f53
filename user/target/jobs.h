/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* jobs: which processes of the machine have to do with tensors, by the libraries that they have mapped. */
#ifndef MT_TARGET_JOBS_H
#define MT_TARGET_JOBS_H

#include <sys/types.h>

/* Is the file of that path one that makes a process a job: PyTorch's, or a GPU's runtime, driver or collectives? */
int is_job_library(const char *path);
/* Has the process one mapped? 1, 0: it has not, or may not be looked at; -E2BIG: it has more mappings than are read. */
int job_check(pid_t pid);
/*
 * Processes that have one mapped, as of now, ours not; those that may not be looked at are left out. Count or -errno; *ret
 * for free(). *ret_cut: how many may be one, but have more mappings than are read.
 */
int jobs_list(pid_t **ret, size_t *ret_cut);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* jobs: the processes of the machine that work with tensors, by the libraries that they have mapped. */
#ifndef MT_TARGET_JOBS_H
#define MT_TARGET_JOBS_H

#include <sys/types.h>

/* Does mapping the file of that path make a process a job: PyTorch's, or a GPU's runtime, driver or collectives? */
int is_job_library(const char *path);
/* Has the process mapped one? 1; 0: no, or it may not be looked at; -E2BIG: it has more mappings than are read. */
int job_check(pid_t pid);
/*
 * Processes that have mapped one, as of now, without our own; those that may not be looked at are left out. Count or -errno;
 * *ret for free(). *ret_cut: how many may be one, but have more mappings than are read.
 */
int jobs_list(pid_t **ret, size_t *ret_cut);

#endif

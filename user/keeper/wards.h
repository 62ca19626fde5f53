/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * wards: the processes that the keeper serves: those that the user named and their descendants; if all jobs were requested,
 * every process that has a job's library mapped (target/jobs.h) and its descendants; and no other, whatever the request.
 * Private to keeper/.
 *
 * A number is served as long as it belongs to that process. Descent is known from the kernel: from its records of forks, which
 * the keeper has in rings of its own, and from the parents in /proc. A ward stays one, whatever program it runs and whichever
 * process adopts it when its parent ends.
 *
 * Any thread.
 */
#ifndef MT_KEEPER_WARDS_H
#define MT_KEEPER_WARDS_H

#include <stddef.h>
#include <sys/types.h>

struct wards_opts {
	const pid_t *pids; /* these … */
	size_t pids_cnt;
	int children; /* … and descendants of wards */
	int jobs;     /* and every job of the machine */
};

struct wards;

/* From here on the reuse of a number is noticed. 0 or -errno. */
int wards__new(struct wards **ret, const struct wards_opts *opts);
void wards__free(struct wards *w); /* NULL is fine */
/*
 * pidfd: of that number, opened before. 0; -EPERM: it is no ward; -ESRCH; -E2BIG: it has too many mappings to decide whether it
 * is a job.
 */
int wards__check(struct wards *w, pid_t pid, int pidfd);
/* 1: it is already known as a ward; 0: it is not, or its number was reused since. Does not look for it. */
int wards__knows(struct wards *w, pid_t pid);
/* From time to time, so that the rings do not overflow. */
void wards__turn(struct wards *w);

#endif

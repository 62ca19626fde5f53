/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * wards: the processes that the keeper serves. Those that the user named and their descendants; where he asked for all jobs,
 * every process that has a job's library mapped (target/jobs.h) and its descendants; and no other, whoever asks. Private to
 * keeper/.
 *
 * A number is served as long as it is that process's. Who descends from whom the kernel says: by its records of forks, which
 * the keeper has in rings of its own, and by the parents in /proc. Whoever was a ward stays one, whatever program it runs and
 * whoever takes it over when its parent ends.
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
	int children; /* … and what descends from wards */
	int jobs;     /* and every job of the machine */
};

struct wards;

/* From here on a number that is given to another process is noticed. 0 or -errno. */
int wards__new(struct wards **ret, const struct wards_opts *opts);
void wards__free(struct wards *w); /* NULL is fine */
/*
 * pidfd: of that number, opened before. 0; -EPERM: it is none of them; -ESRCH; -E2BIG: its mappings are too many to say whether
 * it is a job.
 */
int wards__check(struct wards *w, pid_t pid, int pidfd);
/* Is it known as one already? 1 or 0; without looking for it. A number that was given away since is not. */
int wards__knows(struct wards *w, pid_t pid);
/* From time to time, so that the rings do not overflow. */
void wards__turn(struct wards *w);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * One bit per number. The kernel's record of a fork names parent and child, so it sets the bit of the child's number if the
 * parent is a ward, and clears it if not: the latest fork decides what a number means. Nothing has to be done when a process
 * ends. Records are read before every answer; a child cannot run, and so no request can be about it, before its record was
 * written.
 *
 * A process that is older than the rings is found by its parents in /proc, once; then it has its bit. A parent that is read
 * from /proc may have ended since and its number be another's: it counts if it is still the parent when read again.
 *
 * Where records were lost (or are not available: a container without perf events), a bit that was set may have become that of
 * another process: bits are kept for processes older than the last time when everything was known. The others are found by
 * their parents again; one whose parent has ended meanwhile is not found.
 *
 * An answer costs 0.2 us, with the pidfd that an unknown process needs 8 us (kernel 6.18); the rings are 128 KiB per CPU, and a
 * fork writes one record more.
 */
#define LOG_MODULE "wards"
#include "keeper/wards.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "target/jobs.h"
#include "target/kin.h"
#include "target/sideband.h"

#define PIDS_MAX (1u << 22) /* no kernel has larger numbers; pages of it are taken when touched */
#define WORD_BITS 64u
#define RING_PAGES 32	       /* 2,300 forks or ends of threads per CPU, read every 0.1 s */
#define GENERATIONS_MAX 64     /* of ancestors that are searched */
#define CPUS_EVERY 10	       /* turns */
#define YOUNG_NS 100000000ull  /* its record may not be written yet */
#define YOUNG_WAIT_NS 1000000L

struct wards {
	pthread_mutex_t lock;
	uint64_t bits[PIDS_MAX / WORD_BITS];
	uint64_t kept[PIDS_MAX / WORD_BITS]; /* used by wards__doubt */
	struct sideband *forks; /* NULL: not available */
	uint64_t sure_ns;	/* CLOCK_BOOTTIME: every earlier fork is known */
	int has_lost;
	int children, jobs;
	unsigned turns;
};

static int wards__has(const struct wards *w, uint32_t pid)
{
	return pid < PIDS_MAX && w->bits[pid / WORD_BITS] >> pid % WORD_BITS & 1;
}

static void wards__set(struct wards *w, uint32_t pid, int is_ward)
{
	uint64_t bit = 1ull << pid % WORD_BITS;

	if (pid < PIDS_MAX && is_ward)
		w->bits[pid / WORD_BITS] |= bit;
	else if (pid < PIDS_MAX)
		w->bits[pid / WORD_BITS] &= ~bit;
}

/* --- records of the kernel -------------------------------------------------------------------------------- */

/* A thread's number is not a process's. */
static int on_record(void *ctx, const struct sb_record *rec)
{
	struct wards *w = ctx;

	if (rec->kind == SB_LOST)
		w->has_lost = 1;
	else if (rec->kind == SB_FORK && rec->pid != rec->ppid)
		wards__set(w, rec->pid, w->children && wards__has(w, rec->ppid));
	else if (rec->kind == SB_FORK && rec->tid != rec->pid)
		wards__set(w, rec->tid, 0);
	return 0;
}

static uint64_t boot_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* The start time of a process is known in ticks, rounded down. A number is reused only after a longer time. */
static uint64_t in_ticks(uint64_t ns)
{
	return ns - ns % (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
}

static int keep_sure(void *ctx, pid_t pid)
{
	struct wards *w = ctx;
	uint64_t start_ns;
	pid_t ppid;

	if (wards__has(w, (uint32_t)pid) && !process_origin(pid, &ppid, &start_ns) && start_ns <= in_ticks(w->sure_ns))
		w->kept[(uint32_t)pid / WORD_BITS] |= 1ull << (uint32_t)pid % WORD_BITS;
	return 0;
}

/*
 * Some numbers may be others' now: bits are kept for processes older than what is unknown. Only live processes are checked:
 * after days of forks far more bits are set, and to look for each of four million in /proc took 11 s.
 */
static void wards__doubt(struct wards *w)
{
	memset(w->kept, 0, sizeof(w->kept));
	(void)processes_each(keep_sure, w);
	memcpy(w->bits, w->kept, sizeof(w->bits));
}

/* With the lock held. */
static void wards__listen(struct wards *w)
{
	uint64_t begin_ns = boot_ns();

	if (!w->forks || sideband__drain(w->forks, on_record, w) < 0)
		w->has_lost = 1;
	if (w->has_lost)
		wards__doubt(w);
	w->has_lost = 0;
	w->sure_ns = begin_ns;
}

/* --- which processes are wards -------------------------------------------------------------------------- */

/* With the lock held. By its present parents. */
static int wards__descends(const struct wards *w, pid_t pid, int generations)
{
	uint64_t start_ns;
	pid_t ppid, later;

	if (wards__has(w, (uint32_t)pid))
		return 1;
	return generations && !process_origin(pid, &ppid, &start_ns) && ppid > 0 && wards__descends(w, ppid, generations - 1) &&
	       !process_origin(pid, &later, &start_ns) && later == ppid;
}

/* Then its number is still its own. */
static int is_alive(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}

/* With the lock held. What was just found belongs to the process of the pidfd, if that is still alive. */
static int wards__take_in(struct wards *w, pid_t pid, int pidfd)
{
	if (!is_alive(pidfd))
		return -ESRCH;
	wards__set(w, (uint32_t)pid, 1);
	return 0;
}

/* 0, -EPERM or -ESRCH. */
static int wards__look(struct wards *w, pid_t pid, int pidfd)
{
	int r = -EPERM;

	pthread_mutex_lock(&w->lock);
	wards__listen(w);
	if (wards__has(w, (uint32_t)pid))
		r = 0;
	else if (w->children && wards__descends(w, pid, GENERATIONS_MAX))
		r = wards__take_in(w, pid, pidfd);
	pthread_mutex_unlock(&w->lock);
	return r;
}

/* Without the lock, because maps may be long. */
static int wards__look_at_job(struct wards *w, pid_t pid, int pidfd)
{
	int r = job_check(pid);

	if (r <= 0)
		return r ? r : -EPERM;
	pthread_mutex_lock(&w->lock);
	r = wards__take_in(w, pid, pidfd);
	pthread_mutex_unlock(&w->lock);
	return r;
}

static int is_young(pid_t pid)
{
	uint64_t start_ns;
	pid_t ppid;

	return !process_origin(pid, &ppid, &start_ns) && start_ns + YOUNG_NS > boot_ns();
}

int wards__knows(struct wards *w, pid_t pid)
{
	int r;

	pthread_mutex_lock(&w->lock);
	wards__listen(w);
	r = pid > 0 && wards__has(w, (uint32_t)pid);
	pthread_mutex_unlock(&w->lock);
	return r;
}

int wards__check(struct wards *w, pid_t pid, int pidfd)
{
	const struct timespec pause = { .tv_nsec = YOUNG_WAIT_NS };
	int r = pid > 0 ? wards__look(w, pid, pidfd) : -ESRCH;

	if (r == -EPERM && w->jobs)
		r = wards__look_at_job(w, pid, pidfd);
	if (r == -EPERM && w->forks && is_young(pid)) {
		nanosleep(&pause, NULL);
		r = wards__look(w, pid, pidfd);
	}
	return r == -EPERM && !is_alive(pidfd) ? -ESRCH : r;
}

/* --- life ------------------------------------------------------------------------------------------------- */

/* Also checks for new CPUs: earlier forks there are unknown. */
void wards__turn(struct wards *w)
{
	pthread_mutex_lock(&w->lock);
	if (w->forks && ++w->turns % CPUS_EVERY == 0 && sideband__look_at_cpus(w->forks) > 0)
		w->has_lost = 1;
	wards__listen(w);
	pthread_mutex_unlock(&w->lock);
}

int wards__new(struct wards **ret, const struct wards_opts *opts)
{
	struct wards *w = calloc(1, sizeof(*w));
	struct err err = { 0 };

	if (!w)
		return -ENOMEM;
	pthread_mutex_init(&w->lock, NULL);
	w->children = opts->children;
	w->jobs = opts->jobs;
	w->sure_ns = boot_ns();
	if (sideband__open_forks(&w->forks, RING_PAGES, &err) < 0)
		log_info("%s: descendants are known by their parents alone", err.msg);
	for (size_t i = 0; i < opts->pids_cnt; i++)
		if (opts->pids[i] > 0)
			wards__set(w, (uint32_t)opts->pids[i], 1);
	*ret = w;
	return 0;
}

void wards__free(struct wards *w)
{
	if (!w)
		return;
	sideband__free(w->forks);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/planner.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/target.h"

#define END_S 3 /* longer does a thread not take to end, unless a file system keeps it waiting */

struct job {
	struct job *next;
	struct target *target; /* held */
	struct plan_opts opts;
	struct names *names;
	int is_forgotten; /* the loop's */
	struct planned is;
};

struct queue {
	struct job *first, **last;
};

struct planner {
	int fd, has_thread;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct queue asked, done; /* under the lock, like stop */
	struct job *now;	  /* that the thread is at; under the lock */
	int stop;
	struct plan_cache *cache; /* the thread's */
	uint64_t tickets;
	size_t waiting;
};

static void queue__put(struct queue *q, struct job *j)
{
	j->next = NULL;
	*q->last = j;
	q->last = &j->next;
}

static struct job *queue__take(struct queue *q)
{
	struct job *j = q->first;

	if (!j)
		return NULL;
	q->first = j->next;
	if (!q->first)
		q->last = &q->first;
	return j;
}

/* On the loop: it may be the target's last holder. */
static void job__free(struct job *j)
{
	if (!j)
		return;
	plan__free(j->is.plan);
	names__free(j->names);
	target__free(j->target);
	free(j);
}

/* --- the second thread ----------------------------------------------------------------------------------- */

static void job__do(struct job *j, struct planner *p)
{
	uint64_t t0 = now_ns();
	int found = target__refresh(j->target, &j->is.err);

	j->is.look_ns = now_ns() - t0;
	j->opts.cache = p->cache;
	j->opts.stop = &p->stop;
	if (found < 0)
		j->is.r = found;
	else if (found || !j->opts.only_new_libs)
		j->is.r = plan__build(&j->is.plan, j->target, &j->opts, j->names, &j->is.err);
	j->is.took_ns = now_ns() - t0;
}

static void *work(void *arg)
{
	struct planner *p = arg;

	pthread_mutex_lock(&p->lock);
	while (!p->stop) {
		p->now = queue__take(&p->asked);
		if (!p->now) {
			pthread_cond_wait(&p->wake, &p->lock);
			continue;
		}
		pthread_mutex_unlock(&p->lock);
		job__do(p->now, p);
		pthread_mutex_lock(&p->lock);
		queue__put(&p->done, p->now);
		p->now = NULL;
		(void)!write(p->fd, &(uint64_t){ 1 }, sizeof(uint64_t));
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* --- life -------------------------------------------------------------------------------------------------- */

int planner__new(struct planner **ret, struct err *err)
{
	struct planner *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return err_set(err, -ENOMEM, "out of memory");
	p->asked.last = &p->asked.first;
	p->done.last = &p->done.first;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->wake, NULL);
	p->cache = plan_cache__new();
	p->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = p->fd < 0 ? -errno : !p->cache ? -ENOMEM : -pthread_create(&p->thread, NULL, work, p);
	if (r) {
		planner__free(p);
		return err_set(err, r, "a thread that makes plans: %s", strerror(-r));
	}
	p->has_thread = 1;
	*ret = p;
	return 0;
}

/* 0: it has ended. */
static int planner__end(struct planner *p)
{
	struct timespec until;

	pthread_mutex_lock(&p->lock);
	__atomic_store_n(&p->stop, 1, __ATOMIC_RELAXED);
	pthread_cond_signal(&p->wake);
	pthread_mutex_unlock(&p->lock);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += END_S;
	return pthread_timedjoin_np(p->thread, NULL, &until);
}

void planner__free(struct planner *p)
{
	struct job *j;

	if (!p)
		return;
	if (p->has_thread && planner__end(p))
		return; /* what it has stays its own: memtrace is about to end, and need not wait for a dead server's file */
	while ((j = queue__take(&p->asked)) || (j = queue__take(&p->done)))
		job__free(j);
	plan_cache__free(p->cache);
	if (p->fd >= 0)
		close(p->fd);
	pthread_cond_destroy(&p->wake);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

int planner__fd(const struct planner *p)
{
	return p->fd;
}

/* --- the loop's side --------------------------------------------------------------------------------------- */

uint64_t planner__ask(struct planner *p, struct target *t, const struct plan_opts *opts)
{
	struct job *j = calloc(1, sizeof(*j));

	if (j)
		j->names = names__new();
	if (!j || !j->names) {
		free(j);
		return 0;
	}
	target__hold(t);
	j->target = t;
	j->opts = *opts;
	j->is.ticket = ++p->tickets;
	p->waiting++;
	pthread_mutex_lock(&p->lock);
	queue__put(&p->asked, j);
	pthread_cond_signal(&p->wake);
	pthread_mutex_unlock(&p->lock);
	return j->is.ticket;
}

static struct job *find_job(struct job *j, uint64_t ticket)
{
	while (j && j->is.ticket != ticket)
		j = j->next;
	return j;
}

/* One that was not begun is not begun at all. */
static struct job *planner__withdraw(struct planner *p, uint64_t ticket)
{
	for (struct job **at = &p->asked.first; *at; at = &(*at)->next) {
		struct job *j = *at;

		if (j->is.ticket != ticket)
			continue;
		*at = j->next;
		if (!*at)
			p->asked.last = at;
		return j;
	}
	return NULL;
}

void planner__forget(struct planner *p, uint64_t ticket)
{
	struct job *gone, *j;

	if (!ticket)
		return;
	pthread_mutex_lock(&p->lock);
	gone = planner__withdraw(p, ticket);
	j = gone ? NULL : p->now && p->now->is.ticket == ticket ? p->now : find_job(p->done.first, ticket);
	if (j)
		j->is_forgotten = 1;
	pthread_mutex_unlock(&p->lock);
	if (gone || j)
		p->waiting--;
	job__free(gone);
}

/* Its names become the loop's. */
static void job__hand_out(struct job *j, struct names *names, struct planned *ret)
{
	if (j->is.plan && plan__rename(j->is.plan, j->names, names) < 0) {
		plan__free(j->is.plan);
		j->is.plan = NULL;
		j->is.r = err_set(&j->is.err, -ENOMEM, "out of memory");
	}
	*ret = j->is;
	j->is.plan = NULL;
	job__free(j);
}

int planner__next(struct planner *p, struct names *names, struct planned *ret)
{
	uint64_t times;

	for (;;) {
		struct job *j;

		pthread_mutex_lock(&p->lock);
		j = queue__take(&p->done);
		if (!j)
			(void)!read(p->fd, &times, sizeof(times));
		pthread_mutex_unlock(&p->lock);
		if (!j)
			return 0;
		if (j->is_forgotten) {
			job__free(j);
			continue;
		}
		p->waiting--;
		job__hand_out(j, names, ret);
		return 1;
	}
}

size_t planner__waiting(const struct planner *p)
{
	return p->waiting;
}

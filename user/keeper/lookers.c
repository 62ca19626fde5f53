/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#define LOG_MODULE "keeper"
#include "keeper/lookers.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/quota.h"
#include "keeper/serve.h"
#include "target/memory.h"

#define WATCH_NS 100000000

struct look_thread {
	struct lookers *all;
	char *answer;	   /* KEEP_READ_MAX bytes of its own: a late answer must not overwrite another one's */
	uint64_t since_ns; /* 0: it waits for a request */
	uint32_t op;
	pid_t pid, tree, tid;
};

static struct lookers {
	struct keep *k;
	pthread_mutex_t lock;
	struct look_thread *now;
	struct look_thread *left[LOOK_LEFT_MAX];
	size_t left_cnt;
} lookers = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int looker_start(struct lookers *all);

/* --- one of them --------------------------------------------------------------------------------------- */

/* The process may hold up reads of its memory, or of files that it mapped. */
static int may_be_held_up(uint32_t op)
{
	return op == KEEP_READ || op == KEEP_TEXT || op == KEEP_PAGES || op == KEEP_LIB || op == KEEP_EXE ||
	       op == KEEP_SCRIPT;
}

/* With the lock held. */
static int lookers__refuse(const struct lookers *all, const struct keep_request *q)
{
	size_t of_tree = 0;

	if (!may_be_held_up(q->op))
		return 0;
	for (size_t i = 0; i < all->left_cnt; i++) {
		if (all->left[i]->pid == q->pid)
			return 1;
		of_tree += all->left[i]->tree == q->tree;
	}
	return !quota_allows(of_tree, all->left_cnt, LOOK_LEFT_MAX, LOOK_LEFT_PART);
}

static int look_thread__begin(struct look_thread *l, const struct keep_request *q)
{
	int refuse;

	pthread_mutex_lock(&l->all->lock);
	l->since_ns = now_ns();
	l->op = q->op;
	l->pid = q->pid;
	l->tree = q->tree;
	l->tid = gettid();
	refuse = lookers__refuse(l->all, q);
	pthread_mutex_unlock(&l->all->lock);
	return refuse ? -ETIMEDOUT : 0;
}

/* 0: this thread was left behind. Else the answer is in the area, and the reply may be sent. */
static int look_thread__end(struct look_thread *l, const struct keep_reply *reply)
{
	struct lookers *all = l->all;
	size_t i = 0;
	int is_left;

	pthread_mutex_lock(&all->lock);
	while (i < all->left_cnt && all->left[i] != l)
		i++;
	is_left = i < all->left_cnt;
	if (is_left)
		all->left[i] = all->left[--all->left_cnt];
	else
		memcpy(all->k->looks.area + KEEP_ANSWER, l->answer, reply->len);
	l->since_ns = 0;
	pthread_mutex_unlock(&all->lock);
	return !is_left;
}

static void look_thread__free(struct look_thread *l)
{
	memory_done();
	free(l->answer);
	free(l);
}

static void *look(void *arg)
{
	struct look_thread *l = arg;
	struct keep *k = l->all->k;
	struct keep_request q;
	int fds[TAPS_FDS_MAX], goes_on = 1;

	while (goes_on && channel__get_request(&k->looks, &q) == 1) {
		struct keep_reply reply = { .r = look_thread__begin(l, &q) };

		if (!reply.r)
			keep__looks(k, &q, l->answer, &reply, fds);
		goes_on = look_thread__end(l, &reply) && channel__put_reply(&k->looks, &reply, fds) >= 0;
		for (uint32_t i = 0; i < reply.fds_cnt; i++)
			close(fds[i]);
	}
	look_thread__free(l);
	return NULL; /* the process ends when the probes are gone */
}

/* --- all ------------------------------------------------------------------------------------------------ */

/* With the lock held. Returns the process that holds the thread up; 0: no other thread is available, so it is waited for. */
static pid_t lookers__leave(struct lookers *all)
{
	struct keep_reply late = { .r = -ETIMEDOUT };
	struct look_thread *l = all->now;

	if (all->left_cnt == LOOK_LEFT_MAX || looker_start(all) < 0)
		return 0;
	all->left[all->left_cnt++] = l;
	(void)channel__put_reply(&all->k->looks, &late, NULL);
	return l->pid;
}

static uint64_t look_thread__limit(const struct look_thread *l)
{
	switch (l->op) {
	case KEEP_READ:
	case KEEP_PAGES:
	case KEEP_TEXT: return LOOK_READ_NS;
	case KEEP_LOCK: return UINT64_MAX; /* has its own limit */
	default: return LOOK_NS;
	}
}

/* The state: the letter after the name. */
int thread_is_runnable(pid_t tid)
{
	char path[64], text[512];
	const char *at;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	at = strrchr(text, ')');
	return at && at[1] && at[2] == 'R';
}

static int look_thread__is_late(const struct look_thread *l)
{
	uint64_t took = now_ns() - l->since_ns, limit = look_thread__limit(l);

	return l->since_ns && took > limit && (took / LOOK_BUSY_TIMES > limit || !thread_is_runnable(l->tid));
}

static void *watch(void *arg)
{
	struct timespec pause = { .tv_nsec = WATCH_NS };
	struct lookers *all = arg;

	for (;;) {
		pid_t pid = 0;

		nanosleep(&pause, NULL);
		wards__turn(all->k->wards);
		pthread_mutex_lock(&all->lock);
		if (look_thread__is_late(all->now))
			pid = lookers__leave(all);
		pthread_mutex_unlock(&all->lock);
		if (pid) /* without the lock: stderr may block */
			log_warn("process %d holds up who looks at it: its memory is not read for now", (int)pid);
	}
	return NULL;
}

static int start_detached(void *(*main)(void *arg), void *arg)
{
	pthread_t thread;
	int e = pthread_create(&thread, NULL, main, arg);

	if (!e)
		pthread_detach(thread);
	return -e;
}

static int looker_start(struct lookers *all)
{
	struct look_thread *l = calloc(1, sizeof(*l)), *before = all->now;
	int r;

	if (!l)
		return -ENOMEM;
	l->all = all;
	l->answer = malloc(KEEP_READ_MAX);
	all->now = l;
	r = l->answer ? start_detached(look, l) : -ENOMEM;
	if (r < 0) {
		all->now = before;
		look_thread__free(l);
	}
	return r;
}

int lookers_start(struct keep *k)
{
	int r;

	lookers.k = k;
	r = looker_start(&lookers);
	return r < 0 ? r : start_detached(watch, &lookers);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * What it costs to learn whose the pages of a large process are, and for how long the process is held up meanwhile: by
 * smaps_rollup, and by a count of its pages (target/pages.h), whole and without a rest. Arguments: MiB (2048 if there are
 * none).
 *
 * The process is a forked child that has copied a quarter of what it has from its parent, all of it small pages. It maps,
 * touches and unmaps a page every 0.1 ms and keeps the longest time that took. Both are real-time tasks, each on a CPU of
 * its own, so that what is measured is the wait for the lock, not for a CPU; the first line is without a reader. Needs root
 * and two CPUs.
 */
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "memtrace/event.h"
#include "target/pages.h"
#include "target/target.h"

#define READINGS 5
#define REST_US 50000
#define LONG_NS 1000000u

struct waits {
	volatile uint64_t longest_ns, long_cnt, cnt, sum_ns;
};

enum way { NOBODY, ROLLUP, PAGES, WAYS };

static uint64_t clock_at(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void be_alone_on(int cpu)
{
	struct sched_param how = { .sched_priority = 10 };
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0 || sched_setscheduler(0, SCHED_FIFO, &how) < 0) {
		perror("bench_pages: two CPUs and the right to a real-time task are needed");
		exit(1);
	}
}

static void be_held_up(struct waits *w)
{
	for (;;) {
		uint64_t begin, took;
		char *page;

		usleep(100);
		begin = clock_at(CLOCK_MONOTONIC);
		page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (page == MAP_FAILED)
			_exit(1);
		*page = 1;
		munmap(page, 4096);
		took = clock_at(CLOCK_MONOTONIC) - begin;
		w->longest_ns = took > w->longest_ns ? took : w->longest_ns;
		w->long_cnt += took > LONG_NS;
		w->sum_ns += took;
		w->cnt++;
	}
}

static pid_t start(size_t len, struct waits *w)
{
	char *all = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	if (all == MAP_FAILED || madvise(all, len, MADV_NOHUGEPAGE)) {
		perror("bench_pages: memory");
		exit(1);
	}
	memset(all, 1, len);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		be_alone_on(0);
		memset(all, 2, len / 4);
		be_held_up(w);
	}
	while (!w->cnt)
		usleep(1000);
	return pid;
}

/* Private bytes; 0: they could not be read. */
static uint64_t read_by(enum way way, const struct target *t)
{
	uint64_t use[MT_USES] = { 0 }, own = 0;
	struct pages_walk *w;

	if (way == NOBODY)
		usleep(REST_US);
	if (way == ROLLUP)
		return target__use(t, use) ? 0 : use[MT_USE_PRIVATE];
	if (way == PAGES && !pages_walk__new(&w, t)) {
		own = pages_walk__go(w, UINT64_MAX, &own) == 1 ? own : 0;
		pages_walk__free(w);
	}
	return own;
}

static void measure(enum way way, const struct target *t, struct waits *w)
{
	static const char *const names[WAYS] = { "nobody reads", "smaps_rollup", "pages counted" };
	uint64_t wall = 0, cpu = 0, private = 0;

	*w = (struct waits){ 0 };
	for (int i = 0; i < READINGS; i++) {
		uint64_t wall_at = clock_at(CLOCK_MONOTONIC), cpu_at = clock_at(CLOCK_THREAD_CPUTIME_ID);

		private = read_by(way, t);
		cpu += clock_at(CLOCK_THREAD_CPUTIME_ID) - cpu_at;
		wall += clock_at(CLOCK_MONOTONIC) - wall_at;
		usleep(REST_US);
	}
	printf("  %-14s %8.2f ms, %8.2f ms of CPU a reading; "
	       "waits: longest %7.2f ms, %3llu above 1 ms, mean %5.1f us; private %llu MiB\n",
	       names[way], (double)wall / READINGS / 1e6, (double)cpu / READINGS / 1e6, (double)w->longest_ns / 1e6,
	       (unsigned long long)w->long_cnt, w->cnt ? (double)w->sum_ns / (double)w->cnt / 1e3 : 0,
	       (unsigned long long)(private >> 20));
}

static void of_size(size_t mib)
{
	struct waits *w = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = start(mib << 20, w);
	struct target *t;

	be_alone_on(1);
	if (target__open_bare(&t, pid, NULL, NULL) < 0)
		exit(1);
	printf("%zu MiB\n", mib);
	for (enum way way = NOBODY; way < WAYS; way++)
		measure(way, t, w);
	target__free(t);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		of_size(2048);
	for (int i = 1; i < argc; i++) {
		pid_t pid = fork(); /* what it has goes with it */

		if (!pid) {
			of_size(strtoul(argv[i], NULL, 10));
			return 0;
		}
		waitpid(pid, NULL, 0);
	}
	return 0;
}

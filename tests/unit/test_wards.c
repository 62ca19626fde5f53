/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Whom the keeper serves: those that were named, what descends from them whoever takes it over, jobs where all were asked for;
 * nobody else, whoever has whose number. Each with the kernel's records of forks (root), and by parents alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "keeper/wards.h"
#include "target/sideband.h"

#define TICK_US 20000 /* when a process began is told in ticks of 10 ms */

/* Until it is killed; whatever fails, not for good. */
static void sleep_on(void)
{
	alarm(120);
	for (;;)
		pause();
}

static pid_t start_sleeper(void)
{
	pid_t pid = fork();

	if (!pid)
		sleep_on();
	assert_true(pid > 0);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

static int check(struct wards *w, pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0), r;

	assert_true(fd >= 0);
	r = wards__check(w, pid, fd);
	close(fd);
	return r;
}

static struct wards *wards_of(pid_t pid, int children, int jobs)
{
	struct wards *w;

	assert_int_equal(wards__new(&w, &(struct wards_opts){ .pids = &pid, .pids_cnt = pid != 0, .children = children,
							       .jobs = jobs }), 0);
	return w;
}

/* On request it forks a child that waits and tells its pid; or one that forks such a one, and ends. */
struct parent {
	pid_t pid;
	int ask[2], say[2];
};

static void parent_main(const struct parent *p)
{
	char how;

	alarm(120);
	while (read(p->ask[0], &how, 1) == 1) {
		pid_t pid = fork();

		if (!pid && how == 'o') {
			pid = start_sleeper();
			_exit(write(p->say[1], &pid, sizeof(pid)) != sizeof(pid));
		}
		if (!pid)
			sleep_on();
		if (how == 'o')
			(void)waitpid(pid, NULL, 0);
		else if (write(p->say[1], &pid, sizeof(pid)) != sizeof(pid))
			break;
	}
	_exit(0);
}

static struct parent start_parent(void)
{
	struct parent p;

	assert_true(!pipe(p.ask) && !pipe(p.say));
	p.pid = fork();
	if (!p.pid)
		parent_main(&p);
	return p;
}

static pid_t parent__fork(struct parent *p, char how)
{
	pid_t pid = 0;

	assert_int_equal(write(p->ask[1], &how, 1), 1);
	assert_int_equal(read(p->say[0], &pid, sizeof(pid)), sizeof(pid));
	return pid;
}

static void parent__end(struct parent *p)
{
	end(p->pid);
	for (int i = 0; i < 2; i++) {
		close(p->ask[i]);
		close(p->say[i]);
	}
}

/* Of no child of ours: somebody else reaps it. */
static void await_end(pid_t pid)
{
	for (int i = 0; i < 20000 && !kill(pid, 0); i++)
		usleep(1000);
}

static void await_orphan(pid_t pid, pid_t parent)
{
	char path[40], text[512];

	for (int i = 0; i < 20000; i++, usleep(1000)) {
		FILE *f;
		int ppid = 0;

		snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
		f = fopen(path, "re");
		if (f && fgets(text, sizeof(text), f))
			(void)sscanf(strrchr(text, ')') + 1, " %*c %d", &ppid);
		if (f)
			fclose(f);
		if (ppid && ppid != parent)
			return;
	}
	fail_msg("%d is still a child of %d", (int)pid, (int)parent);
}

/* --- tests, each with and without records ----------------------------------------------------------------- */

static int has_records(void)
{
	struct sideband *s;

	if (sideband__open_forks(&s, 1, NULL) < 0)
		return 0;
	sideband__free(s);
	return 1;
}

static void the_named_and_their_descendants(void)
{
	struct parent p = start_parent();
	pid_t before = parent__fork(&p, 'c'), stranger = start_sleeper(), after, self = getpid();
	struct wards *w = wards_of(p.pid, 1, 0);

	after = parent__fork(&p, 'c');
	assert_int_equal(check(w, p.pid), 0);
	assert_int_equal(check(w, before), 0);
	assert_int_equal(check(w, after), 0);
	assert_int_equal(check(w, stranger), -EPERM);
	assert_int_equal(check(w, self), -EPERM); /* its parent */
	assert_int_equal(check(w, 1), -EPERM);
	assert_int_equal(wards__check(w, 0, 0), -ESRCH);
	parent__end(&p); /* whom they have lost */
	assert_int_equal(check(w, before), 0);
	assert_int_equal(check(w, after), 0);
	wards__free(w);
	end(before);
	end(after);
	end(stranger);
}

static void without_children_the_named_alone(void)
{
	struct parent p = start_parent();
	pid_t before = parent__fork(&p, 'c'), after;
	struct wards *w = wards_of(p.pid, 0, 0);

	after = parent__fork(&p, 'c');
	assert_int_equal(check(w, p.pid), 0);
	assert_int_equal(check(w, before), -EPERM);
	assert_int_equal(check(w, after), -EPERM);
	wards__free(w);
	parent__end(&p);
	end(before);
	end(after);
}

/* A file that is called like a job's library. */
static pid_t start_job(void)
{
	char path[] = "/tmp/libcudart-XXXXXX";
	int fd = mkstemp(path), said[2];
	pid_t pid;
	char byte = 0;

	assert_true(fd >= 0 && !pipe(said) && write(fd, "some code", 9) == 9 && !fchmod(fd, 0700));
	pid = fork();
	if (!pid) {
		void *map = mmap(NULL, 9, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

		byte = map != MAP_FAILED;
		if (write(said[1], &byte, 1) == 1)
			sleep_on();
		_exit(1);
	}
	assert_int_equal(read(said[0], &byte, 1), 1);
	assert_int_equal(byte, 1);
	unlink(path);
	close(fd);
	close(said[0]);
	close(said[1]);
	return pid;
}

static void of_all_only_jobs(void)
{
	pid_t job = start_job(), stranger = start_sleeper();
	struct wards *w = wards_of(0, 1, 1), *named = wards_of(stranger, 1, 0);

	assert_int_equal(check(w, job), 0);
	assert_int_equal(check(w, stranger), -EPERM);
	assert_int_equal(check(w, getpid()), -EPERM);
	assert_int_equal(check(named, job), -EPERM); /* nobody asked for jobs */
	wards__free(w);
	wards__free(named);
	end(job);
	end(stranger);
}

/* -1: we may not choose numbers. */
static pid_t start_with_number(pid_t pid)
{
	struct clone_args a = { .exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&pid, .set_tid_size = 1 };
	pid_t r = (pid_t)syscall(SYS_clone3, &a, sizeof(a));

	if (!r)
		sleep_on();
	return r;
}

/* As a process, and as a thread of one (whose pidfd there is none of). */
static void a_number_is_its_owners(void)
{
	pid_t ward = start_sleeper(), stranger;
	struct wards *w = wards_of(ward, 1, 0);
	int old_fd = (int)syscall(SYS_pidfd_open, ward, 0);

	assert_int_equal(wards__check(w, ward, old_fd), 0);
	end(ward);
	usleep(TICK_US);
	stranger = start_with_number(ward);
	if (stranger > 0) {
		assert_int_equal(stranger, ward);
		assert_int_equal(check(w, stranger), -EPERM);
		assert_int_equal(wards__check(w, stranger, old_fd), -ESRCH);
		end(stranger);
	}
	close(old_fd);
	wards__free(w);
}

/* Every number was a ward's once, and what is not known is looked for: that is about those that live. */
static void the_dead_cost_nothing(void)
{
	static pid_t all[(1u << 22) - 1];
	struct wards_opts opts = { .pids = all, .pids_cnt = sizeof(all) / sizeof(all[0]), .children = 1 };
	struct timespec begin, end;
	struct wards *w;

	for (size_t i = 0; i < opts.pids_cnt; i++)
		all[i] = (pid_t)i + 1;
	assert_int_equal(wards__new(&w, &opts), 0);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
	assert_int_equal(check(w, getpid()), 0);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
	assert_true(end.tv_sec * 1000 + end.tv_nsec / 1000000 < begin.tv_sec * 1000 + begin.tv_nsec / 1000000 + 500);
	wards__free(w);
}

static void all_of_these(void)
{
	the_dead_cost_nothing();
	the_named_and_their_descendants();
	without_children_the_named_alone();
	of_all_only_jobs();
	a_number_is_its_owners();
}

static void with_records(void **state)
{
	(void)state;
	if (!has_records())
		skip(); /* needs root */
	all_of_these();
}

/* In a child without the right to have any. */
static void by_parents_alone(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (!pid) {
		if (!getuid() && (setgid(65534) || setuid(65534)))
			_exit(2);
		prctl(PR_SET_DUMPABLE, 1); /* as any program of that user */
		if (has_records())
			_exit(77);
		all_of_these();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip(); /* a machine that shows them to everybody */
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
}

/* --- what takes records ------------------------------------------------------------------------------------ */

/* One whose parent has ended before anybody asked: a daemon. */
static void orphans_stay_wards(void **state)
{
	struct parent p, other;
	pid_t orphan, foreign;
	struct wards *w;

	(void)state;
	if (!has_records())
		skip();
	p = start_parent();
	other = start_parent();
	w = wards_of(p.pid, 1, 0);
	orphan = parent__fork(&p, 'o');
	foreign = parent__fork(&other, 'o');
	await_orphan(orphan, p.pid);
	assert_int_equal(check(w, orphan), 0);
	assert_int_equal(check(w, foreign), -EPERM);
	wards__free(w);
	parent__end(&p);
	parent__end(&other);
	kill(orphan, SIGKILL);
	kill(foreign, SIGKILL);
}

static void come_and_go(void)
{
	pid_t pid = vfork();

	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
}

/* More forks than a ring holds, while nobody reads; among those that are lost is one that gets a ward's number. */
static void what_was_lost_is_looked_for(void **state)
{
	struct parent p;
	pid_t known, ended, unknown, stranger;
	struct wards *w;
	cpu_set_t mine, one;

	(void)state;
	if (!has_records())
		skip();
	p = start_parent();
	w = wards_of(p.pid, 1, 0);
	known = parent__fork(&p, 'c');
	ended = parent__fork(&p, 'o');
	assert_int_equal(check(w, known), 0);
	assert_int_equal(check(w, ended), 0);
	kill(ended, SIGKILL);
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	assert_true(!sched_getaffinity(0, sizeof(mine), &mine) && !sched_setaffinity(0, sizeof(one), &one));
	for (int i = 0; i < 2 * 2400; i++)
		come_and_go();
	await_end(ended);
	stranger = start_with_number(ended);
	assert_true(stranger == ended || (stranger < 0 && errno == EPERM));
	stranger = stranger < 0 ? start_sleeper() : stranger;
	assert_int_equal(sched_setaffinity(0, sizeof(mine), &mine), 0);
	unknown = parent__fork(&p, 'c');
	assert_int_equal(check(w, stranger), -EPERM);
	assert_int_equal(check(w, unknown), 0);
	assert_int_equal(check(w, known), 0);
	assert_int_equal(check(w, p.pid), 0);
	end(known);
	wards__free(w);
	parent__end(&p);
	end(unknown);
	end(stranger);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_records),
		cmocka_unit_test(by_parents_alone),
		cmocka_unit_test(orphans_stay_wards),
		cmocka_unit_test(what_was_lost_is_looked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The looking half forks a keeper that serves all jobs, where we may trace others' processes; else it looks with our own
 * rights, and another user's Python is a row that says so. Rows come over a pipe, all of one size.
 *
 * Whether another memtrace traces a process is read from the locks first, then, in the half with the right, from the kernel's
 * probes.
 */
#define LOG_MODULE "survey"
#include "live/survey.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/asker.h"
#include "base/clock.h"
#include "base/err.h"
#include "event/rank_label.h"
#include "keeper/keeper.h"
#include "live/lock.h"
#include "plan/plan.h"
#include "target/door.h"
#include "target/jobs.h"
#include "target/kin.h"
#include "target/proc_io.h"
#include "target/proc_text.h"
#include "target/target.h"
#include "target/torch_version.h"
#include "trace/others.h"

#define TIME_NS (30 * NS_PER_S)

struct survey_look {
	const char *name;
	int may_look, out_fd;
	uint64_t unseen, sent, more;
};

/* Follows the rows. */
struct look_end {
	uint64_t unseen, more;
};

/* --- one process --------------------------------------------------------------------------------------------- */

static void copy_text(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%.*s", (int)size - 1, from);
}

/* The text, or the end of a path: train.py of /home/me/train.py. */
static int is_named(const char *cmdline, const char *comm, const char *name)
{
	size_t len = strlen(name), word;

	if (!strcmp(comm, name))
		return 1;
	for (const char *p = cmdline; *p; p += word + (p[word] == ' ')) {
		word = strcspn(p, " ");
		if (word >= len && !strncmp(p + word - len, name, len) && (word == len || p[word - len - 1] == '/'))
			return 1;
	}
	return 0;
}

/* The number after a key of /proc/PID/status; 0: there is no such line. */
static uint64_t status_number(const char *text, const char *line)
{
	const char *at = strstr(text, line);

	return at ? strtoull(at + strlen(line), NULL, 10) : 0;
}

/* What is readable for every user. 0 or -errno. */
static int look_from_outside(struct survey_job *j, pid_t pid)
{
	int fd = door_file(pid, DOOR_STATUS), r;
	char *text;
	size_t len;

	if (fd < 0)
		return fd;
	r = proc_read_fd(fd, 64 << 10, &text, &len);
	close(fd);
	if (r < 0)
		return r;
	*j = (struct survey_job){ .pid = (uint32_t)pid, .rank = -1, .world = -1 };
	j->ppid = (uint32_t)status_number(text, "\nPPid:");
	j->uid = (uint32_t)status_number(text, "\nUid:");
	j->rss = status_number(text, "\nVmRSS:") << 10;
	free(text);
	return 0;
}

static void read_version(struct survey_job *j, const struct target *t, const struct lib *lib)
{
	char path[PATH_MAX], text[TORCH_VERSION_FILE_BYTES];
	struct door_script at;
	int n;

	if (lib->deleted || torch_version_file(lib->path, path, sizeof(path)))
		n = -ENOENT;
	else
		n = door_script(target__pid(t), path, 0, text, sizeof(text), &at);
	if (n < 0 || torch_version_parse(text, (size_t)n, j->torch))
		(void)torch_version_of_name(lib->path, j->torch);
}

static void look_at_libs(struct survey_job *j, const struct target *t)
{
	const struct lib *libs;
	size_t cnt = target__libs(t, &libs);
	const char *layout;

	for (size_t i = 0; i < cnt && !j->has_torch; i++)
		if (!strncmp(libs[i].base, "libtorch_cpu.so", strlen("libtorch_cpu.so"))) {
			j->has_torch = 1;
			read_version(j, t, &libs[i]);
		}
	layout = j->torch[0] ? flow_layout_of(j->torch) : NULL;
	if (layout)
		copy_text(j->layout, sizeof(j->layout), layout);
}

static void look_at_rank(struct survey_job *j, const struct target *t)
{
	struct rank_label label = { 0 };
	const char *const *labels;
	size_t cnt = target__labels(t, &labels);
	uint32_t rank;

	for (size_t i = 0; i < cnt; i++)
		rank_label__add(&label, labels[i]);
	if (rank_label__rank(&label, &rank) == RANK_NONE)
		return;
	j->rank = rank;
	j->world = rank_label__num(&label, RANK_WORLD);
}

/* 0: it has ended, or is not to be looked at after all. */
static int look_inside(struct survey_job *j, const struct survey_look *l)
{
	struct target *t;
	struct err err = { 0 };

	if (target__open(&t, (pid_t)j->pid, &err) < 0)
		return 0;
	j->is_seen = 1;
	copy_text(j->comm, sizeof(j->comm), target__comm(t));
	copy_text(j->cmdline, sizeof(j->cmdline), target__cmdline(t));
	j->is_named = l->name && is_named(target__cmdline(t), j->comm, l->name);
	look_at_libs(j, t);
	look_at_rank(j, t);
	j->is_traced = (uint8_t)lock_is_held((pid_t)j->pid, target__start_ns(t));
	target__free(t);
	return 1;
}

/* --- all processes -------------------------------------------------------------------------------------------- */

static int send_row(struct survey_look *l, const struct survey_job *j)
{
	if (l->sent == SURVEY_JOBS_MAX) {
		l->more++;
		return 0;
	}
	l->sent++;
	return write(l->out_fd, j, sizeof(*j)) == sizeof(*j) ? 0 : -EPIPE; /* less than PIPE_BUF: written whole or not at all */
}

_Static_assert(sizeof(struct survey_job) <= PIPE_BUF, "a row is written whole");
_Static_assert(sizeof(struct survey_job) != sizeof(struct look_end), "the end is told from a row by its size");

/* A process of another user: a Python may be a job. */
static int look_at_stranger(struct survey_look *l, struct survey_job *j)
{
	char text[SURVEY_CMDLINE_BYTES];
	const char *slash, *base;
	uint64_t start_ns;
	size_t len = 0;
	pid_t ppid;

	if (door_own.text(NULL, (pid_t)j->pid, DOOR_CMDLINE, text, sizeof(text), &len) || !len || !j->rss)
		return 0; /* it has ended, or is the kernel's */
	cmdline_join(text, len, j->cmdline, sizeof(j->cmdline));
	slash = memrchr(text, '/', strnlen(text, len));
	base = slash ? slash + 1 : text;
	if (strncmp(base, "python", strlen("python")) && strncmp(base, "torchrun", strlen("torchrun"))) {
		l->unseen++;
		return 0;
	}
	j->is_named = l->name && is_named(j->cmdline, "", l->name);
	j->is_traced = !process_origin((pid_t)j->pid, &ppid, &start_ns) && lock_is_held((pid_t)j->pid, start_ns);
	return send_row(l, j);
}

static int look_at(void *ctx, pid_t pid)
{
	struct survey_look *l = ctx;
	struct survey_job j;
	int found, fd;

	if (pid == getpid() || pid == getppid())
		return 0;
	found = job_check(pid);
	if (found > 0 && !look_from_outside(&j, pid) && look_inside(&j, l))
		return send_row(l, &j);
	if (found == -E2BIG && !look_from_outside(&j, pid)) {
		j.is_cut = j.is_seen = 1;
		return send_row(l, &j);
	}
	if (found || l->may_look)
		return 0;
	fd = door_file(pid, DOOR_MAPS);
	if (fd >= 0)
		close(fd);
	if ((fd != -EACCES && fd != -EPERM) || look_from_outside(&j, pid))
		return 0;
	return look_at_stranger(l, &j);
}

/* The process that looks. */
static int look_for_jobs(struct survey_look *l, const struct asker *as, struct err *err)
{
	struct keeper *k = NULL;
	struct look_end end;
	int r;

	if (l->may_look)
		r = keeper__start(&k, &(struct keeper_opts){ .as = as, .wards = { .jobs = 1 } }, err);
	else
		r = privs_drop();
	if (!r)
		r = processes_each(look_at, l);
	keeper__free(k);
	end = (struct look_end){ .unseen = l->unseen, .more = l->more };
	if (!r && write(l->out_fd, &end, sizeof(end)) != sizeof(end))
		r = -EPIPE;
	return r;
}

static void run_look(struct survey_look *l, const struct asker *as)
{
	struct err err = { 0 };
	int r = look_for_jobs(l, as, &err);

	if (r < 0 && err.msg[0])
		fprintf(stderr, "memtrace: %s\n", err.msg);
	_exit(r < 0);
}

/* --- the caller's half --------------------------------------------------------------------------------------- */

/* Reads bytes until the end or until the time is over: 0, -EIO: it ended early, -ETIMEDOUT. */
static int read_rows(int fd, struct survey *s)
{
	size_t cap = 64, have = 0, size = sizeof(struct survey_job), bytes = 0;
	uint64_t begin = now_ns(), now;
	struct look_end end;
	char *all = malloc(cap * size);
	ssize_t n = 1;

	while (all && n) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		now = now_ns();
		if (now - begin >= TIME_NS || poll(&p, 1, (int)((TIME_NS - (now - begin)) / 1000000) + 1) == 0) {
			free(all);
			return -ETIMEDOUT;
		}
		if (bytes + size > cap * size) {
			char *larger = cap < 2 * SURVEY_JOBS_MAX ? realloc(all, 2 * cap * size) : NULL;

			if (!larger)
				break;
			all = larger;
			cap *= 2;
		}
		n = read(fd, all + bytes, cap * size - bytes);
		if (n < 0 && errno != EINTR)
			break;
		bytes += n > 0 ? (size_t)n : 0;
		n = n < 0 ? 1 : n;
	}
	have = bytes / size;
	if (!all || n || bytes % size != sizeof(end)) {
		free(all);
		return all ? -EIO : -ENOMEM;
	}
	memcpy(&end, all + have * size, sizeof(end));
	*s = (struct survey){ .jobs = (struct survey_job *)(void *)all, .cnt = have, .more = end.more, .unseen = end.unseen };
	return 0;
}

/* Ends each text with a NUL, whatever was sent. */
static void end_texts(const struct survey *s)
{
	for (size_t i = 0; i < s->cnt; i++) {
		struct survey_job *j = &s->jobs[i];

		j->comm[sizeof(j->comm) - 1] = j->cmdline[sizeof(j->cmdline) - 1] = '\0';
		j->torch[sizeof(j->torch) - 1] = j->layout[sizeof(j->layout) - 1] = '\0';
	}
}

static int by_size(const void *pa, const void *pb)
{
	const struct survey_job *a = pa, *b = pb;

	return cmp_down(a->is_seen, b->is_seen) ?: cmp_down(a->rss, b->rss) ?: cmp_up(a->pid, b->pid);
}

static struct survey_job *find(const struct survey *s, uint32_t pid)
{
	for (size_t i = 0; i < s->cnt; i++)
		if (s->jobs[i].pid == pid)
			return &s->jobs[i];
	return NULL;
}

/* A child that runs the same command was forked and never ran another one. */
static void count_forks(const struct survey *s)
{
	for (size_t i = 0; i < s->cnt; i++) {
		struct survey_job *j = &s->jobs[i], *of = find(s, j->ppid), *up;

		if (!of || !j->cmdline[0] || strcmp(j->cmdline, of->cmdline))
			continue;
		j->is_fork = 1;
		for (int n = 0; n < 64 && (up = find(s, of->ppid)) && !strcmp(up->cmdline, of->cmdline); n++)
			of = up;
		of->forks++;
	}
}

static void name_users(const struct survey *s)
{
	for (size_t i = 0; i < s->cnt; i++) {
		const struct passwd *p = getpwuid(s->jobs[i].uid);

		if (p)
			copy_text(s->jobs[i].user, sizeof(s->jobs[i].user), p->pw_name);
		else
			snprintf(s->jobs[i].user, sizeof(s->jobs[i].user), "%u", s->jobs[i].uid);
	}
}

/* Done by this process, which may have the right; another user's memtrace has its lock where we do not look. */
static void ask_kernel(const struct survey *s)
{
	for (size_t i = 0; i < s->cnt; i++)
		if (!s->jobs[i].is_traced)
			s->jobs[i].is_traced = (uint8_t)others_trace((pid_t)s->jobs[i].pid);
}

static int survey_read(struct survey *ret, struct survey_look *l, const struct asker *as)
{
	int ends[2], r, status;
	pid_t pid;

	fflush(NULL);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (!pid) {
		close(ends[0]);
		l->out_fd = ends[1];
		run_look(l, as);
	}
	close(ends[1]);
	r = pid < 0 ? -errno : read_rows(ends[0], ret);
	close(ends[0]);
	if (pid > 0) {
		if (r == -ETIMEDOUT)
			(void)kill(pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	return r;
}

int survey_make(struct survey *ret, const struct asker *as, int may_look, const char *name, struct err *err)
{
	struct survey_look l = { .name = name, .may_look = may_look };
	int r = survey_read(ret, &l, as);

	if (r == -ETIMEDOUT) {
		err_set(err, r, "looking at all processes took longer than %d s", (int)(TIME_NS / NS_PER_S));
		return err_hint(err, "name the process: memtrace -p PID");
	}
	if (r < 0)
		return err_set(err, r, "looking for jobs: %s", strerror(-r));
	ret->may_look = may_look;
	end_texts(ret);
	qsort(ret->jobs, ret->cnt, sizeof(*ret->jobs), by_size);
	count_forks(ret);
	name_users(ret);
	ask_kernel(ret);
	return 0;
}

void survey__done(struct survey *s)
{
	free(s->jobs);
	*s = (struct survey){ 0 };
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* A process through /proc: its identity, as of open, and its memory. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/err.h"
#include "target/container.h"
#include "target/target_state.h"

#define ENVIRON_BYTES_MAX DOOR_TEXT_MAX

/* /proc/TID exists for every thread, but is not a process of its own. */
static int target__check_leader(const struct target *t, struct err *err)
{
	char *text, *at;
	size_t len;
	int r = target__read_file(t, DOOR_STATUS, 64 << 10, &text, &len);
	long tgid;

	if (r < 0)
		return target__fail(t, r, "status", err);
	at = strstr(text, "\nTgid:");
	tgid = at ? strtol(at + 6, NULL, 10) : t->pid;
	free(text);
	if (tgid == t->pid)
		return 0;
	err_set(err, -ESRCH, "%d is a thread, not a process", (int)t->pid);
	return err_hint(err, "it belongs to process %ld: -p %ld", tgid, tgid), -ESRCH;
}

static int label_add(void *ctx, const char *label)
{
	struct target *t = ctx;

	if (t->labels_cnt == TARGET_LABELS_MAX)
		return 1;
	t->labels[t->labels_cnt] = strdup(label);
	if (!t->labels[t->labels_cnt])
		return -ENOMEM;
	t->labels_cnt++;
	return 0;
}

/* Its rank and its container. A cgroup's name has 4 KiB at most, v1 a dozen of them. */
static int target__read_labels(struct target *t, const char *env, size_t env_len)
{
	struct container c;
	char *text;
	size_t len;
	int r = environ_labels(env, env_len, label_add, t);

	if (r || target__read_file(t, DOOR_CGROUP, 64 << 10, &text, &len) < 0)
		return r;
	if (container_of(text, len, &c))
		r = container_labels(&c, env, env_len, label_add, t);
	free(text);
	return r;
}

/* A process that hides something ("?", no labels) is followed all the same. */
static int target__read_strings(struct target *t, struct err *err)
{
	char *text;
	size_t len;
	int r = target__read_file(t, DOOR_CMDLINE, CMDLINE_BYTES_MAX, &text, &len);

	if (r < 0 && r != -ETIMEDOUT)
		return target__fail(t, r, "cmdline", err);
	snprintf(t->cmdline, sizeof(t->cmdline), "?");
	if (!r) {
		cmdline_join(text, len, t->cmdline, sizeof(t->cmdline));
		free(text);
	}
	r = target__read_file(t, DOOR_ENVIRON, ENVIRON_BYTES_MAX, &text, &len);
	if (r == -ETIMEDOUT)
		return 0;
	if (r < 0)
		return target__fail(t, r, "environ", err);
	t->is_early = !len && !t->cmdline[0];
	r = target__read_labels(t, text, len);
	free(text);
	return r < 0 ? err_set(err, r, "out of memory") : 0;
}

/* The process of the pidfd has not ended, so its number belongs to no other. */
static int target__has_pid(const struct target *t)
{
	struct pollfd p = { .fd = t->pidfd, .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}

int target__read_ranges(const struct target *t, const struct iovec *ranges, size_t cnt, void *buf, size_t len)
{
	int r = door_read(t->pid, ranges, cnt, buf, len);

	if (target__has_pid(t)) /* then it also had it while we read */
		return r;
	memset(buf, 0, len);
	return -ESRCH;
}

int target__read(const struct target *t, uint64_t addr, void *buf, size_t len)
{
	struct iovec there = { (void *)(uintptr_t)addr, len };

	return target__read_ranges(t, &there, 1, buf, len);
}

/* Addresses that the kernel chose for this program: different after each exec. */
static int target__read_auxv(const struct target *t, uint8_t *ret, size_t *ret_len)
{
	char *text;
	size_t len;
	int r = target__read_file(t, DOOR_AUXV, AUXV_BYTES_MAX, &text, &len);

	if (r < 0)
		return r;
	memcpy(ret, text, len);
	*ret_len = len;
	free(text);
	return 0;
}

int target__has_execed(const struct target *t)
{
	uint8_t now[AUXV_BYTES_MAX];
	size_t len;

	return t->auxv_len && target__read_auxv(t, now, &len) == 0 && len &&
	       (len != t->auxv_len || memcmp(now, t->auxv, len));
}

int target__open_bare(struct target **ret, pid_t pid, const struct target *parent, struct err *err)
{
	struct target *t;
	char path[32];
	int r;

	if (pid <= 0)
		return target__no_such(pid, err);
	t = calloc(1, sizeof(*t));
	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	t->pid = pid;
	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	t->dirfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	t->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	/* Read after both are open: then they are of one process. No directory: it does not exist, or is hidden from us. */
	r = target__stat(t, &t->stat);
	if (r == 0)
		r = target__check_leader(t, err);
	else
		r = target__fail(t, r, "stat", err);
	if (r == 0 && t->pidfd < 0)
		r = err_set(err, -ESRCH, "process %d has just ended", (int)pid);
	if (r == 0)
		r = target__read_strings(t, err);
	if (r == 0 && parent && target__see_as(t, parent) < 0)
		r = err_set(err, -ENOMEM, "out of memory");
	if (r == 0)
		(void)target__read_auxv(t, t->auxv, &t->auxv_len); /* without it an exec that was not reported goes unnoticed */
	if (r < 0) {
		target__free(t);
		return r;
	}
	*ret = t;
	return 0;
}

int target__open(struct target **ret, pid_t pid, struct err *err)
{
	struct target *t;
	int r = target__open_bare(&t, pid, NULL, err);

	if (r < 0)
		return r;
	r = target__refresh(t, err);
	if (r < 0) {
		target__free(t);
		return r;
	}
	*ret = t;
	return 0;
}

void target__hold(struct target *t)
{
	t->holders++;
}

void target__free(struct target *t)
{
	if (!t || t->holders) {
		if (t)
			t->holders--;
		return;
	}
	if (t->dirfd >= 0)
		close(t->dirfd);
	if (t->pidfd >= 0)
		close(t->pidfd);
	for (size_t i = 0; i < t->labels_cnt; i++)
		free(t->labels[i]);
	target__drop_libs(t);
	free(t);
}

pid_t target__pid(const struct target *t)
{
	return t->pid;
}

pid_t target__ppid(const struct target *t)
{
	return t->stat.ppid;
}

const char *target__comm(const struct target *t)
{
	return t->stat.comm;
}

const char *target__cmdline(const struct target *t)
{
	return t->cmdline;
}

uint64_t target__start_ns(const struct target *t)
{
	return proc_ticks_ns(t->stat.start_ticks);
}

int target__is_early(const struct target *t)
{
	return t->is_early;
}

size_t target__labels(const struct target *t, const char *const **ret)
{
	*ret = (const char *const *)t->labels;
	return t->labels_cnt;
}




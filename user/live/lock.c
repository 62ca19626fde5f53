/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * How a process is named: pids are those of our namespace, and two memtraces in different ones may share the directory. From
 * 6.9 on a pidfd has an inode of its own, one per process and boot; before that, the name is our namespace's number, the pid
 * and the start time of the process.
 *
 * Files are not removed when a lock is released: the holder of the descriptor may have no right to by then. The next memtrace
 * removes those that nobody holds. So a lock counts only while its file still has its name.
 */
#define LOG_MODULE "lock"
#include "live/lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "target/kin.h"
#include "trace/others.h"

#ifndef PID_FS_MAGIC
#define PID_FS_MAGIC 0x50494446
#endif

#define TRY_EVERY_NS 10000000
#define LOOK_EVERY_NS 100000000
#define TRIES_MIN 3 /* a memtrace that removes old files holds each for a moment */
#define SAY_AFTER_NS 1000000000ull

/* --- the directory ------------------------------------------------------------------------------------- */

int lock_dir_open(const char *path)
{
	int fd, is_new = !mkdir(path, 0755);
	struct stat st;

	if (!is_new && errno != EEXIST)
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (is_new) /* whatever root's umask is: other users' sockets are in /run/memtrace, too */
		(void)fchmod(fd, 0755);
	if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH)) {
		close(fd);
		return -EPERM;
	}
	return fd;
}

/* 1: the descriptor has the lock, and the file still has its name. */
static int has_lock(int dir_fd, int fd, const char *name)
{
	struct stat a, b;

	return !flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &a) && !fstatat(dir_fd, name, &b, AT_SYMLINK_NOFOLLOW) &&
	       a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

/* Removes files of memtraces that have ended. */
static void tidy(int dir_fd)
{
	int list_fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = list_fd < 0 ? NULL : fdopendir(list_fd);
	const struct dirent *e;

	while (d && (e = readdir(d))) {
		int fd = openat(dir_fd, e->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

		if (fd >= 0 && has_lock(dir_fd, fd, e->d_name))
			(void)unlinkat(dir_fd, e->d_name, 0);
		if (fd >= 0)
			close(fd);
	}
	if (d)
		closedir(d);
}

#define DIRS 3

/* Where a user's memtrace may have its locks; "": nowhere. */
static void dirs_of(unsigned uid, char paths[DIRS][256])
{
	const char *run = secure_getenv("XDG_RUNTIME_DIR");

	memset(paths, 0, DIRS * sizeof(paths[0]));
	if (!uid)
		snprintf(paths[0], sizeof(paths[0]), "/run/memtrace");
	else if (run)
		snprintf(paths[0], sizeof(paths[0]), "%s/memtrace", run);
	if (uid)
		snprintf(paths[1], sizeof(paths[1]), "/run/user/%u/memtrace", uid);
	snprintf(paths[2], sizeof(paths[2]), "/tmp/memtrace-locks-%u", uid);
}

/* The first directory that can be opened safely, with old files removed; opened once. */
static int lock_dir(void)
{
	static int dir_fd = -1;
	char paths[DIRS][256];

	dirs_of(geteuid(), paths);
	for (int i = 0; i < DIRS && dir_fd < 0; i++) {
		if (!paths[i][0])
			continue;
		dir_fd = lock_dir_open(paths[i]);
		if (dir_fd < 0)
			log_info("no locks in %s: %s", paths[i], strerror(-dir_fd));
		else
			tidy(dir_fd);
	}
	return dir_fd;
}

/* --- a lock -------------------------------------------------------------------------------------------- */

static void name_of(pid_t pid, uint64_t start_ns, char *buf, size_t size)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct statfs fs;
	struct stat st;

	if (fd >= 0 && !fstatfs(fd, &fs) && fs.f_type == PID_FS_MAGIC && !fstat(fd, &st))
		snprintf(buf, size, "process-%" PRIu64, (uint64_t)st.st_ino);
	else if (!stat("/proc/self/ns/pid", &st))
		snprintf(buf, size, "process-%" PRIu64 "-%d-%" PRIu64, (uint64_t)st.st_ino, (int)pid, start_ns);
	else
		snprintf(buf, size, "process-%d-%" PRIu64, (int)pid, start_ns);
	if (fd >= 0)
		close(fd);
}

/* A descriptor; -EWOULDBLOCK: another memtrace has the lock. */
static int try_take(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	if (has_lock(dir_fd, fd, name))
		return fd;
	close(fd);
	return -EWOULDBLOCK;
}

/* Who has the lock on this file, 0: nobody that can be seen. "5: FLOCK  ADVISORY  WRITE 16117 fe:00:1630210 0 EOF" */
static pid_t holder_of(const struct stat *st)
{
	FILE *f = fopen("/proc/locks", "re");
	char line[256], want[64];
	const char *at;
	int pid = 0;

	snprintf(want, sizeof(want), " %02x:%02x:%" PRIu64 " ", major(st->st_dev), minor(st->st_dev), (uint64_t)st->st_ino);
	while (f && !pid && fgets(line, sizeof(line), f)) {
		at = strstr(line, " FLOCK ") ? strstr(line, " WRITE ") : NULL;
		if (at && strstr(at, want))
			pid = atoi(at + strlen(" WRITE "));
	}
	if (f)
		fclose(f);
	return pid;
}

/* Whom its user has started, and can end: the half that sees the job's memory has the lock, its parent gets the signals. */
static pid_t started_of(pid_t holder)
{
	char path[40], comm[32] = "";
	pid_t parent = holder;
	uint64_t start_ns;
	FILE *f = NULL;

	if (!process_origin(holder, &parent, &start_ns)) {
		snprintf(path, sizeof(path), "/proc/%d/comm", (int)parent);
		f = fopen(path, "re");
	}
	if (!f || !fgets(comm, sizeof(comm), f) || strncmp(comm, "memtrace", strlen("memtrace")) != 0)
		parent = holder;
	if (f)
		fclose(f);
	return parent;
}

static int busy(pid_t pid, pid_t holder, struct err *err)
{
	char who[24] = "";

	if (holder > 0)
		snprintf(who, sizeof(who), " (process %d)", (int)started_of(holder));
	err_set(err, -EBUSY, "process %d is already being traced by another memtrace%s", (int)pid, who);
	return err_hint(err, "stop that one first: two would slow the job twice");
}

int lock_take_in(int dir_fd, pid_t pid, uint64_t start_ns, uint64_t wait_ns, int *ret_fd, struct err *err)
{
	struct timespec pause = { .tv_nsec = TRY_EVERY_NS };
	uint64_t begin = now_ns();
	int fd, is_reported = 0;
	struct stat st = { .st_ino = 0 };
	char name[80];

	name_of(pid, start_ns, name, sizeof(name));
	for (int tries = 1; (fd = try_take(dir_fd, name)) == -EWOULDBLOCK; tries++) {
		uint64_t waited = now_ns() - begin;

		if (waited >= wait_ns && tries >= TRIES_MIN)
			return busy(pid, fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) ? 0 : holder_of(&st), err);
		if (waited >= SAY_AFTER_NS && !is_reported++)
			log_warn("another memtrace traces process %d: waiting for its end", (int)pid);
		nanosleep(&pause, NULL);
	}
	if (fd < 0)
		return err_set(err, fd, "locking process %d: %s", (int)pid, strerror(-fd));
	*ret_fd = fd;
	return 0;
}

/* Another user's memtrace, whose lock is elsewhere, or one that has ended and whose probes are just being removed. */
static int await_others(pid_t pid, uint64_t wait_ns, struct err *err)
{
	struct timespec pause = { .tv_nsec = LOOK_EVERY_NS };
	uint64_t begin = now_ns();

	while (others_trace(pid)) {
		if (now_ns() - begin >= wait_ns)
			return busy(pid, 0, err);
		nanosleep(&pause, NULL);
	}
	return 0;
}

int lock_take(pid_t pid, uint64_t start_ns, uint64_t wait_ns, int *ret_fd, struct err *err)
{
	static int is_reported;
	int dir_fd = lock_dir(), fd = -1, r = 0;

	if (dir_fd >= 0)
		r = lock_take_in(dir_fd, pid, start_ns, wait_ns, &fd, err);
	else if (!is_reported++)
		log_warn("no directory for locks (/run/memtrace): a second memtrace on the same process may not be noticed");
	if (!r && wait_ns)
		r = await_others(pid, wait_ns, err);
	if (!r)
		*ret_fd = fd;
	else if (fd >= 0)
		close(fd);
	return r;
}

/* --- holders of locks ------------------------------------------------------------------------------------- */

int lock_is_held(pid_t pid, uint64_t start_ns)
{
	const unsigned uids[] = { 0, geteuid() };
	char paths[DIRS][256], name[80], file[256 + 80];

	name_of(pid, start_ns, name, sizeof(name));
	for (size_t u = 0; u < sizeof(uids) / sizeof(uids[0]); u++) {
		dirs_of(uids[u], paths);
		for (int i = 0; i < DIRS; i++) {
			struct stat st;

			snprintf(file, sizeof(file), "%.255s/%s", paths[i], name);
			if (paths[i][0] && !lstat(file, &st) && holder_of(&st))
				return 1;
		}
	}
	return 0;
}

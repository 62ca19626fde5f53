/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "base/infile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"

#define HELD_MAX 260 /* more than merge accepts */

static struct {
	const char *path;
	int fd;
} held[HELD_MAX];
static unsigned held_cnt;

void infile_hold(const char *path)
{
	struct stat st;
	int fd;

	if (held_cnt == HELD_MAX)
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return;
	}
	held[held_cnt].path = path;
	held[held_cnt++].fd = fd;
}

static int open_spool(void)
{
	const char *const places[] = { getenv("TMPDIR"), "/var/tmp", "/tmp" };
	int fd = -1;

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && fd < 0; i++)
		if (places[i])
			fd = open(places[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

/* 0 or -errno. */
static int copy_all(int from, int to)
{
	static char buf[1 << 16];
	ssize_t n, done;

	while ((n = read(from, buf, sizeof(buf))) != 0) {
		if (n < 0 && errno != EINTR)
			return -errno;
		for (ssize_t at = 0; at < n; at += done) {
			done = write(to, buf + at, (size_t)(n - at));
			if (done < 0)
				return -errno;
		}
	}
	return 0;
}

int infile_hold_stdin(struct err *err)
{
	struct stat st;
	int fd, r;

	if (isatty(STDIN_FILENO)) {
		err_set(err, -EINVAL, "standard input is a terminal, not a recording");
		return err_hint(err, "memtrace report - <F.mtr, or … | memtrace report -");
	}
	if (!fstat(STDIN_FILENO, &st) && S_ISREG(st.st_mode)) {
		fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
		if (fd < 0)
			return err_set(err, -errno, "standard input: %s", strerror(errno));
	} else {
		fd = open_spool();
		r = fd < 0 ? fd : copy_all(STDIN_FILENO, fd);
		if (r < 0) {
			if (fd >= 0)
				close(fd);
			err_set(err, r, "keeping standard input, which is read twice: %s", strerror(-r));
			return err_hint(err, "TMPDIR names another directory for it");
		}
		if (!lseek(fd, 0, SEEK_CUR)) {
			close(fd);
			err_set(err, -ENODATA, "nothing came through standard input");
			return err_hint(err, "look at the command before the pipe"), -ENODATA;
		}
	}
	(void)lseek(fd, 0, SEEK_SET);
	held[held_cnt].path = "-";
	held[held_cnt++].fd = fd;
	return 0;
}

int infile_find(const char *path)
{
	for (unsigned i = 0; i < held_cnt; i++)
		if (!strcmp(held[i].path, path))
			return fcntl(held[i].fd, F_DUPFD_CLOEXEC, 0);
	return -1;
}

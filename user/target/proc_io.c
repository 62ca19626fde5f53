/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Files of /proc have no size that stat could report and are made anew at every read, so they are read in growing pieces until
 * the end.
 */
#include "target/proc_io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int proc_read_fd(int fd, size_t cap, char **ret, size_t *ret_len)
{
	size_t size = 4096, len = 0;
	char *buf = malloc(size + 1);

	if (!buf)
		return -ENOMEM;
	while (len < cap) {
		size_t want = (size < cap ? size : cap) - len;
		ssize_t n;

		if (!want) {
			char *p = realloc(buf, size * 2 + 1);

			if (!p) {
				free(buf);
				return -ENOMEM;
			}
			buf = p;
			size *= 2;
			continue;
		}
		n = read(fd, buf + len, want);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int r = -errno;

			free(buf);
			return r;
		}
		if (n == 0)
			break;
		len += (size_t)n;
	}
	buf[len] = '\0';
	*ret = buf;
	*ret_len = len;
	return 0;
}

int proc_read(int dirfd, const char *name, size_t cap, char **ret, size_t *ret_len)
{
	int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	r = proc_read_fd(fd, cap, ret, ret_len);
	close(fd);
	return r;
}

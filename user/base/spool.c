/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "base/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int spool_open(void)
{
	const char *dir = getenv("TMPDIR");
	char path[4096];
	int fd;

	if (!dir || !*dir)
		dir = "/tmp";
	fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	if (snprintf(path, sizeof(path), "%s/memtrace-XXXXXX", dir) >= (int)sizeof(path)) /* no O_TMPFILE on this file system */
		return -ENAMETOOLONG;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(path);
	return fd;
}

FILE *spool_file(void)
{
	int fd = spool_open();
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w+");

	if (fd < 0)
		errno = -fd;
	else if (!f)
		close(fd);
	return f;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "base/infile.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HELD_MAX 260 /* what merge takes, and some */

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

int infile_find(const char *path)
{
	for (unsigned i = 0; i < held_cnt; i++)
		if (!strcmp(held[i].path, path))
			return fcntl(held[i].fd, F_DUPFD_CLOEXEC, 0);
	return -1;
}

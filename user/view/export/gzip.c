/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/export/gzip.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

/* The last call's error: errno where zlib kept it, else the nearest one. */
static int gzip_errno(gzFile gz)
{
	int code;

	(void)gzerror(gz, &code);
	return code == Z_ERRNO && errno ? errno : EIO;
}

static ssize_t on_write(void *cookie, const char *data, size_t len)
{
	gzFile gz = cookie;
	unsigned part = len > 1u << 30 ? 1u << 30 : (unsigned)len;
	int n;

	errno = 0;
	n = gzwrite(gz, data, part);
	if (n > 0 || !len)
		return n;
	errno = gzip_errno(gz);
	return 0;
}

static int on_close(void *cookie)
{
	int r;

	errno = 0;
	r = gzclose_w(cookie);
	if (r == Z_OK)
		return 0;
	errno = r == Z_ERRNO && errno ? errno : EIO;
	return -1;
}

FILE *gzip_open(int fd)
{
	gzFile gz = gzdopen(fd, "wb");
	FILE *f;

	if (!gz) {
		close(fd);
		errno = ENOMEM;
		return NULL;
	}
	gzbuffer(gz, 256u << 10);
	f = fopencookie(gz, "w", (cookie_io_functions_t){ .write = on_write, .close = on_close });
	if (!f) {
		gzclose_w(gz);
		errno = ENOMEM;
	}
	return f;
}

int gzip_is_asked(const char *path)
{
	size_t len = strlen(path);

	return len > 3 && !strcmp(path + len - 3, ".gz");
}

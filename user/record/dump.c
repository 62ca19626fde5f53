/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "record/dump.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define PIECE_BYTES (1u << 20)
#define NUMBER_MAX 100000
#define LOOK_EVERY_NS 10000000

struct dump {
	pthread_t thread;
	int memory, is_done; /* is_done: atomic, the rest is the loop's from then on */
	char *like, path[PATH_MAX];
	struct outfile_how how;
	int r;
	struct err err;
};

int numbered_path(char *buf, size_t size, const char *path)
{
	size_t len = strlen(path), stem = len > 4 && !strcmp(path + len - 4, ".mtr") ? len - 4 : len;

	for (unsigned n = 1; n < NUMBER_MAX; n++) {
		if ((size_t)snprintf(buf, size, "%.*s-%u%s", (int)stem, path, n, path + stem) >= size)
			return -ENAMETOOLONG;
		if (access(buf, F_OK))
			return 0;
	}
	return -EEXIST;
}

int dump_memory(void)
{
	int fd = memfd_create("memtrace-window", MFD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* --- the thread ------------------------------------------------------------------------------------------- */

static int dump__copy(const struct dump *d, const struct outfile *f)
{
	char *piece = malloc(PIECE_BYTES);
	uint64_t at = 0;
	ssize_t n = 1;
	int r = piece ? 0 : -ENOMEM;

	while (!r && n) {
		n = pread(d->memory, piece, PIECE_BYTES, (off_t)at);
		r = n < 0 ? -errno : outfile_write_at(f->fd, piece, (size_t)n, at);
		at += n > 0 ? (uint64_t)n : 0;
	}
	free(piece);
	return r;
}

static int dump__write(struct dump *d)
{
	struct outfile f;
	int r = numbered_path(d->path, sizeof(d->path), d->like);

	if (r < 0)
		return err_set(&d->err, r, "no name is free for %s: %s", d->like, strerror(-r));
	r = outfile__open(&f, d->path, OUTFILE_WHOLE, &d->how, &d->err);
	if (r < 0)
		return r;
	r = dump__copy(d, &f);
	if (!r)
		return outfile__finish(&f, &d->err);
	outfile__drop(&f);
	err_set(&d->err, r, "cannot write %s: %s", d->path, strerror(-r));
	return err_hint(&d->err, "it is in memory still: make room, and ask again with kill -USR1");
}

static void *dump__work(void *arg)
{
	struct dump *d = arg;

	d->r = dump__write(d);
	__atomic_store_n(&d->is_done, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* --- the loop's side --------------------------------------------------------------------------------------- */

int dump__start(struct dump **ret, int memory, const char *path, const struct outfile_how *how, struct err *err)
{
	struct dump *d = calloc(1, sizeof(*d));
	int r = -ENOMEM;

	if (d) {
		d->memory = memory;
		d->how = *how;
		d->like = strdup(path);
	}
	if (d && d->like)
		r = -pthread_create(&d->thread, NULL, dump__work, d);
	if (!r) {
		*ret = d;
		return 0;
	}
	close(memory);
	free(d ? d->like : NULL);
	free(d);
	return err_set(err, r, "a thread that writes %s: %s", path, strerror(-r));
}

static int dump__is_done(const struct dump *d)
{
	return __atomic_load_n(&d->is_done, __ATOMIC_ACQUIRE);
}

int dump__await(struct dump *d, uint64_t wait_ns, const char **ret_path, struct err *err)
{
	struct timespec pause = { .tv_nsec = LOOK_EVERY_NS };

	for (uint64_t end = now_ns() + wait_ns; !dump__is_done(d); nanosleep(&pause, NULL))
		if (now_ns() >= end)
			return err_set(err, -ETIMEDOUT, "writing %s: the disk takes nothing", d->like);
	*ret_path = d->path;
	if (d->r < 0 && err)
		*err = d->err;
	return d->r;
}

void dump__free(struct dump *d)
{
	if (!d || !dump__is_done(d))
		return;
	pthread_join(d->thread, NULL);
	close(d->memory);
	free(d->like);
	free(d);
}

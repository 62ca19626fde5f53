/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "keeper/serve.h"
#include "target/door.h"

#define SIDEBAND_BYTES_MAX (64u << 20)
#define LOCK_WAIT_NS_MAX 10000000000ull

/* A descriptor, or why there is none. */
static int32_t one_fd(struct keep_reply *ret, int *ret_fds, int fd)
{
	if (fd < 0)
		return fd;
	ret_fds[0] = fd;
	ret->fds_cnt = 1;
	return 0;
}

static int32_t look_file(const struct keep_request *q, struct keep_reply *ret, int *ret_fds)
{
	if (q->arg[0] >= DOOR_FILES)
		return -EINVAL;
	return one_fd(ret, ret_fds, door_own.file(NULL, q->pid, (enum door_file)q->arg[0]));
}

static int32_t look_exe(const struct keep_request *q, char *answer, struct keep_reply *ret)
{
	struct door_exe exe = { 0 };
	int r = door_own.exe(NULL, q->pid, &exe);

	if (!r)
		memcpy(answer, &exe, sizeof(exe));
	ret->len = r ? 0 : sizeof(exe);
	return r;
}

static int32_t look_lib(struct keep *k, const struct keep_request *q, struct keep_reply *ret, int *ret_fds)
{
	char path[PATH_MAX];
	struct door_lib l = { q->arg[0], q->arg[1], q->arg[2], q->arg[3], path };
	int fd;

	if (!q->len || q->len > sizeof(path))
		return -EINVAL;
	memcpy(path, k->looks.area, q->len);
	if (path[q->len - 1] || path[0] != '/' || strlen(path) != q->len - 1)
		return -EINVAL;
	fd = door_own.lib(NULL, q->pid, &l);
	if (fd >= 0)
		kept_libs__add(&k->libs, l.dev, l.ino, fd);
	return one_fd(ret, ret_fds, fd);
}

static int32_t look_read(struct keep *k, const struct keep_request *q, char *answer, struct keep_reply *ret)
{
	struct iovec ranges[DOOR_RANGES_MAX];
	uint64_t sum = 0;
	int r;

	if (!q->len || q->len > sizeof(ranges) || q->len % sizeof(ranges[0]) || q->arg[0] > KEEP_READ_MAX)
		return -EINVAL;
	memcpy(ranges, k->looks.area, q->len);
	for (size_t i = 0; i < q->len / sizeof(ranges[0]); i++) {
		if (ranges[i].iov_len > KEEP_READ_MAX)
			return -EINVAL;
		sum += ranges[i].iov_len;
	}
	if (sum != q->arg[0])
		return -EINVAL;
	r = door_own.read(NULL, q->pid, ranges, q->len / sizeof(ranges[0]), answer, q->arg[0]);
	ret->len = r ? 0 : q->arg[0];
	return r;
}

/*
 * The ring is mapped here and stays so: its pages are counted against whoever maps it first, and the other half's user may
 * lock but few. One a CPU: that of a CPU which comes again, or is asked for again and again, takes the place of the one before.
 */
static int32_t look_sideband(struct keep *k, const struct keep_request *q, struct keep_reply *ret, int *ret_fds)
{
	struct kept_ring ring = { .len = q->arg[1] };
	int fd, r;

	if (q->arg[0] >= KEEP_CPUS_MAX || !ring.len || ring.len > SIDEBAND_BYTES_MAX)
		return -EINVAL;
	fd = door_own.sideband(NULL, (int)q->arg[0], ring.len);
	if (fd < 0)
		return fd;
	ring.at = mmap(NULL, ring.len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring.at == MAP_FAILED) {
		r = -errno;
		close(fd);
		return r;
	}
	if (k->rings[q->arg[0]].at)
		munmap(k->rings[q->arg[0]].at, k->rings[q->arg[0]].len);
	k->rings[q->arg[0]] = ring;
	return one_fd(ret, ret_fds, fd);
}

static int32_t look_lock(struct keep *k, const struct keep_request *q, struct keep_reply *ret, int *ret_fds)
{
	uint64_t wait_ns = q->arg[1] > LOCK_WAIT_NS_MAX ? LOCK_WAIT_NS_MAX : q->arg[1];
	int fd = -1, r = k->lock ? k->lock(q->pid, q->arg[0], wait_ns, &fd, &ret->err) : -ENOSYS;

	return r < 0 || fd < 0 ? r : one_fd(ret, ret_fds, fd);
}

static int32_t look_usage(struct keep_reply *ret)
{
	unsigned long pages = 0;
	struct rusage ru;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f) {
		if (fscanf(f, "%*u %lu", &pages) != 1)
			pages = 0;
		fclose(f);
	}
	if (getrusage(RUSAGE_SELF, &ru) < 0)
		return -errno;
	ret->val[0] = (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000000000ull +
		      (uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) * 1000;
	ret->val[1] = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
	return 0;
}

void keep__looks(struct keep *k, const struct keep_request *q, char *answer, struct keep_reply *ret, int *ret_fds)
{
	if (q->op == KEEP_SIDEBAND || q->op == KEEP_USAGE) {
		ret->r = q->op == KEEP_USAGE ? look_usage(ret) : look_sideband(k, q, ret, ret_fds);
		return;
	}
	ret->r = keep__may(k, q->pid);
	if (ret->r < 0)
		return;
	switch (q->op) {
	case KEEP_FILE: ret->r = look_file(q, ret, ret_fds); break;
	case KEEP_EXE: ret->r = look_exe(q, answer, ret); break;
	case KEEP_LIB: ret->r = look_lib(k, q, ret, ret_fds); break;
	case KEEP_READ: ret->r = look_read(k, q, answer, ret); break;
	case KEEP_LOCK: ret->r = look_lock(k, q, ret, ret_fds); break;
	default: ret->r = -ENOSYS;
	}
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "keeper/serve.h"
#include "target/door.h"

#define SIDEBAND_BYTES_MAX (64u << 20)
#define LOCK_WAIT_NS_MAX 10000000000ull

/* A descriptor, or an error. */
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

static int32_t look_text(const struct keep_request *q, char *answer, struct keep_reply *ret)
{
	size_t len = 0;
	int r;

	if (q->arg[0] >= DOOR_FILES || !DOOR_IS_TEXT(q->arg[0]) || q->arg[1] > KEEP_READ_MAX)
		return -EINVAL;
	r = door_own.text(NULL, q->pid, (enum door_file)q->arg[0], answer, q->arg[1], &len);
	ret->len = r ? 0 : len;
	return r;
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

/* A path with its NUL from the area. */
static int copy_path(struct keep *k, const struct keep_request *q, char path[PATH_MAX])
{
	if (!q->len || q->len > PATH_MAX)
		return -EINVAL;
	memcpy(path, k->looks.area, q->len);
	return path[q->len - 1] || path[0] != '/' || strlen(path) != q->len - 1 ? -EINVAL : 0;
}

static int32_t look_script(struct keep *k, const struct keep_request *q, char *answer, struct keep_reply *ret)
{
	struct door_script at = { 0 };
	char path[PATH_MAX];
	int r = copy_path(k, q, path);

	if (r || q->arg[1] > DOOR_SCRIPT_PART)
		return -EINVAL;
	r = door_own.script(NULL, q->pid, path, q->arg[0], answer + sizeof(at), q->arg[1], &at);
	if (r >= 0)
		memcpy(answer, &at, sizeof(at));
	ret->len = r < 0 ? 0 : sizeof(at) + (size_t)r;
	return r < 0 ? r : 0;
}

static int32_t look_lib(struct keep *k, const struct keep_request *q, struct keep_reply *ret, int *ret_fds)
{
	char path[PATH_MAX];
	struct door_lib l = { q->arg[0], q->arg[1], q->arg[2], q->arg[3], path };
	int fd;

	if (copy_path(k, q, path))
		return -EINVAL;
	fd = door_own.lib(NULL, q->pid, &l);
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

static int32_t look_pages(struct keep *k, const struct keep_request *q, struct keep_reply *ret)
{
	struct iovec ranges[DOOR_PAGE_RANGES_MAX];

	if (!q->len || q->len > sizeof(ranges) || q->len % sizeof(ranges[0]))
		return -EINVAL;
	memcpy(ranges, k->looks.area, q->len);
	return door_own.pages(NULL, q->pid, ranges, q->len / sizeof(ranges[0]), &ret->val[0]);
}

/*
 * The ring is mapped here and stays mapped: its pages are charged to the first process that maps it, and the other half's user
 * may lock only few. One per CPU: if a CPU comes back, or is requested again, its new ring replaces the old one.
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

static int32_t look_at_process(struct keep *k, const struct keep_request *q, char *answer, struct keep_reply *ret,
			       int *ret_fds)
{
	switch (q->op) {
	case KEEP_FILE: return look_file(q, ret, ret_fds);
	case KEEP_TEXT: return look_text(q, answer, ret);
	case KEEP_EXE: return look_exe(q, answer, ret);
	case KEEP_LIB: return look_lib(k, q, ret, ret_fds);
	case KEEP_SCRIPT: return look_script(k, q, answer, ret);
	case KEEP_READ: return look_read(k, q, answer, ret);
	case KEEP_PAGES: return look_pages(k, q, ret);
	case KEEP_LOCK: return look_lock(k, q, ret, ret_fds);
	default: return -ENOSYS;
	}
}

/* What everybody may read (unless /proc hides processes) is also returned for one that has ended. */
static int is_open_to_all(const struct keep_request *q)
{
	return q->op == KEEP_FILE && DOOR_OPEN_TO_ALL(q->arg[0]);
}

static void take_back(struct keep_reply *ret, const int *fds, int why)
{
	for (uint32_t i = 0; i < ret->fds_cnt; i++)
		close(fds[i]);
	*ret = (struct keep_reply){ .r = why };
}

void keep__looks(struct keep *k, const struct keep_request *q, char *answer, struct keep_reply *ret, int *ret_fds)
{
	struct keep_hold hold;
	int r;

	if (q->op == KEEP_SIDEBAND) {
		ret->r = look_sideband(k, q, ret, ret_fds);
		return;
	}
	ret->r = keep__hold(k, q, &hold);
	if (ret->r < 0)
		return;
	ret->r = look_at_process(k, q, answer, ret, ret_fds);
	r = keep__release(k, &hold, is_open_to_all(q));
	if (r < 0)
		take_back(ret, ret_fds, r);
	else if (q->op == KEEP_LIB && ret->fds_cnt)
		kept_libs__add(&k->libs, q->arg[0], q->arg[1], ret_fds[0]);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "target/door.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/urgent.h"
#include "target/memory.h"
#include "target/proc_io.h"
#include "target/proc_text.h"
#include "target/script.h"
#include "target/sideband.h"
#include "target/torch_version.h"

#ifndef CONFIGFS_MAGIC
#define CONFIGFS_MAGIC 0x62656570
#endif

static const struct door *door = &door_own;

const char *door_file_name(enum door_file which)
{
	static const char *const names[DOOR_FILES] = { "stat",	"status",  "cgroup",  "maps",
						  "auxv", "cmdline", "environ", "smaps_rollup" };

	return names[which];
}

static int own_file(void *ctx, pid_t pid, enum door_file which)
{
	char path[40];
	int fd;

	(void)ctx;
	if (which >= DOOR_FILES)
		return -EINVAL;
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, door_file_name(which));
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

static int own_text(void *ctx, pid_t pid, enum door_file which, char *buf, size_t cap, size_t *ret_len)
{
	int fd = own_file(ctx, pid, which);
	size_t len = 0;
	ssize_t n = 1;
	int nice;

	if (fd < 0)
		return fd;
	nice = urgent_begin();
	while (n > 0 && len < cap) {
		n = read(fd, buf + len, cap - len);
		n = n < 0 && errno != EINTR ? -errno : n;
		len += n > 0 ? (size_t)n : 0;
	}
	urgent_end(nice);
	close(fd);
	*ret_len = len;
	return n < 0 ? (int)n : 0;
}

static int own_exe(void *ctx, pid_t pid, struct door_exe *ret)
{
	struct stat st;
	char path[32];
	ssize_t n;

	(void)ctx;
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	n = readlink(path, ret->path, sizeof(ret->path) - 1);
	if (n < 0 || stat(path, &st) < 0)
		return -errno;
	ret->path[n] = '\0';
	ret->dev = st.st_dev;
	ret->ino = st.st_ino;
	return 0;
}

/* Files that the kernel makes up: opening them can have effects, and some map a device's memory (sysfs). */
static int is_made_up(int fd)
{
	static const uint64_t kinds[] = { PROC_SUPER_MAGIC, SYSFS_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC, SECURITYFS_MAGIC,
					  CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, BPF_FS_MAGIC, PSTOREFS_MAGIC,
					  EFIVARFS_MAGIC, SELINUX_MAGIC, SMACK_MAGIC, DEVPTS_SUPER_MAGIC, CONFIGFS_MAGIC };
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return 1;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if ((uint64_t)fs.f_type == kinds[i])
			return 1;
	return 0;
}

static int is_same_file(void *ctx, const struct maps_line *m)
{
	const struct door_lib *l = ctx;

	return m->dev == l->dev && m->ino == l->ino;
}

/* 0; -ESTALE: not mapped now. */
static int has_mapped(pid_t pid, struct door_lib l)
{
	int fd = own_file(NULL, pid, DOOR_MAPS), r;
	char *text;
	size_t len;

	if (fd < 0)
		return fd;
	r = proc_read_fd(fd, MAPS_BYTES_MAX, &text, &len);
	close(fd);
	if (r < 0)
		return r;
	r = maps_each(text, len, is_same_file, &l, NULL) ? 0 : -ESTALE;
	free(text);
	return r;
}

/*
 * Checks before it opens: a mapped device must not be opened at all. map_files leads to the mapped file itself, so only the
 * inode is compared there: on btrfs and overlayfs stat reports another device than maps does. By name only files are opened
 * that everybody may read and that are mapped now, whatever the caller claims. It never waits: the owner may have a lease on
 * the file (fcntl(2)), which delays an open by 45 s.
 */
static int open_checked(const char *name, const struct door_lib *l, int by_name)
{
	int at = open(name, O_PATH | O_CLOEXEC), fd;
	char self[40];
	struct stat st;

	if (at < 0)
		return -errno;
	if (fstat(at, &st) < 0 || !S_ISREG(st.st_mode) || st.st_ino != l->ino || (by_name && st.st_dev != l->dev))
		fd = -ESTALE;
	else if (is_made_up(at))
		fd = -EACCES;
	else if (by_name && !(st.st_mode & S_IROTH))
		fd = -EACCES;
	else {
		snprintf(self, sizeof(self), "/proc/self/fd/%d", at);
		fd = open(self, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		fd = fd < 0 ? -errno : fd;
	}
	close(at);
	return fd;
}

static int own_lib(void *ctx, pid_t pid, const struct door_lib *l)
{
	char name[PATH_MAX + 32];
	int r, why;

	(void)ctx;
	snprintf(name, sizeof(name), "/proc/%d/map_files/%llx-%llx", (int)pid, (unsigned long long)l->start,
		 (unsigned long long)l->end);
	why = open_checked(name, l, 0);
	if (why >= 0 || !l->path)
		return why;
	if ((size_t)snprintf(name, sizeof(name), "/proc/%d/root%s", (int)pid, l->path) >= sizeof(name))
		return -ENAMETOOLONG;
	r = has_mapped(pid, *l);
	if (!r)
		r = open_checked(name, l, 1);
	return r < 0 && (why == -EPERM || why == -EACCES) ? why : r;
}

static int own_read(void *ctx, pid_t pid, const struct iovec *ranges, size_t cnt, void *buf, size_t len)
{
	int nice = urgent_begin(), r = memory_read(pid, ranges, cnt, buf, len);

	(void)ctx;
	urgent_end(nice);
	return r;
}

/* The effective user of a process, who owns its files. */
static int user_of(pid_t pid, uid_t *ret)
{
	int fd = own_file(NULL, pid, DOOR_STATUS), r;
	unsigned real, effective;
	char *text, *line;
	size_t len;

	if (fd < 0)
		return fd;
	r = proc_read_fd(fd, 64 << 10, &text, &len);
	close(fd);
	if (r < 0)
		return r;
	line = strstr(text, "\nUid:");
	r = line && sscanf(line, "\nUid: %u %u", &real, &effective) == 2 ? 0 : -EPROTO;
	free(text);
	*ret = r ? 0 : effective;
	return r;
}

/* Links on the way are followed as the process would; the last part must not be a link. */
static int find_script(pid_t pid, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	char root[32];
	int at, fd;

	snprintf(root, sizeof(root), "/proc/%d/root", (int)pid);
	at = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at < 0)
		return -errno;
	fd = (int)syscall(SYS_openat2, at, path, &how, sizeof(how));
	fd = fd < 0 ? -errno : fd;
	close(at);
	return fd;
}

static int check_script(int at, pid_t pid, struct door_script *ret)
{
	struct stat st;
	uid_t user;
	int r = user_of(pid, &user);

	if (r < 0)
		return r;
	if (fstat(at, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return -ELOOP;
	if (!S_ISREG(st.st_mode) || is_made_up(at) || (st.st_uid != user && !(st.st_mode & S_IROTH)))
		return -EACCES;
	if (st.st_size > DOOR_SCRIPT_BYTES_MAX)
		return -EFBIG;
	ret->dev = st.st_dev;
	ret->ino = st.st_ino;
	ret->size = (uint64_t)st.st_size;
	ret->mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
	return 0;
}

/* As much as is available, up to cap. */
static int read_part(int at, uint64_t off, char *buf, size_t cap)
{
	char self[40];
	size_t len = 0;
	ssize_t n = 1;
	int fd;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", at);
	fd = open(self, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (n > 0 && len < cap) {
		n = pread(fd, buf + len, cap - len, (off_t)(off + len));
		len += n > 0 ? (size_t)n : 0;
		if (n < 0)
			n = errno == EINTR ? 1 : -errno;
	}
	close(fd);
	return n < 0 ? (int)n : (int)len;
}

static int own_script(void *ctx, pid_t pid, const char *path, uint64_t off, char *buf, size_t cap, struct door_script *ret)
{
	int at, r;

	(void)ctx;
	if (!script_name(path) && !is_torch_version_file(path))
		return -EPERM;
	if (cap > DOOR_SCRIPT_PART || off > DOOR_SCRIPT_BYTES_MAX)
		return -EINVAL;
	at = find_script(pid, path);
	if (at < 0)
		return at;
	r = check_script(at, pid, ret);
	if (!r && cap)
		r = read_part(at, off, buf, cap);
	close(at);
	return r;
}

int door_pages_are_fine(const struct iovec *ranges, size_t cnt)
{
	uint64_t sum = 0;

	if (!cnt || cnt > DOOR_PAGE_RANGES_MAX)
		return 0;
	for (size_t i = 0; i < cnt; i++) {
		uint64_t start = (uintptr_t)ranges[i].iov_base, len = ranges[i].iov_len;

		if (len > DOOR_PAGES_BYTES_MAX || start > INT64_MAX || (sum += len) > DOOR_PAGES_BYTES_MAX)
			return 0;
	}
	return 1;
}

/* Documentation/admin-guide/mm/pagemap.rst. */
#define PAGES_AT_ONCE 4096

/*
 * The kernel takes the lock of the address space for one page table at a time (2 MiB of small pages), not for a whole mapping
 * as for smaps_rollup: docs/host.md has how long others waited.
 */
static int own_pages_of(int fd, uint64_t start, uint64_t len, uint64_t *own)
{
	uint64_t entries[PAGES_AT_ONCE], size = (uint64_t)sysconf(_SC_PAGESIZE), at = start / size, end = (start + len) / size;

	while (at < end) {
		size_t want = end - at < PAGES_AT_ONCE ? end - at : PAGES_AT_ONCE;
		ssize_t n = pread(fd, entries, want * sizeof(entries[0]), (off_t)(at * sizeof(entries[0])));

		if (n < 0 && errno != EINTR)
			return -errno;
		if (!n)
			return -ESRCH; /* its address space is gone */
		n = n < 0 ? 0 : n / (ssize_t)sizeof(entries[0]);
		for (ssize_t i = 0; i < n; i++)
			if ((entries[i] & PAGE_IS_THERE) && (entries[i] & PAGE_IS_OWN))
				*own += size;
		at += (uint64_t)n;
	}
	return 0;
}

static int own_pages(void *ctx, pid_t pid, const struct iovec *ranges, size_t cnt, uint64_t *ret_own)
{
	uint64_t own = 0;
	char path[40];
	int fd, nice, r = 0;

	(void)ctx;
	if (!door_pages_are_fine(ranges, cnt))
		return -EINVAL;
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	nice = urgent_begin();
	for (size_t i = 0; i < cnt && !r; i++)
		r = own_pages_of(fd, (uintptr_t)ranges[i].iov_base, ranges[i].iov_len, &own);
	urgent_end(nice);
	close(fd);
	*ret_own = r ? 0 : own;
	return r;
}

static int own_sideband(void *ctx, int cpu, size_t map_len)
{
	(void)ctx;
	(void)map_len; /* the caller maps it */
	return sideband_event(cpu, 0);
}

const struct door door_own = { own_file, own_text, own_exe, own_lib, own_read, own_script, own_pages,
				own_sideband, NULL };

void door_use(const struct door *d)
{
	door = d;
}

int door_file(pid_t pid, enum door_file which)
{
	return door->file(door->ctx, pid, which);
}

int door_text(pid_t pid, enum door_file which, char *buf, size_t cap, size_t *ret_len)
{
	return door->text(door->ctx, pid, which, buf, cap, ret_len);
}

int door_exe(pid_t pid, struct door_exe *ret)
{
	return door->exe(door->ctx, pid, ret);
}

int door_lib(pid_t pid, const struct door_lib *lib)
{
	return door->lib(door->ctx, pid, lib);
}

int door_read(pid_t pid, const struct iovec *ranges, size_t cnt, void *buf, size_t len)
{
	return door->read(door->ctx, pid, ranges, cnt, buf, len);
}

int door_script(pid_t pid, const char *path, uint64_t off, char *buf, size_t cap, struct door_script *ret)
{
	return door->script(door->ctx, pid, path, off, buf, cap, ret);
}

int door_pages(pid_t pid, const struct iovec *ranges, size_t cnt, uint64_t *ret_own)
{
	return door->pages(door->ctx, pid, ranges, cnt, ret_own);
}

int door_sideband(int cpu, size_t map_len)
{
	return door->sideband(door->ctx, cpu, map_len);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The asker's rights are taken for the calls that resolve names, by the calling thread, and given back: the kernel checks
 * fsuid, fsgid, groups and some capabilities of the calling thread. (glibc's setgroups would change all threads.)
 *
 * Files without a name are O_TMPFILE's, linked when they are finished. File systems without it (NFS, old overlays) get
 * memtrace-1a2b3c4d.part instead, which stays if we are killed.
 */
#include "base/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/asker.h"
#include "base/err.h"

#define CAP(c) (1u << (c))
#define CAPS_OF_FILES (CAP(CAP_CHOWN) | CAP(CAP_DAC_OVERRIDE) | CAP(CAP_DAC_READ_SEARCH) | CAP(CAP_FOWNER) | \
		       CAP(CAP_FSETID) | CAP(CAP_LINUX_IMMUTABLE) | CAP(CAP_MKNOD))
#define PART_TRIES 16
#define GROUPS_MAX 1024 /* root's own */

/* --- the asker's rights ------------------------------------------------------------------------------ */

struct rights {
	int is_switched, has_caps;
	int groups_cnt;
	gid_t groups[GROUPS_MAX];
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];
};

static struct __user_cap_header_struct cap_head(void)
{
	return (struct __user_cap_header_struct){ .version = _LINUX_CAPABILITY_VERSION_3 };
}

/* For a user with capabilities who is not root: files are opened without them. */
static int rights__no_caps(struct rights *was)
{
	struct __user_cap_header_struct head = cap_head();
	struct __user_cap_data_struct now[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &head, was->caps) < 0)
		return -errno;
	if (!(was->caps[0].effective & CAPS_OF_FILES))
		return 0;
	memcpy(now, was->caps, sizeof(now));
	now[0].effective &= ~CAPS_OF_FILES;
	head = cap_head();
	if (syscall(SYS_capset, &head, now) < 0)
		return -errno;
	was->has_caps = 1;
	return 0;
}

static void rights__leave(const struct rights *was)
{
	struct __user_cap_header_struct head = cap_head();

	if (was->has_caps)
		(void)syscall(SYS_capset, &head, was->caps);
	if (!was->is_switched)
		return;
	(void)setfsuid(geteuid()); /* first: it restores the capabilities that the next calls need */
	(void)setfsgid(getegid());
	(void)syscall(SYS_setgroups, (size_t)was->groups_cnt, was->groups);
}

/* 0 or -errno; rights__leave in either case. */
static int rights__enter(struct rights *was, const struct asker *a)
{
	was->is_switched = was->has_caps = 0;
	if (geteuid())
		return rights__no_caps(was);
	if (!a || !a->is_other)
		return 0;
	was->groups_cnt = getgroups(GROUPS_MAX, was->groups);
	if (was->groups_cnt < 0)
		return -errno;
	was->is_switched = 1;
	if (syscall(SYS_setgroups, a->groups_cnt, a->groups) < 0)
		return -errno;
	(void)setfsgid(a->gid);
	(void)setfsuid(a->uid);
	return (gid_t)setfsgid((gid_t)-1) == a->gid && (uid_t)setfsuid((uid_t)-1) == a->uid ? 0 : -EPERM;
}

/* --- names ------------------------------------------------------------------------------------------- */

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int open_dir(const char *path)
{
	size_t len = (size_t)(base_of(path) - path);
	char *dir = len ? strndup(path, len) : strdup(".");
	int fd;

	if (!dir)
		return -ENOMEM;
	fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		fd = -errno;
	free(dir);
	return fd;
}

char *outfile_room(const char *path)
{
	size_t len = (size_t)(base_of(path) - path);
	struct stat st;

	if (!lstat(path, &st) && !S_ISREG(st.st_mode))
		return S_ISLNK(st.st_mode) || S_ISDIR(st.st_mode) ? NULL : strdup(path);
	return len ? strndup(path, len) : strdup(".");
}

/* A descriptor that the shell or our caller opened for us; -1: no such name. */
static int given_fd(const char *path)
{
	static const char *const dirs[] = { "/dev/fd/", "/proc/self/fd/" };
	char *end;

	if (!strcmp(path, "/dev/stdout"))
		return STDOUT_FILENO;
	if (!strcmp(path, "/dev/stderr"))
		return STDERR_FILENO;
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		size_t len = strlen(dirs[i]);
		long n = strncmp(path, dirs[i], len) ? -1 : strtol(path + len, &end, 10);

		if (n >= 0 && n <= INT_MAX && end != path + len && !*end)
			return (int)n;
	}
	return -1;
}

static int outfile__fail(const struct outfile *f, int r, struct err *err)
{
	err_set(err, r, "cannot write %s: %s", f->path, strerror(-r));
	if (r == -EROFS || r == -EACCES || r == -EPERM || r == -ENOENT)
		err_hint(err, "name a file in a directory that you can write to with -o");
	return r;
}

static int outfile__taken(const struct outfile *f, struct err *err)
{
	err_set(err, -EEXIST, "%s exists", f->path);
	return err_hint(err, "it was left as it is: --force replaces it, or name another file with -o");
}

/* --- existing files ----------------------------------------------------------------------------------- */

/* Could the asker write it without us, and is it not being written now? */
static int outfile__check_old(const struct outfile *f, struct err *err)
{
	int fd = openat(f->dir_fd, base_of(f->path), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), r = 0;
	struct stat st;

	if (fd < 0)
		return outfile__fail(f, -errno, err);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		r = outfile__fail(f, -EINVAL, err);
	else if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
		r = err_set(err, -EBUSY, "%s is being written by another memtrace", f->path);
		err_hint(err, "name another file with -o");
	}
	close(fd);
	return r;
}

static int outfile__open_stream(struct outfile *f, struct err *err)
{
	struct stat st;

	f->fd = openat(f->dir_fd, base_of(f->path), O_WRONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
	if (f->fd < 0)
		return outfile__fail(f, -errno, err);
	if (fstat(f->fd, &st) < 0 || S_ISREG(st.st_mode)) /* it was replaced a moment ago */
		return outfile__taken(f, err);
	f->is_stream = f->has_name = 1;
	return 0;
}

/* 1: the name is free, or may be replaced; 0: it was opened, as a stream. */
static int outfile__look(struct outfile *f, struct err *err)
{
	struct stat st;
	int r;

	if (fstatat(f->dir_fd, base_of(f->path), &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT && *base_of(f->path) ? 1 : outfile__fail(f, *base_of(f->path) ? -errno : -EISDIR, err);
	if (S_ISLNK(st.st_mode)) {
		err_set(err, -ELOOP, "%s is a symbolic link", f->path);
		return err_hint(err, "files are not written through one: name the file that it points to");
	}
	if (S_ISCHR(st.st_mode) || S_ISFIFO(st.st_mode))
		return outfile__open_stream(f, err);
	if (!S_ISREG(st.st_mode))
		return outfile__fail(f, S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL, err);
	if (!f->how.force)
		return outfile__taken(f, err);
	f->is_new = 0;
	r = outfile__check_old(f, err);
	return r < 0 ? r : 1;
}

/* --- making it ----------------------------------------------------------------------------------------- */

/* In the same directory: memtrace-1a2b3c4d.part, an unused name. name is f->part's last part. */
static int outfile__name_part(struct outfile *f)
{
	size_t dir = (size_t)(base_of(f->path) - f->path);
	uint32_t number;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -EIO;
	free(f->part);
	return asprintf(&f->part, "%.*smemtrace-%08x.part", (int)dir, f->path, number) < 0 ? -ENOMEM : 0;
}

/* Tries such names with `make`. */
static int outfile__with_part(struct outfile *f, int (*make)(struct outfile *f))
{
	int r = -EEXIST;

	for (int i = 0; i < PART_TRIES && r == -EEXIST; i++) {
		r = outfile__name_part(f);
		if (!r)
			r = make(f);
	}
	if (r < 0) {
		free(f->part);
		f->part = NULL;
	}
	return r;
}

static int make_file(struct outfile *f)
{
	f->fd = openat(f->dir_fd, base_of(f->part), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return f->fd < 0 ? -errno : 0;
}

static int outfile__make(struct outfile *f, enum outfile_kind kind)
{
	if (kind == OUTFILE_GROWING && f->is_new) {
		f->fd = openat(f->dir_fd, base_of(f->path), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		f->has_name = f->fd >= 0;
		return f->fd < 0 ? -errno : 0;
	}
	if (kind != OUTFILE_NAMED && !access("/proc/self/fd", X_OK)) {
		f->fd = openat(f->dir_fd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
		if (f->fd >= 0)
			return 0;
	}
	return outfile__with_part(f, make_file);
}

/* --- giving it its name -------------------------------------------------------------------------------- */

static int outfile__link(const struct outfile *f, const char *name)
{
	char proc[40];

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", f->fd);
	return linkat(AT_FDCWD, proc, f->dir_fd, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static int make_link(struct outfile *f)
{
	return outfile__link(f, base_of(f->part));
}

static int outfile__rename(struct outfile *f)
{
	const char *from = base_of(f->part), *to = base_of(f->path);
	int r;

	if (f->how.force)
		r = renameat(f->dir_fd, from, f->dir_fd, to);
	else
		r = renameat2(f->dir_fd, from, f->dir_fd, to, RENAME_NOREPLACE);
	if (r < 0 && errno == EINVAL) /* NFS only supports links, FAT only renames */
		r = linkat(f->dir_fd, from, f->dir_fd, to, 0) < 0 ? -1 : unlinkat(f->dir_fd, from, 0);
	if (r < 0)
		return -errno;
	free(f->part);
	f->part = NULL;
	return 0;
}

static int outfile__name(struct outfile *f)
{
	int r = 0;

	if (!f->part && !f->how.force)
		return outfile__link(f, base_of(f->path));
	if (!f->part) /* a link does not replace: first a name in the same directory */
		r = outfile__with_part(f, make_link);
	return r < 0 ? r : outfile__rename(f);
}

static int outfile__name_now(struct outfile *f)
{
	int r = f->has_name ? 0 : outfile__name(f);

	f->has_name = !r;
	return r;
}

static void outfile__done(struct outfile *f)
{
	if (f->fd >= 0)
		close(f->fd);
	if (f->dir_fd >= 0)
		close(f->dir_fd);
	free(f->path);
	free(f->part);
	if (f->lent_fd >= 0) {
		close(f->lent_fd);
		(void)waitpid(f->lent_pid, NULL, 0);
	}
	*f = (struct outfile){ .fd = -1, .dir_fd = -1, .lent_fd = -1 };
}

static int outfile__open_by_name(struct outfile *f, enum outfile_kind kind, struct err *err)
{
	int r;

	f->dir_fd = open_dir(f->path);
	if (f->dir_fd < 0)
		return outfile__fail(f, f->dir_fd, err);
	r = outfile__look(f, err);
	if (r <= 0)
		return r;
	r = outfile__make(f, kind);
	if (r < 0)
		return r == -EEXIST ? outfile__taken(f, err) : outfile__fail(f, r, err);
	(void)flock(f->fd, LOCK_EX | LOCK_NB); /* it is new, so this only fails where locks are not supported */
	return 0;
}

int outfile__open(struct outfile *ret, const char *path, enum outfile_kind kind, const struct outfile_how *how,
		  struct err *err)
{
	struct outfile f = { .fd = -1, .dir_fd = -1, .lent_fd = -1, .is_new = 1, .path = strdup(path) };
	int given = given_fd(path), r;
	struct rights was;

	if (how && how->held) {
		free(f.path);
		*ret = *how->held;
		return 0;
	}
	if (!f.path)
		return err_set(err, -ENOMEM, "out of memory");
	if (how)
		f.how = *how;
	if (given >= 0) {
		f.fd = fcntl(given, F_DUPFD_CLOEXEC, 0);
		f.is_stream = f.has_name = 1;
		r = f.fd < 0 ? outfile__fail(&f, -errno, err) : 0;
	} else {
		r = rights__enter(&was, f.how.asker);
		r = r < 0 ? outfile__fail(&f, r, err) : outfile__open_by_name(&f, kind, err);
		rights__leave(&was);
	}
	if (r < 0)
		outfile__done(&f);
	else
		*ret = f;
	return r;
}

/* --- finishing ------------------------------------------------------------------------------------------- */

int outfile__dir(const struct outfile *f)
{
	int fd = f->dir_fd < 0 ? -1 : openat(f->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -1 : fd;
}

/* A name is on the disk when its directory is. Directories that cannot be read or synced are left to their file system. */
static void outfile__sync_dir(const struct outfile *f)
{
	int fd = outfile__dir(f);

	if (fd < 0)
		return;
	(void)fsync(fd);
	close(fd);
}

/* --- by another process ---------------------------------------------------------------------------------- */

/* One byte requests its name; it reacts only to that and to the end of the other process. */
static void outfile__serve(struct outfile *f, int sock)
{
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };
	char ask;
	int r;

	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		(void)signal(ignored[i], SIG_IGN);
	if (read(sock, &ask, 1) == 1) {
		r = outfile__show(f, NULL);
		(void)!write(sock, &r, sizeof(r));
		if (!r)
			_exit(0);
	}
	outfile__drop(f);
	_exit(0);
}

int outfile__lend(struct outfile *f, struct err *err)
{
	int socks[2];
	pid_t pid;

	if (f->is_stream)
		return 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks) < 0)
		return outfile__fail(f, -errno, err);
	pid = fork();
	if (pid < 0) {
		close(socks[0]);
		close(socks[1]);
		return outfile__fail(f, -errno, err);
	}
	if (!pid) {
		close(socks[0]);
		outfile__serve(f, socks[1]);
	}
	close(socks[1]);
	f->lent_fd = socks[0];
	f->lent_pid = pid;
	return 0;
}

static int outfile__show_lent(struct outfile *f, struct err *err)
{
	int r = -EPIPE;

	if (send(f->lent_fd, "n", 1, MSG_NOSIGNAL) != 1 || read(f->lent_fd, &r, sizeof(r)) != sizeof(r))
		return outfile__fail(f, -EPIPE, err);
	f->has_name = !r;
	return r == -EEXIST ? outfile__taken(f, err) : r < 0 ? outfile__fail(f, r, err) : 0;
}

int outfile__show(struct outfile *f, struct err *err)
{
	struct rights was;
	int r;

	if (f->has_name)
		return 0;
	if (f->lent_fd >= 0)
		return outfile__show_lent(f, err);
	r = rights__enter(&was, f->how.asker);
	if (!r)
		r = outfile__name_now(f);
	if (!r)
		outfile__sync_dir(f);
	rights__leave(&was);
	if (r < 0)
		return r == -EEXIST ? outfile__taken(f, err) : outfile__fail(f, r, err);
	return 0;
}

int outfile__finish(struct outfile *f, struct err *err)
{
	int r = 0;

	if (!f->is_stream && fsync(f->fd) < 0)
		r = outfile__fail(f, -errno, err);
	if (!r && f->has_name && !f->is_stream)
		outfile__sync_dir(f);
	if (!r)
		r = outfile__show(f, err);
	if (r < 0)
		outfile__drop(f);
	else
		outfile__done(f);
	return r;
}

void outfile__leave(struct outfile *f)
{
	outfile__done(f);
}

static int outfile__is_at(const struct outfile *f, const char *name)
{
	struct stat a, b;

	return !fstat(f->fd, &a) && !fstatat(f->dir_fd, name, &b, AT_SYMLINK_NOFOLLOW) && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

void outfile__drop(struct outfile *f)
{
	const char *name = f->part ? f->part : f->path;
	struct rights was;

	if (!f->is_stream && f->dir_fd >= 0 && f->lent_fd < 0 && (f->part || f->has_name)) {
		if (!rights__enter(&was, f->how.asker) && outfile__is_at(f, base_of(name)))
			(void)unlinkat(f->dir_fd, base_of(name), 0);
		rights__leave(&was);
	}
	outfile__done(f);
}

int outfile_write_at(int fd, const void *data, size_t len, uint64_t off)
{
	const char *p = data;

	while (len) {
		ssize_t n = pwrite(fd, p, len, (off_t)off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		p += n;
		len -= (size_t)n;
		off += (uint64_t)n;
	}
	return 0;
}

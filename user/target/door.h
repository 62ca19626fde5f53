/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * door: everything that needs the right to trace a process: its maps, environment and sizes, the files it has mapped, its
 * memory, and perf's events about all processes. One interface for the whole program: with our own rights, or, once those are
 * given away, through the process that kept them (keeper/).
 *
 * A pid is only a number: a caller with a descriptor of /proc/PID checks afterwards whether it is still that process.
 */
#ifndef MT_TARGET_DOOR_H
#define MT_TARGET_DOOR_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define DOOR_RANGES_MAX 64
#define DOOR_PAGE_RANGES_MAX 512
#define DOOR_PAGES_BYTES_MAX (128ull << 20) /* of address space in one look at its pages: 2 ms */

/* The first ones are readable for everybody, unless /proc is mounted to hide processes from others (hidepid). */
enum door_file {
	DOOR_STAT, DOOR_STATUS, DOOR_CGROUP, DOOR_MAPS, DOOR_AUXV, DOOR_CMDLINE, DOOR_ENVIRON, DOOR_SMAPS_ROLLUP, DOOR_FILES
};
#define DOOR_OPEN_TO_ALL(file) ((file) <= DOOR_CGROUP)
#define DOOR_IS_TEXT(file) ((file) >= DOOR_CMDLINE) /* in its memory or behind a lock of it: struct door's text */
#define DOOR_TEXT_MAX (1ull << 20)
const char *door_file_name(enum door_file which); /* below /proc/PID */

/* The program of a process. */
struct door_exe {
	uint64_t dev, ino;
	char path[PATH_MAX];
};

/* A mapped file: (device, inode) as in maps, one of its mappings, and its name in the process's root. */
struct door_lib {
	uint64_t dev, ino, start, end;
	const char *path;
};

/* The state of a file when it is looked at. */
struct door_script {
	uint64_t dev, ino, size, mtime_ns;
};
#define DOOR_SCRIPT_BYTES_MAX (8u << 20)
#define DOOR_SCRIPT_PART (DOOR_TEXT_MAX - sizeof(struct door_script))

struct door {
	int (*file)(void *ctx, pid_t pid, enum door_file which); /* a descriptor for reading; -errno */
	/*
	 * The content of such a file, `cap` bytes (DOOR_TEXT_MAX) at most: for files whose reading the process can hold up for
	 * as long as it likes, since they are in its memory or need a lock of it. -ETIMEDOUT: it does.
	 */
	int (*text)(void *ctx, pid_t pid, enum door_file which, char *buf, size_t cap, size_t *ret_len);
	int (*exe)(void *ctx, pid_t pid, struct door_exe *ret);
	/*
	 * A descriptor of that file for reading: by the mapping, else by the name if everybody may read it and the process has
	 * it mapped. -ESTALE: another file is there now, or it is not mapped. -EWOULDBLOCK: its owner has a lease on it. Only
	 * regular files, and none that the kernel makes up (/proc, /sys).
	 */
	int (*lib)(void *ctx, pid_t pid, const struct door_lib *lib);
	/*
	 * All ranges, DOOR_RANGES_MAX at most, into buf one after the other, `len` bytes in all. -ESRCH, -EFAULT, -ETIMEDOUT.
	 */
	int (*read)(void *ctx, pid_t pid, const struct iovec *ranges, size_t cnt, void *buf, size_t len);
	/*
	 * A part of a file that inductor wrote for a process (script.h), or of its torch/version.py, by its name in the
	 * process's root, which no link leaves: `cap` bytes (DOOR_SCRIPT_PART at most) from `off` on. Returns their number,
	 * less only at the end. Only regular files of the process's user, or readable for everybody; no file that the kernel
	 * makes up. -EPERM: neither has such a name; -EACCES; -ELOOP: it is a link; -EFBIG: over DOOR_SCRIPT_BYTES_MAX;
	 * -EWOULDBLOCK: a lease; -ETIMEDOUT; openat2's errors.
	 */
	int (*script)(void *ctx, pid_t pid, const char *path, uint64_t off, char *buf, size_t cap, struct door_script *ret);
	/*
	 * Bytes of the ranges (DOOR_PAGE_RANGES_MAX, of DOOR_PAGES_BYTES_MAX together) whose pages are in memory and mapped by
	 * no other process: from pagemap, which also has physical addresses, so it is not handed out. -ESRCH, -ETIMEDOUT.
	 */
	int (*pages)(void *ctx, pid_t pid, const struct iovec *ranges, size_t cnt, uint64_t *ret_own);
	/* perf's sideband event of a CPU, with a ring of map_len bytes that any process may map; -ENODEV: offline. */
	int (*sideband)(void *ctx, int cpu, size_t map_len);
	void *ctx;
};

extern const struct door door_own; /* with our own rights */
/* Borrowed for ever; call it before there are threads. */
void door_use(const struct door *door);

/* The door's functions (above) of these names: a descriptor or a length, the caller's; 0; or -errno. */
int door_file(pid_t pid, enum door_file which);
int door_text(pid_t pid, enum door_file which, char *buf, size_t cap, size_t *ret_len);
int door_exe(pid_t pid, struct door_exe *ret);
int door_lib(pid_t pid, const struct door_lib *lib);
int door_read(pid_t pid, const struct iovec *ranges, size_t cnt, void *buf, size_t len);
int door_script(pid_t pid, const char *path, uint64_t off, char *buf, size_t cap, struct door_script *ret);
int door_pages(pid_t pid, const struct iovec *ranges, size_t cnt, uint64_t *ret_own);
/* Are the ranges, and their sum, within what a look at pages may ask for? */
int door_pages_are_fine(const struct iovec *ranges, size_t cnt);
int door_sideband(int cpu, size_t map_len);

#endif

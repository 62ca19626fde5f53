/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * target: a process: identity, usage, rank variables, mapped libraries. (Parents and children: target/kin.h.)
 *
 * Only reads /proc; never stops, writes to or attaches to the process. Everything read is hostile: lengths are capped, strings
 * are cut, numbers are range-checked. A process that ends meanwhile gives -ESRCH, never a half-filled success.
 */
#ifndef MT_TARGET_TARGET_H
#define MT_TARGET_TARGET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

#define TARGET_LIBS_MAX 4096
#define TARGET_LABELS_MAX 40

/* One mapped file of the process, by (device, inode); valid until target__refresh or target__free. */
struct lib {
	uint64_t dev;	    /* st_dev encoding as in makedev() */
	uint64_t ino;
	const char *path;   /* as in maps, " (deleted)" cut off; for messages and matching, not for open */
	const char *base;   /* last component of path */
	int deleted;
	uint64_t exec_start; /* first executable mapping: target address … */
	uint64_t exec_end;
	uint64_t exec_off;  /* … and its file offset */
	uint64_t load_start; /* lowest mapping of the file: load bias for data symbols */
	int is_new; /* not seen before the latest target__refresh */
	int is_exe; /* the program itself */
};

struct target;

/* -ESRCH no such process (hint set), -EACCES not allowed (hint: root). *ret untouched on failure. */
int target__open(struct target **ret, pid_t pid, struct err *err);
/*
 * The same without its libraries, which target__refresh looks up: maps may be 64 MiB, and take half a second. parent: not NULL
 * if that process has just forked it; libraries seen there are not new.
 */
int target__open_bare(struct target **ret, pid_t pid, const struct target *parent, struct err *err);
void target__free(struct target *t);
/* Adds a holder, each of which calls target__free. Not atomic: on one thread; others may only read what does not change. */
void target__hold(struct target *t);

pid_t target__pid(const struct target *t);
pid_t target__ppid(const struct target *t);
const char *target__comm(const struct target *t);
const char *target__cmdline(const struct target *t); /* arguments joined by blanks, cut at 4 KiB */
uint64_t target__start_ns(const struct target *t);   /* CLOCK_BOOTTIME ns of its start */
/* "RANK=3", "LOCAL_RANK=…", WORLD_SIZE, MASTER_ADDR, SLURM_PROCID, … from its environment; its container's (container.h). */
size_t target__labels(const struct target *t, const char *const **ret);
/* It was opened in the middle of an exec: without arguments or environment. */
int target__is_early(const struct target *t);
/* Is this still the same process (pid alive and start time unchanged)? 1 or 0. */
int target__alive(const struct target *t);
/*
 * Copies memory of this process, and of no other: its number may have been reused. 0, -ESRCH when it has ended, -EFAULT if not
 * all of it is mapped. The second: ranges one after the other, `len` bytes in all.
 */
int target__read(const struct target *t, uint64_t addr, void *buf, size_t len);
struct iovec;
int target__read_ranges(const struct target *t, const struct iovec *ranges, size_t cnt, void *buf, size_t len);
/* CPU time (user + system) in ns, RSS in bytes, thread count; -ESRCH when it has ended. */
int target__usage(const struct target *t, uint64_t *ret_cpu_ns, uint64_t *ret_rss, unsigned *ret_threads);
/* Resident bytes by kind, as /proc/PID/status has them (exact, unlike the kernel's running counters). */
struct target_rss {
	uint64_t anon, file, shmem, swap;
	uint64_t high; /* the highest sum of anon, file and shmem since the process began */
};
int target__rss(const struct target *t, struct target_rss *ret);
/*
 * The same by ownership, by enum mt_use: smaps_rollup and status. The kernel walks all page tables of the process for it (13 ms
 * a GiB of small pages) and holds its mmap lock meanwhile. -ESRCH when it has ended, -EACCES.
 */
int target__use(const struct target *t, uint64_t *ret);
/*
 * The same for a process whose own pages were counted (target/pages.h): of its resident memory, those are private and the
 * others shared. *ret_known: a bit per kind; PSS and huge pages are unknown.
 */
int target__use_of_pages(const struct target *t, uint64_t own, uint64_t *ret, uint32_t *ret_known);
/*
 * Its main thread runs with a shadow stack (CET): return addresses are kept twice, and only the CPU's own calls write both.
 * Threads inherit it, and programs get it from their loader at their very start.
 */
int target__has_shadow_stack(const struct target *t);
/* A program on this machine may have one, or get one. */
int machine_has_shadow_stacks(void);
/* The process runs another program than when it was opened. */
int target__has_execed(const struct target *t);

/* Executable mappings of files beyond TARGET_LIBS_MAX of these, plus 1 if maps itself was too long to be read. */
size_t target__unseen(const struct target *t);
/* Reads maps again; returns the number of libraries not seen before, or -errno. */
int target__refresh(struct target *t, struct err *err);
size_t target__libs(const struct target *t, const struct lib **ret);
/*
 * Read-only fd of the very file that the process has mapped: through /proc/PID/map_files (works for deleted files and other
 * mount namespaces), else /proc/PID/root + path with (dev, ino) verified.
 */
int target__open_lib(const struct target *t, const struct lib *lib, struct err *err);

#endif

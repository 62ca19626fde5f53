/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * sideband: what happens to processes, from perf's sideband records (MMAP2, FORK, COMM, EXIT) of a
 * software "dummy" event on every CPU, on CLOCK_MONOTONIC. System-wide, because a per-process event
 * cannot be opened on every existing thread without a race; the caller filters by pid.
 */
#ifndef MT_TARGET_SIDEBAND_H
#define MT_TARGET_SIDEBAND_H

#include <stdint.h>

struct err;
struct sideband;

enum sb_kind { SB_MMAP = 1, SB_FORK = 2, SB_COMM = 3, SB_EXEC = 4, SB_EXIT = 5, SB_LOST = 6 };

struct sb_record {
	uint64_t ts_ns;
	uint32_t kind; /* enum sb_kind */
	uint32_t pid, tid;
	uint32_t ppid;	   /* FORK: parent process; a new thread has pid == ppid */
	uint64_t addr, len, off; /* MMAP (executable file mappings only) */
	uint64_t dev, ino; /* MMAP: dev as makedev() */
	uint64_t lost;	   /* LOST: how many records */
	const char *text;  /* MMAP: path; COMM, EXEC: comm. Valid only during the callback. */
};

/*
 * The event of one CPU, without its ring: with our own rights. is_forks: only FORK and EXIT. -errno; -ENODEV: the CPU is
 * offline.
 */
int sideband_event(int cpu, int is_forks);
int sideband__open(struct sideband **ret, unsigned ring_pages_per_cpu /* power of 2 */, struct err *err);
/* Only FORK and EXIT, in rings that no other process can write to: with our own rights, not through the door. */
int sideband__open_forks(struct sideband **ret, unsigned ring_pages_per_cpu, struct err *err);
void sideband__free(struct sideband *s);
/*
 * Opens rings for CPUs that came online, and closes those of CPUs that went. Returns how many came (earlier events there are
 * unknown), or -errno. The second takes the kernel's list of CPUs, "0-3,8".
 */
int sideband__look_at_cpus(struct sideband *s);
int sideband__set_cpus(struct sideband *s, const char *online);
int sideband__fd(const struct sideband *s); /* an epoll fd that is readable when records wait */
/* All waiting records of all CPUs, by time. fn < 0 stops. Returns the number of records or -errno. */
int sideband__drain(struct sideband *s, int (*fn)(void *ctx, const struct sb_record *rec), void *ctx);

#endif

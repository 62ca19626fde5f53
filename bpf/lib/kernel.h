/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * kernel: the few kernel types that memtrace reads, cut down to the fields it reads (CO-RE finds
 * the offsets at load), so that no vmlinux.h has to be generated or kept. Field names are those of
 * the kernel's include/linux/{sched,mm_types,percpu_counter,sched/signal}.h.
 */
#ifndef MT_BPF_KERNEL_H
#define MT_BPF_KERNEL_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

typedef __u64 u64;
typedef __s64 s64;
typedef __u32 u32;
typedef __s32 s32;
typedef __u16 u16;
typedef __u8 u8;

#define CORE __attribute__((preserve_access_index))

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "lib/args.h"

struct percpu_counter {
	s64 count;
} CORE;

typedef struct {
	s64 counter;
} atomic_long_t;

typedef struct {
	int counter;
} atomic_t;

/* Since kernel 6.2 (f1a7941243c1) rss_stat is an array of percpu_counter. */
struct mm_struct {
	struct percpu_counter rss_stat[MT_RSS_KINDS];
} CORE;

/* Before that, a struct with one atomic a kind. Delete when 6.1 (EOL 2027) is. */
struct mm_rss_stat___old {
	atomic_long_t count[MT_RSS_KINDS];
} CORE;
struct mm_struct___old {
	struct mm_rss_stat___old rss_stat;
} CORE;

struct signal_struct {
	atomic_t live;
	int group_exit_code;
	unsigned long maxrss; /* pages */
} CORE;

struct task_struct {
	int pid;
	int tgid;
	int exit_code;
	u64 start_time; /* CLOCK_MONOTONIC */
	struct mm_struct *mm;
	struct signal_struct *signal;
	struct thread_struct thread;
} CORE;

#endif

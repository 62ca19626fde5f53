/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * shared: what the BPF programs share with user/trace beyond the records: configuration, counters,
 * map values. Not part of the wire ABI: both sides are built together.
 */
#ifndef MT_BPF_SHARED_H
#define MT_BPF_SHARED_H

#include "memtrace/event.h"
#include "memtrace/loss.h"

/* One cache-line-aligned row a CPU; user space sums them through the mapping of .bss. */
struct mt_counters {
	__u64 hits[MT_PROG_MAX + 1]; /* the last one counts emitted records */
	__u64 loss[MT_LOSS_MAX];
} __attribute__((aligned(64)));

struct mt_config {
	__u64 min_size;	  /* host allocations below it are not reported */
	__u32 ring_mask;  /* ring of a CPU = cpu & ring_mask */
	__u32 wake_bytes; /* wake user space when a ring holds more than this */
	__u32 rss_step;	  /* report RSS when it moved by so many bytes */
	__u32 victim_at;  /* offset of the pid in a record of the tracepoint oom:mark_victim */
};

/*
 * Cookie of a site whose program serves several symbols (malloc family, USDT): what the program needs
 * in the low half, a slot in the map of fired counts in the high half.
 */
#define MT_FIRED_MAX 1024
#define MT_COOKIE(low, slot) ((__u64)(slot) << 32 | (__u32)(low))

/* Classes of tensors by the vtable pointer of their TensorImpl, in one process. */
#define MT_FLOW_CLASSES_MAX 16384
struct mt_class_key {
	__u64 vtable;
	__u64 pid;
};

/* Of a followed process's GPU calls. */
struct mt_seg_proc {
	__u64 since_ns; /* functions that choose a device are probed since then */
	__u64 comm_start, comm_end; /* code of the communication library */
};

/* A followed process. */
struct mt_target {
	__u64 rss[MT_RSS_KINDS]; /* last reported, bytes */
};

#endif

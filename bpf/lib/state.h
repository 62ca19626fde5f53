/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * state: everything the BPF programs share: configuration, maps, counters, a thread's state.
 * Defined once, in maps.bpf.c (which sets MT_DEFINE); declared to all others.
 */
#ifndef MT_BPF_STATE_H
#define MT_BPF_STATE_H

#include "memtrace/event.h"
#include "memtrace/loss.h"
#include "lib/kernel.h"
#include "memtrace/shared.h"

#define MT_GIVEN_MAX 8 /* a power of two */
#define MT_FRAME_EXPLICIT 1 /* frame with an end event: never over by its stack pointer */
#define MT_FRAME_NODE 2	    /* a backward node's: Python may be called from it */
#define MT_FRAME_IN_NODE 4  /* … or inside one */
#define MT_PY_FRAME_WORDS 16

struct mt_frame {
	u64 sp;	 /* user stack pointer at entry */
	u64 ret; /* that return address; explicit frames: hash of the name */
	u32 seq;
	u32 flags;
	u32 outer; /* number of the operator that Python, or a node, called; 0: a node's own frame */
	u32 op;	   /* its operator: low half of what its record has as addr; 0: a node's */
};

/* Outermost call of the malloc family in progress. */
struct mt_pending {
	u64 sp; /* 0 = none */
	u64 ptr, size, ts_ns;
	u32 fn; /* enum mt_host_fn */
	u32 has_given; /* a call inside of it gave memory: to an exception, where this one is an operator new */
};

/* Outermost call of a GPU's memory API in progress: arguments, then what was read from them. */
struct mt_seg_call {
	u64 sp; /* 0 = none */
	u64 ret; /* return address */
	u64 ts_ns;
	u64 regs[8]; /* arguments, MT_ARG_REGS */
	u64 addr, aux, dev, asked;
	u64 size[MT_SEG_FACTORS];
	u32 spec;
	u32 comm; /* memory for communication */
};

/* A name being read: too large for the stack together with the rest. */
struct mt_text {
	union {
		char text[MT_NAME_LEN_MAX];
		u64 words[MT_NAME_LEN_MAX / 8];
	};
};

/* The module whose forward runs, as last read (module.bpf.c). */
struct mt_module_state {
	u64 reported, self; /* module object: that user space knows, that was found last */
	u64 self_at;	/* where its frame has it: another one's may run at that place */
	u64 named;	/* the same, if it has a name */
	u64 key;	/* of the two innermost Python frames then; 0: none */
	u64 seq;	/* sequence number then */
	u64 node_frame; /* innermost Python frame inside nodes that are of no module's forward */
	u64 seq_at, grad_at; /* addresses of this thread's variables */
	u64 tstate;
	u32 generation;
	u32 outer;	/* the operator in which that was */
	u32 flags_reported; /* enum mt_module_flag, | MODULE_REPORTED */
	u32 optimizer; /* regions open with the outermost one of an optimizer, 0 = none */
	u64 words[MT_PY_FRAME_WORDS]; /* a Python frame */
};

struct mt_thread {
	u32 depth; /* frames open */
	u32 seq;   /* last frame number given out */
	u32 regions;
	u32 over; /* explicit frames that did not fit: their ends must not pop others */
	u32 regions_over; /* regions that did not fit, likewise */
	u32 region_reported;  /* lib/region.h */
	u32 regions_boxed; /* regions open with the outermost one that a boxed call reported, 0 = none */
	u64 plain, storage; /* flow: vtable pointers of this process seen before, see flow.bpf.c */
	/* flow: tensors that the operator of this frame was given, none of them to write; seq 0 = none */
	u32 given_seq, given_depth;
	u64 given[MT_GIVEN_MAX];
	u64 reported_ip; /* the operator's entry that a newer link's program has reported, see frames.h */
	u64 last_end; /* record of the last RecordFunction::end: it is called twice */
	struct mt_pending host;
	struct mt_seg_call seg;
	struct mt_seg_call comm; /* … of a communication library's that makes or ends a communicator */
	u64 gpu_ctx; /* driver's context that the thread made current, as far as seen */
	u32 gpu_dev; /* enum mt_dev; MT_DEV_NONE: not seen */
	u32 gpu_late; /* whether gpu_dev was decided */
	u64 freeing; /* block that the caching allocator is taking back: its USDT probe was passed, its report was not */
	struct mt_pending inner; /* … inside an operator new: allocations that are not its own */
	struct mt_module_state module;
	u64 freed_ptr, freed_sp; /* the last free, until the thread allocates */
	u64 freed_fn;
	struct mt_frame frames[MT_FRAMES_MAX];
	struct mt_text text; /* lib/text.h */
	struct pt_regs regs; /* usdt.bpf.c: a copy; on its stack it would not leave room for --stacks (512 bytes in all, 6.1) */
};

#ifdef MT_DEFINE
const volatile struct mt_config mt_config = {};
struct mt_counters mt_counters[MT_CPUS_MAX] = {};
__u32 mt_stacks_on = 0;
__u32 mt_modules_on = 0;
__u64 mt_looked_up_ns = 0;
__u32 mt_partial_cnt = 0;
__u64 mt_live_cnt = 0;
__u32 mt_live_over_cnt = 0;
__u32 mt_live_over[MT_LIVE_OVER_MAX] = {};
#else
extern const volatile struct mt_config mt_config;
extern struct mt_counters mt_counters[MT_CPUS_MAX];
extern __u32 mt_stacks_on; /* enum mt_stacks_on; not while costs are measured: a stack's is measured each time */
extern __u32 mt_modules_on; /* for some process it is known where to look */
extern __u64 mt_looked_up_ns; /* first look-up of a schema that user space has not taken note of; 0: none */
extern __u32 mt_partial_cnt; /* processes in `partial` */
extern __u64 mt_live_cnt; /* blocks in `live` */
extern __u32 mt_live_over_cnt, mt_live_over[MT_LIVE_OVER_MAX]; /* processes that were over their share: ever, the last ones */
#endif

struct mt_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

struct mt_rings_def {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MT_RINGS_MAX);
	__uint(key_size, sizeof(u32));
	__array(values, struct mt_ring);
};

struct mt_threads_def {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct mt_thread);
};

/* Processes that are followed: kernel-side programs see every process of the machine. */
struct mt_targets_def {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MT_TARGETS_MAX);
	__type(key, u32);
	__type(value, u8);
};

/* Processes in which only some operators have their probes so far. */
struct mt_partial_def {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MT_TARGETS_MAX);
	__type(key, u32);
	__type(value, u8);
};

/* Names whose text was sent: hash and process → 1. */
struct mt_names_def {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MT_NAMES_MAX);
	__type(key, u64);
	__type(value, u8);
};

struct mt_specs_def {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MT_USDT_SPECS_MAX);
	__type(key, u32);
	__type(value, struct mt_usdt_spec);
};

/* Hits of each symbol whose program serves several; see MT_COOKIE. */
struct mt_fired_def {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MT_FIRED_MAX);
	__type(key, u32);
	__type(value, u64);
};

/* Live host pointers that passed --min-size, and how many each process has; made full size only when that is used. */
struct mt_live_counts_def {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct mt_live_count);
};
struct mt_live_def {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct mt_live_key);
	__type(value, u64);
};

#ifdef MT_DEFINE
struct mt_rings_def rings SEC(".maps");
struct mt_threads_def threads SEC(".maps");
struct mt_targets_def targets SEC(".maps");
struct mt_partial_def partial SEC(".maps");
struct mt_names_def names_reported SEC(".maps");
struct mt_specs_def specs SEC(".maps");
struct mt_live_def live SEC(".maps");
struct mt_live_counts_def live_counts SEC(".maps");
struct mt_fired_def fired SEC(".maps");
#else
extern struct mt_rings_def rings SEC(".maps");
extern struct mt_threads_def threads SEC(".maps");
extern struct mt_targets_def targets SEC(".maps");
extern struct mt_partial_def partial SEC(".maps");
extern struct mt_names_def names_reported SEC(".maps");
extern struct mt_specs_def specs SEC(".maps");
extern struct mt_live_def live SEC(".maps");
extern struct mt_live_counts_def live_counts SEC(".maps");
extern struct mt_fired_def fired SEC(".maps");
#endif

/*
 * The row of this CPU. Programs run with migration disabled, so no other CPU writes to it. Where the
 * kernel preempts programs (preempt=full) another thread's may, between a read and its write: then a
 * hit is missing, which affects only the estimated cost.
 */
static __always_inline struct mt_counters *counters_get(void)
{
	return &mt_counters[bpf_get_smp_processor_id() & (MT_CPUS_MAX - 1)];
}

static __always_inline void loss_count(u32 reason)
{
	struct mt_counters *c = counters_get();

	/* Atomic: an interrupting program on this CPU may count too; losses are rare. */
	__sync_fetch_and_add(&c->loss[reason & (MT_LOSS_MAX - 1)], 1);
}

static __always_inline void hit_count(u32 prog)
{
	counters_get()->hits[prog]++;
}

static __always_inline void fired_count(u64 cookie)
{
	u32 slot = cookie >> 32;
	u64 *n = bpf_map_lookup_elem(&fired, &slot);

	if (n)
		(*n)++;
}

static __always_inline struct mt_thread *thread_get(void)
{
	struct mt_thread *t;

	t = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t)
		loss_count(MT_LOSS_THREAD_STATE);
	return t;
}

#endif

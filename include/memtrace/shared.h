/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * shared: shared by the BPF programs and user/trace beyond the records: configuration, counters,
 * map values. Not part of the wire ABI: both sides are built together.
 */
#ifndef MT_SHARED_H
#define MT_SHARED_H

#include "memtrace/event.h"
#include "memtrace/loss.h"
#include "memtrace/shares.h"

#define MT_RINGS_MAX 128 /* a power of two */

/* One cache-line-aligned row a CPU; user space sums them through the mapping of .bss. */
struct mt_counters {
	__u64 hits[MT_PROG_MAX + 1]; /* the last one counts emitted records */
	__u64 loss[MT_LOSS_MAX];
	__u64 stack_ns; /* spent on taking stacks: measured, not calibrated */
	__u64 module_ns; /* the same of modules */
	__u64 is_crowded; /* the CPU's ring was more than a quarter full when last looked at */
} __attribute__((aligned(64)));

struct mt_config {
	__u64 min_size;	  /* host allocations below it are not reported */
	__u64 ring_bytes; /* of one ring */
	__u32 ring_mask;  /* ring of a CPU = cpu & ring_mask */
	__u32 wake_bytes; /* wake user space when a ring holds more than this */
	__u32 stacks;	  /* enum mt_stacks */
	__u64 stack_size; /* allocations of at least so many bytes get a stack */
	__u64 stack_gap_ns; /* between two native ones on average; a second's worth may come at once */
};

/* --stacks */
enum mt_stacks {
	MT_STACKS_PYTHON = 1,
	MT_STACKS_NATIVE = 2,
	MT_STACKS_CATCH = 4, /* not of all: of those that struct mt_catch selects, Python's frames */
};

/* Which of them are taken now. */
enum mt_stacks_on {
	MT_STACKS_ON_ALL = 1,
	MT_STACKS_ON_CATCH = 2, /* some process has a struct mt_catch */
};

/*
 * Allocations of a process that are caught: their Python frames are reported, for a limited time and number. The kernel side
 * keeps both limits, so this ends even if user space does not end it.
 */
#define MT_CATCH_PROCS_MAX 64
#define MT_CATCH_SORTS_MAX 8
#define MT_CATCH_LEFT_MAX 512 /* stacks, of all sorts together */
#define MT_CATCH_NS_MAX 10000000000ull
struct mt_catch_sort {
	__u64 min, max; /* bytes */
	__u32 op[2];	/* the innermost operator, as its frame has it: either of the two; both 0: any */
	__u32 dev;	/* enum mt_dev */
	__s32 left;	/* counted down */
};
struct mt_catch {
	__u64 until_ns; /* CLOCK_MONOTONIC */
	__u64 cnt;
	struct mt_catch_sort sorts[MT_CATCH_SORTS_MAX];
};

#define MT_TARGETS_MAX 4096 /* processes in the kernel side's tables */

/* Live blocks above --min-size, of all processes; one has half of what the others leave. */
#define MT_LIVE_MAX (2u << 20)
#define MT_LIVE_OVER_MAX 16

struct mt_live_key {
	__u64 ptr;
	__u64 pid;
};

struct mt_live_count {
	__u64 cnt;
	__u64 left_out; /* that found no room in its share */
};

/* How a thread of a process finds its PyThreadState, and that its frames: user/python/offsets.h. */
#define MT_PY_PROCS_MAX 1024
#define MT_PY_NO_OFFSET 0xffff
struct mt_py_proc {
	__u32 tsd_table, tsd_key; /* in struct pthread: tables of 32 keys */
	__u16 tstate_thread_id;
	__u16 tstate_frame;
	__u16 cframe_frame; /* MT_PY_NO_OFFSET: tstate_frame is the frame's pointer itself */
	__u16 frame_bytes;
	__u16 frame_previous, frame_code, frame_instr;
	__u16 frame_owner; /* MT_PY_NO_OFFSET: none */
	__u16 frame_entry; /* MT_PY_NO_OFFSET: see entry_always, owner_shim */
	__u16 code_check;  /* of the four words of mt_py_check */
	__u8 owner_shim;
	__u8 entry_always; /* each frame is called from C: 3.10 */
	__u8 instr_bytes;  /* 4 or 8 */
	__u8 pad;
};

/* A thread-local variable of a library: in the thread's table of modules' blocks, at that place. */
struct mt_tls_var {
	__u64 module; /* 0: not known */
	__u64 offset;
};

/* How an allocation's module is found: user/python/reader.h, user/plan/tls.c. */
struct mt_module_proc {
	struct mt_py_proc py;
	__u64 call;	 /* code object of torch.nn.Module's __call__ */
	__u64 frame_self; /* of a frame: its first local variable */
	struct mt_tls_var seq;  /* at::sequence_number's */
	struct mt_tls_var grad; /* a byte whose lowest bit is the grad mode */
	__u32 generation; /* a thread's values of another one are stale */
	__u16 node_seq;	  /* Node → sequence_nr */
	__u16 pad;
};

/* A module that has a name: process and Python object. Object 0: the process has such, so a module not listed has no name. */
#define MT_MODULES_NAMED_MAX 262144
struct mt_module_key {
	__u64 obj;
	__u64 pid;
};

/*
 * Lines of Python at which something was allocated while no operator was open, by hash (struct mt_rec_place): whether it
 * was reported. One of no interest is not sent with an allocation. The least recently used ones go, and are reported again.
 */
#define MT_PLACES_REPORTED_MAX 65536
enum mt_place { MT_PLACE_REPORTED = 1, MT_PLACE_PLAIN = 2 /* of no interest */ };

/*
 * Cookie of a site whose program serves several symbols (malloc family, USDT): the program's value in
 * the low half, a slot in the map of fired counts in the high half.
 */
#define MT_FIRED_MAX 1024
#define MT_COOKIE(low, slot) ((__u64)(slot) << 32 | (__u32)(low))

/*
 * In the cookie of an operator's site: set with all others of its process at once. When those that are never called
 * are taken away, the used ones get a new link, without the bit, before the old one is closed.
 */
#define MT_COOKIE_FIRST (1ull << 63)

/* Classes of tensors by the vtable pointer of their TensorImpl, in one process. */
#define MT_FLOW_CLASSES_MAX 65536
#define MT_FLOW_CLASSES_SHARE 4096 /* of one process at most */
struct mt_class_key {
	__u64 vtable;
	__u64 pid;
};

/* Of a followed process's GPU calls. */
struct mt_seg_proc {
	__u64 since_ns; /* functions that choose a device are probed since then */
	__u64 comm_start, comm_end; /* code of the communication library */
};

#endif

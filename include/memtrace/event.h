/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause OR LGPL-2.1-only */
/*
 * event: the wire ABI between memtrace's BPF programs and its user side.
 *
 * Every record in a ring is one of the structs below, distinguished by hdr.kind; all integers
 * are host order, naturally aligned, no hidden padding, no long / enum / bool. 56 bytes at most, names
 * and tensors excepted. Included by BPF C and by user C; layout is pinned by the static asserts and tests.
 *
 * Frames. Each thread has a stack of open frames (operators, backward nodes), kept in BPF. `depth`
 * is the number of frames open *under* a new frame, or open *at* any other event; `seq` is the
 * frame's own number (per thread, from 1) or that of the innermost open frame, 0 for none. So user
 * space rebuilds every stack from the stream, and notices when a frame record was lost: the frame
 * at depth-1 then has another seq. Frames that a function entry opened have no end event: they are
 * over when the thread's stack pointer has risen above them or their return address has changed.
 */
#ifndef MT_EVENT_H
#define MT_EVENT_H

#include <linux/types.h>

#include "memtrace/arch.h"

#define MT_FRAMES_MAX 32    /* open frames a thread; 8 is the deepest seen in torch 2.13 */
#define MT_REGIONS_MAX 32   /* open regions a thread */
#define MT_NAME_LEN_MAX 128 /* bytes of a run-time name, terminating NUL included */
#define MT_NAMES_MAX 32768  /* distinct run-time names that are sent once; others are sent again at times */
#define MT_CPUS_MAX 512	    /* per-CPU counters in .bss */

/* Numbers are in recordings: append only. 64 and up exist on the user side alone (event/event.h). */
enum mt_kind {
	MT_EV_ALLOC = 1,	/* mem: addr = pointer, size = bytes asked for; dev */
	MT_EV_FREE = 2,		/* addr: addr = pointer; dev */
	MT_EV_OOM = 3,		/* mem: addr = 0, size = bytes that could not be had; dev */
	MT_EV_OP = 4,		/* addr: frame; addr = operator's cookie; flags: MT_OP_BY_HASH */
	MT_EV_NODE = 5,		/* mem: frame; addr = vtable pointer of the backward node, size = its number, 0: not read;
				   flags: MT_NODE_PYTHON */
	MT_EV_OP_BEGIN = 6,	/* addr: frame with an explicit end; addr = hash of its name */
	MT_EV_OP_END = 7,	/* addr: depth = frames that stay open; addr = 0 */
	MT_EV_REGION_BEGIN = 8, /* mem: addr = hash of its name, size = regions open before it */
	MT_EV_REGION_END = 9,	/* mem: addr = 0, size = regions that stay open */
	MT_EV_STEP = 10,	/* addr: addr = step number */
	MT_EV_TAG = 11,		/* mem: addr = pointer of a live block, size = hash of the tag; dev */
	MT_EV_NAME = 12,	/* name: text of a hash, before its first use (best effort) */
	MT_EV_MMAP = 13,	/* mem: addr, size; flags = enum mt_map_flag */
	MT_EV_MUNMAP = 14,	/* mem: addr, size */
	MT_EV_BRK = 15,		/* addr: addr = the new program break */
	MT_EV_RSS = 16,		/* mem: addr = enum mt_rss, size = bytes (kernel's approximation) */
	MT_EV_EXIT = 17,	/* mem: process gone; addr = exit code (wait status), size = peak RSS */
	MT_EV_APPLY = 18,	/* flow: frame; addr = vtable pointer of the node whose apply this is */
	MT_EV_ACC = 19,		/* flow: frame; AccumulateGrad::apply; addr = 0 */
	/* the driver's layer: successful calls, reported at their return; flags = enum mt_seg. "Time of entry": or 40 ms
	 * before the return, if that is later (a free may wait for the device) */
	MT_EV_SEG_ALLOC = 20, /* seg: flags may have MT_SEG_F_COMM; addr = pointer (PHYSICAL, ARRAY, external memory:
				 handle), size = bytes, 0 = not given by the call; aux: ASYNC = stream or pool,
				 GRAPH = graph, else the driver's context, 0 = not seen. A second ALLOC of a
				 PHYSICAL handle (size 0) is one more reference to it. */
	MT_EV_SEG_FREE = 21,  /* seg: addr = pointer or handle; time of entry. flags say what the function is
				 for: the pointer decides what it was. Handles: one reference is given back. */
	MT_EV_SEG_MAP = 22,   /* seg: addr = device address, size; aux = handle of the PHYSICAL or IMPORTED memory */
	MT_EV_SEG_UNMAP = 23, /* seg: addr, size; time of entry */
	MT_EV_SEG_FAIL = 24,  /* seg: size = bytes that could not be had; aux = result code; flags as for ALLOC */
	MT_EV_SEG_RESET = 25, /* seg: addr = context (0: the device's primary one): all that it held is gone; flags = 1: a
				 reference was given back, and it is so only if that was the last; time of entry */
	MT_EV_SEG_TRIM = 26,  /* seg: addr = pool (0: the graphs' of dev), size = bytes it may keep; time of entry */
	/* the caching allocator's */
	MT_EV_TOTALS = 27,	/* mem: addr = allocated, size = reserved bytes of dev after the block event before it, or
				 * as memory is refused */
	MT_EV_REQUEST = 28,	/* seg: addr = pointer, size = bytes asked for before rounding; aux = stream; dev */
	MT_EV_REQUEST_FREE = 29, /* addr: addr = pointer; dev unknown */
	/* communicators, graphs and pools of the driver's layer, reported at the return of a successful call */
	MT_EV_SEG_COMM = 30,  /* seg: addr = communicator, size = how many; flags = enum mt_seg_comm */
	MT_EV_SEG_GRAPH = 31, /* seg: flags = enum mt_seg_graph: it defines addr and aux */
	MT_EV_SEG_POOL = 32,  /* seg: addr = pool; dev = where its memory is */
	MT_EV_OOM_VICTIM = 33, /* addr: the kernel's OOM killer has chosen this process; addr = its pid again */
	/* --stacks: where the thread was when the block of its next ALLOC was given out */
	MT_EV_STACK = 34,     /* mem: addr = the block's pointer, size = hash of the Python frames, 0 = none; dev */
	MT_EV_STACK_RAW = 35, /* raw: the same, with registers and a piece of the native stack */
	MT_EV_STACK_PY = 36,  /* py: Python frames of a hash, before its first use (best effort) */
	MT_EV_MODULE = 37,    /* mem: the module whose forward runs on this thread changed, sent before allocations in it:
				 addr = the Python object (0: none), size = the sequence number that nodes of backward
				 have from there on (0: not known); flags = enum mt_module_flag */
	MT_EV_STREAM = 38,    /* mem: addr = an event of CUDA's that keeps a freed block of the caching allocator's from being
				 given out again (record_stream); flags = enum mt_stream: it defines size */
	MT_EV_ALLOC_AT = 39,  /* at: an ALLOC while no operator is open, with its place; an ALLOC from decode on */
	MT_EV_PLACE = 40,     /* place: a line of Python's of a hash, before its first use (best effort) */
	MT_EV_SAVED = 41,     /* flow: what the node that was just entered, one that Python defined, has saved */
	MT_EV_WIRE_MAX = 42,
};

/* addr is the hash of a name: an operator that was called boxed, a node that Python defined (by its type's name). */
#define MT_OP_BY_HASH	1
#define MT_NODE_PYTHON	1

enum mt_stream {
	MT_STREAM_WAITS = 1, /* size = pointer of the block, whose FREE comes next on this thread */
	MT_STREAM_OVER = 2,  /* the event was found to be over; size = 0 */
};

/* Kinds of segments. Nested calls (cudaMalloc inside ncclMemAlloc, cuMemAlloc inside cudaMalloc) are one: the outermost. */
enum mt_seg {
	MT_SEG_DEVICE = 1,     /* cudaMalloc, pitched and 3-D, cuMemAlloc, hipMalloc */
	MT_SEG_MANAGED = 2,
	MT_SEG_PINNED = 3,     /* host memory: cudaHostAlloc, cudaMallocHost */
	MT_SEG_REGISTERED = 4, /* pages of the process that were pinned: cudaHostRegister */
	MT_SEG_ASYNC = 5,      /* stream-ordered, from a pool */
	MT_SEG_ARRAY = 6,      /* arrays and mipmapped arrays: size = width × height × depth × element */
	MT_SEG_PHYSICAL = 7,   /* cuMemCreate: no address until it is mapped */
	MT_SEG_IMPORTED = 8,   /* IPC, external memory: another owner's */
	MT_SEG_NCCL = 9,       /* ncclMemAlloc */
	MT_SEG_GRAPH = 10,     /* memory nodes of a graph: memory from the first launch on */
	MT_SEG_RESERVED = 11,  /* cuMemAddressReserve: addresses alone, no memory */
	MT_SEG_MAX = 12,
};

/* With the kind, of ALLOC and FAIL: asked for by a communication library, or inside its making or ending a communicator. */
#define MT_SEG_F_COMM 0x40
#define MT_SEG_KIND(flags) ((flags) & 0x3f)

enum mt_seg_comm {
	MT_COMM_USED = 0, /* neither made nor ended: ncclCommFinalize */
	MT_COMM_MADE = 1,
	MT_COMM_ENDED = 2,
};

enum mt_seg_graph {
	MT_GRAPH_CAPTURES = 1,	   /* addr = stream: requests on it become nodes of a graph */
	MT_GRAPH_CAPTURED = 2,	   /* addr = graph, 0: none came of it; aux = stream */
	MT_GRAPH_INSTANTIATED = 3, /* addr = executable, aux = graph */
	MT_GRAPH_LAUNCHED = 4,	   /* addr = executable */
	/* Private pools of the caching allocator: size and addr = the two numbers of its id, dev = where its memory is */
	MT_GRAPH_POOL_BEGINS = 5, /* requests of the thread, and captured ones, are served from the pool … */
	MT_GRAPH_POOL_ENDS = 6,	  /* … no more */
	MT_GRAPH_POOL_USED = 7,	  /* one more uses it, as each beginning does … */
	MT_GRAPH_POOL_LEFT = 8,	  /* … one less: without any its segments go when the cache is emptied */
};

enum mt_module_flag {
	MT_MODULE_NO_GRAD = 1, /* grad mode is off */
	MT_MODULE_IN_NODE = 2, /* in a backward node: forward computed again (checkpoints); not in recordings */
};

enum mt_map_flag {
	MT_MAP_ANON = 1,
	MT_MAP_SHARED = 2,
	MT_MAP_HUGETLB = 4,
	MT_MAP_REMAP = 8, /* came from mremap: MUNMAP of the old place, MMAP of the new one … */
	MT_MAP_STAYS = 16, /* … which is followed by one more, of the old place: it stays mapped */
};

enum mt_rss {
	MT_RSS_FILE = 0, /* numbering of the kernel's MM_FILEPAGES … (include/linux/mm_types_task.h) */
	MT_RSS_ANON = 1,
	MT_RSS_SWAP = 2,
	MT_RSS_SHMEM = 3,
	MT_RSS_KINDS = 4,
};

/* A process's memory as /proc/PID/smaps_rollup and status have it, in bytes. Numbers are in recordings. */
enum mt_use {
	MT_USE_RSS = 0,
	MT_USE_PSS = 1, /* shared pages divided by the number of processes that map them */
	MT_USE_PRIVATE = 2,
	MT_USE_SHARED = 3, /* mapped by others, too */
	MT_USE_ANON = 4,
	MT_USE_PSS_ANON = 5,
	MT_USE_PSS_FILE = 6,
	MT_USE_PSS_SHMEM = 7,
	MT_USE_HUGE = 8,    /* anonymous huge pages */
	MT_USE_HUGETLB = 9, /* not in RSS */
	MT_USE_SWAP = 10,   /* PSS of what is swapped out */
	MT_USE_LOCKED = 11, /* mlock */
	MT_USE_PINNED = 12, /* for a device: cudaHostRegister, RDMA */
	MT_USES = 13,
};

/* The allocator that gave the memory out. One block is (pid, dev, pointer). */
enum mt_dev {
	MT_DEV_NONE = 0,
	MT_DEV_CPU = 1,	  /* the framework's CPU blocks */
	MT_DEV_HOST = 2,  /* malloc and friends; SEG_ALLOC of PHYSICAL: the driver's, in host memory */
	MT_DEV_CUDA0 = 16, /* cuda:0; cuda:N = 16 + N */
	MT_DEV_CUDA_MAX = 64,
	MT_DEVS_MAX = 80,
};

enum mt_flag {
	MT_F_BLOCK_MOVED = 1, /* ALLOC or FREE that is half of a realloc */
	MT_F_FREE_AGAIN = 2,  /* FREE reported again by a function that the first one calls: counts only if the block is live */
};

struct mt_hdr {
	__u64 ts_ns; /* CLOCK_MONOTONIC */
	__u32 pid;   /* thread group, in the initial pid namespace */
	__u32 tid;
	__u8 kind; /* enum mt_kind */
	__u8 dev;  /* enum mt_dev */
	__u8 depth;
	__u8 flags;
	__u32 seq;
};

struct mt_rec_addr {
	struct mt_hdr hdr;
	__u64 addr;
};

struct mt_rec_mem {
	struct mt_hdr hdr;
	__u64 addr;
	__u64 size;
};

/* An allocation and the innermost line of Python at it. */
struct mt_rec_at {
	struct mt_hdr hdr;
	__u64 addr;
	__u64 size;
	__u64 place; /* hash, see mt_rec_place */
};

/* A line of Python's, for which a hash of these, and of the process, stands. */
struct mt_rec_place {
	struct mt_hdr hdr;
	__u64 hash;
	__u64 code;  /* address of the code object */
	__u64 instr; /* address of the instruction; 3.10: its index */
	__u64 check; /* mt_py_check of the code object as it was then: an address is reused */
};

struct mt_rec_name {
	struct mt_hdr hdr;
	__u64 hash;
	char text[MT_NAME_LEN_MAX]; /* NUL-terminated, zero-filled */
};

/* A call of the driver's or runtime's memory API. */
struct mt_rec_seg {
	struct mt_hdr hdr; /* flags = enum mt_seg */
	__u64 addr;
	__u64 size;
	__u64 aux;
	__u32 api; /* cookie: the function's name */
	__u32 pad;
};

#define MT_PY_FRAMES_MAX 64 /* innermost ones; outer ones are cut */
#define MT_PY_ENTRY 1	    /* in `code`: called from C, not from the frame after it */

struct mt_py_frame {
	__u64 code;  /* address of the code object | MT_PY_ENTRY */
	__u64 instr; /* address of the instruction; 3.10: its index */
	__u64 check; /* mt_py_check of the code object as it was then: an address is reused */
};

struct mt_rec_py {
	struct mt_hdr hdr;
	__u64 hash;
	__u32 frames_cnt; /* that follow, innermost first */
	__u32 is_cut;	  /* there are more, or one could not be read */
	struct mt_py_frame frames[MT_PY_FRAMES_MAX]; /* the record has frames_cnt of them */
};

/* Four words of a code object: pointers to its names and tables. */
#define MT_PY_CHECK_WORDS 4
static inline __attribute__((always_inline)) __u64 mt_py_mix(__u64 h, __u64 v)
{
	h = (h ^ v) * 0xff51afd7ed558ccdull;
	return h ^ h >> 32;
}
static inline __attribute__((always_inline)) __u64 mt_py_check(const __u64 *w)
{
	return mt_py_mix(mt_py_mix(mt_py_mix(mt_py_mix(0x9e3779b97f4a7c15ull, w[0]), w[1]), w[2]), w[3]);
}

#define MT_STACK_RAW_MAX 16384 /* bytes of a thread's stack */
#define MT_STACK_F_RETURN 1    /* in hdr.flags: the program counter is where a call returned to */
#define MT_STACK_F_CAUGHT 2    /* in hdr.flags of STACK: of an allocation that was caught (struct mt_catch) */

struct mt_rec_raw {
	struct mt_hdr hdr;
	__u64 addr;
	__u64 python; /* hash */
	__u64 regs[MT_STACK_REGS];
	__u64 bytes_cnt; /* of `bytes` that mean something */
	__u8 bytes[MT_STACK_RAW_MAX]; /* from the stack pointer upwards */
};

_Static_assert(sizeof(struct mt_py_frame) == 24, "wire ABI");
_Static_assert(sizeof(struct mt_rec_py) == 40 + 24 * MT_PY_FRAMES_MAX, "wire ABI");
_Static_assert(sizeof(struct mt_rec_raw) == 48 + 8 * MT_STACK_REGS + MT_STACK_RAW_MAX, "wire ABI");
_Static_assert(sizeof(struct mt_rec_seg) == 56, "wire ABI");
_Static_assert(sizeof(struct mt_hdr) == 24, "wire ABI");
_Static_assert(sizeof(struct mt_rec_addr) == 32, "wire ABI");
_Static_assert(sizeof(struct mt_rec_mem) == 40, "wire ABI");
_Static_assert(sizeof(struct mt_rec_at) == 48, "wire ABI");
_Static_assert(sizeof(struct mt_rec_place) == 56, "wire ABI");
_Static_assert(sizeof(struct mt_rec_name) == 160, "wire ABI");

/*
 * Programs that a probe site runs. A site is (file, offset, program, cookie). The number indexes
 * hit counters and calibrated costs.
 */
/* How much of a job is traced: each has the probes of those before it (user/live/levels.h). STILL: not even marks of steps. */
enum mt_level { MT_LEVEL_STILL = 0, MT_LEVEL_WATCH = 1, MT_LEVEL_BLOCKS = 2, MT_LEVEL_FULL = 3 };

enum mt_prog {
	MT_PROG_NONE = 0,
	MT_PROG_FW_NEW,	      /* c10::ProfiledCPUMemoryReporter::New(this, ptr, bytes) */
	MT_PROG_FW_DELETE,    /* c10::ProfiledCPUMemoryReporter::Delete(this, ptr) */
	MT_PROG_FW_OOM,	      /* c10::ProfiledCPUMemoryReporter::OutOfMemory(this, bytes) */
	MT_PROG_OP,	      /* operator entry; cookie = operator */
	MT_PROG_NODE,	      /* torch::autograd::Engine::evaluate_function(this, graph, node, …); cookie: MT_NODE_LAYOUT */
	MT_PROG_REGION_BEGIN, /* torch::autograd::profiler::record_function_enter_new(result, std::string) */
	MT_PROG_REGION_END,   /* end of such a region; cookie = enum mt_region_end */
	MT_PROG_HOST_FREE,    /* free(ptr): entry only */
	MT_PROG_HOST_ENTER,   /* malloc family entry; cookie = enum mt_host_fn */
	MT_PROG_HOST_RET,     /* malloc family return */
	MT_PROG_USDT,	      /* any USDT site; cookie = index of its struct mt_usdt_spec */
	MT_PROG_FLOW_OP,      /* operator entry that reads its tensors; cookie = name | spec index << 32 | layout << 48 */
	MT_PROG_FLOW_APPLY,   /* Node::apply(result, this, vector<Tensor> &&) of a class; cookie = layout << 48 */
	MT_PROG_FLOW_ACC,     /* torch::autograd::AccumulateGrad::apply, same arguments */
	MT_PROG_SYSCALL,      /* sys_exit tracepoint: mmap, munmap, mremap, brk */
	MT_PROG_RSS,	      /* rss_stat tracepoint: in older recordings alone */
	MT_PROG_EXIT,	      /* sched_process_exit tracepoint */
	MT_PROG_FW_USAGE,     /* c10::reportMemoryUsageToProfiler(ptr, ±bytes, allocated, reserved, device) */
	MT_PROG_FW_USAGE_OOM, /* c10::reportOutOfMemoryToProfiler(bytes, allocated, reserved, device) */
	MT_PROG_SEG_ENTER,    /* memory API of a GPU, entry; cookie = index of its struct mt_seg_spec */
	MT_PROG_SEG_RET,      /* … its return; same cookie */
	MT_PROG_HOST_EXIT,    /* a `ret` of operator new, which may throw: no return probe there */
	MT_PROG_STACK,	      /* no site of its own: --stacks, in the programs that report allocations */
	MT_PROG_MODULE,	      /* no site of its own: whose forward runs, in the programs that report allocations */
	MT_PROG_LOOKUP,	      /* c10::Dispatcher::findSchemaOrThrow: an operator's first call */
	MT_PROG_FLOW_BOXED,   /* a call by operator's handle and stack of values; cookie = MT_BOXED_… | layout << 48 */
	MT_PROG_MAX,
};

/* Cookie of REGION_BEGIN: how the name is held. */
enum mt_region_string {
	MT_REGION_STRING = 0,	  /* std::string of the C++11 ABI: {pointer, length} */
	MT_REGION_OLD_STRING = 1, /* of the ABI before (PyPI's wheels up to 2.6): a pointer, the length 24 bytes before it */
	MT_REGION_BRIEF = 2,	  /* like STRING; ends as it begins, unless a boxed call reported the region */
};

/* Cookie of REGION_END: the function that stands for it. */
enum mt_region_end {
	MT_REGION_TWICE = 0, /* at::RecordFunction::end(this): twice for a region, and for much else */
	MT_REGION_ONCE = 1,  /* the function that unpacks the argument of _record_function_exit */
};

enum mt_host_fn {
	MT_HOST_MALLOC = 1,	   /* (size) */
	MT_HOST_CALLOC = 2,	   /* (n, size) */
	MT_HOST_REALLOC = 3,	   /* (ptr, size) */
	MT_HOST_MEMALIGN = 4,	   /* (align, size): aligned_alloc, memalign */
	MT_HOST_POSIX_MEMALIGN = 5, /* (void **out, align, size), returns 0 or errno */
	MT_HOST_VALLOC = 6,	   /* (size): valloc, pvalloc */
	MT_HOST_REALLOCARRAY = 7,  /* (ptr, n, size) */
	/* (size), may throw: 8 to 15 */
	MT_HOST_NEW = 8,
	MT_HOST_NEW_ARRAY = 9,
	MT_HOST_NEW_ALIGNED = 10,
	MT_HOST_NEW_ARRAY_ALIGNED = 11,
	MT_HOST_MI_NEW = 12,
	MT_HOST_MI_NEW_ALIGNED = 13,
	/* all (ptr, …); numbers distinguish functions that may call each other */
	MT_HOST_FREE = 16,
	MT_HOST_CFREE = 17,
	MT_HOST_FREE_SIZED = 18,
	MT_HOST_FREE_SIZED_ALIGNED = 19,
	MT_HOST_DALLOCX = 20,
	MT_HOST_SDALLOCX = 21,
	MT_HOST_DELETE = 22,
	MT_HOST_DELETE_SIZED = 23,
	MT_HOST_DELETE_ALIGNED = 24,
	MT_HOST_DELETE_SIZED_ALIGNED = 25,
	MT_HOST_DELETE_NOTHROW = 26,
	MT_HOST_DELETE_ALIGNED_NOTHROW = 27,
	MT_HOST_DELETE_ARRAY = 32, /* added to those of operator delete */
};
#define MT_HOST_MAY_THROW(fn) ((fn) >= MT_HOST_NEW && (fn) < MT_HOST_FREE)

/* One argument of a USDT probe, as its SDT note describes it. */
enum mt_arg_form {
	MT_ARG_NONE = 0,
	MT_ARG_CONST = 1, /* $value */
	MT_ARG_REG = 2,	  /* %reg */
	MT_ARG_MEM = 3,	  /* value(%reg) or value(%reg,%index,scale) */
};

#define MT_REG_NONE 0xff

struct mt_usdt_arg {
	__s64 value;  /* constant or displacement */
	__u8 form;    /* enum mt_arg_form */
	__u8 reg;     /* enum mt_reg, or MT_REG_NONE */
	__u8 index;   /* enum mt_reg, or MT_REG_NONE */
	__u8 scale;   /* 1, 2, 4, 8 */
	__u8 bytes;   /* 1, 2, 4, 8 */
	__u8 is_signed;
	__u8 shift; /* bit offset inside the register */
	__u8 pad;
};

/* The meaning of a USDT probe: its event, and the argument of each field. */
struct mt_usdt_spec {
	__u8 kind; /* ALLOC, FREE, OP_BEGIN, OP_END, REGION_BEGIN, REGION_END, STEP, TAG, REQUEST or REQUEST_FREE */
	__u8 pad[7];
	struct mt_usdt_arg ptr;	   /* ALLOC, FREE, TAG, REQUEST, REQUEST_FREE; STEP: the number */
	struct mt_usdt_arg size;   /* ALLOC, REQUEST */
	struct mt_usdt_arg device; /* ALLOC, FREE, TAG, REQUEST: -1 or absent = CPU, N = cuda:N */
	struct mt_usdt_arg name;   /* OP_BEGIN, REGION_BEGIN, TAG: char pointer; REQUEST: the stream */
};

#define MT_USDT_SPECS_MAX 1024

/*
 * Source `segments`: what a call of the memory API does, and where its pointer, size, handle and
 * device are. One pair of programs serves all functions.
 */
enum mt_seg_form {
	MT_SEG_NO = 0,
	MT_SEG_ARG = 1, /* the argument itself */
	MT_SEG_IN = 2,	/* its target, at the entry */
	MT_SEG_OUT = 3, /* its target, after success */
};

/* The meaning of a value as a factor of the size. */
enum mt_seg_as {
	MT_SEG_PLAIN = 0,
	MT_SEG_COUNT = 1,    /* 0 counts as 1 */
	MT_SEG_CHANNELS = 2, /* struct cudaChannelFormatDesc: four numbers of bits */
	MT_SEG_FORMAT = 3,   /* CUarray_format: bytes a channel; 0 for the compressed and planar ones */
	MT_SEG_LEVELS = 4,   /* mipmap levels: each halves the factors that are COUNT */
	MT_SEG_LAYERED = 5,  /* flags of an array: 1 or 4 = its depth counts layers, which levels do not halve */
};

struct mt_seg_arg {
	__u8 form;  /* enum mt_seg_form */
	__u8 where; /* number of an argument register; MT_ARG_STACK + k: word k of the stack's */
	__u8 bytes; /* 4 or 8 */
	__u8 off;   /* IN, OUT: bytes behind the pointer */
	__u8 as;    /* enum mt_seg_as */
	__u8 pad[3];
};

/* The owner of the memory. */
enum mt_seg_device {
	MT_SEG_DEV_NONE = 0,	 /* host memory, or not given */
	MT_SEG_DEV_THREAD = 1,	 /* the device that the thread chose, if that was seen */
	MT_SEG_DEV_ARG = 2,	 /* `dev` is its number */
	MT_SEG_DEV_LOCATION = 3, /* `dev` are the eight bytes of a CUmemLocation */
};

/* What else a successful call changes. */
enum mt_seg_sets {
	MT_SEG_SETS_NOTHING = 0,
	MT_SEG_SETS_DEVICE = 1,	 /* the thread's device, and its primary context */
	MT_SEG_SETS_CONTEXT = 2, /* the thread's context = addr, on device `dev`, if given */
	MT_SEG_SETS_COMM = 3,	 /* nothing, but memory asked for inside is for communication; does not count as outermost */
	MT_SEG_AT_ENTRY = 4,	 /* nothing: it has no result, is reported at its entry, and is never open around other calls */
};

#define MT_SEG_FACTORS 7

struct mt_seg_spec {
	__u32 api;    /* name of the function, cookie */
	__u8 kind;    /* enum mt_kind, SEG_* or STREAM; 0: only `sets` */
	__u8 seg;     /* enum mt_seg; RESET, COMM, GRAPH, STREAM: flags */
	__u8 whose;   /* enum mt_seg_device */
	__u8 sets;    /* enum mt_seg_sets */
	struct mt_seg_arg addr;
	struct mt_seg_arg aux;
	struct mt_seg_arg dev;
	struct mt_seg_arg asked; /* FAIL: stands for a factor that is known only after success */
	struct mt_seg_arg size[MT_SEG_FACTORS]; /* factors */
};

#define MT_SEG_SPECS_MAX 512

_Static_assert(sizeof(struct mt_seg_arg) == 8, "wire ABI");
_Static_assert(sizeof(struct mt_seg_spec) == 96, "wire ABI");

/*
 * Source `flow`: operator entries that also read their tensor arguments.
 *
 * Record: struct mt_rec_flow with `args_cnt` struct mt_flow_arg behind it. kind is MT_EV_OP,
 * MT_EV_APPLY or MT_EV_ACC; addr as for a frame of that kind. MT_EV_SAVED opens no frame: depth and seq are those of
 * the innermost open one, addr is 0.
 */
#define MT_FLOW_ARGS_MAX 1024 /* tensors in one record; further ones are counted, not sent */
#define MT_FLOW_SPEC_ARGS_MAX 24 /* tensor-like parameters of one operator; 21 is the most in torch 2.13 */
#define MT_FLOW_SPECS_MAX 4096

/* How a tensor-like parameter reaches the callee (libstdc++, torch 2.x). */
enum mt_flow_form {
	MT_FLOW_NONE = 0,
	MT_FLOW_TENSOR = 1,	/* Tensor const & or Tensor &: pointer to {TensorImpl *} */
	MT_FLOW_OPTIONAL = 2,	/* optional<Tensor> const &: pointer to {TensorImpl *, u8 engaged} */
	MT_FLOW_LIST = 3,	/* ArrayRef<Tensor>: {Tensor *, len} by value, two words */
	MT_FLOW_ILIST = 4,	/* ITensorListRef const &: pointer to {payload 16 bytes, int tag} */
	MT_FLOW_LIST_OPTIONAL = 5, /* List<optional<Tensor>> const &: pointer to {ListImpl *} */
	MT_FLOW_VECTOR = 6,	/* std::vector<Tensor> && or const &: pointer to {begin, end, cap} */
};

enum mt_flow_flag {
	MT_FLOW_F_WRITTEN = 1,	/* written by the operator, by its schema */
	MT_FLOW_F_REQUIRED = 2, /* not optional: without a storage the operator "does not match" (FORMATS 1.3) */
	MT_FLOW_F_WEIGHT = 4,	/* named weight or bias */
	MT_FLOW_F_RUNNING = 8,	/* named running_mean, running_var …: a buffer */
	MT_FLOW_F_ALIAS = 16,	/* an output is a view of it (alias annotation without !) */
	MT_FLOW_F_ONCE = 32,	/* to BPF alone: not read if the operator is inside one that was given the same tensor */
	/* set by BPF in what it sends */
	MT_FLOW_F_NO_STORAGE = 64, /* there is a tensor, but it has no storage or is of a class unknown to us */
	/*
	 * Its deleter is not given the memory itself (c10::DataPtr's context is another, c10/core/Allocator.h of torch
	 * 2.13): shared memory, from_blob, NumPy's, DLPack's, pinned memory.
	 */
	MT_FLOW_F_FOREIGN = 128,
};

struct mt_flow_spec_arg {
	__u8 form;  /* enum mt_flow_form */
	__u8 where; /* number of an integer argument register; MT_ARG_STACK + k: word k of the stack's */
	__u8 flags; /* enum mt_flow_flag */
	__u8 index; /* parameter number in the schema */
};

struct mt_flow_spec {
	__u32 args_cnt;
	struct mt_flow_spec_arg args[MT_FLOW_SPEC_ARGS_MAX];
};

/*
 * Offsets of the fields that are read of c10's objects, in bytes. They differ between versions of
 * torch: a site's cookie has its process's layout (layout << 48 | spec << 32 | name).
 */
#define MT_FLOW_LAYOUTS_MAX 64 /* a power of two */
#define MT_FLOW_COOKIE(low, layout) ((__u64)(layout) << 48 | ((low) & 0xffffffffffffull))
#define MT_BOXED_REGIONS 1 /* in the cookie of PROG_FLOW_BOXED: it stands for REGION_BEGIN and REGION_END, too */
#define MT_BOXED_MARKED 2 /* … and may be taken away: steps have marks that stay (MT_REGION_BRIEF) */
#define MT_BOXED_PYTHON 4 /* calls by Python of an operator defined in Python: only the name is reported */
#define MT_NODE_LAYOUT 1 /* in the cookie of PROG_NODE: it has a layout */
#define MT_FLOW_HEAD_WORDS 5    /* of a TensorImpl: its storage and autograd_meta lie in them */
#define MT_FLOW_STORAGE_WORDS 8 /* of a StorageImpl: data, device and size */
#define MT_FLOW_META_WORDS 8    /* of an AutogradMeta: grad */

struct mt_flow_layout {
	__u16 impl_storage;	  /* TensorImpl → StorageImpl * */
	__u16 impl_autograd_meta; /* TensorImpl → AutogradMeta * */
	__u16 meta_grad;	  /* AutogradMeta → Tensor grad */
	__u16 storage_data;	  /* StorageImpl → c10::DataPtr: void *data, its deleter, the deleter's context */
	__u16 storage_dev;	  /* StorageImpl → c10::Device: type and index, a signed byte each */
	__u16 storage_size;	  /* StorageImpl → bytes */
	__u16 list_begin;	  /* ListImpl → begin and end of its IValues */
	__u16 optional_impl;	  /* optional<Tensor> → TensorImpl *: 0 or 8 */
	__u16 optional_engaged;	  /* optional<Tensor> → bool: the other one */
	__u16 acc_variable;	  /* AccumulateGrad → Variable */
	/* a boxed call: c10::impl::OperatorEntry, which begins with a std::string, its name; arg_bytes 0: not known */
	__u16 schema;	    /* OperatorEntry → FunctionSchema, which begins with the same name */
	__u16 schema_args;  /* FunctionSchema → begin and end of its Arguments, which begin with their names */
	__u16 arg_bytes;    /* sizeof(Argument) */
	__u16 arg_alias;    /* Argument → AliasInfo *, NULL: none */
	__u16 alias_write;  /* AliasInfo → bool: it is written */
	__u16 list_tag;	    /* tag of an IValue that is a list */
	__u16 node_python;  /* PyNode → PyObject *; 0: not known */
	__u16 node_saved;   /* that object → begin and end of its SavedVariables, which begin with a TensorImpl * */
	__u16 saved_bytes;  /* sizeof(SavedVariable); 0: not known */
};

/* What a TensorImpl is, by its vtable pointer. */
enum mt_class {
	MT_CLASS_UNKNOWN = 0,	/* of a class that no library exports: nothing of it is read */
	MT_CLASS_PLAIN = 1,	/* c10::TensorImpl: a storage at a known offset (null: a wrapper subclass, meta) */
	MT_CLASS_UNDEFINED = 2, /* UndefinedTensorImpl: no tensor */
	MT_CLASS_OTHER = 3,	/* an exported class with TensorImpl's head: functorch, lazy, functional */
	MT_CLASS_SPARSE = 4,	/* COO and CSR: values and indices are tensors of their own */
	MT_CLASS_NESTED = 5,	/* NestedTensorImpl: has a storage */
	MT_CLASS_QUANTIZED = 6, /* QTensorImpl: has a storage */
	MT_CLASS_MAX = 7,
	/* only in the map of classes: other objects that are read must be of a known class, too */
	MT_CLASS_STORAGE = 32, /* StorageImpl */
	MT_CLASS_META = 33,    /* AutogradMeta */
	MT_CLASS_PY_NODE = 34, /* torch::autograd::PyNode */
};

/* One tensor of a record. ACC: index 0 = variable, 1 = its .grad as it was, 2.. = incoming. */
struct mt_flow_arg {
	__u64 ptr;  /* data pointer of its storage; 0 = none */
	__u64 size; /* bytes of that storage */
	__u8 index;
	__u8 flags;
	__u16 item; /* position in a list */
	__u8 dev;   /* enum mt_dev of the storage; MT_DEV_NONE: none, or a kind that is not followed */
	__u8 class; /* enum mt_class */
	__u16 pad;
};

struct mt_rec_flow {
	struct mt_hdr hdr;
	__u64 addr;
	__u32 args_cnt;
	__u32 cut; /* tensors that did not fit */
};

_Static_assert(sizeof(struct mt_flow_spec_arg) == 4, "wire ABI");
_Static_assert(sizeof(struct mt_flow_spec) == 100, "wire ABI");
_Static_assert(sizeof(struct mt_flow_layout) == 38, "wire ABI");
_Static_assert(sizeof(struct mt_flow_arg) == 24, "wire ABI");
_Static_assert(sizeof(struct mt_rec_flow) == 40, "wire ABI");

_Static_assert(sizeof(struct mt_usdt_arg) == 16, "wire ABI");
_Static_assert(sizeof(struct mt_usdt_spec) == 72, "wire ABI");

#endif

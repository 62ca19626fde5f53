/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * event: the one unit that flows from decode on: through order, into the model and into a
 * recording, and out of it again. 48 bytes, plain data, no pointers.
 *
 * Everything that a report says follows from the sequence of events and the table of names alone.
 * What a probe does not see (the target's identity, what could be attached, what was lost, what the
 * probes cost) is therefore an event too: kinds 64 and up, made on the user side.
 */
#ifndef MT_EVENT_EVENT_H
#define MT_EVENT_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/names.h"
#include "base/tensor_kinds.h"
#include "memtrace/event.h"
#include "memtrace/loss.h"

/* Kinds made on the user side; numbers are in recordings: append only. */
enum ev_kind {
	EV_BEGIN = 64, /* first event. pid = main target, addr = epoch_ns - monotonic_ns of the machine,
			  size = number of CPUs, name = "version kernel-release hostname" */
	EV_END = 65,   /* last event of a whole recording; aux = enum ev_end_reason */
	EV_PROC = 66,  /* a process is followed; aux = parent pid (0 = unknown), name = comm,
			  addr = name id of the command line, flags = enum ev_proc_how,
			  size = start time in ns of CLOCK_BOOTTIME (distinguishes reused pids) */
	EV_COMM = 67,  /* process or thread renamed: name = comm */
	EV_GONE = 68,  /* process left the trace: exited (aux = wait status) or detached (flags = 1) */
	EV_LABEL = 69, /* pid, name = "RANK=3": a rank variable of its environment; "POD_UID=…": its container */
	EV_COVER = 70, /* pid, name = source ("framework", "ops" …), addr = sites found,
			  size = sites attached. The latest per (pid, source) counts. */
	EV_NOTE = 71,  /* name = a sentence for the coverage block: something not visible, and why */
	EV_COST = 72,  /* aux = enum mt_prog, addr = hits so far, size = their calibrated cost so far in ns */
	EV_CPU = 73,   /* pid, size = CPU time of the process so far in ns (user + system) */
	EV_LOSS = 74,  /* aux = enum mt_loss, size = count so far, kernel and decode and order together */
	EV_TICK = 75,  /* nothing; time has passed (once a second, so that series have no holes) */
	EV_SELF = 76,  /* memtrace itself: addr = its RSS in bytes, size = its CPU time so far in ns */
	EV_SITE = 77,  /* a symbol was found in a process: pid, name = symbol, aux = enum mt_prog,
			  addr = sites found, size = sites attached, flags = bit number of its source.
			  Adds to what was reported of that symbol before. */
	EV_FIRED = 78, /* name = symbol, size = times it fired so far, in all processes. Operators have no
			  such event: each hit is an event of its own. */
	EV_ARG = 79,   /* flow: a tensor argument of the frame (pid, tid, seq) opened just before: addr = data
			  pointer of its storage (0 = none), size = bytes of the storage,
			  aux = place, flags, item (event_arg_…, packed.h); seq = the frame's,
			  depth = frames open with it, dev = the storage's, flags = enum mt_class, name = none.
			  Follows its OP, APPLY or ACC event at the same time, all of them together. */
	EV_NVML = 80,  /* NVML's numbers of device dev. pid 0: size = bytes that all use of it, addr = bytes that it has;
			  else size = bytes of that process on it. aux = NVML's own number of the device */
	EV_OOM_KILL = 81, /* size = processes that the kernel's OOM killer has taken since boot (/proc/vmstat); flags = 1: those
			     of the trace are reported by OOM_VICTIM */
	EV_USE = 82,   /* pid, aux = enum mt_use, size = bytes: a reading of smaps_rollup, or of pages one by one, all
			  kinds of it at once. flags = 1: not known, of a process of which it costs too much */
	EV_STACK = 83, /* a node of the tree of stacks, before its first use: seq = its number, from 1 without a gap;
			  size = its parent's, the frame that called this one (0: none); name = function, addr = name id
			  of its file, aux = line (0: not known), flags = enum ev_frame_kind */
	EV_STACK_AT = 84, /* where the thread was: of its next ALLOC or WAS, with the same addr; size = node */
	EV_TENSOR_OF = 85, /* of the EV_TENSOR after it, an optimizer's state: pid, addr; name = label of the root at which the
			      parameter's path begins. Without it the parameter belongs to no module */
	EV_TENSOR = 86, /* what Python calls a storage: pid, dev, addr = its data pointer, size = its bytes, name = path from
			  its module ("layers.0.weight"), root = the root's class, key = that in an optimizer's state
			  ("exp_avg"), type = its type ("float32[512,512]"), flags = enum ev_tensor, bits. depth = how long
			  ago it was read, in units of EV_TENSOR_AGE_NS: a block that was allocated since is another
			  one */
	/* what was live when a recording begins in the middle of a trace (record/window.h), after all else known then: */
	EV_WAS = 90,   /* a block: pid, tid, dev, addr = pointer, size, name = operator, seq = its age in ms, aux = the
			  region's name and enum block_from (packed.h), flags = enum ev_was */
	EV_WAS_FLOW = 91, /* of the EV_WAS before it: addr, dev; size and aux: event_was_flow (packed.h) */
	EV_MODULE = 92, /* an nn.Module: pid, addr = its Python object, size = that of the module it is in (0: none),
			   name = path from its root ("" = it is one), root = the root's label, type = its class */
	EV_MODULE_AT = 93, /* pid, tid, addr = the module whose forward runs here from now on (0: none), flags = enum
			      mt_module_flag; with EV_MODULE_BACKWARD: whose backward the nodes are that are entered next */
	EV_WAS_MODULE = 94, /* of the EV_WAS before it: addr, dev, size = the module it was allocated in, flags = enum phase */
	EV_MACHINE = 96, /* where this was recorded: name = host name, addr = hash of the boot's id (0: not known). In a merged
			    recording (event/merge.h) flags = 1, one for each machine, aux = its number, size = ns that
			    were added to its times */
	EV_IDLE = 97, /* size = operators that have no probe (any more), because no followed process has called them: the latest
			 counts; addr = probes taken away so far, in all processes */
	EV_LATE_OP = 98, /* pid, name = operator that was idle until now, ts_ns = when its probe was set again; size = ns before
			    that in which its calls may have been missed */
	EV_ATTACH = 99, /* the operators of process pid get their probes, in slices, while it runs. flags = EV_ATTACH_BEGINS:
			   from now on; else that is over: sites = those set, took_ns = since it began, slices, and
			   longest_us of one of them */
	EV_PLACE = 100, /* what a place of allocations is (ALLOC's name): pid, name = the place's, addr = name id of the
			   operator that stands for it ("inductor: extern_kernels.mm (aten.mm)"), 0: none does, flags = enum
			   ev_place, size = of which code object (0: not known), key = its buffer ("buf7 float32[512,512], then
			   buf8"), type = its source nodes ("linear_11, mm_3"), root = its file and line. May come after them */
	EV_LEVEL = 101, /* how much is traced from now on: flags = enum ev_level_state, depth = enum mt_level, the least that is
			   set, addr = number of the window, aux = process whose steps are counted (it also names the machine),
			   size = whole steps to trace, after which the window is over (0: until an event ends it), and
			   the divisor of the number of the first one (0: any; EV_STEPS), seq = budget (0: none;
			   event_level_…, packed.h), dev = enum ev_level_why */
	EV_HELD = 102, /* the Python container that holds memory that grows: pid, dev, addr = a block of it, name = path of
			  the container ("__main__.losses"), type = its class, key = the function whose variable it is, size =
			  items of it that hold such memory; 0: no container does, and flags = EV_HELD_UNSEEN if Python has
			  no tensor of most of it */
	EV_COMPILED = 103, /* torch.compile has compiled: pid, ago_ns = how long ago that began, took_ns, root = its
			      id ("0/1"), key = the function ("forward (train.py:6)"), name = why again, none: the first time,
			      type = why it made no code, none: it did, flags = enum ev_compiled, bits. With
			      EV_COMPILED_MISSED none of this: size = how many more there were, of which nothing is known */
	EV_CAUGHT = 104, /* where the thread was, as STACK_AT, at the allocation of a block like those that grow: taken for a
			    while, without --stacks. Not the block's stack, as others of its place have none
			    (model/core/caught.h) */
	EV_STEPS = 105, /* process pid has made `size` steps by its optimizer's own count, as read (live/counting.h) */
	EV_COUNTERS = 106, /* a caching allocator's own counters, as read from its process's memory (target/counters.h):
			      pid, dev, addr = bytes given out, size = bytes reserved; aux = EV_COUNTERS_PEAK: the most that
			      each was since the process began, or since it reset them. Not more than a claim (gpu.c) */
	EV_STAYED = 107, /* the block that process pid had at addr on dev when probes went, size bytes, is still there now that
			    all are set again: the same block of malloc's with the same contents (live/staying.h).
			    flags = EV_STAYED_ALIKE: these are the same 8 bytes repeated, so it could be another one */
	EV_PAUSE = 108, /* in a merged recording: flags = EV_PAUSE_BEGINS: from here on no file was tracing; else: one is again
			   (merge.h) */
	EV_AFTER = 109, /* a step of process pid took size ns, just after the trace, when only marks of steps were set */
	EV_MAX = 110,
};

/* Processes of machine n of a merged recording have n << EV_MACHINE_SHIFT added to pid and tid; Linux has fewer pids. */
#define EV_MACHINE_SHIFT 22
#define EV_MACHINES_MAX 1024

#define EV_ATTACH_BEGINS 1
#define EV_PAUSE_BEGINS 1
#define EV_GENERATED "inductor: " /* what each operator that stands for generated code begins with */
#define EV_PLACE_NOT_KNOWN EV_GENERATED "(not known)" /* the operator of a PLACE whose file could not be read */
/* Explained in model/model_levels.c. A session sends GAP, REST and ARMED; the others follow from boundaries of steps. */
enum ev_level_state { EV_LEVEL_GAP = 0, EV_LEVEL_REST, EV_LEVEL_ARMED, EV_LEVEL_FIRST, EV_LEVEL_TRACED, EV_LEVEL_TAIL,
		      EV_LEVEL_STATES };
/* Why a window: it was due, or was asked for. */
enum ev_level_why { EV_WHY_DUE = 0, EV_WHY_ASKED, EV_WHY_RSS, EV_WHY_GPU, EV_WHY_ODD_STEP, EV_WHY_REFUSED, EV_WHY_MAX };
#define EV_STACKS_MAX (1u << 18) /* nodes of the tree */
#define STACK_SIZE_DEFAULT (1u << 20) /* --stacks: the default; smaller blocks get none */

enum ev_frame_kind { EV_FRAME_PYTHON = 1, EV_FRAME_NATIVE = 2, EV_FRAME_CUT = 3 /* what is further out is not known */ };

struct ev_frame {
	name_id function, file;
	uint32_t line; /* 0: not known */
	uint8_t kind;  /* enum ev_frame_kind */
};

/* The kind of the generated graph that allocates there (0: not known), and whether it returns the block. */
enum ev_place {
	EV_PLACE_FORWARD = 1, EV_PLACE_BACKWARD = 2, EV_PLACE_INFERENCE = 3, EV_PLACE_GRAPH = 3,
	EV_PLACE_OUTPUT = 4,
	EV_PLACE_ALL = 7,
	EV_PLACE_UNREPORTED = 8, /* never in an event: nothing was reported of the place yet */
};

#define EV_HELD_UNSEEN 1
#define EV_COUNTERS_PEAK 1
#define EV_STAYED_ALIKE 1
/* AGAIN: not for the first time. */
enum ev_compiled { EV_COMPILED_BACKWARD = 1, EV_COMPILED_AGAIN = 2, EV_COMPILED_MISSED = 4 };
#define EV_MODULE_BACKWARD 0x80 /* in flags, beside enum mt_module_flag */

/* EV_END_WINDOW: the trace went on; its latest stretch was written. */
enum ev_end_reason { EV_END_DETACHED = 0, EV_END_TARGET_GONE = 1, EV_END_FAILED = 2, EV_END_WINDOW = 3 };
/* flags of COST, FIRED, SELF: the value when the recording began, from which its own counts start. */
#define EV_F_BASE 1
/* OP, OP_BEGIN, NODE, APPLY, ACC: open where a recording begins; numbers missing before it are of frames that had ended. */
#define EV_FRAME_OPEN 0x80
/* LATE: first seen as a tensor. NODE: the region is a backward node. */
enum ev_was { EV_WAS_LATE = 1, EV_WAS_NODE = 2 };
#define EV_TENSOR_AGE_NS 8000000ull
enum ev_proc_how { EV_PROC_ATTACHED = 0, EV_PROC_LAUNCHED = 1, EV_PROC_FORKED = 2, EV_PROC_EXECED = 3 };

struct event {
	uint64_t ts_ns; /* CLOCK_MONOTONIC; never decreases after order */
	union {
		uint64_t addr;	 /* as in enum mt_kind / ev_kind, hashes and cookies replaced by `name` */
		uint64_t ago_ns; /* EV_COMPILED */
		uint64_t sites;	 /* EV_ATTACH */
	};
	union {
		uint64_t size;
		uint64_t took_ns; /* EV_COMPILED, EV_ATTACH */
	};
	uint32_t pid;
	union {
		uint32_t tid;
		name_id root; /* EV_TENSOR, EV_MODULE, EV_COMPILED, EV_PLACE */
	};
	union {
		uint32_t seq; /* frame number, see memtrace/event.h */
		name_id type; /* EV_TENSOR, EV_MODULE, EV_HELD, EV_COMPILED, EV_PLACE */
		uint32_t longest_us; /* EV_ATTACH */
	};
	name_id name;  /* operator, node, region, tag, comm …; 0 = none */
	uint8_t kind;  /* enum mt_kind or ev_kind */
	uint8_t dev;   /* enum mt_dev */
	uint8_t depth; /* frames open; for REGION_BEGIN / END: also frames, regions are in `aux` */
	uint8_t flags;
	union {
		uint32_t aux;
		name_id key; /* EV_TENSOR, EV_HELD, EV_COMPILED, EV_PLACE */
		uint32_t slices; /* EV_ATTACH */
	};
};

/* 64-bit handles, streams and pools in a field of 32: compared, never used. Numbers below 2^32 stay. */
static inline uint32_t event_fold(uint64_t v)
{
	return (uint32_t)(v ^ v >> 32);
}

/*
 * By kind, after decode:
 *   ALLOC      addr = pointer, size = bytes, dev, depth/seq = innermost open frame; name = its place, if that may be one of
 *              compiled code (EV_PLACE). ALLOC_AT becomes ALLOC.
 *   FREE       addr = pointer, dev, depth/seq likewise
 *   OOM        size = bytes asked for, dev
 *   OP, NODE, OP_BEGIN    name; depth = frames under it, seq = its own number
 *   APPLY, ACC name = node's name; depth, seq as OP; followed by their EV_ARG
 *   SAVED      a tensor that the node (depth, seq) has saved, the fields as EV_ARG's; one with addr 0 comes before them
 *   OP_END     depth = frames that stay open
 *   REGION_BEGIN          name, aux = regions open before it (its index)
 *   REGION_END            aux = regions that stay open
 *   STEP       addr = step number
 *   TAG        addr = pointer, name = tag, dev
 *   MODULE     becomes EV_MODULE_AT, and NODE's size 0, in event/pairing.h
 *   MMAP, MUNMAP, BRK, RSS, EXIT, OOM_VICTIM   as in memtrace/event.h
 *   SEG_*, REQUEST  addr, size, flags, dev as in memtrace/event.h; name = the function ("cudaMalloc"),
 *              aux = the wire's aux folded to 32 bits: handles and streams are compared, never used
 *   TOTALS     addr = allocated, size = reserved, dev
 *   REQUEST_FREE          addr = pointer
 * MT_EV_NAME and MT_EV_PLACE never leave decode: names are in the table of names.
 */

_Static_assert(sizeof(struct event) == 48, "recordings and the order window count on it");

/* A consumer of ordered events. 0, or -errno when the consumer itself cannot go on. */
typedef int (*event_fn)(void *ctx, const struct event *ev);

/* "alloc", "free", "op" … : the names used in JSON and in debug output; "?" if unknown. */
const char *event_kind_name(uint8_t kind);
/* "ring", "order" …; NULL if unused. */
const char *loss_name(unsigned reason);
/* "cpu", "host", "cuda:3" into buf (at least 16 bytes); returns buf. */
const char *dev_name(uint8_t dev, char *buf);

static inline bool dev_is_gpu(uint8_t dev)
{
	return dev >= MT_DEV_CUDA0 && dev < MT_DEV_CUDA0 + MT_DEV_CUDA_MAX;
}

#endif

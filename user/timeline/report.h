/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * report: the state of a trace as plain data: what every view renders, and nothing else decides.
 * Built by model__report; strings are copies (bytes as they came from the target: views escape).
 * Sizes in bytes, times in ns; *_ts_ns are CLOCK_MONOTONIC, add epoch_off_ns for epoch time.
 */
#ifndef MT_TIMELINE_REPORT_H
#define MT_TIMELINE_REPORT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/event.h"
#include "memtrace/event.h"
#include "memtrace/loss.h"
#include "timeline/timeline.h"
#include "timeline/trend.h"

#define REPORT_SERIES_MAX 1024 /* points a series has at most */
#define REPORT_LANES_MAX 1024

struct point {
	uint64_t ts_ns;	   /* start of the bucket */
	uint64_t live_max; /* highest in the bucket */
	uint64_t live_end; /* at its end */
};

struct series {
	struct point *points;
	size_t cnt;
	uint64_t bucket_ns;
};

struct report_cat {
	uint64_t live, at_peak, byte_ns;
};

/* What the driver gave of one kind (enum mt_seg). PHYSICAL memory counts from creation to its real end. */
struct report_seg {
	uint64_t live, peak;
	uint64_t allocs, frees, dropped; /* dropped: with a context, a reset or the process */
	uint64_t fails, fail_bytes_last;
	uint32_t fail_code_last;
};

/* Who gives out the blocks of a device, by what was seen of it. */
enum report_backend {
	BACKEND_UNKNOWN = 0, BACKEND_CACHING, BACKEND_EXPANDABLE, BACKEND_ASYNC, BACKEND_NO_CACHING, BACKEND_MAX,
};

/* The driver's layer of a device, and how the caching allocator uses it. Bytes. */
struct report_segments {
	uint8_t seen;	  /* a driver call was seen: kinds, live, peak mean something */
	uint8_t totals;	  /* the caching allocator told its own: allocated, reserved */
	uint8_t requests; /* … and what was asked of it: requested */
	uint8_t backend;  /* enum report_backend */
	struct report_seg kinds[MT_SEG_MAX];
	uint64_t live, peak, peak_ts_ns; /* of the device's own memory: without PINNED, REGISTERED, IMPORTED, RESERVED */
	uint64_t cached, other;		 /* live segments by whether the caching allocator uses them; cached + other = live */
	uint64_t allocated, allocated_peak; /* as told */
	uint64_t allocated_before;	    /* of it, in blocks from before the attach that nothing has used since */
	uint64_t reserved, reserved_peak;   /* as told, segments freed since taken off */
	uint64_t reserved_before;	    /* of it, in segments from before the attach */
	uint64_t requested, requested_peak; /* of live blocks, before rounding */
	uint64_t rounding;		    /* of live blocks whose request was seen: what they have more than that */
	uint64_t inactive;		    /* free, in cached segments that hold a block */
	uint64_t free_cached;		    /* in cached segments that hold none */
	uint64_t largest_free;		    /* longest free range of the cached segments */
	uint64_t late, late_peak, late_blocks; /* freed, but another stream may use it yet: now, at most; how many blocks */
	uint64_t resets, trims;
	uint64_t comm, comm_peak;		/* live bytes for communication, of every kind */
	uint64_t comms_made, comms_ended;	/* communicators */
	uint64_t graphs, launches, graph_peak;	/* CUDA graphs that have memory of their own; the most that one needs */
	/* one truth in layers: driver = allocator + others, allocator = tensors + rounding + late + unused */
	uint64_t driver;    /* live, and what was reserved before the attach */
	uint64_t allocator; /* of it, the framework's */
	uint64_t tensors, unused, others;
	uint64_t communication; /* of others */
	/* NVML's word, the last one: the whole device, and of it the followed processes */
	uint8_t nvml;
	uint8_t nvml_procs; /* it tells bytes of processes, too */
	uint64_t nvml_used, nvml_used_peak, nvml_own, nvml_own_peak;
	uint64_t nvml_total; /* memory that the device has */
	uint64_t residual; /* nvml_own - driver, never negative: contexts, code, what was there before the attach */
};

/* A segment, or mapped pieces side by side as one. */
struct report_seg_row {
	uint64_t addr, size, used, largest_free; /* used: by the blocks in it */
	uint32_t pid, blocks;
	uint8_t dev, kind; /* enum mt_seg */
	uint8_t is_cached; /* the caching allocator's */
	uint8_t is_comm;   /* for communication */
};

struct report_dev {
	uint8_t dev;
	struct report_segments segs;
	uint64_t live, peak, peak_ts_ns;
	uint64_t allocs, frees;		/* of blocks seen born, and frees of blocks seen born or met */
	uint64_t alloc_bytes, free_bytes;
	uint64_t preexisting_frees;	/* frees of blocks never seen born (bytes unknown) */
	uint64_t dropped, dropped_bytes; /* blocks that were live when their process went away */
	uint64_t ooms, oom_bytes_last;
	uint64_t byte_ns;		/* integral of live over time; kept in 128 bits, UINT64_MAX if more */
	uint64_t preexisting_blocks;	/* first met as an operator's tensor: part of live from then on */
	uint64_t preexisting_bytes;
	uint64_t carried_blocks, carried_bytes; /* lived before the window of a flight recorder began; told there */
	struct report_cat cats[CAT_MAX];
	struct series series;
};

/*
 * Operators, backward nodes and regions. dev-spanning; at_peak is summed over each device's own peak.
 * One layer is counted: the framework's devices, or MT_DEV_HOST where no other was seen (its blocks
 * hold the framework's, and would count them twice). The same for peak_blocks and live_at_exit.
 */
struct report_op {
	char *name;
	uint8_t is_node; /* in regions[]: a backward node, which counts as a region; in ops[]: 0 */
	uint64_t count;	 /* entries */
	uint64_t alloc_count, alloc_bytes; /* blocks born with this one innermost */
	uint64_t live_count, live;
	uint64_t at_peak;
};

struct report_block {
	uint64_t id, ptr, size;
	uint64_t born_ts_ns, freed_ts_ns; /* freed 0: live at the end */
	char *op, *region;
	char *name; /* in Python: "layers.0.weight", "exp_avg layers.0.weight"; NULL: none that is known now */
	uint32_t pid, tid;
	uint8_t dev, cat;
	uint8_t has_stream;
	uint32_t stream; /* folded to 32 bits (event/event.h); 0: the default one */
};

struct report_frame {
	char *function, *file;
	uint32_t line; /* 0: not known */
	uint8_t kind;  /* enum ev_frame_kind */
};

enum report_sure { SURE_LOW = 1, SURE_MEDIUM, SURE_HIGH };

/* Blocks of one place that live across steps and grow in number: perhaps a leak (docs/leaks.md). */
struct report_leak {
	char *op, *region; /* "" none */
	uint32_t pid;
	uint8_t dev, cat;	/* cat: of most of its bytes */
	uint8_t per_step;	/* slopes are those of a step, else of a second */
	uint8_t sure;		/* enum report_sure */
	double bytes_slope, blocks_slope;
	double tau;		/* Kendall's: 1 = never fell */
	uint64_t live, blocks;	/* all that live now */
	uint64_t grown, grown_blocks; /* of them, since warming up was over */
	uint64_t first_ts_ns, last_ts_ns; /* births of the oldest and of the youngest that live */
	uint64_t history[TREND_POINTS_MAX]; /* bytes that lived across a step, oldest first, warming up too */
	size_t history_cnt;
	struct report_frame *frames; /* of the stack where all of them were born, innermost first; NULL: not known */
	size_t frames_cnt;
};

struct report_leaks {
	uint8_t too_short; /* to say: no process had as many steps (or half seconds) as that takes */
	uint8_t per_step;  /* ticks are steps, of the process that had most of them; else half seconds */
	uint64_t ticks;
	uint32_t ticks_least;
	uint64_t not_watched; /* births that found no room */
	struct report_leak *rows; /* most bytes a second first; `top` at most */
	size_t cnt, total;
};

#define REPORT_OOM_OPS 8
#define REPORT_OOM_BLOCKS 8
#define REPORT_OOM_SEGS 8
#define REPORT_OOMS_MAX 4

/* The usual ways of ending a program: they say nothing of memory. */
static inline bool signal_sends_away(int sig)
{
	return sig == SIGTERM || sig == SIGINT || sig == SIGHUP || sig == SIGPIPE;
}


enum report_oom_kind { OOM_DEVICE = 1, OOM_HOST = 2, OOM_DEATH = 3 };

struct report_oom_op {
	char *name; /* "": no operator was open */
	uint64_t live;
};

/* What things were like when memory was refused, or the process ended by a signal. */
struct report_oom {
	uint8_t kind; /* enum report_oom_kind */
	uint8_t dev;  /* refused by; DEATH: MT_DEV_NONE */
	uint8_t killed; /* DEATH: by the kernel's OOM killer, as it marked it, or as it took a process in that second */
	uint8_t marked; /* the former: certain */
	uint64_t ts_ns;
	uint32_t pid, tid;
	char *comm;
	char *op, *region;	  /* innermost of the thread that asked; "" none */
	char *api;		  /* the call that failed, "" not seen */
	uint32_t code;		  /* its result */
	uint32_t exit_status;	  /* DEATH: wait status */
	uint64_t times;		  /* how often within a moment; 1 or more */
	uint64_t asked;
	uint64_t live;		  /* of that device; DEATH: of the process, all framework devices (or malloc) */
	uint64_t allocated, reserved, unused, largest_free; /* of the device, when told */
	uint64_t driver;
	uint64_t cats[CAT_MAX];	  /* live by category */
	struct report_oom_op ops[REPORT_OOM_OPS]; /* most live bytes first */
	size_t ops_cnt;
	struct report_block blocks[REPORT_OOM_BLOCKS]; /* largest first */
	size_t blocks_cnt;
	struct report_seg_row segs[REPORT_OOM_SEGS]; /* of a device: the process's largest first */
	size_t segs_cnt;
	uint64_t rss[MT_RSS_KINDS], rss_total;
};

/* Where blocks of --stack-size and more were born. */
struct report_stack {
	uint32_t node; /* its number in this recording */
	struct report_frame *frames; /* innermost first */
	size_t frames_cnt;
	uint64_t alloc_count, alloc_bytes, live_count, live, at_peak; /* as in report_op */
};

struct report_proc {
	uint32_t pid, ppid;
	char *comm, *cmdline;
	char **labels;
	size_t labels_cnt;
	uint64_t live, peak, peak_ts_ns; /* framework devices together */
	uint64_t allocs, frees;		 /* of the layer that ops count, see report_op */
	uint64_t host_live, host_peak;	 /* malloc layer */
	uint64_t rss[MT_RSS_KINDS], rss_total, rss_peak;
	uint64_t use[MT_USES], use_ts_ns; /* by enum mt_use; use_ts_ns 0: was not read */
	uint64_t mapped, mapped_peak;	 /* anonymous bytes mmap'ed minus munmap'ed since attach; >= 0 */
	uint64_t brk_growth;
	uint64_t cpu_ns; /* used since its first EV_CPU */
	uint64_t live_at_exit;
	uint32_t exit_status; /* wait status, valid if gone == 1 */
	uint64_t marks_cnt[MARK_MAX];
	struct mark_at marks[MARK_MAX]; /* the last of each kind */
	struct step_marks highest_step; /* with the highest peak; pid 0: no step is over */
	uint8_t gone;	      /* 0 followed, 1 exited, 2 detached */
	uint8_t how;	      /* enum ev_proc_how */
};

/* What a process holds on a device now, by category. */
struct report_lane {
	uint32_t pid;
	uint8_t dev;
	uint64_t cats[CAT_MAX];
};

/* What Python calls a block that is alive. */
struct report_tensor {
	uint64_t id, ptr, size;
	uint32_t pid;
	uint8_t dev, cat;
	uint8_t kind; /* enum ev_tensor */
	char *path;   /* "layers.0.weight" */
	char *root;   /* class of the module that the path begins at, "#2" behind the second one of that class */
	char *type;   /* "float32[512,512]" */
	char *key;    /* of an optimizer's state: "exp_avg"; else "" */
};

/* Named blocks of one kind, and those of them whose category says otherwise. */
struct report_named {
	uint64_t cnt, bytes, differ_cnt, differ_bytes;
};

/* What adds up over modules: of the module alone (the innermost one), or with all that is in it. */
struct report_module_sum {
	uint64_t alloc_count, alloc_bytes, live_count, live, at_peak; /* as in report_op */
	uint64_t by_phase_count[PHASE_MAX], by_phase_bytes[PHASE_MAX], by_phase_live[PHASE_MAX]; /* born in */
};

/*
 * An nn.Module. What it made is told by the Python frames at the birth, and in backward by who made the node
 * (docs/modules.md). Highest values are each at its own moment, of the module with all that is in it.
 */
struct report_module {
	uint32_t pid;
	uint32_t parent; /* index in modules + 1; 0: a root. Parents stand before those in them */
	uint32_t depth;
	char *name;  /* path from its root: "layers.0.linear1"; "" of a root, NULL: not told */
	char *root;  /* label of that root: its class, "#2" behind the second of that class; "" not told */
	char *class; /* "Linear" */
	uint64_t calls;
	struct report_module_sum own, all;
	uint64_t activation;	  /* highest of what its forward (and recompute) made and had not freed */
	uint64_t activation_live; /* … now */
	uint64_t kinds[EV_TENSOR_MAX], kinds_live[EV_TENSOR_MAX]; /* named storages, highest and now, by enum ev_tensor */
	uint64_t input, output;	  /* storages given to, and used outside of, one call: of the largest; needs the source flow */
	uint64_t peak_forward, peak_backward; /* of all live bytes of the process while it ran, seen at births */
};

/* What an operator allocated in one module, itself and not what it called; in none: has_module 0. */
struct report_op_module {
	char *op;	     /* "": none */
	char *module, *root; /* as name and root of report_module; NULL: none, or not told */
	uint32_t pid;	     /* of the module */
	uint8_t has_module;
	uint64_t alloc_count, alloc_bytes, by_phase[PHASE_MAX]; /* bytes */
};

struct report_phase {
	uint64_t entries, ns; /* ns: of all threads together */
	uint64_t alloc_count, alloc_bytes, live;
	uint64_t peak; /* of all live bytes of a process, seen at births in it */
};

struct report_mark {
	struct mark_at at;
	uint64_t number; /* STEP: its mark's number; without marks counted from 1 in that process */
	uint32_t pid, tid;
	uint8_t kind; /* enum tl_mark */
};

struct report_cover {
	uint32_t pid;
	char *source;
	uint64_t found, attached;
};

/* A probed symbol, in all processes together. */
struct report_symbol {
	char *name;	 /* "aten::addmm", "malloc", "memtrace:op_begin" */
	uint32_t source; /* bit number of its enum source (plan/plan.h) */
	uint64_t found, attached; /* sites: overloads, libraries, processes */
	uint64_t fired;
};

/* An operator that nobody had called, so that its probe was taken away, until it was called. */
/* Probes of operators were set while processes ran: sums, and of the process that felt it most how it did. */
struct report_attach {
	uint64_t sites, slices, took_ns, longest_slice_ns; /* slices 0: none were */
	uint64_t steps_before; /* that could be compared with, 0: none */
	uint64_t median_before_ns, longest_before_ns, longest_step_ns, longest_gap_ns;
};

/* What tracing costs a process, by its own steps: medians of steps just before the probes were set, and of steps after. */
struct report_price {
	uint32_t pid;
	uint64_t steps_before, steps; /* that were compared; 0: none could be */
	uint64_t before_ns, traced_ns;
	double lost;  /* share of its speed; below 0: it was faster, which is noise */
	double error; /* of lost, either way, 95 % */
};

struct report_late_op {
	char *name;
	uint32_t pid;
	uint64_t ts_ns;	    /* when its probe was set again */
	uint64_t missed_ns; /* before that, in which its calls may not be told */
};

struct report_cost {
	uint64_t hits, ns; /* by enum mt_prog, latest */
};

/* Source `flow`: what the graph was made of, and where torch.profiler's checks would have failed. */
struct report_flow {
	uint64_t nodes, edges, versions; /* closed nodes, their edges, in-place writes */
	uint64_t replays;		 /* windows labelled again, because parameters were found */
	uint64_t output_twice;		 /* one version of a block made by two nodes (threads that overlap) */
	uint64_t input_stale;		 /* a node was given a version that another one had replaced when it was over */
	uint64_t by_class[MT_CLASS_MAX]; /* tensors without a storage of their own, by enum mt_class */
	uint64_t moved;			 /* storages whose tensor took them over from another block */
	uint64_t unmapped;		 /* met blocks that ended with their mapping */
};

struct report_ranks;
struct report {
	uint8_t classes; /* enum classes: which categories devs[].cats has */
	uint8_t has_flow; /* flow means something */
	struct report_flow flow;
	uint64_t start_ts_ns, end_ts_ns; /* first and last event */
	int64_t epoch_off_ns;
	char *host;		   /* EV_BEGIN's name */
	uint32_t pid;		   /* main target */
	char *comm, *cmdline;
	int ended;		   /* EV_END seen */
	uint32_t end_reason;
	uint64_t events[256];	   /* by kind */
	uint64_t lost[MT_LOSS_MAX]; /* latest EV_LOSS per reason, the model's own added */
	struct report_cover *covers;
	size_t covers_cnt;
	struct report_symbol *symbols; /* by fired, then name; all of them */
	size_t symbols_cnt;
	uint64_t idle_ts_ns;	   /* when probes of operators that nobody calls were first taken away; 0: never */
	uint64_t idle_ops, idle_probes; /* those without a probe in the end; probes taken away, in all processes */
	struct report_attach attach;
	struct report_price price;
	struct report_late_op *late_ops; /* the first ones */
	size_t late_ops_cnt;
	uint64_t late_ops_total;
	char **notes;
	size_t notes_cnt;
	struct report_oom ooms[REPORT_OOMS_MAX]; /* the last ones of those that weigh most, oldest first */
	size_t ooms_cnt;
	uint64_t ooms_total;	   /* final ones, all of them */
	struct report_seg unknown[MT_SEG_MAX]; /* of no known device: host memory, and devices nobody told */
	uint64_t unknown_comm, unknown_comm_peak; /* of them for communication: pinned memory */
	struct report_cost costs[MT_PROG_MAX];
	uint64_t probe_hits, probe_ns; /* their sums */
	uint64_t target_cpu_ns;	   /* CPU time all followed processes used since their first EV_CPU */
	double overhead;	   /* probe_ns / target_cpu_ns; 0 if unknown */
	double overhead_most;	   /* ... where threads wait for the probed one and memtrace's time is the job's; no bound */
	uint64_t self_rss, self_cpu_ns;
	struct report_dev *devs;   /* framework devices and MT_DEV_HOST, those seen, by number */
	size_t devs_cnt;
	struct report_op *ops;	   /* by at_peak, then alloc_bytes; `top` at most; ops_total = all */
	size_t ops_cnt, ops_total;
	struct report_op *regions;
	size_t regions_cnt, regions_total;
	struct report_op no_op;	   /* blocks born outside any op */
	struct report_stack *stacks; /* by at_peak, then alloc_bytes; `top` at most; stacks_total = all */
	size_t stacks_cnt, stacks_total;
	struct report_stack no_stack; /* of the blocks without one; without frames */
	struct report_proc *procs; /* in order of appearance; last one may be pid 0: all that have no row */
	size_t procs_cnt;
	struct report_seg_row *seg_rows; /* largest segments live at the end, by size; `top` (and 1024) at most */
	size_t seg_rows_cnt;
	struct report_lane *lanes; /* those that hold a block, by pid and device; of a process too many: pid 0 */
	size_t lanes_cnt;
	struct report_block *peak_blocks; /* largest blocks live at the peak, by size; `top` (and 1024) at most */
	size_t peak_blocks_cnt;
	struct report_tensor *tensors; /* by size; `top` at most */
	size_t tensors_cnt, tensors_total;
	struct report_named named[EV_TENSOR_MAX]; /* by enum ev_tensor */
	struct report_module *modules; /* all that are told or made a block; by process, in order of named_modules() */
	size_t modules_cnt;
	struct report_module_sum no_module; /* of none */
	struct report_op_module *op_modules; /* all of them, by alloc_bytes */
	size_t op_modules_cnt;
	uint64_t op_modules_rest; /* bytes of pairs that found no room */
	struct report_phase phases[PHASE_MAX];
	struct report_mark *marks; /* the last ones, oldest first */
	size_t marks_cnt;
	uint64_t marks_total, marks_by_kind[MARK_MAX];
	struct step_marks *step_rows; /* the last ones, of all processes, oldest first */
	size_t step_rows_cnt;
	struct series rss; /* all followed processes together */
	struct series rss_kinds[MT_RSS_KINDS], pss, huge; /* the same by kind; sums of the readings of use */
	uint64_t use[MT_USES]; /* of those that are there */
	struct report_leaks leaks;
	struct report_ranks *ranks; /* timeline/ranks.h; NULL: was not asked for */
	uint64_t steps;	   /* STEP marks, else entries of "Optimizer.step#…" regions */
};

void report__free(struct report *r); /* NULL is fine */

#endif

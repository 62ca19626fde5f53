/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* state: what a model holds; for the files of this room alone. */
#ifndef MT_MODEL_STATE_H
#define MT_MODEL_STATE_H

#include "model/core/blocks.h"
#include "model/core/carried.h"
#include "model/core/compiles.h"
#include "model/core/caught.h"
#include "model/core/device.h"
#include "model/core/freed.h"
#include "model/core/gaps.h"
#include "model/core/paid.h"
#include "model/core/growth.h"
#include "model/core/holders.h"
#include "model/core/kinds.h"
#include "model/model.h"
#include "model/core/modules.h"
#include "model/core/op_modules.h"
#include "model/core/places.h"
#include "model/core/procs.h"
#include "model/core/sampled.h"
#include "model/core/saved.h"
#include "model/core/stackset.h"
#include "model/core/tally.h"
#include "model/core/tensors.h"
#include "model/core/threads.h"
#include "model/core/told.h"

struct report;
struct report_block;
struct report_dev;

/* Regions of this beginning are steps where nothing else marks them. */
#define PROFILER_STEP "ProfilerStep#" /* torch.profiler's: marks */

/* Blocks that are looked at for containment before that is left out. */
#define SCANS_START (1ull << 26)
#define SCANS_ARG 16 /* more with every tensor argument */
/* Live bytes of one device: 128 PiB, so that all devices together stay below 2^64. */
#define LIVE_MAX (1ull << 57)

/* The windows of one machine (model_levels.c). */
struct sampler {
	uint32_t machine, pid; /* pid: whose steps are counted */
	uint8_t state, level;  /* enum ev_level_state, mt_level */
	uint64_t window, want, left; /* steps */
	uint64_t since_ns, set_ns;   /* of the state; of the last ARMED */
	double budget;		     /* share of the time that may be lost; 0: none was set */
	struct paid paid;	     /* by the process whose steps are counted */
};

struct model {
	const struct names *names; /* borrowed */
	timeline_fn timeline;
	void *timeline_ctx;
	int timeline_ops;
	bool timeline_nodes; /* and there is a timeline */
	bool ended;
	int timeline_err; /* of the event being handled */
	enum classes classes;

	bool started;
	uint64_t start_ts_ns, now_ns; /* first event; latest time seen */
	uint64_t last_id;	      /* of a block */
	uint64_t steps;		      /* STEP marks */
	uint64_t events[256];
	uint64_t lost[MT_LOSS_MAX]; /* counted here; those told by EV_LOSS are in `told` */

	struct thread *last; /* the thread of the event before, or NULL */
	struct thread spare; /* when memory for a thread ran out */
	struct blocks *blocks;
	struct threads *threads;
	struct procs procs;
	struct tally ops, regions;
	struct places places;
	struct growth growth;
	struct holders holders;
	struct compiles compiles;
	struct caught caught;
	struct stackset stacks;
	struct modules modules;
	struct op_modules op_modules;
	size_t saved_bytes; /* of all processes (core/saved.h) */
	struct event tensor_of; /* an EV_TENSOR_OF whose EV_TENSOR comes next */
	uint8_t dev_idx[256]; /* + 1; 0 = not met yet */
	struct device *devs[TALLY_DEVS_MAX];
	unsigned devs_cnt;
	struct told told;
	struct sampler *samplers; /* none: all the time is traced */
	size_t samplers_cnt, samplers_cap;
	struct gaps gaps;
	struct kinds *kinds; /* of steps, of the process whose steps are counted; NULL until there is one */
	uint64_t kinds_of; /* steps that were told there, or could not be */
	struct sampled steps_made; /* what traced steps of a recording with gaps are made of */
	struct carried carried;
	struct {
		uint64_t steps_seen, steps_traced, windows;
	} sampled;
	struct report_attach attach;
	struct tensors tensors;
	struct freed freed; /* for names, which are some milliseconds old */
	struct graph *graph; /* NULL until a tensor argument is told, or a block or frame where they are to come */
	bool flow_covered;   /* tensor arguments are to come */
	struct gpu *gpu;     /* NULL until something of the driver's layer is told */
	struct oom_log *ooms; /* NULL until memory was refused, or a process died by a signal */
	void (*buried)(void *ctx, const struct model_was *was);
	void *buried_ctx;
	uint64_t marked_id; /* the newest block at the last mark; 0: nobody listens */
	uint64_t scans;	    /* blocks looked at for containment that may still be */
	name_id main_comm, main_cmdline;
	struct series_acc rss; /* of all followed processes */
	struct series_acc rss_kinds[MT_RSS_KINDS], pss, huge; /* the same by kind, and of their readings */
};

/* model_core.c */
struct sampler *model__sampler(const struct model *m, uint32_t pid); /* of its machine; NULL: none */
bool model__is_blind(const struct model *m, uint32_t pid); /* probes of its operators may be missing */
void model__tell(struct model *m, const struct tl_event *tl);
/* `stack`: where it was born; 0: not known, or not told with this kind. */
void model__tell_block(struct model *m, uint8_t kind, const struct block *b, uint32_t ver, uint32_t tid, uint8_t depth,
		       uint32_t stack);
void model__tell_name(struct model *m, const struct block *b, const struct tensor *t);
void model__tell_totals(struct model *m, const struct event *ev);
struct device *model__add_device(struct model *m, uint8_t dev);
struct thread *model__find_thread(struct model *m, const struct event *ev);
struct proc *model__proc_of(struct model *m, const struct event *ev); /* NULL: it has exited */
struct block *model__block_at(const struct model *m, const struct event *ev); /* a framework's, on whatever device */
/* Sums of what is live must not wrap, whatever sizes a target makes up. */
bool model__plausible(struct model *m, const struct device *d, const struct event *ev);
/* model_flow.c */
/* The graph is there, made for this event if need be; false: no memory. */
bool model__has_graph(struct model *m, struct thread *t, const struct event *ev);
struct graph *model__graph_for(struct model *m, const struct event *ev); /* NULL: no memory, or it has exited */
/* model_blocks.c: ALLOC and FREE, also those that model_gpu.c makes of other events. */
struct block *model__give(struct model *m, const struct event *ev, enum block_from from); /* NULL: none was made */
void model__take(struct model *m, const struct event *ev);
/* A block goes without a free: its process or what it lay in is gone. */
void model__drop(struct model *m, const struct block *b, struct proc *p);
/* The block of a tensor argument, met now if need be; NULL: none, or not one of its own. */
struct block *model__met(struct model *m, const struct event *ev);
/*
 * The block of a storage that Python has told of and no operator was given yet: pid, dev, addr, size of an EV_TENSOR. NULL:
 * there is no memory, or another block lies there.
 */
struct block *model__said(struct model *m, struct proc *p, const struct event *ev);
/* A carried block ended in a gap. */
void model__ended_unseen(struct model *m, const struct block *b, struct proc *p);
/* MUNMAP: met blocks in it are gone. */
void model__unmapped(struct model *m, const struct event *ev, struct proc *p);
/* model_gpu.c: SEG_*, TOTALS, REQUEST*, NVML. See there who makes a block. */
void model__handle_gpu(struct model *m, const struct event *ev);
/* model_gpu_report.c */
int model__gpu_report(const struct model *m, uint8_t dev, struct report_dev *ret); /* -ENOMEM */
/* As segments__rows. */
int model__gpu_rows(const struct model *m, uint32_t pid, int dev, size_t top, struct report_seg_row **ret, size_t *ret_cnt);
int model__gpu_pools(const struct model *m, size_t top, struct report_driver *ret); /* as segments__pools */
int model__gpu_report_unknown(const struct model *m, struct report *ret);
void model__gpu_check(const struct model *m);
/* model_oom.c */
void model__oom_refused(struct model *m, const struct event *ev, name_id op, name_id region); /* MT_EV_OOM */
void model__oom_failed(struct model *m, const struct event *ev);  /* SEG_FAIL */
void model__oom_retried(struct model *m, const struct event *ev); /* SEG_ALLOC */
void model__oom_death(struct model *m, uint32_t pid, struct proc *p, uint32_t status);
void model__oom_victim(struct model *m, const struct event *ev); /* MT_EV_OOM_VICTIM */
void model__oom_kills(struct model *m, const struct event *ev); /* EV_OOM_KILL */
int model__oom_report(const struct model *m, struct report *ret); /* -ENOMEM */
/* growth_report.c */
int growth__report(const struct model *m, size_t top, struct report *r); /* -ENOMEM */
void growth__check(const struct model *m);
/* model_was.c */
void model__was(struct model *m, const struct event *ev); /* EV_WAS, EV_WAS_FLOW, EV_WAS_MODULE */
/* model_memory.c */
void model__tell_buried(struct model *m, const struct block *b);
/* model_lanes.c */
int model__report_lanes(const struct model *m, struct report_lanes *ret); /* -ENOMEM */
/* model_stacks.c */
int model__report_stacks(const struct model *m, size_t top, struct report_stacks *r); /* -ENOMEM */
/* A node's stack, innermost frame first. -ENOMEM: what is there is the caller's. */
int model__frames(const struct model *m, uint32_t node, struct report_frame **ret, size_t *ret_cnt);
/* model_said.c: EV_TENSOR, EV_TENSOR_OF */
void model__tensor(struct model *m, const struct event *ev);
void model__tensor_of(struct model *m, const struct event *ev);
/* model_tensors.c */
bool model__name_fits(const struct block *b, uint64_t bytes); /* of a storage; the GPU's allocator rounds up */
void model__name_block(struct model *m, struct block *b, const struct tensor *name);
void model__tensor_met(struct model *m, struct block *b); /* a block from before the attach is known now */
void model__unname(struct model *m, const struct block *b); /* a named block is dead */
char *model__name_of(const struct model *m, const struct block *b); /* malloc'ed; NULL: none */
/* Its EV_TENSOR_OF and EV_TENSOR, as far as there are any: how many. */
unsigned model__tensor_memory(const struct model *m, const struct block *b, struct event ret[2]);
int model__report_tensors(const struct model *m, size_t top, struct report_names *r); /* -ENOMEM */
/* model_modules.c: EV_MODULE, EV_MODULE_AT, EV_WAS_MODULE; phases */
void model__module(struct model *m, const struct event *ev);
void model__module_at(struct model *m, const struct event *ev);
void model__module_was(struct model *m, const struct event *ev);
bool model__module_memory(const struct model *m, const struct block *b, struct event *ret); /* its EV_WAS_MODULE; false: none */
/*
 * Gradients are cleared: an optimizer's zero_grad() begins, or one is freed outside of backward. Where the optimizer is
 * compiled, and no region tells of its step, that is over by then.
 */
void model__phase_cleared(struct model *m, const struct thread *t);
/* Of a block that is being born: its module and phase, before it is counted. graph: enum ev_place, of generated code. */
void model__module_birth(struct model *m, struct thread *t, const struct event *ev, struct block *b,
			 uint8_t graph);
enum phase model__phase_of_op(const struct thread *t, bool in_node);
void model__phase_node(struct model *m, struct thread *t);
void model__phase_region(struct model *m, struct thread *t, const struct event *ev, bool begin);
void model__phase_step(struct model *m, const struct event *ev, struct proc *p);
/* An operator was given a block. */
void model__module_used(struct model *m, struct thread *t, const struct event *ev, const struct block *b);
uint32_t model__module_of_name(const struct model *m, uint32_t pid, const struct tensor *t); /* row; 0: none */
/* model_modules_report.c */
int model__report_modules(const struct model *m, struct report *r); /* -ENOMEM */
/* model_saved.c: what autograd keeps */
void model__saved_outside(struct model *m, struct thread *t); /* an operator outside of all frames */
void model__saved_node(struct model *m, struct thread *t);    /* a backward node is entered */
/* In a process with a pass under way: a frame is given a block, a block is freed. */
void model__saved_read(struct model *m, struct thread *t, const struct event *ev, const struct block *b);
void model__saved_freed(struct model *m, struct thread *t, const struct event *ev, const struct block *b);
/*
 * Whether it is a parameter, a buffer or what belongs to them. What was made of a parameter in a forward (a copy of another
 * type) is not, though it has the same label: it is newer than `before`.
 */
bool model__is_the_models(const struct block *b, uint64_t before);
const struct block *model__saved_alive(const struct model *m, const struct proc *p, const struct saved_block *k); /* or NULL */
/* model_compiles.c: EV_COMPILED */
void model__compiled(struct model *m, const struct event *ev);
void model__lately_turn(struct model *m, struct proc *p);
struct report_compiles;
int model__report_compiles(const struct model *m, struct report_compiles *r); /* -ENOMEM */
/* model_saved_report.c */
uint64_t *model__saved_by_module(const struct model *m); /* by row, malloc'ed; NULL: no memory */
int model__report_saved(const struct model *m, size_t top, struct report_saved *r); /* -ENOMEM */
/* model_peak.c */
int model__report_peak_blocks(const struct model *m, size_t top, struct report_blocks *r); /* -ENOMEM */
int model__report_block(const struct model *m, const struct block *b, struct report_block *ret); /* -ENOMEM */

/* model_levels.c */
void model__level(struct model *m, const struct event *ev); /* EV_LEVEL */
void model__level_step(struct model *m, struct proc *p, uint64_t took_ns); /* a boundary; took_ns 0: the first of an era */
void model__paid_read(struct model *m, const struct event *ev); /* EV_SELF: counters were read */
struct report_sampling;
int model__report_sampling(const struct model *m, struct report_sampling *ret); /* -ENOMEM */
/* model_sampled.c: of the process whose steps are counted: one is over; a traced one begins; what is under way is none */
void model__sample_over(struct model *m, const struct proc *p, enum paid_step what, uint64_t took_ns);
void model__sample_begins(struct model *m, const struct proc *p);
void model__sample_gone(struct model *m);
int model__report_steps(const struct model *m, struct report_sampling *ret); /* -ENOMEM */

/* model_proc.c: PROC, COMM, GONE, LABEL, CPU, EXIT, RSS, MMAP, MUNMAP, BRK */
void model__handle_proc(struct model *m, const struct event *ev);

/* Before and after live bytes of a process on framework devices change (core/lately.h). */
static inline void model__lately_until(struct model *m, struct proc *p)
{
	if (!p->lately || __builtin_expect(m->now_ns >= p->lately->end_ns, 0))
		model__lately_turn(m, p);
}

static inline void model__lately_now(struct proc *p)
{
	if (p->lately)
		lately__now(p->lately, p->fw.live);
}

static inline struct device *model__device(struct model *m, uint8_t dev) /* NULL: no such device, or no memory; counted */
{
	uint8_t idx = m->dev_idx[dev];

	return idx ? m->devs[idx - 1] : model__add_device(m, dev);
}

/* The event's thread, with its process; NULL if that has exited. */
static inline struct thread *model__thread(struct model *m, const struct event *ev)
{
	struct thread *t = m->last;

	if (__builtin_expect(t && t->tid == ev->tid && t->pid == ev->pid, 1)) {
		t->recent = true;
		return t;
	}
	return model__find_thread(m, ev);
}

static inline struct tl_event model__tl_of(const struct model *m, const struct event *ev, uint8_t kind)
{
	return (struct tl_event){
		.ts_ns = m->now_ns, .kind = kind, .pid = ev->pid, .tid = ev->tid, .dev = ev->dev,
		.depth = ev->depth,
	};
}

static inline uint32_t machine_of(uint32_t pid)
{
	return pid >> EV_MACHINE_SHIFT;
}

static inline bool dev_is_host(uint8_t dev)
{
	return dev == MT_DEV_HOST;
}

/*
 * Framework blocks lie in malloc blocks: ops and peaks count one layer, so that no byte is counted
 * twice. The malloc layer is that one only where no framework device was seen.
 */
static inline bool model__counts_host(const struct model *m)
{
	for (unsigned i = 0; i < m->devs_cnt; i++)
		if (!dev_is_host(m->devs[i]->dev))
			return false;
	return true;
}

#endif

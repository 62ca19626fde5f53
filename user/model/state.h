/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * state: what a model holds, and functions that all files of this room use; for them alone. A part's functions are in its own
 * header (model_blocks.h, model_gpu.h, …), those for reports in reports.h.
 */
#ifndef MT_MODEL_STATE_H
#define MT_MODEL_STATE_H

#include "model/core/blocks.h"
#include "model/core/carried.h"
#include "model/core/compiles.h"
#include "model/core/caught.h"
#include "model/core/device.h"
#include "model/core/freed.h"
#include "model/core/gaps.h"
#include "model/core/growth.h"
#include "model/core/holders.h"
#include "model/core/learned.h"
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
#include "model/core/reported.h"
#include "model/model.h"
#include "model/model_levels.h"

/* Regions of this beginning are steps where nothing else marks them. */
#define PROFILER_STEP "ProfilerStep#" /* torch.profiler's: marks */

/* Blocks that are looked at for containment before that is left out. */
#define SCANS_START (1ull << 26)
#define SCANS_ARG 16 /* more with every tensor argument */
/* Live bytes of one device: 128 PiB, so that all devices together stay below 2^64. */
#define LIVE_MAX (1ull << 57)

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
	uint64_t lost[MT_LOSS_MAX]; /* counted here; those from EV_LOSS are in `reported` */

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
	uint8_t dev_idx[256]; /* + 1; 0 = not seen yet */
	struct device *devs[TALLY_DEVS_MAX];
	unsigned devs_cnt;
	struct reported reported;
	struct reported_levels levels;
	struct gaps gaps;
	struct gaps pauses; /* those of them of which nothing at all is known, RSS neither (EV_PAUSE) */
	struct kinds *kinds; /* of steps, of the process whose steps are counted; NULL until there is one */
	uint64_t kinds_of; /* steps that were counted there, or could not be */
	struct sampled steps_made; /* what traced steps of a recording with gaps are made of */
	struct carried carried;
	struct learned *learned; /* NULL: no levels of tracing were reported, or nothing is to be learned */
	bool learns_nothing;
	struct report_attach attach;
	struct tensors tensors;
	struct freed freed; /* for names, which are some milliseconds old */
	struct graph *graph; /* NULL until a tensor argument is reported, or a block or frame where they are to come */
	bool flow_covered;   /* tensor arguments are to come */
	struct gpu *gpu;     /* NULL until an event of the driver's layer */
	struct oom_log *ooms; /* NULL until memory was refused, or a process died by a signal */
	void (*was_freed)(void *ctx, const struct model_was *was);
	void *was_freed_ctx;
	uint64_t marked_id; /* the newest block at the last mark; 0: no listener */
	uint64_t scans;	    /* blocks looked at for containment that may still be */
	name_id main_comm, main_cmdline;
	struct series_acc rss; /* of all followed processes */
	struct series_acc rss_kinds[MT_RSS_KINDS], pss, huge; /* the same by kind, and of their readings */
};

/* model_core.c */
void model__tell(struct model *m, const struct tl_event *tl);
/* `stack`: where it was allocated; 0: not known, or not reported with this kind. */
void model__tell_block(struct model *m, uint8_t kind, const struct block *b, uint32_t ver, uint32_t tid, uint8_t depth,
		       uint32_t stack);
void model__tell_name(struct model *m, const struct block *b, const struct tensor *t);
struct tl_learned model__learned_words(const struct model *m, const struct learned_what *what);
void model__tell_totals(struct model *m, const struct event *ev);
struct device *model__add_device(struct model *m, uint8_t dev);
struct thread *model__find_thread(struct model *m, const struct event *ev);
struct proc *model__proc_of(struct model *m, const struct event *ev); /* NULL: it has exited */
struct block *model__block_at(const struct model *m, const struct event *ev); /* a framework's, on whatever device */
/* Sums of what is live must not wrap, whatever sizes a target makes up. */
bool model__plausible(struct model *m, const struct device *d, const struct event *ev);
/* growth_report.c */
void growth__check(const struct model *m);
void growth__held(struct model *m, const struct event *ev); /* EV_HELD */
/* A process ends: what grew in it is kept for reports. */
void growth__over(struct model *m, struct proc *p);
/* model_was.c */
void model__was(struct model *m, const struct event *ev); /* EV_WAS, EV_WAS_FLOW, EV_WAS_MODULE */
/* model_proc.c: PROC, COMM, GONE, LABEL, CPU, EXIT, RSS, MMAP, MUNMAP, BRK */
void model__handle_proc(struct model *m, const struct event *ev);
/* model_flow.c */
/* The graph is there, made for this event if need be; false: no memory. */
bool model__has_graph(struct model *m, struct thread *t, const struct event *ev);
struct graph *model__graph_for(struct model *m, const struct event *ev); /* NULL: no memory, or it has exited */

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

/* Adds a block to its process, or takes it off: to its bytes on that device, and of that side (framework or malloc). */
static inline void proc__allocated(struct proc *p, uint8_t dev, uint64_t size, bool is_peak, uint64_t ts_ns, bool traced)
{
	struct proc_side *on = dev_is_host(dev) ? NULL : proc__on(p, dev);

	proc_side__allocated(dev_is_host(dev) ? &p->host : &p->fw, size, is_peak, ts_ns, traced);
	if (on)
		proc_side__allocated(on, size, is_peak, ts_ns, traced);
}

static inline void proc__freed(struct proc *p, uint8_t dev, uint64_t size)
{
	struct proc_side *on = dev_is_host(dev) ? NULL : proc__on(p, dev);

	(dev_is_host(dev) ? &p->host : &p->fw)->live -= size;
	if (on)
		on->live -= size < on->live ? size : on->live; /* there may have been no memory for it when it came */
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

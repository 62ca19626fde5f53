/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * procs: the processes of a trace, those that are gone included.
 *
 * A pid finds its last process. One that exited stays findable (late events of it are recognised)
 * until its pid comes back. Of exited processes the last PROCS_GONE_MAX keep their own row, older
 * ones are added up in `other`, which also counts for processes beyond PROCS_MAX. Owns its rows; a
 * row is good until procs__exited() or procs__new_life() is called.
 */
#ifndef MT_MODEL_PROCS_H
#define MT_MODEL_PROCS_H

#include <stdbool.h>
#include <sys/queue.h>

#include "event/event.h"
#include "model/core/growth.h"
#include "model/core/mapset.h"
#include "model/core/lateset.h"
#include "model/core/price.h"
#include "model/core/standstill.h"
#include "timeline/timeline.h"

#define PROCS_MAX 4096	    /* not gone */
#define PROCS_GONE_MAX 1024 /* exited, each with its own row */
#define PROC_LABELS_MAX 40
#define PROCS_HEADS 4096

struct lately;
struct learned_proc;
struct saved;

struct proc_side {
	uint64_t live, peak, peak_ts_ns;
	uint64_t high; /* since the last mark (model_modules.c) */
	uint64_t traced_live; /* when the last gap began */
};

/* The same on one framework device. */
struct proc_dev {
	struct proc_side side;
	uint8_t dev;
};

enum covered { COVERED_MEMORY = 1, COVERED_TENSORS = 2, COVERED_BOTH = 3 };

struct proc {
	uint32_t pid, ppid;
	bool reported;   /* by EV_PROC; else only by an event of it */
	bool listed; /* false: this is `other` */
	bool oom_victim; /* the kernel's OOM killer has marked it */
	bool death_kept; /* in the log of model_oom.c */
	bool has_flow, has_regions; /* probes of gradients, of regions' begins are set */
	uint8_t how, gone;
	uint8_t covered;  /* sources whose probes are set, of those that follow tensors: enum covered */
	uint64_t covered_ns; /* since when all of them are; 0: they are not */
	uint32_t exit_status;
	uint64_t start_ns, exit_ts_ns;
	name_id comm, cmdline, labels[PROC_LABELS_MAX];
	size_t labels_cnt;
	struct proc_side fw, host; /* framework devices together, malloc layer */
	struct proc_dev *devs;	   /* each framework device that it had memory on; listed ones only */
	size_t devs_cnt;
	uint64_t allocs, frees;	   /* of framework devices; of malloc if there is no other */
	uint64_t host_allocs, host_frees;
	uint64_t live_cnt; /* blocks, both sides */
	uint64_t live_at_exit;
	uint64_t rss[MT_RSS_KINDS], rss_peak;
	uint64_t use[MT_USES], use_ts_ns; /* the last reading; use_ts_ns 0: none */
	uint32_t use_unknown;		  /* a bit a kind: not in that reading */
	struct report_own own; /* over all readings */
	uint64_t mapped_peak, brk_base, brk_growth;
	bool brk_seen;
	struct mapset mapped;
	struct lateset late; /* listed ones only */
	struct growth_clock clock;
	struct standstill standstill;
	struct saved *saved; /* NULL: no backward pass was seen */
	struct lately *lately; /* its framework devices; NULL: it has no memory on them yet */
	struct grown *grown; /* what grew in it, once it has ended; NULL: nothing */
	struct learned_proc *learned; /* NULL: no step of it was seen, or nothing is to be learned */
	bool is_outside; /* an operator ran outside of all nodes since the last one */
	struct price *price; /* NULL: nothing was attached while it ran */
	uint32_t forward_no;   /* forwards that have ended: a thread's own is stale if it has another number */
	bool in_forward;
	bool has_module, has_node, has_steps; /* were seen: a module's forward, a node, marks of steps */
	bool has_graphs, has_step_regions; /* likewise: generated code, an optimizer's step() */
	bool has_gradients; /* a backward pass was seen in this step … */
	bool is_cleared;    /* … and gradients were cleared since: the next forward is of the next step */
	uint64_t set_ts_ns; /* first; allocations of its operators before have no operator */
	bool is_step_cut; /* marks were away since the last boundary: the next one ends no step */
	bool is_being_set; /* its operators get their probes; nodes of backward may have none yet */
	uint64_t module_ts_ns; /* when a module was first reported */
	uint64_t steps;	       /* that have ended */
	uint64_t regions_begun, regions_at_step; /* so far; at the last boundary */
	uint64_t clearings; /* regions of zero_grad() */
	uint64_t step_live;    /* at the end of the last one */
	bool is_settled;       /* a step ended with no more than it began with */
	uint64_t settling_from_ns, settling_to_ns; /* of its steps that settle, the begin as far as it is known; to 0: none */
	uint64_t step_number;  /* of the one under way, from its mark */
	struct step_count {
		int64_t off, seen;	/* its optimizer's count, less boundaries: agreed upon; the last reading */
		bool is_known, is_seen;
	} count;
	struct step_marks step, highest_step; /* as far as it is; that with the highest peak, pid 0: none */
	uint64_t marks_cnt[MARK_MAX];
	struct mark_at marks[MARK_MAX]; /* the last of each kind */
	uint64_t step_regions; /* regions "memtrace.step" (tools/python) */
	uint32_t remap_tid; /* thread in the middle of an mremap of bytes we know, 0 = none */
	uint64_t cpu_first_ns, cpu_ns; /* cpu_ns: used since the first EV_CPU */
	bool cpu_seen;
	TAILQ_ENTRY(proc) all;	 /* in order of appearance */
	TAILQ_ENTRY(proc) dead;	 /* exited, oldest first */
	LIST_ENTRY(proc) by_pid;
	bool in_pid;
};

struct procs {
	TAILQ_HEAD(, proc) all;
	TAILQ_HEAD(, proc) dead;
	LIST_HEAD(, proc) heads[PROCS_HEADS];
	size_t cnt, dead_cnt; /* rows, `other` not counted; exited ones of them */
	size_t max, gone_max;
	struct proc other;
	size_t folded; /* exited processes in `other` */
	uint64_t rss_total;
	uint64_t rss_by_kind[MT_RSS_KINDS], use_total[MT_USES]; /* of those that are there */
	uint64_t cpu_folded_ns;
};

/* Of the latest boundary, by the optimizer's own count; 0: not known. */
static inline uint64_t proc__step_no(const struct proc *p)
{
	int64_t no = (int64_t)p->clock.steps + 1 + p->count.off;

	return p->count.is_known && p->clock.kind > GROWTH_BY_TIME && no > 0 ? (uint64_t)no : 0;
}

void procs__init(struct procs *ps, size_t max, size_t gone_max); /* 0: the defaults */
void procs__done(struct procs *ps);
struct proc *procs__find(const struct procs *ps, uint32_t pid); /* NULL: none */
/* Found or made; `other` when the table is full (*ret_full, optional, is set then). */
struct proc *procs__get(struct procs *ps, uint32_t pid, bool *ret_full);
/* A new row for a pid whose last process is gone. The old row stays. */
struct proc *procs__new_life(struct procs *ps, uint32_t pid, bool *ret_full);
/* It exited: from now on it only waits to be folded. Its live numbers must be 0 by now. */
void procs__exited(struct procs *ps, struct proc *p);
/* Of all, since each one's first EV_CPU; of one most_ns at most, except those folded into `other`. */
uint64_t procs__cpu_ns(const struct procs *ps, uint64_t most_ns);

/* A step of a session with gaps: whole, and traced, or not. */
void proc__sampled(struct proc *p, bool traced, uint64_t took_ns);
uint64_t proc__rss(const struct proc *p); /* file, anonymous and shared pages together */
void proc__set_rss(struct procs *ps, struct proc *p, uint32_t kind, uint64_t bytes);
uint32_t procs__unknown_cnt(const struct procs *ps); /* running ones whose PSS is not known */
void proc__set_use(struct procs *ps, struct proc *p, const struct event *ev, uint64_t ts_ns); /* its aux is a kind */
void proc__set_cpu(struct proc *p, uint64_t cpu_ns);
/* MMAP, MUNMAP, BRK. false: the table of mappings is full. */
bool proc__map(struct proc *p, const struct event *ev);
/* Its part of a framework device, made if need be; NULL: it is not listed, or there is no memory. */
struct proc_side *proc__on(struct proc *p, uint8_t dev);
/* A label replaces the one with the same text before its '='. */
void proc__add_label(struct proc *p, const struct names *names, name_id label);
/* The address space is gone (exec, exit). */
void proc__clear_maps(struct proc *p);

/* Live bytes may be more than ever. is_peak: of the device, where an equal height may count (device.h). */
static inline void proc_side__raise(struct proc_side *s, bool is_peak, uint64_t ts_ns)
{
	if (s->live > s->high)
		s->high = s->live;
	if (s->live > s->peak || (is_peak && s->live == s->peak)) {
		s->peak = s->live;
		s->peak_ts_ns = ts_ns;
	}
}

/* traced: else peaks do not count. */
static inline void proc_side__allocated(struct proc_side *s, uint64_t size, bool is_peak, uint64_t ts_ns, bool traced)
{
	s->live += size;
	if (traced)
		proc_side__raise(s, is_peak, ts_ns);
}

#endif

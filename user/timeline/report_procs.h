/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Processes, the kernel's numbers of them, and marks of their steps. */
#ifndef MT_TIMELINE_REPORT_PROCS_H
#define MT_TIMELINE_REPORT_PROCS_H

#include <stddef.h>
#include <stdint.h>
#include "event/event.h"
#include "memtrace/event.h"
#include "timeline/report_memory.h"
#include "timeline/timeline.h"

#define OWN_POINTS 64

struct own_point {
	uint64_t ts_ns, own, shared;
};

/* Private and shared bytes of a process over its readings (use): as it was first read, as it was last, and in between. */
struct report_own {
	uint64_t first_ns, last_ns;
	uint64_t own_first, own_last, shared_first, shared_last;
	uint32_t reads, rises; /* rises: of private bytes, from a reading to the next */
	uint32_t points_cnt, points_shift; /* every 2^shift-th reading, from the first on */
	struct own_point *points; /* none if it was read only once */
};

/* The highest bytes of a process on one framework device. */
struct report_proc_dev {
	uint64_t peak;
	uint8_t dev;
};

struct report_proc {
	uint32_t pid, ppid;
	char *comm, *cmdline;
	char **labels;
	size_t labels_cnt;
	uint64_t live, peak, peak_ts_ns; /* framework devices together */
	struct report_proc_dev *devs;	 /* those of them that it had memory on */
	size_t devs_cnt;
	uint64_t allocs, frees;		 /* of the layer that ops count, see report_op */
	uint64_t host_live, host_peak;	 /* malloc layer */
	uint64_t rss[MT_RSS_KINDS], rss_total, rss_peak;
	uint64_t use[MT_USES], use_ts_ns; /* by enum mt_use; use_ts_ns 0: was not read */
	uint32_t use_unknown;		  /* a bit a kind: not known, of a process whose pages were counted */
	struct report_own own;
	uint64_t mapped, mapped_peak;	 /* anonymous bytes mmap'ed minus munmap'ed since attach; >= 0 */
	uint64_t brk_growth;
	uint64_t cpu_ns; /* used since its first EV_CPU */
	uint64_t set_ts_ns; /* when all its operators had probes, which were set as it ran; 0: it began with them, or never */
	uint64_t module_ts_ns; /* when a module was first seen to run; 0: none was */
	uint64_t settling_from_ns, settling_to_ns; /* first steps, in which state is made or seen first; to 0: none was seen */
	uint64_t live_at_exit;
	uint64_t exit_ts_ns;  /* valid if gone == 1, as … */
	uint32_t exit_status; /* … its wait status is */
	uint64_t marks_cnt[MARK_MAX];
	struct mark_at marks[MARK_MAX]; /* the last of each kind */
	struct step_marks highest_step; /* with the highest peak; pid 0: no step is over */
	uint8_t gone;	      /* 0 followed, 1 exited, 2 detached */
	uint8_t how;	      /* enum ev_proc_how */
};

struct report_mark {
	struct mark_at at;
	uint64_t number; /* STEP: its mark's number; without marks counted from 1 in that process */
	uint32_t pid, tid;
	uint8_t kind; /* enum tl_mark */
};

struct report_marks {
	struct report_mark *rows; /* the last ones, oldest first */
	size_t cnt;
	uint64_t total, by_kind[MARK_MAX];
	struct step_marks *steps; /* the last ones, of all processes, oldest first */
	size_t steps_cnt;
	uint64_t steps_total; /* STEP marks, else entries of "Optimizer.step#…" regions */
};

/* All followed processes together. */
struct report_kernel {
	struct series rss, kinds[MT_RSS_KINDS];
	struct series pss, huge; /* sums of the readings of use */
	uint64_t use[MT_USES];	 /* of those that are there; PSS and huge pages without use_unknown_cnt of them */
	uint32_t use_unknown_cnt;
};

#endif

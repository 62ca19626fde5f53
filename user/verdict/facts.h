/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* facts: what the rules ask of a report: numbers alone, no sentence. Bytes. Nothing is owned. */
#ifndef MT_VERDICT_FACTS_H
#define MT_VERDICT_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

struct report;
struct report_leak;
struct report_dev;
struct report_frame;
struct report_oom;
struct report_proc;
struct report_recompile;

/* The verdict's device: the GPU with the highest peak, else the CPU's tensors, else malloc. NULL: no block was seen. */
const struct report_dev *facts_device(const struct report *r);
/* Else tensors are all that was looked at. */
bool facts_is_malloc_watched(const struct report *r);
/* Only some steps are traced, and none of them yet: what was seen is older, and not typical of the job. */
bool facts_is_untraced(const struct report *r);
/* WORLD_SIZE in a process's environment; 1: in none. */
uint64_t facts_world(const struct report *r);
/* The reason with the most losses. */
const char *facts_worst_loss(const struct report *r);

/* Steps of the process that had most, as far as the report has them (the last 1,024 of all processes). */
struct facts_steps {
	const struct report_proc *proc; /* NULL: no step was seen */
	uint64_t peak, median;		/* of its highest step; of all of them */
	size_t cnt, near, high;		/* those that were seen whole; within 1 % of the highest;
					   half as far above the median, or more */
	int is_cut;			/* there were more */
	int outside;			/* the process's peak is above all of them, and in none */
	uint8_t phase;			/* enum phase of the process's peak; 0: not known, or other */
};
struct facts_steps facts_of_steps(const struct report *r);
/* The process to record again: the one that was asked for, else one that steps. 0: none is left. */
uint32_t facts_to_record(const struct report *r);

/* RSS between windows of traced steps, where it came down again. */
struct facts_unseen {
	uint64_t more; /* bytes above the most in a window; 0: there was no such moment */
	uint64_t ts_ns; /* of its highest, to half a second (live/usage.c) */
};
struct facts_unseen facts_of_unseen(const struct report *r);
/* What a place has grown by; where some steps are traced in all of them, for how much it matters alone. */
double facts_leak_bytes(const struct report *r, const struct report_leak *row);

/* Ranks by the environment, the process with the highest peak of each. */
struct facts_ranks {
	size_t cnt;
	int is_judged; /* a report by rank was asked for, which judges them by more: the one that stands out */
	uint32_t rank; /* with the highest peak */
	uint64_t peak, median;
	const struct report_proc *proc; /* of several jobs: that rank's, of the most uneven job; else NULL */
};
struct facts_ranks facts_of_ranks(const struct report *r);
/* Whose blocks the device's peak has: the CPU is one device for all ranks that are traced. At least 1. */
uint64_t facts_ranks_on(const struct report *r, uint8_t dev);
/* The copies of gradients that DistributedDataParallel sends, at the peak: its own memory, in no other category. */
uint64_t facts_buckets(const struct report *r, const struct report_dev *d);
/* What a rank's modules hold at the peak, with what they own, beyond the median of all ranks of its job. */
uint64_t facts_modules_more(const struct report *r, const struct facts_ranks *f);

/* Jobs that have nothing to do with one another, by the highest peak of one process of each: what devices had is their sum. */
enum { JOBS_NAMED = 3 };
struct facts_job {
	const struct report_proc *highest;
	uint64_t peak; /* of that process, on the device */
	size_t procs;  /* that had memory */
};
struct facts_jobs {
	size_t cnt, on_device, large; /* that had memory; that had some on it; … 5 % or more of what the first one had there */
	struct facts_job first[JOBS_NAMED];
};
struct facts_jobs facts_of_jobs(const struct report *r, const struct report_dev *d); /* by what they had on d; NULL: none */
/*
 * Of each process the number of its job, from 1 on, 0: too small to be looked at. malloc'ed. NULL: there are not several jobs,
 * or no memory for it.
 */
uint32_t *facts_jobs_of_procs(const struct report *r);

/* DataLoader's children, as torch names them; private bytes as last read from the kernel. */
struct facts_workers {
	size_t cnt;
	uint64_t own, largest, all; /* all: of all processes, shared pages divided */
	uint64_t grown, unshared;   /* since first readings, of workers that grow all the time: of own; what they share less */
	uint64_t span_ns;	    /* … in so long */
	const struct report_proc *proc; /* of several jobs: the largest one of the job whose workers have most; else NULL */
};
bool facts_is_worker(const struct report_proc *p);
struct facts_workers facts_of_workers(const struct report *r);

/* Anonymous memory of a process that is alone, against what lived in it: malloc's blocks if they were traced, else tensors. */
struct facts_holes {
	int is_host;
	uint64_t span_ns;	   /* half of the time since the peak, the latter one: of that … */
	uint64_t held, live, peak; /* … the least that was held, the most that was live */
	uint64_t idle;		   /* of held; where only tensors are seen no more than of them were freed */
};
struct facts_holes facts_of_holes(const struct report *r);

/* Anonymous memory of all processes that grows and goes on growing, by more than what tensors (or malloc's blocks) do. */
struct facts_growing {
	uint64_t grown, now; /* 0: it does not */
	double per_second;
	int is_host; /* malloc's blocks were looked at */
	int is_over; /* the processes have ended */
	int is_seen; /* its share in tensors, or in malloc's blocks, was seen: else grown may be too much */
	const struct report_proc *proc; /* of several jobs: that grew most, of the job that did; else NULL: all together */
};
struct facts_growing facts_of_growing(const struct report *r);

/* Recompiles of the trace; of several jobs those of the one that they took longest in. */
struct facts_recompiles {
	uint64_t cnt, ns, added; /* added: the most that one took meanwhile, and … */
	uint64_t peak;		 /* … what to compare it with */
	const struct report_recompile *last; /* of those for the most frequent reason; NULL: there are none */
	bool varies;			     /* others had other numbers in it */
	const struct report_recompile *given_up; /* the first one that torch.compile does not compile any more; NULL: none */
	const struct report_proc *proc, *given_up_by; /* of several jobs whose they are; else NULL */
};
struct facts_recompiles facts_of_recompiles(const struct report *r);

/* Anonymous memory that no tensor has, in the latter half of the time, and during steps if there are any. */
struct facts_beside {
	uint64_t bytes, held, tensors; /* bytes: of held, the median; 0: nothing is known of tensors. tensors: the most */
	uint64_t of_malloc;	       /* in malloc's blocks, where these are traced */
	uint64_t gpu;		       /* the highest peak of one */
	uint32_t pid;		       /* of several processes the one that has most; 0: there is one */
	int is_attached;	       /* tensors from before may not have been seen */
};
struct facts_beside facts_of_beside(const struct report *r);

/* The last refusal, or kill by the OOM killer; NULL: there was none. */
const struct report_oom *facts_refusal(const struct report *r);
/*
 * The most that was live in the first half of the time up to it (for a killed process its RSS), if that is lower by a fifth or
 * more. Of several processes only sums are kept: nothing is known then.
 */
struct facts_rise {
	uint64_t before, ns; /* ns before it; 0: it had not risen */
};
struct facts_rise facts_of_rise(const struct report *r, const struct report_oom *o);

/* Modules of one pattern ("layers.*"). */
struct facts_module {
	char path[TEXT_BYTES_MAX];
	char root[64]; /* label of the root that it begins at */
	size_t cnt;
	uint64_t bytes; /* 0: there is none */
};
/* Made in a module, or in modules of one pattern, and live at the peak. */
struct facts_module facts_of_peak_module(const struct report *r);
/*
 * Those whose checkpointing saves most: of several all that is recomputable in them less the largest's; of one no more
 * than the others keep. Of the process that keeps most. Only paths that a shell takes as they are.
 */
struct facts_module facts_of_checkpoint(const struct report *r);

/*
 * The line of Python that a stack is about: the innermost one of the program's own; else of what is installed beside it
 * (site-packages, the standard library), but not torch; else the innermost. NULL: no line of Python is known.
 */
const struct report_frame *facts_line(const struct report_frame *frames, size_t cnt);

/* The line that made most of the peak, of the stacks with most of it; at NULL: none is known. */
struct facts_line {
	const struct report_frame *at;
	uint64_t bytes;
};
struct facts_line facts_of_peak_line(const struct report *r);

/* Exits with an error, of processes that no other one here has started: of the traced one, else of the first that failed. */
struct facts_failed {
	const struct report_proc *proc;	 /* NULL: none failed */
	const struct report_proc *first; /* of those with tensors that it started the first that failed; NULL: none did */
	size_t others;			 /* that failed, too, beside proc */
	bool is_apart;			 /* of another job than the refusal or death, which explains why its own job failed */
};
struct facts_failed facts_of_failed(const struct report *r);

/* What a GPU's allocator reserved at most and never gave out. */
struct facts_idle {
	const struct report_dev *dev; /* that reserved most; NULL: none did */
	uint64_t bytes, reserved;
	int of_all;    /* from before the attach, too */
	int in_pieces; /* between blocks; else whole segments */
	int is_full;   /* nearly all of the device is reserved */
};

/* All of it, once for all rules. */
struct facts {
	const struct report_dev *device;
	int is_untraced;
	const struct report_oom *refusal, *death; /* the last ones; NULL: none */
	struct facts_rise rise;			  /* to the refusal */
	struct facts_failed failed;
	struct facts_steps steps;
	struct facts_unseen unseen;
	struct facts_ranks ranks;
	struct facts_jobs jobs;
	struct facts_idle idle;
	struct facts_workers workers;
	struct facts_holes holes;
	struct facts_growing growing;
	struct facts_beside beside;
	struct facts_recompiles recompiles;
	int is_grown;				 /* the device's peak: most of it is what grows */
	uint64_t kept, state;			 /* of that peak: activations; parameters, gradients, state, buffers */
};
struct facts facts_of(const struct report *r);

static inline unsigned percent(uint64_t part, uint64_t whole)
{
	return whole ? (unsigned)((double)part * 100 / (double)whole + 0.5) : 0;
}

#endif

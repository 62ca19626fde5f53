/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * filter: from a selection (--at, --from, --to, --device, --pid, --rank, --category, --module and --op) to a sieve: a first
 * pass over the recording finds the times of steps, a rank's processes, and whether parts asked for exist.
 */
#ifndef MT_REPLAY_FILTER_H
#define MT_REPLAY_FILTER_H

#include "timeline/selection.h"
#include "timeline/sieve.h"

struct err;
struct labels;
struct report;

struct filter_first {
	uint64_t pid, ns;
};

struct filter {
	const char *path; /* of the recording; borrowed */
	struct selection asked;
	enum classes classes;
	int wants_peak;	     /* of the chosen processes, whatever time was asked for */
	int wants_one_step;  /* where no time was asked for */
	char one_step[32];   /* "step 12": the one that was chosen; "": none */
	int one_step_is_peaks;
	struct selection shown; /* by views: what was asked for, with processes that are there and the step that was chosen */
	struct sieve sieve;
	struct spans spans;
	uint64_t start_ns, seen_ns; /* seen: when the first block was allocated that was seen; of pids, once they are known */
	struct map firsts; /* struct filter_first: the same of each process */
	uint32_t *pids; /* of --pid or --rank */
	size_t pids_cnt;
	uint64_t peak_ns; /* of these processes, or of all; where nothing asks for it that of all */
};

void filter__init(struct filter *f, const struct selection *asked, const char *path);
void filter__done(struct filter *f);
int filter__learn(struct filter *f, const struct tl_event *ev); /* the first pass. 0 or -ENOMEM */
/*
 * It is over: `r` is its report, with all operators; labels and names are all of the recording's, and stay the caller's.
 * 0, or -errno: a part asked for is missing, with those there are.
 */
int filter__settle(struct filter *f, const struct report *r, const struct labels *labels, const struct names *names,
		   struct err *err);
/* Of it alone: the processes that --pid or --rank name are f->pids. 0, or -errno: there is none. */
int filter__find_pids(struct filter *f, const struct report *r, struct err *err);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* state: what a model holds; for the files of this room alone. */
#ifndef MT_MODEL_STATE_H
#define MT_MODEL_STATE_H

#include "model/blocks.h"
#include "model/device.h"
#include "model/model.h"
#include "model/procs.h"
#include "model/tally.h"
#include "model/threads.h"
#include "model/told.h"

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
	uint8_t dev_idx[256]; /* + 1; 0 = not met yet */
	struct device *devs[TALLY_DEVS_MAX];
	unsigned devs_cnt;
	struct told told;
	struct graph *graph; /* NULL until a tensor argument is told, or a block or frame where they are to come */
	bool flow_covered;   /* tensor arguments are to come */
	uint64_t quiet_id;   /* this block's labels change without a word: another record carries them */
	name_id main_comm, main_cmdline;
	struct series_acc rss; /* of all followed processes */
};

/* model.c */
/* A block dies; b is a copy, already out of the table. `p`: its process, if listed. */
void model__tell(struct model *m, const struct tl_event *tl);
void model__bury(struct model *m, const struct block *b, struct proc *p);
void model__tell_label(struct model *m, const struct block *b, uint32_t ver);
void model__tell_version(struct model *m, const struct block *b, uint32_t ver);
/* The block of a tensor argument, met now if need be; NULL: none, or not one of its own. */
struct block *model__met(struct model *m, const struct event *ev);
/* Innermost region or node of a frame that was just entered, or of another event. */
name_id model__region_of(struct model *m, const struct event *ev);
/* MUNMAP: met blocks in it are gone. */
void model__unmapped(struct model *m, const struct event *ev, struct proc *p);
void model__tell_destroy(struct model *m, const struct block *b, uint32_t tid, uint8_t depth);
/* model_proc.c: PROC, COMM, GONE, LABEL, CPU, EXIT, RSS, MMAP, MUNMAP, BRK */
void model__handle_proc(struct model *m, const struct event *ev);

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

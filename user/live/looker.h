/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * looker: one look at the Python of a process, which naming.c has done on a second thread (live/worker.h): it touches nothing
 * but the job's data. The first look at a process also finds out how the kernel side finds modules.
 */
#ifndef MT_LIVE_LOOKER_H
#define MT_LIVE_LOOKER_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "live/worker.h"
#include "memtrace/shared.h"
#include "plan/plan.h"
#include "python/compiles.h"
#include "python/holders.h"
#include "python/reader.h"
#include "python/runtime.h"

/* What is needed to look at a process: the thread's while a look is under way. */
struct looker {
	struct py_reader *reader; /* NULL: to be made, together with … */
	struct py_runtime rt;
	struct torch_tls tls;
	uint16_t node_seq;
};

struct model_growing;

struct look_job {
	struct work work; /* first */
	pid_t pid;
	struct looker by;
	enum py_look_kind kind;
	int rest; /* memory is released afterwards */
	int r;
	struct err err;
	struct py_look look;
	struct mt_module_proc how;
	int wants_how, has_how; /* has_how: only this was done */
	int no_call, no_thread; /* why not */
	/* holders of memory that grows; then only this is done. `held` is the job's, freed by the caller */
	struct model_growing *growing;
	struct py_held *held;
	size_t held_cnt;
	uint64_t held_ns; /* the thread's CPU time that it took */
	struct py_holder holders[PY_HELD_SETS];
	/* what was compiled; then only this is done. The job's, like `held` (live/compiling.h) */
	struct py_compiles *compiles;
	struct py_compiles_seen seen;
	uint64_t now_ns, wall_ns; /* when that was read, by both clocks */
};

void look_job__do(struct look_job *j);

#endif

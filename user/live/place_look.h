/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * place_look: what a line of Python is: code object → file and line → inductor's note on it (python/generated.h). The work of
 * placing.c's second thread: no other thread touches this.
 *
 * Keeps the processes and code objects that it looked at last, within the bounds below, and files (live/generated_files.h).
 */
#ifndef MT_LIVE_PLACE_LOOK_H
#define MT_LIVE_PLACE_LOOK_H

#include <stdint.h>
#include <sys/types.h>

#include "base/names.h"
#include "live/worker.h"
#include "python/code.h"
#include "python/runtime.h"

#define PLACE_PROCS_MAX 64
#define PLACE_CODES_MAX 128 /* PY_LINETABLE_MAX each at most: 8 MiB */

struct place_job {
	struct work work; /* first */
	/* in */
	pid_t pid;
	int is_end; /* the process has ended: what was kept of it is dropped, and nothing else is done */
	struct py_runtime rt;
	uint64_t code, instr, check, hash, ts_ns;
	name_id name;
	/* out */
	int r;	    /* 0, or why its code object could not be read: -ESTALE: it is another one by now, -ESRCH … */
	char *text; /* malloc'ed: the operator that the line stands for; NULL: none, this is no generated line */
	uint8_t made; /* enum ev_place */
	char buffer[PY_CODE_TEXT_MAX]; /* "buf7 float32[512,512], then buf8"; "": unknown */
	char *nodes; /* malloc'ed: its source nodes; NULL: unknown */
	char file[PY_CODE_TEXT_MAX];
	unsigned line;
};

struct place_look;
struct place_look *place_look__new(void); /* NULL: no memory */
void place_look__free(struct place_look *pl); /* NULL is fine */
void place_look__do(struct place_look *pl, struct place_job *j);

#endif

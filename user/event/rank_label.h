/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * rank_label: a process's place in a distributed job, from its environment: "RANK=3" and its like, as EV_LABEL carries them.
 * torchrun's variables come first, then those of MPI, SLURM, PMI and Horovod: under SLURM torchrun's processes have both.
 */
#ifndef MT_EVENT_RANK_LABEL_H
#define MT_EVENT_RANK_LABEL_H

#include <stddef.h>
#include <stdint.h>

#define RANK_TEXT_BYTES 96

/* The launcher whose variable it is; a smaller number takes precedence. */
enum rank_source {
	RANK_TORCH = 1, RANK_MPI, RANK_SLURM, RANK_PMI, RANK_HOROVOD,
	RANK_LOCAL, /* a local rank is all */
	RANK_NONE,
};

struct rank_label {
	uint8_t source[6];	    /* enum rank_source of each number; 0: not known */
	uint32_t num[6];
	uint8_t job_from;
	char job[RANK_TEXT_BYTES];  /* of the run or job; "" not known */
	char node[RANK_TEXT_BYTES]; /* name of the machine as the launcher has it; "" */
	char addr[RANK_TEXT_BYTES], port[8]; /* where its ranks connect; "" */
};

enum rank_num { RANK_GLOBAL = 0, RANK_OF_NODE, RANK_WORLD, RANK_WORLD_OF_NODE, RANK_NODE, RANK_NODES };

/* "RANK=3"; what is no such label, or no number, is left out. Zeroed at first. */
void rank_label__add(struct rank_label *r, const char *label);
/* RANK_NONE: it is no rank. The number of a process that has a local rank alone is that. */
enum rank_source rank_label__rank(const struct rank_label *r, uint32_t *ret);
/*
 * For jobs without a name of their own: adds the address at which the ranks connect to the job's name, as two jobs on one
 * machine cannot use the same port, else the process that launched it.
 */
void rank_label__name_job(struct rank_label *r, uint32_t launcher);
/* -1: not known. */
int64_t rank_label__num(const struct rank_label *r, enum rank_num which);

#endif

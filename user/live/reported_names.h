/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * reported_names: the names of one process's tensors and modules as last reported, so that a look reports only what is new: as
 * events (EV_MODULE, EV_TENSOR), and to the kernel side which modules have names. Called by naming.c with what a look found.
 */
#ifndef MT_LIVE_REPORTED_NAMES_H
#define MT_LIVE_REPORTED_NAMES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/map.h"
#include "live/tell.h"

struct keeper;
struct known;
struct model;
struct py_look;
struct py_reader;

/* Shared by all processes. */
struct reported_names_env {
	struct tell tell;
	const struct model *model;
	struct keeper *keeper;	/* NULL: the kernel side does not need to know which modules have names */
	uint32_t named_cnt; /* modules that the kernel side knows to have names */
};

/* The place of an optimizer's step count: the state `step` of its first parameter, a tensor. */
struct step_count_place {
	uint64_t addr; /* 0: there is none, or on a GPU */
	uint8_t dtype; /* c10::ScalarType */
};

struct reported_names {
	pid_t pid;
	struct step_count_place count;
	struct known_set {
		struct map map; /* struct known */
		size_t max;
	} tensors, modules; /* by data pointer; by object */
	uint32_t named_cnt, unnamed; /* modules that the kernel side knows to have names; those without room there this time */
};

void reported_names__look(struct reported_names *s, struct reported_names_env *env, const struct py_reader *r,
			  const struct py_look *look, uint64_t now_ns);
/* The kernel side forgets its modules, too. */
void reported_names__done(struct reported_names *s, struct reported_names_env *env);

#endif

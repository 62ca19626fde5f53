/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* exits: how calls of a function in a file may end (arch/exits.h). */
#ifndef MT_PLAN_EXITS_H
#define MT_PLAN_EXITS_H

#include <stdint.h>

#include "arch/arch.h"

struct elf;

/* Like exits_walk, with file offsets in ret. */
int exits_find(const struct elf *e, uint64_t vaddr, uint64_t *ret);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* numbering: numbers from 0 for keys in order of appearance; NUMBERING_MAX keys, further ones share the last number. */
#ifndef MT_VIEW_FOLD_NUMBERING_H
#define MT_VIEW_FOLD_NUMBERING_H

#include "base/index.h"

#define NUMBERING_MAX (1u << 19)

struct numbering {
	struct index index;
	uint64_t *keys; /* by number */
	uint32_t cnt, cap;
};

void numbering__done(struct numbering *m);
/* The key's number; *ret_new: it was given now. */
uint32_t numbering__get(struct numbering *m, uint64_t key, int *ret_new);

#endif

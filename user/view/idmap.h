/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* idmap: numbers from 0 for keys in order of appearance; IDMAP_MAX keys, further ones share the last number. */
#ifndef MT_VIEW_IDMAP_H
#define MT_VIEW_IDMAP_H

#include <stdint.h>

#define IDMAP_MAX (1u << 19)

struct idmap {
	struct {
		uint64_t key;
		uint32_t idx; /* + 1; 0: empty */
	} *slots;
	uint32_t slots_cnt, cnt;
};

void idmap__done(struct idmap *m);
/* The key's number; *ret_new: it was given now. */
uint32_t idmap__get(struct idmap *m, uint64_t key, int *ret_new);

#endif

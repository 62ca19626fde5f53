/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/numbering.h"

#include "base/array.h"
#include "base/seed.h"

void numbering__done(struct numbering *m)
{
	index__done(&m->index);
	free(m->keys);
	*m = (struct numbering){ 0 };
}

uint32_t numbering__get(struct numbering *m, uint64_t key, int *ret_new)
{
	uint32_t at = index_find(&m->index, hash_u64(key), i, m->keys[i] == key);

	*ret_new = 0;
	if (at != INDEX_NONE)
		return at;
	if (m->cnt >= NUMBERING_MAX || !array_has_room(m->keys, m->cnt, m->cap, 32) ||
	    index__add(&m->index, hash_u64(key), m->cnt) < 0)
		return m->cnt ? m->cnt - 1 : 0;
	*ret_new = 1;
	m->keys[m->cnt] = key;
	return m->cnt++;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/numbering.h"

#include <stdlib.h>

#include "base/seed.h"

void numbering__done(struct numbering *m)
{
	free(m->slots);
	*m = (struct numbering){ 0 };
}

static uint32_t numbering__at(const struct numbering *m, uint64_t key)
{
	uint32_t at = (uint32_t)hash_u64(key) & (m->slots_cnt - 1);

	while (m->slots[at].idx && m->slots[at].key != key)
		at = (at + 1) & (m->slots_cnt - 1);
	return at;
}

static int numbering__grow(struct numbering *m)
{
	struct numbering more = { .slots_cnt = m->slots_cnt ? 2 * m->slots_cnt : 64, .cnt = m->cnt };

	if (2 * (m->cnt + 1) <= m->slots_cnt)
		return 0;
	more.slots = calloc(more.slots_cnt, sizeof(*more.slots));
	if (!more.slots)
		return -1;
	for (uint32_t i = 0; i < m->slots_cnt; i++)
		if (m->slots[i].idx)
			more.slots[numbering__at(&more, m->slots[i].key)] = m->slots[i];
	free(m->slots);
	*m = more;
	return 0;
}

uint32_t numbering__get(struct numbering *m, uint64_t key, int *ret_new)
{
	uint32_t at = m->slots_cnt ? numbering__at(m, key) : 0;

	*ret_new = 0;
	if (m->slots_cnt && m->slots[at].idx)
		return m->slots[at].idx - 1;
	if (m->cnt >= NUMBERING_MAX || numbering__grow(m))
		return m->cnt ? m->cnt - 1 : 0;
	at = numbering__at(m, key);
	m->slots[at].key = key;
	m->slots[at].idx = ++m->cnt;
	*ret_new = 1;
	return m->cnt - 1;
}

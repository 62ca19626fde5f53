/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/share.h"

int share__takes(struct share *s, uint32_t pid, size_t waiting, size_t capacity, uint64_t now_ns)
{
	if (waiting < capacity / 4 || shares_ask(&s->waits, pid, 1, waiting, capacity, now_ns) != SHARE_OVER)
		return 1;
	s->left_out++;
	return 0;
}

static int share__is_named(const struct share *s, uint32_t pid)
{
	for (size_t i = 0; i < s->named_cnt; i++)
		if (s->named[i] == pid)
			return 1;
	return 0;
}

static uint32_t share__cut_in(const struct share *s, const struct mt_shares *in)
{
	for (size_t i = 0; i < SHARES_ROWS; i++)
		if (in->rows[i].left_out && !share__is_named(s, in->rows[i].pid))
			return in->rows[i].pid;
	return 0;
}

uint32_t share__next_cut(struct share *s, const struct mt_shares *rings, size_t rings_cnt)
{
	uint32_t pid = share__cut_in(s, &s->waits);

	for (size_t i = 0; !pid && i < rings_cnt; i++)
		pid = share__cut_in(s, &rings[i]);
	if (!pid || s->named_cnt == SHARE_NAMED_MAX)
		return 0;
	s->named[s->named_cnt++] = pid;
	return pid;
}

static uint64_t left_out_in(const struct mt_shares *in, uint32_t pid)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < SHARES_ROWS; i++)
		sum += in->rows[i].pid == pid ? in->rows[i].left_out : 0;
	return sum;
}

uint64_t share__left_out(const struct share *s, const struct mt_shares *rings, size_t rings_cnt, uint32_t pid)
{
	uint64_t sum = left_out_in(&s->waits, pid);

	for (size_t i = 0; i < rings_cnt; i++)
		sum += left_out_in(&rings[i], pid);
	return sum;
}

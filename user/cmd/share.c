/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "cmd/share.h"

#include <string.h>

#include "base/seed.h"

#define QUIET_MAX 20 /* windows; then it is over */
#define NO_LIMIT UINT32_MAX

static struct share_row *share__row(struct share *s, uint32_t pid)
{
	uint32_t at = (uint32_t)hash_u64(pid) & (SHARE_ROWS - 1);

	while (s->rows[at].pid && s->rows[at].pid != pid)
		at = (at + 1) & (SHARE_ROWS - 1);
	if (s->rows[at].pid)
		return &s->rows[at];
	if (s->rows_cnt >= SHARE_ROWS / 4 * 3)
		return NULL;
	s->rows_cnt++;
	s->rows[at] = (struct share_row){ .pid = pid, .limit = NO_LIMIT };
	return &s->rows[at];
}

int share__takes(struct share *s, uint32_t pid)
{
	struct share_row *row = share__row(s, pid);

	if (row && row->cnt < NO_LIMIT)
		row->cnt++;
	if (row && row->cnt > row->limit) {
		row->is_cut = 1;
		s->left_out++;
		return 0;
	}
	s->taken++;
	return 1;
}

static void share__begin(struct share *s, int is_on)
{
	memset(s->rows, 0, sizeof(s->rows));
	s->rows_cnt = s->quiet = 0;
	s->taken = s->capacity = 0;
	s->is_on = is_on;
}

/*
 * Who told more than half as much again as an equal share has what the others leave. A process counts as one of those that
 * share if it told a hundredth. While there is room nobody new is cut.
 */
static void share__set_limits(struct share *s, int is_crowded)
{
	uint64_t total = 0, rest = 0, active = 0, heavy = 0, limit, equal;

	for (size_t i = 0; i < SHARE_ROWS; i++)
		total += s->rows[i].cnt;
	for (size_t i = 0; i < SHARE_ROWS; i++)
		active += s->rows[i].cnt && s->rows[i].cnt * 100ull >= total;
	for (size_t i = 0; i < SHARE_ROWS; i++) {
		struct share_row *row = &s->rows[i];
		int is_heavy = active > 1 && row->cnt * 2ull * active > total * 3, was_heavy = row->was_heavy;

		row->was_heavy = (uint8_t)is_heavy;
		is_heavy &= was_heavy && (is_crowded || row->limit != NO_LIMIT);
		heavy += (uint64_t)is_heavy;
		rest += is_heavy ? 0 : row->cnt;
		row->limit = is_heavy ? 0 : NO_LIMIT;
	}
	if (!heavy)
		return;
	equal = s->capacity / active;
	limit = s->capacity > rest ? (s->capacity - rest) / heavy : 0;
	limit = limit > equal ? limit : equal;
	for (size_t i = 0; i < SHARE_ROWS; i++)
		if (!s->rows[i].limit)
			s->rows[i].limit = limit < NO_LIMIT ? (uint32_t)limit : NO_LIMIT;
}

void share__turn(struct share *s, uint64_t now_ns, uint64_t ring_lost, int is_crowded)
{
	int overflows = ring_lost > s->lost;

	s->lost = ring_lost;
	s->next_ns = now_ns + SHARE_WINDOW_NS;
	if (!s->is_on) {
		if (overflows)
			share__begin(s, 1);
		return;
	}
	is_crowded |= overflows;
	s->quiet = is_crowded || s->left_out > s->left_before ? 0 : s->quiet + 1;
	s->left_before = s->left_out;
	if (s->quiet > QUIET_MAX) {
		share__begin(s, 0);
		return;
	}
	/* Half of what was too much, and then a little more each time: rings fill slowly before they are half full again. */
	if (is_crowded || !s->capacity)
		s->capacity = (s->capacity && s->capacity < s->taken ? s->capacity : s->taken) / 2;
	else
		s->capacity += s->taken / 256 + 1;
	share__set_limits(s, is_crowded);
	for (size_t i = 0; i < SHARE_ROWS; i++)
		s->rows[i].cnt = 0;
	s->taken = 0;
}

uint32_t share__next_cut(struct share *s)
{
	for (size_t i = 0; s->left_out && i < SHARE_ROWS; i++) {
		if (!s->rows[i].is_cut || s->rows[i].is_told)
			continue;
		s->rows[i].is_told = 1;
		return s->rows[i].pid;
	}
	return 0;
}

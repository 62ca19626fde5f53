/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/moments.h"

#include <stdlib.h>
#include <string.h>

#include "view/fold/highest.h"

enum { FIRST, LOW, HIGH, LAST, KEPT };

struct moments {
	struct moments_opts opts;
	struct moment now, peak, held; /* held: ts_ns 0: none */
	struct highest highest; /* of now */
	uint64_t learned[CAT_MAX]; /* what is to be added to a category in a gap; less than nothing wraps around */
	uint64_t seen_ns;	   /* of the gap that is open: until then moments are kept */
	struct moment kept[KEPT]; /* of the bucket that is open */
	uint64_t bucket;
	int has_bucket;
	struct moment *list; /* of those that are closed */
	size_t list_cnt;
	struct moment *near; /* a ring until `around`, then filled up */
	size_t near_cnt, near_at, near_after;
	struct moment *merged;
};

struct moments *moments__new(const struct moments_opts *opts)
{
	struct moments *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->opts = *opts;
	/* Pages that are never written cost nothing: most are short. */
	m->list = calloc((size_t)KEPT * (opts->buckets + 1), sizeof(*m->list));
	m->near = calloc(2 * (size_t)opts->near + 1, sizeof(*m->near));
	if (!m->list || !m->near) {
		moments__free(m);
		return NULL;
	}
	return m;
}

void moments__free(struct moments *m)
{
	if (!m)
		return;
	free(m->list);
	free(m->near);
	free(m->merged);
	free(m);
}

static uint64_t moments__bucket(const struct moments *m, uint64_t ts_ns)
{
	const struct moments_opts *o = &m->opts;

	if (ts_ns <= o->from_ns || o->to_ns <= o->from_ns)
		return 0;
	if (ts_ns >= o->to_ns)
		return o->buckets - 1;
	return (uint64_t)((unsigned __int128)(ts_ns - o->from_ns) * o->buckets / (o->to_ns - o->from_ns));
}

/* The four in the order in which they were, none twice. */
static void moments__close(struct moments *m)
{
	struct moment *k = m->kept, *out = m->list + m->list_cnt;
	int low_first = k[LOW].ts_ns <= k[HIGH].ts_ns;

	if (!m->has_bucket)
		return;
	*out++ = k[FIRST];
	for (int i = 0; i < 2; i++) {
		const struct moment *next = &k[(i == 0) == low_first ? LOW : HIGH];

		if (memcmp(next, out - 1, sizeof(*next)))
			*out++ = *next;
	}
	if (memcmp(&k[LAST], out - 1, sizeof(*out)))
		*out++ = k[LAST];
	m->list_cnt = (size_t)(out - m->list);
	m->has_bucket = 0;
}

static void moments__keep(struct moments *m, const struct moment *now)
{
	uint32_t near = m->opts.near;

	if (now->ts_ns <= m->opts.around_ns) {
		m->near[m->near_at] = *now;
		m->near_at = (m->near_at + 1) % near;
		m->near_cnt += m->near_cnt < near;
	} else if (m->near_after < near) {
		m->near[near + m->near_after++] = *now;
	}
}

/* Makes a moment one of those that may be kept. */
static void moments__look(struct moments *m, const struct moment *now)
{
	uint64_t bucket = moments__bucket(m, now->ts_ns);

	if (m->has_bucket && bucket != m->bucket)
		moments__close(m);
	if (!m->has_bucket) {
		m->kept[FIRST] = m->kept[LOW] = m->kept[HIGH] = *now;
		m->has_bucket = 1;
		m->bucket = bucket;
	}
	if (now->live < m->kept[LOW].live)
		m->kept[LOW] = *now;
	if (now->live > m->kept[HIGH].live)
		m->kept[HIGH] = *now;
	m->kept[LAST] = *now;
	if (m->opts.near)
		moments__keep(m, now);
}

static void moments__look_in_gap(struct moments *m)
{
	struct moment now = m->now;

	if (now.ts_ns >= m->seen_ns)
		return;
	for (unsigned c = 0; c < CAT_MAX; c++)
		now.cats[c] += m->learned[c];
	moments__look(m, &now);
}

void moments__learned(struct moments *m, uint8_t from, uint8_t to, uint64_t size)
{
	m->learned[from] -= size;
	m->learned[to] += size;
}

void moments__gap(struct moments *m, uint64_t ts_ns, int begins, uint64_t seen_ns)
{
	m->seen_ns = seen_ns;
	if (ts_ns > m->now.ts_ns)
		m->now.ts_ns = ts_ns;
	if (highest__gap(&m->highest, begins, m->now.ts_ns))
		m->peak = m->now;
	if (!begins)
		moments__look(m, &m->now);
	else
		moments__look_in_gap(m);
}

void moments__move(struct moments *m, uint64_t ts_ns, uint8_t from, uint8_t to, uint64_t size)
{
	if (ts_ns < m->now.ts_ns)
		ts_ns = m->now.ts_ns;
	if (from < CAT_MAX) {
		m->now.cats[from] -= size;
		m->now.live -= size;
	}
	if (to < CAT_MAX) {
		m->now.cats[to] += size;
		m->now.live += size;
	}
	m->now.ts_ns = ts_ns;
	if (highest__move(&m->highest, to < CAT_MAX ? size : 0, from < CAT_MAX ? size : 0, ts_ns, m->opts.around_ns))
		m->peak = m->now;
	if (!m->highest.in_gap)
		moments__look(m, &m->now);
	else
		moments__look_in_gap(m);
}

void moments__hold(struct moments *m)
{
	if (!m->highest.in_gap)
		m->held = m->now;
}

/* Into its place by time, if it is not there: of those of its time it is the last one. */
static void moments__insert_held(struct moments *m)
{
	size_t at = m->list_cnt;

	if (!m->held.ts_ns)
		return;
	while (at && m->list[at - 1].ts_ns > m->held.ts_ns)
		at--;
	if (at && !memcmp(&m->list[at - 1], &m->held, sizeof(m->held)))
		return;
	memmove(m->list + at + 1, m->list + at, (m->list_cnt++ - at) * sizeof(*m->list));
	m->list[at] = m->held;
	m->held.ts_ns = 0;
}

const struct moment *moments__now(const struct moments *m)
{
	return &m->now;
}

const struct moment *moments__peak(const struct moments *m)
{
	return &m->peak;
}

/* Of the ring's, the i-th by age; then those after. */
static const struct moment *moments__near_at(const struct moments *m, size_t i)
{
	size_t oldest = m->near_cnt < m->opts.near ? 0 : m->near_at;

	if (i >= m->near_cnt)
		return &m->near[m->opts.near + i - m->near_cnt];
	return &m->near[(oldest + i) % m->opts.near];
}

int moments__near(const struct moments *m, uint64_t *ret_from_ns, uint64_t *ret_to_ns)
{
	size_t cnt = m->near_cnt + m->near_after;

	if (!cnt)
		return 0;
	*ret_from_ns = moments__near_at(m, 0)->ts_ns;
	*ret_to_ns = moments__near_at(m, cnt - 1)->ts_ns;
	return 1;
}

const struct moment *moments__end(struct moments *m, size_t *ret_cnt)
{
	size_t near_cnt = m->near_cnt + m->near_after, at = 0;
	uint64_t from, to;

	moments__close(m);
	moments__insert_held(m);
	if (!moments__near(m, &from, &to)) {
		*ret_cnt = m->list_cnt;
		return m->list;
	}
	if (!m->merged)
		m->merged = calloc(m->list_cnt + near_cnt, sizeof(*m->merged));
	if (!m->merged)
		return NULL;
	for (size_t i = 0; i < m->list_cnt && m->list[i].ts_ns < from; i++)
		m->merged[at++] = m->list[i];
	for (size_t i = 0; i < near_cnt; i++)
		m->merged[at++] = *moments__near_at(m, i);
	for (size_t i = 0; i < m->list_cnt; i++)
		if (m->list[i].ts_ns > to)
			m->merged[at++] = m->list[i];
	*ret_cnt = at;
	return m->merged;
}

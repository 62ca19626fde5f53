/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/moments.h"

#include <stdbool.h>
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
	struct moment kept[2][KEPT]; /* of the bucket that is open: traced ones, and those in gaps */
	bool has_kept[2];
	uint64_t bucket;
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
	m->list = calloc((size_t)2 * KEPT * (opts->buckets + 1), sizeof(*m->list));
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

/* Those of a bucket in the order in which they were, none twice. */
static void moments__close(struct moments *m)
{
	const struct moment *open[2 * KEPT];
	unsigned cnt = 0;

	for (unsigned in_gap = 0; in_gap < 2; in_gap++) {
		for (unsigned i = 0; i < KEPT && m->has_kept[in_gap]; i++) {
			const struct moment *k = &m->kept[in_gap][i];
			unsigned at = cnt++;

			for (; at && open[at - 1]->ts_ns > k->ts_ns; at--)
				open[at] = open[at - 1];
			open[at] = k;
		}
		m->has_kept[in_gap] = false;
	}
	for (unsigned i = 0; i < cnt; i++)
		if (!i || memcmp(open[i], &m->list[m->list_cnt - 1], sizeof(**open)))
			m->list[m->list_cnt++] = *open[i];
}

static void moments__keep(struct moments *m)
{
	uint32_t near = m->opts.near;

	if (m->now.ts_ns <= m->opts.around_ns) {
		m->near[m->near_at] = m->now;
		m->near_at = (m->near_at + 1) % near;
		m->near_cnt += m->near_cnt < near;
	} else if (m->near_after < near) {
		m->near[near + m->near_after++] = m->now;
	}
}

/* Makes a moment one of those that may be kept. */
static void moments__look(struct moments *m, const struct moment *now, bool in_gap)
{
	uint64_t bucket = moments__bucket(m, now->ts_ns);
	struct moment *k = m->kept[in_gap];

	if (bucket != m->bucket)
		moments__close(m);
	m->bucket = bucket;
	if (!m->has_kept[in_gap])
		k[FIRST] = k[LOW] = k[HIGH] = *now;
	m->has_kept[in_gap] = true;
	if (now->live < k[LOW].live)
		k[LOW] = *now;
	if (now->live > k[HIGH].live)
		k[HIGH] = *now;
	k[LAST] = *now;
	if (m->opts.near && !in_gap)
		moments__keep(m);
}

static struct moment moments__likely(const struct moments *m)
{
	struct moment ret = m->now;

	ret.in_gap = 1;
	for (unsigned c = 0; c < CAT_MAX; c++)
		ret.cats[c] += m->learned[c];
	return ret;
}

static void moments__turn(struct moments *m)
{
	struct moment likely;

	if (!m->highest.in_gap) {
		moments__look(m, &m->now, false);
	} else if (m->now.ts_ns < m->seen_ns) {
		likely = moments__likely(m);
		moments__look(m, &likely, true);
	}
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
	moments__turn(m);
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
	moments__turn(m);
}

void moments__hold(struct moments *m)
{
	if (!m->highest.in_gap)
		m->held = m->now;
	else if (m->now.ts_ns < m->seen_ns)
		m->held = moments__likely(m);
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
	/* Of the time in between all traced ones are near: from the list come those in gaps. */
	for (size_t i = 0, near = 0; i < m->list_cnt || near < near_cnt;) {
		const struct moment *listed = i < m->list_cnt ? &m->list[i] : NULL;

		if (listed && !listed->in_gap && listed->ts_ns >= from && listed->ts_ns <= to) {
			i++;
		} else if (!listed || (near < near_cnt && moments__near_at(m, near)->ts_ns <= listed->ts_ns)) {
			m->merged[at++] = *moments__near_at(m, near++);
		} else {
			m->merged[at++] = *listed;
			i++;
		}
	}
	*ret_cnt = at;
	return m->merged;
}

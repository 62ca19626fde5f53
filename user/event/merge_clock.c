/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Clocks of different machines, by the steps that ranks of both made: pairs of the same number. A clock is ahead by the median
 * of their differences. It is too fast by the median slope of pairs that are half of all pairs apart (Theil and Sen, with as
 * many slopes as half the pairs): a few steps where one rank came late move neither. The slope is taken only where it is
 * clear: over all pairs it makes SHOWS times the scatter of the steps without it. Otherwise noise would be extrapolated to
 * hours without steps.
 *
 * What this cannot see: a clock that was set, or slewed by NTP, in mid-run; the line goes through the middle.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/err.h"
#include "event/merge_state.h"

#define CLOCK_APART_MAX (100ll * 365 * 86400 * 1000000000) /* no clock is that wrong: the file is */
#define PAIRS_MAX 16 /* files that steps are compared with in vain */
#define APART_MAX 4  /* steps further apart than this part of a step's length were not made together */
#define SHOWS 4
#define DRIFT_PAIRS_LEAST 8
#define PPT 1000000000000ll

struct clock_pair {
	uint64_t ts_ns;	 /* of b's, by its own clock */
	int64_t apart_ns; /* b's wall clock less a's */
};

struct fit {
	size_t cnt;
	int64_t ahead_ns, drift_ppt; /* of b, at from_ns */
	uint64_t from_ns;
	uint64_t spread_ns; /* median of what is left */
};

static int by_value(const void *pa, const void *pb)
{
	int64_t a = *(const int64_t *)pa, b = *(const int64_t *)pb;

	return cmp_up(a, b);
}

static int64_t median_of(int64_t *v, size_t cnt)
{
	qsort(v, cnt, sizeof(*v), by_value);
	return v[cnt / 2];
}

/* Times in a damaged file may be anything: these wrap. */
static int64_t minus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t distance(int64_t v)
{
	return v == INT64_MIN ? INT64_MAX : v < 0 ? -v : v;
}

static int64_t wall(const struct merge_scan *s, size_t i)
{
	return (int64_t)(s->steps[i].ts_ns + (uint64_t)s->epoch_off_ns);
}

/* Steps with the same number, which ascends in both. */
static size_t pair_by_number(const struct merge_scan *a, const struct merge_scan *b, struct clock_pair *ret)
{
	size_t cnt = 0;

	for (size_t i = 0, k = 0; i < a->steps_cnt && k < b->steps_cnt;) {
		if (a->steps[i].number < b->steps[k].number) {
			i++;
		} else if (a->steps[i].number > b->steps[k].number) {
			k++;
		} else {
			ret[cnt++] = (struct clock_pair){ b->steps[k].ts_ns, minus(wall(b, k), wall(a, i)) };
			i++;
			k++;
		}
	}
	return cnt;
}

/* A step of a. */
static int64_t step_length(const struct merge_scan *a, int64_t *room)
{
	size_t cnt = 0;

	for (size_t i = 1; i < a->steps_cnt; i++) {
		uint64_t numbers = a->steps[i].number - a->steps[i - 1].number;

		room[cnt++] = minus(wall(a, i), wall(a, i - 1)) / (int64_t)(numbers && numbers < 1u << 30 ? numbers : 1);
	}
	return median_of(room, cnt);
}

static int64_t drift_of(int64_t ppt, uint64_t from_ns, uint64_t ts_ns)
{
	return (int64_t)(((__int128)ts_ns - from_ns) * ppt / PPT);
}

/* ahead_ns and spread_ns, given the drift. */
static void fit_offset(struct fit *f, const struct clock_pair *p, int64_t *room)
{
	for (size_t i = 0; i < f->cnt; i++)
		room[i] = minus(p[i].apart_ns, drift_of(f->drift_ppt, f->from_ns, p[i].ts_ns));
	f->ahead_ns = median_of(room, f->cnt);
	for (size_t i = 0; i < f->cnt; i++)
		room[i] = distance(minus(minus(p[i].apart_ns, drift_of(f->drift_ppt, f->from_ns, p[i].ts_ns)), f->ahead_ns));
	f->spread_ns = (uint64_t)median_of(room, f->cnt);
}

/* Past MERGE_DRIFT_PPT_MAX: these are not the same steps, or the clock was set. */
static int64_t slope_of(const struct clock_pair *p, size_t cnt, int64_t *room)
{
	size_t half = cnt / 2, slopes = 0;

	for (size_t i = 0; i + half < cnt; i++) {
		__int128 dx = (__int128)p[i + half].ts_ns - p[i].ts_ns;
		__int128 dy = (__int128)p[i + half].apart_ns - p[i].apart_ns;
		__int128 slope = dx > 0 ? dy * PPT / dx : 0;
		__int128 most = 2 * MERGE_DRIFT_PPT_MAX;

		room[slopes++] = (int64_t)(slope > most ? most : slope < -most ? -most : slope);
	}
	return median_of(room, slopes);
}

static void fit_drift(struct fit *f, const struct clock_pair *p, int64_t *room)
{
	struct fit with = *f;
	int64_t over_all;

	if (f->cnt < DRIFT_PAIRS_LEAST)
		return;
	with.drift_ppt = slope_of(p, f->cnt, room);
	if (with.drift_ppt > MERGE_DRIFT_PPT_MAX || with.drift_ppt < -MERGE_DRIFT_PPT_MAX)
		return;
	fit_offset(&with, p, room);
	over_all = drift_of(with.drift_ppt, p[0].ts_ns, p[f->cnt - 1].ts_ns);
	if ((uint64_t)distance(over_all) > SHOWS * with.spread_ns && with.spread_ns < f->spread_ns)
		*f = with;
}

/* false: fewer than MERGE_STEPS_LEAST, or they do not lie together. */
static bool fit_steps(const struct merge_scan *a, const struct merge_scan *b, struct fit *ret)
{
	bool can = (a->is_marked && b->is_marked) || (!a->is_marked && !b->is_marked && a->from_start && b->from_start);
	struct clock_pair *p = can ? calloc(MERGE_STEPS_MAX, sizeof(*p)) : NULL;
	int64_t *room = can ? calloc(MERGE_STEPS_MAX, sizeof(*room)) : NULL;
	struct fit f = { .cnt = p && room ? pair_by_number(a, b, p) : 0 };
	bool fits = false;

	if (f.cnt >= MERGE_STEPS_LEAST) {
		f.from_ns = p[f.cnt / 2].ts_ns;
		fit_offset(&f, p, room);
		fit_drift(&f, p, room);
		fits = (int64_t)f.spread_ns <= step_length(a, room) / APART_MAX;
	}
	if (fits)
		*ret = f;
	free(p);
	free(room);
	return fits;
}

/* --- clocks ------------------------------------------------------------------------------------------------ */

static int64_t too_fast_by(const struct merge_source *s, uint64_t ts_ns)
{
	return drift_of(s->drift_ppt, s->drift_from_ns, ts_ns);
}

uint64_t merge_source__time(const struct merge_source *s, uint64_t ts_ns)
{
	__int128 t = (__int128)ts_ns + s->shift_ns - (s->drift_ppt ? too_fast_by(s, ts_ns) : 0);

	return t < 0 ? 0 : t > UINT64_MAX ? UINT64_MAX : (uint64_t)t;
}

/* One boot, one clock. A merged file's clock is its own. */
static bool same_clock(const struct merge_scan *a, const struct merge_scan *b)
{
	return !a->is_merged && !b->is_merged && a->machines[0].boot && a->machines[0].boot == b->machines[0].boot;
}

static int64_t clocks_apart(const struct merge_scan *a, const struct merge_scan *b)
{
	return (int64_t)((uint64_t)b->epoch_off_ns - (uint64_t)a->epoch_off_ns);
}

/* The earlier file whose clock this one shares, or itself. */
static size_t clock_of(const struct merge *m, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (same_clock(&m->src[k].scan, &m->src[i].scan))
			return k;
	return i;
}

/* File b is of the clock that began with file i, file a of the first clock. */
static bool align_pair(const struct merge *m, size_t i, size_t a, size_t b, struct merge_file_info *f)
{
	const struct merge_scan *sa = &m->src[a].scan, *sb = &m->src[b].scan;
	struct fit fit;

	if (!fit_steps(sa, sb, &fit))
		return false;
	/* each memtrace reads the offset anew: what counts is that of the clock's first file */
	f->clock_ns = minus(fit.ahead_ns, minus(clocks_apart(&m->src[i].scan, sb), clocks_apart(&m->src[0].scan, sa)));
	f->drift_ppt = m->src[i].drift_ppt = fit.drift_ppt;
	m->src[i].drift_from_ns = fit.from_ns;
	f->spread_ns = fit.spread_ns;
	f->steps_common = fit.cnt;
	f->how = MERGE_BY_STEPS;
	return true;
}

/* Any two files of the two clocks will do; those without steps are quick. */
static void align_by_steps(const struct merge *m, size_t i, struct merge_file_info *f)
{
	for (size_t b = i; b < m->cnt; b++) {
		if (!m->src[b].scan.steps_cnt || m->src[b].clock != i)
			continue;
		for (size_t a = 0, tries = 0; a < m->cnt && tries < PAIRS_MAX; a++) {
			if (!m->src[a].scan.steps_cnt || m->src[a].clock)
				continue;
			if (align_pair(m, i, a, b, f))
				return;
			tries++;
		}
	}
}

static void align_file(struct merge *m, size_t i, enum merge_align align)
{
	struct merge_file_info *f = &m->info->files[i];
	size_t same = m->src[i].clock;

	f->how = i ? MERGE_BY_CLOCK : MERGE_FIRST;
	if (same < i) {
		/* they share the monotonic clock, but their offsets from the wall clock differ */
		f->how = MERGE_SAME_BOOT;
		f->clock_ns = m->info->files[same].clock_ns + clocks_apart(&m->src[same].scan, &m->src[i].scan);
		f->drift_ppt = m->src[i].drift_ppt = m->src[same].drift_ppt;
		m->src[i].drift_from_ns = m->src[same].drift_from_ns;
	} else if (i && align == MERGE_ALIGN_STEPS) {
		align_by_steps(m, i, f);
	}
}

/* All times become those of one clock, the one that began earliest, so that nothing lies before 0. */
int merge__align(struct merge *m, enum merge_align align, int64_t *ret_off)
{
	int64_t least = 0; /* against the first file's */

	for (size_t i = 0; i < m->cnt; i++)
		m->src[i].clock = clock_of(m, i);
	for (size_t i = 0; i < m->cnt; i++) {
		int64_t apart = clocks_apart(&m->src[0].scan, &m->src[i].scan), off;

		if (apart > CLOCK_APART_MAX || apart < -CLOCK_APART_MAX) {
			err_set(m->err, -ERANGE, "the clocks of %s and %s are more than 100 years apart",
				m->info->files[0].path, m->info->files[i].path);
			return err_hint(m->err, "one of them is damaged; leave it out");
		}
		align_file(m, i, align);
		off = minus(minus(apart, m->info->files[i].clock_ns), too_fast_by(&m->src[i], m->src[i].scan.first_ns));
		least = off < least ? off : least;
	}
	for (size_t i = 0; i < m->cnt; i++)
		m->src[i].shift_ns = minus(minus(clocks_apart(&m->src[0].scan, &m->src[i].scan),
						 m->info->files[i].clock_ns), least);
	*ret_off = (int64_t)((uint64_t)m->src[0].scan.epoch_off_ns + (uint64_t)least);
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Outliers are found by the modified z-score, |x - median| over the median of such differences (times 1.4826, which makes it
 * the deviation of a normal distribution): one rank that is far off must not move the measure that it is compared with.
 * Ranks of a synchronous job are often equal to the byte: then that median is 0, and a difference of less than
 * SCALE_LEAST of the median is still none. The median is the lower one of two, so that of two ranks the larger stands out, if
 * it does by RANK_RATIO: there is no third one to show how much ranks differ. Peaks are compared, not what is live at the
 * end: that is another moment of the step in each rank.
 */
#include "timeline/ranks.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define SCALE_LEAST 0.01 /* of the median */
#define TO_DEVIATION 1.4826

static int by_job_and_number(const void *pa, const void *pb)
{
	const struct report_rank *a = pa, *b = pb;

	return strcmp(a->label.job, b->label.job) ?: cmp_up(a->source, b->source) ?: cmp_up(a->rank, b->rank) ?:
	       cmp_up(a->machine, b->machine);
}

static uint64_t lower_median(uint64_t *v, size_t cnt)
{
	qsort(v, cnt, sizeof(*v), u64_cmp);
	return cnt ? v[(cnt - 1) / 2] : 0;
}

static uint64_t apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static bool is_same_job(const struct report_rank *a, const struct report_rank *b)
{
	return !strcmp(a->label.job, b->label.job);
}

/* --- jobs that do not give their name -------------------------------------------------------------- */

static bool is_same_number(const struct report_rank *a, const struct report_rank *b)
{
	return is_same_job(a, b) && a->source == b->source && a->rank == b->rank &&
	       (a->source != RANK_LOCAL || a->machine == b->machine);
}

static bool is_at_once(const struct report_rank *a, const struct report_rank *b)
{
	return a->began_ns < b->ended_ns && b->began_ns < a->ended_ns;
}

/* Pairs of rows `from` to `to`, which are of one job and in order, that cannot be one rank. */
static size_t claims(const struct report_ranks *r, size_t from, size_t to)
{
	size_t cnt = 0;

	for (size_t i = from; i < to; i++)
		for (size_t k = i + 1; k < to && is_same_number(&r->rows[i], &r->rows[k]); k++)
			cnt += is_at_once(&r->rows[i], &r->rows[k]);
	return cnt;
}

static void name_jobs(struct report_ranks *r)
{
	for (size_t from = 0, to = 0; from < r->cnt; from = to) {
		size_t cnt;

		while (to < r->cnt && is_same_job(&r->rows[to], &r->rows[from]))
			to++;
		cnt = claims(r, from, to);
		r->claimed += cnt;
		for (size_t i = from; i < to && cnt; i++)
			rank_label__name_job(&r->rows[i].label, r->rows[i].launcher & ((1u << EV_MACHINE_SHIFT) - 1));
	}
	if (r->claimed)
		qsort(r->rows, r->cnt, sizeof(*r->rows), by_job_and_number);
}

/* --- outliers -------------------------------------------------------------------------------------- */

static void fill_difference(const struct report_ranks *r, const struct report_rank *mid, struct report_outlier *o)
{
	const struct report_rank *row = &r->rows[o->row];
	int64_t most = 0;

	o->more = (int64_t)(row->peak - mid->peak);
	for (unsigned c = 0; c < CAT_MAX; c++) {
		int64_t d = (int64_t)(row->cats[c].at_peak - mid->cats[c].at_peak);

		if (o->more < 0 ? d < most : d > most) {
			most = d;
			o->cat = (uint8_t)c;
		}
	}
	o->cat_more = most;
}

static double magnitude(double v)
{
	return v < 0 ? -v : v;
}

/* The farthest first; of equal ones the lower row. */
static void keep_outlier(struct report_ranks *r, struct report_outlier o)
{
	size_t at = r->outliers_cnt;

	while (at && magnitude(r->outliers[at - 1].score) < magnitude(o.score))
		at--;
	if (at == RANK_OUTLIERS_MAX)
		return;
	if (r->outliers_cnt < RANK_OUTLIERS_MAX)
		r->outliers_cnt++;
	memmove(&r->outliers[at + 1], &r->outliers[at], (r->outliers_cnt - at - 1) * sizeof(o));
	r->outliers[at] = o;
}

/* Among rows `from` to `to`, which are of one job. */
static void find_outliers(struct report_ranks *r, uint32_t from, uint32_t to, uint64_t *room)
{
	const struct report_rank *mid = &r->rows[from];
	uint64_t median, spread;
	double scale;

	for (uint32_t i = from; i < to; i++)
		room[i - from] = r->rows[i].peak;
	median = lower_median(room, to - from);
	while (mid->peak != median)
		mid++;
	for (uint32_t i = from; i < to; i++)
		room[i - from] = apart(r->rows[i].peak, median);
	spread = lower_median(room, to - from);
	scale = (double)spread * TO_DEVIATION;
	if (scale < (double)median * SCALE_LEAST)
		scale = (double)median * SCALE_LEAST;
	if (scale < 1)
		scale = 1;
	for (uint32_t i = from; i < to; i++) {
		struct report_outlier o = { .row = i, .score = ((double)r->rows[i].peak - (double)median) / scale };

		if (magnitude(o.score) < RANK_OUTLIER_SCORE)
			continue;
		if (to - from == 2 && (double)r->rows[i].peak < RANK_RATIO * (double)median)
			continue;
		fill_difference(r, mid, &o);
		keep_outlier(r, o);
	}
}

/* Ranks of different jobs are not like each other. */
static void compare_jobs(struct report_ranks *r, uint64_t *room)
{
	for (uint32_t from = 0, to = 0; from < r->cnt; from = to) {
		while (to < r->cnt && is_same_job(&r->rows[to], &r->rows[from]))
			to++;
		find_outliers(r, from, to, room);
	}
}

static void find_ends_of(struct report_ranks *r, uint64_t *room, uint32_t from, uint32_t to)
{
	uint32_t min = from, max = from, mid = from;
	uint64_t median;

	for (uint32_t i = from; i < to; i++) {
		room[i - from] = r->rows[i].peak;
		max = r->rows[i].peak > r->rows[max].peak ? i : max;
		min = r->rows[i].peak < r->rows[min].peak ? i : min;
	}
	median = lower_median(room, to - from);
	while (r->rows[mid].peak != median)
		mid++;
	for (uint32_t i = from; i < to; i++)
		r->rows[i].median_peak = median;
	if (from && r->rows[max].peak <= r->rows[r->max_row].peak)
		return;
	r->max_row = max;
	r->min_row = min;
	r->median_row = mid;
}

static void find_ends(struct report_ranks *r, uint64_t *room)
{
	for (uint32_t from = 0, to = 0; from < r->cnt; from = to, r->jobs_cnt++) {
		while (to < r->cnt && is_same_job(&r->rows[to], &r->rows[from]))
			to++;
		find_ends_of(r, room, from, to);
	}
}

/* --- missing ranks ----------------------------------------------------------------------------------- */

/* Ranks of the first job alone: where there are several, a number is ambiguous. */
static void find_missing(struct report_ranks *r)
{
	uint32_t next = 0;

	for (size_t i = 0; i < r->cnt; i++) {
		const struct report_rank *row = &r->rows[i];
		int64_t world = rank_label__num(&row->label, RANK_WORLD);

		if (r->jobs_cnt > 1)
			return;
		if (world > (int64_t)r->world && row->source != RANK_LOCAL)
			r->world = (uint32_t)world;
	}
	for (size_t i = 0; i <= r->cnt; i++) {
		uint32_t until = i < r->cnt ? r->rows[i].rank : r->world;

		for (; next < until && next < r->world; next++) {
			r->missing_total++;
			if (r->missing_cnt < RANK_MISSING_MAX)
				r->missing[r->missing_cnt++] = next;
			else if (until - next > 1) { /* counted in one go: a world may be a billion */
				r->missing_total += (until < r->world ? until : r->world) - next - 1;
				break;
			}
		}
		next = i < r->cnt ? r->rows[i].rank + 1 : next;
	}
}

static void count_deaths(struct report_ranks *r)
{
	for (size_t i = 0; i < r->cnt; i++)
		r->died += r->rows[i].gone == 1 && r->rows[i].exit_status;
}

/* --- steps ------------------------------------------------------------------------------------------ */

#define ALIGN_NEAR 2   /* steps beside the nearest that may be the same one: one that is as late as a step is long */
#define ALIGN_STEPS 64 /* are compared */

/* How far apart steps begin if the first of `ref` is step `at` of `row`: half of them more, half of them less. */
static uint64_t begun_apart(const struct report_rank *ref, const struct report_rank *row, size_t at)
{
	uint64_t room[ALIGN_STEPS];
	size_t cnt = 0;

	for (; cnt < ALIGN_STEPS && cnt < ref->steps_cnt && at + cnt < row->steps_cnt; cnt++)
		room[cnt] = apart(ref->steps[cnt].ts_ns, row->steps[at + cnt].ts_ns);
	return lower_median(room, cnt);
}

/* Which step of `row` is the first of `ref`. */
static size_t first_of(const struct report_rank *ref, const struct report_rank *row)
{
	uint64_t t0 = ref->steps[0].ts_ns;
	size_t near = 0, best;

	for (size_t k = 1; k < row->steps_cnt; k++)
		if (apart(row->steps[k].ts_ns, t0) < apart(row->steps[near].ts_ns, t0))
			near = k;
	best = near;
	for (size_t k = near > ALIGN_NEAR ? near - ALIGN_NEAR : 0; k <= near + ALIGN_NEAR && k < row->steps_cnt; k++)
		if (begun_apart(ref, row, k) < begun_apart(ref, row, best))
			best = k;
	return best;
}

/*
 * Steps are counted from each rank's attach, so the same step has different numbers. Ranks wait for each other in training, so
 * it begins at nearly the same time in all of them. The reference is the rank that was attached last.
 */
static void align_counted(struct report_ranks *r)
{
	const struct report_rank *last = NULL;

	for (size_t i = 0; i < r->cnt; i++) {
		const struct report_rank *row = &r->rows[i];

		if (row->steps_marked)
			return; /* marks carry numbers */
		if (row->steps_cnt && (!last || row->steps[0].ts_ns > last->steps[0].ts_ns))
			last = row;
	}
	for (size_t i = 0; last && i < r->cnt; i++) {
		struct report_rank *row = &r->rows[i];
		size_t first = row->steps_cnt ? first_of(last, row) : 0;

		for (size_t k = 0; k < row->steps_cnt; k++)
			row->steps[k].number = k + RANK_STEPS_MAX - first; /* the reference's first is RANK_STEPS_MAX */
	}
}

static const struct report_step *step_of(const struct report_rank *row, uint64_t number, size_t *hint)
{
	while (*hint < row->steps_cnt && row->steps[*hint].number < number)
		(*hint)++;
	return *hint < row->steps_cnt && row->steps[*hint].number == number ? &row->steps[*hint] : NULL;
}

static bool fill_step(const struct report_ranks *r, uint64_t number, size_t *hints, uint64_t *room,
		      struct report_step_row *ret)
{
	uint64_t last_ts = 0;
	size_t cnt = 0;

	*ret = (struct report_step_row){ .number = number, .ts_ns = UINT64_MAX, .min = UINT64_MAX };
	for (uint32_t i = 0; i < r->cnt; i++) {
		const struct report_step *s = r->rows[i].steps_cnt ? step_of(&r->rows[i], number, &hints[i]) : NULL;

		if (!s && r->rows[i].steps_cnt)
			return false;
		if (!s)
			continue;
		room[cnt++] = s->peak;
		ret->ts_ns = s->ts_ns < ret->ts_ns ? s->ts_ns : ret->ts_ns;
		last_ts = s->ts_ns > last_ts ? s->ts_ns : last_ts;
		ret->min = s->peak < ret->min ? s->peak : ret->min;
		if (s->peak > ret->max || cnt == 1) {
			ret->max = s->peak;
			ret->max_row = i;
		}
	}
	ret->late_ns = last_ts - ret->ts_ns;
	ret->median = lower_median(room, cnt);
	return cnt > 1;
}

static int find_steps(struct report_ranks *r, uint64_t *room)
{
	const struct report_rank *first = NULL;
	size_t *hints;

	if (r->jobs_cnt > 1)
		return 0;
	align_counted(r);
	for (size_t i = 0; i < r->cnt && !first; i++)
		first = r->rows[i].steps_cnt ? &r->rows[i] : NULL;
	if (!first)
		return 0;
	hints = calloc(r->cnt, sizeof(*hints));
	r->steps = calloc(first->steps_cnt, sizeof(*r->steps));
	if (!hints || !r->steps) {
		free(hints);
		return -ENOMEM;
	}
	for (size_t k = 0; k < first->steps_cnt; k++)
		if (fill_step(r, first->steps[k].number, hints, room, &r->steps[r->steps_cnt]))
			r->steps_cnt++;
	for (size_t k = 0; k < r->steps_cnt && !first->steps_marked; k++)
		r->steps[k].number = k + 1;
	free(hints);
	return 0;
}

/* --- the whole -------------------------------------------------------------------------------------- */

int report_ranks__judge(struct report_ranks *r)
{
	uint64_t *room = calloc(r->cnt + 1, sizeof(*room));
	int err;

	if (!room)
		return -ENOMEM;
	qsort(r->rows, r->cnt, sizeof(*r->rows), by_job_and_number);
	if (!r->cnt) {
		free(room);
		return 0;
	}
	name_jobs(r);
	find_ends(r, room);
	compare_jobs(r, room);
	find_missing(r);
	count_deaths(r);
	err = find_steps(r, room);
	free(room);
	return err;
}

int report_ranks__bucket(const struct report_ranks *r, size_t i, uint64_t *ret_max, uint64_t *ret_median, uint64_t *ret_min)
{
	uint64_t v[RANKS_MAX];
	size_t cnt = 0;
	int is_there = 0;

	for (size_t k = 0; k < r->cnt; k++) {
		if (i >= r->rows[k].series.cnt)
			continue;
		is_there = 1;
		if (r->rows[k].series.points[i].live_max != POINT_UNKNOWN)
			v[cnt++] = r->rows[k].series.points[i].live_max;
	}
	if (!cnt) {
		*ret_max = *ret_median = *ret_min = POINT_UNKNOWN;
		return is_there;
	}
	*ret_median = lower_median(v, cnt);
	*ret_min = v[0];
	*ret_max = v[cnt - 1];
	return 1;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/core/kinds.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define VALLEY 4	/* buckets: half an octave */
#define VALLEY_PART 20	/* of the fewer steps beside it at most such a part lies in it, … */
#define VALLEY_DEPTH 4	/* … or of the fullest stretch on either side: where steps are held up, some lie everywhere, … */
#define VALLEY_SIGMAS 4 /* … and the two differ by so many standard deviations: chance makes no such valley */
#define KIND_STEPS 5	/* fewer, … */
#define KIND_PART 500	/* … or less than such a part of all, are no kind of their own: noise */

static unsigned bucket_of(uint64_t took_ns)
{
	unsigned octave;

	took_ns = took_ns < 8 ? 8 : took_ns;
	octave = 63 - (unsigned)__builtin_clzll(took_ns);
	return octave * 8 + ((took_ns >> (octave - 3)) & 7);
}

static uint64_t bucket_ns(unsigned bucket)
{
	return (2 * (8 + (uint64_t)bucket % 8) + 1) << (bucket / 8) >> 4;
}

void kinds__step(struct kinds *k, uint64_t marks, uint64_t took_ns, int is_traced)
{
	unsigned i = 0;

	while (i < k->cnt && k->v[i].marks != marks)
		i++;
	if (i == KINDS_MAX)
		i--;
	if (i == k->cnt)
		k->v[k->cnt++].marks = marks;
	(is_traced ? k->v[i].traced : k->v[i].watched)[bucket_of(took_ns)]++;
}

static uint64_t sum_of(const uint32_t *h, unsigned from, unsigned to)
{
	uint64_t sum = 0;

	for (; from < to; from++)
		sum += h[from];
	return sum;
}

static unsigned median_of(const uint32_t *h, unsigned from, unsigned to)
{
	uint64_t half = sum_of(h, from, to) / 2, sum = 0;

	for (; from < to; from++) {
		sum += h[from];
		if (sum > half)
			return from;
	}
	return to;
}

struct bucket_range {
	unsigned from, to;
};

static bool is_kind(uint64_t steps, uint64_t all, bool is_traced)
{
	return is_traced ? steps > 0 : steps >= KIND_STEPS && steps * KIND_PART >= all;
}

/* Stretches are VALLEY buckets. */
struct stretches {
	struct bucket_range r;
	uint64_t below[KINDS_BUCKETS + 1]; /* steps in buckets before this one */
	uint64_t left[KINDS_BUCKETS + 1];  /* in the fullest stretch that ends here or before */
	uint64_t right[KINDS_BUCKETS + 1]; /* … that begins here or later */
};

static uint64_t stretches__at(const struct stretches *s, unsigned at)
{
	return s->below[at + VALLEY] - s->below[at];
}

static void stretches__fill(struct stretches *s, const uint32_t *h, struct bucket_range r)
{
	*s = (struct stretches){ .r = r };
	for (unsigned i = r.from; i < r.to; i++)
		s->below[i + 1] = s->below[i] + h[i];
	for (unsigned i = r.from + VALLEY; i <= r.to; i++) {
		uint64_t in = stretches__at(s, i - VALLEY);

		s->left[i] = in > s->left[i - 1] ? in : s->left[i - 1];
	}
	for (unsigned i = r.to - VALLEY + 1; r.to - r.from >= VALLEY && i-- > r.from;) {
		uint64_t in = stretches__at(s, i);

		s->right[i] = in > s->right[i + 1] ? in : s->right[i + 1];
	}
}

static bool is_valley(const struct stretches *s, unsigned at, uint64_t all, bool is_traced)
{
	uint64_t a = s->below[at], b = s->below[s->r.to] - s->below[at + VALLEY], in = stretches__at(s, at);
	uint64_t peak = s->left[at] < s->right[at + VALLEY] ? s->left[at] : s->right[at + VALLEY];

	if (!is_kind(a, all, is_traced) || !is_kind(b, all, is_traced))
		return false;
	if (in * VALLEY_PART <= (a < b ? a : b))
		return true;
	return in * VALLEY_DEPTH <= peak && (peak - in) * (peak - in) >= VALLEY_SIGMAS * VALLEY_SIGMAS * (peak + in);
}

/* The emptiest stretch with a kind on both sides: where the second one begins; 0: there is none. */
static unsigned valley_of(const uint32_t *h, struct bucket_range r, uint64_t all, bool is_traced)
{
	uint64_t best = UINT64_MAX;
	unsigned ret = 0, last = 0;
	struct stretches s;

	stretches__fill(&s, h, r);
	for (unsigned at = r.from; at + VALLEY < r.to; at++) {
		uint64_t in = stretches__at(&s, at);

		if (in > best || !is_valley(&s, at, all, is_traced))
			continue;
		if (in < best || at != last + 1)
			ret = at;
		best = in;
		last = at;
	}
	return ret ? (ret + last) / 2 + VALLEY / 2 : 0;
}

static unsigned split(const uint32_t *h, bool is_traced, struct bucket_range ret[KINDS_MAX])
{
	uint64_t all = sum_of(h, 0, KINDS_BUCKETS);
	unsigned cnt = all > 0;

	ret[0] = (struct bucket_range){ 0, KINDS_BUCKETS };
	for (unsigned i = 0; i < cnt && cnt < KINDS_MAX;) {
		unsigned at = valley_of(h, ret[i], all, is_traced);

		if (!at) {
			i++;
			continue;
		}
		memmove(&ret[i + 2], &ret[i + 1], (cnt - i - 1) * sizeof(*ret));
		ret[i + 1] = (struct bucket_range){ at, ret[i].to };
		ret[i].to = at;
		cnt++;
	}
	return cnt;
}

/* Traced steps are so much slower, in buckets: half as long to sixteen times, all alike. */
#define SLOWER_LEAST (-8)
#define SLOWER_MOST 32
#define OFF_COST 0.25 /* of a step that is a bucket off its kind, beside the logarithm of the kind's share of all steps */

struct shape {
	unsigned cnt, medians[KINDS_MAX]; /* of watched steps, by duration */
	double costs[KINDS_MAX];
};

static struct shape shape_of(const struct kinds_of_marks *m, const struct kind *v, unsigned cnt)
{
	double all = (double)sum_of(m->watched, 0, KINDS_BUCKETS) + cnt;
	struct shape s = { .cnt = cnt };

	for (unsigned i = 0; i < cnt; i++) {
		s.medians[i] = median_of(m->watched, v[i].watched_from, v[i].watched_to);
		s.costs[i] = -log(((double)sum_of(m->watched, v[i].watched_from, v[i].watched_to) + 1) / all);
	}
	return s;
}

/* Where the traced steps of kind i end: in the middle between its median and the next one's. */
static unsigned shape__end(const struct shape *s, unsigned i, int slower)
{
	int to = i + 1 < s->cnt ? slower + (int)(s->medians[i] + s->medians[i + 1] + 1) / 2 : KINDS_BUCKETS;

	return to < 0 ? 0 : to < KINDS_BUCKETS ? (unsigned)to : KINDS_BUCKETS;
}

static double shape__cost(const struct shape *s, const uint32_t *traced, int slower)
{
	double cost = 0;
	unsigned i = 0;

	for (unsigned b = 0; b < KINDS_BUCKETS; b++) {
		while (i + 1 < s->cnt && b >= shape__end(s, i, slower))
			i++;
		cost += traced[b] * (s->costs[i] + OFF_COST * abs((int)b - slower - (int)s->medians[i]));
	}
	return cost;
}

/* The factor by which traced steps are slower, by the best fit: near to a kind's watched ones, and as often of each kind. */
static void match_nearest(const struct kinds_of_marks *m, struct kind *v, unsigned cnt)
{
	struct shape s = shape_of(m, v, cnt);
	double least = shape__cost(&s, m->traced, 0);
	int best = 0;

	for (int slower = SLOWER_LEAST; slower <= SLOWER_MOST; slower++) {
		double cost = shape__cost(&s, m->traced, slower);

		if (cost >= least)
			continue;
		least = cost;
		best = slower;
	}
	for (unsigned i = 0; i < cnt; i++) {
		v[i].traced_from = i ? v[i - 1].traced_to : 0;
		v[i].traced_to = shape__end(&s, i, best);
	}
}

/* As many groups of traced steps as kinds, and each could be its kind's, slower. */
static bool match_by_order(const struct kinds_of_marks *m, struct kind *v, unsigned cnt, const struct bucket_range *traced)
{
	for (unsigned i = 0; i < cnt; i++) {
		int slower = (int)median_of(m->traced, traced[i].from, traced[i].to) -
			     (int)median_of(m->watched, v[i].watched_from, v[i].watched_to);

		if (slower < SLOWER_LEAST || slower > SLOWER_MOST)
			return false;
	}
	for (unsigned i = 0; i < cnt; i++) {
		v[i].traced_from = traced[i].from;
		v[i].traced_to = traced[i].to;
	}
	return true;
}

/* Buckets without steps on both sides of where b begins. */
static unsigned gap_at(const uint32_t *h, struct bucket_range a, struct bucket_range b)
{
	unsigned from = b.from, to = b.from;

	while (from > a.from && !h[from - 1])
		from--;
	while (to < b.to && !h[to])
		to++;
	return to - from;
}

/* Some traced steps were held up, as in a first window: groups of them that are nearest to each other are one. */
static unsigned join_nearest(const uint32_t *h, struct bucket_range *v, unsigned cnt, unsigned wanted)
{
	for (; cnt > wanted; cnt--) {
		unsigned best = 1;

		for (unsigned i = 2; i < cnt; i++)
			if (gap_at(h, v[i - 1], v[i]) < gap_at(h, v[best - 1], v[best]))
				best = i;
		v[best - 1].to = v[best].to;
		memmove(&v[best], &v[best + 1], (cnt - best - 1) * sizeof(*v));
	}
	return cnt;
}

/* Those of one number of regions, by duration. */
static unsigned find_in(const struct kinds_of_marks *m, struct kind ret[KINDS_MAX])
{
	struct bucket_range watched[KINDS_MAX], traced[KINDS_MAX];
	unsigned cnt = split(m->watched, false, watched), traced_cnt = split(m->traced, true, traced);

	if (!cnt) {
		watched[0] = (struct bucket_range){ 0, KINDS_BUCKETS };
		cnt = traced_cnt > 0;
	}
	for (unsigned i = 0; i < cnt; i++)
		ret[i] = (struct kind){ .marks = m->marks, .watched_from = watched[i].from, .watched_to = watched[i].to };
	if (cnt)
		traced_cnt = join_nearest(m->traced, traced, traced_cnt, cnt);
	if (cnt != traced_cnt || !match_by_order(m, ret, cnt, traced))
		match_nearest(m, ret, cnt);
	for (unsigned i = 0; i < cnt; i++) {
		ret[i].watched = sum_of(m->watched, ret[i].watched_from, ret[i].watched_to);
		ret[i].traced = sum_of(m->traced, ret[i].traced_from, ret[i].traced_to);
	}
	return cnt;
}

/* If watched and traced steps have no number of regions in common, the numbers depend on the probes, not on the job. */
static bool marks_tell(const struct kinds *k)
{
	bool any_watched = false, any_traced = false;

	for (unsigned i = 0; i < k->cnt; i++) {
		bool watched = sum_of(k->v[i].watched, 0, KINDS_BUCKETS), traced = sum_of(k->v[i].traced, 0, KINDS_BUCKETS);

		if (watched && traced)
			return true;
		any_watched |= watched;
		any_traced |= traced;
	}
	return !any_watched || !any_traced;
}

static void kinds__together(const struct kinds *k, struct kinds_of_marks *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (unsigned i = 0; i < k->cnt; i++)
		for (unsigned b = 0; b < KINDS_BUCKETS; b++) {
			ret->watched[b] += k->v[i].watched[b];
			ret->traced[b] += k->v[i].traced[b];
		}
}

static int by_steps(const void *pa, const void *pb)
{
	const struct kind *a = pa, *b = pb;

	return cmp_down(a->watched + a->traced, b->watched + b->traced) ?: cmp_up(a->marks, b->marks) ?:
	       cmp_up(a->watched_from, b->watched_from);
}

unsigned kinds__find(const struct kinds *k, struct kind ret[KINDS_MAX])
{
	struct kind all[KINDS_MAX * KINDS_MAX];
	struct kinds_of_marks together;
	unsigned cnt = 0;

	if (marks_tell(k)) {
		for (unsigned i = 0; i < k->cnt; i++)
			cnt += find_in(&k->v[i], &all[cnt]);
	} else {
		kinds__together(k, &together);
		cnt = find_in(&together, all);
		for (unsigned i = 0; i < cnt; i++)
			all[i].all_marks = 1;
	}
	qsort(all, cnt, sizeof(*all), by_steps);
	cnt = cnt < KINDS_MAX ? cnt : KINDS_MAX;
	memcpy(ret, all, cnt * sizeof(*all));
	return cnt;
}

unsigned kinds__of(const struct kind *v, unsigned cnt, uint64_t marks, uint64_t took_ns)
{
	unsigned bucket = bucket_of(took_ns);

	for (unsigned i = 0; i < cnt; i++)
		if ((v[i].all_marks || v[i].marks == marks) && bucket >= v[i].traced_from && bucket < v[i].traced_to)
			return i;
	return KINDS_MAX;
}

uint64_t kinds__median_ns(const struct kinds *k, const struct kind *v, int is_traced)
{
	unsigned from = is_traced ? v->traced_from : v->watched_from, to = is_traced ? v->traced_to : v->watched_to;
	struct kinds_of_marks together;
	const uint32_t *h;

	if (!(is_traced ? v->traced : v->watched))
		return 0;
	memset(&together, 0, sizeof(together));
	for (unsigned i = 0; i < k->cnt; i++)
		for (unsigned b = 0; b < KINDS_BUCKETS && (v->all_marks || k->v[i].marks == v->marks); b++) {
			together.watched[b] += k->v[i].watched[b];
			together.traced[b] += k->v[i].traced[b];
		}
	h = is_traced ? together.traced : together.watched;
	return bucket_ns(median_of(h, from, to));
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/core/price.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* When it is full every second one is dropped, and from then on only every second one is taken. */
static void sample__add(struct price_sample *s, uint64_t ns)
{
	if (!s->stride)
		s->stride = 1;
	if (s->seen++ % s->stride)
		return;
	if (s->cnt == PRICE_STEPS) {
		s->cnt = 0;
		for (size_t i = 0; i < PRICE_STEPS; i += 2)
			s->v[s->cnt++] = s->v[i];
		s->stride *= 2;
		if ((s->seen - 1) % s->stride)
			return;
	}
	s->v[s->cnt++] = ns;
}

void price__attach(struct price *p, int begins)
{
	if (begins)
		p->when = PRICE_SETTING;
	else if (p->when == PRICE_SETTING)
		p->when = PRICE_UNDER_WAY;
}

static void price__traced(struct price *p, uint64_t took_ns, uint64_t now_ns)
{
	if (now_ns - p->since_ns <= PRICE_TRACED_NS)
		sample__add(&p->traced, took_ns);
	else
		p->is_long = true;
	if (now_ns - p->last_ns > PRICE_TRACED_NS / 2) {
		p->last[1] = now_ns - p->end_ns > PRICE_TRACED_NS ? (struct price_sample){ 0 } : p->last[0];
		p->last[0] = (struct price_sample){ 0 };
		p->last_ns = now_ns;
	}
	sample__add(&p->last[0], took_ns);
	p->end_ns = now_ns;
}

void price__step(struct price *p, uint64_t took_ns, uint64_t now_ns)
{
	switch (p->when) {
	case PRICE_BEFORE:
		sample__add(&p->before, took_ns);
		break;
	case PRICE_SETTING:
		break;
	case PRICE_UNDER_WAY: /* it began before the last probe was set */
		p->when = PRICE_TRACED;
		if (!p->since_ns)
			p->since_ns = p->last_ns = now_ns;
		break;
	case PRICE_TRACED:
		price__traced(p, took_ns, now_ns);
		break;
	}
}

bool price__has_traced(const struct price *p)
{
	return p->traced.cnt >= PRICE_STEPS_MIN;
}

void price__after(struct price *p, uint64_t took_ns)
{
	sample__add(&p->after, took_ns);
}

void price__sampled(struct price *p, bool traced, uint64_t took_ns)
{
	sample__add(traced ? &p->traced : &p->before, took_ns);
}

/* What one sample, or two, say of a step. */
struct median {
	size_t cnt;   /* 0: they have too few */
	double ns, error; /* error: of ns, in ns, 95 % */
};

/* As evenly spread as a sample of that stride would be; both are powers of two. Returns their number. */
static size_t sample__take(const struct price_sample *s, uint64_t stride, uint64_t *ret)
{
	size_t every = s->stride && s->stride < stride ? stride / s->stride : 1, cnt = 0;

	for (size_t i = 0; i < s->cnt; i += every)
		ret[cnt++] = s->v[i];
	return cnt;
}

/*
 * Of one sample, or of two as one. The error is half of the notch of a box plot (McGill, Tukey and Larsen, "Variations of box
 * plots", 1978: 1.57 times the distance of the quartiles by the root of the number).
 */
static struct median median_of(const struct price_sample *s, const struct price_sample *more)
{
	uint64_t v[2 * PRICE_STEPS], stride = more && more->stride > s->stride ? more->stride : s->stride;
	size_t cnt = sample__take(s, stride, v);

	if (more)
		cnt += sample__take(more, stride, v + cnt);
	if (cnt < PRICE_STEPS_MIN)
		return (struct median){ 0 };
	qsort(v, cnt, sizeof(*v), u64_cmp);
	return (struct median){ cnt, (double)v[cnt / 2], 1.57 * (double)(v[cnt * 3 / 4] - v[cnt / 4]) / sqrt((double)cnt) };
}

/* Untraced steps of one end, and traced ones near to them: of those without any nothing is said. */
struct side {
	struct median untraced, traced;
};

static bool side__says(const struct side *s)
{
	return s->untraced.cnt && s->traced.ns > 0;
}

static double side__ratio(const struct side *s)
{
	return s->untraced.ns / s->traced.ns;
}

/* Tracing makes no step shorter: something else has made the untraced ones longer. */
static bool side__is_disturbed(const struct side *s)
{
	return s->untraced.ns - s->traced.ns > hypot(s->untraced.error, s->traced.error);
}

/*
 * The mean of both ends, in which what changes evenly meanwhile cancels out. An end that something else has disturbed does not
 * count beside one that is as it should be. Where traced steps of both are the same, so is their error.
 */
static struct side sides_mean(struct side *before, struct side *after, double *ret_apart)
{
	bool is_before = side__says(before), is_after = side__says(after);

	*ret_apart = 0;
	if (is_before && is_after && side__is_disturbed(before) != side__is_disturbed(after)) {
		is_before = side__is_disturbed(after);
		is_after = !is_before;
	}
	if (!is_before || !is_after) {
		*(is_before ? after : before) = (struct side){ 0 };
		return is_before ? *before : *after;
	}
	*ret_apart = fabs(side__ratio(before) - side__ratio(after)) / 2;
	return (struct side){
		.untraced = { before->untraced.cnt + after->untraced.cnt, (before->untraced.ns + after->untraced.ns) / 2,
			      hypot(before->untraced.error, after->untraced.error) / 2 },
		.traced = { before->traced.cnt, (before->traced.ns + after->traced.ns) / 2,
			    (before->traced.error + after->traced.error) / 2 },
	};
}

static uint64_t whole_ns(double ns) /* of a hostile file, perhaps */
{
	return ns < 0x1p63 ? (uint64_t)ns : UINT64_MAX;
}

void price__report(const struct price *p, uint32_t pid, struct report_price *sum)
{
	struct median first = median_of(&p->traced, NULL);
	struct median last = p->is_long ? median_of(&p->last[0], &p->last[1]) : first;
	struct side before = { median_of(&p->before, NULL), first }, after = { median_of(&p->after, NULL), last }, mean;
	double apart, error;
	uint64_t cnt, have = report_price__untraced(sum) < sum->steps ? report_price__untraced(sum) : sum->steps;

	mean = sides_mean(&before, &after, &apart);
	cnt = mean.untraced.cnt < mean.traced.cnt ? mean.untraced.cnt : mean.traced.cnt;
	if (!side__says(&mean) || cnt <= have)
		return;
	*sum = (struct report_price){ .pid = pid, .steps_before = before.untraced.cnt, .steps_after = after.untraced.cnt,
				      .steps = mean.traced.cnt, .before_ns = whole_ns(before.untraced.ns),
				      .after_ns = whole_ns(after.untraced.ns), .traced_ns = whole_ns(mean.traced.ns),
				      .lost = 1 - side__ratio(&mean) };
	error = side__ratio(&mean) * hypot(mean.untraced.error / mean.untraced.ns, mean.traced.error / mean.traced.ns);
	sum->error = fmax(error, apart);
}

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
			p->since_ns = now_ns;
		break;
	case PRICE_TRACED:
		if (now_ns - p->since_ns <= PRICE_TRACED_NS)
			sample__add(&p->traced, took_ns);
		break;
	}
}

void price__sampled(struct price *p, bool traced, uint64_t took_ns)
{
	sample__add(traced ? &p->traced : &p->before, took_ns);
}

/*
 * The median, and how far off it may be, as a share of it: half of the notch of a box plot (McGill, Tukey and Larsen,
 * "Variations of box plots", 1978: 1.57 times the distance of the quartiles by the root of the number), which is 95 %.
 */
static uint64_t sample__median(const struct price_sample *s, double *ret_error)
{
	uint64_t v[PRICE_STEPS], median;

	memcpy(v, s->v, s->cnt * sizeof(*v));
	qsort(v, s->cnt, sizeof(*v), u64_cmp);
	median = v[s->cnt / 2];
	*ret_error = median ? 1.57 * (double)(v[s->cnt * 3 / 4] - v[s->cnt / 4]) / sqrt((double)s->cnt) / (double)median : 0;
	return median;
}

void price__report(const struct price *p, uint32_t pid, struct report_price *sum)
{
	size_t cnt = p->before.cnt < p->traced.cnt ? p->before.cnt : p->traced.cnt;
	size_t have = sum->steps_before < sum->steps ? sum->steps_before : sum->steps;
	double error_before, error_traced, ratio;

	if (cnt < PRICE_STEPS_MIN || cnt <= have)
		return;
	*sum = (struct report_price){ .pid = pid, .steps_before = p->before.cnt, .steps = p->traced.cnt,
				      .before_ns = sample__median(&p->before, &error_before),
				      .traced_ns = sample__median(&p->traced, &error_traced) };
	if (!sum->traced_ns)
		return;
	ratio = (double)sum->before_ns / (double)sum->traced_ns;
	sum->lost = 1 - ratio;
	sum->error = ratio * sqrt(error_before * error_before + error_traced * error_traced);
}

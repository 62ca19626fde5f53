/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/core/align.h"

struct align {
	const struct align_item *a, *b;
	uint32_t a_cnt, b_cnt;
	uint32_t *ret;
	uint64_t work; /* that is left */
};

static bool is_same(const struct align_item *a, const struct align_item *b)
{
	return a->size == b->size && a->dev == b->dev;
}

/* Whether they agree from here on. Fewer agreements are enough where one of them ends soon, none where both do. */
static bool align__agrees(struct align *al, uint32_t i, uint32_t j)
{
	for (unsigned k = 0; k < ALIGN_RUN; k++, i++, j++) {
		al->work -= al->work > 0;
		if (i == al->a_cnt || j == al->b_cnt)
			return k >= 2 || (i == al->a_cnt && j == al->b_cnt);
		if (!is_same(&al->a[i], &al->b[j]))
			return false;
	}
	return true;
}

static bool align__at(struct align *al, uint32_t i, uint32_t j, uint32_t in_a, uint32_t in_b)
{
	return in_a <= al->a_cnt - i && in_b <= al->b_cnt - j && align__agrees(al, i + in_a, j + in_b);
}

/* The nearest place after i and j from which they agree. */
static bool align__next(struct align *al, uint32_t i, uint32_t j, uint32_t *ret_a, uint32_t *ret_b)
{
	uint32_t most = al->a_cnt - i > al->b_cnt - j ? al->a_cnt - i : al->b_cnt - j;

	for (uint32_t d = 1; d <= ALIGN_NEAR; d++)
		for (uint32_t in_a = 0; in_a <= d && al->work; in_a++)
			if (align__at(al, i, j, in_a, d - in_a)) {
				*ret_a = in_a;
				*ret_b = d - in_a;
				return true;
			}
	for (uint32_t d = ALIGN_NEAR + 1; d <= ALIGN_FAR && d <= most && al->work; d++) {
		bool in_b = align__at(al, i, j, 0, d);

		if (!in_b && !align__at(al, i, j, d, 0))
			continue;
		*ret_a = in_b ? 0 : d;
		*ret_b = in_b ? d : 0;
		return true;
	}
	return false;
}

static double align__pair(struct align *al, uint32_t i, uint32_t j)
{
	al->ret[i] = ALIGN_NONE;
	if (al->a[i].dev != al->b[j].dev)
		return 0;
	al->ret[i] = j;
	if (al->a[i].size == al->b[j].size)
		return 1;
	return al->a[i].is_freed == al->b[j].is_freed ? 0.5 : 0;
}

static double align__by_sizes(struct align *al)
{
	uint32_t i = 0, j = 0, in_a, in_b;
	double fits = 0;

	while (i < al->a_cnt && j < al->b_cnt) {
		if (is_same(&al->a[i], &al->b[j]) || !al->work || !align__next(al, i, j, &in_a, &in_b)) {
			fits += align__pair(al, i++, j++);
			continue;
		}
		for (uint32_t k = 0; k < in_a; k++)
			if (in_a == in_b)
				fits += align__pair(al, i + k, j + k);
			else
				al->ret[i + k] = ALIGN_NONE;
		i += in_a;
		j += in_b;
	}
	for (; i < al->a_cnt; i++)
		al->ret[i] = ALIGN_NONE;
	return fits;
}

static double align__by_place(struct align *al, bool *ret_exact)
{
	double fits = 0;

	*ret_exact = true;
	for (uint32_t i = 0; i < al->a_cnt; i++) {
		fits += align__pair(al, i, i);
		*ret_exact &= is_same(&al->a[i], &al->b[i]) && al->a[i].is_freed == al->b[i].is_freed;
	}
	return fits;
}

struct align_fit align__find(const struct align_item *a, uint32_t a_cnt, const struct align_item *b, uint32_t b_cnt,
			    uint32_t *ret)
{
	struct align al = { .a = a, .b = b, .a_cnt = a_cnt, .b_cnt = b_cnt, .ret = ret,
			    .work = ((uint64_t)a_cnt + b_cnt) * ALIGN_WORK };
	struct align_fit fit = { .most = a_cnt > b_cnt ? a_cnt : b_cnt };
	double by_place = 0;
	bool unused;

	if (a_cnt == b_cnt)
		by_place = align__by_place(&al, &fit.is_exact);
	if (by_place == (double)a_cnt && a_cnt == b_cnt) { /* all sizes are the same */
		fit.fits = by_place;
		return fit;
	}
	fit.fits = align__by_sizes(&al);
	if (a_cnt != b_cnt || by_place < fit.fits)
		return fit;
	fit.by_place = true;
	fit.fits = align__by_place(&al, &unused);
	return fit;
}

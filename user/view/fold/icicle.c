/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/icicle.h"

#include <errno.h>
#include <stdlib.h>

#include "view/fold/heapsum.h"

/* Nodes are made after their parents: one walk from the end adds all of them up. */
static void add_up(struct icicle_row *rows, const struct heapsum *h)
{
	const struct stacks *s = heapsum__stacks(h);
	size_t cnt;
	const struct heap_cell *cells = heapsum__cells(h, &cnt);

	for (size_t i = 0; i < cnt; i++) {
		struct icicle_row *r = &rows[cells[i].stack];

		r->at_peak += cells[i].at_peak;
		r->live += cells[i].live;
		r->alloc_bytes += cells[i].alloc_bytes;
		r->alloc_count += cells[i].alloc_count;
	}
	for (uint32_t i = stacks__cnt(s) - 1; i > 0; i--) {
		const struct stack_node *n = stacks__node(s, i);

		rows[i].parent = n->parent;
		rows[i].value = n->value;
		rows[i].kind = n->kind;
		rows[n->parent].at_peak += rows[i].at_peak;
		rows[n->parent].live += rows[i].live;
		rows[n->parent].alloc_bytes += rows[i].alloc_bytes;
		rows[n->parent].alloc_count += rows[i].alloc_count;
	}
}

/* Largest share that a node has of any of the three. */
static double weight(const struct icicle_row *r, const struct icicle_row *all)
{
	double a = all->at_peak ? (double)r->at_peak / (double)all->at_peak : 0;
	double b = all->live ? (double)r->live / (double)all->live : 0;
	double c = all->alloc_bytes ? (double)r->alloc_bytes / (double)all->alloc_bytes : 0;

	return a > b ? (a > c ? a : c) : b > c ? b : c;
}

static uint32_t count_over(const struct icicle_row *rows, uint32_t cnt, double least)
{
	uint32_t over = 1;

	for (uint32_t i = 1; i < cnt; i++)
		over += weight(&rows[i], &rows[0]) > least;
	return over;
}

/* A node weighs no less than its children, so the kept ones are a tree. new_idx 0: gone (or the root). */
static void prune(struct icicle *ic, uint32_t cnt, uint32_t *new_idx, double least)
{
	ic->cnt = 1;
	for (uint32_t i = 1; i < cnt; i++) {
		struct icicle_row *r = &ic->rows[i];

		if (weight(r, &ic->rows[0]) <= least)
			continue;
		r->parent = new_idx[r->parent];
		new_idx[i] = (uint32_t)ic->cnt;
		ic->rows[ic->cnt++] = *r;
	}
}

int icicle__init(struct icicle *ic, const struct heapsum *h, uint32_t max)
{
	uint32_t cnt = stacks__cnt(heapsum__stacks(h)), *new_idx = calloc(cnt, sizeof(*new_idx));
	double least = 0;

	*ic = (struct icicle){ .rows = calloc(cnt, sizeof(*ic->rows)) };
	if (!ic->rows || !new_idx) {
		free(new_idx);
		icicle__done(ic);
		return -ENOMEM;
	}
	add_up(ic->rows, h);
	ic->total = count_over(ic->rows, cnt, 0);
	for (least = 0; count_over(ic->rows, cnt, least) > max; least = least > 0 ? 1.5 * least : 1e-5)
		;
	prune(ic, cnt, new_idx, least);
	free(new_idx);
	return 0;
}

void icicle__done(struct icicle *ic)
{
	free(ic->rows);
	ic->rows = NULL;
}

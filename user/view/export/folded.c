/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * folded: a line a stack, "process;region;…;operator BYTES", for flamegraph.pl, speedscope and inferno.
 * Bytes are those at the peak of the stack's device. Where there are several devices the first frame is
 * the device: their peaks are at different moments and do not add up.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "event/event.h"
#include "view/clean.h"
#include "view/export.h"
#include "view/fold/heapsum.h"
#include "view/fold/line_sort.h"
#include "view/outbuf.h"

struct export_ctx {
	struct outbuf o;
	struct heapsum *sum;
	struct line_sort *sort; /* NULL: in the order in which stacks were first seen */
	const struct export_to *to;
};

static int begin(struct export_ctx *c, const struct export_to *to)
{
	c->to = to;
	c->sum = heapsum__new(to);
	if (to->sort && strcmp(to->sort, "seen"))
		c->sort = line_sort__new(&c->o, 0);
	return c->sum && (c->sort || !to->sort || !strcmp(to->sort, "seen")) ? 0 : -ENOMEM;
}

static int event(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns)
{
	(void)epoch_off_ns;
	return heapsum__event(c->sum, ev);
}

/* A semicolon ends a frame, the last blank of a line its stack. */
static void put_frame(struct export_ctx *c, const struct stack_node *n)
{
	char text[CLEAN_BYTES_MAX];
	size_t len = n->kind == STACK_PROCESS ? heapsum_process(c->to, n->value, text, sizeof(text)) :
						stacks__text(heapsum__stacks(c->sum), n, c->to->names, text, sizeof(text));

	for (size_t i = 0; i < len; i++)
		if (text[i] == ';')
			text[i] = ':';
	outbuf__put(&c->o, text, len);
}

static void put_stack(struct export_ctx *c, uint32_t idx)
{
	const struct stack_node *n = stacks__node(heapsum__stacks(c->sum), idx);

	if (n->parent) {
		put_stack(c, n->parent);
		outbuf__char(&c->o, ';');
	}
	if (idx)
		put_frame(c, n);
	else
		outbuf__lit(&c->o, "stack not kept");
}

static int by_stack(const void *pa, const void *pb)
{
	const struct heap_cell *a = pa, *b = pb;

	return cmp_up(a->dev, b->dev) ?: cmp_up(a->stack, b->stack);
}

/* A line for each stack: its categories are together. `all` are sorted by it. */
static int put_lines(struct export_ctx *c, const struct heap_cell *all, size_t cnt)
{
	int several = cnt && all[0].dev != all[cnt - 1].dev, r = 0;
	char dev[16];

	for (size_t i = 0; i < cnt && !r;) {
		const struct heap_cell *first = &all[i];
		struct line_key key = { 0 };
		uint64_t bytes = 0;

		for (; i < cnt && !by_stack(first, &all[i]); i++)
			bytes += all[i].at_peak;
		if (!bytes)
			continue;
		if (several) {
			outbuf__str(&c->o, dev_name(first->dev, dev));
			outbuf__char(&c->o, ';');
		}
		put_stack(c, first->stack);
		outbuf__char(&c->o, ' ');
		outbuf__u64(&c->o, bytes);
		outbuf__char(&c->o, '\n');
		key.num = c->sort && !strcmp(c->to->sort, "bytes") ? bytes : 0; /* else the line itself */
		r = c->sort ? line_sort__put(c->sort, &key) : 0;
	}
	return r;
}

static int put_all(struct export_ctx *c)
{
	const struct heap_cell *cells;
	struct heap_cell *all;
	size_t cnt;
	int r;

	heapsum__end(c->sum);
	cells = heapsum__cells(c->sum, &cnt);
	all = malloc((cnt + 1) * sizeof(*all));
	if (!all)
		return -ENOMEM;
	memcpy(all, cells, cnt * sizeof(*all));
	qsort(all, cnt, sizeof(*all), by_stack);
	r = put_lines(c, all, cnt);
	free(all);
	return r || !c->sort ? r : line_sort__end(c->sort);
}

static int end(struct export_ctx *c, const struct report *r)
{
	return r ? put_all(c) : 0;
}

static void done(struct export_ctx *c)
{
	line_sort__free(c->sort);
	heapsum__free(c->sum);
}

const struct export_format export_folded = {
	.name = "folded",
	.help = "a line a stack with its bytes at the peak, for flamegraph.pl and speedscope",
	.needs = EXPORT_OPS | EXPORT_LABELS | EXPORT_GAPS | EXPORT_PART,
	.sorts = "seen, bytes, stack",
	.size = sizeof(struct export_ctx),
	.begin = begin,
	.event = event,
	.end = end,
	.done = done,
};

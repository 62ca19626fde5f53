/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Two traces side by side: what adds up is that of a step, rows of one side alone, the order; means of operators. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <math.h>

#include "timeline/diff.h"
#include "timeline/labels.h"
#include "timeline/means.h"
#include "timeline/report.h"
#include "view/tables/diff.h"

#define S 1000000000ull

static struct report_op op(const char *name, uint64_t at_peak, uint64_t live, uint64_t allocs, uint64_t bytes, uint64_t count)
{
	return (struct report_op){ .name = (char *)name, .at_peak = at_peak, .live = live, .alloc_count = allocs,
				   .alloc_bytes = bytes, .count = count };
}

/* A side whose reports have these operators; their means are 10, 20 … */
struct fake {
	struct report_op from_ops[8], to_ops[8];
	struct report from, to;
	double means[9];
	struct diff_side side;
};

static void fake__make(struct fake *f, size_t cnt, uint64_t steps, uint64_t seconds, double mean)
{
	f->from.ops.rows = f->from_ops;
	f->to.ops.rows = f->to_ops;
	f->from.ops.cnt = f->to.ops.cnt = cnt;
	for (size_t i = 0; i <= cnt; i++)
		f->means[i] = mean * (double)(i + 1);
	f->side = (struct diff_side){ .from = &f->from, .to = &f->to, .end = &f->to, .op_means = f->means, .from_ns = 5 * S,
				      .to_ns = (5 + seconds) * S, .steps = steps };
}

static const struct diff_row *find(const struct diff *d, const char *name)
{
	for (size_t i = 0; i < d->cnt; i++)
		if (!strcmp(d->rows[i].name, name))
			return &d->rows[i];
	fail_msg("no row %s", name);
	return NULL;
}

static void test_ops(void **state)
{
	static struct fake a, b;
	const struct diff_row *r;
	struct diff d;

	(void)state;
	a.from_ops[0] = op("mm", 0, 0, 100, 1000, 50);
	a.to_ops[0] = op("mm", 4000, 100, 300, 5000, 250);
	a.from_ops[1] = op("gone", 0, 0, 0, 0, 0);
	a.to_ops[1] = op("gone", 70, 7, 10, 700, 10);
	fake__make(&a, 2, 10, 2, 10);
	b.from_ops[0] = op("new", 0, 0, 0, 0, 0);
	b.to_ops[0] = op("new", 90, 0, 20, 400, 20);
	b.from_ops[1] = op("mm", 0, 0, 0, 0, 0);
	b.to_ops[1] = op("mm", 8000, 50, 1600, 64000, 800);
	fake__make(&b, 2, 40, 4, 100);
	assert_int_equal(diff__make(&d, &a.side, &b.side, DIFF_BY_OP), 0);
	assert_true(d.per_step);
	assert_int_equal(d.cnt, 4);
	assert_string_equal(d.rows[0].name, "(no operator open)"); /* 30 → 300 */
	assert_string_equal(d.rows[1].name, "mm");		    /* 10 → 200 */
	assert_string_equal(d.rows[2].name, "new");		    /* 0 → 100 */
	assert_string_equal(d.rows[3].name, "gone");		    /* 20 → 0 */
	r = find(&d, "mm");
	assert_true(r->a[DIFF_PEAK] == 4000 && r->b[DIFF_PEAK] == 8000 && diff_row__change(r, DIFF_PEAK) == 4000);
	assert_true(r->a[DIFF_END] == 100 && r->b[DIFF_END] == 50 && diff_row__change(r, DIFF_END) == -50);
	assert_true(r->a[DIFF_ALLOCS] == 20 && r->b[DIFF_ALLOCS] == 40);   /* 200 in 10 steps, 1600 in 40 */
	assert_true(r->a[DIFF_BYTES] == 400 && r->b[DIFF_BYTES] == 1600);
	assert_true(r->a[DIFF_FIRED] == 20 && r->b[DIFF_FIRED] == 20);
	r = find(&d, "new");
	assert_true(r->a[DIFF_PEAK] == 0 && r->a[DIFF_BYTES] == 0 && r->b[DIFF_BYTES] == 10);
	diff__done(&d);
	/* without steps in one of them: a second of both */
	b.side.steps = 0;
	assert_int_equal(diff__make(&d, &a.side, &b.side, DIFF_BY_OP), 0);
	assert_false(d.per_step);
	r = find(&d, "mm");
	assert_true(r->a[DIFF_BYTES] == 2000 && r->b[DIFF_BYTES] == 16000);
	diff__done(&d);
	/* and without any time nothing is known of it */
	b.side.to_ns = b.side.from_ns;
	assert_int_equal(diff__make(&d, &a.side, &b.side, DIFF_BY_OP), 0);
	assert_true(isnan(find(&d, "mm")->b[DIFF_BYTES]));
	diff__done(&d);
}

static void test_devices_and_categories(void **state)
{
	static struct report_dev from[2], to[2], end[2];
	static double means[2 * CAT_MAX];
	static struct report rf, rt, re, empty;
	struct diff_side a = { .from = &rf, .to = &rt, .end = &re, .from_ns = 0, .to_ns = 10 * S, .steps = 5 };
	struct diff_side b = { .from = &empty, .to = &empty, .end = &empty, .from_ns = 0, .to_ns = 10 * S, .steps = 5 };
	const struct diff_row *r;
	struct diff d;

	(void)state;
	from[0] = (struct report_dev){ .dev = MT_DEV_CPU, .byte_ns = 1000 * S, .allocs = 10, .alloc_bytes = 100 };
	to[0] = (struct report_dev){ .dev = MT_DEV_CPU, .byte_ns = 6000 * S, .allocs = 60, .alloc_bytes = 1100,
			.peak = 900, .live = 5 };
	to[0].cats[CAT_GRADIENT] = (struct report_cat){ .at_peak = 30, .live = 4 };
	to[0].cats[CAT_ACTIVATION] = (struct report_cat){ .byte_ns = 5000 * S };
	to[1] = from[1] = (struct report_dev){ .dev = MT_DEV_CUDA0 + 3, .peak = 1 };
	rf.devs = from;
	rt.devs = to;
	memcpy(end, to, sizeof(end)); /* in the middle of the next step */
	end[0].live = 705;
	end[0].cats[CAT_GRADIENT].live = 700;
	re.devs = end;
	rf.devs_cnt = rt.devs_cnt = re.devs_cnt = 2;
	means[CAT_ACTIVATION] = 500;
	means[CAT_GRADIENT] = 40;
	a.category_means = means;
	assert_int_equal(diff__make(&d, &b, &a, DIFF_BY_DEVICE), 0);
	assert_int_equal(d.cnt, 2);
	r = &d.rows[0];
	assert_string_equal(r->name, "cpu");
	assert_true(r->b[DIFF_MEAN] == 500 && r->b[DIFF_ALLOCS] == 10 && r->b[DIFF_BYTES] == 200 && r->b[DIFF_PEAK] == 900);
	assert_true(r->b[DIFF_END] == 5);
	assert_true(r->a[DIFF_MEAN] == 0 && isnan(r->a[DIFF_FIRED]) && isnan(diff_row__change(r, DIFF_FIRED)));
	assert_string_equal(d.rows[1].name, "cuda:3");
	diff__done(&d);
	assert_int_equal(diff__make(&d, &b, &a, DIFF_BY_CATEGORY), 0);
	assert_int_equal(d.cnt, 2);
	assert_string_equal(d.rows[0].name, "cpu ACTIVATION");
	assert_true(d.rows[0].b[DIFF_MEAN] == 500);
	assert_string_equal(d.rows[1].name, "cpu GRADIENT");
	assert_true(d.rows[1].b[DIFF_MEAN] == 40 && d.rows[1].b[DIFF_PEAK] == 30 && isnan(d.rows[1].b[DIFF_BYTES]));
	assert_true(d.rows[1].b[DIFF_END] == 4);
	diff__done(&d);
	/* the peak fell: what fell most is the first */
	assert_int_equal(diff__make(&d, &a, &b, DIFF_BY_CATEGORY), 0);
	assert_string_equal(d.rows[0].name, "cpu ACTIVATION");
	assert_true(d.rows[0].a[DIFF_MEAN] == 500 && d.rows[0].b[DIFF_MEAN] == 0);
	assert_true(diff_row__change(&d.rows[1], DIFF_MEAN) > diff_row__change(&d.rows[0], DIFF_MEAN));
	diff__done(&d);
	assert_int_equal(diff__make(&d, &b, &b, DIFF_BY_SYMBOL), 0);
	assert_int_equal(d.cnt, 0);
	diff__done(&d);
}

static struct report_stack stack_of(uint32_t node, const struct report_frame *frames, size_t cnt, uint64_t live, uint64_t bytes)
{
	return (struct report_stack){ .node = node, .frames = (struct report_frame *)frames, .frames_cnt = cnt, .live = live,
				      .at_peak = 2 * live, .alloc_count = bytes / 10, .alloc_bytes = bytes };
}

/* Numbers, and the order of rows, are other ones in each recording and at each end; frames tell what is the same. */
static void test_stacks(void **state)
{
	static const struct report_frame mine[] = { { "at::empty", "libtorch.so", 0, 2 }, { "work", "/job/train.py", 7, 1 } };
	static const struct report_frame later[] = { { "at::empty", "libtorch.so", 0, 2 }, { "work", "/job/train.py", 8, 1 } };
	struct report_stack from_a[] = { stack_of(9, mine, 2, 1, 100) };
	struct report_stack to_a[] = { stack_of(4, later, 2, 3, 30), stack_of(9, mine, 2, 10, 1100) };
	struct report_stack to_b[] = { stack_of(5, mine, 2, 100, 5000), stack_of(6, mine, 2, 11, 500) };
	struct report fa = { .stacks.rows = from_a, .stacks.cnt = 1, .stacks.none = { .alloc_bytes = 50 } };
	struct report ta = { .stacks.rows = to_a, .stacks.cnt = 2, .stacks.none = { .alloc_bytes = 150, .at_peak = 5 } };
	struct report fb = { .marks.steps_total = 0 }, tb = { .stacks.rows = to_b, .stacks.cnt = 2 };
	const double means_a[] = { 3, 20, 7 }, means_b[] = { 40, 50, 7 };
	struct diff_side a = { .from = &fa, .to = &ta, .end = &ta, .stack_means = means_a, .to_ns = S, .steps = 10 };
	struct diff_side b = { .from = &fb, .to = &tb, .end = &tb, .stack_means = means_b, .to_ns = S, .steps = 10 };
	struct diff d;

	(void)state;
	assert_int_equal(diff__make(&d, &a, &b, DIFF_BY_STACK), 0);
	assert_int_equal(d.cnt, 3);
	assert_true(d.rows[0].stack && d.rows[0].stack->frames == mine && d.rows[2].stack->frames == later);
	assert_true(d.rows[0].a[DIFF_MEAN] == 20 && d.rows[0].b[DIFF_MEAN] == 90); /* two nodes of one text are one row */
	assert_true(d.rows[0].a[DIFF_BYTES] == 100 && d.rows[0].b[DIFF_BYTES] == 550 && d.rows[0].b[DIFF_PEAK] == 222);
	assert_true(!d.rows[1].stack && d.rows[1].a[DIFF_BYTES] == 10 && d.rows[1].b[DIFF_BYTES] == 0);
	assert_true(d.rows[2].a[DIFF_END] == 3 && d.rows[2].b[DIFF_END] == 0);
	diff__done(&d);
}

static void block(struct means *m, uint8_t kind, uint64_t s, uint32_t name, uint64_t size, uint8_t dev)
{
	assert_int_equal(means__event(m, &(struct tl_event){ .kind = kind, .ts_ns = s * S, .op = { name }, .region = { 7 },
							      .size = size, .dev = dev }), 0);
}

static struct labels *some_labels(void)
{
	struct labels *ret;

	assert_int_equal(labels__new(&ret, NULL), 0);
	return ret;
}

static void test_means(void **state)
{
	struct labels *labels = some_labels();
	struct means *m = means__new(10 * S, 20 * S, 0, labels);

	(void)state;
	block(m, TL_CREATE, 5, 3, 100, MT_DEV_CPU);  /* before: counts from 10 on */
	block(m, TL_DESTROY, 12, 3, 100, MT_DEV_CPU); /* 2 of 10 seconds */
	block(m, TL_CREATE, 15, 3, 1000, MT_DEV_CUDA0); /* to the end: 5 of 10 */
	block(m, TL_CREATE, 15, 3, 1000, MT_DEV_HOST); /* the layer below */
	block(m, TL_PREEXISTING, 11, 5000, TL_SIZE_UNKNOWN, MT_DEV_CPU);
	block(m, TL_DESTROY, 30, 3, 1000, MT_DEV_CUDA0);
	assert_true(means__op(m, (name_id){ 3 }) == 520);
	assert_true(means__region(m, (name_id){ 7 }) == 520);
	assert_true(means__op(m, (name_id){ 5000 }) == 0 && means__op(m, NAME_NONE) == 0);
	means__free(m);
	m = means__new(10 * S, 20 * S, 1, labels);
	block(m, TL_CREATE, 15, 3, 1000, MT_DEV_HOST);
	assert_true(means__op(m, (name_id){ 3 }) == 500);
	for (uint8_t kind = 0; kind < 2; kind++)
		assert_int_equal(means__event(m, &(struct tl_event){ .kind = kind ? TL_DESTROY : TL_CREATE, .dev = MT_DEV_HOST,
				.ts_ns = (kind ? 20u : 15u) * S, .op = { 3 }, .size = 100, .stack = 8 }), 0);
	assert_true(means__stack(m, 8) == 50 && means__stack(m, 0) == 500 && means__stack(m, 7) == 0);
	means__free(m);
	labels__free(labels);
}

/* In a gap nobody knows what is held: it is of no average. */
static void test_means_without_gaps(void **state)
{
	struct labels *labels = some_labels();
	struct means *m = means__new(10 * S, 20 * S, 0, labels);

	(void)state;
	block(m, TL_CREATE, 5, 3, 100, MT_DEV_CPU);
	assert_int_equal(means__event(m, &(struct tl_event){ .kind = TL_GAP, .ts_ns = 12 * S, .version = 1 }), 0);
	block(m, TL_CREATE, 13, 3, 1000000, MT_DEV_CPU);
	block(m, TL_DESTROY, 14, 3, 1000000, MT_DEV_CPU);
	assert_int_equal(means__event(m, &(struct tl_event){ .kind = TL_GAP, .ts_ns = 16 * S }), 0);
	block(m, TL_CREATE, 17, 3, 60, MT_DEV_CPU); /* 100 for two seconds and one, 160 for three */
	block(m, TL_DESTROY, 25, 3, 160, MT_DEV_CPU);
	assert_true(means__op(m, (name_id){ 3 }) == 130);
	means__free(m);
	labels__free(labels);
}

/* A block has the label that it has at last, from its birth on; of versions each its own. */
static void test_means_of_categories(void **state)
{
	struct labels *labels = some_labels();
	struct means *m = means__new(10 * S, 20 * S, 0, labels);
	const struct tl_event events[] = {
		{ .kind = TL_CREATE, .ts_ns = 5 * S, .id = 1, .size = 100, .dev = MT_DEV_CPU },
		{ .kind = TL_CREATE, .ts_ns = 10 * S, .id = 2, .size = 10, .dev = MT_DEV_CPU },
		{ .kind = TL_CREATE, .ts_ns = 10 * S, .id = 3, .size = 7, .dev = MT_DEV_CUDA0 },
		{ .kind = TL_VERSION, .ts_ns = 14 * S, .id = 2, .size = 10, .version = 1, .dev = MT_DEV_CPU },
		{ .kind = TL_DESTROY, .ts_ns = 19 * S, .id = 2, .size = 10, .version = 1, .dev = MT_DEV_CPU },
	};

	(void)state;
	assert_int_equal(labels__event(labels, &(struct tl_event){ .kind = TL_FINAL, .id = 1, .cat = CAT_PARAMETER }), 0);
	assert_int_equal(labels__event(labels, &(struct tl_event){ .kind = TL_FINAL, .id = 2, .cat = CAT_INPUT }), 0);
	assert_int_equal(labels__event(labels, &(struct tl_event){ .kind = TL_FINAL, .id = 2, .version = 1,
								   .cat = CAT_GRADIENT }), 0);
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		assert_int_equal(means__event(m, &events[i]), 0);
	assert_true(means__category(m, MT_DEV_CPU, CAT_PARAMETER) == 100);
	assert_true(means__category(m, MT_DEV_CPU, CAT_INPUT) == 4 && means__category(m, MT_DEV_CPU, CAT_GRADIENT) == 5);
	assert_true(means__category(m, MT_DEV_CUDA0, CAT_UNKNOWN) == 7 && means__category(m, MT_DEV_CPU, CAT_UNKNOWN) == 0);
	assert_true(means__category(m, MT_DEVS_MAX - 1, CAT_MAX - 1) == 0 && means__op(m, NAME_NONE) == 116);
	means__free(m);
	labels__free(labels);
}

/* The text of a diff by operator: both have mm; only B has relu. */
static char *text_of(struct fake *a, struct fake *b, uint64_t peak_a, uint64_t peak_b, uint64_t mm, uint64_t relu)
{
	static const char *const paths[] = { "a.mtr", "b.mtr" };
	struct report_dev devs[] = { { .dev = MT_DEV_CPU, .peak = peak_a, .allocs = 1 },
				     { .dev = MT_DEV_CPU, .peak = peak_b, .allocs = 1 } };
	struct diff_side sides[2];
	struct diff_view v = { .sides = sides, .paths = paths, .by = DIFF_BY_OP };
	const struct view_opts opts = { .top = 9 };
	struct diff d;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	a->from_ops[0] = b->from_ops[0] = op("mm", 0, 0, 0, 0, 0);
	b->from_ops[1] = op("relu", 0, 0, 0, 0, 0);
	a->to_ops[0] = b->to_ops[0] = op("mm", 1000, 0, 0, 0, 0);
	b->to_ops[0].at_peak += mm;
	b->to_ops[1] = op("relu", relu, 0, 0, 0, 0);
	fake__make(a, 1, 10, 2, 0);
	fake__make(b, relu ? 2 : 1, 10, 2, 0);
	a->to.devs = &devs[0];
	b->to.devs = &devs[1];
	a->to.devs_cnt = b->to.devs_cnt = 1;
	sides[0] = a->side;
	sides[1] = b->side;
	assert_int_equal(diff__make(&d, &sides[0], &sides[1], DIFF_BY_OP), 0);
	v.diff = &d;
	assert_int_equal(diff_view_text(f, &v, &opts), 0);
	fclose(f);
	diff__done(&d);
	a->to.devs = b->to.devs = NULL;
	return text;
}

/* A row is blamed that has a tenth of the change, and more than the next one; rows without a change are not listed. */
static void test_what_is_said(void **state)
{
	static const struct {
		uint64_t mm, relu;
		const char *said;
	} cases[] = { { 5000, 100, "most in operator mm, by 4.88 KiB" }, { 2048, 2048, NULL }, { 400, 0, NULL },
		      { 600, 100, "most in operator mm, by 600 B" } };
	static struct fake a, b;
	char *text;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		text = text_of(&a, &b, 5000, 10000, cases[i].mm, cases[i].relu);
		assert_non_null(strstr(text, "4.88 KiB more (+100.0 %)"));
		assert_int_equal(strstr(text, "most in") != NULL, cases[i].said != NULL);
		assert_true(!cases[i].said || strstr(text, cases[i].said));
		assert_non_null(strstr(text, "all jobs of the machine, "));
		free(text);
	}
	text = text_of(&a, &b, 5000, 10000, 0, 100);
	assert_non_null(strstr(text, "1 row that is the same in both"));
	assert_null(strstr(text, "mm "));
	free(text);
	text = text_of(&a, &b, 5000, 5000, 0, 0);
	assert_non_null(strstr(text, "\n\nNo difference by operator: 1 row is the same in both (--json)\n"));
	assert_null(strstr(text, "change"));
	free(text);
}

/* A was attached in mid-run, B was not: that blocks have operators in B alone is no growth. What allocates more has grown. */
static void test_before_the_attach(void **state)
{
	static const char *const paths[] = { "a.mtr", "b.mtr" };
	struct report_dev devs[] = { { .dev = MT_DEV_CPU, .peak = 20000, .preexisting_bytes = 1500 },
				     { .dev = MT_DEV_CPU, .peak = 20000 } };
	struct report_proc procs[] = { { .how = EV_PROC_ATTACHED, .peak = 20000 }, { .how = EV_PROC_LAUNCHED, .peak = 20000 } };
	const struct view_opts opts = { .top = 9 };
	static struct fake a, b;
	struct diff_side sides[2];
	struct diff_view v = { .sides = sides, .paths = paths, .by = DIFF_BY_OP };
	struct diff d;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	(void)state;
	a.from_ops[0] = b.from_ops[0] = op("empty", 0, 0, 0, 0, 0);
	a.from_ops[1] = b.from_ops[1] = op("grown", 0, 0, 0, 0, 0);
	a.from_ops[2] = b.from_ops[2] = op("large", 0, 0, 0, 0, 0);
	b.from_ops[3] = op("zeros", 0, 0, 0, 0, 0);
	a.to_ops[0] = op("empty", 5000, 0, 100, 50000, 50);
	a.to_ops[1] = op("grown", 2000, 0, 10, 1000, 50);
	a.to_ops[2] = op("large", 2000, 0, 10, 1000, 50);
	b.to_ops[0] = op("empty", 5800, 0, 100, 50000, 50);
	b.to_ops[1] = op("grown", 2500, 0, 15, 1500, 50);
	b.to_ops[2] = op("large", 3500, 0, 10, 1000, 50);
	b.to_ops[3] = op("zeros", 600, 0, 0, 0, 5);
	fake__make(&a, 3, 10, 2, 0);
	fake__make(&b, 4, 10, 2, 10); /* by the mean, zeros has grown most */
	a.to.ops.none = (struct report_op){ .at_peak = 1500 };
	a.to.procs = &procs[0];
	b.to.procs = &procs[1];
	a.to.procs_cnt = b.to.procs_cnt = 1;
	a.to.devs = &devs[0];
	b.to.devs = &devs[1];
	a.to.devs_cnt = b.to.devs_cnt = 1;
	sides[0] = a.side;
	sides[1] = b.side;
	assert_int_equal(diff__make(&d, &sides[0], &sides[1], DIFF_BY_OP), 0);
	assert_true(d.before_a == 1500 && d.before_b == 0);
	assert_int_equal(d.cnt, 5);
	assert_false(find(&d, "grown")->is_before); /* it allocates more a step */
	assert_false(find(&d, "large")->is_before); /* 1500 is more than what is left */
	assert_true(find(&d, "zeros")->is_before && find(&d, "empty")->is_before);
	assert_true(find(&d, "(no operator open)")->is_before);
	for (size_t i = 0; i < d.cnt; i++)
		assert_int_equal(d.rows[i].is_before, i >= 2);
	v.diff = &d;
	devs[1].peak = 30000;
	assert_int_equal(diff_view_text(f, &v, &opts), 0);
	fclose(f);
	assert_non_null(strstr(text, "most in operator large, by 1.46 KiB"));
	assert_non_null(strstr(text, "Allocated before the attach, so of no known operator: 1.46 KiB of A's peak, "));
	free(text);
	diff__done(&d);
	procs[1].how = EV_PROC_ATTACHED; /* both were: the larger model has more */
	b.to.ops.none.at_peak = 60;
	assert_int_equal(diff__make(&d, &sides[0], &sides[1], DIFF_BY_OP), 0);
	assert_false(find(&d, "empty")->is_before);
	diff__done(&d);
	a.to.devs = b.to.devs = NULL;
	a.to.procs = b.to.procs = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ops),
		cmocka_unit_test(test_devices_and_categories),
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_means),
		cmocka_unit_test(test_means_without_gaps),
		cmocka_unit_test(test_means_of_categories),
		cmocka_unit_test(test_what_is_said),
		cmocka_unit_test(test_before_the_attach),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The HTML page's data and the shapes it is gathered in. That the page draws it is tests/e2e/test_page.py's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "timeline/labels.h"
#include "unit/view_fix.h"
#include "view/export.h"
#include "view/fold/bands.h"
#include "view/fold/heaviest.h"
#include "view/fold/moments.h"
#include "view/page/html_doc.h"
#include "view/page/html_page.h"

static uint64_t seed;

static uint32_t rnd(uint32_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % below;
}

/* --- moments ------------------------------------------------------------------------------------------- */

#define MOVES 200000u

struct move {
	uint64_t ts_ns, live;
	uint64_t cats[CAT_MAX];
};

/* All moves as they were: what the moments are held against. */
static struct move *make_moves(struct moments *m, uint64_t *ret_peak, uint64_t *ret_peak_ts)
{
	struct move *moves = calloc(MOVES, sizeof(*moves)), now = { .ts_ns = 1000 };

	for (uint32_t i = 0; i < MOVES; i++) {
		uint8_t from = (uint8_t)rnd(CAT_MAX), to = (uint8_t)rnd(CAT_MAX);
		uint64_t size = 1 + rnd(1000);

		now.ts_ns += rnd(3);
		if (now.cats[from] < size || rnd(2))
			from = CAT_MAX;
		else if (rnd(3))
			to = CAT_MAX;
		now.cats[from < CAT_MAX ? from : to] += from < CAT_MAX ? -size : size;
		if (from < CAT_MAX && to < CAT_MAX)
			now.cats[to] += size;
		now.live += (to < CAT_MAX ? size : 0) - (from < CAT_MAX ? size : 0);
		moments__move(m, now.ts_ns, from, to, size);
		moves[i] = now;
		if (now.live > *ret_peak) {
			*ret_peak = now.live;
			*ret_peak_ts = now.ts_ns;
		}
	}
	return moves;
}

/* Each kept moment was one; of each bucket the extremes are there, and each change near the asked one. */
static void check_moments(uint32_t buckets, uint32_t near)
{
	const uint64_t from = 1000, to = 1000 + MOVES, around = 1000 + MOVES / 2;
	struct moments *m = moments__new(&(struct moments_opts){ from, to, buckets, around, near });
	uint64_t peak = 0, peak_ts = 0, near_from = 0, near_to = 0, exact = 0;
	struct move *moves = make_moves(m, &peak, &peak_ts);
	const struct moment *list, *high = NULL;
	size_t cnt, at = 0;

	list = moments__end(m, &cnt);
	assert_non_null(list);
	assert_true(cnt <= 4 * (size_t)buckets + 2 * near);
	assert_int_equal(moments__near(m, &near_from, &near_to), near > 0);
	for (size_t i = 0; i < cnt; i++) {
		while (at < MOVES && (moves[at].ts_ns != list[i].ts_ns ||
				      memcmp(moves[at].cats, list[i].cats, sizeof(list[i].cats))))
			at++;
		assert_true(at < MOVES); /* in order, each a true one */
		assert_int_equal(moves[at].live, list[i].live);
		exact += near && list[i].ts_ns > near_from && list[i].ts_ns < near_to;
		if (!high || list[i].live > high->live)
			high = &list[i];
	}
	assert_int_equal(high->live, peak);
	assert_int_equal(high->ts_ns, peak_ts);
	assert_int_equal(moments__peak(m)->ts_ns, peak_ts);
	assert_int_equal(list[cnt - 1].live, moves[MOVES - 1].live);
	for (uint32_t i = 0; near && i < MOVES; i++)
		exact -= moves[i].ts_ns > near_from && moves[i].ts_ns < near_to;
	assert_int_equal(exact, 0);
	free(moves);
	moments__free(m);
}

static void test_moments(void **state)
{
	(void)state;
	seed = 3;
	check_moments(1, 0);
	check_moments(100, 0);
	check_moments(100, 1);
	check_moments(777, 5000);
	check_moments(16, 2 * MOVES);
}

static void test_no_moments(void **state)
{
	struct moments *m = moments__new(&(struct moments_opts){ 5, 5, 4, 0, 2 });
	size_t cnt;

	(void)state;
	assert_non_null(moments__end(m, &cnt));
	assert_int_equal(cnt, 0);
	moments__free(m);
	m = moments__new(&(struct moments_opts){ 5, 5, 4, 0, 0 }); /* no time at all, and times outside of it */
	moments__move(m, 1, CAT_MAX, CAT_INPUT, 7);
	moments__move(m, 99, CAT_INPUT, CAT_MAX, 7);
	assert_int_equal(moments__end(m, &cnt)[0].cats[CAT_INPUT], 7);
	assert_int_equal(cnt, 2);
	moments__free(m);
}

/* What lives in a gap is neither kept nor a peak; what lives where it ends may be one. */
static void test_moments_in_gaps(void **state)
{
	struct moments *m = moments__new(&(struct moments_opts){ 0, 1000, 100, 0, 50 });
	const struct moment *list;
	uint64_t high = 0;
	size_t cnt;

	(void)state;
	moments__move(m, 5, CAT_MAX, CAT_INPUT, 10);
	moments__gap(m, 100, 1, 0);
	moments__move(m, 200, CAT_MAX, CAT_INPUT, 1000);
	moments__move(m, 300, CAT_INPUT, CAT_MAX, 1000);
	assert_int_equal(moments__peak(m)->live, 10);
	moments__gap(m, 400, 0, 0);
	assert_int_equal(moments__peak(m)->live, 10);
	moments__gap(m, 500, 1, 0);
	moments__move(m, 600, CAT_MAX, CAT_GRADIENT, 7);
	moments__gap(m, 700, 0, 0);
	assert_int_equal(moments__peak(m)->live, 17);
	assert_int_equal(moments__peak(m)->ts_ns, 700);
	moments__gap(m, 800, 1, 0);
	moments__move(m, 900, CAT_MAX, CAT_GRADIENT, 100);
	list = moments__end(m, &cnt);
	for (size_t i = 0; i < cnt; i++)
		high = list[i].live > high ? list[i].live : high;
	assert_int_equal(high, 17);
	assert_int_equal(list[cnt - 1].ts_ns, 700);
	assert_int_equal(moments__now(m)->live, 117);
	moments__free(m);
}

/* Where allocations are seen in a gap, moments are kept with what was learned; peaks and what was traced are without it. */
static void check_learned(uint32_t near)
{
	struct moments *m = moments__new(&(struct moments_opts){ 0, 1000, 100, 400, near });
	const struct moment *list;
	size_t cnt;

	moments__move(m, 5, CAT_MAX, CAT_INPUT, 10);
	moments__gap(m, 100, 1, 300);
	moments__learned(m, CAT_UNKNOWN, CAT_GRADIENT, 50);
	moments__move(m, 200, CAT_MAX, CAT_UNKNOWN, 50);
	moments__move(m, 310, CAT_MAX, CAT_UNKNOWN, 1);
	moments__gap(m, 400, 0, 0);
	moments__learned(m, CAT_GRADIENT, CAT_UNKNOWN, 50);
	moments__move(m, 500, CAT_UNKNOWN, CAT_MAX, 50);
	moments__gap(m, 600, 1, 600);
	moments__move(m, 700, CAT_MAX, CAT_UNKNOWN, 1);
	assert_int_equal(moments__peak(m)->ts_ns, 400);
	list = moments__end(m, &cnt);
	assert_int_equal(cnt, 5);
	assert_int_equal(list[1].ts_ns, 100);
	assert_int_equal(list[2].ts_ns, 200);
	assert_int_equal(list[2].cats[CAT_GRADIENT], 50);
	assert_int_equal(list[2].cats[CAT_UNKNOWN], 0);
	assert_int_equal(list[3].cats[CAT_UNKNOWN], 51);
	assert_int_equal(list[3].cats[CAT_GRADIENT], 0);
	assert_int_equal(list[4].ts_ns, 500);
	assert_int_equal(list[4].live, 11);
	moments__free(m);
}

static void test_moments_that_are_learned(void **state)
{
	(void)state;
	check_learned(0);
	check_learned(1); /* some traced ones are near the peak, all of them */
	check_learned(50);
}

/* A moment that is asked for is there, though it is neither first nor last, lowest nor highest; and once. */
static void test_moment_that_is_held(void **state)
{
	const uint64_t sizes[] = { 5, 1, 30, 17, 9, 60, 0, 20 };

	(void)state;
	for (unsigned held = 0; held < 8; held++) {
		struct moments *m = moments__new(&(struct moments_opts){ 0, 1000, 1, 0, 0 });
		uint64_t was = 0, found = 0;
		const struct moment *list;
		size_t cnt;

		for (unsigned i = 0; i < 8; i++) {
			int more = sizes[i] > was;

			moments__move(m, 10 * (i + 1), more ? CAT_MAX : CAT_INPUT, more ? CAT_INPUT : CAT_MAX,
				      more ? sizes[i] - was : was - sizes[i]);
			was = sizes[i];
			if (i <= held)
				moments__hold(m);
		}
		list = moments__end(m, &cnt);
		for (size_t i = 0; i < cnt; i++) {
			assert_true(!i || list[i].ts_ns > list[i - 1].ts_ns);
			found += list[i].ts_ns == 10 * (held + 1) && list[i].live == sizes[held];
		}
		assert_int_equal(found, 1);
		moments__free(m);
	}
}

/* --- bands --------------------------------------------------------------------------------------------- */

static void test_steps_join(void **state)
{
	struct bands b;
	uint64_t next = 0;

	(void)state;
	bands__init(&b, 8, 5000); /* the end of the step 499 */
	for (uint64_t i = 0; i < 1000; i++)
		assert_int_equal(bands__step(&b, 7, i, 10 * i, 10 * i + 10), 0);
	assert_true(b.procs[0]->steps.cnt <= 8);
	for (uint32_t i = 0; i < b.procs[0]->steps.cnt; i++) {
		const struct band *s = band_list__at(&b.procs[0]->steps, i);

		assert_int_equal(s->first, next);
		assert_int_equal(s->from_ns, 10 * s->first);
		assert_int_equal(s->to_ns, 10 * s->last + 10);
		next = s->last + 1;
	}
	assert_int_equal(next, 1000);
	assert_int_equal(b.around_step, 499);
	assert_int_equal(b.procs[0]->steps.reported, 1000);
	assert_int_equal(b.procs[0]->steps.sum_ns, 10000);
	bands__done(&b);
}

static void test_phases(void **state)
{
	struct bands b;

	(void)state;
	bands__init(&b, 16, 50000);
	for (uint64_t t = 0; t < 100000; t += 1000) {
		bands__phase(&b, 7, PHASE_EVALUATION, t, t + 200);
		bands__phase(&b, 7, PHASE_OTHER, t + 90, t + 90);
		bands__phase(&b, 7, PHASE_FORWARD, t + 210, t + 210);
		bands__phase(&b, 7, PHASE_FORWARD, t + 410, t + 410);
		bands__phase(&b, 7, PHASE_BACKWARD, t + 420, t + 420);
		bands__phase(&b, 7, PHASE_BACKWARD, t + 420, t + 620);
		bands__phase(&b, 7, PHASE_RECOMPUTE, t + 630, t + 830);
		bands__phase(&b, 7, PHASE_OPTIMIZER, t + 835, t + 935);
		bands__phase(&b, 7, PHASE_OPTIMIZER, t + 835, t + (t ? 935 : 1000)); /* of the first one more */
		bands__phase(&b, 7, PHASE_BACKWARD, t + 500, t + 950); /* told late */
	}
	bands__end(&b);
	for (unsigned k = PHASE_OTHER + 1; k < PHASE_MAX; k++) {
		const struct band_list *l = &b.procs[0]->phases[k];

		assert_int_equal(l->reported, 100);
		assert_int_equal(l->cnt, 16);
		assert_int_equal(l->sum_ns, k == PHASE_OPTIMIZER ? 100 * 100 + 65 : 100 * 200);
		for (uint32_t i = 0; i < l->cnt; i++) /* those around 50000 */
			assert_in_range(band_list__at(l, i)->from_ns, 41000, 59000);
	}
	assert_int_equal(b.procs[0]->phases[PHASE_OTHER].reported, 0);
	bands__done(&b);
	bands__init(&b, 2, 0);
	for (uint32_t pid = 1; pid < 2 * BANDS_PROCS_MAX; pid++)
		assert_int_equal(bands__step(&b, pid, 1, 0, 1), 0);
	assert_int_equal(b.procs_cnt, BANDS_PROCS_MAX);
	bands__done(&b);
}

/* --- blocks -------------------------------------------------------------------------------------------- */

static void test_heaviest(void **state)
{
	struct heaviest *h = heaviest__new(10);
	const struct block_life *list;
	double all, kept;
	size_t cnt;

	(void)state;
	seed = 11;
	assert_int_equal(heaviest__want(h, 5), 0);
	for (uint64_t id = 1; id <= 1000; id++) {
		uint64_t allocated = rnd(1000);
		uint32_t n = heaviest__allocated(h, &(struct block_life){ .id = id, .size = id, .allocated_ns = allocated });

		assert_true(n && n <= 2);
		if (id < 1000)
			heaviest__freed(h, n, allocated + 10);
	}
	list = heaviest__end(h, 100000, &cnt);
	assert_int_equal(cnt, 10);
	for (size_t i = 0; i < cnt; i++) {
		assert_true(list[i].id == 5 || list[i].id >= 992);
		assert_true(!i || list[i - 1].allocated_ns <= list[i].allocated_ns);
		assert_int_equal(!list[i].freed_ns, list[i].id == 1000);
	}
	assert_int_equal(heaviest__sums(h, &all, &kept), 1000);
	assert_true(all > kept && kept > 0);
	heaviest__free(h);
}

/* --- the page ------------------------------------------------------------------------------------------ */

#define DATA_BEGIN "<script type=\"application/json\" id=\"data\">"
#define BREAK_OUT "</script><script>alert(1)</script><!--<img src=x onerror=alert(1)>&\xe2\x80\xa8\xe2\x80\xa9"

struct page_fix {
	struct names *names;
	struct labels *labels;
	struct report report;
	name_id name[6];
};

static void page_init(struct page_fix *f, int is_wild)
{
	static const char *const texts[6] = { BREAK_OUT, HOSTILE, "aten::addmm", "Optimizer.step#Adam.step",
						   "AddmmBackward0", "x" };

	f->names = names__new();
	assert_int_equal(labels__new(&f->labels, NULL), 0);
	for (int i = 0; i < 6; i++)
		f->name[i] = names__add(f->names, texts[i]);
	f->report = is_wild ? fix_hostile() : fix_report();
	f->report.run.comm = f->report.run.cmdline = (char *)BREAK_OUT;
	seed = 5;
}

static void page_done(struct page_fix *f)
{
	labels__free(f->labels);
	names__free(f->names);
}

static struct tl_event page_event(const struct page_fix *f, uint32_t i, uint32_t cnt, int is_wild)
{
	uint64_t id = 1 + rnd(3000), step = (f->report.run.end_ts_ns - f->report.run.start_ts_ns) / cnt;
	struct tl_event ev = {
		.ts_ns = f->report.run.start_ts_ns + i * (step ? step : 1), .id = id,
		.ptr = 0x7f0000000000 + id * 65536, .size = 512 * id,
		.pid = 4242, .tid = 4242 + rnd(3), .op = f->name[rnd(6)], .region = f->name[rnd(6)], .dev = MT_DEV_CPU,
		.kind = (uint8_t)(1 + rnd(9)), .cat = (uint8_t)rnd(CAT_MAX), .depth = (uint8_t)rnd(6), .version = rnd(3),
		.phase = (uint8_t)rnd(PHASE_MAX), .root = f->name[rnd(6)], .module = f->name[rnd(6)],
	};

	if (!rnd(16)) {
		ev.kind = TL_MARK;
		ev.version = 1 + rnd(MARK_MAX - 1);
	}
	if (!is_wild)
		return ev;
	ev.phase = (uint8_t)rnd(256);
	ev.version = rnd(9) ? ev.version : rnd(UINT32_MAX);
	ev.pid = rnd(4) ? ev.pid : rnd(UINT32_MAX);
	ev.tid = rnd(4) ? ev.tid : rnd(UINT32_MAX);
	ev.dev = (uint8_t)(rnd(4) ? ev.dev : rnd(256));
	ev.kind = (uint8_t)rnd(256) < 200 ? ev.kind : (uint8_t)rnd(256);
	ev.size = rnd(9) ? ev.size : rnd(2) ? TL_SIZE_UNKNOWN : 1ull << rnd(58);
	ev.ptr = rnd(9) ? ev.ptr : UINT64_MAX - rnd(3);
	ev.ts_ns = rnd(9) ? ev.ts_ns : rnd(2) ? 0 : UINT64_MAX - 5;
	return ev;
}

static int page_run(struct page_fix *f, FILE *out, uint32_t cnt, int is_wild)
{
	struct export_to to = { .out = out, .names = f->names, .dev = -1, .labels = f->labels, .report = &f->report,
				 .recording = "'a \"</script>.mtr'" };
	struct export_ctx *c = NULL;
	int r = export_begin(&export_html, &c, &to), e;

	for (uint32_t i = 0; i < cnt && !r; i++) {
		struct tl_event ev = page_event(f, i, cnt, is_wild);

		r = export_html.event(c, &ev, FIX_EPOCH_OFF);
	}
	e = c ? export_end(&export_html, c, r ? NULL : &f->report) : 0;
	return r ? r : e;
}

/* The document between its tags, which nothing in it may close. */
static json_t *page_data(struct page_fix *f, uint32_t cnt, int is_wild, size_t *ret_len)
{
	char *text = NULL, *from, *to;
	FILE *out = open_memstream(&text, ret_len);
	json_error_t e;
	json_t *doc;

	assert_int_equal(page_run(f, out, cnt, is_wild), 0);
	fclose(out);
	from = strstr(text, DATA_BEGIN);
	assert_non_null(from);
	from += strlen(DATA_BEGIN);
	to = strstr(from, "</script>");
	assert_non_null(to);
	*to = '\0';
	assert_null(strpbrk(from, "<>&"));
	assert_null(strstr(from, "\xe2\x80\xa8"));
	assert_null(strstr(text, "<img"));
	doc = json_loads(from, JSON_DECODE_INT_AS_REAL, &e);
	if (!doc)
		print_message("line %d: %s\n", e.line, e.text);
	assert_non_null(doc);
	free(text);
	return doc;
}

static double number(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	assert_true(json_is_number(v));
	return json_number_value(v);
}

/* The last of a list of differences, and the highest value on the way. */
static double undelta(const json_t *list, double *ret_max)
{
	double v = 0;

	for (size_t i = 0; i < json_array_size(list); i++) {
		v += json_number_value(json_array_get(list, i));
		if (ret_max && v > *ret_max)
			*ret_max = v;
	}
	return v;
}

static void check_lane(const json_t *lane)
{
	const json_t *cats = json_object_get(lane, "cats"), *list;
	size_t cnt = json_array_size(json_object_get(lane, "t"));
	const char *key;
	double live = 0, peak = 0, *sums = calloc(cnt + 1, sizeof(*sums));

	json_object_foreach((json_t *)cats, key, list) {
		double v = 0;

		assert_int_equal(json_array_size(list), cnt);
		for (size_t i = 0; i < cnt; i++)
			sums[i] += v += json_number_value(json_array_get(list, i));
		live += undelta(list, NULL);
	}
	for (size_t i = 0; i < cnt; i++)
		peak = sums[i] > peak ? sums[i] : peak;
	assert_float_equal(live, number(lane, "live"), 0.1);
	assert_float_equal(peak, number(lane, "peak"), 0.1);
	free(sums);
}

static void need_page(void)
{
	if (html_page__missing()) {
		print_message("no chart library in this build\n");
		skip();
	}
}

static void test_page(void **state)
{
	struct page_fix f;
	size_t len;

	(void)state;
	need_page();
	for (int wild = 0; wild < 2; wild++) {
		page_init(&f, wild);
		for (uint32_t cnt = 0; cnt < 100000; cnt = 10 * cnt + 3000) {
			json_t *doc = page_data(&f, cnt, wild, &len), *lanes = json_object_get(doc, "lanes"), *target;

			assert_int_equal(number(doc, "schema"), 1);
			assert_string_equal(json_string_value(json_object_get(doc, "recording")), "'a \"</script>.mtr'");
			target = json_object_get(json_object_get(doc, "report"), "target");
			assert_string_equal(json_string_value(json_object_get(target, "comm")),
					    "</script><script>alert(1)</script><!--"
					    "<img src=x onerror=alert(1)>&\xe2\x80\xa8\xe2\x80\xa9");
			assert_int_equal(json_array_size(lanes) > 0, cnt > 0);
			for (size_t i = 0; !wild && i < json_array_size(lanes); i++)
				check_lane(json_array_get(lanes, i));
			assert_true(json_array_size(lanes) <= LANES_SHOWN);
			assert_true(json_array_size(json_object_get(json_object_get(doc, "blocks"), "rows")) <= BLOCKS_SHOWN);
			assert_true(json_array_size(json_object_get(json_object_get(doc, "icicle"), "rows")) <= ICICLE_SHOWN);
			assert_true(json_array_size(json_object_get(doc, "honesty")) > 5);
			json_decref(doc);
		}
		page_done(&f);
	}
}

/* Many more decisions than moments: a page of some 10 MB at most. */
static void test_page_is_bounded(void **state)
{
	struct page_fix f;
	size_t len;

	(void)state;
	need_page();
	page_init(&f, 0);
	json_decref(page_data(&f, 600000, 0, &len));
	assert_in_range(len, 1 << 20, 10000000);
	page_done(&f);
	page_init(&f, 1);
	json_decref(page_data(&f, 300000, 1, &len));
	assert_in_range(len, 200000, 10000000);
	page_done(&f);
}

static void test_what_cannot_be(void **state)
{
	struct page_fix f;
	struct export_ctx *c = NULL;
	FILE *full = fopen("/dev/full", "w");

	(void)state;
	assert_non_null(export_html.missing);
	need_page();
	page_init(&f, 0);
	assert_int_equal(export_begin(&export_html, &c, &(struct export_to){ .out = full, .names = f.names, .dev = -1 }),
			 -EINVAL);
	assert_null(c);
	assert_int_equal(page_run(&f, full, 1000, 0), -ENOSPC);
	assert_int_equal(export_begin(&export_html, &c, &(struct export_to){ .out = full, .names = f.names, .dev = -1,
								    .labels = f.labels, .report = &f.report }), 0);
	assert_int_equal(export_end(&export_html, c, NULL), 0); /* given up: nothing is written, nothing left */
	assert_int_equal(export_end(&export_html, NULL, NULL), 0);
	fclose(full);
	page_done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_moments),
		cmocka_unit_test(test_no_moments),
		cmocka_unit_test(test_moments_in_gaps),
		cmocka_unit_test(test_moments_that_are_learned),
		cmocka_unit_test(test_moment_that_is_held),
		cmocka_unit_test(test_steps_join),
		cmocka_unit_test(test_phases),
		cmocka_unit_test(test_heaviest),
		cmocka_unit_test(test_page),
		cmocka_unit_test(test_page_is_bounded),
		cmocka_unit_test(test_what_cannot_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* A moment and a part of a recording, against a list of lives that is added up by hand. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "event/event.h"
#include "memtrace/event.h"
#include "timeline/labels.h"
#include "timeline/report.h"
#include "timeline/sieve.h"
#include "timeline/spans.h"
#include "view/fold/holdings.h"

#define BLOCKS 400u
#define END 20000u
#define STEP_NS 1000u
#define PIDS 3u
#define MODULES 4u

struct life {
	uint64_t allocated, died, size; /* died 0: lives */
	uint64_t versions[2];	   /* times of version 1 and 2; 0: none */
	uint32_t pid;
	uint8_t cats[3];
	unsigned module; /* 0: none; else told at allocation, or at death alone where is_late */
	unsigned op;
	int is_late;
};

static struct life lives[BLOCKS];
static struct tl_event evs[8 * BLOCKS];
static size_t evs_cnt;
static struct labels *labels;
static const struct report report; /* without stacks and ranks */
static struct names *names;
static name_id modules[MODULES], ops[3], root;
static struct sieve sieve;
static struct spans spans;

static uint64_t seed;
static uint64_t any(uint64_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % below;
}

static int by_time(const void *a, const void *b)
{
	const struct tl_event *x = a, *y = b;

	return x->ts_ns != y->ts_ns ? (x->ts_ns < y->ts_ns ? -1 : 1) : x->kind < y->kind ? -1 : x->kind > y->kind;
}

static void tell(const struct tl_event *ev)
{
	evs[evs_cnt++] = *ev;
}

/* No two things at one time: every block has a lane of nanoseconds of its own. */
static uint64_t time_of(unsigned i, uint64_t t)
{
	return 1 + t * 2 * BLOCKS + i;
}

static void make_life(unsigned i)
{
	struct life *l = &lives[i];
	struct tl_event ev;

	l->allocated = time_of(i, any(END));
	l->died = any(5) ? l->allocated + (1 + any(3000)) * 2 * BLOCKS : 0;
	l->size = 1 + any(1000);
	l->pid = 1 + (uint32_t)any(PIDS);
	l->module = (unsigned)any(MODULES);
	l->op = (unsigned)any(3);
	l->is_late = l->died && any(2);
	for (unsigned v = 0; v < 3; v++)
		l->cats[v] = (uint8_t)(1 + any(3));
	ev = (struct tl_event){ .id = i + 1, .ptr = i + 1, .size = l->size, .pid = l->pid, .dev = MT_DEV_CPU,
				.op = l->op ? ops[l->op] : NAME_NONE, .kind = TL_CREATE, .ts_ns = l->allocated };
	if (l->module && !l->is_late)
		ev.module = modules[l->module], ev.root = root;
	tell(&ev);
	for (unsigned v = 0; v < 2 && any(2); v++) {
		l->versions[v] = l->allocated + (v + 1) * 400ull * BLOCKS;
		if (l->died && l->versions[v] >= l->died) {
			l->versions[v] = 0;
			break;
		}
		ev.kind = TL_VERSION;
		ev.version = v + 1;
		ev.ts_ns = l->versions[v];
		tell(&ev);
	}
	if (l->module)
		ev.module = modules[l->module], ev.root = root;
	ev.kind = TL_DESTROY;
	ev.ts_ns = l->died;
	if (l->died)
		tell(&ev);
	for (unsigned v = 0; v < 3; v++)
		assert_int_equal(labels__event(labels, &(struct tl_event){ .kind = TL_FINAL, .id = i + 1, .version = v,
									    .cat = l->cats[v] }), 0);
}

static int setup(void **state)
{
	static const char *const paths[MODULES] = { "", "block", "block.fc1", "blocks.fc1" };

	(void)state;
	seed = 7;
	evs_cnt = 0;
	memset(lives, 0, sizeof(lives));
	names = names__new();
	root = names__add(names, "Net");
	ops[1] = names__add(names, "aten::mm");
	ops[2] = names__add(names, "aten::add_");
	for (unsigned i = 1; i < MODULES; i++)
		modules[i] = names__add(names, paths[i]);
	spans = (struct spans){ .cnt = 0 };
	sieve__init(&sieve);
	if (labels__new(&labels, NULL))
		return -1;
	for (unsigned i = 0; i < BLOCKS; i++)
		make_life(i);
	for (unsigned s = 1; s <= END / STEP_NS; s++)
		tell(&(struct tl_event){ .kind = TL_MARK, .version = MARK_STEP, .ptr = s, .pid = 1 + s % PIDS,
					 .ts_ns = time_of(BLOCKS + s, (uint64_t)s * STEP_NS) });
	qsort(evs, evs_cnt, sizeof(*evs), by_time);
	for (size_t i = 0; i < evs_cnt; i++)
		if (sieve__learn(&sieve, &evs[i]) || spans__event(&spans, &evs[i], evs[0].ts_ns))
			return -1;
	sieve.labels = labels;
	sieve.names = names;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	sieve__done(&sieve);
	spans__done(&spans);
	labels__free(labels);
	names__free(names);
	return 0;
}

/* --- by hand ------------------------------------------------------------------------------------------------- */

static int lives_at(const struct life *l, uint64_t t)
{
	return l->allocated <= t && (!l->died || l->died > t);
}

static unsigned version_at(const struct life *l, uint64_t t)
{
	return l->versions[1] && l->versions[1] <= t ? 2 : l->versions[0] && l->versions[0] <= t ? 1 : 0;
}

static uint64_t sum_at(uint64_t t, uint32_t pid)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < BLOCKS; i++)
		if (lives_at(&lives[i], t) && (!pid || lives[i].pid == pid))
			sum += lives[i].size;
	return sum;
}

/* The first of the highest moments in (from, to], and at from. */
static uint64_t highest(uint64_t from, uint64_t to, uint32_t pid)
{
	uint64_t best = from, sum = from ? sum_at(from, pid) : 0;

	for (unsigned k = 0; k < evs_cnt; k++)
		if (evs[k].kind == TL_CREATE && evs[k].ts_ns > from && evs[k].ts_ns <= to && sum_at(evs[k].ts_ns, pid) > sum) {
			best = evs[k].ts_ns;
			sum = sum_at(best, pid);
		}
	return best;
}

static int is_wanted(const struct life *l, uint64_t t, int category, const char *module, const char *op)
{
	return (category < 0 || l->cats[version_at(l, t)] == category) && (!module || l->module == 1 || l->module == 2) &&
	       (!op || l->op == 1);
}

static void check_moment(uint64_t from, uint64_t to, uint32_t pid, int category, const char *module, const char *op)
{
	uint64_t bytes = 0, blocks = 0, allocs = 0, by_cat[CAT_MAX] = { 0 }, t = highest(from, to, pid);
	struct holdings *h = holdings__new(&sieve, 0, &report);
	struct holding all, wanted, *rows;
	size_t cnt;

	sieve.span = (struct span){ from, to };
	sieve.pids = &pid;
	sieve.pids_cnt = pid ? 1 : 0;
	sieve.category = category;
	sieve.module = module;
	sieve.op = op;
	for (size_t i = 0; i < evs_cnt; i++)
		assert_int_equal(holdings__event(h, &evs[i]), 0);
	assert_int_equal(holdings__end(h, 0), 0);
	for (unsigned i = 0; i < BLOCKS; i++) {
		const struct life *l = &lives[i];

		if (pid && l->pid != pid)
			continue;
		if (l->allocated > from && l->allocated <= to && is_wanted(l, l->allocated, category, module, op))
			allocs++;
		if (!lives_at(l, t) || !is_wanted(l, t, category, module, op))
			continue;
		bytes += l->size;
		blocks++;
		by_cat[l->cats[version_at(l, t)]] += l->size;
	}
	holdings__sums(h, &all, &wanted);
	assert_int_equal(holdings__ts_ns(h), t);
	assert_int_equal(all.bytes, sum_at(t, pid));
	assert_int_equal(wanted.bytes, bytes);
	assert_int_equal(wanted.blocks, blocks);
	assert_int_equal(wanted.allocs, allocs);
	rows = holdings__rows(h, HELD_BY_CATEGORY, &cnt);
	for (size_t i = 0; i < cnt; i++)
		for (int c = 0; c < CAT_MAX; c++)
			if (!strcmp(rows[i].name, category_name((enum category)c)))
				assert_int_equal(rows[i].bytes, by_cat[c]);
	holdings__free(h);
}

static void moments_are_what_lived_then(void **state)
{
	uint64_t last = evs[evs_cnt - 1].ts_ns;

	(void)state;
	check_moment(0, UINT64_MAX, 0, -1, NULL, NULL);
	check_moment(last, last, 0, -1, NULL, NULL); /* nothing comes after it */
	for (unsigned i = 0; i < 60; i++) {
		uint64_t from = 1 + any(last), to = from + any(last / 4);
		uint32_t pid = (uint32_t)any(PIDS + 1);

		check_moment(from, from, pid, -1, NULL, NULL);
		check_moment(from, to, pid, (int)any(5) - 1, any(2) ? "block" : NULL, any(2) ? "mm" : NULL);
	}
}

static void rows_are_named_and_cut(void **state)
{
	struct holdings *h = holdings__new(&sieve, 0, &report);
	uint64_t sums[2] = { 0, 0 }, t = highest(0, UINT64_MAX, 0);
	struct holding *rows;
	size_t cnt;

	(void)state;
	for (size_t i = 0; i < evs_cnt; i++)
		assert_int_equal(holdings__event(h, &evs[i]), 0);
	assert_int_equal(holdings__end(h, 2), 0);
	for (unsigned i = 0; i < BLOCKS; i++)
		if (lives_at(&lives[i], t)) {
			sums[0] += lives[i].module == 1 || lives[i].module == 2 ? lives[i].size : 0;
			sums[1] += lives[i].module ? 0 : lives[i].size;
		}
	rows = holdings__rows(h, HELD_BY_MODULE, &cnt);
	assert_int_equal(cnt, 3); /* Net.block with what is in it, Net.blocks, none */
	for (size_t i = 0; i < cnt; i++) {
		assert_true(!i || rows[i - 1].bytes >= rows[i].bytes);
		if (!strcmp(rows[i].name, "Net.block"))
			assert_int_equal(rows[i].bytes, sums[0]);
		else if (!rows[i].name[0])
			assert_int_equal(rows[i].bytes, sums[1]);
		else
			assert_string_equal(rows[i].name, "Net.blocks");
	}
	holdings__free(h);
}

/* --- a part for exports --------------------------------------------------------------------------------------- */

struct got {
	uint64_t live[BLOCKS + 1], bytes, at_from;
	uint64_t from, last_ns;
	size_t cnt;
};

static int take(void *ctx, const struct tl_event *ev)
{
	struct got *g = ctx;

	assert_true(ev->ts_ns >= g->last_ns);
	g->last_ns = ev->ts_ns;
	g->cnt++;
	if (ev->kind == TL_CREATE || ev->kind == TL_PREEXISTING) {
		assert_int_equal(g->live[ev->id], 0);
		g->live[ev->id] = ev->size;
		g->bytes += ev->size;
		g->at_from += ev->kind == TL_PREEXISTING && ev->ts_ns == g->from ? ev->size : 0;
	} else if (ev->kind == TL_DESTROY) {
		assert_int_equal(g->live[ev->id], ev->size);
		g->live[ev->id] = 0;
		g->bytes -= ev->size;
	} else if (ev->kind == TL_VERSION) {
		assert_true(g->live[ev->id] != 0);
	}
	return 0;
}

static uint64_t wanted_at(uint64_t t, int category, const char *module)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < BLOCKS; i++)
		if (lives_at(&lives[i], t) && is_wanted(&lives[i], t, category, module, NULL))
			sum += lives[i].size;
	return sum;
}

static void parts_begin_with_what_lived(void **state)
{
	uint64_t last = evs[evs_cnt - 1].ts_ns;

	(void)state;
	for (unsigned i = 0; i < 60; i++) {
		uint64_t from = 1 + any(last), to = any(4) ? from + any(last / 4) : from;
		int category = (int)any(4);
		struct sieve s = sieve;
		struct got g = { .from = from };

		category = category ? category : -1;
		s.live.cnt = 0;
		s.span = (struct span){ from, to };
		s.category = category;
		s.module = any(2) ? "block" : NULL;
		for (size_t k = 0; k < evs_cnt; k++)
			assert_int_equal(sieve__event(&s, &evs[k], take, &g), 0);
		assert_int_equal(sieve__end(&s, take, &g), 0);
		assert_int_equal(g.at_from, wanted_at(from, category, s.module));
		assert_int_equal(g.bytes, wanted_at(to, category, s.module));
		assert_true(g.last_ns <= to || to < from);
		map__done(&s.live);
	}
}

static int take_last(void *ctx, const struct tl_event *ev)
{
	*(struct tl_event *)ctx = *ev;
	return 0;
}

static void parts_begin_with_totals(void **state)
{
	struct tl_event ev = { .kind = TL_TOTALS, .ts_ns = 5, .pid = 1, .dev = MT_DEV_CUDA0, .ptr = 512 }, last = { 0 };
	struct sieve s = sieve;

	(void)state;
	s.live.cnt = 0;
	s.category = -1;
	s.span = (struct span){ 10, 20 };
	assert_int_equal(sieve__event(&s, &ev, take_last, &last), 0);
	ev.ts_ns = 6;
	ev.ptr = 600;
	assert_int_equal(sieve__event(&s, &ev, take_last, &last), 0);
	assert_int_equal(last.kind, 0);
	assert_int_equal(sieve__end(&s, take_last, &last), 0);
	assert_true(last.kind == TL_TOTALS && last.ts_ns == 10 && last.ptr == 600 && last.dev == MT_DEV_CUDA0);
	map__done(&s.live);
	map__done(&s.totals);
}

/* --- words ------------------------------------------------------------------------------------------------------ */

static void modules_and_operators_by_name(void **state)
{
	(void)state;
	assert_true(module_is_wanted("block", "block", "Net"));
	assert_true(module_is_wanted("block", "block.fc1", "Net"));
	assert_true(module_is_wanted("Net.block", "block.fc1", "Net"));
	assert_true(module_is_wanted("Net", "", "Net"));
	assert_true(module_is_wanted("Net", "block", "Net"));
	assert_false(module_is_wanted("block", "blocks.fc1", "Net"));
	assert_false(module_is_wanted("block", "", "Net"));
	assert_true(module_is_wanted("*.fc1", "blocks.fc1", "Net"));
	assert_true(module_is_wanted("blocks.0.fc1", "_orig_mod.blocks.0._orig_mod.fc1", "Net"));
	assert_true(module_is_wanted("Net.blocks", "_orig_mod.blocks.0", "Net"));
	assert_true(module_is_wanted("_orig_mod.blocks", "_orig_mod.blocks.0", "Net"));
	assert_false(module_is_wanted("blocks", "my_orig_mod.blocks", "Net"));
	assert_true(module_is_wanted("layers.*.mlp", "layers.3.mlp.fc", "Net"));
	assert_false(module_is_wanted("layers.*.mlp", "layers.3.attn", "Net"));
	assert_true(op_is_wanted("mm", "aten::mm"));
	assert_true(op_is_wanted("aten::mm", "aten::mm"));
	assert_true(op_is_wanted("*attention*", "aten::_scaled_dot_product_attention"));
	assert_false(op_is_wanted("mm", "aten::addmm"));
}

static void steps_are_found(void **state)
{
	struct span s = { 0, 0 };
	uint32_t pid = 2;
	uint64_t n = 0, first, last;

	(void)state;
	assert_true(spans__numbers(&spans, NULL, 0, &first, &last));
	assert_int_equal(first, 1);
	assert_int_equal(last, END / STEP_NS);
	assert_true(spans__numbers(&spans, &(uint32_t){ 3 }, 1, &first, &last)); /* process 1 + n % 3 */
	assert_int_equal(first, 2);
	assert_false(spans__numbers(&spans, &(uint32_t){ 9 }, 1, &first, &last));
	assert_int_equal(spans__procs_of_step(&spans, 4), 1);
	assert_int_equal(spans__procs_of_step(&spans, 100000), 0);
	spans.steps[0].number = 4; /* step 1 was of the same process, … */
	assert_int_equal(spans__procs_of_step(&spans, 4), 1);
	spans.steps[0].number = 5; /* … and is not of this one's */
	assert_int_equal(spans__procs_of_step(&spans, 5), 2);
	spans.steps[0].number = 1;
	assert_true(spans__of_step(&spans, 4, NULL, 0, &s)); /* process 1 + 4 % 3 = 2, whose last one was step 1 */
	assert_int_equal(s.to_ns, time_of(BLOCKS + 4, 4 * STEP_NS));
	assert_int_equal(s.from_ns, time_of(BLOCKS + 1, 1 * STEP_NS));
	assert_true(spans__of_step(&spans, 4, &pid, 1, &s));
	pid = 1;
	assert_false(spans__of_step(&spans, 4, &pid, 1, &s));
	assert_false(spans__of_step(&spans, END, NULL, 0, &s));
	assert_true(spans__of_time(&spans, s.to_ns, (uint32_t[]){ 2 }, 1, &s, &n));
	assert_int_equal(n, 4);
	assert_false(spans__of_time(&spans, UINT64_MAX, NULL, 0, &s, &n));
}

/* Steps of process 1 end at 10, 20, 30 and 40; between 15 and 25, and from 35 on, nothing was traced. */
static void last_traced_step_is_whole(void **state)
{
	static const uint64_t gaps_ns[] = { 15, 25, 35 };
	struct spans of = { .cnt = 0 };
	struct span s;
	uint64_t n = 0;
	uint32_t pid = 2;

	(void)state;
	for (uint64_t t = 10, gap = 0; t <= 40; t += 10) {
		for (; gap < 3 && gaps_ns[gap] < t; gap++)
			assert_int_equal(spans__event(&of, &(struct tl_event){ .kind = TL_GAP, .version = gap % 2 == 0,
									       .ts_ns = gaps_ns[gap] }, 0), 0);
		assert_int_equal(spans__event(&of, &(struct tl_event){ .kind = TL_MARK, .version = MARK_STEP, .ts_ns = t,
								       .ptr = t / 10, .pid = 1 }, 0), 0);
	}
	assert_true(spans__last_traced(&of, NULL, 0, &s, &n)); /* 3 began in a gap, 2 and 4 ended in one */
	assert_int_equal(n, 1);
	assert_int_equal(s.to_ns, 10);
	assert_false(spans__last_traced(&of, &pid, 1, &s, &n));
	spans__done(&of);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(moments_are_what_lived_then, setup, teardown),
		cmocka_unit_test_setup_teardown(rows_are_named_and_cut, setup, teardown),
		cmocka_unit_test_setup_teardown(parts_begin_with_what_lived, setup, teardown),
		cmocka_unit_test_setup_teardown(parts_begin_with_totals, setup, teardown),
		cmocka_unit_test_setup_teardown(modules_and_operators_by_name, setup, teardown),
		cmocka_unit_test_setup_teardown(steps_are_found, setup, teardown),
		cmocka_unit_test(last_traced_step_is_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

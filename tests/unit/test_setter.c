/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* In which order plans get into processes, and with which rests. The keeper is one of paper: two sites a call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define keeper__attach paper_attach
#include "../../user/live/setter.c"

#define OTHERS 3
#define SITES  7

static struct {
	pid_t pid;
	size_t at;
	uint64_t ns, budget_ns, rest_ns;
	uint32_t more;
} calls[64];
static size_t calls_cnt;
static int refused, done_cnt, canceled_cnt;

int paper_attach(struct keeper *k, pid_t pid, const struct plan *plan, struct attach_stats *ret, struct err *err)
{
	size_t to = ret->budget_ns ? ret->at + 2 : plan->sites_cnt;

	(void)k;
	(void)err;
	assert_true(calls_cnt < 64);
	calls[calls_cnt].pid = pid;
	calls[calls_cnt].at = ret->at;
	calls[calls_cnt].budget_ns = ret->budget_ns;
	calls[calls_cnt].rest_ns = ret->rest_ns;
	calls[calls_cnt].more = ret->more;
	calls[calls_cnt++].ns = now_ns();
	if (ret->budget_ns && ret->at < OTHERS && to > OTHERS)
		to = OTHERS;
	ret->at = to < plan->sites_cnt ? to : plan->sites_cnt;
	ret->slices++;
	return ret->at < plan->sites_cnt;
}

static int may_begin(void *ctx, struct setting *s)
{
	(void)ctx;
	return s->p->pid != refused;
}

static void done(void *ctx, struct setting *s, int r, struct err *err)
{
	(void)ctx;
	(void)err;
	assert_true(r == 0 || r == -ECANCELED);
	if (r)
		canceled_cnt++;
	else
		assert_int_equal(s->st.at, SITES);
	done_cnt++;
}

struct rig {
	struct setter *s;
	struct process procs[2];
	struct plan_ref *ref;
};

static void rig__init(struct rig *r)
{
	struct plan *plan = calloc(1, sizeof(*plan));

	assert_non_null(plan);
	plan->sites = calloc(SITES, sizeof(*plan->sites));
	plan->sites_cnt = SITES;
	for (size_t i = 0; i < SITES; i++)
		plan->sites[i].prog = i < OTHERS ? MT_PROG_FW_NEW : MT_PROG_FLOW_OP;
	calls_cnt = 0;
	refused = done_cnt = canceled_cnt = 0;
	*r = (struct rig){ .s = setter__new(NULL, may_begin, done, NULL), .procs = { { .pid = 10 }, { .pid = 20 } },
			   .ref = plan_ref__new(plan) };
	assert_true(r->s && r->ref);
}

static void rig__done(struct rig *r)
{
	setter__free(r->s);
	plan_ref__put(r->ref);
}

/* Until the tracer has been called so often. */
static void turn_until(struct rig *r, size_t cnt)
{
	for (int i = 0; i < 2000 && calls_cnt < cnt; i++) {
		setter__turn(r->s);
		assert_true(setter__sleep_ms(r->s) <= ASK_MS);
		usleep(500);
	}
	assert_int_equal(calls_cnt, cnt);
}

static void what_frees_goes_first_in_all(void **state)
{
	static const struct {
		pid_t pid;
		size_t at;
	} expected[] = { { 10, 0 }, { 10, 2 }, { 20, 0 }, { 20, 2 }, { 10, 3 }, { 10, 5 }, { 20, 3 }, { 20, 5 } };
	struct rig r;

	(void)state;
	rig__init(&r);
	assert_int_equal(setter__sleep_ms(r.s), -1);
	for (int i = 0; i < 2; i++)
		assert_non_null(setter__add(r.s, &r.procs[i], r.ref, NULL));
	assert_int_equal(r.procs[0].settings_cnt, 1);
	turn_until(&r, 8);
	for (size_t i = 0; i < 8; i++) {
		assert_int_equal(calls[i].pid, expected[i].pid);
		assert_int_equal(calls[i].at, expected[i].at);
		assert_int_equal(calls[i].budget_ns, SLICE_NS);
		assert_true(!i || calls[i].ns - calls[i - 1].ns >= REST_NS);
	}
	assert_int_equal(done_cnt, 2);
	assert_int_equal(r.procs[0].settings_cnt + r.procs[1].settings_cnt, 0);
	assert_int_equal(r.ref->users, 1);
	rig__done(&r);
}

static void operators_wait_until_they_may(void **state)
{
	struct setting *one;
	struct rig r;

	(void)state;
	rig__init(&r);
	refused = 10;
	one = setter__add(r.s, &r.procs[0], r.ref, NULL);
	assert_non_null(one);
	assert_non_null(setter__add(r.s, &r.procs[1], r.ref, NULL));
	one->is_awaited = 1;
	turn_until(&r, 6); /* all of 20, and not the operators of 10 */
	for (int i = 0; i < 30; i++) {
		setter__turn(r.s);
		usleep(1000);
	}
	assert_int_equal(calls_cnt, 6);
	assert_int_equal(one->begin_ns, 0);
	assert_int_equal(done_cnt, 1);
	assert_true(setter__is_awaited(r.s));
	assert_true(setter__is_watching(r.s));
	refused = 0;
	turn_until(&r, 7);
	assert_false(setter__is_watching(r.s));
	turn_until(&r, 8);
	assert_false(setter__is_awaited(r.s));
	rig__done(&r);
}

/* Operators that run already do not wait for their turn to begin, and are set in slices like all others. */
static void late_ones_are_set_in_slices(void **state)
{
	uint8_t wanted[SITES] = { 0 };
	struct rig r;

	(void)state;
	rig__init(&r);
	refused = 10;
	wanted[OTHERS] = 1;
	assert_int_equal(setter__add_late(r.s, &r.procs[0], r.ref, wanted), 1);
	wanted[OTHERS + 1] = 1;
	assert_int_equal(setter__add_late(r.s, &r.procs[0], r.ref, wanted), 0); /* not begun: the same one */
	assert_int_equal(setter__add_late(r.s, &r.procs[1], r.ref, wanted), 1);
	assert_true(r.s->first->is_late && r.s->first->st.wanted[OTHERS + 1]);
	turn_until(&r, 1);
	assert_int_equal(setter__add_late(r.s, &r.procs[0], r.ref, wanted), 1); /* what was begun may have passed it */
	turn_until(&r, 12);
	assert_int_equal(done_cnt, 3);
	for (size_t i = 0; i < calls_cnt; i++) {
		assert_int_equal(calls[i].budget_ns, SLICE_NS);
		assert_true(!i || calls[i].ns - calls[i - 1].ns >= REST_NS);
	}
	assert_int_equal(r.procs[0].settings_cnt, 0);
	rig__done(&r);
}

/* Who has just begun has shorter rests; who loads a library amid its steps has not. Of a step of 57 ms slices take 10 ms. */
static void who_is_at_work_rests(void **state)
{
	struct setting *one;
	struct rig r;

	(void)state;
	assert_true(57000000ull * SLICE_NS / (SLICE_NS + REST_NS) < 10000000 && REST_HASTY_NS < REST_NS);
	for (int at_work = 0; at_work < 2; at_work++) {
		rig__init(&r);
		one = setter__add(r.s, &r.procs[0], r.ref, NULL);
		assert_non_null(one);
		one->is_hasty = 1;
		one->is_at_work = at_work;
		turn_until(&r, 4);
		for (size_t i = 1; i < calls_cnt; i++) {
			assert_int_equal(calls[i].rest_ns, at_work ? REST_NS : REST_HASTY_NS);
			assert_true(calls[i].ns - calls[i - 1].ns >= calls[i].rest_ns);
		}
		rig__done(&r);
	}
}

/* Who gets a turn too seldom has what was missed set along; but nothing was missed while nothing was due. */
static void who_comes_late_makes_up_for_it(void **state)
{
	struct rig r;

	(void)state;
	_Static_assert(SLICES_MISSED_MAX <= ATTACH_MORE_MAX && REST_NS <= ATTACH_REST_NS_MAX, "what the keeper allows");
	rig__init(&r);
	refused = 10;
	for (int i = 0; i < 2; i++) {
		assert_non_null(setter__add(r.s, &r.procs[0], r.ref, NULL));
		turn_until(&r, 1);
		usleep((REST_NS + 3 * (SLICE_NS + REST_NS)) / 1000);
		setter__turn(r.s); /* all but the operators */
		assert_int_equal(calls_cnt, 2);
		assert_int_equal(calls[0].more, 0);
		assert_in_range(calls[1].more, 3, SLICES_MISSED_MAX);
		usleep(200000);
		setter__turn(r.s);
		assert_int_equal(calls_cnt, 2); /* they may not begin */
		setter__drop(r.s, NULL);
		calls_cnt = 0;
		usleep(200000);
	}
	rig__done(&r);
}

static void a_process_that_goes_takes_its_own_along(void **state)
{
	uint8_t wanted[SITES] = { 1 };
	struct setting *one;
	struct rig r;

	(void)state;
	rig__init(&r);
	one = setter__add(r.s, &r.procs[0], r.ref, wanted);
	assert_non_null(one);
	wanted[0] = 0; /* it has a copy */
	assert_int_equal(one->st.wanted[0], 1);
	one = setter__add(r.s, &r.procs[1], r.ref, NULL);
	assert_non_null(one);
	turn_until(&r, 1);
	setter__drop(r.s, &r.procs[0]);
	assert_int_equal(canceled_cnt, 1);
	assert_int_equal(r.procs[0].settings_cnt, 0);
	setter__run(r.s, one); /* at once */
	assert_int_equal(calls_cnt, 2);
	assert_int_equal(calls[1].budget_ns, 0);
	assert_int_equal(done_cnt, 2);
	assert_non_null(setter__add(r.s, &r.procs[1], r.ref, NULL));
	rig__done(&r); /* with one under way */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_frees_goes_first_in_all),
		cmocka_unit_test(operators_wait_until_they_may),
		cmocka_unit_test(late_ones_are_set_in_slices),
		cmocka_unit_test(who_is_at_work_rests),
		cmocka_unit_test(who_comes_late_makes_up_for_it),
		cmocka_unit_test(a_process_that_goes_takes_its_own_along),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

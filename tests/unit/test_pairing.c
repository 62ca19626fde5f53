/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* pairing: nodes by their numbers to the module whose forward made them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "event/pairing.h"

#define ACCUMULATE UINT64_MAX

static struct pairing *p;

static int setup(void **state)
{
	(void)state;
	p = pairing__new();
	return p ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	pairing__free(p);
	return 0;
}

static void change(uint32_t tid, uint64_t module, uint64_t from, uint8_t in_node)
{
	struct event ev = { .kind = MT_EV_MODULE, .pid = 1, .tid = tid, .addr = module, .size = from,
			    .flags = MT_MODULE_NO_GRAD | in_node | 0x40 },
		     before;

	assert_int_equal(pairing__event(p, &ev, &before), 0);
	assert_int_equal(ev.kind, EV_MODULE_AT);
	assert_int_equal(ev.addr, module);
	assert_int_equal(ev.size, 0);
	assert_int_equal(ev.flags, MT_MODULE_NO_GRAD); /* what is not ours to say goes no further */
}

static void forward(uint32_t tid, uint64_t module, uint64_t from)
{
	change(tid, module, from, 0);
}

static void again(uint32_t tid, uint64_t module, uint64_t from)
{
	change(tid, module, from, MT_MODULE_IN_NODE);
}

/* The module that is told with it; UINT64_MAX: nothing is. */
static uint64_t node(uint32_t tid, uint64_t number)
{
	struct event ev = { .kind = MT_EV_NODE, .pid = 1, .tid = tid, .size = number, .depth = 3, .ts_ns = 5 }, before;
	int r = pairing__event(p, &ev, &before);

	assert_int_equal(ev.size, 0);
	if (!r)
		return UINT64_MAX;
	assert_int_equal(before.kind, EV_MODULE_AT);
	assert_int_equal(before.flags, EV_MODULE_BACKWARD);
	assert_true(before.pid == 1 && before.tid == tid && before.ts_ns == 5);
	return before.addr;
}

static void nodes_find_their_module(void **state)
{
	(void)state;
	forward(1, 0xa, 10);
	forward(1, 0xb, 20);
	forward(1, 0, 30);
	assert_int_equal(node(1, 35), UINT64_MAX); /* of none, as before */
	assert_int_equal(node(1, 29), 0xb);
	assert_int_equal(node(1, 20), UINT64_MAX); /* still */
	assert_int_equal(node(1, ACCUMULATE), UINT64_MAX);
	assert_int_equal(node(1, 19), 0xa);
	assert_int_equal(node(1, 9), 0); /* older than all that is known */
	assert_int_equal(node(1, 0), UINT64_MAX); /* not read */
}

static void no_node_between_two_changes(void **state)
{
	(void)state;
	forward(1, 0xa, 10);
	forward(1, 0xb, 10);
	assert_int_equal(node(1, 10), 0xb);
}

static void a_thread_without_forward_asks_another(void **state)
{
	(void)state;
	forward(1, 0xa, 10);
	forward(2, 0xb, 10);
	assert_int_equal(node(9, 12), 0xb);
	forward(1, 0xc, 20);
	assert_int_equal(node(9, 12), 0xa);
	assert_int_equal(node(2, 12), 0xb); /* its own */
}

/* Python that such a thread runs (hooks, compiled graphs, the loop that calls backward) is no forward. */
static void a_thread_that_only_goes_backward_asks_another(void **state)
{
	(void)state;
	forward(1, 0xa, 1000);
	forward(1, 0, 1010);
	forward(9, 0, 3);
	assert_int_equal(node(9, 1005), 0xa);
	again(9, 0, 3);
	assert_int_equal(node(9, 1006), UINT64_MAX); /* still */
}

/* A checkpoint's second forward: its nodes are that thread's own, those around it are the forward's. */
static void what_is_computed_again_is_the_threads_own(void **state)
{
	(void)state;
	forward(1, 0xa, 10);
	forward(1, 0xb, 20);
	forward(1, 0xc, 30);
	forward(1, 0, 40);
	assert_int_equal(node(9, 35), 0xc);
	again(9, 0xb, 5); /* numbers that the other thread had, too, long ago */
	again(9, 0xe, 8);
	again(9, 0, 12);
	assert_int_equal(node(9, 9), 0xe);
	again(9, 0, 12);
	assert_int_equal(node(9, 6), 0xb);
	assert_int_equal(node(9, 15), 0xa);
	again(9, 0xa, 14);
	again(9, 0, 18);
	assert_int_equal(node(9, 35), 0xc);
	assert_int_equal(node(9, 16), 0xa);
	assert_int_equal(node(9, 8), 0); /* of the time before */
}

static void another_counter_begins_anew(void **state)
{
	(void)state;
	forward(1, 0xa, 1000);
	forward(1, 0xb, 5);
	assert_int_equal(node(1, 1001), 0xb);
	assert_int_equal(node(1, 4), 0);
	pairing__end(p, 1);
	assert_int_equal(node(1, 6), UINT64_MAX);
}

static void the_oldest_changes_go(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= PAIRING_CHANGES_MAX + 100; i++)
		forward(1, i, i * 2);
	assert_int_equal(node(1, 101 * 2), 101);
	assert_int_equal(node(1, 100 * 2), 0);
	assert_int_equal(node(1, (PAIRING_CHANGES_MAX + 100) * 2), PAIRING_CHANGES_MAX + 100);
}

static void forward_of(uint32_t pid, uint32_t tid, uint64_t from)
{
	struct event ev = { .kind = MT_EV_MODULE, .pid = pid, .tid = tid, .addr = tid, .size = from }, before;

	assert_int_equal(pairing__event(p, &ev, &before), 0);
}

static void threads_are_bounded(void **state)
{
	const uint32_t most = PAIRING_THREADS_MAX / 2;

	(void)state;
	for (uint32_t tid = 1; tid <= most + 1; tid++)
		forward(tid, tid, 10);
	assert_int_equal(node(most + 1, 11), most + 1);
	assert_int_equal(node(2, 11), 2);
	assert_int_equal(node(1, 11), most + 1); /* it had to go: whoever ran last */
}

/* Processes with more threads and changes than there is room for cost another one nothing, whenever it came. */
static void a_flood_costs_nobody_else(void **state)
{
	(void)state;
	forward(1, 0xa, 10);
	for (uint32_t pid = 2; pid < 8; pid++)
		for (uint32_t tid = 1; tid <= 2 * PAIRING_THREADS_MAX; tid++)
			forward_of(pid, tid, 10);
	assert_int_equal(node(1, 11), 0xa);
	forward(2, 0xb, 10); /* one that comes later finds room */
	forward_of(2, 3000, 11);
	assert_int_equal(node(2, 11), 0xb);
	for (uint32_t tid = 1; tid <= 100; tid++) /* 6.5 M changes, of which 4 M are kept */
		for (uint64_t i = 1; i <= PAIRING_CHANGES_MAX; i++)
			forward_of(2, tid, i);
	for (uint64_t i = 1; i <= PAIRING_CHANGES_MAX; i++)
		forward(1, i, 100 + i * 2);
	assert_int_equal(node(1, 103), 1); /* and has as many as ever */
	assert_int_equal(node(1, 100 + PAIRING_CHANGES_MAX * 2), PAIRING_CHANGES_MAX);
}

static void other_events_stay(void **state)
{
	struct event ev = { .kind = MT_EV_ALLOC, .size = 5, .addr = 6 }, before;

	(void)state;
	assert_int_equal(pairing__event(p, &ev, &before), 0);
	assert_true(ev.kind == MT_EV_ALLOC && ev.size == 5 && ev.addr == 6);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	static const struct CMUnitTest tests[] = {
		T(nodes_find_their_module), T(no_node_between_two_changes), T(a_thread_without_forward_asks_another),
		T(a_thread_that_only_goes_backward_asks_another), T(what_is_computed_again_is_the_threads_own),
		T(another_counter_begins_anew), T(the_oldest_changes_go), T(threads_are_bounded), T(a_flood_costs_nobody_else),
		T(other_events_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The table of kinds: what its rows must agree on with each other and with the numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "event/kinds.h"
#include "event/packed.h"

#define ALL_KINDS 256

static void every_kind_has_its_own_word(void **state)
{
	(void)state;
	for (int k = 0; k < ALL_KINDS; k++) {
		int is_one = (k >= MT_EV_ALLOC && k < MT_EV_WIRE_MAX) || (k >= EV_BEGIN && k <= EV_TENSOR) ||
			     (k >= EV_WAS && k <= EV_WAS_MODULE) || (k >= EV_MACHINE && k < EV_MAX);

		assert_int_equal(event_row((uint8_t)k)->name != NULL, is_one);
		for (int o = 0; is_one && o < k; o++)
			assert_string_not_equal(event_kind_name((uint8_t)k), event_kind_name((uint8_t)o));
	}
	assert_string_equal(event_kind_name(255), "?");
}

static void records_are_of_the_ring(void **state)
{
	(void)state;
	for (int k = 0; k < ALL_KINDS; k++)
		assert_true(!event_wire_bytes((uint8_t)k) || k < MT_EV_WIRE_MAX);
	assert_int_equal(event_wire_bytes(MT_EV_FREE), sizeof(struct mt_rec_addr));
	assert_int_equal(event_wire_bytes(MT_EV_ALLOC), sizeof(struct mt_rec_mem));
	assert_int_equal(event_wire_bytes(MT_EV_SEG_MAP), sizeof(struct mt_rec_seg));
	assert_int_equal(event_wire_bytes(MT_EV_APPLY), 0); /* its tensors follow */
}

static void rows_agree_with_themselves(void **state)
{
	(void)state;
	for (int k = 0; k < ALL_KINDS; k++) {
		const struct ev_kind_row *row = event_row((uint8_t)k);

		assert_false(row->varies & row->steady);
		assert_false(row->names & row->pids); /* a field is the one or the other */
		assert_false((row->varies | row->steady) & ~(EV_IN_ADDR | EV_IN_SIZE));
		/* a counter that is not kept would begin anew in the middle of a trace */
		assert_true(!event_is_counter((uint8_t)k) || row->keep == EV_KEEP_LAST);
		assert_true(!row->base || event_is_counter((uint8_t)k));
		assert_true(!row->thing || row->keep);
	}
}

static void a_thing_is_its_field(void **state)
{
	struct event ev = { .addr = 1ull << 40, .tid = 2, .name = { 3 }, .aux = 4 };

	(void)state;
	ev.kind = MT_EV_SEG_ALLOC;
	assert_int_equal(event_thing(&ev), 1ull << 40);
	ev.kind = EV_COMM;
	assert_int_equal(event_thing(&ev), 2);
	ev.kind = EV_FIRED;
	assert_int_equal(event_thing(&ev), 3);
	ev.kind = EV_LOSS;
	assert_int_equal(event_thing(&ev), 4);
	ev.kind = EV_SELF;
	assert_int_equal(event_thing(&ev), 0);
	ev.aux = event_was_aux(EV_REGION_BITS, 2);
	assert_int_equal(event_region(&ev), EV_REGION_BITS);
	assert_int_equal(event_from(&ev), 2);
}

/* They are in recordings: no bit may move. */
static void packed_fields_are_where_they_were(void **state)
{
	struct ev_was_flow w = { .flags = 0x89abcdef, .marks = 0xa5f00d, .made = 0x42, .category = 7, .shown = 5,
				 .by_backward = 1 };
	struct event ev = { .aux = event_arg_aux(2, 0x81, 3) };

	(void)state;
	assert_int_equal(ev.aux, 0x00038102);
	assert_int_equal(event_arg_index(&ev), 2);
	assert_int_equal(event_arg_flags(&ev), 0x81);
	assert_int_equal(event_arg_item(&ev), 3);

	ev = (struct event){ .size = event_level_size(7, 100), .seq = event_level_seq(0.02) };
	assert_int_equal(ev.size, 0x6400000007);
	assert_int_equal(ev.seq, 20000);
	assert_int_equal(event_level_steps(&ev), 7);
	assert_int_equal(event_level_align(&ev), 100);
	assert_true(event_level_share(&ev) == 0.02);
	ev.seq = EV_LEVEL_BUDGET;
	assert_true(event_level_share(&ev) == 1);

	ev = (struct event){ .ts_ns = 10, .addr = 4 };
	assert_int_equal(event_began_ns(&ev), 6);
	ev.addr = 11;
	assert_int_equal(event_began_ns(&ev), 0);

	event_put_was_flow(&ev, &w);
	assert_true(ev.size == 0xa542f00d89abcdef);
	assert_int_equal(ev.aux, 0x157);
	w = event_was_flow(&ev);
	assert_true(w.flags == 0x89abcdef && w.marks == 0xa5f00d && w.made == 0x42);
	assert_true(w.category == 7 && w.shown == 5 && w.by_backward == 1);
	ev.aux = event_was_aux(EV_REGION_BITS, 2);
	assert_int_equal(ev.aux, 0x2fffff);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_has_its_own_word),
		cmocka_unit_test(records_are_of_the_ring),
		cmocka_unit_test(rows_agree_with_themselves),
		cmocka_unit_test(a_thing_is_its_field),
		cmocka_unit_test(packed_fields_are_where_they_were),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

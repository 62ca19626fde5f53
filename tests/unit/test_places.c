/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Lines of compiled code as operators: what is told of them before, after and never. */
#include <stdio.h>

#include "model/core/places.h"
#include "unit/model_help.h"

#define PID 100u

static uint64_t ts;
static name_id reported_op; /* of the last block that came */

static int keep(void *ctx, const struct tl_event *ev)
{
	(void)ctx;
	if (ev->kind == TL_CREATE)
		reported_op = ev->op;
	return 0;
}

static int setup(void **state)
{
	const struct model_opts opts = { .timeline = keep };

	(void)state;
	ts = 1000;
	return model_begin(&opts);
}

static void alloc_at(const char *place, uint64_t ptr, uint64_t size)
{
	(void)model__handle(m, &(struct event){ .ts_ns = ts++, .kind = MT_EV_ALLOC, .pid = PID, .tid = PID, .addr = ptr,
						.size = size, .dev = MT_DEV_CPU, .name = names__add(names, place) });
}

static void tell(const char *place, const char *op)
{
	(void)model__handle(m, &(struct event){ .ts_ns = ts++, .kind = EV_PLACE, .pid = PID, .name = names__add(names, place),
						.addr = op ? names__add(names, op).v : 0 });
}

static const struct report_op *op_of(const char *name)
{
	const struct report_op *found = NULL;

	report__free(rep);
	rep = NULL;
	assert_int_equal(model__report(m, 100, &rep), 0);
	for (size_t i = 0; i < rep->ops.cnt; i++) {
		assert_true(rep->ops.rows[i].name[0]); /* no row without a name */
		if (strcmp(rep->ops.rows[i].name, name))
			continue;
		assert_null(found); /* nor two of one */
		found = &rep->ops.rows[i];
	}
	assert_int_equal(rep->ops.cnt, rep->ops.total);
	return found;
}

static const char *op_of_block(uint64_t ptr)
{
	for (size_t i = 0; i < rep->peak_blocks.cnt; i++)
		if (rep->peak_blocks.rows[i].ptr == ptr)
			return rep->peak_blocks.rows[i].op;
	return NULL;
}

static void a_name_that_comes_before(void **state)
{
	(void)state;
	tell("place 1", "inductor: a");
	assert_null(op_of("inductor: a")); /* nothing was allocated there */
	alloc_at("place 1", 0x1000, 10);
	assert_string_equal(names__get(names, reported_op), "inductor: a");
	assert_int_equal(op_of("inductor: a")->alloc_bytes, 10);
	assert_int_equal(op_of("inductor: a")->count, 1);
	assert_string_equal(op_of_block(0x1000), "inductor: a");
}

static void a_name_that_comes_later(void **state)
{
	(void)state;
	alloc_at("place 1", 0x1000, 10);
	alloc_at("place 2", 0x2000, 20);
	assert_int_equal(reported_op.v, 0);
	assert_null(op_of("inductor: a"));
	assert_int_equal(rep->ops.none.alloc_bytes, 30); /* not known yet */
	assert_string_equal(op_of_block(0x1000), "");
	tell("place 1", "inductor: a");
	assert_int_equal(op_of("inductor: a")->live, 10);
	assert_int_equal(rep->ops.none.alloc_bytes, 20);
	assert_string_equal(op_of_block(0x1000), "inductor: a");
	alloc_at("place 1", 0x3000, 40);
	assert_int_equal(op_of("inductor: a")->live, 50);
	assert_int_equal(op_of("inductor: a")->at_peak, 50);
}

/* Two lines of one kernel are one operator, whichever is told first; so is an operator that was one before. */
static void lines_of_one_name(void **state)
{
	(void)state;
	alloc_at("place 1", 0x1000, 10);
	alloc_at("place 2", 0x2000, 20);
	tell("place 1", "inductor: a");
	tell("place 2", "inductor: a");
	tell("place 3", "inductor: a");
	alloc_at("place 3", 0x3000, 40);
	alloc_at("place 2", 0x4000, 80);
	assert_int_equal(op_of("inductor: a")->alloc_bytes, 150);
	assert_int_equal(op_of("inductor: a")->alloc_count, 4);
	assert_int_equal(op_of("inductor: a")->at_peak, 150);
	assert_string_equal(op_of_block(0x2000), "inductor: a");
	assert_int_equal(rep->ops.none.alloc_bytes, 0);
	assert_int_equal(rep->modules.ops_cnt, 1);
	assert_int_equal(rep->modules.ops[0].alloc_bytes, 150);
}

static void lines_that_are_no_operator(void **state)
{
	(void)state;
	alloc_at("place 1", 0x1000, 10);
	tell("place 1", NULL);
	tell("place 1", "inductor: a"); /* the first word counts */
	alloc_at("place 1", 0x2000, 20);
	tell("place 2", NULL);
	alloc_at("place 2", 0x3000, 40);
	assert_null(op_of("inductor: a"));
	assert_int_equal(rep->ops.none.alloc_bytes, 70);
	assert_int_equal(rep->ops.none.live_count, 3);
	assert_int_equal(rep->ops.cnt, 0);
	assert_int_equal(rep->modules.ops_cnt, 1);
}

/* An operator that is open is the block's, whatever line it was called from. */
static void an_open_operator(void **state)
{
	const struct event op = { .ts_ns = ts++, .kind = MT_EV_OP, .pid = PID, .tid = PID, .seq = 1,
				  .name = names__add(names, "aten::mm") };

	(void)state;
	tell("place 1", "inductor: a");
	(void)model__handle(m, &op);
	(void)model__handle(m, &(struct event){ .ts_ns = ts++, .kind = MT_EV_ALLOC, .pid = PID, .tid = PID, .addr = 0x1000,
						.size = 10, .dev = MT_DEV_CPU, .depth = 1, .seq = 1,
						.name = names__add(names, "place 1") });
	assert_null(op_of("inductor: a"));
	assert_int_equal(op_of("aten::mm")->alloc_bytes, 10);
}

/* A process that makes up lines takes no room from operators. */
static void more_than_there_is_room_for(void **state)
{
	char text[32];

	(void)state;
	for (unsigned i = 0; i < PLACES_MAX + 100; i++) {
		snprintf(text, sizeof(text), "place %u", i);
		alloc_at(text, 0x1000 + 0x100 * (uint64_t)i, 1);
	}
	assert_null(op_of("place 1"));
	assert_int_equal(rep->ops.none.alloc_bytes, PLACES_MAX + 100);
	assert_int_equal(rep->ops.cnt, 0);
	(void)model__handle(m, &(struct event){ .ts_ns = ts++, .kind = MT_EV_OP, .pid = PID, .tid = PID, .seq = 1,
						.name = names__add(names, "aten::mm") });
	assert_non_null(op_of("aten::mm"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_name_that_comes_before, setup, teardown),
		cmocka_unit_test_setup_teardown(a_name_that_comes_later, setup, teardown),
		cmocka_unit_test_setup_teardown(lines_of_one_name, setup, teardown),
		cmocka_unit_test_setup_teardown(lines_that_are_no_operator, setup, teardown),
		cmocka_unit_test_setup_teardown(an_open_operator, setup, teardown),
		cmocka_unit_test_setup_teardown(more_than_there_is_room_for, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

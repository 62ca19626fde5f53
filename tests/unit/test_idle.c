/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Which operators were called, of libraries whose guards are ours: nobody's takes the room of all. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "live/idle.h"
#include "target/target.h"

#define OPS 10000

static uint8_t guards[OPS][8];
static uint8_t seen[OPS];
static struct plan_guard places[OPS];
static struct site sites[OPS];
static struct plan_lib lib;
static struct plan plan = { .libs = &lib, .libs_cnt = 1, .sites = sites, .guards = places };
static struct idle *idle;
static struct target *self;
static unsigned called;

static int setup(void **state)
{
	(void)state;
	idle = idle__new();
	for (uint32_t i = 0; i < OPS; i++) {
		guards[i][0] = 0;
		places[i] = (struct plan_guard){ (uint64_t)(uintptr_t)guards[i], i };
		sites[i] = (struct site){ .offset = i * 16, .guard = 1 };
	}
	return idle && !target__open(&self, getpid(), NULL) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	idle__free(idle);
	target__free(self);
	return 0;
}

static void on_called(void *ctx, const struct site *s)
{
	(void)ctx;
	(void)s;
	called++;
}

/* A look at a process with `cnt` operators of a library. */
static int look(uint64_t ino, uint32_t cnt)
{
	lib.ino = ino;
	plan.sites_cnt = plan.guards_cnt = cnt;
	for (uint32_t i = 0; i < cnt; i++)
		seen[i] = 0;
	called = 0;
	return idle__look(idle, self, &plan, seen, on_called, NULL);
}

static void call(uint32_t cnt)
{
	for (uint32_t i = 0; i < OPS; i++)
		guards[i][0] = i < cnt;
}

static void what_was_called_is_wanted(void **state)
{
	const uint8_t *wanted;

	(void)state;
	call(3);
	assert_int_equal(look(1, 100), 0);
	assert_int_equal(called, 3);
	assert_int_equal(look(1, 100), 0);
	assert_int_equal(called, 0); /* not for the first time */
	wanted = idle__wanted(idle, &plan);
	assert_true(wanted[2] && !wanted[3]);
	assert_int_equal(idle__cnt(idle, &plan), 97);
	assert_int_equal(look(2, 100), 0); /* another library */
	assert_int_equal(called, 3);
}

static int is_third(void *ctx, uint64_t dev, uint64_t ino)
{
	(void)ctx;
	(void)dev;
	return ino == 3;
}

static void a_library_leaves_room_for_others(void **state)
{
	(void)state;
	call(OPS);
	assert_int_equal(look(1, OPS), -ENOSPC);
	assert_int_equal(called, IDLE_CALLED_MAX / 2);
	assert_int_equal(look(2, OPS), -ENOSPC);
	assert_int_equal(called, IDLE_CALLED_MAX / 4);
	assert_int_equal(look(3, 2000), 0);
	assert_int_equal(look(4, 3101), -ENOSPC);
	idle__prune(idle, is_third, NULL); /* the processes of all others have ended */
	assert_int_equal(look(3, 2000), 0);
	assert_int_equal(called, 0);
	assert_int_equal(look(4, 3101), 0);
	assert_int_equal(called, 3101);
	assert_int_equal(idle__cnt(idle, &plan), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	static const struct CMUnitTest tests[] = { T(what_was_called_is_wanted), T(a_library_leaves_room_for_others) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

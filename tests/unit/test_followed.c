/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Who finds room among the processes that are followed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/quota.h"
#include "cmd/followed.h"

#define PID 5000000 /* above what the kernel gives: nobody's, so each is the first of its tree */

static struct followed f;
static pid_t next_pid;

static int setup(void **state)
{
	(void)state;
	f = (struct followed){ 0 };
	next_pid = PID;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	followed__done(&f);
	return 0;
}

static struct process *add(const struct process *parent, int may_have_others)
{
	struct process *p;
	int r = process__new(&p, &f, next_pid++, parent, may_have_others);

	if (r == -ENOSPC)
		return NULL;
	assert_int_equal(r, 0);
	followed__add(&f, p);
	return p;
}

/* A process that forks all it can. */
static unsigned storm(const struct process *parent, int may_have_others)
{
	unsigned cnt = 1;

	for (struct process *p; (p = add(parent, may_have_others)); cnt++)
		parent = p; /* children of children are of the same tree */
	return cnt;
}

static void a_tree_alone_has_all(void **state)
{
	(void)state;
	assert_int_equal(storm(add(NULL, 0), 0), FOLLOW_PROCS_MAX);
}

static void a_tree_leaves_room_for_others(void **state)
{
	struct process *root, *job;

	(void)state;
	root = add(NULL, 1);
	assert_int_equal(storm(root, 1), FOLLOW_PROCS_MAX / 2);
	assert_int_equal(storm(add(NULL, 1), 1), FOLLOW_PROCS_MAX / 4); /* a second one that does the same */
	job = add(NULL, 1);
	assert_non_null(job);
	for (int i = 0; i < 100; i++)
		assert_non_null(add(job, 1));
	process__free(followed__take(&f, root->index));
	assert_non_null(add(job, 1));
}

/* Two that were named: neither may take what the other needs. */
static void named_trees_share(void **state)
{
	struct process *a, *b;

	(void)state;
	a = add(NULL, 0);
	b = add(NULL, 0);
	assert_in_range(storm(a, 0), FOLLOW_PROCS_MAX / 2 - 1, FOLLOW_PROCS_MAX / 2);
	for (int i = 0; i < 200; i++)
		assert_non_null(add(b, 0));
}

static void parts_of_what_others_leave(void **state)
{
	(void)state;
	assert_true(quota_allows(0, 0, 1, 1));
	assert_false(quota_allows(1, 1, 1, 1));
	assert_true(quota_allows(49, 49, 100, 2));
	assert_false(quota_allows(50, 50, 100, 2));
	assert_true(quota_allows(24, 74, 100, 2));
	assert_false(quota_allows(25, 75, 100, 2));
	assert_false(quota_allows(0, 100, 100, 2));
	assert_true(quota_allows(5, 3, 100, 2)); /* shared with others: counted once */
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	static const struct CMUnitTest tests[] = {
		T(a_tree_alone_has_all), T(a_tree_leaves_room_for_others), T(named_trees_share), T(parts_of_what_others_leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

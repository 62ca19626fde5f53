/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What the tests in the kernel share: a tracer, and probes in the test's own program. */
#ifndef MT_TESTS_SELF_H
#define MT_TESTS_SELF_H

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "plan/plan.h"
#include "trace/trace.h"

static int force_perf, way; /* enum of attach_stats.way; -1: the tracer chooses, and sticks to it */

static inline struct plan_lib self_lib(void)
{
	struct plan_lib lib = { .path = (char *)"self", .fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC) };
	struct stat st;

	assert_true(lib.fd >= 0);
	assert_int_equal(fstat(lib.fd, &st), 0);
	lib.dev = st.st_dev;
	lib.ino = st.st_ino;
	return lib;
}

static inline struct tracer *self_tracer(struct tracer_opts o)
{
	struct err err = { 0 };
	struct tracer *t;

	o.force_perf = force_perf;
	if (tracer__new(&t, &o, &err) < 0)
		fail_msg("tracer: %s (%s)", err.msg, err.hint);
	return t;
}

/* All sites of the plan, in the way that all tests of a run go. */
static inline void self_attach(struct tracer *t, const struct plan *plan)
{
	struct attach_stats st = { 0 };
	struct err err = { 0 };

	if (tracer__attach(t, getpid(), plan, &st, &err) < 0)
		fail_msg("attach: %s", err.msg);
	assert_int_equal(st.attached, plan->sites_cnt);
	if (way < 0)
		way = (int)st.way;
	assert_int_equal(st.way, way);
}

#endif

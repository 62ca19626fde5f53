/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What the tests in the kernel share: a tracer, and probes in the test's own program. */
#ifndef MT_TESTS_SELF_H
#define MT_TESTS_SELF_H

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "plan/plan.h"
#include "trace/calib.h"
#include "trace/selftest.h"
#include "trace/trace.h"

static int force_perf, way; /* enum of attach_stats.way; -1: the tracer chooses, and sticks to it */

/*
 * A tracer tries its probes on a child and times them on itself before it is ready: some forty probes. Perf uprobes the kernel
 * takes away one after the other under one lock, each in 80 to 100 ms (three grace periods of RCU, three of tasks' traces):
 * together four seconds, of which a test's own probes are a tenth. So with force_perf the first tracer of a run tries and
 * times, and the others are told what it found (tests.mk puts these functions before the tracer's); all else each does for
 * itself, with programs and maps of its own. With uprobe_multi, where it takes 0.2 s, and where the tracer chooses, each tries
 * and times, as in memtrace.
 */
static struct {
	struct insn_classes classes;
	struct calib calib;
	int is_known;
} found;

int __real_selftest_run(struct insn_classes *ret, const struct selftest_ops *ops);
int __real_calib_run(struct calib *ret, const struct calib_ops *ops);

int __wrap_selftest_run(struct insn_classes *ret, const struct selftest_ops *ops)
{
	int r = 0;

	if (!found.is_known) {
		r = __real_selftest_run(&found.classes, ops);
		if (r < 0)
			return r;
	}
	*ret = found.classes;
	return r;
}

int __wrap_calib_run(struct calib *ret, const struct calib_ops *ops)
{
	if (!found.is_known) {
		int r = __real_calib_run(&found.calib, ops);

		if (r < 0)
			return r;
		found.is_known = force_perf;
	}
	*ret = found.calib;
	return 0;
}

/* For tests that are about it: the next tracer tries and times for itself. */
static inline void self_forget(void)
{
	found.is_known = 0;
}

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

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * No probe changes what a program computes: every class of instruction that memtrace probes, in pieces of code that show all
 * that can change (user/arch/try.h), probed by the real tracer: by threads at once, with signals, in forked children, millions
 * of times. And the other way round: what the tracer's own trial has found harmful is seen to be so here. Needs root.
 *
 * test_sites [multi|perf|auto]: as test_kernel.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "plan/plan.h"
#include "trace/calib.h"
#include "trace/trace.h"
#include "arch/arch.h"
#include "self.h"

#define SITES_MAX 64
#define INPUTS 8
#define THREADS 3

struct rig {
	struct tracer *t;
	struct plan plan;
	struct plan_lib lib;
	struct site sites[SITES_MAX];
};

/* One for all: handlers of signals and threads look at them. */
static struct try_state in[INPUTS], bare[SITES_MAX][INPUTS];
static uint64_t signals, harmed_by_signals;

static unsigned calls_of(enum insn_class c)
{
	unsigned n = c == INSN_STEPPED || c == INSN_RET ? 20000 : 100000;

	return getenv("MT_EMULATED") ? n / 500 : n;
}

static int is_harmed(size_t site, size_t input)
{
	struct try_state out;

	memset(&out, 0, sizeof(out));
	try_run(&in[input], &out, try_sites[site].code);
	return try_differs(&try_sites[site], &bare[site][input], &out) != 0;
}

static uint64_t count_harmed(size_t site, unsigned calls)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < calls; i++)
		n += (uint64_t)is_harmed(site, i % INPUTS);
	return n;
}

static void rig__init(struct rig *r)
{
	memset(r, 0, sizeof(*r));
	r->lib = self_lib();
	r->t = self_tracer((struct tracer_opts){ .ring_bytes = 1 << 20 });
	r->plan = (struct plan){ .libs = &r->lib, .libs_cnt = 1, .sites = r->sites };
	for (size_t i = 0; i < try_sites_cnt; i++)
		for (size_t k = 0; k < INPUTS; k++)
			try_run(&in[k], &bare[i][k], try_sites[i].code);
}

static void rig__site(struct rig *r, size_t i, int is_ret)
{
	struct site *s = &r->sites[r->plan.sites_cnt++];
	char path[64];

	*s = (struct site){ .prog = is_ret ? MT_PROG_HOST_RET : MT_PROG_OP, .source = SRC_OPS, .is_ret = (uint8_t)is_ret,
			    .insn_class = (uint8_t)try_sites[i].class };
	assert_int_equal(calib_offset_of(try_sites[i].at, &s->offset, path), 0);
}

static const struct insn_class_fact *fact(const struct rig *r, size_t site)
{
	return &tracer__insn_classes(r->t)->of[try_sites[site].class];
}

/* Everything that memtrace would use here, at once: how many pieces. */
static size_t rig__attach_usable(struct rig *r)
{
	size_t cnt = 0;

	for (size_t i = 0; i < try_sites_cnt; i++)
		if (try_sites[i].class == INSN_RETURN && fact(r, i)->is_usable)
			rig__site(r, i, 1);
	for (size_t i = 0; i < try_sites_cnt; i++)
		if (fact(r, i)->is_usable) {
			rig__site(r, i, 0);
			cnt++;
		}
	self_attach(r->t, &r->plan);
	return cnt;
}

static void rig__done(struct rig *r)
{
	tracer__free(r->t);
	close(r->lib.fd);
}

static uint64_t hits(const struct rig *r)
{
	struct trace_counters c;

	tracer__counters(r->t, &c);
	return c.hits[MT_PROG_OP];
}

/* --- tests ----------------------------------------------------------------------------------------- */

static void test_every_class_is_tried(void **state)
{
	const struct insn_classes *c;
	struct rig r;

	(void)state;
	self_forget();
	rig__init(&r);
	c = tracer__insn_classes(r.t);
	assert_true(c->is_tried);
	for (int i = INSN_NOP5; i < INSN_CLASSES; i++) {
		printf("%s: %s, %u ns\n", insn_class_name(i), insn_verdict_text(c->of[i].verdict), c->of[i].hit_ns);
		assert_int_equal(c->of[i].is_usable, c->of[i].verdict == INSN_FINE);
		assert_int_equal(c->of[i].verdict == INSN_UNTRIED, i == INSN_NOP10);
		assert_true(i == INSN_NOP10 || c->of[i].verdict == INSN_NOT_SET || c->of[i].hit_ns >= 100);
	}
	/* On no kernel was harm seen from these. */
	assert_true(c->of[INSN_NOP].is_usable && c->of[INSN_PUSH].is_usable && c->of[INSN_JUMP].is_usable);
	assert_true(c->of[INSN_CALL].is_usable && c->of[INSN_STEPPED].is_usable && c->of[INSN_RET].is_usable);
	assert_true(c->of[INSN_RETURN].is_usable);
	if (!getenv("MT_EMULATED")) /* what choosing is for */
		assert_true(c->of[INSN_STEPPED].hit_ns > 3 * c->of[INSN_PUSH].hit_ns);
	rig__done(&r);
}

struct worker {
	const struct rig *r;
	uint64_t calls, harmed[SITES_MAX];
};

static void *work(void *arg)
{
	struct worker *w = arg;

	for (size_t i = 0; i < try_sites_cnt; i++) {
		unsigned calls = calls_of(try_sites[i].class);

		if (!fact(w->r, i)->is_usable)
			continue;
		w->harmed[i] = count_harmed(i, calls);
		w->calls += calls;
	}
	return NULL;
}

static void on_alarm(int sig)
{
	size_t i = (size_t)(__atomic_fetch_add(&signals, 1, __ATOMIC_RELAXED) % try_sites_cnt);

	(void)sig;
	__atomic_fetch_add(&harmed_by_signals, (uint64_t)is_harmed(i, 0), __ATOMIC_RELAXED);
}

static void set_timer(long us)
{
	struct itimerval t = { { 0, us }, { 0, us } };

	assert_int_equal(setitimer(ITIMER_REAL, &t, NULL), 0);
}

static void expect_unharmed(const struct worker *w)
{
	for (size_t i = 0; i < try_sites_cnt; i++)
		if (w->harmed[i])
			fail_msg("%s: %llu of %u calls harmed", try_sites[i].insn, (unsigned long long)w->harmed[i],
				 calls_of(try_sites[i].class));
}

static void test_threads_and_signals_see_nothing(void **state)
{
	struct worker w[THREADS] = { 0 };
	pthread_t threads[THREADS];
	uint64_t calls = 0, before;
	struct rig r;

	(void)state;
	rig__init(&r);
	assert_true(rig__attach_usable(&r) >= 13);
	before = hits(&r);
	signals = harmed_by_signals = 0;
	assert_true(signal(SIGALRM, on_alarm) != SIG_ERR);
	set_timer(getenv("MT_EMULATED") ? 5000 : 500);
	for (size_t i = 0; i < THREADS; i++) {
		w[i].r = &r;
		assert_int_equal(pthread_create(&threads[i], NULL, work, &w[i]), 0);
	}
	for (size_t i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		calls += w[i].calls;
	}
	set_timer(0);
	for (size_t i = 0; i < THREADS; i++)
		expect_unharmed(&w[i]);
	assert_int_equal(harmed_by_signals, 0);
	assert_true(hits(&r) - before >= calls);
	printf("%llu calls, %llu of signal handlers: none harmed\n", (unsigned long long)calls, (unsigned long long)signals);
	assert_true(signals > (getenv("MT_EMULATED") ? 0 : 10));
	rig__done(&r);
}

/* As a data loader: the parent has run through all sites, then children do, which nobody has attached to. */
static void test_forked_children_see_nothing(void **state)
{
	struct worker *w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct rig r;

	(void)state;
	assert_true(w != MAP_FAILED);
	rig__init(&r);
	rig__attach_usable(&r);
	for (size_t i = 0; i < try_sites_cnt; i++)
		assert_int_equal(count_harmed(i, 20), 0);
	for (int n = 0; n < 3; n++) {
		int status = -1;
		pid_t pid = fork();

		if (!pid) {
			w->r = &r;
			work(w);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		expect_unharmed(w);
		assert_true(w->calls > 0);
	}
	munmap(w, sizeof(*w));
	rig__done(&r);
}

/* What was found to be harmful is: otherwise the trial, or this test, would see ghosts, or nothing. */
static void test_what_is_refused_does_harm(void **state)
{
	struct rig r;
	int cnt = 0;

	(void)state;
	rig__init(&r);
	for (size_t i = 0; i < try_sites_cnt; i++)
		if (fact(&r, i)->verdict == INSN_CHANGES_STACK || fact(&r, i)->verdict == INSN_ENDS_CHILD) {
			rig__site(&r, i, 0);
			cnt++;
		}
	if (cnt)
		self_attach(r.t, &r.plan);
	for (size_t i = 0; cnt && i < try_sites_cnt; i++) {
		uint64_t harmed = fact(&r, i)->is_usable ? 0 : count_harmed(i, 1000);
		int status;
		pid_t pid;

		if (fact(&r, i)->verdict == INSN_CHANGES_STACK)
			assert_true(harmed > 900);
		if (fact(&r, i)->verdict != INSN_ENDS_CHILD)
			continue;
		assert_int_equal(harmed, 0);
		pid = fork();
		if (!pid) {
			signal(SIGSEGV, SIG_DFL); /* cmocka's would go on with the next test */
			_exit((int)count_harmed(i, 1));
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
	}
	printf("%d harmful classes\n", cnt);
	rig__done(&r);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_class_is_tried),
		cmocka_unit_test(test_threads_and_signals_see_nothing),
		cmocka_unit_test(test_forked_children_see_nothing),
		cmocka_unit_test(test_what_is_refused_does_harm),
	};
	const char *mode = argc > 1 ? argv[1] : "";
	int failed = 0;

	if (geteuid()) {
		fprintf(stderr, "%s: needs root\n", argv[0]);
		return 1;
	}
	for (size_t k = 0; k < INPUTS; k++)
		try_state_fill(&in[k], 77 + k * 1000);
	memset(bare, 0, sizeof(bare));
	if (!strcmp(mode, "auto")) {
		way = -1;
		return cmocka_run_group_tests_name("the tracer's choice", tests, NULL, NULL) != 0;
	}
	if (strcmp(mode, "perf"))
		failed = cmocka_run_group_tests_name("uprobe_multi", tests, NULL, NULL);
	force_perf = way = 1;
	if (strcmp(mode, "multi"))
		failed += cmocka_run_group_tests_name("perf uprobes", tests, NULL, NULL);
	return failed != 0;
}

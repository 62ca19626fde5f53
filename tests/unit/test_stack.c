/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* stack: unwinding against libgcc's unwinder on this very program; merging; names; records in, events out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "stack/capture.h"
#include "stack/demangle.h"
#include "stack/intern.h"
#include "stack/merge.h"
#include "stack/modules.h"
#include "stack/unwind.h"
#include "target/target.h"

/* --- unwinding ------------------------------------------------------------------------------------------ */

struct took {
	uint64_t regs[MT_STACK_REGS];
	uint8_t bytes[MT_STACK_RAW_MAX];
	size_t bytes_cnt;
	void *truth[UNWIND_MAX];
	int truth_cnt;
};

/* Registers and stack of the caller, and what libgcc says is open. */
__attribute__((noinline)) static void take(struct took *t)
{
	uint64_t here;

	__asm__ volatile("lea 0(%%rip), %%rax\n\tmov %%rax, 0(%1)\n\tmov %%rsp, 8(%1)\n\tmov %%rbp, 16(%1)\n\t"
			 "mov %%rbx, 24(%1)\n\tmov %%r12, 32(%1)\n\tmov %%r13, 40(%1)\n\tmov %%r14, 48(%1)\n\t"
			 "mov %%r15, 56(%1)\n\tmov %%rsp, %0"
			 : "=&r"(here)
			 : "r"(t->regs)
			 : "rax", "memory");
	t->bytes_cnt = 0;
	/* As the kernel side: up to the end of the page, then page by page, as far as there is a stack. */
	for (size_t len = 4096 - (here & 4095); t->bytes_cnt + len <= sizeof(t->bytes); len = 4096) {
		struct iovec to = { t->bytes + t->bytes_cnt, len }, from = { (void *)(here + t->bytes_cnt), len };

		if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)len)
			break;
		t->bytes_cnt += len;
	}
	t->truth_cnt = backtrace(t->truth, UNWIND_MAX);
}

__attribute__((noinline)) static void deeper(struct took *t, int depth)
{
	volatile char room[200];

	room[0] = (char)depth;
	if (depth)
		deeper(t, depth - 1);
	else
		take(t);
	room[1] = room[0];
}

static int by_callback(const void *a, const void *b)
{
	(void)b;
	deeper(*(struct took *const *)a, 3);
	return 0;
}

static void test_unwind(void **state)
{
	struct took *t = calloc(1, sizeof(*t)), *two[2] = { t, t };
	struct code_modules *m = code_modules__new();
	uint64_t pcs[UNWIND_MAX];
	struct target *self;
	struct codemap *map;
	struct unwind u;
	size_t n, skip;
	int cut;

	(void)state;
	qsort(two, 2, sizeof(two[0]), by_callback);
	assert_int_equal(target__open(&self, getpid(), NULL), 0);
	map = codemap__new(m, self);
	u = (struct unwind){ .bytes = t->bytes, .bytes_cnt = t->bytes_cnt, .row = codemap__row, .ctx = map };
	memcpy(u.regs, t->regs, sizeof(u.regs));
	n = unwind(&u, pcs, UNWIND_MAX, &cut);
	assert_false(cut);
	assert_true(t->truth_cnt > 8);
	skip = (size_t)t->truth_cnt - n; /* ASan's own backtrace() is one more */
	assert_true(skip <= 1);
	for (size_t i = 1; i < n; i++)
		assert_int_equal(pcs[i] + 1, (uintptr_t)t->truth[i + skip]);
	/* Whatever is missing, it is a beginning of that, and says that it is cut. */
	for (size_t len = 0; len < t->bytes_cnt; len += 97) {
		uint64_t some[UNWIND_MAX];
		size_t k;

		u.bytes_cnt = len;
		k = unwind(&u, some, UNWIND_MAX, &cut);
		assert_true(k && k <= n && (k == n || cut));
		assert_memory_equal(some, pcs, k * sizeof(some[0]));
	}
	u.bytes_cnt = t->bytes_cnt;
	assert_int_equal(unwind(&u, pcs, 4, &cut), 4);
	assert_true(cut);
	codemap__free(map);
	target__free(self);
	code_modules__free(m);
	free(t);
}

static struct took *in_handler;

static void on_signal(int sig)
{
	(void)sig;
	take(in_handler);
}

/* What a signal interrupted has made no call there: its address is that of the instruction, not one before it. */
static void test_unwind_out_of_a_handler(void **state)
{
	struct took *t = calloc(1, sizeof(*t));
	struct code_modules *m = code_modules__new();
	struct sigaction sa = { .sa_handler = on_signal }, old;
	size_t n, skip, interrupted = 0;
	uint64_t pcs[UNWIND_MAX];
	struct target *self;
	struct codemap *map;
	struct unwind u;
	int cut;

	(void)state;
	in_handler = t;
	assert_int_equal(sigaction(SIGUSR1, &sa, &old), 0);
	raise(SIGUSR1);
	sigaction(SIGUSR1, &old, NULL);
	assert_int_equal(target__open(&self, getpid(), NULL), 0);
	map = codemap__new(m, self);
	u = (struct unwind){ .bytes = t->bytes, .bytes_cnt = t->bytes_cnt, .row = codemap__row, .ctx = map };
	memcpy(u.regs, t->regs, sizeof(u.regs));
	n = unwind(&u, pcs, UNWIND_MAX, &cut);
	assert_false(cut);
	skip = (size_t)t->truth_cnt - n;
	assert_true(n > 5 && skip <= 1);
	for (size_t i = 1; i < n; i++) {
		assert_true(pcs[i] == (uintptr_t)t->truth[i + skip] || pcs[i] + 1 == (uintptr_t)t->truth[i + skip]);
		interrupted = pcs[i] == (uintptr_t)t->truth[i + skip] ? 10 * interrupted + i : interrupted;
	}
	assert_int_equal(interrupted, 3); /* take, the handler, what the kernel has it return to, then that one alone */
	codemap__free(map);
	target__free(self);
	code_modules__free(m);
	free(t);
}

static void test_places(void **state)
{
	struct code_modules *m = code_modules__new();
	struct code_place p;
	struct target *self;
	struct codemap *map;

	(void)state;
	assert_int_equal(target__open(&self, getpid(), NULL), 0);
	map = codemap__new(m, self);
	assert_int_equal(codemap__place(map, (uintptr_t)&test_unwind + 5, &p), 0);
	assert_string_equal(p.symbol, "test_unwind");
	assert_string_equal(p.file, "test_stack");
	assert_int_equal(p.offset, 5);
	assert_int_equal(codemap__place(map, 0, &p), -ENOENT);
	assert_int_equal(codemap__place(map, (uintptr_t)&p, &p), -ENOENT);
	codemap__free(map);
	target__free(self);
	code_modules__free(m);
}

/* --- names ------------------------------------------------------------------------------------------------ */

static void check_name(const char *mangled, const char *want)
{
	char buf[DEMANGLE_MAX];

	demangle(buf, mangled);
	assert_string_equal(buf, want);
}

static void test_demangle(void **state)
{
	char long_name[6000] = "_ZN", buf[DEMANGLE_MAX];

	(void)state;
	check_name("malloc", "malloc");
	check_name("_ZN2at4_ops5addmm4callERKNS_6TensorES4_S4_RKN3c106ScalarES8_", "at::_ops::addmm::call");
	check_name("_ZNK3c106Scalar2toIdEET_v", "double c10::Scalar::to<double>");
	check_name("_ZN12_GLOBAL__N_13fooEv", "(anonymous namespace)::foo");
	check_name("_Znot really", "_Znot really");
	check_name("_Z", "_Z");
	check_name("", "");
	/* Substitutions that double: 2^40 characters if they were all written. */
	strcpy(long_name, "_Z1fI1AIS_S_E");
	for (int i = 0; i < 40; i++) {
		char part[32];

		snprintf(part, sizeof(part), "1AIS%c_S%c_E", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i % 36],
			 "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i % 36]);
		strcat(long_name, part);
	}
	strcat(long_name, "Evv");
	demangle(buf, long_name);
	assert_true(strlen(buf) < DEMANGLE_MAX);
	memset(long_name, 'a', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	demangle(buf, long_name);
	assert_int_equal(strlen(buf), DEMANGLE_MAX - 1);
}

/* --- merging ---------------------------------------------------------------------------------------------- */

enum { CUT = 99, EVAL = 50, CALL = 51 };

static void check_merge(const uint32_t *native, size_t native_cnt, int native_cut, const uint32_t *python,
			size_t python_cnt, int python_cut, const uint32_t *want, size_t want_cnt)
{
	struct frames_in n = { native, native_cnt, native_cut }, p = { python, python_cnt, python_cut };
	uint32_t got[MERGE_MAX];

	assert_int_equal(merge(&n, &p, CUT, got), want_cnt);
	assert_memory_equal(got, want, want_cnt * sizeof(*want));
}

#define A(...) ((const uint32_t[]){ __VA_ARGS__ }), sizeof((const uint32_t[]){ __VA_ARGS__ }) / 4
#define E (EVAL | LIST_EVAL | LIST_PYTHON)
#define C (CALL | LIST_PYTHON)
#define ENTRY LIST_PYTHON

static void test_merge(void **state)
{
	(void)state;
	/* One eval loop runs two Python frames; the one outside of it a third. main() and _start go. */
	check_merge(A(1, 2, C, E, C, 3, C, E, C, 4, 5), 0, A(11, 12 | ENTRY, 13 | ENTRY), 0, A(1, 2, 11, 12, 3, 13));
	/* A thread without Python. */
	check_merge(A(1, C, 2), 0, NULL, 0, 0, A(1, CALL, 2));
	check_merge(A(1, 2), 1, NULL, 0, 0, A(1, 2, CUT));
	/* Python alone. */
	check_merge(NULL, 0, 0, A(11, 12 | ENTRY), 0, A(11, 12));
	check_merge(NULL, 0, 0, A(11, 12), 1, A(11, 12, CUT));
	/* The native stack ends early: what Python knows goes on, after a mark. */
	check_merge(A(1, E, 2), 1, A(11 | ENTRY, 12 | ENTRY, 13 | ENTRY), 0, A(1, 11, 2, CUT, 12, 13));
	/* All of Python is there already: nothing is missing. */
	check_merge(A(1, E, 2), 1, A(11 | ENTRY), 0, A(1, 11));
	/* More eval loops than Python says: it is right about its own. */
	check_merge(A(1, E, 2, E, 3), 0, A(11 | ENTRY), 0, A(1, 11));
}

/* --- numbers ----------------------------------------------------------------------------------------------- */

static void test_intern(void **state)
{
	struct intern *n = intern__new();
	uint32_t words[3] = { 1, 2, 3 }, first, list;
	const uint32_t *back;
	int is_new, is_cut;
	size_t cnt;

	(void)state;
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 1; i <= 5000; i++) {
			struct ev_frame f = { .function = { i }, .line = i % 7, .kind = EV_FRAME_PYTHON };

			assert_int_equal(intern__frame(n, &f), i);
			assert_int_equal(intern__node(n, i / 2, i, &is_new), i);
			assert_int_equal(is_new, !round);
			words[0] = i;
			first = intern__list(n, words, 3, 0);
			assert_int_equal(first, 2 * i - 1);
			list = intern__list(n, words, 3, 1);
			assert_int_equal(list, 2 * i);
			intern__keep_pair(n, i, i + 1, i * 3);
		}
	}
	assert_int_equal(intern__frame_at(n, 4711)->function.v, 4711);
	back = intern__list_at(n, 2 * 77, &cnt, &is_cut);
	assert_int_equal(cnt, 3);
	assert_true(is_cut);
	assert_int_equal(back[0], 77);
	assert_int_equal(intern__pair(n, 10, 11), 30);
	assert_int_equal(intern__pair(n, 11, 10), 0);
	intern__free(n);
}

/* A process with stacks without end; others have room after it, and one of the same number after it has ended. */
static void test_intern_shares(void **state)
{
	struct intern *n = intern__new();
	uint32_t got[3] = { 0 }, nodes[3] = { 0 };
	int is_new;

	(void)state;
	for (uint32_t who = 1; who <= 3; who++) {
		intern__by(n, who < 3 ? who : 1);
		for (uint32_t i = 1; i <= (who == 2 ? 10000 : EV_STACKS_MAX); i++) {
			struct ev_frame f = { .function = { i }, .line = who, .kind = EV_FRAME_PYTHON };

			got[who - 1] += !!intern__frame(n, &f);
			nodes[who - 1] += !!intern__node(n, who, i, &is_new);
		}
		if (who == 2)
			intern__drop_owner(n, 1);
		assert_int_equal(intern__next_over(n), who == 2 ? 0 : 1);
		assert_int_equal(intern__next_over(n), 0);
	}
	assert_in_range(got[0], FRAMES_MAX / 9, FRAMES_MAX / 8);
	assert_in_range(nodes[0], EV_STACKS_MAX / 9, EV_STACKS_MAX / 8);
	assert_int_equal(got[1], 10000);
	assert_int_equal(nodes[1], 10000);
	assert_true(got[2] > FRAMES_MAX / 12 && got[2] < got[0]);
	intern__by(n, 0);
	assert_true(intern__frame(n, &(struct ev_frame){ .function = { 7 }, .line = 99 }) > 0);
	intern__free(n);
}

static void test_intern_is_full(void **state)
{
	struct intern *n = intern__new();
	uint32_t got = 1, node = 1;
	int is_new;

	(void)state;
	for (uint32_t i = 1; i <= EV_STACKS_MAX + 1; i++) {
		got = intern__frame(n, &(struct ev_frame){ .line = i });
		node = intern__node(n, 0, i, &is_new);
		assert_true((got != 0) == (i <= FRAMES_MAX));
		assert_true((node != 0) == (i <= EV_STACKS_MAX));
	}
	assert_int_equal(intern__frame(n, &(struct ev_frame){ .line = 5 }), 5); /* what is there stays */
	intern__free(n);
}

/* --- records ----------------------------------------------------------------------------------------------- */

struct reported {
	struct event ev[64];
	size_t cnt;
};

static int keep(void *ctx, const struct event *ev)
{
	struct reported *t = ctx;

	assert_true(t->cnt < 64);
	t->ev[t->cnt++] = *ev;
	return 0;
}

static int no_python(void *ctx, pid_t pid, const struct mt_py_proc *how)
{
	(void)ctx;
	(void)pid;
	(void)how;
	return 0;
}

static size_t py_record(struct mt_rec_py *r, uint64_t hash, unsigned cnt)
{
	*r = (struct mt_rec_py){ .hdr = { .kind = MT_EV_STACK_PY, .pid = (uint32_t)getpid() }, .hash = hash };
	r->frames_cnt = cnt;
	for (unsigned i = 0; i < cnt && i < MT_PY_FRAMES_MAX; i++)
		r->frames[i].code = 0x7f0000001000 + 16 * i;
	return offsetof(struct mt_rec_py, frames) + cnt * sizeof(r->frames[0]);
}

static void test_capture(void **state)
{
	struct names *names = names__new();
	struct capture *c = capture__new(&(struct capture_env){ .names = names, .python = no_python });
	struct mt_rec_mem use = { .hdr = { .kind = MT_EV_STACK, .dev = MT_DEV_CPU, .pid = (uint32_t)getpid(), .tid = 7 },
				  .addr = 0x5000, .size = 42 };
	struct mt_rec_raw *raw = calloc(1, sizeof(*raw));
	struct took *t = calloc(1, sizeof(*t));
	struct reported reported = { 0 };
	struct mt_rec_py py;
	struct event ev;
	size_t len;

	(void)state;
	capture__begin(c, getpid());
	/* The use may come out of its ring before the frames: both are known when it is its turn. */
	assert_int_equal(capture__record(c, &use, sizeof(use), &ev), 1);
	len = py_record(&py, 42, 3);
	assert_true(capture__wants(&py, len));
	assert_int_equal(capture__record(c, &py, len, &ev), 0);
	assert_int_equal(capture__record(c, &use, sizeof(use), &ev), 1);
	assert_int_equal(capture__resolve(c, &ev, keep, &reported), 1);
	assert_int_equal(reported.cnt, 3); /* outermost first */
	assert_int_equal(reported.ev[0].size, 0);
	assert_string_equal(names__get(names, reported.ev[0].name), "<python 0x7f0000001020>");
	assert_int_equal(reported.ev[2].seq, ev.size);
	assert_int_equal(reported.ev[2].size, reported.ev[1].seq);
	assert_int_equal(ev.addr, 0x5000);
	/* Told once. */
	assert_int_equal(capture__record(c, &use, sizeof(use), &ev), 1);
	assert_int_equal(capture__resolve(c, &ev, keep, &reported), 1);
	assert_int_equal(reported.cnt, 3);
	/* The same of an allocation that was caught: another kind. */
	use.hdr.flags = MT_STACK_F_CAUGHT;
	assert_int_equal(capture__record(c, &use, sizeof(use), &ev), 1);
	assert_int_equal(ev.kind, EV_CAUGHT);
	assert_int_equal(capture__resolve(c, &ev, keep, &reported), 1);
	assert_int_equal(ev.size, reported.ev[2].seq);
	assert_int_equal(reported.cnt, 3);
	use.hdr.flags = 0;
	/* Frames that never came. */
	use.size = 43;
	assert_int_equal(capture__record(c, &use, sizeof(use), &ev), 1);
	assert_int_equal(capture__resolve(c, &ev, keep, &reported), 0);
	assert_int_equal(capture__lost_cnt(c), 1);
	/* A native stack: this program's. */
	deeper(t, 2);
	*raw = (struct mt_rec_raw){ .hdr = { .kind = MT_EV_STACK_RAW, .pid = (uint32_t)getpid() }, .addr = 0x6000,
				    .bytes_cnt = t->bytes_cnt };
	memcpy(raw->regs, t->regs, sizeof(t->regs));
	memcpy(raw->bytes, t->bytes, sizeof(t->bytes));
	assert_int_equal(capture__record(c, raw, sizeof(*raw), &ev), 1);
	assert_int_equal(capture__resolve(c, &ev, keep, &reported), 1);
	assert_string_equal(names__get(names, reported.ev[reported.cnt - 1].name), "take");
	assert_string_equal(names__get(names, reported.ev[reported.cnt - 2].name), "deeper");
	assert_int_equal(reported.ev[reported.cnt - 1].flags, EV_FRAME_NATIVE);
	assert_int_equal(capture__lost_cnt(c), 1);
	/* What is not as it should be. */
	assert_int_equal(capture__record(c, raw, sizeof(*raw) - 1, &ev), 0);
	raw->bytes_cnt = sizeof(raw->bytes) + 1;
	assert_int_equal(capture__record(c, raw, sizeof(*raw), &ev), 0);
	assert_int_equal(capture__record(c, &use, sizeof(use) - 8, &ev), 0);
	assert_int_equal(capture__record(c, &py, len - 1, &ev), 0);
	py.frames_cnt = 65;
	assert_int_equal(capture__record(c, &py, sizeof(py), &ev), 0);
	assert_int_equal(capture__record(c, &py, sizeof(struct mt_hdr), &ev), 0);
	assert_int_equal(capture__bad_cnt(c), 6);
	capture__end(c, getpid());
	capture__free(c);
	names__free(names);
	free(raw);
	free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unwind),
		cmocka_unit_test(test_unwind_out_of_a_handler),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_demangle),
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_intern),
		cmocka_unit_test(test_intern_shares),
		cmocka_unit_test(test_intern_is_full),
		cmocka_unit_test(test_capture),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

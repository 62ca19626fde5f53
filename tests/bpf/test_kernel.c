/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * BPF programs in the kernel: probes on functions of this very program, through the real tracer, rings
 * and decoder, in both ways of attaching. Needs root. Every test says exactly which events must come.
 *
 * test_kernel [multi|perf|auto [PATTERN]]: both ways; one of them; or the one that the tracer chooses on this
 * kernel, named in the last line ("way: multi"). PATTERN: those tests alone ("test_*ring*").
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <bpf/bpf.h>

#include "base/err.h"
#include "memtrace/shared.h"
#include "event/decode.h"
#include "event/packed.h"
#include "memtrace.skel.h"
#include "plan/plan.h"
#include "trace/cookies.h"
#include "trace/taps.h"
#include "trace/trace.h"
#include "self.h"

#define NOINLINE __attribute__((noinline, noclone, used))
#define EVENTS_MAX 400000
#define OP_A 1
#define OP_B 2

/* --- what is probed ------------------------------------------------------------------------------ */

static volatile uint64_t sink;

NOINLINE void fw_new(void *self, void *ptr, size_t size) { sink += (uintptr_t)self + (uintptr_t)ptr + size; }
NOINLINE void fw_delete(void *self, void *ptr) { sink += (uintptr_t)self + (uintptr_t)ptr; }
NOINLINE void begin(const char *name) { sink += (uintptr_t)name; }
NOINLINE void end(void) { sink++; }
NOINLINE void region_begin(void *sret, void *name) { sink += (uintptr_t)sret + (uintptr_t)name; }
NOINLINE void region_end(void *record) { sink += (uintptr_t)record; }
NOINLINE void probe_args(uint64_t a, uint64_t b, uint64_t *c, uint64_t d) { sink += a + b + *c + d; }
NOINLINE void tag(void *ptr, const char *name) { sink += (uintptr_t)ptr + (uintptr_t)name; }

NOINLINE void fw_usage(void *ptr, int64_t size, uint64_t allocated, uint64_t reserved, uint32_t device)
{
	sink += (uintptr_t)ptr + (uint64_t)size + allocated + reserved + device;
}
NOINLINE void fw_usage_oom(int64_t size, uint64_t allocated, uint64_t reserved, uint32_t device)
{
	sink += (uint64_t)size + allocated + reserved + device;
}
/* A driver under a runtime: (void **out, size_t size) and (void *ptr); sizes over 1000 cannot be had. */
NOINLINE int driver_alloc(void **out, size_t size)
{
	*out = (void *)(0x7000 + size);
	sink += size; /* or the compiler drops a call whose result nobody looks at */
	return size > 1000 ? 2 : 0;
}
NOINLINE int runtime_alloc(void **out, size_t size)
{
	int r = driver_alloc(out, size);

	sink++;
	return r;
}
NOINLINE int runtime_free(void *ptr)
{
	sink += (uintptr_t)ptr;
	return ptr == (void *)0xbad;
}
NOINLINE int runtime_device(int dev)
{
	sink += (uint64_t)dev;
	return 0;
}
static uint16_t semaphore __attribute__((section(".data.semaphore"), used)) = 0;

/* Deep code that is no op: a closed op must not be taken for open in it. */
NOINLINE void deep(int n, void *ptr)
{
	volatile char hole[256];

	hole[0] = (char)n;
	if (n)
		deep(n - 1, ptr);
	else
		fw_new(NULL, ptr, 7);
	sink += (uint64_t)hole[0];
}

NOINLINE void op_b(void *ptr)
{
	volatile char frame[64];

	frame[0] = 1;
	fw_new(NULL, ptr, 100);
	sink += (uint64_t)frame[0];
}

/* As Engine::evaluate_function, of a node in which memory is asked for by no operator. */
NOINLINE void node_eval(void *engine, void *graph, void *node)
{
	volatile char frame[64];

	frame[0] = 1;
	fw_new(NULL, (void *)0x6000, 50);
	sink += (uintptr_t)engine + (uintptr_t)graph + (uintptr_t)node + (uint64_t)frame[0];
}

NOINLINE void op_a(void *ptr, int inner)
{
	volatile char frame[128];

	frame[0] = 1;
	if (inner)
		op_b(ptr);
	fw_new(NULL, (char *)ptr + 64, 200);
	sink += (uint64_t)frame[0];
}

/* As an operator of (Tensor const &, optional<Tensor> const &, ArrayRef<Tensor>), and as AccumulateGrad::apply. */
NOINLINE void flow_op(void *a, void *b, void *items, uint64_t cnt)
{
	sink += (uintptr_t)a + (uintptr_t)b + (uintptr_t)items + cnt;
}
NOINLINE void flow_acc(void *ret, void *self, void *in) { sink += (uintptr_t)ret + (uintptr_t)self + (uintptr_t)in; }

/* As a std::function's _M_invoke(std::_Any_data const &, std::vector<IValue> &), with an operator inside. */
NOINLINE void flow_boxed(const void *functor, const void *stack, void *inner)
{
	static uint64_t none[2];
	volatile char frame[64];

	frame[0] = 1;
	if (inner)
		flow_op(inner, none, NULL, 0);
	sink += (uintptr_t)functor + (uintptr_t)stack + (uint64_t)frame[0];
}

/* As Engine::evaluate_function(this, graph, node, …). */
NOINLINE void flow_node(void *self, void *graph, void *node) { sink += (uintptr_t)self + (uintptr_t)graph + (uintptr_t)node; }

/* An operator that calls one with the first tensor as its second. */
NOINLINE void flow_outer(void *a, void *b, void *items, uint64_t cnt)
{
	volatile char frame[64];

	frame[0] = 1;
	flow_op(a, b, items, cnt);
	sink += (uint64_t)frame[0];
}

/* An operator with more arguments than registers: its tensors lie on the stack. */
NOINLINE void flow_many(int a, int b, int c, int d, int e, int f, void *g, void *h)
{
	sink += (uint64_t)(a + b + c + d + e + f) + (uintptr_t)g + (uintptr_t)h;
}

/* A realloc that takes its time, in the middle of which is inside_ns; sizes over 1000 cannot be had. */
static uint64_t inside_ns;
NOINLINE void *host_realloc(void *ptr, size_t size)
{
	struct timespec ts, pause = { .tv_nsec = 1000000 };

	sink += (uintptr_t)ptr;
	nanosleep(&pause, NULL);
	clock_gettime(CLOCK_MONOTONIC, &ts);
	inside_ns = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
	nanosleep(&pause, NULL);
	return size && size <= 1000 ? (void *)(0x9000 + size) : NULL;
}

static jmp_buf out;
NOINLINE void op_jumps(void) { longjmp(out, 1); }

/* --- harness ------------------------------------------------------------------------------------- */

struct rig {
	struct tracer *t;
	struct names *names;
	struct decode *d;
	struct plan plan;
	struct plan_lib lib;
	struct site sites[32];
	struct mt_usdt_spec specs[16];
	struct mt_seg_spec seg_specs[16];
	struct event *ev;
	size_t cnt;
	struct mt_rec_raw *raw; /* the last one */
	struct mt_rec_py py;	/* the last one */
	size_t raws, pys;
};

static unsigned stacks; /* enum mt_stacks, of the next rig; it is the rig's then */
static uint64_t stack_size, stack_rate, min_size; /* the same */

static uint64_t file_offset(const void *fn)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	uint64_t ret = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		unsigned long s, e, off;

		if (sscanf(line, "%lx-%lx %*s %lx", &s, &e, &off) == 3 && (uintptr_t)fn >= s && (uintptr_t)fn < e)
			ret = (uintptr_t)fn - s + off;
	}
	fclose(f);
	assert_int_not_equal(ret, 0);
	return ret;
}

static void rig__init(struct rig *r, uint64_t ring_bytes, int kernel)
{
	memset(r, 0, sizeof(*r));
	r->lib = self_lib();
	r->names = names__new();
	r->d = decode__new(r->names);
	r->ev = calloc(EVENTS_MAX, sizeof(*r->ev));
	assert_non_null(r->ev);
	r->t = self_tracer((struct tracer_opts){ .ring_bytes = ring_bytes, .kernel = kernel, .stacks = stacks,
						 .stack_size = stack_size, .stack_rate = stack_rate, .min_size = min_size });
	r->plan = (struct plan){ .libs = &r->lib, .libs_cnt = 1, .sites = r->sites, .specs = r->specs,
				 .seg_specs = r->seg_specs };
	assert_int_equal(names__add(r->names, "op_a").v, OP_A);
	assert_int_equal(names__add(r->names, "op_b").v, OP_B);
}

static void rig__site(struct rig *r, const void *fn, enum mt_prog prog, uint64_t cookie)
{
	r->sites[r->plan.sites_cnt++] = (struct site){ .prog = prog, .offset = file_offset(fn), .cookie = cookie,
						       .source = SRC_OPS, .insn_class = INSN_STEPPED };
}

static void rig__usdt(struct rig *r, const void *fn, struct mt_usdt_spec spec)
{
	r->specs[r->plan.specs_cnt] = spec;
	rig__site(r, fn, MT_PROG_USDT, r->plan.specs_cnt++);
}

/* Returns before entries, as a plan has them. */
static void rig__segs(struct rig *r, const void *const *fns, const struct mt_seg_spec *specs, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		r->seg_specs[i] = specs[i];
		rig__site(r, fns[i], MT_PROG_SEG_RET, i);
		r->sites[r->plan.sites_cnt - 1].is_ret = 1;
	}
	for (size_t i = 0; i < cnt; i++)
		rig__site(r, fns[i], MT_PROG_SEG_ENTER, i);
	r->plan.seg_specs_cnt = cnt;
}

/* Stacks, kept as they come; that one was told is an event. */
static int rig__stack(struct rig *r, const void *rec, size_t len)
{
	const struct mt_hdr *h = rec;
	const struct mt_rec_mem *m = rec;

	if (h->kind != MT_EV_STACK && h->kind != MT_EV_STACK_RAW && h->kind != MT_EV_STACK_PY)
		return 0;
	if (h->kind == MT_EV_STACK_PY) {
		memcpy(&r->py, rec, len);
		assert_int_equal(len, offsetof(struct mt_rec_py, frames) + r->py.frames_cnt * sizeof(r->py.frames[0]));
		r->pys++;
		return 1;
	}
	if (h->kind == MT_EV_STACK_RAW) {
		assert_int_equal(len, sizeof(*r->raw));
		r->raw = r->raw ? r->raw : malloc(sizeof(*r->raw));
		memcpy(r->raw, rec, len);
		r->raws++;
	}
	r->ev[r->cnt++] = (struct event){ .ts_ns = h->ts_ns, .kind = h->kind, .pid = h->pid, .tid = h->tid, .addr = m->addr,
					  .size = m->size };
	return 1;
}

static int rig__record(void *ctx, const void *rec, size_t len)
{
	struct rig *r = ctx;
	int x;

	assert_true(r->cnt < EVENTS_MAX);
	if (rig__stack(r, rec, len))
		return 0;
	x = decode__record(r->d, rec, len, &r->ev[r->cnt]);
	assert_true(x >= 0);
	r->cnt += (size_t)x;
	for (size_t i = 0, n = x ? decode__args_cnt(rec, len) : 0; i < n; i++) {
		assert_true(r->cnt < EVENTS_MAX);
		decode__arg(rec, i, &r->ev[r->cnt - 1 - i], &r->ev[r->cnt]);
		r->cnt++;
	}
	return 0;
}

static int by_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->ts_ns != y->ts_ns)
		return x->ts_ns < y->ts_ns ? -1 : 1;
	if (x->kind != EV_ARG || y->kind != EV_ARG)
		return (x->kind == EV_ARG) - (y->kind == EV_ARG);
	return event_arg_index(x) - event_arg_index(y) ?: event_arg_item(x) - event_arg_item(y);
}

static void rig__collected(struct rig *r)
{
	qsort(r->ev, r->cnt, sizeof(*r->ev), by_time);
	for (size_t i = 0; i < r->cnt; i++)
		decode__resolve(r->d, &r->ev[i]);
}

static void rig__collect(struct rig *r)
{
	struct drained d;

	assert_true(tracer__drain(r->t, UINT64_MAX, rig__record, r, &d) >= 0);
	rig__collected(r);
}

static uint64_t rig__loss(const struct rig *r, enum mt_loss l)
{
	struct trace_counters c;

	tracer__counters(r->t, &c);
	return c.loss[l];
}

/* Each event that was not told is a failure, and says why it was not. */
static void rig__lost_only(const struct rig *r, unsigned what)
{
	for (unsigned l = 0; l < MT_LOSS_MAX; l++)
		if (l != what && rig__loss(r, l))
			fail_msg("%u events were lost: %s", (unsigned)rig__loss(r, l), loss_name(l));
}

static void rig__lost_nothing(const struct rig *r)
{
	rig__lost_only(r, MT_LOSS_MAX);
}

/* Programs are interrupted by other threads of their CPU. Where debugfs does not say what is chosen: if nothing else can be. */
static int kernel_preempts(void)
{
	FILE *f = fopen("/sys/kernel/debug/sched/preempt", "re");
	struct utsname u = { 0 };
	char text[64] = "";

	if (f) {
		(void)fread(text, 1, sizeof(text) - 1, f);
		fclose(f);
		return !strstr(text, "(none)") && !strstr(text, "(voluntary)");
	}
	(void)uname(&u);
	return strstr(u.version, "PREEMPT") && !strstr(u.version, "PREEMPT_DYNAMIC");
}

/*
 * Events that the kernel had no state for: while a thread asks for its own for the first time and is interrupted by another
 * one of its CPU, that one gets none (kernel/bpf/bpf_task_storage.c: bpf_task_storage_trylock(), 6.12). They are counted;
 * where programs are not interrupted there are none.
 */
static uint64_t rig__without_state(const struct rig *r)
{
	uint64_t cnt = rig__loss(r, MT_LOSS_THREAD_STATE);

	if (cnt && kernel_preempts())
		print_message("%u events found no state for their thread, as this kernel preempts programs\n", (unsigned)cnt);
	else
		assert_int_equal(cnt, 0);
	return cnt;
}

static void rig__done(struct rig *r)
{
	tracer__free(r->t);
	close(r->lib.fd);
	decode__free(r->d);
	names__free(r->names);
	free(r->raw);
	free(r->ev);
	stacks = 0;
	min_size = 0;
}

static const char *name_of(const struct rig *r, size_t i)
{
	return names__get(r->names, r->ev[i].name);
}

/* Kinds of all events, in order, ended by 0. */
static void expect_kinds(const struct rig *r, ...)
{
	va_list ap;
	size_t i = 0;
	int k;

	va_start(ap, r);
	while ((k = va_arg(ap, int))) {
		if (i >= r->cnt || r->ev[i].kind != k)
			fail_msg("event %zu of %zu: kind %d, expected %d", i, r->cnt,
				 i < r->cnt ? r->ev[i].kind : -1, k);
		i++;
	}
	va_end(ap);
	for (size_t more = i; more < r->cnt; more++)
		print_error("one more: kind %d of pid %u, addr %#llx size %llu depth %u\n", r->ev[more].kind, r->ev[more].pid,
			    (unsigned long long)r->ev[more].addr, (unsigned long long)r->ev[more].size, r->ev[more].depth);
	assert_int_equal(i, r->cnt);
}

/* Is there a breakpoint on the function's first byte? */
static int is_probed(const void *fn)
{
	return *(const volatile uint8_t *)fn == 0xcc;
}

/* --- tests ----------------------------------------------------------------------------------------- */

static void rig__ops(struct rig *r)
{
	rig__init(r, 0, 0);
	rig__site(r, op_a, MT_PROG_OP, OP_A);
	rig__site(r, op_b, MT_PROG_OP, OP_B);
	rig__site(r, fw_new, MT_PROG_FW_NEW, 0);
	rig__site(r, fw_delete, MT_PROG_FW_DELETE, 0);
	self_attach(r->t, &r->plan);
}

static void test_nesting(void **state)
{
	struct rig r;

	(void)state;
	rig__ops(&r);
	op_a((void *)0x1000, 1);
	fw_delete(NULL, (void *)0x1000);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_OP, MT_EV_OP, MT_EV_ALLOC, MT_EV_ALLOC, MT_EV_FREE, 0);
	assert_string_equal(name_of(&r, 0), "op_a");
	assert_string_equal(name_of(&r, 1), "op_b");
	assert_int_equal(r.ev[0].depth, 0);
	assert_int_equal(r.ev[1].depth, 1);
	assert_int_equal(r.ev[2].depth, 2); /* inside op_b */
	assert_int_equal(r.ev[2].seq, r.ev[1].seq);
	assert_int_equal(r.ev[2].addr, 0x1000);
	assert_int_equal(r.ev[2].size, 100);
	assert_int_equal(r.ev[3].depth, 1); /* back in op_a */
	assert_int_equal(r.ev[3].seq, r.ev[0].seq);
	assert_int_equal(r.ev[4].depth, 0); /* outside */
	assert_int_equal(r.ev[4].seq, 0);
	assert_int_equal(r.ev[0].pid, getpid());
	rig__done(&r);
}

static void test_closed_op_is_not_open_in_deeper_code(void **state)
{
	struct rig r;

	(void)state;
	rig__ops(&r);
	op_a((void *)0x1000, 0);
	deep(20, (void *)0x2000);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_OP, MT_EV_ALLOC, MT_EV_ALLOC, 0);
	assert_int_equal(r.ev[1].depth, 1);
	assert_int_equal(r.ev[2].depth, 0);
	rig__done(&r);
}

/* Threads that call op_b all the time, and how often they did; op_a is called by nobody but the test itself. */
struct callers {
	pthread_t threads[3];
	uint64_t cnt[3];
	int stop;
};

static struct callers *callers;

static void *call_op_b(void *arg)
{
	uint64_t *cnt = arg;

	while (!__atomic_load_n(&callers->stop, __ATOMIC_RELAXED)) {
		op_b((void *)0x1000);
		++*cnt;
		if (!(*cnt & 15))
			usleep(50); /* the drain must keep up */
	}
	return NULL;
}

static void callers__begin(struct callers *c)
{
	*c = (struct callers){ 0 };
	callers = c;
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&c->threads[i], NULL, call_op_b, &c->cnt[i]), 0);
}

static uint64_t callers__end(struct callers *c)
{
	uint64_t sum = 0;

	__atomic_store_n(&c->stop, 1, __ATOMIC_RELAXED);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(pthread_join(c->threads[i], NULL), 0);
		sum += c->cnt[i];
	}
	return sum;
}

/* Never called: places for probes, so many that taking them away takes a while. */
#define MANY 3000
__asm__(".globl many_places\nmany_places:\n.rept 3000\nnop\n.endr\nret\n");
void many_places(void);

/* Operators of a plan: op_a, those that nobody calls, op_b; it goes last, when the others do. And two that are none. */
static struct site *many_sites(struct rig *r)
{
	struct site *sites = calloc(MANY + 4, sizeof(*sites));

	assert_non_null(sites);
	sites[0] = r->sites[0];
	for (size_t i = 1; i <= MANY; i++) {
		sites[i] = r->sites[0];
		sites[i].offset = file_offset((const void *)(uintptr_t)many_places) + i - 1;
	}
	memcpy(&sites[MANY + 1], &r->sites[1], 3 * sizeof(*sites));
	r->plan.sites = sites;
	r->plan.sites_cnt = MANY + 4;
	return sites;
}

/* Operators told, by cookie. */
static int count_ops(void *ctx, const void *rec, size_t len)
{
	const struct mt_rec_addr *r = rec;
	uint64_t *reported = ctx;

	(void)len;
	if (r->hdr.kind == MT_EV_OP && r->addr <= OP_B)
		reported[r->addr]++;
	return 0;
}

static void drain_ops(struct rig *r, uint64_t *reported, unsigned ms)
{
	struct drained d;

	for (unsigned i = 0; i < ms; i++) {
		assert_true(tracer__drain(r->t, UINT64_MAX, count_ops, reported, &d) >= 0);
		usleep(1000);
	}
}

/* Set slice by slice while one is called: each call sets some, and none of those is set twice. */
static void test_sites_are_set_in_slices(void **state)
{
	struct attach_stats st = { .budget_ns = 200000 };
	uint64_t reported[OP_B + 1] = { 0 }, last;
	struct err err = { 0 };
	struct callers c;
	struct site *sites, allocs;
	unsigned calls = 0;
	struct rig r;
	int more = 1;

	(void)state;
	rig__init(&r, 0, 0);
	rig__site(&r, op_a, MT_PROG_OP, OP_A);
	rig__site(&r, op_b, MT_PROG_OP, OP_B);
	rig__site(&r, fw_new, MT_PROG_FW_NEW, 0);
	rig__site(&r, fw_delete, MT_PROG_FW_DELETE, 0);
	sites = many_sites(&r);
	allocs = sites[MANY + 2];
	assert_int_equal(allocs.prog, MT_PROG_FW_NEW);
	if (way > 0)
		r.plan.sites_cnt = 64;
	memmove(sites + 1, sites, (r.plan.sites_cnt - 1) * sizeof(*sites));
	sites[0] = allocs;
	callers__begin(&c);
	while (more) {
		size_t at = st.at;

		more = tracer__attach(r.t, getpid(), &r.plan, &st, &err);
		assert_true(more >= 0);
		assert_true(st.at > at);
		assert_int_equal(st.attached, st.at);
		assert_int_equal(more, st.at < r.plan.sites_cnt);
		assert_true(!more || is_probed(fw_new)); /* allocations come first */
		drain_ops(&r, reported, 2);
		if (more) /* no half of the operators is told */
			assert_int_equal(reported[OP_A] + reported[OP_B], 0);
		calls++;
	}
	assert_int_equal(st.failed, 0);
	assert_int_equal(st.slices, calls);
	assert_true(calls > 4);
	assert_true(st.longest_ns >= st.took_ns / calls && st.longest_ns <= st.took_ns);
	drain_ops(&r, reported, 20);
	memset(reported, 0, sizeof(reported));
	op_a((void *)0x1000, 0);
	drain_ops(&r, reported, 20);
	assert_int_equal(reported[OP_A], 1);
	last = callers__end(&c);
	assert_true(last > 100);
	rig__done(&r);
	free(sites);
}

/* Those that nobody calls are taken away while others are called, and come back; not a call of those is lost or told twice. */
static void test_idle_operators_go_and_come_back(void **state)
{
	struct retire_stats rs = { 0 };
	struct attach_stats st = { 0 };
	struct err err = { 0 };
	uint64_t reported[OP_B + 1] = { 0 }, sum;
	uint8_t wanted[MANY + 4] = { [MANY + 1] = 1 };
	struct callers c;
	struct site *sites;
	struct rig r;

	(void)state;
	rig__init(&r, 0, 0);
	rig__site(&r, op_a, MT_PROG_OP, OP_A);
	rig__site(&r, op_b, MT_PROG_OP, OP_B);
	rig__site(&r, fw_new, MT_PROG_FW_NEW, 0);
	rig__site(&r, fw_delete, MT_PROG_FW_DELETE, 0);
	sites = many_sites(&r);
	if (way > 0) { /* perf: a descriptor each, and no link to share; the rig's four are enough */
		r.plan.sites = r.sites;
		r.plan.sites_cnt = 4;
		wanted[1] = 1;
	}
	self_attach(r.t, &r.plan);
	callers__begin(&c);
	drain_ops(&r, reported, 20);
	assert_int_equal(tracer__retire(r.t, getpid(), &r.plan, wanted, &rs), 0);
	assert_int_equal(rs.taken, r.plan.sites_cnt - 3);
	for (int i = 0; i < 20000 && is_probed(op_a); i++)
		drain_ops(&r, reported, 1);
	assert_false(is_probed(op_a));
	assert_true(is_probed(op_b) && is_probed(fw_new)); /* no operators are not touched, wanted or not */
	drain_ops(&r, reported, 300);
	op_a((void *)0x1000, 0);
	assert_int_equal(reported[OP_A], 0);
	/* There is nothing more to take. */
	rs = (struct retire_stats){ 0 };
	assert_int_equal(tracer__retire(r.t, getpid(), &r.plan, wanted, &rs), 0);
	assert_int_equal(rs.taken, 0);
	/* Called after all. */
	wanted[0] = 1;
	st.wanted = wanted;
	assert_int_equal(tracer__attach(r.t, getpid(), &r.plan, &st, &err), 0);
	assert_int_equal(st.attached, 2);
	assert_true(is_probed(op_a));
	op_a((void *)0x1000, 0);
	drain_ops(&r, reported, 20);
	/* All anew, as after an exec: those that are set stay as they are, and so they do when the others go. */
	st = (struct attach_stats){ 0 };
	assert_int_equal(tracer__attach(r.t, getpid(), &r.plan, &st, &err), 0);
	assert_int_equal(st.attached, r.plan.sites_cnt);
	op_a((void *)0x1000, 0);
	drain_ops(&r, reported, 20);
	memset(wanted, 0, sizeof(wanted));
	rs = (struct retire_stats){ 0 };
	assert_int_equal(tracer__retire(r.t, getpid(), &r.plan, wanted, &rs), 0);
	assert_int_equal(rs.taken, r.plan.sites_cnt - 4);
	drain_ops(&r, reported, 300);
	sum = callers__end(&c);
	drain_ops(&r, reported, 1);
	rig__lost_only(&r, MT_LOSS_THREAD_STATE);
	assert_int_equal(reported[OP_A], 2);
	assert_true(sum > 1000);
	assert_in_range(reported[OP_B], sum - rig__without_state(&r), sum); /* a call may meet a program of each link */
	rig__done(&r);
	free(sites);
}

/* Of many that are used, a few a call: meanwhile and afterwards each call of them is told once. */
static void test_idle_operators_go_in_slices(void **state)
{
	struct retire_stats rs = { .budget_ns = 1 };
	uint64_t reported[OP_B + 1] = { 0 }, sum;
	uint8_t wanted[MANY + 4] = { [MANY + 1] = 1 };
	struct callers c;
	struct site *sites;
	unsigned calls = 1;
	struct rig r;
	int more;

	(void)state;
	if (way > 0)
		return; /* each place has a link of its own, nothing is set anew */
	rig__init(&r, 0, 0);
	rig__site(&r, op_a, MT_PROG_OP, OP_A);
	rig__site(&r, op_b, MT_PROG_OP, OP_B);
	rig__site(&r, fw_new, MT_PROG_FW_NEW, 0);
	rig__site(&r, fw_delete, MT_PROG_FW_DELETE, 0);
	sites = many_sites(&r);
	memset(wanted + 1, 1, 50);
	self_attach(r.t, &r.plan);
	callers__begin(&c);
	drain_ops(&r, reported, 20);
	while ((more = tracer__retire(r.t, getpid(), &r.plan, wanted, &rs)) == 1) {
		assert_int_equal(rs.taken, 0);
		assert_true(is_probed(op_a) && is_probed(op_b));
		drain_ops(&r, reported, 5);
		calls++;
	}
	assert_int_equal(more, 0);
	assert_true(calls >= 51 / 8);
	assert_int_equal(rs.taken, r.plan.sites_cnt - 2 - 51);
	assert_int_equal(rs.kept, 51);
	for (int i = 0; i < 20000 && is_probed(op_a); i++)
		drain_ops(&r, reported, 1);
	assert_false(is_probed(op_a));
	assert_true(is_probed(op_b) && is_probed(many_places));
	drain_ops(&r, reported, 300);
	sum = callers__end(&c);
	drain_ops(&r, reported, 1);
	assert_int_equal(rig__loss(&r, MT_LOSS_RING), 0);
	assert_true(sum > 1000);
	assert_in_range(reported[OP_B], sum - rig__without_state(&r), sum);
	rig__done(&r);
	free(sites);
}

static void test_look_ups_are_reported(void **state)
{
	struct rig r;

	(void)state;
	rig__init(&r, 0, 0);
	rig__site(&r, end, MT_PROG_LOOKUP, 0);
	self_attach(r.t, &r.plan);
	assert_int_equal(tracer__looked_up(r.t), 0);
	end();
	end();
	assert_int_not_equal(tracer__looked_up(r.t), 0);
	assert_int_equal(tracer__looked_up(r.t), 0);
	rig__collect(&r);
	assert_int_equal(r.cnt, 0);
	rig__done(&r);
}

static void test_op_left_by_longjmp(void **state)
{
	struct rig r;

	(void)state;
	rig__init(&r, 0, 0);
	rig__site(&r, op_jumps, MT_PROG_OP, OP_B);
	rig__site(&r, op_a, MT_PROG_OP, OP_A);
	rig__site(&r, fw_new, MT_PROG_FW_NEW, 0);
	self_attach(r.t, &r.plan);
	for (int i = 0; i < 100; i++)
		if (!setjmp(out))
			op_jumps();
	op_a((void *)0x1000, 0);
	fw_new(NULL, (void *)0x3000, 1);
	rig__collect(&r);
	assert_int_equal(r.cnt, 103);
	assert_int_equal(r.ev[100].kind, MT_EV_OP);
	assert_int_equal(r.ev[100].depth, 0);
	assert_int_equal(r.ev[102].depth, 0);
	assert_int_equal(rig__loss(&r, MT_LOSS_STACK_DEEP), 0);
	rig__done(&r);
}

static void test_null_and_empty_are_no_events(void **state)
{
	struct rig r;

	(void)state;
	rig__ops(&r);
	fw_new(NULL, (void *)0x1000, 0);
	fw_new(NULL, NULL, 10);
	fw_delete(NULL, NULL);
	rig__collect(&r);
	assert_int_equal(r.cnt, 0);
	rig__done(&r);
}

#define THREADS 4
#define CALLS 5000

static void *calls_thread(void *arg)
{
	for (uintptr_t i = 1; i <= CALLS; i++) {
		op_a((void *)((uintptr_t)arg + 128 * i), 1);
		fw_delete(NULL, (void *)((uintptr_t)arg + 128 * i));
	}
	return NULL;
}

static void test_threads_lose_nothing(void **state)
{
	pthread_t th[THREADS];
	struct rig r;
	size_t kinds[MT_EV_WIRE_MAX] = { 0 };

	(void)state;
	rig__ops(&r);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&th[i], NULL, calls_thread, (void *)((i + 1) << 32)), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(th[i], NULL);
	rig__collect(&r);
	for (size_t i = 0; i < r.cnt; i++) {
		kinds[r.ev[i].kind]++;
		if (r.ev[i].kind == MT_EV_ALLOC)
			assert_int_equal(r.ev[i].depth, r.ev[i].size == 100 ? 2 : 1);
	}
	assert_int_equal(kinds[MT_EV_OP], 2 * THREADS * CALLS);
	assert_int_equal(kinds[MT_EV_ALLOC], 2 * THREADS * CALLS);
	assert_int_equal(kinds[MT_EV_FREE], THREADS * CALLS);
	rig__done(&r);
}

static void test_full_ring_is_counted(void **state)
{
	struct rig r;
	struct trace_counters c;

	(void)state;
	rig__init(&r, 4096, 0);
	rig__site(&r, fw_new, MT_PROG_FW_NEW, 0);
	self_attach(r.t, &r.plan);
	for (uintptr_t i = 1; i <= 1000; i++)
		fw_new(NULL, (void *)(i * 64), 1);
	rig__collect(&r);
	tracer__counters(r.t, &c);
	assert_int_equal(c.hits[MT_PROG_FW_NEW], 1000);
	assert_true(r.cnt > 50 && r.cnt < 1000);
	assert_int_equal(c.loss[MT_LOSS_RING], 1000 - r.cnt);
	rig__done(&r);
}

/* Tells `cnt` for each byte that comes, and says when it has. */
static void flood(int from, int to, uintptr_t cnt)
{
	char c;

	while (read(from, &c, 1) == 1) {
		for (uintptr_t i = 1; i <= cnt; i++)
			fw_new(NULL, (void *)(i * 64), 2);
		if (write(to, &c, 1) != 1)
			break;
	}
	_exit(0);
}

/* A ring that one process floods, and another one that tells little into the same: its events are all there. */
static void test_full_ring_has_room_for_others(void **state)
{
	enum { ROUNDS = 20, FLOOD = 200, LITTLE = 5 };
	struct attach_stats st = { 0 };
	size_t mine = 0, others = 0;
	int to[2], from[2];
	cpu_set_t one, all;
	struct rig r;
	pid_t pid;
	char c = 0;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(pipe(to) | pipe(from), 0);
	rig__init(&r, 32768 * (uint64_t)sysconf(_SC_NPROCESSORS_CONF), 0);
	pid = fork();
	if (!pid) {
		close(to[1]);
		flood(to[0], from[1], FLOOD);
	}
	close(to[0]);
	rig__site(&r, fw_new, MT_PROG_FW_NEW, 0);
	self_attach(r.t, &r.plan);
	assert_int_equal(tracer__attach(r.t, pid, &r.plan, &st, NULL), 0);
	usleep(2 * SHARES_AGAIN_NS / 1000); /* what calibration told counts no longer */
	for (uintptr_t i = 0; i < ROUNDS; i++) {
		assert_int_equal(write(to[1], &c, 1), 1);
		assert_int_equal(read(from[0], &c, 1), 1);
		for (uintptr_t n = 1; n <= LITTLE; n++)
			fw_new(NULL, (void *)(n * 64), 1);
	}
	rig__collect(&r);
	for (size_t i = 0; i < r.cnt; i++) {
		mine += r.ev[i].pid == (uint32_t)getpid();
		others += r.ev[i].pid == (uint32_t)pid;
	}
	assert_int_equal(mine, ROUNDS * LITTLE);
	assert_true(others > FLOOD && others < ROUNDS * FLOOD);
	assert_int_equal(rig__loss(&r, MT_LOSS_SHARE), ROUNDS * FLOOD - others);
	assert_int_equal(rig__loss(&r, MT_LOSS_RING), 0);
	rig__done(&r);
	close(to[1]);
	close(from[0]);
	close(from[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

static void test_ring_goes_round(void **state)
{
	struct rig r;

	(void)state;
	rig__init(&r, 4096, 0);
	rig__site(&r, fw_new, MT_PROG_FW_NEW, 0);
	rig__site(&r, fw_delete, MT_PROG_FW_DELETE, 0);
	self_attach(r.t, &r.plan);
	for (uintptr_t i = 1; i <= 2000; i++) {
		fw_new(NULL, (void *)(i * 64), i);
		if (i % 3)
			fw_delete(NULL, (void *)(i * 64));
		if (!(i % 16))
			rig__collect(&r);
	}
	rig__collect(&r);
	assert_int_equal(r.cnt, 2000 + 1334);
	for (size_t k = 0, i = 0; k < r.cnt; k++) {
		i += r.ev[k].kind == MT_EV_ALLOC;
		assert_int_equal(r.ev[k].addr, i * 64);
		assert_int_equal(r.ev[k].size, r.ev[k].kind == MT_EV_ALLOC ? i : 0);
	}
	assert_int_equal(rig__loss(&r, MT_LOSS_RING), 0);
	rig__done(&r);
}

static const struct mt_usdt_arg arg_rdi = { .form = MT_ARG_REG, .reg = MT_REG_RDI, .bytes = 8 };
static const struct mt_usdt_arg arg_rsi = { .form = MT_ARG_REG, .reg = MT_REG_RSI, .bytes = 8 };

static void rig__usdts_in(struct rig *r, uint64_t ring_bytes)
{
	rig__init(r, ring_bytes, 0);
	rig__usdt(r, begin, (struct mt_usdt_spec){ .kind = MT_EV_OP_BEGIN, .name = arg_rdi });
	rig__usdt(r, end, (struct mt_usdt_spec){ .kind = MT_EV_OP_END });
	rig__usdt(r, tag, (struct mt_usdt_spec){ .kind = MT_EV_TAG, .ptr = arg_rdi, .name = arg_rsi });
	rig__site(r, op_a, MT_PROG_OP, OP_A);
	rig__site(r, fw_new, MT_PROG_FW_NEW, 0);
	self_attach(r->t, &r->plan);
}

static void rig__usdts(struct rig *r)
{
	rig__usdts_in(r, 0);
}

/*
 * A ring is looked at each 64th record. Of large ones so many do not fit: they are refused by the ring itself, before a share
 * was asked for. What came and what was counted is everything.
 */
static void test_full_ring_of_names_is_counted(void **state)
{
	const unsigned each = 3; /* name, begin, end */
	unsigned reported = 300, came;
	char name[32];
	struct rig r;

	(void)state;
	rig__usdts_in(&r, 4096);
	(void)names__add(r.names, "?"); /* of a begin whose name was lost */
	came = names__last(r.names);
	for (unsigned i = 0; i < reported; i++) {
		snprintf(name, sizeof(name), "iter%u", i);
		begin(name);
		end();
	}
	rig__collect(&r);
	came = names__last(r.names) - came + (unsigned)r.cnt;
	assert_in_range(came, 40, each * reported - 1);
	assert_int_equal(rig__loss(&r, MT_LOSS_RING), each * reported - came);
	rig__done(&r);
}

static void test_named_ops_nest_with_probed_ones(void **state)
{
	struct rig r;

	(void)state;
	rig__usdts(&r);
	begin("outer");
	op_a((void *)0x1000, 0);
	begin("inner");
	fw_new(NULL, (void *)0x5000, 5);
	end();
	fw_new(NULL, (void *)0x6000, 6);
	end();
	end(); /* one too many: nothing */
	fw_new(NULL, (void *)0x7000, 7);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_OP_BEGIN, MT_EV_OP, MT_EV_ALLOC, MT_EV_OP_BEGIN, MT_EV_ALLOC, MT_EV_OP_END,
		     MT_EV_ALLOC, MT_EV_OP_END, MT_EV_ALLOC, 0);
	assert_string_equal(name_of(&r, 0), "outer");
	assert_string_equal(name_of(&r, 3), "inner");
	assert_int_equal(r.ev[2].depth, 2);
	assert_int_equal(r.ev[3].depth, 1);
	assert_int_equal(r.ev[4].depth, 2);
	assert_int_equal(r.ev[5].depth, 1);
	assert_int_equal(r.ev[6].depth, 1);
	assert_int_equal(r.ev[6].seq, r.ev[0].seq);
	assert_int_equal(r.ev[7].depth, 0);
	assert_int_equal(r.ev[8].depth, 0);
	rig__done(&r);
}

NOINLINE void forgets_its_end(void) { begin("loop"); }

static void test_missing_ends_do_not_pile_up(void **state)
{
	struct rig r;

	(void)state;
	rig__usdts(&r);
	for (volatile int i = 0; i < 100; i++)
		forgets_its_end();
	rig__collect(&r);
	assert_int_equal(r.cnt, 100);
	assert_int_equal(r.ev[99].depth, 0);
	assert_int_equal(rig__loss(&r, MT_LOSS_STACK_DEEP), 0);
	rig__done(&r);
}

NOINLINE void nest(int n)
{
	begin("deep");
	if (n > 1)
		nest(n - 1);
	end();
	sink++;
}

static void test_deeper_than_the_stack(void **state)
{
	struct rig r;

	(void)state;
	rig__usdts(&r);
	begin("base");
	nest(MT_FRAMES_MAX + 10);
	fw_new(NULL, (void *)0x1000, 1); /* must be in "base" again */
	end();
	rig__collect(&r);
	assert_int_equal(rig__loss(&r, MT_LOSS_STACK_DEEP), 11);
	assert_int_equal(r.ev[r.cnt - 2].kind, MT_EV_ALLOC);
	assert_int_equal(r.ev[r.cnt - 2].depth, 1);
	assert_int_equal(r.ev[r.cnt - 2].seq, r.ev[0].seq);
	assert_int_equal(r.ev[r.cnt - 1].kind, MT_EV_OP_END);
	assert_int_equal(r.ev[r.cnt - 1].depth, 0);
	rig__done(&r);
}

static void test_names(void **state)
{
	char *late = malloc(300);
	struct rig r;

	(void)state;
	assert_non_null(late);
	memset(late, 'x', 299);
	late[299] = '\0';
	rig__usdts(&r);
	begin("same");
	begin("same too");
	begin((const char *)8); /* not readable */
	begin(late);		/* too long: cut */
	tag((void *)0x1234, "weights");
	rig__collect(&r);
	expect_kinds(&r, MT_EV_OP_BEGIN, MT_EV_OP_BEGIN, MT_EV_OP_BEGIN, MT_EV_OP_BEGIN, MT_EV_TAG, 0);
	assert_string_equal(name_of(&r, 0), "same");
	assert_string_equal(name_of(&r, 1), "same too");
	assert_string_equal(name_of(&r, 2), "?");
	assert_int_equal(strlen(name_of(&r, 3)), MT_NAME_LEN_MAX - 1);
	assert_string_equal(name_of(&r, 4), "weights");
	assert_int_equal(r.ev[4].addr, 0x1234);
	assert_int_equal(rig__loss(&r, MT_LOSS_READ_FAULT), 1);
	rig__done(&r);
	free(late);
}

/* A number in each name, more than are remembered as told: all get through, and one that was forgotten is told again. */
static void test_names_without_end(void **state)
{
	const unsigned many = MT_NAMES_MAX + MT_NAMES_MAX / 4;
	struct rig r;

	(void)state;
	rig__usdts(&r);
	begin("first");
	end();
	rig__collect(&r);
	assert_string_equal(name_of(&r, 0), "first");
	for (unsigned i = 0; i < many; i++) {
		char name[32];

		snprintf(name, sizeof(name), "iter%u", i);
		begin(name);
		end();
		if (i % 1000 && i + 1 < many)
			continue;
		r.cnt = 0;
		rig__collect(&r);
		assert_string_equal(name_of(&r, r.cnt - 2), name);
	}
	r.cnt = 0;
	begin("first");
	end();
	begin("last");
	end();
	rig__collect(&r);
	assert_string_equal(name_of(&r, 0), "first");
	assert_string_equal(name_of(&r, 2), "last");
	assert_int_equal(rig__loss(&r, MT_LOSS_NAME_TABLE), 0);
	assert_int_equal(names__overflow_cnt(r.names), 0);
	rig__done(&r);
}

#define OWN_SPECS 300
#define CLASSES 64

static struct plan *plan_of(unsigned who)
{
	struct plan *p = calloc(1, sizeof(*p));

	p->specs = calloc(OWN_SPECS, sizeof(*p->specs));
	p->specs_cnt = OWN_SPECS;
	for (unsigned i = 0; i < OWN_SPECS; i++)
		p->specs[i].ptr.value = (int64_t)who << 32 | i;
	p->flow_vtables = calloc(50, sizeof(*p->flow_vtables));
	p->flow_vtables_cnt = 50;
	for (unsigned i = 0; i < 50; i++)
		p->flow_vtables[i].addr = i + 1;
	return p;
}

/* How many of the plan's specs the process got; the first one's number. */
static unsigned specs_got(struct cookies *c, pid_t pid, const struct plan *p, uint32_t *ret_first, uint32_t *ret_left_out)
{
	unsigned got = 0;

	assert_int_equal(cookies__begin(c, pid, p, ret_left_out), 0);
	for (unsigned i = 0; i < OWN_SPECS; i++) {
		uint64_t cookie;
		int r = cookies__of(c, p, &(struct site){ .prog = MT_PROG_USDT, .cookie = i }, &cookie);

		assert_true(!r || r == -ENOSPC);
		got += !r;
		if (!i && !r)
			*ret_first = (uint32_t)cookie;
	}
	return got;
}

static void plan_free(struct plan *p)
{
	free(p->specs);
	free(p->flow_vtables);
	free(p);
}

/* Processes that each have more specs than they may: none takes all, and what one had is free when it has ended. */
static void test_shares_of_specs(void **state)
{
	struct cookies c = { .classes_fd = bpf_map_create(BPF_MAP_TYPE_HASH, "classes", sizeof(struct mt_class_key), 4, CLASSES,
							  NULL) };
	struct spec_table *t = &c.specs[SPEC_USDT];
	uint32_t first = 0, same = 0, left_out;
	struct plan *p;

	(void)state;
	*t = (struct spec_table){ .bytes = sizeof(struct mt_usdt_spec), .max = 1023, .share = 255 };
	t->map_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "specs", 4, (uint32_t)t->bytes, t->max, NULL);
	assert_true(t->map_fd >= 0 && c.classes_fd >= 0);
	for (unsigned who = 1; who <= 40; who++) { /* one after the other */
		p = plan_of(who);
		assert_int_equal(specs_got(&c, (pid_t)who, p, &first, &left_out), 255);
		assert_int_equal(left_out, 0);
		assert_int_equal(specs_got(&c, (pid_t)who, p, &first, &left_out), 255); /* again: the same ones */
		cookies__drop_pid(&c, (pid_t)who);
		plan_free(p);
	}
	for (unsigned who = 101; who <= 105; who++) { /* at one time: the last one has what is left */
		p = plan_of(who);
		assert_int_equal(specs_got(&c, (pid_t)who, p, &first, &left_out), who < 105 ? 255 : 3);
		assert_int_equal(left_out, who == 101 ? 0 : who == 102 ? 36 : 50);
		plan_free(p);
	}
	p = plan_of(101); /* a process with the same as another takes no room */
	assert_int_equal(specs_got(&c, 101, p, &first, &left_out), 255);
	assert_int_equal(specs_got(&c, 201, p, &same, &left_out), 255);
	assert_int_equal(first, same);
	cookies__drop_pid(&c, 101); /* nor does it lose them with that one */
	assert_int_equal(specs_got(&c, 202, p, &same, &left_out), 255);
	assert_int_equal(first, same);
	plan_free(p);
	close(t->map_fd);
	close(c.classes_fd);
	cookies__done(&c);
}

/* How many of 600 symbols of its own the process's plan got a slot for. */
static unsigned slots_got(struct cookies *c, pid_t pid, uint32_t first_sym)
{
	struct plan p = { 0 };
	unsigned got = 0;

	assert_int_equal(cookies__begin(c, pid, &p, NULL), 0);
	for (uint32_t i = 0; i < 600; i++) {
		uint64_t cookie;
		struct site site = { .prog = MT_PROG_HOST_ENTER, .sym = { first_sym + i } };

		assert_int_equal(cookies__of(c, &p, &site, &cookie), 0);
		got += cookie >> 32 != 0;
	}
	assert_int_equal(c->slots_left_out, 600 - got);
	return got;
}

/* Whether a layout of its own has room. */
static int has_layout(struct cookies *c, pid_t pid, uint16_t number)
{
	struct plan p = { .flow_layout = { .torch = "torch", .at = { .impl_storage = number } } };

	assert_int_equal(cookies__begin(c, pid, &p, NULL), 0);
	return c->flow_layout >= 0 && c->layouts[c->flow_layout].impl_storage == number;
}

/* The same of slots that count and of layouts: nobody takes all, not even one process after the other. */
static void test_shares_of_slots_and_layouts(void **state)
{
	struct mt_flow_layout layouts[MT_FLOW_LAYOUTS_MAX];
	int fired_fd = bpf_map_create(BPF_MAP_TYPE_PERCPU_ARRAY, "fired", 4, 8, MT_FIRED_MAX, NULL);
	struct cookies c = { .layouts = layouts, .fired_fd = fired_fd };
	uint64_t counts[MT_CPUS_MAX];
	unsigned got = 0;

	(void)state;
	assert_true(c.fired_fd >= 0);
	for (uint32_t who = 1; who <= 20; who++) {
		assert_int_equal(slots_got(&c, (pid_t)who, who * 1000), 511);
		assert_int_equal(slots_got(&c, (pid_t)who, who * 1000), 511); /* again: the same ones */
		for (uint32_t slot = 1; slot < MT_FIRED_MAX; slot++) {
			for (unsigned i = 0; i < MT_CPUS_MAX; i++)
				counts[i] = who;
			assert_int_equal(bpf_map_update_elem(c.fired_fd, &slot, counts, BPF_ANY), 0);
		}
		cookies__drop_pid(&c, (pid_t)who);
	}
	assert_int_equal(slots_got(&c, 30, 30000), 511); /* at one time, half of what is left */
	assert_int_equal(slots_got(&c, 31, 31000), 256);
	assert_int_equal(slots_got(&c, 32, 30000), 511); /* what another has costs nobody anything */
	assert_int_equal(bpf_map_lookup_elem(c.fired_fd, &(uint32_t){ 1 }, counts), 0);
	assert_int_equal(counts[0], 0); /* another symbol's count is not this one's */
	for (uint16_t n = 1; n <= 20; n++)
		got += (unsigned)has_layout(&c, 40, n);
	assert_int_equal(got, MT_FLOW_LAYOUTS_MAX / 8);
	assert_true(has_layout(&c, 41, 21));
	assert_true(has_layout(&c, 42, 21)); /* shared with it */
	for (uint32_t who = 100; who < 200; who++) { /* processes that come and go */
		assert_true(has_layout(&c, (pid_t)who, (uint16_t)who));
		cookies__drop_pid(&c, (pid_t)who);
	}
	cookies__drop_pid(&c, 41);
	assert_true(has_layout(&c, 42, 21)); /* not gone with the first of them */
	assert_int_equal(c.layout_users[c.flow_layout], 1);
	close(c.fired_fd);
	cookies__done(&c);
}

#define NAMED 6
#define NAMED_CALLS 3000

static struct named {
	int cpu;
	uint32_t tid;
	char name[16];
} named[NAMED];

/* All on one CPU, and half of them wake up again and again: they take it from each other in the programs. */
static void *named_thread(void *arg)
{
	struct timespec nap = { 0, 20000 };
	struct named *n = arg;
	cpu_set_t one;

	n->tid = (uint32_t)syscall(SYS_gettid);
	CPU_ZERO(&one);
	CPU_SET(n->cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		return n;
	for (int i = 0; i < NAMED_CALLS; i++) {
		begin(n->name);
		if ((n - named) % 2)
			nanosleep(&nap, NULL);
		end();
	}
	return NULL;
}

/* Begins and ends. */
static size_t named_events(const struct rig *r, const struct named *n, size_t *wrong)
{
	size_t cnt = 0;

	for (size_t i = 0; i < r->cnt; i++) {
		if (r->ev[i].tid != n->tid)
			continue;
		cnt += r->ev[i].kind == MT_EV_OP_BEGIN || r->ev[i].kind == MT_EV_OP_END;
		*wrong += r->ev[i].kind == MT_EV_OP_BEGIN && strcmp(name_of(r, i), n->name) != 0;
	}
	return cnt;
}

/* Buffers of the CPU would be another thread's all of a sudden where the kernel preempts programs. */
static void test_names_of_threads_on_one_cpu(void **state)
{
	int cpu = sched_getcpu();
	pthread_t th[NAMED];
	size_t events = 0, wrong = 0;
	struct rig r;
	void *bad;

	(void)state;
	rig__usdts(&r);
	for (int i = 0; i < NAMED; i++) {
		named[i].cpu = cpu;
		snprintf(named[i].name, sizeof(named[i].name), "thread_%d", i);
		assert_int_equal(pthread_create(&th[i], NULL, named_thread, &named[i]), 0);
	}
	for (int i = 0; i < NAMED; i++) {
		pthread_join(th[i], &bad);
		assert_null(bad);
	}
	rig__collect(&r);
	for (int i = 0; i < NAMED; i++)
		events += named_events(&r, &named[i], &wrong);
	assert_int_equal(wrong, 0);
	rig__lost_only(&r, MT_LOSS_THREAD_STATE);
	/* The end of a begin that was not told is nothing to tell. */
	assert_in_range(events, 2 * (NAMED * NAMED_CALLS - rig__without_state(&r)), 2 * NAMED * NAMED_CALLS);
	rig__done(&r);
}

static void test_usdt_argument_forms(void **state)
{
	static const struct {
		struct mt_usdt_arg arg;
		uint64_t want;
	} forms[] = {
		{ { .form = MT_ARG_CONST, .value = -3, .bytes = 4, .is_signed = 1 }, (uint64_t)-3 },
		{ { .form = MT_ARG_CONST, .value = -1, .bytes = 4 }, 0xffffffff },
		{ { .form = MT_ARG_REG, .reg = MT_REG_RDI, .bytes = 1 }, 0x88 },
		{ { .form = MT_ARG_REG, .reg = MT_REG_RDI, .bytes = 1, .is_signed = 1 }, (uint64_t)-0x78 },
		{ { .form = MT_ARG_REG, .reg = MT_REG_RDI, .bytes = 1, .shift = 8 }, 0x77 },
		{ { .form = MT_ARG_REG, .reg = MT_REG_RDI, .bytes = 2 }, 0x7788 },
		{ { .form = MT_ARG_REG, .reg = MT_REG_RDI, .bytes = 8 }, 0x1122334455667788 },
		{ { .form = MT_ARG_MEM, .reg = MT_REG_RDX, .index = MT_REG_NONE, .value = 8, .bytes = 8 }, 202 },
		{ { .form = MT_ARG_MEM, .reg = MT_REG_RDX, .index = MT_REG_RCX, .scale = 8, .bytes = 8 }, 303 },
		{ { .form = MT_ARG_MEM, .reg = MT_REG_RDX, .index = MT_REG_RCX, .scale = 4, .value = 8,
		    .bytes = 4 }, 303 & 0xffffffff },
	};
	uint64_t words[3] = { 101, 202, 303 };

	(void)state;
	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		struct rig r;

		if (i == sizeof(forms) / sizeof(*forms) - 1)
			words[2] = (uint64_t)303 << 32 | 303; /* index 2 * 4 + 8 = the low word of [2] */
		rig__init(&r, 0, 0);
		rig__usdt(&r, probe_args, (struct mt_usdt_spec){ .kind = MT_EV_STEP, .ptr = forms[i].arg });
		self_attach(r.t, &r.plan);
		probe_args(0x1122334455667788, 2, words, 2);
		rig__collect(&r);
		expect_kinds(&r, MT_EV_STEP, 0);
		if (r.ev[0].addr != forms[i].want)
			fail_msg("form %zu: %llx", i, (unsigned long long)r.ev[0].addr);
		rig__done(&r);
	}
}

static void test_regions(void **state)
{
	struct {
		const char *ptr;
		uint64_t len;
	} name = { "Optimizer.step#SGD.step and more", 18 };
	char *record = malloc(16), on_stack[16];
	struct rig r;

	(void)state;
	rig__init(&r, 0, 0);
	rig__site(&r, region_begin, MT_PROG_REGION_BEGIN, 0);
	rig__site(&r, region_end, MT_PROG_REGION_END, MT_REGION_TWICE);
	self_attach(r.t, &r.plan);
	region_end(record); /* began before the attach: nothing */
	region_end(record);
	region_begin(NULL, &name);
	region_begin(NULL, &name);
	region_end(on_stack); /* an operator's own record */
	region_end(record);
	region_end(record); /* end() runs twice */
	region_end(record + 8);
	region_end(record + 8);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_REGION_BEGIN, MT_EV_REGION_BEGIN, MT_EV_REGION_END, MT_EV_REGION_END, 0);
	assert_string_equal(name_of(&r, 0), "Optimizer.step#SGD");
	assert_int_equal(r.ev[0].aux, 0);
	assert_int_equal(r.ev[1].aux, 1);
	assert_int_equal(r.ev[2].aux, 1);
	assert_int_equal(r.ev[3].aux, 0);
	rig__done(&r);
	free(record);
}

#define OWN_STACK (256u << 10)
#define BEHIND_STACK 4096u

/* arg: the stack's end, where another thread's heap begins. */
static void *region_thread(void *arg)
{
	struct {
		const char *ptr;
		uint64_t len;
	} name = { "forward", 7 };
	char *record = (char *)arg + 64, on_stack[16];

	region_begin(NULL, &name);
	region_end(on_stack); /* an operator's own record */
	region_end(record);
	region_end(record);
	return NULL;
}

/* A record that another thread's heap has lent, right behind the stack of the thread that has it. */
static void test_regions_on_a_heap_behind_the_stack(void **state)
{
	char *stack = mmap(NULL, OWN_STACK + BEHIND_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	pthread_t thread;
	struct rig r;

	(void)state;
	assert_ptr_not_equal(stack, MAP_FAILED);
	assert_int_equal(pthread_attr_init(&attr), 0);
	assert_int_equal(pthread_attr_setstack(&attr, stack, OWN_STACK), 0);
	rig__init(&r, 0, 0);
	rig__site(&r, region_begin, MT_PROG_REGION_BEGIN, 0);
	rig__site(&r, region_end, MT_PROG_REGION_END, MT_REGION_TWICE);
	self_attach(r.t, &r.plan);
	assert_int_equal(pthread_create(&thread, &attr, region_thread, stack + OWN_STACK), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_REGION_BEGIN, MT_EV_REGION_END, 0);
	assert_int_equal(r.ev[1].aux, 0);
	rig__done(&r);
	pthread_attr_destroy(&attr);
	munmap(stack, OWN_STACK + BEHIND_STACK);
}

/* The end that is told once: whatever its argument. */
static void test_regions_that_end_once(void **state)
{
	struct {
		const char *ptr;
		uint64_t len;
	} name = { "forward", 7 };
	uint64_t on_stack;
	struct rig r;

	(void)state;
	rig__init(&r, 0, 0);
	rig__site(&r, region_begin, MT_PROG_REGION_BEGIN, 0);
	rig__site(&r, region_end, MT_PROG_REGION_END, MT_REGION_ONCE);
	self_attach(r.t, &r.plan);
	region_end(&on_stack); /* began before the attach: nothing */
	region_begin(NULL, &name);
	region_begin(NULL, &name);
	region_end(&on_stack);
	region_end(&on_stack);
	region_end(&on_stack);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_REGION_BEGIN, MT_EV_REGION_BEGIN, MT_EV_REGION_END, MT_EV_REGION_END, 0);
	assert_int_equal(r.ev[2].aux, 1);
	assert_int_equal(r.ev[3].aux, 0);
	rig__done(&r);
}

static void test_framework_usage(void **state)
{
	struct rig r;

	(void)state;
	rig__init(&r, 0, 0);
	rig__site(&r, fw_usage, MT_PROG_FW_USAGE, 0);
	rig__site(&r, fw_usage_oom, MT_PROG_FW_USAGE_OOM, 0);
	self_attach(r.t, &r.plan);
	fw_usage((void *)0x1000, 512, 512, 2 << 20, 0x0001);
	fw_usage((void *)0x2000, 1024, 1024, 4 << 20, 0xabcd0301); /* what is above 16 bits may be anything */
	fw_usage((void *)0x1000, -512, 0, 2 << 20, 0x0001);
	fw_usage((void *)0x3000, 64, 64, 64, 0x0000); /* the CPU's: others tell of it */
	fw_usage((void *)0x3000, 64, 64, 64, 0x0006); /* another kind of device */
	fw_usage((void *)0x3000, 64, 64, 64, 0xff01); /* more devices than there are */
	fw_usage(NULL, 64, 64, 64, 0x0001);
	fw_usage((void *)0x3000, 0, 64, 64, 0x0001);
	fw_usage_oom(1ll << 40, 5, 6, 0x0101);
	fw_usage_oom(1ll << 40, 5, 6, 0x0000);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_ALLOC, MT_EV_TOTALS, MT_EV_ALLOC, MT_EV_TOTALS, MT_EV_FREE, MT_EV_TOTALS,
		     MT_EV_TOTALS, MT_EV_OOM, 0);
	assert_true(r.ev[0].addr == 0x1000 && r.ev[0].size == 512 && r.ev[0].dev == MT_DEV_CUDA0);
	assert_true(r.ev[1].addr == 512 && r.ev[1].size == 2 << 20 && r.ev[1].dev == MT_DEV_CUDA0);
	assert_true(r.ev[2].dev == MT_DEV_CUDA0 + 3 && r.ev[3].size == 4 << 20);
	assert_true(r.ev[4].addr == 0x1000 && r.ev[4].dev == MT_DEV_CUDA0 && r.ev[5].addr == 0);
	assert_true(r.ev[6].addr == 5 && r.ev[6].size == 6 && r.ev[6].dev == MT_DEV_CUDA0 + 1);
	assert_true(r.ev[7].size == 1ull << 40 && r.ev[7].dev == MT_DEV_CUDA0 + 1);
	rig__done(&r);
}

#define SEG_VALUE(how, at) { .form = MT_SEG_##how, .where = (at), .bytes = 8 }

/* What realloc frees another thread may be given from its entry on, so that is when it was freed; nothing is if it fails. */
static void test_realloc_frees_when_it_begins(void **state)
{
	uint64_t first_inside_ns;
	struct rig r;

	(void)state;
	rig__init(&r, 0, 0);
	rig__site(&r, host_realloc, MT_PROG_HOST_RET, MT_HOST_REALLOC);
	r.sites[0].is_ret = 1;
	rig__site(&r, host_realloc, MT_PROG_HOST_ENTER, MT_HOST_REALLOC);
	self_attach(r.t, &r.plan);
	host_realloc((void *)0x1000, 8);
	first_inside_ns = inside_ns;
	host_realloc((void *)0x2000, 2000);
	host_realloc((void *)0x3000, 0);
	host_realloc(NULL, 16);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_FREE, MT_EV_ALLOC, MT_EV_OOM, MT_EV_FREE, MT_EV_ALLOC, 0);
	assert_true(r.ev[0].addr == 0x1000 && r.ev[0].flags == MT_F_BLOCK_MOVED && r.ev[0].ts_ns < first_inside_ns);
	assert_true(r.ev[1].addr == 0x9008 && r.ev[1].size == 8 && r.ev[1].ts_ns > first_inside_ns);
	assert_int_equal(r.ev[2].size, 2000);
	assert_true(r.ev[3].addr == 0x3000 && !r.ev[3].flags);
	assert_true(r.ev[4].addr == 0x9010 && !r.ev[4].flags);
	rig__done(&r);
}

static void test_segments(void **state)
{
	static const void *const fns[] = { driver_alloc, runtime_alloc, runtime_free, runtime_device };
	static const struct mt_seg_spec gives = { .kind = MT_EV_SEG_ALLOC, .seg = MT_SEG_DEVICE,
						  .whose = MT_SEG_DEV_THREAD, .addr = SEG_VALUE(OUT, 0),
						  .size = { SEG_VALUE(ARG, 1) } };
	struct mt_seg_spec specs[] = {
		gives, gives,
		{ .kind = MT_EV_SEG_FREE, .seg = MT_SEG_DEVICE, .addr = SEG_VALUE(ARG, 0) },
		{ .sets = MT_SEG_SETS_DEVICE, .whose = MT_SEG_DEV_ARG, .dev = { .form = MT_SEG_ARG, .bytes = 4 } },
	};
	struct rig r;
	void *p;

	(void)state;
	rig__init(&r, 0, 0);
	for (size_t i = 0; i < 4; i++) {
		specs[i].api = names__add(r.names, i == 0 ? "driver" : i == 1 ? "runtime" : i == 2 ? "free" : "device").v;
		assert_int_not_equal(specs[i].api, 0);
	}
	rig__segs(&r, fns, specs, 4);
	self_attach(r.t, &r.plan);
	runtime_alloc(&p, 100); /* the driver's call in it is the same memory */
	runtime_device(2);
	driver_alloc(&p, 200);
	runtime_alloc(&p, 5000);
	runtime_free(NULL);
	runtime_free((void *)0xbad);
	runtime_free((void *)0x7064);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_SEG_ALLOC, MT_EV_SEG_ALLOC, MT_EV_SEG_FAIL, MT_EV_SEG_FREE, 0);
	assert_true(r.ev[0].addr == 0x7064 && r.ev[0].size == 100 && r.ev[0].dev == MT_DEV_NONE);
	assert_string_equal(name_of(&r, 0), "runtime");
	assert_true(r.ev[1].addr == 0x70c8 && r.ev[1].size == 200 && r.ev[1].dev == MT_DEV_CUDA0 + 2);
	assert_string_equal(name_of(&r, 1), "driver");
	assert_true(r.ev[2].addr == 0 && r.ev[2].size == 5000 && r.ev[2].aux == 2 && r.ev[2].flags == MT_SEG_DEVICE);
	assert_int_equal(r.ev[3].addr, 0x7064);
	assert_int_equal(rig__loss(&r, MT_LOSS_PENDING), 0);
	rig__done(&r);
}

/*
 * A made-up API that calls itself: each call makes some more (the runtime the driver, NCCL both), any of them fails or is left
 * by longjmp, to the top or to a call that catches it. What must be told is known without looking at stacks: of each call that
 * nothing of the API was open around, if it came back, one event.
 */
#define TREES 400
#define TREE_DEPTH 5
static struct tree {
	uint64_t rng, addr;
	unsigned depth, inner, left; /* calls open; calls in others; outermost ones that were left */
	struct event want[TREES];
	size_t want_cnt;
	jmp_buf catches[TREE_DEPTH + 1];
	int has_catch[TREE_DEPTH + 1];
} tree;

static unsigned tree_below(unsigned n)
{
	uint64_t z = (tree.rng += 0x9e3779b97f4a7c15u); /* splitmix64 */

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	return (unsigned)((z ^ (z >> 31)) >> 32) % n;
}

static void tree_want(uint8_t kind, uint64_t addr, uint64_t size, uint32_t aux)
{
	if (!tree.depth)
		tree.want[tree.want_cnt++] = (struct event){ .kind = kind, .addr = addr, .size = size, .aux = aux };
}

static void tree_inside(void);

NOINLINE int tree_driver(void **ret, size_t size)
{
	tree_inside();
	tree.depth--;
	*ret = (void *)(tree.addr += 0x1000);
	if (!tree_below(4)) {
		tree_want(MT_EV_SEG_FAIL, 0, size, 2);
		return 2;
	}
	tree_want(MT_EV_SEG_ALLOC, tree.addr, size, 0);
	return 0;
}

NOINLINE int tree_runtime(void **ret, size_t size)
{
	int r;

	tree_inside();
	tree.inner++;
	r = tree_driver(ret, size + 1);
	tree.depth--;
	if (r || !tree_below(8)) {
		tree_want(MT_EV_SEG_FAIL, 0, size, 2);
		return 2;
	}
	tree_want(MT_EV_SEG_ALLOC, (uintptr_t)*ret, size, 0);
	return 0;
}

NOINLINE int tree_free(void *ptr)
{
	tree_inside();
	tree.depth--;
	if (!tree_below(4))
		return 1;
	tree_want(MT_EV_SEG_FREE, (uintptr_t)ptr, 0, 0);
	return 0;
}

static void tree_call(void)
{
	void *p;

	switch (tree_below(3)) {
	case 0: sink += (uint64_t)tree_driver(&p, 1 + tree_below(9999)); break;
	case 1: sink += (uint64_t)tree_runtime(&p, 1 + tree_below(9999)); break;
	default: sink += (uint64_t)tree_free((void *)(uintptr_t)(0x100 + tree_below(9999)));
	}
}

/* A call begins, and makes others. */
static void tree_inside(void)
{
	volatile unsigned at = ++tree.depth;

	for (volatile unsigned n = at < TREE_DEPTH ? tree_below(3) : 0; n; n--) {
		tree.inner++;
		tree.has_catch[at] = tree_below(2) == 0;
		if (!setjmp(tree.catches[at]))
			tree_call();
		tree.depth = at;
		tree.has_catch[at] = 0;
	}
	if (!tree_below(12)) {
		unsigned to = at - 1;

		while (to && !tree.has_catch[to])
			to--;
		tree.left += !to;
		longjmp(tree.catches[to], 1);
	}
}

static void test_calls_in_calls_at_random(void **state)
{
	static const void *const fns[] = { tree_driver, tree_runtime, tree_free };
	struct mt_seg_spec gives = { .kind = MT_EV_SEG_ALLOC, .seg = MT_SEG_DEVICE, .whose = MT_SEG_DEV_THREAD,
				     .addr = SEG_VALUE(OUT, 0), .size = { SEG_VALUE(ARG, 1) } };
	const struct mt_seg_spec takes = { .kind = MT_EV_SEG_FREE, .seg = MT_SEG_DEVICE, .addr = SEG_VALUE(ARG, 0) };
	const struct mt_seg_spec specs[] = { gives, gives, takes };
	uint64_t seed = (uint64_t)time(NULL);
	volatile unsigned n;
	struct rig r;

	(void)state;
	printf("seed %llu\n", (unsigned long long)seed);
	memset(&tree, 0, sizeof(tree));
	tree.rng = seed;
	rig__init(&r, 0, 0);
	rig__segs(&r, fns, specs, 3);
	self_attach(r.t, &r.plan);
	for (n = 0; n < TREES; n++) {
		tree.depth = 0;
		if (!setjmp(tree.catches[0]))
			tree_call();
	}
	rig__collect(&r);
	assert_int_equal(r.cnt, tree.want_cnt);
	for (size_t i = 0; i < r.cnt; i++) {
		const struct event *e = &r.ev[i], *w = &tree.want[i];

		assert_true(e->kind == w->kind && e->addr == w->addr && e->size == w->size && e->aux == w->aux);
	}
	assert_true(tree.inner > TREES / 2 && tree.left > 0);
	/* the last one may still be open */
	assert_in_range(rig__loss(&r, MT_LOSS_PENDING), tree.left - 1, tree.left);
	rig__done(&r);
}

static uint16_t semaphore_now(void) { return *(volatile uint16_t *)&semaphore; }

/* A probe with a semaphore counts it up; where another tool has a probe without, the kernel refuses ours. */
static void test_semaphores(void **state)
{
	struct mt_usdt_spec spec = { .kind = MT_EV_STEP, .ptr = { .form = MT_ARG_CONST, .value = 5, .bytes = 8 } };
	struct attach_stats st = { 0 };
	struct rig r, other;

	(void)state;
	rig__init(&r, 0, 0);
	rig__usdt(&r, end, spec);
	r.sites[0].ref_ctr_offset = file_offset(&semaphore);
	assert_int_equal(semaphore_now(), 0);
	self_attach(r.t, &r.plan);
	assert_int_equal(semaphore_now(), 1);
	end();
	rig__collect(&r);
	expect_kinds(&r, MT_EV_STEP, 0);
	rig__done(&r);
	assert_int_equal(semaphore_now(), 0);

	rig__init(&other, 0, 0);
	rig__usdt(&other, end, spec);
	self_attach(other.t, &other.plan);
	rig__init(&r, 0, 0);
	rig__usdt(&r, end, spec);
	r.sites[0].ref_ctr_offset = file_offset(&semaphore);
	assert_true(tracer__attach(r.t, getpid(), &r.plan, &st, NULL) < 0);
	assert_int_equal(st.clashed, 1);
	assert_int_equal(st.failed, 1);
	rig__done(&r);
	rig__done(&other);
}

static void test_kernel_side(void **state)
{
	size_t len = 8 << 20, maps = 0, unmaps = 0;
	struct rig r;
	char *p;

	(void)state;
	rig__init(&r, 0, 1);
	assert_int_equal(tracer__follow(r.t, getpid(), NULL), 0);
	p = mmap(NULL, len - 5, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	memset(p, 1, len - 5);
	munmap(p, len - 5);
	rig__collect(&r);
	for (size_t i = 0; i < r.cnt; i++) {
		const struct event *e = &r.ev[i];

		if (e->kind == MT_EV_MMAP && e->addr == (uintptr_t)p) {
			assert_int_equal(e->size, len);
			assert_int_equal(e->flags, MT_MAP_ANON);
			maps++;
		}
		unmaps += e->kind == MT_EV_MUNMAP && e->addr == (uintptr_t)p && e->size == len;
	}
	assert_int_equal(maps, 1);
	assert_int_equal(unmaps, 1);
	rig__done(&r);
}

/* Events of a mapping that mremap moved: the place that it left is mapped too, or is not any more. */
static void test_remap(void **state)
{
	size_t len = 1 << 20;
	struct rig r;

	(void)state;
	for (int stays = 0; stays < 2; stays++) {
		const struct event *e[3] = { NULL };
		size_t cnt = 0;
		char *from, *to;

		rig__init(&r, 0, 1);
		from = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert_int_equal(tracer__follow(r.t, getpid(), NULL), 0);
		to = mremap(from, len, stays ? len : 2 * len, MREMAP_MAYMOVE | (stays ? MREMAP_DONTUNMAP : 0));
		assert_ptr_not_equal(to, MAP_FAILED);
		rig__collect(&r);
		for (size_t i = 0; i < r.cnt && cnt < 3; i++)
			if (r.ev[i].flags & MT_MAP_REMAP)
				e[cnt++] = &r.ev[i];
		assert_int_equal(cnt, 2 + stays);
		assert_true(e[0]->kind == MT_EV_MUNMAP && e[0]->addr == (uintptr_t)from && e[0]->size == len);
		assert_true(e[1]->kind == MT_EV_MMAP && e[1]->addr == (uintptr_t)to);
		assert_int_equal(e[1]->flags, MT_MAP_REMAP | (stays ? MT_MAP_STAYS : 0));
		if (stays)
			assert_true(e[2]->kind == MT_EV_MMAP && e[2]->addr == (uintptr_t)from && e[2]->size == len);
		rig__done(&r);
		munmap(to, stays ? len : 2 * len);
		if (stays)
			munmap(from, len);
	}
}

#define NR_CHDIR_32 12 /* brk's number among the others */

static long call_32(long nr, const void *arg)
{
	long ret = nr;

	__asm__ volatile("int $0x80" : "+a"(ret) : "b"(arg) : "memory", "r8", "r9", "r10", "r11");
	return ret;
}

/* In a 64-bit process its numbers mean other calls. */
static void test_calls_of_the_32_bit_interface(void **state)
{
	char *dot = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	pid_t pid;
	int status, is_seen = 0;
	uint64_t at;
	struct rig r;

	(void)state;
	assert_ptr_not_equal(dot, MAP_FAILED);
	strcpy(dot, ".");
	pid = fork();
	if (!pid)
		_exit(call_32(NR_CHDIR_32, dot) != 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status) /* a kernel without that interface: SIGSEGV */
		skip();
	rig__init(&r, 0, 1);
	assert_int_equal(tracer__follow(r.t, getpid(), NULL), 0);
	assert_int_equal(call_32(NR_CHDIR_32, dot), 0);
	at = (uint64_t)syscall(SYS_brk, 0);
	rig__collect(&r);
	for (size_t i = 0; i < r.cnt; i++) {
		is_seen |= r.ev[i].kind == MT_EV_BRK && r.ev[i].addr == at;
		assert_false(r.ev[i].kind == MT_EV_BRK && !r.ev[i].addr);
	}
	assert_true(is_seen);
	rig__done(&r);
	munmap(dot, 4096);
}

static void test_nothing_is_left_behind(void **state)
{
	struct rig r;

	(void)state;
	self_forget();
	rig__ops(&r);
	assert_true(is_probed(op_a));
	rig__done(&r);
	assert_false(is_probed(op_a));
	assert_false(is_probed(fw_new));
}

static void test_calibration_is_plausible(void **state)
{
	unsigned most;
	struct rig r;

	(void)state;
	self_forget();
	rig__init(&r, 0, 1);
	/* What a trap may cost on any machine that runs this; an emulated processor (tests/vm/init) is slower. */
	most = getenv("MT_EMULATED") ? 1000000 : 20000;
	assert_in_range(tracer__cost_ns(r.t, MT_PROG_OP), 100, most);
	assert_in_range(tracer__cost_ns(r.t, MT_PROG_FW_NEW), 100, most);
	assert_in_range(tracer__cost_ns(r.t, MT_PROG_USDT), 100, most);
	assert_in_range(tracer__cost_ns(r.t, MT_PROG_HOST_RET), 100, most);
	assert_in_range(tracer__cost_ns(r.t, MT_PROG_FW_USAGE), 100, most);
	assert_in_range(tracer__cost_ns(r.t, MT_PROG_SEG_RET), 100, most);
	assert_in_range(tracer__cost_ns(r.t, MT_PROG_FLOW_OP), 100, most);
	assert_in_range(tracer__cost_ns(r.t, MT_PROG_FLOW_APPLY), 100, most);
	assert_in_range(tracer__cost_ns(r.t, MT_PROG_FLOW_ACC), 100, most);
	rig__collect(&r);
	assert_int_equal(r.cnt, 0); /* nothing of it reaches the trace */
	rig__done(&r);
}

/* --- tensor arguments ----------------------------------------------------------------------------- */

/* Objects as c10 lays them out, by words; torch 1.13 has a word more before every object's own fields. */
struct objects {
	uint64_t tensor[8], grad[8], meta[8], storage[2][10], acc[128], undefined[8];
	uint64_t optional[2], items[2], vector[3];
};

static uint64_t vt_tensor[2], vt_undefined[2], vt_storage[2], vt_meta[2], vt_stranger[2];

static uint64_t at(const void *p)
{
	return (uintptr_t)p;
}

static void objects__lay(struct objects *o, const struct mt_flow_layout *l, unsigned device)
{
	memset(o, 0, sizeof(*o));
	for (int i = 0; i < 2; i++) {
		o->storage[i][0] = at(vt_storage);
		o->storage[i][l->storage_data / 8] = o->storage[i][l->storage_data / 8 + 2] = 0x1000 * (i + 1);
		o->storage[i][l->storage_size / 8] = 100 + i;
		o->storage[i][l->storage_dev / 8] = device;
	}
	o->tensor[0] = o->grad[0] = at(vt_tensor);
	o->undefined[0] = at(vt_undefined);
	o->tensor[l->impl_storage / 8] = at(o->storage[0]);
	o->grad[l->impl_storage / 8] = at(o->storage[1]);
	o->tensor[l->impl_autograd_meta / 8] = at(o->meta);
	o->meta[0] = at(vt_meta);
	o->meta[l->meta_grad / 8] = at(o->grad);
	o->acc[l->acc_variable / 8] = at(o->tensor);
	o->optional[l->optional_impl / 8] = at(o->grad);
	o->optional[l->optional_engaged / 8] = 1;
	o->items[0] = at(o->tensor);
	o->items[1] = at(o->grad);
	o->vector[0] = at(o->items + 1);
	o->vector[1] = o->vector[2] = at(o->items + 2);
}

static const struct mt_flow_layout flow_layouts[] = {
	{ 16, 24, 40, 16, 40, 48, 16, 0, 8, 464 },
	{ 24, 32, 40, 24, 48, 56, 24, 8, 0, 392 },
};
static struct flow_vtable flow_classes[] = {
	{ 0, MT_CLASS_PLAIN }, { 0, MT_CLASS_UNDEFINED }, { 0, MT_CLASS_STORAGE }, { 0, MT_CLASS_META },
};
static struct mt_flow_spec flow_specs[] = {
	{ 0 },
	{ 3,
	  { { MT_FLOW_TENSOR, 0, MT_FLOW_F_REQUIRED | MT_FLOW_F_WRITTEN, 0 },
	    { MT_FLOW_OPTIONAL, 1, 0, 1 },
	    { MT_FLOW_LIST, 2, MT_FLOW_F_REQUIRED, 2 } } },
	{ 2, { { MT_FLOW_TENSOR, 16, MT_FLOW_F_REQUIRED, 6 }, { MT_FLOW_OPTIONAL, 17, 0, 7 } } },
};

/* Not attached yet: sites of one program stand together in a plan. */
static void rig__flow_sites(struct rig *r, const struct mt_flow_layout *l)
{
	flow_classes[0].addr = at(vt_tensor);
	flow_classes[1].addr = at(vt_undefined);
	flow_classes[2].addr = at(vt_storage);
	flow_classes[3].addr = at(vt_meta);
	rig__init(r, 0, 0);
	r->plan.flow_layout = (struct flow_layout){ "a test's", *l };
	r->plan.flow_specs = flow_specs;
	r->plan.flow_specs_cnt = 3;
	r->plan.flow_vtables = flow_classes;
	r->plan.flow_vtables_cnt = 4;
	rig__site(r, flow_op, MT_PROG_FLOW_OP, OP_A | 1ull << 32);
}

static void rig__flow(struct rig *r, const struct mt_flow_layout *l)
{
	rig__flow_sites(r, l);
	rig__site(r, flow_acc, MT_PROG_FLOW_ACC, 0);
	self_attach(r->t, &r->plan);
}

static void expect_arg(const struct rig *r, size_t i, uint64_t ptr, uint32_t aux, uint8_t dev, uint8_t class)
{
	const struct event *e = &r->ev[i];

	assert_true(i < r->cnt);
	assert_int_equal(e->kind, EV_ARG);
	assert_int_equal(e->addr, ptr);
	assert_int_equal(e->size, ptr ? 99 + ptr / 0x1000 : 0);
	assert_int_equal(e->aux, aux);
	assert_int_equal(e->dev, dev);
	assert_int_equal(e->flags, class);
}

#define AUX(index, flags, item) ((index) | (unsigned)(flags) << 8 | (unsigned)(item) << 16)

/* Both layouts: every form, and what AccumulateGrad has. */
static void test_tensors_of_both_layouts(void **state)
{
	static const struct {
		unsigned device;
		uint8_t dev;
	} devices[] = {
		{ 0xff00, MT_DEV_CPU }, { 0x0301, MT_DEV_CUDA0 + 3 }, { 0x0006, MT_DEV_CUDA0 },
		{ 0x4001, MT_DEV_NONE }, { 0x000c, MT_DEV_NONE },
	};

	(void)state;
	for (size_t k = 0; k < 2; k++) {
		const struct mt_flow_layout *l = &flow_layouts[k];
		struct objects o;
		struct rig r;
		size_t n = 0;

		rig__flow(&r, l);
		for (size_t d = 0; d < sizeof(devices) / sizeof(*devices); d++) {
			objects__lay(&o, l, devices[d].device);
			flow_op(&o.items[0], o.optional, o.items, 2);
			o.optional[l->optional_engaged / 8] = 0;
			flow_op(&o.items[0], o.optional, o.items, 0);
			flow_acc(NULL, o.acc, o.vector);
		}
		rig__collect(&r);
		for (size_t d = 0; d < sizeof(devices) / sizeof(*devices); d++) {
			uint8_t dev = devices[d].dev;

			assert_int_equal(r.ev[n++].kind, MT_EV_OP);
			expect_arg(&r, n++, 0x1000, AUX(0, 3, 0), dev, MT_CLASS_PLAIN);
			expect_arg(&r, n++, 0x2000, AUX(1, 0, 0), dev, MT_CLASS_PLAIN);
			expect_arg(&r, n++, 0x1000, AUX(2, 2, 0), dev, MT_CLASS_PLAIN);
			expect_arg(&r, n++, 0x2000, AUX(2, 2, 1), dev, MT_CLASS_PLAIN);
			assert_int_equal(r.ev[n++].kind, MT_EV_OP);
			expect_arg(&r, n++, 0x1000, AUX(0, 3, 0), dev, MT_CLASS_PLAIN);
			assert_int_equal(r.ev[n++].kind, MT_EV_ACC);
			expect_arg(&r, n++, 0x1000, AUX(0, 0, 0), dev, MT_CLASS_PLAIN);
			expect_arg(&r, n++, 0x2000, AUX(1, 0, 0), dev, MT_CLASS_PLAIN);
			expect_arg(&r, n++, 0x2000, AUX(2, 0, 0), dev, MT_CLASS_PLAIN);
		}
		assert_int_equal(r.cnt, n);
		assert_int_equal(rig__loss(&r, MT_LOSS_ARGS), 0);
		assert_int_equal(rig__loss(&r, MT_LOSS_READ_FAULT), 0);
		rig__done(&r);
	}
}

/* The first word on the stack is behind the return address. */
static void test_tensors_on_the_stack(void **state)
{
	struct objects o;
	struct rig r;

	(void)state;
	rig__flow_sites(&r, &flow_layouts[0]);
	rig__site(&r, flow_many, MT_PROG_FLOW_OP, OP_B | 2ull << 32);
	self_attach(r.t, &r.plan);
	objects__lay(&o, &flow_layouts[0], 0);
	flow_many(1, 2, 3, 4, 5, 6, &o.items[0], o.optional);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_OP, EV_ARG, EV_ARG, 0);
	expect_arg(&r, 1, 0x1000, AUX(6, 2, 0), MT_DEV_CPU, MT_CLASS_PLAIN);
	expect_arg(&r, 2, 0x2000, AUX(7, 0, 0), MT_DEV_CPU, MT_CLASS_PLAIN);
	rig__done(&r);
}

/* Inside an operator its own tensors are not read again, but what is written is; the next one knows nothing. */
static void test_tensors_given_already(void **state)
{
	struct mt_flow_spec *spec = &flow_specs[1];
	const struct mt_flow_spec kept = *spec;
	struct objects o;
	struct rig r;

	(void)state;
	spec->args[1].flags |= MT_FLOW_F_ONCE;
	spec->args[2].flags |= MT_FLOW_F_ONCE;
	rig__flow_sites(&r, &flow_layouts[0]);
	rig__site(&r, flow_outer, MT_PROG_FLOW_OP, OP_B | 1ull << 32);
	self_attach(r.t, &r.plan);
	objects__lay(&o, &flow_layouts[0], 0);
	flow_outer(&o.items[0], o.optional, o.items, 1);
	flow_op(&o.items[0], o.optional, o.items, 1);
	/* what the outer one has no storage for, the inner one is asked for again */
	o.storage[0][0] = at(vt_stranger);
	flow_outer(&o.items[0], o.optional, o.items, 0);
	rig__collect(&r);
	*spec = kept;
	expect_kinds(&r, MT_EV_OP, EV_ARG, EV_ARG, EV_ARG, MT_EV_OP, EV_ARG, MT_EV_OP, EV_ARG, EV_ARG, EV_ARG, MT_EV_OP,
		     EV_ARG, EV_ARG, MT_EV_OP, EV_ARG, EV_ARG, 0);
	expect_arg(&r, 2, 0x2000, AUX(1, 0, 0), MT_DEV_CPU, MT_CLASS_PLAIN);
	expect_arg(&r, 3, 0x1000, AUX(2, 2, 0), MT_DEV_CPU, MT_CLASS_PLAIN);
	expect_arg(&r, 5, 0x1000, AUX(0, 3, 0), MT_DEV_CPU, MT_CLASS_PLAIN);
	expect_arg(&r, 8, 0x2000, AUX(1, 0, 0), MT_DEV_CPU, MT_CLASS_PLAIN);
	expect_arg(&r, 15, 0x2000, AUX(1, 0, 0), MT_DEV_CPU, MT_CLASS_PLAIN);
	rig__done(&r);
}

/* Memory that goes by way of an object of its owner's, as NumPy's and shared memory do. */
static void test_memory_of_others(void **state)
{
	struct objects o;
	struct rig r;

	(void)state;
	rig__flow(&r, &flow_layouts[1]);
	objects__lay(&o, &flow_layouts[1], 0);
	o.storage[1][flow_layouts[1].storage_data / 8 + 2] = 0x7000;
	flow_op(&o.items[0], o.optional, o.items, 0);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_OP, EV_ARG, EV_ARG, 0);
	expect_arg(&r, 1, 0x1000, AUX(0, 3, 0), MT_DEV_CPU, MT_CLASS_PLAIN);
	expect_arg(&r, 2, 0x2000, AUX(1, MT_FLOW_F_FOREIGN, 0), MT_DEV_CPU, MT_CLASS_PLAIN);
	rig__done(&r);
}

/* What is not of a known class is not believed, and is counted where a tensor had to be. */
static void test_strangers_are_not_read(void **state)
{
	struct objects o;
	struct rig r;

	(void)state;
	rig__flow(&r, &flow_layouts[0]);
	objects__lay(&o, &flow_layouts[0], 0);
	o.optional[1] = 0;
	o.storage[0][0] = at(vt_stranger); /* 1 lost: its storage is none */
	flow_op(&o.items[0], o.optional, o.items, 0);
	o.tensor[0] = at(vt_storage); /* a class that is known, but of no tensor */
	flow_op(&o.items[0], o.optional, o.items, 0);
	o.tensor[0] = at(vt_undefined);
	flow_op(&o.items[0], o.optional, o.items, 0);
	o.tensor[0] = at(vt_stranger); /* 1 lost: no variable */
	flow_acc(NULL, o.acc, o.vector);
	objects__lay(&o, &flow_layouts[0], 0);
	o.meta[0] = at(vt_stranger); /* 1 lost: its .grad */
	flow_acc(NULL, o.acc, o.vector);
	o.acc[464 / 8] = 8; /* a read fault, and 1 lost */
	flow_acc(NULL, o.acc, o.vector);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_OP, EV_ARG, MT_EV_OP, EV_ARG, MT_EV_OP, EV_ARG, MT_EV_ACC, EV_ARG, EV_ARG, MT_EV_ACC,
		     EV_ARG, EV_ARG, MT_EV_ACC, EV_ARG, 0);
	expect_arg(&r, 1, 0, AUX(0, 3 | MT_FLOW_F_NO_STORAGE, 0), MT_DEV_NONE, MT_CLASS_PLAIN);
	expect_arg(&r, 3, 0, AUX(0, 3 | MT_FLOW_F_NO_STORAGE, 0), MT_DEV_NONE, MT_CLASS_UNKNOWN);
	expect_arg(&r, 5, 0, AUX(0, 3 | MT_FLOW_F_NO_STORAGE, 0), MT_DEV_NONE, MT_CLASS_UNDEFINED);
	expect_arg(&r, 7, 0, AUX(0, MT_FLOW_F_NO_STORAGE, 0), MT_DEV_NONE, MT_CLASS_UNKNOWN);
	expect_arg(&r, 8, 0x2000, AUX(2, 0, 0), MT_DEV_CPU, MT_CLASS_PLAIN);
	expect_arg(&r, 10, 0x1000, AUX(0, 0, 0), MT_DEV_CPU, MT_CLASS_PLAIN);
	expect_arg(&r, 11, 0x2000, AUX(2, 0, 0), MT_DEV_CPU, MT_CLASS_PLAIN);
	expect_arg(&r, 13, 0x2000, AUX(2, 0, 0), MT_DEV_CPU, MT_CLASS_PLAIN);
	assert_int_equal(rig__loss(&r, MT_LOSS_ARGS), 4);
	assert_int_equal(rig__loss(&r, MT_LOSS_READ_FAULT), 1);
	rig__done(&r);
}

/* A list<optional<Tensor>> longer than is read, and one that is gone: counted, both. */
static void test_long_and_torn_lists(void **state)
{
	const struct mt_flow_layout *l = &flow_layouts[0];
	const struct mt_flow_spec kept = flow_specs[1];
	uint64_t items[10][2], list[8] = { 0 }, pointer = at(list), torn = 8;
	struct objects o;
	struct rig r;

	(void)state;
	flow_specs[1] = (struct mt_flow_spec){ 1, { { MT_FLOW_LIST_OPTIONAL, 0, 0, 0 } } };
	rig__flow(&r, l);
	objects__lay(&o, l, 0);
	for (int i = 0; i < 10; i++) {
		items[i][0] = at(o.tensor);
		items[i][1] = i != 1; /* the second one is None */
	}
	list[l->list_begin / 8] = at(items);
	for (int cnt = 8; cnt <= 10; cnt++) {
		list[l->list_begin / 8 + 1] = at(items[0]) + 16ul * (unsigned)cnt;
		flow_op(&pointer, NULL, NULL, 0);
	}
	assert_int_equal(rig__loss(&r, MT_LOSS_ARGS), 2);
	assert_int_equal(rig__loss(&r, MT_LOSS_READ_FAULT), 0);
	list[l->list_begin / 8] = 8; /* its items, the list, the argument cannot be read */
	flow_op(&pointer, NULL, NULL, 0);
	flow_op(&torn, NULL, NULL, 0);
	flow_op((void *)8, NULL, NULL, 0);
	rig__collect(&r);
	flow_specs[1] = kept;
	assert_int_equal(rig__loss(&r, MT_LOSS_READ_FAULT), 3);
	assert_int_equal(r.cnt, 3 * (1 + 7) + 3);
	expect_arg(&r, 2, 0x1000, AUX(0, 0, 2), MT_DEV_CPU, MT_CLASS_PLAIN);
	rig__done(&r);
}

/* --- boxed calls, Python's nodes ------------------------------------------------------------------------- */

/* c10's objects as the layout below has them. */
struct cxx_string {
	const char *at;
	uint64_t bytes;
	char own[16];
};
struct boxed_arg {
	struct cxx_string name;
	const uint8_t *alias;
};
#define BOXED_ARGS 5
#define LIST_TAG 14
struct boxed {
	struct {
		struct cxx_string name, schema_name;
		const struct boxed_arg *begin, *end;
	} op;
	struct boxed_arg args[BOXED_ARGS];
	uint8_t aliases[2]; /* one is written */
	uint64_t values[BOXED_ARGS + 1][2], list[4], items[3][2];
	const void *handle, *functor;
	const void *stack[2];
};

static void cxx_string__set(struct cxx_string *s, const char *text)
{
	s->bytes = strlen(text);
	s->at = s->bytes < sizeof(s->own) ? s->own : text;
	memset(s->own, 0x5a, sizeof(s->own)); /* what is behind the end is not zero */
	if (s->at == s->own)
		memcpy(s->own, text, s->bytes + 1);
}

/* name(Tensor(a!) self, Tensor(b) other, Tensor weight, int dim, Tensor?[] and_a_long_name_of_tensors), and a value below. */
static void boxed__lay(struct boxed *x, const char *name, const struct objects *o)
{
	static const char *const names[BOXED_ARGS] = { "self", "other", "weight", "dim", "and_a_long_name_of_tensors" };
	const uint64_t values[BOXED_ARGS + 1][2] = { { 8, 1 }, { at(o->tensor), 1 }, { at(o->grad), 1 }, { at(o->grad), 1 },
						     { 3, 5 }, { at(x->list), LIST_TAG } };
	const uint64_t items[3][2] = { { at(o->tensor), 1 }, { 0, 0 }, { at(o->grad), 1 } };

	memset(x, 0, sizeof(*x));
	cxx_string__set(&x->op.name, name);
	cxx_string__set(&x->op.schema_name, name);
	for (int i = 0; i < BOXED_ARGS; i++)
		cxx_string__set(&x->args[i].name, names[i]);
	x->aliases[0] = 1;
	x->args[0].alias = &x->aliases[0];
	x->args[1].alias = &x->aliases[1];
	x->op.begin = x->args;
	x->op.end = x->args + BOXED_ARGS;
	memcpy(x->values, values, sizeof(values));
	memcpy(x->items, items, sizeof(items));
	x->list[2] = at(x->items);
	x->list[3] = at(x->items + 3);
	x->handle = &x->op;
	x->functor = &x->handle;
	x->stack[0] = x->values;
	x->stack[1] = x->values + BOXED_ARGS + 1;
}

static const struct mt_flow_layout boxed_layout = {
	16, 24, 40, 16, 40, 48, 16, 0, 8, 464, .schema = 32, .schema_args = 32, .arg_bytes = sizeof(struct boxed_arg),
	.arg_alias = 32, .alias_write = 0, .list_tag = LIST_TAG, .node_python = 112, .node_saved = 136, .saved_bytes = 80,
};

static void rig__boxed(struct rig *r, const struct mt_flow_layout *l)
{
	rig__flow_sites(r, l);
	rig__site(r, flow_boxed, MT_PROG_FLOW_BOXED, 0);
	self_attach(r->t, &r->plan);
}

/* The operator's name, its tensors and what it does to them are its schema's; what it calls is inside. */
static void test_boxed_calls(void **state)
{
	struct objects o;
	struct boxed x;
	struct rig r;

	(void)state;
	rig__boxed(&r, &boxed_layout);
	objects__lay(&o, &boxed_layout, 0);
	boxed__lay(&x, "aten::a", &o);
	flow_boxed(&x.functor, x.stack, &o.items[0]);
	boxed__lay(&x, "an::operator_of_a_long_name", &o);
	flow_boxed(&x.functor, x.stack, NULL);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_OP, EV_ARG, EV_ARG, EV_ARG, EV_ARG, EV_ARG, MT_EV_OP, EV_ARG, MT_EV_OP, EV_ARG, EV_ARG, EV_ARG,
		     EV_ARG, EV_ARG, 0);
	assert_string_equal(name_of(&r, 0), "aten::a");
	assert_int_equal(r.ev[0].flags, MT_OP_BY_HASH);
	expect_arg(&r, 1, 0x1000, AUX(0, MT_FLOW_F_REQUIRED | MT_FLOW_F_WRITTEN, 0), MT_DEV_CPU, MT_CLASS_PLAIN);
	expect_arg(&r, 2, 0x2000, AUX(1, MT_FLOW_F_REQUIRED | MT_FLOW_F_ALIAS, 0), MT_DEV_CPU, MT_CLASS_PLAIN);
	expect_arg(&r, 3, 0x2000, AUX(2, MT_FLOW_F_REQUIRED | MT_FLOW_F_WEIGHT, 0), MT_DEV_CPU, MT_CLASS_PLAIN);
	expect_arg(&r, 4, 0x1000, AUX(4, MT_FLOW_F_REQUIRED, 0), MT_DEV_CPU, MT_CLASS_PLAIN);
	expect_arg(&r, 5, 0x2000, AUX(4, MT_FLOW_F_REQUIRED, 2), MT_DEV_CPU, MT_CLASS_PLAIN);
	assert_string_equal(name_of(&r, 6), "op_a");
	assert_int_equal(r.ev[6].depth, 1);
	assert_string_equal(name_of(&r, 8), "an::operator_of_a_long_name");
	assert_int_equal(r.ev[8].depth, 0);
	rig__lost_nothing(&r);
	rig__done(&r);
}

/* What does not fit is an operator without tensors, and counted; what cannot be read at all is none. */
static void test_boxed_calls_that_do_not_fit(void **state)
{
	struct mt_flow_layout unknown = boxed_layout;
	struct objects o;
	struct boxed x;
	struct rig r;

	(void)state;
	rig__boxed(&r, &boxed_layout);
	objects__lay(&o, &boxed_layout, 0);
	boxed__lay(&x, "aten::a", &o);
	cxx_string__set(&x.op.schema_name, "aten::b"); /* 1 */
	flow_boxed(&x.functor, x.stack, NULL);
	boxed__lay(&x, "aten::a", &o);
	x.stack[1] = x.values + BOXED_ARGS - 1; /* 2: fewer values than arguments */
	flow_boxed(&x.functor, x.stack, NULL);
	boxed__lay(&x, "aten::a", &o);
	x.op.end = (const void *)(at(x.op.end) - 8); /* 3: no whole number of them */
	flow_boxed(&x.functor, x.stack, NULL);
	boxed__lay(&x, "aten::a", &o);
	x.args[1].name.at++; /* 4: from there on nothing is read */
	flow_boxed(&x.functor, x.stack, NULL);
	x.handle = (const void *)8; /* a read fault */
	flow_boxed(&x.functor, x.stack, NULL);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_OP, MT_EV_OP, MT_EV_OP, MT_EV_OP, EV_ARG, 0);
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(name_of(&r, i), "aten::a");
	assert_int_equal(rig__loss(&r, MT_LOSS_ARGS), 4);
	assert_int_equal(rig__loss(&r, MT_LOSS_READ_FAULT), 1);
	rig__done(&r);
	/* a plan has no such site then, but if it had */
	unknown.arg_bytes = 0;
	rig__boxed(&r, &unknown);
	boxed__lay(&x, "aten::a", &o);
	flow_boxed(&x.functor, x.stack, NULL);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_OP, 0);
	rig__done(&r);
}

/* record_function comes by torch.ops: its regions are told there, and not again by what these calls lead to. */
static void test_regions_by_boxed_calls(void **state)
{
	static const char enter[] = "profiler::_record_function_enter_new", leave[] = "profiler::_record_function_exit";
	struct {
		uint64_t head[2];
		struct cxx_string text;
	} name = { .head = { 0 } };
	struct {
		char *ptr;
		size_t len;
	} given = { (char *)"again", 5 };
	struct objects o;
	struct boxed x;
	struct rig r;

	(void)state;
	rig__flow_sites(&r, &boxed_layout);
	rig__site(&r, flow_boxed, MT_PROG_FLOW_BOXED, MT_BOXED_REGIONS);
	rig__site(&r, region_begin, MT_PROG_REGION_BEGIN, 0);
	rig__site(&r, region_end, MT_PROG_REGION_END, MT_REGION_ONCE);
	self_attach(r.t, &r.plan);
	objects__lay(&o, &boxed_layout, 0);
	boxed__lay(&x, enter, &o);
	cxx_string__set(&name.text, "a region with a long name");
	x.values[1][0] = at(&name);
	x.values[1][1] = 12;
	flow_boxed(&x.functor, x.stack, NULL);
	region_begin(NULL, &given);
	cxx_string__set(&name.text, "short");
	flow_boxed(&x.functor, x.stack, NULL); /* without what it leads to */
	boxed__lay(&x, leave, &o);
	flow_boxed(&x.functor, x.stack, NULL);
	region_end(&o);
	flow_boxed(&x.functor, x.stack, NULL);
	region_end(&o);
	boxed__lay(&x, enter, &o);
	name.text.at++; /* no string: a region, but without a name */
	x.values[1][0] = at(&name);
	flow_boxed(&x.functor, x.stack, NULL);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_REGION_BEGIN, MT_EV_REGION_BEGIN, MT_EV_REGION_END, MT_EV_REGION_END, MT_EV_REGION_BEGIN, 0);
	assert_string_equal(name_of(&r, 0), "a region with a long name");
	assert_string_equal(name_of(&r, 1), "short");
	assert_int_equal(r.ev[2].aux, 1);
	assert_int_equal(r.ev[3].aux, 0);
	assert_string_equal(name_of(&r, 4), "?");
	assert_int_equal(rig__loss(&r, MT_LOSS_ARGS), 1);
	rig__done(&r);
	/* who has other probes for that */
	rig__boxed(&r, &boxed_layout);
	boxed__lay(&x, enter, &o);
	flow_boxed(&x.functor, x.stack, NULL);
	rig__collect(&r);
	expect_kinds(&r, 0);
	rig__done(&r);
}

/* The probe on boxed calls comes and goes: without it a region ends as it begins, and what it had begun is over. */
static void test_regions_without_boxed_calls(void **state)
{
	static const char enter[] = "profiler::_record_function_enter_new", leave[] = "profiler::_record_function_exit";
	struct {
		uint64_t head[2];
		struct cxx_string text;
	} name = { .head = { 0 } };
	struct {
		const char *ptr;
		size_t len;
	} given = { "Optimizer.step#SGD.step", 23 };
	static const uint32_t open[] = { 0, 0, 0, 1, 0, 0, 0, 0 };
	struct objects o;
	struct boxed x;
	struct rig r;

	(void)state;
	rig__flow_sites(&r, &boxed_layout);
	rig__site(&r, region_begin, MT_PROG_REGION_BEGIN, MT_REGION_BRIEF);
	rig__site(&r, flow_boxed, MT_PROG_FLOW_BOXED, MT_BOXED_REGIONS | MT_BOXED_MARKED);
	self_attach(r.t, &r.plan);
	objects__lay(&o, &boxed_layout, 0);
	boxed__lay(&x, leave, &o);
	region_begin(NULL, &given);
	flow_boxed(&x.functor, x.stack, NULL); /* it has come: the end of what is over */
	boxed__lay(&x, enter, &o);
	cxx_string__set(&name.text, "forward");
	x.values[1][0] = at(&name);
	x.values[1][1] = 12;
	for (int i = 0; i < 2; i++) {
		flow_boxed(&x.functor, x.stack, NULL);
		region_begin(NULL, &given);
	}
	region_begin(NULL, &given); /* it has gone */
	boxed__lay(&x, enter, &o);
	x.values[1][0] = at(&name);
	x.values[1][1] = 12;
	flow_boxed(&x.functor, x.stack, NULL);
	region_begin(NULL, &given);
	boxed__lay(&x, leave, &o);
	flow_boxed(&x.functor, x.stack, NULL);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_REGION_BEGIN, MT_EV_REGION_END, MT_EV_REGION_BEGIN, MT_EV_REGION_BEGIN, MT_EV_REGION_BEGIN,
		     MT_EV_REGION_END, MT_EV_REGION_BEGIN, MT_EV_REGION_END, 0);
	for (size_t i = 0; i < sizeof(open) / sizeof(*open); i++)
		assert_int_equal(r.ev[i].aux, open[i]);
	assert_string_equal(name_of(&r, 0), "Optimizer.step#SGD.step");
	assert_string_equal(name_of(&r, 2), "forward");
	assert_string_equal(name_of(&r, 4), "Optimizer.step#SGD.step");
	rig__done(&r);
}

/* A rig that knows PyNode's vtable. */
static void rig__python_nodes(struct rig *r, uint64_t vtable)
{
	static struct flow_vtable classes[5];

	rig__flow_sites(r, &boxed_layout);
	memcpy(classes, flow_classes, sizeof(flow_classes));
	classes[4] = (struct flow_vtable){ vtable, MT_CLASS_PY_NODE };
	r->plan.flow_vtables = classes;
	r->plan.flow_vtables_cnt = 5;
	rig__site(r, flow_node, MT_PROG_NODE, 0);
	self_attach(r->t, &r->plan);
}

/* A node that Python defined is called as its object's type; others by their vtable. */
static void test_nodes_of_python(void **state)
{
	static uint64_t vt_python[2];
	uint64_t node[16] = { 0 }, obj[32] = { 0 }, type[4] = { 0 };
	struct rig r;

	(void)state;
	rig__python_nodes(&r, at(vt_python));
	node[0] = at(vt_python);
	node[boxed_layout.node_python / 8] = at(obj);
	obj[1] = at(type);
	type[3] = at("SwishBackward");
	flow_node(NULL, NULL, node);
	node[0] = at(vt_stranger);
	flow_node(NULL, NULL, node);
	node[0] = at(vt_python);
	obj[1] = 8; /* a read fault: it has the name that all have whose class is not known */
	flow_node(NULL, NULL, node);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_NODE, MT_EV_NODE, MT_EV_NODE, 0);
	assert_string_equal(name_of(&r, 0), "SwishBackward");
	assert_int_equal(r.ev[0].flags, MT_NODE_PYTHON);
	assert_string_equal(name_of(&r, 1), "autograd node");
	assert_string_equal(name_of(&r, 2), "autograd node");
	assert_int_equal(rig__loss(&r, MT_LOSS_READ_FAULT), 1);
	rig__done(&r);
}

/* What such a node has saved is told with it: tensors alone, and nothing where the words are no vector of them. */
static void test_saved_by_nodes_of_python(void **state)
{
	enum { SAVED = 136 / 8, ITEM = 80 / 8 };
	static uint64_t vt_python[2];
	uint64_t node[16] = { 0 }, obj[32] = { 0 }, type[4] = { 0 }, saved[4 * ITEM] = { 0 };
	struct objects o;
	struct rig r;

	(void)state;
	rig__python_nodes(&r, at(vt_python));
	objects__lay(&o, &boxed_layout, 0);
	node[0] = at(vt_python);
	node[boxed_layout.node_python / 8] = at(obj);
	obj[1] = at(type);
	type[3] = at("SwishBackward");
	flow_node(NULL, NULL, node); /* it has saved nothing */
	saved[0] = at(o.tensor);
	saved[ITEM] = at(o.undefined); /* None, or a hook has it */
	saved[3 * ITEM] = at(o.grad);
	obj[SAVED] = at(saved);
	obj[SAVED + 1] = at(saved + 4 * ITEM);
	flow_node(NULL, NULL, node);
	obj[SAVED + 1]--;
	flow_node(NULL, NULL, node);
	obj[SAVED + 1] = at(saved) - 80;
	flow_node(NULL, NULL, node);
	node[0] = at(vt_stranger);
	obj[SAVED + 1] = at(saved + 4 * ITEM);
	flow_node(NULL, NULL, node);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_NODE, MT_EV_NODE, MT_EV_SAVED, MT_EV_SAVED, MT_EV_SAVED, MT_EV_NODE, MT_EV_NODE, MT_EV_NODE, 0);
	assert_int_equal(r.ev[2].addr, 0);
	assert_true(r.ev[3].addr == 0x1000 && r.ev[3].size == 100 && r.ev[3].dev == MT_DEV_CPU);
	assert_true(r.ev[4].addr == 0x2000 && r.ev[4].size == 101 && r.ev[4].flags == MT_CLASS_PLAIN);
	for (size_t i = 2; i < 5; i++) /* of the node that was just entered */
		assert_true(r.ev[i].depth == r.ev[1].depth + 1 && r.ev[i].seq == r.ev[1].seq);
	assert_int_equal(rig__loss(&r, MT_LOSS_READ_FAULT), 0);
	node[0] = at(vt_python);
	obj[SAVED] = 8; /* two items where nothing is */
	obj[SAVED + 1] = 8 + 2 * 80;
	r.cnt = 0;
	flow_node(NULL, NULL, node);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_NODE, 0);
	assert_int_equal(rig__loss(&r, MT_LOSS_READ_FAULT), 2);
	rig__done(&r);
}

/* A process that goes takes its classes along: what was one of its is none of the next one's. */
static void test_classes_go_with_their_process(void **state)
{
	struct objects o;
	struct rig r;

	(void)state;
	rig__flow(&r, &flow_layouts[0]);
	objects__lay(&o, &flow_layouts[0], 0);
	assert_int_equal(tracer__classes_cnt(r.t), 4);
	tracer__detach(r.t, getpid());
	assert_int_equal(tracer__classes_cnt(r.t), 0);
	self_attach(r.t, &r.plan);
	flow_op(&o.items[0], o.optional, o.items, 0);
	rig__collect(&r);
	expect_arg(&r, 1, 0x1000, AUX(0, 3, 0), MT_DEV_CPU, MT_CLASS_PLAIN);
	rig__done(&r);
}

static int descriptors_of_ourselves(void)
{
	char path[64];
	struct stat self, st;
	int n = 0;

	assert_int_equal(stat("/proc/self/exe", &self), 0);
	for (int fd = 0; fd < 1024; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n += !stat(path, &st) && st.st_ino == self.st_ino && st.st_dev == self.st_dev;
	}
	return n;
}

/* A place that is set again while its last link is being closed is reported twice (tracer__lower()). */
static void wait_until_closed(struct tracer *t)
{
	uint64_t taken;

	for (int i = 0; tracer__lower(t, getpid(), MT_LEVEL_STILL, &taken) > 0; i++) {
		assert_true(i < 60000);
		usleep(1000);
	}
}

/* Over weeks a trace meets files without end; deleted ones take room on the disk as long as they are open. */
static void test_files_go_with_their_process(void **state)
{
	struct rig r;
	int before;

	(void)state;
	rig__init(&r, 64 << 10, 0);
	before = descriptors_of_ourselves();
	rig__site(&r, op_a, MT_PROG_OP, OP_A);
	for (int i = 0; i < 3; i++) {
		self_attach(r.t, &r.plan);
		assert_int_equal(descriptors_of_ourselves(), before + 1);
		op_a((void *)0x1000, 0);
		tracer__detach(r.t, getpid());
		assert_int_equal(descriptors_of_ourselves(), before);
		wait_until_closed(r.t);
	}
	rig__collect(&r);
	expect_kinds(&r, MT_EV_OP, MT_EV_OP, MT_EV_OP, 0);
	rig__done(&r);
}

/* --- blocks above --min-size ------------------------------------------------------------------------ */

NOINLINE void *host_give(size_t size)
{
	static uintptr_t at = 0x100000;

	sink += size;
	return (void *)(at += 64);
}
NOINLINE void host_take(void *ptr) { sink += (uintptr_t)ptr; }

/* Among the descriptors of this process, for others on the machine may trace, too. -1: there is none. */
static int map_named(const char *name)
{
	for (int fd = 3; fd < 4096; fd++) {
		struct bpf_map_info info = { 0 };
		uint32_t len = sizeof(info);
		char path[40], what[40] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, what, sizeof(what) - 1) > 0 && !strcmp(what, "anon_inode:bpf-map") &&
		    !bpf_obj_get_info_by_fd(fd, &info, &len) && !strcmp(info.name, name))
			return fd;
	}
	return -1;
}

/* Our tracer's map; the caller closes it. */
static int map_of_tracer(const char *name)
{
	int fd = map_named(name);

	assert_true(fd >= 0);
	return dup(fd);
}

/* What an earlier tracer had is closed beside us, as soon as the kernel has let go of its probes. */
static void wait_for_no_map(const char *name)
{
	for (int i = 0; map_named(name) >= 0; i++) {
		assert_true(i < 60000);
		usleep(1000);
	}
}

struct live {
	struct rig r;
	struct taps *taps; /* the rings are theirs */
	struct mt_bpf__bss *bss;
	int counts, blocks;
	uint32_t pid;
};

static void live__init(struct live *l)
{
	struct taps_desc desc;
	int fds[TAPS_FDS_MAX];

	min_size = 16;
	wait_for_no_map("live_counts");
	rig__init(&l->r, 64 << 10, 0);
	rig__site(&l->r, host_give, MT_PROG_HOST_RET, MT_HOST_MALLOC);
	l->r.sites[0].is_ret = 1;
	rig__site(&l->r, host_give, MT_PROG_HOST_ENTER, MT_HOST_MALLOC);
	rig__site(&l->r, host_take, MT_PROG_HOST_FREE, 0);
	l->counts = map_of_tracer("live_counts");
	l->blocks = map_of_tracer("live");
	l->pid = (uint32_t)getpid();
	tracer__taps(l->r.t, &desc, fds);
	l->bss = mmap(NULL, desc.bss_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[desc.rings_cnt], 0);
	assert_ptr_not_equal(l->bss, MAP_FAILED);
	for (unsigned i = 0; i <= desc.rings_cnt; i++)
		fds[i] = dup(fds[i]); /* the tracer's are its own */
	assert_int_equal(taps__new(&l->taps, &desc, fds, desc.rings_cnt + 1u, NULL), 0);
	self_attach(l->r.t, &l->r.plan);
}

static void live__done(struct live *l)
{
	taps__free(l->taps);
	close(l->counts);
	close(l->blocks);
	rig__done(&l->r);
}

/* As if the process had so many, and all others together so many. */
static void live__pretend(struct live *l, uint64_t own, uint64_t others)
{
	struct mt_live_count c = { .cnt = own };

	assert_int_equal(bpf_map_update_elem(l->counts, &l->pid, &c, BPF_ANY), 0);
	l->bss->mt_live_cnt = own + others;
}

/* So many found no room; else all that could say why. */
static void live__expect_over(const struct live *l, uint64_t over)
{
	struct mt_live_count c = { 0 };
	uint64_t has = rig__loss(&l->r, MT_LOSS_LIVE_TABLE);

	if (has == over)
		return;
	for (unsigned i = 0; i < MT_LOSS_MAX; i++)
		if (rig__loss(&l->r, i))
			print_message("%s: %u\n", loss_name(i), (unsigned)rig__loss(&l->r, i));
	(void)bpf_map_lookup_elem(l->counts, &l->pid, &c);
	fail_msg("%u without room, and not %u; the process has %u blocks, all have %u; %u left out, in %u processes",
		 (unsigned)has, (unsigned)over, (unsigned)c.cnt, (unsigned)l->bss->mt_live_cnt, (unsigned)c.left_out,
		 l->bss->mt_live_over_cnt);
}

static void test_live_blocks_have_shares(void **state)
{
	struct drained d;
	uint64_t key[2];
	struct live l;
	void *first;

	(void)state;
	live__init(&l);
	live__pretend(&l, MT_LIVE_MAX / 2 - 3, 0);
	first = host_give(16);
	assert_int_equal(host_give(15) != NULL, 1); /* too small to be told */
	for (int i = 0; i < 4; i++)
		(void)host_give(16);
	live__expect_over(&l, 2);
	assert_int_equal(taps__next_live_over(l.taps), getpid());
	assert_int_equal(taps__next_live_over(l.taps), 0);
	host_take(first);
	(void)host_give(1000); /* there is room again */
	live__expect_over(&l, 2);
	live__pretend(&l, MT_LIVE_MAX / 2 - 3, MT_LIVE_MAX / 4); /* others came: the share is smaller */
	(void)host_give(1000);
	live__expect_over(&l, 3);
	live__pretend(&l, 100, 3 * (MT_LIVE_MAX / 4)); /* who has little finds room beside one that has most */
	(void)host_give(1000);
	live__expect_over(&l, 3);
	tracer__detach(l.r.t, getpid()); /* its four blocks are gone, and what is known of it */
	assert_int_equal(bpf_map_get_next_key(l.blocks, NULL, key), -ENOENT);
	assert_int_equal(bpf_map_get_next_key(l.counts, NULL, key), -ENOENT);
	assert_int_equal(l.bss->mt_live_cnt, 100 + 3 * (MT_LIVE_MAX / 4) + 1 - 4);
	assert_true(taps__drain(l.taps, UINT64_MAX, rig__record, &l.r, &d) > 0);
	rig__collected(&l.r);
	expect_kinds(&l.r, MT_EV_ALLOC, MT_EV_ALLOC, MT_EV_ALLOC, MT_EV_FREE, MT_EV_ALLOC, MT_EV_ALLOC, 0);
	live__done(&l);
}

/* --- stacks ---------------------------------------------------------------------------------------- */

static void rig__stacks(struct rig *r, unsigned which, uint64_t size, uint64_t rate)
{
	stacks = which;
	stack_size = size;
	stack_rate = rate;
	rig__init(r, 0, 0);
	rig__site(r, fw_new, MT_PROG_FW_NEW, 0);
	self_attach(r->t, &r->plan);
}

static void test_native_stacks(void **state)
{
	volatile uint64_t mark[2] = { 0x1122334455667788, 0 };
	struct rig r;
	uint64_t word;

	(void)state;
	rig__stacks(&r, MT_STACKS_NATIVE, 1000, 1000);
	fw_new(NULL, (void *)0x1000, 999);
	fw_new(NULL, (void *)0x2000, 1000);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_ALLOC, MT_EV_STACK_RAW, MT_EV_ALLOC, 0);
	assert_int_equal(r.ev[1].addr, 0x2000);
	assert_true(r.ev[1].ts_ns <= r.ev[2].ts_ns);
	assert_int_equal(r.raw->regs[MT_STACK_PC], (uintptr_t)fw_new);
	assert_in_range(r.raw->bytes_cnt, 4096, MT_STACK_RAW_MAX);
	/* The first word is the return address, into this function; its own variables lie above. */
	memcpy(&word, r.raw->bytes, sizeof(word));
	assert_in_range(word, (uintptr_t)test_native_stacks, (uintptr_t)test_native_stacks + 4096);
	assert_non_null(memmem(r.raw->bytes, r.raw->bytes_cnt, (const void *)mark, sizeof(mark[0])));
	assert_int_equal(r.raw->regs[MT_STACK_SP] & 15, 8);
	assert_int_equal(rig__loss(&r, MT_LOSS_STACK_RATE), 0);
	rig__done(&r);
}

static void test_native_stacks_have_a_rate(void **state)
{
	struct rig r;

	(void)state;
	rig__stacks(&r, MT_STACKS_NATIVE, 0, 100);
	for (uintptr_t i = 1; i <= 1000; i++)
		fw_new(NULL, (void *)(i * 64), 1);
	rig__collect(&r);
	assert_in_range(r.raws, 100, 250); /* a second's worth at once, and what a slow machine adds */
	assert_int_equal(r.cnt - r.raws, 1000); /* no allocation is lost for it */
	assert_int_equal(r.raws + rig__loss(&r, MT_LOSS_STACK_RATE), 1000);
	rig__done(&r);
	/* A ring that is too small for any. */
	stacks = MT_STACKS_NATIVE;
	stack_size = 0;
	rig__init(&r, 4096, 0);
	rig__site(&r, fw_new, MT_PROG_FW_NEW, 0);
	self_attach(r.t, &r.plan);
	fw_new(NULL, (void *)64, 1);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_ALLOC, 0);
	assert_int_equal(rig__loss(&r, MT_LOSS_STACK_RATE), 1);
	rig__done(&r);
}

/* An interpreter of our own making: a thread's state under a key, frames, code objects. */
struct fake_code {
	uint64_t words[16];
};
struct fake_frame {
	const struct fake_code *code; /* 0 */
	const struct fake_frame *previous; /* 8 */
	uint64_t instr; /* 16 */
	uint8_t owner; /* 24 */
	uint8_t pad[7];
};
struct fake_tstate {
	uint64_t pad, thread_id;
	const struct fake_frame *frame;
};

static struct mt_py_proc fake_python(pthread_key_t key)
{
	return (struct mt_py_proc){ .tsd_table = 0x510, .tsd_key = key, .tstate_thread_id = 8, .tstate_frame = 16,
				    .cframe_frame = MT_PY_NO_OFFSET, .frame_bytes = 32, .frame_previous = 8,
				    .frame_instr = 16, .frame_owner = 24, .frame_entry = MT_PY_NO_OFFSET, .code_check = 32,
				    .owner_shim = 3, .instr_bytes = 8 };
}

static void test_python_stacks(void **state)
{
	struct fake_code codes[2] = { { { 0, 0, 0, 0, 1, 2, 3, 4 } }, { { 0, 0, 0, 0, 5, 6, 7, 8 } } };
	struct fake_frame f[100] = { { &codes[0], &f[1], 100, 0, { 0 } },  { &codes[1], &f[2], 200, 0, { 0 } },
				     { NULL, &f[3], 0, 3, { 0 } },	    { &codes[0], NULL, 300, 0, { 0 } } };
	struct fake_tstate ts = { .thread_id = (uint64_t)pthread_self(), .frame = f };
	struct mt_py_proc how;
	__u64 words[4] = { 5, 6, 7, 8 };
	pthread_key_t key;
	struct rig r;

	(void)state;
	assert_int_equal(pthread_key_create(&key, NULL), 0);
	assert_int_equal(pthread_setspecific(key, &ts), 0);
	how = fake_python(key);
	rig__stacks(&r, MT_STACKS_PYTHON, 0, 0);
	fw_new(NULL, (void *)0x1000, 1); /* not told yet how */
	assert_int_equal(tracer__python(r.t, getpid(), &how), 0);
	fw_new(NULL, (void *)0x2000, 1);
	fw_new(NULL, (void *)0x3000, 1); /* the same: its hash alone */
	rig__collect(&r);
	expect_kinds(&r, MT_EV_ALLOC, MT_EV_STACK, MT_EV_ALLOC, MT_EV_STACK, MT_EV_ALLOC, 0);
	assert_int_equal(r.pys, 1);
	assert_int_equal(r.ev[1].addr, 0x2000);
	assert_int_equal(r.ev[1].size, r.py.hash);
	assert_int_equal(r.ev[3].size, r.py.hash);
	assert_int_equal(r.py.frames_cnt, 3);
	assert_false(r.py.is_cut);
	assert_int_equal(r.py.frames[0].code, (uintptr_t)&codes[0]);
	assert_int_equal(r.py.frames[0].instr, 100);
	/* What the shim called was called from C. */
	assert_int_equal(r.py.frames[1].code, (uintptr_t)&codes[1] | MT_PY_ENTRY);
	assert_int_equal(r.py.frames[1].check, mt_py_check(words));
	assert_int_equal(r.py.frames[2].instr, 300);
	/* Another line, another stack. Another code object at the same place, too. */
	f[1].instr++;
	fw_new(NULL, (void *)0x1000, 1);
	codes[0].words[7]++;
	fw_new(NULL, (void *)0x1000, 1);
	rig__collect(&r);
	assert_int_equal(r.pys, 3);
	/* Deeper than what is taken; a frame that is not there. */
	for (int i = 0; i < 99; i++)
		f[i] = (struct fake_frame){ &codes[0], &f[i + 1], (uint64_t)i, 0, { 0 } };
	f[99] = (struct fake_frame){ &codes[0], NULL, 99, 0, { 0 } };
	fw_new(NULL, (void *)0x1000, 1);
	rig__collect(&r);
	assert_int_equal(r.py.frames_cnt, MT_PY_FRAMES_MAX);
	assert_true(r.py.is_cut);
	f[1].previous = (const struct fake_frame *)0x10;
	fw_new(NULL, (void *)0x1000, 1);
	rig__collect(&r);
	assert_int_equal(r.py.frames_cnt, 2);
	assert_true(r.py.is_cut);
	/* Somebody else's state, or none: no Python runs in this thread. */
	r.cnt = 0;
	ts.thread_id++;
	fw_new(NULL, (void *)0x1000, 1);
	assert_int_equal(pthread_setspecific(key, NULL), 0);
	fw_new(NULL, (void *)0x1000, 1);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_ALLOC, MT_EV_ALLOC, 0);
	rig__done(&r);
	pthread_key_delete(key);
}

static uint64_t monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static struct mt_catch catch_for(uint64_t ns, uint64_t min, uint64_t max, int left)
{
	return (struct mt_catch){ .until_ns = monotonic_ns() + ns, .cnt = 1,
				  .sorts = { { .min = min, .max = max, .dev = MT_DEV_CPU, .left = left } } };
}

static void expect_refused(const struct rig *r, struct mt_catch what)
{
	assert_int_equal(tracer__catch(r->t, getpid(), &what), -EINVAL);
}

static unsigned caught(struct rig *r)
{
	unsigned cnt = 0;

	rig__collect(r);
	for (size_t i = 0; i < r->cnt; i++)
		cnt += r->ev[i].kind == MT_EV_STACK;
	r->cnt = 0;
	return cnt;
}

/* Of a moment's allocations some get their Python stack: of which, how many and until when is kept in the kernel. */
static void test_caught_allocations(void **state)
{
	struct fake_code code = { { 0, 0, 0, 0, 1, 2, 3, 4 } };
	struct fake_frame f = { &code, NULL, 100, 0, { 0 } };
	struct fake_tstate ts = { .thread_id = (uint64_t)pthread_self(), .frame = &f };
	struct mt_catch what;
	struct mt_py_proc how;
	pthread_key_t key;
	struct rig r;

	(void)state;
	assert_int_equal(pthread_key_create(&key, NULL), 0);
	assert_int_equal(pthread_setspecific(key, &ts), 0);
	how = fake_python(key);
	stacks = MT_STACKS_CATCH;
	rig__init(&r, 0, 0);
	rig__site(&r, fw_new, MT_PROG_FW_NEW, 0);
	rig__site(&r, op_a, MT_PROG_OP, OP_A);
	rig__site(&r, op_b, MT_PROG_OP, OP_B);
	self_attach(r.t, &r.plan);
	assert_int_equal(tracer__python(r.t, getpid(), &how), 0);
	fw_new(NULL, (void *)0x1000, 100);
	assert_int_equal(caught(&r), 0); /* nothing was asked for */
	what = catch_for(5000000000, 90, 100, 3);
	assert_int_equal(tracer__catch(r.t, getpid(), &what), 0);
	for (uintptr_t i = 1; i < 10; i++) {
		fw_new(NULL, (void *)(i * 64), 101); /* of another size */
		fw_new(NULL, (void *)(i * 64), 89);
	}
	assert_int_equal(caught(&r), 0);
	for (uintptr_t i = 1; i < 20; i++)
		fw_new(NULL, (void *)(i * 64), 90 + i % 11);
	assert_int_equal(caught(&r), 3);
	assert_int_equal(r.pys, 1);
	what = catch_for(5000000000, 0, 1000, 64); /* asked for again: counted again */
	what.sorts[0].dev = MT_DEV_CUDA0;
	assert_int_equal(tracer__catch(r.t, getpid(), &what), 0);
	fw_new(NULL, (void *)64, 100);
	assert_int_equal(caught(&r), 0);
	what = catch_for(5000000000, 0, 1000, 64);
	what.sorts[0].op[0] = OP_B;
	assert_int_equal(tracer__catch(r.t, getpid(), &what), 0);
	fw_new(NULL, (void *)64, 100);
	op_a((void *)0x1000, 1);
	rig__collect(&r);
	expect_kinds(&r, MT_EV_ALLOC, MT_EV_OP, MT_EV_OP, MT_EV_STACK, MT_EV_ALLOC, MT_EV_ALLOC, 0);
	assert_int_equal(r.ev[3].addr, 0x1000); /* op_b's, inside op_a */
	r.cnt = 0;
	what = catch_for(0, 0, 1000, 64); /* over before it began */
	assert_int_equal(tracer__catch(r.t, getpid(), &what), 0);
	fw_new(NULL, (void *)64, 100);
	assert_int_equal(caught(&r), 0);
	what = catch_for(5000000000, 0, 1000, 64);
	assert_int_equal(tracer__catch(r.t, getpid(), &what), 0);
	assert_int_equal(tracer__catch(r.t, getpid(), NULL), 0); /* taken back */
	fw_new(NULL, (void *)64, 100);
	assert_int_equal(caught(&r), 0);
	assert_int_equal(tracer__catch(r.t, getpid(), NULL), -ENOENT);
	/* More than a moment is not to be had. */
	expect_refused(&r, catch_for(2 * MT_CATCH_NS_MAX, 0, 1000, 1));
	expect_refused(&r, catch_for(1000, 0, 1000, MT_CATCH_LEFT_MAX + 1));
	expect_refused(&r, catch_for(1000, 0, 1000, 0));
	what = catch_for(1000, 0, 1000, 1);
	what.cnt = 2;
	what.sorts[1] = what.sorts[0];
	what.sorts[1].left = MT_CATCH_LEFT_MAX; /* each for itself is not too many */
	expect_refused(&r, what);
	what.cnt = MT_CATCH_SORTS_MAX + 1;
	expect_refused(&r, what);
	what.cnt = 0;
	expect_refused(&r, what);
	rig__done(&r);
	/* Where the walker is not loaded nothing can be caught. */
	rig__init(&r, 0, 0);
	expect_refused(&r, catch_for(1000, 0, 1000, 1));
	rig__done(&r);
	pthread_key_delete(key);
}

#define COST_ROUNDS 7
#define COST_CALLS 20000

/* As fw_new, with an entry that costs no single step: what is asked here would not be seen beside that. */
void cheap_new(void *self, void *ptr, size_t size);
__asm__(".text\n.globl cheap_new\n.type cheap_new, %function\ncheap_new:\n\tnop\n\tret\n");

/* ns a call, of the fastest thousand: others' work on this machine only adds. The rings are emptied in between. */
static double ns_a_alloc(struct rig *r, double least)
{
	for (unsigned i = 0; i < COST_CALLS / 1000; i++) {
		uint64_t begin = monotonic_ns(), took;

		for (uintptr_t k = 1; k <= 1000; k++)
			cheap_new(NULL, (void *)(k * 64), 100);
		took = monotonic_ns() - begin;
		least = (double)took / 1000 < least ? (double)took / 1000 : least;
		rig__collect(r);
		r->cnt = 0;
	}
	return least;
}

/* What an allocation costs where nothing can be caught, nothing is, others are, and where all has been that may be. */
static void test_what_catching_costs(void **state)
{
	double without = 1e9, off = 1e9, others = 1e9, spent = 1e9;
	struct rig r;

	(void)state;
	for (int i = 0; i < COST_ROUNDS; i++) {
		struct mt_catch what = catch_for(MT_CATCH_NS_MAX / 2, 101, 200, MT_CATCH_LEFT_MAX);

		rig__init(&r, 0, 0);
		rig__site(&r, cheap_new, MT_PROG_FW_NEW, 0);
		self_attach(r.t, &r.plan);
		without = ns_a_alloc(&r, without);
		rig__done(&r);
		stacks = MT_STACKS_CATCH;
		rig__init(&r, 0, 0);
		rig__site(&r, cheap_new, MT_PROG_FW_NEW, 0);
		self_attach(r.t, &r.plan);
		off = ns_a_alloc(&r, off);
		assert_int_equal(tracer__catch(r.t, getpid(), &what), 0);
		others = ns_a_alloc(&r, others);
		what.sorts[0].min = 0; /* no Python runs here: taken in vain, until none is left */
		assert_int_equal(tracer__catch(r.t, getpid(), &what), 0);
		(void)ns_a_alloc(&r, 0);
		spent = ns_a_alloc(&r, spent);
		rig__done(&r);
	}
	print_message("a birth: %.0f ns; loaded and off: %.3f times that; while other sizes are caught: %.3f; when all were: "
		      "%.3f\n",
		      without, off / without, others / without, spent / without);
}

/* The name that the allocation numbered `i` has of its place; 0: none. */
static uint32_t place_of(const struct rig *r, size_t i)
{
	size_t n = 0;

	for (size_t k = 0; k < r->cnt; k++)
		if (r->ev[k].kind == MT_EV_ALLOC && n++ == i)
			return r->ev[k].name.v;
	fail_msg("no allocation %zu", i);
	return 0;
}

/* What came since the last look: the last place, and how many allocations with one and without. */
struct places_seen {
	struct mt_rec_place place; /* hash 0: none */
	unsigned with, without;
};

static int place_record(void *ctx, const void *rec, size_t len)
{
	const struct mt_hdr *h = rec;
	struct places_seen *s = ctx;

	if (h->kind == MT_EV_PLACE) {
		assert_int_equal(len, sizeof(s->place));
		memcpy(&s->place, rec, len);
	}
	s->with += h->kind == MT_EV_ALLOC_AT;
	s->without += h->kind == MT_EV_ALLOC;
	return 0;
}

static struct places_seen places_seen(struct rig *r)
{
	struct places_seen ret = { 0 };
	struct drained d;

	assert_true(tracer__drain(r->t, UINT64_MAX, place_record, &ret, &d) >= 0);
	return ret;
}

/* Where no operator is open, an allocation has the innermost line of Python; a line of no interest is told no more. */
static void test_places(void **state)
{
	struct fake_code code = { { 0, 0, 0, 0, 1, 2, 3, 4 } };
	struct fake_frame f[2] = { { &code, &f[1], 100, 0, { 0 } }, { &code, NULL, 300, 0, { 0 } } };
	struct fake_tstate ts = { .thread_id = (uint64_t)pthread_self(), .frame = f };
	struct mt_module_proc how = { .generation = 1 };
	__u64 words[4] = { 1, 2, 3, 4 };
	struct places_seen seen;
	struct {
		const char *text;
		uint64_t len;
	} region = { "Optimizer.step#Adam.step", 24 };
	uint64_t node[32] = { 0 };
	pthread_key_t key;
	struct rig r;

	(void)state;
	assert_int_equal(pthread_key_create(&key, NULL), 0);
	assert_int_equal(pthread_setspecific(key, &ts), 0);
	how.py = fake_python(key);
	rig__init(&r, 0, 0);
	rig__site(&r, fw_new, MT_PROG_FW_NEW, 0);
	rig__site(&r, op_a, MT_PROG_OP, OP_A);
	rig__site(&r, node_eval, MT_PROG_NODE, 0);
	rig__site(&r, region_begin, MT_PROG_REGION_BEGIN, 0);
	self_attach(r.t, &r.plan);
	fw_new(NULL, (void *)0x1000, 1); /* not told yet how */
	assert_int_equal(tracer__modules(r.t, getpid(), &how), 0);
	op_a((void *)0x2000, 0); /* an operator is open */
	fw_new(NULL, (void *)0x3000, 1);
	fw_new(NULL, (void *)0x4000, 1); /* the same line */
	f[0].instr++;
	fw_new(NULL, (void *)0x5000, 1);
	rig__collect(&r);
	assert_true(!place_of(&r, 0) && !place_of(&r, 1) && place_of(&r, 2));
	assert_int_equal(place_of(&r, 3), place_of(&r, 2));
	assert_true(place_of(&r, 4) && place_of(&r, 4) != place_of(&r, 2));
	/* Another code object at the same place is another line. */
	r.cnt = 0;
	code.words[7] = ++words[3];
	fw_new(NULL, (void *)0x3000, 1);
	seen = places_seen(&r);
	assert_true(seen.with == 1 && seen.place.code == (uintptr_t)&code && seen.place.instr == 101);
	assert_true(seen.place.check == mt_py_check(words) && seen.place.hdr.pid == (uint32_t)getpid());
	assert_int_equal(tracer__plain_place(r.t, seen.place.hash), 0);
	fw_new(NULL, (void *)0x3000, 1);
	seen = places_seen(&r);
	assert_true(!seen.place.hash && !seen.with && seen.without == 1);
	/* Right in a node of backward, which is no operator. */
	r.cnt = 0;
	f[0].instr++;
	node_eval(NULL, NULL, node);
	rig__collect(&r);
	assert_true(place_of(&r, 0) && r.ev[1].depth == 1);
	/* A frame, or a code object, that is not there; nobody's state. */
	r.cnt = 0;
	f[0].code = (const struct fake_code *)0x10;
	fw_new(NULL, (void *)0x3000, 1);
	ts.frame = (const struct fake_frame *)0x10;
	fw_new(NULL, (void *)0x3000, 1);
	assert_int_equal(pthread_setspecific(key, NULL), 0);
	fw_new(NULL, (void *)0x3000, 1);
	rig__collect(&r);
	assert_true(r.cnt == 3 && !place_of(&r, 0) && !place_of(&r, 1) && !place_of(&r, 2));
	/* Of an optimizer's step all but numbers. */
	f[0].code = &code;
	ts.frame = f;
	assert_int_equal(pthread_setspecific(key, &ts), 0);
	region_begin(NULL, &region);
	fw_new(NULL, (void *)0x3000, 16);
	seen = places_seen(&r);
	assert_true(!seen.with && seen.without == 1);
	fw_new(NULL, (void *)0x3000, 17);
	assert_int_equal(places_seen(&r).with, 1);
	rig__lost_nothing(&r);
	rig__done(&r);
	pthread_key_delete(key);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nesting),
		cmocka_unit_test(test_closed_op_is_not_open_in_deeper_code),
		cmocka_unit_test(test_op_left_by_longjmp),
		cmocka_unit_test(test_sites_are_set_in_slices),
		cmocka_unit_test(test_idle_operators_go_and_come_back),
		cmocka_unit_test(test_idle_operators_go_in_slices),
		cmocka_unit_test(test_look_ups_are_reported),
		cmocka_unit_test(test_null_and_empty_are_no_events),
		cmocka_unit_test(test_threads_lose_nothing),
		cmocka_unit_test(test_full_ring_is_counted),
		cmocka_unit_test(test_full_ring_of_names_is_counted),
		cmocka_unit_test(test_full_ring_has_room_for_others),
		cmocka_unit_test(test_ring_goes_round),
		cmocka_unit_test(test_named_ops_nest_with_probed_ones),
		cmocka_unit_test(test_missing_ends_do_not_pile_up),
		cmocka_unit_test(test_deeper_than_the_stack),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_names_without_end),
		cmocka_unit_test(test_shares_of_specs),
		cmocka_unit_test(test_shares_of_slots_and_layouts),
		cmocka_unit_test(test_names_of_threads_on_one_cpu),
		cmocka_unit_test(test_usdt_argument_forms),
		cmocka_unit_test(test_regions),
		cmocka_unit_test(test_regions_on_a_heap_behind_the_stack),
		cmocka_unit_test(test_regions_that_end_once),
		cmocka_unit_test(test_tensors_of_both_layouts),
		cmocka_unit_test(test_boxed_calls),
		cmocka_unit_test(test_boxed_calls_that_do_not_fit),
		cmocka_unit_test(test_regions_by_boxed_calls),
		cmocka_unit_test(test_regions_without_boxed_calls),
		cmocka_unit_test(test_nodes_of_python),
		cmocka_unit_test(test_saved_by_nodes_of_python),
		cmocka_unit_test(test_tensors_on_the_stack),
		cmocka_unit_test(test_tensors_given_already),
		cmocka_unit_test(test_memory_of_others),
		cmocka_unit_test(test_strangers_are_not_read),
		cmocka_unit_test(test_long_and_torn_lists), cmocka_unit_test(test_classes_go_with_their_process),
		cmocka_unit_test(test_framework_usage),
		cmocka_unit_test(test_realloc_frees_when_it_begins),
		cmocka_unit_test(test_segments),
		cmocka_unit_test(test_calls_in_calls_at_random),
		cmocka_unit_test(test_semaphores),
		cmocka_unit_test(test_kernel_side),
		cmocka_unit_test(test_remap),
		cmocka_unit_test(test_calls_of_the_32_bit_interface),
		cmocka_unit_test(test_live_blocks_have_shares),
		cmocka_unit_test(test_native_stacks),
		cmocka_unit_test(test_native_stacks_have_a_rate),
		cmocka_unit_test(test_python_stacks),
		cmocka_unit_test(test_caught_allocations),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_nothing_is_left_behind), cmocka_unit_test(test_files_go_with_their_process),
		cmocka_unit_test(test_calibration_is_plausible),
	};
	const struct CMUnitTest costs[] = { cmocka_unit_test(test_what_catching_costs) }; /* numbers, no test: when asked for */
	const char *mode = argc > 1 ? argv[1] : "";
	int failed = 0;

	if (geteuid()) {
		fprintf(stderr, "%s: needs root\n", argv[0]);
		return 1;
	}
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	if (!strcmp(mode, "costs"))
		return cmocka_run_group_tests(costs, NULL, NULL);
	if (!strcmp(mode, "auto")) {
		way = -1;
		failed = cmocka_run_group_tests_name("the tracer's choice", tests, NULL, NULL);
		printf("way: %s\n", way < 0 ? "none" : way ? "perf" : "multi");
		return failed != 0;
	}
	if (strcmp(mode, "perf"))
		failed = cmocka_run_group_tests_name("uprobe_multi", tests, NULL, NULL);
	force_perf = way = 1;
	if (strcmp(mode, "multi"))
		failed += cmocka_run_group_tests_name("perf uprobes", tests, NULL, NULL);
	return failed != 0;
}

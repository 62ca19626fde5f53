/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * In a tight loop a probe looks cheap: the kernel's entry code and the program stay in the first-level caches, which a training
 * job needs for itself, for code (Python, the dispatcher, operators) more than for data. So between two calls the timing loop
 * walks over as many bytes of data, and runs through as many of code, as these caches hold, with the probes and without; the
 * difference includes what the probe has to fetch again and what it evicts. (An allocation, and an operator with tensors, on
 * Zen 5 by `memtrace -vv`: 0.63 and 1.27 us in a tight loop, 0.72 and 1.37 with data, 0.88 to 0.97 and 1.51 to 1.79 with both.)
 *
 * Marks of steps are hit so rarely that a step has used more than all caches hold in between: for them that many bytes are
 * walked over. (Two hits a step of a 64 wide MLP on Zen: 17 us each by a profile of the job, 22 by what it lost beside a twin
 * on the same CPU; by this walk over 0.5, 2, 8 and 32 MB 1.7, 2, 16 and 25 us.)
 *
 * A loop that calls malloc keeps the entry code in the caches: there only data is walked over. (`tests/bench/cost churn`: 0.60
 * us a hit were lost, 0.62 reported.)
 *
 * Each program gets a function of its own that starts with the instruction that is best to probe, so that all of them can be
 * set, timed in one thread and removed together (removing a probe waits for a grace period; one after the other would take a
 * second). The best of several short rounds counts: the machine may be busy, and disturbances only ever add time. Without a
 * probe these functions are alike, so the best of all that are timed in the same way is what each of them takes: one that was
 * disturbed in all its rounds would make its probe free. A hit inside a real job costs more when its caches are full.
 */
#include "trace/calib.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arch/arch.h"
#include "base/clock.h"
#include "memtrace/arg_names.h"

#define ROUNDS 21
#define CALLS 20
#define L1D_DEFAULT (48u << 10)
#define L1D_MAX (128u << 10)
#define L1I_DEFAULT (32u << 10)
#define RARE_BYTES (8u << 20) /* more would evict the job's data from the cache that it shares with us */
#define RARE_ROUNDS 3
#define RARE_CALLS 6

static const struct {
	enum mt_prog prog;
	unsigned own; /* number of the function that is probed */
	int is_ret;
} sites[] = {
	{ MT_PROG_OP, 0, 0 },
	{ MT_PROG_NODE, 1, 0 },
	{ MT_PROG_FW_NEW, 2, 0 },
	{ MT_PROG_FW_DELETE, 3, 0 },
	{ MT_PROG_REGION_BEGIN, 4, 0 },
	{ MT_PROG_REGION_END, 5, 0 },
	{ MT_PROG_HOST_FREE, 6, 0 },
	{ MT_PROG_HOST_ENTER, 7, 0 },
	{ MT_PROG_HOST_RET, 7, 1 },
	{ MT_PROG_USDT, 8, 0 },
	{ MT_PROG_FW_USAGE, 9, 0 },
	{ MT_PROG_SEG_ENTER, 10, 0 },
	{ MT_PROG_SEG_RET, 10, 1 },
	{ MT_PROG_FLOW_OP, 11, 0 },
	{ MT_PROG_FLOW_APPLY, 12, 0 },
	{ MT_PROG_FLOW_ACC, 13, 0 },
	{ MT_PROG_FLOW_BOXED, 14, 0 },
};
#define SITES_CNT (sizeof(sites) / sizeof(*sites))

/* Arguments with which every program takes its usual path: readable pointers, sizes that are not zero. */
static const struct {
	const char *ptr;
	uint64_t len;
} calib_name = { "calibration", 11 };
static uint64_t calib_word = 1;

/*
 * A tensor with a gradient (itself), the node that accumulates it and a vector that holds it, as flow's
 * programs read them. In a transformer's step an operator has 1.3 tensors; two are read here.
 */
enum { VTABLE_TENSOR = 1, VTABLE_STORAGE, VTABLE_META };
static const struct {
	uint64_t vtable, data, device, bytes, rest[4];
} calib_storage = { .vtable = VTABLE_STORAGE, .data = 4096, .bytes = 4096 };
static const struct calib_meta {
	uint64_t vtable;
	const void *grad;
	uint64_t rest[6];
} calib_meta;
static const struct {
	uint64_t vtable;
	const void *storage, *autograd_meta;
	uint64_t rest[2];
} calib_impl = { VTABLE_TENSOR, &calib_storage, &calib_meta, { 0 } }, *const calib_tensor = &calib_impl;
static const struct calib_meta calib_meta = { VTABLE_META, &calib_impl, { 0 } };
static const struct {
	uint64_t vtable;
	const void *variable;
} calib_node = { 0, &calib_impl };
static const struct {
	const void *begin, *end;
} calib_tensors = { &calib_tensor, &calib_tensor + 1 };

/* A boxed call of an operator with one argument: its handle, its schema's name and argument, the value. */
struct calib_string {
	const char *at;
	uint64_t bytes;
	char own[MT_ARG_NAME_BYTES];
};
static const struct calib_arg {
	struct calib_string name;
	const void *alias;
} calib_arg = { .name = { calib_arg.name.own, 5, "calib" } };
static const struct {
	struct calib_string name, schema_name;
	const struct calib_arg *args_begin, *args_end;
} calib_op = { { "calibration", 11, "" }, { "calibration", 11, "" }, &calib_arg, &calib_arg + 1 };
static const void *const calib_handle = &calib_op, *const calib_functor = &calib_handle;
static const struct {
	const void *payload;
	uint64_t tag;
} calib_value = { &calib_impl, 1 };
static const struct {
	const void *begin, *end;
} calib_stack = { &calib_value, &calib_value + 1 };

const struct mt_flow_spec calib_flow_spec = {
	.args_cnt = 2,
	.args = { { MT_FLOW_TENSOR, 0, MT_FLOW_F_REQUIRED, 0 }, { MT_FLOW_TENSOR, 0, MT_FLOW_F_REQUIRED, 1 } },
};
const struct mt_flow_layout calib_flow_layout = {
	.impl_storage = 8, .impl_autograd_meta = 16, .meta_grad = 8, .storage_data = 8, .storage_dev = 16,
	.storage_size = 24, .acc_variable = 8, .schema = 32, .schema_args = 32, .arg_bytes = sizeof(struct calib_arg),
	.arg_alias = 32, .list_tag = 14,
};
const struct flow_vtable calib_flow_vtables[3] = {
	{ VTABLE_TENSOR, MT_CLASS_PLAIN }, { VTABLE_STORAGE, MT_CLASS_STORAGE }, { VTABLE_META, MT_CLASS_META },
};

static volatile uint8_t pollution[L1D_MAX];

static size_t cache_bytes(int name, size_t otherwise, size_t most)
{
	long n = sysconf(name);

	return n <= 0 ? otherwise : (size_t)n < most ? (size_t)n : most;
}

static void pollute_data(void)
{
	static size_t bytes;

	if (!bytes)
		bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, L1D_DEFAULT, L1D_MAX);
	for (size_t i = 0; i < bytes; i += OWN_LINE)
		pollution[i]++;
}

void calib_pollute(void)
{
	static size_t bytes;

	if (!bytes)
		bytes = cache_bytes(_SC_LEVEL1_ICACHE_SIZE, L1I_DEFAULT, (size_t)OWN_LINES * OWN_LINE);
	pollute_data();
	own_code_run(bytes / OWN_LINE);
}

/* Programs of functions whose caller passes the place of the result, in an argument register or in another one. */
static int is_behind_result(enum mt_prog prog)
{
	return prog == MT_PROG_REGION_BEGIN || prog == MT_PROG_FLOW_APPLY || prog == MT_PROG_FLOW_ACC;
}

static void call(enum mt_prog prog, unsigned own, int i)
{
	static const void *const flow[] = { &calib_tensor, &calib_node, &calib_tensors, NULL };
	static const void *const boxed[] = { &calib_functor, &calib_stack, NULL, NULL };
	const void *const others[] = { &calib_word + (i & 1), &calib_name, &calib_word, NULL };
	int is_flow = prog == MT_PROG_FLOW_OP || prog == MT_PROG_FLOW_APPLY || prog == MT_PROG_FLOW_ACC;
	const void *const *args = is_flow ? flow : prog == MT_PROG_FLOW_BOXED ? boxed : others;

	args += is_behind_result(prog) ? 1 - MT_ARGS_HIDDEN : 0;
	own_site_call(own, args[0], args[1], args[2]);
}

/* What a program's calls are timed beside. */
enum beside { BESIDE_CODE, BESIDE_DATA, BESIDE_A_STEP, BESIDE_MAX };

static enum beside beside_of(enum mt_prog prog)
{
	if (prog == MT_PROG_REGION_BEGIN || prog == MT_PROG_REGION_END)
		return BESIDE_A_STEP;
	return prog == MT_PROG_HOST_FREE || prog == MT_PROG_HOST_ENTER || prog == MT_PROG_HOST_RET ? BESIDE_DATA : BESIDE_CODE;
}

/*
 * A function called once or twice a step finds the caches and address translations as the whole step left them: neither the
 * kernel's code nor the program's is near. Only the calls are timed, because the walk takes far longer.
 */
static unsigned time_rare(enum mt_prog prog, unsigned own, void (*discard)(void *), void *ctx)
{
	volatile uint8_t *far = mmap(NULL, RARE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t best = UINT64_MAX;

	for (int r = 0; r < RARE_ROUNDS; r++) {
		uint64_t took = 0, t0;

		for (int i = 0; i < RARE_CALLS; i++) {
			for (size_t k = 0; far != MAP_FAILED && k < RARE_BYTES; k += OWN_LINE)
				far[k]++;
			calib_pollute();
			t0 = now_ns();
			call(prog, own, i);
			took += now_ns() - t0;
		}
		if (took < best)
			best = took;
		discard(ctx);
	}
	if (far != MAP_FAILED)
		munmap((void *)far, RARE_BYTES);
	return (unsigned)(best / RARE_CALLS);
}

static unsigned time_own(enum mt_prog prog, unsigned own, void (*discard)(void *), void *ctx)
{
	int is_host = beside_of(prog) == BESIDE_DATA;
	uint64_t best = UINT64_MAX;

	for (int r = 0; r < ROUNDS; r++) {
		uint64_t t0 = now_ns(), took;

		for (int i = 0; i < CALLS; i++) {
			is_host ? pollute_data() : calib_pollute();
			call(prog, own, i);
		}
		took = now_ns() - t0;
		if (took < best)
			best = took;
		discard(ctx);
	}
	return (unsigned)(best / CALLS);
}

struct timing_job {
	const struct calib_ops *ops;
	unsigned ns[SITES_CNT];
};

static void *timing_thread(void *arg)
{
	struct timing_job *j = arg;

	for (size_t i = 0; i < SITES_CNT; i++) {
		int is_rare = beside_of(sites[i].prog) == BESIDE_A_STEP;

		j->ns[i] = (is_rare ? time_rare : time_own)(sites[i].prog, sites[i].own, j->ops->discard, j->ops->ctx);
	}
	return NULL;
}

/*
 * Where a function of this program lies, and a name of that file, from our own maps. It need not be
 * /proc/self/exe: a program that was started through its loader is not that file.
 */
int calib_offset_of(const void *fn, uint64_t *ret, char path[64])
{
	uint64_t addr = (uint64_t)(uintptr_t)fn;
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	int r = -ENOENT;

	if (!f)
		return -errno;
	while (r && fgets(line, sizeof(line), f)) {
		unsigned long start, end, off;

		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &off) == 3 && addr >= start && addr < end) {
			*ret = addr - start + off;
			snprintf(path, 64, "/proc/self/map_files/%lx-%lx", start, end);
			r = 0;
		}
	}
	fclose(f);
	return r;
}

static int run_thread(struct timing_job *j)
{
	pthread_t thread;
	int r = pthread_create(&thread, NULL, timing_thread, j);

	if (r)
		return -r;
	pthread_join(thread, NULL);
	return 0;
}

int calib_run(struct calib *ret, const struct calib_ops *ops)
{
	struct timing_job bare = { .ops = ops }, probed = { .ops = ops };
	unsigned best[BESIDE_MAX];
	int r = 0;
	uint64_t hits;

	r = run_thread(&bare);
	hits = ops->hits(ops->ctx, MT_PROG_OP);
	for (size_t i = 0; !r && i < SITES_CNT; i++) {
		uint64_t off = 0;
		char path[64];

		r = calib_offset_of(own_site(sites[i].own), &off, path);
		if (!r)
			r = ops->attach(ops->ctx, sites[i].prog, path, off, sites[i].is_ret);
	}
	if (!r)
		r = run_thread(&probed);
	if (!r && ops->hits(ops->ctx, MT_PROG_OP) == hits)
		r = -EOPNOTSUPP;
	if (r)
		return r;
	memset(ret, 0, sizeof(*ret));
	memset(best, 0xff, sizeof(best));
	for (size_t i = 0; i < SITES_CNT; i++) {
		unsigned *alike = &best[beside_of(sites[i].prog)];

		*alike = bare.ns[i] < *alike ? bare.ns[i] : *alike;
	}
	for (size_t i = 0; i < SITES_CNT; i++) {
		unsigned without = best[beside_of(sites[i].prog)];

		ret->prog_ns[sites[i].prog] = probed.ns[i] > without ? probed.ns[i] - without : 0;
	}
	/* Both are on one function, so entry and return were timed together; the sum is shared evenly. */
	ret->prog_ns[MT_PROG_HOST_ENTER] = ret->prog_ns[MT_PROG_HOST_RET] / 2;
	ret->prog_ns[MT_PROG_HOST_RET] -= ret->prog_ns[MT_PROG_HOST_ENTER];
	ret->prog_ns[MT_PROG_SEG_ENTER] = ret->prog_ns[MT_PROG_SEG_RET] / 2;
	ret->prog_ns[MT_PROG_SEG_RET] -= ret->prog_ns[MT_PROG_SEG_ENTER];
	return 0;
}

unsigned calib__cost_ns(const struct calib *c, const struct insn_classes *classes, enum mt_prog prog, enum insn_class class)
{
	unsigned base = c->prog_ns[prog], ours = classes->of[INSN_OWN].hit_ns, own = classes->of[class].hit_ns;

	if (!base || !own || !ours)
		return base;
	if (own >= ours)
		return base + (own - ours);
	return base > ours - own ? base - (ours - own) : base;
}

unsigned calib_time_mmap(void)
{
	uint64_t best = UINT64_MAX;

	for (int r = 0; r < ROUNDS; r++) {
		uint64_t t0 = now_ns(), took;

		for (int i = 0; i < CALLS; i++) {
			void *p = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			if (p != MAP_FAILED)
				munmap(p, 4096);
		}
		took = now_ns() - t0;
		if (took < best)
			best = took;
	}
	return (unsigned)(best / (2 * CALLS));
}

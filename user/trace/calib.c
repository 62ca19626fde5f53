/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * In a tight loop a probe looks cheap: the kernel's entry code and the program stay in the first-level caches, which a training
 * job needs for itself, for code (Python, the dispatcher, operators) more than for data. So between two calls the timing loop
 * walks over as many bytes of data, and runs through as many of code, as these caches hold, with the probes and without; the
 * difference holds what the probe has to fetch again and what it evicts. (A birth, and an operator with tensors, on Zen 5 by
 * `memtrace -vv`: 0.63 and 1.27 us in a tight loop, 0.72 and 1.37 with data, 0.88 to 0.97 and 1.51 to 1.79 with both.)
 *
 * Who calls malloc in a loop has the entry code at hand: there data alone is walked over. (`tests/bench/cost churn`: 0.60 us a
 * hit were lost, 0.62 said.)
 *
 * Each program gets a function of its own that starts with push, so that all of them can be set,
 * timed in one thread and removed together (removing a probe waits for a grace period; one after the
 * other would take a second). The best of several short rounds counts: the machine may be busy, and
 * what disturbs only ever adds. What a hit costs inside a real job is more when its caches are full.
 */
#include "trace/calib.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"

#define ROUNDS 7
#define CALLS 60
#define L1D_DEFAULT (48u << 10)
#define L1D_MAX (128u << 10)
#define L1I_DEFAULT (32u << 10)
#define CODE_LINES 1024 /* 64 KiB: no first-level instruction cache is larger */
#define LINE 64

/* A site begins with what is probed and not with endbr64: calls of it are not checked (-fcf-protection). */
typedef __attribute__((nocf_check)) uint64_t (*calib_fn)(void *a, const void *b, const void *c);

/* Two copies of nothing, told apart by their first instruction. */
#define CALIB_SITE(name, insns)                                                                    \
	__asm__(".text\n.p2align 4\n.globl " #name "\n.hidden " #name "\n.type " #name             \
		", @function\n" #name ":\n" insns "\nret\n.size " #name ", . - " #name "\n");      \
	__attribute__((nocf_check)) uint64_t name(void *a, const void *b, const void *c)

#define PUSH "push %rbp\npop %rbp\nxor %eax, %eax"
CALIB_SITE(mt_calib_op, PUSH);
CALIB_SITE(mt_calib_node, PUSH);
CALIB_SITE(mt_calib_fw_new, PUSH);
CALIB_SITE(mt_calib_fw_delete, PUSH);
CALIB_SITE(mt_calib_region_begin, PUSH);
CALIB_SITE(mt_calib_region_end, PUSH);
CALIB_SITE(mt_calib_host_free, PUSH);
CALIB_SITE(mt_calib_host, PUSH);
CALIB_SITE(mt_calib_usdt, PUSH);
CALIB_SITE(mt_calib_fw_usage, PUSH);
CALIB_SITE(mt_calib_seg, PUSH);
CALIB_SITE(mt_calib_flow_op, PUSH);
CALIB_SITE(mt_calib_flow_apply, PUSH);
CALIB_SITE(mt_calib_flow_acc, PUSH);

static const struct {
	enum mt_prog prog;
	calib_fn fn;
	int is_ret;
} sites[] = {
	{ MT_PROG_OP, mt_calib_op, 0 },
	{ MT_PROG_NODE, mt_calib_node, 0 },
	{ MT_PROG_FW_NEW, mt_calib_fw_new, 0 },
	{ MT_PROG_FW_DELETE, mt_calib_fw_delete, 0 },
	{ MT_PROG_REGION_BEGIN, mt_calib_region_begin, 0 },
	{ MT_PROG_REGION_END, mt_calib_region_end, 0 },
	{ MT_PROG_HOST_FREE, mt_calib_host_free, 0 },
	{ MT_PROG_HOST_ENTER, mt_calib_host, 0 },
	{ MT_PROG_HOST_RET, mt_calib_host, 1 },
	{ MT_PROG_USDT, mt_calib_usdt, 0 },
	{ MT_PROG_FW_USAGE, mt_calib_fw_usage, 0 },
	{ MT_PROG_SEG_ENTER, mt_calib_seg, 0 },
	{ MT_PROG_SEG_RET, mt_calib_seg, 1 },
	{ MT_PROG_FLOW_OP, mt_calib_flow_op, 0 },
	{ MT_PROG_FLOW_APPLY, mt_calib_flow_apply, 0 },
	{ MT_PROG_FLOW_ACC, mt_calib_flow_acc, 0 },
};
#define SITES_CNT (sizeof(sites) / sizeof(*sites))

/* Arguments that make every program go its usual way: readable pointers, sizes that are not zero. */
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

const struct mt_flow_spec calib_flow_spec = {
	.args_cnt = 2,
	.args = { { MT_FLOW_TENSOR, 0, MT_FLOW_F_REQUIRED, 0 }, { MT_FLOW_TENSOR, 0, MT_FLOW_F_REQUIRED, 1 } },
};
const struct mt_flow_layout calib_flow_layout = {
	.impl_storage = 8, .impl_autograd_meta = 16, .meta_grad = 8, .storage_data = 8, .storage_dev = 16,
	.storage_size = 24, .acc_variable = 8,
};
const struct flow_vtable calib_flow_vtables[3] = {
	{ VTABLE_TENSOR, MT_CLASS_PLAIN }, { VTABLE_STORAGE, MT_CLASS_STORAGE }, { VTABLE_META, MT_CLASS_META },
};

/* Code on so many lines of the cache, one jump to the next on each, and back. */
#define STRING_(x) #x
#define STRING(x) STRING_(x)
__asm__(".text\n.p2align 6\n.globl mt_calib_code\n.hidden mt_calib_code\n.type mt_calib_code, @function\nmt_calib_code:\n"
	".rept " STRING(CODE_LINES) "\n"
	"dec %rdi\njs 1f\njmp 2f\n1: ret\n.p2align 6\n2:\n"
	".endr\nret\n.size mt_calib_code, . - mt_calib_code\n");
void mt_calib_code(size_t lines);

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
	for (size_t i = 0; i < bytes; i += LINE)
		pollution[i]++;
}

void calib_pollute(void)
{
	static size_t bytes;

	if (!bytes)
		bytes = cache_bytes(_SC_LEVEL1_ICACHE_SIZE, L1I_DEFAULT, (size_t)CODE_LINES * LINE);
	pollute_data();
	mt_calib_code(bytes / LINE);
}

static void call(enum mt_prog prog, calib_fn fn, int i)
{
	if (prog == MT_PROG_FLOW_OP || prog == MT_PROG_FLOW_APPLY || prog == MT_PROG_FLOW_ACC)
		fn((void *)&calib_tensor, &calib_node, &calib_tensors);
	else
		fn(&calib_word + (i & 1), &calib_name, &calib_word);
}

static unsigned time_fn(enum mt_prog prog, calib_fn fn, void (*discard)(void *), void *ctx)
{
	int is_host = prog == MT_PROG_HOST_FREE || prog == MT_PROG_HOST_ENTER || prog == MT_PROG_HOST_RET;
	uint64_t best = UINT64_MAX;

	for (int r = 0; r < ROUNDS; r++) {
		uint64_t t0 = now_ns(), took;

		for (int i = 0; i < CALLS; i++) {
			is_host ? pollute_data() : calib_pollute();
			call(prog, fn, i);
		}
		took = now_ns() - t0;
		if (took < best)
			best = took;
		discard(ctx);
	}
	return (unsigned)(best / CALLS);
}

struct job {
	const struct calib_ops *ops;
	unsigned ns[SITES_CNT];
};

static void *timing_thread(void *arg)
{
	struct job *j = arg;

	for (size_t i = 0; i < SITES_CNT; i++)
		j->ns[i] = time_fn(sites[i].prog, sites[i].fn, j->ops->discard, j->ops->ctx);
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

static int run_thread(struct job *j)
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
	struct job bare = { .ops = ops }, probed = { .ops = ops };
	int r = 0;
	uint64_t hits;

	r = run_thread(&bare);
	hits = ops->hits(ops->ctx, MT_PROG_OP);
	for (size_t i = 0; !r && i < SITES_CNT; i++) {
		uint64_t off = 0;
		char path[64];

		r = calib_offset_of((const void *)(uintptr_t)sites[i].fn, &off, path);
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
	for (size_t i = 0; i < SITES_CNT; i++) {
		unsigned ns = probed.ns[i] > bare.ns[i] ? probed.ns[i] - bare.ns[i] : 0;

		ret->prog_ns[sites[i].prog] = ns;
	}
	/* Both sat on one function: entry and return were timed together; share the sum evenly. */
	ret->prog_ns[MT_PROG_HOST_ENTER] = ret->prog_ns[MT_PROG_HOST_RET] / 2;
	ret->prog_ns[MT_PROG_HOST_RET] -= ret->prog_ns[MT_PROG_HOST_ENTER];
	ret->prog_ns[MT_PROG_SEG_ENTER] = ret->prog_ns[MT_PROG_SEG_RET] / 2;
	ret->prog_ns[MT_PROG_SEG_RET] -= ret->prog_ns[MT_PROG_SEG_ENTER];
	return 0;
}

unsigned calib__cost_ns(const struct calib *c, const struct insn_classes *classes, enum mt_prog prog, enum insn_class class)
{
	unsigned base = c->prog_ns[prog], push = classes->of[INSN_PUSH].hit_ns, own = classes->of[class].hit_ns;

	if (!base || !own || !push)
		return base;
	if (own >= push)
		return base + (own - push);
	return base > push - own ? base - (push - own) : base;
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

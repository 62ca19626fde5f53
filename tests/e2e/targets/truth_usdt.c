// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/*
 * truth_usdt MODE [SEED]: an arena allocator and nested operations that speak through usdt.h.
 *
 *   single   one thread
 *   threads  four threads that free each other's blocks
 *   deep     one thread, operations and regions nested 40 deep: more than memtrace follows
 *
 * Blocks are announced under the arena's lock, so the order of the probes is the order of the
 * truth and the peak is exact with threads as well. The free lists are last in, first out: addresses come
 * back at once. Some blocks are allocated before the go: their frees are of blocks nobody saw allocated.
 */
#include <pthread.h>

#include "memtrace/usdt.h"
#include "truth.h"

#define THREADS 4
#define ROUNDS 400
#define DEEP 40
#define FOLLOWED 32 /* MT_FRAMES_MAX, MT_REGIONS_MAX */
#define CLASSES 12
#define BLOCKS_MAX 4096
#define NAMES 24

struct block {
	struct block *next;
	uint64_t size;
	int dev, before;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char arena[192 << 20] __attribute__((aligned(64)));
static size_t arena_used;
static struct block *bins[CLASSES];
static struct block *blocks[BLOCKS_MAX];
static size_t blocks_cnt;

static struct truth_dev devs[] = { { .name = "cpu" }, { .name = "cuda:0" }, { .name = "cuda:3" } };
static const int dev_numbers[] = { MEMTRACE_CPU, 0, 3 };
static struct truth_op ops[NAMES + DEEP], regions[8 + DEEP], no_op, no_region;
static char texts[NAMES + 8 + 2 * DEEP][256];
static uint64_t steps, tags, stack_deep, seed = 1;
static int go, deep;

/* What this thread has open, by index into ops and regions. */
struct open {
	uint64_t rng;
	int op[DEEP], region[DEEP];
	int ops, regions;
};

static struct truth_op *innermost(struct truth_op *all, const int *open, int cnt, struct truth_op *none)
{
	if (cnt > FOLLOWED)
		cnt = FOLLOWED;
	return cnt ? &all[open[cnt - 1]] : none;
}

static unsigned size_class(uint64_t size)
{
	unsigned c = 0;

	while ((64ull << c) < size)
		c++;
	return c;
}

static void block_alloc(struct open *o, uint64_t size)
{
	unsigned c = size_class(size);
	struct block *b;

	pthread_mutex_lock(&lock);
	b = bins[c];
	if (b) {
		bins[c] = b->next;
	} else if (arena_used + sizeof(*b) + (64ull << c) <= sizeof(arena)) {
		b = (struct block *)(arena + arena_used);
		arena_used += sizeof(*b) + (64ull << c);
	}
	if (b && blocks_cnt < BLOCKS_MAX) {
		b->size = size;
		b->dev = (int)(truth_random(&o->rng) % 3);
		b->before = !go;
		blocks[blocks_cnt++] = b;
		MEMTRACE_ALLOC(b + 1, size, dev_numbers[b->dev]);
		if (go)
			truth_alloc(&devs[b->dev], innermost(ops, o->op, o->ops, &no_op),
				    innermost(regions, o->region, o->regions, &no_region), size);
		if (go && truth_random(&o->rng) % 16 == 0) {
			MEMTRACE_TAG(b + 1, "tagged", dev_numbers[b->dev]);
			tags++;
		}
	}
	pthread_mutex_unlock(&lock);
}

static void block_free(struct open *o)
{
	struct block *b;
	size_t i;

	pthread_mutex_lock(&lock);
	if (blocks_cnt) {
		i = truth_random(&o->rng) % blocks_cnt;
		b = blocks[i];
		blocks[i] = blocks[--blocks_cnt];
		MEMTRACE_FREE(b + 1, dev_numbers[b->dev]);
		if (go && b->before)
			devs[b->dev].preexisting_frees++;
		else if (go)
			truth_free(&devs[b->dev], b->size);
		b->next = bins[size_class(b->size)];
		bins[size_class(b->size)] = b;
	}
	pthread_mutex_unlock(&lock);
}

static void some_blocks(struct open *o)
{
	for (uint64_t n = truth_random(&o->rng) % 4; n; n--) {
		if (truth_random(&o->rng) % 9 < 5)
			block_alloc(o, 1 + truth_random(&o->rng) % (truth_random(&o->rng) % 8 ? 2048 : 100000));
		else
			block_free(o);
	}
}

static void op_begin(struct open *o, int i)
{
	pthread_mutex_lock(&lock);
	ops[i].count++;
	if (o->ops >= FOLLOWED)
		stack_deep++;
	pthread_mutex_unlock(&lock);
	o->op[o->ops++] = i;
}

static void region_begin(struct open *o, int i)
{
	pthread_mutex_lock(&lock);
	regions[i].count++;
	if (o->regions >= FOLLOWED)
		stack_deep++;
	pthread_mutex_unlock(&lock);
	o->region[o->regions++] = i;
}

/* An operation with blocks of its own and further operations inside. One call, one frame. */
static __attribute__((noinline)) void operation(struct open *o, int depth)
{
	int i = deep ? NAMES + depth : (int)(truth_random(&o->rng) % NAMES);
	int limit = deep ? DEEP - 1 : 9;
	char name[256];

	strcpy(name, ops[i].name); /* on the stack, and gone afterwards */
	op_begin(o, i);
	MEMTRACE_OP_BEGIN(name);
	explicit_bzero(name, sizeof(name));
	some_blocks(o);
	for (uint64_t n = deep ? 1 : truth_random(&o->rng) % 3; n && depth < limit; n--) {
		operation(o, depth + 1);
		some_blocks(o);
	}
	MEMTRACE_OP_END();
	o->ops--;
}

static __attribute__((noinline)) void region(struct open *o, int depth)
{
	int i = deep ? 8 + depth : (int)(truth_random(&o->rng) % 8);

	region_begin(o, i);
	MEMTRACE_REGION_BEGIN(regions[i].name);
	some_blocks(o);
	if (depth < (deep ? DEEP - 1 : 2))
		region(o, depth + 1);
	else
		operation(o, 0);
	some_blocks(o);
	MEMTRACE_REGION_END();
	o->regions--;
}

static void *thread(void *arg)
{
	struct open o = { .rng = seed * 1000 + (uint64_t)(uintptr_t)arg };

	for (uint64_t i = 0; i < (deep ? ROUNDS / 8 : ROUNDS); i++) {
		if (!arg) {
			MEMTRACE_STEP(i);
			steps++;
		}
		some_blocks(&o); /* outside any operation and region */
		region(&o, 0);
		operation(&o, 0);
	}
	return NULL;
}

static void names_init(void)
{
	char (*t)[256] = texts;

	for (int i = 0; i < NAMES; i++, t++) {
		snprintf(*t, sizeof(*t), "op_%02d", i);
		ops[i].name = *t;
	}
	strcpy(texts[1], "a \"quoted\" name \\ with 100% odd bytes");
	strcpy(texts[2], "gr\303\266\303\237e");
	memset(texts[3] + strlen(texts[3]), 'x', 200); /* longer than memtrace keeps */
	strcpy(texts[4], "n"); /* one byte */
	for (int i = 0; i < 8; i++, t++) {
		snprintf(*t, sizeof(*t), "region_%02d", i);
		regions[i].name = *t;
	}
	for (int i = 0; i < DEEP; i++, t++) {
		snprintf(*t, sizeof(*t), "deep_op_%02d", i);
		ops[NAMES + i].name = *t;
	}
	for (int i = 0; i < DEEP; i++, t++) {
		snprintf(*t, sizeof(*t), "deep_region_%02d", i);
		regions[8 + i].name = *t;
	}
	no_op.name = no_region.name = "none";
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "single";
	int threads = strcmp(mode, "threads") ? 1 : THREADS;
	struct open before = { .rng = 7 };
	pthread_t t[THREADS];

	deep = !strcmp(mode, "deep");
	if (argc > 2)
		seed = strtoull(argv[2], NULL, 10);
	names_init();
	for (int i = 0; i < 100; i++)
		block_alloc(&before, 1000 + i);
	truth_ready();
	go = 1;
	for (intptr_t i = 1; i < threads; i++)
		if (pthread_create(&t[i], NULL, thread, (void *)i))
			return 1;
	thread(NULL);
	for (int i = 1; i < threads; i++)
		pthread_join(t[i], NULL);
	truth_say_devs(devs, 3);
	truth_say_ops("ops", ops, NAMES + DEEP);
	truth_say_ops("regions", regions, 8 + DEEP);
	truth_say_ops("no_op", &no_op, 1);
	truth_say(",\"steps\":%llu,\"tags\":%llu,\"stack_deep\":%llu,\"seed\":%llu", (unsigned long long)steps,
		  (unsigned long long)tags, (unsigned long long)stack_deep, (unsigned long long)seed);
	truth_end();
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A chunk of glibc's (malloc/malloc.c, the same since 2.0): the word before the block is its size with three bits. Bit 0: the
 * previous chunk is in use; otherwise the word before that is the size of the previous chunk. Bit 1: it is a mapping of its
 * own, which is unmapped when it is freed.
 *
 * free() writes two pointers to the beginning of the block (tcache, bins; a fastbin one), with one exception: where the
 * previous chunk is free, the two become one, and only the head of the previous one changes. The next chunk's head would show
 * it, too, but not if that one was free.
 */
#include "target/heap.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "target/door.h"

#define HEAD_BYTES 16 /* two words, the size in the second */
#define SPOT_BYTES 16
#define FLAGS 7ull
#define FRONT_IN_USE 1ull
#define IS_MAPPED 2ull
#define SLACK_MAX 128u /* a chunk is never larger than requested by more, except for mappings */
#define PAGE_BYTES 4096u
#define BATCH (DOOR_RANGES_MAX / (HEAP_SPOTS + 1))
#define ADDR_MAX (1ull << 47)

_Static_assert(sizeof(struct heap_print) == HEAD_BYTES + HEAP_SPOTS * SPOT_BYTES, "read as it is");

static struct iovec range(uint64_t addr, size_t len)
{
	return (struct iovec){ (void *)(uintptr_t)addr, len };
}

static bool is_plausible(const struct heap_block *b)
{
	return !(b->addr & 15) && b->addr >= PAGE_BYTES && b->addr < ADDR_MAX && b->size && b->size < ADDR_MAX - b->addr;
}

/* The smallest block has 24 bytes, so its first 16 are always its own. */
static uint64_t spot(uint64_t size, unsigned i)
{
	uint64_t at = i + 1 == HEAP_SPOTS ? size - SPOT_BYTES : size / (HEAP_SPOTS - 1) * i;

	return size < HEAP_SPOTS * SPOT_BYTES && i + 1 < HEAP_SPOTS ? 0 : size < SPOT_BYTES ? 0 : at & ~7ull;
}

static size_t print_ranges(const struct heap_block *b, struct iovec *ret)
{
	ret[0] = range(b->addr - HEAD_BYTES, HEAD_BYTES);
	for (unsigned i = 0; i < HEAP_SPOTS; i++)
		ret[i + 1] = range(b->addr + spot(b->size, i), SPOT_BYTES);
	return HEAP_SPOTS + 1;
}

/* Reads all of them, or else each one that is readable. */
static void read_prints(struct heap_block *const *v, size_t cnt, uint64_t until_ns)
{
	struct iovec ranges[DOOR_RANGES_MAX] = { 0 };
	struct heap_print prints[BATCH];
	size_t ranges_cnt = 0;
	int r;

	if (!cnt || now_ns() > until_ns)
		return;
	for (size_t i = 0; i < cnt; i++)
		ranges_cnt += print_ranges(v[i], ranges + ranges_cnt);
	r = door_read(v[0]->pid, ranges, ranges_cnt, prints, cnt * sizeof(*prints));
	for (size_t i = 0; i < cnt && !r; i++) {
		v[i]->print = prints[i];
		v[i]->is_used = true;
	}
	for (size_t i = 0; i < cnt && cnt > 1 && r == -EFAULT; i++)
		read_prints(v + i, 1, until_ns);
}

static uint64_t chunk_bytes(const struct heap_block *b)
{
	return b->print.head & ~FLAGS;
}

static bool is_chunk(const struct heap_block *b)
{
	uint64_t least = b->size + sizeof(uint64_t), bytes = chunk_bytes(b);
	uint64_t most = least + (b->print.head & IS_MAPPED ? 2 * PAGE_BYTES : SLACK_MAX);

	return bytes >= least && bytes <= most && !(bytes & 15);
}

static uint64_t front_of(const struct heap_block *b)
{
	return b->addr - HEAD_BYTES - b->print.before;
}

/* Checks that the previous chunk, which is free, still ends there. */
static void ask_front(struct heap_block *const *v, size_t cnt, uint64_t until_ns)
{
	struct iovec ranges[DOOR_RANGES_MAX];
	uint64_t heads[DOOR_RANGES_MAX];
	int r = -ETIMEDOUT;

	for (size_t i = 0; i < cnt; i++)
		ranges[i] = range(front_of(v[i]) + sizeof(uint64_t), sizeof(uint64_t));
	if (cnt && now_ns() <= until_ns)
		r = door_read(v[0]->pid, ranges, cnt, heads, cnt * sizeof(*heads));
	for (size_t i = 0; i < cnt; i++)
		v[i]->is_used = !r && (heads[i] & ~FLAGS) == v[i]->print.before;
	for (size_t i = 0; i < cnt && cnt > 1 && r == -EFAULT; i++)
		ask_front(v + i, 1, until_ns);
}

static bool has_free_front(const struct heap_block *b)
{
	return !(b->print.head & (IS_MAPPED | FRONT_IN_USE));
}

static bool is_front_plausible(const struct heap_block *b)
{
	return b->print.before >= 2 * HEAD_BYTES && !(b->print.before & 15) && b->print.before < b->addr - PAGE_BYTES;
}

typedef void (*batch_fn)(struct heap_block *const *v, size_t cnt, uint64_t until_ns);

struct block_batch {
	struct heap_block *v[DOOR_RANGES_MAX];
	size_t cnt, most;
	batch_fn fn;
	uint64_t until_ns;
};

static void block_batch__put(struct block_batch *b, struct heap_block *one)
{
	if (b->cnt && (!one || b->cnt == b->most || b->v[0]->pid != one->pid)) {
		b->fn(b->v, b->cnt, b->until_ns);
		b->cnt = 0;
	}
	if (one)
		b->v[b->cnt++] = one;
}

void heap__read(struct heap_block *v, size_t cnt, uint64_t until_ns)
{
	struct block_batch prints = { .most = BATCH, .fn = read_prints, .until_ns = until_ns };
	struct block_batch fronts = { .most = DOOR_RANGES_MAX, .fn = ask_front, .until_ns = until_ns };

	for (size_t i = 0; i < cnt; i++) {
		v[i].is_used = false;
		if (is_plausible(&v[i]))
			block_batch__put(&prints, &v[i]);
	}
	block_batch__put(&prints, NULL);
	for (size_t i = 0; i < cnt; i++) {
		v[i].is_used = v[i].is_used && is_chunk(&v[i]);
		if (!v[i].is_used || !has_free_front(&v[i]))
			continue;
		v[i].is_used = is_front_plausible(&v[i]);
		if (v[i].is_used)
			block_batch__put(&fronts, &v[i]);
	}
	block_batch__put(&fronts, NULL);
}

/* Bit 0 of its head belongs to the previous chunk. */
bool heap_print__is(const struct heap_print *a, const struct heap_print *b)
{
	return !((a->head ^ b->head) & ~FRONT_IN_USE) && !memcmp(a->words, b->words, sizeof(a->words));
}

bool heap_print__is_alike(const struct heap_print *p)
{
	for (unsigned i = 1; i < 2 * HEAP_SPOTS; i++)
		if (p->words[i] != p->words[0])
			return false;
	return true;
}

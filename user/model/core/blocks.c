/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Records lie in chunks that never move, with a free list; an index of 32-bit slots finds them. A
 * slot is 26 bits of record number and 6 bits of the hash, so that a probe past other keys seldom
 * touches a record. Linear probing at a load of at most 3/4, and removal by shifting back what
 * follows: no tombstones, so a table that churns for weeks stays as fast as on its first day, and
 * is never rebuilt unless it really grows.
 *
 * Growing doubles the index and fills it from the records in order: amortised, with one pause that
 * is proportional to the live blocks (measured: 21 ms at a million, tests/bench/bench_model).
 *
 * The hash is seeded (base/seed.h): a target that picks its pointers cannot aim at long probe sequences. The seed decides
 * only where a slot lies, and changes no result.
 */
#include "model/core/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/seed.h"
#include "model/core/check.h"

#define CHUNK_BITS 12
#define CHUNK_BLOCKS (1u << CHUNK_BITS)
#define SLOTS_MIN 4096u
#define IDX_BITS 26
#define IDX_MASK ((1u << IDX_BITS) - 1)

struct blocks {
	uint32_t *slots; /* 0 = free, else tag << 26 | record + 1 */
	uint64_t slots_mask;
	struct block **chunks;
	size_t chunks_cnt, chunks_cap;
	uint32_t used;	    /* records ever handed out */
	uint32_t free_head; /* record + 1; the next one is in its ptr */
	size_t cnt, max;
};

struct blocks *blocks__new(size_t max)
{
	struct blocks *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->max = max && max < BLOCKS_MAX ? max : BLOCKS_MAX;
	b->slots_mask = SLOTS_MIN - 1;
	b->slots = calloc(SLOTS_MIN, sizeof(*b->slots));
	if (!b->slots) {
		blocks__free(b);
		return NULL;
	}
	return b;
}

void blocks__free(struct blocks *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->chunks_cnt; i++)
		free(b->chunks[i]);
	free(b->chunks);
	free(b->slots);
	free(b);
}

static inline uint64_t blocks__hash(uint32_t pid, uint8_t dev, uint64_t ptr)
{
	return hash_two((uint64_t)pid << 8 | dev, ptr);
}

static inline uint32_t tag_of(uint64_t hash)
{
	return (uint32_t)(hash >> 58) << IDX_BITS;
}

static inline struct block *blocks__at(const struct blocks *b, uint32_t idx)
{
	return &b->chunks[idx >> CHUNK_BITS][idx & (CHUNK_BLOCKS - 1)];
}

static inline struct block *slot__block(const struct blocks *b, uint32_t slot)
{
	return blocks__at(b, (slot & IDX_MASK) - 1);
}

/* Where the key is, or the free slot where it belongs. */
static inline uint64_t blocks__probe(const struct blocks *b, uint64_t hash, uint32_t pid, uint8_t dev,
				     uint64_t ptr)
{
	uint32_t tag = tag_of(hash);
	uint64_t i = hash & b->slots_mask;

	for (;; i = (i + 1) & b->slots_mask) {
		uint32_t slot = b->slots[i];
		const struct block *blk;

		if (!slot)
			return i;
		if ((slot & ~IDX_MASK) != tag)
			continue;
		blk = slot__block(b, slot);
		if (blk->ptr == ptr && blk->pid == pid && blk->dev == dev)
			return i;
	}
}

static bool blocks__grow(struct blocks *b)
{
	uint64_t mask = b->slots_mask * 2 + 1;
	uint32_t *slots = calloc(mask + 1, sizeof(*slots));

	if (!slots)
		return false;
	for (uint32_t idx = 0; idx < b->used; idx++) {
		const struct block *blk = blocks__at(b, idx);
		uint64_t hash, i;

		if (!blk->id)
			continue;
		hash = blocks__hash(blk->pid, (uint8_t)blk->dev, blk->ptr);
		for (i = hash & mask; slots[i]; i = (i + 1) & mask)
			;
		slots[i] = tag_of(hash) | (idx + 1);
	}
	free(b->slots);
	b->slots = slots;
	b->slots_mask = mask;
	return true;
}

static bool blocks__add_chunk(struct blocks *b)
{
	if (!array_has_room(b->chunks, b->chunks_cnt, b->chunks_cap, 16))
		return false;
	b->chunks[b->chunks_cnt] = malloc(CHUNK_BLOCKS * sizeof(struct block));
	if (!b->chunks[b->chunks_cnt])
		return false;
	b->chunks_cnt++;
	return true;
}

/* A record to fill, as number + 1; 0: none to be had. */
static inline uint32_t blocks__record(struct blocks *b)
{
	uint32_t num = b->free_head;

	if (num) {
		b->free_head = (uint32_t)blocks__at(b, num - 1)->ptr;
		return num;
	}
	if (b->used >> CHUNK_BITS == b->chunks_cnt && !blocks__add_chunk(b))
		return 0;
	return ++b->used;
}

struct block *blocks__put(struct blocks *b, uint32_t pid, uint8_t dev, uint64_t ptr, bool *ret_live)
{
	uint64_t hash = blocks__hash(pid, dev, ptr);
	uint64_t i = blocks__probe(b, hash, pid, dev, ptr);
	struct block *blk;
	uint32_t num;

	*ret_live = b->slots[i] != 0;
	if (*ret_live)
		return slot__block(b, b->slots[i]);
	if (b->cnt >= b->max)
		return NULL;
	if ((b->cnt + 1) * 4 > (b->slots_mask + 1) * 3) {
		if (!blocks__grow(b))
			return NULL;
		i = blocks__probe(b, hash, pid, dev, ptr);
	}
	num = blocks__record(b);
	if (!num)
		return NULL;
	b->slots[i] = tag_of(hash) | num;
	b->cnt++;
	blk = blocks__at(b, num - 1);
	*blk = (struct block){ .ptr = ptr, .pid = pid, .dev = dev };
	return blk;
}

struct block *blocks__find(const struct blocks *b, uint32_t pid, uint8_t dev, uint64_t ptr)
{
	uint64_t i = blocks__probe(b, blocks__hash(pid, dev, ptr), pid, dev, ptr);

	return b->slots[i] ? slot__block(b, b->slots[i]) : NULL;
}

/* Empties slot i: moves back each follower that would not be found any more. */
static inline void blocks__close_gap(struct blocks *b, uint64_t i)
{
	uint64_t mask = b->slots_mask;

	for (uint64_t j = (i + 1) & mask; b->slots[j]; j = (j + 1) & mask) {
		const struct block *blk = slot__block(b, b->slots[j]);
		uint64_t home = blocks__hash(blk->pid, (uint8_t)blk->dev, blk->ptr) & mask;

		if (((j - home) & mask) >= ((j - i) & mask)) {
			b->slots[i] = b->slots[j];
			i = j;
		}
	}
	b->slots[i] = 0;
}

bool blocks__take(struct blocks *b, uint32_t pid, uint8_t dev, uint64_t ptr, struct block *ret)
{
	uint64_t i = blocks__probe(b, blocks__hash(pid, dev, ptr), pid, dev, ptr);
	uint32_t slot = b->slots[i];
	struct block *blk;

	if (!slot)
		return false;
	blk = slot__block(b, slot);
	*ret = *blk;
	blocks__close_gap(b, i);
	blk->id = 0;
	blk->ptr = b->free_head;
	b->free_head = slot & IDX_MASK;
	b->cnt--;
	return true;
}

struct block *blocks__next(const struct blocks *b, size_t *pos)
{
	while (*pos < b->used) {
		struct block *blk = blocks__at(b, (uint32_t)(*pos)++);

		if (blk->id)
			return blk;
	}
	return NULL;
}

size_t blocks__count(const struct blocks *b)
{
	return b->cnt;
}

size_t blocks__bytes(const struct blocks *b)
{
	return sizeof(*b) + (b->slots_mask + 1) * sizeof(*b->slots) +
	       b->chunks_cap * sizeof(*b->chunks) +
	       b->chunks_cnt * CHUNK_BLOCKS * sizeof(struct block);
}

void blocks__check(const struct blocks *b)
{
	size_t live = 0, slots = 0, frees = 0;

	for (uint32_t idx = 0; idx < b->used; idx++) {
		struct block *blk = blocks__at(b, idx);

		if (!blk->id)
			continue;
		live++;
		mt_check(blocks__find(b, blk->pid, (uint8_t)blk->dev, blk->ptr) == blk);
	}
	for (uint64_t i = 0; i <= b->slots_mask; i++)
		slots += b->slots[i] != 0;
	for (uint32_t num = b->free_head; num; num = (uint32_t)blocks__at(b, num - 1)->ptr)
		mt_check(frees++ < b->used && !blocks__at(b, num - 1)->id);
	mt_check(live == b->cnt);
	mt_check(slots == b->cnt);
	mt_check(frees + live == b->used);
	mt_check(b->cnt <= b->max);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * blocks: every live block, by (pid, device, pointer).
 *
 * Owns its records. A record stays where it is until it is removed, so a pointer to it is good until
 * then. Costs 48 bytes a record and 5.3 to 10.7 bytes of index: below 64 bytes a live block.
 * Holds `max` blocks (at most BLOCKS_MAX); memory is not given back when blocks are freed.
 * Not thread-safe.
 */
#ifndef MT_MODEL_BLOCKS_H
#define MT_MODEL_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BLOCKS_MAX ((1u << 26) - 1) /* what the index can number */

/* The source of a block (model_gpu.c). */
enum block_from { FROM_ALLOCATOR = 0, FROM_REQUEST = 1, FROM_ASYNC = 2 };

struct block {
	uint64_t ptr;
	uint64_t size;
	uint64_t allocated_ts_ns;
	uint64_t id : 47;     /* 0: the record is not in use; a million a second would last for four years */
	uint64_t unwatched : 1; /* counted in no row of growth: allocated where steps are not traced (model_levels.c) */
	uint64_t module : 16; /* row of the model's modules: whose forward or backward made it; 0 = none */
	uint32_t pid, tid;
	uint64_t op : 16;     /* rows of the model's two tallies */
	uint64_t region : 16;
	uint64_t phase : 3;   /* enum phase, at its allocation */
	uint64_t out : 3;     /* modules around that one whose output it is (modules.c) */
	uint64_t dev : 8;     /* enum mt_dev */
	uint64_t cat : 4;     /* enum category */
	uint64_t unlisted : 1; /* counted in procs->other: its process had no row at its allocation */
	uint64_t tracked : 1;  /* the graph (flow.h) knows it */
	uint64_t late : 1;      /* preexisting, first seen as a tensor */
	uint64_t from : 2;     /* enum block_from */
	uint64_t named : 1;    /* the model's table of tensors knows it */
	uint64_t gradient : 1; /* counted as its module's gradient, by category */
	uint64_t carried : 1;  /* nothing was seen of it since a gap began (model_levels.c) */
	uint64_t stream : 6;   /* of a device, row of the model's table; 0 = not known */
};
_Static_assert(sizeof(struct block) == 48, "64 bytes a live block");

struct blocks;

struct blocks *blocks__new(size_t max); /* max 0: BLOCKS_MAX. NULL: no memory */
void blocks__free(struct blocks *b);

/*
 * The record with this key. *ret_live: whether it was live; if not it is new: key set, id still 0, and
 * the caller gives it an id at once. NULL when the table is full or memory ran out.
 */
struct block *blocks__put(struct blocks *b, uint32_t pid, uint8_t dev, uint64_t ptr, bool *ret_live);
struct block *blocks__find(const struct blocks *b, uint32_t pid, uint8_t dev, uint64_t ptr);
/* Removes the block and copies it out; false if there is none. */
bool blocks__take(struct blocks *b, uint32_t pid, uint8_t dev, uint64_t ptr, struct block *ret);
/* Live blocks one by one, in an order that follows from the calls alone: *pos starts at 0, NULL
 * ends it. The block just returned may be removed. */
struct block *blocks__next(const struct blocks *b, size_t *pos);

size_t blocks__count(const struct blocks *b);
size_t blocks__bytes(const struct blocks *b); /* memory in use, all of it */
void blocks__check(const struct blocks *b);   /* aborts when broken */

#endif

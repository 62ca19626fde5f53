/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Blocks of 64 items, each with the one before and the one behind it; the first and the last are full in part. */
#include "python/deque.h"

#include <errno.h>

#include "python/object_head.h"

#define LEFT 24 /* its first block, and the index there of its first item */
#define LEFT_INDEX 40
#define BLOCK 64

uint64_t py_deque__cnt(struct py *p, uint64_t deque)
{
	return py_snap__word(p->snap, deque + OB_SIZE);
}

int py_deque__each(struct py *p, uint64_t deque, uint64_t from, py_deque_fn fn, void *ctx)
{
	uint64_t cnt = py_deque__cnt(p, deque), block = py_snap__ptr(p->snap, deque + LEFT);
	uint64_t at = py_snap__word(p->snap, deque + LEFT_INDEX), words[BLOCK + 2];
	int r = 0;

	if (cnt > PY_ITEMS_MAX || cnt > p->items_left || at >= BLOCK)
		return -EAGAIN;
	p->items_left -= cnt;
	for (uint64_t i = 0; i < cnt && !r; i++) {
		if (!i || at == BLOCK) {
			block = i ? words[BLOCK + 1] : block;
			at = i ? 0 : at;
			if (!py_plausible(block) || py_snap__read(p->snap, block, words, sizeof(words)))
				return -EAGAIN;
		}
		at++;
		r = i < from ? 0 : fn(ctx, words[at], i);
	}
	return r;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * heap: whether blocks of glibc's malloc are in use, and what is in them, read from outside.
 *
 * Enters: addresses and sizes as the process was given them. Leaves: what lies there now. A block is taken for one only if its
 * head has a size that fits. What free() does to it is seen: its content begins with the pointers of a free list then, or it
 * has become part of a free chunk before it, whose head says so. So a block that has the same head and content as before is
 * the same one, unless another of its size was given the same content.
 *
 * Everything read is hostile. Nothing is known of other allocators' blocks.
 */
#ifndef MT_TARGET_HEAP_H
#define MT_TARGET_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HEAP_SPOTS 5 /* of 16 bytes each: the beginning, the end, and between */

struct heap_print {
	uint64_t before, head; /* before: bytes of the chunk in front of it, if that is free */
	uint64_t words[2 * HEAP_SPOTS];
};

struct heap_block {
	uint64_t addr, size;
	pid_t pid;
	bool is_used; /* a block, and no part of a free one */
	struct heap_print print; /* only then */
};

/* By process, one behind the other; sizes of 1 and more. What was not read by until_ns (now_ns()) is not used. */
void heap__read(struct heap_block *v, size_t cnt, uint64_t until_ns);
bool heap_print__is(const struct heap_print *a, const struct heap_print *b);
/* All of it is the same 8 bytes: it may be another one's. */
bool heap_print__is_alike(const struct heap_print *p);

#endif

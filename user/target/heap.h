/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * heap: whether blocks of glibc's malloc are in use, and their content, read from outside.
 *
 * Enters: addresses and sizes as the process got them. Leaves: the present content. A block is accepted only if its head has a
 * size that fits. A free is visible: then the content begins with the pointers of a free list, or it has become part of a free
 * chunk before it, whose head shows that. So a block that has the same head and content as before is the same one, unless
 * another of its size was given the same content.
 *
 * Everything read is hostile. Nothing is known about other allocators' blocks.
 */
#ifndef MT_TARGET_HEAP_H
#define MT_TARGET_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define HEAP_SPOTS 5 /* of 16 bytes each: at the beginning, at the end, and between */

struct heap_print {
	uint64_t before, head; /* before: size of the previous chunk, if that is free */
	uint64_t words[2 * HEAP_SPOTS];
};

struct heap_block {
	uint64_t addr, size;
	pid_t pid;
	bool is_used; /* a block, and not part of a free one */
	struct heap_print print; /* only then */
};

/* Grouped by process; sizes of 1 and more. Blocks that were not read by until_ns (now_ns()) are not used. */
void heap__read(struct heap_block *v, size_t cnt, uint64_t until_ns);
bool heap_print__is(const struct heap_print *a, const struct heap_print *b);
/* All of its content is the same 8 bytes: another block may have the same. */
bool heap_print__is_alike(const struct heap_print *p);

#endif

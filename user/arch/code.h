/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* code: what a function's code shows about data: pure over its bytes, which are hostile. */
#ifndef MT_ARCH_CODE_H
#define MT_ARCH_CODE_H

#include <stddef.h>
#include <stdint.h>

#define CODE_FIELDS_BYTES 512 /* the part of an object that is considered */

/* Fields of an object that a function uses. */
struct code_fields {
	int64_t first; /* offset of the first one; -1: none */
	uint8_t bytes[CODE_FIELDS_BYTES]; /* bit 0: a byte there, bit 3: a word of eight */
};

/* Of the object of argument `arg`, in straight-line order, branches not taken, at most `max` instructions. */
void code_fields(const uint8_t *code, size_t len, unsigned arg, int max, struct code_fields *ret);

/* Uses of any object in all of a function's code. */
struct code_uses {
	uint8_t bytes[CODE_FIELDS_BYTES]; /* fields that are used, as above, through any register */
	uint8_t steps[CODE_FIELDS_BYTES]; /* 1: this value is added to an address */
};
void code_uses(const uint8_t *code, size_t len, struct code_uses *ret);

/*
 * The number with which the field of four bytes at offset `field` of argument `arg`'s object is first compared; branches not
 * taken, at most `max` instructions. -1: none.
 */
int64_t code_compared(const uint8_t *code, size_t len, unsigned arg, int64_t field, int max);

/* What is needed of a function that returns a thread-local variable. */
struct code_accessor {
	uint64_t slot; /* address of the two words that the loader fills in, the number of the library and an offset; 0: none */
	uint64_t add;  /* added to the address of the thread's copy */
	int64_t field; /* displacement of the first read through the result of the call; -1: none */
};

/* 0, or -ENOENT: it is no such function. */
int code_accessor(const uint8_t *code, size_t len, uint64_t vaddr, struct code_accessor *ret);

/* Each address that the code takes, and false ones: everything that could be one. each() < 0 stops and is returned. */
int code_addresses(const uint8_t *code, size_t len, uint64_t vaddr, int (*each)(void *ctx, uint64_t addr), void *ctx);

#endif

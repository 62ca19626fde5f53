/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* code: what a function's code says of data: pure over its bytes, hostile as they are. */
#ifndef MT_ARCH_CODE_H
#define MT_ARCH_CODE_H

#include <stddef.h>
#include <stdint.h>

#define CODE_FIELDS_BYTES 512 /* places in an object that are looked at */

/* Fields that a function uses of an object that it is given. */
struct code_fields {
	int64_t first; /* place of the first one; -1: none */
	uint8_t bytes[CODE_FIELDS_BYTES]; /* bit 0: a byte there, bit 3: a word of eight */
};

/* Of what argument `arg` points to, along the code as it lies, branches not taken, at most `max` instructions. */
void code_fields(const uint8_t *code, size_t len, unsigned arg, int max, struct code_fields *ret);

/* What a function's code, all of it, has to do with whatever objects. */
struct code_uses {
	uint8_t bytes[CODE_FIELDS_BYTES]; /* fields that are used, as above, by whichever register */
	uint8_t steps[CODE_FIELDS_BYTES]; /* 1: so much is added to an address */
};
void code_uses(const uint8_t *code, size_t len, struct code_uses *ret);

/*
 * The number that a field of four bytes, so far into what argument `arg` points to, is compared with first; branches not taken,
 * at most `max` instructions. -1: none.
 */
int64_t code_compared(const uint8_t *code, size_t len, unsigned arg, int64_t field, int max);

/* What a function that returns a thread's variable does, as far as it matters. */
struct code_accessor {
	uint64_t slot; /* address of what the loader fills in, the number of the library and an offset; 0: none */
	uint64_t add;  /* to what the thread has there */
	int64_t field; /* displacement of the first read from what was called for; -1: none */
};

/* 0, or -ENOENT: it does nothing of that kind. */
int code_accessor(const uint8_t *code, size_t len, uint64_t vaddr, struct code_accessor *ret);

/* Each address that the code takes, and others: all that could be one. Stops when each() < 0, and returns that. */
int code_addresses(const uint8_t *code, size_t len, uint64_t vaddr, int (*each)(void *ctx, uint64_t addr), void *ctx);

#endif

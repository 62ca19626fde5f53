/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* calls: where a function finds its arguments at its entry, by the C++ ABI of this processor. */
#ifndef MT_ARCH_CALLS_H
#define MT_ARCH_CALLS_H

#include <stdint.h>

#include "memtrace/arch.h"

/* A value: up to two words, with the numbers of those that hold integers and floating point; none if it has more words. */
struct arg_way {
	uint8_t ints, floats, words;
};

struct arg_dealer {
	unsigned ints, floats, words; /* used so far: registers of either kind, words of the stack */
};

/* has_result: the caller passes the place of the result. */
void args_begin(struct arg_dealer *d, int has_result);
/* The place of the next parameter's first word: a register's number, or MT_ARG_STACK + word. */
unsigned args_deal(struct arg_dealer *d, struct arg_way w);
const char *arg_name(unsigned n); /* of the register, for people; NULL: none */

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* calls: where a function finds its arguments when it is entered, by the C++ ABI of this processor. */
#ifndef MT_ARCH_CALLS_H
#define MT_ARCH_CALLS_H

#include <stdint.h>

#include "memtrace/arch.h"

/* A value: up to two words, so many of which hold integers and so many floating point; of more words none. */
struct arg_way {
	uint8_t ints, floats, words;
};

struct arg_dealer {
	unsigned ints, floats, words; /* given out so far: registers of either sort, words of the stack */
};

/* has_result: the caller says where the result shall be. */
void args_begin(struct arg_dealer *d, int has_result);
/* Where the first word of the next parameter is: a register's number, or MT_ARG_STACK + word. */
unsigned args_deal(struct arg_dealer *d, struct arg_way w);
const char *arg_name(unsigned n); /* of the register, for people; NULL: there is none */

#endif

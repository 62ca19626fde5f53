/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * try: pieces of code with one instruction of each class that memtrace ever probes, and a way to run one and to see everything
 * it can change: general registers, flags, vector registers, and the part below the stack pointer that a function may use
 * without moving it. A piece whose result is the same with and without a probe has not noticed it.
 */
#ifndef MT_ARCH_TRY_H
#define MT_ARCH_TRY_H

#include <stddef.h>
#include <stdint.h>

#include "arch/insn_class.h"

#define TRY_WORDS 72

struct try_state {
	uint64_t words[TRY_WORDS]; /* registers, flags, the red zone, which way was taken: in this processor's layout */
};

struct try_site {
	enum insn_class class;
	const char *insn;   /* for people */
	const void *at;	    /* the instruction to probe; INSN_RETURN: the entry of a function, for a return probe, too */
	const void *code;   /* start of the piece */
	size_t zone_kept;   /* words below the stack pointer, from the far end, that are the running function's */
};

extern const struct try_site try_sites[];
extern const size_t try_sites_cnt;

extern const void *const try_nothing; /* a piece without an instruction: what running one takes */

/* Random, but only the arithmetic flags are set. */
void try_state_fill(struct try_state *s, uint64_t seed);
/* Reentrant: a signal handler may run another one. */
void try_run(const struct try_state *in, struct try_state *out, const void *code);
/* 0: alike; 1: the red zone differs; 2: registers, flags or the way taken. */
int try_differs(const struct try_site *site, const struct try_state *a, const struct try_state *b);
extern const uint8_t try_breakpoint; /* first byte of the kernel's breakpoint */
/* Is the instruction at the site replaced? `first` must be its first byte without a probe. */
static inline int try_is_probed(const struct try_site *site, uint8_t first)
{
	return *(const volatile uint8_t *)site->at != first;
}

#endif

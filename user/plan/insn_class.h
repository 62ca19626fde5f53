/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * insn_class: how the kernel runs an instruction that is probed. It decides what a hit costs and whether the probe may be there
 * at all: a probe must change nothing that the program can see.
 *
 * Costs and verdicts are properties of the running kernel. user/trace/selftest.c finds them by running each class; who plans
 * without that gets the assumed ones.
 */
#ifndef MT_PLAN_INSN_CLASS_H
#define MT_PLAN_INSN_CLASS_H

#include <stdint.h>

/* In the order of what they usually cost. */
enum insn_class {
	INSN_NOP5 = 1,	      /* a five-byte nop as a function's first instruction */
	INSN_NOP = 2,	      /* of one byte */
	INSN_PUSH = 3,	      /* of a register */
	INSN_JUMP = 4,	      /* relative, conditional or not */
	INSN_CALL = 5,	      /* relative */
	INSN_NOP5_INSIDE = 6, /* a five-byte nop anywhere else: Linux 6.18 puts a call there, which writes below rsp */
	INSN_NOP10 = 7,	      /* a ten-byte nop: a call behind a step over the red zone in later kernels */
	INSN_STEPPED = 8,     /* everything else: single-stepped out of line, ten times dearer */
	INSN_RET = 9,
	INSN_RETURN = 10,     /* no instruction: a return probe, entry included */
	INSN_CLASSES
};

struct insn_classes {
	uint8_t is_tried; /* found by running them; else assumed */
	struct insn_class_fact {
		uint8_t is_usable;
		uint16_t hit_ns, pair_ns; /* one hit; of an entry and a return probe together */
	} of[INSN_CLASSES];
};

/* "nop", "five-byte nop", "push" …; "?" */
const char *insn_class_name(enum insn_class c);
/* What is safe on every kernel, with costs measured elsewhere. */
struct insn_classes insn_classes_assumed(void);

#endif

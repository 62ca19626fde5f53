/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * insn_class: how the kernel runs an instruction that is probed. That decides the cost of a hit and whether a probe is allowed
 * there at all: a probe must change nothing that the program can see.
 *
 * Costs and verdicts are properties of the running kernel. user/trace/selftest.c finds them by running each class; plans
 * without that use assumed ones.
 */
#ifndef MT_ARCH_INSN_CLASS_H
#define MT_ARCH_INSN_CLASS_H

#include <stddef.h>
#include <stdint.h>

/* In the order of their usual cost. A processor need not have all of them. */
enum insn_class {
	INSN_NOP5 = 1,	      /* a five-byte nop as a function's first instruction */
	INSN_NOP = 2,	      /* of one byte */
	INSN_PUSH = 3,	      /* of a register */
	INSN_JUMP = 4,	      /* relative, conditional or not */
	INSN_CALL = 5,	      /* relative: emulated; through memory or a register: stepped, and the pushed address corrected */
	INSN_NOP5_INSIDE = 6, /* a five-byte nop anywhere else: Linux 6.18 puts a call there, which writes below rsp */
	INSN_NOP10 = 7,	      /* of ten bytes: refused, or a call as well in kernels after 7.0. Never probed, nor tried */
	INSN_STEPPED = 8,     /* everything else: single-stepped out of line, ten times as expensive */
	INSN_RET = 9,
	INSN_RETURN = 10,     /* no instruction: a return probe, entry included */
	INSN_CLASSES,
	INSN_OWN = INSN_PUSH, /* the first instruction of our own functions: the basis of all measurements */
};

/* What a probe does to a program; the greatest value is the worst. */
enum insn_verdict {
	INSN_UNTRIED = 0,
	INSN_FINE,
	INSN_NOT_SET,	    /* the kernel refuses a probe there */
	INSN_CHANGES_CHILD, /* of registers or stack, in a child forked later */
	INSN_CHANGES_STACK, /* below rsp, where functions keep variables */
	INSN_CHANGES_REGS,  /* or flags, or the way taken */
	INSN_ENDS_CHILD,    /* forked later */
	INSN_ENDS_PROCESS,
};

struct insn_classes {
	uint8_t is_tried; /* found by running them; else assumed */
	struct insn_class_fact {
		uint8_t is_usable, verdict;
		uint16_t hit_ns, pair_ns; /* one hit; of an entry and a return probe together */
	} of[INSN_CLASSES];
};

/* "nop", "five-byte nop", "push" …; "?" */
const char *insn_class_name(enum insn_class c);
const char *insn_verdict_text(enum insn_verdict v); /* "harmless", "ends children that are forked later" … */
/* Lists the harmful ones, with the harm, for people; returns how many. */
int insn_classes_harmful(const struct insn_classes *c, char *buf, size_t size);
/* A bit for each class that may be probed. */
uint32_t insn_classes_usable(const struct insn_classes *c);
/* What is safe on every kernel, with costs measured elsewhere. */
struct insn_classes insn_classes_assumed(void);

/* X/insn_class.c: for each class its name, costs measured elsewhere, and whether it is safe on every kernel. */
struct insn_known {
	const char *name;
	uint16_t hit_ns, pair_ns;
	uint8_t is_safe;
};
extern const struct insn_known insn_known[INSN_CLASSES];

#endif

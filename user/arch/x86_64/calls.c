/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* System V: a parameter gets all its registers or goes to the stack whole; a later, smaller one may still get those left. */
#include "arch/arch.h"

#include <stddef.h>

#define FLOAT_REGS 8

void args_begin(struct arg_dealer *d, int has_result)
{
	*d = (struct arg_dealer){ .ints = has_result ? MT_ARGS_HIDDEN : 0 };
}

unsigned args_deal(struct arg_dealer *d, struct arg_way w)
{
	unsigned where;

	if ((w.ints || w.floats) && d->ints + w.ints <= MT_ARG_REGS && d->floats + w.floats <= FLOAT_REGS) {
		where = d->ints;
		d->ints += w.ints;
		d->floats += w.floats;
		return where;
	}
	where = MT_ARG_STACK + d->words;
	d->words += w.words;
	return where;
}

const char *arg_name(unsigned n)
{
	static const char *const names[MT_ARG_REGS] = { "rdi", "rsi", "rdx", "rcx", "r8", "r9" };

	return n < MT_ARG_REGS ? names[n] : NULL;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "stack/unwind.h"

#include <string.h>

#include "arch/arch.h"

struct unwind_frame {
	uint64_t regs[MT_STACK_REGS];
	unsigned known; /* bits */
};

static int word_at(const struct unwind *u, uint64_t addr, uint64_t *ret)
{
	uint64_t off = addr - u->regs[MT_STACK_SP];

	if (u->bytes_cnt < sizeof(*ret) || off > u->bytes_cnt - sizeof(*ret))
		return -1;
	memcpy(ret, u->bytes + off, sizeof(*ret));
	return 0;
}

static int cfa_of(const struct unwind *u, const struct unwind_frame *f, const struct cfi_row *row, uint64_t *ret)
{
	if (row->cfa_reg >= MT_STACK_REGS || !(f->known >> row->cfa_reg & 1))
		return -1;
	*ret = f->regs[row->cfa_reg] + (uint64_t)row->cfa_off;
	if (row->cfa == CFI_CFA_DEREF)
		return word_at(u, *ret, ret);
	if (row->cfa == CFI_CFA_PLT)
		*ret += arch__plt_shift(f->regs[MT_STACK_PC]);
	return 0;
}

static void restore(const struct unwind *u, struct unwind_frame *next, const struct unwind_frame *f, unsigned reg,
		    const struct cfi_rule *rule, uint64_t cfa)
{
	uint64_t base = cfa;
	int is_known = 1;

	if (rule->how == CFI_SAME) {
		next->regs[reg] = f->regs[reg];
		is_known = f->known >> reg & 1;
	} else {
		if (rule->how == CFI_AT_REG) {
			is_known = rule->reg < MT_STACK_REGS && (f->known >> rule->reg & 1);
			base = is_known ? f->regs[rule->reg] : 0;
		}
		is_known = is_known && rule->how != CFI_UNDEFINED &&
			   !word_at(u, base + (uint64_t)rule->off, &next->regs[reg]);
	}
	next->known |= (unsigned)is_known << reg;
}

/* 1: *f is the caller now; 0: there is none; -1: unknown. */
static int step(const struct unwind *u, struct unwind_frame *f, const struct cfi_row *row)
{
	struct unwind_frame next = { .known = 1u << MT_STACK_SP };
	uint64_t cfa;

	if (row->regs[MT_STACK_PC].how == CFI_UNDEFINED)
		return 0;
	/* A caller's frame is above: that also ends every loop. */
	if (cfa_of(u, f, row, &cfa) || cfa <= f->regs[MT_STACK_SP])
		return -1;
	next.regs[MT_STACK_SP] = cfa;
	for (unsigned reg = 0; reg < MT_STACK_REGS; reg++)
		if (reg != MT_STACK_SP)
			restore(u, &next, f, reg, &row->regs[reg], cfa);
	if (!(next.known >> MT_STACK_PC & 1) || row->regs[MT_STACK_PC].how == CFI_SAME)
		return -1;
	*f = next;
	return f->regs[MT_STACK_PC] != 0;
}

size_t unwind(const struct unwind *u, uint64_t *pcs, size_t max, int *ret_cut)
{
	struct unwind_frame f = { .known = (1u << MT_STACK_REGS) - 1 };
	int is_return = u->is_return, r = 1;
	struct cfi_row row;
	size_t n = 0;

	memcpy(f.regs, u->regs, sizeof(f.regs));
	while (r > 0 && n < max) {
		uint64_t pc = f.regs[MT_STACK_PC] - (uint64_t)is_return;

		pcs[n++] = pc;
		if (u->row(u->ctx, pc, &row) < 0) {
			r = -1;
			break;
		}
		r = step(u, &f, &row);
		is_return = !row.is_signal;
	}
	*ret_cut = r != 0;
	return n;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Which instruction of a function becomes a site; and the count of functions without a safe one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "plan/builder.h"

void builder__leave_out(struct builder *b, const char *shown)
{
	if (!b->unsafe_cnt++)
		snprintf(b->unsafe_first, sizeof(b->unsafe_first), "%s", shown);
	b->plan->unsafe_cnt++;
}

void builder__fill(const struct builder *b, const struct prologue_site *at, uint64_t offset, struct site *site)
{
	site->offset = offset + at->skipped;
	site->insn_class = (uint8_t)at->insn_class;
	site->skipped = (uint8_t)at->skipped;
	site->cost_ns = b->classes.of[at->insn_class].hit_ns;
	memcpy(site->insn, at->insn, sizeof(site->insn));
}

int builder__place(struct builder *b, const struct elf_sym *sym, const char *shown, const struct prologue_need *need,
		   struct site *site)
{
	struct prologue_site at;
	size_t len;
	const uint8_t *code = elf__code(b->elf, sym, &len);
	int r = code ? prologue_pick(code, len, sym->size, sym->offset, need, &b->classes, &at) : -EINVAL;

	if (r == -ENOTSUP)
		builder__leave_out(b, shown);
	if (!r)
		builder__fill(b, &at, sym->offset, site);
	return r;
}

void builder__note_left_out(struct builder *b)
{
	if (b->unsafe_cnt)
		builder__note(b, "%s: %u site%s left out (%s%.100s): here a probe there could do the program harm "
			      "(memtrace doctor)", b->lib->base, b->unsafe_cnt, b->unsafe_cnt > 1 ? "s are" : " is",
			      b->unsafe_cnt > 1 ? "the first: " : "", b->unsafe_first);
	b->unsafe_cnt = 0;
}

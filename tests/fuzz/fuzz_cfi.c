/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Any bytes as the call frame information of an ELF file, and any bytes as a stack: rules name registers
 * that exist, unwinding ends.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "stack/demangle.h"
#include "stack/unwind.h"
#include "target/elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int row_of(void *ctx, uint64_t pc, struct cfi_row *ret)
{
	int r = elf__cfi(ctx, pc, ret);

	if (!r && ret->cfa_reg >= MT_STACK_REGS)
		abort();
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct unwind u = { .bytes = data, .bytes_cnt = size, .row = row_of };
	char name[300] = "_Z", out[DEMANGLE_MAX];
	uint64_t pcs[UNWIND_MAX];
	struct cfi_row row;
	struct elf *e;
	int cut;

	memcpy(name + 2, data, size < 290 ? size : 290);
	demangle(out, name);
	if (elf__open_mem(&e, data, size, "fuzz", NULL) < 0)
		return 0;
	u.ctx = e;
	for (uint64_t vaddr = 0; vaddr < size + 64; vaddr += 1 + size / 64)
		(void)row_of(e, vaddr, &row);
	for (unsigned i = 0; i < 16; i++) {
		for (unsigned k = 0; k < MT_STACK_REGS; k++)
			u.regs[k] = size >= 8 ? data[(i * 8 + k) % size] * 16u : 0;
		u.regs[MT_STACK_SP] = i * 64;
		if (unwind(&u, pcs, UNWIND_MAX, &cut) > UNWIND_MAX)
			abort();
	}
	elf__free(e);
	return 0;
}

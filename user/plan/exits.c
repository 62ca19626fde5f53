/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "plan/exits.h"

#include <errno.h>

#include "target/elf.h"

static const uint8_t *bytes_at(void *ctx, uint64_t vaddr, size_t most, size_t *ret_len)
{
	uint64_t offset = elf__offset_of(ctx, vaddr);

	return offset == UINT64_MAX ? NULL : elf__bytes(ctx, offset, most, ret_len);
}

static int function_of(void *ctx, uint64_t slot, uint64_t *ret_vaddr)
{
	const char *name = elf__slot_symbol(ctx, slot);
	struct elf_sym sym;

	if (!name || elf__find_symbol(ctx, name, &sym) < 0 || !sym.is_exec)
		return -ENOENT;
	*ret_vaddr = sym.vaddr;
	return 0;
}

int exits_find(const struct elf *e, uint64_t vaddr, uint64_t *ret)
{
	struct exits_code code = { (void *)(uintptr_t)e, bytes_at, function_of };
	int cnt = exits_walk(&code, vaddr, ret);

	for (int i = 0; i < cnt; i++)
		ret[i] = elf__offset_of(e, ret[i]);
	return cnt;
}

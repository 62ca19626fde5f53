/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The schemas of a library: its read-only data, and the function that registers them.
 *
 * TORCH_LIBRARY(aten, m) { m.def("…"); … } of PyTorch's RegisterSchema.cpp is one function of 62 KB for 3,000 operators; it is
 * local to the library, so its name is only in .symtab. Going through those names takes 2.15's plan 12 ms of 140, and 2.13's
 * nothing: all its texts are separate.
 */
#include <errno.h>

#include "plan/schema.h"
#include "target/elf.h"

#define CODE_MAX (1u << 20)

static int take_code(void *ctx, size_t name, const struct elf_sym *sym)
{
	(void)name;
	*(struct elf_sym *)ctx = *sym;
	return 1;
}

static int find_code(void *ctx, struct schema_code *ret)
{
	static const char *const names[] = { "_ZN2atL23TORCH_LIBRARY_init_atenERN5torch7LibraryE" };
	const struct elf *e = ctx;
	struct elf_sym sym;
	const uint8_t *data;
	size_t len;

	if (elf__find_locals(e, names, 1, take_code, &sym) != 1 || !sym.is_exec || sym.offset == UINT64_MAX ||
	    elf__section(e, ".rodata", &data, &len, &ret->data_vaddr) < 0)
		return -ENOENT;
	ret->vaddr = sym.vaddr;
	ret->code = elf__bytes(e, sym.offset, sym.size < CODE_MAX ? sym.size : CODE_MAX, &ret->len);
	return ret->code ? 0 : -ENOENT;
}

int schema_index__of(const struct elf *e, struct schema_index **ret)
{
	const uint8_t *data;
	uint64_t vaddr;
	size_t len;

	if (elf__section(e, ".rodata", &data, &len, &vaddr) < 0)
		return -ENOENT;
	*ret = schema_index__new(data, len);
	if (!*ret)
		return -ENOMEM;
	schema_index__when_in_doubt(*ret, find_code, (void *)(uintptr_t)e);
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What stands beside the dynamic symbols: local ones, and which symbol a slot of the GOT is for. */
#include <errno.h>
#include <string.h>

#include "target/elf.h"
#include "target/elf_file.h"

static Elf64_Sym table_sym(const struct elf *e, struct span syms, uint64_t i)
{
	Elf64_Sym s;

	memcpy(&s, e->data + syms.off + i * sizeof(s), sizeof(s));
	return s;
}

int elf__find_local(const struct elf *e, const char *name, struct elf_sym *ret)
{
	size_t len = strlen(name);

	for (size_t k = 1; k < e->shdrs_cnt; k++) {
		struct span syms = elf__section_span(e, k), strs;

		if (e->shdrs[k].sh_type != SHT_SYMTAB || e->shdrs[k].sh_entsize != sizeof(Elf64_Sym))
			continue;
		strs = elf__section_span(e, e->shdrs[k].sh_link);
		for (uint64_t i = 1; i < syms.len / sizeof(Elf64_Sym); i++) {
			Elf64_Sym s = table_sym(e, syms, i);

			if (s.st_shndx == SHN_UNDEF || s.st_name >= strs.len || strs.len - s.st_name <= len ||
			    memcmp(e->data + strs.off + s.st_name, name, len + 1))
				continue;
			elf__fill_symbol(e, &s, (const char *)e->data + strs.off + s.st_name, ret);
			return 0;
		}
	}
	return -ENOENT;
}

const char *elf__slot_symbol(const struct elf *e, uint64_t slot_vaddr)
{
	for (size_t k = 1; k < e->shdrs_cnt; k++) {
		struct span rel = elf__section_span(e, k), syms, strs;
		size_t link = e->shdrs[k].sh_link;

		if (e->shdrs[k].sh_type != SHT_RELA || e->shdrs[k].sh_entsize != sizeof(Elf64_Rela) ||
		    link >= e->shdrs_cnt || e->shdrs[link].sh_type != SHT_DYNSYM)
			continue;
		syms = elf__section_span(e, link);
		strs = elf__section_span(e, e->shdrs[link].sh_link);
		for (uint64_t i = 0; i < rel.len / sizeof(Elf64_Rela); i++) {
			Elf64_Rela r;

			memcpy(&r, e->data + rel.off + i * sizeof(r), sizeof(r));
			if (r.r_offset != slot_vaddr)
				continue;
			if (ELF64_R_SYM(r.r_info) >= syms.len / sizeof(Elf64_Sym))
				return NULL;
			return elf__string(e, strs, table_sym(e, syms, ELF64_R_SYM(r.r_info)).st_name);
		}
	}
	return NULL;
}

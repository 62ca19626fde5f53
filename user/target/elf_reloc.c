/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The symbol of a slot of the GOT. */
#include <string.h>

#include "target/elf.h"
#include "target/elf_file.h"

const char *elf__slot_symbol(const struct elf *e, uint64_t slot_vaddr)
{
	for (size_t k = 1; k < e->shdrs_cnt; k++) {
		struct file_span rel = elf__section_span(e, k), syms, strs;
		size_t link = e->shdrs[k].sh_link;

		if (e->shdrs[k].sh_type != SHT_RELA || e->shdrs[k].sh_entsize != sizeof(Elf64_Rela) ||
		    link >= e->shdrs_cnt || e->shdrs[link].sh_type != SHT_DYNSYM)
			continue;
		syms = elf__section_span(e, link);
		strs = elf__section_span(e, e->shdrs[link].sh_link);
		for (uint64_t i = 0; i < rel.len / sizeof(Elf64_Rela) && !elf__spend(e, 1); i++) {
			const void *at = elf__at(e, rel.off + i * sizeof(Elf64_Rela), sizeof(Elf64_Rela));
			Elf64_Rela r;

			if (!at)
				return NULL;
			memcpy(&r, at, sizeof(r));
			if (r.r_offset != slot_vaddr)
				continue;
			if (ELF64_R_SYM(r.r_info) >= syms.len / sizeof(Elf64_Sym))
				return NULL;
			return elf__string(e, strs, elf__symbol_at(e, syms, ELF64_R_SYM(r.r_info)).st_name);
		}
	}
	return NULL;
}

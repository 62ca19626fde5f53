/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * ELF files, read piece by piece.
 *
 * libelf would do, but it converts whole sections into memory of its own before it returns the first symbol, and then libelf
 * has to survive a hostile file, which we cannot test. Little is needed here: headers (copied once, they may be unaligned),
 * file offset ↔ vaddr through PT_LOAD, sections by name. Opening is in elf_open.c, symbols are in elf_sym.c, SDT notes in
 * elf_note.c. Only those pieces of a 430 MB library are read that a question touches (elf_copy.c).
 *
 * Every offset goes through elf__has() or elf__at().
 */
#include "target/elf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "target/elf_file.h"

#define PAGE 4096ull
#define CODE_BYTES_MIN 512u   /* of a function whose symbol has no size */
#define CODE_BYTES_MAX 65536u /* the longest at::_ops::X::call of 2.13 has 5,000 */
#define STRING_MAX 65536u /* with its NUL; torch's longest symbol has 9,000 bytes */
#define STRING_STEP 256u  /* read first: most are shorter */

/* --- sections -------------------------------------------------------------------------------------- */

struct file_span elf__section_span(const struct elf *e, size_t i)
{
	const Elf64_Shdr *s = &e->shdrs[i];

	if (i >= e->shdrs_cnt || s->sh_type == SHT_NOBITS || !elf__has(e, s->sh_offset, s->sh_size))
		return (struct file_span){ 0, 0 };
	return (struct file_span){ s->sh_offset, s->sh_size };
}

const char *elf__string(const struct elf *e, struct file_span table, uint64_t at)
{
	uint64_t most = at < table.len ? table.len - at : 0, len = 0;

	if (most > STRING_MAX)
		most = STRING_MAX;
	while (len < most) {
		uint64_t more = len ? most : STRING_STEP;
		const char *s = elf__at(e, table.off + at, more < most ? more : most);

		if (!s)
			return NULL;
		more = more < most ? more : most;
		if (memchr(s + len, '\0', (size_t)(more - len)))
			return s;
		(void)elf__spend(e, (more - len) / 32);
		len = more;
	}
	return NULL;
}

int elf__section_is(const struct elf *e, size_t i, const char *name)
{
	size_t strs = e->ehdr.e_shstrndx;
	const char *s;

	if (strs == SHN_XINDEX && e->shdrs_cnt)
		strs = e->shdrs[0].sh_link;
	if (i >= e->shdrs_cnt || strs >= e->shdrs_cnt)
		return 0;
	s = elf__string(e, elf__section_span(e, strs), e->shdrs[i].sh_name);
	return s && !strcmp(s, name);
}

int elf__section(const struct elf *e, const char *name, const uint8_t **ret, size_t *ret_len,
		 uint64_t *ret_vaddr)
{
	for (size_t i = 1; i < e->shdrs_cnt; i++) {
		const void *at;
		struct file_span s;

		if (!elf__section_is(e, i, name))
			continue;
		s = elf__section_span(e, i);
		at = elf__at(e, s.off, s.len);
		if (!at)
			return -ENOENT;
		*ret = at;
		*ret_len = s.len;
		*ret_vaddr = e->shdrs[i].sh_addr;
		return 0;
	}
	return -ENOENT;
}

const uint8_t *elf__bytes(const struct elf *e, uint64_t offset, uint64_t want, size_t *ret_len)
{
	const uint8_t *at = NULL;

	*ret_len = 0;
	if (offset < e->len)
		at = elf__at(e, offset, want < e->len - offset ? want : e->len - offset);
	if (at)
		*ret_len = (size_t)(want < e->len - offset ? want : e->len - offset);
	return at;
}

const uint8_t *elf__code(const struct elf *e, const struct elf_sym *sym, size_t *ret_len)
{
	uint64_t want = sym->size < CODE_BYTES_MIN ? CODE_BYTES_MIN : sym->size;

	return elf__bytes(e, sym->offset, want < CODE_BYTES_MAX ? want : CODE_BYTES_MAX, ret_len);
}

/* --- addresses --------------------------------------------------------------------------------------- */

uint64_t elf__offset_of(const struct elf *e, uint64_t vaddr)
{
	for (size_t i = 0; i < e->phdrs_cnt; i++) {
		const Elf64_Phdr *p = &e->phdrs[i];

		if (p->p_type == PT_LOAD && vaddr >= p->p_vaddr && vaddr - p->p_vaddr < p->p_filesz &&
		    elf__has(e, p->p_offset, vaddr - p->p_vaddr + 1))
			return p->p_offset + (vaddr - p->p_vaddr);
	}
	return UINT64_MAX;
}

void elf__layout(const struct elf *e, struct elf_layout *ret)
{
	*ret = (struct elf_layout){ 0 };
	for (size_t i = 0; i < e->phdrs_cnt && ret->code_cnt < ELF_CODE_MAX; i++) {
		const Elf64_Phdr *p = &e->phdrs[i];

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
			continue;
		ret->code[ret->code_cnt].vaddr = p->p_vaddr;
		ret->code[ret->code_cnt].offset = p->p_offset;
		ret->code[ret->code_cnt++].filesz = p->p_filesz;
	}
}

int elf_layout__bias(const struct elf_layout *l, uint64_t map_start, uint64_t map_off, uint64_t *ret)
{
	for (size_t i = 0; i < l->code_cnt; i++) {
		uint64_t offset = l->code[i].offset, head = offset % PAGE; /* mappings begin at a page */

		if (map_off < offset - head || map_off - (offset - head) >= l->code[i].filesz + head)
			continue;
		*ret = map_start - (l->code[i].vaddr - head + (map_off - (offset - head)));
		return 0;
	}
	return -ENOENT;
}

int elf__load_bias(const struct elf *e, uint64_t map_start, uint64_t map_off, uint64_t *ret)
{
	struct elf_layout l;

	elf__layout(e, &l);
	return elf_layout__bias(&l, map_start, map_off, ret);
}

/* --- kind of file ------------------------------------------------------------------------------------ */

int elf__dyn_at(const struct elf *e, const Elf64_Phdr *dynamic, uint64_t i, Elf64_Dyn *ret)
{
	const void *at = i < dynamic->p_filesz / sizeof(*ret) && !elf__spend(e, 1) ?
			 elf__at(e, dynamic->p_offset + i * sizeof(*ret), sizeof(*ret)) : NULL;

	if (at)
		memcpy(ret, at, sizeof(*ret));
	return at && ret->d_tag != DT_NULL;
}

static int elf__is_pie(const struct elf *e, const Elf64_Phdr *dynamic)
{
	Elf64_Dyn d;

	for (uint64_t i = 0; elf__dyn_at(e, dynamic, i, &d); i++)
		if (d.d_tag == DT_FLAGS_1)
			return !!(d.d_un.d_val & DF_1_PIE);
	return 0;
}

int elf__is_static(const struct elf *e)
{
	const Elf64_Phdr *dynamic = NULL;

	for (size_t i = 0; i < e->phdrs_cnt; i++) {
		if (e->phdrs[i].p_type == PT_INTERP)
			return 0;
		if (e->phdrs[i].p_type == PT_DYNAMIC)
			dynamic = &e->phdrs[i];
	}
	return !dynamic || elf__is_pie(e, dynamic);
}

int elf__is_stripped(const struct elf *e)
{
	return e->is_stripped;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Symbols of an ELF file.
 *
 * Lookups go through the GNU hash table: a Bloom filter, then one short chain, so that a name costs a
 * few cache lines in a table of 75,000. The SysV table is the fallback, then a scan. The tables
 * come from the section headers; where these were removed, from PT_DYNAMIC, as the dynamic linker
 * finds them. A name with several versions gives its default version.
 *
 * .symtab is used only where .dynsym defines nothing: in programs, static ones above all. (A function
 * of a dynamic program that its libraries call, like a malloc of its own, is in .dynsym.)
 */
#include <errno.h>
#include <string.h>

#include "target/elf.h"
#include "target/elf_file.h"

/* --- reading ----------------------------------------------------------------------------------------- */

/* 0 if it cannot be read: no bucket, no symbols, no end of a chain. */
static uint32_t u32_at(const struct elf *e, struct file_span s, uint64_t index)
{
	const void *at = elf__at(e, s.off + index * sizeof(uint32_t), sizeof(uint32_t));
	uint32_t v = 0;

	if (at)
		memcpy(&v, at, sizeof(v));
	return v;
}

Elf64_Sym elf__symbol_at(const struct elf *e, struct file_span syms, uint64_t i)
{
	const void *at = elf__at(e, syms.off + i * sizeof(Elf64_Sym), sizeof(Elf64_Sym));
	Elf64_Sym s = { 0 };

	if (at)
		memcpy(&s, at, sizeof(s));
	return s;
}

int elf__string_is(const struct elf *e, struct file_span table, uint64_t at, const char *name, size_t len)
{
	const char *s;

	if (at >= table.len || table.len - at <= len)
		return 0;
	s = elf__at(e, table.off + at, len + 1);
	return s && !memcmp(s, name, len + 1);
}

static int is_defined(const Elf64_Sym *s)
{
	int type = ELF64_ST_TYPE(s->st_info);

	return s->st_shndx != SHN_UNDEF && s->st_shndx != SHN_ABS &&
	       (type == STT_FUNC || type == STT_OBJECT || type == STT_NOTYPE || type == STT_GNU_IFUNC);
}

int elf__is_code(const struct elf *e, uint64_t vaddr)
{
	for (size_t i = 0; i < e->phdrs_cnt; i++) {
		const Elf64_Phdr *p = &e->phdrs[i];

		if (p->p_type == PT_LOAD && (p->p_flags & PF_X) && vaddr >= p->p_vaddr && vaddr - p->p_vaddr < p->p_memsz)
			return 1;
	}
	return 0;
}

void elf__fill_symbol(const struct elf *e, const Elf64_Sym *s, const char *name, struct elf_sym *ret)
{
	*ret = (struct elf_sym){
		.name = name,
		.vaddr = s->st_value,
		.offset = elf__offset_of(e, s->st_value),
		.size = s->st_size,
		.type = ELF64_ST_TYPE(s->st_info),
	};
	ret->is_exec = (uint8_t)elf__is_code(e, s->st_value);
}

/* --- choosing the tables -------------------------------------------------------------------------------
 */

static int elf__use_symbols(struct elf *e, size_t section)
{
	const Elf64_Shdr *s = &e->shdrs[section];
	struct file_span syms = elf__section_span(e, section);

	if (s->sh_entsize != sizeof(Elf64_Sym) || syms.len / sizeof(Elf64_Sym) < 2)
		return 0;
	e->syms = syms;
	e->syms_cnt = syms.len / sizeof(Elf64_Sym);
	e->strs = elf__section_span(e, s->sh_link);
	return 1;
}

/* A table of unknown length at a virtual address: everything that the file has from there on. */
static struct file_span span_at(const struct elf *e, uint64_t vaddr)
{
	uint64_t off = elf__offset_of(e, vaddr);

	if (off == UINT64_MAX)
		return (struct file_span){ 0, 0 };
	return (struct file_span){ off, e->len - off };
}

/* The GNU table does not have the number of symbols: they end where its last chain ends. */
static size_t gnu_symbols_cnt(const struct elf *e)
{
	uint64_t words = e->gnu_hash.len / 4, buckets, first, chains, last = 0;

	if (words < 4)
		return 0;
	buckets = u32_at(e, e->gnu_hash, 0);
	first = u32_at(e, e->gnu_hash, 1);
	chains = 4 + 2ull * u32_at(e, e->gnu_hash, 2) + buckets;
	if (chains > words)
		return 0;
	for (uint64_t i = chains - buckets; i < chains && !elf__spend(e, 1); i++)
		if (u32_at(e, e->gnu_hash, i) > last)
			last = u32_at(e, e->gnu_hash, i);
	if (last < first)
		return first;
	while (chains + (last - first) < words && !(u32_at(e, e->gnu_hash, chains + (last - first)) & 1) &&
	       !elf__spend(e, 1))
		last++;
	return last + 1;
}

static void elf__find_dynamic(struct elf *e, const Elf64_Phdr *dynamic)
{
	uint64_t strs_len = 0;
	Elf64_Dyn d;

	if (!elf__has(e, dynamic->p_offset, dynamic->p_filesz))
		return;
	for (uint64_t i = 0; elf__dyn_at(e, dynamic, i, &d); i++) {
		switch (d.d_tag) {
		case DT_SYMTAB: e->syms = span_at(e, d.d_un.d_ptr); break;
		case DT_STRTAB: e->strs = span_at(e, d.d_un.d_ptr); break;
		case DT_STRSZ: strs_len = d.d_un.d_val; break;
		case DT_GNU_HASH: e->gnu_hash = span_at(e, d.d_un.d_ptr); break;
		case DT_HASH: e->sysv_hash = span_at(e, d.d_un.d_ptr); break;
		case DT_VERSYM: e->versyms = span_at(e, d.d_un.d_ptr); break;
		}
	}
	if (e->strs.len > strs_len)
		e->strs.len = strs_len;
	if (e->sysv_hash.len >= 8)
		e->syms_cnt = u32_at(e, e->sysv_hash, 1);
	else
		e->syms_cnt = gnu_symbols_cnt(e);
	if (e->syms_cnt > e->syms.len / sizeof(Elf64_Sym))
		e->syms_cnt = e->syms.len / sizeof(Elf64_Sym);
}

void elf__find_tables(struct elf *e)
{
	size_t symtab = 0;
	int have = 0;

	for (size_t i = 1; i < e->shdrs_cnt; i++) {
		switch (e->shdrs[i].sh_type) {
		case SHT_DYNSYM: have = have || elf__use_symbols(e, i); break;
		case SHT_GNU_HASH: e->gnu_hash = elf__section_span(e, i); break;
		case SHT_HASH: e->sysv_hash = elf__section_span(e, i); break;
		case SHT_GNU_versym: e->versyms = elf__section_span(e, i); break;
		case SHT_SYMTAB: symtab = i; break;
		}
	}
	e->is_stripped = !symtab;
	for (size_t i = 0; !have && !e->shdrs_cnt && i < e->phdrs_cnt; i++)
		if (e->phdrs[i].p_type == PT_DYNAMIC)
			elf__find_dynamic(e, &e->phdrs[i]);
	for (size_t i = 1; i < e->syms_cnt; i++) {
		Elf64_Sym s = elf__symbol_at(e, e->syms, i);

		if (is_defined(&s) || elf__spend(e, 1))
			return;
	}
	if (!symtab)
		return;
	memset(&e->gnu_hash, 0, sizeof(e->gnu_hash));
	memset(&e->sysv_hash, 0, sizeof(e->sysv_hash));
	memset(&e->versyms, 0, sizeof(e->versyms));
	if (!elf__use_symbols(e, symtab))
		e->syms_cnt = 0;
}

/* --- lookup --------------------------------------------------------------------------------------------
 */

static int is_hidden_version(const struct elf *e, uint64_t i)
{
	const void *at;
	uint16_t v;

	if (i >= e->versyms.len / sizeof(v))
		return 0;
	at = elf__at(e, e->versyms.off + i * sizeof(v), sizeof(v));
	if (!at)
		return 0;
	memcpy(&v, at, sizeof(v));
	return v >> 15;
}

struct lookup {
	const char *name;
	size_t len;
	Elf64_Sym sym;
	int found;
};

/* 1 when symbol i is the one, in its default version; an old version is kept in case there is no other. */
static int lookup__try(struct lookup *l, const struct elf *e, uint64_t i)
{
	Elf64_Sym s;

	if (i >= e->syms_cnt)
		return 0;
	s = elf__symbol_at(e, e->syms, i);
	if (!is_defined(&s) || !elf__string_is(e, e->strs, s.st_name, l->name, l->len))
		return 0;
	if (is_hidden_version(e, i)) {
		if (!l->found)
			l->sym = s;
		l->found = 1;
		return 0;
	}
	l->sym = s;
	l->found = 1;
	return 1;
}

static void lookup_gnu(const struct elf *e, struct lookup *l)
{
	uint64_t words = e->gnu_hash.len / 4, buckets, first, blooms, chains, at;
	uint32_t h = 5381, shift;
	const void *filter;
	uint64_t bloom;

	for (const char *p = l->name; *p; p++)
		h = h * 33 + (unsigned char)*p;
	buckets = u32_at(e, e->gnu_hash, 0);
	first = u32_at(e, e->gnu_hash, 1);
	blooms = u32_at(e, e->gnu_hash, 2);
	shift = u32_at(e, e->gnu_hash, 3) & 31;
	chains = 4 + 2 * blooms + buckets;
	if (!buckets || !blooms || chains > words)
		return;
	filter = elf__at(e, e->gnu_hash.off + 16 + 8 * ((h / 64) % blooms), sizeof(bloom));
	if (!filter)
		return;
	memcpy(&bloom, filter, sizeof(bloom));
	if (!(bloom >> (h % 64) & 1) || !(bloom >> ((h >> shift) % 64) & 1))
		return;
	at = u32_at(e, e->gnu_hash, 4 + 2 * blooms + h % buckets);
	for (; at >= first && chains + (at - first) < words && !elf__spend(e, 1); at++) {
		uint32_t c = u32_at(e, e->gnu_hash, chains + (at - first));

		if ((c | 1) == (h | 1) && lookup__try(l, e, at))
			return;
		if (c & 1)
			return;
	}
}

static void lookup_sysv(const struct elf *e, struct lookup *l)
{
	uint64_t words = e->sysv_hash.len / 4, buckets, chains, steps = 0;
	uint32_t h = 0, at;

	for (const char *p = l->name; *p; p++) {
		h = (h << 4) + (unsigned char)*p;
		h = (h ^ (h >> 24 & 0xf0)) & 0x0fffffff;
	}
	buckets = u32_at(e, e->sysv_hash, 0);
	chains = u32_at(e, e->sysv_hash, 1);
	if (!buckets || 2 + buckets + chains > words)
		return;
	at = u32_at(e, e->sysv_hash, 2 + h % buckets);
	for (; at && at < chains && steps++ < chains && !elf__spend(e, 1); at = u32_at(e, e->sysv_hash, 2 + buckets + at))
		if (lookup__try(l, e, at))
			return;
}

int elf__find_symbol(const struct elf *e, const char *name, struct elf_sym *ret)
{
	struct lookup l = { .name = name, .len = strlen(name) };

	if (e->gnu_hash.len >= 16)
		lookup_gnu(e, &l);
	else if (e->sysv_hash.len >= 8)
		lookup_sysv(e, &l);
	else
		for (size_t i = 1; i < e->syms_cnt && !elf__spend(e, 1); i++)
			if (lookup__try(&l, e, i))
				break;
	if (!l.found || elf__failed(e, NULL))
		return -ENOENT;
	elf__fill_symbol(e, &l.sym, elf__at(e, e->strs.off + l.sym.st_name, l.len + 1), ret);
	return 0;
}

int elf__each_symbol(const struct elf *e, int (*fn)(void *ctx, const struct elf_sym *sym), void *ctx)
{
	if (e->syms_cnt > ELF_SYMBOLS_MAX)
		elf__refuse(e, -EOVERFLOW);
	(void)elf__at(e, e->syms.off, e->syms_cnt * sizeof(Elf64_Sym)); /* read all at once */
	for (size_t i = 1; i < e->syms_cnt && !elf__spend(e, 8); i++) {
		Elf64_Sym s = elf__symbol_at(e, e->syms, i);
		int type = ELF64_ST_TYPE(s.st_info), r;
		struct elf_sym out;
		const char *name;

		if (!is_defined(&s) || (type != STT_FUNC && type != STT_OBJECT))
			continue;
		name = elf__string(e, e->strs, s.st_name);
		if (!name)
			continue;
		elf__fill_symbol(e, &s, name, &out);
		r = fn(ctx, &out);
		if (r)
			return r;
	}
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Local functions of a file: in .symtab, where the other look-ups use .dynsym.
 *
 * Its names are the largest table of all: 76 MB of 2.13's libtorch_cpu.so, for 534,541 symbols. A search for some names goes
 * through them in a window that is not kept, and looks at the symbols only if one of the names is there; a search for addresses
 * gets these, and asks for the name of a single one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "target/elf.h"
#include "target/elf_file.h"

#define WINDOW	  (128u << 10)
#define WANTED_LEN_MAX 256u
#define WANTED_MAX 255u
#define HITS_MAX  4096u

/* The first .symtab that is not the table of the other look-ups, and its names. */
static int find_table(const struct elf *e, struct file_span *syms, struct file_span *strs)
{
	for (size_t i = 1; i < e->shdrs_cnt; i++) {
		if (e->shdrs[i].sh_type != SHT_SYMTAB)
			continue;
		*syms = elf__section_span(e, i);
		*strs = elf__section_span(e, e->shdrs[i].sh_link);
		if (e->shdrs[i].sh_entsize != sizeof(Elf64_Sym) || syms->off == e->syms.off)
			return -ENOENT;
		if (syms->len / sizeof(Elf64_Sym) > ELF_SYMBOLS_MAX)
			elf__refuse(e, -EOVERFLOW);
		return 0;
	}
	return -ENOENT;
}

int elf__find_local(const struct elf *e, const char *name, struct elf_sym *ret)
{
	size_t len = strlen(name);

	for (size_t k = 1; k < e->shdrs_cnt; k++) {
		struct file_span syms = elf__section_span(e, k), strs;

		if (e->shdrs[k].sh_type != SHT_SYMTAB || e->shdrs[k].sh_entsize != sizeof(Elf64_Sym))
			continue;
		strs = elf__section_span(e, e->shdrs[k].sh_link);
		for (uint64_t i = 1; i < syms.len / sizeof(Elf64_Sym) && !elf__spend(e, 2); i++) {
			Elf64_Sym s = elf__symbol_at(e, syms, i);

			if (s.st_shndx == SHN_UNDEF || !elf__string_is(e, strs, s.st_name, name, len))
				continue;
			elf__fill_symbol(e, &s, elf__at(e, strs.off + s.st_name, len + 1), ret);
			return 0;
		}
	}
	return -ENOENT;
}

/* --- some names ------------------------------------------------------------------------------------ */

/* The place of a wanted name in the table, perhaps as the end of a longer one. */
struct hit { /* begins with at: u64_cmp */
	uint64_t at;
	size_t name;
};

struct symbol_search {
	const struct elf *elf;
	const char *const *names;
	struct hit *hits;
	size_t hits_cnt, hits_cap;
	uint8_t last[65536];		/* number + 1 of a wanted name with these last two bytes; 0: none */
	uint8_t before[WANTED_MAX + 1]; /* the previous one with the same last two bytes */
	uint16_t len[WANTED_MAX + 1];
};

static unsigned end_pair(const char *end)
{
	return (unsigned)(uint8_t)end[-2] << 8 | (uint8_t)end[-1];
}

/* A string ends at `nul`; `from`, byte `at` of the table, is where it, or something before it, begins. */
static int symbol_search__string(struct symbol_search *h, const char *from, const char *nul, uint64_t at)
{
	if (nul - from < 2)
		return 0;
	for (unsigned i = h->last[end_pair(nul)]; i; i = h->before[i]) {
		size_t len = h->len[i];

		if (len > (size_t)(nul - from) || memcmp(nul - len, h->names[i - 1], len))
			continue;
		if (h->hits_cnt == HITS_MAX)
			return -EOVERFLOW;
		if (!array_has_room(h->hits, h->hits_cnt, h->hits_cap, 64))
			return -ENOMEM;
		h->hits[h->hits_cnt++] = (struct hit){ at + (uint64_t)(nul - from) - len, i - 1 };
	}
	return 0;
}

/* Window by window, each with the end of the previous one: as much as the longest name. */
static int symbol_search__strings(struct symbol_search *h, struct file_span strs, char *buf)
{
	uint64_t at = 0;
	size_t kept = 0;
	int r = 0;

	while (!r && at + kept < strs.len) {
		uint64_t left = strs.len - at - kept;
		size_t more = left < WINDOW ? (size_t)left : WINDOW;
		const char *nul = buf + kept, *end = buf + kept + more;

		r = elf__peek(h->elf, strs.off + at + kept, buf + kept, more);
		while (!r && nul < end && (nul = memchr(nul, '\0', (size_t)(end - nul)))) {
			r = symbol_search__string(h, buf, nul, at);
			nul++;
		}
		if (!r)
			r = elf__spend(h->elf, more / 32);
		kept = kept + more < WANTED_LEN_MAX ? kept + more : WANTED_LEN_MAX;
		at += (uint64_t)(end - buf) - kept;
		memmove(buf, end - kept, kept);
	}
	return r;
}

static int symbol_search__symbols(struct symbol_search *h, struct file_span syms,
				  int (*fn)(void *ctx, size_t name, const struct elf_sym *sym), void *ctx)
{
	qsort(h->hits, h->hits_cnt, sizeof(*h->hits), u64_cmp);
	for (uint64_t i = 1; i < syms.len / sizeof(Elf64_Sym) && !elf__spend(h->elf, 2); i++) {
		Elf64_Sym s = elf__symbol_at(h->elf, syms, i);
		struct hit key = { s.st_name, 0 }, *hit;
		struct elf_sym out;
		int r;

		if (ELF64_ST_TYPE(s.st_info) != STT_FUNC || s.st_shndx == SHN_UNDEF || s.st_shndx == SHN_ABS)
			continue;
		hit = bsearch(&key, h->hits, h->hits_cnt, sizeof(key), u64_cmp);
		if (!hit)
			continue;
		elf__fill_symbol(h->elf, &s, h->names[hit->name], &out);
		r = fn(ctx, hit->name, &out);
		if (r)
			return r;
	}
	return 0;
}

static void symbol_search__init(struct symbol_search *h, const struct elf *e, const char *const *names, size_t cnt)
{
	h->elf = e;
	h->names = names;
	for (size_t i = cnt < WANTED_MAX ? cnt : WANTED_MAX; i; i--) { /* of two equal names the first one counts */
		size_t len = strlen(names[i - 1]);
		unsigned pair = end_pair(names[i - 1] + len);

		h->len[i] = (uint16_t)len;
		h->before[i] = h->last[pair];
		h->last[pair] = (uint8_t)i;
	}
}

int elf__find_locals(const struct elf *e, const char *const *names, size_t cnt,
		     int (*fn)(void *ctx, size_t name, const struct elf_sym *sym), void *ctx)
{
	struct symbol_search *h = calloc(1, sizeof(*h));
	char *buf = malloc(WINDOW + WANTED_LEN_MAX);
	struct file_span syms, strs;
	int r = h && buf ? find_table(e, &syms, &strs) : -ENOMEM;

	if (!r) {
		symbol_search__init(h, e, names, cnt);
		r = symbol_search__strings(h, strs, buf);
	}
	if (!r && h->hits_cnt)
		r = symbol_search__symbols(h, syms, fn, ctx);
	else if (r == -EOVERFLOW)
		elf__refuse(e, r);
	if (h)
		free(h->hits);
	free(h);
	free(buf);
	return r == -ENOENT || elf__failed(e, NULL) ? 0 : r;
}

/* --- all addresses ----------------------------------------------------------------------------------- */

static int each_code(const struct elf *e, struct file_span syms, struct file_span strs,
		     int (*fn)(void *ctx, const struct elf_code *code), void *ctx)
{
	for (uint64_t i = 1; i < syms.len / sizeof(Elf64_Sym) && !elf__spend(e, 4); i++) {
		Elf64_Sym s = elf__symbol_at(e, syms, i);
		int type = ELF64_ST_TYPE(s.st_info), r;

		if ((type != STT_FUNC && type != STT_GNU_IFUNC) || s.st_shndx == SHN_UNDEF || s.st_shndx == SHN_ABS ||
		    s.st_name >= strs.len || !elf__is_code(e, s.st_value))
			continue;
		r = fn(ctx, &(struct elf_code){ s.st_value, s.st_size, strs.off + s.st_name });
		if (r)
			return r;
	}
	return 0;
}

int elf__each_code(const struct elf *e, int (*fn)(void *ctx, const struct elf_code *code), void *ctx)
{
	struct file_span syms = { e->syms.off, e->syms_cnt * sizeof(Elf64_Sym) }, strs = e->strs;
	int r = each_code(e, syms, strs, fn, ctx);

	if (!r && !find_table(e, &syms, &strs))
		r = each_code(e, syms, strs, fn, ctx);
	return r;
}

const char *elf__name_at(const struct elf *e, uint64_t name_at)
{
	return elf__string(e, (struct file_span){ 0, e->len }, name_at);
}

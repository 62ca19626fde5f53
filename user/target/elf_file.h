/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* elf_file: what elf.c, elf_sym.c and elf_note.c share; private to target/. */
#ifndef MT_TARGET_ELF_FILE_H
#define MT_TARGET_ELF_FILE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

struct elf_sym;

/* A stretch of the file that is known to lie inside it. */
struct span {
	uint64_t off, len;
};

struct elf {
	const uint8_t *data;
	size_t len;
	int is_mapped;
	Elf64_Ehdr ehdr;
	Elf64_Phdr *phdrs; /* copies: the file's may be unaligned */
	size_t phdrs_cnt;
	Elf64_Shdr *shdrs;
	size_t shdrs_cnt;
	struct span syms, strs, gnu_hash, sysv_hash, versyms;
	size_t syms_cnt;
	int is_stripped;
};

static inline int elf__has(const struct elf *e, uint64_t off, uint64_t len)
{
	return off <= e->len && len <= e->len - off;
}

/* Section i's bytes in the file; empty for NOBITS and for what lies outside. */
struct span elf__section_span(const struct elf *e, size_t i);
/* 1 if section i has this name. */
int elf__section_is(const struct elf *e, size_t i, const char *name);
/* NUL-terminated string at `at` of a string table, or NULL. */
const char *elf__string(const struct elf *e, struct span table, uint64_t at);
/* elf_sym.c */
void elf__fill_symbol(const struct elf *e, const Elf64_Sym *s, const char *name, struct elf_sym *ret);
/* elf_sym.c: chooses the symbol table and its hash tables. */
void elf__find_tables(struct elf *e);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * elf_file: shared by the files elf*.c; private to target/.
 *
 * Bytes are reached only through elf__at(): it returns what is inside the file and could be read, and that stays unchanged for
 * the life of the elf.
 */
#ifndef MT_TARGET_ELF_FILE_H
#define MT_TARGET_ELF_FILE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

struct elf_copy;
struct elf_sym;

/* A stretch of the file that is known to be inside it. */
struct file_span {
	uint64_t off, len;
};

struct elf {
	size_t len;
	struct elf_copy *copy;
	Elf64_Ehdr ehdr;
	Elf64_Phdr *phdrs; /* copies: the file's may be unaligned */
	size_t phdrs_cnt;
	Elf64_Shdr *shdrs;
	size_t shdrs_cnt;
	struct file_span syms, strs, gnu_hash, sysv_hash, versyms;
	size_t syms_cnt;
	int is_stripped;
};

static inline int elf__has(const struct elf *e, uint64_t off, uint64_t len)
{
	return off <= e->len && len <= e->len - off;
}

/* elf_copy.c */
/* A copy of the file in memory, read as needed; takes ownership of fd in every case. */
int elf_copy__of_file(struct elf_copy **ret, int fd, size_t *ret_len);
/* The same interface over given bytes (borrowed). NULL: no memory. */
struct elf_copy *elf_copy__of_bytes(const void *data, size_t len);
void elf_copy__free(struct elf_copy *c);
/* NULL: outside of the file, or no longer readable: elf__failed() has the reason. */
const void *elf__at(const struct elf *e, uint64_t off, uint64_t len);
/* The same copied to buf and not kept: for what is read only once. 0 or -errno. */
int elf__peek(const struct elf *e, uint64_t off, void *buf, size_t len);
/* Charges `steps` of work (some ns each) on this file. 0, or < 0 when its share is used up: the caller gives up. */
int elf__spend(const struct elf *e, uint64_t steps);
/* From here on nothing more of this file is returned. */
void elf__refuse(const struct elf *e, int why);

/* elf.c */
/* Section i's bytes in the file; empty for NOBITS and for what is outside. */
struct file_span elf__section_span(const struct elf *e, size_t i);
/* 1 if section i has this name. */
int elf__section_is(const struct elf *e, size_t i, const char *name);
/* 1: entry i of a PT_DYNAMIC; 0: there are no more, or it cannot be read. */
int elf__dyn_at(const struct elf *e, const Elf64_Phdr *dynamic, uint64_t i, Elf64_Dyn *ret);
/* NUL-terminated string at `at` of a string table, or NULL. */
const char *elf__string(const struct elf *e, struct file_span table, uint64_t at);
/* elf_sym.c */
void elf__fill_symbol(const struct elf *e, const Elf64_Sym *s, const char *name, struct elf_sym *ret);
/* vaddr lies in an executable PT_LOAD. */
int elf__is_code(const struct elf *e, uint64_t vaddr);
/* Symbol i of a table; all zeros (undefined) if it cannot be read. */
Elf64_Sym elf__symbol_at(const struct elf *e, struct file_span syms, uint64_t i);
/* Is the name, with its NUL, at `at` of a string table? */
int elf__string_is(const struct elf *e, struct file_span table, uint64_t at, const char *name, size_t len);
/* elf_sym.c: chooses the symbol table and its hash tables. */
void elf__find_tables(struct elf *e);

#endif

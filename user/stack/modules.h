/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * modules: the files whose code processes run, each opened once; unwind rules and symbols by address.
 *
 * Files stay open as long as memtrace runs, MODULES_MAX of them, with what was read of them; frames of further files are
 * addresses, as are those of a file that was replaced in place since. Rules are kept in a table of fixed size.
 */
#ifndef MT_STACK_MODULES_H
#define MT_STACK_MODULES_H

#include <stdint.h>

#include "target/elf_cfi.h"

#define MODULES_MAX 8192

struct target;
struct code_modules;

struct code_modules *code_modules__new(void); /* NULL: no memory */
void code_modules__free(struct code_modules *m);

/* The code of a process, at the time when this was made. */
struct codemap;

/* NULL: no memory. The target's libraries as of its last refresh. */
struct codemap *codemap__new(struct code_modules *m, const struct target *t);
void codemap__free(struct codemap *c);
/* Loads the symbols of all its files now, not at first use: that takes half a second for torch's. */
void codemap__load_symbols(struct codemap *c);
int codemap__has(const struct codemap *c, uint64_t pc);
/* For struct unwind: ctx is the codemap. */
int codemap__row(void *codemap, uint64_t pc, struct cfi_row *ret);

struct code_place {
	const char *file;   /* last part of its path */
	const char *symbol; /* mangled; NULL: no symbol has this address */
	uint64_t offset;    /* in the symbol, or in the file's addresses */
};
/* 0 or -ENOENT. Strings are valid as long as the modules. */
int codemap__place(struct codemap *c, uint64_t pc, struct code_place *ret);

#endif

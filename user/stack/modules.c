/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "stack/modules.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/free.h"
#include "base/seed.h"
#include "target/elf.h"
#include "target/target.h"

#define ROWS 16384   /* a power of two */
#define SYMBOLS_BACK 16 /* symbols before an address that may contain it: aliases, nested ones */

struct symbol {
	uint64_t vaddr, name_at;
	uint32_t size;
};

struct code_module {
	uint64_t dev, ino;
	struct elf *elf; /* NULL: could not be opened, not tried again */
	char *base;
	struct symbol *symbols;
	size_t symbols_cnt, symbols_cap;
	int has_symbols; /* they were loaded */
};

struct kept_row {
	uint64_t vaddr;
	uint32_t module; /* + 1 */
	int err;
	struct cfi_row row;
};

struct code_modules {
	struct code_module *all;
	size_t cnt, cap;
	struct kept_row *rows;
};

struct code_range { /* begins with start: u64_cmp */
	uint64_t start, end, bias;
	uint32_t module;
};

struct codemap {
	struct code_modules *modules;
	struct code_range *all;
	size_t cnt;
};

struct code_modules *code_modules__new(void)
{
	struct code_modules *m = calloc(1, sizeof(*m));

	if (m)
		m->rows = calloc(ROWS, sizeof(*m->rows));
	if (m && m->rows)
		return m;
	free(m);
	return NULL;
}

void code_modules__free(struct code_modules *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->cnt; i++) {
		elf__free(m->all[i].elf);
		free(m->all[i].symbols);
		free(m->all[i].base);
	}
	free_all(m->all, m->rows, m);
}

/* --- files --------------------------------------------------------------------------------------------- */

static int code_modules__add(struct code_modules *m, const struct target *t, const struct lib *lib)
{
	struct code_module mod = { .dev = lib->dev, .ino = lib->ino };
	int fd;

	if (m->cnt >= MODULES_MAX || !array_has_room(m->all, m->cnt, m->cap, 64))
		return -ENOMEM;
	mod.base = strdup(lib->base);
	if (!mod.base)
		return -ENOMEM;
	fd = target__open_lib(t, lib, NULL);
	if (fd < 0 || elf__open(&mod.elf, fd, lib->base, NULL))
		mod.elf = NULL;
	m->all[m->cnt] = mod;
	return (int)m->cnt++;
}

static int code_modules__of(struct code_modules *m, const struct target *t, const struct lib *lib)
{
	for (size_t i = 0; i < m->cnt; i++)
		if (m->all[i].ino == lib->ino && m->all[i].dev == lib->dev)
			return (int)i;
	return code_modules__add(m, t, lib);
}

struct codemap *codemap__new(struct code_modules *m, const struct target *t)
{
	struct codemap *c = calloc(1, sizeof(*c));
	const struct lib *libs;
	size_t cnt = target__libs(t, &libs);

	if (c)
		c->all = calloc(cnt + 1, sizeof(*c->all));
	if (!c || !c->all) {
		free(c);
		return NULL;
	}
	c->modules = m;
	for (size_t i = 0; i < cnt; i++) {
		const struct lib *l = &libs[i];
		uint64_t bias;
		int mod = l->exec_end > l->exec_start ? code_modules__of(m, t, l) : -1;

		if (mod < 0 || !m->all[mod].elf || elf__load_bias(m->all[mod].elf, l->exec_start, l->exec_off, &bias))
			continue;
		c->all[c->cnt++] = (struct code_range){ l->exec_start, l->exec_end, bias, (uint32_t)mod };
	}
	qsort(c->all, c->cnt, sizeof(*c->all), u64_cmp);
	return c;
}

void codemap__free(struct codemap *c)
{
	if (!c)
		return;
	free(c->all);
	free(c);
}

static const struct code_range *codemap__find(const struct codemap *c, uint64_t pc)
{
	size_t lo = 0, hi = c->cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (c->all[mid].start <= pc)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && pc < c->all[lo - 1].end ? &c->all[lo - 1] : NULL;
}

int codemap__has(const struct codemap *c, uint64_t pc)
{
	return codemap__find(c, pc) != NULL;
}

/* --- rules -------------------------------------------------------------------------------------------- */

int codemap__row(void *codemap, uint64_t pc, struct cfi_row *ret)
{
	struct codemap *c = codemap;
	const struct code_range *at = codemap__find(c, pc);
	struct kept_row *k;
	uint64_t vaddr;

	if (!at)
		return -ENOENT;
	vaddr = pc - at->bias;
	k = &c->modules->rows[hash_two(at->module, vaddr) & (ROWS - 1)];
	if (k->vaddr != vaddr || k->module != at->module + 1) {
		*k = (struct kept_row){ .vaddr = vaddr, .module = at->module + 1 };
		k->err = elf__cfi(c->modules->all[at->module].elf, vaddr, &k->row);
	}
	if (!k->err)
		*ret = k->row;
	return k->err;
}

/* --- symbols ------------------------------------------------------------------------------------------- */

static int add_symbol(void *ctx, const struct elf_code *code)
{
	struct code_module *m = ctx;

	if (!array_has_room(m->symbols, m->symbols_cnt, m->symbols_cap, 1024))
		return -ENOMEM;
	m->symbols[m->symbols_cnt++] = (struct symbol){ code->vaddr, code->name_at,
							code->size < UINT32_MAX ? (uint32_t)code->size : UINT32_MAX };
	return 0;
}

static int by_vaddr(const void *pa, const void *pb)
{
	const struct symbol *a = pa, *b = pb;

	return cmp_up(a->vaddr, b->vaddr) ?: cmp_up(a->size, b->size);
}

static void code_module__load_symbols(struct code_module *m)
{
	if (m->has_symbols)
		return;
	m->has_symbols = 1;
	(void)elf__each_code(m->elf, add_symbol, m); /* as many as there is memory for */
	qsort(m->symbols, m->symbols_cnt, sizeof(*m->symbols), by_vaddr);
}

void codemap__load_symbols(struct codemap *c)
{
	for (size_t i = 0; i < c->cnt; i++)
		code_module__load_symbols(&c->modules->all[c->all[i].module]);
}

static const struct symbol *code_module__symbol(struct code_module *m, uint64_t vaddr)
{
	size_t lo = 0, hi;

	code_module__load_symbols(m);
	for (hi = m->symbols_cnt; lo < hi;) {
		size_t mid = lo + (hi - lo) / 2;

		if (m->symbols[mid].vaddr <= vaddr)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (size_t i = 0; i < SYMBOLS_BACK && lo > i; i++) {
		const struct symbol *s = &m->symbols[lo - 1 - i];

		/* Symbols of assembler code have no size: they reach up to the next one. */
		if (vaddr - s->vaddr < s->size || (!s->size && !i))
			return s;
	}
	return NULL;
}

int codemap__place(struct codemap *c, uint64_t pc, struct code_place *ret)
{
	const struct code_range *at = codemap__find(c, pc);
	const struct symbol *s;
	struct code_module *m;

	if (!at)
		return -ENOENT;
	m = &c->modules->all[at->module];
	s = code_module__symbol(m, pc - at->bias);
	*ret = (struct code_place){ .file = m->base, .symbol = s ? elf__name_at(m->elf, s->name_at) : NULL,
				    .offset = pc - at->bias - (s ? s->vaddr : 0) };
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Any bytes as an ELF file: every question that a plan asks, the prologue decoder on what its symbols
 * point at included. Offsets and vaddrs that come out must lead back to each other.
 */
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plan/exits.h"
#include "arch/arch.h"
#include "plan/schema.h"
#include "target/elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct ctx {
	const struct elf *e;
	unsigned left; /* bound on work: a symbol table may claim a million entries of one byte */
};

static void require(int ok)
{
	if (!ok)
		abort();
}

static int each_symbol(void *arg, const struct elf_sym *sym)
{
	static const struct prologue_need need = { ARGS_ALL, 0 };
	struct insn_classes classes = insn_classes_assumed();
	struct ctx *c = arg;
	struct prologue_site site;
	struct elf_sym again;
	const uint8_t *code;
	size_t len;

	(void)strlen(sym->name);
	if (c->left > 900)
		(void)elf__find_symbol(c->e, sym->name, &again);
	classes.of[INSN_NOP5].is_usable = c->left % 2; /* as on some kernels */
	if (sym->offset != UINT64_MAX) {
		code = elf__code(c->e, sym, &len);
		require(code && len);
		if (sym->size < 4096 &&
		    prologue_pick(code, len, sym->size, sym->offset, &need, &classes, &site) == 0) {
			require(site.skipped == 0 || site.skipped < sym->size);
			require(site.insn_class < INSN_CLASSES && classes.of[site.insn_class].is_usable);
			require(memchr(site.insn, '\0', sizeof(site.insn)) != NULL);
		}
	}
	if (c->left > 990) {
		uint64_t rets[EXITS_MAX];
		int cnt = exits_find(c->e, sym->vaddr, rets);

		require(cnt <= EXITS_MAX);
		for (int i = 0; i < cnt; i++)
			require(elf__bytes(c->e, rets[i], 15, &len) && len);
		(void)elf__find_local(c->e, sym->name, &again);
	}
	return !--c->left;
}

static int each_note(void *arg, const struct sdt_note *note)
{
	struct mt_usdt_arg args[SDT_ARGS_MAX];
	struct ctx *c = arg;
	size_t len;

	(void)(strlen(note->provider) + strlen(note->name));
	require(sdt_args_parse(note->args, args) <= SDT_ARGS_MAX);
	require(elf__bytes(c->e, note->pc_offset, 16, &len) != NULL && len);
	return !--c->left;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ctx c = { .left = 1000 };
	const uint8_t *bytes;
	struct schema_index *x;
	struct elf_sym sym;
	struct elf *e;
	uint64_t vaddr, bias;
	size_t len;

	if (elf__open_mem(&e, data, size, "fuzz", NULL) < 0)
		return 0;
	c.e = e;
	(void)elf__each_symbol(e, each_symbol, &c);
	c.left = 1000;
	(void)elf__each_sdt_note(e, each_note, &c);
	if (elf__find_symbol(e, "malloc", &sym) == 0 && sym.offset != UINT64_MAX)
		require(sym.offset < size);
	(void)elf__find_symbol(e, "", &sym);
	if (elf__section(e, ".rodata", &bytes, &len, &vaddr) == 0) {
		require(bytes >= data && len <= size && bytes + len <= data + size);
		if (schema_index__of(e, &x) == 0) {
			struct schema_text t;

			(void)schema_index__find(x, "add_Tensor", 10, &t);
			schema_index__free(x);
		}
	}
	(void)elf__load_bias(e, 0x7f0000000000, size / 2, &bias);
	require(elf__offset_of(e, size) == UINT64_MAX || elf__offset_of(e, size) < size);
	(void)(elf__is_static(e) + elf__is_stripped(e));
	elf__free(e);
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * .eh_frame_hdr has a sorted table (function, its FDE): found by bisection. An FDE names its CIE; the
 * instructions of both are run up to the address. Encodings: those of GNU ld, gold, lld and mold.
 */
#include "target/elf_cfi.h"

#include <errno.h>
#include <string.h>

#include "arch/arch.h"
#include "target/elf.h"
#include "target/elf_file.h"

#define STATES_MAX 8 /* DW_CFA_remember_state */
#define RECORD_BYTES_MAX (1u << 20)
#define HEAD_BYTES 32 /* of .eh_frame_hdr, before its table */

/* --- bytes ------------------------------------------------------------------------------------------- */

/* A piece of the file at a virtual address. `bad`: a read went beyond it. */
struct cur {
	const uint8_t *p, *end;
	uint64_t vaddr; /* of p */
	int bad;
};

static uint64_t cur__fixed(struct cur *c, size_t len)
{
	uint64_t v = 0;

	if ((size_t)(c->end - c->p) < len) {
		c->bad = 1;
		return 0;
	}
	memcpy(&v, c->p, len);
	c->p += len;
	c->vaddr += len;
	return v;
}

/* Seven bits a byte, the lowest first; *ret_bits: how many there were. */
static uint64_t cur__leb(struct cur *c, unsigned *ret_bits)
{
	uint64_t v = 0, byte;
	unsigned shift = 0;

	do {
		byte = cur__fixed(c, 1);
		if (shift < 64)
			v |= (byte & 127) << shift;
		shift += 7;
	} while (byte & 128);
	*ret_bits = shift;
	return v;
}

static uint64_t cur__uleb(struct cur *c)
{
	unsigned bits;

	return cur__leb(c, &bits);
}

static int64_t cur__sleb(struct cur *c)
{
	unsigned bits;
	uint64_t v = cur__leb(c, &bits);

	if (bits < 64 && v >> (bits - 1))
		v |= ~0ull << bits;
	return (int64_t)v;
}

enum { PE_OMIT = 0xff, PE_PCREL = 0x10, PE_DATAREL = 0x30, PE_INDIRECT = 0x80 };

/* DW_EH_PE_*; `bias`: of what is relative to data. */
static uint64_t cur__encoded(struct cur *c, uint8_t enc, uint64_t data)
{
	uint64_t base = 0, v;

	if ((enc & 0x70) == PE_PCREL)
		base = c->vaddr;
	else if ((enc & 0x70) == PE_DATAREL)
		base = data;
	else if (enc & 0x70)
		c->bad = 1;
	switch (enc & 15) {
	case 0: case 4: case 12: v = cur__fixed(c, 8); break;
	case 1: v = cur__uleb(c); break;
	case 2: v = cur__fixed(c, 2); break;
	case 3: v = cur__fixed(c, 4); break;
	case 9: v = (uint64_t)cur__sleb(c); break;
	case 10: v = (uint64_t)(int16_t)cur__fixed(c, 2); break;
	case 11: v = (uint64_t)(int32_t)cur__fixed(c, 4); break;
	default: c->bad = 1; v = 0;
	}
	return base + v;
}

/* `len` bytes from vaddr on, or as many as the file has. */
static struct cur cur_at(const struct elf *e, uint64_t vaddr, uint64_t want)
{
	uint64_t off = elf__offset_of(e, vaddr);
	size_t len;
	const uint8_t *at = off == UINT64_MAX ? NULL : elf__bytes(e, off, want, &len);

	if (!at)
		return (struct cur){ .bad = 1 };
	return (struct cur){ at, at + len, vaddr, 0 };
}

/* Length field, then a cursor over just that record; 64-bit lengths are not in use. */
static struct cur record_at(const struct elf *e, uint64_t vaddr)
{
	struct cur c = cur_at(e, vaddr, 4);
	uint64_t len = cur__fixed(&c, 4);

	if (c.bad || !len || len > RECORD_BYTES_MAX)
		return (struct cur){ .bad = 1 };
	c = cur_at(e, vaddr, 4 + len);
	(void)cur__fixed(&c, 4);
	if (len > (size_t)(c.end - c.p))
		c.bad = 1;
	return c;
}

/* --- CIE and FDE ----------------------------------------------------------------------------------- */

struct cie {
	struct cur insns;
	uint64_t code_align;
	int64_t data_align;
	uint8_t enc; /* of an FDE's addresses */
	int has_aug, is_signal;
};

static int cie_at(const struct elf *e, uint64_t vaddr, struct cie *ret)
{
	struct cur c = record_at(e, vaddr), aug;
	const char *text;
	uint64_t len;

	if (cur__fixed(&c, 4) || c.bad) /* id: 0 is a CIE */
		return -EBADMSG;
	*ret = (struct cie){ 0 };
	if (cur__fixed(&c, 1) != 1)
		return -ENOTSUP;
	text = (const char *)c.p;
	while (cur__fixed(&c, 1))
		if (c.bad)
			return -EBADMSG;
	ret->code_align = cur__uleb(&c);
	ret->data_align = cur__sleb(&c);
	if (cur__uleb(&c) != arch.dwarf_return)
		return -ENOTSUP;
	if (text[0] == 'z') {
		ret->has_aug = 1;
		len = cur__uleb(&c);
		if (c.bad || len > (size_t)(c.end - c.p))
			return -EBADMSG;
		aug = c;
		aug.end = aug.p + len;
		c.p += len;
		c.vaddr += len;
		for (const char *t = text + 1; *t; t++) {
			if (*t == 'R')
				ret->enc = (uint8_t)cur__fixed(&aug, 1);
			else if (*t == 'L')
				(void)cur__fixed(&aug, 1);
			else if (*t == 'P') {
				uint8_t enc = (uint8_t)cur__fixed(&aug, 1);

				(void)cur__encoded(&aug, enc, 0);
			} else if (*t == 'S')
				ret->is_signal = 1;
			else
				return -ENOTSUP;
		}
		if (aug.bad)
			return -EBADMSG;
	} else if (text[0]) {
		return -ENOTSUP;
	}
	ret->insns = c;
	return c.bad ? -EBADMSG : 0;
}

struct fde {
	struct cie cie;
	struct cur insns;
	uint64_t start, end;
};

static int fde_at(const struct elf *e, uint64_t vaddr, struct fde *ret)
{
	struct cur c = record_at(e, vaddr);
	uint64_t at = c.vaddr, back = cur__fixed(&c, 4), len;
	int r;

	if (c.bad || !back)
		return -EBADMSG;
	r = cie_at(e, at - back, &ret->cie);
	if (r < 0)
		return r;
	if (ret->cie.enc & PE_INDIRECT || ret->cie.enc == PE_OMIT)
		return -ENOTSUP;
	ret->start = cur__encoded(&c, ret->cie.enc, 0);
	ret->end = ret->start + cur__encoded(&c, ret->cie.enc & 15, 0);
	if (ret->cie.has_aug) {
		len = cur__uleb(&c);
		if (c.bad || len > (size_t)(c.end - c.p))
			return -EBADMSG;
		c.p += len;
		c.vaddr += len;
	}
	ret->insns = c;
	return c.bad || ret->end < ret->start ? -EBADMSG : 0;
}

/* The address of the FDE of the last function at or before vaddr. */
static int fde_find(const struct elf *e, uint64_t vaddr, uint64_t *ret)
{
	const Elf64_Phdr *hdr = NULL;
	uint64_t cnt, table, lo = 0, hi;
	struct cur c;
	uint8_t head[4];

	for (size_t i = 0; i < e->phdrs_cnt; i++)
		if (e->phdrs[i].p_type == PT_GNU_EH_FRAME)
			hdr = &e->phdrs[i];
	if (!hdr)
		return -ENOENT;
	c = cur_at(e, hdr->p_vaddr, HEAD_BYTES);
	for (unsigned i = 0; i < 4; i++)
		head[i] = (uint8_t)cur__fixed(&c, 1);
	if (c.bad || head[0] != 1 || head[3] != 0x3b) /* table: relative to the header, four bytes each */
		return -ENOTSUP;
	(void)cur__encoded(&c, head[1], hdr->p_vaddr);
	cnt = cur__encoded(&c, head[2], hdr->p_vaddr);
	table = elf__offset_of(e, c.vaddr);
	if (c.bad || !cnt || table == UINT64_MAX || cnt > (e->len - table) / 8)
		return -EBADMSG;
	for (hi = cnt; lo < hi;) {
		uint64_t mid = lo + (hi - lo) / 2;
		const void *at = elf__at(e, table + 8 * mid, 8);
		int32_t pair[2];

		if (!at)
			return -EBADMSG;
		memcpy(pair, at, sizeof(pair));
		if (hdr->p_vaddr + (uint64_t)pair[0] <= vaddr) {
			*ret = hdr->p_vaddr + (uint64_t)pair[1];
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo ? 0 : -ENOENT;
}

/* --- instructions ------------------------------------------------------------------------------------ */

static unsigned reg_of(uint64_t dwarf)
{
	return dwarf < sizeof(arch.dwarf_regs) && arch.dwarf_regs[dwarf] ? arch.dwarf_regs[dwarf] - 1u : CFI_OTHER;
}

struct run {
	struct cfi_row row, initial, kept[STATES_MAX];
	unsigned kept_cnt;
	uint64_t loc, until; /* up to and including */
	const struct cie *cie;
	int err;
};

static void run__reg(struct run *r, uint64_t dwarf, uint8_t how, int64_t off)
{
	unsigned reg = reg_of(dwarf);

	if (reg == CFI_OTHER)
		return;
	if (off < INT32_MIN || off > INT32_MAX)
		r->err = -ENOTSUP;
	r->row.regs[reg] = (struct cfi_rule){ .off = (int32_t)off, .how = how };
}

static void run__cfa(struct run *r, uint8_t kind, unsigned reg, int64_t off)
{
	if (reg == CFI_OTHER || off < INT32_MIN || off > INT32_MAX) {
		/* The row may be replaced before the address is reached. */
		reg = CFI_OTHER;
		off = 0;
	}
	r->row.cfa = kind;
	r->row.cfa_reg = (uint8_t)reg;
	r->row.cfa_off = (int32_t)off;
}

static struct cur cur__block(struct cur *c)
{
	uint64_t len = cur__uleb(c);
	struct cur b = *c;

	if (c->bad || len > (size_t)(c->end - c->p)) {
		c->bad = 1;
		return *c;
	}
	b.end = b.p + len;
	c->p += len;
	c->vaddr += len;
	return b;
}

enum { OP_DEREF = 0x06, OP_BREG0 = 0x70 };

static void run__cfa_expression(struct run *r, struct cur b)
{
	size_t len = (size_t)(b.end - b.p);
	unsigned reg;
	int64_t off;

	if (len && len == arch.plt_cfa_len && !memcmp(b.p, arch.plt_cfa, len)) {
		run__cfa(r, CFI_CFA_PLT, MT_STACK_SP, 8);
		return;
	}
	reg = len ? reg_of(b.p[0] - (unsigned)OP_BREG0) : CFI_OTHER;
	(void)cur__fixed(&b, 1);
	off = cur__sleb(&b);
	if (cur__fixed(&b, 1) != OP_DEREF || b.bad || b.p != b.end)
		reg = CFI_OTHER;
	run__cfa(r, CFI_CFA_DEREF, reg, off);
}

/* A register saved at another register's place. */
static void run__expression(struct run *r, uint64_t dwarf, struct cur b)
{
	unsigned reg = reg_of(dwarf), base = b.p < b.end ? reg_of(b.p[0] - (unsigned)OP_BREG0) : CFI_OTHER;
	int64_t off;

	if (reg == CFI_OTHER)
		return;
	(void)cur__fixed(&b, 1);
	off = cur__sleb(&b);
	if (base == CFI_OTHER || b.bad || b.p != b.end || off < INT32_MIN || off > INT32_MAX)
		r->row.regs[reg] = (struct cfi_rule){ .how = CFI_UNDEFINED };
	else
		r->row.regs[reg] = (struct cfi_rule){ .how = CFI_AT_REG, .reg = (uint8_t)base, .off = (int32_t)off };
}

static void run__remember(struct run *r)
{
	if (r->kept_cnt == STATES_MAX)
		r->err = -ENOTSUP;
	else
		r->kept[r->kept_cnt++] = r->row;
}

static void run__restore(struct run *r)
{
	if (!r->kept_cnt)
		r->err = -EBADMSG;
	else
		r->row = r->kept[--r->kept_cnt];
}

static void run__restore_reg(struct run *r, uint64_t dwarf)
{
	unsigned reg = reg_of(dwarf);

	if (reg != CFI_OTHER)
		r->row.regs[reg] = r->initial.regs[reg];
}

/* Instructions with an opcode of their own. */
static void run__extended(struct run *r, struct cur *c, uint8_t op)
{
	int64_t align = r->cie->data_align;
	uint64_t reg;

	switch (op) {
	case 0x00: break; /* nop */
	case 0x01: r->loc = cur__encoded(c, r->cie->enc, 0); break;
	case 0x02: r->loc += cur__fixed(c, 1) * r->cie->code_align; break;
	case 0x03: r->loc += cur__fixed(c, 2) * r->cie->code_align; break;
	case 0x04: r->loc += cur__fixed(c, 4) * r->cie->code_align; break;
	case 0x05: reg = cur__uleb(c); run__reg(r, reg, CFI_AT_CFA, (int64_t)(cur__uleb(c) * (uint64_t)align)); break;
	case 0x06: run__restore_reg(r, cur__uleb(c)); break;
	case 0x07: run__reg(r, cur__uleb(c), CFI_UNDEFINED, 0); break;
	case 0x08: run__reg(r, cur__uleb(c), CFI_SAME, 0); break;
	case 0x09: reg = cur__uleb(c); (void)cur__uleb(c); run__reg(r, reg, CFI_UNDEFINED, 0); break;
	case 0x0a: run__remember(r); break;
	case 0x0b: run__restore(r); break;
	case 0x0c: reg = cur__uleb(c); run__cfa(r, CFI_CFA_REG, reg_of(reg), (int64_t)cur__uleb(c)); break;
	case 0x0d: run__cfa(r, CFI_CFA_REG, reg_of(cur__uleb(c)), r->row.cfa_off); break;
	case 0x0e: run__cfa(r, CFI_CFA_REG, r->row.cfa_reg, (int64_t)cur__uleb(c)); break;
	case 0x0f: run__cfa_expression(r, cur__block(c)); break;
	case 0x10: reg = cur__uleb(c); run__expression(r, reg, cur__block(c)); break;
	case 0x11: reg = cur__uleb(c); run__reg(r, reg, CFI_AT_CFA, (int64_t)((uint64_t)cur__sleb(c) * (uint64_t)align)); break;
	case 0x12:
		reg = cur__uleb(c);
		run__cfa(r, CFI_CFA_REG, reg_of(reg), (int64_t)((uint64_t)cur__sleb(c) * (uint64_t)align));
		break;
	case 0x13: run__cfa(r, CFI_CFA_REG, r->row.cfa_reg, (int64_t)((uint64_t)cur__sleb(c) * (uint64_t)align)); break;
	case 0x14: case 0x15: reg = cur__uleb(c); (void)cur__uleb(c); run__reg(r, reg, CFI_UNDEFINED, 0); break;
	case 0x16: reg = cur__uleb(c); (void)cur__block(c); run__reg(r, reg, CFI_UNDEFINED, 0); break;
	case 0x2e: (void)cur__uleb(c); break; /* GNU_args_size */
	default: r->err = -ENOTSUP;
	}
}

static void run__all(struct run *r, struct cur c)
{
	while (c.p < c.end && !r->err) {
		uint8_t op = (uint8_t)cur__fixed(&c, 1);
		struct cfi_row before = r->row;

		if (op >> 6 == 1)
			r->loc += (op & 63) * r->cie->code_align;
		else if (op >> 6 == 2)
			run__reg(r, op & 63, CFI_AT_CFA, (int64_t)(cur__uleb(&c) * (uint64_t)r->cie->data_align));
		else if (op >> 6 == 3)
			run__restore_reg(r, op & 63);
		else
			run__extended(r, &c, op);
		if (c.bad)
			r->err = -EBADMSG;
		if (r->loc > r->until) {
			r->row = before;
			return;
		}
	}
}

int elf__cfi(const struct elf *e, uint64_t vaddr, struct cfi_row *ret)
{
	struct run run = { .until = vaddr };
	uint64_t at;
	struct fde f;
	int r = fde_find(e, vaddr, &at);

	if (!r)
		r = fde_at(e, at, &f);
	if (r < 0)
		return r;
	if (vaddr < f.start || vaddr >= f.end)
		return -ENOENT;
	run.cie = &f.cie;
	run.row.cfa_reg = CFI_OTHER;
	run__all(&run, f.cie.insns);
	run.initial = run.row;
	run.loc = f.start;
	run__all(&run, f.insns);
	if (run.err)
		return run.err;
	if (run.row.cfa_reg == CFI_OTHER)
		return -ENOTSUP;
	*ret = run.row;
	ret->is_signal = (uint8_t)f.cie.is_signal;
	return 0;
}

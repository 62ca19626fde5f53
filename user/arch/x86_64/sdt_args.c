/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * ARG   = [ SIZE '@' ] OPERAND          SIZE: 1 2 4 8, negative when signed; "4f" = floating point
 * OPERAND = '$' NUMBER | '%' REG | [NUMBER] '(' '%' REG [ ',' '%' REG [ ',' SCALE ] ] ')'
 *
 * Separated by blanks. Compilers also write constants as sums ("8@16+4(%rax)"); sums and differences
 * of numbers are added up. Anything with a symbol in it is recognised, skipped and left out.
 */
#include "arch/arch.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

struct parser {
	const char *at, *end; /* one argument */
};

static int take(struct parser *p, char c)
{
	if (p->at == p->end || *p->at != c)
		return 0;
	p->at++;
	return 1;
}

/* Decimal or 0x hexadecimal, with sign; wraps like the assembler's 64-bit arithmetic. */
static int take_number(struct parser *p, __s64 *ret)
{
	const char *from = p->at;
	int negative = 0, digits = 0, base = 10;
	__u64 v = 0;

	if (p->at < p->end && (*p->at == '-' || *p->at == '+'))
		negative = *p->at++ == '-';
	if (p->end - p->at > 2 && p->at[0] == '0' && (p->at[1] == 'x' || p->at[1] == 'X')) {
		base = 16;
		p->at += 2;
	}
	for (; p->at < p->end; p->at++, digits++) {
		int c = tolower((unsigned char)*p->at);
		int d = isdigit(c) ? c - '0' : base == 16 && c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;

		if (d < 0)
			break;
		v = v * (__u64)base + (__u64)d;
	}
	if (!digits) {
		p->at = from;
		return 0;
	}
	*ret = (__s64)(negative ? 0 - v : v);
	return 1;
}

static __s64 take_sum(struct parser *p)
{
	__u64 sum = 0;
	__s64 v;

	while (take_number(p, &v)) {
		sum += (__u64)v;
		if (p->at == p->end || (*p->at != '+' && *p->at != '-'))
			break;
	}
	return (__s64)sum;
}

/* --- registers ------------------------------------------------------------------------------------- */

static const struct {
	char name[6];
	__u8 reg, bytes, shift;
} regs[] = {
#define OLD(x, R)                                                                                          \
	{ "r" #x "x", R, 8, 0 }, { "e" #x "x", R, 4, 0 }, { #x "x", R, 2, 0 }, { #x "l", R, 1, 0 },        \
		{ #x "h", R, 1, 8 }
#define IDX(x, R) { "r" #x, R, 8, 0 }, { "e" #x, R, 4, 0 }, { #x, R, 2, 0 }, { #x "l", R, 1, 0 }
#define NEW(n)                                                                                             \
	{ "r" #n, MT_REG_R##n, 8, 0 }, { "r" #n "d", MT_REG_R##n, 4, 0 },                                  \
		{ "r" #n "w", MT_REG_R##n, 2, 0 }, { "r" #n "b", MT_REG_R##n, 1, 0 }
	OLD(a, MT_REG_RAX),
	OLD(b, MT_REG_RBX),
	OLD(c, MT_REG_RCX),
	OLD(d, MT_REG_RDX),
	IDX(si, MT_REG_RSI),
	IDX(di, MT_REG_RDI),
	IDX(bp, MT_REG_RBP),
	IDX(sp, MT_REG_RSP),
	NEW(8),
	NEW(9),
	NEW(10),
	NEW(11),
	NEW(12),
	NEW(13),
	NEW(14),
	NEW(15),
#undef OLD
#undef IDX
#undef NEW
};

/* Index into regs, or -1. */
static int take_reg(struct parser *p)
{
	const char *from = p->at;
	size_t len;

	if (!take(p, '%'))
		return -1;
	while (p->at < p->end && isalnum((unsigned char)*p->at))
		p->at++;
	len = (size_t)(p->at - from - 1);
	for (size_t i = 0; i < sizeof(regs) / sizeof(*regs); i++)
		if (strlen(regs[i].name) == len && !memcmp(regs[i].name, from + 1, len))
			return (int)i;
	p->at = from;
	return -1;
}

/* --- one argument ---------------------------------------------------------------------------------- */

/* "8@", "-4@", "4f@". 0 if it is malformed; without a size it is the whole register or word. */
static int take_size(struct parser *p, struct mt_usdt_arg *arg, int *ret_float)
{
	const char *at_sign = memchr(p->at, '@', (size_t)(p->end - p->at));
	__s64 size;

	arg->bytes = 8;
	if (!at_sign)
		return 1;
	if (!take_number(p, &size))
		return 0;
	*ret_float = take(p, 'f');
	if (!take(p, '@'))
		return 0;
	arg->is_signed = size < 0;
	if (size < 0 && size >= -8)
		size = -size;
	if (size != 1 && size != 2 && size != 4 && size != 8) {
		*ret_float = 1; /* a vector: not readable, like a float */
		size = 8;
	}
	arg->bytes = (__u8)size;
	return 1;
}

/* (%base,%index,scale) after the displacement. */
static int take_memory(struct parser *p, struct mt_usdt_arg *arg)
{
	int base, index = -1;
	__s64 scale = 1;

	if (!take(p, '('))
		return 0;
	base = take_reg(p);
	if (base < 0 || regs[base].bytes != 8)
		return 0;
	if (take(p, ',')) {
		index = take_reg(p);
		if (index < 0 || regs[index].bytes != 8)
			return 0;
		if (take(p, ',') &&
		    (!take_number(p, &scale) || (scale != 1 && scale != 2 && scale != 4 && scale != 8)))
			return 0;
	}
	if (!take(p, ')'))
		return 0;
	arg->form = MT_ARG_MEM;
	arg->reg = regs[base].reg;
	arg->index = index < 0 ? MT_REG_NONE : regs[index].reg;
	arg->scale = (__u8)scale;
	return 1;
}

static int take_operand(struct parser *p, struct mt_usdt_arg *arg)
{
	int reg;

	if (take(p, '$')) {
		arg->form = MT_ARG_CONST;
		return take_number(p, &arg->value);
	}
	reg = take_reg(p);
	if (reg >= 0) {
		arg->form = MT_ARG_REG;
		arg->reg = regs[reg].reg;
		arg->shift = regs[reg].shift;
		if (regs[reg].bytes < arg->bytes)
			arg->bytes = regs[reg].bytes; /* the rest of the word does not belong to this argument */
		return 1;
	}
	arg->value = take_sum(p);
	return take_memory(p, arg);
}

static const struct mt_usdt_arg no_arg = { .form = MT_ARG_NONE, .reg = MT_REG_NONE, .index = MT_REG_NONE };

static int parse_arg(struct parser p, struct mt_usdt_arg *ret)
{
	struct mt_usdt_arg arg = no_arg;
	int is_float = 0;

	if (!take_size(&p, &arg, &is_float) || p.at == p.end)
		return -EINVAL;
	arg.scale = 1;
	if (is_float || !take_operand(&p, &arg) || p.at != p.end)
		arg = no_arg;
	*ret = arg;
	return 0;
}

int sdt_args_parse(const char *text, struct mt_usdt_arg args[SDT_ARGS_MAX])
{
	int cnt = 0;

	while (*text) {
		struct parser p = { .at = text };
		int depth = 0;

		if (*text == ' ') {
			text++;
			continue;
		}
		/* a blank inside parentheses belongs to the operand: "8@(%rax, %rbx)" */
		for (p.end = text; *p.end && (*p.end != ' ' || depth > 0); p.end++)
			depth += *p.end == '(' ? 1 : *p.end == ')' ? -1 : 0;
		if (cnt == SDT_ARGS_MAX || parse_arg(p, &args[cnt]) < 0)
			return -EINVAL;
		cnt++;
		text = p.end;
	}
	return cnt;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Operators and backward nodes: thousands of symbols that are found by pattern, not by name.
 *
 * Operators are at::_ops::X::call; their names for people come from the schema text (schema.c). Those
 * that can neither allocate, nor write, nor make a view get no probe: size, stride, is_* … are called
 * often, and each hit costs the job most of a microsecond. Those that only make views are a source of
 * their own, for the same reason: in the 64-wide MLP they are 206 of 904 hits a step, and no byte is
 * born or dies in them. Without a schema an operator is kept, named X.
 *
 * Backward nodes are told apart by the vtable of the node object, an exported symbol; named as
 * torch.profiler names them: generated ones without namespace, the others with it.
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/builder.h"
#include "plan/schema.h"

#define OP_PREFIX     "_ZN2at4_ops"
#define VTABLE_PREFIX "_ZTVN5torch8autograd"
#define GENERATED     "torch::autograd::generated::"

struct ops {
	struct builder *b;
	struct schema_index *schemas;
	uint64_t bias;
	int has_bias;
	uint32_t seen; /* operators, left out or not */
};

/* --- names ----------------------------------------------------------------------------------------- */

/* <length><identifier> of the Itanium C++ ABI at *at; moves behind it. 0 = none. */
static size_t take_identifier(const char **at, const char **ret)
{
	size_t n = 0;
	const char *p = *at;

	while (*p >= '0' && *p <= '9' && n < 10000)
		n = n * 10 + (size_t)(*p++ - '0');
	if (!n || strnlen(p, n) < n)
		return 0;
	*ret = p;
	*at = p + n;
	return n;
}

/* "N5torch8autograd9generated14AddmmBackward0E" → "torch::autograd::generated::AddmmBackward0". */
static int demangle_nested(const char *mangled, char *buf, size_t size)
{
	const char *at = mangled, *part;
	size_t n, used = 0;

	if (*at++ != 'N')
		return -EINVAL;
	while (*at != 'E') {
		n = take_identifier(&at, &part);
		if (!n || used + n + 3 > size)
			return -EINVAL; /* templates, operators …: not of this simple form */
		if (used) {
			memcpy(buf + used, "::", 2);
			used += 2;
		}
		memcpy(buf + used, part, n);
		used += n;
	}
	if (!used || at[1])
		return -EINVAL;
	buf[used] = '\0';
	return 0;
}

/* --- operators --------------------------------------------------------------------------------------- */

/* "aten::add" in buf, and what the operator does to memory. */
static enum schema_effect name_op(const struct ops *o, const char *op, size_t len, char *buf, size_t size)
{
	struct schema s;
	struct text text;

	if (o->schemas && schema_index__find(o->schemas, op, len, &text) == 0 &&
	    schema_parse(text.at, text.len, &s) == 0) {
		snprintf(buf, size, "aten::%.*s", (int)s.name.len, s.name.at);
		return schema__effect(&s);
	}
	snprintf(buf, size, "aten::%.*s", (int)len, op);
	return SCHEMA_TOUCHES;
}

static int add_op(struct ops *o, const struct elf_sym *sym, const char *op, size_t op_len)
{
	static const struct prologue_need need = { ARG_REGS_ALL, 1 };
	struct builder *b = o->b;
	struct site site = { .prog = MT_PROG_OP, .source = SRC_OPS };
	struct prologue_site at;
	enum schema_effect effect;
	const uint8_t *code;
	char name[256];
	size_t len;

	o->seen++;
	effect = name_op(o, op, op_len, name, sizeof(name));
	if (effect == SCHEMA_VIEWS)
		site.source = SRC_VIEWS;
	if (effect == SCHEMA_NONE || !(b->sources & site.source)) {
		b->plan->ops_left_out += effect == SCHEMA_NONE;
		b->plan->views_left_out += effect == SCHEMA_VIEWS;
		return 0;
	}
	code = elf__bytes(b->elf, sym->offset, &len);
	if (!code || prologue_pick(code, len, sym->size, sym->offset, &need, b->has_nop5, &at) < 0)
		return 0;
	site.offset = sym->offset + at.skipped;
	site.cookie = names__add(b->names, name).v;
	site.insn_class = (uint8_t)at.insn_class;
	site.skipped = (uint8_t)at.skipped;
	site.cost_ns = (uint16_t)insn_class_cost_ns(at.insn_class, 0);
	memcpy(site.insn, at.insn, sizeof(site.insn));
	if (site.source == SRC_VIEWS)
		b->views_found++;
	else
		b->ops_found++;
	return builder__add_site(b, &site, name);
}

/* --- vtables -------------------------------------------------------------------------------------------
 */

static int add_vtable(struct ops *o, const struct elf_sym *sym)
{
	struct builder *b = o->b;
	struct plan *plan = b->plan;
	char buf[256];
	const char *name = buf;

	if (!o->has_bias || demangle_nested(sym->name + 4, buf, sizeof(buf)) < 0)
		return 0;
	if (!strncmp(buf, GENERATED, strlen(GENERATED)))
		name = buf + strlen(GENERATED);
	if (plan->vtables_cnt == b->vtables_cap) {
		size_t cap = b->vtables_cap ? b->vtables_cap * 2 : 256;
		struct vtable *p = cap <= PLAN_SITES_MAX ? realloc(plan->vtables, cap * sizeof(*p)) : NULL;

		if (!p)
			return -ENOMEM;
		plan->vtables = p;
		b->vtables_cap = cap;
	}
	/* objects point behind the two words that open a vtable: offset to top, type information */
	plan->vtables[plan->vtables_cnt++] =
		(struct vtable){ o->bias + sym->vaddr + 16, names__add(b->names, name) };
	return 0;
}

/* --- both ------------------------------------------------------------------------------------------------
 */

static int each_symbol(void *ctx, const struct elf_sym *sym)
{
	struct ops *o = ctx;
	const char *at = sym->name, *op;
	size_t len;

	if ((o->b->sources & (SRC_OPS | SRC_VIEWS)) && sym->type == STT_FUNC && sym->is_exec &&
	    sym->offset != UINT64_MAX && !strncmp(at, OP_PREFIX, strlen(OP_PREFIX))) {
		at += strlen(OP_PREFIX);
		len = take_identifier(&at, &op);
		return len && !strncmp(at, "4callE", 6) ? add_op(o, sym, op, len) : 0;
	}
	if ((o->b->sources & SRC_REGIONS) && sym->type == STT_OBJECT &&
	    !strncmp(at, VTABLE_PREFIX, strlen(VTABLE_PREFIX)))
		return add_vtable(o, sym);
	return 0;
}

/* Going through all symbols is for libraries that can have them. */
static int is_torch(const struct builder *b)
{
	struct elf_sym sym;

	return strstr(b->lib->base, "torch") ||
	       elf__find_symbol(b->elf, "_ZN2at14RecordFunction3endEv", &sym) == 0;
}

int ops__plan_lib(struct builder *b)
{
	struct ops o = { .b = b };
	const uint8_t *rodata;
	uint64_t vaddr;
	size_t len;
	int r;

	if (!is_torch(b))
		return 0;
	if ((b->sources & (SRC_OPS | SRC_VIEWS)) &&
	    elf__section(b->elf, ".rodata", &rodata, &len, &vaddr) == 0) {
		o.schemas = schema_index__new(rodata, len);
		if (!o.schemas)
			return -ENOMEM;
	}
	o.has_bias = elf__load_bias(b->elf, b->lib->exec_start, b->lib->exec_off, &o.bias) == 0;
	r = elf__each_symbol(b->elf, each_symbol, &o);
	if (r == 0 && o.seen && (!o.schemas || !schema_index__cnt(o.schemas)))
		builder__note(
			b,
			"%s: no operator schemas found: operators have their C++ names, none is left out",
			b->lib->base);
	schema_index__free(o.schemas);
	return r;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Operators and backward nodes: thousands of symbols that are found by pattern, not by name.
 *
 * Operators are at::_ops::X::call; their names for people come from the schema text (schema.c). Those that can neither
 * allocate, nor write, nor make a view get no probe: size, stride, is_* … are called often, and each hit costs the job most of
 * a microsecond. Those that only make views are a source of their own, for the same reason: in the 64-wide MLP they are 206 of
 * 904 hits a step, and no byte is allocated or freed in them. Without a schema an operator is kept, named X. The source `flow`
 * reads arguments (callconv.c) and leaves out operators without information for it.
 *
 * Backward nodes are distinguished by the vtable of the node object, an exported symbol; named as torch.profiler names them:
 * generated ones without namespace, the others with it.
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/builder.h"
#include "plan/callconv.h"
#include "plan/schema.h"

#define OP_PREFIX     "_ZN2at4_ops"
#define VTABLE_PREFIX "_ZTVN5torch8autograd"
#define GENERATED     "torch::autograd::generated::"
#define SRC_ANY_OPS   (SRC_OPS | SRC_VIEWS | SRC_FLOW)

struct ops {
	struct builder *b;
	struct schema_index *schemas;
	uint32_t seen; /* operators, left out or not */
	uint32_t guards; /* … those with a known guard, which shows whether they were called */
};

/* --- names ----------------------------------------------------------------------------------------- */

/* <length><identifier> of the Itanium C++ ABI at *at; moves past it. 0 = none. */
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

/* The operator's schema, or NULL, and its name for people, "aten::add". */
static const struct schema *name_op(const struct ops *o, const char *op, size_t len, struct schema *s,
				    char *buf, size_t size)
{
	struct schema_text text;

	if (o->schemas && schema_index__find(o->schemas, op, len, &text) == 0 &&
	    schema_parse(text.at, text.len, s) == 0) {
		snprintf(buf, size, "aten::%.*s", (int)s->name.len, s->name.at);
		return s;
	}
	snprintf(buf, size, "aten::%.*s", (int)len, op);
	return NULL;
}

/* Address, in the file, of the byte that shows whether the operator was ever called; 0: unknown, so its probe stays. */
static uint64_t find_guard(struct ops *o, const struct elf_sym *sym)
{
	size_t len;
	const uint8_t *code = elf__code(o->b->elf, sym, &len);
	uint64_t vaddr;

	if (!o->b->has_guards || !code ||
	    guard_find(code, sym->size < len ? (size_t)sym->size : len, sym->vaddr, &vaddr) < 0)
		return 0;
	o->guards++;
	return vaddr;
}

/* The first call of an operator looks up its schema: this probe shows it when the operator's own was removed. */
static int add_lookup(struct ops *o)
{
	static const struct prologue_need need = { 0, 0 };
	struct builder *b = o->b;
	struct site site = { .prog = MT_PROG_LOOKUP, .source = b->sources & SRC_FLOW ? SRC_FLOW : SRC_OPS };
	struct elf_sym sym;

	if (elf__find_symbol(b->elf, "_ZN3c1010Dispatcher17findSchemaOrThrowEPKcS2_", &sym) < 0 || !sym.is_exec ||
	    builder__place(b, &sym, "c10::Dispatcher::findSchemaOrThrow", &need, &site) < 0)
		return 0; /* then new operators are only found by the regular looks */
	return builder__add_site(b, &site, "c10::Dispatcher::findSchemaOrThrow");
}

static int is_named(const struct schema *s, const char *name)
{
	return s->name.len == strlen(name) && !memcmp(s->name.at, name, s->name.len);
}

/*
 * Operators without information for the data flow: those that only make a view, pass their tensor on to another probed
 * operator, or return it as it is (`to` calls _to_copy if there is anything to do): no byte is allocated, written or read in
 * them. And empty_strided, with which operators like _to_copy get the memory of their result: it has no tensor, and the
 * allocation can be theirs just as well. Together 248 of 527 operators a step in the 64-wide MLP. detach stays:
 * AccumulateGrad's own shows which tensor is the gradient. A backward node that only looked at its tensor is known by its class
 * (OPC_VIEW_NODE).
 */
static int tells_nothing(const struct schema *s, enum schema_effect effect)
{
	static const char *const names[] = { "to", "resolve_conj", "resolve_neg", "empty_strided" };

	if (effect == SCHEMA_VIEWS && !is_named(s, "detach"))
		return 1;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (is_named(s, names[i]))
			return 1;
	return 0;
}

/* The source that an operator of this effect belongs to; 0: it was not requested. */
static enum source source_of(struct builder *b, const struct schema *s, enum schema_effect effect)
{
	enum source source = b->sources & SRC_FLOW ? SRC_FLOW : effect == SCHEMA_VIEWS ? SRC_VIEWS : SRC_OPS;
	int is_extra = source == SRC_FLOW && s && tells_nothing(s, effect) && !(b->sources & SRC_VIEWS);

	if (effect == SCHEMA_NONE)
		b->plan->ops_left_out++;
	else if ((b->sources & source) && !is_extra)
		return source;
	else if (effect == SCHEMA_VIEWS || is_extra)
		b->plan->views_left_out++;
	return 0;
}

static void count_found(struct builder *b, enum source source)
{
	if (source == SRC_FLOW)
		b->flow_found++;
	else if (source == SRC_VIEWS)
		b->views_found++;
	else
		b->ops_found++;
}

/* `p.data = x`: called before a tensor takes another one's storage, the only sign of that. */
static int is_takeover(const struct schema *s)
{
	return is_named(s, "_has_compatible_shallow_copy_type");
}

/* Read whatever an enclosing operator was given: these show which tensor is what. `views` asks for more detail. */
static int is_always_read(const struct builder *b, const struct schema *s)
{
	return !s || is_takeover(s) || is_named(s, "detach") || (b->sources & SRC_VIEWS);
}

static enum schema_effect effect_of(const struct builder *b, const struct schema *s)
{
	return !s || ((b->sources & SRC_FLOW) && is_takeover(s)) ? SCHEMA_TOUCHES : schema__effect(s);
}

static int add_op(struct ops *o, const struct elf_sym *sym, const char *op, size_t op_len)
{
	static const struct prologue_need need = { ARGS_ALL, 1 };
	struct builder *b = o->b;
	struct site site = { .prog = MT_PROG_OP };
	const struct schema *schema;
	struct schema parsed;
	char name[256];

	o->seen++;
	schema = name_op(o, op, op_len, &parsed, name, sizeof(name));
	site.source = source_of(b, schema, effect_of(b, schema));
	if (!site.source)
		return 0;
	b->flow_wanted += site.source == SRC_FLOW;
	if (builder__place(b, sym, name, &need, &site) < 0)
		return 0;
	site.guard = find_guard(o, sym);
	site.cookie = names__add(b->names, name).v;
	if (site.source == SRC_FLOW) {
		int spec = flow__spec(b, sym->name, schema, is_always_read(b, schema));

		if (spec < 0)
			return spec;
		site.prog = MT_PROG_FLOW_OP;
		site.cookie |= (uint64_t)spec << 32;
	}
	count_found(b, site.source);
	return builder__add_site(b, &site, name);
}

/* A backward node's own apply: the engine's arguments are the tensors of its frame. */
static int add_apply(struct ops *o, const struct elf_sym *sym)
{
	static const struct prologue_need need = {
		ARG_BIT(0) | ARG_BEHIND_RESULT(0) | ARG_BEHIND_RESULT(1), 1
	};
	static const char scope[] = "_ZN5torch8autograd";
	struct builder *b = o->b;
	struct site site = { .prog = MT_PROG_FLOW_APPLY, .source = SRC_FLOW };
	char nested[512], buf[256], *end;
	const char *name = buf;

	if (strncmp(sym->name, scope, sizeof(scope) - 1) || !callconv__is_node_apply(sym->name))
		return 0;
	/* _ZN5torch8autograd<class>5applyE… → N5torch8autograd<class>E */
	end = strstr(sym->name, "5applyEOSt6vector");
	if (!end || (size_t)(end - sym->name) + 2 > sizeof(nested))
		return 0;
	snprintf(nested, sizeof(nested), "%.*sE", (int)(end - sym->name - 2), sym->name + 2);
	if (demangle_nested(nested, buf, sizeof(buf)) < 0)
		name = sym->name; /* of a template */
	else if (!strncmp(buf, GENERATED, strlen(GENERATED)))
		name = buf + strlen(GENERATED);
	if (!strcmp(name, "torch::autograd::AccumulateGrad"))
		site.prog = MT_PROG_FLOW_ACC;
	b->flow_wanted++;
	if (builder__place(b, sym, name, &need, &site) < 0)
		return 0;
	b->flow_found++;
	return builder__add_site(b, &site, name);
}

/* --- vtables -------------------------------------------------------------------------------------------
 */

static int add_vtable(struct ops *o, const struct elf_sym *sym)
{
	struct builder *b = o->b;
	char buf[256];
	const char *name = buf;

	if (demangle_nested(sym->name + 4, buf, sizeof(buf)) < 0)
		return 0;
	if (!strncmp(buf, GENERATED, strlen(GENERATED)))
		name = buf + strlen(GENERATED);
	/* objects point past the first two words of a vtable: offset to top, type information */
	return builder__add_vtable(b, sym->vaddr + 16, name);
}

/* --- both ------------------------------------------------------------------------------------------------
 */

static int each_symbol(void *ctx, const struct elf_sym *sym)
{
	struct ops *o = ctx;
	const char *at = sym->name, *op;
	size_t len;

	if ((o->b->sources & SRC_ANY_OPS) && sym->type == STT_FUNC && sym->is_exec &&
	    sym->offset != UINT64_MAX && !strncmp(at, OP_PREFIX, strlen(OP_PREFIX))) {
		at += strlen(OP_PREFIX);
		len = take_identifier(&at, &op);
		return len && !strncmp(at, "4callE", 6) ? add_op(o, sym, op, len) : 0;
	}
	if ((o->b->sources & SRC_FLOW) && sym->type == STT_FUNC && sym->is_exec && sym->offset != UINT64_MAX)
		return add_apply(o, sym);
	if ((o->b->sources & SRC_REGIONS) && sym->type == STT_OBJECT &&
	    !strncmp(at, VTABLE_PREFIX, strlen(VTABLE_PREFIX)))
		return add_vtable(o, sym);
	return 0;
}

/* Going through all symbols is only for libraries that can have them. */
static int is_torch(const struct builder *b)
{
	struct elf_sym sym;

	return strstr(b->lib->base, "torch") ||
	       elf__find_symbol(b->elf, "_ZN2at14RecordFunction3endEv", &sym) == 0;
}

int ops__plan_lib(struct builder *b)
{
	struct ops o = { .b = b };
	int r;

	if (!is_torch(b))
		return 0;
	if ((b->sources & SRC_ANY_OPS) && schema_index__of(b->elf, &o.schemas) == -ENOMEM)
		return -ENOMEM;
	r = elf__each_symbol(b->elf, each_symbol, &o);
	if (r == 0 && o.guards)
		r = add_lookup(&o);
	if (r == 0 && o.seen && (!o.schemas || !schema_index__cnt(o.schemas)))
		builder__note(
			b,
			"%s: no operator schemas found: operators have their C++ names, none is left out",
			b->lib->base);
	schema_index__free(o.schemas);
	return r;
}

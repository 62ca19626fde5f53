/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Calling conventions from mangled names.
 *
 * A parser of the Itanium mangling, of the part that operators use: names, templates, references,
 * const, literals and substitutions. It writes each type down as text ("std::optional<at::Tensor>
 * const&") and a table says of each text how a value of it is passed: that is a property of the type's
 * definition, which the name does not tell (c10::Scalar has a destructor and so goes by a hidden
 * reference; c10::Device has none and goes in a register). A type that is not in the table refuses
 * the whole operator: a guess about one parameter misplaces all behind it.
 *
 * Then registers are dealt out as the processor's ABI has it (arch/calls.h).
 *
 * The type of the result is not in a function's mangled name; the schema has it. Not understood, as no
 * operator has it: function types, arrays, member pointers, operators, constructors, lambdas, packs.
 */
#include "plan/callconv.h"

#include <errno.h>
#include <string.h>

#include "arch/arch.h"
#include "memtrace/arg_names.h"

#define SUBS_MAX    96
#define ARENA_BYTES 8192
#define TYPE_BYTES  512 /* of one type's text: substitutions double cheaply */
#define DEPTH_MAX   24
#define STACK_WORDS_MAX 200 /* where is 8 bits, MT_ARG_STACK + word */

/* --- types as text --------------------------------------------------------------------------------- */

struct parser {
	const char *at; /* NUL-terminated */
	const char *subs[SUBS_MAX];
	size_t subs_cnt;
	size_t used;
	int depth;
	char arena[ARENA_BYTES];
};

/* a, sep and b, put together in the arena; NULL when one is, or there is no room. */
static const char *join(struct parser *p, const char *a, const char *sep, const char *b, size_t b_len)
{
	size_t a_len, sep_len = strlen(sep), len;
	char *text = p->arena + p->used;

	if (!a || !b)
		return NULL;
	a_len = strlen(a);
	len = a_len + sep_len + b_len;
	if (len >= TYPE_BYTES || len >= ARENA_BYTES - p->used)
		return NULL;
	memcpy(text, a, a_len);
	memcpy(text + a_len, sep, sep_len);
	memcpy(text + a_len + sep_len, b, b_len);
	text[len] = '\0';
	p->used += len + 1;
	return text;
}

static const char *append(struct parser *p, const char *a, const char *b)
{
	return b ? join(p, a, "", b, strlen(b)) : NULL;
}

/* Makes it what a later S<n>_ stands for. */
static const char *remember(struct parser *p, const char *type)
{
	if (!type || p->subs_cnt == SUBS_MAX)
		return NULL;
	p->subs[p->subs_cnt++] = type;
	return type;
}

/* <length><identifier>, behind "scope::" if there is a scope. */
static const char *parse_identifier(struct parser *p, const char *scope)
{
	const char *name;
	size_t n = 0;

	while (*p->at >= '0' && *p->at <= '9' && n < TYPE_BYTES)
		n = n * 10 + (size_t)(*p->at++ - '0');
	if (!n || strnlen(p->at, n) < n)
		return NULL;
	name = p->at;
	p->at += n;
	return join(p, scope, *scope ? "::" : "", name, n);
}

/* _ | [0-9A-Z]+ _ behind an S. */
static const char *parse_back_reference(struct parser *p)
{
	size_t i = 0;

	if (*p->at != '_') {
		for (; *p->at != '_'; p->at++) {
			char c = *p->at;

			if (c >= '0' && c <= '9')
				i = i * 36 + (size_t)(c - '0');
			else if (c >= 'A' && c <= 'Z')
				i = i * 36 + (size_t)(c - 'A') + 10;
			else
				return NULL;
			if (i >= SUBS_MAX)
				return NULL;
		}
		i++;
	}
	p->at++;
	return i < p->subs_cnt ? p->subs[i] : NULL;
}

/* S…: one seen before, or one of those that have a letter. *ret_is_std: "St", a scope alone. */
static const char *parse_substitution(struct parser *p, int *ret_is_std)
{
	*ret_is_std = 0;
	p->at++;
	switch (*p->at) {
	case 't':
		p->at++;
		*ret_is_std = 1;
		return "std";
	case 'a': p->at++; return "std::allocator";
	case 'b': p->at++; return "std::basic_string";
	case 's': p->at++; return "std::string";
	default: return parse_back_reference(p);
	}
}

static const char *parse_type(struct parser *p);

/* L <type> <number> E → "4" */
static const char *parse_literal(struct parser *p)
{
	const char *type, *digits;

	p->at++;
	type = parse_type(p);
	digits = p->at;
	if (*p->at == 'n')
		p->at++;
	while (*p->at >= '0' && *p->at <= '9')
		p->at++;
	if (!type || p->at == digits || *p->at != 'E')
		return NULL;
	return join(p, "", "", digits, (size_t)(p->at++ - digits));
}

/* I <argument>+ E behind a template's name */
static const char *parse_template_args(struct parser *p, const char *name)
{
	const char *text = append(p, name, "<");
	int first = 1;

	p->at++;
	while (text && *p->at != 'E') {
		const char *arg = *p->at == 'L' ? parse_literal(p) : parse_type(p);

		text = arg ? join(p, text, first ? "" : ",", arg, strlen(arg)) : NULL;
		first = 0;
	}
	p->at++;
	return first ? NULL : append(p, text, ">");
}

/*
 * N [K] <part>+ E. Each prefix is remembered; the whole too if it is a type, and not if it is the name
 * of the function, which nothing refers to.
 */
static const char *parse_nested(struct parser *p, int is_function)
{
	const char *name = "";
	int is_std;

	p->at++;
	if (is_function && *p->at == 'K')
		p->at++;
	while (name && *p->at != 'E') {
		if (*p->at == 'S' && !*name) {
			name = parse_substitution(p, &is_std);
			continue; /* is remembered already */
		}
		if (*p->at == 'I' && *name)
			name = parse_template_args(p, name);
		else
			name = parse_identifier(p, name);
		if (name && !(is_function && *p->at == 'E'))
			name = remember(p, name);
	}
	if (!name || !*name)
		return NULL;
	p->at++;
	return name;
}

/* A class or enum: nested, in std, or global; with template arguments or without. */
static const char *parse_class(struct parser *p)
{
	const char *name;
	int is_std = 0, is_new = 1;

	if (*p->at == 'S') {
		name = parse_substitution(p, &is_std);
		if (name && is_std)
			name = parse_identifier(p, name);
		else
			is_new = 0;
	} else {
		name = parse_identifier(p, "");
	}
	if (name && is_new)
		name = remember(p, name);
	if (name && *p->at == 'I')
		name = remember(p, parse_template_args(p, name));
	return name;
}

static const char *parse_builtin(struct parser *p)
{
	static const struct {
		char c;
		const char *name;
	} builtins[] = {
		{ 'v', "void" },	 { 'b', "bool" },	   { 'c', "char" },
		{ 'a', "signed char" },	 { 'h', "unsigned char" }, { 's', "short" },
		{ 't', "unsigned short" }, { 'i', "int" },	   { 'j', "unsigned" },
		{ 'l', "long" },	 { 'm', "unsigned long" }, { 'x', "long long" },
		{ 'y', "unsigned long long" }, { 'f', "float" },   { 'd', "double" },
	};

	for (size_t i = 0; i < sizeof(builtins) / sizeof(*builtins); i++)
		if (builtins[i].c == *p->at) {
			p->at++;
			return builtins[i].name;
		}
	return NULL;
}

static const char *parse_qualified(struct parser *p, const char *suffix)
{
	p->at++;
	return remember(p, append(p, parse_type(p), suffix));
}

static const char *parse_type(struct parser *p)
{
	const char *type;

	if (++p->depth > DEPTH_MAX)
		return NULL; /* the whole parse fails: depth need not be restored */
	switch (*p->at) {
	case 'R': type = parse_qualified(p, "&"); break;
	case 'O': type = parse_qualified(p, "&&"); break;
	case 'P': type = parse_qualified(p, "*"); break;
	case 'K': type = parse_qualified(p, " const"); break;
	case 'N': type = parse_nested(p, 0); break;
	case 'S':
	case '0' ... '9': type = parse_class(p); break;
	default: type = parse_builtin(p); break;
	}
	p->depth--;
	return type;
}

/* Up to the parameters. The function's name, or NULL. */
static const char *parse_function_name(struct parser *p, const char *mangled)
{
	p->at = mangled;
	p->subs_cnt = p->used = 0;
	p->depth = 0;
	if (strncmp(mangled, "_ZN", 3))
		return NULL;
	p->at += 2;
	return parse_nested(p, 1);
}

/* --- how a type is passed ------------------------------------------------------------------------------
 */

struct way {
	struct arg_way arg; /* all 0 = not known */
	uint8_t form;	    /* enum mt_flow_form */
};

#define WAY_REFERENCE ((struct way){ { 1, 0, 1 }, MT_FLOW_NONE })
#define WAY_MEMORY(n) ((struct way){ { 0, 0, n }, MT_FLOW_NONE })

static int starts_with(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

/* Behind "std::optional<" or "c10::optional<"; NULL if it is neither. */
static const char *in_optional(const char *type)
{
	if (!starts_with(type, "std::optional<") && !starts_with(type, "c10::optional<"))
		return NULL;
	return type + strlen("std::optional<");
}

/* The tensors: what the BPF side can read. */
static uint8_t form_of(const char *type)
{
	const char *inner = in_optional(type);

	if (!strcmp(type, "at::Tensor const&") || !strcmp(type, "at::Tensor&"))
		return MT_FLOW_TENSOR;
	if (inner && (!strcmp(inner, "at::Tensor> const&") || !strcmp(inner, "at::Tensor>&")))
		return MT_FLOW_OPTIONAL;
	if (!strcmp(type, "c10::ArrayRef<at::Tensor>"))
		return MT_FLOW_LIST;
	if (!strcmp(type, "c10::IListRef<at::Tensor> const&"))
		return MT_FLOW_ILIST;
	if (starts_with(type, "c10::List<")) {
		inner = in_optional(type + strlen("c10::List<"));
		if (inner && !strcmp(inner, "at::Tensor>> const&"))
			return MT_FLOW_LIST_OPTIONAL;
	}
	if (!strcmp(type, "std::vector<at::Tensor,std::allocator<at::Tensor>> const&") ||
	    !strcmp(type, "std::vector<at::Tensor,std::allocator<at::Tensor>>&&"))
		return MT_FLOW_VECTOR;
	return MT_FLOW_NONE;
}

static int is_string_view(const char *type, size_t len)
{
	static const char *const views[] = { "std::basic_string_view<char,std::char_traits<char>>",
					     "c10::basic_string_view<char>" };

	for (size_t i = 0; i < sizeof(views) / sizeof(*views); i++)
		if (strlen(views[i]) == len && !memcmp(views[i], type, len))
			return 1;
	return 0;
}

static const struct {
	const char *type;
	struct arg_way way, optional; /* of an optional of it */
} plain[] = {
	{ "bool", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "char", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "signed char", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "unsigned char", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "short", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "unsigned short", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "int", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "unsigned", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "long", { 1, 0, 1 }, { 2, 0, 2 } },
	{ "unsigned long", { 1, 0, 1 }, { 2, 0, 2 } },
	{ "long long", { 1, 0, 1 }, { 2, 0, 2 } },
	{ "unsigned long long", { 1, 0, 1 }, { 2, 0, 2 } },
	{ "double", { 0, 1, 1 }, { 1, 1, 2 } },
	{ "c10::ScalarType", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "c10::MemoryFormat", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "c10::Layout", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "c10::Device", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "c10::QScheme", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "c10::Stream", { 2, 0, 2 }, { 0, 0, 3 } },
	{ "at::Dimname", { 1, 0, 1 }, { 2, 0, 2 } },
	/* with a copy constructor or destructor of their own: a hidden reference, and so is their optional */
	{ "c10::SymInt", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "c10::SymFloat", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "c10::SymBool", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "c10::Scalar", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "c10::Storage", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "at::Generator", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "at::Tensor", { 1, 0, 1 }, { 1, 0, 1 } },
};

static struct way way_of_plain(const char *type, size_t len, int is_optional)
{
	for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++) {
		if (strlen(plain[i].type) != len || memcmp(plain[i].type, type, len))
			continue;
		return (struct way){ is_optional ? plain[i].optional : plain[i].way, MT_FLOW_NONE };
	}
	return (struct way){ { 0 }, MT_FLOW_NONE };
}

/*
 * torch's own optional keeps a list's emptiness inside the list's two words, and its value in a union
 * with a char, which makes an integer of a double.
 */
static struct way way_of_optional(const char *inner, enum callconv_optional opt)
{
	size_t len = strlen(inner) - 1; /* without the '>' */

	if (starts_with(inner, "c10::ArrayRef<"))
		return opt == CALLCONV_STD ? WAY_MEMORY(3) : (struct way){ { 2, 0, 2 }, MT_FLOW_NONE };
	if (is_string_view(inner, len))
		return opt == CALLCONV_STD ? WAY_MEMORY(3) : WAY_REFERENCE;
	if (opt == CALLCONV_OWN_OPTIONAL && !strcmp(inner, "double>"))
		return (struct way){ { 2, 0, 2 }, MT_FLOW_NONE };
	if (starts_with(inner, "std::vector<") || starts_with(inner, "c10::List<"))
		return WAY_REFERENCE;
	return way_of_plain(inner, len, 1);
}

/* std::array<bool,N>, of 16 bytes at most */
static struct way way_of_array(const char *type)
{
	static const char prefix[] = "std::array<bool,";
	unsigned n = 0;

	if (!starts_with(type, prefix))
		return (struct way){ { 0 }, MT_FLOW_NONE };
	for (type += sizeof(prefix) - 1; *type >= '0' && *type <= '9' && n <= 16; type++)
		n = n * 10 + (unsigned)(*type - '0');
	if (strcmp(type, ">") || !n || n > 16)
		return (struct way){ { 0 }, MT_FLOW_NONE };
	return n > 8 ? (struct way){ { 2, 0, 2 }, MT_FLOW_NONE } : (struct way){ { 1, 0, 1 }, MT_FLOW_NONE };
}

static struct way way_of(const char *type, enum callconv_optional opt)
{
	size_t len = strlen(type);
	const char *inner = in_optional(type);

	if (type[len - 1] == '&' || type[len - 1] == '*')
		return (struct way){ { 1, 0, 1 }, form_of(type) };
	if (type[len - 1] == '>') {
		if (starts_with(type, "c10::ArrayRef<"))
			return (struct way){ { 2, 0, 2 }, form_of(type) };
		if (starts_with(type, "c10::OptionalArrayRef<"))
			return opt == CALLCONV_STD ? WAY_MEMORY(3) : (struct way){ { 2, 0, 2 }, MT_FLOW_NONE };
		if (inner)
			return way_of_optional(inner, opt);
		if (is_string_view(type, len))
			return (struct way){ { 2, 0, 2 }, MT_FLOW_NONE };
		if (starts_with(type, "std::vector<") || starts_with(type, "c10::List<"))
			return WAY_REFERENCE;
		return way_of_array(type);
	}
	return way_of_plain(type, len, 0);
}

/* --- results -------------------------------------------------------------------------------------------
 */

static int is_word(struct text t, const char *word)
{
	return t.len == strlen(word) && !memcmp(t.at, word, t.len);
}

/* Does the caller pass a hidden pointer to where the result shall be? 1, 0 or -ENOTSUP. */
static int has_hidden_result(const struct schema *s)
{
	static const char *const in_registers[] = { "bool",   "int",	"float",     "ScalarType", "Device",
						    "Layout", "QScheme", "MemoryFormat", "complex" };
	static const char *const in_memory[] = { "Scalar", "SymInt", "SymBool", "SymFloat",
						 "Storage", "Generator", "str" };
	const struct schema_value *v = &s->rets[0];

	if (s->rets_cnt != 1)
		return s->rets_cnt > 1; /* a std::tuple, even of references */
	if (v->is_tensor) /* Tensor(a!) is returned as a reference */
		return v->is_list || v->is_optional || !v->is_written;
	if (v->is_list)
		return 1;
	for (size_t i = 0; i < sizeof(in_registers) / sizeof(*in_registers); i++)
		if (is_word(v->type, in_registers[i]))
			return 0;
	for (size_t i = 0; i < sizeof(in_memory) / sizeof(*in_memory); i++)
		if (is_word(v->type, in_memory[i]))
			return 1;
	return -ENOTSUP;
}

/* --- dealing out ------------------------------------------------------------------------------------------
 */

/* Does the C++ type fit what the schema says of the parameter? */
static int agrees(uint8_t form, const struct schema_value *v)
{
	switch (form) {
	case MT_FLOW_TENSOR: return v->is_tensor && !v->is_list && !v->is_optional;
	case MT_FLOW_OPTIONAL: return v->is_tensor && !v->is_list && v->is_optional;
	case MT_FLOW_LIST:
	case MT_FLOW_ILIST:
	case MT_FLOW_VECTOR: return v->is_tensor && v->is_list && !v->is_optional;
	case MT_FLOW_LIST_OPTIONAL: return v->is_tensor && v->is_list && v->is_optional;
	default: return !v->is_tensor;
	}
}

static int is_one_of(struct text name, const char *const *names, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		if (is_word(name, names[i]))
			return 1;
	return 0;
}

#define IS_ONE_OF(name, names) is_one_of(name, names, sizeof(names) / sizeof((names)[0]))

static uint8_t flags_of(const struct schema_value *v)
{
#define ITEM(name) name,
	static const char *const weights[] = { MT_ARG_WEIGHTS(ITEM) }, *const running[] = { MT_ARG_RUNNING(ITEM) };
#undef ITEM
	uint8_t flags = 0;

	if (v->is_written)
		flags |= MT_FLOW_F_WRITTEN;
	else if (v->is_alias)
		flags |= MT_FLOW_F_ALIAS;
	if (!v->is_optional)
		flags |= MT_FLOW_F_REQUIRED;
	if (IS_ONE_OF(v->name, weights))
		flags |= MT_FLOW_F_WEIGHT;
	if (IS_ONE_OF(v->name, running))
		flags |= MT_FLOW_F_RUNNING;
	return flags;
}

/* One parameter: its type is parsed, placed and, if a tensor's, noted. */
static int take_param(struct parser *p, struct arg_dealer *d, const struct schema_value *v, size_t index,
		      enum callconv_optional opt, struct mt_flow_spec *ret)
{
	const char *type = parse_type(p);
	struct way w;
	unsigned where;

	if (!type)
		return -EINVAL;
	w = way_of(type, opt);
	if (!w.arg.words)
		return -ENOTSUP;
	if (!agrees(w.form, v))
		return -EPROTO;
	where = args_deal(d, w.arg);
	if (d->words > STACK_WORDS_MAX)
		return -E2BIG;
	if (w.form == MT_FLOW_NONE)
		return 0;
	if (ret->args_cnt == MT_FLOW_SPEC_ARGS_MAX)
		return -E2BIG;
	ret->args[ret->args_cnt++] =
		(struct mt_flow_spec_arg){ w.form, (uint8_t)where, flags_of(v), (uint8_t)index };
	return 0;
}

int callconv__spec(const char *mangled, const struct schema *s, enum callconv_optional opt,
		   struct mt_flow_spec *ret)
{
	struct arg_dealer d;
	struct parser p;
	size_t cnt = 0;
	int r;

	memset(ret, 0, sizeof(*ret));
	if (!parse_function_name(&p, mangled))
		return -EINVAL;
	if (!strcmp(p.at, "v"))
		p.at++;
	else if (!*p.at)
		return -EINVAL; /* an object, not a function */
	r = has_hidden_result(s);
	args_begin(&d, r > 0);
	while (r >= 0 && *p.at) {
		r = cnt < s->args_cnt ? take_param(&p, &d, &s->args[cnt], cnt, opt, ret) : -EPROTO;
		cnt++;
	}
	if (r >= 0 && cnt != s->args_cnt)
		r = -EPROTO;
	if (r < 0) {
		memset(ret, 0, sizeof(*ret));
		return r;
	}
	return 0;
}

int callconv__is_node_apply(const char *mangled)
{
	struct parser p;
	const char *name, *type;
	size_t len;

	if (!starts_with(mangled, "_ZN5torch8autograd"))
		return 0;
	name = parse_function_name(&p, mangled);
	len = name ? strlen(name) : 0;
	if (len < 7 || strcmp(name + len - 7, "::apply") || *p.at != 'O')
		return 0;
	type = parse_type(&p);
	return type && !*p.at && form_of(type) == MT_FLOW_VECTOR;
}

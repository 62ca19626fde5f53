/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Calling conventions from mangled names.
 *
 * The name is demangled, and a table has for each type's text ("std::optional<at::Tensor> const&") how a value of it is passed:
 * that is a property of the type's definition, which is not in the name (c10::Scalar has a destructor and so goes by a hidden
 * reference; c10::Device has none and goes in a register). A type that is not in the table refuses the whole operator: a guess
 * about one parameter misplaces all after it.
 *
 * Then registers are assigned as the processor's ABI has it (arch/calls.h).
 *
 * The type of the result is not in a function's mangled name; the schema has it. Not understood, since no operator has it:
 * function types, arrays, member pointers, lambdas, packs.
 */
#include "plan/callconv.h"

#include <errno.h>
#include <string.h>

#include "arch/arch.h"
#include "base/demangle.h"
#include "memtrace/arg_names.h"

#define STACK_WORDS_MAX 200 /* where is 8 bits, MT_ARG_STACK + word */

/* --- types as text --------------------------------------------------------------------------------- */

struct params {
	char *at; /* the next one; "" after the last */
	char text[8192];
};

/* The text between the parentheses of "at::_ops::x::call(long, bool)". -EINVAL: it is not the name of a function. */
static int begin_params(struct params *p, const char *mangled)
{
	if (strncmp(mangled, "_ZN", 3) || !demangle_whole(p->text, sizeof(p->text), mangled))
		return -EINVAL;
	p->at = strchr(p->text, '(');
	if (!p->at)
		return -EINVAL; /* an object */
	p->at += p->at[1] == ')' ? 2 : 1;
	return 0;
}

/* The next parameter's type; NULL: it contains something that no operator has. */
static const char *next_type(struct params *p)
{
	char *type = p->at, *end;
	int depth = 0;

	for (; depth || (*p->at != ',' && *p->at != ')'); p->at++) {
		depth += (*p->at == '<') - (*p->at == '>');
		if (!*p->at || strchr("([{", *p->at) || !strncmp(p->at, "<>", 2))
			return NULL;
	}
	end = p->at;
	p->at += end[0] == ',' && end[1] == ' ' ? 2 : 1;
	*end = '\0';
	return *type ? type : NULL; /* names may hold anything, commas as well */
}

/* --- how a type is passed ------------------------------------------------------------------------------
 */

struct way {
	struct arg_way arg; /* all 0 = unknown */
	uint8_t form;	    /* enum mt_flow_form */
};

#define TENSORS "std::vector<at::Tensor, std::allocator<at::Tensor> >"
#define WAY_REFERENCE ((struct way){ { 1, 0, 1 }, MT_FLOW_NONE })
#define WAY_MEMORY(n) ((struct way){ { 0, 0, n }, MT_FLOW_NONE })

static int starts_with(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

/* The text after "std::optional<" or "c10::optional<"; NULL if it is neither. */
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
		if (inner && !strcmp(inner, "at::Tensor> > const&"))
			return MT_FLOW_LIST_OPTIONAL;
	}
	if (!strcmp(type, TENSORS " const&") || !strcmp(type, TENSORS "&&"))
		return MT_FLOW_VECTOR;
	return MT_FLOW_NONE;
}

static int is_string_view(const char *type, size_t len)
{
	static const char *const views[] = { "std::basic_string_view<char, std::char_traits<char> >",
					     "c10::basic_string_view<char>" };

	for (size_t i = 0; i < sizeof(views) / sizeof(*views); i++)
		if (strlen(views[i]) == len && !memcmp(views[i], type, len))
			return 1;
	return 0;
}

static const struct {
	const char *type;
	struct arg_way way, optional; /* of an optional of that type */
} plain[] = {
	{ "bool", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "char", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "signed char", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "unsigned char", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "short", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "unsigned short", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "int", { 1, 0, 1 }, { 1, 0, 1 } },
	{ "unsigned int", { 1, 0, 1 }, { 1, 0, 1 } },
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
 * torch's own optional encodes an empty list in the list's two words, and has its value in a union with a char, which makes an
 * integer of a double.
 */
static struct way way_of_optional(const char *inner, enum callconv_optional opt)
{
	size_t len = strlen(inner) - 1; /* without the '>', and the space between two of them */

	len -= len && inner[len - 1] == ' ';

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
	static const char prefix[] = "std::array<bool, ";
	unsigned n = 0;

	if (!starts_with(type, prefix))
		return (struct way){ { 0 }, MT_FLOW_NONE };
	for (type += sizeof(prefix) - 1; *type >= '0' && *type <= '9' && n <= 16; type++)
		n = n * 10 + (unsigned)(*type - '0');
	if (strcmp(type, "ul>") || !n || n > 16)
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

static int is_word(struct schema_text t, const char *word)
{
	return t.len == strlen(word) && !memcmp(t.at, word, t.len);
}

/* Does the caller pass a hidden pointer to the place of the result? 1, 0 or -ENOTSUP. */
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

/* --- assigning registers ------------------------------------------------------------------------------------------ */

/* Does the C++ type fit the schema's type of the parameter? */
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

static int is_one_of(struct schema_text name, const char *const *names, size_t cnt)
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

/* One parameter: its type is parsed, placed and, for a tensor, recorded. */
static int take_param(struct params *p, struct arg_dealer *d, const struct schema_value *v, size_t index,
		      enum callconv_optional opt, struct mt_flow_spec *ret)
{
	const char *type = next_type(p);
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
	struct params p;
	size_t cnt = 0;
	int r;

	memset(ret, 0, sizeof(*ret));
	r = begin_params(&p, mangled);
	if (r < 0)
		return r;
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
	static const char tail[] = "::apply(" TENSORS "&&)";
	char text[8192];
	size_t len;

	/* most have none: no need to demangle them */
	if (!starts_with(mangled, "_ZN5torch8autograd") || !strstr(mangled, "5applyEOSt6vectorI"))
		return 0;
	len = demangle_whole(text, sizeof(text), mangled);
	return len >= sizeof(tail) && !strcmp(text + len - (sizeof(tail) - 1), tail);
}

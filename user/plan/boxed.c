/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Calls that bypass at::_ops: operators that are called boxed, and backward nodes that Python defines.
 *
 * A boxed call has its operator's handle and a stack of values. torch.ops, custom operators, kernels that inductor falls back
 * on and TorchScript all go through torch::jit::Operator, whose function for an operator of the dispatcher is a lambda
 * (torch/csrc/jit/runtime/register_c10_ops.cpp, PyTorch 2.13): _M_invoke of its std::function. The dispatcher's own callBoxed
 * is inlined, or a copy in each file, and what it calls is different for each kernel. The lambda is local to the library, so
 * its name is only in .symtab: a stripped library (Debian's) has none, and a note says so. C++ code that calls
 * OperatorHandle::callBoxed by itself is not seen (torch.utils.cpp_extension, AOTInductor's fallbacks).
 *
 * What is read of the operator (bpf/boxed.bpf.c) is where 2.13's headers have it (ATen/core/dispatch, function_schema.h,
 * alias_info.h):
 *
 *	OperatorHandle { OperatorDef *, … }, OperatorDef { OperatorEntry { OperatorName, optional<AnnotatedSchema>, … }, … }
 *	AnnotatedSchema { FunctionSchema { OperatorName, vector<Argument> arguments, vector<Argument> returns, … }, … }
 *	Argument { std::string name, TypePtr, TypePtr, optional<int>, optional<IValue>, AliasInfo *, bool, bool }
 *	AliasInfo { unordered_set, unordered_set, vector, bool is_write }
 *
 * and is used only where the library's code agrees: at::functorch::isInplaceOp() looks through a schema's arguments for what is
 * written, Argument::isBackwardCompatibleWith() compares names and alias information, IValue::isTensorList() a tag. A
 * std::string of the old ABI has 8 bytes (PyPI's wheels up to 2.6): other places, unknown. The code of
 * at::functionalization::functionalize_op_helper() has the place of an OperatorEntry's schema. The name that must be at both is
 * compared at each call.
 *
 * From torch 2.15 on an operator of torch.library.custom_op does not pass there if Python calls it: a function object of its
 * own (torch/csrc/utils/python_dispatch.cpp: PyObjectDispatchFunc) goes from Python's arguments to Python's kernel. After its
 * two callables it has a pointer to the OperatorHandle; its name is reported, and its tensors by the operators in the kernel.
 *
 * A Python-defined node is a PyNode; its is_traceable() begins with its Python object, a THPFunction. Its release_variables()
 * goes through what that has saved: a vector, so two words, after all fields of a SavedVariable, in steps of one of these.
 */
#include <elf.h>
#include <string.h>

#include "plan/builder.h"

#define STRING	     32 /* sizeof(std::string), of the C++11 ABI */
#define SCHEMA	     (2 * STRING)
#define SCHEMA_ARGS  (2 * STRING)
#define ARG_BYTES    112
#define ARG_ALIAS    96
#define ALIAS_WRITE  136
#define IVALUE_TAG   8
#define INSNS_MAX    64
#define BEGIN_BYTES  192 /* of functionalize_op_helper; 2.13 has it in the first 100 */
#define SAVED_MIN    120 /* a THPFunction has its SavedVariables at 136 (2.4 to 2.13), 192 (2.15) */
#define SAVED_BYTES_MIN 64  /* sizeof(SavedVariable): 112 (2.4), 104 (2.8), 80 (2.13, 2.15) */
#define SHOWN	     "c10::Dispatcher::callBoxed"

static const struct {
	const char *name, *lib;
	struct prologue_need need;
	uint64_t cookie;
} entries[BOXED_NAMES_MAX] = {
	{ "_ZNSt17_Function_handlerIFvRSt6vectorIN3c106IValueESaIS2_EEEZN5torch3jit12_GLOBAL__N_121createOperatorFromC10ERKNS1_"
	  "14OperatorHandleEEUlS5_E_E9_M_invokeERKSt9_Any_dataS5_", "torch_cpu", { ARG_BIT(0) | ARG_BIT(1), 1 }, 0 },
	{ "_ZN5torch4impl8dispatchL28pyobject_dispatch_vectorcallEP7_objectPKS3_mS3_", "torch_python", { ARG_BIT(0), 1 },
	  MT_BOXED_PYTHON },
};

size_t boxed__names(const struct lib *lib, const char *names[BOXED_NAMES_MAX], size_t at[BOXED_NAMES_MAX])
{
	size_t cnt = 0;

	for (size_t i = 0; i < BOXED_NAMES_MAX; i++)
		if (lib->is_exe || strstr(lib->base, entries[i].lib)) {
			at[cnt] = i;
			names[cnt++] = entries[i].name;
		}
	return cnt;
}

int boxed__plan_local(struct builder *b, size_t entry, const struct elf_sym *sym)
{
	const struct prologue_need need = entries[entry].need;
	struct site site = { .prog = MT_PROG_FLOW_BOXED, .source = SRC_FLOW, .cookie = entries[entry].cookie };

	b->boxed_found |= !entry;
	b->flow_wanted++;
	if (sym->offset == UINT64_MAX || !sym->is_exec || builder__place(b, sym, SHOWN, &need, &site) < 0)
		return 0;
	b->flow_found++;
	return builder__add_site(b, &site, SHOWN);
}

/* Through the dispatcher, like all operators of torch's own. */
static int is_boxed(const struct site *s)
{
	return s->prog == MT_PROG_FLOW_BOXED && !(s->cookie & MT_BOXED_PYTHON);
}

/*
 * Python's record_function goes through torch.ops, so this probe is hit four times for the two regions of an optimizer's step.
 * It reports them with no more hits than before: functions that only those calls lead to lose their probes. In a later plan of
 * the process they may keep them; which probe reports is decided at each call (bpf/lib/region.h).
 *
 * Where probes come and go by windows this one does, too, and the function that begins a region keeps its own: two hits a step
 * between windows instead of four, and six in them. A region has no length then.
 */
static void boxed__split_regions(struct plan *p, int by_windows)
{
	size_t n = 0;

	for (size_t i = 0; i < p->sites_cnt; i++) {
		struct site s = p->sites[i];

		if (s.prog == MT_PROG_REGION_END || (s.prog == MT_PROG_REGION_BEGIN && !by_windows))
			continue;
		if (s.prog == MT_PROG_REGION_BEGIN)
			s.cookie = MT_REGION_BRIEF;
		if (is_boxed(&s))
			s.cookie |= MT_BOXED_REGIONS | (by_windows ? MT_BOXED_MARKED : 0);
		p->sites[n++] = s;
	}
	p->sites_cnt = n;
}

void boxed__take_regions(struct plan *p, int by_windows)
{
	int has_boxed = 0, has_begin = 0, has_other_end = 0;

	for (size_t i = 0; i < p->sites_cnt; i++) {
		const struct site *s = &p->sites[i];

		has_boxed |= is_boxed(s);
		has_begin |= s->prog == MT_PROG_REGION_BEGIN && s->cookie == MT_REGION_STRING;
		has_other_end |= s->prog == MT_PROG_REGION_END && s->cookie != MT_REGION_ONCE;
	}
	if (has_boxed && has_begin && !has_other_end)
		boxed__split_regions(p, by_windows);
}

/* --- places of fields ------------------------------------------------------------------------------------ */

static const uint8_t *code_of(const struct elf *e, const char *symbol, int is_local, size_t *ret_len)
{
	struct elf_sym sym;
	const uint8_t *code;

	if ((is_local ? elf__find_local : elf__find_symbol)(e, symbol, &sym) < 0 || sym.type != STT_FUNC || !sym.is_exec)
		return NULL;
	code = elf__code(e, &sym, ret_len);
	if (code && sym.size && *ret_len > sym.size)
		*ret_len = (size_t)sym.size;
	return code;
}

/* functionalize_op_helper(OperatorHandle const &, …) begins by reading how many arguments the schema has. */
static int has_operators(const struct elf *e)
{
	size_t len;
	const uint8_t *code = code_of(e, "_ZN2at17functionalization23functionalize_op_helperERKN3c1014OperatorHandleEPSt6vector"
				      "INS1_6IValueESaIS6_EE", 0, &len);
	struct code_uses uses;

	if (!code)
		return 0;
	code_uses(code, len < BEGIN_BYTES ? len : BEGIN_BYTES, &uses);
	return (uses.bytes[SCHEMA + SCHEMA_ARGS] & 8) && (uses.bytes[SCHEMA + SCHEMA_ARGS + 8] & 8);
}

static int has_schemas(const struct elf *e)
{
	size_t len;
	const uint8_t *code = code_of(e, "_ZN2at9functorch11isInplaceOpERKN3c1014FunctionSchemaE", 0, &len);
	struct code_fields schema, arg;
	struct code_uses uses;

	if (!code)
		return 0;
	code_fields(code, len, 0, INSNS_MAX, &schema);
	code_uses(code, len, &uses);
	code = code_of(e, "_ZNK3c108Argument24isBackwardCompatibleWithERKS0_PSo", 0, &len);
	if (!code)
		return 0;
	code_fields(code, len, 0, INSNS_MAX, &arg);
	return (schema.bytes[SCHEMA_ARGS] & 8) && (schema.bytes[SCHEMA_ARGS + 8] & 8) && (arg.bytes[0] & 8) &&
	       (arg.bytes[8] & 8) && (arg.bytes[ARG_ALIAS] & 8) && (uses.bytes[ARG_ALIAS] & 8) && uses.steps[ARG_BYTES] &&
	       (uses.bytes[ALIAS_WRITE] & 1);
}

static void learn_saved(struct flow_facts *ret, const struct elf *e)
{
	size_t len;
	const uint8_t *code = code_of(e, "_ZN5torch8autograd6PyNode17release_variablesEv", 1, &len);
	uint16_t at = SAVED_MIN, bytes = SAVED_BYTES_MIN;
	struct code_uses uses;

	if (!code)
		return;
	code_uses(code, len, &uses);
	while (at + 8 < CODE_FIELDS_BYTES && !(uses.bytes[at] & uses.bytes[at + 8] & 8))
		at += 8;
	while (bytes < SAVED_MIN && !uses.steps[bytes])
		bytes += 8;
	if (at + 8 == CODE_FIELDS_BYTES || bytes == SAVED_MIN)
		return;
	ret->node_saved = at;
	ret->saved_bytes = bytes;
}

static void learn_python(struct flow_facts *ret, const struct elf *e)
{
	struct code_fields node;
	const uint8_t *code;
	struct elf_sym sym;
	size_t len;

	if (elf__find_local(e, "_ZTVN5torch8autograd6PyNodeE", &sym) < 0 || sym.type != STT_OBJECT)
		return;
	code = code_of(e, "_ZN5torch8autograd6PyNode12is_traceableEv", 1, &len);
	if (!code)
		return;
	code_fields(code, len, 0, INSNS_MAX, &node);
	if (node.first <= 0 || node.first >= CODE_FIELDS_BYTES || !(node.bytes[node.first] & 8))
		return;
	ret->py_node = sym.vaddr;
	ret->py_node_object = node.first;
	learn_saved(ret, e);
}

void boxed__learn(struct flow_facts *ret, const struct elf *e, const struct lib *lib)
{
	const uint8_t *code;
	size_t len;

	if (strstr(lib->base, "torch_python"))
		learn_python(ret, e);
	if (!strstr(lib->base, "torch_cpu") && !lib->is_exe)
		return;
	ret->has_schemas = has_operators(e) && has_schemas(e);
	code = code_of(e, "_ZNK3c106IValue12isTensorListEv", 0, &len);
	if (code)
		ret->list_tag = code_compared(code, len, 0, IVALUE_TAG, INSNS_MAX);
}

void boxed__layout(const struct flow_facts *f, struct mt_flow_layout *ret)
{
	if (f->py_node_object > 0)
		ret->node_python = (uint16_t)f->py_node_object;
	ret->node_saved = f->node_saved;
	ret->saved_bytes = f->saved_bytes;
	if (!f->has_schemas || f->list_tag <= 0 || f->list_tag > UINT8_MAX)
		return;
	ret->schema = SCHEMA;
	ret->schema_args = SCHEMA_ARGS;
	ret->arg_bytes = ARG_BYTES;
	ret->arg_alias = ARG_ALIAS;
	ret->alias_write = ALIAS_WRITE;
	ret->list_tag = (uint16_t)f->list_tag;
}

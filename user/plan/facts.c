/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What is known from a file alone, wherever it is mapped: whether it has the allocator, the fields of c10's objects. */
#include <elf.h>
#include <string.h>

#include "plan/builder.h"
#include "plan/callconv.h"

#define ACCESSOR_INSNS 8
#define ACC_INSNS      48
#define ACC_APPLY      "_ZN5torch8autograd14AccumulateGrad5applyEOSt6vectorIN2at6TensorESaIS4_EE"
#define RESIZE_INSNS   128
#define NAME_OLD       "_ZNK5torch8autograd4Node4nameEv" /* otherwise …4nameB5cxx11Ev */

/* --- the allocator -------------------------------------------------------------------------------------- */

static void learn_host(struct host_facts *ret, const struct elf *e)
{
	struct elf_sym sym;

	ret->has_malloc = elf__find_symbol(e, "malloc", &sym) == 0 && sym.type == STT_FUNC && sym.is_exec &&
			  elf__find_symbol(e, "free", &sym) == 0 && sym.type == STT_FUNC;
	ret->is_libc = elf__find_symbol(e, "__libc_start_main", &sym) == 0;
	ret->has_reallocarray = elf__find_symbol(e, "reallocarray", &sym) == 0;
}

/* --- fields ---------------------------------------------------------------------------------------------- */

static void find_fields(const struct elf *e, const char *symbol, unsigned arg, int max, struct code_fields *ret)
{
	const uint8_t *code;
	struct elf_sym sym;
	size_t len;

	*ret = (struct code_fields){ .first = -1 };
	if (elf__find_symbol(e, symbol, &sym) < 0 || sym.type != STT_FUNC || !sym.is_exec)
		return;
	code = elf__code(e, &sym, &len);
	if (code)
		code_fields(code, sym.size && len > sym.size ? (size_t)sym.size : len, arg, max, ret);
}

/* The first field used of the object that argument `arg` points to; -1: none. */
static int64_t first_field(const struct elf *e, const char *symbol, unsigned arg, int max)
{
	struct code_fields f;

	find_fields(e, symbol, arg, max, &f);
	return f.first;
}

/* --- classes --------------------------------------------------------------------------------------------- */

const struct flow_class flow_classes[] = {
	{ "_ZTVN3c1010TensorImplE", MT_CLASS_PLAIN },
	{ "_ZTVN3c1019UndefinedTensorImplE", MT_CLASS_UNDEFINED },
	{ "_ZTVN2at16SparseTensorImplE", MT_CLASS_SPARSE },
	{ "_ZTVN2at19SparseCsrTensorImplE", MT_CLASS_SPARSE },
	{ "_ZTVN2at11QTensorImplE", MT_CLASS_QUANTIZED },
	{ "_ZTVN2at17BatchedTensorImplE", MT_CLASS_OTHER },
	{ "_ZTVN2at23FunctionalTensorWrapperE", MT_CLASS_OTHER },
	{ "_ZTVN2at6native16NestedTensorImplE", MT_CLASS_NESTED },
	{ "_ZTVN2at9functorch13TensorWrapperE", MT_CLASS_OTHER },
	{ "_ZTVN2at9functorch17BatchedTensorImplE", MT_CLASS_OTHER },
	{ "_ZTVN5torch4lazy13LTCTensorImplE", MT_CLASS_OTHER },
	{ "_ZTVN5torch3jit5fuser6onednn14LlgaTensorImplE", MT_CLASS_OTHER },
	{ "_ZTVN3c1011StorageImplE", MT_CLASS_STORAGE },
	{ "_ZTVN2at17functionalization21FunctionalStorageImplE", MT_CLASS_STORAGE },
	{ "_ZTVN5torch8autograd12AutogradMetaE", MT_CLASS_META },
	{ "_ZTVN5torch8autograd22DifferentiableViewMetaE", MT_CLASS_META },
};
const size_t flow_classes_cnt = sizeof(flow_classes) / sizeof(*flow_classes);

_Static_assert(sizeof(flow_classes) / sizeof(*flow_classes) <= FLOW_CLASSES_CNT, "facts have a place for each");

/* Finds the optional that the operators' signatures name. */
static int find_optional(void *ctx, const struct elf_sym *sym)
{
	int *optional = ctx;

	if (strncmp(sym->name, "_ZN2at4_ops", 11))
		return 0;
	if (!strstr(sym->name, "8optionalI"))
		return 0;
	*optional = strstr(sym->name, "St8optionalI") ? CALLCONV_STD : CALLCONV_OWN_OPTIONAL;
	return 1;
}

static void learn_flow(struct flow_facts *ret, const struct elf *e, const struct lib *lib)
{
	struct elf_sym name;

	*ret = (struct flow_facts){ .storage = -1, .meta = -1, .variable = -1, .optional = -1, .resized = { .first = -1 },
				    .list_tag = -1, .py_node_object = -1 };
	for (size_t i = 0; i < flow_classes_cnt; i++) {
		struct elf_sym sym;

		if (elf__find_symbol(e, flow_classes[i].symbol, &sym) < 0 || sym.type != STT_OBJECT)
			continue;
		ret->has_class |= 1u << i;
		ret->classes[i] = sym.vaddr;
		if (flow_classes[i].class != MT_CLASS_PLAIN)
			continue;
		ret->storage = first_field(e, "_ZNK3c1010TensorImpl11has_storageEv", 0, ACCESSOR_INSNS);
		ret->meta = first_field(e, "_ZNK3c1010TensorImpl13autograd_metaEv", 0, ACCESSOR_INSNS);
	}
	boxed__learn(ret, e, lib);
	if (!strstr(lib->base, "torch_cpu") && !lib->is_exe)
		return;
	elf__each_symbol(e, find_optional, &ret->optional);
	find_fields(e, "_ZN2at6native16resize_bytes_cpuEPN3c1011StorageImplEm", 0, RESIZE_INSNS,
		    &ret->resized);
	ret->variable = first_field(e, ACC_APPLY, MT_ARGS_HIDDEN, ACC_INSNS);
	ret->has_old_strings = elf__find_symbol(e, NAME_OLD, &name) == 0;
}

void file_facts__learn(struct file_facts *ret, unsigned sources, const struct lib *lib, const struct elf *e)
{
	elf__layout(e, &ret->code);
	ret->is_static = (uint8_t)elf__is_static(e);
	ret->is_stripped = (uint8_t)elf__is_stripped(e);
	if (sources & SRC_HOST)
		learn_host(&ret->host, e);
	if (sources & (SRC_FLOW | SRC_OPS)) /* ops may have replaced flow */
		learn_flow(&ret->flow, e, lib);
}

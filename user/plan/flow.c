/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The source `flow`: which objects are tensors, where their fields are, and the specs of operators'
 * arguments.
 *
 * A field's place is nowhere written in a library, so there is a table of layouts, and the library's
 * own code decides which of them holds: TensorImpl::has_storage() and autograd_meta() are exported
 * functions of one memory operand, the field itself. Both must be where a row of the table has them;
 * reference counts stand before them, as in every object of c10 (two words in 1.13, one from 2.4 on at
 * the latest). And the optional that the operators' signatures name must be the row's: torch's own has its
 * flag in front. StorageImpl's fields must be among those that at::native::resize_bytes_cpu touches in its
 * argument: data and size as words, device type and index as bytes. AccumulateGrad's variable follows
 * Node, whose size changes from version to version (392 in 1.13, 472 in 2.4 and 2.8, 464 in 2.13), so it is taken
 * from the code: the first field of the node that AccumulateGrad::apply uses. AutogradMeta's grad stands behind a
 * std::string, which has 32 bytes, or 8 with the old ABI of PyPI's wheels up to 2.6: the name of Node::name(), which gives one,
 * says which.
 *
 * What no row fits is refused rather than guessed; `ops` then takes the place of `flow`. Not told by
 * code are what else is before AutogradMeta's grad (nothing since 1.13) and a list's items. A wrong place would give no
 * wrong tensor: nothing is read but through objects of known classes (bpf/flow.bpf.c), the rest is counted.
 *
 * That an object is a tensor at all is told by its vtable pointer: the exported vtables of TensorImpl
 * and its subclasses. Classes that are not exported (the mkldnn tensor) are not read; they
 * have no storage of their own anyway.
 *
 * Libraries are looked at before the sites are planned, since c10's classes and the operators are in
 * different ones; static programs have them in one.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <Zydis/Zydis.h>

#include "base/err.h"
#include "base/seed.h"
#include "plan/builder.h"
#include "plan/callconv.h"

#define SLOTS	  8192 /* twice MT_FLOW_SPECS_MAX */
#define CLASSES_MAX 256
#define ACCESSOR_INSNS 8
#define ACC_INSNS      48
#define ACC_APPLY      "_ZN5torch8autograd14AccumulateGrad5applyEOSt6vectorIN2at6TensorESaIS4_EE"
#define RESIZE_INSNS   128
#define NAME_OLD       "_ZNK5torch8autograd4Node4nameEv" /* otherwise …4nameB5cxx11Ev */
#define NAME_SHORTER   24 /* std::string of the old ABI */

_Static_assert(SLOTS >= 2 * MT_FLOW_SPECS_MAX && !(SLOTS & (SLOTS - 1)), "an open hash table");

/* offsetof() in the headers of each version; acc_variable comes from the code. */
static const struct {
	enum callconv_optional optional;
	struct flow_layout layout;
} layouts[] = {
	{ CALLCONV_STD,
	  { "2.4 to 2.15",
	    { .impl_storage = 16,
	      .impl_autograd_meta = 24,
	      .meta_grad = 40,
	      .storage_data = 16,
	      .storage_dev = 40,
	      .storage_size = 48,
	      .list_begin = 16,
	      .optional_impl = 0,
	      .optional_engaged = 8 } } },
	{ CALLCONV_OWN_OPTIONAL,
	  { "1.13",
	    { .impl_storage = 24,
	      .impl_autograd_meta = 32,
	      .meta_grad = 40,
	      .storage_data = 24,
	      .storage_dev = 48,
	      .storage_size = 56,
	      .list_begin = 24,
	      .optional_impl = 8,
	      .optional_engaged = 0 } } },
};

static const struct {
	const char *symbol;
	enum mt_class class;
} classes[] = {
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

/* How a Node begins, by its size: what AccumulateGrad adds, its variable, lies right behind it. */
#define NODE_BYTES_ONE_COUNT 464 /* from 2.9 on: a count of its own */
#define NODE_SEQ_ONE_COUNT   16
#define NODE_SEQ_TWO_COUNTS  24 /* before: a weak pointer to itself, two words */

/* --- layout ---------------------------------------------------------------------------------------- */

_Static_assert(sizeof(classes) / sizeof(*classes) <= FLOW_CLASSES_CNT, "facts have a place for each");

static uint32_t reg_bit(ZydisRegister reg)
{
	ZydisRegister r = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	return r >= ZYDIS_REGISTER_RAX && r <= ZYDIS_REGISTER_R15 ? 1u << (r - ZYDIS_REGISTER_RAX) : 0;
}

/* What is lost to a callee: all but rbx, rsp, rbp, r12 to r15. */
#define KEPT_BY_CALLS 0xf038u

/* One instruction; `holds` are the registers that hold `this`, those after it are returned. */
static uint32_t fields__insn(struct flow_fields *f, const ZydisDecodedInstruction *in, const ZydisDecodedOperand *ops,
			     uint32_t holds)
{
	uint32_t after = in->meta.category == ZYDIS_CATEGORY_CALL ? holds & KEPT_BY_CALLS : holds;
	int is_copy = in->mnemonic == ZYDIS_MNEMONIC_MOV && ops[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		      ops[1].size == 64 && (reg_bit(ops[1].reg.value) & holds);

	for (int i = 0; i < in->operand_count; i++) {
		const ZydisDecodedOperand *o = &ops[i];
		int64_t at;

		if (o->type == ZYDIS_OPERAND_TYPE_REGISTER && (o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)) {
			after &= ~reg_bit(o->reg.value);
			if (is_copy && i == 0)
				after |= reg_bit(o->reg.value);
		}
		if (o->type != ZYDIS_OPERAND_TYPE_MEMORY || o->mem.index != ZYDIS_REGISTER_NONE ||
		    !(reg_bit(o->mem.base) & holds))
			continue;
		at = o->mem.disp.value;
		if (f->first < 0)
			f->first = at;
		if (at >= 0 && at < FLOW_FIELDS_BYTES)
			f->bytes[at] |= (uint8_t)(o->size / 8);
	}
	return after;
}

/* Along the code as it lies, branches not taken, at most `max` instructions. */
static void find_fields(const struct elf *e, const char *symbol, ZydisRegister this, int max, struct flow_fields *ret)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction in;
	uint32_t holds = reg_bit(this);
	const uint8_t *code;
	struct elf_sym sym;
	ZydisDecoder dec;
	size_t len, at = 0;

	*ret = (struct flow_fields){ .first = -1 };
	if (elf__find_symbol(e, symbol, &sym) < 0 || sym.type != STT_FUNC || !sym.is_exec)
		return;
	code = elf__code(e, &sym, &len);
	if (!code || !ZYAN_SUCCESS(ZydisDecoderInit(&dec, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)))
		return;
	if (sym.size && len > sym.size)
		len = sym.size;
	for (int n = 0; n < max && at < len && holds; n++, at += in.length) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&dec, code + at, len - at, &in, ops)))
			return;
		holds = fields__insn(ret, &in, ops, holds);
	}
}

/* Displacement of the first memory operand relative to `this`; -1: none. */
static int64_t first_field(const struct elf *e, const char *symbol, ZydisRegister this, int max)
{
	struct flow_fields f;

	find_fields(e, symbol, this, max, &f);
	return f.first;
}

/* --- classes -------------------------------------------------------------------------------------------
 */

static int add_class(struct plan *p, uint64_t addr, enum mt_class class)
{
	struct flow_vtable *v;

	if (p->flow_vtables_cnt == CLASSES_MAX)
		return 0;
	v = realloc(p->flow_vtables, (p->flow_vtables_cnt + 1) * sizeof(*v));
	if (!v)
		return -ENOMEM;
	p->flow_vtables = v;
	v[p->flow_vtables_cnt++] = (struct flow_vtable){ addr, class };
	return 0;
}

/* Which optional the operators' signatures name. */
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

struct begin {
	struct builder *b;
	int has_base, has_storage; /* vtables of c10::TensorImpl, c10::StorageImpl */
	int64_t storage, meta, variable; /* fields of TensorImpl and AccumulateGrad */
	struct flow_fields resized; /* fields of StorageImpl that are touched when it is resized */
	int has_old_strings;
};

static const struct flow_layout *find_layout(const struct begin *g)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++)
		if (layouts[i].layout.at.impl_storage == g->storage &&
		    layouts[i].layout.at.impl_autograd_meta == g->meta &&
		    (int)layouts[i].optional == g->b->flow_optional)
			return &layouts[i].layout;
	return NULL;
}

static int is_storage_as_in(const struct begin *g, const struct mt_flow_layout *l)
{
	const uint8_t *touched = g->resized.bytes;

	return (touched[l->storage_data] & 8) && (touched[l->storage_size] & 8) && (touched[l->storage_dev] & 1) &&
	       (touched[l->storage_dev + 1] & 1);
}

/* The layout into the plan, or why there is none. */
static const char *choose_layout(const struct begin *g, struct flow_layout *ret)
{
	const struct flow_layout *l = find_layout(g);

	if (!l)
		return "c10::TensorImpl is as in no version of PyTorch that is known";
	if (!g->has_storage)
		return "no library exports c10::StorageImpl";
	if (!is_storage_as_in(g, &l->at))
		return "c10::StorageImpl is as in no version of PyTorch that is known";
	if (g->variable < 64 || g->variable > 4096 || g->variable % 8)
		return "where AccumulateGrad keeps its variable is not to be seen";
	*ret = *l;
	ret->at.acc_variable = (uint16_t)g->variable;
	ret->node_seq = g->variable == NODE_BYTES_ONE_COUNT ? NODE_SEQ_ONE_COUNT : NODE_SEQ_TWO_COUNTS;
	if (g->has_old_strings)
		ret->at.meta_grad -= NAME_SHORTER;
	return NULL;
}

void flow__facts(struct flow_facts *ret, const struct elf *e, const struct lib *lib)
{
	struct elf_sym name;

	*ret = (struct flow_facts){ .storage = -1, .meta = -1, .variable = -1, .optional = -1, .resized = { .first = -1 } };
	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++) {
		struct elf_sym sym;

		if (elf__find_symbol(e, classes[i].symbol, &sym) < 0 || sym.type != STT_OBJECT)
			continue;
		ret->has_class |= 1u << i;
		ret->classes[i] = sym.vaddr;
		if (classes[i].class != MT_CLASS_PLAIN)
			continue;
		ret->storage = first_field(e, "_ZNK3c1010TensorImpl11has_storageEv", ZYDIS_REGISTER_RDI, ACCESSOR_INSNS);
		ret->meta = first_field(e, "_ZNK3c1010TensorImpl13autograd_metaEv", ZYDIS_REGISTER_RDI, ACCESSOR_INSNS);
	}
	if (!strstr(lib->base, "torch_cpu") && !lib->is_exe)
		return;
	elf__each_symbol(e, find_optional, &ret->optional);
	find_fields(e, "_ZN2at6native16resize_bytes_cpuEPN3c1011StorageImplEm", ZYDIS_REGISTER_RDI, RESIZE_INSNS,
		    &ret->resized);
	ret->variable = first_field(e, ACC_APPLY, ZYDIS_REGISTER_RSI, ACC_INSNS);
	ret->has_old_strings = elf__find_symbol(e, NAME_OLD, &name) == 0;
}

/* What a file says, at its place in this process. */
static int begin_lib(struct begin *g, const struct lib *lib, const struct file_facts *file)
{
	const struct flow_facts *f = &file->flow;
	uint64_t bias;

	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++) {
		int r;

		if (!(f->has_class >> i & 1) || elf_layout__bias(&file->code, lib->exec_start, lib->exec_off, &bias) < 0)
			continue;
		/* objects point behind the two words that open a vtable */
		r = add_class(g->b->plan, bias + f->classes[i] + 16, classes[i].class);
		if (r < 0)
			return r;
		if (classes[i].class == MT_CLASS_PLAIN) {
			g->has_base = 1;
			g->storage = f->storage;
			g->meta = f->meta;
		}
		g->has_storage |= classes[i].class == MT_CLASS_STORAGE;
	}
	if (f->optional >= 0)
		g->b->flow_optional = f->optional;
	if (g->resized.first < 0)
		g->resized = f->resized;
	if (g->variable < 0)
		g->variable = f->variable;
	g->has_old_strings |= f->has_old_strings;
	return 0;
}

/* A library of such a name is mapped; is_new: since the last plan. */
static int is_there(const struct builder *b, const char *name, int is_new)
{
	const struct lib *libs;
	size_t cnt = target__libs(b->target, &libs);

	for (size_t i = 0; i < cnt; i++)
		if (strstr(libs[i].base, name) && (!is_new || libs[i].is_new))
			return 1;
	return 0;
}

static void refuse(struct builder *b, const char *why)
{
	builder__note(b, "tensor layout unknown: %s; operators are traced without their tensors (ops for flow)",
		      why);
	b->sources = (b->sources & ~(unsigned)SRC_FLOW) | SRC_OPS;
	b->plan->flow_layout = (struct flow_layout){ 0 };
	b->plan->flow_vtables_cnt = 0;
}

int flow__begin(struct builder *b, struct err *err)
{
	const struct lib *libs;
	size_t cnt = target__libs(b->target, &libs);
	struct begin g = { .b = b, .storage = -1, .meta = -1, .variable = -1, .resized = { .first = -1 } };
	const char *why;

	for (size_t i = 0; i < cnt; i++) {
		const struct file_facts *file = builder__facts(b, &libs[i]);

		/* why there is none is said when its sites are planned */
		if (file && begin_lib(&g, &libs[i], file) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	}
	/* the loader maps libtorch_cpu before the libc10 that it needs: no code of either has run yet */
	b->flow_waits = !g.has_base && !is_there(b, "libc10", 0);
	b->flow_late = is_there(b, "libc10", 1);
	if (!g.has_base && !b->flow_waits && is_there(b, "libtorch_cpu", 0))
		refuse(b, "no library exports c10::TensorImpl");
	if (!g.has_base || (!is_there(b, "libtorch_cpu", 0) && g.resized.first < 0))
		return 0;
	why = choose_layout(&g, &b->plan->flow_layout);
	if (why)
		refuse(b, why);
	return 0;
}

/* --- specs ---------------------------------------------------------------------------------------------
 */

static uint32_t spec_hash(const struct mt_flow_spec *s)
{
	return (uint32_t)hash_bytes(s, sizeof(*s));
}

static int add_spec(struct plan *p, const struct mt_flow_spec *s)
{
	if (p->flow_specs_cnt % 256 == 0) {
		struct mt_flow_spec *specs = realloc(p->flow_specs, (p->flow_specs_cnt + 256) * sizeof(*specs));

		if (!specs)
			return -ENOMEM;
		p->flow_specs = specs;
	}
	p->flow_specs[p->flow_specs_cnt++] = *s;
	return 0;
}

int flow__intern_spec(struct builder *b, const struct mt_flow_spec *s)
{
	struct plan *p = b->plan;
	uint32_t at = spec_hash(s) & (SLOTS - 1);

	if (!b->flow_slots)
		b->flow_slots = calloc(SLOTS, sizeof(*b->flow_slots));
	if (!b->flow_slots)
		return -ENOMEM;
	for (; b->flow_slots[at]; at = (at + 1) & (SLOTS - 1))
		if (!memcmp(&p->flow_specs[b->flow_slots[at] - 1], s, sizeof(*s)))
			return b->flow_slots[at] - 1;
	if (p->flow_specs_cnt == MT_FLOW_SPECS_MAX)
		return -ENOSPC;
	if (add_spec(p, s) < 0)
		return -ENOMEM;
	b->flow_slots[at] = (uint16_t)p->flow_specs_cnt;
	return (int)p->flow_specs_cnt - 1;
}

/* What is known of an argument from elsewhere need not be read again; names and writes are news each time. */
static void mark_once(struct mt_flow_spec *spec)
{
	for (uint32_t i = 0; i < spec->args_cnt; i++)
		if (!(spec->args[i].flags & (MT_FLOW_F_WRITTEN | MT_FLOW_F_WEIGHT | MT_FLOW_F_RUNNING)))
			spec->args[i].flags |= MT_FLOW_F_ONCE;
}

int flow__spec(struct builder *b, const char *mangled, const struct schema *s, int is_always_read)
{
	struct mt_flow_spec spec = { 0 };
	int r;

	if (!b->plan->flow_specs_cnt) { /* number 0 is the empty one: what is not understood */
		r = flow__intern_spec(b, &spec);
		if (r < 0)
			return r;
	}
	r = s ? callconv__spec(mangled, s, (enum callconv_optional)b->flow_optional, &spec) : -EPROTO;
	if (r == 0 && !is_always_read)
		mark_once(&spec);
	if (r == 0)
		r = flow__intern_spec(b, &spec);
	if (r >= 0 || r == -ENOMEM)
		return r;
	b->plan->flow_args_unread++;
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Boxed calls: operators that are called by their handle, with their arguments on a stack of c10::IValues (torch.ops, custom
 * operators, kernels that inductor falls back on, TorchScript). They bypass at::_ops; the probe is on torch::jit::Operator's
 * function, which all of them pass (user/plan/boxed.c):
 *
 *	_M_invoke(std::_Any_data const &{OperatorHandle *}, std::vector<IValue> &)
 *
 * An operator of Python's that Python calls may pass pyobject_dispatch_vectorcall(PyObject *self, …) instead.
 *
 * The operator's FunctionSchema has its name, its number of arguments, and which of them it writes. The layout has the
 * places of its fields, and their values must fit: the schema begins with the operator's name, arguments are a whole number
 * of structs, no more than there are values, and a short name lies in its struct. A call that does not fit is an operator by
 * its name, without tensors, and counted.
 *
 * Kernel 6.1 allows the stacks of a chain of calls 512 bytes together, and reading a tensor has 192: code before it, or
 * instead of it, is in functions of its own, whose stacks are free again then.
 */
#include "lib/flow.h"
#include "lib/region.h"
#include "memtrace/arg_names.h"

#define PYTHON_HANDLE 32 /* of torch's PyObjectDispatchFunc: behind PyObject and two callables, a pointer (2.15) */
#define ARGS_MAX 64 /* user/plan/schema.h; 26 is the most in torch 2.13 */
/* profiler::_record_function_enter_new(str name, str? args=None), profiler::_record_function_exit: regions, not operators */
#define PROFILER 0x72656c69666f7270ull
#define ENTER_NEW 0x77656e5f7265746eull /* "nter_new" */
#define EXIT 0x746978655f6e6f69ull	/* "ion_exit" */

/* A std::string of the C++11 ABI. */
struct cxx_string {
	u64 at, bytes;
	union {
		char text[MT_ARG_NAME_BYTES];
		u64 words[MT_ARG_NAME_BYTES / 8];
	} own;
};

#define ITEM(name) { .text = name },
static const union {
	char text[MT_ARG_NAME_BYTES];
	u64 words[MT_ARG_NAME_BYTES / 8];
} weights[] = { MT_ARG_WEIGHTS(ITEM) }, running[] = { MT_ARG_RUNNING(ITEM) };
#undef ITEM
#define COUNT(a) (sizeof(a) / sizeof(*(a)))

static __always_inline int read_words(u64 *to, u64 from, u32 bytes)
{
	if (!bpf_probe_read_user(to, bytes, (void *)from))
		return 0;
	loss_count(MT_LOSS_READ_FAULT);
	return -1;
}

/* What an argument is, by its name; each of these names is short enough to lie in the string itself. */
static __always_inline u32 flags_of_name(const struct cxx_string *name)
{
	u64 lo = name->own.words[0], hi = name->own.words[1];
	u32 len = name->bytes & 15;

	/* behind its end there may be anything */
	if (len < 8) {
		lo &= (1ull << 8 * len) - 1;
		hi = 0;
	} else {
		hi &= (1ull << 8 * (len - 8)) - 1;
	}
	for (u32 i = 0; i < COUNT(running); i++)
		if (running[i].words[0] == lo && running[i].words[1] == hi)
			return MT_FLOW_F_RUNNING;
	for (u32 i = 0; i < COUNT(weights); i++)
		if (weights[i].words[0] == lo && weights[i].words[1] == hi)
			return MT_FLOW_F_WEIGHT;
	return 0;
}

/* Flags of the Argument at `at`; < 0: there is none. */
__noinline int boxed_flags(u32 slot, u64 at)
{
	struct flow_buf *b = flow_buf(slot);
	const struct mt_flow_layout *l;
	struct cxx_string name = {};
	u64 alias = 0;
	u32 flags = MT_FLOW_F_REQUIRED;
	u8 is_written = 0;

	if (!b)
		return -1;
	l = layout_of(b);
	if (bpf_probe_read_user(&name, sizeof(name), (void *)at) || read_words(&alias, at + l->arg_alias, sizeof(alias)))
		return -1;
	if ((name.bytes < MT_ARG_NAME_BYTES) != (name.at == at + 16))
		return -1;
	if (alias && bpf_probe_read_user(&is_written, 1, (void *)(alias + l->alias_write)))
		return -1;
	if (alias)
		flags |= is_written ? MT_FLOW_F_WRITTEN : MT_FLOW_F_ALIAS;
	if (name.bytes < MT_ARG_NAME_BYTES)
		flags |= flags_of_name(&name);
	if (!(flags & (MT_FLOW_F_WRITTEN | MT_FLOW_F_WEIGHT | MT_FLOW_F_RUNNING)))
		flags |= MT_FLOW_F_ONCE;
	return flags;
}

struct boxed_list {
	u64 at; /* the first IValue */
	u32 slot, meta;
};

/* A list has values of one kind: tensors, tensors or none, or something else. */
static long boxed_item(u32 i, struct boxed_list *l)
{
	u64 iv[2] = {};

	if (read_words(iv, l->at + (u64)i * IVALUE_BYTES, sizeof(iv)))
		return 1;
	if ((u32)iv[1] == IVALUE_TENSOR)
		flow_tensor(l->slot, iv[0], l->meta | i << 16);
	else if ((u32)iv[1])
		return 1;
	return 0;
}

/* The c10::detail::ListImpl at `list`. */
__noinline int boxed_tensors(u32 slot, u64 list, u32 meta)
{
	struct boxed_list l = { .slot = slot, .meta = meta };
	struct flow_buf *b = flow_buf(slot);
	u64 range[2] = {}, cnt;

	if (!b || read_words(range, list + layout_of(b)->list_begin, sizeof(range)) || range[1] <= range[0])
		return 0;
	cnt = (range[1] - range[0]) / IVALUE_BYTES;
	if (cnt > MT_FLOW_ARGS_MAX) {
		b->rec.cut++;
		cnt = MT_FLOW_ARGS_MAX;
	}
	l.at = range[0];
	bpf_loop((u32)cnt, boxed_item, &l, 0);
	return 0;
}

/* Argument i, if it is a tensor or a list. 1: not as expected, and nothing more is read. */
__noinline int boxed_arg(u32 slot, u32 i)
{
	struct flow_buf *b = flow_buf(slot);
	u64 iv[2] = {};
	u32 tag;
	int flags;

	if (!b || read_words(iv, b->boxed.values + (u64)i * IVALUE_BYTES, sizeof(iv)))
		return 1;
	tag = iv[1];
	if (tag != IVALUE_TENSOR && tag != layout_of(b)->list_tag)
		return 0;
	flags = boxed_flags(slot, b->boxed.args + (u64)i * layout_of(b)->arg_bytes);
	if (flags < 0) {
		loss_count(MT_LOSS_ARGS);
		return 1;
	}
	if (tag == IVALUE_TENSOR)
		flow_tensor(slot, iv[0], i | (u32)flags << 8);
	else
		boxed_tensors(slot, iv[0], i | (u32)flags << 8);
	return 0;
}

static long boxed_arg_at(u32 i, u32 *slot)
{
	/* the verifier does not know what a global function returns; the compiler does, and would leave the comparison out */
	volatile int is_over = boxed_arg(*slot, i);

	return is_over ? 1 : 0;
}

/* Where the arguments of the call are; 0: not as expected. */
static __always_inline u32 boxed_values(struct flow_boxed *x, const struct mt_flow_layout *l, u64 schema, u64 stack)
{
	u64 args[2] = {}, values[2] = {}, cnt;

	if (!l->arg_bytes || read_words(args, schema + l->schema_args, sizeof(args)) ||
	    read_words(values, stack, sizeof(values)) || args[1] < args[0])
		return 0;
	cnt = (args[1] - args[0]) / l->arg_bytes;
	if (cnt > ARGS_MAX || cnt * l->arg_bytes != args[1] - args[0] || values[1] < values[0] ||
	    cnt * IVALUE_BYTES > values[1] - values[0])
		return 0;
	x->args = args[0];
	x->values = values[1] - cnt * IVALUE_BYTES; /* the last ones */
	x->cnt = cnt;
	return 1;
}

/* The operator that `handle` is of, into the buffer; stack 0: without arguments. 0: it has no name. */
__noinline int boxed_operator(u32 slot, u64 handle, u64 stack)
{
	struct flow_buf *b = flow_buf(slot);
	const struct mt_flow_layout *l;
	u64 op = 0, name[2] = {}, same[2] = {}, word[2] = {};

	if (!b)
		return 0;
	l = layout_of(b);
	b->boxed.cnt = 0;
	if (read_words(&op, handle, sizeof(op)) || read_words(name, op, sizeof(name)) || !name[1] ||
	    read_words(&word[0], name[0], sizeof(word[0])))
		return 0;
	b->boxed.name = name[0];
	b->boxed.name_bytes = name[1];
	b->boxed.name_word = word[0];
	if (read_words(same, op + l->schema, sizeof(same)) || read_words(&word[1], same[0], sizeof(word[1])) ||
	    same[1] != name[1] || word[0] != word[1]) {
		loss_count(MT_LOSS_ARGS);
		return stack != 0; /* of the dispatcher's calls the name is sure */
	}
	if (stack && !boxed_values(&b->boxed, l, op + l->schema, stack))
		loss_count(MT_LOSS_ARGS);
	return 1;
}

/* The name that an IValue at `at` is: a c10::ivalue::ConstantString, which has its std::string where a list has its items. */
static __always_inline void boxed_region_begin(struct mt_thread *t, struct pt_regs *ctx, const struct flow_buf *b)
{
	u64 iv[2] = {}, name[2] = {}, at;

	if (read_words(iv, b->boxed.values, sizeof(iv)))
		return;
	at = iv[0] + layout_of(b)->list_begin;
	if (read_words(name, at, sizeof(name)) || (name[1] < MT_ARG_NAME_BYTES) != (name[0] == at + 16)) {
		loss_count(MT_LOSS_ARGS);
		name[1] = 0;
	}
	region_enter_boxed(t, ctx, name[0], name[1]);
}

/*
 * Python's record_function calls these two through torch.ops. They hit this probe anyway, so it reports the regions, and the
 * functions that only they call need no probes of their own (plan.c).
 */
static __noinline void boxed_region(struct mt_thread *t, struct pt_regs *ctx, const struct flow_buf *b)
{
	u64 end = 0;

	if (b->boxed.name_bytes < 16 || read_words(&end, b->boxed.name + b->boxed.name_bytes - 8, sizeof(end)))
		return;
	if (end == ENTER_NEW && b->boxed.cnt) {
		boxed_region_begin(t, ctx, b);
		t->region_reported |= REGION_BEGUN;
	} else if (end == EXIT) {
		regions_end(t, ctx);
		t->region_reported |= REGION_ENDED;
	}
}

static __noinline u64 boxed_name(struct mt_thread *t, const struct flow_buf *b)
{
	return text_bytes(t, b->boxed.name, b->boxed.name_bytes);
}

static __always_inline void boxed_op(struct mt_thread *t, struct flow_buf *b, u32 slot)
{
	u64 hash = boxed_name(t, b);

	if (!hash)
		return;
	given_begin(b, t);
	bpf_loop(b->boxed.cnt, boxed_arg_at, &slot, 0);
	flow_send(b, t, MT_EV_OP, MT_OP_BY_HASH, hash);
	given_end(b, t);
}

SEC("uprobe")
int mt_flow_boxed(struct pt_regs *ctx)
{
	struct mt_thread *t = thread_get();
	u64 cookie = bpf_get_attach_cookie(ctx), handle = 0, at = arg(ctx, 0), stack = arg(ctx, 1);
	struct flow_buf *b;
	u32 slot = 0;

	if (cookie & MT_BOXED_PYTHON) {
		at += PYTHON_HANDLE;
		stack = 0;
	}
	hit_count(MT_PROG_FLOW_BOXED);
	b = t ? flow_begin(ctx, t, cookie, &slot) : NULL;
	if (!b)
		return 0;
	if (!read_words(&handle, at, sizeof(handle)) && boxed_operator(slot, handle, stack)) {
		if (b->boxed.name_word != PROFILER) {
			if (!is_partial())
				boxed_op(t, b, slot);
		} else if (cookie & MT_BOXED_REGIONS) {
			boxed_region(t, ctx, b);
		}
	}
	flow_end(b, t);
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The source `flow`: which objects are tensors, where their fields are, and the specs of operators' arguments.
 *
 * The place of a field is not recorded in a library, so there is a table of layouts, and the library's own code decides which
 * of them holds: TensorImpl::has_storage() and autograd_meta() are exported functions of one memory operand, the field itself.
 * Both must be where a row of the table has them; reference counts precede them, as in every object of c10 (two words in 1.13,
 * one from 2.4 on at the latest). And the optional that the operators' signatures name must be the row's: torch's own has its
 * flag in front. StorageImpl's fields must be among those that at::native::resize_bytes_cpu uses in its argument: data and size
 * as words, device type and index as bytes. AccumulateGrad's variable follows Node, whose size changes from version to version
 * (392 in 1.13, 472 in 2.4 and 2.8, 464 in 2.13), so it is taken from the code: the first field of the node that
 * AccumulateGrad::apply uses. AutogradMeta's grad follows a std::string, which has 32 bytes, or 8 with the old ABI of PyPI's
 * wheels up to 2.6: the name of Node::name(), which returns one, shows which.
 *
 * A layout that fits no row is refused rather than guessed; `ops` then takes the place of `flow`. Not shown by code are other
 * fields before AutogradMeta's grad (none since 1.13) and a list's items. A wrong place would give no wrong tensor: everything
 * is read only through objects of known classes (bpf/flow.bpf.c), the rest is counted.
 *
 * An object is recognized as a tensor by its vtable pointer: the exported vtables of TensorImpl and its subclasses. Classes
 * that are not exported (the mkldnn tensor) are not read; they have no storage of their own anyway.
 *
 * Libraries are looked at before the sites are planned, since c10's classes and the operators are in different ones; static
 * programs have them in one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/err.h"
#include "base/seed.h"
#include "plan/builder.h"
#include "plan/callconv.h"

#define CLASSES_MAX 256
#define NAME_SHORTER   24 /* std::string of the old ABI */

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

const char *flow_layout_of(const char *version)
{
	unsigned major, minor;

	if (sscanf(version, "%3u.%3u", &major, &minor) != 2)
		return NULL;
	for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
		unsigned from[2], to[2];
		int n = sscanf(layouts[i].layout.torch, "%u.%u to %u.%u", &from[0], &from[1], &to[0], &to[1]);

		if (n == 2)
			memcpy(to, from, sizeof(to));
		if (major * 1000 + minor >= from[0] * 1000 + from[1] && major * 1000 + minor <= to[0] * 1000 + to[1])
			return layouts[i].layout.torch;
	}
	return NULL;
}

char *flow_layouts_words(char *buf, size_t size)
{
	buf[0] = '\0';
	for (size_t i = sizeof(layouts) / sizeof(*layouts); i-- > 0;)
		snprintf(buf + strlen(buf), size - strlen(buf), "%s%s", buf[0] ? ", " : "", layouts[i].layout.torch);
	return buf;
}

/* The beginning of a Node, by its size: AccumulateGrad's own field, its variable, follows directly. */
#define NODE_BYTES_ONE_COUNT 464 /* from 2.9 on: a count of its own */
#define NODE_SEQ_ONE_COUNT   16
#define NODE_SEQ_TWO_COUNTS  24 /* before: a weak pointer to itself, two words */

/* --- classes -------------------------------------------------------------------------------------------
 */

static int add_class(struct plan *p, uint64_t addr, enum mt_class class)
{
	if (p->flow_vtables_cnt == CLASSES_MAX)
		return 0;
	if (!array_has_one_more(p->flow_vtables, p->flow_vtables_cnt))
		return -ENOMEM;
	p->flow_vtables[p->flow_vtables_cnt++] = (struct flow_vtable){ addr, class };
	return 0;
}

struct begin {
	struct builder *b;
	int has_base, has_storage; /* vtables of c10::TensorImpl, c10::StorageImpl */
	int64_t storage, meta, variable; /* fields of TensorImpl and AccumulateGrad */
	struct code_fields resized; /* fields of StorageImpl that are touched when it is resized */
	int has_old_strings;
	struct flow_facts boxed; /* facts of all files about boxed calls and Python's nodes */
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

/* Puts the layout into the plan, or returns why there is none. */
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
	boxed__layout(&g->boxed, &ret->at);
	return NULL;
}

/* Facts of a file, at its place in this process. */
static int begin_lib(struct begin *g, const struct lib *lib, const struct file_facts *file)
{
	const struct flow_facts *f = &file->flow;
	uint64_t bias;

	for (size_t i = 0; i < flow_classes_cnt; i++) {
		int r;

		if (!(f->has_class >> i & 1) || elf_layout__bias(&file->code, lib->exec_start, lib->exec_off, &bias) < 0)
			continue;
		/* objects point past the first two words of a vtable */
		r = add_class(g->b->plan, bias + f->classes[i] + 16, flow_classes[i].class);
		if (r < 0)
			return r;
		if (flow_classes[i].class == MT_CLASS_PLAIN) {
			g->has_base = 1;
			g->storage = f->storage;
			g->meta = f->meta;
		}
		g->has_storage |= flow_classes[i].class == MT_CLASS_STORAGE;
	}
	if (f->py_node && elf_layout__bias(&file->code, lib->exec_start, lib->exec_off, &bias) == 0) {
		if (add_class(g->b->plan, bias + f->py_node + 16, MT_CLASS_PY_NODE) < 0)
			return -ENOMEM;
		g->boxed.py_node_object = f->py_node_object;
		g->boxed.node_saved = f->node_saved;
		g->boxed.saved_bytes = f->saved_bytes;
	}
	g->boxed.has_schemas |= f->has_schemas;
	if (f->list_tag >= 0)
		g->boxed.list_tag = f->list_tag;
	if (f->optional >= 0)
		g->b->flow_optional = f->optional;
	if (g->resized.first < 0)
		g->resized = f->resized;
	if (g->variable < 0)
		g->variable = f->variable;
	g->has_old_strings |= f->has_old_strings;
	return 0;
}

/* Is a library of that name mapped; is_new: since the last plan? */
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
	struct begin g = { .b = b, .storage = -1, .meta = -1, .variable = -1, .resized = { .first = -1 },
			   .boxed = { .list_tag = -1, .py_node_object = -1 } };
	const char *why;

	for (size_t i = 0; i < cnt; i++) {
		const struct file_facts *file = builder__facts(b, &libs[i]);

		/* the reason for a missing file is noted when its sites are planned */
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
	else if (!b->plan->flow_layout.at.arg_bytes)
		builder__note(b, "c10::FunctionSchema is as in no version of PyTorch that is known: what torch.ops calls is no "
				 "operator");
	return 0;
}

/* --- specs ---------------------------------------------------------------------------------------------
 */

int flow__intern_spec(struct builder *b, const struct mt_flow_spec *s)
{
	struct plan *p = b->plan;
	uint64_t hash = hash_bytes(s, sizeof(*s));
	uint32_t at = index_find(&b->by_flow_spec, hash, i, !memcmp(&p->flow_specs[i], s, sizeof(*s)));

	if (at != INDEX_NONE)
		return (int)at;
	if (p->flow_specs_cnt == MT_FLOW_SPECS_MAX)
		return -ENOSPC;
	if ((p->flow_specs_cnt % 256 == 0 && !array_resized(p->flow_specs, p->flow_specs_cnt + 256)) ||
	    index__add(&b->by_flow_spec, hash, (uint32_t)p->flow_specs_cnt) < 0)
		return -ENOMEM;
	p->flow_specs[p->flow_specs_cnt++] = *s;
	return (int)p->flow_specs_cnt - 1;
}

/* An argument known from elsewhere need not be read again; names and writes are new at each call. */
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

	if (!b->plan->flow_specs_cnt) { /* number 0 is the empty one, for signatures that are not understood */
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

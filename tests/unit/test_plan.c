/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Plans of real processes: a stand-in for the framework's libraries (same exported names, same schema
 * text in .rodata) that this test loads into itself, allocators, static programs, USDT programs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <dlfcn.h>
#include <errno.h>

#include <cmocka.h>

#include "base/err.h"
#include "plan/plan.h"
#include "plan/schema.h"
#include "plan/usdt.h"
#include "target/target.h"
#include "unit/fixture.h"

/* --- options ------------------------------------------------------------------------------------------ */

static void parses_sources(void **state)
{
	struct err err = { 0 };
	unsigned mask = 7;

	(void)state;
	assert_int_equal(sources_parse("framework,ops", &mask, NULL), 0);
	assert_int_equal(mask, SRC_FRAMEWORK | SRC_OPS);
	assert_int_equal(sources_parse("host", &mask, NULL), 0);
	assert_int_equal(mask, SRC_HOST);
	assert_int_equal(sources_parse("segments,framework,regions,usdt,kernel,host,ops,views,flow", &mask, NULL), 0);
	assert_int_equal(mask, SRC_ALL);
	assert_int_equal(sources_parse("", &mask, &err), -EINVAL);
	assert_int_equal(sources_parse("ops,", &mask, &err), -EINVAL);
	assert_int_equal(sources_parse("frame", &mask, &err), -EINVAL);
	assert_true(strstr(err.msg, "frame") && strstr(err.hint, "framework"));
	assert_int_equal(mask, SRC_ALL); /* untouched */
	for (unsigned bit = 1; bit & SRC_ALL; bit <<= 1) {
		assert_int_equal(sources_parse(source_name((enum source)bit), &mask, NULL), 0);
		assert_int_equal(mask, bit);
	}
}

static void parses_usdt_patterns(void **state)
{
	static const struct {
		const char *text;
		int r;
		uint8_t kind;
		int8_t ptr, size, device, name;
	} cases[] = {
		{ "lib:got:0=ptr,1=size", 0, MT_EV_ALLOC, 0, 1, -1, -1 },
		{ "lib:got:2=device,0=ptr,1=size,event=alloc", 0, MT_EV_ALLOC, 0, 1, 2, -1 },
		{ "lib:gone:3=ptr", 0, MT_EV_FREE, 3, -1, -1, -1 },
		{ "lib:in:0=name", 0, MT_EV_REGION_BEGIN, -1, -1, -1, 0 },
		{ "lib:in:event=op_begin,0=name", 0, MT_EV_OP_BEGIN, -1, -1, -1, 0 },
		{ "lib:out:event=op_end", 0, MT_EV_OP_END, -1, -1, -1, -1 },
		{ "lib:t:1=step", 0, MT_EV_STEP, 1, -1, -1, -1 },
		{ "lib:t:0=ptr,1=name", 0, MT_EV_TAG, 0, -1, -1, 1 },
		{ "memtrace:alloc", 0, MT_EV_ALLOC, 0, 1, 2, -1 },
		{ "pytorch:malloc", 0, MT_EV_REQUEST, 0, 2, 1, 3 },
		{ "pytorch:free", 0, MT_EV_REQUEST_FREE, 0, -1, -1, -1 },
		{ "python:function__entry", 0, MT_EV_OP_BEGIN, -1, -1, -1, 1 },
		{ "python:function__entry:0=name,event=region_begin", 0, MT_EV_REGION_BEGIN, -1, -1, -1,
		  0 },
		{ "python:function__return", 0, MT_EV_OP_END, -1, -1, -1, -1 },
		{ "lib", -EINVAL },
		{ "lib:", -EINVAL },
		{ ":x", -EINVAL },
		{ "", -EINVAL },
		{ "lib:x", -EINVAL },
		{ "lib:x:", -EINVAL },
		{ "lib:x:0", -EINVAL },
		{ "lib:x:0=", -EINVAL },
		{ "lib:x:=ptr", -EINVAL },
		{ "lib:x:-1=ptr", -EINVAL },
		{ "lib:x:12=ptr", -EINVAL },
		{ "lib:x:99999999999999999999=ptr", -EINVAL },
		{ "lib:x:a=ptr", -EINVAL },
		{ "lib:x:0=length", -EINVAL },
		{ "lib:x:0=ptr,1=ptr", -EINVAL },
		{ "lib:x:0=ptr,event=alloc", -EINVAL },
		{ "lib:x:0=size", -EINVAL },
		{ "lib:x:event=tag,0=ptr", -EINVAL },
		{ "lib:x:event=explode", -EINVAL },
		{ "lib:x:0=step,event=free", -EINVAL },
		{ "a123456789012345678901234567890123456789012345678901234567890123:x:0=ptr", -EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct usdt_pattern p = { 0 };
		struct err err = { 0 };
		int r = usdt_pattern_parse(cases[i].text, &p, &err);

		if (r != cases[i].r)
			fail_msg("%s: %d %s", cases[i].text, r, err.msg);
		if (r < 0 && (!strstr(err.msg, "--usdt") || !strstr(err.hint, "PROVIDER:NAME")))
			fail_msg("%s teaches nothing: %s", cases[i].text, err.msg);
		if (r == 0 &&
		    (p.kind != cases[i].kind || p.ptr != cases[i].ptr || p.size != cases[i].size ||
		     p.device != cases[i].device || p.text != cases[i].name || !p.is_users))
			fail_msg("%s: kind %d ptr %d size %d device %d name %d", cases[i].text, p.kind,
				 p.ptr, p.size, p.device, p.text);
	}
}

/* --- schemas -------------------------------------------------------------------------------------------
 */

static int text_is(struct schema_text t, const char *want)
{
	return t.len == strlen(want) && !memcmp(t.at, want, t.len);
}

static void parses_schemas(void **state)
{
	static const char add[] = "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor";
	static const char hard[] = "aten::_test(Tensor(a!) self, str a=\"\\\"'\\\\),(\", int[2] x=[0,1], "
				   "Tensor?[] list=[]) -> (Tensor(a!), int[] n)";
	struct schema s;

	(void)state;
	assert_int_equal(schema_parse(add, sizeof(add) - 1, &s), 0);
	assert_true(text_is(s.name, "add") && text_is(s.overload, "Tensor") && !s.ns.len);
	assert_int_equal(s.args_cnt, 3);
	assert_int_equal(s.rets_cnt, 1);
	assert_true(text_is(s.args[2].name, "alpha") && text_is(s.args[2].type, "Scalar"));
	assert_true(s.args[0].is_tensor && !s.args[0].is_kwarg_only && s.args[2].is_kwarg_only);
	assert_true(!s.args[0].is_written && !s.rets[0].is_alias && schema__effect(&s) == SCHEMA_TOUCHES);

	assert_int_equal(schema_parse(hard, sizeof(hard) - 1, &s), 0);
	assert_true(text_is(s.ns, "aten") && text_is(s.name, "_test") && !s.overload.len);
	assert_int_equal(s.args_cnt, 4);
	assert_true(s.args[0].is_written && s.args[0].is_alias);
	assert_true(text_is(s.args[1].name, "a") && text_is(s.args[2].name, "x") &&
		    text_is(s.args[3].name, "list"));
	assert_true(s.args[3].is_tensor && s.args[3].is_list && s.args[3].is_optional &&
		    !s.args[3].is_written);
	assert_int_equal(s.rets_cnt, 2);
	assert_true(s.rets[0].is_written && text_is(s.rets[1].name, "n") && !s.rets[1].is_tensor);
}

static void tells_effects(void **state)
{
	static const struct {
		const char *text;
		enum schema_effect effect;
	} cases[] = {
		{ "size.int(Tensor self, int dim) -> int", SCHEMA_NONE },
		{ "is_same_size(Tensor self, Tensor other) -> bool", SCHEMA_NONE },
		{ "stride(Tensor self) -> int[]", SCHEMA_NONE },
		{ "zero(Tensor self) -> Tensor", SCHEMA_TOUCHES },
		{ "view(Tensor(a) self, SymInt[] size) -> Tensor(a)", SCHEMA_VIEWS },
		{ "_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()", SCHEMA_TOUCHES },
		{ "split(Tensor(a -> *) self, int n) -> Tensor(a)[]", SCHEMA_VIEWS },
		{ "_assert_async(Tensor self) -> ()", SCHEMA_NONE },
		{ "topk(Tensor self) -> (Tensor values, Tensor indices)", SCHEMA_TOUCHES },
		{ "both(Tensor(a) self) -> (Tensor(a), Tensor)", SCHEMA_TOUCHES },
		{ "add_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", SCHEMA_TOUCHES },
		{ "item(Tensor self) -> Scalar", SCHEMA_NONE },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct schema s;

		if (schema_parse(cases[i].text, strlen(cases[i].text), &s) < 0 ||
		    schema__effect(&s) != cases[i].effect)
			fail_msg("%s", cases[i].text);
	}
}

static void refuses_what_is_no_schema(void **state)
{
	static const char *const texts[] = {
		"",
		"add",
		"(Tensor a) -> Tensor",
		"add(Tensor a)",
		"add(Tensor a) ->",
		"add(Tensor) -> Tensor",
		"add(Tensor a -> Tensor",
		"add(str a=\") -> Tensor",
		"a b(int c) -> int",
		"a.b.c(int d) -> int",
		"a::b::c(int d) -> int",
		"a:b(int c) -> int",
		"add(int a,) -> int",
		"add(int a]) -> int",
		"add(int a) -> ",
	};
	struct schema s;
	char many[4200];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (schema_parse(texts[i], strlen(texts[i]), &s) != -EINVAL)
			fail_msg("%s", texts[i]);
	strcpy(many, "f(");
	for (int i = 0; i <= SCHEMA_ARGS_MAX; i++)
		strcat(many, i ? ", int a" : "int a");
	strcat(many, ") -> int");
	assert_int_equal(schema_parse(many, strlen(many), &s), -EINVAL);
}

static void indexes_schemas(void **state)
{
	static const char data[] =
		"rubbish\0not a schema) -> \0"
		"aten::mul.Tensor(Tensor a) -> int\0mul.Tensor(Tensor a) -> Tensor\0"
		"rr_(Tensor(a!) x, Tensor y) -> Tensor(a!)\0"
		"rr_(Tensor(a!) x, Tensor(b!) y) -> Tensor(a!)\0"
		"quantized::mul.Tensor(Tensor a) -> Tensor\0aten::old(Tensor a) -> Tensor\0"
		"cut(Tensor a) -> Ten";
	static const char merged[] =
		"special_erf.out(Tensor a, *, Tensor(a!) out) -> Tensor(a!)\0"
		"other_erf.out(Tensor a, *, Tensor(a!) out) -> Tensor(a!)\0"
		"a_drop(Tensor a) -> Tensor\0b_drop(Tensor a) -> int\0";
	struct schema_index *x = schema_index__new((const uint8_t *)data, sizeof(data) - 1);
	struct schema_text t;

	(void)state;
	assert_non_null(x);
	assert_int_equal(schema_index__cnt(x), 5);
	assert_int_equal(schema_index__find(x, "mul_Tensor", 10, &t), 0);
	assert_true(text_is(t, "mul.Tensor(Tensor a) -> Tensor")); /* rather than the aten:: copy */
	assert_int_equal(schema_index__find(x, "rr_", 3, &t), 0);
	assert_true(
		text_is(t, "rr_(Tensor(a!) x, Tensor(b!) y) -> Tensor(a!)")); /* the one that says more */
	assert_int_equal(schema_index__find(x, "old", 3, &t), 0);
	assert_int_equal(schema_index__find(x, "mul", 3, &t), -ENOENT);
	assert_int_equal(schema_index__find(x, "cut", 3, &t), -ENOENT);
	assert_int_equal(schema_index__find(x, "", 0, &t), -ENOENT);
	schema_index__free(x);
	/* merged by the linker into the end of a longer text; two ends that differ are no answer */
	x = schema_index__new((const uint8_t *)merged, sizeof(merged) - 1);
	assert_int_equal(schema_index__find(x, "erf_out", 7, &t), 0);
	assert_true(text_is(t, "erf.out(Tensor a, *, Tensor(a!) out) -> Tensor(a!)"));
	assert_int_equal(schema_index__find(x, "drop", 4, &t), -ENOENT);
	assert_int_equal(schema_index__find(x, "", 0, &t), -ENOENT);
	schema_index__free(x);
	x = schema_index__new((const uint8_t *)data, 0);
	assert_int_equal(schema_index__cnt(x), 0);
	assert_int_equal(schema_index__find(x, "mul", 3, &t), -ENOENT);
	schema_index__free(x);
}

/* Texts inside others, and code at 0x1000 that names two of them; the data is at 0x100. */
static const char texts_inside[] =
	"a_drop(Tensor a) -> Tensor\0b_drop(Tensor[] a) -> int\0"
	"_unsafe_put(Tensor?[] a) -> Tensor\0aten::put(Tensor[] a) -> Tensor\0"
	"view_as_real(Tensor(a) a) -> Tensor(a)\0isreal(Tensor a) -> Tensor\0"
	"own(Tensor a) -> Tensor\0their_own(Tensor[] a) -> Tensor\0cut(Tensor a) -> Ten";

struct registering {
	uint8_t code[64];
	size_t len;
	unsigned asked;
};

static void lea(struct registering *g, const char *text, uint8_t rex, uint8_t modrm)
{
	const char *at = memmem(texts_inside, sizeof(texts_inside), text, strlen(text));
	int32_t disp = (int32_t)(0x100 + (at - texts_inside) - (0x1000 + (long)g->len + 7));

	memcpy(g->code + g->len, (uint8_t[]){ rex, 0x8d, modrm }, 3);
	memcpy(g->code + g->len + 3, &disp, sizeof(disp));
	g->len += 7;
	g->code[g->len++] = 0x90;
}

static int registering(void *ctx, struct schema_code *ret)
{
	struct registering *g = ctx;

	g->asked++;
	*ret = (struct schema_code){ g->code, g->len, 0x1000, 0x100 };
	return g->len ? 0 : -ENOENT;
}

static void check_found(struct schema_index *x, const char *op, const char *want)
{
	struct schema_text t = { NULL, 0 };

	assert_int_equal(schema_index__find(x, op, strlen(op), &t), want ? 0 : -ENOENT);
	if (want)
		assert_true(text_is(t, want));
}

/* Which of several texts that end alike an operator has says the code that registers it. */
static void asks_the_code(void **state)
{
	struct registering g = { .len = 0 };
	struct schema_index *x = schema_index__new((const uint8_t *)texts_inside, sizeof(texts_inside) - 1);

	(void)state;
	lea(&g, "drop(Tensor[]", 0x48, 0x35);
	lea(&g, "put(Tensor?[]", 0x4c, 0x05);
	lea(&g, "own(Tensor[]", 0x48, 0x35);
	lea(&g, "real(Tensor(a)", 0x48, 0x75); /* of another form: 8 bits behind a register */
	lea(&g, "cut(", 0x48, 0x35);	       /* a text without an end */
	schema_index__when_in_doubt(x, registering, &g);
	check_found(x, "own", "own(Tensor a) -> Tensor"); /* stands alone: no doubt */
	assert_int_equal(g.asked, 0);
	check_found(x, "drop", "drop(Tensor[] a) -> int");
	check_found(x, "put", "put(Tensor?[] a) -> Tensor"); /* the older copy is another one's */
	check_found(x, "real", NULL);
	check_found(x, "cut", NULL);
	assert_int_equal(g.asked, 1);
	schema_index__free(x);

	/* nobody who knows: an older copy, and no end that two differ in */
	g.len = 0;
	x = schema_index__new((const uint8_t *)texts_inside, sizeof(texts_inside) - 1);
	schema_index__when_in_doubt(x, registering, &g);
	check_found(x, "put", "aten::put(Tensor[] a) -> Tensor");
	check_found(x, "drop", NULL);
	assert_int_equal(g.asked, 2);
	schema_index__free(x);
}

/* --- plans
 * ------------------------------------------------------------------------------------------------ */

struct planned {
	struct target *t;
	struct plan *p;
	struct names *names;
	struct err err;
	int r;
};

static const struct insn_classes *classes; /* of the next plans; NULL: assumed */

static struct planned make_plan_of(pid_t pid, const struct plan_opts *opts)
{
	struct planned x = { .names = names__new() };

	assert_int_equal(target__open(&x.t, pid, &x.err), 0);
	x.r = plan__build(&x.p, x.t, opts, x.names, &x.err);
	return x;
}

static struct planned make_plan(pid_t pid, unsigned sources, const char *usdt)
{
	return make_plan_of(pid, &(struct plan_opts){ .sources = sources, .usdt = &usdt, .usdt_cnt = usdt != NULL,
						      .classes = classes });
}

static void drop_plan(struct planned *x)
{
	plan__free(x->p);
	target__free(x->t);
	names__free(x->names);
}

static const struct site *find_site(const struct planned *x, const char *sym, enum mt_prog prog)
{
	for (size_t i = 0; i < x->p->sites_cnt; i++)
		if (x->p->sites[i].prog == prog && !strcmp(names__get(x->names, x->p->sites[i].sym), sym))
			return &x->p->sites[i];
	return NULL;
}

static const struct plan_cover *find_cover(const struct planned *x, enum source source)
{
	for (size_t i = 0; i < x->p->covers_cnt; i++)
		if (x->p->covers[i].source == source)
			return &x->p->covers[i];
	return NULL;
}

/* What frees is set first, then returns and ends, then allocations; operators are last. */
static int rank(const struct site *s)
{
	if (site__is_mark(s))
		return s->prog == MT_PROG_REGION_END ? 0 : 1;
	if (s->prog == MT_PROG_FW_DELETE || s->prog == MT_PROG_HOST_FREE)
		return 2;
	if (s->is_ret)
		return 3;
	if (s->prog == MT_PROG_FW_NEW || s->prog == MT_PROG_FW_OOM || s->prog == MT_PROG_FW_USAGE)
		return 4;
	return s->prog == MT_PROG_OP || s->prog == MT_PROG_FLOW_OP ? 6 : 5;
}

static void check_order(const struct plan *p)
{
	for (size_t i = 1; i < p->sites_cnt; i++) {
		const struct site *a = &p->sites[i - 1], *b = &p->sites[i];

		assert_true(rank(a) <= rank(b)); /* in whatever library */
		assert_true(rank(a) < rank(b) || a->lib < b->lib || (a->lib == b->lib && a->prog <= b->prog));
		assert_true(a->lib != b->lib || a->prog != b->prog || a->offset < b->offset);
		assert_true(b->lib < p->libs_cnt && b->cost_ns && b->insn[0]);
	}
}

static const char torch_source[] =
	"#define F(n, sym) int n(int x) __asm__(sym); int n(int x) { return x * 3; }\n"
	"F(n1, \"_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm\")\n"
	"F(n2, \"_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv\")\n"
	"F(n3, \"_ZN3c1025ProfiledCPUMemoryReporter11OutOfMemoryEm\")\n"
	"F(n4, \"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE\")\n"
	"F(n5, \"_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE\")\n"
	"F(e, \"_ZN2at14RecordFunction3endEv\")\n"
	"F(v, "
	"\"_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_"
	"11InputBufferERKS2_INS0_10ReadyQueueEE\")\n"
	"F(o1, \"_ZN2at4_ops10add_Tensor4callERKNS_6TensorE\")\n"
	"F(o2, \"_ZN2at4_ops10add_Scalar4callERKNS_6TensorE\")\n"
	"F(o3, \"_ZN2at4_ops8size_int4callERKNS_6TensorEl\")\n"
	"F(o8, \"_ZN2at4_ops1t4callERKNS_6TensorE\")\n"
	"F(o4, \"_ZN2at4_ops7unheard4callEv\")\n"
	"F(o5, \"_ZN2at4_ops10add_Tensor10redispatchEv\")\n"
	"F(o6, \"_ZN2at4_ops99toolong4callEv\")\n"
	"F(o7, \"_ZN2at4_opsx4callEv\")\n"
	"const char *schemas[] = { \"add.Tensor(Tensor a, Tensor b) -> Tensor\", \"add.Scalar(Tensor a) -> "
	"Tensor\",\n"
	"\t\"size.int(Tensor self, int dim) -> int\", \"t(Tensor(a) self) -> Tensor(a)\" };\n"
	"#define V(n, sym) void *n[4] __asm__(sym); void *n[4] = { 0, schemas };\n"
	"V(v1, \"_ZTVN5torch8autograd9generated14AddmmBackward0E\")\n"
	"V(v2, \"_ZTVN5torch8autograd14AccumulateGradE\")\n"
	"V(v3, \"_ZTVN5torch8autograd7CppNodeI3FooEE\")\n"
	"V(v4, \"_ZTVN5torch8autograd99BadE\")\n";

#define REGION_EXIT "torch::autograd::profiler::record_function_exit"

static const struct vtable *vtable_at(const struct plan *p, uint64_t addr)
{
	size_t i = 0;

	while (i < p->vtables_cnt && p->vtables[i].addr != addr)
		i++;
	return i < p->vtables_cnt ? &p->vtables[i] : NULL;
}

static void plans_the_framework(void **state)
{
	const char *path = fixture_build("libtorch_stand_in.so", "-shared -fPIC", torch_source);
	const struct site *s, *other;
	const struct vtable *v;
	struct planned x;
	uint64_t addr;
	void *h;

	(void)state;
	h = dlopen(path, RTLD_NOW);
	assert_non_null(h);
	x = make_plan(getpid(), SRC_FRAMEWORK | SRC_OPS | SRC_REGIONS, NULL);
	assert_int_equal(x.r, 0);
	check_order(x.p);
	assert_int_equal(x.p->libs_cnt, 1);
	assert_string_equal(x.p->libs[0].path, path);
	assert_int_equal(find_cover(&x, SRC_FRAMEWORK)->found, 5);
	assert_int_equal(find_cover(&x, SRC_REGIONS)->wanted, 3);
	assert_int_equal(find_cover(&x, SRC_REGIONS)->found, 2);
	assert_int_equal(find_cover(&x, SRC_OPS)->found, 3);
	assert_int_equal(x.p->sites_cnt, 5 + 2 + 3);
	assert_int_equal(x.p->ops_left_out, 1);	  /* size.int */
	assert_int_equal(x.p->views_left_out, 1); /* t */
	assert_null(find_site(&x, "aten::size", MT_PROG_OP));
	assert_null(find_site(&x, "aten::t", MT_PROG_OP));
	assert_non_null(find_site(&x, "aten::unheard", MT_PROG_OP)); /* without a schema: kept */
	s = find_site(&x, "aten::add", MT_PROG_OP);
	assert_true(s && s->cookie == s->sym.v && s->source == SRC_OPS && !s->is_ret);
	other = s + 1;
	assert_int_equal(other->sym.v, s->sym.v); /* both overloads have the operator's name */
	s = find_site(&x, REGION_EXIT, MT_PROG_REGION_END);
	assert_true(s && s->cookie == MT_REGION_TWICE);
	/* one symbol of three is missing: a note says which */
	assert_true(x.p->notes_cnt >= 1 && strstr(x.p->notes[0], "record_function_enter_new"));
	/* vtables: where objects of this process point */
	assert_int_equal(x.p->vtables_cnt, 2);
	addr = (uint64_t)dlsym(h, "_ZTVN5torch8autograd9generated14AddmmBackward0E") + 16;
	v = vtable_at(x.p, addr);
	assert_non_null(v);
	assert_string_equal(names__get(x.names, v->name), "AddmmBackward0");
	v = vtable_at(x.p, (uint64_t)dlsym(h, "_ZTVN5torch8autograd14AccumulateGradE") + 16);
	assert_non_null(v);
	assert_string_equal(names__get(x.names, v->name), "torch::autograd::AccumulateGrad");
	drop_plan(&x);
	x = make_plan(getpid(), SRC_VIEWS, NULL);
	assert_int_equal(x.r, 0);
	assert_int_equal(x.p->sites_cnt, 1);
	assert_int_equal(find_cover(&x, SRC_VIEWS)->found, 1);
	s = find_site(&x, "aten::t", MT_PROG_OP);
	assert_true(s && s->source == SRC_VIEWS);
	drop_plan(&x);
	dlclose(h);
}

/*
 * c10's classes, with accessors as a compiler makes them; STORAGE is where storage_ is, as in every object
 * whose only base has reference counts; DATA and VARIABLE are those of StorageImpl and AccumulateGrad.
 */
static const char c10_source[] =
	"#ifndef OPTIONAL\n#define OPTIONAL \"St8optionalIS2_E\"\n#endif\n"
	"#ifndef DATA\n#define DATA STORAGE\n#endif\n#ifndef VARIABLE\n#define VARIABLE 464\n#endif\n"
	"#define V(n, sym) void *n[4] __asm__(sym); void *n[4] = { 0, n };\n"
	"V(v1, \"_ZTVN3c1010TensorImplE\")\nV(v2, \"_ZTVN3c1019UndefinedTensorImplE\")\n"
	"V(v3, \"_ZTVN2at16SparseTensorImplE\")\nV(v4, \"_ZTVN3c1011StorageImplE\")\n"
	"V(v5, \"_ZTVN5torch8autograd12AutogradMetaE\")\n"
	"void resize(char *s, long n) __asm__(\"_ZN2at6native16resize_bytes_cpuEPN3c1011StorageImplEm\");\n"
	"void resize(char *s, long n) { if (n < *(long *)(s + DATA + 32)) *(long *)(s + DATA) = n;\n"
	"*(volatile char *)(s + DATA + 24) = 0; *(volatile char *)(s + DATA + 25) = 1; }\n"
	"#define G(n, sym, at) long n(char *p) __asm__(sym); long n(char *p) { return *(long *)(p + at); }\n"
	"G(g1, \"_ZNK3c1010TensorImpl11has_storageEv\", STORAGE)\n"
	"G(g2, \"_ZNK3c1010TensorImpl13autograd_metaEv\", STORAGE + 8)\n"
	"#define F(n, sym) int n(int x) __asm__(sym); int n(int x) { return x * 3; }\n"
	"#ifndef NAME\n#define NAME \"B5cxx11\"\n#endif\nF(n1, \"_ZNK5torch8autograd4Node4name\" NAME \"Ev\")\n"
	"F(o1, \"_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_\")\n"
	"F(o2, \"_ZN2at4_ops11mul__Tensor4callERNS_6TensorERKS2_RK\" OPTIONAL)\n"
	"F(o3, \"_ZN2at4_ops10sub_Tensor4callERKNS_6TensorES4_\")\n"
	"F(o4, \"_ZN2at4_ops8size_int4callERKNS_6TensorEl\")\n"
	"F(o5, \"_ZN2at4_ops1t4callERKNS_6TensorE\")\n"
	"F(o6, \"_ZN2at4_ops7unheard4callEv\")\n"
	"F(o7, \"_ZN2at4_ops3odd4callEd\")\n"
	"char **a1(char **r, char *self, void *in) __asm__(\n"
	"\"_ZN5torch8autograd14AccumulateGrad5applyEOSt6vectorIN2at6TensorESaIS4_EE\");\n"
	"char **a1(char **r, char *self, void *in) { r[0] = *(char **)(self + VARIABLE); return r; }\n"
	"F(a2, \"_ZN5torch8autograd9generated14AddmmBackward05applyEOSt6vectorIN2at6TensorESaIS5_EE\")\n"
	"F(a3, \"_ZN5torch8autograd9generated14AddmmBackward06nothatEOSt6vectorIN2at6TensorESaIS5_EE\")\n"
	"const char *schemas[] = { \"add.Tensor(Tensor a, Tensor b) -> Tensor\",\n"
	"\"mul_.Tensor(Tensor(a!) a, Tensor b, Tensor? weight) -> Tensor(a!)\", \"sub.Tensor(Te"
	"nsor a, Tensor b) "
	"-> Tensor\",\n"
	"\"size.int(Tensor self, int dim) -> int\", \"t(Tensor(a) self) -> Tensor(a)\", "
	"\"odd(Tensor a) -> Tensor\" };\n";

/* What boxed calls pass, and code that says where a schema has its arguments; ARG is how large they are. */
static const char schema_source[] =
	"#ifndef ARG\n#define ARG 112\n#endif\n#ifndef WRITE\n#define WRITE 136\n#endif\n"
	"#ifndef ALIAS\n#define ALIAS 96\n#endif\n"
	"int inplace(char *s) __asm__(\"_ZN2at9functorch11isInplaceOpERKN3c1014FunctionSchemaE\");\n"
	"int inplace(char *s) { for (char *a = *(char **)(s + 64); a != *(char **)(s + 72); a += ARG) {\n"
	"char *alias = *(char **)(a + ALIAS); if (alias && alias[WRITE]) return 1; } return 0; }\n"
	"int same(char *a, char *b) __asm__(\"_ZNK3c108Argument24isBackwardCompatibleWithERKS0_PSo\");\n"
	"int same(char *a, char *b) { return *(long *)(a + 8) == *(long *)(b + 8) && *(long *)a == *(long *)b &&\n"
	"*(long *)(a + ALIAS) == *(long *)(b + ALIAS); }\n"
	"#ifndef SCHEMA\n#define SCHEMA 64\n#endif\n"
	"long helper(char **handle, void *stack) __asm__(\"_ZN2at17functionalization23functionalize_op_helperERKN3c1014Operator"
	"HandleEPSt6vectorINS1_6IValueESaIS6_EE\");\n"
	"long helper(char **handle, void *stack) { char *op = *handle;\n"
	"return *(char **)(op + SCHEMA + 72) - *(char **)(op + SCHEMA + 64); }\n"
	"int list(char *v) __asm__(\"_ZNK3c106IValue12isTensorListEv\");\n"
	"#ifndef TAG\n#define TAG == 14\n#endif\nint list(char *v) { return *(int *)(v + 8) TAG; }\n"
	"#ifndef STRIPPED\n"
	"static __attribute__((used, noinline)) int invoke(int x) __asm__(\"_ZNSt17_Function_handlerIFvRSt6vectorIN3c106IValueE"
	"SaIS2_EEEZN5torch3jit12_GLOBAL__N_121createOperatorFromC10ERKNS1_14OperatorHandleEEUlS5_E_E9_M_invokeERKSt9_Any_"
	"dataS5_\");\n"
	"static int invoke(int x) { return x * 3; }\n#endif\n";

static const struct flow_vtable *find_class(const struct plan *p, void *h, const char *sym)
{
	for (size_t i = 0; i < p->flow_vtables_cnt; i++)
		if (p->flow_vtables[i].addr == (uint64_t)dlsym(h, sym) + 16)
			return &p->flow_vtables[i];
	return NULL;
}

static void plans_flow(void **state)
{
	const char *path = fixture_build("libtorch_cpu.so", "-O1 -shared -fPIC -DSTORAGE=16", c10_source);
	const struct mt_flow_spec *spec;
	const struct site *s, *sub;
	struct planned x;
	void *h;

	(void)state;
	h = dlopen(path, RTLD_NOW);
	assert_non_null(h);
	x = make_plan(getpid(), SRC_FLOW | SRC_OPS | SRC_VIEWS, NULL);
	assert_int_equal(x.r, 0);
	check_order(x.p);
	/* six operators but size, two applies; instead of ops and views, and with the regions */
	assert_int_equal(find_cover(&x, SRC_FLOW)->wanted, 8);
	assert_int_equal(find_cover(&x, SRC_FLOW)->found, 8);
	assert_null(find_cover(&x, SRC_OPS));
	assert_null(find_cover(&x, SRC_VIEWS));
	assert_non_null(find_cover(&x, SRC_REGIONS));
	assert_int_equal(x.p->sites_cnt, 8);
	assert_int_equal(x.p->ops_left_out, 1);
	assert_int_equal(x.p->views_left_out, 0);
	for (size_t i = 0; i < x.p->sites_cnt; i++)
		assert_int_equal(x.p->sites[i].source, SRC_FLOW);
	s = find_site(&x, "aten::mul_", MT_PROG_FLOW_OP);
	assert_true(s && (uint32_t)s->cookie == s->sym.v && s->cookie >> 32 < x.p->flow_specs_cnt);
	spec = &x.p->flow_specs[s->cookie >> 32];
	assert_int_equal(spec->args_cnt, 3);
	assert_int_equal(spec->args[0].where, 0);
	assert_int_equal(spec->args[0].flags, MT_FLOW_F_WRITTEN | MT_FLOW_F_REQUIRED);
	assert_true(spec->args[2].form == MT_FLOW_OPTIONAL && spec->args[2].flags == MT_FLOW_F_WEIGHT);
	s = find_site(&x, "aten::add", MT_PROG_FLOW_OP);
	sub = find_site(&x, "aten::sub", MT_PROG_FLOW_OP);
	assert_true(s && sub && s->cookie >> 32 && s->cookie >> 32 == sub->cookie >> 32); /* shared */
	s = find_site(&x, "aten::t", MT_PROG_FLOW_OP);
	assert_true(s && x.p->flow_specs[s->cookie >> 32].args[0].flags ==
				 (MT_FLOW_F_ALIAS | MT_FLOW_F_REQUIRED));
	/* one without a schema, one whose schema contradicts its name: no arguments, and said */
	s = find_site(&x, "aten::unheard", MT_PROG_FLOW_OP);
	assert_true(s && s->cookie >> 32 == 0 && x.p->flow_specs[0].args_cnt == 0);
	s = find_site(&x, "aten::odd", MT_PROG_FLOW_OP);
	assert_true(s && s->cookie >> 32 == 0);
	assert_int_equal(x.p->flow_args_unread, 2);
	assert_non_null(find_site(&x, "torch::autograd::AccumulateGrad", MT_PROG_FLOW_ACC));
	assert_non_null(find_site(&x, "AddmmBackward0", MT_PROG_FLOW_APPLY));
	assert_int_equal(x.p->flow_vtables_cnt, 5);
	assert_int_equal(find_class(x.p, h, "_ZTVN3c1010TensorImplE")->class, MT_CLASS_PLAIN);
	assert_int_equal(find_class(x.p, h, "_ZTVN3c1019UndefinedTensorImplE")->class, MT_CLASS_UNDEFINED);
	assert_int_equal(find_class(x.p, h, "_ZTVN2at16SparseTensorImplE")->class, MT_CLASS_SPARSE);
	assert_int_equal(find_class(x.p, h, "_ZTVN3c1011StorageImplE")->class, MT_CLASS_STORAGE);
	assert_int_equal(find_class(x.p, h, "_ZTVN5torch8autograd12AutogradMetaE")->class, MT_CLASS_META);
	drop_plan(&x);
	dlclose(h);
}

/* Without views: t tells nothing, and what mul_ does not write is read once. */
static void check_once(const struct planned *x)
{
	const struct site *s = find_site(x, "aten::mul_", MT_PROG_FLOW_OP);
	const struct mt_flow_spec *spec;

	assert_non_null(s);
	spec = &x->p->flow_specs[s->cookie >> 32 & 0xffff];
	assert_int_equal(spec->args_cnt, 3);
	assert_false(spec->args[0].flags & MT_FLOW_F_ONCE);
	assert_true(spec->args[1].flags & MT_FLOW_F_ONCE);
	assert_false(spec->args[2].flags & MT_FLOW_F_ONCE); /* a weight */
	assert_null(find_site(x, "aten::t", MT_PROG_FLOW_OP));
	assert_int_equal(x->p->views_left_out, 1);
}

/* Which version's objects these are is told by code; AccumulateGrad's variable comes from the code alone. */
static void knows_layouts(void **state)
{
	static const struct {
		const char *flags, *torch;
		struct mt_flow_layout at;
	} rows[] = {
		{ "-O1 -shared -fPIC -DSTORAGE=16", "2.4 to 2.15", { 16, 24, 40, 16, 40, 48, 16, 0, 8, 464 } },
		{ "-O2 -shared -fPIC -DSTORAGE=16 -DVARIABLE=472", "2.4 to 2.15",
		  { 16, 24, 40, 16, 40, 48, 16, 0, 8, 472 } },
		/* PyPI's wheels up to 2.6: the old ABI's strings */
		{ "-O2 -shared -fPIC -DSTORAGE=16 -DVARIABLE=472 -DNAME='\"\"'", "2.4 to 2.15",
		  { 16, 24, 16, 16, 40, 48, 16, 0, 8, 472 } },
		{ "-O1 -shared -fPIC -DSTORAGE=24 -DVARIABLE=392 -DOPTIONAL='\"N3c108optionalIS2_EE\"'", "1.13",
		  { 24, 32, 40, 24, 48, 56, 24, 8, 0, 392 } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		void *h = dlopen(fixture_build("libtorch_cpu.so", rows[i].flags, c10_source), RTLD_NOW);
		struct planned x;

		assert_non_null(h);
		x = make_plan(getpid(), SRC_FLOW, NULL);
		assert_int_equal(x.r, 0);
		assert_non_null(x.p->flow_layout.torch);
		assert_string_equal(x.p->flow_layout.torch, rows[i].torch);
		assert_memory_equal(&x.p->flow_layout.at, &rows[i].at, sizeof(rows[i].at));
		check_once(&x);
		assert_int_equal(x.p->flow_args_unread, 2);
		drop_plan(&x);
		dlclose(h);
	}
}

static int has_note(const struct plan *p, const char *text)
{
	int has = 0;

	for (size_t i = 0; i < p->notes_cnt; i++)
		has |= strstr(p->notes[i], text) != NULL;
	return has;
}

/* Boxed calls are seen where the code says what their schemas are like; if not, they are not, and a note says why. */
static void plans_boxed_calls(void **state)
{
	static const struct {
		const char *flags, *why;
	} rows[] = {
		{ "", NULL },
		{ "-DARG=120", "c10::FunctionSchema is as in no version" },
		{ "-DALIAS=88", "c10::FunctionSchema is as in no version" },
		{ "-DWRITE=128", "c10::FunctionSchema is as in no version" },
		{ "-DSCHEMA=72", "c10::FunctionSchema is as in no version" },
		{ "-DTAG='& 14'", "c10::FunctionSchema is as in no version" },
		{ "-DSTRIPPED", "libtorch_cpu.so does not say where boxed calls go" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char flags[128], source[sizeof(c10_source) + sizeof(schema_source)];
		const struct site *s;
		struct planned x;
		void *h;

		snprintf(flags, sizeof(flags), "-O1 -shared -fPIC -DSTORAGE=16 %s", rows[i].flags);
		snprintf(source, sizeof(source), "%s%s", c10_source, schema_source);
		h = dlopen(fixture_build("libtorch_cpu.so", flags, source), RTLD_NOW);
		assert_non_null(h);
		x = make_plan(getpid(), SRC_FLOW | SRC_SEGMENTS, NULL);
		assert_int_equal(x.r, 0);
		assert_non_null(x.p->flow_layout.torch);
		s = find_site(&x, "c10::Dispatcher::callBoxed", MT_PROG_FLOW_BOXED);
		assert_int_equal(s != NULL, !rows[i].why);
		assert_true(!s || s->source == SRC_FLOW);
		assert_int_equal(has_note(x.p, "what torch.ops calls"), rows[i].why != NULL);
		assert_int_equal(find_cover(&x, SRC_FLOW)->found, s ? 8 : 7); /* with operators and applies */
		assert_true(!rows[i].why || has_note(x.p, rows[i].why));
		if (!rows[i].why) {
			const struct mt_flow_layout *l = &x.p->flow_layout.at;

			assert_true(l->schema == 64 && l->schema_args == 64 && l->arg_bytes == 112 && l->arg_alias == 96);
			assert_true(l->alias_write == 136 && l->list_tag == 14 && !l->node_python);
		}
		drop_plan(&x);
		dlclose(h);
	}
}

/* From torch 2.15 on Python calls operators of its own past the dispatcher: what they pass is in libtorch_python. */
static void plans_operators_of_pythons_own(void **state)
{
	static const char python_source[] =
		"static __attribute__((used, noinline)) int call(char *self) __asm__(\"_ZN5torch4impl8dispatchL28pyobject_"
		"dispatch_vectorcallEP7_objectPKS3_mS3_\");\n"
		"static int call(char *self) { return self[32] * 3; }\nint any(void) { return call(0); }\n";
	char source[sizeof(c10_source) + sizeof(schema_source)];
	void *cpu, *python;
	struct planned x;
	size_t cnt[2] = { 0 };

	(void)state;
	snprintf(source, sizeof(source), "%s%s", c10_source, schema_source);
	cpu = dlopen(fixture_build("libtorch_cpu.so", "-O1 -shared -fPIC -DSTORAGE=16", source), RTLD_NOW);
	python = dlopen(fixture_build("libtorch_python.so", "-O1 -shared -fPIC", python_source), RTLD_NOW);
	assert_true(cpu && python);
	x = make_plan(getpid(), SRC_FLOW, NULL);
	assert_int_equal(x.r, 0);
	for (size_t i = 0; i < x.p->sites_cnt; i++)
		if (x.p->sites[i].prog == MT_PROG_FLOW_BOXED) {
			cnt[!!(x.p->sites[i].cookie & MT_BOXED_PYTHON)]++;
			assert_int_equal(x.p->sites[i].cookie & MT_BOXED_REGIONS, 0);
		}
	assert_true(cnt[0] == 1 && cnt[1] == 1);
	drop_plan(&x);
	dlclose(python);
	dlclose(cpu);
}

/* Regions come by torch.ops: where that is probed their own functions are not; a plan without one has them. */
static void takes_regions_by_boxed_calls(void **state)
{
	static const char region_source[] =
		"F(r1, \"_ZN5torch8autograd8profiler25record_function_enter_newERKNSt7__cxx1112basic_stringIcSt11char_"
		"traitsIcESaIcEEERKSt8optionalIS7_E\")\n"
		"F(r2, \"_ZNO3c106IValue13toCustomClassIN5torch8autograd8profiler20PythonRecordFunctionEEENS_13intrusive_"
		"ptrIT_NS_6detail34intrusive_target_default_null_typeIS7_EEEEv\")\n";
	static const char *const flags[] = { "-O1 -shared -fPIC -DSTORAGE=16", "-O1 -shared -fPIC -DSTORAGE=16 -DSTRIPPED" };

	(void)state;
	for (int i = 0; i < 2; i++) {
		char source[sizeof(c10_source) + sizeof(schema_source) + sizeof(region_source)];
		const struct site *s;
		struct planned x;
		void *h;

		snprintf(source, sizeof(source), "%s%s%s", c10_source, schema_source, region_source);
		h = dlopen(fixture_build("libtorch_cpu.so", flags[i], source), RTLD_NOW);
		assert_non_null(h);
		x = make_plan(getpid(), SRC_FLOW, NULL);
		assert_int_equal(x.r, 0);
		s = find_site(&x, "c10::Dispatcher::callBoxed", MT_PROG_FLOW_BOXED);
		assert_true(i ? !s : s == x.p->sites && s->cookie == MT_BOXED_REGIONS && site__is_mark(s)); /* set first */
		assert_int_equal(find_site(&x, REGION_EXIT, MT_PROG_REGION_END) != NULL, i);
		assert_int_equal(x.p->sites[i ? 1 : 0].prog == MT_PROG_REGION_BEGIN, i);
		assert_true(find_cover(&x, SRC_REGIONS)->found >= 2);
		drop_plan(&x);
		/* by windows: what begins a region is the only mark, and boxed calls come and go */
		x = make_plan_of(getpid(), &(struct plan_opts){ .sources = SRC_FLOW, .classes = classes, .by_windows = 1 });
		assert_int_equal(x.r, 0);
		check_order(x.p);
		s = find_site(&x, "c10::Dispatcher::callBoxed", MT_PROG_FLOW_BOXED);
		assert_true(i ? !s : s->cookie == (MT_BOXED_REGIONS | MT_BOXED_MARKED) && site__level(s) == MT_LEVEL_FULL);
		assert_int_equal(find_site(&x, REGION_EXIT, MT_PROG_REGION_END) != NULL, i);
		s = &x.p->sites[i];
		assert_true(s->prog == MT_PROG_REGION_BEGIN && site__is_mark(s) && site__level(s) == MT_LEVEL_WATCH);
		assert_int_equal(s->cookie, i ? MT_REGION_STRING : MT_REGION_BRIEF);
		assert_true(!site__is_mark(&x.p->sites[i + 1]));
		drop_plan(&x);
		dlclose(h);
	}
}

/*
 * PyNode is libtorch_python's own class; its method that begins with its object says where that is, the one that lets go of
 * what the object has saved, where and how large that is.
 */
static void knows_nodes_of_python(void **state)
{
	static const char python_source[] =
		"static void *vt[4] __asm__(\"_ZTVN5torch8autograd6PyNodeE\") __attribute__((used)) = { 0, vt };\n"
		"void *vt_of(void) { return vt + 2; }\n"
		"static __attribute__((used, noinline)) long is(char *p) "
		"__asm__(\"_ZN5torch8autograd6PyNode12is_traceableEv\");\n"
		"static long is(char *p) { return *(long *)(p + AT); }\n"
		"static __attribute__((used, noinline)) void release(char *p) "
		"__asm__(\"_ZN5torch8autograd6PyNode17release_variablesEv\");\n"
		"static void release(char *p) {\n"
		"	char *object = *(char **)(p + AT), *end = *(char **)(object + SAVED + 8);\n"
		"	for (char *s = *(char **)(object + SAVED); s != end; s += BYTES)\n"
		"		*(void *volatile *)s = *(void *volatile *)(s + 72) = 0;\n"
		"}\n";
	static const char *const flags[] = {
		"-O1 -shared -fPIC -DAT=112 -DSAVED=136 -DBYTES=80",
		"-O1 -shared -fPIC -DAT=464 -DSAVED=192 -DBYTES=104",
		"-O0 -shared -fPIC -DAT=112 -DSAVED=136 -DBYTES=80", /* code that does not say */
	};
	static const unsigned saved[][2] = { { 136, 80 }, { 192, 104 }, { 0, 0 } };
	void *cpu = dlopen(fixture_build("libtorch_cpu.so", "-O1 -shared -fPIC -DSTORAGE=16", c10_source), RTLD_NOW);

	(void)state;
	assert_non_null(cpu);
	for (int i = 0; i < 3; i++) {
		void *h = dlopen(fixture_build("libtorch_python.so", flags[i], python_source), RTLD_NOW);
		struct planned x = make_plan(getpid(), SRC_FLOW, NULL);
		uint64_t vtable;
		int has = 0;

		assert_true(h && x.r == 0);
		vtable = (uint64_t)((void *(*)(void))dlsym(h, "vt_of"))();
		for (size_t k = 0; k < x.p->flow_vtables_cnt; k++)
			has += x.p->flow_vtables[k].addr == vtable && x.p->flow_vtables[k].class == MT_CLASS_PY_NODE;
		assert_int_equal(has, i < 2);
		assert_int_equal(x.p->flow_layout.at.node_python, i == 0 ? 112 : i == 1 ? 464 : 0);
		assert_int_equal(x.p->flow_layout.at.node_saved, saved[i][0]);
		assert_int_equal(x.p->flow_layout.at.saved_bytes, saved[i][1]);
		drop_plan(&x);
		dlclose(h);
	}
	dlclose(cpu);
}

/* A layout that is in no table: ops instead, and why. */
static void refuses_unknown_layouts(void **state)
{
	static const char *const flags[] = {
		"-O1 -shared -fPIC -DSTORAGE=40",		/* no such TensorImpl */
		"-O0 -shared -fPIC -DSTORAGE=16",		/* accessors that do not say */
		"-O1 -shared -fPIC -DSTORAGE=24",		/* 1.13's, with std::optional */
		"-O1 -shared -fPIC -DSTORAGE=16 -DDATA=24",	/* another StorageImpl */
		"-O1 -shared -fPIC -DSTORAGE=16 -DVARIABLE=16", /* inside Node */
		"-O1 -shared -fPIC -DSTORAGE=16 -DVARIABLE=460", /* no pointer lies there */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		void *h = dlopen(fixture_build("libtorch_cpu.so", flags[i], c10_source), RTLD_NOW);
		struct planned x;
		int reported = 0;

		assert_non_null(h);
		x = make_plan(getpid(), SRC_FLOW, NULL);
		assert_int_equal(x.r, 0);
		for (size_t k = 0; k < x.p->notes_cnt; k++)
			reported |= strstr(x.p->notes[k], "tensor layout unknown") != NULL;
		assert_true(reported && !x.p->flow_layout.torch && !x.p->flow_vtables_cnt && !x.p->flow_specs_cnt);
		assert_non_null(find_site(&x, "aten::add", MT_PROG_OP));
		assert_null(find_site(&x, "aten::add", MT_PROG_FLOW_OP));
		drop_plan(&x);
		dlclose(h);
	}
}

/* Of two functions that tell of the end of a region, the one that is called for nothing else. */
static void plans_one_end_of_a_region(void **state)
{
	const char *path = fixture_build(
		"libtorch_ends.so", "-shared -fPIC",
		"#define F(n, sym) int n(int x) __asm__(sym); int n(int x) { return x * 3; }\n"
		"F(e, \"_ZN2at14RecordFunction3endEv\")\n"
		"F(u, \"_ZNO3c106IValue13toCustomClassIN5torch8autograd8profiler20PythonRecordFunctionEEENS_13intrusive_"
		"ptrIT_NS_6detail34intrusive_target_default_null_typeIS7_EEEEv\")\n");
	const struct site *s;
	struct planned x;
	void *h;

	(void)state;
	h = dlopen(path, RTLD_NOW);
	assert_non_null(h);
	x = make_plan(getpid(), SRC_REGIONS, NULL);
	assert_int_equal(x.r, 0);
	s = find_site(&x, REGION_EXIT, MT_PROG_REGION_END);
	assert_true(s && s->cookie == MT_REGION_ONCE);
	assert_int_equal(x.p->sites_cnt, 1);
	drop_plan(&x);
	dlclose(h);
}

static void plans_only_what_is_new(void **state)
{
	const char *path = fixture_build("libtorch_later.so", "-shared -fPIC", torch_source);
	struct plan_opts opts = { .sources = SRC_FRAMEWORK, .only_new_libs = 1 };
	struct names *names = names__new();
	struct target *t;
	struct plan *p;
	void *h;

	(void)state;
	assert_int_equal(target__open(&t, getpid(), NULL), 0);
	assert_int_equal(target__refresh(t, NULL), 0);
	assert_int_equal(plan__build(&p, t, &opts, names, NULL), 0);
	assert_int_equal(p->sites_cnt, 0); /* nothing new: an empty plan, no error */
	plan__free(p);
	h = dlopen(path, RTLD_NOW);
	assert_int_equal(target__refresh(t, NULL), 1);
	assert_int_equal(plan__build(&p, t, &opts, names, NULL), 0);
	assert_int_equal(p->sites_cnt, 5);
	plan__free(p);
	target__free(t);
	names__free(names);
	dlclose(h);
}

static void plans_the_c_library(void **state)
{
	char *envp[] = { NULL };
	pid_t pid = fixture_start(fixture_build("host", "", FIXTURE_WAITS("")), envp);
	struct planned x = make_plan(pid, SRC_HOST, NULL);
	const struct site *enter, *ret;

	(void)state;
	assert_int_equal(x.r, 0);
	check_order(x.p);
	assert_int_equal(x.p->libs_cnt, 1);
	assert_non_null(strstr(x.p->libs[0].path, "libc.so"));
	assert_int_equal(find_cover(&x, SRC_HOST)->found, find_cover(&x, SRC_HOST)->wanted);
	enter = find_site(&x, "malloc", MT_PROG_HOST_ENTER);
	ret = find_site(&x, "malloc", MT_PROG_HOST_RET);
	assert_true(enter && ret && !enter->is_ret && ret->is_ret && enter->offset == ret->offset);
	assert_true(enter->cookie == MT_HOST_MALLOC && ret->cookie == MT_HOST_MALLOC);
	assert_true(ret->cost_ns > enter->cost_ns);
	enter = find_site(&x, "posix_memalign", MT_PROG_HOST_ENTER);
	assert_true(enter && enter->cookie == MT_HOST_POSIX_MEMALIGN);
	enter = find_site(&x, "free", MT_PROG_HOST_FREE);
	assert_true(enter && enter->insn_class != INSN_STEPPED);
	assert_null(find_site(&x, "free", MT_PROG_HOST_RET));
	drop_plan(&x);
	fixture_stop(pid);
}

static const char allocator_source[] =
	"#include <stddef.h>\n#include <stdlib.h>\nstatic char heap[1 << 20];\nstatic size_t top;\n"
	"void *malloc(size_t n) { void *p = heap + top; top += (n + 15) & ~15; return p; }\n"
	"void free(void *p) { (void)p; }\n"
	"void *calloc(size_t n, size_t m) { return malloc(n * m); }\n"
	"void *realloc(void *p, size_t n) { return malloc(n); }\n"
	"void *_Znwm(size_t n) { return n > 99 ? malloc(n) : heap + 64 * n; }\n"
	"void _ZdlPv(void *p) { free(p); }\n";

/* reallocarray stays the C library's: it calls the owner's realloc, and fails by itself. */
static void check_owner(struct planned *x, const char *owner)
{
	const struct site *at = find_site(x, "malloc", MT_PROG_HOST_ENTER);

	assert_int_equal(x->r, 0);
	assert_non_null(at);
	assert_non_null(strstr(x->p->libs[at->lib].path, owner));
	at = find_site(x, "reallocarray", MT_PROG_HOST_ENTER);
	assert_non_null(at);
	assert_non_null(strstr(x->p->libs[at->lib].path, "libc.so"));
	assert_int_equal(x->p->libs_cnt, 2);
	assert_non_null(find_site(x, "operator delete", MT_PROG_HOST_FREE));
	/* It may throw: no return probe. */
	assert_non_null(find_site(x, "operator new", MT_PROG_HOST_ENTER));
	assert_null(find_site(x, "operator new", MT_PROG_HOST_RET));
	at = find_site(x, "operator new", MT_PROG_HOST_EXIT);
	assert_true(at && !at->is_ret && !strcmp(at->insn, "ret"));
	assert_int_equal(find_cover(x, SRC_HOST)->found, 7);
}

static void finds_who_owns_malloc(void **state)
{
	static const char *const names[] = { "libjemalloc.so.2", "libours.so", NULL };
	const char *prog;
	char *envp[] = { NULL, NULL };
	char preload[300];
	struct planned x;
	pid_t pid;

	(void)state;
	prog = strdup(fixture_build("host", "", FIXTURE_WAITS("")));
	for (int i = 0; names[i]; i++) { /* by its name, and by its place before the C library */
		snprintf(preload, sizeof(preload), "LD_PRELOAD=%s",
			 fixture_build(names[i], "-shared -fPIC", allocator_source));
		envp[0] = preload;
		pid = fixture_start(prog, envp);
		x = make_plan(pid, SRC_HOST, NULL);
		check_owner(&x, names[i]);
		drop_plan(&x);
		fixture_stop(pid);
	}
	free((char *)prog);
}

static void program_with_its_own_malloc(void **state)
{
	char *envp[] = { NULL }, source[2048];
	struct planned x;
	pid_t pid;

	(void)state;
	snprintf(source, sizeof(source), "%s%s", allocator_source, FIXTURE_WAITS(""));
	pid = fixture_start(fixture_build("own", "", source), envp);
	x = make_plan(pid, SRC_HOST, NULL);
	check_owner(&x, "/own");
	drop_plan(&x);
	fixture_stop(pid);
}

static void plans_static_programs(void **state)
{
	char *envp[] = { NULL };
	pid_t pid = fixture_start(fixture_build("static", "-static", FIXTURE_WAITS("")), envp);
	struct planned x = make_plan(pid, SRC_HOST, NULL);

	(void)state;
	assert_int_equal(x.r, 0);
	assert_non_null(find_site(&x, "malloc", MT_PROG_HOST_RET));
	assert_true(x.p->notes_cnt && strstr(x.p->notes[0], "static"));
	drop_plan(&x);
	x = make_plan(pid, SRC_FRAMEWORK | SRC_OPS, NULL);
	assert_int_equal(x.r, -ENOENT);
	assert_null(x.p);
	assert_true(strstr(x.err.msg, "static program") && strstr(x.err.hint, "--probes host"));
	drop_plan(&x);
	fixture_stop(pid);

	pid = fixture_start(fixture_build("static", "-static -s", FIXTURE_WAITS("")), envp);
	x = make_plan(pid, SRC_HOST, NULL);
	assert_int_equal(x.r, -ENOENT);
	assert_true(strstr(x.err.msg, "without symbols") && strstr(x.err.hint, "kernel"));
	drop_plan(&x);
	fixture_stop(pid);
}

static void says_when_there_is_nothing(void **state)
{
	char *envp[] = { NULL };
	pid_t pid = fixture_start(fixture_build("plain", "", FIXTURE_WAITS("")), envp);
	struct planned x = make_plan(pid, SRC_DEFAULT, NULL);

	(void)state;
	assert_int_equal(x.r, -ENOENT);
	assert_true(strstr(x.err.msg, "no known allocator symbol") && strstr(x.err.hint, "--probes host"));
	drop_plan(&x);
	x = make_plan(pid, SRC_KERNEL, NULL); /* has no sites by nature */
	assert_int_equal(x.r, 0);
	assert_int_equal(x.p->sites_cnt, 0);
	drop_plan(&x);
	x = make_plan(pid, SRC_FRAMEWORK, "some:probe:0=ptr");
	assert_int_equal(x.r, -ENOENT);
	assert_non_null(strstr(x.err.hint, "some:probe"));
	drop_plan(&x);
	x = make_plan(pid, SRC_FRAMEWORK, "nonsense");
	assert_int_equal(x.r, -EINVAL);
	drop_plan(&x);
	fixture_stop(pid);
}

static void notices_a_dead_target(void **state)
{
	char *envp[] = { NULL };
	pid_t pid = fixture_start(fixture_build("plain", "", FIXTURE_WAITS("")), envp);
	struct plan_opts opts = { .sources = SRC_HOST };
	struct names *names = names__new();
	struct plan *p = NULL;
	struct err err = { 0 };
	struct target *t;

	(void)state;
	assert_int_equal(target__open(&t, pid, NULL), 0);
	fixture_stop(pid);
	assert_int_equal(plan__build(&p, t, &opts, names, &err), -ESRCH);
	assert_true(!p && err.msg[0]);
	opts.sources = SRC_FRAMEWORK;
	assert_int_equal(plan__build(&p, t, &opts, names, &err), -ESRCH);
	target__free(t);
	names__free(names);
}

/*
 * What cannot be probed without harm is left out, counted and named: here return probes, as with a shadow stack, and then
 * everything.
 */
static void leaves_out_what_does_harm(void **state)
{
	static struct insn_classes some; /* beyond a failure */
	char *envp[] = { NULL };
	pid_t pid = fixture_start(fixture_build("host", "", FIXTURE_WAITS("")), envp);
	struct planned x;

	(void)state;
	some = insn_classes_assumed();
	some.is_tried = 1;
	some.of[INSN_RETURN].is_usable = 0;
	classes = &some;
	x = make_plan(pid, SRC_HOST, NULL);
	assert_int_equal(x.r, 0);
	assert_true(x.p->is_tried);
	assert_null(find_site(&x, "malloc", MT_PROG_HOST_ENTER));
	assert_null(find_site(&x, "malloc", MT_PROG_HOST_RET));
	assert_non_null(find_site(&x, "free", MT_PROG_HOST_FREE));
	assert_true(x.p->unsafe_cnt >= 5);
	assert_int_equal(x.p->notes_cnt, 1);
	assert_non_null(strstr(x.p->notes[0], "sites are left out"));
	drop_plan(&x);

	memset(&some, 0, sizeof(some));
	x = make_plan(pid, SRC_HOST, NULL);
	assert_int_equal(x.r, -ENOENT);
	assert_non_null(strstr(x.err.msg, "at each of its"));
	target__free(x.t);
	names__free(x.names);
	classes = NULL;
	fixture_stop(pid);
}

/* --- USDT ----------------------------------------------------------------------------------------------
 */

static const char usdt_source[] =
	"#include \"memtrace/usdt.h\"\n#include <sys/sdt.h>\n"
	"#include <unistd.h>\n#include <stdlib.h>\nstatic volatile double d = 1;\nint counter;\n"
	"__attribute__((noinline)) static void marks(char *p, long n)\n{\n"
	"\tMEMTRACE_OP_BEGIN(p);\n\tMEMTRACE_ALLOC(p, n, MEMTRACE_CPU);\n\tMEMTRACE_FREE(p, 2);\n"
	"\tMEMTRACE_TAG(p, p, 1);\n\tMEMTRACE_STEP(n);\n\tMEMTRACE_OP_END();\n"
	"\tMEMTRACE_REGION_BEGIN(p);\n\tMEMTRACE_REGION_END();\n"
	"\tDTRACE_PROBE2(mine, got, p, n);\n\tDTRACE_PROBE1(mine, real, d);\n}\n"
	"int main(int c, char **v)\n{\n\tmarks(v[0], c);\n\twrite(1, \"x\", 1);\n\tfor "
	"(;;)\n\t\tpause();\n}\n";

static void plans_usdt(void **state)
{
	static const struct {
		const char *sym;
		enum mt_kind kind;
	} marks[] = {
		{ "memtrace:op_begin", MT_EV_OP_BEGIN },
		{ "memtrace:op_end", MT_EV_OP_END },
		{ "memtrace:region_begin", MT_EV_REGION_BEGIN },
		{ "memtrace:region_end", MT_EV_REGION_END },
		{ "memtrace:step", MT_EV_STEP },
		{ "memtrace:alloc", MT_EV_ALLOC },
		{ "memtrace:free", MT_EV_FREE },
		{ "memtrace:tag", MT_EV_TAG },
	};
	char *envp[] = { NULL };
	pid_t pid = fixture_start(fixture_build("marks", "", usdt_source), envp);
	struct planned x = make_plan(pid, SRC_USDT, "mine:got:0=ptr,1=size");
	const struct mt_usdt_spec *spec;
	const struct site *s;

	(void)state;
	assert_int_equal(x.r, 0);
	check_order(x.p);
	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
		s = find_site(&x, marks[i].sym, MT_PROG_USDT);
		assert_non_null(s);
		assert_true(s->cookie < x.p->specs_cnt && s->ref_ctr_offset && s->source == SRC_USDT);
		assert_true(s->insn_class == INSN_NOP && !s->skipped);
		spec = &x.p->specs[s->cookie];
		assert_int_equal(spec->kind, marks[i].kind);
		assert_int_equal(spec->ptr.form == MT_ARG_NONE,
				 spec->kind != MT_EV_STEP && spec->kind != MT_EV_ALLOC &&
					 spec->kind != MT_EV_FREE && spec->kind != MT_EV_TAG);
	}
	s = find_site(&x, "memtrace:alloc", MT_PROG_USDT);
	assert_int_equal(x.p->specs[s->cookie].device.form, MT_ARG_CONST);
	assert_int_equal(x.p->specs[s->cookie].device.value, -1);
	s = find_site(&x, "mine:got", MT_PROG_USDT);
	assert_non_null(s);
	assert_int_equal(s->insn_class, INSN_NOP);
	assert_int_equal(x.p->specs[s->cookie].kind, MT_EV_ALLOC);
	assert_int_equal(x.p->specs[s->cookie].device.form, MT_ARG_NONE);
	assert_null(find_site(&x, "mine:real", MT_PROG_USDT)); /* not asked for */
	for (size_t i = 0; i < x.p->specs_cnt; i++)	       /* equal ones are shared */
		for (size_t k = 0; k < i; k++)
			assert_true(memcmp(&x.p->specs[i], &x.p->specs[k], sizeof(*spec)));
	drop_plan(&x);
	/* an argument that cannot be had: the site is left out, and a note says so */
	x = make_plan(pid, SRC_USDT, "mine:real:0=ptr");
	assert_int_equal(x.r, 0);
	assert_null(find_site(&x, "mine:real", MT_PROG_USDT));
	assert_true(x.p->notes_cnt >= 1 && strstr(x.p->notes[0], "mine:real"));
	drop_plan(&x);
	/* one that it does not have */
	x = make_plan(pid, SRC_USDT, "mine:got:7=ptr");
	assert_null(find_site(&x, "mine:got", MT_PROG_USDT));
	drop_plan(&x);
	fixture_stop(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parses_sources),
		cmocka_unit_test(parses_usdt_patterns),
		cmocka_unit_test(parses_schemas),
		cmocka_unit_test(tells_effects),
		cmocka_unit_test(refuses_what_is_no_schema),
		cmocka_unit_test(indexes_schemas), cmocka_unit_test(asks_the_code),
		cmocka_unit_test(plans_the_framework),
		cmocka_unit_test(plans_flow),
		cmocka_unit_test(knows_layouts),
		cmocka_unit_test(plans_boxed_calls),
		cmocka_unit_test(plans_operators_of_pythons_own),
		cmocka_unit_test(takes_regions_by_boxed_calls),
		cmocka_unit_test(knows_nodes_of_python),
		cmocka_unit_test(refuses_unknown_layouts),
		cmocka_unit_test(plans_one_end_of_a_region),
		cmocka_unit_test(plans_only_what_is_new),
		cmocka_unit_test(plans_the_c_library),
		cmocka_unit_test(finds_who_owns_malloc),
		cmocka_unit_test(program_with_its_own_malloc),
		cmocka_unit_test(plans_static_programs),
		cmocka_unit_test(says_when_there_is_nothing),
		cmocka_unit_test(notices_a_dead_target),
		cmocka_unit_test(leaves_out_what_does_harm),
		cmocka_unit_test(plans_usdt),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}

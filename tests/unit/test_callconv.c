/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Where tensors are, by hand-picked signatures of torch 2.13 and 1.13: one at least of each class of
 * parameter. What was expected was read off code that g++ made from PyTorch's headers; tests/e2e does
 * so again for every operator.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <errno.h>

#include <cmocka.h>

#include "plan/callconv.h"

#define W MT_FLOW_F_WRITTEN
#define R MT_FLOW_F_REQUIRED
#define P MT_FLOW_F_WEIGHT
#define B MT_FLOW_F_RUNNING
#define A MT_FLOW_F_ALIAS

static int spec_of(const char *mangled, const char *text, enum callconv_optional opt, struct mt_flow_spec *spec)
{
	struct schema s;

	assert_int_equal(schema_parse(text, strlen(text), &s), 0);
	return callconv__spec(mangled, &s, opt, spec);
}

static const struct good {
	const char *mangled, *schema;
	enum callconv_optional opt;
	struct mt_flow_spec want; /* {form, where, flags, index} */
} goods[] = {
	{ "_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE",
	  "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", 0,
	  { 2, { { 1, 1, R, 0 }, { 1, 2, R, 1 } } } },
	/* a reference comes back: no hidden result */
	{ "_ZN2at4_ops11add__Tensor4callERNS_6TensorERKS2_RKN3c106ScalarE",
	  "add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)", 0,
	  { 2, { { 1, 0, W | R, 0 }, { 1, 1, R, 1 } } } },
	/* written, though the C++ type is const */
	{ "_ZN2at4_ops7resize_4callERKNS_6TensorEN3c108ArrayRefINS5_6SymIntEEESt8optionalINS5_1"
	  "2MemoryFormatEE",
	  "resize_(Tensor(a!) self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor(a!)", 0,
	  { 1, { { 1, 0, W | R, 0 } } } },
	{ "_ZN2at4_ops4view4callERKNS_6TensorEN3c108ArrayRefINS5_6SymIntEEE",
	  "view(Tensor(a) self, SymInt[] size) -> Tensor(a)", 0, { 1, { { 1, 1, A | R, 0 } } } },
	{ "_ZN2at4_ops3cat4callERKN3c108IListRefINS_6TensorEEEl", "cat(Tensor[] tensors, int di"
	  "m=0) -> Tensor", 0,
	  { 1, { { 4, 1, R, 0 } } } },
	{ "_ZN2at4_ops12index_Tensor4callERKNS_6TensorERKN3c104ListISt8optionalIS2_EEE",
	  "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", 0,
	  { 2, { { 1, 1, R, 0 }, { 5, 2, 0, 1 } } } },
	{ "_ZN2at4_ops17native_batch_norm4callERKNS_6TensorERKSt8optionalIS2_ES8_S8_S8_bdd",
	  "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
	  "Tensor? running_var,"
	  " bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)", 0,
	  { 5, { { 1, 1, R, 0 }, { 2, 2, P, 1 }, { 2, 3, P, 2 }, { 2, 4, B, 3 }, { 2, 5, B, 4 } } } },
	/* parameters under other names, a list of them */
	{ "_ZN2at4_ops10lstm_input4callERKNS_6TensorEN3c108ArrayRefIS2_EES7_bldbbb",
	  "lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
	  "bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)", 0,
	  { 3, { { 1, 1, R, 0 }, { 3, 2, R, 1 }, { 3, 4, P | R, 2 } } } },
	/* lists: two words; a whole list goes to the stack, and what is smaller still gets r9 */
	{ "_ZN2at4_ops13_fused_adamw_4callEN3c108ArrayRefINS_6TensorEEES5_S5_S5_S5_S5_dddddbbRK"
	  "St8optionalIS4_ES9_",
	  "_fused_adamw_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d"
	  "!)[] exp_avg_sqs, "
	  "Tensor(e!)[] max_exp_avg_sqs, Tensor[] state_steps, *, float lr, float beta1, float beta2, float "
	  "weight_decay, float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? "
	  "found_inf=None) -> ()", 0,
	  { 8, { { 3, 0, W | R, 0 }, { 3, 2, W | R, 1 }, { 3, 4, W | R, 2 }, { 3, 16, W | R, 3 },
		 { 3, 18, W | R, 4 }, { 3, 20, R, 5 }, { 2, 24, 0, 13 }, { 2, 25, 0, 14 } } } },
	/* (Tensor, 3 long, Tensor list, bool, Tensor) → Tensor: the list misses r9, the bool gets it */
	{ "_ZN2at4_ops1x4callERKNS_6TensorElllN3c108ArrayRefIS2_EEbS4_",
	  "x(Tensor a, int b, int c, int d, Tensor[] e, bool f, Tensor g) -> Tensor", 0,
	  { 3, { { 1, 1, R, 0 }, { 3, 16, R, 4 }, { 1, 18, R, 6 } } } },
	{ "_ZN2at4_ops1x4callERKNS_6TensorESt8optionalIlEbN3c108ArrayRefIS2_EES4_",
	  "x(Tensor a, int? b, bool c, Tensor[] d, Tensor e) -> Tensor", 0,
	  { 3, { { 1, 1, R, 0 }, { 3, 16, R, 3 }, { 1, 5, R, 4 } } } },
	/* 24 bytes: three stack words, no register */
	{ "_ZN2at4_ops1x4callEN3c1016OptionalArrayRefIlEESt8optionalINS2_8ArrayRefIdEEES5_ISt17"
	  "basic_string_viewIcSt11"
	  "char_traitsIcEEERKNS_6TensorEdddddddddS8_",
	  "x(int[]? a, float[]? b, str? c, Tensor d, float e1, float e2, float e3, float e4, fl"
	  "oat e5, float e6, float "
	  "e7, float e8, float e9, float[]? f) -> ()", 0, { 1, { { 1, 0, R, 3 } } } },
	/* optional<double> takes one register of each sort, or none: the ninth double is in memory with it */
	{ "_ZN2at4_ops1x4callEddddddddSt8optionalIdERNS_6TensorE",
	  "x(float a, float b, float c, float d, float e, float f, float g, float h, float? i, "
	  "Tensor(a!) j) -> "
	  "Tensor(a!)", 0, { 1, { { 1, 0, W | R, 9 } } } },
	{ "_ZN2at4_ops1x4callESt5arrayIbLm4EEN3c106StreamESt8optionalINS_9GeneratorEENS4_7Stora"
	  "geERKNS_6TensorE",
	  "x(bool[4] a, Stream b, Generator? c, Storage d, Tensor e) -> bool", 0, { 1, { { 1, 5, R, 4 } } } },
	{ "_ZN2at4_ops1x4callEv", "x() -> Tensor", 0, { 0 } },
	/* 1.13: an optional of its own */
	{ "_ZN2at4_ops13_linalg_svd_U4callERKNS_6TensorEbbN3c108optionalINS5_17basic_string_vie"
	  "wIcEEEERS2_SA_SA_",
	  "_linalg_svd.U(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driv"
	  "er=None, Tensor(a!) U, "
	  "Tensor(b!) S, Tensor(c!) Vh) -> (Tensor(a!) U, Tensor(b!) S, Tensor(c!) Vh)", CALLCONV_OWN_OPTIONAL,
	  { 4, { { 1, 1, R, 0 }, { 1, 5, W | R, 4 }, { 1, 16, W | R, 5 }, { 1, 17, W | R, 6 } } } },
	{ "_ZN2at4_ops29_upsample_nearest_exact1d_out4callERKNS_6TensorEN3c108ArrayRefINS5_6Sym"
	  "IntEEENS5_8optionalIdEERS2_",
	  "_upsample_nearest_exact1d.out(Tensor self, SymInt[1] output_size, float? scales=None"
	  ", *, Tensor(a!) out) -> "
	  "Tensor(a!)", CALLCONV_OWN_OPTIONAL, { 2, { { 1, 0, R, 0 }, { 1, 5, W | R, 3 } } } },
};

static void places_tensors(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(goods) / sizeof(*goods); i++) {
		const struct good *g = &goods[i];
		struct mt_flow_spec spec;
		int r = spec_of(g->mangled, g->schema, g->opt, &spec);

		if (r)
			fail_msg("%s: %d", g->mangled, r);
		if (spec.args_cnt != g->want.args_cnt)
			fail_msg("%s: %u tensors", g->mangled, spec.args_cnt);
		for (uint32_t k = 0; k < spec.args_cnt; k++)
			if (memcmp(&spec.args[k], &g->want.args[k], sizeof(spec.args[k])))
				fail_msg("%s: number %u: form %u where %u flags %u index %u", g->mangled, k,
					 spec.args[k].form, spec.args[k].where, spec.args[k].flags,
					 spec.args[k].index);
	}
}

static void refuses(void **state)
{
	static const char t[] = "x(Tensor a) -> Tensor", i2[] = "x(int a, int b) -> ()";
	static const struct {
		const char *mangled, *schema;
		int r;
	} bads[] = {
		{ "", t, -EINVAL },
		{ "malloc", t, -EINVAL },
		{ "_Z1xRKN2at6TensorE", t, -EINVAL },
		{ "_ZN2at4_ops1x4call", t, -EINVAL },
		{ "_ZN2at4_ops1x4callE", t, -EINVAL },
		{ "_ZN2at4_ops1x9callERKNS_6TensorE", t, -EINVAL },
		{ "_ZN2at4_ops1x4callERKNS_6Tensor", t, -EINVAL },
		{ "_ZN2at4_ops1x4callERKNS_6TensorE.cold", t, -EPROTO },
		{ "_ZN2at4_ops1x4callERKNS9_6TensorE", t, -EPROTO },
		{ "_ZN2at4_ops1x4callERKNSZZZZZZZZZZZZZZ_6TensorE", t, -EINVAL },
		{ "_ZN2at4_ops1x4callERKN3,104ListE", t, -EINVAL },
		{ "_ZN2at4_ops1x4callEPFvvE", t, -EINVAL },
		{ "_ZN2at4_ops1x4callEA4_i", t, -EINVAL },
		{ "_ZN2at4_ops1x4callEN3c108ArrayRefIEE", t, -EINVAL },
		{ "_ZN2at4_ops1x4callEN3c107UnknownE", t, -ENOTSUP },
		{ "_ZN2at4_ops1x4callESt5arrayIbLm17EE", t, -ENOTSUP },
		{ "_ZN2at4_ops1x4callERKNS_6TensorE", i2, -EPROTO },
		{ "_ZN2at4_ops1x4callEl", i2, -EPROTO },
		{ "_ZN2at4_ops1x4callElll", i2, -EPROTO },
		{ "_ZN2at4_ops1x4callEl", t, -EPROTO },
		{ "_ZN2at4_ops1x4callEv", t, -EPROTO },
		{ "_ZN2at4_ops1x4callERKNS_6TensorE", "x(Tensor? a) -> Tensor", -EPROTO },
		{ "_ZN2at4_ops1x4callERKNS_6TensorE", "x(Tensor[] a) -> Tensor", -EPROTO },
		{ "_ZN2at4_ops1x4callERKNS_6TensorE", "x(Tensor a) -> Mystery", -ENOTSUP },
	};
	char deep[400] = "_ZN2at4_ops1x4callE", many[200] = "_ZN2at4_ops1x4callERKNS_6TensorE";
	char text[1200] = "x(Tensor a";
	struct mt_flow_spec spec;

	(void)state;
	for (size_t i = 0; i < sizeof(bads) / sizeof(*bads); i++) {
		int r;

		memset(&spec, 0xff, sizeof(spec));
		r = spec_of(bads[i].mangled, bads[i].schema, 0, &spec);
		if (r != bads[i].r || spec.args_cnt)
			fail_msg("%s: %d, wanted %d", bads[i].mangled, r, bads[i].r);
	}
	memset(deep + strlen(deep), 'P', 300);
	assert_int_equal(spec_of(deep, t, 0, &spec), -EINVAL);
	for (int i = 0; i < MT_FLOW_SPEC_ARGS_MAX; i++) {
		strcat(many, "S4_");
		strcat(text, ", Tensor b");
	}
	strcat(text, ") -> ()");
	assert_int_equal(spec_of(many, text, 0, &spec), -E2BIG);
}

static void knows_node_applies(void **state)
{
	(void)state;
	assert_true(callconv__is_node_apply(
		"_ZN5torch8autograd14AccumulateGrad5applyEOSt6vectorIN2at6TensorESaIS4_EE"));
	assert_true(callconv__is_node_apply(
		"_ZN5torch8autograd9generated14AddmmBackward05applyEOSt6vectorIN2at6TensorESaIS5_EE"));
	assert_false(callconv__is_node_apply( /* not by moving */
		"_ZN5torch8autograd14AccumulateGrad5applyERKSt6vectorIN2at6TensorESaIS4_EE"));
	assert_false(callconv__is_node_apply( /* one parameter more */
		"_ZN5torch8autograd14AccumulateGrad5applyEOSt6vectorIN2at6TensorESaIS4_EEb"));
	assert_false(callconv__is_node_apply(
		"_ZN5torch8autograd14AccumulateGrad6apply2EOSt6vectorIN2at6TensorESaIS4_EE"));
	assert_false(callconv__is_node_apply("_ZN5torch8autograd5applyE"));
	assert_false(callconv__is_node_apply("_ZN5torch3jit3Foo5applyEOSt6vectorIN2at6TensorESaIS4_EE"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places_tensors),
		cmocka_unit_test(refuses),
		cmocka_unit_test(knows_node_applies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Argument strings of SDT notes, as found in CPython, glibc, libtorch and this project's own header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <errno.h>

#include <cmocka.h>

#include "arch/arch.h"

#define NONE MT_REG_NONE

static const struct {
	const char *text;
	struct mt_usdt_arg arg;
} singles[] = {
	{ "-8@%rax", { 0, MT_ARG_REG, MT_REG_RAX, NONE, 1, 8, 1, 0, 0 } },
	{ "8@%rdi", { 0, MT_ARG_REG, MT_REG_RDI, NONE, 1, 8, 0, 0, 0 } },
	{ "8@%r15", { 0, MT_ARG_REG, MT_REG_R15, NONE, 1, 8, 0, 0, 0 } },
	{ "8@%r14d", { 0, MT_ARG_REG, MT_REG_R14, NONE, 1, 4, 0, 0, 0 } },
	{ "-4@%r14d", { 0, MT_ARG_REG, MT_REG_R14, NONE, 1, 4, 1, 0, 0 } },
	{ "1@%dl", { 0, MT_ARG_REG, MT_REG_RDX, NONE, 1, 1, 0, 0, 0 } },
	{ "1@%ah", { 0, MT_ARG_REG, MT_REG_RAX, NONE, 1, 1, 0, 8, 0 } },
	{ "-1@%r9b", { 0, MT_ARG_REG, MT_REG_R9, NONE, 1, 1, 1, 0, 0 } },
	{ "1@%sil", { 0, MT_ARG_REG, MT_REG_RSI, NONE, 1, 1, 0, 0, 0 } },
	{ "2@%ax", { 0, MT_ARG_REG, MT_REG_RAX, NONE, 1, 2, 0, 0, 0 } },
	{ "2@%r8w", { 0, MT_ARG_REG, MT_REG_R8, NONE, 1, 2, 0, 0, 0 } },
	{ "4@%ebp", { 0, MT_ARG_REG, MT_REG_RBP, NONE, 1, 4, 0, 0, 0 } },
	{ "4@%rbp", { 0, MT_ARG_REG, MT_REG_RBP, NONE, 1, 4, 0, 0, 0 } },
	{ "%rbx", { 0, MT_ARG_REG, MT_REG_RBX, NONE, 1, 8, 0, 0, 0 } },
	{ "4@$-3", { -3, MT_ARG_CONST, NONE, NONE, 1, 4, 0, 0, 0 } },
	{ "-4@$-1", { -1, MT_ARG_CONST, NONE, NONE, 1, 4, 1, 0, 0 } },
	{ "8@$0x7fff", { 0x7fff, MT_ARG_CONST, NONE, NONE, 1, 8, 0, 0, 0 } },
	{ "8@-56(%rbp)", { -56, MT_ARG_MEM, MT_REG_RBP, NONE, 1, 8, 0, 0, 0 } },
	{ "-4@112(%rsp)", { 112, MT_ARG_MEM, MT_REG_RSP, NONE, 1, 4, 1, 0, 0 } },
	{ "8@(%rax)", { 0, MT_ARG_MEM, MT_REG_RAX, NONE, 1, 8, 0, 0, 0 } },
	{ "8@(%rax,%rbx,8)", { 0, MT_ARG_MEM, MT_REG_RAX, MT_REG_RBX, 8, 8, 0, 0, 0 } },
	{ "8@-8(%rax,%r12)", { -8, MT_ARG_MEM, MT_REG_RAX, MT_REG_R12, 1, 8, 0, 0, 0 } },
	{ "8@16+4(%rax)", { 20, MT_ARG_MEM, MT_REG_RAX, NONE, 1, 8, 0, 0, 0 } },
	{ "8@16-4(%rax)", { 12, MT_ARG_MEM, MT_REG_RAX, NONE, 1, 8, 0, 0, 0 } },
};

static void reads_each_form(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(singles) / sizeof(*singles); i++) {
		struct mt_usdt_arg args[SDT_ARGS_MAX];
		int r = sdt_args_parse(singles[i].text, args);

		if (r != 1 || memcmp(&args[0], &singles[i].arg, sizeof(args[0])))
			fail_msg("%s: r %d form %d reg %d index %d scale %d bytes %d value %lld",
				 singles[i].text, r, args[0].form, args[0].reg, args[0].index,
				 args[0].scale, args[0].bytes, (long long)args[0].value);
	}
}

/* Well-formed, but out of reach: the argument is absent, those behind it are not. */
static void leaves_out_what_it_cannot_reach(void **state)
{
	static const char *const texts[] = {
		"8@counter(%rip)",
		"8@foo",
		"8@16(%rip)",
		"8@%xmm0",
		"8f@%xmm1",
		"4f@(%rax)",
		"16@%rax",
		"-9223372036854775808@%rax",
		"8@(%eax)",
		"8@(%rax,%rbx,3)",
		"8@$symbol",
		"8@%rax1",
		"8@%",
		"8@(,%rbx,8)",
		"8@(%rax, %rbx)",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct mt_usdt_arg args[SDT_ARGS_MAX];
		char text[64];

		snprintf(text, sizeof(text), "%s -4@$7", texts[i]);
		if (sdt_args_parse(text, args) != 2 || args[0].form != MT_ARG_NONE || args[1].value != 7)
			fail_msg("%s: form %d", texts[i], args[0].form);
	}
}

static void refuses_what_is_no_list(void **state)
{
	static const char *const texts[] = { "x@%rax", "8@", "@%rax", "8x@%rax", "-@%rax" };
	struct mt_usdt_arg args[SDT_ARGS_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (sdt_args_parse(texts[i], args) != -EINVAL)
			fail_msg("%s", texts[i]);
}

static void counts(void **state)
{
	struct mt_usdt_arg args[SDT_ARGS_MAX];

	(void)state;
	assert_int_equal(sdt_args_parse("", args), 0);
	assert_int_equal(sdt_args_parse("   ", args), 0);
	assert_int_equal(sdt_args_parse("8@%rdi -4@%esi  8@%rdx ", args), 3);
	assert_int_equal(args[2].reg, MT_REG_RDX);
	/* pytorch:malloc of 2.15, the second */
	assert_int_equal(sdt_args_parse("-8@%rbp -1@%al -8@%r12 -8@56(%rsp)", args), 4);
	assert_true(args[1].bytes == 1 && args[1].is_signed && args[3].form == MT_ARG_MEM && args[3].value == 56);
	assert_int_equal(
		sdt_args_parse("1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al",
			       args),
		12);
	assert_int_equal(
		sdt_args_parse(
			"1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al",
			args),
		-EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_each_form),
		cmocka_unit_test(leaves_out_what_it_cannot_reach),
		cmocka_unit_test(refuses_what_is_no_list),
		cmocka_unit_test(counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

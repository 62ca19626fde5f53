/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The choice of the probed instruction, on bytes that compilers really emit, and on this machine's libc. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/lib-names.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <link.h>

#include "arch/arch.h"
#include "target/elf.h"

#define RDI	  ARG_BIT(0)
#define RSI	  ARG_BIT(1)
#define NOP5	  0x0f, 0x1f, 0x44, 0, 0
#define CODE(...) (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ })

static const struct {
	const char *what;
	const uint8_t *code;
	size_t len;
	struct prologue_need need;
	uint32_t skipped;
	enum insn_class class;
	const char *insn;
} cases[] = {
	{ "glibc free: the je behind the test",
	  CODE(0x48, 0x85, 0xff, 0x0f, 0x84, 0xbf, 0, 0, 0, 0x55, 0xc3),
	  { RDI, 0 },
	  3,
	  INSN_JUMP,
	  "je 0x10c8" },
	{ "a push first",
	  CODE(0x41, 0x57, 0x41, 0x56, 0xc3),
	  { ARGS_ALL, 1 },
	  0,
	  INSN_PUSH,
	  "push %r15" },
	{ "endbr64, then a push",
	  CODE(0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0xc3),
	  { ARGS_ALL, 1 },
	  4,
	  INSN_PUSH,
	  "push %rbp" },
	{ "nothing cheap", CODE(0x48, 0x89, 0xf8, 0xc3), { RDI, 0 }, 0, INSN_STEPPED, "mov %rdi, %rax" },
	{ "the argument is gone before the push",
	  CODE(0x31, 0xff, 0x55, 0xc3),
	  { RDI, 0 },
	  0,
	  INSN_STEPPED,
	  NULL },
	{ "torch 2.15's report of the CUDA allocator: a mov relative to rip first",
	  CODE(0x48, 0x8b, 0x05, 0x91, 0x51, 0x0f, 0x00, 0x41, 0x56, 0x45, 0x89, 0xc6, 0x41, 0x55, 0x49, 0x89, 0xcd),
	  { ARGS_ALL, 0 },
	  7,
	  INSN_PUSH,
	  "push %r14" },
	{ "another argument is gone",
	  CODE(0x31, 0xff, 0x55, 0xc3),
	  { RSI, 0 },
	  2,
	  INSN_PUSH,
	  "push %rbp" },
	{ "low half of the argument written",
	  CODE(0x40, 0xb7, 0x01, 0x55, 0xc3),
	  { RDI, 0 },
	  0,
	  INSN_STEPPED,
	  NULL },
	{ "hidden operand: mul writes rdx",
	  CODE(0x48, 0xf7, 0xe6, 0x70, 0x01, 0xc3),
	  { ARG_BIT(2), 0 },
	  0,
	  INSN_STEPPED,
	  NULL },
	{ "a stack frame before the push",
	  CODE(0x48, 0x83, 0xec, 0x08, 0x55, 0xc3),
	  { RDI, 0 },
	  0,
	  INSN_STEPPED,
	  NULL },
	{ "a pop moves the return address", CODE(0x58, 0x55, 0xc3), { RDI, 0 }, 0, INSN_STEPPED, NULL },
	{ "nop5 behind a push: the function may use what is below rsp",
	  CODE(0x55, NOP5, 0xc3),
	  { RDI, 0 },
	  0,
	  INSN_PUSH,
	  NULL },
	{ "nop5 behind a mov", CODE(0x89, 0xf8, NOP5, 0xc3), { RDI, 1 }, 0, INSN_STEPPED, NULL },
	{ "nop5 at the entry", CODE(NOP5, 0x55, 0xc3), { RDI, 1 }, 0, INSN_NOP5, "nop (5 bytes)" },
	{ "another five bytes that do nothing", CODE(0x66, 0x66, 0x66, 0x66, 0x90, 0xc3), { RDI, 1 }, 0, INSN_NOP5, NULL },
	{ "lea of rsp to itself is a nop to the kernel, too",
	  CODE(0x55, 0x48, 0x8d, 0x64, 0x24, 0x00, 0xc3),
	  { RDI, 0 },
	  0,
	  INSN_PUSH,
	  NULL },
	{ "nop5 behind endbr64", CODE(0xf3, 0x0f, 0x1e, 0xfa, NOP5, 0x55, 0xc3), { RDI, 1 }, 4, INSN_NOP5, NULL },
	{ "nop5 behind another nop", CODE(0x90, NOP5, 0x55, 0xc3), { RDI, 1 }, 0, INSN_NOP, NULL },
	/* nop5; dec; jne to the nop5 */
	{ "nop5 at the entry as a loop head: the next one",
	  CODE(NOP5, 0x48, 0xff, 0xce, 0x75, 0xf6, 0xc3),
	  { RSI, 1 },
	  5,
	  INSN_STEPPED,
	  "dec %rsi" },
	{ "nop5 behind endbr64, and a branch to that",
	  CODE(0xf3, 0x0f, 0x1e, 0xfa, NOP5, 0x48, 0xff, 0xce, 0x75, 0xf2, 0xc3),
	  { RSI, 1 },
	  0,
	  INSN_STEPPED,
	  "endbr64" },
	{ "nop5 at the entry, and a branch nobody can follow", CODE(NOP5, 0x55, 0xff, 0xe0), { RDI, 1 }, 5, INSN_PUSH, NULL },
	{ "a tail call through the table of imports is none",
	  CODE(NOP5, 0x55, 0xff, 0x25, 0, 0, 0, 0),
	  { RDI, 1 },
	  0,
	  INSN_NOP5,
	  NULL },
	{ "nop5 at the entry, and bytes that are no code", CODE(NOP5, 0x55, 0xc3, 0x06), { RDI, 1 }, 5, INSN_PUSH, NULL },
	{ "of two that cost about the same the first", CODE(0x90, 0x55, 0xc3), { RDI, 1 }, 0, INSN_NOP, NULL },
	{ "a ten-byte nop is not cheap everywhere",
	  CODE(0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x55, 0xc3),
	  { RDI, 1 },
	  10,
	  INSN_PUSH,
	  NULL },
	{ "never behind a conditional branch",
	  CODE(0x48, 0x85, 0xff, 0x48, 0x0f, 0x44, 0xc7, 0xe3, 0x02, 0x55, 0xc3),
	  { RDI, 0 },
	  0,
	  INSN_STEPPED,
	  NULL },
	{ "never behind a return", CODE(0xc3, 0x55, 0xc3), { RDI, 0 }, 0, INSN_RET, "ret" },
	{ "never behind a system call",
	  CODE(0x0f, 0x05, 0x55, 0xc3),
	  { RDI, 0 },
	  0,
	  INSN_STEPPED,
	  "syscall" },
	{ "never behind a trap", CODE(0x0f, 0x0b, 0x55, 0xc3), { RDI, 0 }, 0, INSN_STEPPED, "ud2" },
	{ "a call first", CODE(0xe8, 0, 0, 0, 0, 0xc3), { RDI, 1 }, 0, INSN_CALL, NULL },
	{ "a call through memory first", CODE(0xff, 0x15, 0, 0, 0, 0, 0xc3), { RDI, 1 }, 0, INSN_CALL, NULL },
	{ "16-bit branches are not emulated",
	  CODE(0x66, 0xe9, 0, 0, 0, 0, 0xc3),
	  { RDI, 1 },
	  0,
	  INSN_STEPPED,
	  NULL },
	{ "push of memory is not emulated", CODE(0xff, 0x37, 0xc3), { RDI, 1 }, 0, INSN_STEPPED, NULL },
	/* test; L: je out; dec; jmp L */
	{ "a loop head",
	  CODE(0x48, 0x85, 0xff, 0x74, 0x05, 0x48, 0xff, 0xcf, 0xeb, 0xf9, 0xc3),
	  { RDI, 0 },
	  0,
	  INSN_STEPPED,
	  NULL },
	/* test; je L+; … jmp elsewhere: the same without the loop */
	{ "no loop head",
	  CODE(0x48, 0x85, 0xff, 0x74, 0x05, 0x48, 0xff, 0xcf, 0xeb, 0xfb, 0xc3),
	  { RDI, 0 },
	  3,
	  INSN_JUMP,
	  NULL },
	/* jumping to the entry is a call: push first; jmp entry */
	{ "tail recursion", CODE(0x55, 0x5d, 0xeb, 0xfc), { RDI, 0 }, 0, INSN_PUSH, "push %rbp" },
};

/* A kernel on which a five-byte nop at an entry has shown to be good. */
static struct insn_classes proven;

static void picks(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct prologue_site s;
		int r = prologue_pick(cases[i].code, cases[i].len, cases[i].len, 0x1000, &cases[i].need, &proven,
				      &s);

		if (r || s.skipped != cases[i].skipped || s.insn_class != cases[i].class ||
		    (cases[i].insn && strcmp(s.insn, cases[i].insn)))
			fail_msg("%s: r %d skipped %u class %d insn %s", cases[i].what, r, s.skipped,
				 s.insn_class, s.insn);
	}
}

static void stays_inside_the_symbol(void **state)
{
	static const uint8_t code[] = { 0x48, 0x85, 0xff, 0x0f, 0x84, 0xbf, 0, 0, 0, 0x55 };
	const struct prologue_need need = { RDI, 0 };
	struct prologue_site s;

	(void)state;
	for (size_t size = 0; size < 9; size++) {
		assert_int_equal(prologue_pick(code, sizeof(code), size, 0, &need, &proven, &s), 0);
		assert_int_equal(s.skipped, 0);
	}
	assert_int_equal(prologue_pick(code, sizeof(code), 9, 0, &need, &proven, &s), 0);
	assert_int_equal(s.skipped, 3);
	/* fewer bytes at hand than the symbol has */
	assert_int_equal(prologue_pick(code, 6, 100, 0, &need, &proven, &s), 0);
	assert_int_equal(s.skipped, 0);
}

static void inside_a_function(void **state)
{
	static const uint8_t code[] = { NOP5 }, nop[] = { 0x90, NOP5 };
	struct insn_classes all = proven;
	struct prologue_site s;

	(void)state;
	assert_int_equal(prologue_at(code, 5, 0x1000, &proven, &s), -ENOTSUP);
	assert_int_equal(prologue_at(code, 5, 0x1ffb, &proven, &s), -ENOTSUP); /* the last that fits its page */
	assert_int_equal(prologue_at(code, 5, 0x1ffc, &proven, &s), 0); /* not optimised */
	assert_int_equal(s.insn_class, INSN_STEPPED);
	assert_int_equal(prologue_at(nop, 6, 0x1000, &proven, &s), 0); /* where the note says, not behind it */
	assert_int_equal(s.insn_class, INSN_NOP);
	assert_int_equal(s.skipped, 0);
	all.of[INSN_NOP5_INSIDE].is_usable = 1; /* a kernel that has shown it */
	assert_int_equal(prologue_at(code, 5, 0x1000, &all, &s), 0);
	assert_int_equal(s.insn_class, INSN_NOP5_INSIDE);
}

/* Every subset of classes: what is chosen is usable; if nothing is, nothing is chosen. */
static void chooses_what_is_usable(void **state)
{
	static const uint8_t code[] = { NOP5, 0x90, 0x55, 0x89, 0xf8, 0xe8, 0, 0, 0, 0, 0xc3 };
	const struct prologue_need need = { RDI, 0 };

	(void)state;
	for (unsigned mask = 0; mask < 1u << INSN_CLASSES; mask++) {
		struct insn_classes some = proven;
		struct prologue_site s;
		int r;

		for (int c = 0; c < INSN_CLASSES; c++)
			some.of[c].is_usable = mask >> c & 1;
		r = prologue_pick(code, sizeof(code), sizeof(code), 0x1000, &need, &some, &s);
		if (!(mask & (1u << INSN_NOP5 | 1u << INSN_NOP | 1u << INSN_PUSH | 1u << INSN_STEPPED | 1u << INSN_CALL)))
			assert_int_equal(r, -ENOTSUP);
		else
			assert_true(!r && some.of[s.insn_class].is_usable);
	}
}

/* Nobody has tried it on this kernel: then no five-byte nop anywhere. */
static void assumes_what_is_safe_everywhere(void **state)
{
	static const uint8_t code[] = { NOP5, 0x55, 0xc3 };
	struct insn_classes assumed = insn_classes_assumed();
	const struct prologue_need need = { RDI, 1 };
	struct prologue_site s;

	(void)state;
	assert_int_equal(prologue_pick(code, sizeof(code), sizeof(code), 0x1000, &need, &assumed, &s), 0);
	assert_int_equal(s.skipped, 5);
	assert_int_equal(s.insn_class, INSN_PUSH);
	assert_int_equal(prologue_pick(code, 5, 5, 0x1000, &need, &assumed, &s), -ENOTSUP); /* there is no other */
	assert_int_equal(prologue_pick(code, sizeof(code), 0, 0x1000, &need, &assumed, &s), -ENOTSUP);
	assert_int_equal(prologue_at(code, 5, 0x1000, &assumed, &s), -ENOTSUP);
}

static void refuses_no_code(void **state)
{
	static const uint8_t bad[] = { 0x06, 0x06 };
	const struct prologue_need need = { RDI, 0 };
	struct prologue_site s;

	(void)state;
	assert_int_equal(prologue_pick(bad, 2, 2, 0, &need, &proven, &s), -EINVAL);
	assert_int_equal(prologue_pick(bad, 0, 2, 0, &need, &proven, &s), -EINVAL);
}

static void costs_are_ordered(void **state)
{
	struct insn_classes a = insn_classes_assumed();

	(void)state;
	assert_true(a.of[INSN_NOP5].hit_ns < a.of[INSN_PUSH].hit_ns);
	assert_true(a.of[INSN_NOP].hit_ns * 5 < a.of[INSN_STEPPED].hit_ns);
	assert_string_equal(insn_class_name(INSN_CLASSES), "?");
	for (int c = INSN_NOP5; c < INSN_CLASSES; c++) {
		assert_true(a.of[c].hit_ns && a.of[c].pair_ns >= a.of[c].hit_ns);
		assert_string_not_equal(insn_class_name(c), "?");
	}
}

static int find_libc(struct dl_phdr_info *info, size_t size, void *ctx)
{
	(void)size;
	if (!strstr(info->dlpi_name, LIBC_SO))
		return 0;
	*(int *)ctx = open(info->dlpi_name, O_RDONLY);
	return 1;
}

/* Whatever libc this is: free need not be single-stepped, and the site is inside it. */
static void this_libc_has_a_cheap_free(void **state)
{
	const struct prologue_need need = { RDI, 0 };
	struct prologue_site s;
	struct elf_sym sym;
	struct elf *e;
	size_t len;
	int fd = -1;

	(void)state;
	dl_iterate_phdr(find_libc, &fd);
	assert_true(fd >= 0);
	assert_int_equal(elf__open(&e, fd, "libc", NULL), 0);
	assert_int_equal(elf__find_symbol(e, "free", &sym), 0);
	assert_int_equal(
		prologue_pick(elf__bytes(e, sym.offset, 4096, &len), 4096, sym.size, sym.offset, &need, &proven, &s),
		0);
	assert_true(s.insn_class != INSN_STEPPED);
	assert_true(s.skipped < sym.size);
	elf__free(e);
}

int main(void)
{
	proven = insn_classes_assumed();
	proven.of[INSN_NOP5].is_usable = 1;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(picks),
		cmocka_unit_test(stays_inside_the_symbol),
		cmocka_unit_test(inside_a_function),
		cmocka_unit_test(chooses_what_is_usable),
		cmocka_unit_test(assumes_what_is_safe_everywhere),
		cmocka_unit_test(refuses_no_code),
		cmocka_unit_test(costs_are_ordered),
		cmocka_unit_test(this_libc_has_a_cheap_free),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

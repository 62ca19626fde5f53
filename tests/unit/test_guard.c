/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Where a function keeps whether it was ever called: the forms that compilers emit, what only looks like one, any bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>

#include <cmocka.h>

#include "arch/arch.h"

#define VADDR	  0x1000ull
#define CODE(...) (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ })

static const struct {
	const char *what;
	const uint8_t *code;
	size_t len;
	uint64_t guard; /* 0: none */
} cases[] = {
	{ "GCC: jne over the slow path",
	  CODE(0x41, 0x57,				/* 00 push %r15 */
	       0x48, 0x83, 0xec, 0x78,			/* 02 sub $0x78,%rsp */
	       0x0f, 0xb6, 0x05, 0xf3, 0x0f, 0, 0,	/* 06 movzbl 0xff3(%rip),%eax → 0x2000 */
	       0x84, 0xc0,				/* 0d test %al,%al */
	       0x75, 0x0f,				/* 0f jne 0x20 */
	       0x48, 0x8d, 0x1d, 0xe8, 0x0f, 0, 0,	/* 11 lea 0xfe8(%rip),%rbx → 0x2000 */
	       0x48, 0x89, 0xdf,			/* 18 mov %rbx,%rdi */
	       0xe8, 0, 0, 0, 0,			/* 1b call */
	       0xc3),
	  0x2000 },
	{ "GCC: je to a slow path elsewhere",
	  CODE(0x0f, 0xb6, 0x05, 0xf9, 0x0f, 0, 0,	/* 00 movzbl → 0x2000 */
	       0x84, 0xc0,				/* 07 test */
	       0x74, 0x02,				/* 09 je 0x0d */
	       0xc3, 0xcc,				/* 0b */
	       0x48, 0x8d, 0x3d, 0xec, 0x0f, 0, 0,	/* 0d lea → 0x2000,%rdi */
	       0xe8, 0, 0, 0, 0),			/* 14 call */
	  0x2000 },
	{ "clang: compared in memory",
	  CODE(0x80, 0x3d, 0xf9, 0x0f, 0, 0, 0,		/* 00 cmpb $0,0xff9(%rip) → 0x2000 */
	       0x0f, 0x84, 1, 0, 0, 0,			/* 07 je 0x0e */
	       0xc3,					/* 0d */
	       0x48, 0x8d, 0x3d, 0xeb, 0x0f, 0, 0,	/* 0e lea → 0x2000,%rdi */
	       0xe8, 0, 0, 0, 0),
	  0x2000 },
	{ "another flag is tested before it",
	  CODE(0x80, 0x3d, 0xf9, 0x1f, 0, 0, 0,		/* 00 cmpb $0,0x1ff9(%rip) → 0x3000 */
	       0x75, 0x02,				/* 07 jne 0x0b */
	       0x90, 0x90,				/* 09 */
	       0x0f, 0xb6, 0x05, 0xee, 0x0f, 0, 0,	/* 0b movzbl → 0x2000 */
	       0x84, 0xc0,				/* 12 test */
	       0x75, 0x0c,				/* 14 jne */
	       0x48, 0x8d, 0x3d, 0xe3, 0x0f, 0, 0,	/* 16 lea → 0x2000,%rdi */
	       0xe8, 0, 0, 0, 0),
	  0x2000 },
	{ "the address of something else is taken",
	  CODE(0x0f, 0xb6, 0x05, 0xf9, 0x0f, 0, 0, 0x84, 0xc0, 0x75, 0x0c, 0x48, 0x8d, 0x3d, 0xef, 0x0f, 0, 0,
	       0xe8, 0, 0, 0, 0),
	  0 },
	{ "nothing is called",
	  CODE(0x0f, 0xb6, 0x05, 0xf9, 0x0f, 0, 0, 0x84, 0xc0, 0x75, 0x07, 0x48, 0x8d, 0x3d, 0xee, 0x0f, 0, 0, 0xc3), 0 },
	{ "the byte tested is another one",
	  CODE(0x0f, 0xb6, 0x05, 0xf9, 0x0f, 0, 0, 0x84, 0xdb, 0x75, 0x0c, 0x48, 0x8d, 0x3d, 0xee, 0x0f, 0, 0,
	       0xe8, 0, 0, 0, 0),
	  0 },
	{ "a word, not a byte",
	  CODE(0x8b, 0x05, 0xfa, 0x0f, 0, 0, 0x85, 0xc0, 0x75, 0x0c, 0x48, 0x8d, 0x3d, 0xef, 0x0f, 0, 0, 0xe8, 0, 0, 0, 0), 0 },
	{ "behind the function's end", CODE(0xc3, 0x0f, 0xb6, 0x05, 0xf8, 0x0f, 0, 0, 0x84, 0xc0, 0x75, 0x0c), 0 },
	{ "cut in the slow path", CODE(0x0f, 0xb6, 0x05, 0xf9, 0x0f, 0, 0, 0x84, 0xc0, 0x75, 0x0c, 0x48, 0x8d, 0x3d, 0xee), 0 },
	{ "a branch out of the function",
	  CODE(0x0f, 0xb6, 0x05, 0xf9, 0x0f, 0, 0, 0x84, 0xc0, 0x0f, 0x84, 0xff, 0xff, 0xff, 0x7f), 0 },
	{ "a branch before the function",
	  CODE(0x0f, 0xb6, 0x05, 0xf9, 0x0f, 0, 0, 0x84, 0xc0, 0x0f, 0x84, 0, 0, 0, 0x80), 0 },
	{ "nothing", (const uint8_t *)"", 0, 0 },
};

static void finds(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t guard = 0;
		int r = guard_find(cases[i].code, cases[i].len, VADDR, &guard);

		if (r != (cases[i].guard ? 0 : -ENOENT) || guard != cases[i].guard)
			fail_msg("%s: %d, %llx", cases[i].what, r, (unsigned long long)guard);
	}
}

/* Every beginning of good code, in a buffer of just that length: nothing behind it is read, and no half is a guard. */
static void cut_anywhere(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (size_t len = 0; cases[i].guard && len < cases[i].len; len++) {
			uint8_t *copy = malloc(len + 1);
			uint64_t guard = 0;

			memcpy(copy + 1, cases[i].code, len);
			if (!guard_find(copy + 1, len, VADDR, &guard))
				assert_int_equal(guard, cases[i].guard);
			free(copy);
		}
	}
}

static void any_bytes(void **state)
{
	uint64_t x = 88172645463325252ull;

	(void)state;
	for (int n = 0; n < 200000; n++) {
		uint8_t code[48];
		uint64_t guard;

		for (size_t i = 0; i < sizeof(code); i++) {
			x ^= x << 13, x ^= x >> 7, x ^= x << 17;
			code[i] = (uint8_t)(x >> 32);
		}
		if (n & 1) /* good code with some of it changed */
			memcpy(code, cases[0].code, cases[0].len);
		if (n & 1)
			code[x % cases[0].len] = (uint8_t)(x >> 40);
		(void)guard_find(code, sizeof(code), n & 2 ? UINT64_MAX - 16 : VADDR, &guard);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds),
		cmocka_unit_test(cut_anywhere),
		cmocka_unit_test(any_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "arch/arch.h"

/* A site begins with the probed instruction and not with endbr64: calls of it are not checked (-fcf-protection). */
typedef __attribute__((nocf_check)) uint64_t (*own_fn)(const void *a, const void *b, const void *c);

/* Empty functions, OWN_SPAN bytes apart. */
#define OWN_SPAN 16
#define STRING_(x) #x
#define STRING(x) STRING_(x)
__asm__(".text\n.p2align 4\n.globl mt_own_sites\n.hidden mt_own_sites\n.type mt_own_sites, @function\nmt_own_sites:\n"
	".rept " STRING(OWN_SITES) "\n"
	"push %rbp\npop %rbp\nxor %eax, %eax\nret\n.p2align 4\n"
	".endr\n.size mt_own_sites, . - mt_own_sites\n");
extern const uint8_t mt_own_sites[OWN_SITES][OWN_SPAN];

__asm__(".text\n.p2align 6\n.globl mt_own_code\n.hidden mt_own_code\n.type mt_own_code, @function\nmt_own_code:\n"
	".rept " STRING(OWN_LINES) "\n"
	"dec %rdi\njs 1f\njmp 2f\n1: ret\n.p2align 6\n2:\n"
	".endr\nret\n.size mt_own_code, . - mt_own_code\n");
void mt_own_code(size_t lines);

const void *own_site(unsigned n)
{
	return mt_own_sites[n];
}

void own_site_call(unsigned n, const void *a, const void *b, const void *c)
{
	((own_fn)(uintptr_t)mt_own_sites[n])(a, b, c);
}

void own_code_run(size_t lines)
{
	mt_own_code(lines);
}

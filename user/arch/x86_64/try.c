/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * try_run loads everything, jumps into a piece and stores everything when that has jumped back; between the loading and the
 * storing there are only moves, which change no flags, and the piece itself. What it needs to find its way back is above the
 * stack pointer; everything below belongs to the piece.
 */
#include "arch/arch.h"

#include <string.h>

#define STR_(x) #x
#define STR(x) STR_(x)

#define TRY_ZONE 16 /* words of the red zone, the one at rsp - 8 first */

struct state {
	uint64_t regs[15]; /* in the order of the encoding, without rsp */
	uint64_t flags;
	uint64_t xmm[32];
	uint64_t zone[TRY_ZONE];
	uint64_t mark; /* out: 1 when a conditional jump was not taken */
} __attribute__((may_alias)); /* the words of struct try_state */

#define AT_FLAGS 120
#define AT_XMM 128
#define AT_ZONE 384
#define AT_MARK 512
_Static_assert(offsetof(struct state, flags) == AT_FLAGS && offsetof(struct state, xmm) == AT_XMM &&
		       offsetof(struct state, zone) == AT_ZONE && offsetof(struct state, mark) == AT_MARK &&
		       sizeof(struct state) <= sizeof(struct try_state),
	       "the code below knows where things are");

const uint8_t try_breakpoint = 0xcc;

#define XMM(op) \
	".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n" op "\n.endr\n"
#define GPRS(op) /* all but rsp, rdi and rax, with their number */ \
	".macro mt_gpr reg, i\n" op "\n.endm\n" \
	"mt_gpr rcx,1\nmt_gpr rdx,2\nmt_gpr rbx,3\nmt_gpr rbp,4\nmt_gpr rsi,5\n" \
	"mt_gpr r8,7\nmt_gpr r9,8\nmt_gpr r10,9\nmt_gpr r11,10\nmt_gpr r12,11\nmt_gpr r13,12\nmt_gpr r14,13\nmt_gpr r15,14\n" \
	".purgem mt_gpr\n"

/* On the stack: 0 room for rdi, 8 the mark, 16 out, 24 the piece. */
__asm__(".text\n.p2align 6\n.globl try_run\n.type try_run, @function\ntry_run:\n"
	"push %rbx\npush %rbp\npush %r12\npush %r13\npush %r14\npush %r15\n"
	"push %rdx\npush %rsi\npush $0\npush $0\n"
	XMM("movups " STR(AT_XMM) "+16*\\n(%rdi), %xmm\\n")
	"push " STR(AT_FLAGS) "(%rdi)\npopfq\n"
	".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
	"mov " STR(AT_ZONE) "+8*\\n(%rdi), %rax\nmov %rax, -8-8*\\n(%rsp)\n.endr\n"
	GPRS("mov 8*\\i(%rdi), %\\reg")
	"mov (%rdi), %rax\nmov 8*6(%rdi), %rdi\n"
	"jmp *24(%rsp)\n"
	".globl mt_try_back\n.hidden mt_try_back\nmt_try_back:\n"
	"mov %rdi, (%rsp)\nmov 16(%rsp), %rdi\nmov %rax, (%rdi)\n"
	GPRS("mov %\\reg, 8*\\i(%rdi)")
	"mov (%rsp), %rax\nmov %rax, 8*6(%rdi)\n"
	"mov 8(%rsp), %rax\nmov %rax, " STR(AT_MARK) "(%rdi)\n"
	".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
	"mov -8-8*\\n(%rsp), %rax\nmov %rax, " STR(AT_ZONE) "+8*\\n(%rdi)\n.endr\n"
	"pushfq\npop " STR(AT_FLAGS) "(%rdi)\n"
	XMM("movups %xmm\\n, " STR(AT_XMM) "+16*\\n(%rdi)")
	"add $32, %rsp\npop %r15\npop %r14\npop %r13\npop %r12\npop %rbp\npop %rbx\nret\n"
	".size try_run, . - try_run\n");

/* A piece: `before`, the probed instruction, `after`. Aligned, so that a nop does not span two pages. */
#define PIECE(name, before, insn, after)                                                                             \
	__asm__(".text\n.p2align 5\n.globl mt_try_" #name "\n.hidden mt_try_" #name "\n.globl mt_at_" #name            \
		"\n.hidden mt_at_" #name "\n.type mt_try_" #name ", @function\nmt_try_" #name ":\n" before ".p2align 4\n" \
		"mt_at_" #name ":\n" insn "\n" after "\njmp mt_try_back\n.size mt_try_" #name ", . - mt_try_" #name "\n"); \
	extern const char mt_try_##name[], mt_at_##name[]
/* The same in a function of its own. */
#define CALLED(name, insn, after) PIECE(name, "call 3f\njmp mt_try_back\n.p2align 4\n3:\n", insn, after)

#define NOP5 ".byte 0x0f,0x1f,0x44,0,0"
static volatile uint64_t word __asm__("mt_try_word") __attribute__((used)) = 1;

extern const char mt_try_callee[];
static const void *const slot __asm__("mt_try_slot") __attribute__((used)) = mt_try_callee;

PIECE(nop, "", "nop", "");
CALLED(nop5, NOP5, "ret");
PIECE(nop5_inside, "", NOP5, "");
PIECE(push, "", "push %rcx", "lea 8(%rsp), %rsp");
PIECE(push_r12, "", "push %r12", "lea 8(%rsp), %rsp");
PIECE(jmp, "", "jmp 3f", "ud2\n3:");
PIECE(je, "", "je 3f", "movq $1, 8(%rsp)\n3:");
PIECE(jl_long, "", ".byte 0x0f,0x8c\n.long 3f - . - 4", "movq $1, 8(%rsp)\n3:");
PIECE(call, "", "call 3f", "3: lea 8(%rsp), %rsp");
PIECE(call_slot, "", "call *mt_try_slot(%rip)",
      "jmp mt_try_back\n.globl mt_try_callee\n.hidden mt_try_callee\nmt_try_callee: ret");
PIECE(test, "", "test %rdi, %rdi", "");
PIECE(load, "", "mov mt_try_word(%rip), %rax", "");
PIECE(compare, "", "cmpl $1, mt_try_word(%rip)", "");
PIECE(store, "", "mov %rcx, -24(%rsp)", "");
PIECE(frame, "", "sub $0x28, %rsp", "lea 0x28(%rsp), %rsp\ntest %rax, %rax"); /* test: the sub's flags depend on the stack */
CALLED(ret, "ret", "ud2");
CALLED(function, "push %rbp", "pop %rbp\nret");

#define SITE(class, insn, name, zone_kept) { class, insn, mt_at_##name, mt_try_##name, zone_kept }
const struct try_site try_sites[] = {
	SITE(INSN_NOP, "nop", nop, TRY_ZONE),
	SITE(INSN_NOP5, "nop (5 bytes) at an entry", nop5, 0), /* called: nothing is kept there */
	SITE(INSN_NOP5_INSIDE, "nop (5 bytes)", nop5_inside, TRY_ZONE),
	SITE(INSN_PUSH, "push %rcx", push, TRY_ZONE),
	SITE(INSN_PUSH, "push %r12", push_r12, TRY_ZONE),
	SITE(INSN_JUMP, "jmp", jmp, TRY_ZONE),
	SITE(INSN_JUMP, "je", je, TRY_ZONE),
	SITE(INSN_JUMP, "jl", jl_long, TRY_ZONE),
	SITE(INSN_CALL, "call", call, TRY_ZONE),
	SITE(INSN_CALL, "call *(%rip)", call_slot, TRY_ZONE),
	SITE(INSN_STEPPED, "test %rdi, %rdi", test, TRY_ZONE),
	SITE(INSN_STEPPED, "mov (%rip), %rax", load, TRY_ZONE),
	SITE(INSN_STEPPED, "cmp $1, (%rip)", compare, TRY_ZONE),
	SITE(INSN_STEPPED, "mov %rcx, -24(%rsp)", store, TRY_ZONE),
	SITE(INSN_STEPPED, "sub $0x28, %rsp", frame, TRY_ZONE),
	SITE(INSN_RET, "ret", ret, TRY_ZONE),
	SITE(INSN_RETURN, "return of a function", function, 0),
};
const size_t try_sites_cnt = sizeof(try_sites) / sizeof(*try_sites);
extern const char mt_try_back[];
const void *const try_nothing = mt_try_back;

void try_state_fill(struct try_state *ret, uint64_t seed)
{
	struct state *s = (struct state *)ret;

	for (size_t i = 0; i < TRY_WORDS; i++) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		ret->words[i] = seed ^ seed >> 29;
	}
	s->flags &= 0x8d5; /* overflow, sign, zero, auxiliary, parity, carry */
	s->mark = 0;
}

int try_differs(const struct try_site *site, const struct try_state *one, const struct try_state *other)
{
	const struct state *a = (const struct state *)one, *b = (const struct state *)other;
	size_t from = TRY_ZONE - site->zone_kept;

	if (memcmp(a, b, offsetof(struct state, zone)) || a->mark != b->mark)
		return 2;
	return memcmp(a->zone + from, b->zone + from, site->zone_kept * sizeof(a->zone[0])) != 0;
}

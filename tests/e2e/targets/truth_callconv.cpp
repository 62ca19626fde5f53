// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/*
 * Where the compiler itself passes the tensors of every operator, from PyTorch's own headers.
 *
 * Each at::_ops::X::schema is a function type. A function of that very type is made, called with
 * every argument register and stack word holding a number of its own, and it notes which number each
 * tensor-like parameter arrived as. Nothing is dereferenced, and nothing returns: what the arguments
 * hold are not objects. One line an operator: NAME index:form:where ….
 *
 * ops.inc (made by the test from the headers) has a line OP(X) for each.
 */
#include <csetjmp>
#include <cstdint>
#include <cstdio>

#include <ATen/core/List.h>
#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <ATen/Operators.h>

static const uintptr_t REGS = 0x1000, STACK = 0x100000, STEP = 0x100;
static jmp_buf back;
static unsigned params;

static void say(int form, uintptr_t word)
{
	if (word >= STACK)
		printf(" %u:%d:%u", params, form, unsigned(16 + (word - STACK) / STEP));
	else
		printf(" %u:%d:%u", params, form, unsigned((word - REGS) / STEP));
}

/* The forms of include/memtrace/event.h, chosen by the compiler's own overload resolution. */
static void look(const at::Tensor &t)
{
	say(1, reinterpret_cast<uintptr_t>(&t));
}
static void look(const c10::optional<at::Tensor> &t)
{
	say(2, reinterpret_cast<uintptr_t>(&t));
}
static void look(const c10::ArrayRef<at::Tensor> &list)
{
	say(3, reinterpret_cast<uintptr_t>(list.data()));
	if (list.size() != reinterpret_cast<uintptr_t>(list.data()) + STEP)
		printf("!"); /* pointer and length are not neighbours */
}
static void look(const c10::IListRef<at::Tensor> &list)
{
	say(4, reinterpret_cast<uintptr_t>(&list));
}
static void look(const c10::List<c10::optional<at::Tensor>> &list)
{
	say(5, reinterpret_cast<uintptr_t>(&list));
}
template <class T> static void look(const T &)
{
}

template <class S> struct maker;
template <class R, class... A> struct maker<R(A...)> {
	__attribute__((noinline)) static R arrive(A... a)
	{
		params = 0;
		((look(a), params++), ...);
		longjmp(back, 1);
	}
};

extern "C" void call_numbered(void *fn);
__asm__(".text\n"
	"call_numbered:\n"
	"	pushq %rbp\n"
	"	movq %rsp, %rbp\n"
	"	movq %rdi, %r11\n"
	"	subq $1024, %rsp\n"
	"	xorl %ecx, %ecx\n"
	"1:	movq %rcx, %rax\n"
	"	shlq $8, %rax\n"
	"	addq $0x100000, %rax\n"
	"	movq %rax, (%rsp,%rcx,8)\n"
	"	incq %rcx\n"
	"	cmpq $128, %rcx\n"
	"	jb 1b\n"
	"	movl $0x1000, %edi\n"
	"	movl $0x1100, %esi\n"
	"	movl $0x1200, %edx\n"
	"	movl $0x1300, %ecx\n"
	"	movl $0x1400, %r8d\n"
	"	movl $0x1500, %r9d\n"
	"	call *%r11\n"
	"	ud2\n");

static const struct {
	const char *name;
	void *fn;
} ops[] = {
#define OP(x) { #x, reinterpret_cast<void *>(&maker<at::_ops::x::schema>::arrive) },
#include "ops.inc"
};

int main()
{
	for (volatile size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i = i + 1) {
		printf("%s", ops[i].name);
		if (!setjmp(back))
			call_numbered(ops[i].fn);
		printf("\n");
	}
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * usdt: announce to memtrace what your program does with memory.
 *
 * One header, no library, no dependency: any C or C++ program, or a custom allocator, may include it
 * and name its operations, regions, steps and blocks. The marks are USDT probes (provider
 * "memtrace"): a tracer that attaches to the running program sees them, and so do bpftrace, perf, gdb and
 * systemtap. While nobody looks, a mark is one 16-bit load and a branch that is not taken, and its
 * arguments are not evaluated. Manual with costs: docs/usdt.md. Example: tools/examples/usdt_example.c.
 *
 *   MEMTRACE_OP_BEGIN(name)            an operation begins: blocks allocated until its end are its own
 *   MEMTRACE_OP_END()                  the innermost open operation of this thread ends
 *   MEMTRACE_REGION_BEGIN(name)        a wider span ("epoch", "optimizer"), independent of operations
 *   MEMTRACE_REGION_END()
 *   MEMTRACE_STEP(n)                   training step (or request, frame, …) number n begins
 *   MEMTRACE_ALLOC(ptr, size, device)  your allocator gave out [ptr, ptr + size)
 *   MEMTRACE_FREE(ptr, device)         your allocator is about to take it back
 *   MEMTRACE_TAG(ptr, name, device)    a name for a live block ("kv-cache")
 *   MEMTRACE_ALLOC_WATCHED()           whether somebody looks at MEMTRACE_ALLOC: 0 or 1
 *
 * device: MEMTRACE_CPU (-1) for memory of the CPU, N >= 0 for accelerator N.
 *
 * Names    NUL-terminated, read while the macro runs: the string may be on the stack and may change
 *          afterwards. 127 bytes count; longer ones are cut. NULL is taken as "". A name is sent once
 *          as long as it is among the 32,768 that were used last, and memtrace keeps a limited number
 *          for each process: put no step numbers or pointers into them.
 * Threads  Operations and regions belong to the thread that began them and end on it, in reverse
 *          order. Blocks belong to the process: any thread may free them.
 * Order    Announce ALLOC after your allocator took the block and FREE before it gives it back, so
 *          that no other thread can announce the same address in between.
 * Realloc  FREE(old) before and ALLOC(new) after. If it failed, ALLOC(old, old_size) again.
 * Escapes  An END closes the innermost open operation. One that an exception or longjmp skips leaves
 *          its operation open, until the same name is begun again in the same call frame.
 *          C++: memtrace::op and memtrace::region end however their scope is left.
 * Depth    Up to 32 operations and 32 regions a thread are followed; deeper ones are counted as a loss.
 * Attach   A tracer that attaches in the middle sees ENDs whose BEGIN it missed, and ignores them.
 *
 * Each executable and each shared library that includes this header has probes and counters of its
 * own (hidden symbols), so plugins need no care. Nothing is written but the counters, and those only by
 * the kernel, for a tracer.
 *
 * Where the probes come from. On x86-64 Linux this header writes the notes itself, in the format of
 * <sys/sdt.h>, rather than through its macros. Two reasons. First, sys/sdt.h has one switch for
 * all probes of a source file (_SDT_HAS_SEMAPHORES): a program with probes of its own would have
 * to agree with us on it. Second, no dependency. A site is a one-byte nop, which every kernel emulates within the trap and
 * which is safe in the middle of any function. Up to memtrace 0.1 a five-byte nop stood behind it, twice as cheap from Linux
 * 6.18 on: that kernel replaces it by a call, whose return address overwrites what a leaf function keeps below its stack
 * pointer. Programs built with such a header are traced at the first nop, which their notes name.
 * On other machines sys/sdt.h is used where there is one, else the macros do nothing.
 *
 *   -DMEMTRACE_DISABLE     every macro does nothing and leaves nothing in the program
 *   -DMEMTRACE_USE_SDT_H   use sys/sdt.h on x86-64 too
 *
 * C90 to C23 and C++11 on; GCC and Clang; quiet under -Wall -Wextra -pedantic. GNU assembler syntax of
 * x86-64 is assumed to be the usual one (not -masm=intel), as in sys/sdt.h.
 */
#ifndef MEMTRACE_USDT_H
#define MEMTRACE_USDT_H

#include <stddef.h>

#define MEMTRACE_CPU (-1)

/* --- which way ------------------------------------------------------------------------------------ */

#if defined(MEMTRACE_DISABLE)
#define MEMTRACE_USDT_WAY 0
#elif defined(__GNUC__) && defined(__ELF__) && defined(__x86_64__) && defined(__LP64__) && \
	!defined(MEMTRACE_USE_SDT_H)
#define MEMTRACE_USDT_WAY 1
#elif defined(__GNUC__) && defined(__ELF__) && defined(__LP64__) && defined(__has_include)
#if __has_include(<sys/sdt.h>)
#define MEMTRACE_USDT_WAY 2
#else
#define MEMTRACE_USDT_WAY 0
#endif
#else
#define MEMTRACE_USDT_WAY 0
#endif

#if MEMTRACE_USDT_WAY == 2
#if defined(_SYS_SDT_H) && !defined(_SDT_HAS_SEMAPHORES)
#error "sys/sdt.h is included already, without semaphores: include memtrace/usdt.h before it"
#endif
#ifndef _SDT_HAS_SEMAPHORES
#define _SDT_HAS_SEMAPHORES 1
#endif
#endif

#if MEMTRACE_USDT_WAY != 0

/* --- counters: how many tracers look at a probe ------------------------------------------------- */

#ifdef __cplusplus
extern "C" {
#endif

/* Weak: the copies of all source files become one. Hidden: one per executable or library. */
#define MEMTRACE_USDT_SEMAPHORE_(probe)                                                                \
	extern volatile unsigned short memtrace_##probe##_semaphore                                    \
		__attribute__((visibility("hidden")));                                                 \
	volatile unsigned short memtrace_##probe##_semaphore                                           \
		__attribute__((weak, used, visibility("hidden"), section(".probes"))) = 0

MEMTRACE_USDT_SEMAPHORE_(op_begin);
MEMTRACE_USDT_SEMAPHORE_(op_end);
MEMTRACE_USDT_SEMAPHORE_(region_begin);
MEMTRACE_USDT_SEMAPHORE_(region_end);
MEMTRACE_USDT_SEMAPHORE_(step);
MEMTRACE_USDT_SEMAPHORE_(alloc);
MEMTRACE_USDT_SEMAPHORE_(free);
MEMTRACE_USDT_SEMAPHORE_(tag);

#ifdef __cplusplus
}
#endif

#define MEMTRACE_USDT_ON_(probe) __builtin_expect(memtrace_##probe##_semaphore != 0, 0)

#else

#define MEMTRACE_USDT_ON_(probe) 0

#endif

/* --- the sites ------------------------------------------------------------------------------------- */

#if MEMTRACE_USDT_WAY == 1

/* Base symbol of sys/sdt.h, with which tools undo prelink. One a file, from its first definition. */
#define MEMTRACE_USDT_BASE_                                                                            \
	".ifndef _.stapsdt.base\n"                                                                     \
	".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"                        \
	".weak _.stapsdt.base\n.hidden _.stapsdt.base\n"                                               \
	"_.stapsdt.base: .space 1\n.size _.stapsdt.base,1\n.popsection\n.endif\n"

/* A nop, and the note with its address, its counter and the places of its arguments. */
#define MEMTRACE_USDT_SITE_(probe, args)                                                               \
	"990: nop\n"                                                                                  \
	".pushsection .note.stapsdt,\"?\",\"note\"\n"                                                  \
	".balign 4\n.4byte 992f-991f,994f-993f,3\n"                                                    \
	"991: .asciz \"stapsdt\"\n992: .balign 4\n"                                                    \
	"993: .8byte 990b,_.stapsdt.base,memtrace_" probe "_semaphore\n"                               \
	".asciz \"memtrace\"\n.asciz \"" probe "\"\n.asciz \"" args "\"\n"                             \
	"994: .balign 4\n.popsection\n"

/*
 * Registers and constants only ("nr"): an operand like counter(%rip) is beyond most tools. The
 * memory clobber makes sure that a name composed just before is in memory when the tracer reads it.
 */
#define MEMTRACE_USDT_FIRE0_(probe)                                                                    \
	__asm__ __volatile__(MEMTRACE_USDT_SITE_(#probe, "") ::: "memory");                            \
	__asm__ __volatile__(MEMTRACE_USDT_BASE_)
#define MEMTRACE_USDT_FIRE1_(probe, a)                                                                 \
	__asm__ __volatile__(MEMTRACE_USDT_SITE_(#probe, "8@%[mt_a]")::[mt_a] "nr"(a) : "memory");     \
	__asm__ __volatile__(MEMTRACE_USDT_BASE_)
#define MEMTRACE_USDT_FIRE2D_(probe, a, dev)                                                           \
	__asm__ __volatile__(MEMTRACE_USDT_SITE_(#probe, "8@%[mt_a] -4@%[mt_d]")::[mt_a] "nr"(a),      \
			     [mt_d] "nr"(dev) : "memory");                                             \
	__asm__ __volatile__(MEMTRACE_USDT_BASE_)
#define MEMTRACE_USDT_FIRE3D_(probe, a, b, dev)                                                        \
	__asm__ __volatile__(MEMTRACE_USDT_SITE_(#probe, "8@%[mt_a] 8@%[mt_b] -4@%[mt_d]")::[mt_a] "nr"( \
				     a),                                                               \
			     [mt_b] "nr"(b), [mt_d] "nr"(dev) : "memory");                             \
	__asm__ __volatile__(MEMTRACE_USDT_BASE_)

#elif MEMTRACE_USDT_WAY == 2

#include <sys/sdt.h>
#define MEMTRACE_USDT_FIRE0_(probe) STAP_PROBE(memtrace, probe)
#define MEMTRACE_USDT_FIRE1_(probe, a) STAP_PROBE1(memtrace, probe, a)
#define MEMTRACE_USDT_FIRE2D_(probe, a, dev) STAP_PROBE2(memtrace, probe, a, dev)
#define MEMTRACE_USDT_FIRE3D_(probe, a, b, dev) STAP_PROBE3(memtrace, probe, a, b, dev)

#else

#define MEMTRACE_USDT_FIRE0_(probe) ((void)0)
#define MEMTRACE_USDT_FIRE1_(probe, a) ((void)(a))
#define MEMTRACE_USDT_FIRE2D_(probe, a, dev) ((void)(a), (void)(dev))
#define MEMTRACE_USDT_FIRE3D_(probe, a, b, dev) ((void)(a), (void)(b), (void)(dev))

#endif

/*
 * Functions, for the sake of argument types; always inline, so that every use is a site of its own.
 * A tracer cannot wait for a page: reading the first byte here brings the name into memory.
 */
#ifdef __GNUC__
#define MEMTRACE_USDT_INLINE_ static __inline__ __attribute__((always_inline, unused))
#else
#define MEMTRACE_USDT_INLINE_ static
#endif

MEMTRACE_USDT_INLINE_ const char *memtrace_usdt_name_(const char *name)
{
	if (!name)
		return "";
	(void)*(const volatile char *)name;
	return name;
}

MEMTRACE_USDT_INLINE_ void memtrace_usdt_op_begin_(const char *name)
{
	name = memtrace_usdt_name_(name);
	MEMTRACE_USDT_FIRE1_(op_begin, name);
}

MEMTRACE_USDT_INLINE_ void memtrace_usdt_op_end_(void)
{
	MEMTRACE_USDT_FIRE0_(op_end);
}

MEMTRACE_USDT_INLINE_ void memtrace_usdt_region_begin_(const char *name)
{
	name = memtrace_usdt_name_(name);
	MEMTRACE_USDT_FIRE1_(region_begin, name);
}

MEMTRACE_USDT_INLINE_ void memtrace_usdt_region_end_(void)
{
	MEMTRACE_USDT_FIRE0_(region_end);
}

MEMTRACE_USDT_INLINE_ void memtrace_usdt_step_(unsigned long n)
{
	MEMTRACE_USDT_FIRE1_(step, n);
}

MEMTRACE_USDT_INLINE_ void memtrace_usdt_alloc_(const volatile void *ptr, size_t size, int device)
{
	MEMTRACE_USDT_FIRE3D_(alloc, ptr, size, device);
}

MEMTRACE_USDT_INLINE_ void memtrace_usdt_free_(const volatile void *ptr, int device)
{
	MEMTRACE_USDT_FIRE2D_(free, ptr, device);
}

MEMTRACE_USDT_INLINE_ void memtrace_usdt_tag_(const volatile void *ptr, const char *name, int device)
{
	name = memtrace_usdt_name_(name);
	MEMTRACE_USDT_FIRE3D_(tag, ptr, name, device);
}

#define MEMTRACE_USDT_DO_(probe, call)                                                                 \
	do {                                                                                           \
		if (MEMTRACE_USDT_ON_(probe))                                                          \
			call;                                                                          \
	} while (0)

#define MEMTRACE_ALLOC_WATCHED() ((int)MEMTRACE_USDT_ON_(alloc))
#define MEMTRACE_OP_BEGIN(name) MEMTRACE_USDT_DO_(op_begin, memtrace_usdt_op_begin_(name))
#define MEMTRACE_OP_END() MEMTRACE_USDT_DO_(op_end, memtrace_usdt_op_end_())
#define MEMTRACE_REGION_BEGIN(name) MEMTRACE_USDT_DO_(region_begin, memtrace_usdt_region_begin_(name))
#define MEMTRACE_REGION_END() MEMTRACE_USDT_DO_(region_end, memtrace_usdt_region_end_())
#define MEMTRACE_STEP(n) MEMTRACE_USDT_DO_(step, memtrace_usdt_step_((unsigned long)(n)))
#define MEMTRACE_ALLOC(ptr, size, device)                                                              \
	MEMTRACE_USDT_DO_(alloc, memtrace_usdt_alloc_(ptr, size, device))
#define MEMTRACE_FREE(ptr, device) MEMTRACE_USDT_DO_(free, memtrace_usdt_free_(ptr, device))
#define MEMTRACE_TAG(ptr, name, device)                                                                \
	MEMTRACE_USDT_DO_(tag, memtrace_usdt_tag_(ptr, name, device))

/* --- C++: scopes that end however they are left -------------------------------------------------- */

#ifdef __cplusplus
namespace memtrace {

/*
 * {
 *	memtrace::op scope("decode");
 *	…
 * }
 * Marks its end only if it marked its begin, so a tracer that attaches in between is not confused.
 */
class op {
public:
	explicit op(const char *name) noexcept : said_(MEMTRACE_USDT_ON_(op_begin))
	{
		if (said_)
			memtrace_usdt_op_begin_(name);
	}
	~op()
	{
		if (said_)
			memtrace_usdt_op_end_();
	}
	op(const op &) = delete;
	op &operator=(const op &) = delete;

private:
	bool said_;
};

class region {
public:
	explicit region(const char *name) noexcept : said_(MEMTRACE_USDT_ON_(region_begin))
	{
		if (said_)
			memtrace_usdt_region_begin_(name);
	}
	~region()
	{
		if (said_)
			memtrace_usdt_region_end_();
	}
	region(const region &) = delete;
	region &operator=(const region &) = delete;

private:
	bool said_;
};

} /* namespace memtrace */
#endif

#endif

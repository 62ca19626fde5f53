// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/*
 * redzone: leaf functions that keep values below the stack pointer, with a USDT site between writing and reading them. A probe
 * that pushes anything in a site's place overwrites them.
 *
 *   header  MEMTRACE_ALLOC of memtrace/usdt.h as it is
 *   old     as it was up to 0.1: a nop, which the note names, and a five-byte nop behind it
 *   middle  a note that names a five-byte nop in the middle of a function
 *   ten     a note that names a ten-byte nop, which later kernels turn into a call that steps over the red zone
 *
 * Each is called for a second after "go", in a thread and in a forked child as well; says how often, and how many calls came
 * back with other values.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "memtrace/usdt.h"
#include "truth.h"

#define NOTE(provider, probe, semaphore, args)                                                                       \
	".pushsection .note.stapsdt,\"?\",\"note\"\n.balign 4\n.4byte 992f-991f,994f-993f,3\n"                        \
	"991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b,_.stapsdt.base," semaphore "\n"                     \
	".asciz \"" provider "\"\n.asciz \"" probe "\"\n.asciz \"" args "\"\n994: .balign 4\n.popsection\n"
#define NOP5 ".byte 0x0f,0x1f,0x44,0,0\n"
#define NOP10 ".byte 0x66,0x2e,0x0f,0x1f,0x84,0,0,0,0,0\n"

#define LEAF(name, site)                                                                                             \
	static __attribute__((noinline)) unsigned name(uint64_t a)                                                   \
	{                                                                                                            \
		volatile uint64_t v[8];                                                                              \
		unsigned harmed = 0;                                                                                 \
                                                                                                                     \
		for (unsigned i = 0; i < 8; i++)                                                                     \
			v[i] = a + i;                                                                                \
		site;                                                                                                \
		for (unsigned i = 0; i < 8; i++)                                                                     \
			harmed |= v[i] != a + i;                                                                     \
		return harmed;                                                                                       \
	}

LEAF(header, MEMTRACE_ALLOC((void *)a, 64, MEMTRACE_CPU))
LEAF(old, __asm__ volatile("990: nop\n" NOP5 NOTE("memtrace", "alloc", "memtrace_alloc_semaphore", "8@%0 8@$64 -4@$-1")
			   ::"r"(a) : "memory"))
LEAF(middle, __asm__ volatile("990: " NOP5 NOTE("redzone", "middle", "0", "8@%0")::"r"(a) : "memory"))
LEAF(ten, __asm__ volatile("990: " NOP10 NOTE("redzone", "ten", "0", "8@%0")::"r"(a) : "memory"))

static const struct {
	const char *name;
	unsigned (*fn)(uint64_t);
} leaves[] = { { "header", header }, { "old", old }, { "middle", middle }, { "ten", ten } };
#define LEAVES (sizeof(leaves) / sizeof(*leaves))

static struct counts {
	uint64_t calls, harmed;
} (*counts)[LEAVES]; /* of the main thread, the other one, the child; shared with it */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *call_all(void *arg)
{
	struct counts *c = arg;

	for (size_t i = 0; i < LEAVES; i++) {
		uint64_t addr = (uint64_t)(c - counts[0] + 1) << 32;

		for (double end = now() + 1; now() < end;)
			for (int k = 0; k < 1000; k++, c[i].calls++)
				c[i].harmed += leaves[i].fn(addr + 4096 * (c[i].calls % 64));
	}
	return NULL;
}

int main(void)
{
	pthread_t thread;
	int status = 0;
	pid_t child;

	counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED)
		return 1;
	truth_ready();
	for (int k = 0; k < 1000; k++) /* a kernel changes a site at its first hits: the child begins with changed ones */
		for (size_t i = 0; i < LEAVES; i++)
			leaves[i].fn(4096);
	child = fork();
	if (!child) {
		call_all(counts[2]);
		_exit(0);
	}
	if (child < 0 || pthread_create(&thread, NULL, call_all, counts[1]))
		return 1;
	call_all(counts[0]);
	pthread_join(thread, NULL);
	if (waitpid(child, &status, 0) != child)
		return 1;
	truth_say("{\"child\":%d,\"watched\":%d,\"leaves\":{", status, MEMTRACE_ALLOC_WATCHED());
	for (size_t i = 0; i < LEAVES; i++)
		truth_say("%s\"%s\":{\"calls\":%llu,\"harmed\":%llu}", i ? "," : "", leaves[i].name,
			  (unsigned long long)(counts[0][i].calls + counts[1][i].calls + counts[2][i].calls),
			  (unsigned long long)(counts[0][i].harmed + counts[1][i].harmed + counts[2][i].harmed));
	truth_say("}");
	truth_end();
	return 0;
}

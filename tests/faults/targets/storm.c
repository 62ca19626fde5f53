// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/*
 * storm MODE [COUNT [PLUGIN]]: a process that means no good, or has gone wrong. Says "ready PID", waits for a line, does
 * COUNT of what MODE says, says "done TOLD" (allocations that it told, on device 7), and lives until its stdin closes.
 *
 *   forks     children that end at once, 500 a second; tells an allocation and a free for each
 *   execs     becomes itself anew, COUNT times, and tells one allocation in the end
 *   threads   COUNT threads that all live at once, and tell ten allocations each
 *   dlopens   PLUGIN is loaded, tells an allocation, is unloaded
 *   maps      mappings of PLUGIN as code, which come and go without a pause
 *   mappings  COUNT mappings of PLUGIN as code that stay, and then one that comes and goes, for six seconds
 *   names     operators, regions, tags and threads' names that are all different, and children with 100 KB of arguments
 *   pointers  pytorch:malloc of pointers that all fall into one place of a table whose hash is known, and memtrace's alloc
 *   scattered the same of others
 *   random    allocations of sizes and at places of chance, of which no recording is small, and frees; another line ends it
 *   usdt      allocations and frees, one after the other
 *   eat       allocates 4 MiB, tells it, touches it; goes on until something ends it; says "ate N" for each
 *   all       forks, names, pointers, usdt and maps at once, each in a thread, until stdin closes; PLUGIN is loaded
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "memtrace/usdt.h"

#define DEVICE 7

static const char *plugin, *self;
static unsigned long reported; /* atomic */

static void tell(const void *ptr, size_t size)
{
	MEMTRACE_ALLOC(ptr, size, DEVICE);
	__atomic_fetch_add(&reported, 1, __ATOMIC_RELAXED);
}

static void pause_us(long us)
{
	nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL);
}

/* pytorch:malloc(ptr, device, size, stream), as sys/sdt.h writes it, without a counter. */
static __attribute__((noinline)) void pytorch_malloc(uint64_t ptr, uint64_t size)
{
	__asm__ __volatile__("990: nop\n"
			     ".pushsection .note.stapsdt,\"?\",\"note\"\n"
			     ".balign 4\n.4byte 992f-991f,994f-993f,3\n"
			     "991: .asciz \"stapsdt\"\n992: .balign 4\n"
			     "993: .8byte 990b,0,0\n.asciz \"pytorch\"\n.asciz \"malloc\"\n"
			     ".asciz \"8@%0 -4@%1 8@%2 8@%3\"\n994: .balign 4\n.popsection\n" ::"nr"(ptr),
			     "nr"(0), "nr"(size), "nr"(0ul));
}

static void forks(unsigned long count)
{
	for (unsigned long i = 0; i < count; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		if (pid > 0)
			waitpid(pid, NULL, 0);
		tell(&reported, 64);
		MEMTRACE_FREE(&reported, DEVICE);
		pause_us(1000);
	}
}

/* The last of them tells something, once a tracer has come. The kernel counts just before it sets the probe: a pause. */
static void execs(unsigned long count)
{
	char left[32];

	snprintf(left, sizeof(left), "%lu", count);
	if (count)
		execl("/proc/self/exe", self, "again", left, (char *)NULL);
	for (int i = 0; i < 20000 && !MEMTRACE_ALLOC_WATCHED(); i++)
		pause_us(1000);
	pause_us(50000);
	tell(left, sizeof(left));
}

static pthread_barrier_t all_there;

static void *one_thread(void *arg)
{
	pthread_barrier_wait(&all_there);
	for (uintptr_t i = 0; i < 10; i++)
		tell((void *)((uintptr_t)&arg + i), 1);
	pthread_barrier_wait(&all_there);
	return NULL;
}

static void threads(unsigned long count)
{
	pthread_t *all = calloc(count, sizeof(*all));
	pthread_attr_t small;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	pthread_barrier_init(&all_there, NULL, (unsigned)count);
	for (unsigned long i = 0; i < count; i++)
		if (pthread_create(&all[i], &small, one_thread, NULL))
			abort();
	for (unsigned long i = 0; i < count; i++)
		pthread_join(all[i], NULL);
	free(all);
}

/* What it tells, it tells because a tracer has come: 1, else 0. */
static int dlopen_once(uintptr_t ptr)
{
	void *lib = dlopen(plugin, RTLD_NOW);
	int (*give)(void *, size_t), n;

	if (!lib)
		abort();
	*(void **)&give = dlsym(lib, "plugin_give");
	n = give((void *)ptr, 64);
	__atomic_fetch_add(&reported, (unsigned long)n, __ATOMIC_RELAXED);
	dlclose(lib);
	return n;
}

static void dlopens(unsigned long count)
{
	for (unsigned long i = 1; i <= count; i++)
		dlopen_once(64 * i);
}

/* Each has its own line in /proc/PID/maps: the next one's place in the file does not follow on it. */
static void mappings(unsigned long count)
{
	int fd = open(plugin ? plugin : "/proc/self/exe", O_RDONLY | O_CLOEXEC);

	for (unsigned long i = 0; i < count; i++)
		if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
			exit(1);
	printf("mapped\n");
	for (int i = 0; i < 3000; i++) {
		void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

		if (p != MAP_FAILED)
			munmap(p, 4096);
		pause_us(2000);
	}
	close(fd);
}

static void maps(unsigned long count)
{
	int fd = open(plugin ? plugin : "/proc/self/exe", O_RDONLY | O_CLOEXEC);

	for (unsigned long i = 0; i < count; i++) {
		void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

		if (p != MAP_FAILED)
			munmap(p, 4096);
	}
	close(fd);
}

static void long_arguments(void)
{
	static char text[100 << 10];
	pid_t pid;

	memset(text, 'x', sizeof(text) - 1);
	pid = fork();
	if (!pid) {
		execl("/bin/true", "true", text, (char *)NULL);
		_exit(1);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static void names(unsigned long count)
{
	char text[256];

	for (unsigned long i = 0; i < count; i++) {
		snprintf(text, sizeof(text), "iter%lu of %0100lu", i, i);
		MEMTRACE_REGION_BEGIN(text);
		text[0] = 'o';
		MEMTRACE_OP_BEGIN(text);
		tell(text + i % 64, 64);
		MEMTRACE_TAG(text + i % 64, text, DEVICE);
		MEMTRACE_FREE(text + i % 64, DEVICE);
		MEMTRACE_OP_END();
		MEMTRACE_REGION_END();
		if (i % 16 == 0)
			prctl(PR_SET_NAME, text + 100);
		if (i % 1024 == 0)
			long_arguments();
		if (i % 64 == 0)
			pause_us(100);
	}
}

static void multiples(uint64_t of, unsigned long count)
{
	for (unsigned long i = 1; i <= count; i++) {
		pytorch_malloc(of * i, 1);
		tell((void *)(of * i), 1);
		if (i % 64 == 0)
			pause_us(100);
	}
}

/* The inverse of 0x9e3779b97f4a7c15 modulo 2^64: multiplied by that, these pointers are 1, 2, 3…: their upper halves are 0. */
static void pointers(unsigned long count)
{
	uint64_t inverse = 1;

	for (int i = 0; i < 6; i++)
		inverse *= 2 - 0x9e3779b97f4a7c15u * inverse;
	multiples(inverse, count);
}

static void scattered(unsigned long count)
{
	multiples(0xd1b54a32d192ed03u, count);
}

static void wait_for_line(void)
{
	char c = 0;

	while (c != '\n')
		if (read(0, &c, 1) != 1)
			exit(0);
}

static void at_random(unsigned long count)
{
	struct pollfd told = { .fd = 0, .events = POLLIN };
	uint64_t x = 88172645463325252u;

	for (unsigned long i = 1; i <= count; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		tell((void *)x, 1 + x % (1 << 24)); /* none of 0 bytes: that is no allocation */
		MEMTRACE_FREE((void *)x, DEVICE); /* a report of millions of blocks takes seconds: metrics would stand still */
		if (i % 64)
			continue;
		pause_us(100);
		if (poll(&told, 1, 0) > 0) {
			wait_for_line();
			return;
		}
	}
}

static void usdt(unsigned long count)
{
	static char memory[4096];

	for (unsigned long i = 0; i < count; i++) {
		tell(&memory[i % sizeof(memory)], 1);
		MEMTRACE_FREE(&memory[i % sizeof(memory)], DEVICE);
	}
}

static void eat(unsigned long count)
{
	for (unsigned long i = 0; i < count; i++) {
		char *p = mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		tell(p, 4 << 20);
		printf("ate %lu\n", reported);
		memset(p, 1, 4 << 20);
		pause_us(1000);
	}
}

static void *for_ever(void *fn)
{
	for (;;)
		((void (*)(unsigned long))(uintptr_t)fn)(10000);
	return NULL;
}

static void all(unsigned long count)
{
	void (*const floods[])(unsigned long) = { forks, names, pointers, usdt, maps };
	pthread_t t;

	(void)count;
	if (plugin && !dlopen(plugin, RTLD_NOW))
		abort();
	for (unsigned i = 0; i < sizeof(floods) / sizeof(*floods); i++)
		if (pthread_create(&t, NULL, for_ever, (void *)(uintptr_t)floods[i]))
			abort();
}

static const struct {
	const char *mode;
	void (*fn)(unsigned long count);
} modes[] = {
	{ "forks", forks }, { "execs", execs }, { "again", execs }, { "threads", threads }, { "dlopens", dlopens },
	{ "maps", maps }, { "mappings", mappings }, { "names", names }, { "pointers", pointers }, { "scattered", scattered },
	{ "random", at_random }, { "usdt", usdt }, { "eat", eat }, { "all", all },
};

int main(int argc, char **argv)
{
	unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	int again = argc > 1 && !strcmp(argv[1], "again");

	self = argv[0];
	plugin = argc > 3 ? argv[3] : NULL;
	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
	if (!again) {
		printf("ready %d\n", (int)getpid());
		wait_for_line();
	}
	for (unsigned i = 0; argc > 1 && i < sizeof(modes) / sizeof(*modes); i++)
		if (!strcmp(argv[1], modes[i].mode))
			modes[i].fn(again ? count - 1 : count);
	printf("done %lu\n", reported);
	wait_for_line();
	return 0;
}

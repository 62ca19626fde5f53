/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* A process's memory by kind and by owner, its CPU time; and whether it has a shadow stack. See target.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/arch.h"
#include "memtrace/event.h"
#include "target/proc_io.h"
#include "target/target_state.h"

/* "\nRssAnon:    1234 kB" → bytes; 0 if there is no such line (kernel threads). */
static uint64_t status_bytes(const char *text, const char *line)
{
	const char *at = strstr(text, line);
	unsigned long long kb = at ? strtoull(at + strlen(line), NULL, 10) : 0;

	return kb > UINT64_MAX >> 10 ? UINT64_MAX : (uint64_t)kb << 10;
}

int target__rss(const struct target *t, struct target_rss *ret)
{
	char *text;
	size_t len;
	int r = target__read_file(t, DOOR_STATUS, 64 << 10, &text, &len);

	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	*ret = (struct target_rss){
		.anon = status_bytes(text, "\nRssAnon:"),
		.file = status_bytes(text, "\nRssFile:"),
		.shmem = status_bytes(text, "\nRssShmem:"),
		.swap = status_bytes(text, "\nVmSwap:"),
		.high = status_bytes(text, "\nVmHWM:"),
	};
	free(text);
	return 0;
}

static uint64_t use_sum(const char *text, const char *a, const char *b)
{
	uint64_t x = status_bytes(text, a), y = b ? status_bytes(text, b) : 0;

	return x + y < x ? UINT64_MAX : x + y;
}

int target__use(const struct target *t, uint64_t *ret)
{
	char *text;
	size_t len;
	int r = target__read_file(t, DOOR_SMAPS_ROLLUP, 64 << 10, &text, &len);

	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	if (!len) {
		free(text);
		return -ESRCH; /* a zombie */
	}
	ret[MT_USE_RSS] = use_sum(text, "\nRss:", NULL);
	ret[MT_USE_PSS] = use_sum(text, "\nPss:", NULL);
	ret[MT_USE_PRIVATE] = use_sum(text, "\nPrivate_Clean:", "\nPrivate_Dirty:");
	ret[MT_USE_SHARED] = use_sum(text, "\nShared_Clean:", "\nShared_Dirty:");
	ret[MT_USE_ANON] = use_sum(text, "\nAnonymous:", NULL);
	ret[MT_USE_PSS_ANON] = use_sum(text, "\nPss_Anon:", NULL);
	ret[MT_USE_PSS_FILE] = use_sum(text, "\nPss_File:", NULL);
	ret[MT_USE_PSS_SHMEM] = use_sum(text, "\nPss_Shmem:", NULL);
	ret[MT_USE_HUGE] = use_sum(text, "\nAnonHugePages:", NULL);
	ret[MT_USE_HUGETLB] = use_sum(text, "\nShared_Hugetlb:", "\nPrivate_Hugetlb:");
	ret[MT_USE_SWAP] = use_sum(text, "\nSwapPss:", NULL);
	free(text);
	r = target__read_file(t, DOOR_STATUS, 64 << 10, &text, &len);
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	ret[MT_USE_LOCKED] = use_sum(text, "\nVmLck:", NULL);
	ret[MT_USE_PINNED] = use_sum(text, "\nVmPin:", NULL);
	free(text);
	return 0;
}

int target__use_of_pages(const struct target *t, uint64_t own, uint64_t *ret, uint32_t *ret_known)
{
	struct target_rss rss;
	uint64_t all;
	char *text;
	size_t len;
	int r = target__rss(t, &rss);

	if (r >= 0)
		r = target__read_file(t, DOOR_STATUS, 64 << 10, &text, &len);
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	all = rss.anon + rss.file + rss.shmem;
	ret[MT_USE_RSS] = all;
	ret[MT_USE_PRIVATE] = own < all ? own : all; /* pages may have been freed since they were counted */
	ret[MT_USE_SHARED] = all - ret[MT_USE_PRIVATE];
	ret[MT_USE_ANON] = rss.anon;
	ret[MT_USE_HUGETLB] = use_sum(text, "\nHugetlbPages:", NULL);
	ret[MT_USE_LOCKED] = use_sum(text, "\nVmLck:", NULL);
	ret[MT_USE_PINNED] = use_sum(text, "\nVmPin:", NULL);
	free(text);
	*ret_known = 1u << MT_USE_RSS | 1u << MT_USE_PRIVATE | 1u << MT_USE_SHARED | 1u << MT_USE_ANON | 1u << MT_USE_HUGETLB |
		     1u << MT_USE_LOCKED | 1u << MT_USE_PINNED;
	return 0;
}

int target__usage(const struct target *t, uint64_t *ret_cpu_ns, uint64_t *ret_rss, unsigned *ret_threads)
{
	struct proc_stat st;
	int r = target__stat(t, &st);
	uint64_t cpu, rss;

	if (r < 0)
		return r;
	if (__builtin_add_overflow(proc_ticks_ns(st.utime_ticks), proc_ticks_ns(st.stime_ticks), &cpu) ||
	    __builtin_mul_overflow(st.rss_pages, (uint64_t)sysconf(_SC_PAGESIZE), &rss) ||
	    st.threads > UINT_MAX)
		return -ERANGE;
	*ret_cpu_ns = cpu;
	*ret_rss = rss;
	*ret_threads = (unsigned)st.threads;
	return 0;
}

int target__has_shadow_stack(const struct target *t)
{
	char *text;
	size_t len;
	int r = proc_read(t->dirfd, "status", 64 << 10, &text, &len);

	if (r < 0)
		return 0; /* it has ended */
	r = arch.shadow_status[0] && proc_line_has_word(text, arch.shadow_status[0], arch.shadow_status[1]);
	free(text);
	return r;
}

int machine_has_shadow_stacks(void)
{
	char *text;
	size_t len;
	int dir = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), r;

	if (dir < 0)
		return 0;
	r = proc_read(dir, "cpuinfo", 64 << 10, &text, &len);
	close(dir);
	if (r < 0)
		return 0;
	r = arch.shadow_cpuinfo[0] && proc_line_has_word(text, arch.shadow_cpuinfo[0], arch.shadow_cpuinfo[1]);
	free(text);
	return r;
}

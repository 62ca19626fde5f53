/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * How much is enough. A ring has to hold the records that come while we do not read: a busy thread sends 380,000 a second at
 * most (the worst job we have; 48 bytes each, with the ring's header), and the loop was away for 0.2 s at most (a reading of
 * smaps_rollup). Threads move between CPUs, so what matters is how many busy ones share one ring. tests/unit/test_rings.c
 * simulates that for 2 to 512 CPUs with ranks of two busy threads each; its output is in docs/losses.md. With a ring for each
 * CPU, up to MT_RINGS_MAX, 8 MiB hold the one or two that share a ring; with 16 rings, as there were, 512 CPUs need 17.6 MiB in
 * each, and 32 CPUs take turns at a ring's lock.
 *
 * The memory is the kernel's, taken at once, and counts for our cgroup: at most 1/256 of the memory available, 1 GiB in all,
 * and never less than the 32 MiB that small machines have had.
 */
#include "trace/rings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "trace/trace.h"

#define RING_BYTES_ENOUGH (8ull << 20)
/* Two rings of 8 MiB were full after 0.8 s without a CPU; 64 MiB last for 1.5 s of a busy thread. */
#define ALL_BYTES_ENOUGH (64ull << 20)
#define MEMORY_SHARE 256

void rings__init(struct rings *rs)
{
	*rs = (struct rings){ 0 };
	for (unsigned i = 0; i < MT_RINGS_MAX; i++)
		rs->v[i].fd = -1;
}

void rings__done(struct rings *rs)
{
	for (unsigned i = 0; i < rs->cnt; i++)
		ring__done(&rs->v[i]);
	rings__init(rs);
}

int rings__add(struct rings *rs, int fd, size_t size)
{
	int r = ring__init(&rs->v[rs->cnt], fd, size);

	if (!r)
		rs->cnt++;
	return r;
}

/* --- reading ------------------------------------------------------------------------------------------- */

/*
 * Reads for a ring's share of the time, or a few records if that is over. 1: there is more; 0: everything up to `end` was read,
 * or the rest waits; < 0: fn's error.
 */
static int rings__share(struct rings *rs, unsigned i, unsigned long end, uint64_t begin_ns, uint64_t end_ns,
			int (*fn)(void *ctx, const void *rec, size_t len), void *ctx, long *cnt)
{
	uint64_t share_ns = end_ns == UINT64_MAX ? UINT64_MAX : now_ns() + (end_ns - begin_ns) / rs->cnt;
	struct ring *r = &rs->v[i];
	long n;

	share_ns = share_ns < end_ns ? share_ns : end_ns;
	n = ring__drain(r, end, share_ns, fn, ctx);
	if (n < 0)
		return (int)n;
	*cnt += n;
	if (*r->consumer == end) {
		r->read_ns = begin_ns;
		return 0;
	}
	r->read_ns = r->last_ns > r->read_ns ? r->last_ns : r->read_ns;
	return now_ns() >= share_ns;
}

long rings__drain(struct rings *rs, uint64_t budget_ns, int (*fn)(void *ctx, const void *rec, size_t len), void *ctx,
		  struct drained *ret)
{
	uint64_t begin_ns = now_ns(), end_ns = budget_ns == UINT64_MAX ? UINT64_MAX : begin_ns + budget_ns;
	unsigned long ends[MT_RINGS_MAX];
	unsigned left = 0;
	uint8_t waits[MT_RINGS_MAX];
	long cnt = 0;

	*ret = (struct drained){ .until_ns = begin_ns };
	for (unsigned i = 0; i < rs->cnt; i++) {
		ends[i] = ring__end(&rs->v[i]);
		waits[i] = 1;
		left++;
	}
	while (left && !ret->more) {
		unsigned i = rs->turn % rs->cnt;
		int r = waits[i] ? rings__share(rs, i, ends[i], begin_ns, end_ns, fn, ctx, &cnt) : 1;

		if (r < 0)
			return r;
		if (!r)
			left -= waits[i]--;
		rs->turn = (i + 1) % rs->cnt;
		ret->more = left && end_ns != UINT64_MAX && now_ns() >= end_ns;
	}
	for (unsigned i = 0; i < rs->cnt; i++)
		if (rs->v[i].read_ns < ret->until_ns)
			ret->until_ns = rs->v[i].read_ns;
	return cnt;
}

/* --- sizes ----------------------------------------------------------------------------------------------- */

static uint64_t pow2_down(uint64_t v)
{
	uint64_t p = 1;

	while (p * 2 <= v && p < 1u << 30)
		p *= 2;
	return p;
}

struct rings_size rings_size(uint64_t asked, unsigned cpus, uint64_t memory)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), total = asked;
	struct rings_size s = { .cnt = 1 };

	while (s.cnt < MT_RINGS_MAX && s.cnt < cpus)
		s.cnt *= 2;
	if (!total)
		total = s.cnt * RING_BYTES_ENOUGH > ALL_BYTES_ENOUGH ? s.cnt * RING_BYTES_ENOUGH : ALL_BYTES_ENOUGH;
	if (!asked && total > memory / MEMORY_SHARE)
		total = memory / MEMORY_SHARE;
	if (!asked && total < TRACE_RING_BYTES_LEAST)
		total = TRACE_RING_BYTES_LEAST;
	while (s.cnt > 1 && total / s.cnt < page)
		s.cnt /= 2;
	s.bytes = pow2_down(total / s.cnt);
	if (s.bytes < page)
		s.bytes = page;
	return s;
}

/* The limit of our group, where it is mounted; UINT64_MAX: none there, or no limit. */
static uint64_t limit_of(const char *root, const char *group, const char *file)
{
	unsigned long long bytes;
	char path[4200];
	FILE *f;
	int n;

	snprintf(path, sizeof(path), "%s%s/%s", root, group, file);
	f = fopen(path, "re");
	if (!f)
		return UINT64_MAX;
	n = fscanf(f, "%llu", &bytes);
	fclose(f);
	return n == 1 ? bytes : UINT64_MAX;
}

/* The lowest limit of a group, whose path is cut, and all around it. A container may see its own as the root of all. */
static uint64_t limit_above(const char *root, char *group, const char *file)
{
	uint64_t least = UINT64_MAX;

	for (;;) {
		uint64_t limit = limit_of(root, group, file);
		char *slash = strrchr(group, '/');

		least = limit < least ? limit : least;
		if (!slash)
			return least;
		*slash = '\0';
	}
}

/* A line of /proc/self/cgroup: "0::/group", or "4:memory:/group" of the old hierarchy, which has a mount a controller. */
static uint64_t limit_by(char *line)
{
	char *group = strrchr(line, ':');

	if (!group)
		return UINT64_MAX;
	*group++ = '\0';
	group[strcspn(group, "\n")] = '\0';
	if (!strcmp(line, "0:"))
		return limit_above("/sys/fs/cgroup", group, "memory.max");
	line = strchr(line, ':');
	if (!line || strcmp(line, ":memory") != 0)
		return UINT64_MAX;
	return limit_above("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
}

uint64_t rings_memory(void)
{
	uint64_t least = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[4096];

	while (f && fgets(line, sizeof(line), f)) {
		uint64_t limit = limit_by(line);

		least = limit < least ? limit : least;
	}
	if (f)
		fclose(f);
	return least;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "target/counters.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define OBJECT_PAGES 16 /* torch 2.13 has the vector 22,584 bytes after the object's beginning */
#define PAGE_WORDS   512
#define PAGE_BYTES   (PAGE_WORDS * sizeof(uint64_t))
#define HEAD_WORDS   32 /* statistics may begin this far into a device's object; a mutex precedes them: 5 words in 2.13 */
#define BYTES_MAX    (1ll << 50)

enum { CURRENT, PEAK, ALLOCATED, FREED, STAT_WORDS };
enum { ALL, SMALL, LARGE, ARRAY_STATS };
enum { ALLOCATED_BYTES = 4, RESERVED_BYTES = 5, ARRAYS };
struct stats {
	int64_t v[ARRAYS][ARRAY_STATS][STAT_WORDS];
};

static bool is_stat(const int64_t s[STAT_WORDS])
{
	return s[CURRENT] >= 0 && s[CURRENT] <= s[PEAK] && s[PEAK] < BYTES_MAX && s[ALLOCATED] >= 0 && s[FREED] >= 0;
}

static bool is_array(const int64_t a[ARRAY_STATS][STAT_WORDS])
{
	static const int sums[] = { CURRENT, ALLOCATED, FREED };

	for (int i = 0; i < ARRAY_STATS; i++)
		if (!is_stat(a[i]))
			return false;
	for (size_t i = 0; i < sizeof(sums) / sizeof(*sums); i++)
		if ((uint64_t)a[ALL][sums[i]] != (uint64_t)a[SMALL][sums[i]] + (uint64_t)a[LARGE][sums[i]])
			return false;
	return true;
}

static bool is_stats(const struct stats *s)
{
	for (int i = 0; i < ARRAYS; i++)
		if (!is_array(s->v[i]))
			return false;
	return s->v[ALLOCATED_BYTES][ALL][CURRENT] <= s->v[RESERVED_BYTES][ALL][CURRENT];
}

static bool is_used(const struct stats *s)
{
	return s->v[RESERVED_BYTES][ALL][PEAK] > 0 && s->v[ALLOCATED_BYTES][ALL][PEAK] > 0;
}

static bool is_object(uint64_t addr)
{
	return addr >= 4096 && addr < 1ull << 63 && !(addr & 7);
}

/* Hostile memory decides how much of it is looked at, so reads are limited. */
struct counters_look {
	const struct counters_mem *mem;
	unsigned left; /* reads; 0: given up */
};

static int counters_look__read(struct counters_look *l, uint64_t addr, void *buf, size_t len)
{
	int r = l->left ? l->mem->read(l->mem->ctx, addr, buf, len) : -ETIMEDOUT;

	l->left = l->left && r != -ETIMEDOUT ? l->left - 1 : 0;
	return r;
}

/* The offset in words at which all devices of a vector have statistics, one of them used; -1: none, or several. */
static int offset_of(struct counters_look *look, const uint64_t *devs, size_t cnt)
{
	static _Thread_local uint64_t words[HEAD_WORDS + sizeof(struct stats) / sizeof(uint64_t)];
	uint64_t fit = ~0ull >> (64 - HEAD_WORDS), used = 0;

	for (size_t i = 0; i < cnt && fit; i++) {
		if (!devs[i])
			continue;
		if (!is_object(devs[i]) || counters_look__read(look, devs[i], words, sizeof(words)))
			return -1;
		for (unsigned k = 0; k < HEAD_WORDS; k++) {
			struct stats s;

			memcpy(&s, words + k, sizeof(s));
			if (!is_stats(&s))
				fit &= ~(1ull << k);
			else if (is_used(&s))
				used |= 1ull << k;
		}
	}
	fit &= used;
	return fit && !(fit & (fit - 1)) ? __builtin_ctzll(fit) : -1;
}

/* The number of pointers in a vector {begin, end, end of its room}. 0: it is none. */
static size_t vector_cnt(const uint64_t v[3])
{
	if (!is_object(v[0]) || v[1] <= v[0] || v[2] < v[1] || (v[1] - v[0]) & 7 || (v[1] - v[0]) / 8 > COUNTERS_DEVICES_MAX ||
	    v[2] - v[0] > 1u << 20)
		return 0;
	return (v[1] - v[0]) / 8;
}

/* 1: this is the vector, and *ret has its places. */
static int try_vector(struct counters_places *ret, struct counters_look *look, const uint64_t v[3])
{
	uint64_t devs[COUNTERS_DEVICES_MAX];
	size_t cnt = vector_cnt(v);
	int off;

	if (!cnt || counters_look__read(look, v[0], devs, cnt * sizeof(*devs)))
		return 0;
	off = offset_of(look, devs, cnt);
	if (off < 0)
		return 0;
	ret->cnt = cnt;
	for (size_t i = 0; i < cnt; i++)
		ret->at[i] = devs[i] ? devs[i] + (uint64_t)off * sizeof(uint64_t) : 0;
	return 1;
}

int counters__find(struct counters_places *ret, const struct counters_mem *mem, uint64_t object)
{
	uint64_t words[PAGE_WORDS + 2] = { 0 }; /* the last two words of the previous page are kept in front */
	struct counters_look look = { mem, COUNTERS_READS_MAX };
	struct counters_places places;
	int found = 0;

	if (!is_object(object))
		return -ENOENT;
	for (unsigned page = 0; page < OBJECT_PAGES && found < 2; page++) {
		memmove(words, words + PAGE_WORDS, 2 * sizeof(*words));
		if (counters_look__read(&look, object + page * PAGE_BYTES, words + 2, PAGE_BYTES))
			break;
		for (unsigned i = page ? 0 : 2; i + 3 <= PAGE_WORDS + 2 && look.left; i++)
			found += try_vector(&places, &look, words + i);
	}
	if (!look.left) /* there may be another one */
		return -ETIMEDOUT;
	if (found != 1)
		return -ENOENT;
	*ret = places;
	return 0;
}

int counters__read(struct counters *ret, const struct counters_mem *mem, uint64_t at)
{
	struct stats s;
	int r = mem->read(mem->ctx, at, &s, sizeof(s));

	if (r)
		return r == -ETIMEDOUT ? r : -EFAULT;
	if (!is_stats(&s))
		return -EAGAIN;
	*ret = (struct counters){
		.allocated = (uint64_t)s.v[ALLOCATED_BYTES][ALL][CURRENT],
		.allocated_peak = (uint64_t)s.v[ALLOCATED_BYTES][ALL][PEAK],
		.reserved = (uint64_t)s.v[RESERVED_BYTES][ALL][CURRENT],
		.reserved_peak = (uint64_t)s.v[RESERVED_BYTES][ALL][PEAK],
	};
	return 0;
}

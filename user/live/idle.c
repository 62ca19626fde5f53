/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * torch 2.13's 3,101 guards lie in 195 KiB of .bss: one read of the process, 30 to 60 us. Byte 0 of a guard is set when its
 * variable is made, byte 1 while it is being made (libstdc++ and libc++abi), so a first call is seen from its beginning.
 */
#include "live/idle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/quota.h"
#include "target/target.h"

#define READ_BYTES (256u << 10)
#define READS_MAX 16 /* per look: guards that lie further apart are not a library's */
#define GUARD_BYTES 2

struct lib_place {
	uint64_t dev, ino, offset;
};

struct idle_lib {
	uint64_t dev, ino;
	size_t cnt; /* number of its places among the called */
};

struct idle {
	struct lib_place *called; /* ascending */
	size_t called_cnt, called_cap;
	struct idle_lib *libs;
	size_t libs_cnt, libs_cap;
	uint8_t *wanted;
	size_t wanted_cap;
	uint8_t bytes[READ_BYTES];
};

struct idle *idle__new(void)
{
	return calloc(1, sizeof(struct idle));
}

void idle__free(struct idle *i)
{
	if (!i)
		return;
	free(i->called);
	free(i->libs);
	free(i->wanted);
	free(i);
}

static int place_cmp(const struct lib_place *a, const struct lib_place *b)
{
	return cmp_up(a->offset, b->offset) ?: cmp_up(a->ino, b->ino) ?: cmp_up(a->dev, b->dev);
}

static struct lib_place place_of(const struct plan *plan, const struct site *s)
{
	return (struct lib_place){ plan->libs[s->lib].dev, plan->libs[s->lib].ino, s->offset };
}

/* Its place, or where it would be inserted. */
static size_t idle__at(const struct idle *i, const struct lib_place *p)
{
	size_t lo = 0, hi = i->called_cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (place_cmp(&i->called[mid], p) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int idle__is_called(const struct idle *i, const struct lib_place *p)
{
	size_t at = idle__at(i, p);

	return at < i->called_cnt && !place_cmp(&i->called[at], p);
}

static struct idle_lib *idle__lib(struct idle *i, const struct lib_place *p)
{
	for (size_t k = 0; k < i->libs_cnt; k++)
		if (i->libs[k].dev == p->dev && i->libs[k].ino == p->ino)
			return &i->libs[k];
	if (!array_has_room(i->libs, i->libs_cnt, i->libs_cap, 8))
		return NULL;
	i->libs[i->libs_cnt] = (struct idle_lib){ p->dev, p->ino, 0 };
	return &i->libs[i->libs_cnt++];
}

void idle__prune(struct idle *i, int (*is_used)(void *ctx, uint64_t dev, uint64_t ino), void *ctx)
{
	size_t kept = 0, libs = 0;

	for (size_t k = 0; k < i->libs_cnt; k++) {
		if (!is_used(ctx, i->libs[k].dev, i->libs[k].ino))
			i->libs[k].cnt = 0;
	}
	for (size_t k = 0; k < i->called_cnt; k++)
		if (idle__lib(i, &i->called[k])->cnt) /* always found: each place has its library */
			i->called[kept++] = i->called[k];
	i->called_cnt = kept;
	for (size_t k = 0; k < i->libs_cnt; k++)
		if (i->libs[k].cnt)
			i->libs[libs++] = i->libs[k];
	i->libs_cnt = libs;
}

/* 1: it was new. */
static int idle__add(struct idle *i, const struct lib_place *p)
{
	size_t at = idle__at(i, p);
	struct idle_lib *lib;

	if (at < i->called_cnt && !place_cmp(&i->called[at], p))
		return 0;
	lib = idle__lib(i, p);
	if (!lib || !quota_allows(lib->cnt, i->called_cnt, IDLE_CALLED_MAX, 2) ||
	    !array_has_room(i->called, i->called_cnt, i->called_cap, 256))
		return -ENOSPC;
	lib->cnt++;
	memmove(&i->called[at + 1], &i->called[at], (i->called_cnt - at) * sizeof(*p));
	i->called[at] = *p;
	i->called_cnt++;
	return 1;
}

/* Guards [at, ret) are within one read. */
static size_t read_end(const struct plan *plan, size_t at)
{
	uint64_t from = plan->guards[at].addr;

	while (at < plan->guards_cnt && plan->guards[at].addr - from <= READ_BYTES - GUARD_BYTES)
		at++;
	return at;
}

static int is_set(const uint8_t *guard)
{
	return guard[0] || guard[1];
}

int idle__look(struct idle *i, const struct target *t, const struct plan *plan, uint8_t *seen,
	       void (*fn)(void *ctx, const struct site *s), void *ctx)
{
	size_t end;
	int reads = 0;

	for (size_t at = 0; at < plan->guards_cnt; at = end) {
		uint64_t from = plan->guards[at].addr;
		int r;

		end = read_end(plan, at);
		if (++reads > READS_MAX)
			return -E2BIG;
		r = target__read(t, from, i->bytes, (size_t)(plan->guards[end - 1].addr - from) + GUARD_BYTES);
		if (r < 0)
			return r;
		for (size_t k = at; k < end; k++) {
			const struct site *s = &plan->sites[plan->guards[k].site];
			struct lib_place p = place_of(plan, s);

			if (seen[k] || !is_set(i->bytes + (plan->guards[k].addr - from)))
				continue;
			r = idle__add(i, &p);
			if (r < 0)
				return r;
			seen[k] = 1;
			if (r)
				fn(ctx, s);
		}
	}
	return 0;
}

const uint8_t *idle__wanted(struct idle *i, const struct plan *plan)
{
	if (plan->sites_cnt > i->wanted_cap) {
		uint8_t *wanted = realloc(i->wanted, plan->sites_cnt);

		if (!wanted)
			return NULL;
		i->wanted = wanted;
		i->wanted_cap = plan->sites_cnt;
	}
	for (size_t k = 0; k < plan->sites_cnt; k++) {
		struct lib_place p = place_of(plan, &plan->sites[k]);

		i->wanted[k] = !plan->sites[k].guard || idle__is_called(i, &p);
	}
	return i->wanted;
}

uint32_t idle__cnt(const struct idle *i, const struct plan *plan)
{
	uint32_t cnt = 0;

	for (size_t k = 0; k < plan->guards_cnt; k++) {
		struct lib_place p = place_of(plan, &plan->sites[plan->guards[k].site]);

		cnt += !idle__is_called(i, &p);
	}
	return cnt;
}

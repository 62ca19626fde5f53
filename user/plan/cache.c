/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "plan/cache.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"

#define SETTLED_NS 2000000000ull

struct plan_cache {
	struct plan_file **files;
	size_t cnt, cap, bytes;
	uint64_t turn; /* counts requests */
};

struct plan_cache *plan_cache__new(void)
{
	return calloc(1, sizeof(struct plan_cache));
}

void find__free(struct find *f)
{
	if (!f)
		return;
	plan__free(f->plan);
	names__free(f->names);
	free(f->pattern_sites);
	free(f);
}

static void plan_cache__drop(struct plan_cache *c, size_t i)
{
	struct plan_file *f = c->files[i];

	c->files[i] = c->files[--c->cnt];
	while (f->finds) {
		struct find *next = f->finds->next;

		c->bytes -= f->finds->bytes;
		find__free(f->finds);
		f->finds = next;
	}
	free(f->base);
	free(f);
}

void plan_cache__free(struct plan_cache *c)
{
	if (!c)
		return;
	while (c->cnt)
		plan_cache__drop(c, c->cnt - 1);
	free(c->files);
	free(c);
}

struct plan_file *plan_cache__find(struct plan_cache *c, const struct elf_stamp *stamp, const char *base, int is_exe)
{
	for (size_t i = 0; i < c->cnt; i++) {
		struct plan_file *f = c->files[i];

		if (f->stamp.ino != stamp->ino || memcmp(&f->stamp, stamp, sizeof(*stamp)) || f->is_exe != is_exe ||
		    strcmp(f->base, base))
			continue;
		f->used = ++c->turn;
		return f;
	}
	return NULL;
}

/* Both times are old enough, by the clock that file systems use. */
static int is_settled(const struct elf_stamp *s)
{
	struct timespec ts;
	uint64_t now;

	clock_gettime(CLOCK_REALTIME, &ts);
	now = (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
	return s->mtime_ns + SETTLED_NS < now && s->ctime_ns + SETTLED_NS < now;
}

struct plan_file *plan_cache__add(struct plan_cache *c, const struct elf_stamp *stamp, const char *base, int is_exe)
{
	struct plan_file *f = calloc(1, sizeof(*f));
	char *copy = strdup(base);

	if (!f || !copy || !array_has_room(c->files, c->cnt, c->cap, 128)) {
		free(f);
		free(copy);
		return NULL;
	}
	*f = (struct plan_file){ .stamp = *stamp, .base = copy, .is_exe = is_exe, .is_lasting = is_settled(stamp),
				 .used = ++c->turn };
	c->files[c->cnt++] = f;
	return f;
}

static size_t plan_cache__oldest(const struct plan_cache *c)
{
	size_t oldest = 0;

	for (size_t i = 1; i < c->cnt; i++)
		if (c->files[i]->used < c->files[oldest]->used)
			oldest = i;
	return oldest;
}

void plan_cache__begin(struct plan_cache *c)
{
	for (size_t i = 0; i < c->cnt;) {
		if (c->files[i]->is_lasting)
			i++;
		else
			plan_cache__drop(c, i);
	}
	while (c->cnt > CACHE_FILES_MAX)
		plan_cache__drop(c, plan_cache__oldest(c));
}

struct find *plan_file__find(struct plan_cache *c, struct plan_file *f, const struct find_key *key)
{
	for (struct find *find = f->finds; find; find = find->next)
		if (!memcmp(&find->key, key, sizeof(*key))) {
			find->used = ++c->turn;
			return find;
		}
	return NULL;
}

/* The least recently used find, but not `keep`. */
static void plan_cache__drop_find(struct plan_cache *c, const struct find *keep)
{
	struct find **oldest = NULL, *gone;

	for (size_t i = 0; i < c->cnt; i++)
		for (struct find **at = &c->files[i]->finds; *at; at = &(*at)->next)
			if (*at != keep && (!oldest || (*at)->used < (*oldest)->used))
				oldest = at;
	if (!oldest)
		return;
	gone = *oldest;
	*oldest = gone->next;
	c->bytes -= gone->bytes;
	find__free(gone);
}

void plan_file__keep(struct plan_cache *c, struct plan_file *f, struct find *find)
{
	find->used = ++c->turn;
	find->next = f->finds;
	f->finds = find;
	c->bytes += find->bytes;
	while (c->bytes > CACHE_BYTES_MAX && c->bytes > find->bytes)
		plan_cache__drop_find(c, find);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* An index over an append-only array; texts are in chunks of 64 KiB that never move, so a returned pointer stays valid. */
#include "base/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/index.h"
#include "base/seed.h"

#define CHUNK_BYTES (64u << 10)
#define BYTES_MAX ((size_t)NAMES_MAX * NAME_BYTES_MAX) /* if no limit was set */
#define SHARE 8	      /* an owner has at most this part of what is left */
#define OWNERS_MAX 4096 /* further ones share one owner's part */

struct chunk {
	struct chunk *next;
	size_t used, size;
	char bytes[];
};

struct name_text {
	const char *text;
	uint32_t len;
};

/* An owner of names, and how much it added. */
struct names_owner {
	uint32_t id;
	uint32_t cnt;
	size_t bytes;
	int is_reported;
};

struct names {
	struct name_text *entries; /* [id]; [0] is the empty name */
	uint32_t last, cap;
	struct index by_text;
	struct chunk *chunks;
	size_t bytes, bytes_max; /* of text, each with two more */
	struct names_owner *owners;
	size_t owners_cnt, owners_cap, owner_at; /* owner_at: that added last */
	void (*on_full)(void *ctx, uint32_t owner);
	void *ctx;
	name_id overflow;
	uint64_t overflow_cnt;
};

struct names *names__new(void)
{
	struct names *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->bytes_max = BYTES_MAX;
	if (!array_has_room(n->entries, 0, n->cap, 1024)) {
		names__free(n);
		return NULL;
	}
	n->entries[0] = (struct name_text){ .text = "" };
	return n;
}

void names__free(struct names *n)
{
	if (!n)
		return;
	while (n->chunks) {
		struct chunk *next = n->chunks->next;

		free(n->chunks);
		n->chunks = next;
	}
	free(n->owners);
	free(n->entries);
	index__done(&n->by_text);
	free(n);
}

/* INDEX_NONE: not added yet. */
static uint32_t names__at(const struct names *n, const char *text, size_t len)
{
	return index_find(&n->by_text, hash_bytes(text, len), i,
			  n->entries[i].len == len && !memcmp(n->entries[i].text, text, len));
}

static const char *names__store(struct names *n, const char *text, size_t len)
{
	struct chunk *c = n->chunks;
	char *ret;

	if (!c || c->size - c->used < len + 1) {
		size_t size = len + 1 > CHUNK_BYTES ? len + 1 : CHUNK_BYTES;

		c = malloc(sizeof(*c) + size);
		if (!c)
			return NULL;
		c->next = n->chunks;
		c->used = 0;
		c->size = size;
		n->chunks = c;
	}
	ret = c->bytes + c->used;
	memcpy(ret, text, len);
	ret[len] = '\0';
	c->used += len + 1;
	return ret;
}

name_id names__add_len(struct names *n, const char *text, size_t len)
{
	const char *stored;
	uint32_t at;
	int is_last = 0;

	if (!len)
		return NAME_NONE;
	if (len > NAME_BYTES_MAX)
		len = NAME_BYTES_MAX;
	at = names__at(n, text, len);
	if (at != INDEX_NONE)
		return (name_id){ at };
	if (n->overflow.v) { /* full; below NAMES_MAX - 1 if "?" had been added before */
		n->overflow_cnt++;
		return n->overflow;
	}
	if (n->last == NAMES_MAX - 2 || n->bytes + len + 2 > n->bytes_max) {
		/* The last free place becomes "?", for this name and all that follow. */
		is_last = 1;
		n->overflow_cnt++;
		text = "?";
		len = 1;
		at = names__at(n, text, len);
		if (at != INDEX_NONE)
			return n->overflow = (name_id){ at };
	}
	if (!array_has_room(n->entries, n->last + 1, n->cap, 1024) ||
	    index__add(&n->by_text, hash_bytes(text, len), n->last + 1) < 0)
		return NAME_NONE;
	stored = names__store(n, text, len);
	if (!stored) {
		index__remove(&n->by_text, hash_bytes(text, len), n->last + 1);
		return NAME_NONE;
	}
	n->last++;
	n->bytes += len + 2;
	n->entries[n->last] = (struct name_text){ .text = stored, .len = (uint32_t)len };
	if (is_last)
		n->overflow = (name_id){ n->last };
	return (name_id){ n->last };
}

/* --- owners -------------------------------------------------------------------------------------------------- */

void names__limit(struct names *n, size_t bytes_max)
{
	n->bytes_max = bytes_max;
}

void names__on_full(struct names *n, void (*fn)(void *ctx, uint32_t owner), void *ctx)
{
	n->on_full = fn;
	n->ctx = ctx;
}

static struct names_owner *names__owner(struct names *n, uint32_t id)
{
	if (n->owner_at < n->owners_cnt && n->owners[n->owner_at].id == id)
		return &n->owners[n->owner_at];
	for (size_t i = 0; i < n->owners_cnt; i++) {
		if (n->owners[i].id == id) {
			n->owner_at = i;
			return &n->owners[i];
		}
	}
	if (n->owners_cnt == OWNERS_MAX)
		return &n->owners[OWNERS_MAX - 1];
	if (!array_has_room(n->owners, n->owners_cnt, n->owners_cap, 64))
		return NULL;
	n->owners[n->owners_cnt] = (struct names_owner){ .id = id };
	n->owner_at = n->owners_cnt;
	return &n->owners[n->owners_cnt++];
}

void names__drop_owner(struct names *n, uint32_t owner)
{
	for (size_t i = 0; i < n->owners_cnt; i++) {
		if (n->owners[i].id == owner) {
			n->owners[i] = n->owners[--n->owners_cnt];
			return;
		}
	}
}

name_id names__add_of(struct names *n, uint32_t owner, const char *text, size_t len)
{
	size_t bytes = (len < NAME_BYTES_MAX ? len : NAME_BYTES_MAX) + 2;
	struct names_owner *o;

	if (!len || names__at(n, text, bytes - 2) != INDEX_NONE)
		return names__add_len(n, text, len);
	o = names__owner(n, owner);
	if (o && o->cnt + 1 <= (NAMES_MAX - 2 - n->last) / SHARE && n->bytes < n->bytes_max &&
	    o->bytes + bytes <= (n->bytes_max - n->bytes) / SHARE) {
		o->cnt++;
		o->bytes += bytes;
		return names__add_len(n, text, len);
	}
	n->overflow_cnt++;
	if (o && !o->is_reported) {
		o->is_reported = 1;
		if (n->on_full)
			n->on_full(n->ctx, owner);
	}
	return names__add(n, "?");
}

name_id names__add(struct names *n, const char *text)
{
	return text ? names__add_len(n, text, strlen(text)) : NAME_NONE;
}

name_id names__find(const struct names *n, const char *text)
{
	uint32_t at = names__at(n, text, strlen(text));

	return (name_id){ at == INDEX_NONE ? 0 : at };
}

const char *names__get(const struct names *n, name_id id)
{
	return id.v <= n->last ? n->entries[id.v].text : "?";
}

size_t names__len(const struct names *n, name_id id)
{
	return id.v <= n->last ? n->entries[id.v].len : 1;
}

uint32_t names__last(const struct names *n)
{
	return n->last;
}

uint64_t names__overflow_cnt(const struct names *n)
{
	return n->overflow_cnt;
}

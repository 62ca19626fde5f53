/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The tables of a walk, and how much they may keep. Called by all of walk*.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/seed.h"
#include "python/walk_state.h"

static size_t index__slot(const struct index *x, uint64_t key)
{
	size_t i = (size_t)hash_u64(key) & (x->cap - 1);

	while (x->keys[i] && x->keys[i] != key)
		i = (i + 1) & (x->cap - 1);
	return i;
}

uint32_t index__get(const struct index *x, uint64_t key)
{
	size_t i = x->cap ? index__slot(x, key) : 0;

	return x->cap && x->keys[i] ? x->values[i] : 0;
}

void index__done(struct index *x)
{
	free(x->keys);
	free(x->values);
	*x = (struct index){ 0 };
}

/* Of what may be kept; -ENOSPC: that is all, and the walk ends there. */
int walk__keep(struct walk *w, size_t bytes)
{
	if (bytes > WALK_BYTES_MAX - w->kept) {
		w->full++;
		return -ENOSPC;
	}
	w->kept += bytes;
	return 0;
}

size_t index__bytes(size_t cap)
{
	return cap * (sizeof(uint64_t) + sizeof(uint32_t));
}

static int index__grow(struct walk *w, struct index *x)
{
	struct index big = { .cap = x->cap ? x->cap * 2 : 1024, .cnt = x->cnt };
	int r = walk__keep(w, index__bytes(big.cap - x->cap));

	if (r)
		return r;
	big.keys = calloc(big.cap, sizeof(*big.keys));
	big.values = calloc(big.cap, sizeof(*big.values));
	if (!big.keys || !big.values) {
		index__done(&big);
		return -ENOMEM;
	}
	for (size_t i = 0; i < x->cap; i++) {
		size_t to;

		if (!x->keys[i])
			continue;
		to = index__slot(&big, x->keys[i]);
		big.keys[to] = x->keys[i];
		big.values[to] = x->values[i];
	}
	index__done(x);
	*x = big;
	return 0;
}

/* The first value stays. */
int index__put(struct walk *w, struct index *x, uint64_t key, uint32_t value)
{
	int r = x->cnt >= x->cap / 2 ? index__grow(w, x) : 0;
	size_t i;

	if (r)
		return r;
	i = index__slot(x, key);
	if (x->keys[i])
		return 0;
	x->keys[i] = key;
	x->values[i] = value;
	x->cnt++;
	return 0;
}

void index__clear(struct index *x)
{
	if (x->cap)
		memset(x->keys, 0, x->cap * sizeof(*x->keys));
	x->cnt = 0;
}

/* Room for one more; *cap grows. */
int walk__has_room(struct walk *w, void *array, size_t cnt, size_t *cap, size_t size)
{
	size_t more = *cap ? *cap * 2 : 256;
	int r = walk__keep(w, size);
	void *p;

	if (r || cnt < *cap)
		return r;
	p = reallocarray(*(void **)array, more, size);
	if (!p)
		return -ENOMEM;
	*(void **)array = p;
	*cap = more;
	return 0;
}

int walk__add_text(struct walk *w, const char *text, uint32_t *ret)
{
	size_t len = strlen(text) + 1;
	int r = walk__keep(w, len);

	if (r)
		return r;
	while (w->text_cap < w->text_len + len) {
		size_t cap = w->text_cap ? w->text_cap * 2 : 65536;
		char *p = realloc(w->text, cap);

		if (!p)
			return -ENOMEM;
		w->text = p;
		w->text_cap = cap;
	}
	memcpy(w->text + w->text_len, text, len);
	*ret = (uint32_t)w->text_len;
	w->text_len += len;
	return 0;
}

const char *walk__text(const struct walk *w, uint32_t at)
{
	return w->text + at;
}

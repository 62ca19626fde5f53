/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The tables of a walk, and how much they may keep. Called by all of walk*.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "python/walk_state.h"

uint32_t walk__get(const struct map *m, uint64_t addr)
{
	const struct about *row = map__find(m, addr);

	return row ? row->value : 0;
}

/* Counts against the limit; -ENOSPC: it is reached, and the walk ends there. */
int walk__keep(struct walk *w, size_t bytes)
{
	if (bytes > WALK_BYTES_MAX - w->kept) {
		w->full++;
		return -ENOSPC;
	}
	w->kept += bytes;
	return 0;
}

int walk__put(struct walk *w, struct map *m, uint64_t addr, uint32_t value)
{
	struct about *row;
	int r;

	if (!addr || map__find(m, addr))
		return 0;
	r = walk__keep(w, map__growth(m));
	row = r ? NULL : map__put(m, addr);
	if (!row)
		return r ? r : -ENOMEM;
	row->value = value;
	return 0;
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

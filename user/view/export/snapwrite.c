/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/export/snapwrite.h"

#include <errno.h>
#include <stdlib.h>

#include "view/clean.h"
#include "view/json.h"

int snapwrite__init(struct snapwrite *w, FILE *f, int is_pickle, uint32_t *next_ref)
{
	*w = (struct snapwrite){ .is_pickle = is_pickle, .next_ref = next_ref };
	return outbuf__init(&w->o, f);
}

void snapwrite__done(struct snapwrite *w)
{
	outbuf__done(&w->o);
	free(w->memo.refs);
	w->memo = (struct snap_memo){ 0 };
}

int snapwrite__copy(struct snapwrite *w, FILE *part)
{
	char buf[65536];
	size_t n;

	rewind(part);
	while ((n = fread(buf, 1, sizeof(buf), part)))
		outbuf__put(&w->o, buf, n);
	return ferror(part) ? -EIO : 0;
}

static void put_u32(struct outbuf *o, uint32_t v)
{
	char le[4] = { (char)v, (char)(v >> 8), (char)(v >> 16), (char)(v >> 24) };

	outbuf__put(o, le, 4);
}

/* JSON: between two values, but not behind a key. */
static void snapwrite__comma(struct snapwrite *w)
{
	if (w->need_comma)
		outbuf__char(&w->o, ',');
	w->need_comma = 1;
}

void snapwrite__open(struct snapwrite *w, char kind)
{
	if (w->is_pickle) {
		outbuf__str(&w->o, kind == '{' ? "}(" : "](");
		return;
	}
	snapwrite__comma(w);
	outbuf__char(&w->o, kind);
	w->need_comma = 0;
}

void snapwrite__close(struct snapwrite *w, char kind)
{
	if (w->is_pickle)
		outbuf__char(&w->o, kind == '}' ? 'u' : 'e');
	else
		outbuf__char(&w->o, kind);
	w->need_comma = 1;
}

void snapwrite__item(struct snapwrite *w)
{
	if (w->is_pickle && w->items && !(w->items % SNAP_BATCH))
		outbuf__lit(&w->o, "e(");
	w->items++;
}

int snapwrite__again(struct snapwrite *w, uint32_t thing)
{
	uint32_t ref = thing < w->memo.cnt ? w->memo.refs[thing] : 0;

	if (!w->is_pickle || !ref)
		return 0;
	if (ref - 1 < 256) {
		outbuf__char(&w->o, 'h');
		outbuf__char(&w->o, (char)(ref - 1));
	} else {
		outbuf__char(&w->o, 'j');
		put_u32(&w->o, ref - 1);
	}
	return 1;
}

void snapwrite__remember(struct snapwrite *w, uint32_t thing)
{
	if (!w->is_pickle)
		return;
	if (thing >= w->memo.cnt) {
		size_t cnt = thing + thing / 2 + 64;
		uint32_t *refs = realloc(w->memo.refs, cnt * sizeof(*refs));

		if (!refs) /* it is written again each time */
			return;
		memset(refs + w->memo.cnt, 0, (cnt - w->memo.cnt) * sizeof(*refs));
		w->memo.refs = refs;
		w->memo.cnt = cnt;
	}
	if (*w->next_ref < 256) {
		outbuf__char(&w->o, 'q');
		outbuf__char(&w->o, (char)*w->next_ref);
	} else {
		outbuf__char(&w->o, 'r');
		put_u32(&w->o, *w->next_ref);
	}
	w->memo.refs[thing] = ++*w->next_ref;
}

static void snapwrite__pickle_text(struct snapwrite *w, const char *text, size_t len)
{
	outbuf__char(&w->o, 'X');
	put_u32(&w->o, (uint32_t)len);
	outbuf__put(&w->o, text, len);
}

void snapwrite__word(struct snapwrite *w, const char *word, uint32_t thing)
{
	if (!w->is_pickle) {
		snapwrite__comma(w);
		outbuf__char(&w->o, '"');
		outbuf__str(&w->o, word);
		outbuf__char(&w->o, '"');
	} else if (!snapwrite__again(w, thing)) {
		snapwrite__pickle_text(w, word, strlen(word));
		snapwrite__remember(w, thing);
	}
}

void snapwrite__key(struct snapwrite *w, const char *word, uint32_t thing)
{
	snapwrite__word(w, word, thing);
	if (!w->is_pickle)
		outbuf__char(&w->o, ':');
	w->need_comma = 0;
}

void snapwrite__text(struct snapwrite *w, const char *text, size_t len)
{
	char clean[CLEAN_BYTES_MAX];

	if (w->is_pickle) {
		len = clean_text(clean, sizeof(clean), text, len);
		snapwrite__pickle_text(w, clean, len);
	} else {
		snapwrite__comma(w);
		json_quote(&w->o, text, len);
	}
}

/* Two's complement, little endian, as short as Python writes it: BININT1, BININT2, BININT, LONG1. */
void snapwrite__u64(struct snapwrite *w, uint64_t v)
{
	struct outbuf *o = &w->o;
	char n = 0;

	if (!w->is_pickle) {
		snapwrite__comma(w);
		outbuf__u64(o, v);
	} else if (v < 256) {
		outbuf__char(o, 'K');
		outbuf__char(o, (char)v);
	} else if (v < 65536) {
		outbuf__char(o, 'M');
		outbuf__char(o, (char)v);
		outbuf__char(o, (char)(v >> 8));
	} else if (v <= INT32_MAX) {
		outbuf__char(o, 'J');
		put_u32(o, (uint32_t)v);
	} else {
		while (n < 8 && v >> (8 * n))
			n++;
		n += (char)(v >> (8 * n - 1) & 1); /* a sign bit of its own */
		outbuf__char(o, (char)0x8a);
		outbuf__char(o, n);
		for (char i = 0; i < n; i++)
			outbuf__char(o, i < 8 ? (char)(v >> (8 * i)) : 0);
	}
}

void snapwrite__false(struct snapwrite *w)
{
	if (w->is_pickle) {
		outbuf__char(&w->o, (char)0x89);
		return;
	}
	snapwrite__comma(w);
	outbuf__lit(&w->o, "false");
}

/* A tuple, which JSON does not have. */
void snapwrite__pair(struct snapwrite *w, uint8_t a, uint8_t b)
{
	char text[5] = { 'K', (char)a, 'K', (char)b, (char)0x86 };

	if (w->is_pickle) {
		outbuf__put(&w->o, text, sizeof(text));
		return;
	}
	snapwrite__comma(w);
	outbuf__printf(&w->o, "[%u,%u]", a, b);
}

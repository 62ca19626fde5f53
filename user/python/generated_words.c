/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "python/generated_words.h"

#include <stdio.h>
#include <string.h>

/* ---- comments ---- */

const char *words__behind(const struct lex_token *t, const char *from, const char *what)
{
	const char *found = memmem(from, (size_t)(t->at + t->len - from), what, strlen(what));

	return found ? found + strlen(what) : NULL;
}

static int is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == ':';
}

/* "aten.t, aten.mm" of the text up to the bracket; names that have anything but letters in them are left out. */
static uint32_t words__keep_list(struct book *p, const char *at, const char *end)
{
	char buf[GENERATED_TEXT_MAX];
	size_t n = 0;

	while (at < end && *at != ']') {
		size_t len = 0;

		while (at + len < end && is_word(at[len]))
			len++;
		if (at + len < end && (at[len] == ',' || at[len] == ']') && len) {
			if (n + len + 3 > sizeof(buf))
				break;
			if (n) {
				memcpy(buf + n, ", ", 2);
				n += 2;
			}
			memcpy(buf + n, at, len);
			n += len;
		}
		for (at += len; at < end && *at != ',' && *at != ']'; at++)
			;
		while (at < end && (*at == ',' || *at == ' '))
			at++;
	}
	return book__keep(p, buf, n);
}

static const char *const graphs[] = { "forward", "backward", "inference" };

/* "# AOT ID: ['0_forward']": the word behind the last number. */
static void words__graph(struct book *p, const struct lex_token *t, const char *at)
{
	const char *end = t->at + t->len, *found = NULL;

	while (at < end && *at != ']') {
		for (size_t i = 0; i < sizeof(graphs) / sizeof(*graphs); i++) {
			size_t len = strlen(graphs[i]);
			int has_room = (size_t)(end - at) > len + 1;

			if (*at == '_' && has_room && at[len + 1] == '\'' && !memcmp(at + 1, graphs[i], len))
				found = graphs[i];
		}
		at++;
	}
	if (found && !p->f->graph)
		p->f->graph = found;
}

void words__comment(struct book *p, const struct lex_token *t)
{
	const char *at, *end = t->at + t->len;

	if (!p->scope) {
		at = words__behind(t, t->at, "# AOT ID: [");
		if (at)
			words__graph(p, t, at);
		return;
	}
	at = words__behind(t, t->at, "Source Nodes: [");
	if (!at)
		return;
	p->nodes = words__keep_list(p, at, end);
	at = words__behind(t, at, "Original ATen: [");
	p->ops = at ? words__keep_list(p, at, end) : 0;
}

/* ---- calls ---- */

struct words_dotted words__dotted(struct lex *x, struct lex_token *t)
{
	struct words_dotted d = { *t, *t, t->at, t->len };

	for (;;) {
		struct lex y;

		*t = lex__next(x);
		if (!lex_is_byte(t, '.') || t->at != d.at + d.len)
			return d;
		y = *x;
		*t = lex__next(&y);
		if (t->kind != LEX_NAME || t->at != d.at + d.len + 1)
			return d;
		*x = y;
		d.last = *t;
		d.len += 1 + t->len;
	}
}

int dotted_begins(const struct words_dotted *d, const char *with)
{
	size_t len = strlen(with);

	return d->len >= len && !memcmp(d->at, with, len);
}

int dotted_is_one(const struct words_dotted *d, const char *const *words, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		if (d->len == strlen(words[i]) && !memcmp(d->at, words[i], d->len))
			return 1;
	}
	return 0;
}

static const char *const makers[] = { "empty_strided", "torch.empty_strided", "torch.empty", "tracked_empty_strided" };

int dotted_is_maker(const struct words_dotted *d)
{
	return dotted_begins(d, "empty_strided_") || IS_ONE(d, makers);
}

int dotted_is_operator(const struct words_dotted *d)
{
	static const char *const rooms[] = { "torch.ops.", "aten.", "extern_kernels.", "inductor_ops.", "_quantized." };

	for (size_t i = 0; i < sizeof(rooms) / sizeof(*rooms); i++) {
		if (dotted_begins(d, rooms[i]))
			return 1;
	}
	return dotted_begins(d, "extern_kernels_") || dotted_begins(d, "copy_if_misaligned");
}

int words__is_buffer(const struct lex_token *t)
{
	static const char *const stems[] = { "buf", "pool", "workspace_" };

	for (size_t i = 0; i < sizeof(stems) / sizeof(*stems); i++) {
		size_t len = strlen(stems[i]);

		if (t->len > len && !memcmp(t->at, stems[i], len) && t->at[len] >= '0' && t->at[len] <= '9')
			return 1;
	}
	return 0;
}

uint32_t words__keep_kernel(struct book *p, const struct words_dotted *d)
{
	const char *at = d->at;
	size_t len = d->len;

	if (dotted_begins(d, "torch.ops.")) {
		at += strlen("torch.ops.");
		len -= strlen("torch.ops.");
	}
	if (lex_is(&d->last, "default") || lex_is(&d->last, "run"))
		len -= d->last.len + 1;
	return len && len <= BOOK_NAME_MAX ? book__keep(p, at, len) : 0;
}

/* ---- shapes ---- */

/* "512,512" of "(512, 512)", whose bracket was read, into buf; its length; 0 where it is odd or too long. Scalars: "" is 1. */
static size_t read_tuple(struct lex *x, char *buf, size_t size)
{
	size_t n = 0, open = 1;

	for (;;) {
		struct lex_token t = lex__next(x);
		int is_sign = t.kind == LEX_OTHER && *t.at && strchr("()+-*/%<>=.,", *t.at);
		int is_text = is_sign || t.kind == LEX_NAME || t.kind == LEX_NUMBER;

		open += lex_is_byte(&t, '(');
		open -= lex_is_byte(&t, ')');
		if (!open)
			break;
		if (!is_text || n + t.len + 1 > size)
			return 0;
		memcpy(buf + n, t.at, t.len);
		n += t.len;
	}
	while (n && buf[n - 1] == ',')
		n--;
	buf[n] = '\0';
	return n + 1;
}

uint32_t words__keep_shape(struct book *p, struct lex x, uint32_t like)
{
	char sizes[GENERATED_TEXT_MAX / 2], text[GENERATED_TEXT_MAX];
	const char *type = NULL;
	size_t type_len = 0, sizes_len = 0;
	struct lex_token t = lex__next(&x), before = t;

	while (t.kind != LEX_END && !lex_is_byte(&t, ';') && !(sizes_len && type)) {
		if (lex_is_byte(&t, '(') && before.kind != LEX_NAME && !sizes_len) {
			sizes_len = read_tuple(&x, sizes, sizeof(sizes));
			if (!sizes_len)
				return 0;
		} else if (lex_is(&t, "torch") && !type) {
			struct words_dotted d = words__dotted(&x, &t);

			if (d.len == strlen("torch.") + d.last.len && d.last.len < 32 && !lex_is_byte(&t, '(')) {
				type = d.last.at;
				type_len = d.last.len;
			}
		}
		before = t;
		t = lex__next(&x);
	}
	if (!sizes_len)
		return 0;
	if (!type) {
		type = like ? p->f->texts + like : "?";
		type_len = strcspn(type, "[");
	}
	return book__keep(p, text, (size_t)snprintf(text, sizeof(text), "%.*s[%s]", (int)type_len, type, sizes));
}

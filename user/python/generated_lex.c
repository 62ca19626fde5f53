/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "python/generated_lex.h"

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\f';
}

/* Behind the string that begins at x->at: of three quotes, or of one, which ends with its line at the latest. */
static const char *string_end(const struct lex *x)
{
	const char *at = x->at, *end = x->end;
	char quote = *at;
	int is_long = end - at >= 3 && at[1] == quote && at[2] == quote;

	for (at += is_long ? 3 : 1; at < end; at++) {
		if (*at == '\\' && end - at > 1)
			at++;
		else if (!is_long && *at == '\n')
			return at;
		else if (*at == quote && (!is_long || (end - at >= 3 && at[1] == quote && at[2] == quote)))
			return at + (is_long ? 3 : 1);
	}
	return end;
}

struct lex_token lex__next(struct lex *x)
{
	struct lex_token t = { LEX_END, NULL, 0 };
	const char *at;

	while (x->at < x->end && (is_blank(*x->at) || (*x->at == '\\' && x->end - x->at > 1 && x->at[1] == '\n')))
		x->at += *x->at == '\\' ? 2 : 1;
	t.at = at = x->at;
	if (at == x->end)
		return t;
	if (is_letter(*at) || is_digit(*at)) {
		t.kind = is_digit(*at) ? LEX_NUMBER : LEX_NAME;
		while (at < x->end && (is_letter(*at) || is_digit(*at)))
			at++;
	} else if (*at == '"' || *at == '\'') {
		t.kind = LEX_STRING;
		at = string_end(x);
	} else if (*at == '#') {
		const char *newline = memchr(at, '\n', (size_t)(x->end - at));

		t.kind = LEX_COMMENT;
		at = newline ? newline : x->end;
	} else {
		t.kind = *at == '\n' ? LEX_NEWLINE : LEX_OTHER;
		at++;
	}
	t.len = (size_t)(at - t.at);
	x->at = at;
	return t;
}

static unsigned newlines(const char *at, const char *end)
{
	unsigned cnt = 0;

	while (at < end && (at = memchr(at, '\n', (size_t)(end - at)))) {
		cnt++;
		at++;
	}
	return cnt;
}

/* A closing bracket counts only while one is open. */
static void count_brackets(const struct lex_token *t, size_t *open)
{
	if (t->kind != LEX_OTHER)
		return;
	if (*t->at == '(' || *t->at == '[' || *t->at == '{')
		(*open)++;
	else if ((*t->at == ')' || *t->at == ']' || *t->at == '}') && *open)
		(*open)--;
}

int lex__statement(struct lex *x, unsigned *line, struct lex_statement *ret)
{
	const char *start = x->at; /* of its line */
	size_t open = 0;

	memset(ret, 0, sizeof(*ret));
	for (;;) {
		const char *before = x->at;
		struct lex_token t = lex__next(x);
		int ends = t.kind == LEX_END || (t.kind == LEX_NEWLINE && !open);

		*line += newlines(before, t.at);
		if (ends && ret->text.at) {
			ret->text.end = t.at;
			ret->line_last = *line;
			*line += t.kind == LEX_NEWLINE;
			return 1;
		}
		if (t.kind == LEX_END)
			return 0;
		if (ends) { /* an empty line */
			start = x->at;
			*line += 1;
			continue;
		}
		if (!ret->text.at) {
			ret->text.at = t.at;
			ret->line = *line;
			ret->indent = (unsigned)(t.at - start);
		}
		count_brackets(&t, &open);
		*line += newlines(t.at, x->at);
	}
}

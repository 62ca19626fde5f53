/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * generated_lex: Python text as statements, and a statement as tokens. Linear in the text, whatever it holds; nothing is
 * copied or kept. An unclosed bracket or string of three quotes goes on to the end of the text.
 */
#ifndef MT_PYTHON_GENERATED_LEX_H
#define MT_PYTHON_GENERATED_LEX_H

#include <stddef.h>
#include <string.h>

enum lex_kind {
	LEX_END = 0,
	LEX_NAME,   /* of ASCII letters, digits and _ */
	LEX_NUMBER, /* a token that begins with a digit */
	LEX_STRING, /* with its quotes, without its prefix, which is a name before it */
	LEX_COMMENT, /* without the end of its line */
	LEX_NEWLINE,
	LEX_OTHER,   /* one byte */
};

struct lex_token {
	enum lex_kind kind;
	const char *at; /* not terminated */
	size_t len;
};

/* A piece of text that is being read. */
struct lex {
	const char *at, *end;
};

/* The next token; blanks between tokens belong to none. */
struct lex_token lex__next(struct lex *x);

/* One logical line: brackets and strings of three quotes continue over the ends of lines. */
struct lex_statement {
	struct lex text;	   /* from its first token on, the end of its line excluded */
	unsigned line, line_last; /* 1-based */
	unsigned indent;	   /* blanks before it; a tab is one */
};

/* The next one that has a token (a comment is one), with *line the number of the line at which `x` stands. 1; 0: no more. */
int lex__statement(struct lex *x, unsigned *line, struct lex_statement *ret);

static inline int lex_is(const struct lex_token *t, const char *text)
{
	return t->len == strlen(text) && !memcmp(t->at, text, t->len);
}

static inline int lex_is_byte(const struct lex_token *t, char byte)
{
	return t->kind == LEX_OTHER && *t->at == byte;
}

#endif

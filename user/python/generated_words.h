/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * generated_words: the words of inductor's files: comments with the sources of a kernel, names of kernels, types and
 * shapes. All that is kept is printable.
 */
#ifndef MT_PYTHON_GENERATED_WORDS_H
#define MT_PYTHON_GENERATED_WORDS_H

#include "python/generated_book.h"

/* A name with dots in it, from its first token on. */
struct words_dotted {
	struct lex_token first, last;
	const char *at;
	size_t len;
};

/* Keeps a comment's content in the book, for the call that follows. */
void words__comment(struct book *p, const struct lex_token *t);
/* Behind `what` in a comment, from `from` on; NULL. */
const char *words__behind(const struct lex_token *t, const char *from, const char *what);
/* `t`: its first token. Reads one token more, into *t. */
struct words_dotted words__dotted(struct lex *x, struct lex_token *t);
int dotted_begins(const struct words_dotted *d, const char *with);
int dotted_is_one(const struct words_dotted *d, const char *const *words, size_t cnt);
#define IS_ONE(d, words) dotted_is_one(d, words, sizeof(words) / sizeof(*(words)))
int dotted_is_maker(const struct words_dotted *d); /* empty_strided_cpu … */
int dotted_is_operator(const struct words_dotted *d);
/* "buf7", "pool0", "workspace_1": inductor's names of its own memory. */
int words__is_buffer(const struct lex_token *t);
/* "torch.ops.aten.mm.default" is aten.mm; "triton_poi_fused_add_0.run" is the kernel. 0: it is too long. */
uint32_t words__keep_kernel(struct book *p, const struct words_dotted *d);
/*
 * "float32[512,512]" of a call's arguments, behind its bracket: the first tuple among them, and the first `torch.TYPE`; where
 * there is none, the type that the text `like` begins with, or "?". 0: there is no such tuple.
 */
uint32_t words__keep_shape(struct book *p, struct lex x, uint32_t like);

#endif

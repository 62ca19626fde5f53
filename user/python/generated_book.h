/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * generated_book: generated.c's data of a file: entries, their names, texts, and results of subgraphs. A function that
 * fails sets book.error; later calls do no harm.
 */
#ifndef MT_PYTHON_GENERATED_BOOK_H
#define MT_PYTHON_GENERATED_BOOK_H

#include <stdint.h>

#include "base/index.h"
#include "python/generated.h"
#include "python/generated_lex.h"

#define BOOK_NONE UINT32_MAX
#define BOOK_NAME_MAX 256  /* of one name; longer ones are ignored */
#define BOOK_FILE_SCOPE 0  /* names of functions, with their numbers */
#define BOOK_GRAPH_SCOPE 1 /* of `call` and the partitions; subgraphs have 2 … */

enum book_flag {
	IS_LINE = 1,   /* generated__line reports it */
	IS_REUSE = 2,
	IS_OUTPUT = 4,
	IS_FILLED = 8,
	IS_RESULT = 16, /* of an operator: its shape is the one in assert_size_stride */
	IS_RETURNED = 32,
	IS_OF_SUBGRAPH = 64, /* result of a subgraph; there may be several: one for each branch */
	IS_SAME = 128,	     /* another name of its parent */
};

/* Texts are offsets in generated_file.texts; 0: none. */
struct book_entry {
	uint32_t line, line_last, buffer, kernel, kernel_line, ops, nodes, shape, later, parent;
	uint32_t flags;
};

struct generated_file {
	struct book_entry *entries; /* by line */
	uint32_t cnt, cap;
	char *texts;
	size_t texts_len, texts_cap;
	const char *graph;
};

struct book_name {
	const char *at;
	uint32_t len, scope, entry;
};

struct book_function {
	uint32_t first, cnt; /* of book.returned */
	int is_output;	     /* its result is an output */
};

struct book_use {
	uint32_t entry, function;
};

struct book {
	struct generated_file *f;
	struct book_name *names;
	uint32_t names_cnt, names_cap;
	struct index places;	     /* of names, by name and scope */
	uint32_t scope, scopes;	     /* BOOK_FILE_SCOPE: in no function */
	unsigned indent;	     /* of the function's `def` */
	struct book_function *functions;
	struct book_use *uses;	     /* of results of subgraphs */
	uint32_t *returned;	     /* entries, by function */
	uint32_t functions_cnt, functions_cap, uses_cnt, uses_cap, returned_cnt, returned_cap;
	int is_partition;
	uint32_t ops, nodes;	     /* of the comment that no call has had yet */
	unsigned is_ours;	     /* bits: imports inductor; has an AsyncCompile */
	int error;
};

/* A call that fills something, as written in the text. */
struct book_filler {
	uint32_t kernel, line, ops, nodes;
};

/* A text's place; 0: it is empty, or there is no memory. */
uint32_t book__keep(struct book *p, const char *at, size_t len);
/* The last value of a name in a scope: an entry, or in BOOK_FILE_SCOPE a function; BOOK_NONE. */
uint32_t book__given(struct book *p, const struct lex_token *t, uint32_t scope);
/* The same in the scope of now. */
uint32_t book__entry(struct book *p, const struct lex_token *t);
/* A new entry of a statement. `t`: the name that it is given to; NULL: none. BOOK_NONE: there is no room. */
uint32_t book__add(struct book *p, const struct lex_statement *s, const struct lex_token *t, uint32_t flags);
/* `at` and its parents, up to the first that is filled; at: BOOK_NONE is fine. */
void book__fill(struct book *p, uint32_t at, const struct book_filler *by);
void book__mark_output(struct book *p, uint32_t at);
/* A subgraph's function begins; an entry is the result of the last of them; an entry is another's result. */
void book__add_function(struct book *p, const struct lex_token *t);
void book__add_returned(struct book *p, uint32_t e);
void book__add_use(struct book *p, uint32_t e, uint32_t function);
/* Results of subgraphs are outputs where their uses are. A caller stands behind the functions that it calls. */
void book__mark_subgraphs(struct book *p);
/* Notes the buffers that took over the memory of another. */
void book__tell_reuse(struct book *p);
/* Frees the room to grow: a file lives long. */
void book__fit(struct book *p);
/* All but the file. */
void book__done(struct book *p);

#endif

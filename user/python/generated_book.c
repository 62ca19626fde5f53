/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "python/generated_book.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/seed.h"

/* ---- texts ---- */

static int put(struct book *p, const char *at, size_t len)
{
	struct generated_file *f = p->f;

	if (f->texts_cap - f->texts_len < len) {
		size_t cap = f->texts_cap ? f->texts_cap : 4096;
		char *texts;

		while (cap - f->texts_len < len)
			cap *= 2;
		texts = realloc(f->texts, cap);
		if (!texts) {
			p->error = -ENOMEM;
			return -1;
		}
		f->texts = texts;
		f->texts_cap = cap;
	}
	memcpy(f->texts + f->texts_len, at, len);
	f->texts_len += len;
	return 0;
}

uint32_t book__keep(struct book *p, const char *at, size_t len)
{
	size_t start = p->f->texts_len;

	return !len || put(p, at, len) || put(p, "", 1) ? 0 : (uint32_t)start;
}

/* ---- entries and names ---- */

static struct book_name *name_of(struct book *p, const struct lex_token *t, uint32_t scope, uint64_t *ret_hash)
{
	uint32_t at;

	*ret_hash = hash_two(hash_bytes(t->at, t->len), scope);
	at = index_find(&p->places, *ret_hash, i,
			p->names[i].scope == scope && p->names[i].len == t->len && !memcmp(p->names[i].at, t->at, t->len));
	return at == INDEX_NONE ? NULL : &p->names[at];
}

uint32_t book__given(struct book *p, const struct lex_token *t, uint32_t scope)
{
	uint64_t hash;
	const struct book_name *n = t->kind == LEX_NAME && t->len <= BOOK_NAME_MAX ? name_of(p, t, scope, &hash) : NULL;

	return n ? n->entry : BOOK_NONE;
}

uint32_t book__entry(struct book *p, const struct lex_token *t)
{
	return book__given(p, t, p->scope);
}

static void give(struct book *p, const struct lex_token *t, uint32_t scope, uint32_t entry)
{
	uint64_t hash;
	struct book_name *n = name_of(p, t, scope, &hash);

	if (n) {
		n->entry = entry;
	} else if (!array_has_room(p->names, p->names_cnt, p->names_cap, 64) || index__add(&p->places, hash, p->names_cnt)) {
		p->error = -ENOMEM;
	} else {
		p->names[p->names_cnt++] = (struct book_name){ t->at, (uint32_t)t->len, scope, entry };
	}
}

uint32_t book__add(struct book *p, const struct lex_statement *s, const struct lex_token *t, uint32_t flags)
{
	struct generated_file *f = p->f;

	if (f->cnt == GENERATED_ENTRIES_MAX) {
		p->error = -E2BIG;
		return BOOK_NONE;
	}
	if (!array_has_room(f->entries, f->cnt, f->cap, 64)) {
		p->error = -ENOMEM;
		return BOOK_NONE;
	}
	f->entries[f->cnt] = (struct book_entry){ .line = s->line, .line_last = s->line_last, .parent = BOOK_NONE };
	f->entries[f->cnt].flags = flags;
	if (t) {
		if (flags & IS_LINE)
			f->entries[f->cnt].buffer = book__keep(p, t->at, t->len);
		give(p, t, p->scope, f->cnt);
	}
	return f->cnt++;
}

void book__fill(struct book *p, uint32_t at, const struct book_filler *by)
{
	for (; at != BOOK_NONE && !(p->f->entries[at].flags & IS_FILLED); at = p->f->entries[at].parent) {
		struct book_entry *e = &p->f->entries[at];

		e->flags |= IS_FILLED;
		e->kernel = by->kernel;
		e->kernel_line = by->line;
		e->ops = by->ops;
		e->nodes = by->nodes;
	}
}

void book__mark_output(struct book *p, uint32_t at)
{
	for (; at != BOOK_NONE && !(p->f->entries[at].flags & IS_OUTPUT); at = p->f->entries[at].parent)
		p->f->entries[at].flags |= IS_OUTPUT;
}

/* ---- subgraphs ---- */

void book__add_function(struct book *p, const struct lex_token *t)
{
	if (!array_has_room(p->functions, p->functions_cnt, p->functions_cap, 16)) {
		p->error = -ENOMEM;
		return;
	}
	p->functions[p->functions_cnt] = (struct book_function){ p->returned_cnt, 0, 0 };
	give(p, t, BOOK_FILE_SCOPE, p->functions_cnt++);
}

void book__add_returned(struct book *p, uint32_t e)
{
	struct book_function *of = &p->functions[p->functions_cnt - 1];

	if (p->f->entries[e].flags & IS_RETURNED)
		return;
	p->f->entries[e].flags |= IS_RETURNED;
	if (!array_has_room(p->returned, p->returned_cnt, p->returned_cap, 64)) {
		p->error = -ENOMEM;
		return;
	}
	p->returned[p->returned_cnt++] = e;
	of->cnt++;
}

void book__add_use(struct book *p, uint32_t e, uint32_t function)
{
	if (array_has_room(p->uses, p->uses_cnt, p->uses_cap, 16))
		p->uses[p->uses_cnt++] = (struct book_use){ e, function };
	else
		p->error = -ENOMEM;
}

void book__mark_subgraphs(struct book *p)
{
	for (uint32_t u = p->uses_cnt; u-- > 0;) {
		struct book_function *of = &p->functions[p->uses[u].function];

		if (of->is_output || !(p->f->entries[p->uses[u].entry].flags & IS_OUTPUT))
			continue;
		of->is_output = 1;
		for (uint32_t i = 0; i < of->cnt; i++)
			book__mark_output(p, p->returned[of->first + i]);
	}
}

/* ---- memory that is taken over ---- */

#define LATER_MAX 8 /* buffers that are listed; the others are "…" */

/* The names of the entries numbered in `next`, from `first` on. */
static uint32_t keep_names(struct book *p, const uint32_t *next, uint32_t first)
{
	size_t start = p->f->texts_len;
	unsigned cnt = 0;

	for (uint32_t e = first; e; e = next[e]) {
		char name[BOOK_NAME_MAX + 1];

		if (cnt == LATER_MAX && !put(p, ", …", strlen(", …")))
			break;
		/* texts may move while one is added */
		snprintf(name, sizeof(name), "%s", p->f->texts + p->f->entries[e].buffer);
		if ((cnt++ && put(p, ", ", 2)) || put(p, name, strlen(name)))
			return 0;
	}
	return put(p, "", 1) ? 0 : (uint32_t)start;
}

/* Entries precede those that reuse their memory, so one pass finds each first owner; lists are in order, 0 ends them. */
void book__tell_reuse(struct book *p)
{
	uint32_t cnt = p->f->cnt, *roots = calloc(cnt ? cnt : 1, 4 * sizeof(*roots));
	uint32_t *first = roots + cnt, *last = first + cnt, *next = last + cnt;

	if (!roots) {
		p->error = -ENOMEM;
		return;
	}
	for (uint32_t e = 0; e < cnt; e++) {
		const struct book_entry *it = &p->f->entries[e];
		uint32_t root = roots[e] = it->parent == BOOK_NONE ? e : roots[it->parent];

		if (root == e || !it->buffer || !(it->flags & IS_REUSE))
			continue;
		*(first[root] ? &next[last[root]] : &first[root]) = e;
		last[root] = e;
	}
	for (uint32_t e = 0; e < cnt; e++)
		if (first[e] && !(p->f->entries[e].flags & IS_REUSE))
			p->f->entries[e].later = keep_names(p, next, first[e]);
	free(roots);
}

/* ---- the end ---- */

void book__fit(struct book *p)
{
	struct generated_file *f = p->f;
	void *less = f->cnt ? realloc(f->entries, f->cnt * sizeof(*f->entries)) : NULL;

	if (less) {
		f->entries = less;
		f->cap = f->cnt;
	}
	less = f->texts_len ? realloc(f->texts, f->texts_len) : NULL;
	if (less) {
		f->texts = less;
		f->texts_cap = f->texts_len;
	}
}

void book__done(struct book *p)
{
	free(p->names);
	free(p->functions);
	free(p->uses);
	free(p->returned);
	index__done(&p->places);
}

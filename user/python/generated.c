/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * One pass over the statements of a file. In a function each assignment of new memory, each alias of one and each call is an
 * entry; names point to the last entry that they were given. An entry's parent is the one whose memory it takes over.
 *
 * A call fills each buffer among its arguments that nothing filled before, and its parents: a buffer is new when it is
 * allocated, so the first call that gets it writes it. Entries that `return` lists are outputs, and so are their parents.
 * Both walks end at the first entry that has the mark: all of its parents have it then, and all walks together are linear.
 *
 * Forms, of torch/_inductor/codegen/wrapper.py and memory_planning.py, 2.4.1, 2.8.0, 2.13.0 and 2.15.0: make_allocation,
 * make_buffer_reuse, codegen_alloc_from_pool, generate_extern_kernel_out, _generate_extern_kernel_alloc_helper,
 * ExternKernelMultiOutLine, codegen_device_copy, generate_return; comments are utils.py's get_kernel_metadata. Partitions
 * (partition_0 …) are pieces of one graph and share its names; other functions are subgraphs with names of their own.
 */
#include "python/generated.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "python/generated_book.h"
#include "python/generated_lex.h"
#include "python/generated_words.h"

/* Functions that wrapper files call, and that fill and allocate nothing. */
static const char *const bystanders[] = {
	"assert_size_stride", "assert_alignment", "get_raw_stream", "run_intermediate_hooks", "check_memory_step",
	"track_tensor", "_print_debugging_tensor_value_info", "print", "int", "max", "min", "len", "range", "args.clear",
	"torch._check", "torch.Event", "aten.size", "math.prod",
};
static const char *const views[] = { "reinterpret_tensor", "alloc_from_pool", "aten.view.dtype", "torch.as_strided" };

/* ---- statements ---- */

/* Fills the arguments of a call whose bracket was read; by NULL: only counts. Returns how many of them are known. */
static unsigned fill_arguments(struct book *p, struct lex x, const struct book_filler *by)
{
	unsigned known = 0;
	struct lex_token t;

	for (t = lex__next(&x); t.kind != LEX_END && !lex_is_byte(&t, ';'); t = lex__next(&x)) {
		uint32_t e = book__entry(p, &t);

		known += e != BOOK_NONE;
		if (by)
			book__fill(p, e, by);
	}
	return known;
}

static struct book_filler filler_of(struct book *p, const struct lex_statement *s, uint32_t kernel)
{
	struct book_filler by = { kernel, s->line, p->ops, p->nodes };

	p->ops = p->nodes = 0;
	return by;
}

static int is_reuse(struct lex x)
{
	struct lex_token t;

	do
		t = lex__next(&x);
	while (t.kind != LEX_END && t.kind != LEX_COMMENT);
	return t.kind == LEX_COMMENT && (words__behind(&t, t.at, "reuse") || words__behind(&t, t.at, "alloc"));
}

/* `to` has memory that another, called `from`, has already. `args`: those of the view; NULL: it is none. */
static void read_alias(struct book *p, const struct lex_statement *s, const struct lex_token *to, const struct lex_token *from,
		       const struct lex *args, uint32_t flags)
{
	uint32_t parent = book__entry(p, from), like, e;

	if (is_reuse(s->text))
		flags |= IS_LINE | IS_REUSE;
	if (parent == BOOK_NONE && !(flags & IS_LINE))
		return;
	e = book__add(p, s, to, flags);
	if (e == BOOK_NONE)
		return;
	p->f->entries[e].parent = parent;
	like = parent == BOOK_NONE ? 0 : p->f->entries[parent].shape;
	if (args)
		p->f->entries[e].shape = words__keep_shape(p, *args, like);
	else if (flags & IS_SAME)
		p->f->entries[e].shape = like;
}

static void read_view(struct book *p, const struct lex_statement *s, const struct lex_token *to, struct lex args, int is_pool)
{
	struct lex x = args;
	struct lex_token from = lex__next(&x);

	if (lex_is(&from, "reinterpret_tensor")) { /* aten.view.dtype(reinterpret_tensor(buf1, …), …) */
		(void)lex__next(&x);
		from = lex__next(&x);
	}
	read_alias(p, s, to, &from, &args, is_pool ? IS_LINE | IS_REUSE : 0);
}

/* `to` is what a subgraph returned: all of it, since an entry has one parent, and the item's index is not read. */
static void read_use(struct book *p, const struct lex_statement *s, const struct lex_token *to, uint32_t function)
{
	uint32_t e = book__entry(p, to);

	if (e == BOOK_NONE || !(p->f->entries[e].flags & IS_OF_SUBGRAPH)) /* it may be of another branch's, too */
		e = book__add(p, s, to, IS_OF_SUBGRAPH);
	if (e == BOOK_NONE)
		return;
	book__add_use(p, e, function);
}

/* `to` = `d`(…, whose bracket was read. */
static void read_new(struct book *p, const struct lex_statement *s, const struct lex_token *to, const struct words_dotted *d,
		     struct lex args)
{
	struct book_filler by;
	uint32_t e, function = BOOK_NONE;

	if (d->len == d->first.len && !dotted_is_operator(d))
		function = book__given(p, &d->first, BOOK_FILE_SCOPE);
	if (function != BOOK_NONE) {
		read_use(p, s, to, function);
		return;
	}
	if (dotted_is_maker(d)) {
		e = book__add(p, s, to, IS_LINE);
		if (e != BOOK_NONE)
			p->f->entries[e].shape = words__keep_shape(p, args, 0);
		return;
	}
	if (IS_ONE(d, bystanders) || (!dotted_is_operator(d) && !words__is_buffer(to)))
		return;
	by = filler_of(p, s, words__keep_kernel(p, d));
	(void)fill_arguments(p, args, &by);
	e = book__add(p, s, to, IS_LINE | IS_RESULT);
	book__fill(p, e, &by);
}

static void read_assignment(struct book *p, const struct lex_statement *s, const struct lex_token *to, struct lex x)
{
	struct lex_token t = lex__next(&x);
	struct words_dotted d;

	if (t.kind != LEX_NAME || to->len > BOOK_NAME_MAX)
		return;
	d = words__dotted(&x, &t);
	if (lex_is_byte(&t, '(')) {
		if (IS_ONE(&d, views))
			read_view(p, s, to, x, dotted_begins(&d, "alloc_from_pool"));
		else
			read_new(p, s, to, &d, x);
	} else if (d.len == d.first.len && lex_is_byte(&t, '[')) {
		read_alias(p, s, to, &d.first, NULL, 0);
	} else if (d.len == d.first.len && (t.kind == LEX_END || t.kind == LEX_COMMENT || lex_is_byte(&t, ';'))) {
		read_alias(p, s, to, &d.first, NULL, IS_SAME);
	}
}

/* Operators are asked for the shape of what they returned, right behind them. */
static void read_assert(struct book *p, struct lex args)
{
	struct lex x = args;
	struct lex_token t = lex__next(&x);
	uint32_t e = book__entry(p, &t);

	if (e != BOOK_NONE && (p->f->entries[e].flags & IS_SAME) && p->f->entries[e].parent != BOOK_NONE) /* buf6 = buf5 */
		e = p->f->entries[e].parent;
	if (e != BOOK_NONE && (p->f->entries[e].flags & IS_RESULT) && !p->f->entries[e].shape)
		p->f->entries[e].shape = words__keep_shape(p, x, 0);
}

/* A call by itself; `d` is the function, the bracket was read. */
static void read_call(struct book *p, const struct lex_statement *s, const struct words_dotted *d, struct lex args)
{
	uint32_t of = d->len > d->first.len ? book__entry(p, &d->first) : BOOK_NONE, e;
	struct book_filler by;

	if (d->len == d->first.len && lex_is(&d->first, "assert_size_stride"))
		read_assert(p, args);
	if (IS_ONE(d, bystanders) || (of != BOOK_NONE && !lex_is(&d->last, "copy_")))
		return;
	if (of != BOOK_NONE) { /* a copy between devices */
		by = filler_of(p, s, book__keep(p, "aten.copy_", strlen("aten.copy_")));
		book__fill(p, of, &by);
	} else {
		int is_kernel = dotted_is_operator(d) || lex_is(&d->last, "run") || dotted_begins(d, "cpp_fused_");

		if (!is_kernel && !fill_arguments(p, args, NULL))
			return;
		by = filler_of(p, s, words__keep_kernel(p, d));
		(void)fill_arguments(p, args, &by);
	}
	e = book__add(p, s, NULL, IS_LINE);
	book__fill(p, e, &by);
}

static void read_return(struct book *p, const struct lex_statement *s, struct lex x)
{
	struct lex y = x;
	struct lex_token t = lex__next(&y);

	if (t.kind == LEX_NAME) { /* a function around an operator, so that profilers show its name */
		struct words_dotted d = words__dotted(&y, &t);

		if (lex_is_byte(&t, '(') && dotted_is_operator(&d))
			read_call(p, s, &d, y);
	}
	if (p->is_partition) /* `call` has what the graph returns */
		return;
	for (t = lex__next(&x); t.kind != LEX_END; t = lex__next(&x)) {
		uint32_t e = book__entry(p, &t);

		if (e == BOOK_NONE)
			continue;
		if (p->scope == BOOK_GRAPH_SCOPE)
			book__mark_output(p, e);
		else
			book__add_returned(p, e);
	}
}

/* `(buf3, buf4) = subgraph_0(…)`, whose first bracket was read. */
static void read_tuple_of_subgraph(struct book *p, const struct lex_statement *s, struct lex x)
{
	struct lex names = x;
	struct lex_token t;
	uint32_t function;

	do
		t = lex__next(&x);
	while (t.kind == LEX_NAME || lex_is_byte(&t, ','));
	if (!lex_is_byte(&t, ')'))
		return;
	t = lex__next(&x);
	if (!lex_is_byte(&t, '='))
		return;
	t = lex__next(&x);
	function = book__given(p, &t, BOOK_FILE_SCOPE);
	t = lex__next(&x);
	if (function == BOOK_NONE || !lex_is_byte(&t, '('))
		return;
	for (t = lex__next(&names); !lex_is_byte(&t, ')'); t = lex__next(&names)) {
		if (t.kind == LEX_NAME && t.len <= BOOK_NAME_MAX)
			read_use(p, s, &t, function);
	}
}

static void enter_function(struct book *p, const struct lex_statement *s, struct lex x)
{
	struct lex_token t = lex__next(&x);
	struct words_dotted d = { t, t, t.at, t.len };

	p->is_partition = t.kind == LEX_NAME && dotted_begins(&d, "partition_");
	p->scope = p->is_partition || lex_is(&t, "call") ? BOOK_GRAPH_SCOPE : ++p->scopes;
	p->indent = s->indent;
	p->ops = p->nodes = 0;
	if (p->scope == BOOK_GRAPH_SCOPE)
		return;
	if (t.kind != LEX_NAME || t.len > BOOK_NAME_MAX) {
		p->scope = BOOK_FILE_SCOPE;
		return;
	}
	book__add_function(p, &t);
}

static void outside_of_functions(struct book *p, const struct lex_token *first, struct lex x)
{
	struct lex_token t = lex__next(&x);

	if (lex_is(first, "from") && t.kind == LEX_NAME) {
		struct words_dotted d = words__dotted(&x, &t);

		p->is_ours |= dotted_begins(&d, "torch._inductor");
	} else if (lex_is(first, "async_compile") && lex_is_byte(&t, '=')) {
		t = lex__next(&x);
		p->is_ours |= lex_is(&t, "AsyncCompile") ? 2 : 0;
	}
}

static const char *const keywords[] = {
	"if", "elif", "while", "with", "for", "assert", "del", "except", "raise", "yield", "not",
};

static void read_statement(struct book *p, const struct lex_statement *s)
{
	struct lex x = s->text, y;
	struct lex_token t = lex__next(&x), first = t;
	struct words_dotted d;

	if (t.kind == LEX_COMMENT) {
		words__comment(p, &t);
		return;
	}
	if (p->scope && s->indent <= p->indent)
		p->scope = 0;
	if (p->scope && lex_is_byte(&t, '('))
		read_tuple_of_subgraph(p, s, x);
	if (t.kind != LEX_NAME)
		return;
	if (lex_is(&t, "def")) {
		enter_function(p, s, x);
		return;
	}
	if (!p->scope) {
		outside_of_functions(p, &t, x);
		return;
	}
	if (lex_is(&t, "return")) {
		read_return(p, s, x);
		return;
	}
	d = words__dotted(&x, &t);
	if (d.len == first.len && IS_ONE(&d, keywords))
		return;
	if (lex_is_byte(&t, '(')) {
		read_call(p, s, &d, x);
	} else if (lex_is_byte(&t, '=') && d.len == first.len) {
		y = x;
		t = lex__next(&y);
		if (!lex_is_byte(&t, '='))
			read_assignment(p, s, &first, x);
	}
}

/* ---- the file ---- */

static int read_all(struct book *p, const char *text, size_t len)
{
	struct lex x = { text, text ? text + len : NULL }; /* an empty file is a text, too */
	struct lex_statement s;
	unsigned line = 1;

	while (!p->error && lex__statement(&x, &line, &s)) {
		if (line > GENERATED_LINES_MAX)
			return -E2BIG;
		read_statement(p, &s);
	}
	if (p->error)
		return p->error;
	if (line > GENERATED_LINES_MAX)
		return -E2BIG;
	book__mark_subgraphs(p);
	book__tell_reuse(p);
	return p->error ? p->error : p->is_ours == 3 ? 0 : -EINVAL;
}

int generated__parse(const char *text, size_t len, struct generated_file **ret)
{
	struct book p = { .scopes = BOOK_GRAPH_SCOPE };
	int r;

	if (len > GENERATED_BYTES_MAX)
		return -E2BIG;
	p.f = calloc(1, sizeof(*p.f));
	if (!p.f)
		return -ENOMEM;
	r = !book__keep(&p, "-", 1) && p.error ? p.error : read_all(&p, text, len); /* offset 0 is no text */
	book__done(&p);
	if (r) {
		generated__free(p.f);
		return r;
	}
	book__fit(&p);
	*ret = p.f;
	return 0;
}

static const char *text_at(const struct generated_file *f, uint32_t at)
{
	return at ? f->texts + at : NULL;
}

int generated__line(const struct generated_file *f, unsigned line, struct generated_line *ret)
{
	const struct book_entry *e;
	uint32_t low = 0, high = f->cnt;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (f->entries[mid].line_last < line)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == f->cnt)
		return -ENOENT;
	e = &f->entries[low];
	if (e->line > line || !(e->flags & IS_LINE))
		return -ENOENT;
	*ret = (struct generated_line){
		.buffer = text_at(f, e->buffer),
		.later = text_at(f, e->later),
		.kernel = text_at(f, e->kernel),
		.ops = text_at(f, e->ops),
		.nodes = text_at(f, e->nodes),
		.shape = text_at(f, e->shape),
		.graph = f->graph,
		.kernel_line = e->kernel_line,
		.is_reuse = !!(e->flags & IS_REUSE),
		.is_output = !!(e->flags & IS_OUTPUT),
	};
	return 0;
}

/* How much of a list fits into `room` bytes: names as a whole. */
static size_t whole_names(const char *list, size_t room)
{
	size_t len = strlen(list);

	if (len <= room)
		return len;
	for (len = room; len && list[len] != ','; len--)
		;
	return len;
}

size_t generated__op_text(const struct generated_line *l, char *buf, size_t size)
{
	const char *kernel = l->kernel ? l->kernel : "", *colon = l->kernel ? ": " : "";
	size_t n, room, names;

	if (!size)
		return 0;
	n = (size_t)snprintf(buf, size, "inductor%s%s", colon, kernel);
	if (n >= size) { /* printable ASCII alone: no letter is cut */
		n = size - 1;
		if (n >= 3)
			memcpy(buf + n - 3, "…", 3);
		return n;
	}
	if (!l->kernel || !l->ops || !strcmp(l->ops, kernel))
		return n;
	room = size - 1 - n;
	if (room < strlen(" (…)"))
		return n;
	names = whole_names(l->ops, room - strlen(" ()"));
	if (l->ops[names])
		names = whole_names(l->ops, room - strlen(" (, …)") < room ? room - strlen(" (, …)") : 0);
	n += (size_t)snprintf(buf + n, size - n, " (%.*s%s)", (int)names, l->ops, !l->ops[names] ? "" : names ? ", …" : "…");
	return n;
}

const char *generated__graph(const struct generated_file *f)
{
	return f->graph;
}

size_t generated__bytes(const struct generated_file *f)
{
	return sizeof(*f) + f->cap * sizeof(*f->entries) + f->texts_cap;
}

void generated__free(struct generated_file *f)
{
	if (!f)
		return;
	free(f->entries);
	free(f->texts);
	free(f);
}

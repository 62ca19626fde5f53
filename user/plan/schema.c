/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Operator schemas.
 *
 * A library's mangled names have the C++ argument types, but not which arguments an operator writes, what it returns, nor where
 * its overload's name begins. The schema does, and its text is in .rodata: the library registers it at start. So .rodata is
 * searched for ") -> ", and the string around each hit is taken if its head looks like one. at::_ops::X is then matched by X =
 * NAME or NAME_OVERLOAD, as torchgen builds it. In torch 2.13 all 3,101 are found.
 *
 * Some texts are there twice: once with "aten::" (older copies that the JIT keeps; taken only if there is no other), and one
 * pair differs in its annotations of writes: the one with more of them wins.
 *
 * A linker may have merged one text into the end of another (Debian's torch 1.13: 21 operators; PyPI's 2.15: 39): then several
 * texts have that end, or only an older copy is separate. The code that registers the schemas has the address of each in an
 * instruction, inside a longer text or not: it is searched then, and where it is not found (a stripped library) the end common
 * to all is taken.
 *
 * Parsing must survive default values: str a="\"'\\", int[2] x=[0,1], so it knows quotes, escapes and brackets.
 */
#include "plan/schema.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "base/array.h"
#include "base/free.h"

#define ARROW ") -> "

/* --- characters ------------------------------------------------------------------------------------ */

static int is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static struct schema_text trim(struct schema_text t)
{
	while (t.len && t.at[0] == ' ') {
		t.at++;
		t.len--;
	}
	while (t.len && t.at[t.len - 1] == ' ')
		t.len--;
	return t;
}

/* Index after the quoted string that begins at i; t.len if it does not end. */
static size_t skip_quoted(struct schema_text t, size_t i)
{
	char quote = t.at[i++];

	while (i < t.len && t.at[i] != quote)
		i += t.at[i] == '\\' ? 2 : 1;
	return i < t.len ? i + 1 : t.len;
}

/*
 * Index of the first `c` from i on that is outside quotes and brackets; t.len if there is none or a bracket closes that was not
 * opened. (`c` itself may be a closing bracket.)
 */
static size_t find_outside(struct schema_text t, size_t i, char c)
{
	int depth = 0;

	while (i < t.len) {
		char ch = t.at[i];

		if (ch == c && depth == 0)
			return i;
		if (ch == '"' || ch == '\'') {
			i = skip_quoted(t, i);
			continue;
		}
		if (ch == '(' || ch == '[' || ch == '{')
			depth++;
		else if ((ch == ')' || ch == ']' || ch == '}') && --depth < 0)
			return t.len;
		i++;
	}
	return t.len;
}

static int starts_with(struct schema_text t, const char *prefix)
{
	size_t n = strlen(prefix);

	return t.len >= n && !memcmp(t.at, prefix, n);
}

static int has_word(struct schema_text t, const char *word)
{
	size_t n = strlen(word);

	for (size_t i = 0; i + n <= t.len; i++)
		if (!memcmp(t.at + i, word, n) && (i == 0 || !is_name_char(t.at[i - 1])) &&
		    (i + n == t.len || !is_name_char(t.at[i + n])))
			return 1;
	return 0;
}

/* --- one schema -------------------------------------------------------------------------------------- */

/* [NAMESPACE::]NAME[.OVERLOAD]( → position of the parenthesis, 0 if it has another form. */
static size_t parse_head(struct schema_text t, struct schema *s)
{
	struct schema_text *part = &s->name;
	size_t from = 0, i;

	s->ns = s->overload = s->name = (struct schema_text){ t.at, 0 };
	for (i = 0; i < t.len; i++) {
		if (is_name_char(t.at[i]))
			continue;
		*part = (struct schema_text){ t.at + from, i - from };
		if (!part->len)
			return 0;
		if (t.at[i] == '(')
			return i;
		if (t.at[i] == '.' && part == &s->name) {
			part = &s->overload;
		} else if (t.at[i] == ':' && t.len - i > 1 && t.at[i + 1] == ':' && part == &s->name &&
			   !s->ns.len) {
			s->ns = s->name;
			i++;
		} else {
			return 0;
		}
		from = i + 1;
	}
	return 0;
}

/* TYPE [NAME[=DEFAULT]] */
static int parse_value(struct schema_text t, int is_arg, struct schema_value *ret)
{
	struct schema_value v = { 0 };
	size_t cut, paren;

	t = trim(t);
	t.len = find_outside(t, 0, '=');
	t = trim(t);
	v.type = t;
	for (cut = t.len; cut && is_name_char(t.at[cut - 1]); cut--)
		;
	if (cut && cut < t.len && t.at[cut - 1] == ' ') {
		v.name = (struct schema_text){ t.at + cut, t.len - cut };
		v.type = trim((struct schema_text){ t.at, cut });
	}
	if (!v.type.len || (is_arg && !v.name.len))
		return -EINVAL;
	v.is_tensor = (uint8_t)has_word(v.type, "Tensor");
	v.is_list = memchr(v.type.at, '[', v.type.len) != NULL;
	v.is_optional = memchr(v.type.at, '?', v.type.len) != NULL;
	/* an annotation directly follows the type's name: Tensor(a!), not Dict(str, Tensor) */
	for (paren = 0; paren < v.type.len && is_name_char(v.type.at[paren]); paren++)
		;
	if (starts_with(v.type, "Tensor(") && paren < v.type.len) {
		size_t end = find_outside(v.type, paren + 1, ')');

		v.is_alias = 1;
		v.is_written = memchr(v.type.at + paren, '!', end - paren) != NULL;
	}
	*ret = v;
	return 0;
}

static int parse_list(struct schema_text t, int is_args, struct schema_value *values, size_t max, size_t *ret_cnt)
{
	size_t cnt = 0, at = 0;
	int kwarg_only = 0;

	if (!trim(t).len) {
		*ret_cnt = 0;
		return 0;
	}
	while (at <= t.len) {
		size_t end = find_outside(t, at, ',');
		struct schema_text one = trim((struct schema_text){ t.at + at, end - at });

		at = end + 1;
		if (one.len == 1 && one.at[0] == '*' && is_args) {
			kwarg_only = 1;
			continue;
		}
		if (one.len == 3 && !memcmp(one.at, "...", 3))
			continue;
		if (cnt == max || parse_value(one, is_args, &values[cnt]) < 0)
			return -EINVAL;
		values[cnt++].is_kwarg_only = (uint8_t)kwarg_only;
	}
	*ret_cnt = cnt;
	return 0;
}

int schema_parse(const char *text, size_t len, struct schema *ret)
{
	struct schema_text t = { text, len }, rets;
	size_t open, close;

	if (len > SCHEMA_BYTES_MAX)
		return -EINVAL;
	open = parse_head(t, ret);
	if (!open)
		return -EINVAL;
	close = find_outside(t, open + 1, ')');
	rets = (struct schema_text){ t.at + close, t.len - close };
	if (!starts_with(rets, ") -> "))
		return -EINVAL;
	if (parse_list((struct schema_text){ t.at + open + 1, close - open - 1 }, 1, ret->args, SCHEMA_ARGS_MAX,
		       &ret->args_cnt) < 0)
		return -EINVAL;
	rets = trim((struct schema_text){ rets.at + 5, rets.len - 5 });
	if (!rets.len)
		return -EINVAL;
	if (rets.at[0] == '(' && find_outside(rets, 1, ')') == rets.len - 1)
		rets = (struct schema_text){ rets.at + 1, rets.len - 2 };
	return parse_list(rets, 0, ret->rets, SCHEMA_RETS_MAX, &ret->rets_cnt);
}

enum schema_effect schema__effect(const struct schema *s)
{
	enum schema_effect effect = SCHEMA_NONE;

	for (size_t i = 0; i < s->args_cnt; i++)
		if (s->args[i].is_written)
			return SCHEMA_TOUCHES;
	for (size_t i = 0; i < s->rets_cnt; i++) {
		if (s->rets[i].is_tensor && !s->rets[i].is_alias)
			return SCHEMA_TOUCHES;
		if (s->rets[i].is_tensor)
			effect = SCHEMA_VIEWS;
	}
	return effect;
}

/* --- all schemas of a library ---------------------------------------------------------------------------
 */

struct schema_entry {
	struct schema_text text;
	struct schema_text key; /* after the namespace, NAME or NAME.OVERLOAD; '.' compares as '_' */
	uint32_t writes;
	uint32_t has_ns;
};

/* A file may have any number of texts, and of operators without one. */
#define SCHEMAS_MAX 65536 /* torch 2.13 has 4,900 */
#define MERGED_MAX 1024	  /* Debian's torch 1.13 needs 70 */

struct entries {
	struct schema_entry *at; /* sorted by key, the best of equals first */
	size_t cnt, cap;
};

struct schema_index {
	struct schema_text data;
	struct entries alone;	   /* texts after a NUL */
	struct entries registered; /* texts that code refers to, wherever they begin */
	schema_code_fn *ask;	   /* returns that code; NULL: already called, or not set */
	void *ask_ctx;
	unsigned merged_cnt; /* how often all of them were searched */
};

static int key_cmp(struct schema_text a, struct schema_text b)
{
	size_t n = a.len < b.len ? a.len : b.len;

	for (size_t i = 0; i < n; i++) {
		int x = a.at[i] == '.' ? '_' : (unsigned char)a.at[i];
		int y = b.at[i] == '.' ? '_' : (unsigned char)b.at[i];

		if (x != y)
			return x - y;
	}
	return a.len < b.len ? -1 : a.len > b.len;
}

static int entry_cmp(const void *pa, const void *pb)
{
	const struct schema_entry *a = pa, *b = pb;

	return key_cmp(a->key, b->key) ?: cmp_up(a->has_ns, b->has_ns) ?: cmp_down(a->writes, b->writes) ?:
	       cmp_up(a->text.at, b->text.at);
}

/* 0 also when the string is no schema of torch's own operators, or beyond the limit. */
static int entries__add(struct entries *x, struct schema_text t)
{
	struct schema s;
	struct schema_entry e = { .text = t };
	size_t open = x->cnt < SCHEMAS_MAX ? parse_head(t, &s) : 0;

	if (!open || (s.ns.len && (s.ns.len != 4 || memcmp(s.ns.at, "aten", 4))))
		return 0;
	e.has_ns = s.ns.len != 0;
	e.key = (struct schema_text){ s.name.at, open - (size_t)(s.name.at - t.at) };
	for (size_t i = open; i < t.len; i++)
		e.writes += t.at[i] == '!';
	if (!array_has_room(x->at, x->cnt, x->cap, 1024))
		return -ENOMEM;
	x->at[x->cnt++] = e;
	return 0;
}

static int schema_index__scan(struct schema_index *x)
{
	const char *at = x->data.at, *end = at + x->data.len, *hit;

	while (at < end && (hit = memmem(at, (size_t)(end - at), ARROW, strlen(ARROW)))) {
		size_t back = (size_t)(hit - at) < SCHEMA_BYTES_MAX ? (size_t)(hit - at) : SCHEMA_BYTES_MAX;
		const char *nul = memchr(hit, '\0', (size_t)(end - hit));
		const char *from = back ? memrchr(hit - back, '\0', back) : NULL;
		int r;

		if (!nul)
			break;
		/* a string at the start of the search also follows a NUL */
		from = from ? from + 1 : hit - back;
		r = (size_t)(nul - from) <= SCHEMA_BYTES_MAX
			    ? entries__add(&x->alone, (struct schema_text){ from, (size_t)(nul - from) })
			    : 0;
		if (r < 0)
			return r;
		at = nul + 1;
	}
	return 0;
}

static void entries__sort(struct entries *x)
{
	if (x->cnt)
		qsort(x->at, x->cnt, sizeof(*x->at), entry_cmp);
}

/* The best entry with that key, or NULL. */
static const struct schema_entry *entries__find(const struct entries *x, struct schema_text key)
{
	size_t lo = 0, hi = x->cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (key_cmp(x->at[mid].key, key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < x->cnt && !key_cmp(x->at[lo].key, key) ? &x->at[lo] : NULL;
}

struct schema_index *schema_index__new(const uint8_t *data, size_t len)
{
	struct schema_index *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->data = (struct schema_text){ (const char *)data, len };
	if (schema_index__scan(x) < 0) {
		schema_index__free(x);
		return NULL;
	}
	entries__sort(&x->alone);
	return x;
}

void schema_index__free(struct schema_index *x)
{
	if (!x)
		return;
	free_all(x->alone.at, x->registered.at, x);
}

/* --- addresses in code ------------------------------------------------------------------------------------ */

void schema_index__when_in_doubt(struct schema_index *x, schema_code_fn *ask, void *ctx)
{
	x->ask = ask;
	x->ask_ctx = ctx;
}

/* The text that begins there, up to its NUL; empty: it cannot be a schema. */
static struct schema_text text_at(const struct schema_index *x, uint64_t offset)
{
	struct schema_text t = { x->data.at, 0 };
	const char *nul;
	size_t most;

	if (offset >= x->data.len)
		return t;
	t.at += offset;
	most = x->data.len - (size_t)offset;
	nul = memchr(t.at, '\0', most < SCHEMA_BYTES_MAX ? most : SCHEMA_BYTES_MAX);
	if (nul && memmem(t.at, (size_t)(nul - t.at), ARROW, strlen(ARROW)))
		t.len = (size_t)(nul - t.at);
	return t;
}

struct taking {
	struct schema_index *index;
	uint64_t data_vaddr;
};

/* A value that is no address is harmless: it would have to point to the start of a schema of the wanted name. */
static int take_address(void *ctx, uint64_t addr)
{
	struct taking *k = ctx;
	struct schema_text t = text_at(k->index, addr - k->data_vaddr);

	return t.len ? entries__add(&k->index->registered, t) : 0;
}

static int schema_index__scan_code(struct schema_index *x, const struct schema_code *c)
{
	struct taking k = { x, c->data_vaddr };

	if (code_addresses(c->code, c->len, c->vaddr, take_address, &k) < 0)
		return -ENOMEM;
	entries__sort(&x->registered);
	return 0;
}

/* The code is requested once. */
static const struct schema_entry *schema_index__find_registered(struct schema_index *x, struct schema_text key)
{
	schema_code_fn *ask = x->ask;
	struct schema_code c = { 0 };

	x->ask = NULL;
	if (ask && ask(x->ask_ctx, &c) == 0 && schema_index__scan_code(x, &c) < 0)
		x->registered.cnt = 0; /* out of memory: as if there were no code */
	return entries__find(&x->registered, key);
}

/*
 * A linker that merges strings keeps "dropout(Tensor x) -> …" only as the end of "feature_dropout(Tensor x) -> …". Searched
 * when there is no separate string; two ends that differ give no result.
 */
static int schema_index__find_merged(struct schema_index *x, struct schema_text key, struct schema_text *ret)
{
	struct schema_text found = { NULL, 0 };

	if (x->merged_cnt++ >= MERGED_MAX)
		return -ENOENT;
	for (size_t i = 0; i < x->alone.cnt; i++) {
		const struct schema_entry *e = &x->alone.at[i];
		struct schema_text end;
		size_t skip;

		if (e->key.len <= key.len)
			continue;
		skip = e->key.len - key.len;
		if (key_cmp((struct schema_text){ e->key.at + skip, key.len }, key))
			continue;
		end.at = e->key.at + skip;
		end.len = e->text.len - (size_t)(end.at - e->text.at);
		if (found.at && (found.len != end.len || memcmp(found.at, end.at, end.len)))
			return -ENOENT;
		found = end;
	}
	if (!found.at || !key.len)
		return -ENOENT;
	*ret = found;
	return 0;
}

int schema_index__find(struct schema_index *x, const char *op, size_t op_len, struct schema_text *ret)
{
	struct schema_text key = { op, op_len };
	const struct schema_entry *alone = entries__find(&x->alone, key), *e = alone;

	if (!e || e->has_ns)
		e = schema_index__find_registered(x, key);
	if (!e)
		e = alone;
	if (!e)
		return schema_index__find_merged(x, key, ret);
	*ret = e->text;
	return 0;
}

size_t schema_index__cnt(const struct schema_index *x)
{
	return x->alone.cnt;
}

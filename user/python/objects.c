/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "python/objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/seed.h"
#include "base/utf8.h"
#include "python/object_head.h"

#define LIST_ITEMS 24  /* a pointer to them */
#define TUPLE_ITEMS 24 /* themselves */
#define TYPE_NAME 24
#define TYPE_BASICSIZE 32
#define TYPE_FLAGS 168
#define TYPE_DICTOFFSET 288
#define FLAG_INLINE_VALUES (1u << 2)
#define FLAG_MANAGED_DICT (1u << 4)
#define FLAG_READY (1u << 12)
#define MRO_MAX 256
#define DICT_LOG2_MAX 24
#define TRIES 3

static const struct py_object_offsets table[] = {
	{ .minor = 10, .dict_place = PY_DICT_BY_OFFSET, .keys_are_old = 1, .interp_modules = 856, .interp_gc = 616,
	  .str_ascii = 48, .str_other = 72 },
	{ .minor = 11, .dict_place = PY_DICT_TWO_WORDS, .interp_modules = 888, .interp_gc = 648, .str_ascii = 48,
	  .str_other = 72, .cached_keys = 872 },
	{ .minor = 12, .dict_place = PY_DICT_ONE_WORD, .interp_modules = 944, .interp_gc = 112, .str_ascii = 40,
	  .str_other = 56, .cached_keys = 880 },
	{ .minor = 13, .dict_place = PY_DICT_INLINE, .values_header = 8, .interp_modules = 7656, .interp_gc = 7400,
	  .str_ascii = 40, .str_other = 56, .cached_keys = 880 },
};

const struct py_object_offsets *py_object_offsets(unsigned minor)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].minor == minor)
			return &table[i];
	return NULL;
}

int py__init(struct py *p, const struct py_mem *mem, unsigned minor)
{
	*p = (struct py){ .at = py_object_offsets(minor), .items_left = PY_LOOK_ITEMS_MAX };
	if (!p->at)
		return -ENOTSUP;
	p->snap = py_snap__new(mem);
	p->types = calloc(PY_TYPES_SLOTS, sizeof(*p->types));
	if (p->snap && p->types)
		return 0;
	py__done(p);
	return -ENOMEM;
}

void py__done(struct py *p)
{
	py_snap__free(p->snap);
	free(p->types);
	*p = (struct py){ 0 };
}

void py__forget_types(struct py *p)
{
	memset(p->types, 0, PY_TYPES_SLOTS * sizeof(*p->types));
	p->types_cnt = 0;
}

void py__fresh(struct py *p)
{
	py_snap__fresh(p->snap);
	py__forget_types(p);
	p->items_left = PY_LOOK_ITEMS_MAX;
}

static int take_items(struct py *p, uint64_t cnt)
{
	if (cnt > PY_ITEMS_MAX || cnt > p->items_left)
		return -EAGAIN;
	p->items_left -= cnt;
	return 0;
}

/* --- types ------------------------------------------------------------------------------------------- */

static uint32_t bases_of(struct py *p, uint64_t type)
{
	uint64_t mro = py_snap__ptr(p->snap, type + TYPE_MRO), items[MRO_MAX];
	uint64_t cnt = mro ? py_snap__word(p->snap, mro + OB_SIZE) : 0;
	uint32_t bases = 0;

	if (!cnt || cnt > MRO_MAX || py_snap__read(p->snap, mro + TUPLE_ITEMS, items, cnt * 8) || items[0] != type)
		return 0;
	for (uint64_t i = 0; i < cnt; i++)
		for (unsigned b = 0; b < PY_BASES_MAX; b++)
			if (p->bases[b] && items[i] == p->bases[b])
				bases |= 1u << b;
	return bases;
}

/* A type's own type is a type, unlike that of other objects. */
static int is_type(struct py *p, uint64_t type, uint32_t *ret_flags)
{
	uint64_t meta = py_snap__ptr(p->snap, type + OB_TYPE), flags;

	if (!meta || !(py_snap__word(p->snap, meta + TYPE_FLAGS) & PY_IS_TYPE))
		return 0;
	flags = py_snap__word(p->snap, type + TYPE_FLAGS);
	*ret_flags = (uint32_t)flags;
	return flags >> 32 == 0 && (flags & FLAG_READY);
}

const struct py_type *py__type(struct py *p, uint64_t type)
{
	uint32_t i = (uint32_t)hash_u64(type) % PY_TYPES_SLOTS, flags;

	if (!py_plausible(type))
		return NULL;
	while (p->types[i].addr && p->types[i].addr != type)
		i = (i + 1) % PY_TYPES_SLOTS;
	if (p->types[i].addr)
		return p->types[i].flags ? &p->types[i] : NULL;
	if (!is_type(p, type, &flags))
		flags = 0; /* kept: it is asked for again */
	if (p->types_cnt >= PY_TYPES_SLOTS / 4 * 3) {
		py__forget_types(p);
		i = (uint32_t)hash_u64(type) % PY_TYPES_SLOTS;
	}
	p->types_cnt++;
	p->types[i] = (struct py_type){ type, flags, flags ? bases_of(p, type) : 0 };
	return flags ? &p->types[i] : NULL;
}

const struct py_type *py__type_of(struct py *p, uint64_t obj)
{
	uint64_t head[2];

	/* an object that was freed has its old type still, and no references */
	if (!py_plausible(obj) || py_snap__peek(p->snap, obj, head, sizeof(head)))
		return NULL;
	py_snap__needs(p->snap, obj, head[0], PY_WORD_COUNT);
	if (!(uint32_t)head[0])
		return NULL;
	py_snap__needs(p->snap, obj + OB_TYPE, head[1], PY_WORD_SAME);
	return py__type(p, head[1]);
}

int py__is(struct py *p, uint64_t obj, uint32_t flag)
{
	const struct py_type *t = py__type_of(p, obj);

	return t && (t->flags & flag);
}

static int last_part(char buf[PY_TEXT_MAX])
{
	char *dot = strrchr(buf, '.');

	if (dot)
		memmove(buf, dot + 1, strlen(dot));
	for (const char *c = buf; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return -EAGAIN;
	return buf[0] ? 0 : -EAGAIN;
}

int py__type_name(struct py *p, uint64_t type, char buf[PY_TEXT_MAX])
{
	uint64_t name = py_snap__word(p->snap, type + TYPE_NAME);

	for (unsigned i = 0; i < PY_TEXT_MAX; i++) {
		if (py_snap__read(p->snap, name + i, buf + i, 1))
			return -EAGAIN;
		if (!buf[i])
			return last_part(buf);
	}
	return -EAGAIN;
}

/* --- strings ------------------------------------------------------------------------------------------- */

/* Control characters, halves of a pair: no name has them. */
static int is_of_no_name(uint32_t c)
{
	return c < ' ' || (c >= 0x7f && c < 0xa0) || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff;
}

struct str_text {
	uint64_t at, len; /* its first character; how many */
	unsigned kind;	  /* bytes of one */
	int is_ascii;
};

static int find_text(struct py *p, uint64_t str, struct str_text *ret)
{
	uint32_t state = py_snap__int(p->snap, str + STR_STATE);

	*ret = (struct str_text){ .len = py_snap__word(p->snap, str + STR_LENGTH), .kind = STR_KIND(state),
				  .is_ascii = STR_ASCII(state) };
	ret->at = str + (ret->is_ascii ? p->at->str_ascii : p->at->str_other);
	if (!py__is(p, str, PY_IS_STR) || (ret->kind != 1 && ret->kind != 2 && ret->kind != 4) ||
	    (ret->is_ascii && ret->kind != 1) || !STR_COMPACT(state) || !ret->len)
		return -EAGAIN;
	return 0;
}

int py__text(struct py *p, uint64_t str, char buf[PY_TEXT_MAX])
{
	uint8_t raw[PY_TEXT_MAX * 4];
	struct str_text t;
	unsigned n = 0;

	if (find_text(p, str, &t) || t.len >= PY_TEXT_MAX || py_snap__read(p->snap, t.at, raw, t.len * t.kind))
		return -EAGAIN;
	for (uint64_t i = 0; i < t.len; i++) {
		char utf8[4];
		uint32_t c = 0;
		unsigned bytes;

		memcpy(&c, raw + i * t.kind, t.kind);
		bytes = utf8_encode(c, utf8);
		if ((t.is_ascii && c >= 0x80) || is_of_no_name(c) || n + bytes >= PY_TEXT_MAX)
			return -EAGAIN;
		memcpy(buf + n, utf8, bytes);
		n += bytes;
	}
	buf[n] = '\0';
	return 0;
}

#define MORE "\u2026" /* three bytes of UTF-8 */

int py__first_line(struct py *p, uint64_t str, char buf[PY_TEXT_MAX])
{
	uint8_t raw[PY_TEXT_MAX * 4];
	struct str_text t;
	uint64_t len;
	unsigned n = 0;

	if (find_text(p, str, &t))
		return -EAGAIN;
	len = t.len < PY_TEXT_MAX ? t.len : PY_TEXT_MAX;
	if (py_snap__read(p->snap, t.at, raw, len * t.kind))
		return -EAGAIN;
	for (uint64_t i = 0; i < len; i++) {
		char utf8[4];
		uint32_t c = 0;
		unsigned bytes;

		memcpy(&c, raw + i * t.kind, t.kind);
		if (c == '\n')
			break;
		bytes = utf8_encode(is_of_no_name(c) ? ' ' : c, utf8);
		if (n + bytes + sizeof(MORE) > PY_TEXT_MAX) {
			memcpy(buf + n, MORE, sizeof(MORE));
			return 0;
		}
		memcpy(buf + n, utf8, bytes);
		n += bytes;
	}
	while (n && buf[n - 1] == ' ')
		n--;
	buf[n] = '\0';
	return n ? 0 : -EAGAIN;
}

int py__is_text(struct py *p, uint64_t str, const char *text)
{
	char buf[PY_TEXT_MAX];

	if (py_snap__word(p->snap, str + STR_LENGTH) != strlen(text))
		return 0;
	return !py__text(p, str, buf) && !strcmp(buf, text);
}

/* --- numbers ------------------------------------------------------------------------------------------- */

#define DIGIT_BITS 30
#define DIGITS 24 /* u32 each */

int py__number(struct py *p, uint64_t num, uint64_t *ret)
{
	uint64_t head = py_snap__word(p->snap, num + OB_SIZE), cnt = head, v = 0;
	uint32_t digits[3] = { 0 };

	if (p->at->minor >= 12) { /* digits above three bits, of them two for the sign: 0, or 1 for zero */
		if ((head & 3) > 1)
			return -EAGAIN;
		cnt = head >> 3;
	}
	if (!py__is(p, num, PY_IS_INT) || cnt > 3 || (cnt && py_snap__read(p->snap, num + DIGITS, digits, cnt * 4)))
		return -EAGAIN;
	if (digits[2] >= 8 || digits[0] >> DIGIT_BITS || digits[1] >> DIGIT_BITS)
		return -EAGAIN;
	for (uint64_t i = cnt; i-- > 0;)
		v = v << DIGIT_BITS | digits[i];
	*ret = v;
	return 0;
}

/* --- dicts ----------------------------------------------------------------------------------------------- */

struct keys {
	uint64_t entries;  /* where they begin */
	uint64_t cnt;	   /* how many were ever made */
	uint64_t capacity; /* how many there is room for */
	unsigned size;	   /* of one: 24 with a hash, or 16 */
};

static int read_old_keys(struct py *p, uint64_t keys, struct keys *ret)
{
	uint64_t h[5], width;

	if (py_snap__read(p->snap, keys + 8, &h[1], sizeof(h) - 8) || !h[1] || (h[1] & (h[1] - 1)) ||
	    h[1] > 1ull << DICT_LOG2_MAX)
		return -EAGAIN;
	width = h[1] <= 0xff ? 1 : h[1] <= 0xffff ? 2 : 4;
	*ret = (struct keys){ keys + 40 + h[1] * width, h[4], h[1] * 2 / 3, 24 };
	return h[3] > ret->capacity || h[4] > ret->capacity || h[3] + h[4] > ret->capacity ? -EAGAIN : 0;
}

static int read_keys(struct py *p, uint64_t keys, struct keys *ret)
{
	struct { /* behind the references */
		uint8_t log2, log2_bytes, kind, pad;
		uint32_t version;
		uint64_t usable, cnt;
	} h;
	unsigned width_log2;

	if (p->at->keys_are_old)
		return read_old_keys(p, keys, ret);
	if (py_snap__read(p->snap, keys + 8, &h, sizeof(h)) || h.log2 > DICT_LOG2_MAX || h.kind > 2)
		return -EAGAIN;
	width_log2 = h.log2 < 8 ? 0 : h.log2 < 16 ? 1 : 2;
	if (h.log2_bytes != h.log2 + width_log2)
		return -EAGAIN;
	*ret = (struct keys){ keys + 32 + (1ull << h.log2_bytes), h.cnt, (2ull << h.log2) / 3, h.kind ? 16 : 24 };
	/* a split table that instances share has fewer places than its size would allow */
	return h.cnt > ret->capacity || h.usable > ret->capacity || h.cnt + h.usable > ret->capacity ? -EAGAIN : 0;
}

/* An entry of a table; its value lies elsewhere if the table is split. */
struct dict_entry {
	uint64_t key, value;
	uint64_t value_at;
};

static int read_entries(struct py *p, const struct keys *k, uint64_t values, uint64_t values_cnt, struct dict_entry **ret,
			uint64_t *ret_cnt)
{
	/* a split one may be shorter than the table that it shares */
	uint64_t cnt = values && values_cnt < k->cnt ? values_cnt : k->cnt, *vals, *raw;
	struct dict_entry *e;
	int r = 0;

	if (take_items(p, cnt))
		return -EAGAIN;
	e = malloc(cnt * (sizeof(*e) + k->size + 8) + 8);
	if (!e)
		return -ENOMEM;
	raw = (uint64_t *)(e + cnt);
	vals = raw + cnt * k->size / 8;
	if (py_snap__peek(p->snap, k->entries, raw, cnt * k->size) ||
	    (values && py_snap__peek(p->snap, values, vals, cnt * 8)))
		r = -EAGAIN;
	for (uint64_t i = 0; !r && i < cnt; i++) {
		uint64_t key_at = k->entries + (i + 1) * k->size - 16;
		const uint64_t *key = &raw[(i + 1) * k->size / 8 - 2];

		e[i] = (struct dict_entry){ key[0], values ? vals[i] : key[1], values ? values + i * 8 : key_at + 8 };
		py_snap__needs(p->snap, key_at, key[0], PY_WORD_SAME);
		py_snap__needs(p->snap, e[i].value_at, e[i].value, PY_WORD_POINTER);
	}
	if (r) {
		free(e);
		return r;
	}
	*ret = e;
	*ret_cnt = cnt;
	return 0;
}

static uint64_t count_used(const struct dict_entry *e, uint64_t cnt)
{
	uint64_t used = 0;

	for (uint64_t i = 0; i < cnt; i++)
		used += e[i].value != 0;
	return used;
}

/* fn sees all of them, or none. */
static int tell_entries(struct py *p, const struct dict_entry *e, uint64_t cnt, py_item_fn fn, void *ctx)
{
	for (uint64_t i = 0; i < cnt; i++)
		if (e[i].value && (!py_plausible(e[i].key) || !py_plausible(e[i].value)))
			return -EAGAIN;
	for (uint64_t i = 0; i < cnt; i++) {
		int what = e[i].value ? fn(ctx, e[i].key, e[i].value) : PY_ITEM_PASSED;

		if (!(what & PY_ITEM_PASSED))
			py_snap__needs(p->snap, e[i].value_at, e[i].value, PY_WORD_SAME);
		if (what & PY_ITEM_ENOUGH)
			break;
	}
	return 0;
}

static int each_item_once(struct py *p, uint64_t dict, py_item_fn fn, void *ctx, struct keys *k)
{
	uint64_t used = py_snap__word(p->snap, dict + 16), keys = py_snap__ptr(p->snap, dict + 32);
	uint64_t values = py_snap__word(p->snap, dict + 40), cnt;
	struct dict_entry *e;
	int r;

	*k = (struct keys){ 0 };
	if (!py__is(p, dict, PY_IS_DICT) || !keys || (values && !py_plausible(values)))
		return -EAGAIN;
	r = read_keys(p, keys, k);
	if (!r && used > k->cnt)
		r = -EAGAIN;
	if (!r)
		r = read_entries(p, k, values ? values + p->at->values_header : 0, UINT64_MAX, &e, &cnt);
	if (r)
		return r;
	r = count_used(e, cnt) == used ? tell_entries(p, e, cnt, fn, ctx) : -EAGAIN;
	free(e);
	return r;
}

int py__each_item(struct py *p, uint64_t dict, py_item_fn fn, void *ctx)
{
	struct keys k;
	int r = -EAGAIN;

	for (unsigned i = 0; r == -EAGAIN && i < TRIES; i++) {
		if (i) {
			py_snap__forget(p->snap, dict, 48);
			py_snap__forget(p->snap, py_snap__ptr(p->snap, dict + 32), 32);
			if (k.cnt && k.cnt <= PY_ITEMS_MAX)
				py_snap__forget(p->snap, k.entries, k.cnt * k.size);
		}
		r = each_item_once(p, dict, fn, ctx, &k);
	}
	p->torn += r == -EAGAIN;
	return r;
}

/* --- attributes ---------------------------------------------------------------------------------------- */

/* Values that lie apart from the keys that the type's instances share. */
static int each_shared(struct py *p, uint64_t type, uint64_t values, uint64_t max, py_item_fn fn, void *ctx)
{
	uint64_t keys = py_snap__ptr(p->snap, type + p->at->cached_keys), cnt;
	struct dict_entry *e;
	struct keys k;
	int r;

	if (!keys || !py_plausible(values))
		return -EAGAIN;
	r = read_keys(p, keys, &k);
	r = r ? r : read_entries(p, &k, values, max, &e, &cnt);
	if (r)
		return r;
	r = tell_entries(p, e, cnt, fn, ctx);
	free(e);
	return r;
}

/* 3.13: {capacity, size, embedded, valid} and the values, right behind the object's own fields. */
static int each_inline(struct py *p, uint64_t obj, uint64_t type, py_item_fn fn, void *ctx)
{
	uint64_t basic = py_snap__word(p->snap, type + TYPE_BASICSIZE);
	uint8_t head[4];

	if (basic < 16 || basic > 1u << 20 || (basic & 7) || py_snap__read(p->snap, obj + basic, head, 4) || head[3] != 1)
		return -EAGAIN;
	return each_shared(p, type, obj + basic + 8, head[0], fn, ctx);
}

static int each_by_offset(struct py *p, uint64_t obj, uint64_t type, py_item_fn fn, void *ctx)
{
	uint64_t off = py_snap__word(p->snap, type + TYPE_DICTOFFSET), dict;

	if (off < 16 || off > 1u << 20 || (off & 7))
		return -EAGAIN;
	dict = py_snap__ptr(p->snap, obj + off);
	return dict ? py__each_item(p, dict, fn, ctx) : 0;
}

static int each_managed(struct py *p, uint64_t obj, const struct py_type *t, py_item_fn fn, void *ctx)
{
	uint64_t word = py_snap__word(p->snap, obj - 24), values;

	switch (p->at->dict_place) {
	case PY_DICT_TWO_WORDS:
		values = py_snap__ptr(p->snap, obj - 32);
		if (!values)
			break;
		return each_shared(p, t->addr, values, UINT64_MAX, fn, ctx);
	case PY_DICT_ONE_WORD:
		if (!(word & 1))
			break;
		return each_shared(p, t->addr, word + 1, UINT64_MAX, fn, ctx);
	case PY_DICT_INLINE:
		if (word || !(t->flags & FLAG_INLINE_VALUES))
			break;
		return each_inline(p, obj, t->addr, fn, ctx);
	default:
		return -EAGAIN;
	}
	return word ? py__each_item(p, word, fn, ctx) : 0;
}

int py__each_attr(struct py *p, uint64_t obj, py_item_fn fn, void *ctx)
{
	const struct py_type *found = py__type_of(p, obj);
	struct py_type t;

	if (!found)
		return -EAGAIN;
	t = *found;
	if (p->at->dict_place != PY_DICT_BY_OFFSET && (t.flags & FLAG_MANAGED_DICT))
		return each_managed(p, obj, &t, fn, ctx);
	return each_by_offset(p, obj, t.addr, fn, ctx);
}

/* --- sequences and look-ups ------------------------------------------------------------------------------ */

int py__items(struct py *p, uint64_t seq, uint64_t **ret, size_t *ret_cnt)
{
	uint64_t cnt = py_snap__word(p->snap, seq + OB_SIZE), items = seq + TUPLE_ITEMS, *buf;

	if (!py__is(p, seq, PY_IS_LIST | PY_IS_TUPLE) || take_items(p, cnt))
		return -EAGAIN;
	if (cnt && py__is(p, seq, PY_IS_LIST))
		items = py_snap__ptr(p->snap, seq + LIST_ITEMS);
	buf = malloc(cnt * 8 + 8);
	if (!buf)
		return -ENOMEM;
	if (cnt && py_snap__read(p->snap, items, buf, cnt * 8)) {
		free(buf);
		return -EAGAIN;
	}
	*ret = buf;
	*ret_cnt = cnt;
	return 0;
}

struct wanted_item {
	struct py *p;
	const char *key;
	uint64_t value;
};

static int find_item(void *ctx, uint64_t key, uint64_t value)
{
	struct wanted_item *w = ctx;

	if (!py__is_text(w->p, key, w->key))
		return PY_ITEM_PASSED;
	w->value = value;
	return PY_ITEM_ENOUGH;
}

int py__get(struct py *p, uint64_t dict, const char *key, uint64_t *ret)
{
	struct wanted_item w = { p, key, 0 };
	int r = py__each_item(p, dict, find_item, &w);

	if (!r)
		*ret = w.value;
	return r;
}

int py__module_attr(struct py *p, const char *module, const char *attr, uint64_t *ret)
{
	uint64_t modules = py_snap__ptr(p->snap, p->interp + p->at->interp_modules), mod = 0, dict, found = 0;
	int r;

	if (!modules)
		return -ENOENT;
	r = py__get(p, modules, module, &mod);
	if (r || !mod)
		return r ? r : -ENOENT;
	dict = py_snap__ptr(p->snap, mod + MODULE_DICT);
	r = dict ? py__get(p, dict, attr, &found) : -ENOENT;
	if (r || !found)
		return r ? r : -ENOENT;
	*ret = found;
	return 0;
}

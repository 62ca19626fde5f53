/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Not a library: exports are far too long to be built as a tree first, sizes are unsigned 64 bit
 * (jansson's integers are signed), and libraries refuse strings that are not UTF-8, with which a
 * report must be written even so.
 */
#include "view/json.h"

#include <math.h>
#include <stdio.h>

#include "base/text.h"

void json__init(struct json *j, struct outbuf *o)
{
	*j = (struct json){ .o = o };
}

static void json__key(struct json *j, const char *key)
{
	int flat = j->flat_from && j->depth >= j->flat_from;

	if (j->depth) {
		if (j->has_item[j->depth])
			outbuf__char(j->o, ',');
		j->has_item[j->depth] = 1;
		if (!flat) {
			outbuf__char(j->o, '\n');
			for (unsigned i = 0; i < j->depth; i++)
				outbuf__lit(j->o, "  ");
		}
	}
	if (!key)
		return;
	outbuf__char(j->o, '"');
	outbuf__str(j->o, key);
	outbuf__str(j->o, flat ? "\":" : "\": ");
}

void json__begin(struct json *j, const char *key, char open)
{
	json__key(j, key);
	outbuf__char(j->o, open);
	if (j->depth < JSON_DEPTH_MAX - 1)
		j->depth++;
	j->has_item[j->depth] = 0;
}

void json__begin_flat(struct json *j, const char *key, char open)
{
	json__begin(j, key, open);
	if (!j->flat_from)
		j->flat_from = j->depth;
}

void json__end(struct json *j, char close)
{
	int flat = j->flat_from && j->depth >= j->flat_from;

	if (j->flat_from == j->depth)
		j->flat_from = 0;
	if (j->has_item[j->depth] && !flat) {
		outbuf__char(j->o, '\n');
		for (unsigned i = 1; i < j->depth; i++)
			outbuf__lit(j->o, "  ");
	}
	j->depth--;
	outbuf__char(j->o, close);
	if (!j->depth)
		outbuf__char(j->o, '\n');
}

void json__u64(struct json *j, const char *key, uint64_t v)
{
	json__key(j, key);
	outbuf__u64(j->o, v);
}

void json__i64(struct json *j, const char *key, int64_t v)
{
	json__key(j, key);
	outbuf__i64(j->o, v);
}

void json__f64(struct json *j, const char *key, double v)
{
	json__key(j, key);
	if (isfinite(v))
		outbuf__printf(j->o, "%.6g", v);
	else
		outbuf__lit(j->o, "null");
}

void json__average(struct json *j, const char *key, double v)
{
	if (fabs(v) >= 1000 && fabs(v) < 9e18)
		json__i64(j, key, (int64_t)(v + (v < 0 ? -0.5 : 0.5)));
	else
		json__f64(j, key, v);
}

void json__bool(struct json *j, const char *key, int v)
{
	json__key(j, key);
	outbuf__str(j->o, v ? "true" : "false");
}

void json__null(struct json *j, const char *key)
{
	json__key(j, key);
	outbuf__lit(j->o, "null");
}

void json__str(struct json *j, const char *key, const char *text)
{
	json__key(j, key);
	text = text ? text : "";
	json_quote(j->o, text, strlen(text));
}

void json__str_or_null(struct json *j, const char *key, const char *text)
{
	if (text && text[0])
		json__str(j, key, text);
	else
		json__null(j, key);
}

void json__hex(struct json *j, const char *key, uint64_t v)
{
	json__key(j, key);
	outbuf__char(j->o, '"');
	outbuf__hex(j->o, v);
	outbuf__char(j->o, '"');
}

void json__raw(struct json *j, const char *key, const char *value, size_t len)
{
	int in_string = 0;

	json__key(j, key);
	for (size_t i = 0; i < len; i++) {
		if (value[i] == '"')
			in_string = !in_string;
		if (in_string || !strchr(" \n\t\r", value[i]) || !value[i])
			outbuf__char(j->o, value[i]);
		if (in_string && value[i] == '\\' && i + 1 < len)
			outbuf__char(j->o, value[++i]);
	}
}

/* Bytes at the beginning that can be copied as they are. */
static size_t plain_len(const char *s, size_t len)
{
	size_t i = 0;

	while (i < len && s[i] >= 0x20 && s[i] < 0x7f && s[i] != '"' && s[i] != '\\')
		i++;
	return i;
}

static void put_escape(struct outbuf *o, uint32_t cp)
{
	if (cp < 0x10000)
		outbuf__printf(o, "\\u%04x", (unsigned)cp);
	else
		outbuf__printf(o, "\\u%04x\\u%04x", 0xd800u + ((unsigned)(cp - 0x10000) >> 10),
			       0xdc00u + (unsigned)((cp - 0x10000) & 0x3ff));
}

void json_quote(struct outbuf *o, const char *text, size_t len)
{
	outbuf__char(o, '"');
	while (len) {
		size_t n = plain_len(text, len);
		uint32_t cp;

		outbuf__put(o, text, n);
		text += n;
		len -= n;
		if (!len)
			break;
		n = utf8_decode(text, len, &cp);
		if (cp == '"' || cp == '\\') {
			outbuf__char(o, '\\');
			outbuf__char(o, (char)cp);
		} else if (utf8_is_unsafe(cp)) {
			put_escape(o, cp);
		} else if (cp == UTF8_BAD && n == 1) {
			outbuf__lit(o, "\xef\xbf\xbd");
		} else {
			outbuf__put(o, text, n);
		}
		text += n;
		len -= n;
	}
	outbuf__char(o, '"');
}

int json__begin_doc(struct json *j, struct outbuf *o, FILE *out)
{
	int err = outbuf__init(o, out);

	if (err)
		return err;
	json__init(j, o);
	json__begin(j, NULL, '{');
	json__u64(j, "schema", 1);
	return 0;
}

int json__end_doc(struct json *j)
{
	int err;

	json__end(j, '}');
	err = outbuf__flush(j->o);
	outbuf__done(j->o);
	return err;
}

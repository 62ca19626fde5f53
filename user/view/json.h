/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * json: a streaming writer. Its output is always valid JSON in valid UTF-8: bytes that are not UTF-8 become
 * U+FFFD, control and invisible characters are escaped, numbers that are not finite become null.
 *
 * Keys are literals of ours. `key` is NULL inside an array and for the outermost value.
 */
#ifndef MT_VIEW_JSON_H
#define MT_VIEW_JSON_H

#include <stdint.h>
#include <stdio.h>

#include "view/outbuf.h"

#define JSON_DEPTH_MAX 32

struct json {
	struct outbuf *o;
	unsigned depth;
	unsigned flat_from; /* depth from which on everything stands on one line; 0 = nowhere */
	unsigned char has_item[JSON_DEPTH_MAX];
};

void json__init(struct json *j, struct outbuf *o);
/* A document of memtrace's to a file: its outermost object, with the schema's number. 0 or -errno; o lasts until the end. */
int json__begin_doc(struct json *j, struct outbuf *o, FILE *out);
int json__end_doc(struct json *j); /* and of the outbuf. 0 or -errno */
void json__begin(struct json *j, const char *key, char open);	   /* '{' or '[' */
void json__begin_flat(struct json *j, const char *key, char open); /* the whole of it on one line */
void json__end(struct json *j, char close);
void json__u64(struct json *j, const char *key, uint64_t v);
void json__i64(struct json *j, const char *key, int64_t v);
void json__f64(struct json *j, const char *key, double v);
/* Bytes or a count on average: whole from a thousand on, where %g would lose digits. */
void json__average(struct json *j, const char *key, double v);
void json__bool(struct json *j, const char *key, int v);
void json__str(struct json *j, const char *key, const char *text); /* NULL reads as "" */
void json__str_or_null(struct json *j, const char *key, const char *text);
void json__hex(struct json *j, const char *key, uint64_t v); /* as a string */
void json__null(struct json *j, const char *key);
/* A value that is JSON already, without the space between its tokens. */
void json__raw(struct json *j, const char *key, const char *value, size_t len);

/* A quoted string alone. */
void json_quote(struct outbuf *o, const char *text, size_t len);

#endif

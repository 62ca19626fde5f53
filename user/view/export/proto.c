/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/export/proto.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LEN_BYTES 4

void proto__done(struct proto *p)
{
	free(p->buf);
	*p = (struct proto){ 0 };
}

static int proto__room(struct proto *p, size_t more)
{
	size_t room = p->room;
	char *buf;

	if (p->err)
		return 0;
	if (p->len + more <= p->room)
		return 1;
	while (room < p->len + more)
		room = room ? 2 * room : 256;
	buf = realloc(p->buf, room);
	if (!buf) {
		p->err = -ENOMEM;
		return 0;
	}
	p->buf = buf;
	p->room = room;
	return 1;
}

void proto__varint(struct proto *p, uint64_t v)
{
	if (!proto__room(p, 10))
		return;
	for (; v >= 0x80; v >>= 7)
		p->buf[p->len++] = (char)(v | 0x80);
	p->buf[p->len++] = (char)v;
}

void proto__u64(struct proto *p, unsigned field, uint64_t v)
{
	proto__varint(p, field << 3);
	proto__varint(p, v);
}

void proto__str(struct proto *p, unsigned field, const char *text)
{
	size_t len = strlen(text);

	proto__varint(p, field << 3 | 2);
	proto__varint(p, len);
	if (!proto__room(p, len))
		return;
	memcpy(p->buf + p->len, text, len);
	p->len += len;
}

size_t proto__open(struct proto *p, unsigned field)
{
	proto__varint(p, field << 3 | 2);
	if (!proto__room(p, LEN_BYTES))
		return 0;
	p->len += LEN_BYTES;
	return p->len;
}

void proto__close(struct proto *p, size_t opened)
{
	size_t len = p->len - opened;

	if (p->err)
		return;
	if (len >> 7 * LEN_BYTES) {
		p->err = -EFBIG;
		return;
	}
	for (size_t i = 0; i < LEN_BYTES; i++)
		p->buf[opened - LEN_BYTES + i] = (char)((len >> 7 * i & 0x7f) | (i + 1 < LEN_BYTES ? 0x80 : 0));
}

int proto__flush(struct proto *p, struct outbuf *o, unsigned field)
{
	struct proto head = { .buf = (char[20]){ 0 }, .room = 20 };

	if (!p->err) {
		proto__varint(&head, field << 3 | 2);
		proto__varint(&head, p->len);
		outbuf__put(o, head.buf, head.len);
		outbuf__put(o, p->buf, p->len);
	}
	p->len = 0;
	return p->err ? p->err : o->err;
}

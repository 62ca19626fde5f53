/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * proto: one protobuf message at a time, built in memory. Lengths of inner messages are written as four
 * bytes (longer than need be, which every reader takes), so that none is built twice.
 */
#ifndef MT_VIEW_EXPORT_PROTO_H
#define MT_VIEW_EXPORT_PROTO_H

#include <stddef.h>
#include <stdint.h>

#include "view/outbuf.h"

struct proto {
	char *buf;
	size_t len, room;
	int err; /* -ENOMEM: later writes are dropped */
};

void proto__done(struct proto *p);
void proto__varint(struct proto *p, uint64_t v); /* bare, in packed fields */
void proto__u64(struct proto *p, unsigned field, uint64_t v);
void proto__str(struct proto *p, unsigned field, const char *text);
size_t proto__open(struct proto *p, unsigned field); /* an inner message or packed field */
void proto__close(struct proto *p, size_t opened);
/* As one field of the outermost message to `o`, and empties it. 0 or the first error. */
int proto__flush(struct proto *p, struct outbuf *o, unsigned field);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * ring: consumer of one BPF_MAP_TYPE_RINGBUF (layout: kernel/bpf/ringbuf.c). Our own, because libbpf 1.1 can only drain a ring
 * to its end, which is never reached under a fast producer.
 */
#ifndef MT_TRACE_RING_H
#define MT_TRACE_RING_H

#include <stddef.h>
#include <stdint.h>

struct ring {
	int fd;
	size_t size;		/* bytes of data, a power of two */
	unsigned long *consumer; /* one page, writable for us */
	const unsigned long *producer; /* one page, then the data */
	const uint8_t *data;
	uint64_t last_ns; /* highest time in a record that was passed on */
	uint64_t read_ns; /* rings__drain: everything reserved up to then was passed on */
};

#define RING_RECORD_MAX (32 << 10) /* longest of our records; a longer one is skipped */

/* Takes ownership of fd. 0 or -errno. */
int ring__init(struct ring *r, int fd, size_t size);
void ring__done(struct ring *r);
void ring__unmap(struct ring *r); /* another process reads it: only its descriptor stays */
/* Where the next record will be reserved. */
unsigned long ring__end(const struct ring *r);
/*
 * Passes records before `end` to fn, until end_ns is over or one is not submitted yet. Returns how many, or fn's first negative
 * result.
 */
long ring__drain(struct ring *r, unsigned long end, uint64_t end_ns, int (*fn)(void *ctx, const void *rec, size_t len),
		 void *ctx);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "trace/ring.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "memtrace/event.h"

#define NOW_AND_THEN 64 /* records between two checks of the clock and updates of the consumer position */

int ring__init(struct ring *r, int fd, size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *p;

	*r = (struct ring){ .fd = fd, .size = size };
	p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		goto fail;
	r->consumer = p;
	/* The kernel maps the data twice in a row; mapped once here, so that it counts once in our RSS. */
	p = mmap(NULL, page + size, PROT_READ, MAP_SHARED, fd, (off_t)page);
	if (p == MAP_FAILED)
		goto fail;
	r->producer = p;
	r->data = (const uint8_t *)p + page;
	return 0;
fail:
	{
		int e = -errno;

		ring__done(r);
		return e;
	}
}

void ring__unmap(struct ring *r)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (r->consumer)
		munmap(r->consumer, page);
	if (r->producer)
		munmap((void *)r->producer, page + r->size);
	r->consumer = NULL;
	r->producer = NULL;
}

void ring__done(struct ring *r)
{
	ring__unmap(r);
	if (r->fd >= 0)
		close(r->fd);
	*r = (struct ring){ .fd = -1 };
}

/* A record that wraps around the end of the ring is copied together first. Headers never do: 8 of 8 bytes. */
static int ring__pass(struct ring *r, size_t at, size_t len, int (*fn)(void *ctx, const void *rec, size_t len), void *ctx)
{
	uint64_t whole[RING_RECORD_MAX / 8], ts_ns;
	const uint8_t *rec;
	size_t head;

	at &= r->size - 1;
	rec = r->data + at;
	head = r->size - at;
	if (len > head) {
		if (len > sizeof(whole))
			return 0;
		memcpy(whole, rec, head);
		memcpy((uint8_t *)whole + head, r->data, len - head);
		rec = (const uint8_t *)whole;
	}
	if (len >= sizeof(struct mt_hdr)) {
		memcpy(&ts_ns, rec + offsetof(struct mt_hdr, ts_ns), sizeof(ts_ns));
		r->last_ns = ts_ns > r->last_ns ? ts_ns : r->last_ns;
	}
	return fn(ctx, rec, len);
}

unsigned long ring__end(const struct ring *r)
{
	return __atomic_load_n(r->producer, __ATOMIC_ACQUIRE);
}

long ring__drain(struct ring *r, unsigned long end, uint64_t end_ns, int (*fn)(void *ctx, const void *rec, size_t len),
		 void *ctx)
{
	unsigned long cons = *r->consumer;
	long n = 0;
	int err = 0;

	while (cons != end && err >= 0) {
		size_t at = cons & (r->size - 1);
		uint32_t len = __atomic_load_n((const uint32_t *)(r->data + at), __ATOMIC_ACQUIRE);

		if (len & BPF_RINGBUF_BUSY_BIT)
			break; /* reserved, not yet submitted: everything after it waits */
		if (!(len & BPF_RINGBUF_DISCARD_BIT)) {
			err = ring__pass(r, at + BPF_RINGBUF_HDR_SZ, len, fn, ctx);
			n++;
		}
		len &= ~(BPF_RINGBUF_DISCARD_BIT | BPF_RINGBUF_BUSY_BIT);
		cons += (len + BPF_RINGBUF_HDR_SZ + 7) & ~7u;
		if (n & (NOW_AND_THEN - 1))
			continue;
		/* Not at every record, because the producer uses the same cache line. */
		__atomic_store_n(r->consumer, cons, __ATOMIC_RELEASE);
		if (now_ns() >= end_ns)
			break;
	}
	__atomic_store_n(r->consumer, cons, __ATOMIC_RELEASE);
	return err < 0 ? err : n;
}

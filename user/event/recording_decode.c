/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Decoding a frame. The checksum finds accidents, not intent: a file can be made with any bytes and
 * a right checksum. So nothing is allocated before its length is below a cap, every column read is
 * bounded, every index is compared with what it indexes, and at the end each column must have been
 * used up exactly.
 *
 * Fast because an event is a copy of its shape (48 bytes) with a time patched in: the branches that
 * follow depend on the shape alone, and a loop of the target makes them predictable. Fixed-width
 * columns have their length checked once; only the rare explicit values are varints. Measured
 * with zstd and checksum: 75 to 100 M events/s on one core (tests/bench/bench_replay_io).
 *
 * Memory: raw columns at most MTR_FRAME_RAW_MAX, events 3 MB, shapes and addresses 4 MB, each
 * growing only to what a frame that passed the checks needs.
 */
#include "event/recording_frame.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#include "base/free.h"

struct dec_shape {
	struct event ev; /* addr, size: constant or the last explicit ones */
	uint32_t mode;
};

struct col {
	const uint8_t *at, *end;
};

struct rec_dec {
	ZSTD_DCtx *zstd;
	uint8_t *raw;
	size_t raw_cap;
	struct col cols[MTR_COLUMNS];
	uint32_t cap; /* events that the arrays below have room for */
	struct event *events;
	struct dec_shape *shapes;
	uint64_t *addrs;
	struct frame_thread *threads;
	uint32_t *perm;
	uint32_t shape_cnt, addr_cnt;
	uint32_t name_end; /* event names are below it */
};

struct rec_dec *rec_dec__new(void)
{
	struct rec_dec *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->zstd = ZSTD_createDCtx();
	if (!d->zstd) {
		free(d);
		return NULL;
	}
	return d;
}

static void rec_dec__free_arrays(struct rec_dec *d)
{
	free_all(d->events, d->shapes, d->addrs, d->threads, d->perm);
	d->events = NULL;
	d->shapes = NULL;
	d->addrs = NULL;
	d->threads = NULL;
	d->perm = NULL;
	d->cap = 0;
}

void rec_dec__free(struct rec_dec *d)
{
	if (!d)
		return;
	rec_dec__free_arrays(d);
	free(d->raw);
	ZSTD_freeDCtx(d->zstd);
	free(d);
}

static int rec_dec__reserve(struct rec_dec *d, uint32_t event_cnt)
{
	if (event_cnt <= d->cap)
		return 0;
	rec_dec__free_arrays(d);
	d->events = malloc(event_cnt * sizeof(*d->events));
	d->shapes = malloc(event_cnt * sizeof(*d->shapes));
	d->addrs = malloc(event_cnt * sizeof(*d->addrs));
	d->threads = malloc(event_cnt * sizeof(*d->threads));
	d->perm = malloc(event_cnt * sizeof(*d->perm));
	if (!d->events || !d->shapes || !d->addrs || !d->threads || !d->perm) {
		rec_dec__free_arrays(d);
		return -ENOMEM;
	}
	d->cap = event_cnt;
	return 0;
}

/* --- header ---------------------------------------------------------------------------------- */

int mtr_frame__check_header(const struct mtr_frame *h)
{
	const uint32_t table = MTR_COLUMNS * sizeof(struct mtr_column);

	if (h->magic != MTR_FRAME_MAGIC || h->columns != MTR_COLUMNS ||
	    h->events > MTR_FRAME_EVENTS_MAX || h->threads > h->events || h->name_first < 1 ||
	    h->names > NAMES_MAX || h->name_first > NAMES_MAX ||
	    h->body_bytes < table || h->body_bytes > MTR_FRAME_RAW_MAX + table ||
	    h->first_ts_ns > h->last_ts_ns || (h->flags & ~MTR_FRAME_END))
		return -EINVAL;
	if ((h->flags & MTR_FRAME_END) && (h->events || h->names))
		return -EINVAL;
	return 0;
}

int mtr_frame__check_body(const struct mtr_frame *h, const void *body)
{
	uint64_t seed = XXH3_64bits(h, offsetof(struct mtr_frame, checksum));

	return XXH3_64bits_withSeed(body, h->body_bytes, seed) == h->checksum ? 0 : -EINVAL;
}

/* --- columns --------------------------------------------------------------------------------- */

/* Lengths that follow from the header must be these; a column may not be longer than the cap. */
static int check_lengths(const struct mtr_frame *h, const struct mtr_column *table)
{
	uint64_t raw = 0, stored = 0;

	for (int c = 0; c < MTR_COLUMNS; c++) {
		if (table[c].stored_bytes > table[c].raw_bytes ||
		    (table[c].raw_bytes && !table[c].stored_bytes))
			return -EINVAL;
		raw += table[c].raw_bytes;
		stored += table[c].stored_bytes;
	}
	if (raw > MTR_FRAME_RAW_MAX || stored != h->body_bytes - MTR_COLUMNS * sizeof(*table))
		return -EINVAL;
	if (table[MTR_COL_NAMES].raw_bytes > MTR_FRAME_NAMES_BYTES_MAX ||
	    table[MTR_COL_SHAPE].raw_bytes != 2 * h->events ||
	    table[MTR_COL_TIME_LO].raw_bytes != h->events ||
	    table[MTR_COL_TIME_HI].raw_bytes != h->events)
		return -EINVAL;
	if (table[MTR_COL_ORDER].raw_bytes !=
	    (h->threads > 256 ? 2 * h->events : h->threads > 1 ? h->events : 0))
		return -EINVAL;
	return h->events && !h->threads ? -EINVAL : 0;
}

static int rec_dec__unpack(struct rec_dec *d, const struct mtr_frame *h, const uint8_t *body)
{
	struct mtr_column table[MTR_COLUMNS];
	const uint8_t *from = body + sizeof(table);
	size_t need = 0;
	uint8_t *to;

	memcpy(table, body, sizeof(table));
	if (check_lengths(h, table) < 0)
		return -EINVAL;
	for (int c = 0; c < MTR_COLUMNS; c++)
		need += table[c].stored_bytes < table[c].raw_bytes ? table[c].raw_bytes : 0;
	if (need > d->raw_cap) {
		free(d->raw);
		d->raw = malloc(need);
		d->raw_cap = d->raw ? need : 0;
		if (!d->raw)
			return -ENOMEM;
	}
	to = d->raw;
	for (int c = 0; c < MTR_COLUMNS; c++) {
		uint32_t raw = table[c].raw_bytes, stored = table[c].stored_bytes;

		d->cols[c] = (struct col){ .at = from, .end = from + raw };
		if (stored < raw) {
			if (ZSTD_decompressDCtx(d->zstd, to, raw, from, stored) != raw)
				return -EINVAL;
			d->cols[c] = (struct col){ .at = to, .end = to + raw };
			to += raw;
		}
		from += stored;
	}
	return 0;
}

/* Sets *bad and returns 0 when there is no whole varint. */
static inline uint64_t get_varint(struct col *c, int *bad)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64 && c->at < c->end; shift += 7) {
		uint8_t b = *c->at++;

		if (shift == 63 && b > 1)
			break;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return v;
	}
	*bad = 1;
	return 0;
}

static inline uint64_t get_u32(struct col *c, int *bad)
{
	uint64_t v = get_varint(c, bad);

	*bad |= v > UINT32_MAX;
	return v;
}

/* --- names and threads ----------------------------------------------------------------------- */

static int rec_dec__names(struct rec_dec *d, const struct mtr_frame *h, struct names *names)
{
	struct col *c = &d->cols[MTR_COL_NAMES];
	int bad = 0;

	if (h->name_first != names__last(names) + 1)
		return -EINVAL;
	for (uint32_t i = 0; i < h->names; i++) {
		uint64_t len = get_varint(c, &bad);

		if (bad || !len || len > MTR_NAME_BYTES_MAX || len > (size_t)(c->end - c->at))
			return -EINVAL;
		if (names__add_len(names, (const char *)c->at, len).v != h->name_first + i)
			return -EINVAL; /* twice the same, or no memory for it */
		c->at += len;
	}
	d->name_end = h->name_first + h->names;
	return c->at == c->end ? 0 : -EINVAL;
}

static int rec_dec__threads(struct rec_dec *d, const struct mtr_frame *h)
{
	struct col *c = &d->cols[MTR_COL_THREADS];
	uint64_t pid = 0, tid, cnt, pos = 0;
	int bad = 0;

	for (uint32_t i = 0; i < h->threads; i++) {
		pid += unzigzag(get_varint(c, &bad));
		tid = pid + unzigzag(get_varint(c, &bad));
		cnt = get_varint(c, &bad);
		if (bad || pid > UINT32_MAX || tid > UINT32_MAX || !cnt || cnt > h->events - pos)
			return -EINVAL;
		d->threads[i] = (struct frame_thread){ .pid = (uint32_t)pid, .tid = (uint32_t)tid,
						     .cnt = (uint32_t)cnt, .pos = (uint32_t)pos };
		pos += cnt;
	}
	return pos == h->events && c->at == c->end ? 0 : -EINVAL;
}

/* perm[thread by thread] = place in the frame. */
static int rec_dec__order(struct rec_dec *d, const struct mtr_frame *h)
{
	const struct col *c = &d->cols[MTR_COL_ORDER];
	struct frame_thread *t;
	uint32_t pos = 0;

	for (uint32_t i = 0; i < h->events; i++) {
		uint32_t idx = 0;

		if (h->threads > 256)
			idx = c->at[2 * i] | (uint32_t)c->at[2 * i + 1] << 8;
		else if (h->threads > 1)
			idx = c->at[i];
		if (idx >= h->threads)
			return -EINVAL;
		t = &d->threads[idx];
		if (!t->cnt)
			return -EINVAL;
		t->cnt--;
		d->perm[t->pos++] = i;
	}
	for (uint32_t i = 0; i < h->threads; i++) {
		d->threads[i].cnt = d->threads[i].pos - pos;
		pos = d->threads[i].pos;
	}
	return 0;
}

/* --- events ---------------------------------------------------------------------------------- */

static int rec_dec__new_shape(struct rec_dec *d)
{
	struct col *c = &d->cols[MTR_COL_SHAPES];
	struct dec_shape *s = &d->shapes[d->shape_cnt];
	int bad = 0;

	if (c->end - c->at < 5)
		return -EINVAL;
	memset(s, 0, sizeof(*s));
	s->ev.kind = c->at[0];
	s->mode = c->at[1];
	s->ev.dev = c->at[2];
	s->ev.depth = c->at[3];
	s->ev.flags = c->at[4];
	c->at += 5;
	s->ev.name.v = (uint32_t)get_u32(c, &bad);
	s->ev.aux = (uint32_t)get_u32(c, &bad);
	s->ev.size = get_varint(c, &bad);
	s->ev.addr = get_varint(c, &bad);
	if (bad || s->mode > MTR_MODE_MASK || s->ev.name.v >= d->name_end)
		return -EINVAL;
	d->shape_cnt++;
	return 0;
}

static int rec_dec__addr(struct rec_dec *d, struct dec_shape *s, uint64_t *ret)
{
	struct col *c = &d->cols[MTR_COL_BACK];
	uint32_t back;
	int bad = 0;

	if (c->end - c->at < 2)
		return -EINVAL;
	back = c->at[0] | (uint32_t)c->at[1] << 8;
	c->at += 2;
	if (back > d->addr_cnt)
		return -EINVAL;
	if (back) {
		*ret = d->addrs[d->addr_cnt - back];
	} else {
		s->ev.addr += unzigzag(get_varint(&d->cols[MTR_COL_ADDR], &bad));
		*ret = s->ev.addr;
	}
	d->addrs[d->addr_cnt++] = *ret;
	return bad ? -EINVAL : 0;
}

static int rec_dec__explicit(struct rec_dec *d, struct dec_shape *s, struct event *ev)
{
	int bad = 0;

	if ((s->mode & MTR_MODE_ADDR) && rec_dec__addr(d, s, &ev->addr) < 0)
		return -EINVAL;
	if (s->mode & MTR_MODE_SIZE)
		ev->size = s->ev.size += unzigzag(get_varint(&d->cols[MTR_COL_SIZE], &bad));
	if (s->mode & MTR_MODE_SEQ)
		ev->seq += (uint32_t)unzigzag(get_varint(&d->cols[MTR_COL_SEQ], &bad));
	return bad ? -EINVAL : 0;
}

static int rec_dec__thread_events(struct rec_dec *d, const struct frame_thread *t, uint32_t from,
				  uint64_t ts_ns)
{
	const uint8_t *shape = d->cols[MTR_COL_SHAPE].at + 2 * (size_t)from;
	const uint8_t *lo = d->cols[MTR_COL_TIME_LO].at + from;
	const uint8_t *hi = d->cols[MTR_COL_TIME_HI].at + from;
	const uint32_t *perm = d->perm + from;
	struct seq_model seqs = { 0 };
	int bad = 0;

	for (uint32_t i = 0; i < t->cnt; i++) {
		uint32_t idx = shape[2 * i] | (uint32_t)shape[2 * i + 1] << 8;
		struct event *ev = &d->events[perm[i]];
		struct dec_shape *s = &d->shapes[idx];

		if (idx >= d->shape_cnt && (idx > d->shape_cnt || rec_dec__new_shape(d) < 0))
			return -EINVAL;
		*ev = s->ev;
		ts_ns += hi[i] < 255 ? lo[i] | (uint64_t)hi[i] << 8
				     : get_varint(&d->cols[MTR_COL_TIME_BIG], &bad);
		ev->ts_ns = ts_ns;
		ev->pid = t->pid;
		ev->tid = t->tid;
		ev->seq = seq_model__expect(&seqs, ev->kind, ev->depth);
		if (s->mode && rec_dec__explicit(d, s, ev) < 0)
			return -EINVAL;
		seq_model__update(&seqs, ev->kind, ev->depth, ev->seq);
	}
	return bad ? -EINVAL : 0;
}

/* Each column used up, times in order and as in the header. */
static int rec_dec__check(const struct rec_dec *d, const struct mtr_frame *h)
{
	static const uint8_t cols[] = { MTR_COL_SHAPES, MTR_COL_TIME_BIG, MTR_COL_SEQ,
					MTR_COL_BACK,	MTR_COL_ADDR,	  MTR_COL_SIZE };
	int back = 0;

	for (size_t i = 0; i < sizeof(cols); i++)
		if (d->cols[cols[i]].at != d->cols[cols[i]].end)
			return -EINVAL;
	if (!h->events)
		return 0;
	for (uint32_t i = 1; i < h->events; i++)
		back |= d->events[i].ts_ns < d->events[i - 1].ts_ns;
	if (back || d->events[0].ts_ns != h->first_ts_ns ||
	    d->events[h->events - 1].ts_ns != h->last_ts_ns)
		return -EINVAL;
	return 0;
}

int rec_dec__frame(struct rec_dec *d, const struct mtr_frame *h, const void *body,
		   struct names *names, const struct event **ret)
{
	uint32_t from = 0;
	int r;

	r = rec_dec__unpack(d, h, body);
	if (r < 0)
		return r;
	r = rec_dec__reserve(d, h->events);
	if (r < 0)
		return r;
	d->shape_cnt = d->addr_cnt = 0;
	if (rec_dec__names(d, h, names) < 0 || rec_dec__threads(d, h) < 0 ||
	    rec_dec__order(d, h) < 0)
		return -EINVAL;
	for (uint32_t i = 0; i < h->threads; i++) {
		const struct frame_thread *t = &d->threads[i];

		if (rec_dec__thread_events(d, t, from, h->first_ts_ns) < 0)
			return -EINVAL;
		from += t->cnt;
	}
	r = rec_dec__check(d, h);
	if (r == 0)
		*ret = d->events;
	return r;
}

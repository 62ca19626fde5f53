/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* segments: the driver's layer by hand-made calls, every sum checked after each. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>
#include <stdlib.h>

#include "model/core/blocks.h"
#include "model/segments/segments.h"

#define MB (1ull << 20)
#define C0 MT_DEV_CUDA0

struct fix {
	struct segments *s;
	struct blocks *b;
	uint64_t ts_ns, id;
};

static void tell_of(struct fix *f, uint32_t tid, const struct event *what)
{
	struct event ev = *what;

	ev.pid = 7;
	ev.tid = tid;
	ev.ts_ns = ++f->ts_ns;
	assert_true(segments__event(f->s, &ev));
	segments__check(f->s);
}

static void tell(struct fix *f, uint8_t kind, uint8_t seg, uint8_t dev, uint64_t addr, uint64_t size, uint32_t aux)
{
	const struct event ev = { .kind = kind, .flags = seg, .dev = dev, .addr = addr, .size = size, .aux = aux,
				  .pid = 7, .tid = 7, .ts_ns = ++f->ts_ns };

	assert_true(segments__event(f->s, &ev));
	segments__check(f->s);
}

static void block_of(struct fix *f, uint8_t dev, uint64_t ptr, uint64_t size)
{
	bool live;
	struct block *b = blocks__put(f->b, 7, dev, ptr, &live);

	assert_non_null(b);
	assert_false(live);
	b->size = size;
	b->id = ++f->id;
	b->allocated_ts_ns = f->ts_ns;
	segments__allocated(f->s, b);
	segments__check(f->s);
}

static void block(struct fix *f, uint64_t ptr, uint64_t size)
{
	block_of(f, C0, ptr, size);
}

static struct report_segments report(struct fix *f, uint8_t dev)
{
	struct report_segments r;

	struct block *b;
	uint64_t live = 0;
	size_t pos = 0;

	while ((b = blocks__next(f->b, &pos)))
		live += b->dev == dev ? b->size : 0;
	assert_int_equal(segments__report(f->s, dev, f->b, &r), 0);
	segments__layers(&r, live);
	assert_int_equal(r.driver, r.allocator + r.others);
	assert_int_equal(r.allocator, r.tensors + r.rounding + r.late + r.private_free + r.unused);
	return r;
}

static int set_up(void **state)
{
	struct fix *f = test_calloc(1, sizeof(*f));

	f->s = segments__new();
	f->b = blocks__new(1000);
	*state = f;
	return !f->s || !f->b;
}

static int tear_down(void **state)
{
	struct fix *f = *state;

	segments__free(f->s);
	blocks__free(f->b);
	test_free(f);
	return 0;
}

static void test_plain(void **state)
{
	struct fix *f = *state;
	struct report_segments r;

	tell(f, MT_EV_SEG_ALLOC, MT_SEG_DEVICE, C0, 0x10000000, 20 * MB, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_DEVICE, C0, 0x20000000, 4 * MB, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_PINNED, C0, 0x7f0000000000, 8 * MB, 0);
	block(f, 0x10000000 + 2 * MB, 6 * MB);
	block(f, 0x10000000 + 12 * MB, 1 * MB);
	r = report(f, C0);
	assert_true(r.seen);
	assert_int_equal(r.live, 24 * MB); /* pinned memory is the host's */
	assert_int_equal(r.kinds[MT_SEG_PINNED].live, 8 * MB);
	assert_int_equal(r.cached, 20 * MB);
	assert_int_equal(r.other, 4 * MB);
	assert_int_equal(r.inactive, 13 * MB);
	assert_int_equal(r.largest_free, 7 * MB); /* behind the last block */
	assert_int_equal(r.free_cached, 0);
	tell(f, MT_EV_SEG_FREE, MT_SEG_DEVICE, C0, 0x20000000, 0, 0);
	tell(f, MT_EV_SEG_FREE, MT_SEG_DEVICE, C0, 0x20000000, 0, 0); /* twice: nothing there */
	r = report(f, C0);
	assert_int_equal(r.live, 20 * MB);
	assert_int_equal(r.peak, 24 * MB);
	assert_int_equal(r.kinds[MT_SEG_DEVICE].frees, 1);
}

static void test_rows(void **state)
{
	struct report_seg_row *rows;
	struct fix *f = *state;
	size_t cnt;

	tell(f, MT_EV_SEG_ALLOC, MT_SEG_DEVICE, C0, 0x10000000, 20 * MB, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_DEVICE | MT_SEG_F_COMM, C0, 0x20000000, 4 * MB, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_PHYSICAL, C0, 0x51, 30 * MB, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_PHYSICAL, C0, 0x52, 10 * MB, 0);
	tell(f, MT_EV_SEG_MAP, MT_SEG_PHYSICAL, MT_DEV_NONE, 0x40000000, 30 * MB, 0x51);
	tell(f, MT_EV_SEG_MAP, MT_SEG_PHYSICAL, MT_DEV_NONE, 0x40000000 + 30 * MB, 10 * MB, 0x52);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_PINNED, MT_DEV_NONE, 0x7f0000000000, 3 * MB, 0);
	block(f, 0x10000000 + 2 * MB, 6 * MB);
	block(f, 0x40000000 + 25 * MB, 10 * MB); /* over both pieces */
	assert_int_equal(segments__rows(f->s, f->b, 0, -1, 10, &rows, &cnt), 0);
	assert_int_equal(cnt, 4);
	assert_true(rows[0].addr == 0x40000000 && rows[0].size == 40 * MB && rows[0].used == 10 * MB);
	assert_true(rows[0].largest_free == 25 * MB && rows[0].blocks == 1 && rows[0].is_cached && rows[0].pid == 7);
	assert_true(rows[1].size == 20 * MB && rows[1].used == 6 * MB && rows[1].largest_free == 12 * MB);
	assert_true(rows[2].size == 4 * MB && rows[2].is_comm && !rows[2].is_cached);
	assert_true(rows[3].kind == MT_SEG_PINNED && rows[3].dev == MT_DEV_NONE && rows[3].size == 3 * MB);
	free(rows);
	assert_int_equal(segments__rows(f->s, f->b, 0, -1, 2, &rows, &cnt), 0);
	assert_true(cnt == 2 && rows[1].size == 20 * MB);
	free(rows);
}

/* Of a communicator: plain, and physical memory whose pieces have no mark of their own. */
static void test_communication(void **state)
{
	struct fix *f = *state;
	struct report_segments r;

	tell(f, MT_EV_SEG_ALLOC, MT_SEG_DEVICE | MT_SEG_F_COMM, C0, 0x10000000, 4 * MB, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_PHYSICAL | MT_SEG_F_COMM, C0, 0x51, 2 * MB, 0);
	tell(f, MT_EV_SEG_MAP, MT_SEG_PHYSICAL, MT_DEV_NONE, 0x40000000, 2 * MB, 0x51);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_NCCL, C0, 0x20000000, 1 * MB, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_DEVICE, C0, 0x30000000, 8 * MB, 0);
	tell(f, MT_EV_SEG_FAIL, MT_SEG_DEVICE | MT_SEG_F_COMM, C0, 0, 99 * MB, 2);
	tell(f, MT_EV_SEG_COMM, MT_COMM_MADE, C0, 0xc0, 0, 0);
	tell(f, MT_EV_SEG_COMM, MT_COMM_MADE, C0, 0, 0, 0); /* split into no part */
	tell(f, MT_EV_SEG_COMM, MT_COMM_MADE, C0, 0xc1, 8, 0);
	r = report(f, C0);
	assert_int_equal(r.live, 15 * MB);
	assert_int_equal(r.comm, 7 * MB);
	assert_int_equal(r.communication, 7 * MB);
	assert_int_equal(r.others, 15 * MB);
	assert_int_equal(r.comms_made, 9);
	assert_int_equal(r.kinds[MT_SEG_DEVICE].fails, 1);
	block(f, 0x20000000, 512); /* an allocator's pool of such memory: its own layer */
	r = report(f, C0);
	assert_int_equal(r.communication, 6 * MB);
	tell(f, MT_EV_SEG_FREE, MT_SEG_DEVICE, C0, 0x10000000, 0, 0);
	tell(f, MT_EV_SEG_UNMAP, MT_SEG_PHYSICAL, C0, 0x40000000, 2 * MB, 0);
	tell(f, MT_EV_SEG_FREE, MT_SEG_PHYSICAL, C0, 0x51, 0, 0);
	tell(f, MT_EV_SEG_COMM, MT_COMM_ENDED, C0, 0xc0, 0, 0);
	r = report(f, C0);
	assert_int_equal(r.comm, 1 * MB);
	assert_int_equal(r.comm_peak, 7 * MB);
	assert_int_equal(r.comms_ended, 1);
}

static void test_graph_nodes(void **state)
{
	struct fix *f = *state;
	struct report_segments r;

	tell(f, MT_EV_SEG_GRAPH, MT_GRAPH_CAPTURES, C0, 5, 0, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_ASYNC, C0, 0x10000000, 4 * MB, 5);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_ASYNC, C0, 0x20000000, 2 * MB, 5);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_ASYNC, C0, 0x30000000, 1 * MB, 6);
	tell(f, MT_EV_SEG_FREE, MT_SEG_ASYNC, C0, 0x20000000, 0, 5);
	tell(f, MT_EV_SEG_GRAPH, MT_GRAPH_CAPTURED, C0, 0xa0, 0, 5);
	tell(f, MT_EV_SEG_GRAPH, MT_GRAPH_INSTANTIATED, C0, 0xa1, 0, 0xa0);
	r = report(f, C0);
	assert_int_equal(r.live, 1 * MB);
	assert_int_equal(r.kinds[MT_SEG_GRAPH].allocs, 2);
	assert_int_equal(r.graphs, 1);
	tell(f, MT_EV_SEG_GRAPH, MT_GRAPH_LAUNCHED, C0, 0xa1, 0, 0);
	tell(f, MT_EV_SEG_GRAPH, MT_GRAPH_LAUNCHED, C0, 0xa1, 0, 0);
	tell(f, MT_EV_SEG_GRAPH, MT_GRAPH_LAUNCHED, C0, 0xff, 0, 0); /* of another */
	r = report(f, C0);
	assert_int_equal(r.live, 5 * MB);
	assert_int_equal(r.kinds[MT_SEG_GRAPH].live, 4 * MB);
	assert_int_equal(r.launches, 2);
	assert_int_equal(r.graph_peak, 6 * MB);
	for (unsigned i = 0; i < 10000; i++) { /* more than are kept: the oldest go, nothing is lost */
		tell(f, MT_EV_SEG_ALLOC, MT_SEG_GRAPH, C0, 0x100000000 + i * MB, MB, 0x1000 + i);
		tell(f, MT_EV_SEG_FREE, MT_SEG_GRAPH, C0, 0x100000000 + i * MB, 0, 0);
	}
	tell(f, MT_EV_SEG_FREE, MT_SEG_ASYNC, C0, 0x10000000, 0, 5);
	assert_int_equal(report(f, C0).live, 1 * MB);
}

static void pool(struct fix *f, uint32_t tid, uint8_t what, uint64_t number)
{
	tell_of(f, tid, &(struct event){ .kind = MT_EV_SEG_GRAPH, .flags = what, .dev = C0, .addr = number });
}

static void give(struct fix *f, uint32_t tid, uint64_t addr, uint64_t size)
{
	tell_of(f, tid, &(struct event){ .kind = MT_EV_SEG_ALLOC, .flags = MT_SEG_DEVICE, .dev = C0, .addr = addr,
					 .size = size });
	block(f, addr, size / 2);
}

/* While a capture goes on all threads' segments are the pool's, else those of the thread that began it. */
static void test_private_pools(void **state)
{
	struct fix *f = *state;
	struct report_segments r;
	struct report_pool *rows;
	uint64_t begun_ns, captured_ns;
	size_t cnt;

	give(f, 7, 0x10000000, 2 * MB);
	pool(f, 7, MT_GRAPH_POOL_BEGINS, 1);
	begun_ns = f->ts_ns;
	give(f, 8, 0x20000000, 2 * MB); /* not captured: another thread's own */
	tell(f, MT_EV_SEG_GRAPH, MT_GRAPH_CAPTURES, MT_DEV_NONE, 5, 0, 0);
	give(f, 7, 0x30000000, 4 * MB);
	give(f, 8, 0x40000000, 8 * MB);
	tell(f, MT_EV_SEG_GRAPH, MT_GRAPH_CAPTURED, MT_DEV_NONE, 0xa0, 0, 5);
	captured_ns = f->ts_ns;
	give(f, 8, 0x50000000, 2 * MB);
	pool(f, 7, MT_GRAPH_POOL_ENDS, 1);
	give(f, 7, 0x60000000, 2 * MB);
	tell(f, MT_EV_SEG_GRAPH, MT_GRAPH_INSTANTIATED, MT_DEV_NONE, 0xa1, 0, 0xa0);
	tell(f, MT_EV_SEG_GRAPH, MT_GRAPH_LAUNCHED, MT_DEV_NONE, 0xa1, 0, 0);
	r = report(f, C0);
	assert_int_equal(r.private_reserved, 12 * MB);
	assert_int_equal(r.private_used, 6 * MB);
	assert_int_equal(r.private_free, 6 * MB);
	assert_int_equal(r.unused, 4 * MB);
	assert_int_equal(r.graphs, 0); /* none has memory nodes */
	assert_int_equal(segments__pools(f->s, f->b, 0, 10, &rows, &cnt), 0);
	assert_int_equal(cnt, 1);
	assert_int_equal(rows[0].reserved, 12 * MB);
	assert_int_equal(rows[0].used, 6 * MB);
	assert_int_equal(rows[0].segments, 2);
	assert_int_equal(rows[0].graphs, 1);
	assert_int_equal(rows[0].launches, 1);
	assert_int_equal(rows[0].uses, 1);
	assert_int_equal(rows[0].begun_ns, begun_ns); /* not when it was captured into, or left */
	assert_int_equal(rows[0].first[0].number, 1);
	assert_int_equal(rows[0].first[0].captured_ns, captured_ns);
	assert_int_equal(rows[0].first[0].launches, 1);
	free(rows);
	pool(f, 7, MT_GRAPH_POOL_LEFT, 1);
	r = report(f, C0);
	assert_int_equal(r.private_free, 0); /* nobody's any more: the next emptying of the cache frees it */
	assert_int_equal(r.unused, 10 * MB);
	pool(f, 7, MT_GRAPH_POOL_LEFT, 1); /* once too often */
	tell(f, MT_EV_SEG_FREE, MT_SEG_DEVICE, C0, 0x30000000, 0, 0);
	tell(f, MT_EV_SEG_FREE, MT_SEG_DEVICE, C0, 0x40000000, 0, 0);
	assert_int_equal(segments__pools(f->s, f->b, 0, 10, &rows, &cnt), 0);
	assert_int_equal(cnt, 0);
	free(rows);
}

static void of_graph(struct fix *f, uint32_t tid, uint8_t what, uint32_t addr, uint32_t aux)
{
	tell_of(f, tid, &(struct event){ .kind = MT_EV_SEG_GRAPH, .flags = what, .addr = addr, .aux = aux });
}

/* Into the pool `number` (0: none) by a thread; stream, graph and executable are the thread's own. */
static void capture(struct fix *f, uint32_t tid, uint64_t number, unsigned launches)
{
	uint32_t stream = tid, graph = tid + 0x1000, exec = tid + 0x2000;

	if (number)
		pool(f, tid, MT_GRAPH_POOL_BEGINS, number);
	of_graph(f, tid, MT_GRAPH_CAPTURES, stream, 0);
	of_graph(f, tid, MT_GRAPH_CAPTURED, graph, stream);
	if (number)
		pool(f, tid, MT_GRAPH_POOL_ENDS, number);
	of_graph(f, tid, MT_GRAPH_INSTANTIATED, exec, graph);
	while (launches--)
		of_graph(f, tid, MT_GRAPH_LAUNCHED, exec, 0);
}

static struct report_pool *pools_of(struct fix *f, size_t want)
{
	struct report_pool *rows;
	size_t cnt;

	assert_int_equal(segments__pools(f->s, f->b, 0, 10, &rows, &cnt), 0);
	assert_int_equal(cnt, want);
	return rows;
}

/* A number each, in order, also those of no pool; an executable's address may have been another's. */
static void test_graphs_of_a_pool(void **state)
{
	struct fix *f = *state;
	struct report_pool *rows;

	pool(f, 7, MT_GRAPH_POOL_BEGINS, 1);
	give(f, 7, 0x10000000, 4 * MB);
	pool(f, 7, MT_GRAPH_POOL_ENDS, 1);
	pool(f, 8, MT_GRAPH_POOL_BEGINS, 2);
	give(f, 8, 0x20000000, 2 * MB);
	pool(f, 8, MT_GRAPH_POOL_ENDS, 2);
	capture(f, 7, 1, 2);
	capture(f, 7, 0, 5); /* the third of these launches is no more the pool's than the first */
	capture(f, 8, 2, 1);
	capture(f, 7, 1, 3);
	tell(f, MT_EV_SEG_GRAPH, MT_GRAPH_CAPTURES, MT_DEV_NONE, 5, 0, 0);
	tell(f, MT_EV_SEG_GRAPH, MT_GRAPH_CAPTURED, MT_DEV_NONE, 0, 0, 5); /* none came of it: no number */
	rows = pools_of(f, 2);
	assert_int_equal(rows[0].graphs, 2);
	assert_int_equal(rows[0].launches, 5);
	assert_int_equal(rows[0].first[0].number, 1);
	assert_int_equal(rows[0].first[0].launches, 2);
	assert_int_equal(rows[0].first[1].number, 4);
	assert_int_equal(rows[0].first[1].launches, 3);
	assert_int_equal(rows[0].last.number, 4);
	assert_int_equal(rows[1].first[0].number, 3);
	assert_int_equal(rows[1].launches, 1);
	free(rows);
	for (unsigned i = 0; i < 10000; i++) /* some are kept, and the last one, of all there is a count */
		capture(f, 7, 1, 1);
	rows = pools_of(f, 2);
	assert_int_equal(rows[0].graphs, 10002);
	assert_int_equal(rows[0].first[REPORT_POOL_GRAPHS - 1].number, 18);
	assert_int_equal(rows[0].last.number, 10004);
	assert_int_equal(rows[0].last.launches, 1);
	free(rows);
	segments__check(f->s);
}

/* A graph's pool is the one that its thread began last; another thread's segment may be of either. */
static void test_two_captures_at_once(void **state)
{
	struct fix *f = *state;
	struct report_pool *rows;

	pool(f, 7, MT_GRAPH_POOL_BEGINS, 1);
	pool(f, 8, MT_GRAPH_POOL_BEGINS, 2);
	for (uint32_t tid = 7; tid <= 8; tid++)
		of_graph(f, tid, MT_GRAPH_CAPTURES, tid, 0);
	give(f, 7, 0x10000000, 4 * MB);
	give(f, 8, 0x20000000, 2 * MB);
	give(f, 9, 0x30000000, 8 * MB);
	capture(f, 9, 0, 1); /* of no pool */
	for (uint32_t tid = 8; tid >= 7; tid--)
		of_graph(f, tid, MT_GRAPH_CAPTURED, tid + 0x1000, tid);
	pool(f, 7, MT_GRAPH_POOL_ENDS, 1);
	capture(f, 8, 1, 1); /* the other one is open in this thread, too */
	rows = pools_of(f, 2);
	assert_int_equal(rows[0].reserved, 4 * MB);
	assert_int_equal(rows[0].graphs, 2);
	assert_int_equal(rows[0].first[0].number, 3);
	assert_int_equal(rows[0].first[1].number, 4);
	assert_int_equal(rows[1].reserved, 2 * MB);
	assert_int_equal(rows[1].graphs, 1);
	assert_int_equal(rows[1].first[0].number, 2);
	free(rows);
}

static void test_more_private_pools_than_are_kept(void **state)
{
	struct fix *f = *state;
	struct event ev = { .kind = MT_EV_SEG_GRAPH, .flags = MT_GRAPH_POOL_BEGINS, .pid = 7, .tid = 7, .dev = C0, .ts_ns = 1 };

	for (ev.addr = 1; ev.addr <= 4096; ev.addr++)
		assert_true(segments__event(f->s, &ev));
	assert_false(segments__event(f->s, &ev)); /* lost, and counted as that */
	ev.addr = 9;
	for (ev.flags = MT_GRAPH_POOL_ENDS; ev.flags <= MT_GRAPH_POOL_LEFT; ev.flags += MT_GRAPH_POOL_LEFT - MT_GRAPH_POOL_ENDS)
		assert_true(segments__event(f->s, &ev));
	ev.flags = MT_GRAPH_POOL_BEGINS;
	ev.addr = 5000; /* in place of the one that is over */
	assert_true(segments__event(f->s, &ev));
	ev.addr++;
	assert_false(segments__event(f->s, &ev));
	segments__check(f->s);
}

static void test_freed_unseen(void **state)
{
	struct fix *f = *state;

	tell(f, MT_EV_SEG_ALLOC, MT_SEG_DEVICE, C0, 0x1000, 0x3000, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_DEVICE, C0, 0x2000, 0x1000, 0); /* inside: the old one must be gone */
	assert_int_equal(report(f, C0).live, 0x1000);
	assert_int_equal(report(f, C0).kinds[MT_SEG_DEVICE].dropped, 1);
}

/* Released first or unmapped first: physical memory ends with the second of the two. */
static void test_virtual_memory(void **state)
{
	struct fix *f = *state;

	tell(f, MT_EV_SEG_ALLOC, MT_SEG_PHYSICAL, C0, 11, 2 * MB, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_PHYSICAL, C0, 12, 2 * MB, 0);
	assert_int_equal(report(f, C0).live, 4 * MB);
	tell(f, MT_EV_SEG_MAP, MT_SEG_PHYSICAL, C0, 0x40000000, 2 * MB, 11);
	tell(f, MT_EV_SEG_MAP, MT_SEG_PHYSICAL, C0, 0x40000000 + 2 * MB, 2 * MB, 12);
	tell(f, MT_EV_SEG_FREE, MT_SEG_PHYSICAL, C0, 11, 0, 0);
	assert_int_equal(report(f, C0).live, 4 * MB);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_PHYSICAL, C0, 11, 2 * MB, 0); /* the number is free for other memory by now */
	assert_int_equal(report(f, C0).live, 6 * MB);
	tell(f, MT_EV_SEG_FREE, MT_SEG_PHYSICAL, C0, 11, 0, 0);
	tell(f, MT_EV_SEG_UNMAP, MT_SEG_PHYSICAL, C0, 0x40000000, 2 * MB, 0);
	assert_int_equal(report(f, C0).live, 2 * MB);
	tell(f, MT_EV_SEG_UNMAP, MT_SEG_PHYSICAL, C0, 0x40000000 + 2 * MB, 2 * MB, 0);
	assert_int_equal(report(f, C0).live, 2 * MB);
	tell(f, MT_EV_SEG_FREE, MT_SEG_PHYSICAL, C0, 12, 0, 0);
	assert_int_equal(report(f, C0).live, 0);
	assert_int_equal(report(f, C0).kinds[MT_SEG_PHYSICAL].frees, 3);
}

/* A handle taken once more must be given back once more; sizes are told by the first only. */
static void test_references(void **state)
{
	struct fix *f = *state;

	tell(f, MT_EV_SEG_ALLOC, MT_SEG_PHYSICAL, C0, 11, 2 * MB, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_PHYSICAL, MT_DEV_NONE, 11, 0, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_PHYSICAL, MT_DEV_NONE, 99, 0, 0); /* from before the attach: nothing is known */
	tell(f, MT_EV_SEG_FREE, MT_SEG_PHYSICAL, MT_DEV_NONE, 11, 0, 0);
	tell(f, MT_EV_SEG_FREE, MT_SEG_PHYSICAL, MT_DEV_NONE, 99, 0, 0);
	assert_int_equal(report(f, C0).live, 2 * MB);
	tell(f, MT_EV_SEG_FREE, MT_SEG_PHYSICAL, MT_DEV_NONE, 11, 0, 0);
	assert_int_equal(report(f, C0).live, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_PHYSICAL, MT_DEV_HOST, 12, 3 * MB, 0); /* made in host memory */
	assert_int_equal(report(f, MT_DEV_NONE).kinds[MT_SEG_PINNED].live, 3 * MB);
	assert_int_equal(report(f, MT_DEV_NONE).live, 0);
	tell(f, MT_EV_SEG_FREE, MT_SEG_PHYSICAL, MT_DEV_NONE, 12, 0, 0);
	assert_int_equal(report(f, MT_DEV_NONE).kinds[MT_SEG_PINNED].live, 0);
}

/* Handles of arrays lie near each other: they are no addresses of what they stand for. */
static void test_handles(void **state)
{
	struct fix *f = *state;

	tell(f, MT_EV_SEG_ALLOC, MT_SEG_ARRAY, C0, 0x5000, 64 * MB, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_ARRAY, C0, 0x5040, 32 * MB, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_RESERVED, MT_DEV_NONE, 0x40000000, 1ull << 40, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_PHYSICAL, C0, 11, 2 * MB, 0);
	tell(f, MT_EV_SEG_MAP, MT_SEG_PHYSICAL, MT_DEV_NONE, 0x40000000, 2 * MB, 11);
	assert_int_equal(report(f, C0).live, 98 * MB);
	assert_int_equal(report(f, MT_DEV_NONE).live, 0);
	assert_int_equal(report(f, MT_DEV_NONE).kinds[MT_SEG_RESERVED].live, 1ull << 40);
	tell(f, MT_EV_SEG_FREE, MT_SEG_ARRAY, MT_DEV_NONE, 0x5000, 0, 0);
	assert_int_equal(report(f, C0).live, 34 * MB);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_IMPORTED, C0, 0x7700, 8 * MB, 0); /* external memory, and a buffer in it */
	tell(f, MT_EV_SEG_MAP, MT_SEG_IMPORTED, MT_DEV_NONE, 0x60000000, 4 * MB, 0x7700);
	tell(f, MT_EV_SEG_FREE, MT_SEG_DEVICE, MT_DEV_NONE, 0x60000000, 0, 0);
	assert_int_equal(report(f, C0).kinds[MT_SEG_IMPORTED].live, 8 * MB);
	tell(f, MT_EV_SEG_FREE, MT_SEG_IMPORTED, MT_DEV_NONE, 0x7700, 0, 0);
	assert_int_equal(report(f, C0).kinds[MT_SEG_IMPORTED].live, 0);
	assert_int_equal(report(f, C0).live, 34 * MB);
}

/* What frees a pointer does not say what it was: cudaFree takes managed and stream-ordered memory, too. */
static void test_pointer_decides(void **state)
{
	struct fix *f = *state;

	tell(f, MT_EV_SEG_ALLOC, MT_SEG_MANAGED, C0, 0x10000000, 2 * MB, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_ASYNC, C0, 0x20000000, 3 * MB, 7);
	tell(f, MT_EV_SEG_FREE, MT_SEG_DEVICE, MT_DEV_NONE, 0x10000000, 0, 0);
	tell(f, MT_EV_SEG_FREE, MT_SEG_DEVICE, MT_DEV_NONE, 0x20000000, 0, 0);
	assert_int_equal(report(f, C0).live, 0);
	assert_int_equal(report(f, C0).kinds[MT_SEG_MANAGED].frees, 1);
	assert_int_equal(report(f, C0).kinds[MT_SEG_ASYNC].frees, 1);
}

/* Tensors in it are the CPU's. They do not make it another device's: a reset of the only one frees it. */
static void test_blocks_in_pinned_memory(void **state)
{
	struct fix *f = *state;

	tell(f, MT_EV_SEG_ALLOC, MT_SEG_PINNED, MT_DEV_NONE, 0x7f0000000000, 8 * MB, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_DEVICE, C0, 0x10000000, 2 * MB, 0);
	block_of(f, MT_DEV_CPU, 0x7f0000000000, 512);
	assert_int_equal(report(f, MT_DEV_NONE).kinds[MT_SEG_PINNED].live, 8 * MB);
	tell(f, MT_EV_SEG_RESET, 0, C0, 0, 0, 0);
	assert_int_equal(report(f, MT_DEV_NONE).kinds[MT_SEG_PINNED].live, 0);
}

static void test_contexts(void **state)
{
	struct fix *f = *state;

	tell(f, MT_EV_SEG_ALLOC, MT_SEG_DEVICE, C0, 0x10000000, 2 * MB, 0xc1);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_DEVICE, C0, 0x20000000, 3 * MB, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_ARRAY, C0, 0x5000, 5 * MB, 0xc1);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_PINNED, MT_DEV_NONE, 0x7f0000000000, 8 * MB, 0);
	tell(f, MT_EV_SEG_RESET, 1, C0, 0, 0, 0); /* one of several references */
	assert_int_equal(report(f, C0).live, 10 * MB);
	tell(f, MT_EV_SEG_RESET, 0, MT_DEV_NONE, 0xc1, 0, 0);
	assert_int_equal(report(f, C0).live, 3 * MB);
	tell(f, MT_EV_SEG_RESET, 0, C0, 0, 0, 0);
	assert_int_equal(report(f, C0).live, 0);
	assert_int_equal(report(f, MT_DEV_NONE).kinds[MT_SEG_PINNED].live, 0); /* there is no other device */
	assert_int_equal(report(f, C0).kinds[MT_SEG_DEVICE].dropped, 2);
}

/* A block may lie across mapped pieces, and free ranges reach across them, too. */
static void test_expandable(void **state)
{
	struct fix *f = *state;
	struct report_segments r;

	for (unsigned i = 0; i < 4; i++) {
		tell(f, MT_EV_SEG_ALLOC, MT_SEG_PHYSICAL, C0, 100 + i, 20 * MB, 0);
		tell(f, MT_EV_SEG_MAP, MT_SEG_PHYSICAL, C0, 0x40000000 + i * 20 * MB, 20 * MB, 100 + i);
	}
	block(f, 0x40000000 + 10 * MB, 25 * MB);
	r = report(f, C0);
	assert_int_equal(r.cached, 40 * MB);
	assert_int_equal(r.other, 40 * MB); /* nothing was given out of the last two yet */
	assert_int_equal(r.inactive, 15 * MB);
	assert_int_equal(r.largest_free, 10 * MB);
	block(f, 0x40000000 + 70 * MB, 5 * MB);
	block(f, 0x40000000 + 41 * MB, 1 * MB);
	r = report(f, C0);
	assert_int_equal(r.cached, 80 * MB);
	assert_int_equal(r.inactive, 80 * MB - 31 * MB);
	assert_int_equal(r.largest_free, 28 * MB);
}

static void test_device_from_block(void **state)
{
	struct fix *f = *state;

	tell(f, MT_EV_SEG_ALLOC, MT_SEG_DEVICE, MT_DEV_NONE, 0x10000000, 2 * MB, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_PHYSICAL, MT_DEV_NONE, 5, 2 * MB, 0);
	tell(f, MT_EV_SEG_MAP, MT_SEG_PHYSICAL, MT_DEV_NONE, 0x50000000, 2 * MB, 5);
	assert_int_equal(report(f, C0).live, 0);
	assert_int_equal(report(f, MT_DEV_NONE).live, 4 * MB);
	block(f, 0x10000000, 512);
	block(f, 0x50000000, 512);
	assert_int_equal(report(f, C0).live, 4 * MB);
	assert_int_equal(report(f, MT_DEV_NONE).live, 0);
}

static void test_reset(void **state)
{
	struct fix *f = *state;

	tell(f, MT_EV_SEG_ALLOC, MT_SEG_DEVICE, C0, 0x10000000, 2 * MB, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_DEVICE, C0 + 1, 0x20000000, 3 * MB, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_PHYSICAL, C0, 9, 2 * MB, 0);
	tell(f, MT_EV_SEG_MAP, MT_SEG_PHYSICAL, C0, 0x50000000, 2 * MB, 9);
	tell(f, MT_EV_SEG_RESET, 0, C0, 0, 0, 0);
	assert_int_equal(report(f, C0).live, 0);
	assert_int_equal(report(f, C0).resets, 1);
	assert_int_equal(report(f, C0).kinds[MT_SEG_PHYSICAL].dropped, 1);
	assert_int_equal(report(f, C0 + 1).live, 3 * MB);
}

static void test_totals(void **state)
{
	struct fix *f = *state;
	struct report_segments r;

	tell(f, MT_EV_SEG_ALLOC, MT_SEG_DEVICE, C0, 0x10000000, 2 * MB, 0);
	block(f, 0x10000000, 1024);
	tell(f, MT_EV_TOTALS, 0, C0, 5 * MB + 1024, 12 * MB, 0);
	tell(f, MT_EV_REQUEST, 0, C0, 0x10000000, 1000, 0);
	r = report(f, C0);
	assert_true(r.totals && r.requests);
	assert_int_equal(r.reserved, 12 * MB);
	assert_int_equal(r.reserved_before, 10 * MB);
	assert_int_equal(r.allocated, 5 * MB + 1024);
	assert_int_equal(r.requested, 1000);
	assert_int_equal(r.rounding, 24);
	assert_int_equal(r.allocated_before, 5 * MB);
	assert_int_equal(r.driver, 12 * MB);
	assert_int_equal(r.tensors, 5 * MB + 1000);
	assert_int_equal(r.unused, 7 * MB - 1024);
	tell(f, MT_EV_REQUEST, 0, C0, 0x10000000, 900, 0); /* its free was missed */
	assert_int_equal(report(f, C0).requested, 900);
	tell(f, MT_EV_REQUEST_FREE, 0, MT_DEV_NONE, 0x10000000, 0, 0);
	tell(f, MT_EV_SEG_FREE, MT_SEG_DEVICE, C0, 0x10000000, 0, 0); /* emptyCache: told by nobody else */
	r = report(f, C0);
	assert_int_equal(r.requested, 0);
	assert_int_equal(r.requested_peak, 1000);
	assert_int_equal(r.reserved, 10 * MB);
	assert_int_equal(r.reserved_peak, 12 * MB);
}

static void test_process_gone(void **state)
{
	struct fix *f = *state;
	struct report_segments r;

	tell(f, MT_EV_SEG_ALLOC, MT_SEG_DEVICE, C0, 0x10000000, 2 * MB, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_PHYSICAL, C0, 5, 2 * MB, 0);
	tell(f, MT_EV_SEG_MAP, MT_SEG_PHYSICAL, C0, 0x50000000, 2 * MB, 5);
	tell(f, MT_EV_TOTALS, 0, C0, 1 * MB, 2 * MB, 0);
	tell(f, MT_EV_REQUEST, 0, C0, 0x10000000, 900, 0);
	segments__drop_pid(f->s, 7);
	segments__check(f->s);
	r = report(f, C0);
	assert_int_equal(r.live + r.reserved + r.allocated + r.requested, 0);
	assert_int_equal(r.peak, 4 * MB);
	assert_int_equal(r.kinds[MT_SEG_DEVICE].dropped + r.kinds[MT_SEG_PHYSICAL].dropped, 2);
}

static bool waits(struct fix *f, uint64_t event, uint64_t ptr, uint8_t dev, uint64_t size)
{
	const struct event ev = { .kind = MT_EV_STREAM, .flags = MT_STREAM_WAITS, .addr = event, .size = ptr, .pid = 7,
				  .tid = 7, .ts_ns = ++f->ts_ns };
	bool ok = segments__waits(f->s, &ev, dev, size);

	segments__check(f->s);
	return ok;
}

static void over(struct fix *f, uint64_t event)
{
	tell(f, MT_EV_STREAM, MT_STREAM_OVER, MT_DEV_NONE, event, 0, 0);
}

/* Freed, but an event of another stream keeps it; two of two streams; what is not a late block's is nothing. */
static void test_late_blocks(void **state)
{
	struct fix *f = *state;
	struct report_segments r;

	tell(f, MT_EV_SEG_ALLOC, MT_SEG_DEVICE, C0, 0x10000000, 20 * MB, 0);
	block(f, 0x10000000, 1 * MB);
	tell(f, MT_EV_TOTALS, 0, C0, 10 * MB, 20 * MB, 0);
	assert_true(waits(f, 0xe1, 0x10000000 + 2 * MB, C0, 2 * MB));
	tell(f, MT_EV_TOTALS, 0, C0, 8 * MB, 20 * MB, 0);
	assert_true(waits(f, 0xe2, 0x10000000 + 8 * MB, C0, 4 * MB));
	assert_true(waits(f, 0xe3, 0x10000000 + 8 * MB, C0, 4 * MB));
	tell(f, MT_EV_TOTALS, 0, C0, 4 * MB, 20 * MB, 0);
	r = report(f, C0);
	assert_int_equal(r.late, 6 * MB);
	assert_int_equal(r.late_blocks, 2);
	assert_int_equal(r.inactive, 13 * MB); /* 20 without the live one and the late ones */
	assert_int_equal(r.largest_free, 8 * MB);
	assert_int_equal(r.unused, 10 * MB);
	over(f, 0xe2); /* its size was told with it */
	over(f, 0xe9);
	assert_int_equal(report(f, C0).late, 6 * MB);
	over(f, 0xe3);
	assert_int_equal(report(f, C0).late, 2 * MB);
	over(f, 0xe1);
	over(f, 0xe1);
	r = report(f, C0);
	assert_int_equal(r.late, 0);
	assert_int_equal(r.late_peak, 6 * MB);
}

/* From before the attach: what the device's totals fall by is its size, if this thread told them. */
static void test_late_block_of_unknown_size(void **state)
{
	struct fix *f = *state;
	struct report_segments r;

	assert_true(waits(f, 0xe0, 0x30000000, MT_DEV_NONE, 0));
	tell(f, MT_EV_TOTALS, 0, C0, 10 * MB, 20 * MB, 0); /* the first ones say no difference */
	assert_true(waits(f, 0xe1, 0x20000000, MT_DEV_NONE, 0));
	assert_true(waits(f, 0xe2, 0x20000000, MT_DEV_NONE, 0));
	tell(f, MT_EV_TOTALS, 0, C0, 7 * MB, 20 * MB, 0);
	tell(f, MT_EV_TOTALS, 0, C0, 6 * MB, 20 * MB, 0); /* another block */
	r = report(f, C0);
	assert_int_equal(r.late, 3 * MB);
	assert_int_equal(r.late_blocks, 1);
	over(f, 0xe0);
	over(f, 0xe1);
	assert_int_equal(report(f, C0).late, 3 * MB);
	over(f, 0xe2);
	assert_int_equal(report(f, C0).late, 0);
}

/* Whatever else says that the wait is over: the event is used again, the place is, the segment or the process is gone. */
static void test_late_block_whose_end_is_not_seen(void **state)
{
	struct fix *f = *state;

	tell(f, MT_EV_SEG_ALLOC, MT_SEG_DEVICE, C0, 0x10000000, 20 * MB, 0);
	block(f, 0x10000000, 1 * MB);
	tell(f, MT_EV_TOTALS, 0, C0, 10 * MB, 20 * MB, 0);
	assert_true(waits(f, 0xe1, 0x10000000 + 2 * MB, C0, 2 * MB));
	assert_true(waits(f, 0xe1, 0x10000000 + 5 * MB, C0, 3 * MB));
	assert_int_equal(report(f, C0).late, 3 * MB);
	block(f, 0x10000000 + 5 * MB, 1 * MB);
	assert_int_equal(report(f, C0).late, 0);
	assert_true(waits(f, 0xe2, 0x10000000 + 8 * MB, C0, 2 * MB));
	tell(f, MT_EV_SEG_FREE, MT_SEG_DEVICE, C0, 0x10000000, 0, 0);
	assert_int_equal(report(f, C0).late, 0);
	assert_true(waits(f, 0xe3, 0x20000000, C0, 2 * MB));
	segments__drop_pid(f->s, 7);
	segments__check(f->s);
	assert_int_equal(report(f, C0).late, 0);
}

static void test_late_blocks_are_bounded(void **state)
{
	struct fix *f = *state;

	for (uint64_t i = 1; i <= 4096; i++)
		assert_true(waits(f, i, i << 12, C0, 512));
	assert_false(waits(f, 5000, 5000 << 12, C0, 512)); /* lost, and counted by the caller */
	over(f, 77);
	assert_true(waits(f, 5000, 5000 << 12, C0, 512));
	assert_false(waits(f, 5001, UINT64_MAX, C0, UINT64_MAX));
	over(f, 78);
	assert_true(waits(f, 5001, UINT64_MAX, C0, UINT64_MAX)); /* a size that nobody believes */
	report(f, C0);
}

static void test_failures(void **state)
{
	struct fix *f = *state;
	struct report_segments r;

	tell(f, MT_EV_SEG_FAIL, MT_SEG_DEVICE, C0, 0, 1ull << 40, 2);
	r = report(f, C0);
	assert_int_equal(r.kinds[MT_SEG_DEVICE].fails, 1);
	assert_int_equal(r.kinds[MT_SEG_DEVICE].fail_bytes_last, 1ull << 40);
	assert_int_equal(r.kinds[MT_SEG_DEVICE].fail_code_last, 2);
}

/* Nothing of what a hostile target tells can break the sums. */
struct reported_pinned {
	struct pinned v[8];
	unsigned cnt;
};

static void on_pinned(void *ctx, const struct pinned *p)
{
	struct reported_pinned *t = ctx;

	assert_true(t->cnt < 8);
	t->v[t->cnt++] = *p;
}

/* Of pinned memory each beginning and end is told once, however it ends. */
static void test_pinned_is_reported(void **state)
{
	struct reported_pinned t = { .cnt = 0 };
	struct fix *f = *state;

	segments__on_pinned(f->s, on_pinned, &t);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_DEVICE, C0, 0x10000000, 1 * MB, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_PINNED, MT_DEV_NONE, 0x7f0000000000, 8 * MB, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_REGISTERED, MT_DEV_NONE, 0x7e0000000000, 8 * MB, 0);
	tell(f, MT_EV_SEG_FREE, MT_SEG_PINNED, MT_DEV_NONE, 0x7f0000000000, 0, 0);
	tell(f, MT_EV_SEG_FREE, MT_SEG_PINNED, MT_DEV_NONE, 0x7f0000000000, 0, 0); /* it is no more */
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_PINNED, MT_DEV_NONE, 0x7f0000000000, 4 * MB, 0);
	tell(f, MT_EV_SEG_ALLOC, MT_SEG_PINNED, MT_DEV_NONE, 0x7f0000100000, 2 * MB, 0); /* the one below was freed unseen */
	segments__drop_pid(f->s, 7);
	assert_int_equal(t.cnt, 6);
	for (unsigned i = 0; i < t.cnt; i++) {
		static const struct pinned want[] = {
			{ 1, 0x7f0000000000, 8 * MB, 7, false }, { 1, 0x7f0000000000, 8 * MB, 7, true },
			{ 2, 0x7f0000000000, 4 * MB, 7, false }, { 2, 0x7f0000000000, 4 * MB, 7, true },
			{ 3, 0x7f0000100000, 2 * MB, 7, false }, { 3, 0x7f0000100000, 2 * MB, 7, true },
		};

		assert_true(t.v[i].number == want[i].number && t.v[i].addr == want[i].addr && t.v[i].size == want[i].size &&
			    t.v[i].pid == 7 && t.v[i].is_end == want[i].is_end);
	}
}

static void test_nonsense(void **state)
{
	struct fix *f = *state;
	uint64_t x = 88172645463325252ull;

	for (int i = 0; i < 200000; i++) {
		struct event ev = { .pid = 7 + (uint32_t)(x >> 60), .ts_ns = (uint64_t)i };

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		ev.kind = (uint8_t)(MT_EV_SEG_ALLOC + x % 10);
		ev.flags = (uint8_t)(x >> 8 & 15);
		ev.dev = x >> 12 & 1 ? C0 : (uint8_t)(x >> 13);
		ev.addr = x >> 20 & 0xff ? (x >> 20 & 0xfff) << 12 : UINT64_MAX - (x >> 30 & 0xffff);
		ev.size = x >> 40 & 0xf ? (x >> 40 & 0xff) << 12 : x;
		ev.aux = (uint32_t)(x >> 20 & 0xfff) << 12;
		segments__event(f->s, &ev);
		if (!(x >> 50 & 7))
			segments__allocated(f->s, &(struct block){ .pid = ev.pid, .dev = C0, .ptr = ev.addr, .size = ev.size });
		if (!(x >> 48 & 0x3fff))
			segments__drop_pid(f->s, ev.pid);
		if (!(x >> 45 & 15)) {
			ev.flags = x >> 9 & 1 ? MT_STREAM_WAITS : MT_STREAM_OVER;
			ev.kind = MT_EV_STREAM;
			segments__event(f->s, &ev);
			if (ev.flags == MT_STREAM_WAITS)
				(void)segments__waits(f->s, &ev, x >> 10 & 1 ? C0 : 0, x >> 11 & 1 ? ev.addr : 0);
		}
		if (i % 64 == 0)
			segments__check(f->s);
	}
	report(f, C0);
	report(f, MT_DEV_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_plain, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_rows, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_communication, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_graph_nodes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_private_pools, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_graphs_of_a_pool, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_two_captures_at_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_more_private_pools_than_are_kept, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_freed_unseen, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_virtual_memory, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_references, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_handles, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_pointer_decides, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_blocks_in_pinned_memory, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_contexts, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_expandable, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_device_from_block, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_reset, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_totals, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_process_gone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_late_blocks, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_late_block_of_unknown_size, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_late_block_whose_end_is_not_seen, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_late_blocks_are_bounded, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_failures, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_pinned_is_reported, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nonsense, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

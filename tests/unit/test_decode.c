/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Records of the ring to events: every kind with its own length and no other, and what becomes of the fields. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "event/decode.h"

#define ADDR sizeof(struct mt_rec_addr)
#define MEM  sizeof(struct mt_rec_mem)
#define SEG  sizeof(struct mt_rec_seg)
#define NAME sizeof(struct mt_rec_name)

static const struct {
	uint8_t kind;
	size_t len;
} lengths[] = {
	{ MT_EV_ALLOC, MEM },	     { MT_EV_FREE, ADDR },	  { MT_EV_OOM, MEM },
	{ MT_EV_OP, ADDR },	     { MT_EV_NODE, MEM },	  { MT_EV_OP_BEGIN, ADDR },
	{ MT_EV_OP_END, ADDR },	     { MT_EV_REGION_BEGIN, MEM }, { MT_EV_REGION_END, MEM },
	{ MT_EV_STEP, ADDR },	     { MT_EV_TAG, MEM },	  { MT_EV_NAME, NAME },
	{ MT_EV_MMAP, MEM },	     { MT_EV_MUNMAP, MEM },	  { MT_EV_BRK, ADDR },
	{ MT_EV_OOM_VICTIM, ADDR },
	{ MT_EV_RSS, MEM },	     { MT_EV_EXIT, MEM },	  { MT_EV_SEG_ALLOC, SEG },
	{ MT_EV_SEG_FREE, SEG },     { MT_EV_SEG_MAP, SEG },	  { MT_EV_SEG_UNMAP, SEG },
	{ MT_EV_SEG_FAIL, SEG },     { MT_EV_SEG_RESET, SEG },	  { MT_EV_SEG_TRIM, SEG },
	{ MT_EV_SEG_COMM, SEG },     { MT_EV_SEG_GRAPH, SEG },	  { MT_EV_SEG_POOL, SEG },
	{ MT_EV_TOTALS, MEM },	     { MT_EV_REQUEST, SEG },	  { MT_EV_REQUEST_FREE, ADDR },
	{ MT_EV_MODULE, MEM },	     { MT_EV_STREAM, MEM },
	{ MT_EV_ALLOC_AT, sizeof(struct mt_rec_at) }, { MT_EV_PLACE, sizeof(struct mt_rec_place) },
};

static void takes_each_kind_in_its_length(void **state)
{
	struct names *names = names__new();
	struct decode *d = decode__new(names);
	uint64_t bad = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		union {
			struct mt_hdr hdr;
			uint64_t words[32];
		} rec = { .hdr = { .kind = lengths[i].kind, .pid = 7, .tid = 8, .ts_ns = 9 } };
		struct event ev;

		for (size_t len = 0; len <= sizeof(rec); len += 8) {
			int r = decode__record(d, &rec, len, &ev);

			if (len != lengths[i].len) {
				bad += len != sizeof(struct mt_rec_flow) || lengths[i].kind != MT_EV_OP;
				continue; /* an operator with tensors is a record of its own */
			}
			assert_int_equal(r, lengths[i].kind == MT_EV_NAME || lengths[i].kind == MT_EV_PLACE ? 0 : 1);
			if (r == 1)
				assert_true(ev.kind == (lengths[i].kind == MT_EV_ALLOC_AT ? MT_EV_ALLOC : lengths[i].kind) &&
					    ev.pid == 7 && ev.tid == 8 && ev.ts_ns == 9);
		}
	}
	assert_int_equal(decode__bad_cnt(d), bad);
	decode__free(d);
	names__free(names);
}

static void decodes_the_drivers_layer(void **state)
{
	struct names *names = names__new();
	struct decode *d = decode__new(names);
	name_id api = names__add(names, "cuMemMap");
	struct mt_rec_seg rec = {
		.hdr = { .kind = MT_EV_SEG_MAP, .dev = MT_DEV_CUDA0 + 3, .flags = MT_SEG_PHYSICAL, .depth = 2, .seq = 5 },
		.addr = 0x7f1200000000, .size = 2 << 20, .aux = 0x5555123456789abc, .api = api.v,
	};
	struct event ev;

	(void)state;
	assert_int_equal(decode__record(d, &rec, sizeof(rec), &ev), 1);
	decode__resolve(d, &ev);
	assert_true(ev.addr == rec.addr && ev.size == rec.size && ev.dev == rec.hdr.dev && ev.depth == 2 && ev.seq == 5);
	assert_int_equal(ev.flags, MT_SEG_PHYSICAL);
	assert_string_equal(names__get(names, ev.name), "cuMemMap");
	assert_int_equal(ev.aux, 0x56789abc ^ 0x55551234);
	rec.api = 77; /* no such name */
	rec.aux = 2;  /* a result code stays what it is */
	assert_int_equal(decode__record(d, &rec, sizeof(rec), &ev), 1);
	assert_int_equal(ev.name.v, 0);
	assert_int_equal(ev.aux, 2);
	decode__free(d);
	names__free(names);
}

/* What was called boxed and what Python defined have the hash of a name, which may come later than they. */
static void finds_names_by_hash(void **state)
{
	struct names *names = names__new();
	struct decode *d = decode__new(names);
	struct mt_rec_flow op = { .hdr = { .kind = MT_EV_OP, .flags = MT_OP_BY_HASH, .pid = 7, .seq = 1 }, .addr = 77 };
	struct mt_rec_mem node = { .hdr = { .kind = MT_EV_NODE, .flags = MT_NODE_PYTHON, .pid = 7, .seq = 2 }, .addr = 78,
				   .size = 12 };
	struct mt_rec_name name = { .hdr = { .kind = MT_EV_NAME, .pid = 7 }, .hash = 77, .text = "mine::op" };
	struct event ev, of_node, lost;

	(void)state;
	assert_int_equal(decode__record(d, &op, sizeof(op), &ev), 1);
	assert_int_equal(decode__record(d, &node, sizeof(node), &of_node), 1);
	op.addr = 79;
	assert_int_equal(decode__record(d, &op, sizeof(op), &lost), 1);
	assert_int_equal(decode__record(d, &name, sizeof(name), &(struct event){ 0 }), 0);
	name.hash = 78;
	strcpy(name.text, "MineBackward");
	assert_int_equal(decode__record(d, &name, sizeof(name), &(struct event){ 0 }), 0);
	decode__resolve(d, &ev);
	assert_true(ev.kind == MT_EV_OP && ev.flags == MT_OP_BY_HASH && !ev.size && !ev.addr && ev.seq == 1);
	assert_string_equal(names__get(names, ev.name), "mine::op");
	decode__resolve(d, &of_node);
	assert_true(of_node.kind == MT_EV_NODE && of_node.flags == MT_NODE_PYTHON && of_node.size == 12 && !of_node.addr);
	assert_string_equal(names__get(names, of_node.name), "MineBackward");
	decode__resolve(d, &lost);
	assert_string_equal(names__get(names, lost.name), "?");
	decode__free(d);
	names__free(names);
}

static void folds_handles_apart(void **state)
{
	(void)state;
	/* handles of one heap, however far from 0: no two become equal */
	for (uint64_t base = 0x55550000ffff0000; base < 0x55550000ffff0000 + 4096; base += 16)
		assert_int_not_equal(event_fold(base), event_fold(base + 16));
	assert_int_equal(event_fold(0), 0);
	assert_int_equal(event_fold(UINT32_MAX), UINT32_MAX);
}

/* A place's text may come behind its first use in another ring: allocations get its name when they are in order. */
static void decodes_places(void **state)
{
	struct names *names = names__new();
	struct decode *d = decode__new(names);
	struct mt_rec_at at = { .hdr = { .kind = MT_EV_ALLOC_AT, .dev = MT_DEV_CPU, .depth = 1, .seq = 3 }, .addr = 0x1000,
				.size = 64, .place = 0xfedcba9876543210 };
	struct mt_rec_place place = { .hdr = { .kind = MT_EV_PLACE, .pid = 7, .ts_ns = 9 }, .hash = at.place, .code = 8 };
	struct event ev, other;
	name_id name, again;

	(void)state;
	assert_int_equal(decode__record(d, &at, sizeof(at), &ev), 1);
	other = ev;
	decode__resolve(d, &other);
	assert_true(!other.name.v && !other.aux); /* its text was lost */
	assert_int_equal(decode__place(d, &place, sizeof(place) - 1, &name), -EBADMSG);
	assert_int_equal(decode__place(d, &place, sizeof(place), &name), 1);
	assert_int_equal(decode__place(d, &place, sizeof(place), &again), 0);
	assert_true(name.v && name.v == again.v);
	decode__resolve(d, &ev);
	assert_true(ev.kind == MT_EV_ALLOC && ev.addr == 0x1000 && ev.size == 64 && ev.dev == MT_DEV_CPU && ev.depth == 1);
	assert_true(ev.name.v == name.v && !ev.aux);
	place.hash ^= 1ull << 40; /* both halves count */
	assert_int_equal(decode__place(d, &place, sizeof(place), &again), 1);
	assert_int_not_equal(again.v, name.v);
	decode__free(d);
	names__free(names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_each_kind_in_its_length),
		cmocka_unit_test(decodes_the_drivers_layer),
		cmocka_unit_test(finds_names_by_hash),
		cmocka_unit_test(folds_handles_apart),
		cmocka_unit_test(decodes_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

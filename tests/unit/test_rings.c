/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Rings without a kernel: whose turn it is, how far all were read, and how large they must be for many CPUs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "memtrace/event.h"
#include "trace/rings.h"
#include "trace/trace.h"

#define SIZE (1u << 20)
#define RECORD sizeof(struct mt_rec_addr)
#define STEP (RECORD + BPF_RINGBUF_HDR_SZ)

struct fake {
	unsigned long consumer, producer;
	uint8_t data[SIZE];
};

struct got {
	uint64_t cnt[4]; /* by hdr.pid */
	uint64_t cost_ns;
	uint64_t last[4];
};

static struct rings *rings_of(struct fake **fakes, unsigned cnt)
{
	struct rings *rs = calloc(1, sizeof(*rs));

	rings__init(rs);
	for (unsigned i = 0; i < cnt; i++) {
		fakes[i] = calloc(1, sizeof(*fakes[i]));
		rs->v[i] = (struct ring){ .fd = -1, .size = SIZE, .consumer = &fakes[i]->consumer,
					  .producer = &fakes[i]->producer, .data = fakes[i]->data };
	}
	rs->cnt = cnt;
	return rs;
}

static void rings_free(struct rings *rs, struct fake **fakes)
{
	for (unsigned i = 0; i < rs->cnt; i++)
		free(fakes[i]);
	free(rs);
}

static uint32_t *put(struct fake *f, uint32_t who, uint64_t ts_ns)
{
	struct mt_rec_addr r = { .hdr = { .ts_ns = ts_ns, .pid = who, .kind = MT_EV_FREE } };
	size_t at = f->producer & (SIZE - 1);
	uint32_t *head = (uint32_t *)(f->data + at);

	assert_true(f->producer - f->consumer + STEP <= SIZE);
	if (at + STEP > SIZE) { /* as the kernel's second mapping has it */
		size_t first = SIZE - at - BPF_RINGBUF_HDR_SZ;

		memcpy(f->data + at + BPF_RINGBUF_HDR_SZ, &r, first);
		memcpy(f->data, (uint8_t *)&r + first, RECORD - first);
	} else {
		memcpy(f->data + at + BPF_RINGBUF_HDR_SZ, &r, RECORD);
	}
	*head = RECORD;
	f->producer += STEP;
	return head;
}

static int take(void *ctx, const void *rec, size_t len)
{
	const struct mt_rec_addr *r = rec;
	struct got *g = ctx;
	uint64_t end = now_ns() + g->cost_ns;

	assert_int_equal(len, RECORD);
	assert_true(r->hdr.ts_ns > g->last[r->hdr.pid]);
	g->last[r->hdr.pid] = r->hdr.ts_ns;
	g->cnt[r->hdr.pid]++;
	while (g->cost_ns && now_ns() < end)
		;
	return 0;
}

static void test_all_is_read(void **state)
{
	struct got g = { 0 };
	struct fake *f[3];
	struct rings *rs = rings_of(f, 3);
	struct drained d;

	(void)state;
	for (unsigned round = 0; round < 200; round++) { /* over the end of the rings, too */
		uint64_t before = now_ns();

		for (unsigned i = 0; i < 300; i++)
			put(f[i % 2], i % 2, 1000 * round + i + 1);
		assert_int_equal(rings__drain(rs, UINT64_MAX, take, &g, &d), 300);
		assert_false(d.more);
		assert_true(d.until_ns >= before && d.until_ns <= now_ns());
	}
	assert_int_equal(g.cnt[0] + g.cnt[1], 200 * 300);
	rings_free(rs, f);
}

/* One ring full of records that cost 20 us each, a few in the others. */
static void test_flood_starves_nobody(void **state)
{
	struct got g = { .cost_ns = 20000 };
	struct fake *f[4];
	struct rings *rs = rings_of(f, 4);
	uint64_t flood = SIZE / STEP - 1, before = 0, ts = 0;
	struct drained d = { 0 };

	(void)state;
	for (uint64_t i = 0; i < flood; i++)
		put(f[0], 0, ++ts);
	for (unsigned i = 0; i < 50; i++)
		for (uint32_t who = 1; who < 4; who++)
			put(f[who], who, i + 1);
	/* One call, but where this test itself is held up: then four, each of which begins with another ring. */
	for (unsigned call = 0; call < 4 && g.cnt[1] + g.cnt[2] + g.cnt[3] < 150; call++) {
		assert_true(rings__drain(rs, 8000000, take, &g, &d) > 0);
		assert_true(d.more);
		assert_true((g.cnt[0] - before) * 20000 < 8000000 + 2 * 64 * 20000);
		before = g.cnt[0];
	}
	assert_int_equal(g.cnt[1] + g.cnt[2] + g.cnt[3], 150);
	assert_true(g.cnt[0] >= 64 && g.cnt[0] < flood);
	assert_int_equal(d.until_ns, g.last[0]); /* what is complete: no more than what the flooded ring was read to */
	g.cost_ns = 0;
	before = now_ns();
	do {
		rings__drain(rs, 8000000, take, &g, &d);
	} while (d.more);
	assert_int_equal(g.cnt[0], flood);
	assert_true(d.until_ns >= before);
	rings_free(rs, f);
}

/* All rings flooded: no call reads the same one only. */
static void test_turns(void **state)
{
	struct got g = { .cost_ns = 10000 };
	struct fake *f[4];
	struct rings *rs = rings_of(f, 4);
	struct drained d;

	(void)state;
	for (uint32_t who = 0; who < 4; who++)
		for (uint64_t i = 0; i < SIZE / STEP - 1; i++)
			put(f[who], who, i + 1);
	for (unsigned turn = 0; turn < 8; turn++)
		rings__drain(rs, 1000000, take, &g, &d); /* time for 100 records: a ring and a half, 64 each */
	for (uint32_t who = 0; who < 4; who++)
		assert_true(g.cnt[who] >= 64);
	rings_free(rs, f);
}

/* A record that is reserved and not submitted: what is behind it waits, and nothing later is complete. */
static void test_unsubmitted_holds_back(void **state)
{
	struct got g = { 0 };
	struct fake *f[2];
	struct rings *rs = rings_of(f, 2);
	struct drained d;
	uint32_t *head;

	(void)state;
	put(f[0], 0, 500);
	head = put(f[0], 0, 700);
	put(f[0], 0, 800);
	*head |= BPF_RINGBUF_BUSY_BIT;
	put(f[1], 1, 900);
	assert_int_equal(rings__drain(rs, 5000000, take, &g, &d), 2);
	assert_false(d.more); /* nothing that could be done */
	assert_int_equal(d.until_ns, 500);
	*head &= ~BPF_RINGBUF_BUSY_BIT;
	assert_int_equal(rings__drain(rs, 5000000, take, &g, &d), 2);
	assert_true(d.until_ns > 900);
	rings_free(rs, f);
}

/* --- sizes ---------------------------------------------------------------------------------------------- */

#define RATE 380000ull	/* records a second of a busy thread: the worst job that was measured */
#define BYTES 48ull	/* of one, with its header */
#define TICK_MS 1
#define STALL_MS 200	/* the loop is away: it waits for a core, or for the kernel */
#define MOVE_MS 50	/* the scheduler moves a busy thread this often on average */
#define RUNS 400

static uint64_t rng;

static uint64_t rnd(void)
{
	uint64_t z = (rng += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* Each busy thread on a CPU of its own, as a scheduler would have it. */
static unsigned free_cpu(const uint8_t *taken, unsigned cpus)
{
	unsigned at = (unsigned)(rnd() % cpus);

	while (taken[at])
		at = (at + 1) % cpus;
	return at;
}

/* What the fullest ring held after one stall: in bytes. */
static uint64_t stall(unsigned cpus, unsigned busy, unsigned rings)
{
	uint8_t taken[512] = { 0 };
	unsigned on[512];
	uint64_t held[512] = { 0 }, most = 0;

	for (unsigned i = 0; i < busy; i++)
		taken[on[i] = free_cpu(taken, cpus)] = 1;
	for (unsigned ms = 0; ms < STALL_MS; ms += TICK_MS) {
		for (unsigned i = 0; i < busy; i++) {
			held[on[i] & (rings - 1)] += RATE * BYTES * TICK_MS / 1000;
			if (rnd() % (MOVE_MS / TICK_MS))
				continue;
			taken[on[i]] = 0;
			taken[on[i] = free_cpu(taken, cpus)] = 1;
		}
	}
	for (unsigned i = 0; i < rings; i++)
		most = held[i] > most ? held[i] : most;
	return most;
}

/* What the fullest ring holds in all but one of a hundred stalls. */
static uint64_t need(unsigned cpus, unsigned busy, unsigned rings)
{
	uint64_t all[RUNS];

	rng = cpus * 1000 + busy;
	for (unsigned i = 0; i < RUNS; i++) {
		uint64_t most = stall(cpus, busy, rings);
		unsigned at = i;

		for (; at && all[at - 1] > most; at--)
			all[at] = all[at - 1];
		all[at] = most;
	}
	return all[RUNS - 1 - RUNS / 100];
}

/* docs/losses.md has what this prints. */
static void test_sizes(void **state)
{
	static const struct {
		unsigned cpus, ranks;
		uint64_t memory;
	} machines[] = { { 2, 1, 8ull << 30 },	   { 8, 2, 64ull << 30 },    { 16, 4, 128ull << 30 }, { 64, 8, 512ull << 30 },
			 { 192, 8, 2048ull << 30 }, { 512, 16, 2048ull << 30 } };

	(void)state;
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
		unsigned cpus = machines[i].cpus, busy = 2 * machines[i].ranks;
		struct rings_size s = rings_size(0, cpus, machines[i].memory);
		uint64_t most = need(cpus, busy, s.cnt), before = need(cpus, busy, cpus < 16 ? s.cnt : 16);

		print_message("%3u CPUs, %2u busy threads: %3u rings of %2zu MiB; needed %.1f MiB (with 16 rings at most "
			      "%.1f)\n",
			      cpus, busy, s.cnt, s.bytes >> 20, (double)most / (1 << 20), (double)before / (1 << 20));
		assert_true(most <= s.bytes);
		assert_true(s.cnt * (uint64_t)s.bytes <= machines[i].memory / 256 || s.cnt * s.bytes == 32u << 20);
	}
}

static void test_sizes_bounded(void **state)
{
	struct rings_size s;

	(void)state;
	s = rings_size(0, 512, 1ull << 30); /* a cgroup of 1 GiB on a large machine */
	assert_int_equal(s.cnt * s.bytes, 32u << 20);
	s = rings_size(0, 1, 64ull << 30);
	assert_true(s.cnt == 1 && s.bytes == 64u << 20);
	s = rings_size(0, 2, 24ull << 30);
	assert_true(s.cnt == 2 && s.bytes == 32u << 20);
	s = rings_size(0, 2, 8ull << 30); /* a small machine */
	assert_true(s.cnt == 2 && s.bytes == 16u << 20);
	s = rings_size(4096, 512, 64ull << 30); /* asked for */
	assert_true(s.cnt == 1 && s.bytes == 4096);
	s = rings_size(100u << 20, 8, 64ull << 30);
	assert_true(s.cnt == 8 && s.bytes == 8u << 20);
	s = rings_size(0, 100000, UINT64_MAX);
	assert_true(s.cnt == MT_RINGS_MAX && s.cnt * (uint64_t)s.bytes == 1ull << 30);
	assert_true(rings_memory() > 0);
}

static int write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");
	int r = !f || fputs(text, f) < 0;

	return (f && fclose(f)) || r;
}

/* Rings count for the group that we are in; that of the old hierarchy is in another place. */
static void test_limits_of_groups(void **state)
{
	static const struct {
		const char *root, *limit;
	} kinds[] = { { "/sys/fs/cgroup", "memory.max" }, { "/sys/fs/cgroup/memory", "memory.limit_in_bytes" } };
	int tried = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		char group[80], inner[96], path[160];
		int status = 0;
		pid_t pid;

		snprintf(group, sizeof(group), "%s/mt-rings-%d", kinds[i].root, (int)getpid());
		snprintf(inner, sizeof(inner), "%s/inner", group);
		snprintf(path, sizeof(path), "%s/%s", group, kinds[i].limit);
		if (!mkdir(group, 0700) && !access(path, W_OK) && !write_text(path, "268435456") && !mkdir(inner, 0700)) {
			tried++;
			pid = fork();
			if (!pid) {
				snprintf(path, sizeof(path), "%s/cgroup.procs", inner);
				_exit(write_text(path, "0") ? 1 : rings_memory() == 268435456 ? 0 : 2);
			}
			assert_int_equal(waitpid(pid, &status, 0), pid);
		}
		rmdir(inner);
		rmdir(group);
		assert_int_equal(status, 0);
	}
	if (!tried)
		skip(); /* needs root, and groups of memory */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_is_read),
		cmocka_unit_test(test_flood_starves_nobody),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_unsubmitted_holds_back),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_sizes_bounded),
		cmocka_unit_test(test_limits_of_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * base/index and base/map beside the table of live blocks, which was written by hand for its one purpose: the same records of
 * 48 bytes by process, device and pointer, the same work, in nanoseconds. `map` is keyed by the pointer alone.
 *
 *	bench_index [LIVE…]     by default 1000, 100000 and 1000000
 *
 * fill: the first so many; churn: a random one goes and another comes; found: a random one is looked for; missed: one that is
 * not there. Best of three.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/map.h"
#include "model/core/blocks.h"

#define ROUNDS 3
#define TURNS 1000000u
#define PID 4711

enum { FILL, CHURN, FOUND, MISSED, WORKS };

/* Of CPU: others may be at work on the machine. */
static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void need(int is_right)
{
	if (is_right)
		return;
	fprintf(stderr, "bench_index: no memory, or not what was put there\n");
	exit(1);
}

/* --- the three ------------------------------------------------------------------------------------------------ */

static struct blocks *blocks;

static void blocks_add(uint64_t ptr)
{
	bool live;
	struct block *b = blocks__put(blocks, PID, 1, ptr, &live);

	need(b != NULL);
	b->id = ptr;
}

static int blocks_has(uint64_t ptr)
{
	return blocks__find(blocks, PID, 1, ptr) != NULL;
}

static void blocks_drop(uint64_t ptr)
{
	struct block was;

	need(blocks__take(blocks, PID, 1, ptr, &was));
}

static void blocks_begin(void)
{
	blocks = blocks__new(0);
	need(blocks != NULL);
}

static void blocks_end(void)
{
	blocks__free(blocks);
}

/* As it would be done with base/index: records in an array, those that are free in a list. */
static struct index by_ptr;
static struct block *records;
static uint32_t records_cnt, records_cap, records_free; /* + 1 */

static uint64_t hash_of(uint64_t ptr)
{
	return hash_two((uint64_t)PID << 8 | 1, ptr);
}

static uint32_t index_at(uint64_t ptr)
{
	return index_find(&by_ptr, hash_of(ptr), i, records[i].ptr == ptr && records[i].pid == PID && records[i].dev == 1);
}

static void index_add(uint64_t ptr)
{
	uint32_t at = index_at(ptr);

	if (at == INDEX_NONE && records_free) {
		at = records_free - 1;
		records_free = (uint32_t)records[at].ptr;
	} else if (at == INDEX_NONE) {
		need(array_has_room(records, records_cnt, records_cap, 4096));
		at = records_cnt++;
	}
	need(!index__add(&by_ptr, hash_of(ptr), at));
	records[at] = (struct block){ .ptr = ptr, .pid = PID, .dev = 1, .id = ptr };
}

static int index_has(uint64_t ptr)
{
	return index_at(ptr) != INDEX_NONE;
}

static void index_drop(uint64_t ptr)
{
	uint32_t at = index_at(ptr);

	need(at != INDEX_NONE);
	index__remove(&by_ptr, hash_of(ptr), at);
	records[at] = (struct block){ .ptr = records_free };
	records_free = at + 1;
}

static void index_begin(void)
{
	records_cnt = records_cap = records_free = 0;
	records = NULL;
}

static void index_end(void)
{
	index__done(&by_ptr);
	free(records);
}

static struct map map = { .size = sizeof(struct block) };

static void map_add(uint64_t ptr)
{
	struct block *b = map__put(&map, ptr);

	need(b != NULL);
	b->id = ptr;
}

static int map_has(uint64_t ptr)
{
	return map__find(&map, ptr) != NULL;
}

static void map_drop(uint64_t ptr)
{
	struct block *b = map__find(&map, ptr);

	need(b != NULL);
	map__remove(&map, b);
}

static void map_begin(void)
{
}

static void map_end(void)
{
	map__done(&map);
}

/* --- the work ------------------------------------------------------------------------------------------------ */

static const struct kind {
	const char *name;
	void (*begin)(void), (*end)(void), (*add)(uint64_t ptr), (*drop)(uint64_t ptr);
	int (*has)(uint64_t ptr);
} kinds[] = {
	{ "blocks", blocks_begin, blocks_end, blocks_add, blocks_drop, blocks_has },
	{ "index", index_begin, index_end, index_add, index_drop, index_has },
	{ "map", map_begin, map_end, map_add, map_drop, map_has },
};

static uint64_t ptr_of(uint64_t serial)
{
	return 0x7f0000000000u + 64 * serial;
}

static uint32_t turn_of(uint64_t *state, uint32_t max)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((*state >> 32) % max);
}

static void work(const struct kind *k, uint64_t *ptrs, uint32_t live, double ns[WORKS])
{
	uint64_t serial = 0, state = 1;

	k->begin();
	ns[FILL] -= now_ns();
	for (uint32_t i = 0; i < live; i++)
		k->add(ptrs[i] = ptr_of(serial++));
	ns[FILL] += now_ns();
	ns[CHURN] -= now_ns();
	for (uint32_t i = 0; i < TURNS; i++) {
		uint32_t at = turn_of(&state, live);

		k->drop(ptrs[at]);
		k->add(ptrs[at] = ptr_of(serial++));
	}
	ns[CHURN] += now_ns();
	ns[FOUND] -= now_ns();
	for (uint32_t i = 0; i < TURNS; i++)
		need(k->has(ptrs[turn_of(&state, live)]));
	ns[FOUND] += now_ns();
	ns[MISSED] -= now_ns();
	for (uint32_t i = 0; i < TURNS; i++)
		need(!k->has(ptr_of(serial++)));
	ns[MISSED] += now_ns();
	k->end();
}

static void measure(const struct kind *k, uint64_t *ptrs, uint32_t live)
{
	double best[WORKS];

	for (int round = 0; round < ROUNDS; round++) {
		double ns[WORKS] = { 0 };

		work(k, ptrs, live, ns);
		for (int i = 0; i < WORKS; i++)
			best[i] = round && best[i] < ns[i] ? best[i] : ns[i];
	}
	printf("%8u live, %-6s: fill %5.1f ns, churn %5.1f, found %5.1f, missed %5.1f\n", live, k->name, best[FILL] / live,
	       best[CHURN] / TURNS / 2, best[FOUND] / TURNS, best[MISSED] / TURNS);
}

int main(int argc, char **argv)
{
	static const char *const usual[] = { "1000", "100000", "1000000" };
	const char *const *lives = argc > 1 ? (const char *const *)argv + 1 : usual;

	for (int i = 0; i < (argc > 1 ? argc - 1 : 3); i++) {
		uint32_t live = (uint32_t)strtoul(lives[i], NULL, 10);
		uint64_t *ptrs = calloc(live, sizeof(*ptrs));

		need(live && ptrs);
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
			measure(&kinds[k], ptrs, live);
		free(ptrs);
	}
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * gen_ranks ONE.mtr COUNT DIR [HEAVY [A_MACHINE]]: a fleet that never ran, from the recording of one rank: COUNT recordings of
 * the same events, DIR/rank-NNNN.mtr, eight ranks a machine, or A_MACHINE. Each machine has its own boot and a clock that is
 * wrong by up to 10 s; rank HEAVY (default 137, modulo COUNT) has blocks a quarter larger.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/names.h"
#include "event/rank_label.h"
#include "event/recording.h"

#define RANKS_A_MACHINE 8 /* unless it was said */
#define LATER_S 20
#define PIDS_APART 100000 /* of the ranks of a machine */

struct rank {
	unsigned number, count, a_machine;
	int heavy;
	struct names *names;
	struct rec_writer *out;
	const struct names *from;
};

static name_id label(const struct rank *k, name_id old)
{
	const char *text = names__get(k->from, old);
	struct rank_label l = { 0 };
	char buf[64];
	uint32_t rank;

	rank_label__add(&l, text);
	if (rank_label__rank(&l, &rank) < RANK_LOCAL)
		snprintf(buf, sizeof(buf), "RANK=%u", k->number);
	else if (l.source[RANK_OF_NODE])
		snprintf(buf, sizeof(buf), "LOCAL_RANK=%u", k->number % k->a_machine);
	else if (l.source[RANK_WORLD])
		snprintf(buf, sizeof(buf), "WORLD_SIZE=%u", k->count);
	else if (l.source[RANK_NODE])
		snprintf(buf, sizeof(buf), "GROUP_RANK=%u", k->number / k->a_machine);
	else
		return names__add(k->names, text);
	return names__add(k->names, buf);
}

/* A quarter larger, and twice as far apart, or blocks would lie in each other. */
static void make_heavy(struct event *ev)
{
	if (ev->kind == EV_TENSOR_OF)
		ev->addr *= 2;
	if (ev->dev != MT_DEV_CPU)
		return;
	switch (ev->kind) {
	case MT_EV_ALLOC:
	case EV_ARG:
	case EV_TENSOR:
	case EV_STAYED:
		ev->size += ev->size / 4;
		ev->addr *= 2;
		break;
	case MT_EV_FREE:
	case EV_HELD:
	case EV_CAUGHT:
	case EV_STACK_AT:
		ev->addr *= 2;
		break;
	default:
		break;
	}
}

static int put(struct rank *k, struct event ev, struct err *err)
{
	uint32_t machine = k->number / k->a_machine;
	uint32_t further = k->number % k->a_machine * PIDS_APART;
	name_id name = ev.name;

	ev.pid += ev.pid ? further : 0;
	if (ev.kind != EV_TENSOR && ev.kind != EV_MODULE) /* theirs is a name */
		ev.tid += ev.tid ? further : 0;
	/* names have the same ids: they are copied in their order, labels and hosts are new ones behind them */
	switch (ev.kind) {
	case EV_BEGIN:
		ev.addr += (machine * 7919u % 10000u) * 1000000ull + LATER_S * 1000000000ull;
		break;
	case EV_MACHINE: {
		char host[32];

		snprintf(host, sizeof(host), "node%u", machine);
		ev.name = names__add(k->names, host);
		ev.addr = machine + 1;
		break;
	}
	case EV_LABEL:
		ev.name = label(k, name);
		break;
	case EV_LEVEL:
		ev.aux += further;
		break;
	default:
		break;
	}
	if (k->heavy)
		make_heavy(&ev);
	return rec_writer__add(k->out, &ev, err);
}

static int copy(struct rank *k, struct rec_reader *r, struct err *err)
{
	const struct event *evs;
	uint32_t known = 0;
	size_t cnt;
	int more, e = 0;

	while (!e && (more = rec_reader__next(r, &evs, &cnt, err)) > 0) {
		for (uint32_t last = names__last(k->from); known < last;) {
			name_id id = { ++known };

			if (names__add(k->names, names__get(k->from, id)).v != id.v)
				return err_set(err, -1, "the recording has a name twice");
		}
		for (size_t i = 0; i < cnt && !e; i++)
			e = put(k, evs[i], err);
	}
	return e ? e : more;
}

/* All names first, so that those that are made here come behind them. */
static int read_names(const char *path, struct names *to, struct err *err)
{
	struct rec_reader *r;
	const struct event *evs;
	size_t cnt;
	int e = rec_reader__open(&r, path, err);

	if (e < 0)
		return e;
	while ((e = rec_reader__next(r, &evs, &cnt, err)) > 0)
		;
	for (uint32_t i = 1; i <= names__last(rec_reader__names(r)); i++)
		(void)names__add(to, names__get(rec_reader__names(r), (name_id){ i }));
	rec_reader__free(r);
	return e;
}

static int make(const char *from, const char *dir, const struct rank *as, struct err *err)
{
	struct rank k = { .number = as->number, .count = as->count, .a_machine = as->a_machine, .heavy = as->heavy,
			  .names = names__new() };
	struct rec_reader *r = NULL;
	char path[4096];
	int e = k.names ? read_names(from, k.names, err) : -1;

	snprintf(path, sizeof(path), "%s/rank-%04u.mtr", dir, k.number);
	if (!e)
		e = rec_reader__open(&r, from, err);
	if (!e) {
		k.from = rec_reader__names(r);
		e = rec_writer__open(&k.out, path, &(struct rec_writer_opts){ .names = k.names, .how.force = 1 }, err);
	}
	if (!e)
		e = copy(&k, r, err);
	if (!e)
		e = rec_writer__close(k.out, err);
	rec_reader__free(r);
	names__free(k.names);
	return e;
}

int main(int argc, char **argv)
{
	unsigned count = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	unsigned heavy = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : 137;
	struct rank k = { .count = count, .a_machine = argc > 5 ? (unsigned)strtoul(argv[5], NULL, 10) : RANKS_A_MACHINE };
	struct err err = { 0 };

	if (argc < 4 || !count || !k.a_machine) {
		fprintf(stderr, "usage: gen_ranks ONE.mtr COUNT DIR [HEAVY [A_MACHINE]]\n");
		return 2;
	}
	for (; k.number < count; k.number++) {
		k.heavy = k.number == heavy % count;
		if (make(argv[1], argv[3], &k, &err) < 0) {
			fprintf(stderr, "gen_ranks: %s\n", err.msg);
			return 1;
		}
	}
	return 0;
}

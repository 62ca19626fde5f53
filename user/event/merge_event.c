/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Rewrites an event of one file for the merged recording: its time, its pids, the ids of its names (kinds.h: which fields of a
 * kind hold them), its stacks; counters of all processes together are added up.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/names.h"
#include "base/seed.h"
#include "event/kinds.h"
#include "event/merge_state.h"
#include "event/packed.h"
#include "event/recording.h"

#define PID_BITS ((1u << EV_MACHINE_SHIFT) - 1)

uint32_t merge_source__pid(const struct merge_source *s, uint32_t pid)
{
	const struct merge_machine *mine = &s->scan.machines[0];

	if (!pid)
		return 0;
	for (size_t i = 0; i < s->scan.machines_cnt; i++)
		if (s->scan.machines[i].local == pid >> EV_MACHINE_SHIFT)
			mine = &s->scan.machines[i];
	return (pid & PID_BITS) | mine->global << EV_MACHINE_SHIFT;
}

/* --- counters of several files ---------------------------------------------------------------------------------- */

static uint64_t counter_key(uint8_t kind, uint32_t thing)
{
	return (uint64_t)kind << 32 | thing;
}

struct counter *counters__of(struct map *counters, uint8_t kind, uint32_t thing)
{
	return map__put(counters, counter_key(kind, thing));
}

uint64_t counters__lost(const struct map *counters, uint32_t reason)
{
	const struct counter *c = map__find(counters, counter_key(EV_LOSS, reason));

	return c ? c->size : 0;
}

/* --- names and stacks ---------------------------------------------------------------------------------------- */

static int name_of(struct merge *m, struct merge_source *s, uint32_t id, uint32_t *ret)
{
	const struct names *from = rec_reader__names(s->reader);

	*ret = 0;
	if (!id || id > names__last(from))
		return 0;
	if (id >= s->names_cnt && !array_reaches(s->names, s->names_cnt, names__last(from), 1024))
		return -ENOMEM;
	if (!s->names[id])
		s->names[id] = names__add_len(m->names, names__get(from, (name_id){ id }), names__len(from, (name_id){ id })).v;
	*ret = s->names[id];
	return 0;
}

static uint32_t stack_of(const struct merge_source *s, uint64_t number)
{
	return number && number <= s->stacks_cnt ? s->stacks[number - 1] : 0;
}

static int stacks_add(struct merge_source *s, uint32_t number)
{
	if (!array_has_room(s->stacks, s->stacks_cnt, s->stacks_cap, 1024))
		return -ENOMEM;
	s->stacks[s->stacks_cnt++] = number;
	return 0;
}

static bool is_same(const struct merge_stack *a, const struct merge_stack *b)
{
	return a->parent == b->parent && a->name == b->name && a->file == b->file && a->line == b->line && a->kind == b->kind;
}

/* The same frame under the same callers is one node, in whatever file. 1: it is new and *ev is its record; 0: known. */
static int merge_stack(struct merge *m, struct merge_source *s, struct event *ev)
{
	struct merge_stack key = { .parent = stack_of(s, ev->size), .name = ev->name.v, .file = (uint32_t)ev->addr,
				   .line = ev->aux, .kind = ev->flags };
	uint64_t hash = hash_two((uint64_t)key.parent << 32 | key.name, (uint64_t)key.file << 32 | key.line);
	struct counter *lost;
	uint32_t at;

	if (ev->seq != s->stacks_cnt + 1)
		return 0; /* reported again, or odd: the model would not take it either */
	at = index_find(&m->by_stack, hash, i, is_same(&m->stacks[i], &key));
	if (at != INDEX_NONE)
		return stacks_add(s, at + 1);
	if (m->stacks_cnt == EV_STACKS_MAX) {
		lost = counters__of(&m->sum, EV_LOSS, MT_LOSS_STACKS);
		if (!lost)
			return -ENOMEM;
		lost->size++;
		return stacks_add(s, 0);
	}
	if (!array_has_room(m->stacks, m->stacks_cnt, m->stacks_cap, 1024) || index__add(&m->by_stack, hash, m->stacks_cnt) < 0)
		return -ENOMEM;
	m->stacks[m->stacks_cnt++] = key;
	ev->seq = m->stacks_cnt;
	ev->size = key.parent;
	return stacks_add(s, m->stacks_cnt) < 0 ? -ENOMEM : 1;
}

/* --- counting ------------------------------------------------------------------------------------------------ */

/* Growth since the previous value; a counter that decreased has restarted. */
static uint64_t more(uint64_t *last, uint64_t now, bool is_base)
{
	uint64_t d = is_base || now < *last ? 0 : now - *last;

	*last = now;
	return d;
}

static void count_field(uint8_t rule, uint64_t *field, uint64_t *sum, uint64_t *last, bool is_base)
{
	switch (rule) {
	case EV_SUM_COUNTER:
		*sum += more(last, *field, is_base);
		break;
	case EV_SUM_LEVEL:
		*sum += *field - *last;
		*last = *field;
		break;
	case EV_SUM_MAX:
		*sum = *field > *sum ? *field : *sum;
		break;
	default:
		return;
	}
	*field = *sum;
}

/* 1: *ev has the sum over all files; 0: nothing to write. */
static int count(struct merge *m, struct merge_source *s, struct event *ev)
{
	const struct ev_kind_row *row = event_row(ev->kind);
	struct counter *sum, *last;
	bool is_base;

	if (row->thing == EV_IN_AUX && ev->aux >= MERGE_AUX_MAX)
		return 0;
	sum = counters__of(&m->sum, ev->kind, (uint32_t)event_thing(ev));
	last = counters__of(&s->counters, ev->kind, (uint32_t)event_thing(ev));
	if (!sum || !last)
		return -ENOMEM;
	is_base = row->base == EV_BASE_FLAG ? ev->flags == EV_F_BASE : row->base == EV_BASE_FIRST && !last->is_known;
	last->is_known = true;
	count_field(row->sum_addr, &ev->addr, &sum->addr, &last->addr, is_base);
	count_field(row->sum_size, &ev->size, &sum->size, &last->size, is_base);
	if (row->base == EV_BASE_FLAG)
		ev->flags = 0;
	return 1;
}

/* --- one event ---------------------------------------------------------------------------------------------------- */

int merge__names(struct merge *m, struct merge_source *s, struct event *ev)
{
	uint8_t in = event_row(ev->kind)->names;
	uint32_t id;
	int r = name_of(m, s, ev->name.v, &ev->name.v);

	if (in & EV_IN_ADDR) {
		r = r ? r : name_of(m, s, (uint32_t)ev->addr, &id);
		ev->addr = r ? 0 : id;
	}
	if (in & EV_IN_TID)
		r = r ? r : name_of(m, s, ev->tid, &ev->tid);
	if (in & EV_IN_AUX)
		r = r ? r : name_of(m, s, ev->aux, &ev->aux);
	if (in & EV_IN_SEQ)
		r = r ? r : name_of(m, s, ev->seq, &ev->seq);
	if (in & EV_IN_REGION) {
		r = r ? r : name_of(m, s, event_region(ev), &id);
		ev->aux = r ? 0 : event_was_aux(id, event_from(ev));
	}
	return r;
}

static void merge_source__pids(const struct merge_source *s, struct event *ev)
{
	const struct ev_kind_row *row = event_row(ev->kind);

	ev->pid = merge_source__pid(s, ev->pid);
	if (!(row->names & EV_IN_TID))
		ev->tid = merge_source__pid(s, ev->tid);
	if (row->pids & EV_IN_AUX)
		ev->aux = merge_source__pid(s, ev->aux);
	if (row->pids & EV_IN_ADDR)
		ev->addr = merge_source__pid(s, (uint32_t)ev->addr);
}

int merge__translate(struct merge *m, struct merge_source *s, struct event *ev)
{
	int r;

	ev->ts_ns = s->next_ns;
	merge_source__pids(s, ev);
	r = merge__names(m, s, ev);
	if (r < 0)
		return r;
	switch (ev->kind) {
	case EV_BEGIN:
	case EV_END:
	case EV_MACHINE:
	case EV_PAUSE: /* of this file alone: merge.c writes the pauses of all */
		return 0;
	case EV_NVML: /* a device's own numbers: those of several machines would take turns */
		return ev->pid || m->machines_cnt == 1;
	case EV_STACK:
		return merge_stack(m, s, ev);
	case EV_STACK_AT:
	case EV_CAUGHT:
		ev->size = stack_of(s, ev->size);
		return ev->size != 0;
	default:
		return event_is_counter(ev->kind) ? count(m, s, ev) : 1;
	}
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * An event of one file as one of what is written: its time, its pids, the ids of its names (event.h says which fields of a kind
 * hold which), its stacks; what counts for all processes together is added up.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "base/seed.h"
#include "event/merge_state.h"
#include "event/recording.h"

#define PID_BITS ((1u << EV_MACHINE_SHIFT) - 1)
#define REGION_BITS 0xfffffu /* of EV_WAS's aux */
#define STACK_SLOTS (2 * EV_STACKS_MAX)

struct stack_slot {
	uint32_t parent, name, file, line, number; /* number 0: free */
	uint8_t kind;
};

uint32_t source__pid(const struct source *s, uint32_t pid)
{
	const struct merge_machine *mine = &s->scan.machines[0];

	if (!pid)
		return 0;
	for (size_t i = 0; i < s->scan.machines_cnt; i++)
		if (s->scan.machines[i].local == pid >> EV_MACHINE_SHIFT)
			mine = &s->scan.machines[i];
	return (pid & PID_BITS) | mine->global << EV_MACHINE_SHIFT;
}

/* --- names and stacks ---------------------------------------------------------------------------------------- */

static int name_of(struct merge *m, struct source *s, uint32_t id, uint32_t *ret)
{
	const struct names *from = rec_reader__names(s->reader);

	*ret = 0;
	if (!id || id > names__last(from))
		return 0;
	if (id >= s->names_cnt) {
		size_t cnt = (size_t)names__last(from) + 1024;
		uint32_t *v = reallocarray(s->names, cnt, sizeof(*v));

		if (!v)
			return -ENOMEM;
		memset(v + s->names_cnt, 0, (cnt - s->names_cnt) * sizeof(*v));
		s->names = v;
		s->names_cnt = cnt;
	}
	if (!s->names[id])
		s->names[id] = names__add_len(m->names, names__get(from, (name_id){ id }), names__len(from, (name_id){ id })).v;
	*ret = s->names[id];
	return 0;
}

static uint32_t stack_of(const struct source *s, uint64_t number)
{
	return number && number <= s->stacks_cnt ? s->stacks[number - 1] : 0;
}

static int stacks_add(struct source *s, uint32_t number)
{
	if (s->stacks_cnt == s->stacks_cap) {
		size_t cap = s->stacks_cap ? 2 * s->stacks_cap : 1024;
		uint32_t *v = reallocarray(s->stacks, cap, sizeof(*v));

		if (!v)
			return -ENOMEM;
		s->stacks = v;
		s->stacks_cap = cap;
	}
	s->stacks[s->stacks_cnt++] = number;
	return 0;
}

/* The same frame under the same callers is one node, in whatever file. 1: it is new and *ev is its record; 0: known. */
static int merge_stack(struct merge *m, struct source *s, struct event *ev)
{
	struct stack_slot key = { .parent = stack_of(s, ev->size), .name = ev->name.v, .file = (uint32_t)ev->addr,
				  .line = ev->aux, .kind = ev->flags };
	uint32_t at;

	if (ev->seq != s->stacks_cnt + 1)
		return 0; /* told again, or odd: the model would not take it either */
	if (!m->stacks) {
		m->stacks = calloc(STACK_SLOTS, sizeof(*m->stacks));
		if (!m->stacks)
			return -ENOMEM;
	}
	at = (uint32_t)hash_two((uint64_t)key.parent << 32 | key.name, (uint64_t)key.file << 32 | key.line) % STACK_SLOTS;
	for (; m->stacks[at].number; at = (at + 1) % STACK_SLOTS) {
		const struct stack_slot *o = &m->stacks[at];

		if (o->parent == key.parent && o->name == key.name && o->file == key.file && o->line == key.line &&
		    o->kind == key.kind)
			return stacks_add(s, o->number);
	}
	if (m->stacks_cnt == EV_STACKS_MAX) {
		m->sum.lost[MT_LOSS_STACKS]++;
		return stacks_add(s, 0);
	}
	key.number = ++m->stacks_cnt;
	m->stacks[at] = key;
	ev->seq = key.number;
	ev->size = key.parent;
	return stacks_add(s, key.number) < 0 ? -ENOMEM : 1;
}

/* --- counters ------------------------------------------------------------------------------------------------ */

/* From what it said before to what it says now; a counter that fell began anew. */
static uint64_t more(uint64_t *said, uint64_t now, bool is_base)
{
	uint64_t d = is_base || now < *said ? 0 : now - *said;

	*said = now;
	return d;
}

static int count_fired(struct merge *m, struct source *s, struct event *ev)
{
	size_t need = (size_t)ev->name.v + 1, cnt = need + 1024;
	uint64_t **lists[] = { &m->fired, &s->fired };
	size_t *lens[] = { &m->fired_cnt, &s->fired_cnt };

	for (size_t l = 0; l < 2; l++) {
		uint64_t *v;

		if (*lens[l] >= need)
			continue;
		v = reallocarray(*lists[l], cnt, sizeof(*v));
		if (!v)
			return -ENOMEM;
		memset(v + *lens[l], 0, (cnt - *lens[l]) * sizeof(*v));
		*lists[l] = v;
		*lens[l] = cnt;
	}
	m->fired[ev->name.v] += more(&s->fired[ev->name.v], ev->size, ev->flags == EV_F_BASE);
	ev->size = m->fired[ev->name.v];
	return 1;
}

/* 1: *ev is what all files together say; 0: nothing to say. */
static int count(struct merge *m, struct source *s, struct event *ev)
{
	bool is_base = ev->flags == EV_F_BASE;
	struct counters *sum = &m->sum, *said = &s->said;

	switch (ev->kind) {
	case EV_COST:
		if (ev->aux >= MERGE_AUX_MAX)
			return 0;
		ev->addr = sum->cost_hits[ev->aux] += more(&said->cost_hits[ev->aux], ev->addr, is_base);
		ev->size = sum->cost_ns[ev->aux] += more(&said->cost_ns[ev->aux], ev->size, is_base);
		break;
	case EV_LOSS:
		if (ev->aux >= MERGE_AUX_MAX)
			return 0;
		ev->size = sum->lost[ev->aux] += more(&said->lost[ev->aux], ev->size, false);
		return 1;
	case EV_SELF:
		sum->self_rss += ev->addr - said->self_rss;
		said->self_rss = ev->addr;
		ev->addr = sum->self_rss;
		ev->size = sum->self_cpu_ns += more(&said->self_cpu_ns, ev->size, is_base);
		break;
	case EV_IDLE: /* the operators are the same on each machine, or nearly */
		ev->size = sum->idle_ops = ev->size > sum->idle_ops ? ev->size : sum->idle_ops;
		ev->addr = sum->idle_probes += more(&said->idle_probes, ev->addr, false);
		return 1;
	case EV_OOM_KILL:
		ev->size = sum->oom_kills += more(&said->oom_kills, ev->size, !said->has_oom_kills);
		said->has_oom_kills = true;
		return 1;
	default:
		return count_fired(m, s, ev);
	}
	ev->flags = 0;
	return 1;
}

/* --- one event ---------------------------------------------------------------------------------------------------- */

/* Fields that hold ids of names beside `name`. */
int merge__names(struct merge *m, struct source *s, struct event *ev)
{
	uint32_t id;
	int r = name_of(m, s, ev->name.v, &ev->name.v);

	switch (ev->kind) {
	case EV_PROC:
	case EV_STACK:
		r = r ? r : name_of(m, s, (uint32_t)ev->addr, &id);
		ev->addr = r ? 0 : id;
		break;
	case EV_TENSOR:
		r = r ? r : name_of(m, s, ev->tid, &ev->tid);
		r = r ? r : name_of(m, s, ev->aux, &ev->aux);
		r = r ? r : name_of(m, s, ev->seq, &ev->seq);
		break;
	case EV_MODULE:
		r = r ? r : name_of(m, s, ev->tid, &ev->tid);
		r = r ? r : name_of(m, s, ev->seq, &ev->seq);
		break;
	case EV_WAS:
		r = r ? r : name_of(m, s, ev->aux & REGION_BITS, &id);
		ev->aux = r ? 0 : (ev->aux & ~REGION_BITS) | (id & REGION_BITS);
		break;
	default:
		break;
	}
	return r;
}

int merge__translate(struct merge *m, struct source *s, struct event *ev)
{
	int r;

	ev->ts_ns = s->next_ns;
	ev->pid = source__pid(s, ev->pid);
	if (ev->kind != EV_TENSOR && ev->kind != EV_MODULE) /* theirs is a name */
		ev->tid = source__pid(s, ev->tid);
	r = merge__names(m, s, ev);
	if (r < 0)
		return r;
	switch (ev->kind) {
	case EV_BEGIN:
	case EV_END:
	case EV_MACHINE:
		return 0;
	case EV_PROC:
		ev->aux = source__pid(s, ev->aux);
		return 1;
	case MT_EV_OOM_VICTIM:
		ev->addr = source__pid(s, (uint32_t)ev->addr);
		return 1;
	case EV_NVML: /* a device's own numbers: those of several machines would take turns */
		return ev->pid || m->machines_cnt == 1;
	case EV_STACK:
		return merge_stack(m, s, ev);
	case EV_STACK_AT:
		ev->size = stack_of(s, ev->size);
		return ev->size != 0;
	case EV_COST:
	case EV_LOSS:
	case EV_SELF:
	case EV_IDLE:
	case EV_OOM_KILL:
	case EV_FIRED:
		return count(m, s, ev);
	default:
		return 1;
	}
}

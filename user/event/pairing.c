/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "event/pairing.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/quota.h"

#define CHANGES_MIN 256u
#define PART 2 /* a process has half of what the others leave at most */
#define NO_NUMBER UINT64_MAX

struct change {
	uint64_t from; /* number of the first node */
	uint64_t module;
};

struct pair_thread {
	uint32_t pid, tid;
	uint64_t used;	       /* when last: the least recently used one is dropped */
	uint64_t forward_used; /* when it was last in a module's forward, outside of nodes; 0: never */
	uint64_t again_from;   /* number of the first node made by the last recomputation inside a node */
	bool has_node;	       /* was evaluated since then */
	struct change *changes; /* a ring, oldest at `at`, rising */
	uint32_t at, cnt, cap;
	uint64_t node_module; /* as reported last */
};

struct pairing {
	struct pair_thread threads[PAIRING_THREADS_MAX];
	size_t cnt;
	size_t last;
	size_t changes; /* that there is room for */
	uint64_t clock;
};

struct pairing *pairing__new(void)
{
	return calloc(1, sizeof(struct pairing));
}

void pairing__free(struct pairing *p)
{
	for (size_t i = 0; p && i < p->cnt; i++)
		free(p->threads[i].changes);
	free(p);
}

static void forget(struct pairing *p, size_t at)
{
	p->changes -= p->threads[at].cap;
	free(p->threads[at].changes);
	p->threads[at] = p->threads[--p->cnt];
}

void pairing__end(struct pairing *p, uint32_t pid)
{
	for (size_t i = 0; i < p->cnt;) {
		if (p->threads[i].pid == pid)
			forget(p, i);
		else
			i++;
	}
	p->last = 0;
}

static struct pair_thread *find(struct pairing *p, const struct event *ev)
{
	if (p->last < p->cnt && p->threads[p->last].tid == ev->tid && p->threads[p->last].pid == ev->pid)
		return &p->threads[p->last];
	for (size_t i = 0; i < p->cnt; i++)
		if (p->threads[i].tid == ev->tid && p->threads[i].pid == ev->pid)
			return &p->threads[p->last = i];
	return NULL;
}

static struct pair_thread *find_or_add(struct pairing *p, const struct event *ev)
{
	struct pair_thread *t = find(p, ev);
	size_t own = 0, oldest = 0;

	if (t)
		return t;
	for (size_t i = 0; i < p->cnt; i++) {
		if (p->threads[i].pid != ev->pid)
			continue;
		if (!own++ || p->threads[i].used < p->threads[oldest].used)
			oldest = i;
	}
	if (!quota_allows(own, p->cnt, PAIRING_THREADS_MAX, PART)) { /* one of its own is dropped; another's if it has none */
		for (size_t i = 1; i < p->cnt && !own; i++)
			if (p->threads[i].used < p->threads[oldest].used)
				oldest = i;
		forget(p, oldest);
	}
	p->last = p->cnt++;
	p->threads[p->last] = (struct pair_thread){ .pid = ev->pid, .tid = ev->tid };
	return &p->threads[p->last];
}

/* --- forward -------------------------------------------------------------------------------------------------- */

static struct change *change_at(const struct pair_thread *t, uint32_t i)
{
	return &t->changes[(t->at + i) & (t->cap - 1)];
}

static int make_room(struct pairing *p, struct pair_thread *t)
{
	uint32_t cap = t->cap ? t->cap * 2 : CHANGES_MIN;
	struct change *changes;
	size_t own = 0;

	if (t->cnt < t->cap)
		return 0;
	for (size_t i = 0; i < p->cnt; i++)
		own += p->threads[i].pid == t->pid ? p->threads[i].cap : 0;
	if (cap > PAIRING_CHANGES_MAX || !quota_allows(own + cap - t->cap, p->changes + cap - t->cap, PAIRING_ALL_MAX, PART))
		return -1;
	changes = calloc(cap, sizeof(*changes));
	if (!changes)
		return -1;
	p->changes += cap - t->cap;
	for (uint32_t i = 0; i < t->cnt; i++)
		changes[i] = *change_at(t, i);
	free(t->changes);
	t->changes = changes;
	t->at = 0;
	t->cap = cap;
	return 0;
}

static void add_change(struct pairing *p, struct pair_thread *t, uint64_t from, uint64_t module)
{
	struct change *last = t->cnt ? change_at(t, t->cnt - 1) : NULL;

	if (last && from < last->from) { /* numbers only rise: this is another counter */
		t->cnt = 0;
		last = NULL;
	}
	if (last && last->from == from) { /* no node was made meanwhile */
		last->module = module;
		return;
	}
	if (make_room(p, t)) {
		if (!t->cap)
			return;
		t->at = (t->at + 1) & (t->cap - 1);
		t->cnt--;
	}
	*change_at(t, t->cnt++) = (struct change){ from, module };
}

static void on_module(struct pairing *p, struct event *ev)
{
	struct pair_thread *t = find_or_add(p, ev);

	t->used = ++p->clock;
	if (ev->addr && !(ev->flags & MT_MODULE_IN_NODE)) {
		t->forward_used = p->clock;
	} else if (ev->addr && t->has_node) {
		t->again_from = ev->size;
		t->has_node = false;
	}
	if (ev->size)
		add_change(p, t, ev->size, ev->addr);
	ev->kind = EV_MODULE_AT;
	ev->flags &= MT_MODULE_NO_GRAD;
	ev->size = 0;
}

/* --- backward ------------------------------------------------------------------------------------------------- */

static uint64_t module_of(const struct pair_thread *t, uint64_t number)
{
	uint32_t low = 0, high = t->cnt; /* the first change after the number is in [low, high] */

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (change_at(t, mid)->from <= number)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? change_at(t, low - 1)->module : 0;
}

/* A GPU's, or one that only calls backward: the thread of the process that had a forward last. */
static const struct pair_thread *forward_thread(const struct pairing *p, const struct pair_thread *own)
{
	const struct pair_thread *best = NULL;

	for (size_t i = 0; i < p->cnt; i++)
		if (p->threads[i].pid == own->pid && p->threads[i].forward_used &&
		    (!best || p->threads[i].forward_used > best->forward_used))
			best = &p->threads[i];
	return best;
}

static uint64_t module_at(const struct pairing *p, const struct pair_thread *own, uint64_t number)
{
	const struct pair_thread *forward;
	uint64_t module = own->forward_used || number >= own->again_from ? module_of(own, number) : 0;

	if (module || own->forward_used)
		return module;
	forward = forward_thread(p, own);
	return forward ? module_of(forward, number) : 0;
}

int pairing__event(struct pairing *p, struct event *ev, struct event *ret_before)
{
	struct pair_thread *t;
	uint64_t number = ev->size, module;

	if (ev->kind == MT_EV_MODULE) {
		on_module(p, ev);
		return 0;
	}
	if (ev->kind != MT_EV_NODE)
		return 0;
	ev->size = 0;
	if (!number || number == NO_NUMBER)
		return 0;
	t = find_or_add(p, ev);
	t->used = ++p->clock;
	t->has_node = true;
	module = module_at(p, t, number);
	if (module == t->node_module)
		return 0;
	t->node_module = module;
	*ret_before = (struct event){ .ts_ns = ev->ts_ns, .kind = EV_MODULE_AT, .pid = ev->pid, .tid = ev->tid, .addr = module,
				      .depth = ev->depth, .flags = EV_MODULE_BACKWARD };
	return 1;
}

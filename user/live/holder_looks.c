/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#define LOG_MODULE "holding"
#include "live/holder_looks.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "live/looker.h"
#include "model/model.h"

_Static_assert(MODEL_GROWING_SETS <= PY_HELD_SETS, "a look has room for all");

int holder_looks__begin(struct holder_looks *h, const struct model *m, pid_t pid, struct look_job *j, uint64_t now_ns)
{
	if (now_ns < h->next_ns)
		return 0;
	h->next_ns = now_ns + HOLDING_ASK_NS;
	if (model__growing(m, (uint32_t)pid, &j->growing, &j->held_cnt) || !j->held_cnt) {
		holder_looks__drop(j);
		return 0;
	}
	j->held = calloc(j->held_cnt, sizeof(*j->held));
	if (!j->held) {
		holder_looks__drop(j);
		return 0;
	}
	for (size_t i = 0; i < j->held_cnt; i++)
		j->held[i] = (struct py_held){ j->growing[i].addr, j->growing[i].set };
	h->gap_ns = h->gap_ns ? h->gap_ns * 2 : HOLDING_ASK_NS;
	h->gap_ns = h->gap_ns < HOLDING_GAP_MAX_NS ? h->gap_ns : HOLDING_GAP_MAX_NS;
	h->next_ns = now_ns + h->gap_ns;
	return 1;
}

void holder_looks__drop(struct look_job *j)
{
	free(j->growing);
	free(j->held);
	j->growing = NULL;
	j->held = NULL;
	j->held_cnt = 0;
}

/* Most of the set belongs to no Python tensor: it was just allocated, or is about to be passed to C++. */
static int is_unseen(const struct look_job *j, uint32_t set)
{
	size_t cnt = 0;

	for (size_t i = 0; i < j->held_cnt; i++)
		cnt += j->growing[i].set == set;
	return j->holders[set].tensors < cnt / 4 || !j->holders[set].tensors;
}

/* The block of the set that was found, else any of them. */
static const struct model_growing *witness(const struct look_job *j, uint32_t set)
{
	const struct model_growing *any = NULL;

	for (size_t i = 0; i < j->held_cnt; i++) {
		if (j->growing[i].set != set)
			continue;
		if (j->growing[i].addr == j->holders[set].data)
			return &j->growing[i];
		any = any ? any : &j->growing[i];
	}
	return any;
}

void holder_looks__end(const struct look_job *j, const struct tell *tell)
{
	log_debug("process %d: %zu blocks looked for in %.1f ms", (int)j->pid, j->held_cnt, (double)j->held_ns / 1e6);
	for (uint32_t i = 0; i < MODEL_GROWING_SETS && !j->r; i++) {
		const struct py_holder *h = &j->holders[i];
		const struct model_growing *at = witness(j, i);
		struct event ev = { .kind = EV_HELD, .pid = (uint32_t)j->pid, .size = h->items,
				    .flags = is_unseen(j, i) ? EV_HELD_UNSEEN : 0 };

		if (!at)
			continue;
		log_debug("process %d, set %u: %" PRIu64 " tensors, %" PRIu64 " in %s '%s' %s", (int)j->pid, i, h->tensors,
			  h->items, h->kind, h->path, h->where);
		ev.addr = at->addr;
		ev.dev = at->dev;
		if (h->items) {
			ev.name = tell__name(tell, j->pid, h->path);
			ev.type = tell__name(tell, j->pid, h->kind);
			ev.key = tell__name(tell, j->pid, h->where);
		}
		tell__event(tell, ev);
	}
}

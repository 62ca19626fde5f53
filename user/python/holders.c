/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "python/holders.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "python/gc.h"
#include "python/holders_edges.h"
#include "python/walk.h"

#define LEVELS_MAX 3	      /* containers of containers of tensors */
#define FOUND_MAX 200000u     /* tensors, or containers, of one turn */

/* An object that is looked for, and its set: a tensor, then a container of one. */
struct held {
	uint64_t obj;
	uint32_t set;
};

struct best {
	uint64_t obj, items;
};

struct search {
	struct hunt hunt;
	struct py_torch *torch;
	const struct py_held *v;
	size_t cnt;
	struct map found; /* struct held */
	struct map next;  /* the same: containers of some of them */
	struct best best[PY_HELD_SETS];
	struct py_holder *ret;
	/* of the object that is looked at */
	uint64_t obj, has[PY_HELD_SETS];
};

/* --- the tensors ------------------------------------------------------------------------------------------------- */

static const struct py_held *held_at(const struct search *s, uint64_t data)
{
	size_t low = 0, high = s->cnt;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->v[mid].data < data)
			low = mid + 1;
		else
			high = mid;
	}
	return low < s->cnt && s->v[low].data == data && s->v[low].set < PY_HELD_SETS ? &s->v[low] : NULL;
}

static int keep(struct map *m, uint64_t obj, uint32_t set)
{
	struct held *h = m->cnt < FOUND_MAX || map__find(m, obj) ? map__put(m, obj) : NULL;

	if (h)
		h->set = set;
	return h || m->cnt >= FOUND_MAX ? 0 : -ENOMEM;
}

static int take_tensor(void *ctx, uint64_t obj, const struct py_type *type)
{
	struct search *s = ctx;
	const struct py_held *held;
	struct py_storage at;

	if (!(type->bases >> WALK_TENSOR & 1) || py_torch__of_object(s->torch, s->hunt.p, obj, &at))
		return 0;
	held = held_at(s, at.data);
	if (!held || map__find(&s->found, obj))
		return 0;
	s->ret[held->set].tensors++;
	s->ret[held->set].data = at.data;
	return keep(&s->found, obj, held->set);
}

/* --- the container of most of them ------------------------------------------------------------------------------------- */

static int count_edge(void *ctx, const struct py_edge *e)
{
	struct search *s = ctx;
	const struct held *h = map__find(&s->found, e->to);

	if (h)
		s->has[h->set]++;
	return 0;
}

static int count_object(void *ctx, uint64_t obj, const struct py_type *type)
{
	struct search *s = ctx;
	enum holds kind = hunt__kind(&s->hunt, type);
	int r = 0;

	if (kind < HOLDS_MANY)
		return 0;
	memset(s->has, 0, sizeof(s->has));
	s->obj = obj;
	r = hunt__each_edge(&s->hunt, obj, kind, count_edge, s);
	for (uint32_t i = 0; i < PY_HELD_SETS && r != -ENOMEM; i++) {
		if (!s->has[i])
			continue;
		if (s->has[i] > s->best[i].items)
			s->best[i] = (struct best){ obj, s->has[i] };
		r = keep(&s->next, obj, i);
	}
	return r == -ENOMEM ? r : 0;
}

static uint64_t cnt_of(const struct map *found, uint32_t set)
{
	uint64_t cnt = 0;

	for (uint32_t i = 0; i < found->cnt; i++)
		cnt += ((const struct held *)map__at(found, i))->set == set;
	return cnt;
}

/* The container of a quarter of them; if there is none, the container of those that have one each. */
static int find_containers(struct search *s)
{
	uint32_t open = 0;
	int r = 0;

	for (uint32_t i = 0; i < PY_HELD_SETS; i++)
		open |= (uint32_t)(s->ret[i].tensors != 0) << i;
	for (unsigned level = 0; level < LEVELS_MAX && open && !r; level++) {
		struct best sure[PY_HELD_SETS];
		struct gc_found all;
		struct map was;

		memcpy(sure, s->best, sizeof(sure));
		memset(s->best, 0, sizeof(s->best));
		map__clear(&s->next);
		py__fresh(s->hunt.p);
		r = gc__each(s->hunt.p, count_object, s, &all);
		for (uint32_t i = 0; i < PY_HELD_SETS; i++) {
			uint64_t cnt = cnt_of(&s->found, i);

			if (open >> i & 1 && s->best[i].items >= PY_HELD_LEAST && s->best[i].items >= cnt / 4)
				open &= ~(1u << i);
			else
				s->best[i] = sure[i];
		}
		was = s->found;
		s->found = s->next;
		s->next = was;
	}
	for (uint32_t i = 0; i < PY_HELD_SETS; i++)
		if (open >> i & 1)
			s->best[i].obj = 0;
	return r;
}

/* --- all of it ----------------------------------------------------------------------------------------------------------- */

static int name_container(struct search *s, uint32_t set)
{
	struct py_holder *h = &s->ret[set];

	for (uint32_t i = 0; i < set; i++)
		if (s->best[i].obj == s->best[set].obj) {
			strcpy(h->kind, s->ret[i].kind);
			strcpy(h->path, s->ret[i].path);
			strcpy(h->where, s->ret[i].where);
			return 0;
		}
	return hunt__name(&s->hunt, s->best[set].obj, h);
}

int py_holders__find(struct py *p, struct py_torch *t, const struct py_frame_offsets *at, const struct py_held *v, size_t cnt,
		     struct py_holder ret[PY_HELD_SETS])
{
	struct search s = { .torch = t, .v = v, .cnt = cnt, .found = MAP_OF(struct held), .next = MAP_OF(struct held),
			    .ret = ret };
	struct gc_found all;
	int r;

	memset(ret, 0, PY_HELD_SETS * sizeof(*ret));
	hunt__init(&s.hunt, p, at);
	r = gc__each(p, take_tensor, &s, &all);
	r = r ? r : find_containers(&s);
	for (uint32_t i = 0; i < PY_HELD_SETS && !r; i++) {
		if (!s.best[i].obj)
			continue;
		r = name_container(&s, i);
		ret[i].items = r ? 0 : s.best[i].items;
	}
	hunt__done(&s.hunt);
	map__done(&s.found);
	map__done(&s.next);
	return r;
}

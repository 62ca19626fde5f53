/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/core/compiles.h"

#include <stdlib.h>
#include <string.h>

#include "event/packed.h"

void compiles__done(struct compiles *c)
{
	free(c->v);
	*c = (struct compiles){ 0 };
}

static void add(uint64_t *sum, uint64_t more)
{
	if (__builtin_add_overflow(*sum, more, sum))
		*sum = UINT64_MAX;
}

/* The i-th from the last one back; NULL before the first that is kept. */
static struct compiled *back(const struct compiles *c, uint64_t i)
{
	return i < c->cnt && i < COMPILES_MAX ? &c->v[(c->cnt - 1 - i) % COMPILES_MAX] : NULL;
}

/* "0/" of "0/1": bytes. */
static size_t frame_len(const char *id)
{
	const char *slash = strrchr(id, '/');

	return slash ? (size_t)(slash - id) + 1 : 0;
}

/* torch reports no function if it made no code: then it is that of its frame. */
static name_id function_of(const struct compiles *c, const struct names *names, const struct event *ev)
{
	const char *id = names__get(names, ev->root);
	size_t len = frame_len(id);
	const struct compiled *k;

	for (uint64_t i = 0; !ev->key.v && len && (k = back(c, i)); i++) {
		const char *other = names__get(names, k->id);

		if (k->pid == ev->pid && k->function.v && frame_len(other) == len && !strncmp(id, other, len))
			return k->function;
	}
	return ev->key;
}

static struct compiled *forward_of(const struct compiles *c, const struct event *ev)
{
	struct compiled *k;

	for (uint64_t i = 0; (k = back(c, i)); i++)
		if (k->pid == ev->pid && k->id.v == ev->root.v)
			return k;
	return NULL;
}

static void put_bytes(struct compiles *c, struct compiled *k, const struct lately_at *at)
{
	uint64_t added = at ? at->peak - at->live : 0;

	if (!at)
		return;
	if (!k->knows_bytes || added > k->added) {
		k->added = added;
		k->live = at->live;
	}
	k->knows_bytes = true;
	if (k->again && k->added > c->added)
		c->added = k->added;
}

static struct compiled *forward(struct compiles *c, const struct names *names, const struct event *ev, uint64_t begin_ns)
{
	struct compiled new = { .begin_ns = begin_ns, .pid = ev->pid, .id = ev->root, .reason = ev->name, .failed = ev->type,
				.again = ev->flags & EV_COMPILED_AGAIN };

	if (!c->v)
		c->v = calloc(COMPILES_MAX, sizeof(*c->v));
	if (!c->v)
		return NULL;
	new.function = function_of(c, names, ev);
	c->v[c->cnt++ % COMPILES_MAX] = new;
	return back(c, 0);
}

const struct compiled *compiles__reported(struct compiles *c, const struct names *names, const struct event *ev,
					   uint64_t start_ns, const struct lately_at *at)
{
	uint64_t begin_ns = event_began_ns(ev);
	bool is_backward = ev->flags & EV_COMPILED_BACKWARD, before = begin_ns < start_ns;
	struct compiled *k;

	if (ev->flags & EV_COMPILED_MISSED) {
		add(&c->missed, ev->size);
		return NULL;
	}
	add(&c->ns, before ? 0 : ev->took_ns);
	k = is_backward ? forward_of(c, ev) : forward(c, names, ev, begin_ns);
	if (!k)
		return NULL;
	add(&k->ns, ev->took_ns);
	if (!is_backward) {
		k->own_ns = ev->took_ns;
		k->before = before;
		k->step = at ? at->step : 0;
		c->cnt_before += before;
		c->again += k->again && !before;
		c->again_before += k->again && before;
	}
	add(&c->again_ns, k->again && !before ? ev->size : 0);
	put_bytes(c, k, at);
	return k;
}

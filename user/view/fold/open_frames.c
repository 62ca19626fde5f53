/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/open_frames.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/index.h"
#include "base/seed.h"
#include "event/event.h"

/* In the order in which they came; none is ever removed. */
struct open_frames {
	struct open_thread **threads;
	uint32_t cnt, cap;
	struct index by_tid;
	struct open_thread *last;
};

struct open_frames *open_frames__new(void)
{
	return calloc(1, sizeof(struct open_frames));
}

void open_frames__free(struct open_frames *o)
{
	if (!o)
		return;
	for (uint32_t i = 0; i < o->cnt; i++)
		free(o->threads[i]);
	index__done(&o->by_tid);
	free(o->threads);
	free(o);
}

struct open_thread *open_frames__thread(struct open_frames *o, uint32_t pid, uint32_t tid, int *ret_new)
{
	uint64_t hash = hash_u64((uint64_t)pid << 32 | tid);
	struct open_thread *t = o->last;
	uint32_t at;

	*ret_new = 0;
	if (t && t->tid == tid && t->pid == pid)
		return t;
	at = index_find(&o->by_tid, hash, i, o->threads[i]->tid == tid && o->threads[i]->pid == pid);
	if (at != INDEX_NONE)
		return o->last = o->threads[at];
	t = calloc(1, sizeof(*t));
	if (!t || o->cnt >= OPEN_THREADS_MAX || !array_has_room(o->threads, o->cnt, o->cap, 64) ||
	    index__add(&o->by_tid, hash, o->cnt) < 0) {
		free(t);
		return NULL;
	}
	t->pid = pid;
	t->tid = tid;
	o->threads[o->cnt++] = t;
	*ret_new = 1;
	return o->last = t;
}

struct open_thread *open_frames__next(const struct open_frames *o, uint32_t *pos)
{
	return *pos < o->cnt ? o->threads[(*pos)++] : NULL;
}

/* --- one thread --------------------------------------------------------------------------------------- */

static void open_made__add(struct open_made *to, const struct open_made *m)
{
	to->bytes += m->bytes;
	if (!to->has_phase) {
		to->phase = m->phase;
		to->has_phase = m->has_phase;
	}
	if (to->root.v)
		return;
	to->module = m->module;
	to->root = m->root;
}

void open_thread__allocated(struct open_thread *t, const struct tl_event *ev)
{
	const struct open_made made = { .bytes = ev->size, .module = ev->module, .root = ev->root, .phase = ev->phase,
					.has_phase = 1 };

	if (t->cnt && ev->dev != MT_DEV_HOST) /* malloc's hold those of tensors */
		open_made__add(&t->open[t->cnt - 1].made, &made);
}

uint32_t open_thread__staying(const struct open_thread *t, unsigned depth)
{
	uint32_t keep = t->cnt;

	while (keep) {
		const struct open_frame *f = &t->open[keep - 1];

		if (f->kind == OPEN_REGION ? f->depth <= depth : f->depth < depth)
			break;
		keep--;
	}
	return keep;
}

int open_thread__push(struct open_thread *t, const struct tl_event *ev, enum open_kind kind, uint64_t value)
{
	if (t->cnt == OPEN_DEPTH_MAX)
		return -1;
	t->open[t->cnt++] = (struct open_frame){ .ts_ns = ev->ts_ns, .value = value, .depth = ev->depth,
						 .kind = kind };
	return 0;
}

const struct open_frame *open_thread__pop(struct open_thread *t)
{
	const struct open_frame *over = &t->open[--t->cnt];

	if (t->cnt)
		open_made__add(&t->open[t->cnt - 1].made, &over->made);
	return over;
}

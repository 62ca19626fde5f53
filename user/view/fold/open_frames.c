/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/open_frames.h"

#include <stdlib.h>

#include "base/seed.h"
#include "event/event.h"

/* Open addressing, at most half full; nothing is ever removed. */
struct open_frames {
	struct open_thread **slots;
	uint32_t slots_cnt, cnt;
	struct open_thread *last;
};

struct open_frames *open_frames__new(void)
{
	struct open_frames *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->slots_cnt = 64;
	o->slots = calloc(o->slots_cnt, sizeof(struct open_thread *));
	if (o->slots)
		return o;
	free(o);
	return NULL;
}

void open_frames__free(struct open_frames *o)
{
	if (!o)
		return;
	for (uint32_t i = 0; i < o->slots_cnt; i++)
		free(o->slots[i]);
	free(o->slots);
	free(o);
}

static struct open_thread **open_frames__slot(const struct open_frames *o, uint32_t pid, uint32_t tid)
{
	uint32_t at = (uint32_t)hash_u64((uint64_t)pid << 32 | tid) & (o->slots_cnt - 1);

	while (o->slots[at] && (o->slots[at]->tid != tid || o->slots[at]->pid != pid))
		at = (at + 1) & (o->slots_cnt - 1);
	return &o->slots[at];
}

static int open_frames__grow(struct open_frames *o)
{
	struct open_thread **old = o->slots;
	uint32_t cnt = o->slots_cnt;

	if (2 * (o->cnt + 1) <= cnt)
		return 0;
	o->slots = calloc(2 * (size_t)cnt, sizeof(struct open_thread *));
	if (!o->slots) {
		o->slots = old;
		return -1;
	}
	o->slots_cnt = 2 * cnt;
	for (uint32_t i = 0; i < cnt; i++)
		if (old[i])
			*open_frames__slot(o, old[i]->pid, old[i]->tid) = old[i];
	free(old);
	return 0;
}

struct open_thread *open_frames__thread(struct open_frames *o, uint32_t pid, uint32_t tid, int *ret_new)
{
	struct open_thread **slot, *t = o->last;

	*ret_new = 0;
	if (t && t->tid == tid && t->pid == pid)
		return t;
	slot = open_frames__slot(o, pid, tid);
	if (*slot)
		return o->last = *slot;
	if (o->cnt >= OPEN_THREADS_MAX || open_frames__grow(o) || !(t = calloc(1, sizeof(*t))))
		return NULL;
	t->pid = pid;
	t->tid = tid;
	*open_frames__slot(o, pid, tid) = t;
	o->cnt++;
	*ret_new = 1;
	return o->last = t;
}

struct open_thread *open_frames__next(const struct open_frames *o, uint32_t *pos)
{
	while (*pos < o->slots_cnt) {
		struct open_thread *t = o->slots[(*pos)++];

		if (t)
			return t;
	}
	return NULL;
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

void open_thread__born(struct open_thread *t, const struct tl_event *ev)
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

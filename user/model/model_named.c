/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Which block a name is of. A name was read some milliseconds before it is reported, from memory that the job
 * changes meanwhile: it holds for the block at that address only if that one was allocated before the reading began
 * and has the size that was read.
 *
 * A storage from before the attach has no block until an operator is given it, or its name comes. By its name it is seen late
 * if its end will be seen, too: torch's allocators gave it out, and their probes were set before the look began; nothing was
 * freed at its address since then, and no other block lies there. Else the name waits, and is dropped as soon as anything is
 * allocated or freed there. A name from before the probes is reported again by the next look (model__tensor_at does not know
 * it), as is one where another block lies, and one whose address was freed, which is not kept at all.
 *
 * A forked child has its parent's objects, and so their names. A block that the parent has or had at that address is the
 * parent's: the child shares the pages (a loader's worker has the whole model). It counts only there, unless an operator of the
 * child is given it.
 */
#include <errno.h>

#include "event/event.h"
#include "model/model_blocks.h"
#include "model/model_tensors.h"
#include "model/state.h"

static name_id id_of(uint32_t v)
{
	return (name_id){ v < NAMES_MAX ? v : 0 };
}

static struct tensor name_of(const struct event *ev)
{
	return (struct tensor){ .path = id_of(ev->name.v), .root = id_of(ev->root.v), .type = id_of(ev->type.v),
				.key = id_of(ev->key.v), .size = ev->size, .kind = ev->flags & EV_TENSOR_KIND,
				.bits = ev->flags & EV_TENSOR_BITS };
}

void model__tensor_of(struct model *m, const struct event *ev)
{
	tensors__of(&m->tensors, ev->pid, ev->addr, id_of(ev->name.v));
}

/* All that happens to tensors was seen since the look began. */
static bool is_covered(const struct model *m, const struct proc *p, uint64_t age_ns)
{
	return m->graph && p && !p->gone && p->covered_ns && p->covered_ns + age_ns <= m->now_ns;
}

/* Something was freed there since the look began, as far as that was seen. */
static bool is_old(const struct model *m, const struct proc *p, const struct event *ev, uint64_t age_ns)
{
	return p && p->covered_ns && freed__since(&m->freed, ev->pid, ev->addr, m->now_ns > age_ns ? m->now_ns - age_ns : 0);
}

enum { ANCESTORS = 8 };

/*
 * A parent's, inherited by a fork: known if the fork was seen, else from what lies or lay at that address. The latter is a
 * guess that is wrong more often the more was freed (core/freed.h): not made for a rank's launcher, which has another command
 * line.
 */
static bool is_inherited(const struct model *m, const struct proc *p, const struct event *ev)
{
	const struct proc *parent = procs__find(&m->procs, p->ppid);
	bool is_fork = p->how == EV_PROC_FORKED;
	const struct block *b;

	for (unsigned i = 0; i < ANCESTORS && parent && !parent->gone; i++) {
		b = model__block_at(m, &(struct event){ .pid = parent->pid, .addr = ev->addr });
		if (is_fork || (b && model__name_fits(b, ev->size)) || tensors__find(&m->tensors, parent->pid, ev->addr) ||
		    (p->cmdline.v == parent->cmdline.v && freed__since(&m->freed, parent->pid, ev->addr, 0)))
			return true;
		parent = procs__find(&m->procs, parent->ppid);
	}
	return false;
}

static void wait(struct model *m, const struct event *ev, const struct tensor *name)
{
	struct tensor *t = tensors__put(&m->tensors, ev->pid, ev->addr), key;

	if (!t) {
		m->lost[MT_LOSS_NAMES]++;
		return;
	}
	key = *t;
	*t = *name;
	t->a = key.a;
	t->b = key.b;
}

/* Its name was found by a look that began when all probes were set: the block is live. */
static void confirm(const struct model *m, struct block *b, uint64_t seen_ns)
{
	const struct sampler *s = model__sampler(m, b->pid);

	if (s && s->state >= EV_LEVEL_ARMED && seen_ns >= s->set_ns)
		b->carried = 0;
}

void model__tensor(struct model *m, const struct event *ev)
{
	uint64_t age_ns = (uint64_t)ev->depth * EV_TENSOR_AGE_NS;
	struct proc *p = procs__find(&m->procs, ev->pid);
	struct tensor name = name_of(ev);
	struct block *b;

	name.of = tensors__take_of(&m->tensors, ev->pid, ev->addr);
	if (!ev->pid || !ev->addr || !name.kind || name.kind >= EV_TENSOR_MAX || !name.path.v || (p && p->gone == 1))
		return;
	b = model__block_at(m, ev);
	if (b && b->carried && model__name_fits(b, ev->size))
		confirm(m, b, m->now_ns > age_ns ? m->now_ns - age_ns : 0);
	if (b) {
		if (model__name_fits(b, ev->size) && (b->late || b->allocated_ts_ns + age_ns < m->now_ns))
			model__name_block(m, b, &name);
		return;
	}
	if (is_old(m, p, ev, age_ns))
		return;
	name.early = !is_covered(m, p, age_ns);
	if (!name.early && name.bits & EV_TENSOR_OWN && !is_inherited(m, p, ev)) {
		b = model__late_by_name(m, p, ev);
		name.early = !b; /* another block lies there, which may be one whose end was missed */
	}
	if (b)
		model__name_block(m, b, &name);
	else
		wait(m, ev, &name);
}

int model__tensor_at(const struct model *m, uint32_t pid, uint64_t addr, uint64_t bytes, struct tensor *ret)
{
	const struct block *b = model__block_at(m, &(struct event){ .pid = pid, .addr = addr });
	const struct tensor *t = b ? tensors__find(&m->tensors, 0, b->id) : tensors__find(&m->tensors, pid, addr);

	if (b && !model__name_fits(b, bytes))
		return -ENOENT;
	if (!t || (b && b->carried) || (!b && t->early && is_covered(m, procs__find(&m->procs, pid), 0)))
		return 0;
	*ret = *t;
	return 1;
}

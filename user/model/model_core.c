/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Functions that all files of the model use: reporting to the timeline; the thread, process, device and block of an event. */
#include "model/segments/gpu.h"
#include "model/state.h"

/* --- reporting to the timeline ------------------------------------------------------------------- */

void model__tell(struct model *m, const struct tl_event *tl)
{
	if (m->timeline && !m->timeline_err)
		m->timeline_err = m->timeline(m->timeline_ctx, tl);
}

struct tl_learned model__learned_words(const struct model *m, const struct learned_what *what)
{
	return (struct tl_learned){ .op = m->ops.rows[what->op].name, .region = m->regions.rows[what->region].name,
				    .module = m->modules.rows[what->module].path, .root = m->modules.rows[what->module].root,
				    .cat = what->cat, .phase = what->phase };
}

static bool model__learned_of(const struct model *m, const struct block *b, struct tl_learned *ret)
{
	const struct proc *p = b->unlisted ? NULL : procs__find(&m->procs, b->pid);
	const struct learned_what *what = p && p->learned ? learned__find(p->learned, b->id) : NULL;

	if (what)
		*ret = model__learned_words(m, what);
	return what != NULL;
}

void model__tell_block(struct model *m, uint8_t kind, const struct block *b, uint32_t ver,
			      uint32_t tid, uint8_t depth, uint32_t stack)
{
	const struct module_row *module;
	struct tl_learned learned;
	struct tl_event tl;

	if (!m->timeline)
		return;
	module = &m->modules.rows[b->module];
	tl = (struct tl_event){
		.ts_ns = m->now_ns, .kind = kind, .ptr = b->ptr, .size = b->size, .id = b->id,
		.pid = b->pid, .tid = tid, .op = m->ops.rows[b->op].name,
		.region = m->regions.rows[b->region].name, .dev = (uint8_t)b->dev,
		.version = ver, .cat = (uint8_t)b->cat, .depth = depth,
		.stack = stack,
		.module = module->path, .root = module->root, .module_number = module->reported ? 0 : b->module,
		.phase = b->phase,
	};
	if (m->learned && (kind == TL_CREATE || kind == TL_DESTROY) && model__learned_of(m, b, &learned))
		tl.learned = &learned;
	tl.has_stream = gpu__stream_of(m->gpu, b, &tl.stream);
	model__tell(m, &tl);
}

void model__tell_name(struct model *m, const struct block *b, const struct tensor *t)
{
	struct tl_event tl = { .ts_ns = m->now_ns, .kind = TL_NAME, .ptr = b->ptr, .size = b->size, .id = b->id, .pid = b->pid,
			       .tid = b->tid, .dev = (uint8_t)b->dev, .cat = (uint8_t)b->cat, .op = t->path, .region = t->root,
			       .type = t->type, .key = t->key, .depth = t->kind };

	if (m->timeline_nodes)
		model__tell(m, &tl);
}

void model__tell_totals(struct model *m, const struct event *ev)
{
	struct tl_event tl = model__tl_of(m, ev, TL_TOTALS);

	tl.ptr = ev->addr;
	tl.size = ev->size;
	if (m->timeline_ops)
		model__tell(m, &tl);
}

/* --- an event's thread, process, device, block ---------------------------------------------------- */

static bool dev_valid(uint8_t dev)
{
	return dev == MT_DEV_CPU || dev == MT_DEV_HOST ||
	       dev_is_gpu(dev);
}

struct device *model__add_device(struct model *m, uint8_t dev)
{
	struct device *d;

	if (!dev_valid(dev)) {
		m->lost[MT_LOSS_DECODE]++;
		return NULL;
	}
	d = device__new(dev, m->devs_cnt, m->start_ts_ns, &m->gaps);
	if (!d || tally__add_dev(&m->ops, m->devs_cnt) < 0 ||
	    tally__add_dev(&m->regions, m->devs_cnt) < 0 || tally__add_dev(&m->stacks.tally, m->devs_cnt) < 0 ||
	    tally__add_dev(&m->modules.tally, m->devs_cnt) < 0 || tally__add_dev(&m->modules.held, m->devs_cnt) < 0) {
		device__free(d);
		m->lost[MT_LOSS_BLOCKS]++;
		return NULL;
	}
	if (m->steps_made.open_ts_ns) /* nothing lived on it when the step began */
		d->sampled.high = 0;
	m->devs[m->devs_cnt++] = d;
	m->dev_idx[dev] = (uint8_t)m->devs_cnt;
	return d;
}

struct thread *model__find_thread(struct model *m, const struct event *ev)
{
	bool lost = false, full = false;
	struct proc *p = procs__get(&m->procs, ev->pid, &full);
	struct thread *t;

	if (p->gone == 1)
		return NULL;
	t = threads__get(m->threads, ev->pid, ev->tid, &lost);
	if (!t) {
		lost = true;
		m->spare = (struct thread){ .pid = ev->pid, .tid = ev->tid, .num = THREADS_MAX };
		t = &m->spare;
	}
	m->lost[MT_LOSS_THREADS] += lost + full;
	t->proc = p;
	/* Without a row of its own the process may get one later: look again each time. */
	m->last = p->listed && t != &m->spare ? t : NULL;
	return t;
}

struct proc *model__proc_of(struct model *m, const struct event *ev)
{
	struct proc *p = procs__get(&m->procs, ev->pid, NULL);

	return p->gone == 1 ? NULL : p;
}

/* A framework block at an address, whatever its device. */
struct block *model__block_at(const struct model *m, const struct event *ev)
{
	for (size_t i = 0; i < m->devs_cnt; i++) {
		uint8_t dev = m->devs[i]->dev;
		struct block *b = dev_is_host(dev) ? NULL : blocks__find(m->blocks, ev->pid, dev, ev->addr);

		if (b)
			return b;
	}
	return NULL;
}

/* Sums of what is live must not wrap, whatever sizes a target makes up. */
bool model__plausible(struct model *m, const struct device *d, const struct event *ev)
{
	if (__builtin_expect(ev->size <= LIVE_MAX - d->live, 1))
		return true;
	m->lost[MT_LOSS_DECODE]++;
	return false;
}

/* --- levels --------------------------------------------------------------------------------------------- */

struct sampler *model__sampler(const struct model *m, uint32_t pid)
{
	for (size_t i = 0; i < m->levels.cnt; i++)
		if (m->levels.samplers[i].machine == machine_of(pid))
			return &m->levels.samplers[i];
	return NULL;
}

bool model__is_blind(const struct model *m, uint32_t pid)
{
	const struct sampler *s = m->levels.cnt ? model__sampler(m, pid) : NULL;

	return s && s->state < EV_LEVEL_FIRST;
}

/* Time passes in gaps, too, so all is counted where all is seen. */
static bool model__goes_by_time(const struct model *m, uint32_t pid)
{
	const struct proc *p = procs__find(&m->procs, pid);

	return p && p->clock.kind == GROWTH_BY_TIME;
}

bool model__sees_growth(const struct model *m, uint32_t pid, bool is_boundary)
{
	const struct sampler *s = m->levels.cnt ? model__sampler(m, pid) : NULL;

	if (!s)
		return true;
	if (!s->rests_blind && model__goes_by_time(m, pid))
		return true;
	if (is_boundary)
		return s->state == EV_LEVEL_TRACED || (s->state == EV_LEVEL_TAIL && s->since_ns == m->now_ns);
	return s->state == EV_LEVEL_FIRST || s->state == EV_LEVEL_TRACED;
}

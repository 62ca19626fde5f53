/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Post-mortems: the state when memory was refused for good, or when a process was killed.
 * REPORT_OOMS_MAX are kept, the last ones of the most important kind: workers that are terminated at a job's end, and
 * those that are killed with it, do not displace the cause.
 *
 * A driver's call that failed for want of memory counts as a refusal unless the same thread then gets as much:
 * an allocator has freed its cache and tried again. Failures of one thread within a moment (the driver's,
 * the allocator's report of it, a handler that tries again) are one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "model/segments/gpu.h"
#include "model/model_modules.h"
#include "model/model_oom.h"
#include "model/model_tensors.h"
#include "model/reports.h"
#include "model/state.h"
#include "timeline/report.h"

#define MOMENT_NS 10000000ull
#define KILL_NS 2500000000ull /* counters of the kernel are read once a second */
#define CODE_NO_MEMORY 2      /* of CUDA's runtime, its driver and HIP alike */

struct oom {
	uint8_t kind, dev;
	bool killed; /* by the kernel's OOM killer: its mark was seen, or it killed a process then */
	bool marked;
	bool open; /* a failure that may still be made good by a second try */
	uint64_t ts_ns, asked, failed_bytes, times;
	uint32_t pid, tid, code, status;
	name_id comm, op, region, api;
	uint32_t module; /* row; 0: none, or not known */
	enum phase phase; /* … of it */
	uint64_t live, allocated, reserved, unused, private_free, largest_free, driver;
	uint64_t cats[CAT_MAX];
	struct {
		uint32_t row;
		uint64_t live;
	} ops[REPORT_OOM_OPS];
	size_t ops_cnt;
	struct peak_freed blocks[REPORT_OOM_BLOCKS]; /* a heap, sorted for the report */
	size_t blocks_cnt;
	struct report_seg_row segs[REPORT_OOM_SEGS];
	size_t segs_cnt;
	uint64_t rss[MT_RSS_KINDS], rss_total;
};

struct oom_log {
	struct oom v[REPORT_OOMS_MAX]; /* oldest first */
	size_t cnt;
	uint64_t total;
	uint64_t kills, kill_ts_ns; /* processes taken by the kernel's OOM killer; when that grew */
	bool kills_reported;
	bool victims_reported; /* each has a mark: without one it was not the OOM killer */
};

static struct oom_log *model__log(struct model *m)
{
	if (!m->ooms)
		m->ooms = calloc(1, sizeof(*m->ooms));
	if (!m->ooms)
		m->lost[MT_LOSS_BLOCKS]++;
	return m->ooms;
}

static void oom_log__remove(struct oom_log *l, size_t i)
{
	memmove(&l->v[i], &l->v[i + 1], (l->cnt - i - 1) * sizeof(l->v[0]));
	l->cnt--;
}

enum weight { WEIGHS_SENT_AWAY, WEIGHS_DEATH, WEIGHS_MEMORY };

static enum weight oom__weight(const struct oom *o)
{
	if (o->kind != OOM_DEATH || o->killed)
		return WEIGHS_MEMORY;
	return signal_sends_away(WTERMSIG((int)o->status)) ? WEIGHS_SENT_AWAY : WEIGHS_DEATH;
}

/* NULL: all that are kept are more important than a terminated process. */
static struct oom *oom_log__add(struct oom_log *l, const struct oom *o)
{
	size_t i = 0;

	l->total++;
	if (l->cnt == REPORT_OOMS_MAX) {
		for (size_t k = 1; k < l->cnt; k++)
			if (oom__weight(&l->v[k]) < oom__weight(&l->v[i]))
				i = k;
		if (oom__weight(o) == WEIGHS_SENT_AWAY && oom__weight(&l->v[i]) > WEIGHS_SENT_AWAY)
			return NULL;
		oom_log__remove(l, i);
	}
	l->v[l->cnt] = *o;
	return &l->v[l->cnt++];
}

/* --- the composition ------------------------------------------------------------------------------------- */

static bool oom__counts(const struct oom *o, const struct model *m, const struct block *b)
{
	if (b->pid != o->pid)
		return false;
	if (o->kind == OOM_DEVICE)
		return b->dev == o->dev;
	if (o->kind == OOM_HOST && o->dev == MT_DEV_HOST)
		return dev_is_host((uint8_t)b->dev) == model__counts_host(m);
	if (o->kind == OOM_HOST)
		return b->dev == o->dev;
	return dev_is_host((uint8_t)b->dev) == model__counts_host(m);
}

static void oom__add_op(struct oom *o, uint32_t row, uint64_t live)
{
	size_t i = o->ops_cnt;

	if (i == REPORT_OOM_OPS && o->ops[i - 1].live >= live)
		return;
	if (i < REPORT_OOM_OPS)
		o->ops_cnt++;
	else
		i--;
	for (; i && o->ops[i - 1].live < live; i--)
		o->ops[i] = o->ops[i - 1];
	o->ops[i].row = row;
	o->ops[i].live = live;
}

static void oom__count_blocks(struct oom *o, struct model *m)
{
	uint64_t *by_op = calloc(m->ops.cnt, sizeof(*by_op));
	struct peak_freed with_name;
	const struct block *b;
	size_t pos = 0;

	o->ops_cnt = o->blocks_cnt = 0;
	o->live = 0;
	memset(o->cats, 0, sizeof(o->cats));
	while ((b = blocks__next(m->blocks, &pos))) {
		if (!oom__counts(o, m, b))
			continue;
		o->live += b->size;
		o->cats[b->cat] += b->size;
		if (by_op)
			by_op[tally__shown(&m->ops, (uint32_t)b->op)] += b->size;
		with_name = model__with_name(m, b);
		freed_heap__push(o->blocks, &o->blocks_cnt, REPORT_OOM_BLOCKS, &with_name);
	}
	for (uint32_t row = 0; by_op && row < m->ops.cnt; row++)
		if (by_op[row])
			oom__add_op(o, row, by_op[row]);
	if (!by_op)
		m->lost[MT_LOSS_BLOCKS]++;
	free(by_op);
}

static void oom__take_segments(struct oom *o, struct model *m)
{
	struct report_seg_row *rows = NULL;

	o->segs_cnt = 0;
	if (model__gpu_rows(m, o->pid, o->dev, REPORT_OOM_SEGS, &rows, &o->segs_cnt) < 0)
		m->lost[MT_LOSS_BLOCKS]++;
	else if (rows)
		memcpy(o->segs, rows, o->segs_cnt * sizeof(*rows));
	free(rows);
}

static void oom__take(struct oom *o, struct model *m)
{
	const struct proc *p = procs__find(&m->procs, o->pid);
	struct report_dev d = { .dev = o->dev };

	o->ts_ns = m->now_ns;
	oom__count_blocks(o, m);
	if (m->dev_idx[o->dev])
		d.live = m->devs[m->dev_idx[o->dev] - 1]->live;
	if (o->kind == OOM_DEVICE && !model__gpu_report(m, o->dev, &d)) {
		o->allocated = d.segs.allocated;
		o->reserved = d.segs.reserved;
		o->unused = d.segs.unused;
		o->private_free = d.segs.private_free;
		o->largest_free = d.segs.largest_free;
		o->driver = d.segs.driver;
		oom__take_segments(o, m);
	}
	if (!p)
		return;
	o->comm = p->comm;
	memcpy(o->rss, p->rss, sizeof(o->rss));
	o->rss_total = proc__rss(p);
}

/* --- refusals -------------------------------------------------------------------------------------------- */

static struct oom *model__last_refusal(struct model *m, const struct event *ev)
{
	struct oom *o = m->ooms && m->ooms->cnt ? &m->ooms->v[m->ooms->cnt - 1] : NULL;

	return o && o->kind != OOM_DEATH && o->pid == ev->pid && o->tid == ev->tid ? o : NULL;
}

/* The entry for a refusal: a new one, or an existing one that is reported again. */
static struct oom *model__refusal(struct model *m, const struct event *ev, uint8_t kind, bool *ret_same)
{
	struct oom *o = model__last_refusal(m, ev);

	*ret_same = o && m->now_ns - o->ts_ns < (o->open ? OOM_RETRY_NS : MOMENT_NS);
	if (*ret_same)
		return o;
	if (!model__log(m))
		return NULL;
	return oom_log__add(m->ooms, &(struct oom){ .kind = kind, .times = 1, .pid = ev->pid, .tid = ev->tid });
}

static bool is_gpu(uint8_t dev)
{
	return dev >= MT_DEV_CUDA0;
}

void model__oom_refused(struct model *m, const struct event *ev, const struct thread *t, const struct attribution *a)
{
	uint8_t kind = is_gpu(ev->dev) ? OOM_DEVICE : OOM_HOST;
	bool same;
	struct oom *o = model__refusal(m, ev, kind, &same);

	if (!o)
		return;
	if (same && !o->open && o->asked == ev->size)
		o->times++;
	o->open = false;
	o->kind = kind;
	o->dev = ev->dev;
	o->asked = ev->size;
	o->op = m->ops.rows[a->op].name;
	o->region = m->regions.rows[a->region].name;
	o->module = model__module_refused(t, ev, &o->phase);
	oom__take(o, m);
}

int model_is_refusal(const struct event *ev)
{
	unsigned kind = MT_SEG_KIND(ev->flags);

	return ev->kind == MT_EV_SEG_FAIL && kind && kind < MT_SEG_MAX &&
	       (ev->aux == CODE_NO_MEMORY || ev->flags & MT_SEG_F_COMM || ev->flags == MT_SEG_NCCL);
}

void model__oom_failed(struct model *m, const struct event *ev)
{
	unsigned seg = MT_SEG_KIND(ev->flags);
	bool is_host = seg == MT_SEG_PINNED || seg == MT_SEG_REGISTERED || ev->dev == MT_DEV_HOST;
	struct oom *o;
	bool same;

	if (!model_is_refusal(ev))
		return;
	o = model__refusal(m, ev, is_host ? OOM_HOST : OOM_DEVICE, &same);
	if (!o)
		return;
	if (!same)
		o->asked = ev->size;
	else if (o->open)
		o->times++;
	o->open = !same || o->open;
	o->failed_bytes = ev->size;
	o->code = ev->aux;
	o->api = ev->name;
	if (is_host)
		o->dev = model__counts_host(m) ? MT_DEV_HOST : MT_DEV_CPU;
	else
		o->dev = is_gpu(ev->dev) || !m->gpu ? ev->dev : gpu__only_dev(m->gpu, ev->pid);
	oom__take(o, m);
}

void model__oom_retried(struct model *m, const struct event *ev)
{
	struct oom *o = model__last_refusal(m, ev);

	if (!o || !o->open || ev->size < o->failed_bytes || m->now_ns - o->ts_ns >= OOM_RETRY_NS)
		return;
	m->ooms->cnt--;
	m->ooms->total--;
}

/* --- killed processes -------------------------------------------------------------------------------------- */

/* By time alone: only where the kernel does not report its victims. */
static bool oom_log__guesses(const struct oom_log *l)
{
	return !l->victims_reported;
}

void model__oom_victim(struct model *m, const struct event *ev)
{
	struct proc *p = procs__find(&m->procs, ev->pid);

	if (p)
		p->oom_victim = true;
	if (model__log(m))
		m->ooms->victims_reported = true;
}

void model__oom_death(struct model *m, uint32_t pid, struct proc *p, uint32_t status)
{
	struct oom death = { .kind = OOM_DEATH, .times = 1, .pid = pid, .tid = pid, .status = status }, *o;
	bool by_kill = WTERMSIG((int)status) == SIGKILL;

	if (p->death_kept || !WIFSIGNALED((int)status) || !model__log(m))
		return;
	p->death_kept = true;
	death.marked = p->oom_victim && by_kill;
	death.killed = death.marked || (oom_log__guesses(m->ooms) && by_kill && m->ooms->kill_ts_ns &&
					m->now_ns - m->ooms->kill_ts_ns < KILL_NS);
	o = oom_log__add(m->ooms, &death);
	if (o)
		oom__take(o, m);
}

void model__oom_kills(struct model *m, const struct event *ev)
{
	struct oom_log *l = model__log(m);
	bool grew;

	if (!l)
		return;
	grew = l->kills_reported && ev->size > l->kills;
	l->kills_reported = true;
	l->kills = ev->size;
	l->victims_reported |= ev->flags == 1;
	if (!grew || !oom_log__guesses(l))
		return;
	l->kill_ts_ns = m->now_ns;
	for (size_t i = 0; i < l->cnt; i++)
		if (l->v[i].kind == OOM_DEATH && WTERMSIG((int)l->v[i].status) == SIGKILL &&
		    m->now_ns - l->v[i].ts_ns < KILL_NS)
			l->v[i].killed = true;
}

/* --- report ---------------------------------------------------------------------------------------------- */

static char *copy(const struct model *m, name_id name)
{
	return strdup(names__get(m->names, name));
}

static int oom__report(const struct oom *o, const struct model *m, struct report_oom *ret)
{
	const struct module_row *module = &m->modules.rows[o->module];
	struct peak_freed blocks[REPORT_OOM_BLOCKS];
	int r = 0;

	*ret = (struct report_oom){
		.kind = o->kind, .dev = o->dev, .killed = o->killed, .marked = o->marked,
		.ts_ns = o->ts_ns, .pid = o->pid, .tid = o->tid,
		.code = o->code, .exit_status = o->status, .times = o->times, .asked = o->asked, .live = o->live,
		.allocated = o->allocated, .reserved = o->reserved, .unused = o->unused,
		.private_free = o->private_free,
		.largest_free = o->largest_free, .driver = o->driver, .rss_total = o->rss_total,
		.comm = copy(m, o->comm), .op = copy(m, o->op), .region = copy(m, o->region), .api = copy(m, o->api),
	};
	if (o->module && module->reported) {
		ret->module = copy(m, module->path);
		ret->root = copy(m, module->root);
		ret->phase = (uint8_t)o->phase;
		r = ret->module && ret->root ? 0 : -ENOMEM;
	}
	memcpy(ret->cats, o->cats, sizeof(ret->cats));
	memcpy(ret->rss, o->rss, sizeof(ret->rss));
	memcpy(ret->segs, o->segs, sizeof(ret->segs));
	ret->segs_cnt = o->segs_cnt;
	for (; ret->ops_cnt < o->ops_cnt; ret->ops_cnt++) {
		struct report_oom_op *op = &ret->ops[ret->ops_cnt];

		op->live = o->ops[ret->ops_cnt].live;
		op->name = copy(m, m->ops.rows[o->ops[ret->ops_cnt].row].name);
		r = op->name ? r : -ENOMEM;
	}
	memcpy(blocks, o->blocks, sizeof(blocks));
	qsort(blocks, o->blocks_cnt, sizeof(blocks[0]), freed__cmp);
	for (; ret->blocks_cnt < o->blocks_cnt; ret->blocks_cnt++)
		if (model__report_block(m, &blocks[ret->blocks_cnt], &ret->blocks[ret->blocks_cnt]) < 0)
			r = -ENOMEM;
	return ret->comm && ret->op && ret->region && ret->api ? r : -ENOMEM;
}

int model__oom_report(const struct model *m, struct report *ret)
{
	int r = 0;

	if (!m->ooms)
		return 0;
	for (; ret->ooms.cnt < m->ooms->cnt; ret->ooms.cnt++)
		if (oom__report(&m->ooms->v[ret->ooms.cnt], m, &ret->ooms.rows[ret->ooms.cnt]) < 0)
			r = -ENOMEM;
	ret->ooms.total = m->ooms->total;
	return r;
}

uint64_t model__refusals(const struct model *m)
{
	return m->ooms ? m->ooms->total : 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Every sum that the model keeps, taken again from the blocks themselves. The shares at the peak
 * must add up to it, and while nothing was left out so must the blocks that were live then.
 * All sums are modulo 2^64, as the model's are: hostile sizes wrap, and wrap alike.
 */
#include <stdlib.h>

#include "model/core/check.h"
#include "model/flow/flow.h"
#include "model/model_gpu.h"
#include "model/model_learned.h"
#include "model/state.h"

struct checked_sums {
	uint64_t live[TALLY_DEVS_MAX], cnt[TALLY_DEVS_MAX], at_peak[TALLY_DEVS_MAX];
	uint64_t cats[TALLY_DEVS_MAX][CAT_MAX];
	struct tally_cell *ops[TALLY_DEVS_MAX], *regions[TALLY_DEVS_MAX], *modules[TALLY_DEVS_MAX];
	uint64_t unlisted_cnt, unlisted_fw, unlisted_host;
};

static struct tally_cell *new_cells(size_t cnt)
{
	struct tally_cell *cells = calloc(cnt, sizeof(*cells));

	mt_check(cells != NULL);
	return cells;
}

static void checked_sums__add(struct checked_sums *s, const struct model *m, const struct block *b)
{
	unsigned i = m->dev_idx[b->dev] - 1u;
	const struct device *d = m->devs[i];

	mt_check(i < m->devs_cnt && d->dev == b->dev);
	mt_check(b->id <= m->last_id && b->allocated_ts_ns <= m->now_ns);
	mt_check(b->op < m->ops.devs[i].cnt && b->region < m->regions.devs[i].cnt);
	s->live[i] += b->size;
	s->cnt[i]++;
	s->cats[i][b->cat] += b->size;
	if (b->id <= d->peak_blocks.last_id)
		s->at_peak[i] += b->size;
	s->ops[i][b->op].live += b->size;
	s->ops[i][b->op].live_count++;
	s->regions[i][b->region].live += b->size;
	s->regions[i][b->region].live_count++;
	s->modules[i][b->module].live += b->size;
	s->modules[i][b->module].live_count++;
	if (b->unlisted) {
		s->unlisted_cnt++;
		*(dev_is_host((uint8_t)b->dev) ? &s->unlisted_host : &s->unlisted_fw) += b->size;
	}
}

static void caught__check(const struct model *m)
{
	uint32_t freed = 0;

	mt_check(m->caught.blocks.cnt <= CAUGHT_MAX && m->caught.waiting_cnt <= CAUGHT_WAITING_MAX);
	for (uint32_t i = 0; i < m->caught.blocks.cnt; i++) {
		const struct caught_block *c = caught__at(&m->caught, i);
		const struct block *b = blocks__find(m->blocks, c->pid, c->dev, c->ptr);

		mt_check(c->is_freed != (b && b->id == c->id));
		mt_check(stackset__has(&m->stacks, c->node));
		freed += c->is_freed;
	}
	mt_check(freed == m->caught.freed);
}

static void tally__check(const struct tally *t, const struct device *d, const struct tally_cell *want)
{
	uint64_t at_peak = 0, allocs = 0, alloc_bytes = 0;

	for (uint32_t row = 0; row < t->devs[d->idx].cnt; row++) {
		const struct tally_cell *c = &t->devs[d->idx].cells[row];

		mt_check(c->live == want[row].live);
		mt_check(c->live_count == want[row].live_count);
		mt_check(c->epoch <= d->epoch);
		at_peak += cell__at_peak(c, d->epoch);
		allocs += c->alloc_count;
		alloc_bytes += c->alloc_bytes;
	}
	mt_check(at_peak == d->peak);
	mt_check(allocs == d->allocs && alloc_bytes == d->alloc_bytes);
}

/* Bytes that modules hold by name are part of those that no module made. */
static void held__check(const struct modules *s, const struct device *d)
{
	const struct tally_cell *all = s->held.devs[d->idx].cells, *none = s->tally.devs[d->idx].cells;
	uint64_t live = 0, cnt = 0, at_peak = 0;

	for (uint32_t row = 1; row < s->held.devs[d->idx].cnt; row++) {
		live += all[row].live;
		cnt += all[row].live_count;
		at_peak += cell__at_peak(&all[row], d->epoch);
	}
	mt_check(all->live == live && all->live_count == cnt && cell__at_peak(all, d->epoch) == at_peak);
	mt_check(live <= none->live && cnt <= none->live_count && at_peak <= cell__at_peak(none, d->epoch));
}

/* No bytes come or go: some have another name. */
static void plain__check(const struct model *m)
{
	int64_t moved[TALLY_DEVS_MAX][CAT_MAX];

	graph__plain(m->graph, m->devs, m->devs_cnt, moved);
	for (unsigned i = 0; i < m->devs_cnt; i++) {
		const struct device *d = m->devs[i];
		int64_t sum = 0;

		for (int c = 0; c < CAT_MAX; c++) {
			mt_check((int64_t)device_cat__at_peak(&d->cats[c], d->epoch) + moved[i][c] >= 0);
			sum += moved[i][c];
		}
		mt_check(sum == 0);
	}
}

static void device__check(const struct device *d, const struct model *m, const struct checked_sums *s)
{
	uint64_t at_peak = 0, freed = 0;

	mt_check(d->live == s->live[d->idx] && d->live_cnt == s->cnt[d->idx]);
	mt_check(d->allocs + d->late - d->frees - d->dropped == d->live_cnt);
	mt_check(d->alloc_bytes + d->late_bytes - d->free_bytes - d->dropped_bytes == d->live);
	mt_check((d->live <= d->peak && d->series.live == d->live) || gaps__is_open(&m->gaps));
	mt_check(d->unseen <= d->dropped && d->unseen_bytes <= d->dropped_bytes);
	for (int c = 0; c < CAT_MAX; c++) {
		mt_check(d->cats[c].live == s->cats[d->idx][c]);
		at_peak += device_cat__at_peak(&d->cats[c], d->epoch);
	}
	mt_check(at_peak == d->peak);
	for (size_t i = 0; i < d->peak_blocks.cnt; i++)
		freed += d->peak_blocks.heap[i].block.size;
	mt_check(d->peak_blocks.missed || freed + s->at_peak[d->idx] == d->peak);
	tally__check(&m->ops, d, s->ops[d->idx]);
	tally__check(&m->regions, d, s->regions[d->idx]);
	tally__check(&m->modules.tally, d, s->modules[d->idx]);
	held__check(&m->modules, d);
	sampled__check(&m->steps_made, d);
	highs__check(&d->highs);
}

/* A process's blocks, one walk of the table each: tests alone come here. */
static void proc__check(const struct proc *p, const struct model *m)
{
	uint64_t fw = 0, host = 0, cnt = 0, of_devs = 0;
	const struct block *b;
	size_t pos = 0;

	while (p->in_pid && (b = blocks__next(m->blocks, &pos))) {
		if (b->pid != p->pid || b->unlisted)
			continue;
		cnt++;
		*(dev_is_host((uint8_t)b->dev) ? &host : &fw) += b->size;
	}
	mt_check(p->live_cnt == cnt && p->fw.live == fw && p->host.live == host);
	for (size_t i = 0; i < p->devs_cnt; i++)
		of_devs += p->devs[i].side.live;
	mt_check(of_devs <= fw);
	mt_check((fw <= p->fw.high && host <= p->host.peak) || gaps__is_open(&m->gaps));
	mt_check(p->fw.high <= p->fw.peak || gaps__is_open(&m->gaps));
	mt_check(p->gone != 1 || !cnt);
	if (p->saved)
		saved__check(p->saved);
	mapset__check(&p->mapped);
	lateset__check(&p->late);
	for (size_t i = 0; i < p->late.cnt; i++) {
		b = blocks__find(m->blocks, p->pid, MT_DEV_CPU, p->late.ptrs[i]);
		mt_check(b && b->late && !b->unlisted);
	}
}

static void procs__check(const struct procs *ps, const struct model *m, const struct checked_sums *s)
{
	size_t cnt = 0, dead = 0, deads = 0;
	const struct proc *p;
	uint64_t rss = 0;

	TAILQ_FOREACH(p, &ps->all, all) {
		mt_check(p->listed && (!p->in_pid || procs__find(ps, p->pid) == p));
		proc__check(p, m);
		cnt++;
		dead += p->gone == 1;
		rss += proc__rss(p);
	}
	TAILQ_FOREACH(p, &ps->dead, dead)
		deads++;
	mt_check(cnt == ps->cnt && dead == ps->dead_cnt && deads == dead);
	mt_check(dead <= ps->gone_max && cnt - dead <= ps->max);
	mt_check(rss == ps->rss_total);
	mt_check(ps->other.live_cnt == s->unlisted_cnt);
	mt_check(ps->other.fw.live == s->unlisted_fw && ps->other.host.live == s->unlisted_host);
}

/* Every named block has its entry, and every entry its block. */
static void tensors__check_blocks(const struct model *m)
{
	const struct tensor *t;
	const struct block *b;
	uint64_t lasting[TALLY_DEVS_MAX] = { 0 };
	size_t pos = 0, named = 0;

	while ((t = tensors__next(&m->tensors, &pos))) {
		mt_check(t->kind < EV_TENSOR_MAX);
		if (!t->block)
			continue;
		mt_check(t->a == 0 && t->block->id == t->b && t->block->named);
		lasting[m->dev_idx[t->block->dev] - 1] += t->kind == EV_TENSOR_GRADIENT ? 0 : t->block->size;
		named++;
	}
	for (unsigned i = 0; i < m->devs_cnt; i++)
		mt_check(m->devs[i]->named == lasting[i]);
	for (pos = 0; (b = blocks__next(m->blocks, &pos));)
		if (b->named)
			named--;
	mt_check(!named);
}

/* Live bytes by phase, in all modules and in each, and what a module's forward made are sums over the blocks. */
static void modules__check_blocks(const struct model *m)
{
	const struct modules *s = &m->modules;
	uint64_t phases[PHASE_MAX] = { 0 }, *made = calloc(s->cnt, sizeof(*made));
	const struct block *b;
	size_t pos = 0;

	mt_check(made != NULL);
	while ((b = blocks__next(m->blocks, &pos))) {
		mt_check(b->phase < PHASE_MAX && b->module < s->cnt);
		if (dev_is_host((uint8_t)b->dev))
			continue;
		phases[b->phase] += b->size;
		if (b->phase == PHASE_FORWARD || b->phase == PHASE_RECOMPUTE || b->phase == PHASE_EVALUATION)
			for (uint32_t i = (uint32_t)b->module; i; i = s->rows[i].parent)
				made[i] += b->size;
	}
	for (unsigned i = 0; i < PHASE_MAX; i++)
		mt_check(s->phases[i].live == phases[i]);
	for (uint32_t i = 1; i < s->cnt; i++)
		mt_check(s->rows[i].made.live == made[i]);
	free(made);
}

void model__check(const struct model *m)
{
	struct checked_sums *s = calloc(1, sizeof(*s));
	const struct block *b;
	size_t pos = 0;

	mt_check(s != NULL);
	blocks__check(m->blocks);
	threads__check(m->threads);
	tensors__check(&m->tensors);
	tensors__check_blocks(m);
	for (unsigned i = 0; i < m->devs_cnt; i++) {
		s->ops[i] = new_cells(m->ops.devs[i].cnt);
		s->regions[i] = new_cells(m->regions.devs[i].cnt);
		s->modules[i] = new_cells(m->modules.tally.devs[i].cnt);
	}
	while ((b = blocks__next(m->blocks, &pos)))
		checked_sums__add(s, m, b);
	for (unsigned i = 0; i < m->devs_cnt; i++)
		device__check(m->devs[i], m, s);
	if (m->graph)
		plain__check(m);
	procs__check(&m->procs, m, s);
	stackset__check(&m->stacks, m->blocks);
	modules__check(&m->modules);
	modules__check_blocks(m);
	if (m->graph)
		graph__check(m->graph);
	model__gpu_check(m);
	growth__check(m);
	caught__check(m);
	gaps__check(&m->gaps);
	if (m->learned)
		model__learned_check(m);
	for (unsigned i = 0; i < m->devs_cnt; i++) {
		free(s->ops[i]);
		free(s->regions[i]);
		free(s->modules[i]);
	}
	free(s);
}

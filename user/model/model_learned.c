/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Labels for allocations of untraced steps, learned from traced ones: of which process, when, and the report. At levels that
 * do not see allocations between windows there is nothing to label, and steps seen in part while probes go or come get no
 * labels; but traced steps are learned from all the same, for a later level.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/core/check.h"
#include "model/flow/flow.h"
#include "model/model_learned.h"
#include "model/model_levels.h"
#include "model/reports.h"
#include "model/state.h"

#define OPS_TOP 64 /* in a report */

static uint64_t model__learned_ns(const struct model *m)
{
	return learned__clock(m->learned, m->now_ns - gaps__clock(&m->gaps, m->now_ns));
}

static uint8_t cat_of(void *ctx, uint64_t id, uint8_t cat)
{
	struct model *m = ctx;
	uint8_t now = m->graph ? graph__lasting(m->graph, id) : CAT_MAX;

	return now < CAT_MAX ? now : cat;
}

static void reported(void *ctx, const struct learned_alloc *b)
{
	struct model *m = ctx;
	struct tl_learned learned = model__learned_words(m, &b->what);

	model__tell(m, &(struct tl_event){ .ts_ns = m->now_ns, .kind = TL_LEARNED, .id = b->id, .size = b->size,
					   .dev = m->devs[b->dev]->dev, .learned = &learned });
}

static struct learned_what what_of(const struct block *b)
{
	return (struct learned_what){ .op = (uint16_t)b->op, .region = (uint16_t)b->region, .module = (uint16_t)b->module,
				      .cat = (uint8_t)b->cat, .phase = (uint8_t)b->phase };
}

/* --- when ------------------------------------------------------------------------------------------------------- */

static void model__learned_begin(struct model *m)
{
	m->learned = learned__new(m, cat_of, reported);
	for (unsigned i = 0; m->learned && i < m->devs_cnt; i++)
		learned__live(m->learned, i, m->devs[i]->live, 0);
}

/* Nothing learned is of use for the step under way: allocations are not seen, or their operators are only now. */
static bool sampler__is_blind(const struct sampler *s)
{
	return s->level < MT_LEVEL_BLOCKS || (s->rests_blind && s->state == EV_LEVEL_ARMED);
}

static bool sampler__is_first(const struct sampler *s)
{
	return s->rests_blind && s->state == EV_LEVEL_FIRST;
}

void model__learned_level(struct model *m, const struct sampler *s)
{
	bool runs = true;
	struct proc *p;

	for (size_t i = 0; i < m->levels.cnt; i++)
		runs &= !sampler__is_blind(&m->levels.samplers[i]) && !sampler__is_first(&m->levels.samplers[i]);
	if (!m->learned && !m->learns_nothing) /* also where nothing is seen in gaps yet: in later ones blocks may be */
		model__learned_begin(m);
	if (!m->learned)
		return;
	learned__runs(m->learned, runs, m->now_ns - gaps__clock(&m->gaps, m->now_ns));
	TAILQ_FOREACH(p, &m->procs.all, all)
		if (p->learned && machine_of(p->pid) == s->machine && (sampler__is_blind(s) || sampler__is_first(s)))
			learned__cut(p->learned);
}

void model__learned_cut(struct proc *p)
{
	if (p->learned)
		learned__settle(p->learned);
}

void model__learned_drop(struct model *m, struct proc *p)
{
	if (m->learned && p->learned)
		learned__gone(p->learned, model__learned_ns(m));
	learned_proc__free(p->learned);
	p->learned = NULL;
}

void model__learned_step(struct model *m, struct proc *p, bool is_whole, bool is_traced)
{
	const struct sampler *s = model__sampler(m, p->pid);

	if (!m->learned || !p->listed)
		return;
	if (!p->learned && s && s->state < EV_LEVEL_FIRST) /* before the first traced step nothing can have a label */
		return;
	if (!p->learned) {
		p->learned = learned__add(m->learned);
		is_whole = false;
	}
	if (!p->learned)
		return;
	learned__step(p->learned, is_whole, is_traced, p->regions_begun, model__learned_ns(m));
	if (s && sampler__is_blind(s))
		learned__cut(p->learned);
}

/* --- blocks ----------------------------------------------------------------------------------------------------- */

void model__learned_live(struct model *m, const struct device *d)
{
	learned__live(m->learned, d->idx, d->live, model__learned_ns(m));
}

void model__learned_allocated(struct model *m, const struct block *b, struct proc *p, bool is_blind)
{
	const struct device *d = m->devs[m->dev_idx[b->dev] - 1];
	uint64_t now_ns = model__learned_ns(m);

	learned__live(m->learned, d->idx, d->live, now_ns);
	if (!p->learned || dev_is_host(d->dev))
		return;
	learned__allocated(p->learned, &(struct learned_alloc){ .id = b->id, .size = b->size, .since_ns = now_ns,
						       .what = what_of(b),
							   .dev = (uint8_t)d->idx, .blind = is_blind }, b->tid);
}

void model__learned_freed(struct model *m, const struct block *b, struct proc *p)
{
	const struct device *d = m->devs[m->dev_idx[b->dev] - 1];
	uint64_t now_ns = model__learned_ns(m);
	struct learned_what what = what_of(b);

	learned__live(m->learned, d->idx, d->live, now_ns);
	if (p && p->learned && !dev_is_host(d->dev))
		learned__freed(p->learned, b->id, &what, now_ns);
}

void model__learned_measured(struct model *m, const struct block *b, struct proc *p)
{
	if (m->learned && p && p->learned)
		learned__measured(p->learned, b->id, model__learned_ns(m));
}

/* --- the report ------------------------------------------------------------------------------------------------- */

static uint64_t bounded(unsigned __int128 v)
{
	return v < UINT64_MAX ? (uint64_t)v : UINT64_MAX;
}

static void report_learned__devs(const struct model *m, const struct learned_sums *sums, struct report_learned *ret)
{
	for (unsigned dev = 0; dev < 256; dev++) {
		unsigned i = m->dev_idx[dev] - 1u;
		struct report_learned_dev *to = &ret->devs[ret->devs_cnt];

		if (!m->dev_idx[dev] || dev_is_host((uint8_t)dev))
			continue;
		*to = (struct report_learned_dev){ .dev = (uint8_t)dev, .byte_ns = bounded(sums[i].all_ns),
						     .none_ns = bounded(sums[i].none_ns) };
		for (int c = 0; c < CAT_MAX; c++)
			to->learned_ns[c] = bounded(sums[i].byte_ns[c]);
		ret->devs_cnt++;
	}
}

struct op_row {
	const char *name;
	struct learned_op v;
};

static int op_cmp(const void *pa, const void *pb)
{
	const struct op_row *a = pa, *b = pb;

	return cmp_down(a->v.byte_ns, b->v.byte_ns) ?: strcmp(a->name, b->name);
}

static int report_learned__ops(const struct model *m, const struct learned_op *ops, struct report_learned *ret)
{
	struct op_row *rows = calloc(m->learned->ops_cnt + 1, sizeof(*rows));
	size_t cnt = 0;

	ret->ops = calloc(OPS_TOP, sizeof(*ret->ops));
	for (uint32_t i = 1; rows && i < m->learned->ops_cnt; i++) {
		/* learned->ops has room for more rows than m->ops: only one with bytes is one of them */
		const char *name = ops[i].byte_ns ? names__get(m->names, m->ops.rows[i].name) : "";

		if (*name)
			rows[cnt++] = (struct op_row){ name, ops[i] };
	}
	if (cnt)
		qsort(rows, cnt, sizeof(*rows), op_cmp);
	for (size_t i = 0; ret->ops && i < cnt && i < OPS_TOP; i++) {
		ret->ops[i] = (struct report_learned_op){ strdup(rows[i].name), rows[i].v.cnt, bounded(rows[i].v.byte_ns) };
		ret->ops_cnt++;
		if (!ret->ops[i].name)
			cnt = SIZE_MAX;
	}
	free(rows);
	return rows && ret->ops && cnt != SIZE_MAX ? 0 : -ENOMEM;
}

/* The sums, with live blocks and the step under way. */
static void model__learned_sums(const struct model *m, struct learned_sums *sums, struct learned_op *ops)
{
	uint64_t now_ns = model__learned_ns(m);
	const struct proc *p;

	memcpy(sums, m->learned->devs, sizeof(m->learned->devs));
	if (m->learned->ops_cnt)
		memcpy(ops, m->learned->ops, m->learned->ops_cnt * sizeof(*ops));
	for (unsigned i = 0; i < m->devs_cnt; i++)
		sums[i].all_ns += (unsigned __int128)sums[i].live * (now_ns - sums[i].since_ns);
	TAILQ_FOREACH(p, &m->procs.all, all)
		if (p->learned)
			learned_proc__sum(p->learned, now_ns, sums, ops);
}

/* Labelled and unlabelled bytes are parts of all live ones. */
void model__learned_check(const struct model *m)
{
	struct learned_sums *sums = malloc(sizeof(m->learned->devs));
	struct learned_op *ops = m->learned ? calloc(m->learned->ops_cnt + 1, sizeof(*ops)) : NULL;
	const struct proc *p;

	if (m->learned && sums && ops) {
		model__learned_sums(m, sums, ops);
		for (unsigned i = 0; i < m->devs_cnt; i++) {
			unsigned __int128 sum = sums[i].none_ns;

			for (int c = 0; c < CAT_MAX; c++)
				sum += sums[i].byte_ns[c];
			mt_check(sum <= sums[i].all_ns && sums[i].live == m->devs[i]->live);
		}
	}
	TAILQ_FOREACH(p, &m->procs.all, all)
		if (p->learned)
			learned_proc__check(p->learned);
	free(sums);
	free(ops);
}

static void report_learned__counts(const struct learned *l, struct report_learned *ret)
{
	const struct learned_counts *c = &l->counts;

	*ret = (struct report_learned){ .is_on = 1, .steps = c->steps, .unlike = c->unlike, .kinds = l->kinds,
					.learnt = c->learnt, .again = c->again, .checks = c->checks,
					.check_bytes = bounded(c->check_bytes),
					.wrong_bytes = bounded(c->wrong), .wrong_cat_bytes = bounded(c->wrong_cat),
					.wrong_op_bytes = bounded(c->wrong_op), .no_label_bytes = bounded(c->wrong_none),
					.no_room = c->no_room, .no_room_bytes = bounded(c->no_room_bytes) };
}

int model__report_learned(const struct model *m, struct report_learned *ret)
{
	const struct learned *l = m->learned;
	struct learned_sums *sums;
	struct learned_op *ops;
	int err = -ENOMEM;

	*ret = (struct report_learned){ 0 };
	if (!l || !(l->counts.steps + l->counts.unlike))
		return 0;
	report_learned__counts(l, ret);
	sums = malloc(sizeof(l->devs));
	ops = calloc(l->ops_cnt + 1, sizeof(*ops));
	ret->devs = calloc(m->devs_cnt + 1u, sizeof(*ret->devs));
	if (sums && ops && ret->devs) {
		model__learned_sums(m, sums, ops);
		report_learned__devs(m, sums, ret);
		err = report_learned__ops(m, ops, ret);
	}
	free(sums);
	free(ops);
	return err;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Levels of tracing, and the gaps between windows of it (EV_LEVEL). A session reports when its probes go and when all are set
 * again; which steps count is decided here, by their boundaries, so that a replay decides the same.
 *
 *   GAP        probes go, or come: operators are ignored, blocks are carried
 *   REST       nothing is under way, and probes are missing
 *   ARMED      all probes are set, in the middle of a step
 *   FIRST      the first whole step: carried blocks that still exist are used, named, freed or allocated over
 *   TRACED     whole steps: the only ones of which byte·time and peaks count. Carried blocks that were not seen have ended
 *   TAIL       after the last one, until probes go: all is seen, and nothing counts
 *
 * A carried block ends by its free, by an allocation at its place or across its edge, or unseen: when the first step is
 * over and no operator was given it, and no look at Python's names that began since all probes were set found it. It then ends
 * like the blocks of an exited process, and is counted as unseen; if it is live after all it is seen late when it is used.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "event/packed.h"
#include "model/flow/flow.h"
#include "model/model_blocks.h"
#include "model/model_learned.h"
#include "model/reports.h"
#include "model/segments/gpu.h"
#include "model/state.h"

/* --- carried blocks --------------------------------------------------------------------------------------------- */

/* Blocks that are made again from their segments were never out of sight. */
static bool is_carried(const struct block *b)
{
	return b->from != FROM_ASYNC;
}

static void model__carry_all(struct model *m, uint32_t machine)
{
	struct block *b;
	size_t pos = 0;

	carried__done(&m->carried);
	while ((b = blocks__next(m->blocks, &pos))) {
		if (machine_of(b->pid) == machine && is_carried(b))
			b->carried = 1;
		if (b->carried)
			carried__add(&m->carried, b->pid, (uint8_t)b->dev, b->ptr);
	}
	carried__sort(&m->carried);
}

/* The first step is over. */
static void model__leave_carried(struct model *m, uint32_t machine)
{
	const struct block *b;
	size_t pos = 0;

	while ((b = blocks__next(m->blocks, &pos)))
		if (b->carried && machine_of(b->pid) == machine)
			model__ended_unseen(m, b, procs__get(&m->procs, b->pid, NULL));
	if (m->levels.cnt == 1)
		carried__done(&m->carried);
}

/* --- growth: only of blocks allocated in whole steps, counted at their ends ------------------------------------------ */

static void model__count_window(struct model *m, uint32_t machine)
{
	struct proc *p;

	TAILQ_FOREACH(p, &m->procs.all, all)
		if (machine_of(p->pid) == machine)
			p->clock.windows++;
}

void model__stayed(struct model *m, const struct event *ev)
{
	struct block *b = blocks__find(m->blocks, ev->pid, ev->dev, ev->addr);
	struct growth_row *r;

	if (!b || !b->carried || b->size != ev->size)
		return;
	b->carried = 0;
	r = growth__row_of(&m->growth, b, stackset__of(&m->stacks, b->id));
	if (!r)
		return;
	r->stayed++;
	r->alike += (ev->flags & EV_STAYED_ALIKE) != 0;
}

int model__stays(const struct model *m, struct model_stay **ret, size_t *ret_cnt)
{
	const struct block *b;
	size_t pos = 0, cap = 0;

	*ret = NULL;
	*ret_cnt = 0;
	while ((b = blocks__next(m->blocks, &pos))) {
		if ((b->dev != MT_DEV_CPU && b->dev != MT_DEV_HOST) || b->carried || *ret_cnt == MODEL_STAYS_MAX ||
		    !growth__row_of(&m->growth, b, stackset__of(&m->stacks, b->id)))
			continue;
		if (!array_has_room(*ret, *ret_cnt, cap, 256))
			return -ENOMEM;
		(*ret)[(*ret_cnt)++] = (struct model_stay){ b->ptr, b->size, b->pid, (uint8_t)b->dev };
	}
	return 0;
}

/* --- states ------------------------------------------------------------------------------------------------------- */

static void model__tell_gap(struct model *m, bool begins)
{
	model__tell(m, &(struct tl_event){ .ts_ns = m->now_ns, .kind = TL_GAP, .version = begins });
}

/* Highest values that marks saw in the gap do not count. */
static void proc_side__begin(struct proc_side *s, uint64_t now_ns)
{
	s->high = s->live;
	proc_side__raise(s, false, now_ns);
}

/* From here on peaks count again, and what is live already may be one. */
static void model__raise_peaks(struct model *m)
{
	struct proc *p;

	for (unsigned i = 0; i < m->devs_cnt; i++)
		device__raise(m->devs[i], tally__nobodys(&m->modules.tally, m->devs[i]->idx), m->last_id, m->now_ns);
	TAILQ_FOREACH(p, &m->procs.all, all) {
		proc_side__begin(&p->fw, m->now_ns);
		proc_side__begin(&p->host, m->now_ns);
		for (size_t i = 0; i < p->devs_cnt; i++)
			proc_side__begin(&p->devs[i].side, m->now_ns);
	}
	proc_side__begin(&m->procs.other.fw, m->now_ns);
	proc_side__begin(&m->procs.other.host, m->now_ns);
}

static void model__hide_live(struct model *m)
{
	struct proc *p;

	for (unsigned i = 0; i < m->devs_cnt; i++)
		device__hide(m->devs[i]);
	tally__hide(&m->ops);
	tally__hide(&m->regions);
	tally__hide(&m->modules.tally);
	tally__hide(&m->modules.held);
	TAILQ_FOREACH(p, &m->procs.all, all) {
		p->fw.traced_live = p->fw.live;
		p->host.traced_live = p->host.live;
	}
}

static bool model__all_traced(const struct model *m)
{
	if (gaps__is_open(&m->pauses))
		return false;
	for (size_t i = 0; i < m->levels.cnt; i++)
		if (m->levels.samplers[i].state != EV_LEVEL_TRACED)
			return false;
	return true;
}

/* Allocations are seen in a gap, or no longer. */
static void model__see_live(struct model *m, bool begins)
{
	for (unsigned i = 0; i < m->devs_cnt; i++)
		if (begins)
			device__see_between(m->devs[i], m->now_ns);
		else
			device__seen_between(m->devs[i], m->now_ns);
}

/* Of each machine allocations are seen; that is not known where a window has just ended. */
static void model__settle_seen(struct model *m)
{
	bool is_blind = gaps__is_open(&m->pauses), is_tail = false;

	for (size_t i = 0; i < m->levels.cnt; i++) {
		const struct sampler *s = &m->levels.samplers[i];

		is_blind |= s->state != EV_LEVEL_TRACED && s->level < MT_LEVEL_BLOCKS;
		is_blind |= s->state == EV_LEVEL_GAP && s->level == MT_LEVEL_FULL; /* probes go for good */
		is_tail |= s->state == EV_LEVEL_TAIL;
	}
	if (is_blind) {
		model__see_live(m, false);
		gaps__blind(&m->gaps, m->now_ns);
	} else if (!is_tail && gaps__seen(&m->gaps, m->now_ns) && !m->learns_nothing) {
		model__see_live(m, true);
	}
}

/* With several machines sums count only the time that was traced on all of them. */
static void model__turn_gap(struct model *m)
{
	bool traced = model__all_traced(m);

	if (traced != gaps__is_open(&m->gaps))
		return;
	if (traced) {
		model__see_live(m, false);
		gaps__end(&m->gaps, m->now_ns);
	} else if (!gaps__begin(&m->gaps, m->now_ns)) {
		return;
	}
	modules__gap(&m->modules, !traced);
	if (traced)
		model__raise_peaks(m);
	else
		model__hide_live(m);
	model__tell_gap(m, !traced);
}

static void model__settle_gap(struct model *m)
{
	model__turn_gap(m);
	model__settle_seen(m);
}

/* No more will be seen of the step under way. */
static void model__cut_graphs(struct model *m, uint32_t machine)
{
	struct proc *p;

	TAILQ_FOREACH(p, &m->procs.all, all) {
		if (machine_of(p->pid) != machine)
			continue;
		p->is_outside = true; /* the next node begins another backward pass */
		model__learned_cut(p);
		if (m->graph)
			graph__cut(m->graph, p->pid);
	}
}

/* When probes of allocations go; and where a recording begins without them, or before it is known which blocks remain. */
static bool sampler__carries(const struct sampler *s, uint8_t before)
{
	if (s->state == EV_LEVEL_ARMED)
		return before >= EV_LEVEL_FIRST;
	return s->level < MT_LEVEL_BLOCKS && s->state < EV_LEVEL_ARMED &&
	       (s->state == EV_LEVEL_GAP || before >= EV_LEVEL_FIRST);
}

/* Of the process whose steps are counted; in the model of one rank that may be another process. */
static uint64_t sampler__step_no(const struct sampler *s, const struct model *m)
{
	const struct proc *p = procs__find(&m->procs, s->pid);
	uint64_t no = p ? proc__step_no(p) : 0;

	TAILQ_FOREACH(p, &m->procs.all, all)
		no = no || machine_of(p->pid) != s->machine ? no : proc__step_no(p);
	return no;
}

/* Of the window under way; NULL: none is, or newer ones of other machines have its place. */
static struct report_window *sampler__row(const struct sampler *s, struct reported_levels *all)
{
	return s->row && all->windows - s->row < LEVELS_KEPT ? &all->kept[(s->row - 1) % LEVELS_KEPT] : NULL;
}

static void sampler__begin_row(struct sampler *s, struct model *m)
{
	s->row = ++m->levels.windows;
	*sampler__row(s, &m->levels) = (struct report_window){ .begin_ns = m->now_ns, .why = s->why,
							       .step = sampler__step_no(s, m) };
}

static void sampler__end_row(struct sampler *s, struct model *m)
{
	struct report_window *row = sampler__row(s, &m->levels);

	if (row)
		row->end_ns = m->now_ns;
	s->row = 0;
}

static void sampler__to(struct sampler *s, struct model *m, uint8_t state)
{
	uint8_t before = s->state;

	s->state = state;
	s->since_ns = m->now_ns;
	if (state == EV_LEVEL_ARMED)
		s->set_ns = m->now_ns;
	if (state != EV_LEVEL_TRACED)
		model__sample_gone(m);
	if (state < EV_LEVEL_FIRST && before >= EV_LEVEL_FIRST)
		model__cut_graphs(m, s->machine);
	if (sampler__carries(s, before))
		model__carry_all(m, s->machine);
	if (before == EV_LEVEL_TRACED && state != EV_LEVEL_TRACED)
		sampler__end_row(s, m);
	if (state == EV_LEVEL_TRACED && before != EV_LEVEL_TRACED) {
		s->left = s->want;
		sampler__begin_row(s, m);
		model__leave_carried(m, s->machine);
		model__count_window(m, s->machine);
	}
	model__settle_gap(m);
}

/* No mark is set any more: the next boundary does not end the step that is under way. */
static void model__steps_rest(struct model *m, struct sampler *s)
{
	struct proc *p;

	paid__still(&s->paid, m->now_ns);
	if (!s->still_ns)
		s->still_ns = m->now_ns;
	TAILQ_FOREACH(p, &m->procs.all, all)
		if (machine_of(p->pid) == s->machine)
			p->is_step_cut = true;
}

/* They are set again, or about to be. */
static void sampler__steps_again(struct sampler *s, uint64_t now_ns)
{
	if (s->still_ns)
		s->uncounted_ns += now_ns - s->still_ns;
	s->still_ns = 0;
}

void model__levels_done(struct model *m)
{
	free(m->levels.samplers);
	gaps__done(&m->gaps);
	gaps__done(&m->pauses);
}

/* --- events ----------------------------------------------------------------------------------------------------------- */

/* What became of its memory was not seen: it is seen again where a file goes on with the process. */
static void model__leave(struct model *m, struct proc *p)
{
	const struct block *b;
	size_t pos = 0;

	p->is_outside = p->is_step_cut = true;
	model__learned_cut(p);
	if (m->graph)
		graph__cut(m->graph, p->pid);
	while (p->live_cnt && (b = blocks__next(m->blocks, &pos)))
		if (b->pid == p->pid)
			model__ended_unseen(m, b, p);
	if (m->gpu)
		gpu__drop_pid(m->gpu, p->pid);
	threads__drop_pid(m->threads, p->pid);
}

static void model__pause(struct model *m, const struct event *ev)
{
	struct proc *p;

	if (!(ev->flags & EV_PAUSE_BEGINS)) {
		gaps__end(&m->pauses, m->now_ns);
		model__settle_gap(m);
		return;
	}
	if (gaps__is_open(&m->pauses) || !gaps__begin(&m->pauses, m->now_ns))
		return;
	model__sample_gone(m);
	model__settle_gap(m);
	TAILQ_FOREACH(p, &m->procs.all, all)
		model__leave(m, p);
	carried__done(&m->carried);
	m->last = NULL;
	for (size_t i = 0; i < m->levels.cnt; i++)
		sampler__steps_again(&m->levels.samplers[i], m->now_ns);
}

static uint64_t model__paused_ns(const struct model *m)
{
	return m->now_ns - gaps__clock(&m->pauses, m->now_ns);
}

void model__level(struct model *m, const struct event *ev)
{
	struct sampler *s = model__sampler(m, ev->aux);

	if (ev->kind == EV_PAUSE) {
		model__pause(m, ev);
		return;
	}
	if (ev->flags >= EV_LEVEL_STATES || ev->depth > MT_LEVEL_FULL || ev->dev >= EV_WHY_MAX) {
		m->lost[MT_LOSS_DECODE]++;
		return;
	}
	if (!s && array_has_room(m->levels.samplers, m->levels.cnt, m->levels.cap, 1)) {
		s = &m->levels.samplers[m->levels.cnt++];
		*s = (struct sampler){ .machine = machine_of(ev->aux), .state = EV_LEVEL_TRACED, .rests_blind = true };
	}
	if (!s) {
		m->lost[MT_LOSS_BLOCKS]++;
		return;
	}
	s->pid = ev->aux;
	s->level = ev->depth;
	s->budget = event_level_share(ev);
	paid__change(&s->paid, ev->flags == EV_LEVEL_REST, m->now_ns);
	if (ev->flags == EV_LEVEL_REST) {
		paid__level(&s->paid, s->level >= MT_LEVEL_BLOCKS);
		s->rests_blind = s->level < MT_LEVEL_BLOCKS;
	}
	if (ev->flags == EV_LEVEL_REST && ev->depth == MT_LEVEL_STILL)
		model__steps_rest(m, s);
	else
		sampler__steps_again(s, m->now_ns);
	s->window = ev->addr;
	s->why = ev->dev;
	s->want = event_level_steps(ev);
	s->is_all = !s->want && (s->is_all || ev->flags == EV_LEVEL_ARMED) && ev->flags >= EV_LEVEL_ARMED;
	s->align = event_level_align(ev);
	sampler__to(s, m, ev->flags);
	model__learned_level(m, s);
}

/* The process whose steps are counted; where that is not known, or gone, any. */
static bool sampler__counts(const struct sampler *s, const struct model *m, const struct proc *p)
{
	const struct proc *own = s->pid == p->pid ? p : procs__find(&m->procs, s->pid);

	return own == p || !own || own->gone || own->clock.kind == GROWTH_BY_TIME;
}

/* Watched: at rest with marks (of allocations, perhaps), or before the first operator's probe was set. */
static enum paid_step sampler__paid_step(const struct sampler *s, const struct proc *p, bool is_whole)
{
	bool is_unset = p->how == EV_PROC_ATTACHED && !p->is_being_set && !p->set_ts_ns;

	if ((is_whole && s->state == EV_LEVEL_REST && s->level >= MT_LEVEL_WATCH) ||
	    (is_unset && !s->window && s->state == EV_LEVEL_GAP))
		return PAID_WATCHED;
	return is_whole && s->state == EV_LEVEL_TRACED ? PAID_TRACED : PAID_BESIDE;
}

/* Whether the next boundary may begin the first traced step. Where numbers are not known any may. */
static bool sampler__may_begin(const struct sampler *s, const struct proc *p)
{
	uint64_t no = proc__step_no(p);

	return !s->align || !no || !((no + 1) % s->align);
}

/* From now on operators are believed: steps under way have no label where nothing was seen before. */
static void model__first_step(struct model *m, struct sampler *s)
{
	sampler__to(s, m, EV_LEVEL_FIRST);
	model__learned_level(m, s);
}

void model__level_step(struct model *m, struct proc *p, uint64_t took_ns)
{
	struct sampler *s = model__sampler(m, p->pid);
	uint64_t blocks = 0;
	enum paid_step what;
	bool is_whole;

	if (!s)
		return;
	is_whole = took_ns && m->now_ns - took_ns >= s->since_ns;
	if (took_ns) {
		m->levels.steps_seen++;
		m->levels.steps_traced += is_whole && s->state == EV_LEVEL_TRACED;
		if (is_whole && s->state == EV_LEVEL_TRACED && sampler__row(s, &m->levels))
			sampler__row(s, &m->levels)->steps++;
		if (is_whole && s->state == EV_LEVEL_TRACED)
			proc__sampled(p, true, took_ns);
		else if (is_whole && s->state == EV_LEVEL_REST && s->level >= MT_LEVEL_WATCH)
			proc__sampled(p, false, took_ns);
	}
	model__learned_step(m, p, took_ns != 0, is_whole && s->state == EV_LEVEL_TRACED);
	if (!sampler__counts(s, m, p))
		return;
	what = sampler__paid_step(s, p, is_whole);
	for (unsigned i = 0; i < m->devs_cnt; i++)
		blocks += m->devs[i]->allocs + m->devs[i]->frees;
	if (took_ns) {
		paid__step(&s->paid, what, took_ns, blocks - s->blocks_at_step, m->now_ns);
		model__sample_over(m, p, what, took_ns);
	}
	p->regions_at_step = p->regions_begun;
	s->blocks_at_step = blocks;
	if (s->state == EV_LEVEL_ARMED && sampler__may_begin(s, p))
		model__first_step(m, s);
	else if (s->state == EV_LEVEL_FIRST)
		sampler__to(s, m, EV_LEVEL_TRACED);
	else if (s->state == EV_LEVEL_TRACED && s->want && !--s->left)
		sampler__to(s, m, EV_LEVEL_TAIL);
	if (s->state == EV_LEVEL_TRACED)
		model__sample_begins(m, p);
}

/* For a recording that begins in the middle: blocks seen late now are not in it, so it waits for a whole step. */
int model__each_level(const struct model *m, event_fn fn, void *ctx)
{
	int r = 0;

	for (size_t i = 0; i < m->levels.cnt && !r; i++) {
		const struct sampler *s = &m->levels.samplers[i];
		bool has_all = s->is_all && s->state == EV_LEVEL_TRACED; /* only traced steps follow: no gap is reported */
		uint8_t state = s->state == EV_LEVEL_FIRST ? EV_LEVEL_ARMED : s->state;
		struct event ev = { .ts_ns = m->now_ns, .kind = EV_LEVEL, .aux = s->pid, .flags = state, .depth = s->level,
				    .addr = s->window,
				    .size = event_level_size(s->state == EV_LEVEL_TRACED ? s->left : s->want, s->align),
				    .dev = s->why, .seq = event_level_seq(s->budget) };

		r = has_all ? 0 : fn(ctx, &ev);
	}
	return r;
}

uint8_t model__level_of(const struct model *m, uint64_t *ret_window)
{
	*ret_window = m->levels.cnt ? m->levels.samplers[0].window : 0;
	return m->levels.cnt ? m->levels.samplers[0].state : EV_LEVEL_TRACED;
}

/* Probes' counters are of all machines together. */
void model__paid_read(struct model *m, const struct event *ev)
{
	if (ev->kind == EV_SELF && m->levels.cnt == 1)
		paid__read(&m->levels.samplers[0].paid, &(struct paid_read){ .ts_ns = m->now_ns,
								      .probe_ns = reported__probe_ns(&m->reported),
								      .cpu_ns = procs__cpu_ns(&m->procs, UINT64_MAX) });
}

const struct paid *model__paid(const struct model *m)
{
	return m->levels.cnt ? &m->levels.samplers[0].paid : NULL;
}

double model__share_of_blocks(const struct model *m)
{
	const struct paid *paid = model__paid(m);

	return paid ? paid__of_blocks(paid, reported__block_ns(&m->reported)) : 0;
}

/* Of several machines the one that has lost most, by the time since the first event. */
static void model__report_paid(const struct model *m, struct report_sampling *ret)
{
	double took_ns = (double)(m->now_ns - m->start_ts_ns - model__paused_ns(m)); /* below 0 is noise: ret keeps its 0 */

	for (size_t i = 0; i < m->levels.cnt && took_ns > 0; i++) {
		double ratio = paid__all(&m->levels.samplers[i].paid, m->now_ns) / took_ns;

		ret->price_ratio = ratio > ret->price_ratio ? ratio : ret->price_ratio;
		ret->budget = m->levels.samplers[i].budget > ret->budget ? m->levels.samplers[i].budget : ret->budget;
	}
}

/* Joined gaps stay one, of which a part was traced. */
static int model__report_gaps(const struct model *m, struct report_sampling *ret)
{
	ret->gaps = calloc(m->gaps.cnt + 1, sizeof(*ret->gaps));
	if (!ret->gaps)
		return -ENOMEM;
	for (; ret->gaps_cnt < m->gaps.cnt; ret->gaps_cnt++) {
		const struct gap *g = &m->gaps.v[ret->gaps_cnt];
		bool is_open = g->end_ns == UINT64_MAX;

		ret->gaps[ret->gaps_cnt] = (struct report_gap){ g->begin_ns, is_open ? m->now_ns : g->end_ns,
								is_open ? m->now_ns - g->begin_ns : g->lost_ns,
								gap__seen_ns(g, m->now_ns) };
	}
	ret->in_gap = gaps__is_open(&m->gaps);
	return 0;
}

static int model__report_windows(const struct model *m, struct report_sampling *ret)
{
	size_t cnt = m->levels.windows < LEVELS_KEPT ? m->levels.windows : LEVELS_KEPT;

	ret->traced = calloc(cnt + 1, sizeof(*ret->traced));
	if (!ret->traced)
		return -ENOMEM;
	ret->traced_cnt = cnt;
	for (size_t i = 0; i < cnt; i++)
		ret->traced[i] = m->levels.kept[(m->levels.windows - cnt + i) % LEVELS_KEPT];
	for (size_t i = 0; i < m->levels.cnt; i++) { /* those that are open */
		uint64_t row = m->levels.samplers[i].row;

		if (row && m->levels.windows - row < cnt)
			ret->traced[cnt - 1 - (m->levels.windows - row)].end_ns = m->now_ns;
	}
	return 0;
}

/* Of several machines the one with the longest time. */
static uint64_t model__uncounted_ns(const struct model *m)
{
	uint64_t ret = 0;

	for (size_t i = 0; i < m->levels.cnt; i++) {
		const struct sampler *s = &m->levels.samplers[i];
		uint64_t one = s->uncounted_ns + (s->still_ns ? m->now_ns - s->still_ns : 0);

		ret = one > ret ? one : ret;
	}
	return ret;
}

int model__report_sampling(const struct model *m, struct report_sampling *ret)
{
	*ret = (struct report_sampling){ .is_on = m->levels.cnt != 0, .steps_seen = m->levels.steps_seen,
					 .steps_traced = m->levels.steps_traced, .windows = m->levels.windows,
					 .traced_ns = gaps__clock(&m->gaps, m->now_ns) - m->start_ts_ns,
					 .uncounted_ns = model__uncounted_ns(m), .pauses = (uint32_t)m->pauses.times,
					 .paused_ns = model__paused_ns(m) };
	model__report_paid(m, ret);
	for (unsigned i = 0; i < m->devs_cnt; i++) {
		ret->unseen_blocks += m->devs[i]->unseen;
		ret->unseen_bytes += m->devs[i]->unseen_bytes;
	}
	return model__report_gaps(m, ret) ?: model__report_windows(m, ret) ?: model__report_steps(m, ret) ?:
	       model__report_learned(m, &ret->learned);
}

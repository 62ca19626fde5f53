/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Labels follow their EV_PROC before anything else of the process, so a process's rank is settled at its first other event.
 * Until then its events wait; in a merged recording several processes may be reported at once. A second EV_PROC (exec: a
 * launcher's child becomes the training program; a pid that comes back) begins anew, and may be another rank.
 *
 * Two processes that name the same rank are one rank if one descends from the other, or if one has ended before the other
 * came (a restart). Else they are of two jobs, and each has a row. A process that names none stays what it was before its exec,
 * or is its parent's: a helper whose environment was emptied, or could not be read between fork and exec.
 *
 * Stacks are left out: nothing here shows them.
 */
#include "model/ranks.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/regions.h"
#include "event/rank_label.h"
#include "model/model.h"
#include "model/reports.h"
#include "model/state.h"
#include "timeline/ranks.h"
#include "timeline/series.h"

#define PIDS_MAX (1u << 16)
#define UNPLACED UINT32_MAX /* no rank */
#define WAITING_MAX (2 + PROC_LABELS_MAX)
#define WAITS_MAX 256

struct rank_steps {
	struct report_step v[RANK_STEPS_MAX]; /* a ring; peak is of the memory that is compared */
	uint64_t peaks[RANK_STEPS_MAX][RANK_MEMS];
	uint64_t total;
	bool marked; /* by STEP; else optimizers' regions */
};

struct rank {
	struct model *model;
	struct rank_label label;
	uint32_t number, machine;
	uint32_t pid; /* of the process that its launcher started; not of workers, which are its children */
	uint32_t launcher; /* that one's parent */
	uint32_t step_pid; /* whose steps are counted: the first one that makes any; 0: none yet */
	bool is_gone; /* `pid` has ended, or was let go: another one may take its place */
	bool in_gap;  /* at the last event */
	bool has_ranks; /* a child of `pid` is another rank */
	uint64_t began_ns, ended_ns;
	uint8_t source;
	size_t procs_cnt;
	uint64_t live[RANK_MEMS], peak[RANK_MEMS], peak_ts_ns[RANK_MEMS];
	struct series_acc *series; /* RANK_MEMS of them */
	struct rank_steps *steps;
};

struct wait {
	struct event ev[WAITING_MAX]; /* its EV_PROC and labels */
	size_t cnt;
};

struct rank_of_pid {
	uint64_t pid;
	uint32_t rank; /* in ranks[] */
};

struct ranks {
	const struct names *names; /* borrowed */
	enum classes classes;
	struct rank *ranks[RANKS_MAX + 1]; /* the first one is "others" */
	size_t cnt, full_cnt;
	struct map placed; /* struct rank_of_pid */
	uint32_t last_pid, last_rank; /* of the event before */
	struct wait *waits; /* processes that are being reported */
	size_t waits_cnt;
	struct event begin;
	uint64_t start_ns, now_ns;
	name_id hosts[EV_MACHINES_MAX];
	struct event levels[EV_MACHINES_MAX]; /* the last EV_LEVEL of each; kind 0: none */
};

static struct rank *rank__new(const struct ranks *r)
{
	struct rank *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->model = model__new(r->names, &(struct model_opts){ .classes = r->classes, .learns_nothing = 1 });
	k->series = calloc(RANK_MEMS, sizeof(*k->series));
	k->steps = calloc(1, sizeof(*k->steps)); /* pages are taken when touched */
	if (!k->model || !k->series || !k->steps)
		return k;
	for (unsigned i = 0; i < RANK_MEMS; i++)
		series_acc__init(&k->series[i], r->start_ns);
	return k;
}

static void rank__free(struct rank *k)
{
	if (!k)
		return;
	model__free(k->model);
	free(k->series);
	free(k->steps);
	free(k);
}

struct ranks *ranks__new(const struct names *names, enum classes classes)
{
	struct ranks *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->names = names;
	r->classes = classes;
	r->placed = MAP_OF(struct rank_of_pid);
	r->waits = calloc(WAITS_MAX, sizeof(*r->waits)); /* pages are taken when touched */
	if (!r->waits) {
		ranks__free(r);
		return NULL;
	}
	return r;
}

void ranks__free(struct ranks *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->cnt; i++)
		rank__free(r->ranks[i]);
	map__done(&r->placed);
	free(r->waits);
	free(r);
}

/* A new one at the end of the list. NULL: no memory. */
static struct rank *ranks__add(struct ranks *r)
{
	struct rank *k = rank__new(r);

	if (!k || !k->model || !k->series || !k->steps) {
		rank__free(k);
		return NULL;
	}
	r->ranks[r->cnt++] = k;
	if (r->begin.kind)
		(void)model__handle(k->model, &r->begin);
	return k;
}

/* --- the rank of a process -------------------------------------------------------------------------- */

static uint32_t ranks__of_pid(const struct ranks *r, uint32_t pid)
{
	const struct rank_of_pid *p = pid ? map__find(&r->placed, pid) : NULL;

	return p ? p->rank : UNPLACED;
}

/* A process and its own labels. */
struct claim {
	uint32_t pid, ppid;
	struct rank_label label;
	uint32_t number;
	uint8_t source;
	bool is_execed;
};

static bool is_named_by(const struct rank *k, const struct claim *c)
{
	return k->number == c->number && k->source == c->source && k->machine == c->pid >> EV_MACHINE_SHIFT &&
	       !strcmp(k->label.job, c->label.job);
}

/* Of a launcher that names its job: the end of its last process may be reported after the beginning of the next one. */
static bool is_next(const struct rank *k, const struct claim *c)
{
	return k->launcher == c->ppid && c->label.job[0];
}

static bool is_related(const struct ranks *r, uint32_t rank, const struct claim *c)
{
	const struct rank *k = r->ranks[rank];

	if (rank_label__num(&k->label, RANK_WORLD) != rank_label__num(&c->label, RANK_WORLD))
		return false; /* of a launcher that is numbered itself */
	return ranks__of_pid(r, c->pid) == rank || ranks__of_pid(r, c->ppid) == rank || k->launcher == c->pid || is_next(k, c);
}

/* 0: none. Of several that have ended the last one. */
static uint32_t ranks__known(const struct ranks *r, const struct claim *c)
{
	uint32_t ended = 0;

	for (uint32_t i = 1; i < r->cnt; i++) {
		if (!is_named_by(r->ranks[i], c))
			continue;
		if (is_related(r, i, c))
			return i;
		if (r->ranks[i]->is_gone && (!ended || r->ranks[i]->ended_ns >= r->ranks[ended]->ended_ns))
			ended = i;
	}
	return ended;
}

/* Of one that names none: its own until now, if it did no more than exec, else its parent's. */
static uint32_t ranks__inherited(const struct ranks *r, const struct claim *c)
{
	uint32_t own = ranks__of_pid(r, c->pid), parent = ranks__of_pid(r, c->ppid);

	if (c->is_execed && own != UNPLACED)
		return own;
	return parent != UNPLACED ? parent : 0;
}

/* 0, others, if there is no room. */
static int ranks__find(struct ranks *r, const struct claim *c, uint32_t *ret)
{
	struct rank *k;

	*ret = c->source == RANK_NONE ? ranks__inherited(r, c) : ranks__known(r, c);
	if (*ret || c->source == RANK_NONE)
		return 0;
	if (r->cnt > RANKS_MAX) {
		r->full_cnt++;
		return 0;
	}
	k = ranks__add(r);
	if (!k)
		return -ENOMEM;
	k->label = c->label;
	k->number = c->number;
	k->source = c->source;
	k->machine = c->pid >> EV_MACHINE_SHIFT;
	k->began_ns = r->now_ns;
	if (r->levels[k->machine].kind)
		(void)model__handle(k->model, &r->levels[k->machine]);
	*ret = (uint32_t)r->cnt - 1;
	return 0;
}

static void ranks__joined(struct ranks *r, struct rank *k, const struct claim *c)
{
	uint32_t rank = ranks__of_pid(r, c->ppid);
	struct rank *parent = rank != UNPLACED && rank ? r->ranks[rank] : NULL;

	if (parent && parent != k && parent->pid == c->ppid && c->source != RANK_NONE)
		parent->has_ranks = true;
	k->procs_cnt++;
	if (k->pid && (parent == k || !k->is_gone) && k->launcher != c->pid && !is_next(k, c))
		return;
	k->pid = c->pid;
	k->launcher = c->ppid;
	k->is_gone = false;
}

static struct wait *ranks__waiting(const struct ranks *r, uint32_t pid)
{
	for (size_t i = 0; i < r->waits_cnt; i++)
		if (r->waits[i].ev[0].pid == pid)
			return &r->waits[i];
	return NULL;
}

/* All labels of the process are known: it gets its rank. */
static int ranks__place(struct ranks *r, const struct wait *w)
{
	struct claim c = { .pid = w->ev[0].pid, .ppid = w->ev[0].aux, .is_execed = w->ev[0].flags == EV_PROC_EXECED };
	uint32_t pid = c.pid, rank, was = ranks__of_pid(r, pid);
	struct rank_of_pid *now;
	int err;

	for (size_t i = 0; i < w->cnt; i++)
		if (w->ev[i].kind == EV_LABEL)
			rank_label__add(&c.label, names__get(r->names, w->ev[i].name));
	c.source = (uint8_t)rank_label__rank(&c.label, &c.number);
	err = ranks__find(r, &c, &rank);
	if (err)
		return err;
	if (was != UNPLACED && was != rank) /* its old rank has lost it */
		(void)model__handle(r->ranks[was]->model, &(struct event){
			.ts_ns = r->now_ns, .kind = EV_GONE, .pid = pid });
	if (was == UNPLACED && r->placed.cnt >= PIDS_MAX) {
		r->full_cnt++;
		return 0;
	}
	now = map__put(&r->placed, pid);
	if (!now)
		return -ENOMEM;
	now->rank = rank;
	if (was != rank || w->ev[0].flags != EV_PROC_EXECED)
		ranks__joined(r, r->ranks[rank], &c);
	for (size_t i = 0; i < w->cnt; i++)
		(void)model__handle(r->ranks[rank]->model, &w->ev[i]);
	return 0;
}

/* Its parent comes first, if that waits too. */
static int ranks__settle(struct ranks *r, struct wait *w)
{
	const struct wait mine = *w;
	struct wait *parent;
	int err = 0;

	r->last_pid = 0;
	*w = r->waits[--r->waits_cnt];
	parent = ranks__waiting(r, mine.ev[0].aux);
	if (parent)
		err = ranks__settle(r, parent);
	return err ? err : ranks__place(r, &mine);
}

static int ranks__proc(struct ranks *r, const struct event *ev)
{
	struct wait *w = ranks__waiting(r, ev->pid);
	int err = w ? ranks__settle(r, w) : r->waits_cnt == WAITS_MAX ? ranks__settle(r, r->waits) : 0;
	struct wait *mine;

	if (!ev->pid)
		return err;
	mine = &r->waits[r->waits_cnt++];
	mine->ev[0] = *ev;
	mine->cnt = 1;
	return err;
}

/* --- a rank's series and steps, beside its model ------------------------------------------------------- */

static void rank__step(struct rank *k, uint64_t number, uint64_t ts_ns)
{
	struct rank_steps *s = k->steps;
	size_t at = s->total % RANK_STEPS_MAX;

	s->v[at] = (struct report_step){ .number = number, .ts_ns = ts_ns };
	for (unsigned i = 0; i < RANK_MEMS; i++) /* of one that begins in a gap no peak is known */
		s->peaks[at][i] = gaps__is_open(&k->model->gaps) ? POINT_UNKNOWN : k->live[i];
	s->total++;
}

/* Steps of one process at a time: a launcher's shell makes none, and workers' would be counted twice. */
static bool counts_steps_of(struct rank *k, uint32_t pid)
{
	if (!k->step_pid)
		k->step_pid = pid;
	return k->step_pid == pid;
}

static void rank__steps(struct rank *k, const struct ranks *r, const struct event *ev)
{
	struct rank_steps *s = k->steps;

	if (ev->kind == MT_EV_STEP) {
		if (!s->marked)
			s->total = 0;
		s->marked = true;
		rank__step(k, ev->addr, ev->ts_ns);
	} else if (ev->kind == MT_EV_REGION_BEGIN && !s->marked &&
		   region_is_step(names__get(r->names, ev->name)) && counts_steps_of(k, ev->pid)) {
		rank__step(k, s->total, ev->ts_ns);
	}
}

static void rank__measure(struct rank *k, uint64_t ts_ns)
{
	struct model_live now = model__live(k->model);
	uint64_t live[RANK_MEMS] = { [RANK_MEM_CPU] = now.cpu, [RANK_MEM_CUDA] = now.gpu, [RANK_MEM_HOST] = now.host };
	struct rank_steps *s = k->steps;

	bool in_gap = gaps__is_open(&k->model->gaps), is_back = k->in_gap && !in_gap;

	k->in_gap = in_gap;
	for (unsigned i = 0; i < RANK_MEMS; i++) {
		if (live[i] == k->live[i] && !is_back)
			continue;
		k->live[i] = live[i];
		if (in_gap)
			continue;
		series_acc__set(&k->series[i], ts_ns, live[i]);
		if (live[i] > k->peak[i]) {
			k->peak[i] = live[i];
			k->peak_ts_ns[i] = ts_ns;
		}
		if (s->total && live[i] > s->peaks[(s->total - 1) % RANK_STEPS_MAX][i])
			s->peaks[(s->total - 1) % RANK_STEPS_MAX][i] = live[i];
	}
}

static void rank__gone(struct rank *k, const struct event *ev)
{
	if (ev->pid == k->step_pid)
		k->step_pid = 0;
	if (ev->pid != k->pid)
		return;
	k->is_gone = true;
	k->ended_ns = ev->ts_ns;
}

static void rank__handle(struct rank *k, const struct ranks *r, const struct event *ev)
{
	(void)model__handle(k->model, ev); /* there is no timeline that could fail */
	rank__measure(k, ev->ts_ns); /* before a step begins: it may be the first one after a gap */
	if (ev->kind == MT_EV_STEP || ev->kind == MT_EV_REGION_BEGIN)
		rank__steps(k, r, ev);
	else if (ev->kind == EV_GONE || ev->kind == MT_EV_EXIT)
		rank__gone(k, ev);
}

/* --- one event ------------------------------------------------------------------------------------- */

static void ranks__all(struct ranks *r, const struct event *ev)
{
	for (size_t i = 0; i < r->cnt; i++)
		rank__handle(r->ranks[i], r, ev);
}

static void ranks__level(struct ranks *r, const struct event *ev)
{
	uint32_t machine = ev->aux >> EV_MACHINE_SHIFT;

	r->levels[machine] = *ev;
	for (size_t i = 1; i < r->cnt; i++)
		if (r->ranks[i]->machine == machine)
			rank__handle(r->ranks[i], r, ev);
}

/* Events of no process. */
static void ranks__common(struct ranks *r, const struct event *ev)
{
	switch (ev->kind) {
	case EV_MACHINE:
		if (ev->aux < EV_MACHINES_MAX)
			r->hosts[ev->aux] = ev->name;
		break;
	case EV_LEVEL:
		ranks__level(r, ev);
		break;
	case EV_END:
	case EV_PAUSE:
		ranks__all(r, ev);
		break;
	default:
		break;
	}
}

static int ranks__start(struct ranks *r, const struct event *ev)
{
	r->start_ns = r->now_ns = ev->ts_ns;
	return ranks__add(r) ? 0 : -ENOMEM;
}

static uint32_t ranks__rank_of(struct ranks *r, uint32_t pid)
{
	uint32_t rank;

	if (pid == r->last_pid)
		return r->last_rank;
	rank = ranks__of_pid(r, pid);
	r->last_pid = pid;
	r->last_rank = rank != UNPLACED ? rank : 0;
	return r->last_rank;
}

int ranks__handle(struct ranks *r, const struct event *ev)
{
	struct wait *w;
	int err = 0;

	if (!r->cnt && ranks__start(r, ev) < 0)
		return -ENOMEM;
	if (ev->ts_ns > r->now_ns)
		r->now_ns = ev->ts_ns;
	w = r->waits_cnt && ev->kind != EV_PROC ? ranks__waiting(r, ev->pid) : NULL;
	if (w && ev->kind == EV_LABEL) {
		if (w->cnt < WAITING_MAX)
			w->ev[w->cnt++] = *ev;
		return 0;
	}
	if (w)
		err = ranks__settle(r, w);
	switch (ev->kind) {
	case EV_BEGIN:
		if (!r->begin.kind)
			r->begin = *ev;
		ranks__all(r, ev);
		return err;
	case EV_PROC:
		return ranks__proc(r, ev);
	case EV_STACK:
	case EV_STACK_AT:
	case EV_CAUGHT:
		return err;
	default:
		break;
	}
	if (!ev->pid)
		ranks__common(r, ev);
	else
		rank__handle(r->ranks[ranks__rank_of(r, ev->pid)], r, ev);
	return err;
}

/* --- the report ---------------------------------------------------------------------------------------- */

/* GPUs if any rank used one, else the framework's CPU blocks, else malloc's. */
static enum rank_memory ranks__memory(const struct ranks *r)
{
	static const enum rank_memory order[] = { RANK_MEM_CUDA, RANK_MEM_CPU };

	for (size_t o = 0; o < 2; o++)
		for (size_t i = 1; i < r->cnt; i++)
			if (r->ranks[i]->peak[order[o]])
				return order[o];
	return RANK_MEM_HOST;
}

static bool dev_counts(uint8_t dev, enum rank_memory memory)
{
	return memory == RANK_MEM_HOST ? dev_is_host(dev) : memory == RANK_MEM_CPU ? dev == MT_DEV_CPU : dev >= MT_DEV_CUDA0;
}

/* Of several GPUs each has its own peak: their parts are added up. */
static void fill_cats(struct report_rank *row, const struct model *m, enum rank_memory memory)
{
	for (unsigned i = 0; i < m->devs_cnt; i++) {
		const struct device *d = m->devs[i];

		for (unsigned c = 0; c < CAT_MAX && dev_counts(d->dev, memory); c++) {
			row->cats[c].live += d->cats[c].live;
			row->cats[c].at_peak += device_cat__at_peak(&d->cats[c], d->epoch);
			row->cats[c].byte_ns += device_cat__byte_ns(&d->cats[c], gaps__clock(&m->gaps, m->now_ns));
		}
	}
}

static void fill_state(struct report_rank *row, const struct model *m)
{
	const struct proc *p;

	TAILQ_FOREACH(p, &m->procs.all, all) {
		if (p->pid == row->pid) {
			row->gone = p->gone;
			row->exit_status = p->exit_status;
		}
		row->rss_peak = p->rss_peak > row->rss_peak ? p->rss_peak : row->rss_peak;
	}
}

static int fill_steps(struct report_rank *row, const struct rank_steps *s, enum rank_memory memory)
{
	size_t cnt = s->total < RANK_STEPS_MAX ? s->total : RANK_STEPS_MAX;

	row->steps = calloc(cnt + 1, sizeof(*row->steps));
	if (!row->steps)
		return -ENOMEM;
	for (size_t i = 0; i < cnt; i++) {
		size_t at = (s->total - cnt + i) % RANK_STEPS_MAX;

		row->steps[row->steps_cnt] = s->v[at];
		row->steps[row->steps_cnt].peak = s->peaks[at][memory];
		row->steps_cnt += s->peaks[at][memory] != POINT_UNKNOWN;
	}
	row->steps_total = s->total;
	row->steps_marked = s->marked;
	return 0;
}

/* All rows have the same buckets: those of a gap stay, without a value. */
static void series__blank(struct series *s, const struct gaps *g)
{
	for (size_t i = 0; g->cnt && i < s->cnt; i++)
		if (gaps__clock(g, s->points[i].ts_ns) == gaps__clock(g, s->points[i].ts_ns + s->bucket_ns))
			s->points[i].live_max = s->points[i].live_end = POINT_UNKNOWN;
}

static int fill_row(struct report_rank *row, const struct ranks *r, uint32_t idx, enum rank_memory memory)
{
	const struct rank *k = r->ranks[idx];
	name_id host = r->hosts[k->machine % EV_MACHINES_MAX];

	*row = (struct report_rank){ .idx = idx, .rank = k->number, .source = k->source, .label = k->label,
				     .machine = k->machine, .pid = k->pid, .launcher = k->launcher,
				     .began_ns = k->began_ns, .ended_ns = k->is_gone ? k->ended_ns : UINT64_MAX,
				     .procs_cnt = k->procs_cnt, .live = k->live[memory],
				     .peak = k->peak[memory], .peak_ts_ns = k->peak_ts_ns[memory],
				     .host = strdup(names__get(r->names, host)) };
	fill_cats(row, k->model, memory);
	fill_state(row, k->model);
	if (!row->host || fill_steps(row, k->steps, memory) < 0)
		return -ENOMEM;
	if (series_acc__copy(&k->series[memory], r->now_ns, &row->series) < 0)
		return -ENOMEM;
	series__blank(&row->series, &k->model->gaps);
	return model__report_sampling(k->model, &row->sampling);
}

/* Under torchrun a launcher that SLURM numbered is no rank: the least trusted labels count only where no others were seen. */
static uint8_t best_source(const struct ranks *r)
{
	uint8_t best = RANK_NONE;

	for (size_t i = 1; i < r->cnt; i++)
		best = r->ranks[i]->source < best ? r->ranks[i]->source : best;
	return best;
}

static int fill_rows(const struct ranks *r, struct report_ranks *ret)
{
	enum rank_memory memory = ranks__memory(r);
	uint8_t best = best_source(r);

	ret->memory = (uint8_t)memory;
	ret->rows = calloc(r->cnt + 1, sizeof(*ret->rows));
	if (!ret->rows)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->cnt; i++) {
		const struct rank *k = r->ranks[i];

		if (!i || k->source != best || (k->has_ranks && !k->peak[memory])) {
			ret->others_live += k->live[memory];
			ret->others_peak = k->peak[memory] > ret->others_peak ? k->peak[memory] : ret->others_peak;
			continue;
		}
		if (fill_row(&ret->rows[ret->cnt++], r, i, memory) < 0)
			return -ENOMEM;
	}
	return 0;
}

int ranks__report(struct ranks *r, size_t top, struct report_ranks **ret)
{
	struct report_ranks *rep = calloc(1, sizeof(*rep));
	int err = rep ? 0 : -ENOMEM;

	while (!err && r->waits_cnt)
		err = ranks__settle(r, r->waits);
	ranks__all(r, &(struct event){ .ts_ns = r->now_ns, .kind = EV_TICK }); /* time has passed for all of them */
	if (!err)
		err = fill_rows(r, rep);
	if (!err) {
		rep->not_listed = r->full_cnt;
		rep->start_ts_ns = r->start_ns;
		rep->epoch_off_ns = (int64_t)r->begin.addr;
		err = report_ranks__judge(rep);
	}
	if (!err && rep->cnt)
		err = model__report(r->ranks[rep->rows[rep->max_row].idx]->model, top, &rep->worst);
	if (err) {
		report_ranks__free(rep);
		return err;
	}
	*ret = rep;
	return 0;
}

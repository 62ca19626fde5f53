/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The memory of the traced steps of a sampled recording: which steps count, and their report. Those of the process whose steps
 * are counted; with several machines none, as their steps are not the same.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "model/core/kinds.h"
#include "model/core/spread.h"
#include "model/model_levels.h"
#include "model/reports.h"
#include "model/state.h"

#define NEAR_PART 100 /* of a device's peak: a step that has so much less still reaches it */
#define PEAKS_PART (1.0 / 50) /* peaks that differ by less are of the same height */

void model__sample_over(struct model *m, const struct proc *p, enum paid_step what, uint64_t took_ns)
{
	uint64_t marks = p->regions_begun - p->regions_at_step;

	if (!m->kinds)
		m->kinds = calloc(1, sizeof(*m->kinds));
	m->kinds_of++;
	if (m->kinds && what != PAID_BESIDE)
		kinds__step(m->kinds, marks, took_ns, what == PAID_TRACED);
	if (what == PAID_TRACED)
		sampled__end(&m->steps_made, m->devs, m->devs_cnt, p->pid, marks, m->now_ns - took_ns, m->now_ns);
}

void model__sample_begins(struct model *m, const struct proc *p)
{
	if (m->levels.cnt == 1)
		sampled__begin(&m->steps_made, m->devs, m->devs_cnt, p->pid, m->levels.windows, m->now_ns);
}

void model__sample_gone(struct model *m)
{
	sampled__give_up(&m->steps_made, m->devs, m->devs_cnt);
}

/* --- the report --------------------------------------------------------------------------------------------------- */

static double share_of(unsigned __int128 byte_ns, const struct sampled_step *step)
{
	return step->end_ns > step->begin_ns ? (double)byte_ns / (double)(step->end_ns - step->begin_ns) : 0;
}

/* Steps that are looked at, of all that are kept. */
struct chosen_steps {
	const struct sampled *s;
	size_t *at, cnt; /* their numbers */
	struct spread_step *room;
};

/* Of a category; CAT_MAX: of all. */
static struct report_step_cat step_cat(const struct chosen_steps *k, const struct sampled_dev *d, int cat)
{
	struct report_step_cat ret;

	for (size_t i = 0; i < k->cnt; i++) {
		const struct sampled_step *step = &k->s->v[k->at[i]];
		const struct sampled_bytes *v = k->at[i] < d->cnt ? &d->v[k->at[i]] : NULL;

		k->room[i] = (struct spread_step){ step->window, 0 };
		for (int c = 0; v && c < CAT_MAX; c++)
			if (c == cat || cat == CAT_MAX)
				k->room[i].v += share_of(v->byte_ns[c], step);
	}
	ret.mean = spread__of(k->room, k->cnt);
	for (size_t i = 0; i < k->cnt; i++) {
		const struct sampled_bytes *v = k->at[i] < d->cnt ? &d->v[k->at[i]] : NULL;

		k->room[i].v = !v ? 0 : cat == CAT_MAX ? (double)v->peak : (double)v->at_peak[cat];
	}
	ret.at_peak = spread__of(k->room, k->cnt);
	return ret;
}

static uint64_t chosen_steps__windows(const struct chosen_steps *k)
{
	uint64_t windows = 0;

	for (size_t i = 0; i < k->cnt; i++)
		windows += !i || k->s->v[k->at[i]].window != k->s->v[k->at[i - 1]].window;
	return windows;
}

static uint64_t steps_near(const struct chosen_steps *k, const struct device *d)
{
	uint64_t near = 0;

	for (size_t i = 0; i < k->cnt; i++)
		near += k->at[i] < d->sampled.cnt && d->sampled.v[k->at[i]].peak >= d->peak - d->peak / NEAR_PART;
	return near;
}

/* Devices in the order of their numbers, as all of a report are. */
static int report_steps__fill(const struct model *m, const struct chosen_steps *k, struct report_steps *ret)
{
	*ret = (struct report_steps){ .steps = k->cnt, .windows = chosen_steps__windows(k) };
	ret->devs = calloc(m->devs_cnt + 1u, sizeof(*ret->devs));
	for (unsigned dev = 0; ret->devs && k->cnt && dev < 256; dev++) {
		const struct device *d = m->dev_idx[dev] ? m->devs[m->dev_idx[dev] - 1] : NULL;
		struct report_step_dev *to = &ret->devs[ret->devs_cnt];

		if (!d)
			continue;
		*to = (struct report_step_dev){ .dev = (uint8_t)dev, .near = steps_near(k, d) };
		to->all = step_cat(k, &d->sampled, CAT_MAX);
		if (to->all.at_peak.mean <= 0)
			continue;
		for (int c = 0; c < CAT_MAX; c++)
			to->cats[c] = step_cat(k, &d->sampled, c);
		ret->devs_cnt++;
	}
	return ret->devs ? 0 : -ENOMEM;
}

/* --- kinds --------------------------------------------------------------------------------------------------------- */

/* How many heights there are, of all devices together, and the lowest. room: k->cnt. */
static uint64_t peaks_of(const struct model *m, const struct chosen_steps *k, double *room, double *ret_low)
{
	uint64_t peaks = k->cnt > 0;

	for (size_t i = 0; i < k->cnt; i++) {
		room[i] = 0;
		for (unsigned dev = 0; dev < m->devs_cnt; dev++)
			if (k->at[i] < m->devs[dev]->sampled.cnt && !dev_is_host(m->devs[dev]->dev))
				room[i] += (double)m->devs[dev]->sampled.v[k->at[i]].peak;
	}
	qsort(room, k->cnt, sizeof(*room), double_cmp);
	for (size_t i = 1; i < k->cnt; i++)
		peaks += room[i] > room[i - 1] * (1 + PEAKS_PART);
	*ret_low = k->cnt ? room[0] : 0;
	return peaks;
}

struct kinds_seen {
	struct kind v[KINDS_MAX];
	uint8_t as[KINDS_MAX]; /* the first one that is the same: its own number, most of all */
	unsigned cnt;
	double *room; /* a number a step */
};

static void chosen_steps__choose(struct chosen_steps *k, const struct kinds_seen *all, unsigned which)
{
	k->cnt = 0;
	for (size_t i = 0; i < k->s->cnt; i++) {
		const struct sampled_step *step = &k->s->v[i];
		unsigned kind = kinds__of(all->v, all->cnt, step->marks, step->end_ns - step->begin_ns);

		if (kind < KINDS_MAX && all->as[kind] == which)
			k->at[k->cnt++] = i;
	}
}

/* Steps with the same regions that take longer and make the same: the machine was busy, or waited. */
static void kinds_seen__join(const struct model *m, struct chosen_steps *k, struct kinds_seen *all)
{
	uint64_t peaks[KINDS_MAX];
	double low[KINDS_MAX];

	for (unsigned i = 0; i < all->cnt; i++)
		all->as[i] = (uint8_t)i;
	for (unsigned i = 0; i < all->cnt; i++) {
		chosen_steps__choose(k, all, i);
		peaks[i] = peaks_of(m, k, all->room, &low[i]);
	}
	for (unsigned i = 1; i < all->cnt; i++)
		for (unsigned j = 0; j < i && all->as[i] == i; j++)
			if (all->as[j] == j && all->v[i].marks == all->v[j].marks && peaks[i] == 1 && peaks[j] == 1 &&
			    low[i] <= low[j] * (1 + PEAKS_PART) && low[j] <= low[i] * (1 + PEAKS_PART))
				all->as[i] = (uint8_t)j;
}

static int report_kind__fill(const struct model *m, const struct kinds_seen *all, unsigned which, struct chosen_steps *k,
			     struct report_step_kind *ret)
{
	const struct kind *kind = &all->v[which];
	double low;

	*ret = (struct report_step_kind){ .regions = kind->marks, .has_regions = !kind->all_marks,
					  .took_ns = kinds__median_ns(m->kinds, kind, 0),
					  .traced_took_ns = kinds__median_ns(m->kinds, kind, 1) };
	for (unsigned i = 0; i < all->cnt; i++)
		if (all->as[i] == which) {
			ret->watched += all->v[i].watched;
			ret->traced += all->v[i].traced;
		}
	chosen_steps__choose(k, all, which);
	ret->peaks = peaks_of(m, k, all->room, &low);
	return report_steps__fill(m, k, &ret->made);
}

static int model__report_kinds(const struct model *m, struct chosen_steps *k, struct report_sampling *ret)
{
	struct kinds_seen all = { .room = calloc(k->s->cnt + 1, sizeof(*all.room)) };
	int err = 0;

	ret->kinds = calloc(KINDS_MAX, sizeof(*ret->kinds));
	if (!ret->kinds || !all.room) {
		free(all.room);
		return -ENOMEM;
	}
	all.cnt = m->kinds ? kinds__find(m->kinds, all.v) : 0;
	kinds_seen__join(m, k, &all);
	ret->steps_unsorted = m->kinds_of;
	for (unsigned i = 0; i < all.cnt && !err; i++) {
		struct report_step_kind *to = &ret->kinds[ret->kinds_cnt];

		if (all.as[i] != i)
			continue;
		err = report_kind__fill(m, &all, i, k, to);
		ret->kinds_cnt++;
		ret->steps_unsorted -= to->watched + to->traced;
	}
	free(all.room);
	return err;
}

int model__report_steps(const struct model *m, struct report_sampling *ret)
{
	const struct sampled *s = &m->steps_made;
	struct chosen_steps k = { .s = s };
	int err;

	if (m->levels.cnt != 1)
		return 0;
	k.at = calloc(s->cnt + 1, sizeof(*k.at));
	k.room = calloc(s->cnt + 1, sizeof(*k.room));
	err = k.at && k.room ? model__report_kinds(m, &k, ret) : -ENOMEM;
	for (k.cnt = 0; !err && k.cnt < s->cnt; k.cnt++)
		k.at[k.cnt] = k.cnt;
	err = err ? err : report_steps__fill(m, &k, &ret->steps);
	free(k.room);
	free(k.at);
	return err;
}

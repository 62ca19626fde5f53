/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * What the traced steps of a sampled recording were made of: which steps are looked at, and their report. Those of the process
 * whose steps are counted; of several machines none, for their steps are not the same.
 */
#include <errno.h>
#include <stdlib.h>

#include "model/core/spread.h"
#include "model/state.h"

void model__sample_over(struct model *m, const struct proc *p, uint64_t took_ns)
{
	sampled__end(&m->steps_made, m->devs, m->devs_cnt, p->pid, m->now_ns - took_ns, m->now_ns);
}

void model__sample_begins(struct model *m, const struct proc *p)
{
	if (m->samplers_cnt == 1)
		sampled__begin(&m->steps_made, m->devs, m->devs_cnt, p->pid, m->sampled.windows, m->now_ns);
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

/* Of a category; CAT_MAX: of all. */
static struct report_step_cat step_cat(const struct sampled *s, const struct sampled_dev *d, int cat, struct spread_step *room)
{
	struct report_step_cat ret;

	for (size_t i = 0; i < s->cnt; i++) {
		const struct sampled_bytes *v = i < d->cnt ? &d->v[i] : NULL;

		room[i] = (struct spread_step){ s->v[i].window, 0 };
		for (int c = 0; v && c < CAT_MAX; c++)
			if (c == cat || cat == CAT_MAX)
				room[i].v += share_of(v->byte_ns[c], &s->v[i]);
	}
	ret.mean = spread__of(room, s->cnt);
	for (size_t i = 0; i < s->cnt; i++)
		room[i].v = i >= d->cnt ? 0 : cat == CAT_MAX ? (double)d->v[i].peak : (double)d->v[i].at_peak[cat];
	ret.at_peak = spread__of(room, s->cnt);
	return ret;
}

static uint64_t sampled__windows(const struct sampled *s)
{
	uint64_t windows = 0;

	for (size_t i = 0; i < s->cnt; i++)
		windows += !i || s->v[i].window != s->v[i - 1].window;
	return windows;
}

/* In the order of their numbers, as all devices of a report are. */
static void report_steps__devs(const struct model *m, struct spread_step *room, struct report_steps *ret)
{
	for (unsigned dev = 0; dev < 256; dev++) {
		const struct device *d = m->dev_idx[dev] ? m->devs[m->dev_idx[dev] - 1] : NULL;
		struct report_step_dev *to = &ret->devs[ret->devs_cnt];

		if (!d)
			continue;
		*to = (struct report_step_dev){ .dev = (uint8_t)dev };
		to->all = step_cat(&m->steps_made, &d->sampled, CAT_MAX, room);
		if (to->all.at_peak.mean <= 0)
			continue;
		for (int c = 0; c < CAT_MAX; c++)
			to->cats[c] = step_cat(&m->steps_made, &d->sampled, c, room);
		ret->devs_cnt++;
	}
}

int model__report_steps(const struct model *m, struct report_steps *ret)
{
	const struct sampled *s = &m->steps_made;
	struct spread_step *room;

	*ret = (struct report_steps){ 0 };
	if (!s->cnt || m->samplers_cnt != 1)
		return 0;
	ret->steps = s->cnt;
	ret->windows = sampled__windows(s);
	room = calloc(s->cnt, sizeof(*room));
	ret->devs = calloc(m->devs_cnt + 1u, sizeof(*ret->devs));
	if (room && ret->devs)
		report_steps__devs(m, room, ret);
	free(room);
	return room && ret->devs ? 0 : -ENOMEM;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/page/page_feed.h"

#include <stdlib.h>
#include <string.h>

#include "timeline/report.h"
#include "view/fold/hist.h"
#include "view/page/html_doc.h"
#include "view/report_words.h"

#define RECENT_NS 1000000000ull /* a moment of the last minutes */

struct feed_lane {
	uint32_t pid; /* 0: of all processes */
	uint8_t dev;
	struct tui_hist *hist;
	uint64_t peak, peak_rel_ns; /* of a process's lane: of its samples */
};

struct page_feed {
	struct feed_lane lanes[PAGE_FEED_LANES];
	size_t cnt;
	uint64_t left_out;
	struct moment *room; /* PAGE_FEED_POINTS and three more a lane */
};

struct page_feed *page_feed__new(void)
{
	struct page_feed *f = calloc(1, sizeof(*f));

	if (f)
		f->room = calloc(PAGE_FEED_POINTS + 3 * PAGE_FEED_LANES, sizeof(*f->room));
	if (f && !f->room) {
		free(f);
		return NULL;
	}
	return f;
}

void page_feed__free(struct page_feed *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->cnt; i++)
		tui_hist__free(f->lanes[i].hist);
	free(f->room);
	free(f);
}

/* --- samples --------------------------------------------------------------------------------------------- */

static struct feed_lane *page_feed__lane(struct page_feed *f, uint32_t pid, uint8_t dev)
{
	struct feed_lane *l;

	for (size_t i = 0; i < f->cnt; i++)
		if (f->lanes[i].pid == pid && f->lanes[i].dev == dev)
			return &f->lanes[i];
	l = f->cnt < PAGE_FEED_LANES ? &f->lanes[f->cnt] : NULL;
	if (l)
		*l = (struct feed_lane){ .pid = pid, .dev = dev, .hist = tui_hist__new() };
	if (!l || !l->hist) {
		f->left_out++;
		return NULL;
	}
	f->cnt++;
	return l;
}

static void feed_lane__add(struct feed_lane *l, uint64_t rel_ns, const uint64_t cats[CAT_MAX])
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < CAT_MAX; i++)
		sum += cats[i];
	if (sum > l->peak) {
		l->peak = sum;
		l->peak_rel_ns = rel_ns;
	}
	tui_hist__add(l->hist, rel_ns, cats);
}

static const uint64_t *lane_now(const struct report *r, uint32_t pid, uint8_t dev)
{
	for (size_t i = 0; i < r->lanes.cnt; i++)
		if (r->lanes.rows[i].pid == pid && r->lanes.rows[i].dev == dev)
			return r->lanes.rows[i].cats;
	return NULL;
}

static size_t owners(const struct report *r)
{
	size_t cnt = 0;

	for (size_t i = 0; i < r->lanes.cnt; i++)
		cnt += r->lanes.rows[i].pid && (!i || r->lanes.rows[i].pid != r->lanes.rows[i - 1].pid); /* they are sorted */
	return cnt;
}

void page_feed__sample(struct page_feed *f, const struct report *r)
{
	static const uint64_t nothing[CAT_MAX];
	uint64_t rel_ns = r->run.end_ts_ns - r->run.start_ts_ns;
	struct feed_lane *l;

	for (size_t i = 0; i < r->devs_cnt; i++) {
		l = page_feed__lane(f, 0, r->devs[i].dev);
		if (l)
			tui_hist__add_report(l->hist, r, &r->devs[i]);
	}
	if (r->sampling.in_gap) /* live bytes are unknown then */
		return;
	if (owners(r) > 1)
		for (size_t i = 0; i < r->lanes.cnt; i++)
			if (r->lanes.rows[i].pid)
				(void)page_feed__lane(f, r->lanes.rows[i].pid, r->lanes.rows[i].dev);
	for (size_t i = 0; i < f->cnt; i++) {
		const uint64_t *now;

		if (!f->lanes[i].pid)
			continue;
		now = lane_now(r, f->lanes[i].pid, f->lanes[i].dev);
		feed_lane__add(&f->lanes[i], rel_ns, now ? now : nothing);
	}
}

/* --- the document ---------------------------------------------------------------------------------------- */

struct moment_list {
	struct moment *m;
	size_t cnt, max;
	uint64_t start_ns;
};

static void moment_list__add(struct moment_list *l, uint64_t rel_ns, uint64_t sum, const uint64_t cats[CAT_MAX])
{
	uint64_t ts_ns = l->start_ns + rel_ns;
	struct moment *m;

	if (l->cnt == l->max || (l->cnt && ts_ns <= l->m[l->cnt - 1].ts_ns))
		return;
	m = &l->m[l->cnt++];
	m->ts_ns = ts_ns;
	m->live = sum;
	memcpy(m->cats, cats, sizeof(m->cats));
}

/* A device's peak: its composition is known exactly, however long ago it was. */
struct exact {
	uint64_t rel_ns, sum;
	uint64_t cats[CAT_MAX];
	int is_due;
};

static void moment_list__add_in_turn(struct moment_list *l, const struct tui_comp *c, struct exact *e)
{
	if (e->is_due && e->rel_ns <= c->rel_ns) {
		moment_list__add(l, e->rel_ns, e->sum, e->cats);
		e->is_due = 0;
	}
	moment_list__add(l, c->rel_ns, c->sum, c->cats);
}

/* Half of the points for the whole trace, half for the last minutes. */
static void moment_list__fill(struct moment_list *l, const struct feed_lane *lane, uint64_t now_rel_ns, size_t points,
			      struct exact *e)
{
	uint64_t half = points / 2, recent_ns = half * RECENT_NS, old_ns = now_rel_ns > recent_ns ? now_rel_ns - recent_ns : 0;
	struct tui_comp c;

	old_ns += (RECENT_NS - old_ns % RECENT_NS) % RECENT_NS; /* as the history's slots are */
	for (uint64_t i = 0; old_ns && i < half; i++)
		if (tui_hist__get(lane->hist, old_ns / half * i, old_ns / half * (i + 1), &c))
			moment_list__add_in_turn(l, &c, e);
	for (uint64_t at = old_ns; at <= now_rel_ns; at += RECENT_NS)
		if (tui_hist__get(lane->hist, at, at + RECENT_NS, &c))
			moment_list__add_in_turn(l, &c, e);
	if (e->is_due)
		moment_list__add(l, e->rel_ns, e->sum, e->cats);
}

static struct exact exact_peak(const struct report *r, const struct feed_lane *lane)
{
	const struct report_dev *d = report_dev_find(r, lane->dev);
	struct exact e = { .is_due = 0 };

	if (lane->pid || !d || !d->peak || d->peak_ts_ns < r->run.start_ts_ns)
		return e;
	e.is_due = 1;
	e.rel_ns = d->peak_ts_ns - r->run.start_ts_ns;
	e.sum = d->peak;
	for (unsigned c = 0; c < CAT_MAX; c++)
		e.cats[c] = d->cats[c].at_peak;
	return e;
}

/* The report's own moment: a slot of the history may keep a fuller one. */
static void moment_list__add_now(struct moment_list *l, const struct report *r, const struct feed_lane *lane)
{
	const struct report_dev *d = report_dev_find(r, lane->dev);
	const uint64_t *of_proc = lane->pid ? lane_now(r, lane->pid, lane->dev) : NULL;
	uint64_t cats[CAT_MAX] = { 0 }, sum = 0;

	for (unsigned c = 0; c < CAT_MAX; c++) {
		cats[c] = of_proc ? of_proc[c] : lane->pid || !d ? 0 : d->cats[c].live;
		sum += cats[c];
	}
	if (l->cnt && l->m[l->cnt - 1].ts_ns == r->run.end_ts_ns)
		l->cnt--;
	moment_list__add(l, r->run.end_ts_ns - r->run.start_ts_ns, sum, cats);
}

static void put_lanes(struct page_feed *f, const struct report *r, struct html_doc *d)
{
	size_t points = f->cnt ? PAGE_FEED_POINTS / f->cnt : 0, used = 0;

	points = points < PAGE_FEED_LANE_POINTS ? points : PAGE_FEED_LANE_POINTS;
	for (size_t i = 0; i < f->cnt; i++) {
		const struct feed_lane *lane = &f->lanes[i];
		struct moment_list l = { .m = f->room + used, .max = points + 3, .start_ns = r->run.start_ts_ns };
		const struct report_dev *dev = lane->pid ? NULL : report_dev_find(r, lane->dev);
		struct exact e = exact_peak(r, lane);
		struct html_lane *to = &d->lanes[d->lanes_cnt++];

		to->peak = e.is_due ? e.sum : lane->peak;
		to->peak_ts_ns = r->run.start_ts_ns + (e.is_due ? e.rel_ns : lane->peak_rel_ns);
		moment_list__fill(&l, lane, r->run.end_ts_ns - r->run.start_ts_ns, points, &e);
		if (!r->sampling.in_gap)
			moment_list__add_now(&l, r, lane);
		to->pid = lane->pid;
		to->dev = lane->dev;
		to->between = dev && dev->between.cnt ? &dev->between : NULL;
		to->list = l.m;
		to->list_cnt = l.cnt;
		used += l.max;
	}
	d->lanes_left_out = f->left_out;
}

static void put_ooms(const struct report *r, struct html_doc *d)
{
	for (size_t i = 0; i < r->ooms.cnt && d->ooms_cnt < OOMS_SHOWN; i++) {
		const struct report_oom *m = &r->ooms.rows[i];

		if (m->kind == OOM_DEVICE)
			d->ooms[d->ooms_cnt++] = (struct html_oom){ m->ts_ns, m->asked, m->pid, m->dev };
	}
	d->ooms_all = r->ooms.total;
}

char *page_feed__document(struct page_feed *f, const struct report *r, size_t *ret_len)
{
	struct html_doc *d = calloc(1, sizeof(*d));
	struct outbuf o = { 0 };
	char *text = NULL;
	FILE *out = open_memstream(&text, ret_len);
	int err = !d || !out || outbuf__init(&o, out);

	if (!err) {
		d->report = r;
		d->is_brief = 1;
		d->events = report_events_sum(r);
		d->first_ts_ns = r->run.start_ts_ns;
		put_lanes(f, r, d);
		put_ooms(r, d);
		err = html_doc__write(d, &o) || outbuf__flush(&o);
	}
	outbuf__done(&o);
	if (out && fclose(out))
		err = 1;
	free(d);
	if (err) {
		free(text);
		return NULL;
	}
	for (char *p = text; (p = strchr(p, '\n'));) /* between JSON's tokens; within a string it would be \n */
		*p = ' ';
	return text;
}

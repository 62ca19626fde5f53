/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * html: one file that a browser opens without a network: the page (user/view/page and its chart library, put
 * into the binary when it was built) around one JSON document (html_doc.h; its schema is docs/page.md).
 *
 * A page's content is bounded: everything is gathered into bounded shapes while decisions pass, and written at the end.
 * Three walks over stacks and live blocks run side by side: feed's, for time, heapsum's, for places, and optrace's, for
 * operators one after the other.
 */
#include <errno.h>
#include <stdlib.h>

#include "timeline/sieve.h"
#include "view/export.h"
#include "view/fold/peak_moment.h"
#include "view/fold/feed.h"
#include "view/page/html_doc.h"
#include "view/page/html_page.h"

#define BUCKETS_ALL 16384u /* of all lanes together; 4 moments each, 8 where gaps were seen, some 50 bytes a moment */
#define BUCKETS_MAX 2048u
#define BUCKETS_MIN 128u
#define NEAR_ALL 16384u /* changes before and after each peak, of all devices together */
#define BANDS_ALL 8192u

struct export_ctx {
	struct outbuf o;
	struct export_to to; /* a copy, with operators asked for */
	struct feed *feed;
	struct html_doc doc;
	const struct tl_event *ev; /* the decision that feed is at */
	uint32_t buckets, near;
	struct peak_moment chosen; /* of to.at */
	int in_gap;
	uint64_t seen_ns; /* of the gap, until when allocations were seen */
	int err;
};

static void fail(struct export_ctx *c, int err)
{
	if (err && !c->err)
		c->err = err;
}

/* --- lanes ----------------------------------------------------------------------------------------------- */

static struct moments *lane_of(struct export_ctx *c, uint32_t pid, uint8_t dev)
{
	const struct report *r = c->to.report;
	const struct report_dev *d = report_dev_find(r, dev);
	struct html_lane *l;

	for (size_t i = 0; i < c->doc.lanes_cnt; i++)
		if (c->doc.lanes[i].pid == pid && c->doc.lanes[i].dev == dev)
			return c->doc.lanes[i].moments;
	if (c->doc.lanes_cnt == LANES_SHOWN) {
		c->doc.lanes_left_out++;
		return NULL;
	}
	l = &c->doc.lanes[c->doc.lanes_cnt];
	l->pid = pid;
	l->dev = dev;
	l->moments = moments__new(&(struct moments_opts){ .from_ns = c->doc.first_ts_ns, .to_ns = r->run.end_ts_ns,
							  .buckets = c->buckets, .around_ns = d ? d->peak_ts_ns : 0,
							  .near = pid ? 0 : c->near });
	if (!l->moments) {
		fail(c, -ENOMEM);
		return NULL;
	}
	if (c->in_gap)
		moments__gap(l->moments, c->ev->ts_ns, 1, c->seen_ns);
	c->doc.lanes_cnt++;
	return l->moments;
}

static void move(struct export_ctx *c, uint32_t pid, const struct lane *l, const struct live_change *ch, uint64_t ts_ns)
{
	struct moments *m = lane_of(c, pid, l->dev);

	if (!m)
		return;
	if (ch->from != ch->gap_from)
		moments__learned(m, ch->gap_from, ch->from, ch->b->size);
	if (ch->to != ch->gap_to)
		moments__learned(m, ch->to, ch->gap_to, ch->b->size);
	moments__move(m, ts_ns, ch->from, ch->to, ch->b->size);
}

/* Holds the moment of --at, so far, of each lane, for the page. */
static void hold(struct export_ctx *c)
{
	for (size_t i = 0; i < c->doc.lanes_cnt; i++)
		moments__hold(c->doc.lanes[i].moments);
}

static void choose(struct export_ctx *c, const struct lane *l, const struct live_change *ch, uint64_t ts_ns)
{
	uint64_t allocated = ch->from == CAT_MAX ? ch->b->size : 0, died = ch->to == CAT_MAX ? ch->b->size : 0;

	if (c->to.at && l->dev == c->to.at->dev && peak_moment__move(&c->chosen, allocated, died, ts_ns))
		hold(c);
}

/* --- blocks ---------------------------------------------------------------------------------------------- */

static void on_allocated(struct export_ctx *c, struct live_block *b, uint8_t cat, uint64_t ts_ns)
{
	const struct tl_event likely = tl_likely(c->ev), *ev = &likely;
	struct block_life life = { .id = b->id, .ptr = b->ptr, .size = b->size, .allocated_ns = ts_ns, .pid = b->pid,
				   .dev = b->dev, .cat = cat, .late = b->late };

	if (!b->late) { /* else the event's are of a later use */
		life.op = ev->op;
		life.region = ev->region;
		life.module = ev->module;
		life.root = ev->root;
	}
	b->tag = heaviest__allocated(c->doc.blocks, &life);
	if (!b->tag) {
		fail(c, -ENOMEM);
		return;
	}
}

static void on_counter(struct export_ctx *c, const struct lane *l, const struct live_change *ch, uint64_t ts_ns)
{
	move(c, 0, l, ch, ts_ns);
	if (c->to.report->procs_cnt > 1)
		move(c, l->pid, l, ch, ts_ns);
	choose(c, l, ch, ts_ns);
	if (ch->from == CAT_MAX) {
		on_allocated(c, ch->b, ch->gap_to, ts_ns);
	} else if (ch->b->tag) {
		heaviest__life(c->doc.blocks, ch->b->tag)->cat = ch->to < CAT_MAX ? ch->gap_to : ch->gap_from;
		if (ch->to < CAT_MAX)
			return;
		heaviest__freed(c->doc.blocks, ch->b->tag, ts_ns);
	}
}

/* --- bands ----------------------------------------------------------------------------------------------- */

static void on_end(struct export_ctx *c, uint32_t pid, uint32_t tid, uint32_t number, const struct stack_node *n,
		   const struct open_frame *e, uint64_t ts_ns)
{
	(void)tid;
	(void)number;
	if (n->kind == STACK_NODE)
		fail(c, bands__phase(&c->doc.bands, pid, PHASE_BACKWARD, e->ts_ns, ts_ns));
}

static int on_line(void *ctx, const struct optrace_line *l)
{
	opcolumns__add(&((struct export_ctx *)ctx)->doc.ops, l);
	return 0;
}

static void put_phase(struct export_ctx *c, const struct tl_event *ev)
{
	if (ev->kind == TL_OP || ev->kind == TL_REGION || ev->kind == TL_REGION_END || ev->kind == TL_CREATE)
		fail(c, bands__phase(&c->doc.bands, ev->pid, (enum phase)ev->phase, ev->ts_ns, ev->ts_ns));
	/* between an optimizer's step and zero_grad() of the next the job may do anything */
	if (ev->kind == TL_REGION_END && ev->phase == PHASE_OPTIMIZER)
		fail(c, bands__rest(&c->doc.bands, ev->pid));
}

static void on_step(struct export_ctx *c, uint32_t pid, uint64_t number, uint64_t begin_ts_ns, uint64_t ts_ns)
{
	fail(c, bands__step(&c->doc.bands, pid, number, begin_ts_ns, ts_ns));
}

static void on_oom(struct export_ctx *c, const struct tl_event *ev)
{
	if (c->doc.ooms_cnt < OOMS_SHOWN)
		c->doc.ooms[c->doc.ooms_cnt++] = (struct html_oom){ ev->ts_ns, ev->size, ev->pid, ev->dev };
	c->doc.ooms_all++;
}

static void on_gap(struct export_ctx *c, const struct tl_event *ev)
{
	c->in_gap = ev->version != 0;
	c->seen_ns = c->in_gap ? report_gap_seen_ns(c->to.report, ev->ts_ns) : 0;
	for (size_t i = 0; i < c->doc.lanes_cnt; i++)
		moments__gap(c->doc.lanes[i].moments, ev->ts_ns, c->in_gap, c->seen_ns);
	if (c->to.at && peak_moment__gap(&c->chosen, c->in_gap, ev->ts_ns, c->seen_ns))
		hold(c);
}

/* --- the whole ------------------------------------------------------------------------------------------- */

/* Marks: bands have these from the model's phases. */
static const struct feed_ops ops = {
	.counter = on_counter, .end = on_end, .step = on_step, .oom = on_oom,
};

static int event(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns)
{
	int r;

	(void)epoch_off_ns;
	if (!c->doc.events) /* attaching may have taken its time before */
		c->doc.first_ts_ns = ev->ts_ns;
	c->ev = ev;
	c->doc.events++;
	if (c->to.at && peak_moment__opens(&c->chosen, ev->ts_ns))
		hold(c);
	r = feed__event(c->feed, ev);
	put_phase(c, ev);
	if (ev->kind == TL_GAP)
		on_gap(c, ev);
	if (!r)
		r = optrace__event(c->doc.optrace, ev);
	if (!r)
		r = heapsum__event(c->doc.heap, ev);
	return r ? r : c->err;
}

static void done(struct export_ctx *c)
{
	feed__free(c->feed);
	for (size_t i = 0; i < c->doc.lanes_cnt; i++)
		moments__free(c->doc.lanes[i].moments);
	bands__done(&c->doc.bands);
	optrace__free(c->doc.optrace);
	opcolumns__done(&c->doc.ops);
	heaviest__free(c->doc.blocks);
	heapsum__free(c->doc.heap);
}

static uint32_t clamp(uint64_t v, uint32_t least, uint32_t most)
{
	return v < least ? least : v > most ? most : (uint32_t)v;
}

/* Divides a page's room among them. */
static void share_out(struct export_ctx *c)
{
	const struct report *r = c->to.report;
	uint64_t devs = r->devs_cnt ? r->devs_cnt : 1, procs = r->procs_cnt > 1 ? r->procs_cnt : 0;
	uint64_t lanes = devs + (2 * procs < devs * procs ? 2 * procs : devs * procs), at = 0, peak = 0;

	lanes = lanes < LANES_SHOWN ? lanes : LANES_SHOWN;
	c->buckets = clamp(BUCKETS_ALL / lanes, BUCKETS_MIN, BUCKETS_MAX);
	c->near = clamp(NEAR_ALL / devs, 64, NEAR_ALL);
	for (size_t i = 0; i < r->devs_cnt; i++)
		if (r->devs[i].peak >= peak) {
			peak = r->devs[i].peak;
			at = r->devs[i].peak_ts_ns;
		}
	bands__init(&c->doc.bands, clamp(BANDS_ALL / (procs ? procs : 1), 128, BANDS_ALL), at);
}

static int begin_parts(struct export_ctx *c)
{
	const struct report *r = c->to.report;
	int err = 0;

	c->doc.blocks = heaviest__new(BLOCKS_SHOWN);
	c->doc.heap = heapsum__new(&c->to);
	if (!c->doc.blocks || !c->doc.heap || feed__new(&c->feed, &c->to, &ops, c) ||
	    opcolumns__init(&c->doc.ops, 1, c->doc.bands.around_ns) || optrace__new(&c->doc.optrace, &c->to, on_line, c))
		return -ENOMEM;
	for (size_t i = 0; i < r->peak_blocks.cnt && !err; i++)
		err = heaviest__want(c->doc.blocks, r->peak_blocks.rows[i].id);
	return err;
}

static int begin(struct export_ctx *c, const struct export_to *to)
{
	if (!to->labels || !to->report)
		return -EINVAL;
	if (html_page__missing())
		return -ENOTSUP;
	c->to = *to;
	c->to.ops = 1;
	c->doc.report = to->report;
	c->doc.names = to->names;
	c->doc.labels = to->labels;
	c->doc.recording = to->recording;
	c->doc.at = to->at;
	if (to->at)
		c->chosen = (struct peak_moment){ .span = &to->at->sieve->span, .around_ns = to->at->peak_ns };
	share_out(c);
	return begin_parts(c) ? -ENOMEM : 0;
}

static int end(struct export_ctx *c, const struct report *r)
{
	struct html_part head = html_page__head(), tail = html_page__tail();

	if (!r)
		return c->err;
	feed__end(c->feed);
	if (c->to.at && peak_moment__opens(&c->chosen, UINT64_MAX))
		hold(c);
	c->doc.at_ts_ns = c->chosen.ts_ns;
	heapsum__end(c->doc.heap);
	fail(c, optrace__end(c->doc.optrace));
	opcolumns__end(&c->doc.ops);
	outbuf__put(&c->o, head.text, head.len);
	fail(c, html_doc__write(&c->doc, &c->o));
	outbuf__put(&c->o, tail.text, tail.len);
	return c->err;
}

const struct export_format export_html = {
	.name = "html",
	.help = "one page for a browser, offline: timeline, blocks, operators, suspects (docs/page.md)",
	.chooses = "a process and a stretch of time are chosen on the page",
	.needs = EXPORT_OPS | EXPORT_MARKS | EXPORT_GAPS | EXPORT_LABELS | EXPORT_TABLES | EXPORT_RANKS | EXPORT_MOMENT,
	.missing = html_page__missing,
	.size = sizeof(struct export_ctx),
	.begin = begin,
	.event = event,
	.end = end,
	.done = done,
};

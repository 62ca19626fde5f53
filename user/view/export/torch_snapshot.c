/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * torch-snapshot: the structure of torch.cuda.memory._dump_snapshot (torch 2.13; newer ones' fields too), which
 * pytorch.org/memory_viz and `python -m torch.cuda._memory_viz` read: a pickle, or JSON where the file's
 * name ends in .json or .json.gz.
 *
 * The viewer requires, and this therefore does (read in MemoryViz.js, process_alloc_data.js and _memory_viz.py):
 * - one list of a device's trace entries after the other; decisions come mixed, so each device's entries
 *   go to a file without a name first. Memory does not grow with the recording.
 * - a device is a number; here it is a device of a process, the first process's cuda:N being N.
 * - only trace entries have a category, and if any has, one must be "unknown": each trace ends with a
 *   "snapshot" entry that is.
 * - blocks seen late (from before the attach) begin each trace, so that they have a category as well. Their
 *   sizes are known only from the first pass.
 * - a version of another category is a free and an alloc, as torch's own _profile_to_snapshot writes it. It has an "annotate"
 *   behind it, torch 2.14's word for news of a live block; so has the alloc of a block that Python names.
 * - a block allocated in a gap (docs/sampling.md) comes where the gap ends, if it is live then: no curve is above
 *   the report's peak.
 * - each address in a trace lies in a segment, blocks tile segments: the segments are the parts of
 *   the address space that were ever used, gaps below 32 MiB included. They are not the driver's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/spool.h"
#include "event/event.h"
#include "timeline/labels.h"
#include "timeline/spans.h"
#include "view/export.h"
#include "view/export/snapframes.h"
#include "view/export/snaphost.h"
#include "view/fold/live.h"
#include "view/fold/name_cache.h"
#include "view/fold/ranges.h"

#define HELD 0x80000000u /* in a block's tag: allocated in a gap, and not written yet */
#define DEVICES_MAX 256 /* each has a file and a buffer while the export runs */

struct snap_device {
	uint32_t pid;
	uint8_t dev;
	FILE *spool;
	struct snapwrite w;
	struct ranges used;
};

/* From before the attach; live until the block is seen late or another one lies there. */
struct preexisting {
	struct labels_late late;
	int there;
};

struct export_ctx {
	const struct export_to *to;
	int is_pickle;
	uint32_t next_ref;
	struct live *live;
	struct snapframes frames;
	struct name_cache dev_names;
	struct snap_device *devices[DEVICES_MAX];
	unsigned devices_cnt;
	struct preexisting *before; /* by pid, dev, ptr */
	size_t before_cnt;
	uint64_t left_out; /* decisions of devices beyond the last, and final blocks that lie over others */
	struct snaphost host;
	uint64_t start_us, last_us;
	int has_start, in_gap;
};

/* --- devices --------------------------------------------------------------------------------------- */

static struct snap_device *device_new(struct export_ctx *c, uint32_t pid, uint8_t dev)
{
	struct snap_device *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->pid = pid;
	d->dev = dev;
	ranges__init(&d->used);
	d->spool = spool_file();
	if (!d->spool || snapwrite__init(&d->w, d->spool, c->is_pickle, &c->next_ref)) {
		if (d->spool)
			fclose(d->spool);
		free(d);
		return NULL;
	}
	return c->devices[c->devices_cnt++] = d;
}

static void device_free(struct snap_device *d)
{
	if (!d)
		return;
	snapwrite__done(&d->w);
	fclose(d->spool);
	free(d);
}

/* 0 and *ret NULL: not wanted, or no room. */
static int device_get(struct export_ctx *c, uint32_t pid, uint8_t dev, struct snap_device **ret)
{
	*ret = NULL;
	if (!export_wants_dev(c->to, dev))
		return 0;
	for (unsigned i = 0; i < c->devices_cnt; i++)
		if (c->devices[i]->pid == pid && c->devices[i]->dev == dev) {
			*ret = c->devices[i];
			return 0;
		}
	if (c->devices_cnt == DEVICES_MAX) {
		c->left_out++;
		return 0;
	}
	errno = ENOMEM;
	*ret = device_new(c, pid, dev);
	return *ret ? 0 : -errno;
}

/* --- trace entries ---------------------------------------------------------------------------------- */

struct trace_entry {
	enum word action;
	uint64_t ptr, size, us;
	uint32_t where; /* snapframes__of's number */
	uint8_t cat;
};

static void put_entry(struct export_ctx *c, struct snap_device *d, const struct trace_entry *e)
{
	struct snapwrite *w = &d->w;
	int is_free = e->action == W_FREE_REQUESTED || e->action == W_FREE_COMPLETED;

	snapwrite__item(w);
	snapwrite__open(w, '{');
	snap_word(w, W_ACTION, e->action);
	if (e->action == W_OOM)
		snap_u64(w, W_DEVICE_FREE, 0);
	else
		snap_u64(w, W_ADDR, e->ptr);
	snap_u64(w, W_SIZE, e->size);
	snap_u64(w, W_STREAM, 0);
	snap_u64(w, W_TIME_US, e->us);
	if (!is_free)
		snap_cat(w, e->cat);
	if (e->where && (c->is_pickle || !is_free)) /* a reference costs nothing */
		snapframes__put(&c->frames, w, e->where);
	if (e->action == W_ALLOC || e->action == W_ANNOTATE)
		snapframes__metadata(&c->frames, w, e->where, e->action == W_ALLOC ? CAT_MAX : e->cat);
	snapwrite__close(w, '}');
	if (!c->is_pickle)
		outbuf__lit(&w->o, "\n");
}

static void put_annotation(struct export_ctx *c, struct snap_device *d, const struct live_block *b, uint64_t us)
{
	put_entry(c, d, &(struct trace_entry){ W_ANNOTATE, b->ptr, b->size, us, b->tag, b->cat });
}

static void put_alloc(struct export_ctx *c, struct snap_device *d, const struct live_block *b, uint64_t us)
{
	put_entry(c, d, &(struct trace_entry){ W_ALLOC, b->ptr, b->size, us, b->tag, b->cat });
	ranges__add(&d->used, b->ptr, b->size);
	if (snapframes__is_named(&c->frames, b->tag))
		put_annotation(c, d, b, us);
}

static void put_free(struct export_ctx *c, struct snap_device *d, const struct live_block *b, uint64_t us)
{
	put_entry(c, d, &(struct trace_entry){ W_FREE_REQUESTED, b->ptr, b->size, us, b->tag, b->cat });
	put_entry(c, d, &(struct trace_entry){ W_FREE_COMPLETED, b->ptr, b->size, us, b->tag, b->cat });
}

/* --- blocks from before the attach ------------------------------------------------------------------- */

static int before_cmp(const void *pa, const void *pb)
{
	const struct labels_late *a = &((const struct preexisting *)pa)->late, *b = &((const struct preexisting *)pb)->late;

	return cmp_up(a->pid, b->pid) ?: cmp_up(a->dev, b->dev) ?: cmp_up(a->ptr, b->ptr);
}

static int before_and_id(const void *pa, const void *pb)
{
	const struct preexisting *a = pa, *b = pb;

	return before_cmp(a, b) ?: cmp_up(a->late.id, b->late.id);
}

static struct preexisting *before_find(struct export_ctx *c, uint32_t pid, uint8_t dev, uint64_t ptr)
{
	struct preexisting wanted = { .late = { .pid = pid, .dev = dev, .ptr = ptr } };
	struct preexisting *f = c->before_cnt ? bsearch(&wanted, c->before, c->before_cnt, sizeof(wanted), before_cmp) : NULL;

	return f && f->there ? f : NULL;
}

static int before_load(struct export_ctx *c)
{
	struct labels_late late;
	size_t pos = 0, room = 0, out = 0;

	while (!labels__next_late(c->to->labels, &pos, &late)) {
		if (late.size == TL_SIZE_UNKNOWN || !late.size)
			continue;
		if (c->before_cnt == room) {
			struct preexisting *more = realloc(c->before, (room = 2 * room + 256) * sizeof(*more));

			if (!more)
				return -ENOMEM;
			c->before = more;
		}
		c->before[c->before_cnt++] = (struct preexisting){ late, 1 };
	}
	if (!c->before_cnt)
		return 0;
	qsort(c->before, c->before_cnt, sizeof(*c->before), before_and_id);
	for (size_t i = 1; i < c->before_cnt; i++) /* of two at one address, one after the other, the first */
		if (before_cmp(&c->before[out], &c->before[i]))
			c->before[++out] = c->before[i];
	c->before_cnt = out + 1;
	return 0;
}

static struct live_block before_block(struct export_ctx *c, const struct preexisting *f)
{
	return (struct live_block){ .ptr = f->late.ptr, .size = f->late.size, .late = 1,
				    .tag = snapframes__of(&c->frames, f->late.id, NULL),
				    .cat = (uint8_t)labels__get(c->to->labels, f->late.id, 0) };
}

static int before_tell(struct export_ctx *c)
{
	for (size_t i = 0; i < c->before_cnt; i++) {
		const struct preexisting *f = &c->before[i];
		struct live_block b = before_block(c, f);
		struct snap_device *d;
		int r = device_get(c, f->late.pid, f->late.dev, &d);

		if (r < 0)
			return r;
		if (d)
			put_alloc(c, d, &b, c->start_us);
	}
	return 0;
}

/* --- decisions --------------------------------------------------------------------------------------- */

static void on_change(struct export_ctx *c, struct snap_device *d, const struct tl_event *ev,
		      const struct live_change *ch, uint64_t us)
{
	struct preexisting *f = ch->from == CAT_MAX ? before_find(c, ev->pid, ev->dev, ev->ptr) : NULL;

	if (ch->from == CAT_MAX) {
		int is_reported = f && f->late.id == ev->id;
		struct live_block old;

		if (f && !is_reported) {
			old = before_block(c, f);
			put_free(c, d, &old, us);
		}
		if (f)
			f->there = 0;
		ch->b->tag = snapframes__of(&c->frames, ev->id, ev->kind == TL_CREATE ? ev : NULL);
		if (!is_reported && c->in_gap)
			ch->b->tag |= HELD;
		else if (!is_reported)
			put_alloc(c, d, ch->b, us);
	} else if (ch->b->tag & HELD) {
		return;
	} else if (ch->to == CAT_MAX) {
		put_free(c, d, ch->b, us);
	} else if (ch->from != ch->to) {
		put_free(c, d, ch->b, us);
		put_alloc(c, d, ch->b, us);
		if (!snapframes__is_named(&c->frames, ch->b->tag)) /* else put_alloc did */
			put_annotation(c, d, ch->b, us);
	}
}

/* A gap is over: blocks allocated in it that are still live. */
static int tell_held(struct export_ctx *c, uint64_t us)
{
	struct live_block *b;
	size_t pos = 0;

	while ((b = live__next(c->live, &pos))) {
		struct snap_device *d;
		int r;

		if (!(b->tag & HELD))
			continue;
		b->tag &= ~HELD;
		r = device_get(c, b->pid, b->dev, &d);
		if (r < 0)
			return r;
		if (d)
			put_alloc(c, d, b, us);
	}
	return 0;
}

static int event(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns)
{
	uint64_t us = (ev->ts_ns + (uint64_t)epoch_off_ns) / 1000;
	struct snap_device *d = NULL;
	struct where where = { 0 };
	struct live_change ch;
	int r;

	if (ev->kind == TL_PINNED) /* no filter is about it */
		return c->to->part ? 0 : snaphost__event(&c->host, ev, us);
	if (!c->has_start) {
		c->has_start = 1;
		c->start_us = us;
		if ((r = before_tell(c)) < 0)
			return r;
	}
	if (us > c->last_us)
		c->last_us = us;
	if (ev->kind == TL_GAP) {
		c->in_gap = ev->version != 0;
		return c->in_gap ? 0 : tell_held(c, us);
	}
	stacks__event(c->frames.stacks, ev);
	if (ev->kind == TL_OOM) {
		r = device_get(c, ev->pid, ev->dev, &d);
		where.stack = d ? stacks__at(c->frames.stacks, ev) : 0;
		if (d)
			put_entry(c, d, &(struct trace_entry){ W_OOM, 0, ev->size, us, snapframes__number(&c->frames, &where),
							       CAT_UNKNOWN });
		return r < 0 ? r : d ? d->w.o.err : 0;
	}
	r = live__event(c->live, ev, &ch);
	if (r <= 0 || !ch.b->size)
		return r < 0 ? r : 0;
	r = device_get(c, ch.b->pid, ch.b->dev, &d);
	if (d)
		on_change(c, d, ev, &ch, us);
	return r < 0 ? r : d ? d->w.o.err : 0;
}

/* --- segments ---------------------------------------------------------------------------------------- */

static int by_place(const void *pa, const void *pb)
{
	const struct live_block *a = pa, *b = pb;

	return cmp_up(a->pid, b->pid) ?: cmp_up(a->dev, b->dev) ?: cmp_up(a->ptr, b->ptr) ?: cmp_up(a->id, b->id);
}

/* Blocks live at the end, in the order of segments: 0 or -ENOMEM. */
static int collect_live(struct export_ctx *c, struct live_block **ret, size_t *ret_cnt)
{
	const struct live_block *b;
	size_t cnt = 0, pos = 0, room = c->before_cnt;
	struct live_block *all;

	while (live__next(c->live, &pos))
		room++;
	all = calloc(room + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	for (pos = 0; (b = live__next(c->live, &pos));)
		if (b->size)
			all[cnt++] = *b;
	qsort(all, cnt, sizeof(*all), by_place);
	*ret = all;
	*ret_cnt = cnt;
	return 0;
}

static void put_block(struct export_ctx *c, struct snapwrite *w, uint64_t at, uint64_t size, const struct live_block *b)
{
	snapwrite__item(w);
	snapwrite__open(w, '{');
	snap_u64(w, W_ADDRESS, at);
	snap_u64(w, W_SIZE, size);
	snap_u64(w, W_REQUESTED_SIZE, b ? size : 0);
	snap_word(w, W_STATE, b ? W_ACTIVE : W_INACTIVE);
	snapframes__put(&c->frames, w, b ? b->tag : 0);
	snapwrite__close(w, '}');
}

/* The blocks from `b` on that lie in the range; returns the first that does not. Tiles: the space between them is inactive. */
static size_t put_blocks(struct export_ctx *c, struct snapwrite *w, const struct range_used *u, const struct live_block *b,
			 size_t cnt)
{
	uint64_t at = u->from;
	size_t i = 0;

	w->items = 0;
	snap_key(w, W_BLOCKS);
	snapwrite__open(w, '[');
	for (; i < cnt && b[i].ptr < u->to; i++) {
		if (b[i].ptr < at) {
			c->left_out++;
			continue;
		}
		if (b[i].ptr > at)
			put_block(c, w, at, b[i].ptr - at, NULL);
		put_block(c, w, b[i].ptr, b[i].size, &b[i]);
		at = b[i].ptr + b[i].size;
	}
	if (at < u->to)
		put_block(c, w, at, u->to - at, NULL);
	snapwrite__close(w, ']');
	return i;
}

static uint64_t bytes_in(const struct range_used *u, const struct live_block *b, size_t cnt)
{
	uint64_t sum = 0, at = u->from;

	for (size_t i = 0; i < cnt && b[i].ptr < u->to; i++)
		if (b[i].ptr >= at) {
			sum += b[i].size;
			at = b[i].ptr + b[i].size;
		}
	return sum;
}

static size_t put_segment(struct export_ctx *c, struct snapwrite *w, unsigned device, const struct range_used *u,
			  const struct live_block *b, size_t cnt)
{
	uint64_t bytes = bytes_in(u, b, cnt);

	snapwrite__open(w, '{');
	snap_u64(w, W_DEVICE, device);
	snap_u64(w, W_ADDRESS, u->from);
	snap_u64(w, W_TOTAL_SIZE, u->to - u->from);
	snap_u64(w, W_ALLOCATED_SIZE, bytes);
	snap_u64(w, W_ACTIVE_SIZE, bytes);
	snap_u64(w, W_REQUESTED_SIZE, bytes);
	snap_u64(w, W_STREAM, 0);
	snap_word(w, W_SEGMENT_TYPE, W_LARGE);
	snap_key(w, W_POOL_ID);
	snapwrite__pair(w, 0, 0);
	snap_key(w, W_EXPANDABLE);
	snapwrite__false(w);
	snapframes__put(&c->frames, w, 0);
	cnt = put_blocks(c, w, u, b, cnt);
	snapwrite__close(w, '}');
	return cnt;
}

static int put_segments(struct export_ctx *c, struct snapwrite *w)
{
	struct live_block *all = NULL;
	size_t cnt = 0;
	int r = tell_held(c, c->last_us); /* a gap that goes on: segments have it, too */

	r = r ? r : collect_live(c, &all, &cnt);

	if (r < 0)
		return r;
	snap_key(w, W_SEGMENTS);
	snapwrite__open(w, '[');
	for (unsigned i = 0; i < c->devices_cnt; i++) {
		const struct snap_device *d = c->devices[i];
		size_t at = 0, n = 0;

		while (at < cnt && (all[at].pid != d->pid || all[at].dev != d->dev))
			at++;
		while (at + n < cnt && all[at + n].pid == d->pid && all[at + n].dev == d->dev)
			n++;
		for (size_t k = 0; k < d->used.cnt; k++) {
			size_t used = put_segment(c, w, i, &d->used.r[k], all + at, n);

			at += used;
			n -= used;
		}
	}
	snapwrite__close(w, ']');
	free(all);
	return 0;
}

/* --- the whole ---------------------------------------------------------------------------------------- */

static int put_traces(struct export_ctx *c, struct snapwrite *w)
{
	int r = 0;

	snap_key(w, W_DEVICE_TRACES);
	snapwrite__open(w, '[');
	for (unsigned i = 0; i < c->devices_cnt && !r; i++) {
		struct snap_device *d = c->devices[i];

		put_entry(c, d, &(struct trace_entry){ W_SNAPSHOT, 0, 0, c->last_us, 0, CAT_UNKNOWN });
		snapwrite__open(w, '[');
		r = outbuf__flush(&d->w.o);
		r = r ? r : snapwrite__copy(w, d->spool);
		snapwrite__close(w, ']');
	}
	snapwrite__close(w, ']');
	return r;
}

static void put_settings(struct export_ctx *c, struct snapwrite *w)
{
	char text[64];

	snap_key(w, W_ALLOCATOR_SETTINGS);
	snapwrite__open(w, '{');
	snap_word(w, W_RECORDER, W_MEMTRACE);
	snap_key(w, W_DEVICES);
	snapwrite__open(w, '[');
	for (unsigned i = 0; i < c->devices_cnt; i++) {
		int n = snprintf(text, sizeof(text), "%u: %s of process %u", i, c->dev_names.dev_names[c->devices[i]->dev],
				 c->devices[i]->pid);

		snapwrite__text(w, text, (size_t)n);
	}
	snapwrite__close(w, ']');
	snap_u64(w, W_LEFT_OUT, c->left_out);
	snapwrite__close(w, '}');
}

/* The first device of a process; devices_cnt: it has none. */
static unsigned first_device(const struct export_ctx *c, uint32_t pid)
{
	unsigned dev = 0;

	while (dev < c->devices_cnt && c->devices[dev]->pid != pid)
		dev++;
	return dev;
}

static void put_recompile(struct snapwrite *w, const struct report_recompile *k, enum word stage, unsigned dev, uint64_t ns)
{
	char name[256];
	int len = snprintf(name, sizeof(name), "torch.compile, again: %.200s", k->function[0] ? k->function : "a function");

	snapwrite__item(w);
	snapwrite__open(w, '{');
	snap_key(w, W_NAME);
	snapwrite__text(w, name, (size_t)len);
	snap_word(w, W_STAGE, stage);
	snap_u64(w, W_DEVICE, dev);
	snap_u64(w, W_TIME_US, ns / 1000);
	snapwrite__close(w, '}');
}

/* This moment of the process is in the part that was asked for. */
static int is_in_part(const struct export_ctx *c, uint32_t pid, uint64_t ts_ns)
{
	return pid_is_one_of(c->to->pids, c->to->pids_cnt, pid) && (!c->to->span || span__has(c->to->span, ts_ns));
}

static void put_recompiles(struct export_ctx *c, struct snapwrite *w, const struct report *r)
{
	for (size_t i = 0; i < r->compiles.rows_cnt; i++) {
		const struct report_recompile *k = &r->compiles.rows[i];
		unsigned dev = first_device(c, k->pid);
		uint64_t epoch_off_ns = (uint64_t)r->run.epoch_off_ns, end_ns;

		if (dev == c->devices_cnt || k->before)
			continue;
		if (__builtin_add_overflow(k->ts_ns, k->own_ns, &end_ns))
			end_ns = UINT64_MAX - epoch_off_ns;
		if (is_in_part(c, k->pid, k->ts_ns))
			put_recompile(w, k, W_START, dev, k->ts_ns + epoch_off_ns);
		if (is_in_part(c, k->pid, end_ns))
			put_recompile(w, k, W_END, dev, end_ns + epoch_off_ns);
	}
}

/* As torch writes record_function's regions; on the first device of the process. */
static void put_annotations(struct export_ctx *c, struct snapwrite *w, const struct report *r)
{
	snap_key(w, W_ANNOTATIONS);
	snapwrite__open(w, '[');
	for (size_t i = 0; i < r->marks.cnt; i++) {
		const struct report_mark *k = &r->marks.rows[i];
		unsigned dev = first_device(c, k->pid);

		if (dev == c->devices_cnt || !is_in_part(c, k->pid, k->at.ts_ns))
			continue;
		snapwrite__item(w);
		snapwrite__open(w, '{');
		snap_word(w, W_NAME, (enum word)(W_MARKS + k->kind - 1));
		snap_word(w, W_STAGE, W_MARK);
		if (k->kind == MARK_STEP)
			snap_u64(w, W_NUMBER, k->number);
		snap_u64(w, W_DEVICE, dev);
		snap_u64(w, W_TIME_US, (k->at.ts_ns + (uint64_t)r->run.epoch_off_ns) / 1000);
		snapwrite__close(w, '}');
	}
	put_recompiles(c, w, r);
	snapwrite__close(w, ']');
}

static int put_all(struct export_ctx *c, const struct report *report)
{
	struct snapwrite w;
	int r = snapwrite__init(&w, c->to->out, c->is_pickle, &c->next_ref);

	if (r < 0)
		return r;
	if (c->is_pickle)
		outbuf__lit(&w.o, "\x80\x02");
	snapwrite__open(&w, '{');
	r = put_traces(c, &w);
	if (!r)
		r = put_segments(c, &w);
	put_settings(c, &w);
	put_annotations(c, &w, report);
	if (!r)
		r = snaphost__put(&c->host, &w);
	snapwrite__close(&w, '}');
	outbuf__char(&w.o, c->is_pickle ? '.' : '\n');
	if (outbuf__flush(&w.o) && !r)
		r = w.o.err;
	snapwrite__done(&w);
	return r;
}

/* The main process's cuda:N is device N, its CPU the next one, as torch counts. */
static int add_main_devices(struct export_ctx *c)
{
	const struct report *r = c->to->report;
	struct snap_device *d;
	unsigned cuda = 0;
	int err = 0;

	if (!r)
		return 0;
	for (size_t i = 0; i < r->devs_cnt; i++)
		if (dev_is_gpu(r->devs[i].dev))
			cuda = r->devs[i].dev - MT_DEV_CUDA0 + 1u;
	for (unsigned i = 0; i < cuda && !err; i++)
		err = device_get(c, r->run.pid, (uint8_t)(MT_DEV_CUDA0 + i), &d);
	return err ? err : device_get(c, r->run.pid, MT_DEV_CPU, &d);
}

static void done(struct export_ctx *c)
{
	for (unsigned i = 0; i < c->devices_cnt; i++)
		device_free(c->devices[i]);
	snaphost__done(&c->host);
	free(c->before);
	live__free(c->live);
	snapframes__done(&c->frames);
	name_cache__done(&c->dev_names);
}

static int begin(struct export_ctx *c, const struct export_to *to)
{
	int r = -ENOMEM;

	c->to = to;
	c->is_pickle = !export_has_suffix(to->path, ".json");
	snaphost__init(&c->host, &c->frames, c->is_pickle, &c->next_ref);
	name_cache__init(&c->dev_names, to->names, NULL);
	c->live = live__new(to->labels);
	c->frames.stacks = stacks__new(NULL);
	c->frames.names = to->names;
	c->frames.labels = to->labels;
	if (c->live && c->frames.stacks)
		r = add_main_devices(c);
	return r || !to->labels || to->part ? r : before_load(c);
}

static int end(struct export_ctx *c, const struct report *r)
{
	return r ? put_all(c, r) : 0; /* no report: it failed before */
}

const struct export_format export_torch_snapshot = {
	.name = "torch-snapshot",
	.help = "torch.cuda.memory._dump_snapshot's, for pytorch.org/memory_viz: a pickle, JSON if OUT ends in .json",
	.needs = EXPORT_OPS | EXPORT_LABELS | EXPORT_GAPS | EXPORT_BINARY | EXPORT_PART | EXPORT_PINNED,
	.size = sizeof(struct export_ctx),
	.writes_itself = 1,
	.begin = begin,
	.event = event,
	.end = end,
	.done = done,
};

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Labels are those of the moment of writing: what has died by then has the last one that it was told, what lives has
 * learned since. Costs are those of the window: the counts at its begin go along. Losses are those of all the time, because
 * what was lost earlier may be missing now.
 */
#include "cmd/window.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/array.h"
#include "base/err.h"
#include "base/names.h"
#include "cmd/kept.h"
#include "event/recording.h"
#include "event/recording_frame.h"

#define OOM_PAUSE_NS 10000000000ull /* a job that asks again and again makes one file */

struct win_frame {
	TAILQ_ENTRY(win_frame) next;
	void *data;
	size_t len;
	uint64_t first_ns, last_ns;
	/* as of its begin */
	uint64_t newest_id;
	struct events open;
	/* in it */
	struct model_was *dead;
	size_t dead_cnt, dead_cap;
	struct kept kept;
};

struct window {
	struct names *names;
	uint64_t window_ns, bytes_max;
	struct rec_enc *enc;
	struct event *pending;
	uint32_t pending_cnt;
	TAILQ_HEAD(, win_frame) frames; /* the last one is the one under way */
	struct win_frame *now;
	uint64_t bytes;
	struct kept head; /* of frames that left */
	uint64_t left_out, head_dropped; /* frames that left; rare events that found no room */
	uint64_t last_ns, start_ns;
	uint64_t failed;      /* events that there was no memory for */
	uint64_t cut;	      /* events that the disk had no room for */
	const char *reason;
	uint64_t reason_ns, oom_kills;
	struct event failed_call; /* of a driver, which may still be tried again with success; kind 0: none */
};

/* --- frames ------------------------------------------------------------------------------------------------ */

static size_t win_frame__bytes(const struct win_frame *f)
{
	return sizeof(*f) + f->len + f->dead_cap * sizeof(*f->dead) + f->open.cap * sizeof(struct event) +
	       kept__bytes(&f->kept);
}

static void win_frame__free(struct win_frame *f)
{
	if (!f)
		return;
	free(f->data);
	free(f->dead);
	events__done(&f->open);
	kept__done(&f->kept);
	free(f);
}

static int add_open(void *ctx, const struct event *ev)
{
	return events__add(ctx, ev, WINDOW_HEAD_MAX);
}

static void window__begin_frame(struct window *w, struct model *m)
{
	struct win_frame *f = calloc(1, sizeof(*f));

	w->now = f;
	if (!f)
		return;
	f->newest_id = model__mark(m);
	if (model__each_open(m, add_open, &f->open) < 0)
		w->failed++;
}

static int window__is_old(const struct window *w, const struct win_frame *f)
{
	const struct win_frame *next = TAILQ_NEXT(f, next);

	return next && w->last_ns - next->first_ns >= w->window_ns;
}

static void window__drop_first(struct window *w)
{
	struct win_frame *f = TAILQ_FIRST(&w->frames);

	TAILQ_REMOVE(&w->frames, f, next);
	w->bytes -= win_frame__bytes(f);
	w->head_dropped += kept__append(&w->head, &f->kept, WINDOW_HEAD_MAX); /* what was rare in it goes on */
	w->left_out++;
	win_frame__free(f);
}

static void window__let_go(struct window *w)
{
	struct win_frame *f;

	while ((f = TAILQ_FIRST(&w->frames)) && (window__is_old(w, f) || w->bytes > w->bytes_max))
		window__drop_first(w);
}

/* The older half leaves, so that the rest may fit on the disk. -ENOSPC: one frame is all there is. */
static int window__halve(struct window *w)
{
	const struct win_frame *f;
	struct mtr_frame head;
	size_t cnt = 0;

	TAILQ_FOREACH(f, &w->frames, next)
		cnt++;
	if (cnt < 2)
		return -ENOSPC;
	for (size_t i = 0; i < cnt / 2; i++) {
		memcpy(&head, TAILQ_FIRST(&w->frames)->data, sizeof(head));
		w->cut += head.events;
		window__drop_first(w);
	}
	return 0;
}

/* What is pending becomes a frame of the ring. */
static void window__end_frame(struct window *w, struct model *m)
{
	struct rec_frame_in in = { .events = w->pending, .event_cnt = w->pending_cnt, .names = w->names };
	struct win_frame *f = w->now;
	const void *data;

	if (!w->pending_cnt)
		return;
	if (f) {
		rec_enc__frame(w->enc, &in, &data, &f->len);
		f->data = malloc(f->len);
	}
	if (f && f->data) {
		memcpy(f->data, data, f->len);
		f->first_ns = w->pending[0].ts_ns;
		f->last_ns = w->pending[w->pending_cnt - 1].ts_ns;
		TAILQ_INSERT_TAIL(&w->frames, f, next);
		w->bytes += win_frame__bytes(f);
	} else {
		w->failed += w->pending_cnt;
		win_frame__free(f);
	}
	w->pending_cnt = 0;
	window__let_go(w);
	window__begin_frame(w, m);
}

static void window__buried(void *ctx, const struct model_was *was)
{
	struct window *w = ctx;
	struct win_frame *f = w->now;

	if (!f)
		return;
	if (!array_has_room(f->dead, f->dead_cnt, f->dead_cap, 64)) {
		w->failed++;
		return;
	}
	f->dead[f->dead_cnt++] = *was;
}

struct window *window__new(struct names *names, uint64_t window_ns, uint64_t bytes_max)
{
	struct window *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	TAILQ_INIT(&w->frames);
	w->names = names;
	w->window_ns = window_ns;
	w->bytes_max = bytes_max;
	w->enc = rec_enc__new(0);
	w->pending = malloc(MTR_FRAME_EVENTS_MAX * sizeof(*w->pending));
	if (w->enc && w->pending)
		return w;
	window__free(w);
	return NULL;
}

void window__free(struct window *w)
{
	struct win_frame *f;

	if (!w)
		return;
	while ((f = TAILQ_FIRST(&w->frames))) {
		TAILQ_REMOVE(&w->frames, f, next);
		win_frame__free(f);
	}
	win_frame__free(w->now);
	kept__done(&w->head);
	rec_enc__free(w->enc);
	free(w->pending);
	free(w);
}

void window__model_opts(struct window *w, struct model_opts *ret)
{
	ret->buried = window__buried;
	ret->buried_ctx = w;
}

/* --- events ------------------------------------------------------------------------------------------------ */

/* An allocator whose driver has nothing left gives back what it kept, and asks again: then nobody was refused. */
static const char *window__failed_call(struct window *w, const struct event *ev)
{
	struct event *f = &w->failed_call;
	int is_same = f->kind && ev->pid == f->pid && ev->tid == f->tid;

	if (f->kind && ev->ts_ns - f->ts_ns >= OOM_RETRY_NS) {
		f->kind = 0;
		return "a device is out of memory";
	}
	if (is_same && ev->kind == MT_EV_OOM)
		f->kind = 0; /* its allocator's own word on it */
	if (is_same && ev->kind == MT_EV_SEG_ALLOC && ev->size >= f->size)
		f->kind = 0;
	if (!f->kind && model_is_refusal(ev))
		*f = *ev;
	return NULL;
}

static void window__notice(struct window *w, const struct event *ev)
{
	const char *reason = window__failed_call(w, ev);

	if (ev->kind == MT_EV_OOM)
		reason = "out of memory";
	if (ev->kind == EV_OOM_KILL) {
		reason = w->oom_kills && ev->size + 1 > w->oom_kills ? "a process was killed for memory" : NULL;
		w->oom_kills = ev->size + 1;
	}
	if (!reason || (w->reason_ns && ev->ts_ns < w->reason_ns + OOM_PAUSE_NS))
		return;
	w->reason = reason;
	w->reason_ns = ev->ts_ns;
}

const char *window__reason(struct window *w)
{
	const char *reason = w->reason;

	w->reason = NULL;
	return reason;
}

void window__add(struct window *w, struct model *m, const struct event *ev)
{
	struct event *to = &w->pending[w->pending_cnt];

	if (!w->now && !w->pending_cnt)
		window__begin_frame(w, m);
	*to = *ev;
	if (to->ts_ns < w->last_ns)
		to->ts_ns = w->last_ns;
	w->last_ns = to->ts_ns;
	w->start_ns = w->start_ns ? w->start_ns : to->ts_ns;
	if (kept_wants(ev->kind) && (!w->now || kept__add(&w->now->kept, to, WINDOW_HEAD_MAX) < 0))
		w->head_dropped++;
	window__notice(w, ev);
	if (++w->pending_cnt == MTR_FRAME_EVENTS_MAX)
		window__end_frame(w, m);
}

void window__tick(struct window *w, struct model *m)
{
	window__end_frame(w, m);
}

/* --- the file ---------------------------------------------------------------------------------------------- */

struct writing {
	struct window *w;
	struct rec_writer *out;
	struct err *err;
	uint64_t at_ns, newest_id; /* the window's begin */
	struct model_was *was;
	size_t was_cnt, was_cap;
};

static int writing__event(struct writing *x, struct event ev)
{
	ev.ts_ns = x->at_ns;
	if (ev.kind == EV_COST || ev.kind == EV_SELF || ev.kind == EV_FIRED)
		ev.flags = EV_F_BASE;
	return rec_writer__add(x->out, &ev, x->err);
}

static int writing__events(struct writing *x, const struct events *e)
{
	int r = 0;

	for (size_t i = 0; i < e->cnt && !r; i++)
		r = writing__event(x, e->v[i]);
	return r;
}

/* Blocks of stream-ordered allocators are made again by their segments. */
static int collect_was(void *ctx, const struct model_was *was)
{
	struct writing *x = ctx;

	if (was->id > x->newest_id || (was->ev[0].aux >> 20 & 3) == 2)
		return 0;
	if (!array_has_room(x->was, x->was_cnt, x->was_cap, 1024))
		return -ENOMEM;
	x->was[x->was_cnt++] = *was;
	return 0;
}

static int add_event(void *ctx, const struct event *ev)
{
	return writing__event(ctx, *ev);
}

static int by_id(const void *a, const void *b)
{
	uint64_t x = ((const struct model_was *)a)->id, y = ((const struct model_was *)b)->id;

	return x < y ? -1 : x > y;
}

static int writing__block(struct writing *x, const struct model_was *was)
{
	const struct event *b = &was->ev[0];
	int r = 0;

	if (was->stack)
		r = writing__event(x, (struct event){ .kind = EV_STACK_AT, .pid = b->pid, .tid = b->tid, .dev = b->dev,
				.addr = b->addr, .size = was->stack });
	for (unsigned k = 0; k < was->cnt && !r; k++) {
		struct event ev = was->ev[k];
		uint64_t age_ms = ev.ts_ns < x->at_ns ? (x->at_ns - ev.ts_ns) / 1000000 : 0;

		if (ev.kind != EV_TENSOR)
			ev.seq = age_ms < UINT32_MAX ? (uint32_t)age_ms : UINT32_MAX;
		r = writing__event(x, ev);
	}
	return r;
}

static int writing__was(struct writing *x, const struct model *m)
{
	const struct win_frame *f;
	int r = model__each_was(m, x->newest_id, collect_was, x);

	TAILQ_FOREACH(f, &x->w->frames, next)
		for (size_t i = 0; i < f->dead_cnt && !r; i++)
			r = collect_was(x, &f->dead[i]);
	for (size_t i = 0; x->w->now && i < x->w->now->dead_cnt && !r; i++)
		r = collect_was(x, &x->w->now->dead[i]);
	if (r < 0)
		return err_set(x->err, r, "out of memory");
	if (x->was_cnt)
		qsort(x->was, x->was_cnt, sizeof(*x->was), by_id);
	for (size_t i = 0; i < x->was_cnt && !r; i++)
		r = writing__block(x, &x->was[i]);
	return r;
}

static int writing__note(struct writing *x, const char *text)
{
	return writing__event(x, (struct event){ .kind = EV_NOTE, .name = names__add(x->w->names, text) });
}

static int writing__notes(struct writing *x)
{
	const struct window *w = x->w;
	char text[200];
	int r;

	snprintf(text, sizeof(text), "The last %.1f s of %.1f s: what lived before is told as it was then; losses are those "
			"of all the time.",
		 (double)(w->last_ns - x->at_ns) / 1e9, (double)(w->last_ns - w->start_ns) / 1e9);
	r = writing__note(x, text);
	if (!r && w->last_ns - x->at_ns < w->window_ns)
		r = writing__note(x, w->cut ? "The window is shorter than it was to be: the disk had no room for more." :
					      "The window is shorter than it was to be: its memory was full (--window-size).");
	if (!r && w->head_dropped) {
		snprintf(text, sizeof(text), "%llu events about processes, segments and probes from before the window are "
				"missing.",
			 (unsigned long long)w->head_dropped);
		r = writing__note(x, text);
	}
	return r;
}

/* What was before the first frame, as of its begin. Nothing if no frame has left. */
static int writing__begin(struct writing *x, const struct model *m)
{
	const struct win_frame *first = TAILQ_FIRST(&x->w->frames);
	int r;

	if (!first || !x->w->left_out)
		return 0;
	x->at_ns = first->first_ns;
	x->newest_id = first->newest_id;
	r = writing__events(x, &x->w->head.all);
	if (!r)
		r = writing__events(x, &x->w->head.last);
	if (!r)
		r = writing__notes(x);
	if (!r) /* of all the time: their numbers have no gaps, and the frames tell those that they tell again */
		r = model__each_stack(m, add_event, x);
	if (!r)
		r = model__each_module(m, add_event, x);
	if (!r)
		r = writing__was(x, m);
	return r ? r : writing__events(x, &first->open);
}

static int writing__all(struct writing *x, const struct model *m, int is_end)
{
	const struct win_frame *f;
	int r = writing__begin(x, m);

	TAILQ_FOREACH(f, &x->w->frames, next)
		if (!r)
			r = rec_writer__add_frame(x->out, f->data, f->len, x->err);
	if (!r && x->w->failed + x->w->cut)
		r = rec_writer__add(x->out, &(struct event){ .ts_ns = x->w->last_ns, .kind = EV_LOSS, .aux = MT_LOSS_RECORDING,
							     .size = x->w->failed + x->w->cut }, x->err);
	if (!r && !is_end)
		r = rec_writer__add(x->out, &(struct event){ .ts_ns = x->w->last_ns, .kind = EV_END,
				.aux = EV_END_WINDOW }, x->err);
	return r;
}

static int window__try(struct window *w, struct model *m, const char *path, const struct rec_writer_opts *o, int is_end,
		       struct err *err)
{
	struct writing x = { .w = w, .err = err };
	int r = rec_writer__open(&x.out, path, o, err);

	if (r < 0)
		return r;
	r = writing__all(&x, m, is_end);
	if (r < 0)
		rec_writer__drop(x.out);
	else
		r = rec_writer__close(x.out, err);
	if (r < 0 && r != -EEXIST)
		err_hint(err, is_end ? "nothing of it was kept: -o names a file that has room, and can be written" :
				       "it is in memory still: make room, and ask again with kill -USR1");
	free(x.was);
	return r;
}

int window__write(struct window *w, struct model *m, const char *path, const struct rec_writer_opts *o, int is_end,
		  struct err *err)
{
	int r;

	window__end_frame(w, m);
	do /* at the end what does not fit is lost: then better the older part of it */
		r = window__try(w, m, path, o, is_end, err);
	while (is_end && (r == -ENOSPC || r == -EDQUOT || r == -EFBIG) && !window__halve(w));
	return r;
}

uint64_t window__cut(const struct window *w)
{
	return w->cut;
}

uint64_t window__bytes(const struct window *w)
{
	return w->bytes + w->pending_cnt * sizeof(*w->pending);
}

uint64_t window__span_ns(const struct window *w)
{
	const struct win_frame *first = TAILQ_FIRST(&w->frames);

	return first ? w->last_ns - first->first_ns : 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "record/window.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/array.h"
#include "base/err.h"
#include "event/recording.h"
#include "event/recording_frame.h"
#include "record/past.h"

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
	struct past past; /* frames that left */
	uint64_t left_out; /* so many */
	uint64_t last_ns;
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

static void window__begin_frame(struct window *w, struct model *m)
{
	struct win_frame *f = calloc(1, sizeof(*f));
	struct past_moment now;

	w->now = f;
	if (!f)
		return;
	if (past_moment__now(&now, m, w->last_ns) < 0)
		w->failed++;
	f->newest_id = now.newest_id;
	f->open = now.open;
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
	w->past.dropped += kept__append(&w->past.kept, &f->kept, PAST_EVENTS_MAX); /* what was rare in it goes on */
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

static void window__was_freed(void *ctx, const struct model_was *was)
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
	past__done(&w->past);
	rec_enc__free(w->enc);
	free(w->pending);
	free(w);
}

void window__model_opts(struct window *w, struct model_opts *ret)
{
	ret->was_freed = window__was_freed;
	ret->was_freed_ctx = w;
}

/* --- events ------------------------------------------------------------------------------------------------ */

/* When the driver is out of memory an allocator frees its cache and tries again: if that works, nothing was refused. */
static const char *window__failed_call(struct window *w, const struct event *ev)
{
	struct event *f = &w->failed_call;
	int is_same = f->kind && ev->pid == f->pid && ev->tid == f->tid;

	if (f->kind && ev->ts_ns - f->ts_ns >= OOM_RETRY_NS) {
		f->kind = 0;
		return "a device is out of memory";
	}
	if (is_same && ev->kind == MT_EV_OOM)
		f->kind = 0; /* its allocator reports the same refusal */
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
	w->past.start_ns = w->past.start_ns ? w->past.start_ns : to->ts_ns;
	if (kept_wants(ev->kind) && (!w->now || kept__add(&w->now->kept, to, PAST_EVENTS_MAX) < 0))
		w->past.dropped++;
	window__notice(w, ev);
	if (++w->pending_cnt == MTR_FRAME_EVENTS_MAX)
		window__end_frame(w, m);
}

void window__tick(struct window *w, struct model *m)
{
	window__end_frame(w, m);
}

/* --- the file ---------------------------------------------------------------------------------------------- */

/* What was before the first frame, as of its begin. Nothing if no frame has left. */
static int window__write_past(struct window *w, const struct model *m, struct rec_writer *out, struct err *err)
{
	const struct win_frame *f, *first = TAILQ_FIRST(&w->frames);
	const char *notes[2];
	size_t notes_cnt = 0;
	struct past_moment at;
	char text[200];
	int r = 0;

	if (!first || !w->left_out)
		return 0;
	at = (struct past_moment){ .at_ns = first->first_ns, .newest_id = first->newest_id, .open = first->open };
	snprintf(text, sizeof(text), "The last %.1f s of %.1f s: what was alive before is written as it was then; "
			"losses are those of all the time.",
		 (double)(w->last_ns - at.at_ns) / 1e9, (double)(w->last_ns - w->past.start_ns) / 1e9);
	notes[notes_cnt++] = text;
	if (w->last_ns - at.at_ns < w->window_ns)
		notes[notes_cnt++] = w->cut ? "The window is shorter than it was to be: the disk had no room for more." :
					      "The window is shorter than it was to be: its memory was full (--window-size).";
	TAILQ_FOREACH(f, &w->frames, next)
		for (size_t i = 0; i < f->dead_cnt && !r; i++)
			r = past_moment__lived(&at, &f->dead[i]);
	for (size_t i = 0; w->now && i < w->now->dead_cnt && !r; i++)
		r = past_moment__lived(&at, &w->now->dead[i]);
	r = r ? err_set(err, r, "out of memory") : past__write(&w->past, &at, m, w->names, notes, notes_cnt, out, err);
	past_moment__done(&at, 0);
	return r;
}

static int window__write_all(struct window *w, const struct model *m, int is_end, struct rec_writer *out, struct err *err)
{
	struct event lost = { .ts_ns = w->last_ns, .kind = EV_LOSS, .aux = MT_LOSS_RECORDING, .size = w->failed + w->cut };
	struct event end = { .ts_ns = w->last_ns, .kind = EV_END, .aux = EV_END_WINDOW };
	const struct win_frame *f;
	int r = window__write_past(w, m, out, err);

	TAILQ_FOREACH(f, &w->frames, next)
		if (!r)
			r = rec_writer__add_frame(out, f->data, f->len, err);
	if (!r && lost.size)
		r = rec_writer__add(out, &lost, err);
	return r || is_end ? r : rec_writer__add(out, &end, err);
}

static int window__try(struct window *w, struct model *m, const char *path, const struct rec_writer_opts *o, int is_end,
		       struct err *err)
{
	struct rec_writer *out;
	int r = rec_writer__open(&out, path, o, err);

	if (r < 0)
		return r;
	r = window__write_all(w, m, is_end, out, err);
	if (r < 0)
		rec_writer__drop(out);
	else
		r = rec_writer__close(out, err);
	if (r < 0 && r != -EEXIST)
		err_hint(err, is_end ? "nothing of it was kept: -o names a file that has room, and can be written" :
				       "it is in memory still: make room, and ask again with kill -USR1");
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

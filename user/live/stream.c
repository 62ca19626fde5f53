/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A turn at the rings ends after TURN_NS, whatever is left: signals, ends of processes, HTTP and the clock come in between.
 * Only complete stretches are passed on: a ring that was not read to its end holds the later events of all others back. When we
 * are behind, reading stops while half the window waits: then rings overflow, which is counted, and order stays right.
 */
#include "live/stream.h"

#include <errno.h>

#include "base/clock.h"
#include "base/err.h"
#include "event/decode.h"
#include "event/kinds.h"
#include "event/order.h"
#include "event/pairing.h"
#include "keeper/keeper.h"
#include "live/placing.h"
#include "live/session.h"
#include "memtrace/recording.h"
#include "stack/capture.h"

#define TURN_NS 10000000ull	   /* reading rings and passing on; then other work has its turn */
#define READ_NS 5000000ull	   /* of it for reading: what was read must be passed on, too */
#define PASS_PIECE 1024		   /* events between two checks of the clock */
#define ORDER_SLACK_NS 50000000ull /* a program can be preempted between clock and reserve */
#define ORDER_WINDOW_MIN (1u << 19)
#define ORDER_WINDOW_MAX (1u << 24) /* 1.2 GiB when full */
#define RECORD_BYTES_TYPICAL 40	    /* in a ring, its header included */
#define NAMES_BYTES (MTR_NAMES_BYTES_MAX - (1u << 20)) /* what a recording takes */
#define REST_TURNS 64

/* --- after order ------------------------------------------------------------------------------- */

/* The last stage before model and recording. */
static int stream__pass(void *ctx, const struct event *ev)
{
	struct stream *st = ctx;
	int r = model__handle(st->model, ev);

	if (r < 0)
		return r;
	recorder__add(&st->recorder, st->model, ev);
	return 0;
}

static int stream__keep(struct stream *st, const struct event *ev)
{
	if (ev->kind == EV_GONE || ev->kind == MT_EV_EXIT || (ev->kind == EV_PROC && ev->flags == EV_PROC_EXECED))
		pairing__end(st->pairing, ev->pid);
	return stream__pass(st, ev);
}

/* Consumer after order. */
static int stream__ordered(void *ctx, const struct event *in)
{
	struct stream *st = ctx;
	struct event ev = *in, before;
	int r = 1;

	decode__resolve(st->decode, &ev);
	if (st->capture)
		r = capture__resolve(st->capture, &ev, stream__pass, st);
	if (r <= 0)
		return r;
	if (pairing__event(st->pairing, &ev, &before)) {
		r = stream__keep(st, &before);
		if (r < 0)
			return r;
	}
	return stream__keep(st, &ev);
}

/* --- before order -------------------------------------------------------------------------------- */

/* What is reported after the trace's end is part of its end. How long before the event something was, is less then. */
static void stream__to_end(const struct stream *st, struct event *ev)
{
	uint64_t late_ns = ev->ts_ns - st->detach_ns;

	ev->ts_ns = st->detach_ns;
	if (event_row(ev->kind)->ago)
		ev->addr -= ev->addr < late_ns ? ev->addr : late_ns;
	if (ev->kind == EV_TENSOR)
		ev->depth = ev->depth > late_ns / EV_TENSOR_AGE_NS ? (uint8_t)(ev->depth - late_ns / EV_TENSOR_AGE_NS) : 1;
}

/* An event of our own. If order cannot take it now, it reports that again at the next record. */
static void stream__push(void *stream, struct event ev)
{
	struct stream *st = stream;

	if (!ev.ts_ns)
		ev.ts_ns = now_ns();
	if (ev.ts_ns > st->detach_ns)
		stream__to_end(st, &ev);
	if (ev.kind == EV_PLACE && ev.ts_ns <= st->passed_ns)
		ev.ts_ns = st->passed_ns + 1; /* before the first allocation there, if that is still held back */
	if (st->capture && ev.kind == EV_PROC && !st->is_capture_late)
		capture__begin(st->capture, (pid_t)ev.pid);
	if (st->capture && (ev.kind == EV_GONE || (ev.kind == EV_PROC && st->is_capture_late)))
		capture__end(st->capture, (pid_t)ev.pid);
	if (st->placing && ev.kind == EV_GONE)
		placing__end(st->placing, (pid_t)ev.pid);
	(void)order__push(st->order, &ev);
}

int stream__reads_python(struct stream *st, pid_t pid)
{
	if (!st->capture)
		return 0;
	if (!capture__has(st->capture, pid))
		capture__begin(st->capture, pid);
	return capture__reads_python(st->capture, pid);
}

struct tell stream__tell(struct stream *st)
{
	return (struct tell){ .names = st->names, .push = stream__push, .ctx = st };
}

static int stream__stack(struct stream *st, const void *rec, size_t len)
{
	struct event ev;

	if (!st->capture || !capture__record(st->capture, rec, len, &ev) || ev.ts_ns > st->detach_ns)
		return 0;
	return order__push(st->order, &ev);
}

/* The part of order's window for what was read and not yet passed on; the other half is for what rings hold meanwhile. */
static size_t stream__room(const struct stream *st)
{
	return st->window / 2;
}

/* Texts are sent once, so they are always taken: others' events may need them. At the end nothing more comes. */
static int stream__takes(struct stream *st, const void *rec, size_t len)
{
	const struct mt_hdr *h = rec;

	return len < sizeof(*h) || st->detach_ns != UINT64_MAX || h->kind == MT_EV_NAME || h->kind == MT_EV_STACK_PY ||
	       h->kind == MT_EV_PLACE ||
	       share__takes(&st->share, h->pid, order__waiting(st->order), stream__room(st), st->read_ns);
}

/* Also for a place that was reported before: the kernel side has forgotten it. */
static void stream__place(struct stream *st, const void *rec, size_t len)
{
	name_id place;

	if (decode__place(st->decode, rec, len, &place) >= 0 && st->placing)
		placing__seen(st->placing, rec, place);
}

static void stream__late(struct stream *st, struct event *ev)
{
	if (!st->on_late)
		return;
	decode__resolve(st->decode, ev);
	st->on_late(st->late_ctx, ev);
}

static int stream__record(void *ctx, const void *rec, size_t len)
{
	struct stream *st = ctx;
	struct event ev;
	int r;

	if (!stream__takes(st, rec, len))
		return 0;
	if (capture__wants(rec, len))
		return stream__stack(st, rec, len);
	if (len >= sizeof(struct mt_hdr) && ((const struct mt_hdr *)rec)->kind == MT_EV_PLACE) {
		stream__place(st, rec, len);
		return 0;
	}
	r = decode__record(st->decode, rec, len, &ev);
	if (r != 1)
		return 0; /* a name, or a bad record: counted */
	if (ev.ts_ns > st->detach_ns) {
		stream__late(st, &ev);
		return 0;
	}
	r = order__push(st->order, &ev);
	for (size_t i = 0, n = decode__args_cnt(rec, len); i < n && !r; i++) {
		struct event arg;

		decode__arg(rec, i, &ev, &arg);
		r = order__push(st->order, &arg);
	}
	return r;
}

/* --- turns --------------------------------------------------------------------------------------- */

/* Passes on what can no longer be overtaken: nothing before it is missing, in its ring or another. */
static int stream__pass_on(struct stream *st, uint64_t end_ns)
{
	uint64_t until = st->read_ns > ORDER_SLACK_NS ? st->read_ns - ORDER_SLACK_NS : 0;
	int r;

	if (until >= st->detach_ns) /* what is reported at the end has that time */
		until = st->detach_ns - 1;
	st->passed_ns = until;
	do {
		r = order__flush_some(st->order, until, PASS_PIECE);
	} while (r == 1 && now_ns() < end_ns);
	st->has_backlog = r == 1;
	return r < 0 ? r : 0;
}

int stream__drain(struct stream *st)
{
	uint64_t end_ns = now_ns() + TURN_NS;
	struct drained d;
	int r;

	if (!st->has_backlog || order__waiting(st->order) < stream__room(st)) {
		r = keeper__drain(st->keeper, READ_NS, stream__record, st, &d);
		if (r < 0)
			return r;
		st->read_ns = d.until_ns;
		st->has_more = d.more;
	}
	return stream__pass_on(st, end_ns);
}

int stream__drain_rest(struct stream *st)
{
	struct drained d = { 0 };
	int r = 0;

	for (int turn = 0; d.until_ns < st->detach_ns && turn < REST_TURNS && r >= 0; turn++)
		r = keeper__drain(st->keeper, UINT64_MAX, stream__record, st, &d);
	return r;
}

int stream__end(struct stream *st)
{
	int r = order__flush(st->order, UINT64_MAX);

	return r < 0 ? r : model__end(st->model);
}

/* --- life ------------------------------------------------------------------------------------------ */

/* Rings are drained one after the other: the window must hold all of their content. Pages are taken when touched. */
size_t stream_window(uint64_t ring_bytes)
{
	uint64_t events = (ring_bytes ? ring_bytes : trace_ring_bytes()) / RECORD_BYTES_TYPICAL;

	if (events > ORDER_WINDOW_MAX)
		return ORDER_WINDOW_MAX;
	return events > ORDER_WINDOW_MIN ? (size_t)events : ORDER_WINDOW_MIN;
}

/* A process that makes up names without end. Noted later: names are added while order passes events on. */
static void stream__names_full(void *ctx, uint32_t pid)
{
	struct stream *st = ctx;

	if (st->full_cnt < sizeof(st->full) / sizeof(st->full[0]))
		st->full[st->full_cnt++] = pid;
}

int stream__open(struct stream *st, const struct session_opts *o, struct err *err)
{
	struct recorder_opts ro = { .path = o->record_path, .how = o->how, .window_ns = o->window_ns,
				    .window_bytes = o->window_bytes, .new_peak = o->new_peak, .late_path = o->late_path,
				    .ctx = o->ctx };
	int r;

	*st = (struct stream){ .model_opts = { .classes = o->classes,
					       .learns_nothing = o->between < MT_LEVEL_BLOCKS && !o->is_between_auto },
			       .detach_ns = UINT64_MAX };
	st->names = names__new();
	if (!st->names)
		return err_set(err, -ENOMEM, "out of memory");
	names__limit(st->names, NAMES_BYTES);
	names__on_full(st->names, stream__names_full, st);
	r = recorder__init(&st->recorder, &ro, st->names, &st->model_opts, err);
	return r < 0 || o->window_ns ? r : recorder__open(&st->recorder, err);
}

static int stream__python(void *ctx, pid_t pid, const struct mt_py_proc *how)
{
	const struct stream *st = ctx;

	return keeper__python(st->keeper, pid, how);
}

static void stream__note(void *ctx, pid_t pid, const char *text)
{
	struct tell tell = stream__tell(ctx);

	tell__note(&tell, pid, text);
}

int stream__init(struct stream *st, const struct session_opts *o, struct keeper *keeper, struct err *err)
{
	struct capture_env env = { .names = st->names, .native = !!(o->stacks & MT_STACKS_NATIVE),
				   .python = o->stacks & (MT_STACKS_PYTHON | MT_STACKS_CATCH) ? stream__python : NULL,
				   .note = stream__note, .ctx = st };

	st->keeper = keeper;
	st->decode = decode__new(st->names);
	st->model = model__new(st->names, &st->model_opts);
	st->window = stream_window(o->ring_bytes);
	st->order = order__new(st->window, stream__ordered, st);
	st->pairing = pairing__new();
	st->capture = o->stacks ? capture__new(&env) : NULL;
	st->is_capture_late = o->stacks == MT_STACKS_CATCH;
	if (!st->decode || !st->model || !st->order || !st->pairing || (o->stacks && !st->capture))
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

void stream__done(struct stream *st)
{
	capture__free(st->capture);
	order__free(st->order);
	pairing__free(st->pairing);
	model__free(st->model);
	decode__free(st->decode);
	recorder__done(&st->recorder);
	names__free(st->names);
}

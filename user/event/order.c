/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Events arrive from a few rings, drained one after the other: long runs that are nearly sorted, each
 * starting in the past of the one before. So the window is one array of events holding a stack of
 * sorted runs. A push appends to the last run; when its time is a little too old it is inserted a
 * few places back (a program preempted between clock and reserve); when it is much too old a new
 * run begins (the next ring). Runs are merged when the older one is not much longer (the stack then
 * stays logarithmic and any input costs n log n), and all of them at a flush. A merge is stable and
 * moves only the part where the two runs overlap: after a flush what remains is older than nearly
 * all that comes next, and stays where it is.
 *
 * A heap would move every event log n times by 48 bytes at random; measured on two nearly sorted
 * rings, runs pass on about 80 M events/s on one core (tests/bench/bench_replay_io).
 *
 * All memory is taken at the start (the kernel gives pages when they are touched): no push fails. What waits slides to the
 * front early, so that a calm flow, which is never all passed on, does not touch page after page up to the end.
 */
#include "event/order.h"

#include <stdlib.h>
#include <string.h>

#include "base/free.h"

#define BACK_MAX 24 /* places a late event is moved back before it counts as a new run */
#define SLIDE_MIN 16384 /* events passed on before what waits is moved to the front, … */
#define SLIDE_PART 4	/* … and it is no more than this part of them: a quarter of a move for each event at most */
#define RUNS_MAX 64 /* a run is more than half as long as the next: 2^64 events need more */

struct order {
	event_fn fn;
	void *ctx;
	size_t window_max;
	struct event *buf; /* events [head, tail) wait */
	struct event *tmp; /* half a window: the shorter side of a merge */
	size_t head, tail, cap;
	size_t run[RUNS_MAX]; /* where each run begins; run[0] == head */
	unsigned runs;
	uint64_t last_ns; /* time of the last event passed on */
	uint64_t late_cnt;
};

struct order *order__new(size_t window_max, event_fn fn, void *ctx)
{
	struct order *o;

	if (!window_max)
		window_max = 1;
	if (window_max > SIZE_MAX / sizeof(struct event) / 2 - 32)
		return NULL;
	o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	o->fn = fn;
	o->ctx = ctx;
	o->window_max = window_max;
	/* Room to slide: moving what waits to the front is then rare. */
	o->cap = window_max + window_max / 2 + 16;
	o->buf = malloc(o->cap * sizeof(*o->buf));
	o->tmp = malloc((window_max / 2 + 1) * sizeof(*o->tmp));
	if (!o->buf || !o->tmp) {
		order__free(o);
		return NULL;
	}
	return o;
}

void order__free(struct order *o)
{
	if (!o)
		return;
	free_all(o->buf, o->tmp, o);
}

/* First index in [lo, hi) of a sorted range whose time is > ts (`after`) or >= ts; hi if none. */
static size_t bound(const struct event *buf, size_t lo, size_t hi, uint64_t ts, int after)
{
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (buf[mid].ts_ns < ts || (after && buf[mid].ts_ns == ts))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void merge_forward(struct event *dst, const struct event *a, size_t a_cnt,
			  const struct event *b, size_t b_cnt)
{
	const struct event *a_end = a + a_cnt, *b_end = b + b_cnt;

	while (a < a_end && b < b_end) {
		int take_b = b->ts_ns < a->ts_ns;
		const struct event *from = take_b ? b : a;

		*dst++ = *from;
		b += take_b;
		a += !take_b;
	}
	memcpy(dst, a, (size_t)(a_end - a) * sizeof(*a)); /* what is left of b is in place */
}

/* a lies in place before the hole that b left; dst_end is the end of that hole. */
static void merge_backward(struct event *dst_end, const struct event *a, size_t a_cnt,
			   const struct event *b, size_t b_cnt)
{
	while (a_cnt && b_cnt) {
		int take_a = a[a_cnt - 1].ts_ns > b[b_cnt - 1].ts_ns;
		const struct event *from = take_a ? &a[a_cnt - 1] : &b[b_cnt - 1];

		*--dst_end = *from;
		a_cnt -= (size_t)take_a;
		b_cnt -= (size_t)!take_a;
	}
	memcpy(dst_end - b_cnt, b, b_cnt * sizeof(*b)); /* what is left of a is in place */
}

/* Merges the last two runs. */
static void order__merge(struct order *o)
{
	size_t lo = o->run[o->runs - 2], mid = o->run[o->runs - 1], hi = o->tail;
	struct event *buf = o->buf;

	o->runs--;
	if (buf[mid - 1].ts_ns <= buf[mid].ts_ns)
		return;
	lo = bound(buf, lo, mid, buf[mid].ts_ns, 1);
	hi = bound(buf, mid, hi, buf[mid - 1].ts_ns, 0);
	if (mid - lo <= hi - mid) {
		memcpy(o->tmp, buf + lo, (mid - lo) * sizeof(*buf));
		merge_forward(buf + lo, o->tmp, mid - lo, buf + mid, hi - mid);
	} else {
		memcpy(o->tmp, buf + mid, (hi - mid) * sizeof(*buf));
		merge_backward(buf + hi, buf + lo, mid - lo, o->tmp, hi - mid);
	}
}

static void order__sort(struct order *o)
{
	while (o->runs > 1)
		order__merge(o);
}

static void order__begin_run(struct order *o)
{
	while (o->runs > 1) {
		size_t last = o->tail - o->run[o->runs - 1];
		size_t prev = o->run[o->runs - 1] - o->run[o->runs - 2];

		if (prev > 2 * last)
			break;
		order__merge(o);
	}
	o->run[o->runs++] = o->tail;
}

static void order__compact(struct order *o)
{
	/* Only after order__sort or at a push: every run moves by the same distance. */
	memmove(o->buf, o->buf + o->head, (o->tail - o->head) * sizeof(*o->buf));
	for (unsigned i = 0; i < o->runs; i++)
		o->run[i] -= o->head;
	o->tail -= o->head;
	o->head = 0;
}

/* Passes on [head, end), which is sorted. */
static int order__emit(struct order *o, size_t end)
{
	int r = 0;

	while (o->head < end && r >= 0) {
		const struct event *ev = &o->buf[o->head++];

		o->last_ns = ev->ts_ns;
		r = o->fn(o->ctx, ev);
	}
	if (o->head == o->tail) {
		o->head = o->tail = 0;
		o->runs = 0;
	} else {
		o->run[0] = o->head;
		if (o->head >= SLIDE_MIN && o->head / SLIDE_PART >= o->tail - o->head)
			order__compact(o);
	}
	return r < 0 ? r : 0;
}

/* A place for an event that is older than the last: a few places back, or a new run. */
static struct event *order__place(struct order *o, uint64_t ts_ns)
{
	size_t start = o->run[o->runs - 1], i = o->tail;

	if (o->tail - start > BACK_MAX)
		start = o->tail - BACK_MAX;
	while (i > start && o->buf[i - 1].ts_ns > ts_ns)
		i--;
	if (i == start) {
		order__begin_run(o);
		return &o->buf[o->tail];
	}
	memmove(&o->buf[i + 1], &o->buf[i], (o->tail - i) * sizeof(*o->buf));
	return &o->buf[i];
}

int order__push(struct order *o, const struct event *ev)
{
	uint64_t ts_ns = ev->ts_ns;
	struct event *at;
	int r = 0;

	if (o->tail - o->head >= o->window_max) {
		size_t half = (o->tail - o->head + 1) / 2;

		order__sort(o);
		r = order__emit(o, o->head + half);
	}
	if (o->tail == o->cap)
		order__compact(o);
	if (ts_ns < o->last_ns) {
		ts_ns = o->last_ns;
		o->late_cnt++;
	}
	at = &o->buf[o->tail];
	if (!o->runs)
		o->run[o->runs++] = o->tail;
	else if (ts_ns < o->buf[o->tail - 1].ts_ns)
		at = order__place(o, ts_ns);
	*at = *ev;
	at->ts_ns = ts_ns;
	o->tail++;
	return r;
}

int order__flush_some(struct order *o, uint64_t until_ns, size_t max)
{
	size_t end, part;
	int r;

	if (o->head == o->tail)
		return 0;
	order__sort(o);
	end = bound(o->buf, o->head, o->tail, until_ns, 1);
	part = end - o->head > max ? o->head + max : end;
	r = order__emit(o, part);
	return r < 0 ? r : part < end;
}

int order__flush(struct order *o, uint64_t until_ns)
{
	return order__flush_some(o, until_ns, SIZE_MAX);
}

uint64_t order__late_cnt(const struct order *o)
{
	return o->late_cnt;
}

size_t order__waiting(const struct order *o)
{
	return o->tail - o->head;
}

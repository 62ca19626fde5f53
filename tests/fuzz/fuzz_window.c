/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Any events into a window (and what it keeps of frames that leave) and into a recording that begins amid them, with ticks
 * and files asked for in between: every file can be read to its end, in order, and replayed; a window stays within its memory.
 * What is kept is what would be if it were looked for in a row.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "fuzz/short_events.h"

#include "../../user/record/kept.c"
#include "../../user/record/past.c"
#include "../../user/record/window.c"

#define HEAD_BYTES 4
#define EVENTS_MAX 20000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__asan_default_options(void);

/* Frames have room for 65,536 events: kept for long after they are freed, they make a run twice as slow. */
const char *__asan_default_options(void)
{
	return "quarantine_size_mb=8";
}

static char path[64];
static struct rec_writer_opts wo;

static void require(int ok)
{
	if (!ok)
		abort();
}

/* As order and decode pass them on: no name that there is not, no time before the last. */
static void make_sound(struct event *evs, size_t cnt, const struct names *names)
{
	uint64_t last = 0;

	for (size_t i = 0; i < cnt; i++) {
		evs[i].name.v %= names__last(names) + 1;
		if (evs[i].ts_ns >> 56 || evs[i].ts_ns < last)
			evs[i].ts_ns = last;
		last = evs[i].ts_ns;
	}
}

/* --- what is kept, slowly ------------------------------------------------------------------------------------- */

static void slow__remove(struct events *e, size_t i)
{
	memmove(&e->v[i], &e->v[i + 1], (e->cnt - i - 1) * sizeof(*e->v));
	e->cnt--;
}

/* The latest alloc like it has gone, of a kind that is one address; the earlier ones of that address are nobody's. */
static int slow__free(struct events *e, const struct event *ev)
{
	for (size_t i = e->cnt; i--;) {
		const struct event *o = &e->v[i];

		if (o->pid != ev->pid || o->addr != ev->addr || o->kind != MT_EV_SEG_ALLOC)
			continue;
		if (o->flags == MT_SEG_PHYSICAL || o->flags == MT_SEG_IMPORTED || o->flags == MT_SEG_RESERVED)
			return 0;
		slow__remove(e, i);
		for (i = e->cnt; i--;) /* not found any more: the fast one has forgotten where they are */
			if (e->v[i].pid == ev->pid && e->v[i].addr == ev->addr && e->v[i].kind == MT_EV_SEG_ALLOC)
				e->v[i].flags = MT_SEG_RESERVED;
		return 1;
	}
	return 0;
}

static void slow__add(struct kept *k, const struct event *ev)
{
	enum ev_keep how = keep_of(ev->kind);

	for (size_t i = k->last.cnt; how == EV_KEEP_LAST && i--;)
		if (is_same_thing(&k->last.v[i], ev)) {
			k->last.v[i] = *ev;
			return;
		}
	if (how == EV_KEEP_LAST)
		require(!events__add(&k->last, ev, EVENTS_MAX));
	else if (how == EV_KEEP_ALL && !(ev->kind == MT_EV_SEG_FREE && slow__free(&k->all, ev)))
		require(!events__add(&k->all, ev, EVENTS_MAX));
}

static void check_list(const struct events *fast, const struct events *slow)
{
	size_t n = 0;

	for (size_t i = 0; i < fast->cnt; i++) {
		if (!fast->v[i].kind)
			continue;
		require(n < slow->cnt && fast->v[i].kind == slow->v[n].kind && fast->v[i].addr == slow->v[n].addr);
		require(fast->v[i].pid == slow->v[n].pid && fast->v[i].size == slow->v[n].size);
		n++;
	}
	require(n == slow->cnt);
}

static void run_kept(const struct event *evs, size_t cnt)
{
	struct kept fast = { 0 }, slow = { 0 };

	for (size_t i = 0; i < cnt; i++) {
		require(!kept__add(&fast, &evs[i], EVENTS_MAX));
		slow__add(&slow, &evs[i]);
	}
	check_list(&fast.all, &slow.all);
	check_list(&fast.last, &slow.last);
	kept__done(&fast);
	kept__done(&slow);
}

/* --- files ------------------------------------------------------------------------------------------------------- */

/* How many events the file has, by kind of one. */
static size_t read_again(uint8_t kind)
{
	struct model_opts mo = { 0 };
	struct rec_reader *rd;
	const struct event *evs;
	struct model *m;
	uint64_t last = 0, left;
	size_t cnt, found = 0;
	int r;

	require(rec_reader__open(&rd, path, NULL) == 0);
	m = model__new(rec_reader__names(rd), &mo);
	require(!!m);
	while ((r = rec_reader__next(rd, &evs, &cnt, NULL)) == 1)
		for (size_t i = 0; i < cnt; i++) {
			require(evs[i].ts_ns >= last);
			last = evs[i].ts_ns;
			found += evs[i].kind == kind;
			require(model__handle(m, &evs[i]) == 0);
		}
	require(r == 0 && !rec_reader__truncated(rd, &left));
	model__check(m);
	require(model__end(m) == 0);
	model__free(m);
	rec_reader__free(rd);
	require(unlink(path) == 0);
	return found;
}

static void write_window(struct window *w, struct model *m, int is_end)
{
	struct err err = { 0 };

	require(window__write(w, m, path, &wo, is_end, &err) == 0);
	(void)read_again(EV_END);
}

/* head: how long and how large a window is, how often it ticks, when somebody asks for a file. */
static void run_window(const uint8_t *head, const struct event *evs, size_t cnt, struct names *names)
{
	uint64_t bytes_max = (uint64_t)(head[0] & 15) << 12;
	struct window *w = window__new(names, (uint64_t)1 << (head[0] >> 4) * 3, bytes_max);
	struct model_opts mo = { 0 };
	struct model *m;

	require(!!w);
	window__model_opts(w, &mo);
	m = model__new(names, &mo);
	require(!!m);
	for (size_t i = 0; i < cnt; i++) {
		require(model__handle(m, &evs[i]) == 0);
		window__add(w, m, &evs[i]);
		if (head[1] && i % head[1] == 0) {
			window__tick(w, m);
			require(w->bytes <= bytes_max);
		}
		if (head[2] && i == head[2])
			write_window(w, m, 0);
		(void)window__reason(w);
	}
	model__check(m);
	require(!w->failed);
	write_window(w, m, 1);
	window__free(w);
	model__free(m);
}

/* A recording that begins with the event `from`: what it is told first, and the rest as it comes. */
static void run_begun(size_t from, const struct event *evs, size_t cnt, struct names *names)
{
	struct past past = { 0 };
	struct model *m = model__new(names, NULL);
	struct rec_writer *out = NULL;
	struct past_moment now;

	require(m && rec_writer__open(&out, path, &wo, NULL) == 0);
	for (size_t i = 0; i < from; i++) {
		require(model__handle(m, &evs[i]) == 0);
		past__add(&past, &evs[i]);
	}
	require(past_moment__now(&now, m, from ? evs[from - 1].ts_ns : 0) == 0);
	require(past__write(&past, &now, m, names, NULL, 0, out, NULL) == 0);
	past_moment__done(&now, 1);
	for (size_t i = from; i < cnt; i++) {
		require(model__handle(m, &evs[i]) == 0);
		require(rec_writer__add(out, &evs[i], NULL) == 0);
	}
	require(rec_writer__close(out, NULL) == 0);
	(void)read_again(EV_END);
	model__check(m);
	model__free(m);
	past__done(&past);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct names *names = names__new();
	struct event *evs;
	size_t cnt;

	if (size <= HEAD_BYTES) {
		names__free(names);
		return 0;
	}
	if (!path[0])
		snprintf(path, sizeof(path), "/dev/shm/mt-fuzz-window-%d.mtr", (int)getpid());
	evs = events_of(data + HEAD_BYTES, size - HEAD_BYTES, &cnt);
	cnt = cnt < EVENTS_MAX ? cnt : EVENTS_MAX;
	require(names && evs);
	names__fill(names);
	make_sound(evs, cnt, names);
	wo = (struct rec_writer_opts){ .names = names, .how.force = 1, .is_whole = 1 };
	run_kept(evs, cnt < 2000 ? cnt : 2000);
	if (data[3] & 1)
		run_window(data, evs, cnt, names);
	else
		run_begun(cnt * data[3] / 256, evs, cnt, names);
	free(evs);
	names__free(names);
	return 0;
}

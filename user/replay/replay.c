/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "replay/replay.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "event/recording.h"
#include "model/model.h"
#include "model/ranks.h"
#include "timeline/report.h"

#define CUT_NOTE "The recording was cut before its end: the numbers cover what is whole."
#define NO_END_NOTE "The recording is still being written, or its end is missing: the numbers cover what is there."

#define DAMAGE_NOTE \
	"Parts of the recording are damaged: what was allocated or freed in them is not known, so live bytes may be wrong."
#define SAMPLE_NS 250000000ull
#define SAMPLES 1024

struct replay {
	const struct replay_opts *opts;
	struct rec_reader *reader;
	struct model *model;
	struct ranks *ranks; /* NULL: not asked for */
	int64_t epoch_off_ns;
	int has_epoch;
	int sink_err; /* apart from the model's own */
	uint64_t start_ns, sample_ns; /* first event, next sample */
	size_t mark;		      /* the next one */
	uint64_t last_ns, damaged;    /* time of the last event; events in damaged parts so far */
};

static int replay__decision(void *ctx, const struct tl_event *ev)
{
	struct replay *p = ctx;

	p->sink_err = p->opts->event(p->opts->ctx, ev, p->epoch_off_ns);
	return p->sink_err;
}

static int replay__make_report(const struct replay *p, size_t top, struct report **ret)
{
	int r = model__report(p->model, top, ret);

	if (r || !p->opts->choice)
		return r;
	(*ret)->run.choice = strdup(p->opts->choice);
	if ((*ret)->run.choice)
		return 0;
	report__free(*ret);
	*ret = NULL;
	return -ENOMEM;
}

/* A sample costs a report, so their number grows with the logarithm of the recording's length. */
static int replay__sample(struct replay *p, uint64_t now_ns)
{
	struct report *rep = NULL;
	uint64_t age;
	int r;

	if (!p->start_ns)
		p->start_ns = now_ns;
	age = now_ns - p->start_ns;
	p->sample_ns = now_ns + (age / SAMPLES > SAMPLE_NS ? age / SAMPLES : SAMPLE_NS);
	r = replay__make_report(p, 0, &rep);
	if (!r)
		r = p->opts->sample(p->opts->ctx, rep);
	report__free(rep);
	return r;
}

/* Those before the next event. */
static int replay__marks(struct replay *p, uint64_t next_ns)
{
	struct report *rep = NULL;
	int r = 0;

	while (!r && p->mark < p->opts->marks_cnt && p->opts->marks[p->mark] < next_ns) {
		r = replay__make_report(p, p->opts->top, &rep);
		if (!r)
			r = p->opts->mark(p->opts->ctx, rep);
		p->mark++;
	}
	return r;
}

/* Stacks are of all processes together. */
static bool is_left_out(const struct replay_opts *o, const struct event *ev)
{
	bool is_out = o->pids_cnt && ev->pid && ev->kind != EV_BEGIN && ev->kind != EV_STACK;

	for (size_t i = 0; i < o->pids_cnt && is_out; i++)
		is_out = o->pids[i] != ev->pid;
	return is_out;
}

static int replay__handle(struct replay *p, const struct event *ev)
{
	struct event begin;
	int r;

	if (is_left_out(p->opts, ev))
		return 0;
	if (ev->kind == EV_BEGIN && p->opts->pids_cnt) {
		begin = *ev;
		begin.pid = p->opts->pids[0];
		ev = &begin;
	}
	r = model__handle(p->model, ev);
	return !r && p->ranks ? ranks__handle(p->ranks, ev) : r;
}

static int replay__frame(struct replay *p, const struct event *evs, size_t cnt)
{
	int r = 0;

	for (size_t i = 0; i < cnt && !r; i++) {
		if (evs[i].kind == EV_BEGIN && !p->has_epoch) {
			p->epoch_off_ns = (int64_t)evs[i].addr;
			p->has_epoch = 1;
		}
		if (p->mark < p->opts->marks_cnt)
			r = replay__marks(p, evs[i].ts_ns);
		if (!r)
			r = replay__handle(p, &evs[i]);
		if (p->opts->look && !r)
			r = p->opts->look(p->opts->ctx, evs[i].ts_ns);
		if (p->opts->sample && !r && evs[i].ts_ns >= p->sample_ns)
			r = replay__sample(p, evs[i].ts_ns);
	}
	return r;
}

/* Events missing before those just read become an event, as every loss does. */
static int replay__damage(struct replay *p, const struct event *evs, size_t cnt)
{
	struct event ev = { .ts_ns = cnt ? evs[0].ts_ns : p->last_ns, .kind = EV_LOSS, .aux = MT_LOSS_DAMAGED };
	struct rec_damage damage;

	p->last_ns = cnt ? evs[cnt - 1].ts_ns : p->last_ns;
	rec_reader__damage(p->reader, &damage);
	if (damage.events == p->damaged)
		return 0;
	ev.size = p->damaged = damage.events;
	return model__handle(p->model, &ev);
}

static int replay__failed(const struct replay *p, int r, struct err *err)
{
	return err_set(err, r, p->sink_err ? "writing: %s" : "replaying: %s", strerror(-r));
}

static int replay__all(struct replay *p, struct err *err)
{
	const struct event *evs;
	size_t cnt;
	int r;

	if (p->opts->begin) {
		r = p->opts->begin(p->opts->ctx, rec_reader__names(p->reader));
		if (r < 0)
			return err_set(err, r, "%s", strerror(-r));
	}
	while ((r = rec_reader__next(p->reader, &evs, &cnt, err)) > 0) {
		r = replay__damage(p, evs, cnt);
		if (!r)
			r = replay__frame(p, evs, cnt);
		if (r < 0)
			return replay__failed(p, r, err);
		if (p->opts->progress)
			p->opts->progress(p->opts->ctx, rec_reader__progress(p->reader));
	}
	if (r < 0)
		return r;
	r = replay__damage(p, NULL, 0);
	if (!r)
		r = replay__marks(p, UINT64_MAX);
	if (!r)
		r = model__end(p->model);
	return r < 0 ? replay__failed(p, r, err) : 0;
}

static int report_add_note(struct report *r, const char *text)
{
	char **notes = realloc(r->run.notes, (r->run.notes_cnt + 1) * sizeof(*notes));

	if (!notes)
		return -ENOMEM;
	r->run.notes = notes;
	notes[r->run.notes_cnt] = strdup(text);
	if (!notes[r->run.notes_cnt])
		return -ENOMEM;
	r->run.notes_cnt++;
	return 0;
}

static int replay__report(struct replay *p, struct report **ret, struct replay_end *ret_end, struct err *err)
{
	uint64_t reported, dropped = rec_reader__dropped(p->reader);
	struct replay_end end;
	struct report *rep = NULL;
	int r = replay__make_report(p, p->opts->top, &rep);

	if (!r && p->ranks)
		r = ranks__report(p->ranks, p->opts->ranks_top, &rep->ranks);
	end.is_missing = rec_reader__truncated(p->reader, &end.unread_bytes);
	if (!r && end.is_missing)
		r = report_add_note(rep, end.unread_bytes ? CUT_NOTE : NO_END_NOTE);
	if (!r && p->damaged)
		r = report_add_note(rep, DAMAGE_NOTE);
	if (r < 0) {
		report__free(rep);
		return err_set(err, r, "making the report: %s", strerror(-r));
	}
	reported = rep->run.lost[MT_LOSS_RECORDING] + rep->run.lost[MT_LOSS_STALLED];
	if (dropped > reported) /* the last count did not get into the full disk */
		rep->run.lost[MT_LOSS_RECORDING] += dropped - reported;
	*ret = rep;
	*ret_end = end;
	return 0;
}

/* Frames are read where they lie, and by some commands twice: a pipe has neither. */
static int refuse_stream(const char *path, struct err *err)
{
	struct stat st;

	if (stat(path, &st) || !(S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || S_ISCHR(st.st_mode)))
		return 0; /* the reader reports all other errors */
	err_set(err, -ESPIPE, "%s is not a file on a disk: a recording is not read from a stream", path);
	return err_hint(err, "write it to a file first");
}

int replay_run(const char *path, const struct replay_opts *opts, struct report **ret_report,
	       struct replay_end *ret_end, struct err *err)
{
	struct replay p = { .opts = opts };
	struct model_opts mo = { .timeline = opts->event ? replay__decision : NULL, .timeline_ctx = &p,
				 .timeline_ops = opts->with_ops, .timeline_nodes = opts->with_nodes,
				 .classes = opts->classes };
	int r = refuse_stream(path, err);

	if (!r)
		r = rec_reader__open(&p.reader, path, err);
	if (r < 0)
		return r;
	p.model = model__new(rec_reader__names(p.reader), &mo);
	if (opts->ranks_top)
		p.ranks = ranks__new(rec_reader__names(p.reader), opts->classes);
	if (!p.model || (opts->ranks_top && !p.ranks))
		r = err_set(err, -ENOMEM, "out of memory");
	if (!r)
		r = replay__all(&p, err);
	if (!r)
		r = replay__report(&p, ret_report, ret_end, err);
	if (opts->end)
		r = opts->end(opts->ctx, r < 0 ? NULL : *ret_report, r);
	ranks__free(p.ranks);
	model__free(p.model);
	if (opts->names)
		*opts->names = rec_reader__take_names(p.reader);
	rec_reader__free(p.reader);
	return r;
}

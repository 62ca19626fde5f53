/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* A heap of files by the time of their next event. */
#include "event/merge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/err.h"
#include "base/free.h"
#include "base/heap.h"
#include "base/names.h"
#include "event/merge_state.h"
#include "event/recording.h"

/* --- machines ---------------------------------------------------------------------------------------------- */

static int number_machine(struct merge *m, struct merge_machine *mine)
{
	for (uint32_t i = 0; i < m->machines_cnt && mine->boot; i++)
		if (m->machines[i].boot == mine->boot) {
			mine->global = i;
			return 0;
		}
	if (m->machines_cnt == EV_MACHINES_MAX)
		return err_set(m->err, -ENOSPC, "more than %u machines", EV_MACHINES_MAX);
	if (!array_has_one_more(m->machines, m->machines_cnt))
		return err_set(m->err, -ENOMEM, "out of memory");
	mine->global = m->machines_cnt;
	m->machines[m->machines_cnt++] = *mine;
	return 0;
}

static int number_machines(struct merge *m)
{
	int r = 0;

	for (size_t i = 0; i < m->cnt; i++) {
		for (size_t k = 0; k < m->src[i].scan.machines_cnt && !r; k++)
			r = number_machine(m, &m->src[i].scan.machines[k]);
		m->info->files[i].machine = m->src[i].scan.machines[0].global;
	}
	m->info->machines_cnt = m->machines_cnt;
	return r;
}

static int put(struct merge *m, const struct event *ev)
{
	m->now_ns = ev->ts_ns;
	return rec_writer__add(m->out, ev, m->err);
}

/* --- files by time -------------------------------------------------------------------------------------------- */

/* The next event of a file is at evs[at]: 1; its end: 0. */
static int merge_source__next(struct merge_source *s, struct err *err)
{
	while (s->at == s->cnt) {
		int r = rec_reader__next(s->reader, &s->evs, &s->cnt, err);

		s->at = 0;
		if (r <= 0) {
			s->cnt = 0;
			return r;
		}
	}
	s->next_ns = merge_source__time(s, s->evs[s->at].ts_ns);
	return 1;
}

static bool comes_before(const size_t *a, const size_t *b, const struct merge_source *src)
{
	uint64_t ta = src[*a].next_ns, tb = src[*b].next_ns;

	return ta != tb ? ta < tb : *a < *b;
}

static int open_sources(struct merge *m)
{
	int r = 0;

	for (size_t i = 0; i < m->cnt; i++) {
		r = rec_reader__open(&m->src[i].reader, m->info->files[i].path, m->err);
		if (!r)
			r = merge_source__next(&m->src[i], m->err);
		if (r < 0)
			return r;
		if (!r) /* its beginning was there when it was looked at */
			return err_set(m->err, -EINVAL, "%s became shorter while it was read", m->info->files[i].path);
		m->heap[m->heap_cnt++] = i;
	}
	heap_make(m->heap, m->heap_cnt, comes_before, m->src);
	return 0;
}

/* --- pauses --------------------------------------------------------------------------------------------------- */

static int put_pause(struct merge *m, uint64_t ts_ns, bool begins)
{
	m->is_paused = begins;
	return put(m, &(struct event){ .kind = EV_PAUSE, .ts_ns = ts_ns, .flags = begins ? EV_PAUSE_BEGINS : 0 });
}

/* A pause ends when the first file traces; its beginning, where the last one stops, is written only if more events follow. */
static int merge_source__traces(struct merge *m, struct merge_source *s, bool does)
{
	if (does == s->is_tracing)
		return 0;
	s->is_tracing = does;
	m->tracing_cnt += does ? 1 : -1;
	return does && m->is_paused ? put_pause(m, s->next_ns, false) : 0;
}

/* Before the event that comes next. */
static int merge_source__see(struct merge *m, struct merge_source *s, const struct event *ev)
{
	if (ev->kind == EV_PAUSE)
		return merge_source__traces(m, s, !(ev->flags & EV_PAUSE_BEGINS));
	if (s->has_traced || ev->ts_ns < s->scan.traced_ns)
		return 0;
	s->has_traced = true;
	return merge_source__traces(m, s, true);
}

/* Files have traced and none does now, though more events follow: a pause has begun at the last written event. */
static int begin_pause(struct merge *m, bool was_tracing)
{
	return was_tracing && !m->tracing_cnt && m->heap_cnt ? put_pause(m, m->now_ns, true) : 0;
}

static int merge_event(struct merge *m, struct merge_source *s)
{
	struct event ev = s->evs[s->at++];
	int r = merge_source__see(m, s, &ev);

	if (r < 0)
		return r;
	r = merge__translate(m, s, &ev);
	if (r < 0)
		return err_set(m->err, r, "out of memory");
	m->info->events += r > 0;
	return r ? put(m, &ev) : 0;
}

static int merge_events(struct merge *m)
{
	while (m->heap_cnt) {
		struct merge_source *s = &m->src[m->heap[0]];
		bool was_tracing = m->tracing_cnt;
		int r = merge_event(m, s);

		if (!r)
			r = merge_source__next(s, m->err);
		if (r < 0)
			return r;
		if (!r) {
			m->heap[0] = m->heap[--m->heap_cnt];
			(void)merge_source__traces(m, s, false);
		}
		heap_down(m->heap, m->heap_cnt, 0, comes_before, m->src);
		r = begin_pause(m, was_tracing);
		if (r < 0)
			return r;
	}
	return 0;
}

/* --- begin and end ----------------------------------------------------------------------------------------------- */

static int put_note(void *ctx, const char *line)
{
	struct merge *m = ctx;
	char text[440];

	snprintf(text, sizeof(text), "Merged: %s", line);
	return put(m, &(struct event){ .kind = EV_NOTE, .ts_ns = m->begin_ns, .name = names__add(m->names, text) });
}

static int put_head(struct merge *m, int64_t off)
{
	struct merge_source *first = &m->src[0];
	struct event begin = first->evs[0];
	int r;

	/* a file that has a beginning may still have something before it */
	if (begin.kind != EV_BEGIN)
		begin = (struct event){ .kind = EV_BEGIN };
	r = merge__names(m, first, &begin);
	begin.pid = merge_source__pid(first, begin.pid);
	begin.tid = begin.pid;
	begin.addr = (uint64_t)off;
	begin.ts_ns = m->src[m->heap[0]].next_ns;
	r = r ? err_set(m->err, r, "out of memory") : put(m, &begin);
	for (uint32_t i = 0; i < m->machines_cnt && !r; i++)
		r = put(m, &(struct event){ .kind = EV_MACHINE, .ts_ns = begin.ts_ns, .aux = i, .flags = 1,
					    .addr = m->machines[i].boot, .name = names__add(m->names, m->machines[i].host) });
	m->begin_ns = begin.ts_ns;
	return r ? r : merge_info__words(m->info, m->each, put_note, m);
}

static int put_end(struct merge *m)
{
	uint32_t reason = m->src[0].scan.end_reason;
	struct counter *lost;
	uint64_t dropped = 0;
	int r = 0;

	for (size_t i = 0; i < m->cnt; i++) {
		const struct merge_source *s = &m->src[i];
		uint64_t reported = counters__lost(&s->counters, MT_LOSS_RECORDING) +
				    counters__lost(&s->counters, MT_LOSS_STALLED);

		dropped += rec_reader__dropped(s->reader) > reported ? rec_reader__dropped(s->reader) - reported : 0;
		if (s->scan.end_reason == EV_END_FAILED)
			reason = EV_END_FAILED;
	}
	lost = counters__of(&m->sum, EV_LOSS, MT_LOSS_RECORDING);
	if (!lost)
		return err_set(m->err, -ENOMEM, "out of memory");
	lost->size += dropped;
	for (unsigned i = 1; i < MERGE_AUX_MAX && !r; i++)
		if (counters__lost(&m->sum, i))
			r = put(m, &(struct event){ .kind = EV_LOSS, .ts_ns = m->now_ns, .aux = i,
						    .size = counters__lost(&m->sum, i) });
	for (size_t i = 0; i < m->cnt; i++)
		if (!m->info->files[i].ended)
			return r; /* one input without an end: the merged recording has none */
	return r ? r : put(m, &(struct event){ .kind = EV_END, .ts_ns = m->now_ns, .aux = reason });
}

static void find_missing(struct merge *m)
{
	struct merge_info *info = m->info;
	int64_t world = -1;

	for (size_t i = 0; i < m->cnt; i++)
		world = m->src[i].scan.world > world ? m->src[i].scan.world : world;
	info->world = world;
	for (uint32_t rank = 0; rank < MERGE_RANKS_MAX; rank++) {
		bool here = false;

		for (size_t i = 0; i < m->cnt && !here; i++)
			here = m->src[i].scan.ranks[rank / 8] & 1u << rank % 8;
		info->ranks_cnt += here;
		if (here || rank >= world)
			continue;
		if (info->missing_cnt < sizeof(info->missing) / sizeof(info->missing[0]))
			info->missing[info->missing_cnt++] = rank;
		info->missing_total++;
	}
}

/* Two recordings of one process may follow each other: blocks live at the end of the first one end with the pause. */
static bool at_once(const struct merge_source *a, const struct merge_source *b)
{
	return merge_source__time(a, a->scan.first_ns) < merge_source__time(b, b->scan.last_ns) &&
	       merge_source__time(b, b->scan.first_ns) < merge_source__time(a, a->scan.last_ns);
}

static int refuse_twice(struct merge *m, size_t i, size_t k)
{
	const struct merge_scan *a = &m->src[i].scan, *b = &m->src[k].scan;

	for (size_t x = 0, y = 0; x < a->pids_cnt && y < b->pids_cnt;) {
		if (a->pids[x] == b->pids[y]) {
			err_set(m->err, -EINVAL, "%s and %s both have process %u of one machine, at the same time",
				m->info->files[i].path, m->info->files[k].path, a->pids[x] & ((1u << EV_MACHINE_SHIFT) - 1));
			return err_hint(m->err, "its memory would be counted twice; leave one of them out");
		}
		if (a->pids[x] < b->pids[y])
			x++;
		else
			y++;
	}
	return 0;
}

static bool are_of_one_machine(const struct merge_scan *a, const struct merge_scan *b)
{
	for (size_t x = 0; x < a->machines_cnt; x++)
		for (size_t y = 0; y < b->machines_cnt; y++)
			if (a->machines[x].global == b->machines[y].global)
				return true;
	return false;
}

/* Windows are of a machine with all its processes: those of one recording do not apply to another one. */
static int refuse_levels(struct merge *m, size_t i, size_t k)
{
	const struct merge_scan *a = &m->src[i].scan, *b = &m->src[k].scan;
	bool is_other = a->has_levels != b->has_levels || (a->has_levels && at_once(&m->src[i], &m->src[k]));

	if (!is_other || !are_of_one_machine(a, b))
		return 0;
	err_set(m->err, -EINVAL, "%s and %s are of one machine, and %s some steps only, each in windows of its own",
		m->info->files[i].path, m->info->files[k].path,
		!b->has_levels ? "the first traces" : !a->has_levels ? "the second traces" : "both trace");
	return err_hint(m->err, "nobody could say what was traced of both; one recording of all processes of a machine has "
				"common windows");
}

static int refuse_doubles(struct merge *m)
{
	int r = 0;

	for (size_t i = 0; i < m->cnt; i++) { /* pids as they will be written */
		struct merge_scan *s = &m->src[i].scan;

		for (size_t k = 0; k < s->pids_cnt; k++)
			s->pids[k] = merge_source__pid(&m->src[i], s->pids[k]);
		if (s->pids_cnt)
			qsort(s->pids, s->pids_cnt, sizeof(*s->pids), u32_cmp);
	}
	for (size_t i = 0; i < m->cnt && !r; i++)
		for (size_t k = 0; k < i && !r; k++)
			r = (at_once(&m->src[i], &m->src[k]) ? refuse_twice(m, k, i) : 0) ?: refuse_levels(m, k, i);
	return r;
}

static int scan_all(struct merge *m, const char *const *paths)
{
	int r = 0;

	for (size_t i = 0; i < m->cnt && !r; i++) {
		struct merge_file_info *f = &m->info->files[i];

		f->path = paths[i];
		m->info->files_cnt++;
		m->src[i].counters = MAP_OF(struct counter);
		r = merge_scan__read(&m->src[i].scan, paths[i], m->err);
		f->events = m->src[i].scan.events;
		f->cut_bytes = m->src[i].scan.cut_bytes;
		f->ended = m->src[i].scan.ended;
	}
	return r;
}

/* An output with the name of an input would replace it. */
static int refuse_inputs(const char *const *paths, size_t cnt, const char *out, struct err *err)
{
	struct stat a, b;

	for (size_t i = 0; i < cnt && !stat(out, &a); i++)
		if (!stat(paths[i], &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino) {
			err_set(err, -EINVAL, "%s is one of the files to be merged", out);
			return err_hint(err, "give what is written another name with -o");
		}
	for (size_t i = 0; i < cnt; i++)
		for (size_t k = 0; k < i; k++)
			if (!stat(paths[i], &a) && !stat(paths[k], &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino) {
				err_set(err, -EINVAL, "%s was given twice", paths[i]);
				return err_hint(err, "its memory would be counted twice");
			}
	return 0;
}

static int merge_run(struct merge *m, const char *const *paths, const char *out, const struct outfile_how *how,
		     enum merge_align align)
{
	struct rec_writer_opts wo = { .names = m->names, .how = *how, .is_whole = 1 };
	int64_t off = 0;
	int r = scan_all(m, paths);

	if (!r)
		r = number_machines(m);
	if (!r)
		r = merge__align(m, align, &off);
	if (!r)
		r = refuse_doubles(m);
	if (!r)
		r = open_sources(m);
	if (!r)
		r = rec_writer__open(&m->out, out, &wo, m->err);
	if (!r)
		r = put_head(m, off);
	if (!r)
		r = merge_events(m);
	if (!r)
		r = put_end(m);
	if (!r)
		find_missing(m);
	return r;
}

static void merge_done(struct merge *m)
{
	for (size_t i = 0; m->src && i < m->cnt; i++) {
		merge_scan__done(&m->src[i].scan);
		rec_reader__free(m->src[i].reader);
		free(m->src[i].names);
		free(m->src[i].stacks);
		map__done(&m->src[i].counters);
	}
	free_all(m->src, m->heap, m->machines);
	map__done(&m->sum);
	index__done(&m->by_stack);
	free(m->stacks);
	names__free(m->names);
}

int merge_files(const char *const *paths, size_t cnt, const char *out, const struct outfile_how *how,
		enum merge_align align, int each, struct merge_info *ret, struct err *err)
{
	struct merge m = { .cnt = cnt, .each = each, .info = ret, .err = err, .sum = MAP_OF(struct counter) };
	int r;

	*ret = (struct merge_info){ .world = -1 };
	if (cnt > MERGE_FILES_MAX) {
		err_set(err, -E2BIG, "more than %u files", MERGE_FILES_MAX);
		return err_hint(err, "merge some, then what came of them");
	}
	r = refuse_inputs(paths, cnt, out, err);
	if (r < 0)
		return r;
	m.src = calloc(cnt, sizeof(*m.src));
	m.heap = calloc(cnt, sizeof(*m.heap));
	ret->files = calloc(cnt, sizeof(*ret->files));
	m.names = names__new();
	r = m.src && m.heap && ret->files && m.names ? 0 : err_set(err, -ENOMEM, "out of memory");
	if (!r)
		r = merge_run(&m, paths, out, how, align);
	if (r < 0)
		rec_writer__drop(m.out);
	else
		r = rec_writer__close(m.out, err);
	merge_done(&m);
	return r;
}

void merge_info__done(struct merge_info *info)
{
	free(info->files);
	*info = (struct merge_info){ 0 };
}

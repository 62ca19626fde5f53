/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "event/merge_scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/err.h"
#include "base/free.h"
#include "base/regions.h"
#include "event/rank_label.h"
#include "event/recording.h"

#define PIDS_MAX 4096

void merge_scan__done(struct merge_scan *s)
{
	for (size_t i = 0; i < s->machines_cnt; i++)
		free(s->machines[i].host);
	free_all(s->machines, s->steps, s->ranks, s->pids);
	*s = (struct merge_scan){ 0 };
}

static int add_machine(struct merge_scan *s, uint32_t local, uint64_t boot, const char *host)
{
	struct merge_machine *m;

	for (size_t i = 0; i < s->machines_cnt; i++)
		if (s->machines[i].local == local)
			return 0;
	if (s->machines_cnt == EV_MACHINES_MAX)
		return 0; /* hostile: its processes count to the first one */
	if (!array_has_one_more(s->machines, s->machines_cnt))
		return -ENOMEM;
	m = &s->machines[s->machines_cnt++];
	*m = (struct merge_machine){ .local = local, .boot = boot, .host = strdup(host) };
	return m->host ? 0 : -ENOMEM;
}

/* Drops every second one of the numbers: the rest still reaches from the first to the last. */
static void thin_steps(struct merge_scan *s)
{
	size_t kept = 0;

	s->stride *= 2;
	for (size_t i = 0; i < s->steps_cnt; i++)
		if (!(s->steps[i].number % s->stride))
			s->steps[kept++] = s->steps[i];
	s->steps_cnt = kept;
}

static int add_step(struct merge_scan *s, uint64_t number, uint64_t ts_ns)
{
	while (s->steps_cnt == MERGE_STEPS_MAX && s->stride < 1ull << 62)
		thin_steps(s);
	if (number % s->stride || s->steps_cnt == MERGE_STEPS_MAX)
		return 0;
	if (!array_has_room(s->steps, s->steps_cnt, s->steps_cap, 16))
		return -ENOMEM;
	s->steps[s->steps_cnt++] = (struct merge_step){ number, ts_ns };
	return 0;
}

/* Of the first process that makes steps; marks with numbers before optimizers' regions. */
static int see_step(struct merge_scan *s, const struct event *ev, int is_mark)
{
	if (is_mark && !s->is_marked) {
		s->is_marked = 1;
		s->steps_cnt = 0;
		s->stride = 1;
		s->step_pid = ev->pid;
	}
	if (is_mark != s->is_marked || (s->step_pid && s->step_pid != ev->pid))
		return 0;
	s->step_pid = ev->pid;
	return add_step(s, is_mark ? ev->addr : s->counted++, ev->ts_ns);
}

/* Kept in order: there are few, and most come in order. Past PIDS_MAX a file given twice may not be noticed. */
static int add_pid(struct merge_scan *s, uint32_t pid)
{
	size_t at = s->pids_cnt;

	while (at && s->pids[at - 1] > pid)
		at--;
	if ((at && s->pids[at - 1] == pid) || s->pids_cnt == PIDS_MAX)
		return 0;
	if (!array_has_room(s->pids, s->pids_cnt, s->pids_cap, 16))
		return -ENOMEM;
	memmove(&s->pids[at + 1], &s->pids[at], (s->pids_cnt - at) * sizeof(*s->pids));
	s->pids[at] = pid;
	s->pids_cnt++;
	return 0;
}

static void see_label(struct merge_scan *s, const char *text)
{
	struct rank_label label = { 0 };
	uint32_t rank;

	rank_label__add(&label, text);
	if (rank_label__num(&label, RANK_WORLD) > s->world)
		s->world = rank_label__num(&label, RANK_WORLD);
	if (rank_label__rank(&label, &rank) < RANK_LOCAL && rank < MERGE_RANKS_MAX)
		s->ranks[rank / 8] |= (uint8_t)(1u << rank % 8);
}

static void see_traced(struct merge_scan *s, const struct event *ev)
{
	s->traced_ns = s->traced_ns ? s->traced_ns : ev->ts_ns;
}

static int see(struct merge_scan *s, const struct event *ev, const struct names *names)
{
	const char *name = names__get(names, ev->name);

	switch (ev->kind) {
	case EV_BEGIN:
		if (!s->has_begin)
			s->epoch_off_ns = (int64_t)ev->addr;
		s->has_begin = 1;
		return 0;
	case EV_LEVEL:
		s->has_levels = 1;
		return 0;
	case EV_END:
		s->ended = 1;
		s->end_reason = ev->aux;
		return 0;
	case EV_MACHINE:
		s->is_merged |= ev->flags == 1;
		return ev->aux < EV_MACHINES_MAX ? add_machine(s, ev->aux, ev->addr, name) : 0;
	case EV_PROC:
		if (ev->pid == s->step_pid || !s->step_pid)
			s->from_start = ev->flags != EV_PROC_ATTACHED;
		if (ev->flags == EV_PROC_LAUNCHED || ev->flags == EV_PROC_EXECED)
			see_traced(s, ev);
		return add_pid(s, ev->pid);
	case EV_ATTACH:
		if (!(ev->flags & EV_ATTACH_BEGINS))
			see_traced(s, ev);
		return 0;
	case EV_LABEL:
		see_label(s, name);
		return 0;
	case MT_EV_STEP:
		return see_step(s, ev, 1);
	case MT_EV_REGION_BEGIN:
		return region_is_step(name) ? see_step(s, ev, 0) : 0;
	default:
		return 0;
	}
}

static int see_all(struct merge_scan *s, struct rec_reader *r, struct err *err)
{
	const struct event *evs;
	size_t cnt;
	int more, e = 0;

	while (!e && (more = rec_reader__next(r, &evs, &cnt, err)) > 0) {
		for (size_t i = 0; i < cnt && !e; i++) {
			if (!s->events++)
				s->first_ns = evs[i].ts_ns;
			s->last_ns = evs[i].ts_ns;
			e = see(s, &evs[i], rec_reader__names(r));
		}
	}
	if (e)
		return err_set(err, e, "out of memory");
	if (more < 0)
		return more;
	if (rec_reader__truncated(r, &s->cut_bytes))
		s->ended = 0;
	return 0;
}

/* Recordings from before EV_MACHINE: one machine; its name is in the text of EV_BEGIN alone. */
static int name_machine(struct merge_scan *s)
{
	return s->machines_cnt ? 0 : add_machine(s, 0, 0, "");
}

int merge_scan__read(struct merge_scan *s, const char *path, struct err *err)
{
	struct rec_reader *r = NULL;
	int e;

	*s = (struct merge_scan){ .world = -1, .stride = 1, .ranks = calloc(MERGE_RANKS_MAX / 8, 1) };
	if (!s->ranks)
		return err_set(err, -ENOMEM, "out of memory");
	e = rec_reader__open(&r, path, err);
	if (e < 0)
		return e;
	e = see_all(s, r, err);
	rec_reader__free(r);
	if (!e && name_machine(s) < 0)
		e = err_set(err, -ENOMEM, "out of memory");
	if (!e && !s->has_begin) {
		err_set(err, -EINVAL, "%s has no beginning: where its clock stood is not known", path);
		e = err_hint(err, "the file is damaged, or was made by another program");
	}
	return e;
}

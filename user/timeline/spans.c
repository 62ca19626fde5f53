/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "timeline/spans.h"

#include <errno.h>

#include "base/array.h"
#include "timeline/timeline.h"

struct last_end {
	uint64_t pid, ts_ns;
};

bool pid_is_one_of(const uint32_t *pids, size_t cnt, uint32_t pid)
{
	for (size_t i = 0; i < cnt; i++)
		if (pids[i] == pid)
			return true;
	return !cnt;
}

int spans__event(struct spans *s, const struct tl_event *ev, uint64_t start_ns)
{
	struct last_end *last;
	struct span at;

	if (ev->kind == TL_GAP)
		s->known_ns = ev->version ? UINT64_MAX : ev->ts_ns;
	if (ev->kind != TL_MARK || ev->version != MARK_STEP)
		return 0;
	if (!s->last.size)
		s->last = MAP_OF(struct last_end);
	last = map__put(&s->last, ev->pid);
	if (!last || !array_has_room(s->steps, s->cnt, s->cap, 256))
		return -ENOMEM;
	at = (struct span){ last->ts_ns ? last->ts_ns : start_ns, ev->ts_ns };
	s->steps[s->cnt++] = (struct step_span){ at, ev->ptr, ev->pid, at.from_ns >= s->known_ns };
	last->ts_ns = ev->ts_ns;
	return 0;
}

void spans__done(struct spans *s)
{
	free(s->steps);
	map__done(&s->last);
	*s = (struct spans){ 0 };
}

static void widen(struct span *s, bool has, const struct span *by)
{
	s->from_ns = !has || by->from_ns < s->from_ns ? by->from_ns : s->from_ns;
	s->to_ns = !has || by->to_ns > s->to_ns ? by->to_ns : s->to_ns;
}

bool spans__of_step(const struct spans *s, uint64_t number, const uint32_t *pids, size_t cnt, struct span *ret)
{
	bool has = false;

	for (size_t i = 0; i < s->cnt; i++)
		if (s->steps[i].number == number && pid_is_one_of(pids, cnt, s->steps[i].pid)) {
			widen(ret, has, &s->steps[i].at);
			has = true;
		}
	return has;
}

unsigned spans__procs_of_step(const struct spans *s, uint64_t number)
{
	uint32_t pid = 0;

	for (size_t i = 0; i < s->cnt; i++) {
		if (s->steps[i].number != number)
			continue;
		if (pid && s->steps[i].pid != pid)
			return 2;
		pid = s->steps[i].pid;
	}
	return pid != 0;
}

bool spans__of_time(const struct spans *s, uint64_t ts_ns, const uint32_t *pids, size_t cnt, struct span *ret,
		    uint64_t *ret_number)
{
	bool has = false;

	for (size_t i = 0; i < s->cnt; i++) {
		const struct step_span *k = &s->steps[i];

		if (ts_ns <= k->at.from_ns || ts_ns > k->at.to_ns || !pid_is_one_of(pids, cnt, k->pid))
			continue;
		widen(ret, has, &k->at);
		*ret_number = has ? *ret_number : k->number;
		has = true;
	}
	return has;
}

bool spans__last_traced(const struct spans *s, const uint32_t *pids, size_t cnt, struct span *ret, uint64_t *ret_number)
{
	for (size_t i = s->cnt; i-- > 0;)
		if (s->steps[i].is_traced && pid_is_one_of(pids, cnt, s->steps[i].pid)) {
			*ret = s->steps[i].at;
			*ret_number = s->steps[i].number;
			return true;
		}
	return false;
}

bool spans__numbers(const struct spans *s, const uint32_t *pids, size_t cnt, uint64_t *ret_first, uint64_t *ret_last)
{
	bool has = false;

	*ret_first = UINT64_MAX;
	*ret_last = 0;
	for (size_t i = 0; i < s->cnt; i++) {
		if (!pid_is_one_of(pids, cnt, s->steps[i].pid))
			continue;
		has = true;
		*ret_first = s->steps[i].number < *ret_first ? s->steps[i].number : *ret_first;
		*ret_last = s->steps[i].number > *ret_last ? s->steps[i].number : *ret_last;
	}
	return has;
}

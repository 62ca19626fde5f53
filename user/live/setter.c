/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/setter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "live/followed.h"
#include "keeper/keeper.h"

#define REST_HASTY_NS SLICE_NS
#define ASK_MS 10 /* between two checks whether operators may begin */

struct setter {
	struct keeper *keeper;
	setting_may_fn may_begin;
	setting_done_fn done;
	void *ctx;
	struct setting *first;
	uint64_t due_ns; /* no slice before this time */
	int is_due;	 /* something waits for its slice: after due_ns the loop is late */
};

struct setter *setter__new(struct keeper *keeper, setting_may_fn may_begin, setting_done_fn done, void *ctx)
{
	struct setter *s = malloc(sizeof(*s));

	if (s)
		*s = (struct setter){ .keeper = keeper, .may_begin = may_begin, .done = done, .ctx = ctx };
	return s;
}

static void setting__free(struct setting *one)
{
	plan_ref__put(one->ref);
	free(one->st.site_failed);
	free((void *)one->st.wanted);
	free(one);
}

void setter__free(struct setter *s)
{
	if (!s)
		return;
	while (s->first) {
		struct setting *one = s->first;

		s->first = one->next;
		setting__free(one);
	}
	free(s);
}

struct setting *setter__add(struct setter *s, struct process *p, struct plan_ref *ref, const uint8_t *wanted)
{
	struct setting *one = calloc(1, sizeof(*one)), **at = &s->first;
	size_t cnt = ref->plan->sites_cnt;
	uint8_t *copy = malloc(cnt + 1), *failed = calloc(cnt + 1, 1);

	if (!one || !copy || !failed) {
		free(one);
		free(copy);
		free(failed);
		return NULL;
	}
	if (wanted)
		memcpy(copy, wanted, cnt);
	else
		free(copy);
	*one = (struct setting){ .p = p, .ref = ref,
				 .st = { .site_failed = failed, .wanted = wanted ? copy : NULL } };
	ref->users++;
	p->settings_cnt++;
	while (*at)
		at = &(*at)->next;
	*at = one;
	return one;
}

int setter__add_late(struct setter *s, struct process *p, struct plan_ref *ref, const uint8_t *wanted)
{
	struct setting *one;

	for (one = s->first; one; one = one->next) {
		if (!one->is_late || one->st.slices || one->p != p || one->ref != ref)
			continue;
		memcpy((void *)one->st.wanted, wanted, ref->plan->sites_cnt);
		return 0;
	}
	one = setter__add(s, p, ref, wanted);
	if (!one)
		return -ENOMEM;
	one->is_late = 1;
	one->begin_ns = now_ns();
	return 1;
}

static void setter__end(struct setter *s, struct setting *one, int r, struct err *err)
{
	struct setting **at = &s->first;

	while (*at != one)
		at = &(*at)->next;
	*at = one->next;
	one->p->settings_cnt--;
	s->done(s->ctx, one, r, err);
	setting__free(one);
}

void setter__run(struct setter *s, struct setting *one)
{
	struct err err = { 0 };

	one->st.budget_ns = 0;
	setter__end(s, one, keeper__attach(s->keeper, one->p->pid, one->ref->plan, &one->st, &err), &err);
}

static int setting__is_at_operators(const struct setting *one)
{
	const struct plan *plan = one->ref->plan;
	uint32_t prog = one->st.at < plan->sites_cnt ? plan->sites[one->st.at].prog : MT_PROG_NONE;

	return prog == MT_PROG_OP || prog == MT_PROG_FLOW_OP;
}

static int setting__has_marks(const struct setting *one)
{
	return one->ref->plan->sites_cnt && site__is_mark(&one->ref->plan->sites[0]);
}

static int setting__is_at_marks(const struct setting *one)
{
	return one->st.at < one->ref->plan->sites_cnt &&
	       site__is_mark(&one->ref->plan->sites[one->st.at]);
}

/* What follows the marks, and operators in any case, wait until may_begin allows them. */
static int setter__may_begin(struct setter *s, struct setting *one)
{
	if (one->begin_ns)
		return 1;
	if (!setting__has_marks(one) && !setting__is_at_operators(one))
		return 1;
	if (!s->may_begin(s->ctx, one))
		return 0;
	one->begin_ns = now_ns();
	return 1;
}

/* The setting whose slice is next; NULL: none. */
static struct setting *setter__next(struct setter *s)
{
	for (struct setting *one = s->first; one; one = one->next)
		if (setting__is_at_marks(one))
			return one;
	for (struct setting *one = s->first; one; one = one->next)
		if (!setting__is_at_operators(one) && setter__may_begin(s, one))
			return one;
	for (struct setting *one = s->first; one; one = one->next)
		if (setting__is_at_operators(one) && setter__may_begin(s, one))
			return one;
	return NULL;
}

static uint32_t setter__missed(const struct setter *s, uint64_t now)
{
	uint64_t missed = s->is_due ? (now - s->due_ns) / (SLICE_NS + REST_NS) : 0;

	return (uint32_t)(missed < SLICES_MISSED_MAX ? missed : SLICES_MISSED_MAX);
}

void setter__turn(struct setter *s)
{
	struct err err = { 0 };
	uint64_t now = now_ns();
	struct setting *one;
	int r;

	if (now < s->due_ns)
		return;
	one = setter__next(s);
	if (!one) {
		s->is_due = 0;
		return;
	}
	one->st.budget_ns = SLICE_NS;
	one->st.rest_ns = one->is_hasty && !one->is_at_work ? REST_HASTY_NS : REST_NS;
	one->st.more = setter__missed(s, now);
	r = keeper__attach(s->keeper, one->p->pid, one->ref->plan, &one->st, &err);
	s->due_ns = now_ns() + one->st.rest_ns;
	s->is_due = r == 1;
	if (r != 1)
		setter__end(s, one, r, &err);
}

int setter__sleep_ms(const struct setter *s)
{
	uint64_t now = now_ns();

	if (!s->first)
		return -1;
	return now < s->due_ns ? (int)((s->due_ns - now) / 1000000 + 1) : ASK_MS;
}

void setter__drop(struct setter *s, const struct process *p)
{
	struct setting *one, *next;
	struct err err = { 0 };

	for (one = s->first; one; one = next) {
		next = one->next;
		if (!p || one->p == p)
			setter__end(s, one, -ECANCELED, &err);
	}
}

int setter__is_idle(const struct setter *s)
{
	return !s->first;
}

int setter__is_watching(const struct setter *s)
{
	for (const struct setting *one = s->first; one; one = one->next)
		if (!one->begin_ns && !one->is_hasty)
			return 1;
	return 0;
}

int setter__is_awaited(const struct setter *s)
{
	for (const struct setting *one = s->first; one; one = one->next)
		if (one->is_awaited)
			return 1;
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/bands.h"

#include <errno.h>
#include <stdlib.h>

void bands__init(struct bands *b, uint32_t room, uint64_t around_ns)
{
	*b = (struct bands){ .room = room, .around_ns = around_ns };
}

void bands__done(struct bands *b)
{
	for (uint32_t i = 0; i < b->procs_cnt; i++) {
		free(b->procs[i]->steps.b);
		for (int k = 0; k < PHASE_MAX; k++)
			free(b->procs[i]->phases[k].b);
		free(b->procs[i]);
	}
	b->procs_cnt = 0;
}

/* NULL with *ret_err 0: too many processes. */
static struct bands_proc *bands__proc(struct bands *b, uint32_t pid, int *ret_err)
{
	struct bands_proc *p;

	*ret_err = 0;
	for (uint32_t i = 0; i < b->procs_cnt; i++)
		if (b->procs[i]->pid == pid)
			return b->procs[i];
	if (b->procs_cnt == BANDS_PROCS_MAX)
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p) {
		*ret_err = -ENOMEM;
		return NULL;
	}
	p->pid = pid;
	return b->procs[b->procs_cnt++] = p;
}

static int band_list__room(struct band_list *l, uint32_t room)
{
	if (l->b)
		return 0;
	l->b = calloc(room, sizeof(*l->b));
	l->room = room;
	l->join = 1;
	return l->b ? 0 : -ENOMEM;
}

const struct band *band_list__at(const struct band_list *l, uint32_t i)
{
	return &l->b[(l->at + i) % l->room];
}

/* --- steps ------------------------------------------------------------------------------------------- */

static void steps__halve(struct band_list *l)
{
	uint32_t to = 0;

	for (uint32_t i = 0; i < l->cnt; i += 2) {
		l->b[to] = l->b[i];
		if (i + 1 < l->cnt) {
			l->b[to].to_ns = l->b[i + 1].to_ns;
			l->b[to].last = l->b[i + 1].last;
		}
		to++;
	}
	l->cnt = to;
	l->join *= 2;
}

int bands__step(struct bands *b, uint32_t pid, uint64_t number, uint64_t from_ns, uint64_t to_ns)
{
	int r;
	struct bands_proc *p = bands__proc(b, pid, &r);
	struct band_list *l = p ? &p->steps : NULL;

	if (!p || (r = band_list__room(l, b->room)))
		return r;
	if (!b->around_step && from_ns < b->around_ns && b->around_ns <= to_ns)
		b->around_step = number;
	l->sum_ns += to_ns - from_ns;
	l->reported++;
	if (l->cnt && (l->reported - 1) % l->join) {
		l->b[l->cnt - 1].to_ns = to_ns;
		l->b[l->cnt - 1].last = number;
		return 0;
	}
	if (l->cnt == l->room) {
		steps__halve(l);
		if ((l->reported - 1) % l->join) {
			l->b[l->cnt - 1].to_ns = to_ns;
			l->b[l->cnt - 1].last = number;
			return 0;
		}
	}
	l->b[l->cnt++] = (struct band){ from_ns, to_ns, number, number };
	return 0;
}

/* --- phases ------------------------------------------------------------------------------------------ */

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static int bands__close(struct bands *b, struct bands_proc *p)
{
	struct band_list *l = p->phase ? &p->phases[p->phase] : NULL;
	int r;

	p->phase = PHASE_OTHER;
	if (!l)
		return 0;
	r = band_list__room(l, b->room);
	if (r)
		return r;
	l->sum_ns += p->now.to_ns - p->now.from_ns;
	l->reported++;
	if (l->cnt < l->room) {
		l->b[l->cnt++] = p->now;
	} else if (distance(l->b[l->at].from_ns, b->around_ns) >= distance(p->now.from_ns, b->around_ns)) {
		l->b[l->at] = p->now;
		l->at = (l->at + 1) % l->room;
	}
	return 0;
}

int bands__phase(struct bands *b, uint32_t pid, enum phase phase, uint64_t from_ns, uint64_t to_ns)
{
	int r;
	struct bands_proc *p = bands__proc(b, pid, &r);

	if (!p || phase == PHASE_OTHER || phase >= PHASE_MAX)
		return r;
	/* A thread's end may be reported late: it belongs to a phase that is over. */
	if (p->phase && p->phase != phase && from_ns < p->now.from_ns)
		return 0;
	if (p->phase != phase) {
		r = bands__close(b, p);
		p->now = (struct band){ .from_ns = from_ns, .to_ns = from_ns };
		p->phase = (uint8_t)phase;
	}
	if (to_ns > p->now.to_ns)
		p->now.to_ns = to_ns;
	return r;
}

int bands__rest(struct bands *b, uint32_t pid)
{
	int r;
	struct bands_proc *p = bands__proc(b, pid, &r);

	return p ? bands__close(b, p) : r;
}

void bands__end(struct bands *b)
{
	for (uint32_t i = 0; i < b->procs_cnt; i++)
		(void)bands__close(b, b->procs[i]);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Some tens of events a second at most: linear searches will do. */
#include "model/core/reported.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

void reported__done(struct reported *t)
{
	free(t->covers);
	t->covers = NULL;
	t->covers_cnt = t->covers_cap = 0;
	free(t->symbols);
	free(t->symbol_of);
	t->symbols = NULL;
	t->symbol_of = NULL;
	t->symbols_cnt = t->symbols_cap = t->symbol_of_cnt = 0;
}

/* The entry of a symbol, made if need be; NULL: no room. */
static struct reported_symbol *reported__symbol(struct reported *t, name_id name)
{
	if (!name.v || name.v >= NAMES_MAX)
		return NULL;
	if (name.v >= t->symbol_of_cnt) {
		size_t cnt = (size_t)name.v * 2;
		uint32_t *of = realloc(t->symbol_of, cnt * sizeof(*of));

		if (!of)
			return NULL;
		memset(of + t->symbol_of_cnt, 0, (cnt - t->symbol_of_cnt) * sizeof(*of));
		t->symbol_of = of;
		t->symbol_of_cnt = cnt;
	}
	if (t->symbol_of[name.v])
		return &t->symbols[t->symbol_of[name.v] - 1];
	if (t->symbols_cnt >= REPORTED_SYMBOLS_MAX || !array_has_room(t->symbols, t->symbols_cnt, t->symbols_cap, 256))
		return NULL;
	t->symbols[t->symbols_cnt] = (struct reported_symbol){ .name = name };
	t->symbol_of[name.v] = (uint32_t)++t->symbols_cnt;
	return &t->symbols[t->symbols_cnt - 1];
}

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t since(uint64_t base, uint64_t now)
{
	return now > base ? now - base : 0;
}

static void reported__site(struct reported *t, const struct event *ev)
{
	struct reported_symbol *s = reported__symbol(t, ev->name);

	if (!s)
		return;
	s->prog = ev->aux;
	s->source = ev->flags;
	s->found = add_saturating(s->found, ev->addr);
	s->attached = add_saturating(s->attached, ev->size);
}

/* Makes room for one more; false: there is none. */
static bool reported__make_room(struct reported *t)
{
	size_t i = 0;

	if (t->covers_cnt < REPORTED_COVERS_MAX)
		return array_has_room(t->covers, t->covers_cnt, t->covers_cap, 16);
	while (i < t->covers_cnt && t->covers[i].pid == t->main_pid)
		i++;
	if (i == t->covers_cnt)
		return false;
	memmove(&t->covers[i], &t->covers[i + 1], (t->covers_cnt - i - 1) * sizeof(*t->covers));
	t->covers_cnt--;
	return true;
}

static void reported__cover(struct reported *t, const struct event *ev)
{
	struct reported_cover c = { ev->pid, ev->name, ev->addr, ev->size };

	for (size_t i = 0; i < t->covers_cnt; i++) {
		if (t->covers[i].pid == c.pid && t->covers[i].source.v == c.source.v) {
			t->covers[i] = c;
			return;
		}
	}
	if (reported__make_room(t))
		t->covers[t->covers_cnt++] = c;
}

static void reported__note(struct reported *t, name_id note)
{
	for (size_t i = 0; i < t->notes_cnt; i++)
		if (t->notes[i].v == note.v)
			return;
	if (t->notes_cnt < REPORTED_NOTES_MAX)
		t->notes[t->notes_cnt++] = note;
}

static void reported__idle(struct reported *t, const struct event *ev)
{
	if (!t->idle_ts_ns)
		t->idle_ts_ns = ev->ts_ns;
	t->idle_ops = ev->size;
	t->idle_probes = ev->addr;
}

static void reported__late(struct reported *t, const struct event *ev)
{
	if (t->late_cnt < REPORTED_LATE_MAX)
		t->late[t->late_cnt] = (struct reported_late){ ev->name, ev->pid, ev->ts_ns, ev->size };
	t->late_cnt++;
}

uint64_t reported__probe_ns(const struct reported *t)
{
	uint64_t sum = 0;

	for (int i = 0; i < MT_PROG_MAX; i++)
		sum += t->costs[i].ns;
	return sum;
}

double reported__block_ns(const struct reported *t)
{
	static const enum mt_prog progs[] = { MT_PROG_FW_NEW, MT_PROG_FW_DELETE, MT_PROG_FW_USAGE, MT_PROG_HOST_FREE,
					      MT_PROG_HOST_ENTER, MT_PROG_HOST_RET, MT_PROG_HOST_EXIT };
	uint64_t ns = 0, hits = 0;

	for (size_t i = 0; i < sizeof(progs) / sizeof(*progs); i++) {
		ns += t->costs[progs[i]].ns;
		hits += t->costs[progs[i]].hits;
	}
	return hits ? (double)ns / (double)hits : 0;
}

void reported__handle(struct reported *t, const struct event *ev)
{
	switch (ev->kind) {
	case EV_BEGIN:
		t->main_pid = ev->pid;
		t->epoch_off_ns = (int64_t)ev->addr;
		t->host = ev->name;
		break;
	case EV_END:
		t->ended = true;
		t->end_reason = ev->aux;
		break;
	case EV_COVER:
		reported__cover(t, ev);
		break;
	case EV_NOTE:
		reported__note(t, ev->name);
		break;
	case EV_COST:
		if (ev->aux < MT_PROG_MAX) {
			struct reported_cost *c = &t->costs[ev->aux];

			if (ev->flags == EV_F_BASE) {
				c->base_hits = ev->addr;
				c->base_ns = ev->size;
			}
			c->hits = since(c->base_hits, ev->addr);
			c->ns = since(c->base_ns, ev->size);
		}
		break;
	case EV_LOSS:
		if (ev->aux < MT_LOSS_MAX)
			t->lost[ev->aux] = ev->size;
		break;
	case EV_SITE:
		reported__site(t, ev);
		break;
	case EV_IDLE:
		reported__idle(t, ev);
		break;
	case EV_LATE_OP:
		reported__late(t, ev);
		break;
	case EV_FIRED: {
		struct reported_symbol *s = reported__symbol(t, ev->name);

		if (s && ev->flags == EV_F_BASE)
			s->fired_base = ev->size;
		if (s)
			s->fired = since(s->fired_base, ev->size);
		break;
	}
	case EV_SELF:
		t->self_rss = ev->addr;
		if (ev->flags == EV_F_BASE)
			t->self_base_ns = ev->size;
		t->self_cpu_ns = since(t->self_base_ns, ev->size);
		break;
	}
}

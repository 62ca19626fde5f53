/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Some tens of events a second at most: linear searches will do. */
#include "model/told.h"

#include <stdlib.h>
#include <string.h>

void told__done(struct told *t)
{
	free(t->covers);
	t->covers = NULL;
	t->covers_cnt = t->covers_cap = 0;
}

/* Makes room for one more, or says that there is none. */
static bool told__make_room(struct told *t)
{
	size_t i = 0, cap = t->covers_cap ? 2 * t->covers_cap : 16;
	struct told_cover *covers;

	if (t->covers_cnt < t->covers_cap)
		return true;
	if (t->covers_cap < TOLD_COVERS_MAX) {
		covers = realloc(t->covers, cap * sizeof(*covers));
		if (!covers)
			return false;
		t->covers = covers;
		t->covers_cap = cap;
		return true;
	}
	while (i < t->covers_cnt && t->covers[i].pid == t->main_pid)
		i++;
	if (i == t->covers_cnt)
		return false;
	memmove(&t->covers[i], &t->covers[i + 1], (t->covers_cnt - i - 1) * sizeof(*t->covers));
	t->covers_cnt--;
	return true;
}

static void told__cover(struct told *t, const struct event *ev)
{
	struct told_cover c = { ev->pid, ev->name, ev->addr, ev->size };

	for (size_t i = 0; i < t->covers_cnt; i++) {
		if (t->covers[i].pid == c.pid && t->covers[i].source.v == c.source.v) {
			t->covers[i] = c;
			return;
		}
	}
	if (told__make_room(t))
		t->covers[t->covers_cnt++] = c;
}

static void told__note(struct told *t, name_id note)
{
	for (size_t i = 0; i < t->notes_cnt; i++)
		if (t->notes[i].v == note.v)
			return;
	if (t->notes_cnt < TOLD_NOTES_MAX)
		t->notes[t->notes_cnt++] = note;
}

void told__handle(struct told *t, const struct event *ev)
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
		told__cover(t, ev);
		break;
	case EV_NOTE:
		told__note(t, ev->name);
		break;
	case EV_COST:
		if (ev->aux < MT_PROG_MAX) {
			t->costs[ev->aux].hits = ev->addr;
			t->costs[ev->aux].ns = ev->size;
		}
		break;
	case EV_LOSS:
		if (ev->aux < MT_LOSS_MAX)
			t->lost[ev->aux] = ev->size;
		break;
	case EV_SELF:
		t->self_rss = ev->addr;
		t->self_cpu_ns = ev->size;
		break;
	}
}

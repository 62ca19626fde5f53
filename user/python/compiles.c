/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The process runs meanwhile: a list that changed while it was read is read again at the next look. One that changes in each
 * look is given up after TORN_MAX looks, and its compilations are counted as missed.
 */
#include "python/compiles.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "python/deque.h"
#include "python/object_head.h"

#define ITEMS_MAX 100000u /* entries of dicts that one look reads: a record has 99 */
#define TORN_MAX 8
#define TIME_MAX_US (1ull << 53) /* the year 2255 */
#define NS_PER_US 1000u
#define FLOAT_VALUE 16

enum field { ID, NAME, FILE_NAME, LINE, FORWARD, REASON, FAILED, BEGIN, END, DURATION, BEGIN_S, FRAME_S, WASTED_S, FIELDS };

static const char *const fields[FIELDS] = {
	[ID] = "compile_id", [NAME] = "co_name", [FILE_NAME] = "co_filename", [LINE] = "co_firstlineno",
	[FORWARD] = "is_forward", [REASON] = "recompile_reason", [FAILED] = "fail_reason", [BEGIN] = "start_time_us",
	[END] = "end_time_us", [DURATION] = "duration_us",
	[BEGIN_S] = "start_time", [FRAME_S] = "entire_frame_compile_time_s", [WASTED_S] = "dynamo_time_before_restart_s",
};

struct record {
	struct py *p;
	uint64_t at[FIELDS]; /* their objects; 0: not there */
};

static int see_field(void *ctx, uint64_t key, uint64_t value)
{
	struct record *r = ctx;
	char text[PY_TEXT_MAX];

	if (py__text(r->p, key, text))
		return PY_ITEM_NEXT;
	for (unsigned i = 0; i < FIELDS; i++)
		if (!strcmp(text, fields[i]))
			r->at[i] = value;
	return PY_ITEM_NEXT;
}

static int time_ns(const struct record *r, enum field f, uint64_t *ret)
{
	uint64_t us;

	if (!r->at[f] || py__number(r->p, r->at[f], &us) || us > TIME_MAX_US)
		return -EAGAIN;
	*ret = us * NS_PER_US;
	return 0;
}

/* A float of seconds, or None. */
static int seconds_ns(const struct record *r, enum field f, uint64_t *ret)
{
	const struct py_type *t = r->at[f] ? py__type_of(r->p, r->at[f]) : NULL;
	char name[PY_TEXT_MAX];
	double s;

	if (!t || py__type_name(r->p, t->addr, name) || strcmp(name, "float") ||
	    py_snap__read(r->p->snap, r->at[f] + FLOAT_VALUE, &s, sizeof(s)) || !(s >= 0 && s * 1e6 < (double)TIME_MAX_US))
		return -EAGAIN;
	*ret = (uint64_t)(s * 1e6) * NS_PER_US;
	return 0;
}

/* When it began, and when it was over. Until torch 2.5 failed compilations have their time elsewhere than others. */
static int read_times(const struct record *r, struct py_compile *ret)
{
	uint64_t took = 0;

	if (!r->at[BEGIN]) {
		if (seconds_ns(r, BEGIN_S, &ret->begin_ns) || !ret->begin_ns)
			return -EAGAIN;
		if (seconds_ns(r, FRAME_S, &took) && seconds_ns(r, WASTED_S, &took))
			took = 0;
	} else if (time_ns(r, BEGIN, &ret->begin_ns)) {
		return -EAGAIN;
	} else if (!time_ns(r, END, &ret->end_ns)) {
		took = ret->end_ns > ret->begin_ns ? ret->end_ns - ret->begin_ns : 0;
	} else if (time_ns(r, DURATION, &took)) {
		return -EAGAIN;
	}
	ret->end_ns = ret->begin_ns + took;
	return 0;
}

static void line_of(const struct record *r, enum field f, char buf[PY_TEXT_MAX])
{
	if (!r->at[f] || py__first_line(r->p, r->at[f], buf))
		buf[0] = '\0';
}

/* "forward (train.py:6)" */
static void function_of(const struct record *r, char buf[PY_TEXT_MAX])
{
	char name[PY_TEXT_MAX], file[PY_TEXT_MAX];
	const char *base;
	uint64_t line = 0;

	line_of(r, NAME, name);
	line_of(r, FILE_NAME, file);
	base = strrchr(file, '/');
	base = base ? base + 1 : file;
	if (!name[0] || !base[0] || !r->at[LINE] || py__number(r->p, r->at[LINE], &line))
		snprintf(buf, PY_TEXT_MAX, "%.200s", name);
	else
		snprintf(buf, PY_TEXT_MAX, "%.120s (%.100s:%u)", name, base, (unsigned)(line & INT32_MAX));
}

/* "0/0: tensor 'x' …": the id of the older compilation, which did not fit, is left out. */
static void cut_id(char *text)
{
	size_t len = strspn(text, "!0123456789/_");

	if (len && text[len] == ':' && text[len + 1] == ' ')
		memmove(text, text + len + 2, strlen(text + len + 2) + 1);
}

static int read_record(struct py *p, uint64_t obj, struct py_compile *ret)
{
	struct record r = { .p = p };
	uint64_t forward = 1;
	char id[PY_TEXT_MAX];

	if (!py_plausible(obj) || py__each_attr(p, obj, see_field, &r) || !r.at[ID] || read_times(&r, ret))
		return -EAGAIN;
	line_of(&r, ID, id);
	if (!id[0] || strlen(id) >= sizeof(ret->id))
		return -EAGAIN;
	strcpy(ret->id, id);
	ret->is_backward = r.at[FORWARD] && !py__number(p, r.at[FORWARD], &forward) && !forward;
	function_of(&r, ret->function);
	line_of(&r, REASON, ret->reason);
	cut_id(ret->reason);
	line_of(&r, FAILED, ret->failed);
	return 0;
}

/* --- the list ------------------------------------------------------------------------------------------------- */

struct compiles_walk {
	struct py *p;
	struct py_compiles *ret;
	uint64_t after_ns; /* those that ended later */
};

/* torch 2.5 has backwards in a type of their own, without times: they are not reported. */
static int is_timeless(struct py *p, uint64_t obj)
{
	const struct py_type *t = py__type_of(p, obj);
	char name[PY_TEXT_MAX];

	return t && !py__type_name(p, t->addr, name) && !strcmp(name, "BwdCompilationMetrics");
}

static int see_record(void *ctx, uint64_t item, uint64_t index)
{
	struct compiles_walk *w = ctx;
	struct py_compile *c = &w->ret->v[w->ret->cnt];

	(void)index;
	if (w->ret->cnt == PY_COMPILES_MAX)
		return 1;
	*c = (struct py_compile){ 0 };
	if (read_record(w->p, item, c))
		w->ret->missed += !is_timeless(w->p, item);
	else if (c->end_ns > w->after_ns)
		w->ret->cnt++;
	return 0;
}

uint64_t py_compiles__find(struct py *p)
{
	const struct py_type *t;
	char name[PY_TEXT_MAX];
	uint64_t deque;

	if (py__module_attr(p, "torch._dynamo.utils", "_compilation_metrics", &deque))
		return 0;
	t = py__type_of(p, deque);
	return t && !py__type_name(p, t->addr, name) && !strcmp(name, "deque") ? deque : 0;
}

/* How many of the last ones are new, and how many new ones are gone already. */
static uint64_t count_new(const struct py_compiles_seen *seen, uint64_t changes, uint64_t cnt, uint64_t *ret_missed)
{
	uint64_t more = changes - seen->changes;

	*ret_missed = 0;
	if (seen->cnt > cnt) /* it was cleared, which is a change itself; how many were new before that is unknown */
		return cnt;
	if (more <= cnt)
		return more;
	*ret_missed = more - cnt;
	return cnt;
}

int py_compiles__look(struct py *p, uint64_t deque, struct py_compiles_seen *seen, struct py_compiles *ret)
{
	uint64_t type, changes, cnt, fresh, missed = 0;
	struct compiles_walk w = { p, ret, 0 };
	int r;

	ret->cnt = 0;
	ret->missed = 0;
	py_snap__fresh(p->snap);
	type = py_snap__word(p->snap, deque + OB_TYPE);
	changes = py_snap__word(p->snap, deque + PY_DEQUE_STATE);
	cnt = py_deque__cnt(p, deque);
	if (seen->deque == deque && seen->type == type && seen->changes == changes && seen->cnt == cnt)
		return 0;
	py__fresh(p);
	p->items_left = ITEMS_MAX;
	if (!py__type_of(p, deque) || cnt > PY_ITEMS_MAX)
		return -EAGAIN;
	fresh = cnt;
	if (seen->deque == deque && seen->type == type)
		fresh = count_new(seen, changes, cnt, &missed);
	else if (seen->deque)
		w.after_ns = seen->last_ns; /* another list, with the items of the one before */
	else
		missed = changes > cnt ? changes - cnt : 0;
	if (fresh > PY_COMPILES_MAX) {
		missed += fresh - PY_COMPILES_MAX;
		fresh = PY_COMPILES_MAX;
	}
	r = py_deque__each(p, deque, cnt - fresh, see_record, &w);
	py_snap__fresh(p->snap);
	if (r < 0 || py_snap__word(p->snap, deque + PY_DEQUE_STATE) != changes) {
		ret->cnt = 0;
		ret->missed = 0;
		if (++seen->torn < TORN_MAX)
			return -EAGAIN;
		ret->missed = missed + fresh;
	} else {
		ret->missed += missed;
	}
	*seen = (struct py_compiles_seen){ deque, type, changes, cnt, seen->last_ns, 0 };
	for (size_t i = 0; i < ret->cnt; i++)
		seen->last_ns = ret->v[i].end_ns > seen->last_ns ? ret->v[i].end_ns : seen->last_ns;
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * learned_of FULL.mtr GAPS.mtr: every label that a recording with gaps (gaps_of, blocks) learned, against what the recording
 * of all says of the same block at the same moment. Of blocks that were allocated while no operator was seen, after the first
 * window, in steps that are over: byte·time in which that was so. Prints JSON: shares that have a label, whose category is
 * right, whose operator is, whose module is; and what was said instead of what, most byte·time first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/err.h"
#include "base/map.h"
#include "event/recording.h"
#include "model/model.h"

#define WRONG_MAX 4096

struct version {
	uint64_t block; /* its number in `blocks` */
	uint64_t ts_ns;
	uint32_t number;
	uint8_t cat;
	bool is_last; /* TL_FINAL's: from here on */
};

struct seen {
	uint64_t id; /* in its recording */
	uint64_t ts_ns, end_ns, ptr, size, step;
	uint64_t first; /* version, + 1 */
	uint32_t versions;
	const char *op, *said_op, *module, *said_module; /* module: "" is a root, NULL: of none */
	uint8_t cat, said_cat;
	bool is_blind, is_said;
};

struct run {
	struct model *m;
	const struct names *names;
	struct map by_id;     /* id, number */
	struct seen *v;
	size_t cnt, cap;
	struct version *versions; /* of full: allocations, versions and last words, in order of coming */
	size_t versions_cnt, versions_cap;
	uint64_t *blind; /* begin, end, begin, … of stretches in which no operator was seen */
	size_t blind_cnt, blind_cap;
	bool is_blind, had_window;
	uint64_t now_ns, last_step;
	uint32_t pid;
};

struct id_row {
	uint64_t id, number;
};

static void die(const char *what)
{
	fprintf(stderr, "learned_of: %s\n", what);
	exit(1);
}

static struct seen *run__of(struct run *r, uint64_t id)
{
	struct id_row *row = map__find(&r->by_id, id);

	return row ? &r->v[row->number] : NULL;
}

static void run__version(struct run *r, uint64_t id, uint64_t ts_ns, uint32_t number, uint8_t cat, bool is_last)
{
	struct id_row *row = map__find(&r->by_id, id);

	if (!row)
		return;
	if (!array_has_room(r->versions, r->versions_cnt, r->versions_cap, 4096))
		die("out of memory");
	r->versions[r->versions_cnt++] = (struct version){ row->number, ts_ns, number, cat, is_last };
}

static void run__create(struct run *r, const struct tl_event *tl)
{
	struct id_row *row = map__put(&r->by_id, tl->id);

	if (!row || !array_has_room(r->v, r->cnt, r->cap, 4096))
		die("out of memory");
	row->number = r->cnt;
	r->v[r->cnt++] = (struct seen){ .id = tl->id, .ts_ns = tl->ts_ns, .end_ns = UINT64_MAX, .ptr = tl->ptr,
					.size = tl->size,
					.op = names__get(r->names, tl->op),
					.module = tl->root.v ? names__get(r->names, tl->module) : NULL,
					.is_blind = r->is_blind && r->had_window,
					.step = model__steps_of(r->m, tl->pid) };
}

static int keep(void *ctx, const struct tl_event *tl)
{
	struct run *r = ctx;
	struct seen *s = tl->kind == TL_DESTROY || tl->kind == TL_LEARNED ? run__of(r, tl->id) : NULL;

	if (tl->kind == TL_CREATE)
		run__create(r, tl);
	if (tl->kind == TL_CREATE || tl->kind == TL_VERSION)
		run__version(r, tl->id, tl->ts_ns, tl->version, 0, false);
	else if (tl->kind == TL_FINAL)
		run__version(r, tl->id, 0, tl->version, tl->cat, true);
	if (s && tl->kind == TL_DESTROY) { /* its module may have been told since */
		s->end_ns = tl->ts_ns;
		s->module = tl->root.v ? names__get(r->names, tl->module) : s->module;
	} else if (s) {
		s->is_said = true;
		s->said_cat = tl->learned->cat;
		s->said_op = names__get(r->names, tl->learned->op);
		s->said_module = tl->learned->root.v ? names__get(r->names, tl->learned->module) : NULL;
	}
	return 0;
}

static void run__blind(struct run *r, uint64_t ts_ns)
{
	uint64_t window;
	uint8_t state = model__level_of(r->m, &window);
	bool is_blind = state < EV_LEVEL_FIRST;

	r->had_window |= state == EV_LEVEL_TRACED && window;
	if (is_blind == r->is_blind)
		return;
	if (!array_has_room(r->blind, r->blind_cnt, r->blind_cap, 64))
		die("out of memory");
	r->blind[r->blind_cnt++] = ts_ns;
	r->is_blind = is_blind;
}

static void run__all(struct run *r, const char *path)
{
	struct err err = { 0 };
	struct model_opts mo = { .timeline = keep, .timeline_ctx = r, .timeline_nodes = 1 };
	const struct event *evs;
	struct rec_reader *rd;
	size_t cnt;
	int more;

	r->by_id = MAP_OF(struct id_row);
	if (rec_reader__open(&rd, path, &err))
		die(err.msg);
	r->names = rec_reader__names(rd); /* lives as long as this does */
	r->m = model__new(r->names, &mo);
	while (r->m && (more = rec_reader__next(rd, &evs, &cnt, &err)) > 0)
		for (size_t i = 0; i < cnt; i++) {
			if (model__handle(r->m, &evs[i]))
				die("a model that fails");
			r->now_ns = evs[i].ts_ns > r->now_ns ? evs[i].ts_ns : r->now_ns;
			r->pid = evs[i].kind == EV_BEGIN ? evs[i].pid : r->pid;
			run__blind(r, evs[i].ts_ns);
		}
	if (!r->m || more < 0)
		die(err.msg);
	r->last_step = model__steps_of(r->m, r->pid);
	if (r->is_blind && array_has_room(r->blind, r->blind_cnt, r->blind_cap, 64))
		r->blind[r->blind_cnt++] = r->now_ns;
	model__end(r->m);
}

/* --- comparing -------------------------------------------------------------------------------------------------- */

static const struct run *sorting;

static int by_block(const void *pa, const void *pb)
{
	const struct version *a = pa, *b = pb;

	if (a->block != b->block)
		return a->block < b->block ? -1 : 1;
	if (a->is_last != b->is_last)
		return a->is_last ? 1 : -1;
	return a->number < b->number ? -1 : a->number > b->number;
}

static int by_alloc(const void *pa, const void *pb)
{
	const struct seen *a = &sorting->v[*(const size_t *)pa], *b = &sorting->v[*(const size_t *)pb];

	if (a->ts_ns != b->ts_ns)
		return a->ts_ns < b->ts_ns ? -1 : 1;
	return a->ptr < b->ptr ? -1 : a->ptr > b->ptr;
}

static void run__sort_versions(struct run *r)
{
	qsort(r->versions, r->versions_cnt, sizeof(*r->versions), by_block);
	for (size_t i = 0; i < r->versions_cnt; i++) {
		struct seen *s = &r->v[r->versions[i].block];

		s->first = s->first ? s->first : i + 1;
		s->versions++;
	}
}

/* Time in which no operator was seen. */
static uint64_t run__blind_in(const struct run *r, uint64_t from, uint64_t to)
{
	uint64_t sum = 0;

	for (size_t i = 0; i + 1 < r->blind_cnt; i += 2) {
		uint64_t a = r->blind[i] > from ? r->blind[i] : from, b = r->blind[i + 1] < to ? r->blind[i + 1] : to;

		sum += b > a ? b - a : 0;
	}
	return sum;
}

static uint8_t cat_in(const struct run *full, const struct seen *s, uint32_t number)
{
	uint8_t cat = CAT_UNKNOWN;

	for (uint32_t i = 0; i < s->versions; i++) {
		const struct version *v = &full->versions[s->first - 1 + i];

		if (v->is_last && v->number <= number)
			cat = v->cat;
	}
	return cat;
}

struct wrong {
	const char *said, *is;
	double byte_ns;
	uint64_t cnt;
};

struct outcome {
	double all, said, cat, op, module;
	uint64_t blocks;
	struct wrong wrong[WRONG_MAX];
	size_t wrong_cnt;
};

static void outcome__wrong(struct outcome *o, const char *said, const char *is, double byte_ns)
{
	size_t i = 0;

	while (i < o->wrong_cnt && (strcmp(o->wrong[i].said, said) || strcmp(o->wrong[i].is, is)))
		i++;
	if (i == WRONG_MAX)
		return;
	if (i == o->wrong_cnt)
		o->wrong[o->wrong_cnt++] = (struct wrong){ .said = said, .is = is };
	o->wrong[i].byte_ns += byte_ns;
	o->wrong[i].cnt++;
}

static bool is_one(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static void compare(struct outcome *o, const struct run *full, const struct run *gaps, const struct seen *is,
		    const struct seen *said)
{
	uint64_t end = is->end_ns < full->now_ns ? is->end_ns : full->now_ns, sum = 0;
	const char *op = said->is_said ? said->said_op : "(no label)";

	for (uint32_t i = 0; i < is->versions; i++) {
		const struct version *v = &full->versions[is->first - 1 + i];
		bool has_next = i + 1 < is->versions && !v[1].is_last;
		uint64_t ns = v->is_last ? 0 : run__blind_in(gaps, v->ts_ns, has_next ? v[1].ts_ns : end);
		uint8_t cat = cat_in(full, is, v->number);

		sum += ns;
		o->cat += said->is_said && said->said_cat == cat ? (double)is->size * (double)ns : 0;
		if (ns && said->is_said && said->said_cat != cat)
			outcome__wrong(o, category_name(said->said_cat), category_name(cat), (double)is->size * (double)ns);
	}
	o->all += (double)is->size * (double)sum;
	o->module += said->is_said && is_one(said->said_module, is->module) ? (double)is->size * (double)sum : 0;
	o->said += said->is_said ? (double)is->size * (double)sum : 0;
	o->op += said->is_said && !strcmp(op, is->op) ? (double)is->size * (double)sum : 0;
	if (strcmp(op, is->op) || !said->is_said)
		outcome__wrong(o, op, is->op, (double)is->size * (double)sum);
	o->blocks++;
}

static int by_weight(const void *pa, const void *pb)
{
	const struct wrong *a = pa, *b = pb;

	return a->byte_ns < b->byte_ns ? 1 : -(a->byte_ns > b->byte_ns);
}

static size_t *run__allocs(const struct run *r)
{
	size_t *at = calloc(r->cnt + 1, sizeof(*at));

	for (size_t i = 0; at && i < r->cnt; i++)
		at[i] = i;
	if (!at)
		die("out of memory");
	sorting = r;
	qsort(at, r->cnt, sizeof(*at), by_alloc);
	return at;
}

int main(int argc, char **argv)
{
	static struct run full, gaps;
	static struct outcome o;
	size_t *a, *b, i = 0;

	if (argc != 3)
		die("usage: learned_of FULL.mtr GAPS.mtr");
	run__all(&full, argv[1]);
	run__all(&gaps, argv[2]);
	run__sort_versions(&full);
	a = run__allocs(&full);
	b = run__allocs(&gaps);
	for (size_t k = 0; k < gaps.cnt; k++) {
		const struct seen *said = &gaps.v[b[k]];

		while (i < full.cnt && (full.v[a[i]].ts_ns < said->ts_ns ||
					(full.v[a[i]].ts_ns == said->ts_ns && full.v[a[i]].ptr < said->ptr)))
			i++;
		if (said->is_blind && said->step < gaps.last_step && i < full.cnt && full.v[a[i]].ts_ns == said->ts_ns &&
		    full.v[a[i]].ptr == said->ptr)
			compare(&o, &full, &gaps, &full.v[a[i]], said);
	}
	if (o.all <= 0)
		die("nothing was allocated in a gap");
	qsort(o.wrong, o.wrong_cnt, sizeof(*o.wrong), by_weight);
	printf("{\"blocks\":%zu,\"label\":%.6f,\"category\":%.6f,\"op\":%.6f,\"module\":%.6f,\"wrong\":[", (size_t)o.blocks,
	       o.said / o.all, o.cat / o.all, o.op / o.all, o.module / o.all);
	for (i = 0; i < o.wrong_cnt && i < 8; i++)
		printf("%s[\"%s\",\"%s\",%.6f,%zu]", i ? "," : "", o.wrong[i].said, o.wrong[i].is, o.wrong[i].byte_ns / o.all,
		       (size_t)o.wrong[i].cnt);
	printf("]}\n");
	return 0;
}

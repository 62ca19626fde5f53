/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/holdings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "event/event.h"
#include "timeline/labels.h"
#include "timeline/report.h"
#include "timeline/report_names.h"
#include "verdict/facts.h"
#include "view/fold/peak_moment.h"
#include "view/fold/rank_names.h"

struct held_block {
	uint64_t id, number;   /* number: in order of allocation, from 1 */
	struct tl_event alloc; /* version: the one it has now */
	uint64_t epoch;	       /* of was: the last moment that was the highest */
	uint32_t was;	       /* the version that it had then, if it has another one now */
};

/* An allocation as it counts: with what it has learned if the moment is one of that. */
struct likely_alloc {
	struct tl_event alloc;
	struct tl_learned learned;
};

struct held_group {
	uint64_t key;
	struct owner of;
	uint64_t allocs, alloc_bytes, bytes, blocks, largest;
};

struct line_row {
	uint64_t node;
	const struct report_frame *frame; /* NULL: of no line of Python */
};

struct held_rows {
	struct holding *rows;
	size_t cnt;
};

struct holdings {
	const struct sieve *sieve;
	const struct report *r;
	unsigned depth; /* of the end */
	struct map lines; /* struct line_row, by a stack's node */
	struct peak_moment moment;
	uint64_t blocks, allocated;
	uint64_t last, epoch; /* of the moment so far: number of the youngest block then */
	struct holding all, wanted;
	struct map lives;
	struct held_block *dead; /* were live at that moment, and freed since */
	size_t dead_cnt, dead_cap;
	struct map groups[HELD_BYS];
	struct held_rows rows[HELD_BYS];
	struct rank_name *ranks; /* of the groups of ranks */
};

struct holdings *holdings__new(const struct sieve *sieve, uint64_t around_ns, const struct report *rep)
{
	struct holdings *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->sieve = sieve;
	h->r = rep;
	h->moment = (struct peak_moment){ .span = &sieve->span, .around_ns = around_ns };
	h->lives = MAP_OF(struct held_block);
	h->lines = MAP_OF(struct line_row);
	for (int by = 0; by < HELD_BYS; by++)
		h->groups[by] = MAP_OF(struct held_group);
	return h;
}

static void held_rows__done(struct held_rows *l)
{
	for (size_t i = 0; i < l->cnt; i++)
		free(l->rows[i].name);
	free(l->rows);
}

void holdings__free(struct holdings *h)
{
	if (!h)
		return;
	map__done(&h->lives);
	map__done(&h->lines);
	free(h->dead);
	free(h->ranks);
	for (int by = 0; by < HELD_BYS; by++) {
		map__done(&h->groups[by]);
		held_rows__done(&h->rows[by]);
	}
	free(h);
}

/* --- groups ------------------------------------------------------------------------------------------------- */

#define NAME_BITS 21 /* of a name's number, three of which and a bit make a key */

_Static_assert(NAMES_MAX < 1u << NAME_BITS, "name_key");

static uint64_t name_key(const struct labels_name *n)
{
	return (uint64_t)n->root.v << (2 * NAME_BITS + 1) | (uint64_t)n->path.v << (NAME_BITS + 1) | (uint64_t)n->key.v << 1 |
	       (n->kind == EV_TENSOR_GRADIENT);
}

static const char *key_part(const struct names *names, uint64_t key, unsigned shift)
{
	return names__get(names, (name_id){ (uint32_t)(key >> shift) & ((1u << NAME_BITS) - 1) });
}

static enum category category_of(const struct holdings *h, uint64_t id, uint32_t version)
{
	const struct labels *l = h->sieve->labels;

	return h->moment.is_learned ? labels__likely(l, id, version) : labels__get(l, id, version);
}

static bool is_wanted(const struct holdings *h, const struct tl_event *alloc, uint32_t version)
{
	const struct sieve *s = h->sieve;

	return sieve__is_made(s, alloc) &&
	       (s->category < 0 || (s->labels && sieve__is_category(s, category_of(h, alloc->id, version))));
}

static const struct tl_event *likely_of(const struct holdings *h, const struct tl_event *alloc, struct likely_alloc *ret)
{
	ret->alloc = *alloc;
	ret->alloc.learned = NULL;
	if (h->moment.is_learned)
		labels__learn(h->sieve->labels, &ret->alloc, &ret->learned);
	ret->alloc = tl_likely(&ret->alloc);
	ret->alloc.learned = NULL;
	return &ret->alloc;
}

static uint64_t key_of(const struct holdings *h, enum held_by by, const struct tl_event *alloc, uint32_t version,
		       struct owner *ret)
{
	const struct sieve *s = h->sieve;
	struct labels_name name;

	switch (by) {
	case HELD_BY_CATEGORY:
		return category_of(h, alloc->id, version);
	case HELD_BY_MODULE:
		*ret = sieve__owner(s, alloc);
		return (uint64_t)ret->root.v << 43 ^ (uint64_t)ret->path.v << 20 ^ (ret->path_len & 0xfffff);
	case HELD_BY_OP:
		return alloc->op.v;
	case HELD_BY_REGION:
		return alloc->region.v;
	case HELD_BY_LINE:
		return alloc->stack;
	case HELD_BY_RANK:
	case HELD_BY_PROCESS:
		return alloc->pid;
	case HELD_BY_DEVICE:
		return alloc->dev;
	default:
		return labels__name(s->labels, alloc->id, &name) ? name_key(&name) : 0;
	}
}

static struct held_group *group_of(struct holdings *h, enum held_by by, const struct tl_event *alloc, uint32_t version)
{
	struct owner of = { 0 };
	struct held_group *g = map__put(&h->groups[by], key_of(h, by, alloc, version, &of));

	if (g)
		g->of = of;
	return g;
}

static int count_alloc(struct holdings *h, const struct tl_event *ev)
{
	struct likely_alloc likely;

	ev = likely_of(h, ev, &likely);
	if (!is_wanted(h, ev, ev->version))
		return 0;
	h->wanted.allocs++;
	h->wanted.alloc_bytes += ev->size;
	for (int by = 0; by < HELD_BYS; by++) {
		struct held_group *g = group_of(h, (enum held_by)by, ev, ev->version);

		if (!g)
			return -ENOMEM;
		g->allocs++;
		g->alloc_bytes += ev->size;
	}
	return 0;
}

static int count_held(struct holdings *h, const struct held_block *b)
{
	uint32_t version = b->epoch == h->epoch ? b->was : b->alloc.version;
	uint64_t size = b->alloc.size;
	struct likely_alloc likely;
	const struct tl_event *alloc = likely_of(h, &b->alloc, &likely);

	if (!is_wanted(h, alloc, version))
		return 0;
	h->wanted.bytes += size;
	h->wanted.blocks++;
	h->wanted.largest = size > h->wanted.largest ? size : h->wanted.largest;
	for (int by = 0; by < HELD_BYS; by++) {
		struct held_group *g = group_of(h, (enum held_by)by, alloc, version);

		if (!g)
			return -ENOMEM;
		g->bytes += size;
		g->blocks++;
		g->largest = size > g->largest ? size : g->largest;
	}
	return 0;
}

/* --- decisions ------------------------------------------------------------------------------------------------ */

static void reached(struct holdings *h)
{
	h->last = h->allocated;
	h->all.bytes = h->moment.bytes;
	h->all.blocks = h->blocks;
	h->epoch++;
	h->dead_cnt = 0;
}

static int on_alloc(struct holdings *h, const struct tl_event *ev)
{
	struct held_block *b;

	if (!sieve__is_whose(h->sieve, ev) || ev->size == TL_SIZE_UNKNOWN || map__find(&h->lives, ev->id))
		return 0;
	b = map__put(&h->lives, ev->id);
	if (!b)
		return -ENOMEM;
	b->alloc = *ev;
	b->number = ++h->allocated;
	h->blocks++;
	if (peak_moment__move(&h->moment, ev->size, 0, ev->ts_ns))
		reached(h);
	if (ev->kind != TL_CREATE || ev->ts_ns <= h->sieve->span.from_ns || ev->ts_ns > h->sieve->span.to_ns)
		return 0;
	h->all.allocs++;
	h->all.alloc_bytes += ev->size;
	return count_alloc(h, ev);
}

static void on_version(struct holdings *h, const struct tl_event *ev)
{
	struct held_block *b = map__find(&h->lives, ev->id);

	if (!b)
		return;
	if (b->number <= h->last && b->epoch != h->epoch) {
		b->was = b->alloc.version;
		b->epoch = h->epoch;
	}
	b->alloc.version = ev->version;
}

static int on_death(struct holdings *h, const struct tl_event *ev)
{
	struct held_block *b = map__find(&h->lives, ev->id);

	if (!b)
		return 0;
	(void)peak_moment__move(&h->moment, 0, b->alloc.size, ev->ts_ns);
	h->blocks--;
	if (b->number <= h->last) {
		if (!array_has_room(h->dead, h->dead_cnt, h->dead_cap, 1024))
			return -ENOMEM;
		h->dead[h->dead_cnt++] = *b;
	}
	map__remove(&h->lives, b);
	return 0;
}

int holdings__event(struct holdings *h, const struct tl_event *ev)
{
	if (peak_moment__opens(&h->moment, ev->ts_ns))
		reached(h);
	switch (ev->kind) {
	case TL_CREATE:
	case TL_PREEXISTING:
		return on_alloc(h, ev);
	case TL_VERSION:
		on_version(h, ev);
		return 0;
	case TL_DESTROY:
		return on_death(h, ev);
	case TL_GAP:
		if (peak_moment__gap(&h->moment, ev->version, ev->ts_ns, report_gap_seen_ns(h->r, ev->ts_ns)))
			reached(h);
		return 0;
	default:
		return 0;
	}
}

/* --- the end --------------------------------------------------------------------------------------------------- */

/* Of "Model.block.fc1" the first `depth` words. */
static void cut_depth(char *path, unsigned depth)
{
	for (char *at = path; depth && (at = strchr(at, '.')); at++)
		if (!--depth) {
			*at = '\0';
			return;
		}
}

static int find_lines(struct holdings *h, const struct report *r)
{
	for (size_t i = 0; i < r->stacks.cnt; i++) {
		const struct report_stack *s = &r->stacks.rows[i];
		struct line_row *row = map__put(&h->lines, s->node);

		if (!row)
			return -ENOMEM;
		row->frame = facts_line(s->frames, s->frames_cnt);
	}
	return 0;
}

static void line_words(const struct holdings *h, uint32_t stack, char *buf, size_t size)
{
	const struct line_row *row = map__find(&h->lines, stack);
	const struct report_frame *f = row ? row->frame : NULL;
	bool is_named = f && f->function && f->function[0];

	buf[0] = '\0';
	if (f)
		snprintf(buf, size, "%s:%" PRIu32 "%s%s", f->file, f->line, is_named ? " in " : "",
			 is_named ? f->function : "");
}

/* Of the groups of ranks, in their order. NULL: no memory. */
static struct rank_name *name_ranks(const struct holdings *h)
{
	const struct map *groups = &h->groups[HELD_BY_RANK];
	struct rank_name *names = calloc(groups->cnt + 1, sizeof(*names));

	for (uint32_t i = 0; i < groups->cnt && names; i++)
		names[i].pid = (uint32_t)((const struct held_group *)map__at(groups, i))->key;
	if (names && !rank_names__fill(names, groups->cnt, h->r))
		return names;
	free(names);
	return NULL;
}

static void name_group(const struct holdings *h, enum held_by by, uint32_t at, char *buf, size_t size)
{
	const struct held_group *g = map__at(&h->groups[by], at);
	const struct names *names = h->sieve->names;
	char dev[16];

	switch (by) {
	case HELD_BY_CATEGORY:
		snprintf(buf, size, "%s", category_name(g->key < CAT_MAX ? (enum category)g->key : CAT_UNKNOWN));
		break;
	case HELD_BY_MODULE:
		owner__words(&g->of, names, buf, size);
		cut_depth(buf, h->depth);
		break;
	case HELD_BY_LINE:
		line_words(h, (uint32_t)g->key, buf, size);
		break;
	case HELD_BY_RANK:
		snprintf(buf, size, "%s", h->ranks[at].text);
		break;
	case HELD_BY_NAME:
		buf[0] = '\0';
		if (g->key)
			tensor_name(buf, size, g->key & 1 ? EV_TENSOR_GRADIENT : 0, key_part(names, g->key, 2 * NAME_BITS + 1),
				    key_part(names, g->key, 1), key_part(names, g->key, NAME_BITS + 1));
		break;
	case HELD_BY_PROCESS:
		snprintf(buf, size, "%u", (unsigned)g->key);
		break;
	case HELD_BY_DEVICE:
		snprintf(buf, size, "%s", dev_name((uint8_t)g->key, dev));
		break;
	default:
		snprintf(buf, size, "%s", names__get(names, (name_id){ (uint32_t)g->key }));
	}
}

static int by_bytes(const void *a, const void *b)
{
	const struct holding *x = a, *y = b;

	return cmp_down(x->bytes, y->bytes) ?: cmp_down(x->alloc_bytes, y->alloc_bytes) ?: strcmp(x->name, y->name);
}

static void holding__add(struct holding *h, const struct holding *more)
{
	h->bytes += more->bytes;
	h->blocks += more->blocks;
	h->largest = more->largest > h->largest ? more->largest : h->largest;
	h->allocs += more->allocs;
	h->alloc_bytes += more->alloc_bytes;
}

/* A name has one row: several groups may have the same name. */
static int make_rows(struct holdings *h, enum held_by by)
{
	struct held_rows *l = &h->rows[by];
	char name[2 * NAME_BYTES_MAX + 2];
	size_t kept = 0;

	l->rows = calloc(h->groups[by].cnt + 1, sizeof(*l->rows));
	if (!l->rows)
		return -ENOMEM;
	for (; l->cnt < h->groups[by].cnt; l->cnt++) {
		const struct held_group *g = map__at(&h->groups[by], (uint32_t)l->cnt);

		name_group(h, by, (uint32_t)l->cnt, name, sizeof(name));
		l->rows[l->cnt] = (struct holding){ strdup(name), g->bytes, g->blocks, g->largest, g->allocs, g->alloc_bytes,
						       by == HELD_BY_NAME && (g->key & 1) };
		if (!l->rows[l->cnt].name)
			return -ENOMEM;
	}
	qsort(l->rows, l->cnt, sizeof(*l->rows), text_cmp);
	for (size_t i = 1; i < l->cnt; i++)
		if (strcmp(l->rows[kept].name, l->rows[i].name)) {
			l->rows[++kept] = l->rows[i];
		} else {
			holding__add(&l->rows[kept], &l->rows[i]);
			free(l->rows[i].name);
		}
	l->cnt = l->cnt ? kept + 1 : 0;
	qsort(l->rows, l->cnt, sizeof(*l->rows), by_bytes);
	return 0;
}

int holdings__end(struct holdings *h, unsigned depth)
{
	const struct held_block *b;
	int r = find_lines(h, h->r);

	h->depth = depth;
	if (peak_moment__opens(&h->moment, UINT64_MAX))
		reached(h);
	for (uint32_t i = 0; i < h->lives.cnt && !r; i++) {
		b = map__at(&h->lives, i);
		r = b->number <= h->last ? count_held(h, b) : 0;
	}
	for (size_t i = 0; i < h->dead_cnt && !r; i++)
		r = count_held(h, &h->dead[i]);
	h->ranks = r ? NULL : name_ranks(h);
	r = r || h->ranks ? r : -ENOMEM;
	for (int by = 0; by < HELD_BYS && !r; by++)
		r = make_rows(h, (enum held_by)by);
	return r;
}

bool holdings__is_learned(const struct holdings *h)
{
	return h->moment.is_learned;
}

uint64_t holdings__ts_ns(const struct holdings *h)
{
	return h->moment.ts_ns;
}

void holdings__sums(const struct holdings *h, struct holding *ret_all, struct holding *ret_wanted)
{
	*ret_all = h->all;
	*ret_wanted = h->wanted;
}

struct holding *holdings__rows(struct holdings *h, enum held_by by, size_t *ret_cnt)
{
	*ret_cnt = h->rows[by].cnt;
	return h->rows[by].rows;
}

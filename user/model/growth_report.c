/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Which rows are growing places. The first quarter of a row's points, two at least, is warming up: optimizers make their
 * state, caches fill. Over the rest the number of blocks must grow and go on growing (timeline/trend.h), and their
 * bytes with it.
 *
 * A tensor and the malloc block that it lies in grow together: where both layers are watched the framework's counts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/core/check.h"
#include "model/reports.h"
#include "model/state.h"
#include "timeline/report.h"
#include "timeline/trend.h"

#define WARM_POINTS_MIN 2
#define SURE_POINTS 16 /* as many points, and blocks, make it sure */
#define SURE_Z 5.0
#define UNSURE_POINTS 12

struct growing_place {
	uint32_t row; /* in the table */
	const struct proc *proc;
	struct growth_row settled;
	struct trend bytes, blocks;
	size_t warm; /* slots before the trends */
	double per_second; /* bytes: what growing places are sorted by */
	uint64_t first_ts_ns, last_ts_ns;
	uint64_t cats[CAT_MAX];
	uint64_t caught, caught_here; /* of its blocks; those that `node` has allocated, more than any other */
	uint32_t node;
	struct holder holder; /* of an ended process, when it ended */
	bool is_over, is_held; /* its process has ended; a holder was found */
};

/* In a process that has ended, worst first. */
#define GROWN_MAX 8
struct grown {
	size_t cnt, total;
	struct growing_place v[GROWN_MAX];
};

struct growing_places {
	struct growing_place *v;
	size_t cnt;
	uint16_t *of_row; /* number + 1 */
};

static struct growth_clock clock_now(const struct model *m, const struct proc *p)
{
	struct growth_clock c = p->clock;

	if (c.from_ns)
		growth_clock__time(&c, m->last_id, m->now_ns);
	return c;
}

/* A process that builds a model or loads weights grows, and has made no step yet. Of an ended one no more can be known. */
static uint32_t ticks_least(const struct model *m, const struct proc *p, const struct growth_clock *c)
{
	bool may_load = c->kind == GROWTH_BY_TIME && !p->gone && !m->reported.ended;

	return may_load ? REPORT_LOADING_NS / GROWTH_TICK_NS : GROWTH_TICKS_MIN;
}

static size_t warm_points(size_t points)
{
	return points / 4 > WARM_POINTS_MIN ? points / 4 : WARM_POINTS_MIN;
}

/* The trends after warming up; false: it is no growing place. */
static bool growing_place__judge(struct growing_place *s, const struct growth_clock *c, uint32_t least)
{
	uint64_t blocks[GROWTH_SLOTS];
	size_t used, warm;

	growth_row__settle(&s->settled, c);
	used = growth_row__used(&s->settled);
	s->warm = warm = warm_points(used);
	if (c->tick < least || used < warm + TREND_POINTS_MIN)
		return false;
	if (c->windows && c->windows < REPORT_GROWTH_WINDOWS)
		return false;
	/* nearly all rows end here */
	if (s->settled.low_cnt[used - 1] < s->settled.low_cnt[warm] + GROWTH_BLOCKS_MIN ||
	    s->settled.low[used - 1] <= s->settled.low[warm])
		return false;
	for (size_t i = 0; i < used; i++)
		blocks[i] = s->settled.low_cnt[i];
	s->blocks = trend_of(blocks + warm, used - warm);
	s->bytes = trend_of(s->settled.low + warm, used - warm);
	if (!trend__grows(&s->blocks, GROWTH_BLOCKS_MIN) || !s->bytes.growth || s->bytes.slope <= 0)
		return false;
	s->per_second = s->bytes.slope * 1e9 * (double)used / (double)(c->last_ns - c->from_ns + 1);
	return true;
}

static bool is_malloc_below(const struct growing_place *s, const struct growing_places *all)
{
	const struct growth_key *k = &s->settled.key;

	if (k->dev != MT_DEV_HOST || !(k->op || k->region))
		return false;
	for (size_t i = 0; i < all->cnt; i++) {
		const struct growth_key *o = &all->v[i].settled.key;

		if (o->dev != MT_DEV_HOST && o->pid == k->pid && o->op == k->op && o->region == k->region)
			return true;
	}
	return false;
}

static int by_growth(const void *a, const void *b)
{
	const struct growing_place *x = a, *y = b;

	/* of the living one can know more */
	return cmp_up(x->is_over, y->is_over) ?: cmp_down(x->per_second, y->per_second) ?: cmp_up(x->row, y->row);
}

/* What a process frees in its last seconds it frees because it ends. */
#define END_NS 5000000000u

static bool is_wanted(const struct growth_row *r, const struct model *m, const struct proc *over)
{
	if (over && r->key.pid != over->pid)
		return false;
	return r->cnt >= GROWTH_BLOCKS_MIN || (over && r->fell_ns && m->now_ns - r->fell_ns < END_NS);
}

/* `over`: only this process, which is ending; judged as of its last boundary. NULL: all live processes. */
static int growing_places__find(struct growing_places *all, const struct model *m, const struct proc *over, size_t *ret_total)
{
	const struct growth *g = &m->growth;
	size_t kept = 0, room = 0;

	for (uint32_t i = 0; i < g->cnt; i++) {
		const struct growth_row *r = &g->rows[i];
		const struct proc *p = is_wanted(r, m, over) ? procs__find(&m->procs, r->key.pid) : NULL;
		struct growth_clock c;
		struct growing_place s;

		if (!p)
			continue;
		s = (struct growing_place){ .row = i, .proc = p, .settled = *r };
		c = clock_now(m, p);
		if (!growing_place__judge(&s, &c, ticks_least(m, p, &c)))
			continue;
		if (all->cnt == room) {
			struct growing_place *v = reallocarray(all->v, room ? 2 * room : 16, sizeof(*v));

			if (!v)
				return -ENOMEM;
			all->v = v;
			room = room ? 2 * room : 16;
		}
		all->v[all->cnt++] = s;
	}
	for (size_t i = 0; i < all->cnt; i++)
		if (is_malloc_below(&all->v[i], all))
			all->v[i].per_second = -1;
	if (all->cnt)
		qsort(all->v, all->cnt, sizeof(*all->v), by_growth);
	while (kept < all->cnt && all->v[kept].per_second >= 0)
		kept++;
	all->cnt = *ret_total = kept;
	return 0;
}

/* One walk over the live blocks for all growing places that are shown; over: as growing_places__find. */
static int growing_places__walk(struct growing_places *all, const struct model *m, const struct proc *over)
{
	const struct block *b;
	size_t pos = 0;

	if (!all->cnt)
		return 0;
	all->of_row = calloc(m->growth.cnt, sizeof(*all->of_row));
	if (!all->of_row)
		return -ENOMEM;
	for (size_t i = 0; i < all->cnt; i++)
		if (!all->v[i].is_over)
			all->of_row[all->v[i].row] = (uint16_t)(i + 1);
	while ((b = blocks__next(m->blocks, &pos))) {
		const struct growth_row *r = over && b->pid != over->pid ? NULL :
					     growth__row_of(&m->growth, b, stackset__of(&m->stacks, b->id));
		uint16_t num = r ? all->of_row[r - m->growth.rows] : 0;
		struct growing_place *s = num ? &all->v[num - 1] : NULL;

		if (!s)
			continue;
		if (!s->first_ts_ns || b->allocated_ts_ns < s->first_ts_ns)
			s->first_ts_ns = b->allocated_ts_ns;
		if (b->allocated_ts_ns > s->last_ts_ns)
			s->last_ts_ns = b->allocated_ts_ns;
		s->cats[b->cat] += b->size;
	}
	return 0;
}

/* A live view has seen events that its recording lacks, and must show the same as a replay: these losses count, too. */
static uint64_t lost_events(const struct model *m)
{
	static const uint8_t reasons[] = { MT_LOSS_RING, MT_LOSS_THREAD_STATE, MT_LOSS_ORDER, MT_LOSS_PENDING,
					   MT_LOSS_LIVE_TABLE, MT_LOSS_DAMAGED, MT_LOSS_SHARE, MT_LOSS_RECORDING,
					   MT_LOSS_STALLED };
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof(reasons); i++)
		sum += m->reported.lost[reasons[i]] < UINT32_MAX ? m->reported.lost[reasons[i]] : UINT32_MAX;
	return sum;
}

/* A free that was lost looks like a leak. */
static uint8_t growing_place__sure(const struct growing_place *s, const struct model *m)
{
	size_t used = growth_row__used(&s->settled), points = used - s->warm;

	if (points < UNSURE_POINTS || s->blocks.fall > s->blocks.growth / 8 || lost_events(m) > s->blocks.growth / 8)
		return SURE_LOW;
	return points >= SURE_POINTS && !s->blocks.fall && s->blocks.z >= SURE_Z && s->blocks.growth >= SURE_POINTS ?
		       SURE_HIGH : SURE_MEDIUM;
}

static bool growing_place__has_caught(const struct growing_place *s, const struct model *m, const struct caught_block *c,
				      bool is_over)
{
	const struct block *b;

	if (c->pid != s->settled.key.pid)
		return false;
	if (c->is_freed)
		return is_over && growth_key__is(&c->place, &s->settled.key) && c->freed_tick == s->proc->clock.tick;
	b = blocks__find(m->blocks, c->pid, c->dev, c->ptr);
	return b && b->id == c->id && growth__row_of(&m->growth, b, 0) == &m->growth.rows[s->row];
}

/*
 * The row's caught blocks: how many live (is_over: or lived at the last boundary), and (if ret is not NULL) the nodes of their
 * stacks.
 */
static size_t growing_place__caught(const struct growing_place *s, const struct model *m, uint32_t *ret, bool is_over)
{
	size_t cnt = 0;

	for (uint32_t i = 0; i < m->caught.blocks.cnt; i++) {
		const struct caught_block *c = caught__at(&m->caught, i);

		if (!growing_place__has_caught(s, m, c, is_over))
			continue;
		if (ret)
			ret[cnt] = c->node;
		cnt++;
	}
	return cnt;
}

/* Where most of them were allocated. */
static int growing_place__look_caught(struct growing_place *s, const struct model *m, bool is_over)
{
	size_t cnt = s->settled.key.stack || s->is_over ? 0 : m->caught.blocks.cnt;
	uint32_t *nodes = cnt ? calloc(cnt, sizeof(*nodes)) : NULL;

	if (!nodes)
		return cnt ? -ENOMEM : 0;
	s->caught = growing_place__caught(s, m, nodes, is_over);
	if (s->caught)
		qsort(nodes, s->caught, sizeof(*nodes), u32_cmp);
	for (size_t i = 0, run = 0; i < s->caught; i++) {
		run = i && nodes[i] == nodes[i - 1] ? run + 1 : 1;
		if (run > s->caught_here) {
			s->caught_here = run;
			s->node = nodes[i];
		}
	}
	free(nodes);
	return 0;
}

static int report_leak__fill(struct report_leak *r, const struct growing_place *s, const struct model *m)
{
	const struct growth_row *g = &s->settled;
	double per_unit = 1.0 / (double)(1ull << g->shift);

	if (s->proc->clock.kind == GROWTH_BY_TIME)
		per_unit *= 1e9 / (double)GROWTH_TICK_NS;
	*r = (struct report_leak){
		.op = strdup(names__get(m->names, m->ops.rows[g->key.op].name)),
		.region = strdup(names__get(m->names, m->regions.rows[g->key.region].name)),
		.pid = g->key.pid, .dev = (uint8_t)g->key.dev, .per_step = s->proc->clock.kind != GROWTH_BY_TIME,
		.sure = growing_place__sure(s, m), .bytes_slope = s->bytes.slope * per_unit,
		.blocks_slope = s->blocks.slope * per_unit, .tau = s->blocks.tau, .live = g->live, .blocks = g->cnt,
		.grown = s->bytes.growth, .grown_blocks = s->blocks.growth, .first_ts_ns = s->first_ts_ns,
		.last_ts_ns = s->last_ts_ns, .history_cnt = growth_row__used(g), .stayed = g->stayed,
		.caught = s->caught, .caught_here = s->caught_here,
		.windows = s->proc->clock.windows, .is_over = s->is_over,
	};
	memcpy(r->history, g->low, r->history_cnt * sizeof(*g->low));
	for (unsigned c = 1; c < CAT_MAX; c++)
		if (s->cats[c] > s->cats[r->cat])
			r->cat = (uint8_t)c;
	if (g->key.stack && model__frames(m, g->key.stack, &r->frames, &r->frames_cnt) < 0)
		return -ENOMEM;
	if (!g->key.stack && s->node && model__frames(m, s->node, &r->frames, &r->frames_cnt) < 0)
		return -ENOMEM;
	return r->op && r->region ? 0 : -ENOMEM;
}

/* Not if another block has taken the place of the one that was looked for. */
static bool holder__is_of(const struct holder *h, const struct model *m, const struct growing_place *s)
{
	const struct block *b = blocks__find(m->blocks, h->pid, h->dev, h->addr);

	return b && b->allocated_ts_ns <= h->ts_ns &&
	       growth__row_of(&m->growth, b, stackset__of(&m->stacks, b->id)) == &m->growth.rows[s->row];
}

/* The later one. A look at a process that was about to end may find nothing any more. */
static bool holder__is_better(const struct holder *h, const struct holder *than, bool is_over)
{
	if (is_over && !h->items != !than->items)
		return h->items;
	return h->ts_ns > than->ts_ns;
}

/* From the last look at Python. Of a process that ends now the block may be gone. */
static const struct holder *holder_of(const struct model *m, const struct growing_place *s)
{
	const struct holder *found = NULL;

	if (s->is_held)
		return &s->holder;
	for (size_t i = 0; i < m->holders.cnt; i++) {
		const struct holder *h = &m->holders.v[i];
		bool is_of = s->is_over ? growth_key__is(&h->of, &s->settled.key) :
					  h->pid == s->settled.key.pid && holder__is_of(h, m, s);

		if (is_of && (!found || holder__is_better(h, found, s->is_over)))
			found = h;
	}
	return found;
}

/* For memory that no container of Python holds: the holder of tensors that grow beside it. */
static const struct holder *holder_beside(const struct model *m, const struct growing_places *all,
					  const struct growing_place *s)
{
	for (size_t i = 0; i < all->cnt; i++) {
		const struct holder *h = all->v[i].settled.key.pid == s->settled.key.pid ? holder_of(m, &all->v[i]) : NULL;

		if (h && h->items)
			return h;
	}
	return NULL;
}

/* Blocks found again after a gap could be others, unless a container of Python was seen to hold them. */
static bool is_doubtful(const struct report_leak *r, const struct growing_place *s)
{
	return s->settled.alike > s->settled.stayed / 4 && (r->held != HELD_ITSELF || r->held_items < r->blocks / 2);
}

static int report_leak__hold(struct report_leak *r, const struct growing_place *s, const struct growing_places *all,
			     const struct model *m)
{
	const struct holder *h = holder_of(m, s);

	if (!h)
		return 0;
	r->held = h->items ? HELD_ITSELF : h->unseen ? HELD_UNSEEN : HELD_NONE;
	if (!h->items) {
		h = holder_beside(m, all, s);
		if (!h)
			return 0;
		r->held = HELD_GRAPH;
	}
	r->held_by = strdup(names__get(m->names, h->path));
	r->held_kind = strdup(names__get(m->names, h->kind));
	r->held_where = strdup(names__get(m->names, h->where));
	r->held_items = h->items;
	return r->held_by && r->held_kind && r->held_where ? 0 : -ENOMEM;
}

static void growth__report_ticks(const struct model *m, struct report_leaks *ret)
{
	const struct proc *p;

	ret->ticks_least = GROWTH_TICKS_MIN;
	ret->not_watched = m->growth.not_watched;
	TAILQ_FOREACH(p, &m->procs.all, all) {
		struct growth_clock c = clock_now(m, p);
		uint8_t steps = c.kind != GROWTH_BY_TIME;

		if (steps < ret->per_step || (steps == ret->per_step && c.tick <= ret->ticks))
			continue;
		ret->ticks = c.tick;
		ret->per_step = steps;
		ret->ticks_least = ticks_least(m, p, &c);
	}
	ret->too_short = ret->ticks < ret->ticks_least;
}

/* Those of processes that have ended, in their places. */
static int growing_places__add_over(struct growing_places *all, const struct model *m, size_t *total)
{
	const struct proc *p;

	TAILQ_FOREACH(p, &m->procs.all, all) {
		size_t more = p->grown ? p->grown->cnt : 0;
		struct growing_place *v = more ? reallocarray(all->v, all->cnt + more, sizeof(*v)) : all->v;

		if (!more)
			continue;
		if (!v)
			return -ENOMEM;
		all->v = v;
		memcpy(v + all->cnt, p->grown->v, more * sizeof(*v));
		all->cnt += more;
		*total += p->grown->total;
	}
	if (all->cnt)
		qsort(all->v, all->cnt, sizeof(*all->v), by_growth);
	return 0;
}

/* If the process's end has freed its blocks: the values at its last boundaries. */
static void growing_place__is_over(struct growing_place *s, const struct model *m)
{
	uint32_t last = growth_row__used(&s->settled) - 1;
	const struct holder *h;

	s->is_over = true;
	h = holder_of(m, s);
	s->is_held = h;
	if (h)
		s->holder = *h;
	if (s->settled.cnt >= s->settled.low_cnt[last])
		return;
	s->settled.live = s->settled.low[last];
	s->settled.cnt = s->settled.low_cnt[last];
	s->first_ts_ns = s->proc->clock.from_ns; /* at the earliest */
	s->last_ts_ns = s->proc->clock.last_ns;
}

static int growing_places__look_caught(struct growing_places *all, const struct model *m, bool is_over)
{
	int r = 0;

	for (size_t i = 0; i < all->cnt && !r; i++)
		r = growing_place__look_caught(&all->v[i], m, is_over);
	return r;
}

void growth__over(struct model *m, struct proc *p)
{
	struct growing_places all = { 0 };
	size_t total = 0;
	int r = !p->listed || p->clock.kind == GROWTH_BY_TIME ? 0 : growing_places__find(&all, m, p, &total);

	if (all.cnt > GROWN_MAX)
		all.cnt = GROWN_MAX;
	r = r ? r : growing_places__walk(&all, m, p);
	r = r ? r : growing_places__look_caught(&all, m, true);
	free(p->grown);
	p->grown = all.cnt && !r ? calloc(1, sizeof(*p->grown)) : NULL;
	if (p->grown) {
		p->grown->total = total;
		p->grown->cnt = all.cnt;
		memcpy(p->grown->v, all.v, all.cnt * sizeof(*all.v));
	}
	for (size_t i = 0; p->grown && i < all.cnt; i++)
		growing_place__is_over(&p->grown->v[i], m);
	free(all.of_row);
	free(all.v);
}

void growth__held(struct model *m, const struct event *ev)
{
	const struct block *b = blocks__find(m->blocks, ev->pid, ev->dev, ev->addr);
	const struct growth_row *row = b ? growth__row_of(&m->growth, b, stackset__of(&m->stacks, b->id)) : NULL;

	holders__reported(&m->holders, ev, row ? &row->key : NULL);
}

int growth__report(const struct model *m, size_t top, struct report *r)
{
	struct growing_places all = { 0 };
	int err;

	growth__report_ticks(m, &r->leaks);
	err = growing_places__find(&all, m, NULL, &r->leaks.total);
	err = err ? err : growing_places__add_over(&all, m, &r->leaks.total);
	if (all.cnt > top)
		all.cnt = top;
	err = err ? err : growing_places__walk(&all, m, NULL);
	err = err ? err : growing_places__look_caught(&all, m, false);
	r->leaks.rows = err ? NULL : calloc(all.cnt ? all.cnt : 1, sizeof(*r->leaks.rows));
	if (!err && !r->leaks.rows)
		err = -ENOMEM;
	while (!err && r->leaks.cnt < all.cnt) {
		err = report_leak__fill(&r->leaks.rows[r->leaks.cnt], &all.v[r->leaks.cnt], m);
		err = err ? err : report_leak__hold(&r->leaks.rows[r->leaks.cnt], &all.v[r->leaks.cnt], &all, m);
		if (is_doubtful(&r->leaks.rows[r->leaks.cnt], &all.v[r->leaks.cnt]))
			r->leaks.rows[r->leaks.cnt].sure = SURE_LOW;
		r->leaks.cnt++;
	}
	free(all.of_row);
	free(all.v);
	return err;
}

/* --- blocks to look for in Python ------------------------------------------------------------------------------------ */

int model__growing(const struct model *m, uint32_t pid, struct model_growing **ret, size_t *ret_cnt)
{
	uint32_t sets[MODEL_GROWING_SETS], cnt = 0, has[MODEL_GROWING_SETS] = { 0 };
	const struct proc *p = procs__find(&m->procs, pid);
	struct growing_places all = { 0 };
	size_t pos = 0, total;
	const struct block *b;
	int r;

	*ret = NULL;
	*ret_cnt = 0;
	if (!p || p->is_being_set) /* soon its blocks have operators, and other rows */
		return 0;
	r = growing_places__find(&all, m, NULL, &total);
	for (size_t i = 0; i < all.cnt && cnt < MODEL_GROWING_SETS && !r; i++)
		if (all.v[i].settled.key.pid == pid && all.v[i].settled.key.dev != MT_DEV_HOST)
			sets[cnt++] = all.v[i].row;
	free(all.v);
	if (!cnt)
		return r;
	*ret = calloc(MODEL_GROWING_SETS * MODEL_GROWING_BLOCKS, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	while ((b = blocks__next(m->blocks, &pos))) {
		const struct growth_row *row = b->pid == pid ? growth__row_of(&m->growth, b, stackset__of(&m->stacks, b->id)) :
							       NULL;

		for (uint32_t i = 0; row && i < cnt; i++)
			if (row == &m->growth.rows[sets[i]] && has[i] < MODEL_GROWING_BLOCKS) {
				(*ret)[(*ret_cnt)++] = (struct model_growing){ b->ptr, i, (uint8_t)b->dev };
				has[i]++;
			}
	}
	qsort(*ret, *ret_cnt, sizeof(**ret), u64_cmp);
	return 0;
}

/* --- allocations to be caught --------------------------------------------------------------------------------------------- */

#define SIZES_MAX 16

struct sizes {
	struct { uint64_t bytes, cnt; } v[SIZES_MAX];
	size_t cnt;
	uint64_t min, max;
	bool is_over; /* there are more */
};

static void sizes__add(struct sizes *s, uint64_t bytes)
{
	size_t i = 0;

	s->min = !s->max || bytes < s->min ? bytes : s->min;
	s->max = bytes > s->max ? bytes : s->max;
	while (i < s->cnt && s->v[i].bytes != bytes)
		i++;
	if (i == SIZES_MAX) {
		s->is_over = true;
		return;
	}
	s->v[i].bytes = bytes;
	s->v[i].cnt++;
	s->cnt += i == s->cnt;
}

static int by_count(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b; /* bytes, cnt */

	return cmp_down(x[1], y[1]) ?: cmp_up(x[0], y[0]);
}

/* The most frequent sizes, `room` of them; of blocks of all sizes the range that they are in. */
static size_t sizes__wanted(struct sizes *s, const struct model *m, const struct growth_key *k, struct model_wanted *ret,
			    size_t room)
{
	name_id op = m->ops.rows[k->op].name;
	struct model_wanted w = { .min = s->min, .max = s->max, .dev = (uint8_t)k->dev,
				  .op = places__stands(&m->places, op) ? NAME_NONE : op };

	if (s->is_over || !s->cnt) {
		*ret = w;
		return s->max != 0;
	}
	qsort(s->v, s->cnt, sizeof(s->v[0]), by_count);
	for (size_t i = 0; i < s->cnt && i < room; i++) {
		ret[i] = w;
		ret[i].min = ret[i].max = s->v[i].bytes;
	}
	return s->cnt < room ? s->cnt : room;
}

int model__wanted(const struct model *m, uint32_t pid, struct model_wanted *ret, size_t *ret_cnt)
{
	struct sizes sizes[MODEL_GROWING_SETS] = { 0 };
	uint32_t sets[MODEL_GROWING_SETS], cnt = 0;
	struct growing_places all = { 0 };
	size_t pos = 0, total;
	const struct block *b;
	int r = growing_places__find(&all, m, NULL, &total);

	*ret_cnt = 0;
	for (size_t i = 0; i < all.cnt && cnt < MODEL_GROWING_SETS && !r; i++) {
		const struct growth_key *k = &all.v[i].settled.key;

		if (k->pid == pid && !k->stack && growing_place__caught(&all.v[i], m, NULL, false) < WANTED_ENOUGH)
			sets[cnt++] = all.v[i].row;
	}
	free(all.v);
	if (!cnt)
		return r;
	while ((b = blocks__next(m->blocks, &pos))) {
		const struct growth_row *row = b->pid == pid ? growth__row_of(&m->growth, b, stackset__of(&m->stacks, b->id)) :
							       NULL;

		for (uint32_t i = 0; row && i < cnt; i++)
			if (row == &m->growth.rows[sets[i]])
				sizes__add(&sizes[i], b->size);
	}
	for (uint32_t i = 0; i < cnt; i++)
		*ret_cnt += sizes__wanted(&sizes[i], m, &m->growth.rows[sets[i]].key, ret + *ret_cnt,
					  (MODEL_WANTED_MAX - *ret_cnt) / (cnt - i));
	return 0;
}

/* Every watched block is in its row. */
void growth__check(const struct model *m)
{
	const struct growth *g = &m->growth;
	struct growth_row *sums = calloc(g->cnt ? g->cnt : 1, sizeof(*sums));
	const struct block *b;
	size_t pos = 0;

	mt_check(sums != NULL);
	while ((b = blocks__next(m->blocks, &pos))) {
		const struct growth_row *r = growth__row_of(g, b, stackset__of(&m->stacks, b->id));

		if (!r)
			continue;
		sums[r - g->rows].live += b->size;
		sums[r - g->rows].cnt++;
	}
	for (uint32_t i = 0; i < g->cnt; i++) {
		const struct growth_row *r = &g->rows[i];

		mt_check(r->live == sums[i].live && r->cnt == sums[i].cnt);
		mt_check(r->young <= r->live && r->young_cnt <= r->cnt && growth_row__used(r) <= GROWTH_SLOTS);
		mt_check(procs__find(&m->procs, r->key.pid) != NULL);
	}
	free(sums);
}

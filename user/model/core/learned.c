/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "model/core/learned_guess.h"

#include <stdlib.h>
#include <string.h>

#include "model/core/check.h"

struct learned *learned__new(void *ctx, uint8_t (*cat_of)(void *, uint64_t, uint8_t),
			     void (*reported)(void *, const struct learned_alloc *))
{
	struct learned *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->ctx = ctx;
	l->cat_of = cat_of;
	l->reported = reported;
	l->room = calloc(LEARNED_ALLOCS, sizeof(*l->room));
	l->pairs = calloc(LEARNED_ALLOCS, sizeof(*l->pairs));
	l->best = calloc(LEARNED_ALLOCS, sizeof(*l->best));
	l->order = calloc(LEARNED_ALLOCS, sizeof(*l->order));
	if (l->room && l->pairs && l->best && l->order)
		return l;
	learned__free(l);
	return NULL;
}

void learned__free(struct learned *l)
{
	if (!l)
		return;
	free(l->room);
	free(l->pairs);
	free(l->best);
	free(l->order);
	free(l->ops);
	free(l);
}

struct learned_proc *learned__add(struct learned *l)
{
	struct learned_proc *p = calloc(1, sizeof(*p));

	if (p)
		p->all = l;
	return p;
}

/* --- allocations in order --------------------------------------------------------------------------------------- */

/* Room for one more, as far as that is a process's to have. */
static bool allocs__has_room(struct learned_allocs *b, struct learned_proc *p)
{
	uint32_t more = b->cap ? b->cap : 256, own = p->now.cap + p->ready.cap + p->living.cap;
	struct learned_alloc *v;

	if (b->cnt < b->cap)
		return true;
	if (own + more > LEARNED_OPEN / 2 || p->all->open + more > LEARNED_OPEN)
		return false;
	v = reallocarray(b->v, b->cap + more, sizeof(*v));
	if (!v)
		return false;
	b->v = v;
	b->cap += more;
	p->all->open += more;
	return true;
}

static void allocs__done(struct learned_allocs *b, struct learned_proc *p)
{
	p->all->open -= b->cap;
	free(b->v);
	*b = (struct learned_allocs){ 0 };
}

static struct learned_alloc *allocs__find(const struct learned_allocs *b, uint64_t id)
{
	uint32_t lo = 0, hi = b->cnt;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (b->v[mid].id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < b->cnt && b->v[lo].id == id ? &b->v[lo] : NULL;
}

static struct learned_alloc *learned_proc__find(const struct learned_proc *p, uint64_t id)
{
	struct learned_alloc *b = allocs__find(&p->now, id);

	b = b ? b : allocs__find(&p->ready, id);
	return b ? b : allocs__find(&p->living, id);
}

/* --- byte·time -------------------------------------------------------------------------------------------------- */

void learned__runs(struct learned *l, bool runs, uint64_t gaps_ns)
{
	l->clock_ns = learned__clock(l, gaps_ns);
	l->base_ns = gaps_ns;
	l->runs = runs;
}

uint64_t learned__clock(const struct learned *l, uint64_t gaps_ns)
{
	return l->clock_ns + (l->runs ? gaps_ns - l->base_ns : 0);
}

void learned__live(struct learned *l, unsigned dev, uint64_t live, uint64_t clock_ns)
{
	struct learned_sums *s = &l->devs[dev];

	s->all_ns += (unsigned __int128)s->live * (clock_ns - s->since_ns);
	s->since_ns = clock_ns;
	s->live = live;
}

static void weigh(const struct learned_alloc *b, uint64_t until_ns, struct learned_sums *devs, struct learned_op *ops,
		  uint32_t ops_cnt)
{
	unsigned __int128 w = (unsigned __int128)b->size * (until_ns - b->since_ns);

	if (!b->has) {
		devs[b->dev].none_ns += w;
		return;
	}
	devs[b->dev].byte_ns[b->what.cat] += w;
	if (b->what.op < ops_cnt)
		ops[b->what.op].byte_ns += w;
}

static void learned__weigh(struct learned *l, struct learned_alloc *b, uint64_t until_ns)
{
	if (b->has && b->what.op >= l->ops_cnt) {
		uint32_t cnt = b->what.op + 256u;
		struct learned_op *ops = reallocarray(l->ops, cnt, sizeof(*ops));

		if (ops) {
			memset(ops + l->ops_cnt, 0, (cnt - l->ops_cnt) * sizeof(*ops));
			l->ops = ops;
			l->ops_cnt = cnt;
		}
	}
	weigh(b, until_ns, l->devs, l->ops, l->ops_cnt);
	b->since_ns = until_ns;
}

static void allocs__sum(const struct learned_allocs *b, uint64_t clock_ns, const struct learned *l, struct learned_sums *devs,
			struct learned_op *ops)
{
	for (uint32_t i = 0; i < b->cnt; i++)
		if (b->v[i].blind && b->v[i].since_ns != UINT64_MAX)
			weigh(&b->v[i], b->v[i].is_over ? b->v[i].end_ns : clock_ns, devs, ops, l->ops_cnt);
}

void learned_proc__sum(const struct learned_proc *p, uint64_t clock_ns, struct learned_sums *ret_devs,
			struct learned_op *ret_ops)
{
	allocs__sum(&p->now, clock_ns, p->all, ret_devs, ret_ops);
	allocs__sum(&p->living, clock_ns, p->all, ret_devs, ret_ops);
}

/* --- allocations -------------------------------------------------------------------------------------------------- */

/* Blocks allocated by an operator are measured. */
static void learned__no_room(struct learned *l, const struct learned_alloc *b)
{
	l->counts.no_room += b->blind;
	l->counts.no_room_bytes += b->blind ? b->size : 0;
}

const struct learned_what *learned__allocated(struct learned_proc *p, const struct learned_alloc *b, uint32_t tid)
{
	uint8_t lane = learned_proc__lane(p, tid);
	struct learned_place *at = &p->places[lane];
	struct learned_alloc *to;

	if (p->now.cnt == LEARNED_ALLOCS || !allocs__has_room(&p->now, p)) {
		learned__no_room(p->all, b);
		return NULL;
	}
	to = &p->now.v[p->now.cnt];
	*to = *b;
	to->lane = lane;
	at->last[at->cnt % ALIGN_RUN] = b->size;
	if (b->blind && p->kinds_cnt && p->is_whole)
		learned_proc__guess(p, at, to);
	at->cnt++;
	at->next++;
	p->now.cnt++;
	return to->blind && to->has ? &to->what : NULL;
}

const struct learned_what *learned__find(const struct learned_proc *p, uint64_t id)
{
	const struct learned_alloc *b = learned_proc__find(p, id);

	return b && b->blind && b->has && !b->is_measured ? &b->what : NULL;
}

/* --- ends ------------------------------------------------------------------------------------------------------- */

/* The label of an allocation whose step is over is final: it is weighed at once, and never again. */
static void learned_proc__over(struct learned_proc *p, struct learned_alloc *b, uint64_t clock_ns)
{
	b->is_over = 1;
	b->end_ns = clock_ns;
	if (!b->lives_on)
		return;
	learned__weigh(p->all, b, clock_ns);
	b->since_ns = UINT64_MAX;
	p->living_gone++;
}

void learned__measured(struct learned_proc *p, uint64_t id, uint64_t clock_ns)
{
	struct learned_alloc *b = learned_proc__find(p, id);

	if (!b || !b->blind || b->is_over)
		return;
	b->is_measured = 1;
	learned_proc__over(p, b, clock_ns);
}

/* Removes freed ones among those that outlived their step, in one pass once half of them were freed. */
static void learned_proc__squeeze(struct learned_proc *p)
{
	uint32_t kept = 0;

	if (p->living_gone * 2 < p->living.cnt)
		return;
	for (uint32_t i = 0; i < p->living.cnt; i++)
		if (!p->living.v[i].is_over)
			p->living.v[kept++] = p->living.v[i];
	p->living.cnt = kept;
	p->living_gone = 0;
}

void learned__freed(struct learned_proc *p, uint64_t id, const struct learned_what *what, uint64_t clock_ns)
{
	struct learned_alloc *b = learned_proc__find(p, id);

	if (!b)
		return;
	b->is_dead = 1;
	if (!b->blind) {
		b->what = *what;
		return;
	}
	if (!b->is_over)
		learned_proc__over(p, b, clock_ns);
}

/* --- kinds ------------------------------------------------------------------------------------------------------ */

static void kind__done(struct learned_kind *k, struct learned *l)
{
	l->items -= k->cnt;
	free(k->items);
	free(k->whats);
	*k = (struct learned_kind){ 0 };
}

static void learned_proc__forget(struct learned_proc *p, uint32_t which)
{
	kind__done(&p->kinds[which], p->all);
	p->kinds[which] = p->kinds[--p->kinds_cnt];
	p->kinds[p->kinds_cnt] = (struct learned_kind){ 0 };
	p->all->kinds--;
	p->guess = 0;
}

static uint32_t learned_proc__oldest(const struct learned_proc *p)
{
	uint32_t oldest = 0;

	for (uint32_t i = 1; i < p->kinds_cnt; i++)
		if (p->kinds[i].used < p->kinds[oldest].used)
			oldest = i;
	return oldest;
}

static uint32_t learned_proc__items(const struct learned_proc *p)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < p->kinds_cnt; i++)
		sum += p->kinds[i].cnt;
	return sum;
}

/* A step's allocations by lanes: their numbers go to l->order, the compared values to l->room. */
static uint32_t learned__by_lanes(struct learned *l, const struct learned_allocs *b, const uint32_t *tids,
				   struct learned_lane *ret)
{
	uint32_t lanes = 0, at = 0;

	memset(ret, 0, LEARNED_LANES * sizeof(*ret));
	for (uint32_t i = 0; i < b->cnt; i++) {
		ret[b->v[i].lane].cnt++;
		lanes = b->v[i].lane >= lanes ? b->v[i].lane + 1u : lanes;
	}
	for (uint32_t i = 0; i < lanes; i++) {
		ret[i].tid = tids[i];
		ret[i].at = at;
		at += ret[i].cnt;
		ret[i].cnt = 0;
	}
	for (uint32_t i = 0; i < b->cnt; i++) {
		const struct learned_alloc *v = &b->v[i];
		uint32_t to = ret[v->lane].at + ret[v->lane].cnt++;

		l->order[to] = i;
		l->room[to] = (struct align_item){ .size = v->size, .dev = v->dev, .is_freed = v->is_dead };
	}
	return lanes;
}

/* Pairs a step, sorted, with a kind, in l->pairs. Returns the share of both that fits. */
static double learned__fit(struct learned *l, const struct learned_kind *k, const uint32_t *tids,
			   const struct learned_lane *lanes, uint32_t lanes_cnt, bool *ret_by_place)
{
	uint64_t most = 0, in_kind = 0;
	double fits = 0;

	*ret_by_place = false;
	for (uint32_t i = 0; i < lanes_cnt; i++) {
		const struct learned_lane *other = kind__lane(k, tids, lanes_cnt, i);
		struct align_fit fit = align__find(l->room + lanes[i].at, lanes[i].cnt, other ? k->items + other->at : NULL,
						   other ? other->cnt : 0, l->pairs + lanes[i].at);

		for (uint32_t n = 0; other && n < lanes[i].cnt; n++)
			if (l->pairs[lanes[i].at + n] != ALIGN_NONE)
				l->pairs[lanes[i].at + n] += other->at;
		fits += fit.fits + (fit.is_exact ? 1e-6 * (double)fit.most : 0);
		most += fit.most;
		in_kind += other ? other->cnt : 0;
		*ret_by_place |= fit.by_place;
	}
	most += k->cnt > in_kind ? k->cnt - in_kind : 0;
	return most ? fits / (double)most : 0;
}

/* A step, sorted, and the kind that it is of, if any. */
struct step_kind {
	struct learned_lane lanes[LEARNED_LANES];
	uint32_t lanes_cnt, kind; /* LEARNED_KINDS: none */
	double fits;
	bool by_place;
};

/* The kind that fits best, with its pairs in l->best. Among equals the most recently used. */
static struct step_kind learned_proc__kind_of(struct learned_proc *p, const struct learned_allocs *b, const uint32_t *tids,
					      uint64_t regions)
{
	struct learned *l = p->all;
	struct step_kind ret = { .kind = LEARNED_KINDS };

	ret.lanes_cnt = learned__by_lanes(l, b, tids, ret.lanes);
	for (uint32_t n = 0; n < p->kinds_cnt; n++) {
		uint32_t i = (p->guess + n) % p->kinds_cnt;
		bool by_place;
		double fits = learned__fit(l, &p->kinds[i], tids, ret.lanes, ret.lanes_cnt, &by_place);

		fits += p->kinds[i].regions == regions ? 1e-6 : 0;
		if (fits < LEARNED_FITS || fits < ret.fits ||
		    (fits == ret.fits && ret.kind < LEARNED_KINDS && p->kinds[i].used < p->kinds[ret.kind].used))
			continue;
		ret.kind = i;
		ret.fits = fits;
		ret.by_place = by_place;
		memcpy(l->best, l->pairs, b->cnt * sizeof(*l->best));
		if (!n && fits > 1 + 1.5e-6) /* all is alike, and the last one was that, too */
			break;
	}
	return ret;
}

/* --- learning --------------------------------------------------------------------------------------------------- */

/* Makes room for a kind of so many, also among all processes; the least recently used ones are dropped. */
static bool learned_proc__make_room(struct learned_proc *p, uint32_t cnt)
{
	while (p->kinds_cnt && (p->kinds_cnt == LEARNED_KINDS || learned_proc__items(p) + cnt > LEARNED_MAX / 2 ||
				p->all->items + cnt > LEARNED_MAX))
		learned_proc__forget(p, learned_proc__oldest(p));
	return p->all->items + cnt <= LEARNED_MAX;
}

/* l->order, l->room and `as` are of p->ready. */
static bool learned_proc__learn(struct learned_proc *p, const struct step_kind *as)
{
	struct learned *l = p->all;
	uint32_t cnt = p->ready.cnt;
	struct learned_kind k = { .cnt = cnt, .lanes_cnt = as->lanes_cnt, .regions = p->ready_regions, .used = ++l->ticks };

	if (!learned_proc__make_room(p, cnt))
		return false;
	k.items = calloc(cnt, sizeof(*k.items));
	k.whats = calloc(cnt, sizeof(*k.whats));
	if (!k.items || !k.whats) {
		free(k.items);
		free(k.whats);
		return false;
	}
	memcpy(k.items, l->room, cnt * sizeof(*k.items));
	memcpy(k.lanes, as->lanes, sizeof(k.lanes));
	for (uint32_t i = 0; i < cnt; i++)
		k.whats[i] = p->ready.v[l->order[i]].what;
	l->items += cnt;
	l->kinds++;
	l->counts.learnt++;
	p->guess = p->kinds_cnt;
	p->kinds[p->kinds_cnt++] = k;
	return true;
}

/* Compares a traced step with the labels that it would have learned. Returns whether these are wrong. */
static bool learned_proc__compare(struct learned_proc *p, const struct learned_kind *k)
{
	struct learned *l = p->all;
	unsigned __int128 bytes = 0, wrong = 0;

	for (uint32_t i = 0; i < p->ready.cnt; i++) {
		const struct learned_alloc *b = &p->ready.v[l->order[i]];
		const struct learned_what *guess = l->best[i] == ALIGN_NONE ? NULL : &k->whats[l->best[i]];
		bool is_cat = guess && guess->cat == b->what.cat, is_op = guess && guess->op == b->what.op;

		bytes += b->size;
		wrong += is_cat && is_op ? 0 : b->size;
		l->counts.wrong_none += guess ? 0 : b->size;
		l->counts.wrong_cat += !guess || is_cat ? 0 : b->size;
		l->counts.wrong_op += !guess || is_op ? 0 : b->size;
	}
	l->counts.checks++;
	l->counts.check_bytes += bytes;
	l->counts.wrong += wrong;
	return (double)wrong > LEARNED_WRONG * (double)bytes;
}

void learned__settle(struct learned_proc *p)
{
	struct learned *l = p->all;
	struct step_kind as;

	if (!p->ready.cnt)
		return;
	for (uint32_t i = 0; i < p->ready.cnt; i++)
		p->ready.v[i].what.cat = l->cat_of(l->ctx, p->ready.v[i].id, p->ready.v[i].what.cat);
	as = learned_proc__kind_of(p, &p->ready, p->ready_tids, p->ready_regions);
	if (as.kind < LEARNED_KINDS) { /* untraced it would have had that one's labels */
		l->counts.again += learned_proc__compare(p, &p->kinds[as.kind]);
		if (as.fits >= LEARNED_SAME || as.by_place)
			learned_proc__forget(p, as.kind);
	}
	learned_proc__learn(p, &as);
	p->ready.cnt = 0;
}

/* --- steps ------------------------------------------------------------------------------------------------------ */

static void learned_proc__live_on(struct learned_proc *p, const struct learned_alloc *b)
{
	if (!allocs__has_room(&p->living, p)) {
		learned__no_room(p->all, b);
		return;
	}
	p->living.v[p->living.cnt] = *b;
	p->living.v[p->living.cnt++].lives_on = 1;
}

/* Gives the step that is over the labels of its kind, or none. */
static void learned_proc__label(struct learned_proc *p, uint64_t regions)
{
	struct learned *l = p->all;
	struct step_kind as = learned_proc__kind_of(p, &p->now, p->tids, regions);

	for (uint32_t i = 0; i < p->now.cnt; i++) {
		struct learned_alloc *b = &p->now.v[l->order[i]];

		b->has = b->blind && as.kind < LEARNED_KINDS && l->best[i] != ALIGN_NONE;
		if (b->has)
			b->what = p->kinds[as.kind].whats[l->best[i]];
	}
	p->by_place = as.by_place;
	l->counts.steps += as.kind < LEARNED_KINDS;
	l->counts.unlike += as.kind == LEARNED_KINDS;
	if (as.kind == LEARNED_KINDS)
		return;
	p->kinds[as.kind].used = ++l->ticks;
	p->guess = as.kind;
}

static void learned_proc__close(struct learned_proc *p, uint64_t clock_ns)
{
	struct learned *l = p->all;

	for (uint32_t i = 0; i < p->now.cnt; i++) {
		struct learned_alloc *b = &p->now.v[i];

		if (!b->blind)
			continue;
		learned__weigh(l, b, b->is_over ? b->end_ns : clock_ns);
		if (b->has && b->what.op < l->ops_cnt)
			l->ops[b->what.op].cnt++;
		if (b->has)
			l->reported(l->ctx, b);
		if (!b->is_over)
			learned_proc__live_on(p, b);
	}
}

static bool allocs__has_blind(const struct learned_allocs *b)
{
	for (uint32_t i = 0; i < b->cnt; i++)
		if (b->v[i].blind)
			return true;
	return false;
}

void learned__step(struct learned_proc *p, bool is_whole, bool is_traced, uint64_t regions, uint64_t clock_ns)
{
	uint64_t in_it = regions - p->regions;

	learned__settle(p);
	learned_proc__squeeze(p);
	is_whole &= p->is_whole;
	if (allocs__has_blind(&p->now)) {
		if (is_whole)
			learned_proc__label(p, in_it);
		learned_proc__close(p, clock_ns);
	} else if (is_whole && is_traced && p->now.cnt) {
		struct learned_allocs was = p->ready;

		p->ready = p->now;
		p->now = was;
		p->ready_regions = in_it;
		memcpy(p->ready_tids, p->tids, sizeof(p->tids));
	}
	p->now.cnt = 0;
	p->lanes_cnt = 0;
	p->regions = regions;
	p->is_whole = true;
}

void learned__gone(struct learned_proc *p, uint64_t clock_ns)
{
	learned_proc__close(p, clock_ns);
	p->now.cnt = 0;
	for (uint32_t i = 0; i < p->living.cnt; i++)
		if (!p->living.v[i].is_over)
			learned_proc__over(p, &p->living.v[i], clock_ns);
	learned_proc__squeeze(p);
}

void learned__cut(struct learned_proc *p)
{
	p->is_whole = false;
}

void learned_proc__free(struct learned_proc *p)
{
	if (!p)
		return;
	while (p->kinds_cnt)
		learned_proc__forget(p, 0);
	allocs__done(&p->now, p);
	allocs__done(&p->ready, p);
	allocs__done(&p->living, p);
	free(p);
}

static void allocs__check(const struct learned_allocs *b)
{
	mt_check(b->cnt <= b->cap);
	for (uint32_t i = 0; i < b->cnt; i++) {
		const struct learned_alloc *v = &b->v[i];

		mt_check(!i || b->v[i - 1].id < v->id);
		mt_check(v->dev < LEARNED_DEVS && v->lane < LEARNED_LANES && v->what.cat < CAT_MAX);
		mt_check(!v->is_over || v->since_ns == UINT64_MAX || v->end_ns >= v->since_ns);
	}
}

void learned_proc__check(const struct learned_proc *p)
{
	uint32_t gone = 0;

	allocs__check(&p->now);
	allocs__check(&p->ready);
	allocs__check(&p->living);
	for (uint32_t i = 0; i < p->living.cnt; i++)
		gone += p->living.v[i].is_over && p->living.v[i].since_ns == UINT64_MAX;
	mt_check(gone == p->living_gone);
	mt_check(p->now.cnt <= LEARNED_ALLOCS && p->lanes_cnt <= LEARNED_LANES && p->kinds_cnt <= LEARNED_KINDS);
	mt_check(p->now.cap + p->ready.cap + p->living.cap <= LEARNED_OPEN / 2 && p->all->open <= LEARNED_OPEN);
	mt_check(learned_proc__items(p) <= LEARNED_MAX / 2 && p->all->items <= LEARNED_MAX);
	mt_check(!p->kinds_cnt || p->guess < p->kinds_cnt);
	for (uint32_t i = 0; i < p->kinds_cnt; i++) {
		const struct learned_kind *k = &p->kinds[i];
		uint32_t at = 0;

		for (uint32_t n = 0; n < k->lanes_cnt; n++) {
			mt_check(k->lanes[n].at == at);
			at += k->lanes[n].cnt;
		}
		mt_check(at == k->cnt);
	}
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Two indexes lead to the rows. Sums that have a peak of their own are kept along the way up to the root: a
 * allocation in a module of a transformer touches five rows.
 */
#include "model/core/modules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/quota.h"
#include "base/seed.h"
#include "model/core/blocks.h"
#include "model/core/check.h"
#include "model/core/device.h"

#define ROWS_MIN 64
#define ROWS_PART 2
#define OUT_LEVELS_MAX 7 /* struct block.out */

int modules__init(struct modules *s)
{
	s->rows = calloc(ROWS_MIN, sizeof(*s->rows));
	if (!s->rows)
		return -ENOMEM;
	s->cap = ROWS_MIN;
	s->cnt = 1;
	return tally__init(&s->tally);
}

static void module_places__done(struct module_places *p)
{
	index__done(&p->index);
	free(p->all);
}

void modules__done(struct modules *s)
{
	tally__done(&s->tally);
	tally__done(&s->held);
	free(s->rows);
	module_places__done(&s->by_addr);
	module_places__done(&s->by_path);
	free(s->owners);
	free(s->marks);
	free(s->steps);
}

/* --- finding -------------------------------------------------------------------------------------------------- */

static uint32_t place_of(const struct module_places *p, uint64_t a, uint64_t b)
{
	return index_find(&p->index, hash_two(a, b), i, p->all[i].a == a && p->all[i].b == b);
}

static uint32_t get(const struct module_places *p, uint64_t a, uint64_t b)
{
	uint32_t at = place_of(p, a, b);

	return at == INDEX_NONE ? 0 : p->all[at].row;
}

/* False: no memory. */
static bool put(struct module_places *p, uint64_t a, uint64_t b, uint32_t row)
{
	uint32_t at = place_of(p, a, b);

	if (at != INDEX_NONE) {
		p->all[at].row = row;
		return true;
	}
	if (!array_has_room(p->all, p->cnt, p->cap, 128) || index__add(&p->index, hash_two(a, b), p->cnt) < 0)
		return false;
	p->all[p->cnt++] = (struct module_place){ a, b, row };
	return true;
}

static uint64_t path_key(uint32_t pid, name_id root)
{
	return pid | (uint64_t)root.v << 32;
}

uint32_t modules__of_path(const struct modules *s, uint32_t pid, name_id path, name_id root)
{
	return get(&s->by_path, path_key(pid, root), path.v);
}

static bool is_in(const struct modules *s, uint32_t row, uint32_t outer)
{
	for (unsigned i = 0; row && row != outer && i < MODULES_DEEP_MAX; i++)
		row = s->rows[row].parent;
	return row == outer;
}

uint32_t modules__around(const struct modules *s, uint32_t a, uint32_t b)
{
	for (unsigned i = 0; i < MODULES_DEEP_MAX; i++) {
		if (!a || is_in(s, b, a))
			return a;
		a = s->rows[a].parent;
	}
	return 0;
}

static void drop(struct module_places *p, uint32_t pid)
{
	uint32_t cnt = p->cnt;

	index__clear(&p->index);
	p->cnt = 0;
	for (uint32_t i = 0; i < cnt; i++)
		if ((uint32_t)p->all[i].a != pid)
			(void)put(p, p->all[i].a, p->all[i].b, p->all[i].row); /* there is room: it was there */
}

void modules__drop_pid(struct modules *s, uint32_t pid)
{
	drop(&s->by_addr, pid);
	drop(&s->by_path, pid);
}

/* Rows of a process; the last one asked for is the next one, too. NULL: no memory. */
static struct modules_of *rows_of(struct modules *s, uint32_t pid)
{
	if (s->owner_at < s->owners_cnt && s->owners[s->owner_at].pid == pid)
		return &s->owners[s->owner_at];
	for (s->owner_at = 0; s->owner_at < s->owners_cnt; s->owner_at++)
		if (s->owners[s->owner_at].pid == pid)
			return &s->owners[s->owner_at];
	if (!array_has_room(s->owners, s->owners_cnt, s->owners_cap, 16))
		return NULL;
	s->owners[s->owners_cnt] = (struct modules_of){ .pid = pid };
	return &s->owners[s->owners_cnt++];
}

static uint32_t add_row(struct modules *s, uint32_t pid, uint64_t addr)
{
	uint32_t row = s->cnt, used = row - 1;
	struct modules_of *own;

	if (!quota_allows(0, used, MODULES_MAX, ROWS_PART)) /* full for all processes */
		return 0;
	own = rows_of(s, pid);
	if (!own || !quota_allows(own->cnt, used, MODULES_MAX, ROWS_PART))
		return 0;
	if (row == s->cap) {
		struct module_row *rows = reallocarray(s->rows, 2 * (size_t)s->cap, sizeof(*rows));

		if (!rows)
			return 0;
		s->rows = rows;
		s->cap *= 2;
	}
	if (tally__add_row(&s->tally, (name_id){ row }, false) != row ||
	    !put(&s->by_addr, pid, addr, row))
		return 0;
	s->rows[row] = (struct module_row){ .pid = pid, .addr = addr };
	s->cnt++;
	own->cnt++;
	return row;
}

uint32_t modules__at(struct modules *s, uint32_t pid, uint64_t addr, bool *ret_full)
{
	uint32_t row = addr ? get(&s->by_addr, pid, addr) : 0;

	if (row || !addr)
		return row;
	row = add_row(s, pid, addr);
	*ret_full |= !row;
	return row;
}

/* `row` is `inner`, or `inner` is in it. */
static bool modules__holds(const struct modules *s, uint32_t row, uint32_t inner)
{
	for (uint32_t i = inner; i; i = s->rows[i].parent)
		if (i == row)
			return true;
	return false;
}

/* --- definitions ---------------------------------------------------------------------------------------------- */

static void high__add(struct high *h, uint64_t bytes, bool is_traced)
{
	h->live += bytes;
	if (is_traced && h->live > h->peak)
		h->peak = h->live;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Adds its live bytes and its highest values to the modules around it. */
static void lift(struct modules *s, uint32_t row)
{
	const struct module_row *r = &s->rows[row];

	for (uint32_t i = r->parent; i; i = s->rows[i].parent) {
		struct module_row *up = &s->rows[i];

		high__add(&up->made, r->made.live, !s->in_gap);
		up->made.peak = max_u64(up->made.peak, r->made.peak);
		for (unsigned k = 0; k < EV_TENSOR_MAX; k++) {
			high__add(&up->kinds[k], r->kinds[k].live, !s->in_gap);
			up->kinds[k].peak = max_u64(up->kinds[k].peak, r->kinds[k].peak);
		}
		up->peak_forward = max_u64(up->peak_forward, r->peak_forward);
		up->peak_backward = max_u64(up->peak_backward, r->peak_backward);
	}
}

/* Sets a parent, unless the row would then be in itself, or too deep. The depth of modules in it does not change. */
static void set_parent(struct modules *s, uint32_t row, uint32_t parent)
{
	if (s->rows[row].parent || !parent || modules__holds(s, row, parent) ||
	    s->rows[parent].deep + 1 >= MODULES_DEEP_MAX)
		return;
	s->rows[row].parent = parent;
	s->rows[row].deep = (uint8_t)(s->rows[parent].deep + 1);
	lift(s, row);
}

static bool is_same(const struct module_row *r, const struct event *ev)
{
	return r->path.v == ev->name.v && r->root.v == ev->root.v && r->class.v == ev->type.v;
}

bool modules__define(struct modules *s, const struct event *ev)
{
	bool full = false;
	uint32_t row = modules__at(s, ev->pid, ev->addr, &full), parent;
	struct module_row *r;

	if (row && s->rows[row].reported && !is_same(&s->rows[row], ev))
		row = add_row(s, ev->pid, ev->addr); /* another module lies there now */
	if (!row)
		return false;
	parent = modules__at(s, ev->pid, ev->size, &full);
	r = &s->rows[row];
	r->turn = r->reported ? r->turn : ++s->turns;
	r->reported = true;
	r->path = ev->name;
	r->root = ev->root;
	r->class = ev->type;
	set_parent(s, row, parent);
	return put(&s->by_path, path_key(ev->pid, r->root), r->path.v, row);
}

void modules__mark(struct modules *s, const struct report_mark *mark)
{
	if (!s->marks)
		s->marks = calloc(MARKS_MAX, sizeof(*s->marks));
	if (s->marks)
		s->marks[s->marks_cnt % MARKS_MAX] = *mark;
	s->marks_cnt++;
	s->marks_by_kind[mark->kind]++;
}

void modules__step(struct modules *s, const struct step_marks *step)
{
	if (!s->steps)
		s->steps = calloc(STEPS_MAX, sizeof(*s->steps));
	if (s->steps)
		s->steps[s->steps_cnt % STEPS_MAX] = *step;
	s->steps_cnt++;
}

/* --- blocks --------------------------------------------------------------------------------------------------- */

static bool is_made(unsigned phase)
{
	return phase == PHASE_FORWARD || phase == PHASE_RECOMPUTE || phase == PHASE_EVALUATION;
}

void modules__allocated(struct modules *s, const struct block *b, uint64_t process_live)
{
	struct phase_sum *sum = &s->phases[b->phase];
	struct module_phase *own = &s->rows[b->module].phases[b->phase];

	sum->alloc_count++;
	sum->alloc_bytes += b->size;
	sum->live += b->size;
	sum->peak = max_u64(sum->peak, process_live);
	own->alloc_count++;
	own->alloc_bytes += b->size;
	own->live += b->size;
	for (uint32_t i = b->module; i; i = s->rows[i].parent) {
		struct module_row *r = &s->rows[i];

		if (is_made(b->phase))
			high__add(&r->made, b->size, !s->in_gap);
		if (b->phase == PHASE_FORWARD || b->phase == PHASE_EVALUATION)
			r->peak_forward = max_u64(r->peak_forward, process_live);
		else if (b->phase == PHASE_BACKWARD || b->phase == PHASE_RECOMPUTE)
			r->peak_backward = max_u64(r->peak_backward, process_live);
	}
}

void modules__freed(struct modules *s, const struct block *b)
{
	s->phases[b->phase].live -= b->size;
	s->rows[b->module].phases[b->phase].live -= b->size;
	if (!is_made(b->phase))
		return;
	for (uint32_t i = b->module; i; i = s->rows[i].parent)
		s->rows[i].made.live -= b->size;
}

void modules__late(struct modules *s, uint64_t bytes)
{
	s->phases[PHASE_OTHER].live += bytes;
	s->rows[0].phases[PHASE_OTHER].live += bytes;
}

void modules__move(struct modules *s, struct block *b, uint32_t row, uint8_t phase, unsigned dev_idx, uint64_t epoch)
{
	modules__freed(s, b);
	tally__freed(&s->tally, dev_idx, (uint32_t)b->module, b->size, epoch);
	b->module = tally__ready(&s->tally, dev_idx, row) & UINT16_MAX;
	b->phase = phase & 7;
	tally__late(&s->tally, dev_idx, (uint32_t)b->module, b->size, epoch);
	s->phases[b->phase].live += b->size;
	s->rows[b->module].phases[b->phase].live += b->size;
	for (uint32_t i = is_made(phase) ? (uint32_t)b->module : 0; i; i = s->rows[i].parent)
		high__add(&s->rows[i].made, b->size, !s->in_gap);
}

/* Live bytes at the end of a gap may be more than ever in traced time. */
void modules__gap(struct modules *s, bool begins)
{
	s->in_gap = begins;
	for (uint32_t i = 0; !begins && i < s->cnt; i++) {
		high__add(&s->rows[i].made, 0, true);
		for (unsigned k = 0; k < EV_TENSOR_MAX; k++)
			high__add(&s->rows[i].kinds[k], 0, true);
	}
}

/* --- calls ---------------------------------------------------------------------------------------------------- */

void modules__enter(struct modules *s, uint32_t row, uint32_t old)
{
	for (uint32_t i = row; i && !modules__holds(s, i, old); i = s->rows[i].parent) {
		struct module_row *r = &s->rows[i];

		r->calls++;
		r->in.call = r->out.call = 0;
		r->inputs_at = 0;
		memset(r->inputs, 0, sizeof(r->inputs));
	}
}

static void module_flow__add(struct module_flow *f, uint64_t bytes)
{
	f->call += bytes;
	f->most = max_u64(f->most, f->call);
}

/* Made by another module, or by none: an input, the first time in this call. */
static void take_input(struct module_row *r, const struct block *b)
{
	for (unsigned i = 0; i < MODULE_INPUTS_MAX; i++)
		if (r->inputs[i] == b->id)
			return;
	r->inputs[r->inputs_at++ % MODULE_INPUTS_MAX] = b->id;
	module_flow__add(&r->in, b->size);
}

void modules__used(struct modules *s, struct block *b, uint32_t row)
{
	uint32_t i = (uint32_t)b->module;
	unsigned level = 0;

	if (b->module == row || (row && !s->rows[row].reported) || (b->module && !s->rows[b->module].reported))
		return; /* the modules around it are not known yet */
	for (uint32_t in = row; in && !modules__holds(s, in, (uint32_t)b->module); in = s->rows[in].parent)
		take_input(&s->rows[in], b);
	for (; i && level < OUT_LEVELS_MAX && !modules__holds(s, i, row); i = s->rows[i].parent) {
		if (level++ < b->out)
			continue; /* was used outside of this one before */
		module_flow__add(&s->rows[i].out, b->size);
		b->out = level & OUT_LEVELS_MAX;
	}
}

void modules__named(struct modules *s, uint32_t row, uint8_t kind, uint64_t bytes)
{
	for (uint32_t i = row; i; i = s->rows[i].parent)
		high__add(&s->rows[i].kinds[kind], bytes, !s->in_gap);
}

void modules__unnamed(struct modules *s, uint32_t row, uint8_t kind, uint64_t bytes)
{
	for (uint32_t i = row; i; i = s->rows[i].parent)
		s->rows[i].kinds[kind].live -= bytes;
}

/* Was it there when the device was at its peak? */
static uint64_t at_peak(const struct block *b, const struct device *d)
{
	return b->id <= d->peak_blocks.last_id ? b->size : 0;
}

bool modules__hold(struct modules *s, uint32_t row, const struct block *b, const struct device *d)
{
	uint32_t rows[] = { 0, tally__ready(&s->held, d->idx, row) };

	for (unsigned i = 0; i < 2 && rows[1]; i++) {
		tally__late(&s->held, d->idx, rows[i], b->size, d->epoch);
		s->held.devs[d->idx].cells[rows[i]].at_peak += at_peak(b, d);
	}
	return rows[1];
}

void modules__let_go(struct modules *s, uint32_t row, const struct block *b, const struct device *d, bool is_dead)
{
	uint32_t rows[] = { 0, row };

	for (unsigned i = 0; i < 2; i++) {
		tally__freed(&s->held, d->idx, rows[i], b->size, d->epoch);
		s->held.devs[d->idx].cells[rows[i]].at_peak -= is_dead ? 0 : at_peak(b, d);
	}
}

/* A gradient that is freed before a look at Python has no name: it is of the module whose backward made it. */
void modules__gradient(struct modules *s, struct block *b)
{
	bool is_one = b->cat == CAT_GRADIENT && !b->named && b->module;

	if (is_one && !b->gradient)
		modules__named(s, b->module, EV_TENSOR_GRADIENT, b->size);
	else if (!is_one && b->gradient)
		modules__unnamed(s, b->module, EV_TENSOR_GRADIENT, b->size);
	b->gradient = is_one;
}

void modules__check(const struct modules *s)
{
	mt_check(s->cnt >= 1 && s->cnt <= s->tally.cnt);
	for (uint32_t i = 1; i < s->cnt; i++) {
		unsigned deep = 0;

		for (uint32_t up = s->rows[i].parent; up; up = s->rows[up].parent)
			mt_check(up < s->cnt && ++deep < s->cnt);
		mt_check(s->in_gap || s->rows[i].made.live <= s->rows[i].made.peak); /* in a gap nothing is a peak */
	}
}

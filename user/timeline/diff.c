/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Values that add up in a trace (allocations, bytes, byte·time) are differences of two reports of it, one at each end of the
 * stretch. Labels come a step or two after their blocks: as late at one end as at the other.
 */
#include "timeline/diff.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/names.h"
#include "timeline/diff_before.h"
#include "timeline/ranks.h"
#include "timeline/report.h"

struct part { /* begins with name: text_cmp */
	char *name;
	const struct report_stack *stack;
	double v[DIFF_VALUES];
};

struct parts {
	struct part *v;
	size_t cnt, room;
	double unit; /* steps or seconds of the stretch */
	double ns;
	int err;
};

static struct part *parts__add(struct parts *p, const char *name)
{
	static struct part nowhere;

	if (!array_has_room(p->v, p->cnt, p->room, 64))
		goto fail;
	p->v[p->cnt].stack = NULL;
	p->v[p->cnt].name = strdup(name);
	if (!p->v[p->cnt].name)
		goto fail;
	for (unsigned i = 0; i < DIFF_VALUES; i++)
		p->v[p->cnt].v[i] = NAN;
	return &p->v[p->cnt++];
fail:
	p->err = -ENOMEM;
	return &nowhere;
}

static void parts__done(struct parts *p)
{
	for (size_t i = 0; i < p->cnt; i++)
		free(p->v[i].name);
	free(p->v);
}

static double since(uint64_t from, uint64_t to)
{
	return to > from ? (double)(to - from) : 0;
}

static double a_unit(const struct parts *p, uint64_t from, uint64_t to)
{
	return p->unit > 0 ? since(from, to) / p->unit : NAN;
}

/* --- one side's rows ----------------------------------------------------------------------------------------- */

static int by_op_name(const void *a, const void *b)
{
	const struct report_op *x = *(const struct report_op *const *)a, *y = *(const struct report_op *const *)b;

	return strcmp(x->name, y->name) ?: x->is_node - y->is_node;
}

/* Pointers to rows, sorted. */
struct sorted {
	const void **v;
	size_t cnt;
	int (*cmp)(const void *a, const void *b);
};

static struct sorted sorted_of(const void *rows, size_t cnt, size_t size, int (*cmp)(const void *a, const void *b))
{
	struct sorted s = { calloc(cnt + 1, sizeof(*s.v)), cnt, cmp };

	for (size_t i = 0; s.v && i < cnt; i++)
		s.v[i] = (const char *)rows + i * size;
	if (s.v)
		qsort(s.v, cnt, sizeof(*s.v), cmp);
	return s;
}

static const void *sorted__find(const struct sorted *s, const void *key, const void *none)
{
	const void **at = bsearch(&key, s->v, s->cnt, sizeof(*s->v), s->cmp);

	return at ? *at : none;
}

static void put_op(struct parts *p, const char *name, const struct report_op *end, const struct report_op *from,
		   const struct report_op *to, const double *mean)
{
	struct part *x = parts__add(p, name);

	x->v[DIFF_PEAK] = (double)end->at_peak;
	x->v[DIFF_END] = (double)to->live;
	x->v[DIFF_MEAN] = mean ? *mean : NAN;
	x->v[DIFF_ALLOCS] = a_unit(p, from->alloc_count, to->alloc_count);
	x->v[DIFF_BYTES] = a_unit(p, from->alloc_bytes, to->alloc_bytes);
	x->v[DIFF_FIRED] = a_unit(p, from->count, to->count);
}

static void put_op_rows(struct parts *p, const struct report_ops *end, const struct report_ops *from,
			const struct report_ops *to, const double *means)
{
	static const struct report_op none;
	struct sorted f = sorted_of(from->rows, from->cnt, sizeof(none), by_op_name);
	struct sorted t = sorted_of(to->rows, to->cnt, sizeof(none), by_op_name);

	if (!f.v || !t.v)
		p->err = -ENOMEM;
	for (size_t i = 0; i < end->cnt && !p->err; i++) {
		const struct report_op *o = &end->rows[i];

		put_op(p, o->name, o, sorted__find(&f, o, &none), sorted__find(&t, o, &none), means ? &means[i] : NULL);
	}
	free(f.v);
	free(t.v);
}

static void put_ops(struct parts *p, const struct diff_side *s)
{
	put_op_rows(p, &s->end->ops, &s->from->ops, &s->to->ops, s->op_means);
	if (!p->err)
		put_op(p, "(no operator open)", &s->end->ops.none, &s->from->ops.none, &s->to->ops.none,
		       s->op_means ? &s->op_means[s->end->ops.cnt] : NULL);
}

static void put_regions(struct parts *p, const struct diff_side *s)
{
	put_op_rows(p, &s->end->regions, &s->from->regions, &s->to->regions, s->region_means);
}

static const struct report_dev *dev_or_none(const struct report *r, uint8_t dev)
{
	static const struct report_dev none;

	return report_dev_find(r, dev) ?: &none;
}

static double mean_of(const struct parts *p, uint64_t from, uint64_t to)
{
	return p->ns > 0 ? since(from, to) / p->ns : NAN;
}

static const char *dev_text(char *buf, size_t size, uint8_t dev)
{
	if (dev == MT_DEV_CPU || dev == MT_DEV_HOST)
		snprintf(buf, size, "%s", dev == MT_DEV_CPU ? "cpu" : "host");
	else
		snprintf(buf, size, "cuda:%u", (unsigned)(dev - MT_DEV_CUDA0));
	return buf;
}

static void put_devs(struct parts *p, const struct diff_side *s)
{
	for (size_t i = 0; i < s->end->devs_cnt; i++) {
		const struct report_dev *d = &s->end->devs[i];
		const struct report_dev *from = dev_or_none(s->from, d->dev), *to = dev_or_none(s->to, d->dev);
		char name[16];
		struct part *x = parts__add(p, dev_text(name, sizeof(name), d->dev));

		x->v[DIFF_PEAK] = (double)d->peak;
		x->v[DIFF_END] = (double)to->live;
		x->v[DIFF_MEAN] = mean_of(p, from->byte_ns, to->byte_ns);
		x->v[DIFF_ALLOCS] = a_unit(p, from->allocs, to->allocs);
		x->v[DIFF_BYTES] = a_unit(p, from->alloc_bytes, to->alloc_bytes);
	}
}

static void put_cats(struct parts *p, const struct diff_side *s)
{
	for (size_t i = 0; i < s->end->devs_cnt; i++) {
		const struct report_dev *d = &s->end->devs[i];
		const struct report_dev *to = dev_or_none(s->to, d->dev);

		for (unsigned c = 0; c < CAT_MAX && d->dev != MT_DEV_HOST; c++) {
			char dev[16], name[64];
			struct part *x;

			if (!d->cats[c].byte_ns && !d->cats[c].live && !d->cats[c].at_peak)
				continue;
			snprintf(name, sizeof(name), "%s %s", dev_text(dev, sizeof(dev), d->dev),
					category_name((enum category)c));
			x = parts__add(p, name);
			x->v[DIFF_PEAK] = (double)d->cats[c].at_peak;
			x->v[DIFF_END] = (double)to->cats[c].live;
			x->v[DIFF_MEAN] = p->ns > 0 && s->category_means ? s->category_means[i * CAT_MAX + c] : NAN;
		}
	}
}

static uint64_t fired_of(const struct report *r, const char *name)
{
	for (size_t i = 0; i < r->probes.symbols_cnt; i++)
		if (!strcmp(r->probes.symbols[i].name, name))
			return r->probes.symbols[i].fired;
	return 0;
}

static void put_symbols(struct parts *p, const struct diff_side *s)
{
	for (size_t i = 0; i < s->end->probes.symbols_cnt; i++) {
		const struct report_symbol *y = &s->end->probes.symbols[i];

		if (y->fired)
			parts__add(p, y->name)->v[DIFF_FIRED] =
				a_unit(p, fired_of(s->from, y->name), fired_of(s->to, y->name));
	}
}

/* --- stacks: numbers are those of one recording, the text of their frames means the same in both ---------------- */

static char *stack_text(const struct report_stack *s)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return NULL;
	for (size_t i = 0; i < s->frames_cnt; i++)
		fprintf(f, "%u %s (%s:%u)\n", s->frames[i].kind, s->frames[i].function, s->frames[i].file, s->frames[i].line);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}

static int by_node(const void *a, const void *b)
{
	uint32_t x = (*(const struct report_stack *const *)a)->node, y = (*(const struct report_stack *const *)b)->node;

	return cmp_up(x, y);
}

static void put_stack(struct parts *p, const char *name, const struct report_stack *end, const struct report_stack *from,
		      const struct report_stack *to, const double *mean)
{
	struct part *x = parts__add(p, name);

	x->stack = end->frames_cnt ? end : NULL;
	x->v[DIFF_PEAK] = (double)end->at_peak;
	x->v[DIFF_END] = (double)to->live;
	x->v[DIFF_MEAN] = mean ? *mean : NAN;
	x->v[DIFF_ALLOCS] = a_unit(p, from->alloc_count, to->alloc_count);
	x->v[DIFF_BYTES] = a_unit(p, from->alloc_bytes, to->alloc_bytes);
}

static void put_stacks(struct parts *p, const struct diff_side *s)
{
	static const struct report_stack none;
	struct sorted from = sorted_of(s->from->stacks.rows, s->from->stacks.cnt, sizeof(none), by_node);
	struct sorted to = sorted_of(s->to->stacks.rows, s->to->stacks.cnt, sizeof(none), by_node);

	if (!from.v || !to.v)
		p->err = -ENOMEM;
	for (size_t i = 0; i < s->end->stacks.cnt && !p->err; i++) {
		const struct report_stack *k = &s->end->stacks.rows[i];
		char *text = stack_text(k);

		if (text)
			put_stack(p, text, k, sorted__find(&from, k, &none), sorted__find(&to, k, &none),
				  s->stack_means ? &s->stack_means[i] : NULL);
		else
			p->err = -ENOMEM;
		free(text);
	}
	if (!p->err)
		put_stack(p, "(no stack)", &s->end->stacks.none, &s->from->stacks.none, &s->to->stacks.none,
			  s->stack_means ? &s->stack_means[s->end->stacks.cnt] : NULL);
	free(from.v);
	free(to.v);
}

/* --- modules, names, ranks: what both recordings call the same ----------------------------------------------- */

static const char *path_text(char *buf, size_t size, const char *root, const char *path)
{
	snprintf(buf, size, "%.200s%s%.700s", root, root[0] && path[0] ? "." : "", path);
	return buf;
}

static int is_named(const struct report_module *m)
{
	return m->name && m->root;
}

static int by_row(const void *a, const void *b)
{
	const struct report_module *x = *(const struct report_module *const *)a, *y = *(const struct report_module *const *)b;

	return cmp_up(x->row, y->row);
}

/* What a module and all modules in it have allocated until a moment, and what of that is live then. */
struct made {
	uint64_t cnt, bytes, live;
};

/*
 * By place at the end, from what each module itself had allocated until `then`: which module is in which, and their names, may
 * not have been known by then. NULL: no memory.
 */
static struct made *made_until(const struct report_modules *end, const struct report_modules *then)
{
	static const struct report_module none;
	struct sorted rows = sorted_of(then->rows, then->cnt, sizeof(none), by_row);
	struct made *all = calloc(end->cnt + 1, sizeof(*all));

	for (size_t i = 0; all && rows.v && i < end->cnt; i++) {
		const struct report_module *m = sorted__find(&rows, &end->rows[i], &none);

		for (size_t at = i + 1; at; at = end->rows[at - 1].parent) {
			all[at - 1].cnt += m->own.alloc_count;
			all[at - 1].bytes += m->own.alloc_bytes;
			all[at - 1].live += m->own.live;
		}
	}
	if (!rows.v) {
		free(all);
		all = NULL;
	}
	free(rows.v);
	return all;
}

static void put_module(struct parts *p, const char *name, const struct report_module_sum *end, struct made from, struct made to)
{
	struct part *x = parts__add(p, name);

	x->v[DIFF_PEAK] = (double)end->at_peak;
	x->v[DIFF_END] = (double)to.live;
	x->v[DIFF_ALLOCS] = a_unit(p, from.cnt, to.cnt);
	x->v[DIFF_BYTES] = a_unit(p, from.bytes, to.bytes);
}

static struct made made_by_none(const struct report *r)
{
	return (struct made){ r->modules.none.alloc_count, r->modules.none.alloc_bytes, r->modules.none.live };
}

static void put_modules(struct parts *p, const struct diff_side *s)
{
	const struct report_modules *end = &s->end->modules;
	struct made *from = made_until(end, &s->from->modules), *to = made_until(end, &s->to->modules);
	char name[1000];

	if (!from || !to)
		p->err = -ENOMEM;
	for (size_t i = 0; i < end->cnt && !p->err; i++) {
		const struct report_module *m = &end->rows[i];

		if (is_named(m))
			put_module(p, path_text(name, sizeof(name), m->root, m->name), &m->all, from[i], to[i]);
	}
	if (!p->err)
		put_module(p, "(no module)", &end->none, made_by_none(s->from), made_by_none(s->to));
	free(from);
	free(to);
}

/* Two rows here have the same name; parts__fold makes them one. */
static void put_name(struct parts *p, const char *name, uint64_t peak, uint64_t end)
{
	struct part *x = parts__add(p, name);

	x->v[DIFF_PEAK] = (double)peak;
	x->v[DIFF_END] = (double)end;
}

static void put_names(struct parts *p, const struct diff_side *s)
{
	char name[2 * NAME_BYTES_MAX];

	for (size_t i = 0; i < s->named_cnt && !p->err; i++)
		put_name(p, s->named[i].name, s->named[i].bytes, 0);
	for (size_t i = 0; i < s->end->names.cnt && !p->err; i++) {
		const struct report_tensor *t = &s->end->names.rows[i];

		if (t->kind == EV_TENSOR_GRADIENT)
			continue;
		tensor_name(name, sizeof(name), t->kind, t->root, t->key, t->path);
		put_name(p, name, 0, t->size);
	}
}

static void put_ranks(struct parts *p, const struct diff_side *s)
{
	for (size_t i = 0; s->end->ranks && i < s->end->ranks->cnt && !p->err; i++) {
		const struct report_rank *k = &s->end->ranks->rows[i];
		struct part *x;
		char name[32];

		snprintf(name, sizeof(name), "rank %u", k->rank);
		x = parts__add(p, name);
		x->v[DIFF_PEAK] = (double)k->peak;
		x->v[DIFF_END] = (double)k->live;
	}
}

/* Sorted by name: nodes of one text (a library that was loaded twice), modules of two processes are one row. */
static void parts__fold(struct parts *p)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->cnt; i++) {
		if (!kept || strcmp(p->v[kept - 1].name, p->v[i].name)) {
			p->v[kept++] = p->v[i];
			continue;
		}
		for (unsigned k = 0; k < DIFF_VALUES; k++)
			p->v[kept - 1].v[k] += p->v[i].v[k];
		free(p->v[i].name);
	}
	p->cnt = kept;
}

uint64_t diff_side__traced_ns(const struct diff_side *s)
{
	if (s->is_sampled)
		return s->to->sampling.traced_ns - s->from->sampling.traced_ns;
	return s->to_ns > s->from_ns ? s->to_ns - s->from_ns - (s->to->sampling.paused_ns - s->from->sampling.paused_ns) : 0;
}

/* Between traced steps nothing was counted, and blocks at the end may have been freed unseen. */
static void parts__leave_out(struct parts *p, enum diff_by by)
{
	for (size_t i = 0; i < p->cnt; i++) {
		p->v[i].v[DIFF_ALLOCS] = p->v[i].v[DIFF_BYTES] = p->v[i].v[DIFF_FIRED] = NAN;
		if (by != DIFF_BY_NAME)
			p->v[i].v[DIFF_END] = NAN;
	}
}

static int parts__make(struct parts *p, const struct diff_side *s, enum diff_by by, const struct diff *d)
{
	static void (*const put[])(struct parts *p, const struct diff_side *s) = {
		[DIFF_BY_OP] = put_ops, [DIFF_BY_CATEGORY] = put_cats, [DIFF_BY_DEVICE] = put_devs,
		[DIFF_BY_REGION] = put_regions, [DIFF_BY_SYMBOL] = put_symbols, [DIFF_BY_STACK] = put_stacks,
		[DIFF_BY_MODULE] = put_modules, [DIFF_BY_NAME] = put_names, [DIFF_BY_RANK] = put_ranks,
	};

	p->ns = (double)diff_side__traced_ns(s);
	p->unit = d->per_step ? (double)s->steps : p->ns / 1e9;
	put[by](p, s);
	if (d->is_sampled)
		parts__leave_out(p, by);
	if (p->cnt)
		qsort(p->v, p->cnt, sizeof(*p->v), text_cmp);
	if (by >= DIFF_BY_STACK)
		parts__fold(p);
	return p->err;
}

/* --- both ------------------------------------------------------------------------------------------------- */

/* The order of rows: by the change of the mean, else of the peak, else of the end, else of the count. */
static double diff_row__growth(const struct diff_row *r)
{
	static const enum diff_value order[] = { DIFF_MEAN, DIFF_PEAK, DIFF_END, DIFF_FIRED };

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (!isnan(diff_row__change(r, order[i])))
			return diff_row__change(r, order[i]);
	return 0;
}

static int by_growth(const void *a, const void *b)
{
	const struct diff_row *x = a, *y = b;
	double gx = diff_row__growth(x), gy = diff_row__growth(y), bx = diff_row__change(x, DIFF_BYTES),
	       by = diff_row__change(y, DIFF_BYTES);

	if (gx != gy)
		return gx < gy ? 1 : -1;
	if (bx != by && !isnan(bx) && !isnan(by))
		return bx < by ? 1 : -1;
	return strcmp(x->name, y->name);
}

/* A side without a row had none of it: 0 where the other side's value is known. */
static void fill(double *to, const double *other)
{
	for (unsigned i = 0; i < DIFF_VALUES; i++)
		to[i] = isnan(other[i]) ? NAN : 0;
}

static void diff__merge(struct diff *d, struct parts *a, struct parts *b)
{
	size_t i = 0, k = 0;

	while (i < a->cnt || k < b->cnt) {
		int cmp = i == a->cnt ? 1 : k == b->cnt ? -1 : strcmp(a->v[i].name, b->v[k].name);
		struct diff_row *r = &d->rows[d->cnt++];

		r->name = cmp <= 0 ? a->v[i].name : b->v[k].name;
		r->stack = cmp <= 0 ? a->v[i].stack : b->v[k].stack;
		if (cmp <= 0)
			memcpy(r->a, a->v[i].v, sizeof(r->a));
		if (cmp >= 0)
			memcpy(r->b, b->v[k].v, sizeof(r->b));
		if (cmp < 0)
			fill(r->b, r->a);
		if (cmp > 0)
			fill(r->a, r->b);
		if (cmp <= 0)
			a->v[i++].name = NULL;
		if (cmp > 0)
			b->v[k].name = NULL;
		k += cmp >= 0;
	}
}

bool diff_side__is_empty(const struct diff_side *s)
{
	for (size_t i = 0; i < s->end->devs_cnt; i++)
		if (s->end->devs[i].peak)
			return false;
	return true;
}

const struct report_dev *diff_peak_changed(const struct report *a, const struct report *b, uint64_t *ret_to)
{
	const struct report_dev *best = NULL;
	uint64_t most = 0;

	for (size_t i = 0; i < a->devs_cnt; i++) {
		const struct report_dev *da = &a->devs[i], *db = report_dev_find(b, da->dev);
		uint64_t peak = db ? db->peak : 0, change = peak > da->peak ? peak - da->peak : da->peak - peak;

		if (!da->peak || (best && change <= most))
			continue;
		best = da;
		most = change;
		*ret_to = peak;
	}
	return best;
}

/* The peak fell: the largest decrease comes first. */
static bool has_fallen(const struct diff_side *a, const struct diff_side *b)
{
	uint64_t to = 0;
	const struct report_dev *d = diff_peak_changed(a->end, b->end, &to);

	return d && to < d->peak && d->peak - to >= d->peak / DIFF_SAME_PART;
}

/* What an exited process has left does not show what it held. */
static bool have_exited(const struct report *r)
{
	for (size_t i = 0; i < r->procs_cnt; i++)
		if (r->procs[i].gone != 1)
			return false;
	return r->procs_cnt;
}

static void leave_out_ends(struct diff *d, const struct diff_side *a, const struct diff_side *b)
{
	bool is_a = have_exited(a->end), is_b = have_exited(b->end);

	for (size_t i = 0; i < d->cnt; i++) {
		d->rows[i].a[DIFF_END] = is_a ? NAN : d->rows[i].a[DIFF_END];
		d->rows[i].b[DIFF_END] = is_b ? NAN : d->rows[i].b[DIFF_END];
	}
}

static void turn_round(struct diff_row *rows, size_t cnt)
{
	for (size_t i = 0; i < cnt / 2; i++) {
		struct diff_row row = rows[i];

		rows[i] = rows[cnt - 1 - i];
		rows[cnt - 1 - i] = row;
	}
}

int diff__make(struct diff *ret, const struct diff_side *a, const struct diff_side *b, enum diff_by by)
{
	struct parts pa = { 0 }, pb = { 0 };
	int r;

	*ret = (struct diff){ .per_step = a->steps && b->steps, .is_sampled = a->is_sampled || b->is_sampled };
	r = parts__make(&pa, a, by, ret);
	if (!r)
		r = parts__make(&pb, b, by, ret);
	ret->rows = r ? NULL : calloc(pa.cnt + pb.cnt + 1, sizeof(*ret->rows));
	if (!r && !ret->rows)
		r = -ENOMEM;
	if (!r)
		diff__merge(ret, &pa, &pb);
	if (by == DIFF_BY_NAME)
		leave_out_ends(ret, a, b);
	if (ret->cnt)
		qsort(ret->rows, ret->cnt, sizeof(*ret->rows), by_growth);
	if (has_fallen(a, b))
		turn_round(ret->rows, ret->cnt);
	r = r ? r : diff__before(ret, a, b, by);
	parts__done(&pa);
	parts__done(&pb);
	return r;
}

void diff__done(struct diff *d)
{
	for (size_t i = 0; i < d->cnt; i++)
		free(d->rows[i].name);
	free(d->rows);
	*d = (struct diff){ 0 };
}

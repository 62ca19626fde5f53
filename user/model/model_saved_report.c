/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What autograd kept at each process's largest backward pass, as rows of a report (model_saved.c). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/core/saved.h"
#include "model/model_saved.h"
#include "model/reports.h"
#include "model/state.h"
#include "timeline/report.h"

struct saved_row {
	const struct proc *p;
	const struct saved_block *k;
};

/* By what is known now: names come late. */
static bool is_kept(const struct model *m, const struct proc *p, const struct saved_pass *pass, const struct saved_block *k)
{
	const struct block *b = k->is_other ? NULL : model__saved_alive(m, p, k);

	return !k->is_other && !(b && model__is_the_models(b, pass->until));
}

static uint64_t bytes_of(const struct model *m, const struct proc *p, const struct saved_pass *pass)
{
	uint64_t bytes = pass->rest_bytes;

	for (uint32_t i = 0; i < pass->blocks.cnt; i++) {
		const struct saved_block *k = map__at(&pass->blocks, i);

		bytes += is_kept(m, p, pass, k) ? k->size : 0;
	}
	return bytes;
}

/* NULL: none. Of a process that was there before the trace the first pass may have been seen in part. */
static const struct saved_pass *largest(const struct model *m, const struct proc *p)
{
	const struct saved *s = p->saved;
	const struct saved_pass *best = NULL;
	uint64_t most = 0;

	for (unsigned i = 0; s && i <= SAVED_PASSES; i++) {
		const struct saved_pass *pass = i < SAVED_PASSES ? &s->last[i] : &s->most;
		bool is_first = pass->number == 1;
		uint64_t bytes;

		if (!pass->number || pass == s->now || (is_first && (best || p->how == EV_PROC_ATTACHED)))
			continue;
		bytes = bytes_of(m, p, pass);
		if (!best || best->number == 1 || bytes > most || (bytes == most && pass->number > best->number)) {
			best = pass;
			most = bytes;
		}
	}
	return best;
}

/* All kept blocks. *ret is the caller's. -ENOMEM. */
static int gather(const struct model *m, struct saved_row **ret, size_t *ret_cnt)
{
	const struct proc *p;
	size_t max = 1, cnt = 0;
	struct saved_row *all;

	TAILQ_FOREACH(p, &m->procs.all, all) {
		const struct saved_pass *pass = largest(m, p);

		max += pass ? pass->blocks.cnt : 0;
	}
	all = calloc(max, sizeof(*all));
	if (!all)
		return -ENOMEM;
	TAILQ_FOREACH(p, &m->procs.all, all) {
		const struct saved_pass *pass = largest(m, p);

		for (uint32_t i = 0; pass && i < pass->blocks.cnt; i++) {
			const struct saved_block *k = map__at(&pass->blocks, i);

			if (is_kept(m, p, pass, k))
				all[cnt++] = (struct saved_row){ p, k };
		}
	}
	*ret = all;
	*ret_cnt = cnt;
	return 0;
}

static uint32_t module_of(const struct model *m, uint32_t row)
{
	return row < m->modules.cnt ? row : 0;
}

/* Of a root nothing would be left to compute it from. */
static uint32_t within(const struct model *m, const struct saved_block *k)
{
	uint32_t row = module_of(m, k->within);

	return m->modules.rows[row].parent ? row : 0;
}

struct module_saved *model__saved_by_module(const struct model *m)
{
	struct module_saved *rows = calloc(m->modules.cnt, sizeof(*rows));
	struct saved_row *all = NULL;
	size_t cnt = 0;

	if (!rows || gather(m, &all, &cnt)) {
		free(rows);
		return NULL;
	}
	for (size_t i = 0; i < cnt; i++) {
		rows[module_of(m, all[i].k->module)].made += all[i].k->size;
		rows[within(m, all[i].k)].within += all[i].k->size;
	}
	rows[0].within = 0; /* there is nothing to compute again */
	free(all);
	return rows;
}

/* --- rows ----------------------------------------------------------------------------------------------------- */

/* "layers.11.linear1" is one of "layers.*.linear1". What is too long for buf is cut. */
static void pattern_of(const char *path, char *buf, size_t bytes)
{
	size_t n = 0;

	while (*path && n + 1 < bytes) {
		size_t part = strcspn(path, ".");

		if (part && strspn(path, "0123456789") == part) {
			buf[n++] = '*';
			path += part;
		}
		while (*path && *path != '.' && n + 1 < bytes)
			buf[n++] = *path++;
		if (*path == '.' && n + 1 < bytes)
			buf[n++] = *path++;
	}
	buf[n] = 0;
}

static int fill_row(const struct model *m, const struct saved_row *kept, struct report_saved_row *ret)
{
	const struct saved_block *k = kept->k;
	const struct module_row *row = &m->modules.rows[module_of(m, k->module)];
	const struct module_row *inner = &m->modules.rows[within(m, k)];
	char pattern[512], around[512];

	pattern_of(names__get(m->names, row->path), pattern, sizeof(pattern));
	pattern_of(names__get(m->names, inner->path), around, sizeof(around));
	*ret = (struct report_saved_row){
		.pid = kept->p->pid, .dev = k->dev, .has_module = k->module != 0,
		.module = row->reported ? strdup(pattern) : NULL,
		.root = row->reported ? strdup(names__get(m->names, row->root)) : NULL,
		.recompute = inner->reported ? strdup(around) : NULL,
		.class = strdup(names__get(m->names, row->class)),
		.op = strdup(names__get(m->names, m->ops.rows[k->op].name)),
		.region = strdup(names__get(m->names, m->regions.rows[k->region].name)),
		.node = strdup(names__get(m->names, m->regions.rows[k->node].name)),
	};
	if (!ret->class || !ret->op || !ret->region || !ret->node || (inner->reported && !ret->recompute))
		return -ENOMEM;
	return !row->reported || (ret->module && ret->root) ? 0 : -ENOMEM;
}

static int place_cmp(const void *pa, const void *pb)
{
	const struct saved_row *a = pa, *b = pb;

	return cmp_up(a->p->pid, b->p->pid) ?: cmp_up(a->k->module, b->k->module) ?: cmp_up(a->k->within, b->k->within) ?:
	       cmp_up(a->k->op, b->k->op) ?: cmp_up(a->k->region, b->k->region) ?: cmp_up(a->k->node, b->k->node) ?:
	       cmp_up(a->k->dev, b->k->dev);
}

static int row_cmp(const void *pa, const void *pb)
{
	const struct report_saved_row *a = pa, *b = pb;

	return cmp_up(a->pid, b->pid) ?: cmp_up(a->dev, b->dev) ?: cmp_up(a->has_module, b->has_module) ?:
	       strcmp(a->root ?: "", b->root ?: "") ?: strcmp(a->module ?: "", b->module ?: "") ?:
	       strcmp(a->recompute ?: "", b->recompute ?: "") ?: cmp_up(!a->recompute, !b->recompute) ?:
	       strcmp(a->op, b->op) ?: strcmp(a->region, b->region) ?: strcmp(a->node, b->node);
}

static int most_bytes(const void *pa, const void *pb)
{
	const struct report_saved_row *a = pa, *b = pb;

	return cmp_down(a->bytes, b->bytes) ?: row_cmp(a, b);
}

/* A row for each place of the sorted blocks. */
static int rows_of(const struct model *m, const struct saved_row *all, size_t cnt, struct report_saved *r)
{
	for (size_t i = 0; i < cnt; i++) {
		bool is_new = !i || place_cmp(&all[i - 1], &all[i]);
		struct report_saved_row *row = &r->rows[is_new ? r->cnt++ : r->cnt - 1];

		if (is_new && fill_row(m, &all[i], row))
			return -ENOMEM;
		if (is_new)
			row->modules = all[i].k->module != 0;
		row->bytes += all[i].k->size;
		row->cnt++;
		row->largest = all[i].k->size > row->largest ? all[i].k->size : row->largest;
	}
	return 0;
}

/* Rows that look the same are one, of several modules. */
static void put_together(struct report_saved *r)
{
	size_t cnt = 0;

	qsort(r->rows, r->cnt, sizeof(*r->rows), row_cmp);
	for (size_t i = 0; i < r->cnt; i++) {
		struct report_saved_row *row = &r->rows[i], *to = cnt ? &r->rows[cnt - 1] : NULL;

		if (!to || row_cmp(to, row)) {
			r->rows[cnt++] = *row;
			continue;
		}
		to->bytes += row->bytes;
		to->cnt += row->cnt;
		to->modules += row->modules;
		to->largest = row->largest > to->largest ? row->largest : to->largest;
		report_saved_row__done(row);
	}
	r->cnt = cnt;
}

static int report_rows(const struct model *m, struct saved_row *all, size_t cnt, size_t top, struct report_saved *r)
{
	int err;

	r->rows = calloc(cnt + 1, sizeof(*r->rows));
	if (!r->rows)
		return -ENOMEM;
	qsort(all, cnt, sizeof(*all), place_cmp);
	err = rows_of(m, all, cnt, r);
	if (err)
		return err;
	put_together(r);
	qsort(r->rows, r->cnt, sizeof(*r->rows), most_bytes);
	r->total = r->cnt;
	while (r->cnt > top)
		report_saved_row__done(&r->rows[--r->cnt]);
	return 0;
}

/* --- blocks and processes --------------------------------------------------------------------------------------- */

static int size_cmp(const void *pa, const void *pb)
{
	const struct saved_row *a = pa, *b = pb;

	return cmp_down(a->k->size, b->k->size) ?: cmp_up(a->k->id, b->k->id);
}

static int report_blocks(const struct model *m, struct saved_row *all, size_t cnt, size_t top, struct report_saved *r)
{
	int err = 0;

	cnt = cnt < top ? cnt : top;
	r->blocks = calloc(cnt + 1, sizeof(*r->blocks));
	if (!r->blocks)
		return -ENOMEM;
	for (size_t i = 0; i < cnt && !err; i++) {
		struct report_saved_block *b = &r->blocks[r->blocks_cnt++];

		err = fill_row(m, &all[i], &b->of);
		b->ptr = all[i].k->ptr;
		b->size = all[i].k->size;
	}
	return err;
}

static void sum_process(const struct model *m, const struct proc *p, const struct saved_row *all, size_t cnt,
			struct report_saved_proc *ret)
{
	const struct saved_pass *pass = largest(m, p);
	uint64_t over = p->saved->passes - (p->saved->now != NULL);

	*ret = (struct report_saved_proc){ .pid = p->pid, .passes = over, .ts_ns = pass->ts_ns, .live = pass->live,
				      .bytes = pass->rest_bytes, .cnt = pass->rest_cnt, .rest_bytes = pass->rest_bytes,
				      .rest_cnt = pass->rest_cnt };
	ret->last_bytes = bytes_of(m, p, &p->saved->last[over % SAVED_PASSES]);
	for (size_t i = 0; i < cnt; i++) {
		if (all[i].p != p)
			continue;
		ret->bytes += all[i].k->size;
		ret->cnt++;
	}
}

static int report_processes(const struct model *m, const struct saved_row *all, size_t cnt, struct report_saved *r)
{
	const struct proc *p;
	size_t n = 0;

	TAILQ_FOREACH(p, &m->procs.all, all)
		n += largest(m, p) != NULL;
	r->procs = calloc(n + 1, sizeof(*r->procs));
	if (!r->procs)
		return -ENOMEM;
	TAILQ_FOREACH(p, &m->procs.all, all)
		if (largest(m, p))
			sum_process(m, p, all, cnt, &r->procs[r->procs_cnt++]);
	return 0;
}

int model__report_saved(const struct model *m, size_t top, struct report_saved *r)
{
	struct saved_row *all = NULL;
	size_t cnt = 0;
	int err = gather(m, &all, &cnt);

	err = err ? err : report_processes(m, all, cnt, r);
	err = err ? err : report_rows(m, all, cnt, top, r);
	if (!err)
		qsort(all, cnt, sizeof(*all), size_cmp);
	err = err ? err : report_blocks(m, all, cnt, top < PEAK_FREED_MAX ? top : PEAK_FREED_MAX, r);
	free(all);
	return err;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Blocks as rows of a report: those that were live at the peaks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/segments/gpu.h"
#include "model/model_tensors.h"
#include "model/reports.h"
#include "model/state.h"
#include "timeline/report.h"

/* The largest `max` blocks that were live at their device's peak. */
static size_t model__select(const struct model *m, struct peak_freed *heap, size_t max)
{
	bool host = model__counts_host(m);
	const struct block *b;
	size_t pos = 0, cnt = 0;

	if (!max)
		return 0;
	while ((b = blocks__next(m->blocks, &pos))) {
		if (dev_is_host((uint8_t)b->dev) == host &&
		    b->id <= m->devs[m->dev_idx[b->dev] - 1]->peak_blocks.last_id)
			freed_heap__push(heap, &cnt, max, &(struct peak_freed){ .block = *b });
	}
	for (unsigned i = 0; i < m->devs_cnt; i++) {
		const struct peak *p = &m->devs[i]->peak_blocks;

		if (dev_is_host(m->devs[i]->dev) != host)
			continue;
		for (size_t k = 0; k < p->cnt; k++)
			freed_heap__push(heap, &cnt, max, &p->heap[k]);
	}
	qsort(heap, cnt, sizeof(*heap), freed__cmp);
	return cnt;
}

/* "exp_avg layers.0.weight"; malloc'ed; NULL: none. */
static char *name_of(const struct model *m, name_id key, name_id path)
{
	char *name = NULL;

	if (!path.v || asprintf(&name, "%s%s%s", names__get(m->names, key), key.v ? " " : "", names__get(m->names, path)) < 0)
		return NULL;
	return name;
}

int model__report_block(const struct model *m, const struct peak_freed *f, struct report_block *ret)
{
	const struct peak_freed now = f->path.v ? *f : model__with_name(m, &f->block);
	const struct block *b = &f->block;
	const struct module_row *row = &m->modules.rows[b->module], *made_by = b->module && row->reported ? row : NULL;

	*ret = (struct report_block){
		.id = b->id, .ptr = b->ptr, .size = b->size, .allocated_ts_ns = b->allocated_ts_ns, .pid = b->pid,
		.tid = b->tid, .dev = (uint8_t)b->dev, .cat = (uint8_t)b->cat, .freed_ts_ns = f->freed_ts_ns,
		.op = strdup(names__get(m->names, m->ops.rows[b->op].name)),
		.region = strdup(names__get(m->names, m->regions.rows[b->region].name)),
	};
	if (made_by) {
		ret->module = strdup(names__get(m->names, made_by->path));
		ret->root = strdup(names__get(m->names, made_by->root));
	}
	ret->name = name_of(m, now.key, now.path);
	ret->has_stream = gpu__stream_of(m->gpu, b, &ret->stream);
	return ret->op && ret->region && (!made_by || (ret->module && ret->root)) ? 0 : -ENOMEM;
}

int model__report_peak_blocks(const struct model *m, size_t top, struct report_blocks *r)
{
	size_t max = top < PEAK_FREED_MAX ? top : PEAK_FREED_MAX, cnt;
	struct peak_freed *heap = calloc(max ? max : 1, sizeof(*heap));
	int err = 0;

	if (!heap)
		return -ENOMEM;
	cnt = model__select(m, heap, max);
	r->rows = calloc(cnt ? cnt : 1, sizeof(*r->rows));
	if (!r->rows)
		err = -ENOMEM;
	for (; !err && r->cnt < cnt; r->cnt++)
		err = model__report_block(m, &heap[r->cnt], &r->rows[r->cnt]);
	free(heap);
	return err;
}

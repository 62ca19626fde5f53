/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* A report against what was written down: everything is counted again from the blocks. */
#include "sim/oracle.h"
#include "model/core/peak.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define EQ(what, got, want)                                                                        \
	o_must((got) == (want), "%s: report has %" PRIu64 ", oracle %" PRIu64, what,               \
	       (uint64_t)(got), (uint64_t)(want))
#define EQ_STR(what, got, want) o_must(!strcmp(got, want), "%s: \"%s\", oracle \"%s\"", what, got, want)

static int counts_host(const struct oracle *o)
{
	for (int i = 0; i < 256; i++)
		if (o->devs[i].seen && i != MT_DEV_HOST)
			return 0;
	return 1;
}

static int counted(const struct oracle *o, const struct o_block *b)
{
	return (b->dev == MT_DEV_HOST) == counts_host(o);
}

/* The value at a time and the highest since another, by reading all changes. */
static void compare_series(const struct series *s, const struct o_change *ch, size_t cnt,
			   uint64_t start, uint64_t end)
{
	uint64_t span = end - start, value = 0;
	size_t next = 0;

	o_must(s->cnt >= 1 && s->cnt <= REPORT_SERIES_MAX, "%zu points", s->cnt);
	EQ("points of a series", s->cnt, span / s->bucket_ns + 1);
	o_must(s->bucket_ns == 1000000 || span / (s->bucket_ns / 2) >= REPORT_SERIES_MAX,
	       "buckets are wider than need be: %" PRIu64, s->bucket_ns);
	for (size_t i = 0; i < s->cnt; i++) {
		uint64_t from = start + i * s->bucket_ns, max = value;

		EQ("start of a bucket", s->points[i].ts_ns, from);
		for (; next < cnt && ch[next].ts - from < s->bucket_ns; next++) {
			value = ch[next].value;
			max = value > max ? value : max;
		}
		EQ("bucket maximum", s->points[i].live_max, max);
		EQ("bucket end", s->points[i].live_end, value);
	}
	EQ("changes told by a series", next, cnt);
}

static void compare_dev(const struct oracle *o, const struct report_dev *r)
{
	const struct o_dev *d = &o->devs[r->dev];
	uint64_t byte_ns = d->byte_ns > UINT64_MAX ? UINT64_MAX : (uint64_t)d->byte_ns;
	uint64_t live = 0, live_cnt = 0;

	for (size_t i = 0; i < o->blocks_cnt; i++) {
		if (o->blocks[i].dev == r->dev && o->blocks[i].live) {
			live += o->blocks[i].size;
			live_cnt++;
		}
	}
	EQ("live", r->live, live);
	EQ("live blocks", r->allocs - r->frees - r->dropped, live_cnt);
	EQ("peak", r->peak, d->peak);
	EQ("peak time", r->peak_ts_ns, d->peak_ts);
	EQ("allocs", r->allocs, d->allocs);
	EQ("frees", r->frees, d->frees);
	EQ("alloc bytes", r->alloc_bytes, d->alloc_bytes);
	EQ("free bytes", r->free_bytes, d->free_bytes);
	EQ("preexisting frees", r->preexisting_frees, d->preexisting);
	EQ("dropped", r->dropped, d->dropped);
	EQ("dropped bytes", r->dropped_bytes, d->dropped_bytes);
	EQ("ooms", r->ooms, d->ooms);
	EQ("last oom", r->oom_bytes_last, d->oom_last);
	EQ("byte_ns", r->byte_ns, byte_ns);
	EQ("category live", r->cats[CAT_UNKNOWN].live, live);
	EQ("category at peak", r->cats[CAT_UNKNOWN].at_peak, d->peak);
	EQ("category byte_ns", r->cats[CAT_UNKNOWN].byte_ns, byte_ns);
	compare_series(&r->series, d->changes, d->changes_cnt, o->start, o->now);
}

static void compare_op(const struct oracle *o, const struct report_op *r, const struct names *names,
		       int is_region)
{
	uint64_t allocs = 0, bytes = 0, live = 0, live_cnt = 0, at_peak = 0, count = 0;
	name_id name = names__find(names, r->name);

	for (size_t i = 0; i < o->blocks_cnt; i++) {
		const struct o_block *b = &o->blocks[i];

		if ((is_region ? b->region : b->op).v != name.v || !counted(o, b))
			continue;
		allocs++;
		bytes += b->size;
		live += b->live ? b->size : 0;
		live_cnt += (uint64_t)b->live;
	}
	for (int dev = 0; dev < 256; dev++) {
		const struct o_dev *d = &o->devs[dev];

		for (size_t i = 0; i < d->at_peak_cnt; i++) {
			const struct o_block *b = &o->blocks[d->at_peak[i]];

			if ((is_region ? b->region : b->op).v == name.v && counted(o, b))
				at_peak += b->size;
		}
	}
	for (size_t i = 0; i < o->counts_cnt; i++)
		if (o->counts[i].name.v == name.v && o->counts[i].is_region == is_region &&
		    o->counts[i].is_node == r->is_node)
			count += o->counts[i].count;
	EQ(r->name, r->count, count);
	EQ(r->name, r->alloc_count, allocs);
	EQ(r->name, r->alloc_bytes, bytes);
	EQ(r->name, r->live, live);
	EQ(r->name, r->live_count, live_cnt);
	EQ(r->name, r->at_peak, at_peak);
}

static void compare_ops(const struct oracle *o, const struct report *r, const struct names *names,
			size_t top)
{
	size_t ops = 0, regions = 0;

	for (size_t i = 0; i < o->counts_cnt; i++)
		*(o->counts[i].is_region ? &regions : &ops) += o->counts[i].name.v != 0;
	EQ("ops", r->ops.total, ops);
	EQ("regions", r->regions.total, regions);
	EQ("ops shown", r->ops.cnt, ops < top ? ops : top);
	EQ("regions shown", r->regions.cnt, regions < top ? regions : top);
	for (size_t i = 0; i < r->ops.cnt; i++) {
		compare_op(o, &r->ops.rows[i], names, 0);
		o_must(!i || r->ops.rows[i - 1].at_peak >= r->ops.rows[i].at_peak, "ops are not sorted");
	}
	for (size_t i = 0; i < r->regions.cnt; i++)
		compare_op(o, &r->regions.rows[i], names, 1);
	compare_op(o, &r->ops.none, names, 0);
}

static int block_cmp(const void *pa, const void *pb)
{
	const struct o_block *a = *(const struct o_block *const *)pa;
	const struct o_block *b = *(const struct o_block *const *)pb;

	if (a->size != b->size)
		return a->size > b->size ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

static void compare_peak_blocks(const struct oracle *o, const struct report *r,
				const struct names *names, size_t top)
{
	const struct o_block **all = calloc(o->blocks_cnt + 1, sizeof(*all));
	size_t cnt = 0;

	o_must(all != NULL, "no memory");
	for (int dev = 0; dev < 256; dev++)
		for (size_t i = 0; i < o->devs[dev].at_peak_cnt; i++)
			if (counted(o, &o->blocks[o->devs[dev].at_peak[i]]))
				all[cnt++] = &o->blocks[o->devs[dev].at_peak[i]];
	qsort(all, cnt, sizeof(*all), block_cmp);
	top = top < PEAK_FREED_MAX ? top : PEAK_FREED_MAX; /* what report.h promises */
	EQ("peak blocks", r->peak_blocks.cnt, cnt < top ? cnt : top);
	for (size_t i = 0; i < r->peak_blocks.cnt; i++) {
		const struct report_block *b = &r->peak_blocks.rows[i];

		EQ("id", b->id, all[i]->id);
		EQ("size", b->size, all[i]->size);
		EQ("ptr", b->ptr, all[i]->ptr);
		EQ("born", b->allocated_ts_ns, all[i]->allocated);
		EQ("freed", b->freed_ts_ns, all[i]->live ? 0 : all[i]->freed);
		EQ("pid", b->pid, all[i]->pid);
		EQ("tid", b->tid, all[i]->tid);
		EQ("dev", b->dev, all[i]->dev);
		EQ_STR("op of a block", b->op, names__get(names, all[i]->op));
		EQ_STR("region of a block", b->region, names__get(names, all[i]->region));
	}
	free(all);
}

static void compare_proc(const struct oracle *o, const struct report_proc *r, const struct o_life *l,
			 const struct names *names)
{
	uint64_t mapped = 0;

	for (int i = 0; i < ORACLE_PAGES; i++)
		mapped += l->pages[i] * ORACLE_PAGE;
	EQ("pid", r->pid, l->pid);
	EQ("ppid", r->ppid, l->ppid);
	EQ("gone", r->gone, l->gone);
	EQ("how", r->how, l->how);
	EQ("exit status", r->exit_status, l->exit_status);
	EQ("process live", r->live, l->live);
	EQ("process peak", r->peak, l->peak);
	EQ("process host live", r->host_live, l->host_live);
	EQ("process host peak", r->host_peak, l->host_peak);
	EQ("process allocs", r->allocs, counts_host(o) ? l->host_allocs : l->allocs);
	EQ("process frees", r->frees, counts_host(o) ? l->host_frees : l->frees);
	EQ("live at exit", r->live_at_exit, l->live_at_exit);
	EQ("rss peak", r->rss_peak, l->rss_peak);
	EQ("rss", r->rss_total,
	   l->rss[MT_RSS_FILE] + l->rss[MT_RSS_ANON] + l->rss[MT_RSS_SHMEM]);
	EQ("mapped", r->mapped, mapped);
	EQ("mapped peak", r->mapped_peak, l->mapped_peak);
	EQ("brk", r->brk_growth, l->brk_growth);
	EQ("cpu", r->cpu_ns, l->cpu);
	EQ_STR("comm", r->comm, names__get(names, l->comm));
	EQ_STR("cmdline", r->cmdline, names__get(names, l->cmdline));
}

/* The exited processes that lost their rows are the first to have exited. */
static void compare_procs(const struct oracle *o, const struct report *r, const struct names *names)
{
	o_must(o->lives_cnt <= 1024, "the simulator made more processes than keep their rows");
	EQ("processes", r->procs_cnt, o->lives_cnt);
	for (size_t i = 0; i < r->procs_cnt; i++)
		compare_proc(o, &r->procs[i], &o->lives[i], names);
}

void oracle__compare(const struct oracle *o, const struct report *r, const struct names *names,
		     size_t top)
{
	size_t devs = 0;

	EQ("start", r->run.start_ts_ns, o->start);
	EQ("end", r->run.end_ts_ns, o->now);
	o_must(!memcmp(r->run.events, o->events, sizeof(o->events)), "event counts differ");
	for (int i = 0; i < MT_LOSS_MAX; i++)
		EQ(loss_name((unsigned)i) ? loss_name((unsigned)i) : "loss", r->run.lost[i], o->lost[i]);
	for (int i = 0; i < 256; i++)
		devs += (size_t)o->devs[i].seen;
	EQ("devices", r->devs_cnt, devs);
	for (size_t i = 0; i < r->devs_cnt; i++) {
		o_must(!i || r->devs[i - 1].dev < r->devs[i].dev, "devices are not in order");
		compare_dev(o, &r->devs[i]);
	}
	compare_ops(o, r, names, top);
	compare_peak_blocks(o, r, names, top);
	compare_procs(o, r, names);
	compare_series(&r->kernel.rss, o->rss, o->rss_cnt, o->start, o->now);
	if (o->steps)
		EQ("steps", r->marks.steps_total, o->steps);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * From state to plain data. Everything that is sorted is sorted by a total order, down to the row's
 * number (order of first sight): qsort is not stable, and two reports of one event sequence must be
 * the same bytes. Rows of ops and regions add up the devices of one layer (model__counts_host).
 *
 * The one cost that grows with the job is the walk over the live blocks for those at the peak:
 * 11 ms at a million (tests/bench/bench_model).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/regions.h"
#include "model/flow/flow.h"
#include "model/reports.h"
#include "model/state.h"
#include "timeline/report.h"

struct ranked_op {
	struct report_op op;
	const char *name;
	uint32_t row;
};

static char *copy_name(const struct model *m, name_id name)
{
	return strdup(names__get(m->names, name));
}

/* An array that may be of length 0 but is never NULL. */
static void *array_of(size_t cnt, size_t size)
{
	return calloc(cnt ? cnt : 1, size);
}

/* --- devices ------------------------------------------------------------------------------------- */

/* A series has no points where nothing was traced. */
static void series__leave_out(struct series *s, const struct gaps *g)
{
	size_t kept = 0;

	for (size_t i = 0; g->cnt && i < s->cnt; i++)
		if (gaps__clock(g, s->points[i].ts_ns) != gaps__clock(g, s->points[i].ts_ns + s->bucket_ns))
			s->points[kept++] = s->points[i];
	s->cnt = g->cnt ? kept : s->cnt;
}

/* That of gaps has none where allocations were not seen. */
static int report_dev__fill_between(struct report_dev *r, const struct device *d, uint64_t now_ns)
{
	struct series *s = &r->between;
	size_t kept = 0;

	if (!d->between)
		return 0;
	if (series_acc__copy(d->between, now_ns, s) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < s->cnt; i++)
		if (gaps__saw(d->gaps, s->points[i].ts_ns, s->points[i].ts_ns + s->bucket_ns))
			s->points[kept++] = s->points[i];
	s->cnt = kept;
	return 0;
}

static int report_dev__fill(struct report_dev *r, const struct device *d, uint64_t now_ns)
{
	*r = (struct report_dev){
		.dev = d->dev, .peak = d->peak, .peak_ts_ns = d->peak_ts_ns,
		.allocs = d->allocs, .frees = d->frees, .alloc_bytes = d->alloc_bytes,
		.free_bytes = d->free_bytes, .preexisting_frees = d->preexisting_frees,
		.dropped = d->dropped - d->unseen, .dropped_bytes = d->dropped_bytes - d->unseen_bytes,
		.unseen_blocks = d->unseen, .unseen_bytes = d->unseen_bytes, .preexisting_blocks = d->late - d->carried,
		.preexisting_bytes = d->late_bytes - d->carried_bytes, .carried_blocks = d->carried,
				.carried_bytes = d->carried_bytes, .ooms = d->ooms,
		.oom_bytes_last = d->oom_bytes_last, .byte_ns = device__byte_ns(d, gaps__clock(d->gaps, now_ns)),
	};
	for (int c = 0; c < CAT_MAX; c++)
		r->cats[c] = (struct report_cat){
			.live = device__live_of(d, c),
			.at_peak = device_cat__at_peak(&d->cats[c], d->epoch),
			.byte_ns = device_cat__byte_ns(&d->cats[c], gaps__clock(d->gaps, now_ns)),
		};
	for (int c = 0; c < CAT_MAX; c++)
		r->live += r->cats[c].live;
	if (!d->peak && r->live) { /* nothing was traced yet: the peak is what is live */
		r->peak = r->live;
		r->peak_ts_ns = now_ns;
		for (int c = 0; c < CAT_MAX; c++)
			r->cats[c].at_peak = r->cats[c].live;
	}
	r->highs_cnt = highs__report(&d->highs, now_ns, r->highs);
	if (series_acc__copy(&d->series, now_ns, &r->series) < 0)
		return -ENOMEM;
	series__leave_out(&r->series, d->gaps);
	return report_dev__fill_between(r, d, now_ns);
}

/* One walk over all blocks, so after the devices. */
static void model__report_plain(const struct model *m, struct report *r)
{
	int64_t moved[TALLY_DEVS_MAX][CAT_MAX];

	if (!m->graph)
		return;
	graph__plain(m->graph, m->devs, m->devs_cnt, moved);
	for (size_t i = 0; i < r->devs_cnt; i++)
		for (int c = 0; c < CAT_MAX && r->devs[i].peak; c++)
			r->devs[i].cats[c].plain = moved[m->dev_idx[r->devs[i].dev] - 1][c];
}

static int model__report_devs(const struct model *m, struct report *r)
{
	r->devs = array_of(m->devs_cnt, sizeof(*r->devs));
	if (!r->devs)
		return -ENOMEM;
	for (unsigned dev = 0; dev < 256; dev++) {
		if (!m->dev_idx[dev])
			continue;
		if (report_dev__fill(&r->devs[r->devs_cnt++], m->devs[m->dev_idx[dev] - 1],
				     m->now_ns) < 0 ||
		    model__gpu_report(m, (uint8_t)dev, &r->devs[r->devs_cnt - 1]) < 0)
			return -ENOMEM;
	}
	model__report_plain(m, r);
	return model__gpu_report_unknown(m, r);
}

/* --- ops and regions ------------------------------------------------------------------------------- */

static void ranked_op__add(struct ranked_op *k, const struct model *m, const struct tally *t, uint32_t row)
{
	bool host = model__counts_host(m);

	k->op.count += t->rows[row].count;
	for (unsigned i = 0; i < m->devs_cnt; i++) {
		const struct tally_cell *c;

		if (dev_is_host(m->devs[i]->dev) != host || row >= t->devs[i].cnt)
			continue;
		c = &t->devs[i].cells[row];
		k->op.alloc_count += c->alloc_count;
		k->op.alloc_bytes += c->alloc_bytes;
		k->op.live_count += c->live_count;
		k->op.live += cell__live_of(c, device__hides(m->devs[i]));
		k->op.at_peak += cell__at_peak(c, m->devs[i]->epoch);
	}
}

/* All rows, "none" at 0; what is shown as another row is in that one, and has no row number. */
static struct ranked_op *ranked_all(const struct model *m, const struct tally *t)
{
	struct ranked_op *all = array_of(t->cnt, sizeof(*all));

	for (uint32_t row = 0; all && row < t->cnt; row++) {
		uint32_t shown = tally__shown(t, row);

		ranked_op__add(&all[shown], m, t, row);
		if (shown != row)
			continue;
		all[row].row = row;
		all[row].name = names__get(m->names, t->rows[row].name);
		all[row].op.is_node = t->rows[row].is_node;
	}
	return all;
}

static int ranked_op__cmp(const void *pa, const void *pb)
{
	const struct ranked_op *a = pa, *b = pb;

	return cmp_down(a->op.at_peak, b->op.at_peak) ?: cmp_down(a->op.alloc_bytes, b->op.alloc_bytes) ?:
	       cmp_down(a->op.count, b->op.count) ?: strcmp(a->name, b->name) ?: cmp_up(a->row, b->row);
}

/* `none` gets what has no name. */
static int model__report_tally(const struct model *m, const struct tally *t, size_t top, struct report_ops *r)
{
	struct ranked_op *ranked = ranked_all(m, t);
	size_t cnt;
	int err = 0;

	if (!ranked)
		return -ENOMEM;
	r->none = ranked[0].op;
	for (uint32_t row = 1; row < t->cnt; row++)
		if (ranked[row].row)
			ranked[r->total++] = ranked[row];
	cnt = r->total < top ? r->total : top;
	r->rows = array_of(cnt, sizeof(*r->rows));
	if (!r->rows) {
		free(ranked);
		return -ENOMEM;
	}
	qsort(ranked, r->total, sizeof(*ranked), ranked_op__cmp);
	for (; r->cnt < cnt && !err; r->cnt++) {
		struct report_op *op = &r->rows[r->cnt];

		*op = ranked[r->cnt].op;
		op->name = strdup(ranked[r->cnt].name);
		err = op->name ? 0 : -ENOMEM;
	}
	free(ranked);
	return err;
}

static int model__report_ops(const struct model *m, size_t top, struct report *r)
{
	int err = model__report_tally(m, &m->regions, top, &r->regions);

	r->regions.none = (struct report_op){ 0 }; /* blocks outside of regions are not reported */
	err = err ? err : model__report_tally(m, &m->ops, top, &r->ops);
	if (err)
		return err;
	r->ops.none.name = strdup("");
	return r->ops.none.name ? 0 : -ENOMEM;
}

static uint64_t model__steps(const struct model *m)
{
	uint64_t steps = 0;

	if (m->steps)
		return m->steps;
	for (uint32_t row = 1; row < m->regions.cnt; row++) {
		const struct tally_row *t = &m->regions.rows[row];

		if (!t->is_node && region_is_step(names__get(m->names, t->name)))
			steps += t->count;
	}
	return steps ? steps : m->modules.marks_by_kind[MARK_STEP]; /* a compiled optimizer's: it has no region */
}

/* --- processes ------------------------------------------------------------------------------------ */

static int report_proc__labels(struct report_proc *r, const struct model *m, const struct proc *p)
{
	r->labels = array_of(p->labels_cnt, sizeof(*r->labels));
	if (!r->labels)
		return -ENOMEM;
	for (; r->labels_cnt < p->labels_cnt; r->labels_cnt++) {
		r->labels[r->labels_cnt] = copy_name(m, p->labels[r->labels_cnt]);
		if (!r->labels[r->labels_cnt])
			return -ENOMEM;
	}
	return 0;
}

/* As device__live_of(). */
static uint64_t side_live(const struct model *m, const struct proc_side *s)
{
	return gaps__is_open(&m->gaps) && s->peak && s->traced_live < s->live ? s->traced_live : s->live;
}

/* In a gap only live bytes are known, where nothing was traced before. */
static uint64_t side_peak(const struct model *m, const struct proc_side *s)
{
	return s->peak || !gaps__is_open(&m->gaps) ? s->peak : s->live;
}

static int report_proc__devs(struct report_proc *r, const struct model *m, const struct proc *p)
{
	r->devs = array_of(p->devs_cnt, sizeof(*r->devs));
	if (!r->devs)
		return -ENOMEM;
	for (; r->devs_cnt < p->devs_cnt; r->devs_cnt++)
		r->devs[r->devs_cnt] = (struct report_proc_dev){ side_peak(m, &p->devs[r->devs_cnt].side),
								 p->devs[r->devs_cnt].dev };
	return 0;
}

static int report_proc__fill(struct report_proc *r, const struct model *m, const struct proc *p)
{
	bool host = model__counts_host(m);

	*r = (struct report_proc){
		.pid = p->pid, .ppid = p->ppid, .live = side_live(m, &p->fw),
		.peak = side_peak(m, &p->fw),
		.peak_ts_ns = host ? p->host.peak_ts_ns : p->fw.peak_ts_ns,
		.allocs = host ? p->host_allocs : p->allocs,
		.frees = host ? p->host_frees : p->frees, .host_live = side_live(m, &p->host),
		.host_peak = p->host.peak, .rss_total = proc__rss(p), .rss_peak = p->rss_peak,
		.mapped = p->mapped.bytes, .mapped_peak = p->mapped_peak,
		.brk_growth = p->brk_growth, .cpu_ns = p->cpu_ns, .set_ts_ns = p->set_ts_ns,
		.module_ts_ns = p->module_ts_ns, .live_at_exit = p->live_at_exit,
		.settling_from_ns = p->settling_from_ns, .settling_to_ns = p->settling_to_ns,
		.exit_status = p->exit_status, .exit_ts_ns = p->exit_ts_ns, .gone = p->gone, .how = p->how,
	};
	memcpy(r->rss, p->rss, sizeof(r->rss));
	memcpy(r->use, p->use, sizeof(r->use));
	r->use_ts_ns = p->use_ts_ns;
	r->use_unknown = p->use_unknown;
	r->own = p->own;
	r->own.points = array_of(p->own.points_cnt, sizeof(*r->own.points));
	if (!r->own.points)
		return -ENOMEM;
	if (p->own.points_cnt)
		memcpy(r->own.points, p->own.points, p->own.points_cnt * sizeof(*r->own.points));
	memcpy(r->marks_cnt, p->marks_cnt, sizeof(r->marks_cnt));
	memcpy(r->marks, p->marks, sizeof(r->marks));
	r->highest_step = p->highest_step;
	r->comm = p->listed ? copy_name(m, p->comm) : strdup("(other processes)");
	r->cmdline = copy_name(m, p->cmdline);
	if (!r->comm || !r->cmdline || report_proc__devs(r, m, p) < 0)
		return -ENOMEM;
	return report_proc__labels(r, m, p);
}

static int model__report_procs(const struct model *m, struct report *r)
{
	const struct procs *ps = &m->procs;
	const struct proc *p;

	r->procs = array_of(ps->cnt + 1, sizeof(*r->procs));
	if (!r->procs)
		return -ENOMEM;
	TAILQ_FOREACH(p, &ps->all, all)
		if (report_proc__fill(&r->procs[r->procs_cnt++], m, p) < 0)
			return -ENOMEM;
	p = &ps->other;
	if (ps->folded || p->allocs || p->host_allocs)
		return report_proc__fill(&r->procs[r->procs_cnt++], m, p);
	return 0;
}

/* --- memtrace's reports of itself ----------------------------------------------------------------- */

static int by_fired(const void *a, const void *b)
{
	const struct report_symbol *x = a, *y = b;

	return cmp_down(x->fired, y->fired) ?: strcmp(x->name, y->name);
}

static int model__report_symbols(const struct model *m, struct report_probes *r)
{
	const struct reported *t = &m->reported;

	r->symbols = array_of(t->symbols_cnt, sizeof(*r->symbols));
	if (!r->symbols)
		return -ENOMEM;
	for (size_t i = 0; i < t->symbols_cnt; i++) {
		const struct reported_symbol *s = &t->symbols[i];
		size_t key = (size_t)s->name.v * 2;
		uint64_t fired = s->fired;

		uint32_t row = key < m->ops.row_of_cnt ? m->ops.row_of[key] : 0;

		if (s->prog == MT_PROG_OP || s->prog == MT_PROG_FLOW_OP)
			fired = row ? m->ops.rows[row].count : 0; /* row 0 is for those without a name */
		r->symbols[i] = (struct report_symbol){ .name = copy_name(m, s->name), .source = s->source,
							.found = s->found, .attached = s->attached,
							.fired = fired };
		r->symbols_cnt++;
		if (!r->symbols[i].name)
			return -ENOMEM;
	}
	qsort(r->symbols, r->symbols_cnt, sizeof(*r->symbols), by_fired);
	return 0;
}

static void model__report_price(const struct model *m, struct report_price *ret)
{
	const struct proc *p;

	TAILQ_FOREACH(p, &m->procs.all, all)
		if (p->price)
			price__report(p->price, p->pid, ret);
}

static int model__report_idle(const struct model *m, struct report_probes *r)
{
	const struct reported *t = &m->reported;
	size_t cnt = t->late_cnt < REPORTED_LATE_MAX ? (size_t)t->late_cnt : REPORTED_LATE_MAX;

	r->attach = m->attach;
	r->idle_ts_ns = t->idle_ts_ns;
	r->idle_ops = t->idle_ops;
	r->idle_cnt = t->idle_probes;
	r->late_ops_total = t->late_cnt;
	r->late_ops = array_of(cnt, sizeof(*r->late_ops));
	if (!r->late_ops)
		return -ENOMEM;
	for (size_t i = 0; i < cnt; i++) {
		const struct reported_late *l = &t->late[i];

		r->late_ops[r->late_ops_cnt++] = (struct report_late_op){
			.name = copy_name(m, l->name), .pid = l->pid, .ts_ns = l->ts_ns, .missed_ns = l->missed_ns };
		if (!r->late_ops[i].name)
			return -ENOMEM;
	}
	return 0;
}

static int model__report_reported(const struct model *m, struct report *r)
{
	const struct reported *t = &m->reported;

	r->probes.covers = array_of(t->covers_cnt, sizeof(*r->probes.covers));
	r->run.notes = array_of(t->notes_cnt, sizeof(*r->run.notes));
	if (!r->probes.covers || !r->run.notes)
		return -ENOMEM;
	for (size_t i = 0; i < t->covers_cnt; i++) {
		const struct reported_cover *c = &t->covers[i];

		r->probes.covers[i] = (struct report_cover){ .pid = c->pid, .found = c->found,
			.attached = c->attached, .source = copy_name(m, c->source) };
		r->probes.covers_cnt++;
		if (!r->probes.covers[i].source)
			return -ENOMEM;
	}
	for (size_t i = 0; i < t->notes_cnt; i++) {
		r->run.notes[r->run.notes_cnt++] = copy_name(m, t->notes[i]);
		if (!r->run.notes[i])
			return -ENOMEM;
	}
	return model__report_idle(m, &r->probes) ?: model__report_symbols(m, &r->probes);
}

void model__overhead(const struct model *m, uint64_t *ret_probe_ns, uint64_t *ret_cpu_ns)
{
	*ret_probe_ns = reported__probe_ns(&m->reported);
	*ret_cpu_ns = procs__cpu_ns(&m->procs, UINT64_MAX);
}

/*
 * The most that the job can have lost. A process's CPU time counts up to the time passed by the clock: threads that wait for
 * the probed one lose the same time. Without memtrace the job would have had its CPU time as well.
 */
static double model__overhead_most(const struct model *m)
{
	uint64_t probe_ns, cpu_ns, self_ns = m->reported.self_cpu_ns, took = m->now_ns - m->start_ts_ns, serial_ns;
	double most;

	model__overhead(m, &probe_ns, &cpu_ns);
	serial_ns = took ? procs__cpu_ns(&m->procs, took) : cpu_ns;
	most = (double)(probe_ns + self_ns) / (double)(serial_ns + self_ns);
	return most < 1 ? most : 1;
}

static void model__report_cost(const struct model *m, struct report_cost *r)
{
	model__report_price(m, &r->price);
	for (int i = 0; i < MT_PROG_MAX; i++) {
		r->programs[i].hits = m->reported.costs[i].hits;
		r->programs[i].ns = m->reported.costs[i].ns;
		r->hits += r->programs[i].hits;
	}
	model__overhead(m, &r->ns, &r->target_cpu_ns);
	r->self_rss = m->reported.self_rss;
	r->self_cpu_ns = m->reported.self_cpu_ns;
	if (!r->target_cpu_ns)
		return;
	r->share = (double)r->ns / (double)r->target_cpu_ns;
	r->share_most = model__overhead_most(m);
}

static int model__report_head(const struct model *m, struct report *r)
{
	r->run.start_ts_ns = m->start_ts_ns;
	r->run.end_ts_ns = m->now_ns;
	r->run.epoch_off_ns = m->reported.epoch_off_ns;
	r->run.pid = m->reported.main_pid;
	r->run.ended = m->reported.ended;
	r->run.end_reason = m->reported.end_reason;
	r->marks.steps_total = model__steps(m);
	memcpy(r->run.events, m->events, sizeof(r->run.events));
	r->has_flow = m->graph != NULL;
	r->classes = m->classes;
	if (m->graph)
		graph__report(m->graph, &r->flow);
	for (int i = 0; i < MT_LOSS_MAX; i++)
		r->run.lost[i] = m->reported.lost[i] + m->lost[i];
	r->run.lost[MT_LOSS_NAMES] += m->ops.overflow + m->regions.overflow + m->modules.held.overflow;
	r->run.host = copy_name(m, m->reported.host);
	r->run.comm = copy_name(m, m->main_comm);
	r->run.cmdline = copy_name(m, m->main_cmdline);
	return r->run.host && r->run.comm && r->run.cmdline ? 0 : -ENOMEM;
}

static int model__report_kernel(const struct model *m, struct report_kernel *r)
{
	int err = series_acc__copy(&m->rss, m->now_ns, &r->rss);

	for (unsigned i = 0; i < MT_RSS_KINDS && !err; i++)
		err = series_acc__copy(&m->rss_kinds[i], m->now_ns, &r->kinds[i]);
	err = err ? err : series_acc__copy(&m->pss, m->now_ns, &r->pss);
	err = err ? err : series_acc__copy(&m->huge, m->now_ns, &r->huge);
	series__leave_out(&r->rss, &m->pauses);
	series__leave_out(&r->pss, &m->pauses);
	series__leave_out(&r->huge, &m->pauses);
	for (unsigned i = 0; i < MT_RSS_KINDS; i++)
		series__leave_out(&r->kinds[i], &m->pauses);
	memcpy(r->use, m->procs.use_total, sizeof(r->use));
	r->use_unknown_cnt = procs__unknown_cnt(&m->procs);
	return err;
}

int model__report(const struct model *m, size_t top, struct report **ret)
{
	struct report *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	err = model__report_head(m, r);
	err = err ? err : model__report_sampling(m, &r->sampling);
	model__report_cost(m, &r->cost);
	err = err ? err : model__report_reported(m, r);
	err = err ? err : model__report_devs(m, r);
	err = err ? err : model__oom_report(m, r);
	err = err ? err : model__report_ops(m, top, r);
	err = err ? err : model__report_stacks(m, top, &r->stacks);
	err = err ? err : model__report_procs(m, r);
	err = err ? err : model__report_lanes(m, &r->lanes);
	err = err ? err : model__report_tensors(m, top, &r->names);
	err = err ? err : model__report_modules(m, r);
	err = err ? err : model__report_saved(m, top, &r->saved);
	err = err ? err : model__report_peak_blocks(m, top, &r->peak_blocks);
	err = err ? err : model__gpu_rows(m, 0, -1, top < PEAK_FREED_MAX ? top : PEAK_FREED_MAX, &r->driver.rows,
					    &r->driver.cnt);
	err = err ? err : model__gpu_pools(m, top < PEAK_FREED_MAX ? top : PEAK_FREED_MAX, &r->driver);
	err = err ? err : growth__report(m, top, r);
	err = err ? err : model__report_compiles(m, &r->compiles);
	err = err ? err : model__report_places(m, &r->places);
	if (!err && m->started)
		err = model__report_kernel(m, &r->kernel);
	if (err) {
		report__free(r);
		return err;
	}
	*ret = r;
	return 0;
}

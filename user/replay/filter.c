/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "replay/filter.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "replay/replay.h"
#include "timeline/report.h"
#include "view/report_words.h"

#define LISTED 3 /* of the ones there are, when another was asked for */

void filter__init(struct filter *f, const struct selection *asked, const char *path)
{
	*f = (struct filter){ .path = path, .asked = *asked, .shown = *asked };
	sieve__init(&f->sieve);
	f->firsts = MAP_OF(struct filter_first);
	f->shown.pids_cnt = 0;
}

void filter__done(struct filter *f)
{
	sieve__done(&f->sieve);
	spans__done(&f->spans);
	free(f->pids);
	map__done(&f->firsts);
}

/* 0 or -ENOMEM. */
static int see(struct filter *f, uint32_t pid, uint64_t ns)
{
	struct filter_first *first = map__put(&f->firsts, pid);

	if (!first)
		return -ENOMEM;
	if (!first->ns)
		first->ns = ns;
	return 0;
}

/* Of the processes that were chosen, not of others. */
static void see_chosen(struct filter *f)
{
	if (f->pids_cnt)
		f->seen_ns = 0;
	for (size_t i = 0; i < f->pids_cnt; i++) {
		const struct filter_first *first = map__find(&f->firsts, f->pids[i]);

		if (first && (!f->seen_ns || first->ns < f->seen_ns))
			f->seen_ns = first->ns;
	}
}

int filter__learn(struct filter *f, const struct tl_event *ev)
{
	int r;

	if (ev->kind == TL_PINNED) /* of no block */
		return 0;
	if (!f->start_ns)
		f->start_ns = ev->ts_ns;
	if (!f->seen_ns && ev->kind == TL_CREATE)
		f->seen_ns = ev->ts_ns;
	if (ev->kind == TL_CREATE && see(f, ev->pid, ev->ts_ns))
		return -ENOMEM;
	r = spans__event(&f->spans, ev, f->start_ns);
	return r ? r : sieve__learn(&f->sieve, ev);
}

/* --- processes ----------------------------------------------------------------------------------------------- */

static int add_pid(struct filter *f, uint32_t pid)
{
	uint32_t *more;

	if (f->pids_cnt && pid_is_one_of(f->pids, f->pids_cnt, pid))
		return 0;
	more = realloc(f->pids, (f->pids_cnt + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	f->pids = more;
	f->pids[f->pids_cnt++] = pid;
	return 0;
}

static int no_rank(const struct filter *f, const struct report *r, struct err *err)
{
	uint32_t n, low = UINT32_MAX, high = 0;

	for (size_t i = 0; i < r->procs_cnt; i++)
		if (report_rank(r, r->procs[i].pid, &n)) {
			low = n < low ? n : low;
			high = n > high ? n : high;
		}
	err_set(err, -ENODATA, "%s has no rank %" PRId64, f->path, f->asked.rank);
	return low <= high ? err_hint(err, "it has ranks %" PRIu32 " to %" PRIu32, low, high), -ENODATA :
			     err_hint(err, "none of its processes has one; --pid chooses a process"), -ENODATA;
}

static int find_rank(struct filter *f, const struct report *r, struct err *err)
{
	uint32_t n = 0;

	for (size_t i = 0; i < r->procs_cnt; i++)
		if (report_rank(r, r->procs[i].pid, &n) && n == f->asked.rank && add_pid(f, r->procs[i].pid))
			return err_set(err, -ENOMEM, "out of memory");
	return f->pids_cnt ? 0 : no_rank(f, r, err);
}

int filter__find_pids(struct filter *f, const struct report *r, struct err *err)
{
	const char *which = f->asked.is_of_two ? "; --pid A,B is process A of the first recording and B of the second" : "";

	for (size_t k = 0; k < f->asked.pids_cnt; k++) {
		uint32_t pid = f->asked.pids[k];
		size_t i = 0;

		while (i < r->procs_cnt && r->procs[i].pid != pid)
			i++;
		if (i == r->procs_cnt) {
			err_set(err, -ENODATA, "%s has no process %" PRIu32, f->path, pid);
			return err_hint(err, "memtrace report %.200s --by process lists them%s", f->path, which), -ENODATA;
		}
		if (add_pid(f, pid))
			return err_set(err, -ENOMEM, "out of memory");
	}
	f->shown.pids = f->pids;
	f->shown.pids_cnt = f->asked.rank < 0 ? f->pids_cnt : 0;
	return f->asked.rank < 0 ? 0 : find_rank(f, r, err);
}

/* --- categories, modules, operators: do they exist? ------------------------------------------------------------ */

struct largest {
	const char *prefix[LISTED], *text[LISTED];
	uint64_t bytes[LISTED];
};

static void largest__try(struct largest *l, const char *prefix, const char *text, uint64_t bytes)
{
	size_t at = LISTED;

	while (at && (!l->text[at - 1] || l->bytes[at - 1] < bytes))
		at--;
	for (size_t i = LISTED - 1; i > at; i--) {
		l->prefix[i] = l->prefix[i - 1];
		l->text[i] = l->text[i - 1];
		l->bytes[i] = l->bytes[i - 1];
	}
	if (at < LISTED) {
		l->prefix[at] = prefix;
		l->text[at] = text;
		l->bytes[at] = bytes;
	}
}

static int no_such(const char *kind, const char *wanted, const struct largest *l, struct err *err)
{
	char all[400] = "", one[TEXT_BYTES_MAX], whole[TEXT_BYTES_MAX];

	for (size_t i = 0; i < LISTED && l->text[i]; i++) {
		snprintf(whole, sizeof(whole), "%.100s%s%.200s", l->prefix[i], *l->prefix[i] && *l->text[i] ? "." : "",
			 l->text[i]);
		text_fit(one, sizeof(one), whole, 60);
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%.100s", i ? ", " : "", one);
	}
	err_set(err, -ENODATA, "no %s called %.100s", kind, wanted);
	return all[0] ? err_hint(err, "the largest are %s", all) : err_hint(err, "the recording has none at all"), -ENODATA;
}

static int has_module(const struct filter *f, const struct report *r, struct err *err)
{
	struct largest l = { .text = { NULL } };

	for (size_t i = 0; i < r->modules.cnt; i++) {
		const struct report_module *m = &r->modules.rows[i];

		if (!m->name)
			continue;
		if (module_is_wanted(f->asked.module, m->name, m->root))
			return 0;
		largest__try(&l, m->root, m->name, m->own.alloc_bytes);
	}
	return no_such("module", f->asked.module, &l, err);
}

static int has_op(const struct filter *f, const struct report *r, struct err *err)
{
	struct largest l = { .text = { NULL } };

	for (size_t i = 0; i < r->ops.cnt; i++) {
		if (op_is_wanted(f->asked.op, r->ops.rows[i].name))
			return 0;
		largest__try(&l, "", r->ops.rows[i].name, r->ops.rows[i].alloc_bytes);
	}
	return no_such("operator", f->asked.op, &l, err);
}

static int has_category(const struct filter *f, const struct report *r, struct err *err)
{
	const char *name = category_name((enum category)f->asked.category);
	uint64_t sums[CAT_MAX] = { 0 };
	struct largest l = { .text = { NULL } };

	if (!r->has_flow) {
		err_set(err, -ENODATA, "%s has no data flow, so no categories", f->path);
		return err_hint(err, "record without --probes, or with framework,flow,regions"), -ENODATA;
	}
	for (size_t i = 0; i < r->devs_cnt; i++)
		for (int c = 0; c < CAT_MAX; c++)
			sums[c] += r->devs[i].cats[c].byte_ns + r->devs[i].cats[c].live;
	if (sums[f->asked.category])
		return 0;
	for (int c = 0; c < CAT_MAX; c++)
		if (sums[c])
			largest__try(&l, "", category_name((enum category)c), sums[c]);
	return no_such("category", name, &l, err);
}

/* --- when ------------------------------------------------------------------------------------------------------ */

static int no_step(const struct filter *f, uint64_t step, struct err *err)
{
	uint64_t first, last;
	int has = spans__numbers(&f->spans, f->pids, f->pids_cnt, &first, &last);

	err_set(err, -ENODATA, "%s has no whole step %" PRIu64, f->path, step);
	return has ? err_hint(err, "it has steps %" PRIu64 " to %" PRIu64, first, last) :
		     err_hint(err, "it has no steps: --at 12.5s, a time since its begin, or --at peak"), -ENODATA;
}

static bool is_chosen(const struct filter *f, uint32_t pid)
{
	return !f->pids_cnt || pid_is_one_of(f->pids, f->pids_cnt, pid);
}

/* As report_traced_from_ns(), of those that were chosen: others may have had their probes before. */
static uint64_t traced_from_ns(const struct filter *f, const struct report *r)
{
	uint64_t ret = UINT64_MAX;

	if (!f->pids_cnt)
		return report_traced_from_ns(r);
	for (size_t i = 0; i < r->procs_cnt; i++) {
		const struct report_proc *p = &r->procs[i];

		if (is_chosen(f, p->pid) && p->set_ts_ns < ret && (p->set_ts_ns || p->peak || p->host_peak))
			ret = p->set_ts_ns;
	}
	return ret < r->run.start_ts_ns || ret > r->run.end_ts_ns ? r->run.start_ts_ns : ret;
}

/* Marks of steps are seen before anything else is. */
static int step_before_probes(const struct filter *f, const struct report *r, struct err *err)
{
	const char *why = "nothing was";
	char a[24];

	for (size_t i = 0; i < r->procs_cnt; i++)
		if (is_chosen(f, r->procs[i].pid) && r->procs[i].set_ts_ns >= f->sieve.span.to_ns)
			why = "probes were still being set";
	err_set(err, -ENODATA, "step %" PRIu64 " was over before the first allocation was seen, %s after the start",
		f->asked.at.num, fmt_ns(a, f->seen_ns - r->run.start_ts_ns));
	return err_hint(err, "%s: a later step, or --at peak", why), -ENODATA;
}

/* Memory of that time is unknown, so an empty answer would be wrong. */
static int time_before_probes(const struct filter *f, const struct report *r, uint64_t ns, struct err *err)
{
	char a[24], b[24], who[40] = "";

	if (f->asked.rank >= 0)
		snprintf(who, sizeof(who), " of rank %" PRId64, f->asked.rank);
	else if (f->pids_cnt == 1)
		snprintf(who, sizeof(who), " of process %" PRIu32, f->pids[0]);
	else if (f->pids_cnt)
		snprintf(who, sizeof(who), " of these processes");
	err_set(err, -ENODATA, "%s after the start probes%s were still being set: the first allocation%s was seen %s after it",
		fmt_ns(a, ns), who, who, fmt_ns(b, f->seen_ns - r->run.start_ts_ns));
	return err_hint(err, "a later time, or --at peak"), -ENODATA;
}

/* Nor is it known in a gap: ends of blocks that were live at its begin are not seen. */
static int time_in_gap(const struct filter *f, const struct report *r, const struct report_gap *g, struct err *err)
{
	const struct report_gap *gaps = r->sampling.gaps;
	uint64_t start_ns = r->run.start_ts_ns;
	char a[24], b[24];

	err_set(err, -ENODATA, "%s: nothing was traced from %s to %s after the start", f->path,
		fmt_ns(a, g->begin_ns - start_ns), fmt_ns(b, g->end_ns - start_ns));
	if (g == gaps && !r->sampling.is_on) /* between two recordings, the first of which was traced */
		return err_hint(err, "traced before that: --until %.3fs; or --at peak",
				(double)(g->begin_ns - start_ns) / 1e9), -ENODATA;
	if (g == gaps)
		return err_hint(err, "a later time, or --at peak"), -ENODATA;
	err_hint(err, "traced before that: --from %.3fs --until %.3fs; or --at peak",
		 (double)(g[-1].end_ns - start_ns) / 1e9, (double)(g->begin_ns - start_ns) / 1e9);
	return -ENODATA;
}

static int find_time(const struct filter *f, const struct report *r, uint64_t ns, struct span *ret, struct err *err)
{
	char a[24], b[24];

	if (ns > r->run.end_ts_ns - r->run.start_ts_ns) {
		err_set(err, -ENODATA, "%s after the start is after the end", fmt_ns(a, ns));
		return err_hint(err, "%.200s lasts %s", f->path, fmt_ns(b, r->run.end_ts_ns - r->run.start_ts_ns)), -ENODATA;
	}
	*ret = (struct span){ r->run.start_ts_ns + ns, r->run.start_ts_ns + ns };
	return 0;
}

/* The step that it is in: from the mark before it to the one after, which may not have come. */
static void find_peak(const struct filter *f, struct span *ret)
{
	uint64_t step;

	if (!spans__of_time(&f->spans, f->peak_ns, f->pids, f->pids_cnt, ret, &step))
		*ret = (struct span){ f->peak_ns, f->peak_ns };
}

/* Each job counts its own steps: their common span is no moment of any. */
static int whose_step(const struct filter *f, const struct report *r, uint64_t step, struct err *err)
{
	err_set(err, -EINVAL, "step %" PRIu64 " of which job? %s has %zu jobs", step, f->path, report_words_jobs(r));
	return err_hint(err, "--pid chooses a process: memtrace report %.200s --by process lists them", f->path), -EINVAL;
}

static int find_when(const struct filter *f, const struct report *r, const struct when *w, struct span *ret, struct err *err)
{
	if (w->kind == WHEN_TIME)
		return find_time(f, r, w->num, ret, err);
	if (w->kind == WHEN_PEAK)
		find_peak(f, ret);
	else if (!f->pids_cnt && spans__procs_of_step(&f->spans, w->num) > 1 && report_words_jobs(r) > 1)
		return whose_step(f, r, w->num, err);
	else if (!spans__of_step(&f->spans, w->num, f->pids, f->pids_cnt, ret))
		return no_step(f, w->num, err);
	return 0;
}

/* The peak's, else the last in which all was traced. Without steps it is all. */
static void find_one_step(struct filter *f)
{
	uint64_t number;

	f->one_step_is_peaks = spans__of_time(&f->spans, f->peak_ns, f->pids, f->pids_cnt, &f->sieve.span, &number);
	if (!f->one_step_is_peaks && !spans__last_traced(&f->spans, f->pids, f->pids_cnt, &f->sieve.span, &number))
		return;
	snprintf(f->one_step, sizeof(f->one_step), "step %" PRIu64, number);
	f->shown.at.text = f->one_step;
}

/* 0 if anything is known of the time asked for. */
static int span_is_known(const struct filter *f, const struct report *r, struct err *err)
{
	const struct span *span = &f->sieve.span;
	bool is_early = span->to_ns < f->seen_ns, is_step = f->asked.at.kind == WHEN_STEP;
	uint64_t to_ns = span->to_ns < r->run.end_ts_ns ? span->to_ns : r->run.end_ts_ns;
	const struct report_gap *gap = report_gap_around(r, span->from_ns ? span->from_ns : r->run.start_ts_ns, to_ns);

	if (f->asked.at.kind == WHEN_PEAK) /* known, or there is none */
		return 0;
	if (is_step && is_early && f->seen_ns >= r->run.start_ts_ns)
		return step_before_probes(f, r, err);
	if (!is_step && is_early && span->to_ns < traced_from_ns(f, r))
		return time_before_probes(f, r, span->to_ns > r->run.start_ts_ns ? span->to_ns - r->run.start_ts_ns : 0, err);
	return gap && (!r->sampling.learned.is_on || to_ns > gap->seen_ns) ? time_in_gap(f, r, gap, err) : 0;
}

static int find_span(struct filter *f, const struct report *r, struct err *err)
{
	struct span *span = &f->sieve.span, at;
	const struct selection *s = &f->asked;
	int e = 0;

	if (s->at.kind) {
		e = find_when(f, r, &s->at, span, err);
		return e ? e : span_is_known(f, r, err);
	}
	if (f->wants_one_step && !s->from.kind && !s->to.kind)
		find_one_step(f);
	if (s->from.kind && !(e = find_when(f, r, &s->from, &at, err)))
		span->from_ns = at.from_ns;
	if (!e && s->to.kind && !(e = find_when(f, r, &s->to, &at, err)))
		span->to_ns = at.to_ns;
	if (e)
		return e;
	if (span->from_ns > span->to_ns) {
		err_set(err, -EINVAL, "--from %.60s is after --to %.60s", s->from.text, s->to.text);
		return err_hint(err, "of a step --from is the beginning, and --to the end"), -EINVAL;
	}
	return s->from.kind || s->to.kind ? span_is_known(f, r, err) : 0;
}

/* The device of the peak, if none was named. */
static int peak_dev(const struct filter *f, const struct report *r)
{
	const struct report_dev *d = f->asked.dev < 0 ? report_dev_main(r) : NULL;

	return f->asked.dev >= 0 ? f->asked.dev : d ? d->dev : MT_DEV_CPU;
}

static bool wants_peak(const struct filter *f)
{
	const struct selection *s = &f->asked;

	return f->wants_peak || f->wants_one_step || s->at.kind == WHEN_PEAK || s->from.kind == WHEN_PEAK ||
	       s->to.kind == WHEN_PEAK;
}

/* The chosen processes have a peak of their own, at another moment than all together, and perhaps on another device. */
static int find_device_and_peak(struct filter *f, const struct report *r, struct err *err)
{
	struct replay_opts ro = { .top = 1, .classes = f->classes, .pids = f->pids, .pids_cnt = f->pids_cnt };
	struct report *own = NULL;
	struct replay_end end;
	int e = f->pids_cnt && wants_peak(f) ? replay_run(f->path, &ro, &own, &end, err) : 0;

	if (e < 0)
		return e;
	f->sieve.dev = peak_dev(f, own ? own : r);
	f->peak_ns = report_peak_ts_ns(own ? own : r, (uint8_t)f->sieve.dev);
	report__free(own);
	return 0;
}

int filter__settle(struct filter *f, const struct report *r, const struct labels *labels, const struct names *names,
		   struct err *err)
{
	int e = filter__find_pids(f, r, err);

	see_chosen(f);
	f->sieve.labels = labels;
	f->sieve.names = names;
	if (!e)
		e = find_device_and_peak(f, r, err);
	if (!e && f->asked.module)
		e = has_module(f, r, err);
	if (!e && f->asked.op)
		e = has_op(f, r, err);
	if (!e && f->asked.category >= 0)
		e = has_category(f, r, err);
	if (!e)
		e = find_span(f, r, err);
	f->sieve.module = f->asked.module;
	f->sieve.op = f->asked.op;
	f->sieve.category = f->asked.category;
	f->sieve.pids = f->pids;
	f->sieve.pids_cnt = f->pids_cnt;
	return e;
}

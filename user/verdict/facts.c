/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "verdict/facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "event/event.h"
#include "event/rank_label.h"
#include "timeline/report.h"
#include "verdict/rules.h"

const struct report_dev *facts_device(const struct report *r)
{
	const struct report_dev *best = NULL;
	unsigned best_layer = 0;

	for (size_t i = 0; i < r->devs_cnt; i++) {
		const struct report_dev *d = &r->devs[i];
		unsigned layer = d->dev == MT_DEV_HOST ? 1 : d->dev == MT_DEV_CPU ? 2 : 3;

		if (d->peak && (!best || layer > best_layer || (layer == best_layer && d->peak > best->peak))) {
			best = d;
			best_layer = layer;
		}
	}
	return best;
}

bool facts_is_malloc_watched(const struct report *r)
{
	return report_dev_find(r, MT_DEV_HOST);
}

bool facts_is_untraced(const struct report *r)
{
	const struct report_sampling *s = &r->sampling;

	return s->is_on && !s->steps_traced && (s->steps_seen || !r->run.events[MT_EV_ALLOC]);
}

uint64_t facts_world(const struct report *r)
{
	for (size_t i = 0; i < r->procs_cnt; i++) {
		struct rank_label l = report_proc_label(&r->procs[i]);
		int64_t n = rank_label__num(&l, RANK_WORLD);

		if (n > 1)
			return (uint64_t)n;
	}
	return 1;
}

const char *facts_worst_loss(const struct report *r)
{
	unsigned most = 0;

	for (unsigned i = 1; i < MT_LOSS_MAX; i++)
		if (i != MT_LOSS_STACK_RATE && r->run.lost[i] > r->run.lost[most])
			most = i;
	return most && loss_name(most) ? loss_name(most) : "?";
}

/* --- steps ----------------------------------------------------------------------------------------------- */

#define STEPS_MAX 1024

static const struct report_proc *proc_with_steps(const struct report *r)
{
	const struct report_proc *best = NULL;

	for (size_t i = 0; i < r->procs_cnt; i++)
		if (r->procs[i].highest_step.pid && (!best || r->procs[i].peak > best->peak))
			best = &r->procs[i];
	return best;
}

static uint8_t phase_of(const struct report *r, uint64_t peak)
{
	const struct report_phase *phases = r->modules.phases;
	unsigned best = 0;

	for (unsigned i = 1; i < PHASE_MAX; i++)
		if (phases[i].peak > phases[best].peak)
			best = i;
	return phases[best].peak + peak / NEAR_PART >= peak && phases[0].peak < phases[best].peak ? (uint8_t)best : 0;
}

/* Of one that began before its operators had their probes, less than all was seen. */
static bool step_was_seen(const struct step_marks *s, const struct report_proc *p, bool is_first)
{
	return s->begin_ts_ns >= p->set_ts_ns && (!is_first || step_marks__peak(s));
}

struct facts_steps facts_of_steps(const struct report *r)
{
	struct facts_steps f = { .proc = proc_with_steps(r) };
	uint64_t peaks[STEPS_MAX], unseen = 0;

	if (!f.proc)
		return f;
	f.peak = step_marks__peak(&f.proc->highest_step);
	for (size_t i = 0; i < r->marks.steps_cnt && f.cnt < STEPS_MAX; i++) {
		const struct step_marks *s = &r->marks.steps[i];

		if (s->pid != f.proc->pid)
			continue;
		if (step_was_seen(s, f.proc, !f.cnt))
			peaks[f.cnt++] = step_marks__peak(s);
		else
			unseen++;
	}
	f.phase = phase_of(r, f.proc->peak);
	if (!f.cnt)
		return f;
	qsort(peaks, f.cnt, sizeof(*peaks), u64_cmp);
	f.median = peaks[f.cnt / 2];
	for (size_t i = 0; i < f.cnt; i++) {
		f.near += peaks[i] >= f.peak - f.peak / NEAR_PART;
		f.high += peaks[i] >= f.median + (f.peak - f.median) / SPIKE_PART;
	}
	f.is_cut = f.proc->marks_cnt[MARK_STEP] > f.cnt + unseen;
	f.outside = f.proc->peak > f.peak && f.proc->peak - f.peak > f.peak / NEAR_PART;
	return f;
}

uint32_t facts_to_record(const struct report *r)
{
	const struct report_proc *steps = proc_with_steps(r);
	uint32_t pid = r->run.pid ? r->run.pid : steps ? steps->pid : 0;

	for (size_t i = 0; i < r->procs_cnt; i++)
		if (r->procs[i].pid == pid && r->procs[i].gone == 1)
			return 0;
	return pid;
}

/* --- memory was refused ------------------------------------------------------------------------------------ */

const struct report_oom *facts_refusal(const struct report *r)
{
	for (size_t i = r->ooms.cnt; i-- > 0;) {
		const struct report_oom *o = &r->ooms.rows[i];

		if (o->kind != OOM_DEATH || o->marked || o->killed)
			return o;
	}
	return NULL;
}

static int has_several(const struct report *r, int is_of_rss)
{
	size_t cnt = 0;

	for (size_t i = 0; i < r->procs_cnt; i++)
		cnt += (is_of_rss ? r->procs[i].rss_peak : r->procs[i].peak) > 0;
	return cnt > 1;
}

struct facts_rise facts_of_rise(const struct report *r, const struct report_oom *o)
{
	const struct report_dev *dev = report_dev_find(r, o->dev);
	const struct series *s = o->kind == OOM_DEATH ? &r->kernel.rss : dev ? &dev->series : NULL;
	uint64_t has = o->kind == OOM_DEATH ? o->rss_total : o->live;
	struct facts_rise f = { 0 }, none = { 0 };
	size_t first = 0;

	if (has_several(r, o->kind == OOM_DEATH) || (o->kind != OOM_DEATH && r->sampling.is_on))
		return none;
	while (s && first < s->cnt && !s->points[first].live_max)
		first++;
	if (!s || first == s->cnt || o->ts_ns < s->points[first].ts_ns + RISE_NS)
		return none;
	f.ns = (o->ts_ns - s->points[first].ts_ns) / 2;
	for (size_t i = first; i < s->cnt && s->points[i].ts_ns <= o->ts_ns - f.ns; i++)
		f.before = s->points[i].live_max > f.before ? s->points[i].live_max : f.before;
	return f.before >= has - has / RISE_PART ? none : f;
}

/* --- modules --------------------------------------------------------------------------------------------- */

#define MODULES_LOOKED_AT 4096
#define PATTERNS_MAX 64
struct pattern {
	struct facts_module m;
	uint64_t most; /* of one module */
};

/*
 * Digits between dots become "*": layers of a list are alike. Not those that a path begins with: an nn.Sequential's are not.
 * Returns 0 where the path is not known, or the root's.
 */
static int pattern_of(char buf[TEXT_BYTES_MAX], const char *path)
{
	size_t n = 0;

	if (!path || !path[0] || strlen(path) >= TEXT_BYTES_MAX)
		return 0;
	while (*path) {
		size_t len = strcspn(path, "."), digits = strspn(path, "0123456789");

		n += (size_t)snprintf(buf + n, TEXT_BYTES_MAX - n, "%.*s", (int)len, n && len && digits == len ? "*" : path);
		path += len;
		if (*path)
			buf[n++] = *path++;
		buf[n] = '\0';
	}
	return 1;
}

static void pattern__init(struct pattern *p, const char *path, const char *root)
{
	snprintf(p->m.path, sizeof(p->m.path), "%s", path);
	snprintf(p->m.root, sizeof(p->m.root), "%.60s", root ? root : "");
}

/* Sums of modules of one pattern, of all processes or of one; the root's own is not among them. Returns how many patterns. */
static size_t patterns_of(const struct report *r, uint32_t pid, uint64_t (*bytes)(const struct report_module *m),
			  struct pattern *all)
{
	size_t cnt = 0;
	char path[TEXT_BYTES_MAX];

	for (size_t i = 0; i < r->modules.cnt && i < MODULES_LOOKED_AT; i++) {
		uint64_t n = bytes(&r->modules.rows[i]);
		size_t k = 0;

		if (!n || (pid && r->modules.rows[i].pid != pid) || !pattern_of(path, r->modules.rows[i].name))
			continue;
		while (k < cnt && strcmp(all[k].m.path, path))
			k++;
		if (k == PATTERNS_MAX)
			continue;
		if (k == cnt)
			pattern__init(&all[cnt++], path, r->modules.rows[i].root);
		all[k].m.cnt++;
		all[k].m.bytes += n < UINT64_MAX - all[k].m.bytes ? n : 0;
		all[k].most = n > all[k].most ? n : all[k].most;
	}
	return cnt;
}

static uint64_t kept_of(const struct report_module *m)
{
	return m->all.recomputable;
}

static uint64_t peak_of(const struct report_module *m)
{
	return m->all.at_peak;
}

/* Nothing in it means anything to a shell, between quotes. */
static int is_plain(const char *path)
{
	return strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.*") == strlen(path);
}

/* "layers.*" holds "layers.*.attention". */
static int holds(const char *outer, const char *inner)
{
	size_t len = strlen(outer);

	return !strncmp(outer, inner, len) && inner[len] == '.';
}

struct facts_module facts_of_peak_module(const struct report *r)
{
	struct pattern *all = calloc(PATTERNS_MAX, sizeof(*all)), *best = NULL;
	size_t cnt = all ? patterns_of(r, 0, peak_of, all) : 0;
	struct facts_module f;

	for (int is_deeper = 1; is_deeper;) { /* from the outermost inwards */
		struct pattern *outer = best;

		is_deeper = 0;
		for (size_t i = 0; i < cnt; i++) {
			uint64_t least = outer ? outer->m.bytes / 100 * MODULE_PERCENT : 0;

			if (outer ? !holds(outer->m.path, all[i].m.path) || all[i].m.bytes < least : 0)
				continue;
			if (!is_deeper || all[i].m.bytes > best->m.bytes ||
			    (all[i].m.bytes == best->m.bytes && holds(all[i].m.path, best->m.path))) {
				best = &all[i];
				is_deeper = 1;
			}
		}
	}
	f = best ? best->m : (struct facts_module){ .cnt = 0 };
	free(all);
	return f;
}

/* Its backward needs a module's own bytes again: of one module alone no more is saved than all others keep. */
static uint64_t saving_of(const struct pattern *p, uint64_t kept)
{
	uint64_t rest = kept > p->m.bytes ? kept - p->m.bytes : 0;

	if (p->m.cnt > 1)
		return p->m.bytes - p->most;
	return p->m.bytes < rest ? p->m.bytes : rest;
}

struct facts_module facts_of_checkpoint(const struct report *r)
{
	struct pattern *all = calloc(PATTERNS_MAX, sizeof(*all)), *best = NULL;
	const struct report_saved_proc *of = NULL;
	uint64_t kept = 0, most = 0;
	struct facts_module f;
	size_t cnt;

	for (size_t i = 0; i < r->saved.procs_cnt; i++)
		of = !of || r->saved.procs[i].bytes > of->bytes ? &r->saved.procs[i] : of;
	kept = of ? of->bytes : 0;
	cnt = all && of ? patterns_of(r, of->pid, kept_of, all) : 0;
	for (size_t i = 0; i < cnt; i++)
		if (is_plain(all[i].m.path) && saving_of(&all[i], kept) > most) {
			most = saving_of(&all[i], kept);
			best = &all[i];
		}
	f = best ? best->m : (struct facts_module){ .cnt = 0 };
	f.bytes = most;
	free(all);
	return f;
}

/* --- lines ------------------------------------------------------------------------------------------------ */

enum whose_line { LINE_TORCH = 1, LINE_INSTALLED, LINE_OWN };

static int has_any(const char *path, const char *const *parts, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		if (strstr(path, parts[i]))
			return 1;
	return 0;
}

/* By its path alone: a torch that is run from its sources is known by its folders. */
static enum whose_line whose_line(const char *path)
{
	static const char *const torch[] = { "-packages/torch/", "/torch/nn/", "/torch/optim/", "/torch/autograd/",
					     "/torch/utils/", "/torch/_", "/torch/functional.py" };
	static const char *const installed[] = { "/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3" };

	if (has_any(path, torch, sizeof(torch) / sizeof(*torch)))
		return LINE_TORCH;
	if (!strncmp(path, "<ipython-input-", strlen("<ipython-input-")) || !strcmp(path, "<stdin>"))
		return LINE_OWN; /* a notebook's cell, what was typed */
	/* "<frozen importlib._bootstrap>", "<string>": no files */
	return path[0] == '<' || has_any(path, installed, sizeof(installed) / sizeof(*installed)) ? LINE_INSTALLED : LINE_OWN;
}

const struct report_frame *facts_line(const struct report_frame *frames, size_t cnt)
{
	const struct report_frame *best = NULL;
	enum whose_line whose = 0;

	for (size_t i = 0; i < cnt; i++) {
		const struct report_frame *f = &frames[i];

		if (f->kind != EV_FRAME_PYTHON || !f->file || !f->line || whose_line(f->file) <= whose)
			continue;
		best = f;
		whose = whose_line(f->file);
	}
	return best;
}

#define STACKS_LOOKED_AT 64u

static int is_same_line(const struct report_frame *a, const struct report_frame *b)
{
	return b && a->line == b->line && !strcmp(a->file, b->file);
}

struct facts_line facts_of_peak_line(const struct report *r)
{
	size_t cnt = r->stacks.cnt < STACKS_LOOKED_AT ? r->stacks.cnt : STACKS_LOOKED_AT;
	const struct report_frame *at[STACKS_LOOKED_AT];
	struct facts_line best = { NULL, 0 };

	for (size_t i = 0; i < cnt; i++)
		at[i] = facts_line(r->stacks.rows[i].frames, r->stacks.rows[i].frames_cnt);
	for (size_t i = 0; i < cnt; i++) {
		uint64_t bytes = 0;

		for (size_t k = i; k < cnt && at[i]; k++)
			bytes += is_same_line(at[i], at[k]) ? r->stacks.rows[k].at_peak : 0;
		if (bytes > best.bytes)
			best = (struct facts_line){ at[i], bytes };
	}
	return best;
}

/* --- between windows ------------------------------------------------------------------------------------ */

static bool is_untraced(const struct report *r, uint64_t from_ns, uint64_t to_ns)
{
	for (size_t i = 0; i < r->sampling.gaps_cnt; i++) {
		const struct report_gap *g = &r->sampling.gaps[i];

		if (g->lost_ns == g->end_ns - g->begin_ns && from_ns >= g->begin_ns && to_ns <= g->end_ns)
			return true;
	}
	return false;
}

struct facts_unseen facts_of_unseen(const struct report *r)
{
	const struct series *s = &r->kernel.rss;
	struct facts_unseen ret = { 0 };
	uint64_t top = 0, seen = 0;

	if (!r->sampling.is_on || !s->cnt)
		return ret;
	for (size_t i = 0; i < s->cnt; i++) {
		const struct point *p = &s->points[i];

		if (p->live_max > top) {
			top = p->live_max;
			ret.ts_ns = p->ts_ns;
		}
		if (!is_untraced(r, p->ts_ns, p->ts_ns + s->bucket_ns) && p->live_max > seen)
			seen = p->live_max;
	}
	if (seen && top >= seen + UNSEEN_LEAST && s->points[s->cnt - 1].live_end + (top - seen) / UNSEEN_PART <= top)
		ret.more = top - seen;
	return ret;
}

double facts_leak_bytes(const struct report *r, const struct report_leak *row)
{
	double all = row->per_step ? row->bytes_slope * (double)r->sampling.steps_seen : 0;

	return row->windows && all > (double)row->grown ? all : (double)row->grown;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The rules. Each looks at the report and says a line, or nothing. Thresholds are above the rule that has them, and
 * docs/report.md repeats them for people.
 */
#include "verdict/verdict.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/text.h"
#include "event/event.h"
#include "timeline/ranks.h"
#include "timeline/report.h"
#include "verdict/facts.h"
#include "verdict/held.h"
#include "verdict/rules.h"

/* A name of the target's, or what stands for none. */
static const char *name(char buf[TEXT_BYTES_MAX], const char *text, const char *none)
{
	text_fit(buf, TEXT_BYTES_MAX, text && text[0] ? text : none, 48);
	return buf;
}

static uint64_t after(const struct report *r, uint64_t ts_ns)
{
	return ts_ns > r->run.start_ts_ns ? ts_ns - r->run.start_ts_ns : 0;
}

/* --- memory was refused; somebody died ------------------------------------------------------------------- */

static void say_refused(const struct judge *j, const struct report_oom *o)
{
	struct verdict_line *l = line(j, VERDICT_OUT_OF_MEMORY, VERDICT_PROBLEM, o->asked);
	char a[24], b[24], c[24], dev[16], op[TEXT_BYTES_MAX];

	say(l->text, "Out of memory after %s: %s refused %s in %s", fmt_ns(a, after(j->r, o->ts_ns)), dev_name(o->dev, dev),
	    fmt_bytes(b, o->asked), name(op, o->op, "no operator"));
	if (o->times > 1)
		say(l->text, ", %" PRIu64 " times", o->times);
	say(l->text, "; %s were live", fmt_bytes(a, o->live));
	if (o->reserved)
		say(l->text, ", %s reserved, of it %s free in pieces of %s at most", fmt_bytes(a, o->reserved),
		    fmt_bytes(b, o->unused), fmt_bytes(c, o->largest_free));
	if (o->private_free)
		say(l->text, "; %s more are free for CUDA graphs alone (private pools)", fmt_bytes(a, o->private_free));
	if (o->reserved && o->unused >= o->asked)
		say(l->next, "the free %s would have held it: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
		    fmt_bytes(a, o->unused));
}

static void say_killed(const struct judge *j, const struct report_oom *o)
{
	struct verdict_line *l = line(j, VERDICT_OUT_OF_MEMORY, VERDICT_PROBLEM, o->rss_total);
	char a[24], b[24], comm[TEXT_BYTES_MAX];

	say(l->text, o->marked ? "The kernel's OOM killer took process %u (%s) after %s" :
				 "Process %u (%s) was killed after %s, as the kernel's OOM killer was at work", o->pid,
	    name(comm, o->comm, "?"), fmt_ns(a, after(j->r, o->ts_ns)));
	if (o->rss_total)
		say(l->text, "; its RSS was %s (anonymous %s)", fmt_bytes(a, o->rss_total), fmt_bytes(b, o->rss[MT_RSS_ANON]));
}

/* A signal alone says nothing of memory; SIGKILL may be anybody's. */
static void say_died(const struct judge *j, const struct report_oom *o)
{
	int sig = WTERMSIG((int)o->exit_status);
	struct verdict_line *l = line(j, VERDICT_DIED, sig == SIGKILL ? VERDICT_HINT : VERDICT_PROBLEM, 0);
	const char *abbrev = sigabbrev_np(sig);
	char a[24], comm[TEXT_BYTES_MAX];

	say(l->text, "Process %u (%s) was ended by SIG%s after %s", o->pid, name(comm, o->comm, "?"), abbrev ? abbrev : "?",
	    fmt_ns(a, after(j->r, o->ts_ns)));
	if (sig == SIGKILL)
		say(l->text, "; the kernel's OOM killer has left no trace of it");
}

/* The traced process itself, by its own will. */
static void judge_exit(const struct judge *j)
{
	for (size_t i = 0; i < j->r->procs_cnt; i++) {
		const struct report_proc *p = &j->r->procs[i];
		int status = (int)p->exit_status;
		struct verdict_line *l;

		if (p->pid != j->r->run.pid || p->gone != 1 || !WIFEXITED(status) || !WEXITSTATUS(status))
			continue;
		l = line(j, VERDICT_DIED, VERDICT_HINT, 0);
		say(l->text, "The job ended with exit code %d", WEXITSTATUS(status));
		return;
	}
}

/* The last refusal or kill, else the last death. */
static void judge_ends(const struct judge *j)
{
	const struct report *r = j->r;

	for (size_t i = r->ooms.cnt; i-- > 0;) {
		const struct report_oom *o = &r->ooms.rows[i];

		if (o->kind != OOM_DEATH) {
			say_refused(j, o);
			return;
		}
		if (o->marked || o->killed) {
			say_killed(j, o);
			return;
		}
	}
	for (size_t i = r->ooms.cnt; i-- > 0;)
		if (!signal_sends_away(WTERMSIG((int)r->ooms.rows[i].exit_status))) {
			say_died(j, &r->ooms.rows[i]);
			return;
		}
	judge_exit(j);
}

/* --- what grows ------------------------------------------------------------------------------------------ */

#define LEAK_SHARE 100 /* what a place has grown by is a problem from this part of the peak on; below it is a hint */

/* How a recording is made in which each of its blocks has a stack: these may be smaller than --stacks looks at by default. */
static const char *stacks_option(const struct report_leak *k)
{
	int is_small = k->blocks && k->live / k->blocks < STACK_SIZE_DEFAULT;

	return is_small ? "--stacks=python --stack-size 0" : "--stacks=python";
}

/* What to do about what is held, and where one sees it. */
static void say_leak_next(const struct judge *j, const struct report_leak *row, const struct report_frame *at)
{
	char by[TEXT_BYTES_MAX], file[TEXT_BYTES_MAX];
	const char *path = row->held_by && row->held_by[0] ? row->held_by : NULL;
	char *next = j->v->lines[j->v->cnt - 1].next, how[VERDICT_BYTES];

	if (at)
		snprintf(how, sizeof(how), "memtrace report %.400s --leaks", j->file);
	else
		snprintf(how, sizeof(how), "recorded with %s it says the line", stacks_option(row));
	if (row->held == HELD_GRAPH)
		say(next, "keep x.item() or x.detach() in %s, not x: each x keeps its step's graph; %s",
		    name(by, path, "that container"), how);
	else if (row->held == HELD_ITSELF)
		say(next, "%s never forgets: clear it, or keep less in it; %s", name(by, path, "that container"), how);
	else if (at)
		say(next, "who keeps what %s:%u makes? memtrace report %s --leaks", name(file, at->file, "?"), at->line,
		    j->file);
	else
		say(next, "memtrace report %s --leaks; recorded with %s it says the line", j->file, stacks_option(row));
}

/* ", made at train.py:42 in collect"; of what was caught: how sure that is. */
static void say_line(char *text, const struct report_leak *row, const struct report_frame *at)
{
	char file[TEXT_BYTES_MAX], function[TEXT_BYTES_MAX];

	say(text, ", made at %s:%u", name(file, at->file, "?"), at->line);
	if (at->function && at->function[0])
		say(text, " in %s", name(function, at->function, "?"));
	if (row->caught && row->caught_here == row->caught)
		say(text, " (so were all %" PRIu64 " blocks that were caught)", row->caught);
	else if (row->caught)
		say(text, " (so were %" PRIu64 " of %" PRIu64 " blocks that were caught)", row->caught_here, row->caught);
}

static void judge_leak(const struct judge *j)
{
	const struct report_leaks *k = &j->r->leaks;
	const struct report_leak *row = k->rows;
	const struct report_dev *d = facts_device(j->r);
	char a[24], b[24], op[TEXT_BYTES_MAX], held[VERDICT_BYTES - 160];
	const struct report_frame *at;
	struct verdict_line *l;
	double slope;
	int is_wrong;

	if (!k->cnt)
		return;
	slope = row->bytes_slope < 9e18 ? row->bytes_slope : 9e18;
	is_wrong = row->sure >= SURE_MEDIUM && d && facts_leak_bytes(j->r, row) >= (double)d->peak / LEAK_SHARE;
	l = line(j, VERDICT_LEAK, is_wrong ? VERDICT_PROBLEM : VERDICT_HINT, slope > 0 ? (uint64_t)(slope + 0.5) : 0);
	at = facts_line(row->frames, row->frames_cnt);
	say(l->text, "Growing: %s, by %s a %s, ", name(op, row->op && row->op[0] ? row->op : row->region, "no operator open"),
	    fmt_bytes(a, l->bytes), row->per_step ? "step" : "second");
	say(l->text, "%s by now in %" PRIu64 " blocks", fmt_bytes(b, row->live), row->blocks);
	if (row->windows)
		say(l->text, " of the steps traced in %" PRIu64 " windows", row->windows);
	if (at)
		say_line(l->text, row, at);
	held_text(held, sizeof(held), row);
	if (held[0])
		say(l->text, "; %s", held);
	if (k->total > 1)
		say(l->text, "; and %zu more place%s", k->total - 1, k->total > 2 ? "s" : "");
	say_leak_next(j, row, at);
}

static void say_growth_hidden(struct verdict_line *l, const struct report *r)
{
	char a[24], b[24];

	say(l->text, "Whether anything grows was not seen: %s of %s steps were traced, and what lives on between them is "
	    "hidden.", fmt_count(a, (double)r->sampling.steps_traced), fmt_count(b, (double)r->sampling.steps_seen));
	say(l->next, "trace all steps for a minute: memtrace record -p %u -d 60", r->run.pid);
}

static void judge_growth(const struct judge *j)
{
	const struct report_leaks *k = &j->r->leaks;
	struct verdict_line *l;
	char a[24];

	if (k->cnt || !facts_device(j->r))
		return;
	l = line(j, VERDICT_GROWTH, VERDICT_FACT, 0);
	if (k->too_short)
		say(l->text, "Too short to say whether anything grows: %s %s, and %u are the least.", fmt_count(a,
		    (double)k->ticks),
		    k->per_step ? "steps" : "half seconds", k->ticks_least);
	else if (report_growth_is_hidden(j->r))
		say_growth_hidden(l, j->r);
	else
		say(l->text, "Nothing grows, in %s %s.", fmt_count(a, (double)k->ticks),
		    k->per_step ? "steps" : "half seconds");
}

/* --- ranks ----------------------------------------------------------------------------------------------- */

#define RANK_RATIO 1.25 /* of the median of all ranks, and … */
#define RANKS_LEAST 3	/* … of fewer none is the odd one */

static void say_rank(const struct judge *j, uint32_t rank, uint64_t peak, uint64_t median, size_t cnt)
{
	struct verdict_line *l = line(j, VERDICT_RANK, VERDICT_PROBLEM, peak - median);
	char a[24], b[24];

	say(l->text, "Rank %u stands out: its peak is %s, %.2g times the median of %zu ranks (%s)", rank, fmt_bytes(a, peak),
	    (double)peak / (double)(median ? median : 1), cnt, fmt_bytes(b, median));
	say(l->next, "what it has more of: memtrace report %s --by rank; brought down to the median it saves %s", j->file,
	    fmt_bytes(a, peak - median));
}

static void judge_ranks(const struct judge *j)
{
	const struct report_ranks *k = j->r->ranks;
	struct facts_ranks f;

	if (k) { /* whoever asked for ranks has had them judged there, by more */
		for (size_t i = 0; i < k->outliers_cnt; i++) {
			const struct report_rank *row = &k->rows[k->outliers[i].row];

			if (k->outliers[i].score > 0 && row->peak > row->median_peak) {
				say_rank(j, row->rank, row->peak, row->median_peak, k->cnt);
				return;
			}
		}
		return;
	}
	f = facts_of_ranks(j->r);
	if (f.cnt >= RANKS_LEAST && (double)f.peak >= RANK_RATIO * (double)f.median)
		say_rank(j, f.rank, f.peak, f.median, f.cnt);
}

/* --- reserved and idle ----------------------------------------------------------------------------------- */

#define IDLE_PERCENT 20		  /* of what was reserved at most was never allocated, and … */
#define IDLE_LEAST (64ull << 20)  /* … so many bytes: below, it is how allocators round */
#define FULL_PERCENT 90		  /* of the device's memory is reserved: idle bytes are missing elsewhere */

#define EXPANDABLE_PAGE (20ull << 20) /* c10's kLargeBuffer: what it maps and unmaps of a segment of large blocks */

/* What the allocator reserved at most and never gave out; a device whose memory is nearly all reserved misses it. */
static void judge_idle(const struct judge *j, const struct report_dev *d)
{
	const struct report_segments *s = &d->segs;
	uint64_t idle = s->reserved_peak > s->allocated_peak ? s->reserved_peak - s->allocated_peak : 0;
	int in_pieces = s->inactive >= s->free_cached,
		is_full = s->nvml_total && s->reserved_peak >= s->nvml_total / 100 * FULL_PERCENT;
	struct verdict_line *l;
	char a[24], b[24], dev[16];

	if (!s->totals || idle < IDLE_LEAST || idle < s->reserved_peak / 100 * IDLE_PERCENT)
		return;
	l = line(j, in_pieces ? VERDICT_FRAGMENTED : VERDICT_RESERVED, d->ooms || is_full ? VERDICT_PROBLEM : VERDICT_HINT,
		 idle);
	say(l->text, "%s: %s of %s reserved never held a tensor", dev_name(d->dev, dev), fmt_bytes(a, idle),
	    fmt_bytes(b, s->reserved_peak));
	if (in_pieces)
		say(l->text, "; %s are free now in segments that hold a block, in pieces of %s at most",
		    fmt_bytes(a, s->inactive), fmt_bytes(b, s->largest_free));
	if (d->ooms)
		say(l->text, ", and memory was refused");
	else if (is_full)
		say(l->text, ", and %d %% of the device are reserved", FULL_PERCENT);
	else if (s->nvml_total)
		say(l->text, "; it does not matter as long as nothing else needs the device's %s", fmt_bytes(a, s->nvml_total));
	else
		say(l->text, "; it matters where the device is full");
	if (in_pieces && s->largest_free < EXPANDABLE_PAGE)
		say(l->next, "allocate what lives long before what comes and goes: expandable segments give back whole pages "
		    "of %s, and no piece has one", fmt_bytes(a, EXPANDABLE_PAGE));
	else if (in_pieces && s->backend != BACKEND_EXPANDABLE)
		say(l->next, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, up to %s less reserved", fmt_bytes(a, idle));
	else
		say(l->next, "torch.cuda.empty_cache() behind what needed it once gives back %s now", fmt_bytes(a,
		    s->free_cached));
}

static void judge_reserved(const struct judge *j)
{
	const struct report_dev *worst = NULL;

	for (size_t i = 0; i < j->r->devs_cnt; i++) {
		const struct report_dev *d = &j->r->devs[i];

		if (d->segs.totals && (!worst || d->segs.reserved_peak > worst->segs.reserved_peak))
			worst = d;
	}
	if (worst)
		judge_idle(j, worst);
}

/* --- a spike --------------------------------------------------------------------------------------------- */

#define SPIKE_RATIO 1.25   /* of the median step, in … */
#define SPIKE_PERCENT 10   /* … at most so many of the steps, of … */
#define SPIKE_STEPS 8	   /* … at least so many */

static void judge_spike(const struct judge *j, const struct facts_steps *f)
{
	struct verdict_line *l;
	char a[24], b[24];

	if (f->cnt < SPIKE_STEPS || !f->proc || (double)f->peak < SPIKE_RATIO * (double)f->median ||
	    f->high * 100 > f->cnt * SPIKE_PERCENT)
		return;
	l = line(j, VERDICT_SPIKE, VERDICT_HINT, f->peak - f->median);
	say(l->text, "Step %" PRIu64 " peaks at %s, %.2g times the usual %s", f->proc->highest_step.number, fmt_bytes(a,
	    f->peak),
	    (double)f->peak / (double)(f->median ? f->median : 1), fmt_bytes(b, f->median));
	if (f->high > 1)
		say(l->text, ": %zu of %zu steps are that high", f->high, f->cnt);
	else
		say(l->text, ", alone of %zu steps", f->cnt);
	say(l->next, "what step %" PRIu64 " has more of (a longer batch, an evaluation?): memtrace export %s --to html "
	    "-o page.html; "
	    "capped it saves %s", f->proc->highest_step.number, j->file, fmt_bytes(a, f->peak - f->median));
}

/* Its window came when it was over: how high, and when, is what the kernel kept of it. */
static void judge_unseen(const struct judge *j)
{
	struct facts_unseen u = facts_of_unseen(j->r);
	char a[24], b[24];

	if (u.more)
		say(line(j, VERDICT_SPIKE, VERDICT_HINT, u.more)->text, "RSS was %s higher for a moment after %s than ever in "
		    "a traced step; what of was not seen", fmt_bytes(a, u.more), fmt_ns(b, after(j->r, u.ts_ns)));
}

/* --- recompiles ------------------------------------------------------------------------------------------ */

#define RECOMPILES_PERCENT 5		  /* of the time went into recompiles, and … */
#define RECOMPILES_LEAST_NS 1000000000ull /* … so much, or … */
#define RECOMPILE_PERCENT 10		  /* … one of them took so many of the peak's bytes more */

static void judge_recompiles(const struct judge *j)
{
	const struct report_compiles *c = &j->r->compiles;
	const struct report_dev *d = facts_device(j->r);
	uint64_t all_ns = j->r->run.end_ts_ns - j->r->run.start_ts_ns;
	const struct report_recompile_why *w = c->whys_cnt ? &c->whys[0] : NULL;
	char a[24], b[24], text[TEXT_BYTES_MAX];
	struct verdict_line *l;

	if (!c->again || !w ||
	    ((c->again_ns < RECOMPILES_LEAST_NS || c->again_ns < all_ns / 100 * RECOMPILES_PERCENT) &&
	     (!d || !c->added || c->added < d->peak / 100 * RECOMPILE_PERCENT)))
		return;
	l = line(j, VERDICT_RECOMPILES, VERDICT_HINT, c->added);
	say(l->text, "torch.compile compiled again %" PRIu64 " time%s: %s of %s", c->again, c->again == 1 ? "" : "s",
	    fmt_ns(a, c->again_ns), fmt_ns(b, all_ns));
	if (c->added)
		say(l->text, ", at most %s more meanwhile", fmt_bytes(a, c->added));
	say(l->text, "; most often %s", name(text, w->last->function, "a function"));
	if (w->last->reason[0]) {
		text_fit(text, sizeof(text), w->last->reason, 160);
		say(l->text, ", because %s", text);
	}
	if (strstr(w->last->reason, "size mismatch"))
		say(l->next, "torch._dynamo.mark_dynamic(), or batches of one size (drop_last=True)");
	else
		say(l->next, "memtrace report %s -v lists them", j->file);
}

/* --- the peak -------------------------------------------------------------------------------------------- */

#define MOST_PERCENT 60 /* of the peak: activations, or state, are what it is about */
#define PART_PERCENT 5	/* parts below are not named */
#define PARTS 3

static const char *const parts[CAT_MAX] = {
	[CAT_UNKNOWN] = "not known", [CAT_PARAMETER] = "parameters", [CAT_OPTIMIZER_STATE] = "optimizer state",
	[CAT_INPUT] = "inputs", [CAT_TEMPORARY] = "temporaries", [CAT_ACTIVATION] = "activations",
	[CAT_GRADIENT] = "gradients", [CAT_AUTOGRAD_DETAIL] = "autograd's own", [CAT_FROZEN] = "frozen parameters",
	[CAT_BUFFER] = "buffers", [CAT_DATALOADER] = "batches", [CAT_COMMUNICATION] = "communication",
	[CAT_WORKSPACE] = "workspace", [CAT_UNSHARDED] = "gathered parameters",
};

static unsigned percent(uint64_t part, uint64_t whole)
{
	return whole ? (unsigned)((double)part * 100 / (double)whole + 0.5) : 0;
}

/* "80 % activations, 14 % autograd's own" */
static void say_parts(char *text, const struct report_dev *d)
{
	unsigned done = 0; /* bits of categories */

	for (unsigned n = 0; n < PARTS; n++) {
		unsigned most = CAT_MAX;

		for (unsigned c = 0; c < CAT_MAX; c++)
			if (!(done >> c & 1) && (most == CAT_MAX || d->cats[c].at_peak > d->cats[most].at_peak))
				most = c;
		if (percent(d->cats[most].at_peak, d->peak) < PART_PERCENT)
			return;
		say(text, "%s%u %% %s", n ? ", " : ": ", percent(d->cats[most].at_peak, d->peak), parts[most]);
		done |= 1u << most;
	}
}

/* Whose most of it is: a module's, else an operator's; a part that is not worth a word is nobody's. */
static void say_whose(char *text, const struct report *r, uint64_t peak)
{
	struct facts_module f = facts_of_peak_module(r);
	char a[24], path[TEXT_BYTES_MAX], root[TEXT_BYTES_MAX];

	if (percent(f.bytes, peak) >= PART_PERCENT)
		say(text, "; %s of it from %s.%s", fmt_bytes(a, f.bytes), name(root, f.root, "?"), name(path, f.path, "?"));
	else if (r->ops.cnt && percent(r->ops.rows[0].at_peak, peak) >= PART_PERCENT)
		say(text, "; most from %s, %s", name(path, r->ops.rows[0].name, "?"), fmt_bytes(a, r->ops.rows[0].at_peak));
}

/* ", in 249 of 272 steps" */
static void say_steps(char *text, uint64_t near, uint64_t cnt, const char *which)
{
	if (near == cnt)
		say(text, ", in each of %" PRIu64 "%s steps", cnt, which);
	else
		say(text, ", in %" PRIu64 " of %" PRIu64 "%s steps", near, cnt, which);
}

/* Marks cut steps elsewhere than windows do, so that of these fewer are whole: the windows' own count, as every view has it. */
static void say_traced(char *text, const struct report *r, const struct report_dev *d)
{
	const struct report_steps *s = &r->sampling.steps;

	for (size_t i = 0; i < s->devs_cnt; i++)
		if (s->devs[i].dev == d->dev && s->steps > 1 && s->devs[i].near)
			say_steps(text, s->devs[i].near, s->steps, " traced");
}

static void say_when(char *text, const struct report *r, const struct report_dev *d, const struct facts_steps *f)
{
	char a[24];

	say(text, " after %s", fmt_ns(a, after(r, d->peak_ts_ns)));
	if (f->phase && f->proc->peak >= d->peak - d->peak / 100)
		say(text, ", in %s", phase_name((enum phase)f->phase));
	if (!f->proc || f->proc->peak < d->peak - d->peak / 100) /* several processes share the device */
		return;
	if (r->sampling.is_on)
		say_traced(text, r, d);
	else if (f->outside)
		say(text, ", outside of the %zu steps", f->cnt);
	else if (f->cnt > 1)
		say_steps(text, f->near, f->cnt, f->is_cut ? " last" : "");
}

/* The process to record again: the one that was asked for, else one that steps. 0: none is left. */
static uint32_t to_record(const struct report *r, const struct facts_steps *f)
{
	uint32_t pid = r->run.pid ? r->run.pid : f->proc ? f->proc->pid : 0;

	for (size_t i = 0; i < r->procs_cnt; i++)
		if (r->procs[i].pid == pid && r->procs[i].gone == 1)
			return 0;
	return pid;
}

#define ALL_STEPS_S 10 /* so long all steps are recorded for estimate, and as long as … */
#define ALL_STEPS 20   /* … so many take */

/* What says it to the byte. estimate refuses recordings of some steps: with the command that makes one of all. */
static void say_estimate(const struct judge *j, struct verdict_line *l, const char *how)
{
	const struct facts_steps f = facts_of_steps(j->r);
	uint32_t pid = to_record(j->r, &f);
	uint64_t seen = j->r->sampling.steps_seen, span_ns = j->r->run.end_ts_ns - j->r->run.start_ts_ns;
	uint64_t wait_s = seen ? span_ns / seen * ALL_STEPS / 1000000000 : 0;

	if (!j->r->sampling.is_on)
		say(l->next, "memtrace estimate %s %s", j->file, how);
	else if (pid)
		say(l->next, "memtrace record -p %u -d %" PRIu64 " --max-overhead none -o all.mtr && memtrace estimate "
		    "all.mtr %s", pid, wait_s > ALL_STEPS_S ? wait_s : ALL_STEPS_S, how);
	else
		say(l->next, "started anew as memtrace record -o all.mtr -- COMMAND, memtrace estimate all.mtr %s says it",
		    how);
}

/* The module whose checkpointing saves most, as far as the report can tell: estimate says it to the byte. */
static void say_checkpoint(const struct judge *j, struct verdict_line *l, const struct report_dev *d)
{
	struct facts_module f = facts_of_checkpoint(j->r);
	char a[24], how[TEXT_BYTES_MAX + 24];

	if (percent(f.bytes, d->peak) >= PART_PERCENT) {
		say(l->next, "checkpoint %s: up to %s less; ", f.path, fmt_bytes(a, f.bytes));
		snprintf(how, sizeof(how), "--checkpoint '%.*s'", TEXT_BYTES_MAX, f.path);
		say_estimate(j, l, how);
	} else {
		say(l->next, "half the batch saves up to %s; memtrace report %s --by module says which modules keep most",
		    fmt_bytes(a, d->cats[CAT_ACTIVATION].at_peak / 2), j->file);
	}
}

#define STATE_OF_ADAM 3 / 2 /* more of it than parameters: two moments a weight, and 8 bits each would do */

static void say_shard(const struct judge *j, struct verdict_line *l, const struct report_dev *d, uint64_t bytes)
{
	uint64_t parameters = d->cats[CAT_PARAMETER].at_peak, state = d->cats[CAT_OPTIMIZER_STATE].at_peak;
	uint64_t world = facts_world(j->r);
	char a[24], how[40];

	if (world > 1) {
		say(l->next, "shared among %" PRIu64 " ranks: up to %s less each; ", world,
		    fmt_bytes(a, bytes - bytes / world));
		snprintf(how, sizeof(how), "--shard %" PRIu64, world);
	} else if (state > parameters * STATE_OF_ADAM) {
		say(l->next, "an optimizer with 8-bit state: some %s less; ", fmt_bytes(a, state / 4 * 3));
		snprintf(how, sizeof(how), "--optimizer 8bit");
	} else {
		say(l->next, "shared among 2 ranks: up to %s less each; ", fmt_bytes(a, bytes / 2));
		snprintf(how, sizeof(how), "--shard 2");
	}
	say_estimate(j, l, how);
}

/* Half of it or more is what grows: of that the leak's line says what to do, and another batch would not help. */
static int is_grown(const struct report *r, const struct report_dev *d)
{
	uint64_t grown = 0;

	for (size_t i = 0; i < r->leaks.cnt; i++)
		if (r->leaks.rows[i].dev == d->dev && r->leaks.rows[i].sure >= SURE_MEDIUM)
			grown += r->leaks.rows[i].live < d->peak ? r->leaks.rows[i].live : d->peak;
	return grown && grown >= d->peak / 2;
}

static void judge_peak(const struct judge *j, const struct facts_steps *f)
{
	const struct report_dev *d = facts_device(j->r);
	char a[24], dev[16];
	struct verdict_line *l;
	uint64_t kept, state;

	if (!d)
		return;
	kept = d->cats[CAT_ACTIVATION].at_peak;
	state = d->cats[CAT_PARAMETER].at_peak + d->cats[CAT_OPTIMIZER_STATE].at_peak + d->cats[CAT_GRADIENT].at_peak +
		d->cats[CAT_FROZEN].at_peak + d->cats[CAT_BUFFER].at_peak;
	if (is_grown(j->r, d))
		l = line(j, VERDICT_PEAK, VERDICT_FACT, d->peak);
	else if (percent(kept, d->peak) >= MOST_PERCENT)
		l = line(j, VERDICT_ACTIVATIONS, VERDICT_HINT, kept);
	else if (percent(state, d->peak) >= MOST_PERCENT)
		l = line(j, VERDICT_STATE, VERDICT_HINT, state);
	else
		l = line(j, VERDICT_PEAK, VERDICT_FACT, d->peak);
	say(l->text, "Peak %s on %s", fmt_bytes(a, d->peak), dev_name(d->dev, dev));
	say_when(l->text, j->r, d, f);
	say_parts(l->text, d);
	if (is_grown(j->r, d))
		say(l->text, "; most of it is what grows");
	else
		say_whose(l->text, j->r, d->peak);
	if (l->kind == VERDICT_ACTIVATIONS)
		say_checkpoint(j, l, d);
	else if (l->kind == VERDICT_STATE)
		say_shard(j, l, d, state);
}

/* --- how complete, and what it cost ---------------------------------------------------------------------- */

static void judge_rests(const struct judge *j)
{
	const struct report *r = j->r;
	uint64_t lost = report_lost_sum(r);
	struct verdict_line *l;
	char a[24], b[24];

	if (!facts_device(r)) {
		l = line(j, VERDICT_NOTHING, VERDICT_HINT, 0);
		say(l->text, "Nothing was seen: no block was allocated or freed in %s", fmt_ns(a,
		    r->run.end_ts_ns - r->run.start_ts_ns));
		say(l->next, "does this process work on tensors? memtrace plan -p PID says what can be seen; malloc needs "
		    "--probes host");
	}
	l = line(j, lost || !r->run.ended ? VERDICT_INCOMPLETE : VERDICT_COMPLETE, lost ? VERDICT_HINT : VERDICT_FACT, 0);
	if (lost)
		say(l->text, "Incomplete: %s losses (%s), numbers may be too low", fmt_count(a, (double)lost),
		    facts_worst_loss(r));
	else if (!r->run.ended)
		say(l->text, "The recording's end is missing; up to there nothing was lost");
	else
		say(l->text, facts_device(r) ? "Complete: nothing was lost in %s" : "Nothing was lost in %s: there was "
		    "nothing to lose",
		    fmt_ns(a, r->run.end_ts_ns - r->run.start_ts_ns));
	if (r->sampling.is_on)
		say(l->text, "; tracing cost the job %s of its time", fmt_share(b, r->sampling.price_ratio, 1));
	else if (report_price__is_known(&r->cost.price))
		say(l->text, "; tracing cost the job %.1f %% of its speed (give or take %.1f %%)", r->cost.price.lost * 100,
		    r->cost.price.error * 100);
	else if (r->cost.target_cpu_ns)
		say(l->text, "; tracing cost %s of the job's CPU time", fmt_share(b, r->cost.share, 1));
	if (report_price__is_vague(&r->cost.price) && !r->sampling.is_on)
		say(l->text, ", and %" PRIu64 " steps before and %" PRIu64 " after the attach are too few, or differ too "
		    "much, to tell what it lost", r->cost.price.steps_before, r->cost.price.steps);
	say(l->text, ".");
}

/* --- all of them ----------------------------------------------------------------------------------------- */

/* What is wrong first, then what can be won; what is alike stays in the order of the rules. */
static void by_severity(struct verdict *v)
{
	for (size_t i = 1; i < v->cnt; i++)
		for (size_t k = i; k && v->lines[k].severity < v->lines[k - 1].severity; k--) {
			struct verdict_line swap = v->lines[k];

			v->lines[k] = v->lines[k - 1];
			v->lines[k - 1] = swap;
		}
}

void verdict__of(struct verdict *v, const struct report *r, const char *file)
{
	const struct judge j = { v, r, file ? file : "FILE" };
	struct facts_steps steps = facts_of_steps(r);

	v->cnt = 0;
	judge_ends(&j);
	judge_leak(&j);
	judge_ranks(&j);
	judge_reserved(&j);
	judge_host(&j);
	judge_spike(&j, &steps);
	judge_unseen(&j);
	judge_recompiles(&j);
	judge_peak(&j, &steps);
	judge_growth(&j);
	judge_rests(&j);
	by_severity(v);
}

const char *verdict_kind_name(unsigned kind)
{
	static const char *const names[VERDICT_KINDS] = {
		[VERDICT_OUT_OF_MEMORY] = "out_of_memory", [VERDICT_DIED] = "died", [VERDICT_LEAK] = "leak",
		[VERDICT_RANK] = "rank", [VERDICT_FRAGMENTED] = "fragmented", [VERDICT_RESERVED] = "reserved",
		[VERDICT_WORKERS] = "workers", [VERDICT_SPIKE] = "spike", [VERDICT_ACTIVATIONS] = "activations",
		[VERDICT_STATE] = "state", [VERDICT_PEAK] = "peak", [VERDICT_NOTHING] = "nothing",
		[VERDICT_GROWTH] = "growth", [VERDICT_INCOMPLETE] = "incomplete", [VERDICT_COMPLETE] = "complete",
		[VERDICT_RECOMPILES] = "recompiles",
	};

	return kind < VERDICT_KINDS && names[kind] ? names[kind] : "?";
}

const char *verdict_severity_name(unsigned severity)
{
	return severity == VERDICT_PROBLEM ? "problem" : severity == VERDICT_HINT ? "hint" : "fact";
}

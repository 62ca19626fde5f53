/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Lines on the peak: how high, when, how often, of what and whose, and what would make it smaller. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/regions.h"
#include "base/text.h"
#include "event/event.h"
#include "timeline/report.h"
#include "timeline/sieve.h"
#include "verdict/facts.h"
#include "verdict/rules.h"
#include "verdict/say.h"

#define PARTS 3
#define STEP_PART CAT_MAX /* no category of torch.profiler's */

static const char *const parts[CAT_MAX + 1] = {
	[CAT_PARAMETER] = "parameters", [CAT_OPTIMIZER_STATE] = "optimizer state",
	[CAT_INPUT] = "inputs", [CAT_TEMPORARY] = "temporaries", [CAT_ACTIVATION] = "activations",
	[CAT_GRADIENT] = "gradients", [CAT_AUTOGRAD_DETAIL] = "autograd's own", [CAT_FROZEN] = "frozen parameters",
	[CAT_BUFFER] = "buffers", [CAT_DATALOADER] = "batches", [CAT_COMMUNICATION] = "communication",
	[CAT_WORKSPACE] = "workspace", [CAT_UNSHARDED] = "gathered parameters",
	[STEP_PART] = "temporary results of the optimizer",
};

/* Bytes at the peak by plain category: what generated code made is not PARAMETER for want of a better one (graph__plain()). */
static uint64_t at_peak(const struct report_dev *d, enum category c)
{
	return report_cat__plain(&d->cats[c]);
}

/*
 * Parameters by Python's word: blocks that an optimizer makes from them as it steps count as PARAMETER, too
 * (docs/categories.md). Where Python was not read, or the process has ended: as many bytes as gradients have then.
 */
static uint64_t parameters_of(const struct report *r, const struct report_dev *d, uint8_t phase)
{
	uint64_t some = r->names.by_kind[EV_TENSOR_PARAMETER].bytes, all = at_peak(d, CAT_PARAMETER);

	if (!some && phase == PHASE_OPTIMIZER)
		some = at_peak(d, CAT_GRADIENT);
	return some && some < all ? some : all;
}

static uint64_t take(uint64_t *from, uint64_t bytes)
{
	bytes = bytes < *from ? bytes : *from;
	*from -= bytes;
	return bytes;
}

/* Stacks, regions and operators sum up what they made at the peaks of all devices. */
static int is_only_peak(const struct report *r, const struct report_dev *d)
{
	for (size_t i = 0; i < r->devs_cnt; i++)
		if (&r->devs[i] != d && r->devs[i].dev != MT_DEV_HOST && percent(r->devs[i].peak, d->peak) >= PART_PERCENT)
			return 0;
	return 1;
}

/*
 * At the peak what no operator made that was seen, less what may be parameters, buffers or batches: it is older than the
 * attach, or was loaded.
 */
static uint64_t made_by_none(const struct report *r, const struct report_dev *d, uint8_t phase)
{
	static const enum category others[] = { CAT_FROZEN, CAT_BUFFER, CAT_INPUT, CAT_DATALOADER };
	uint64_t made = is_only_peak(r, d) ? r->ops.none.at_peak : 0;

	take(&made, parameters_of(r, d, phase));
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		take(&made, at_peak(d, others[i]));
	return made;
}

/* Of the optimizer's state at the peak what no step made that was seen: only so much is state for sure. */
static uint64_t state_from_before(const struct report *r, const struct report_dev *d, uint8_t phase)
{
	uint64_t state = at_peak(d, CAT_OPTIMIZER_STATE);

	return take(&state, made_by_none(r, d, phase));
}

/* Bytes at the peak that the optimizer made as it stepped, and that are not its state. */
static uint64_t made_by_step(const struct report *r, const struct report_dev *d, uint8_t phase)
{
	uint64_t made = 0, state = at_peak(d, CAT_OPTIMIZER_STATE) - state_from_before(r, d, phase);

	for (size_t i = 0; i < r->regions.cnt; i++)
		if (region_is_step(r->regions.rows[i].name))
			made += r->regions.rows[i].at_peak;
	return made > state && made <= d->peak ? made - state : 0;
}

/*
 * torch.profiler labels what an optimizer makes as it steps PARAMETER or ACTIVATION, by its inputs. So bytes labelled PARAMETER
 * beyond the real parameters are the optimizer's, as known from Python's names or the regions' allocations.
 */
static void parts_of(const struct report *r, const struct report_dev *d, uint8_t phase, uint64_t sums[CAT_MAX + 1])
{
	uint64_t made = made_by_step(r, d, phase), more = at_peak(d, CAT_PARAMETER) - parameters_of(r, d, phase);

	sums[STEP_PART] = 0;
	for (unsigned c = 0; c < CAT_MAX; c++)
		sums[c] = at_peak(d, c);
	if (phase != PHASE_OPTIMIZER)
		return;
	made -= made < sums[CAT_TEMPORARY] ? made : sums[CAT_TEMPORARY];
	if (!r->names.by_kind[EV_TENSOR_PARAMETER].bytes && more > made) /* some gradients may be gone */
		more = made;
	sums[STEP_PART] = take(&sums[CAT_PARAMETER], more);
	if (made > sums[STEP_PART])
		sums[STEP_PART] += take(&sums[CAT_ACTIVATION], made - sums[STEP_PART]);
}

/* Most of what is not known: it is no less than what no operator made, less all of that which is known. */
static int is_from_before(const struct report *r, const struct report_dev *d, uint8_t phase)
{
	uint64_t before = made_by_none(r, d, phase);
	int was_attached = 0;

	for (size_t i = 0; i < r->procs_cnt; i++)
		was_attached |= r->procs[i].peak && r->procs[i].how == EV_PROC_ATTACHED;
	take(&before, at_peak(d, CAT_OPTIMIZER_STATE));
	take(&before, at_peak(d, CAT_GRADIENT));
	before = before < d->preexisting_bytes ? before : d->preexisting_bytes;
	return was_attached && before > at_peak(d, CAT_UNKNOWN) / 2;
}

static int is_before_modules(const struct report *r, const struct report_dev *d)
{
	int has_some = 0;

	for (size_t i = 0; i < r->procs_cnt; i++) {
		uint64_t ts_ns = r->procs[i].peak ? r->procs[i].module_ts_ns : 0;

		if (ts_ns && ts_ns <= d->peak_ts_ns)
			return 0;
		has_some |= ts_ns != 0;
	}
	return has_some;
}

/* Behind what is known, and why, where that is seen. */
static void say_unknown(char *text, const struct report *r, const struct report_dev *d, uint8_t phase)
{
	say(text, "%u %% not known", percent(at_peak(d, CAT_UNKNOWN), d->peak));
	if (!r->flow.nodes)
		say(text, ", as no use of tensors by operators was seen");
	else if (is_from_before(r, d, phase))
		say(text, ", mostly from before the attach");
	else if (is_before_modules(r, d))
		say(text, ", as no module had run yet");
}

/* "80 % activations, 14 % autograd's own" */
static void say_parts(char *text, const struct report *r, const struct report_dev *d, uint8_t phase)
{
	uint64_t sums[CAT_MAX + 1];
	const char *before = ": ";

	if (d->dev == MT_DEV_HOST) /* nothing says what malloc's blocks are for */
		return;
	parts_of(r, d, phase, sums);
	for (unsigned n = 0; n < PARTS; n++) {
		unsigned most = CAT_UNKNOWN + 1;

		for (unsigned c = most; c <= STEP_PART; c++)
			most = sums[c] > sums[most] ? c : most;
		if (percent(sums[most], d->peak) < PART_PERCENT)
			break;
		say(text, "%s%u %% %s", before, percent(sums[most], d->peak), parts[most]);
		sums[most] = 0;
		before = ", ";
	}
	if (percent(sums[CAT_UNKNOWN], d->peak) >= PART_PERCENT) {
		say(text, "%s", before);
		say_unknown(text, r, d, phase);
	}
}

/* The names of a process that ended first were not read. */
static bool is_named_root(const struct report_module *row)
{
	return !row->parent && row->root && row->root[0];
}

/*
 * What a root has that no module in it has, where that is most of what it holds: an LSTM, a model's cache. Roots of one label
 * in several processes are one model.
 */
static struct facts_module root_itself(const struct report_modules *m)
{
	const struct report_module *most = NULL;
	struct facts_module f = { .cnt = 0 };
	uint64_t all = 0;

	for (size_t i = 0; i < m->cnt; i++)
		if (is_named_root(&m->rows[i]) && (!most || m->rows[i].own.at_peak > most->own.at_peak))
			most = &m->rows[i];
	for (size_t i = 0; most && i < m->cnt; i++)
		if (is_named_root(&m->rows[i]) && !strcmp(m->rows[i].root, most->root)) {
			f.bytes += m->rows[i].own.at_peak;
			all += m->rows[i].all.at_peak;
			f.cnt++;
		}
	if (f.bytes < all / 100 * MODULE_PERCENT)
		f.bytes = 0;
	snprintf(f.root, sizeof(f.root), "%.60s", most ? most->root : "");
	return f;
}

/* What made most of it: a module, else an operator; parts below PART_PERCENT are not named. */
static void say_whose(char *text, const struct report *r, uint64_t peak)
{
	struct facts_module f = facts_of_peak_module(r), itself = root_itself(&r->modules);
	char a[24], path[TEXT_BYTES_MAX], root[TEXT_BYTES_MAX], part[TEXT_BYTES_MAX];

	module_plain(part, sizeof(part), f.path);
	if (itself.bytes > f.bytes && percent(itself.bytes, peak) >= PART_PERCENT)
		say(text, "; %s of it from %s itself", fmt_bytes(a, itself.bytes), name(root, itself.root, "?"));
	else if (percent(f.bytes, peak) >= PART_PERCENT)
		say(text, "; %s of it from %s%s%s", fmt_bytes(a, f.bytes), name(root, f.root, ""),
		    f.root[0] && part[0] ? "." : "", name(path, part, f.root[0] ? "" : "the model"));
	else if (r->ops.cnt && percent(r->ops.rows[0].at_peak, peak) >= PART_PERCENT)
		say(text, "; most from %s, %s", name(path, r->ops.rows[0].name, "?"), fmt_bytes(a, r->ops.rows[0].at_peak));
}

/* The line of Python that made most of it, where stacks were taken. */
static void say_line(char *text, const struct report *r, const struct report_dev *d)
{
	uint64_t peak = d->peak;
	struct facts_line l = facts_of_peak_line(r);
	char a[24], file[TEXT_BYTES_MAX], function[TEXT_BYTES_MAX];

	if (!l.at || l.bytes > peak || !is_only_peak(r, d) || percent(l.bytes, peak) < PART_PERCENT)
		return;
	say(text, "; %s made at %s:%u", fmt_bytes(a, l.bytes), name(file, l.at->file, "?"), l.at->line);
	if (l.at->function && l.at->function[0])
		say(text, " in %s", name(function, l.at->function, "?"));
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

static void say_when(char *text, const struct judge *j, const struct report_dev *d)
{
	const struct facts_steps *f = &j->f->steps;
	const struct report *r = j->r;
	char a[24];

	say(text, " after %s", fmt_ns(a, after(r, d->peak_ts_ns)));
	if (f->phase && f->proc->peak >= d->peak - d->peak / NEAR_PART)
		say(text, ", in %s", phase_name((enum phase)f->phase));
	if (!f->proc || f->proc->peak < d->peak - d->peak / NEAR_PART) /* several processes share the device */
		return;
	if (j->f->is_grown) /* the last ones are the highest */
		return;
	if (r->sampling.is_on)
		say_traced(text, r, d);
	else if (f->outside)
		say(text, ", outside of the %zu steps", f->cnt);
	else if (f->is_cut && !f->near)
		say(text, ", before the last %zu steps", f->cnt);
	else if (f->cnt > 1 && f->near)
		say_steps(text, f->near, f->cnt, f->is_cut ? " last" : "");
}

/* The command that gives it to the byte. estimate refuses recordings of some steps: then, or without one, one is made first. */
static void say_estimate(const struct judge *j, struct verdict_line *l, const char *how)
{
	uint32_t pid = facts_to_record(j->r);
	uint64_t seen = j->r->sampling.is_on ? j->r->sampling.steps_seen : j->r->marks.steps_total;
	uint64_t span_ns = report_seen_ns(j->r);
	uint64_t wait_s = seen ? span_ns / seen * ALL_STEPS / 1000000000 : 0;

	if (!j->r->sampling.is_on && j->has_file)
		say_command(l, "memtrace estimate %s %s", j->file, how);
	else if (pid)
		say_command(l, "memtrace record -p %u -d %" PRIu64 " --max-overhead none -o all.mtr && memtrace estimate "
			    "all.mtr %s", pid, wait_s > ALL_STEPS_S ? wait_s : ALL_STEPS_S, how);
	else
		say_command(l, "memtrace record -o all.mtr -- COMMAND && memtrace estimate all.mtr %s", how);
}

/* The device's peak is that of `ranks` processes, each of which gains that much. */
static int is_worth_to_each(const struct judge *j, const struct report_dev *d, uint64_t gain, uint64_t ranks)
{
	const struct report_oom *refused = j->f->refusal;

	return gain >= GAIN_LEAST && percent(gain * ranks, d->peak) >= PART_PERCENT &&
	       (!refused || gain * ranks >= refused->asked / GAIN_OF_REFUSED);
}

static int is_worth(const struct judge *j, const struct report_dev *d, uint64_t gain)
{
	return is_worth_to_each(j, d, gain, 1);
}

/* What half the batch saves at most: half of all that grows with it, as estimate --batches takes it (docs/estimate.md). */
static uint64_t half_the_batch(const struct report_dev *d)
{
	static const enum category growing[] = { CAT_ACTIVATION, CAT_INPUT, CAT_TEMPORARY, CAT_AUTOGRAD_DETAIL,
						 CAT_DATALOADER };
	uint64_t bytes = 0;

	for (size_t i = 0; i < sizeof(growing) / sizeof(*growing); i++)
		bytes += at_peak(d, growing[i]);
	return bytes / 2;
}

/* The module whose checkpointing saves most, as far as the report knows: estimate gives it to the byte. */
static void say_checkpoint(const struct judge *j, struct verdict_line *l, const struct report_dev *d)
{
	struct facts_module f = facts_of_checkpoint(j->r);
	uint64_t half = half_the_batch(d);
	char a[24], how[TEXT_BYTES_MAX + 24];

	if (is_worth(j, d, f.bytes)) {
		say(l->next, "checkpoint %s: up to %s less%s; ", f.path, fmt_bytes(a, f.bytes),
		    j->r->saved.procs_cnt > 1 ? " each" : "");
		snprintf(how, sizeof(how), "--checkpoint '%.*s'", TEXT_BYTES_MAX, f.path);
		say_estimate(j, l, how);
	} else if (j->r->flow.has_compiled && !f.bytes && is_worth(j, d, half)) {
		/* no module in it runs, so none has more than another */
		say(l->next, "half the batch saves up to %s; or let the compiler recompute: "
		    "torch._functorch.config.activation_memory_budget = 0.5 before it compiles", fmt_bytes(a, half));
	} else if (is_worth(j, d, half)) {
		say(l->next, "half the batch saves up to %s; which modules keep most: ", fmt_bytes(a, half));
		say_report(j, l, "--by module");
	}
}

/*
 * estimate --shard begins with the whole model and refuses one of several ranks, so for these the command records it in one
 * process. What a rank of DistributedDataParallel has beside the model, copies of its gradients, fully_shard does without.
 */
static void say_shard(const struct judge *j, struct verdict_line *l, const struct report_dev *d, uint64_t bytes, uint8_t phase)
{
	uint64_t parameters = parameters_of(j->r, d, phase), state = at_peak(d, CAT_OPTIMIZER_STATE);
	uint64_t world = facts_world(j->r), ranks = facts_ranks_on(j->r, d->dev);
	uint64_t gain = (bytes - bytes / world + facts_buckets(j->r, d)) / ranks;
	int can_shard = d->peak >= SHARD_LEAST && !j->r->flow.has_parts; /* it is sharded already */
	char a[24], how[40];

	if (world > 1 && can_shard && is_worth_to_each(j, d, gain, ranks)) {
		say(l->next, "shared among %" PRIu64 " ranks (fully_shard): up to %s less each; of the job in one process: ",
		    world, fmt_bytes(a, gain));
		say_command(l, "memtrace record -o one.mtr -- COMMAND && memtrace estimate one.mtr --shard %" PRIu64, world);
		return;
	} else if (state > parameters * STATE_OF_ADAM && is_worth_to_each(j, d, state / 4 * 3 / ranks, ranks)) {
		say(l->next, "an optimizer with 8-bit state: some %s less%s; ", fmt_bytes(a, state / 4 * 3 / ranks),
		    ranks > 1 ? " each" : "");
		snprintf(how, sizeof(how), "--optimizer 8bit");
	} else if (world <= 1 && can_shard && is_worth(j, d, bytes / 2)) {
		say(l->next, "shared among 2 ranks (fully_shard): up to %s less each; ", fmt_bytes(a, bytes / 2));
		snprintf(how, sizeof(how), "--shard 2");
	} else {
		return;
	}
	say_estimate(j, l, how);
}

/* "291 MiB in process 8434 (train.py), 28.0 MiB in 8259 (eval.py, the highest of 4)" */
static void say_jobs(char *text, const struct facts_jobs *jobs)
{
	char a[24], buf[TEXT_BYTES_MAX];

	for (size_t i = 0; i < jobs->on_device && i < JOBS_NAMED; i++) {
		const struct facts_job *job = &jobs->first[i];

		say(text, "%s%s in %s%u (%s", i ? ", " : "", fmt_bytes(a, job->peak), i ? "" : "process ", job->highest->pid,
		    verdict_job_name(buf, job->highest));
		if (job->procs > 1)
			say(text, ", the highest of %zu", job->procs);
		say(text, ")");
	}
}

/* Their sum is of one moment, and so of one device; what could be done is each one's own. */
static void say_peaks(const struct judge *j, struct verdict_line *l)
{
	const struct report_dev *d = j->f->device;
	const struct facts_jobs *jobs = &j->f->jobs;
	const struct judge all = of_all(j);
	char a[24], b[24], dev[16];

	l->bytes = jobs->first[0].peak;
	say(l->text, "Peaks of %zu jobs: ", jobs->on_device);
	say_jobs(l->text, jobs);
	say(l->text, "%s; all together at most %s on %s, after %s", jobs->on_device > JOBS_NAMED ? ", \xe2\x80\xa6" : "",
	    fmt_bytes(a, d->peak), dev_name(d->dev, dev), fmt_ns(b, after(j->r, d->peak_ts_ns)));
	say_parts(l->text, j->r, d, j->f->steps.phase);
	say(l->next, "the first one alone: ");
	if (j->r->run.is_live)
		say_command(l, "memtrace -p %u", jobs->first[0].highest->pid);
	else
		say_report(&all, l, "--pid %u", jobs->first[0].highest->pid);
}

/* ", of several processes together (7.11 MiB in one at most),": what each of them has alone is less. */
static void say_together(char *text, const struct facts_jobs *jobs, const struct report_dev *d)
{
	uint64_t most = jobs->first[0].peak;
	char a[24];

	if (jobs->cnt == 1 && most && d->peak > most && percent(d->peak - most, d->peak) >= PART_PERCENT)
		say(text, ", of several processes together (%s in one at most),", fmt_bytes(a, most));
}

void say_peak(const struct judge *j, struct verdict_line *l)
{
	const struct report_dev *d = j->f->device;
	const struct facts_jobs *jobs = &j->f->jobs;
	char a[24], dev[16], buf[TEXT_BYTES_MAX];

	if (jobs->large > 1) {
		say_peaks(j, l);
		return;
	}

	l->bytes = l->kind == VERDICT_ACTIVATIONS ? j->f->kept : l->kind == VERDICT_STATE ? j->f->state : d->peak;
	say(l->text, "Peak %s on %s", fmt_bytes(a, d->peak), dev_name(d->dev, dev));
	if (jobs->cnt > 1) /* the others have next to nothing */
		say(l->text, ", nearly all of process %u (%s),", jobs->first[0].highest->pid,
		    verdict_job_name(buf, jobs->first[0].highest));
	say_together(l->text, jobs, d);
	say_when(l->text, j, d);
	say_parts(l->text, j->r, d, j->f->steps.phase);
	if (j->f->is_grown) {
		say(l->text, "; most of it is what grows");
	} else {
		say_whose(l->text, j->r, d->peak);
		say_line(l->text, j->r, d);
	}
	if (l->kind == VERDICT_ACTIVATIONS)
		say_checkpoint(j, l, d);
	else if (l->kind == VERDICT_STATE)
		say_shard(j, l, d, j->f->state, j->f->steps.phase);
}

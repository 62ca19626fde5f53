/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Lines on the end: memory was refused; a process was killed or failed. */
#include <inttypes.h>
#include <string.h>
#include <sys/wait.h>

#include "base/text.h"
#include "event/event.h"
#include "timeline/report.h"
#include "timeline/sieve.h"
#include "verdict/facts.h"
#include "verdict/rules.h"
#include "verdict/say.h"

/* "5123 (train.py, rank 2)"; comm: where the report has no row of it. */
static void say_process(char *text, const struct report *r, uint32_t pid, const char *comm)
{
	const struct report_proc *p = report_proc_last(r, pid);
	char buf[TEXT_BYTES_MAX];
	uint32_t rank;

	say(text, "%u (%s%s", pid, p && facts_is_worker(p) ? "a DataLoader worker of " : "",
	    p ? verdict_job_name(buf, p) : name(buf, comm, "?"));
	if (report_rank(r, pid, &rank))
		say(text, ", rank %u", rank);
	say(text, ")");
}

static void say_rise(char *text, const struct judge *j)
{
	struct facts_rise rise = j->f->rise;
	char a[24], b[24];

	if (rise.ns)
		say(text, " (%s %s before)", fmt_bytes(a, rise.before), fmt_ns(b, rise.ns));
}

/* What was live then, by module; --at takes milliseconds, and the refusal is at their end. In a gap nothing is known. */
static void say_who_held(struct verdict_line *l, const struct judge *j, const struct report_oom *o)
{
	const struct judge of = j->r->procs_cnt > 1 ? of_all(j) : *j; /* its --pid comes */
	char dev[16];

	if (j->r->sampling.is_on)
		return;
	say(l->next, "what held it, by module: ");
	if (j->has_file)
		say_report(&of, l, "--by module --at %.3fs", (double)(after(j->r, o->ts_ns) / 1000000) / 1e3);
	else
		say_report(&of, l, "--by module --at peak");
	if (o->kind != OOM_DEATH && j->r->devs_cnt > 1)
		say_command(l, " --device %s", dev_name(o->dev, dev));
	if (j->r->procs_cnt > 1)
		say_command(l, " --pid %u", o->pid);
}

/* As far as anything says it: of what it had before an attach not all may have been seen. */
static uint64_t held(const struct report_oom *o)
{
	uint64_t ret = o->live > o->reserved ? o->live : o->reserved;

	return ret > o->rss_total ? ret : o->rss_total;
}

/* Nothing of the process is from before an attach. */
static bool was_seen_whole(const struct report *r, uint32_t pid)
{
	const struct report_proc *p = report_proc_last(r, pid);

	return p && p->how != EV_PROC_ATTACHED;
}

/* Whose forward or backward: ", in forward of Model.layers.0". */
static void say_module(char *text, const struct report_oom *o)
{
	char path[TEXT_BYTES_MAX], root[TEXT_BYTES_MAX], part[TEXT_BYTES_MAX];

	if (!o->module)
		return;
	module_plain(part, sizeof(part), o->module);
	say(text, ", in %s of %s%s%s", phase_name((enum phase)o->phase), name(root, o->root, part[0] ? "" : "the model"),
	    o->root[0] && part[0] ? "." : "", name(path, part, ""));
}

static void say_asked(const struct judge *j, struct verdict_line *l, const struct report_oom *o)
{
	char a[24], b[24], c[24], dev[16], op[TEXT_BYTES_MAX];

	l->bytes = o->asked;
	say(l->text, "Out of memory after %s: %s refused ", fmt_ns(a, after(j->r, o->ts_ns)), dev_name(o->dev, dev));
	if (j->r->procs_cnt > 1) {
		say(l->text, "process ");
		say_process(l->text, j->r, o->pid, o->comm);
		say(l->text, " ");
	}
	say(l->text, "%s in %s", fmt_bytes(b, o->asked), name(op, o->op, "no operator"));
	say_module(l->text, o);
	if (o->times > 1)
		say(l->text, ", %" PRIu64 " times", o->times);
	say(l->text, "; %s were live", fmt_bytes(a, o->live));
	say_rise(l->text, j);
	if (o->reserved)
		say(l->text, ", %s reserved, of it %s free in pieces of %s at most", fmt_bytes(a, o->reserved),
		    fmt_bytes(b, o->unused), fmt_bytes(c, o->largest_free));
	if (o->private_free)
		say(l->text, "; %s more are free for CUDA graphs alone (private pools)", fmt_bytes(a, o->private_free));
	if (o->reserved && o->unused >= o->asked)
		say(l->next, "the free %s would have held it: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
		    fmt_bytes(a, o->unused));
	else if (held(o) < o->asked / ASKED_TIMES && was_seen_whole(j->r, o->pid))
		say(l->next, "that is more than %d times all that it had: is such a size meant? The job's own error says at "
		    "which line", ASKED_TIMES);
	else if (o->live)
		say_who_held(l, j, o);
}

static int has_gpu(const struct report *r)
{
	for (size_t i = 0; i < r->devs_cnt; i++)
		if (r->devs[i].dev >= MT_DEV_CUDA0 && r->devs[i].peak)
			return 1;
	return 0;
}

static void say_killed(const struct judge *j, struct verdict_line *l, const struct report_oom *o)
{
	char a[24], b[24];

	l->bytes = o->rss_total;
	say(l->text, o->marked ? "The kernel's OOM killer took process " : "Process ");
	say_process(l->text, j->r, o->pid, o->comm);
	say(l->text, o->marked ? " after %s" : " was killed after %s, as the kernel's OOM killer was at work",
	    fmt_ns(a, after(j->r, o->ts_ns)));
	if (o->rss_total)
		say(l->text, "; its RSS was %s (anonymous %s)", fmt_bytes(a, o->rss_total), fmt_bytes(b, o->rss[MT_RSS_ANON]));
	if (o->rss_total)
		say_rise(l->text, j);
	if (has_gpu(j->r) || j->r->sampling.is_on) /* live is not of what RSS counts, or not all of it */
		return;
	if (o->live && o->live >= o->rss[MT_RSS_ANON] / 2)
		say_who_held(l, j, o);
	else if (o->rss[MT_RSS_ANON] && !facts_is_malloc_watched(j->r))
		say(l->next, "%s of it was in tensors; recorded with --probes framework,flow,regions,kernel,host "
		    "--stacks=python it says which lines made the rest", fmt_bytes(a, o->live));
}

void say_refused(const struct judge *j, struct verdict_line *l)
{
	(j->f->refusal->kind == OOM_DEATH ? say_killed : say_asked)(j, l, j->f->refusal);
}

void say_died(const struct judge *j, struct verdict_line *l)
{
	const struct report_oom *o = j->f->death;
	int sig = WTERMSIG((int)o->exit_status);
	const char *abbrev = sigabbrev_np(sig);
	char a[24];

	say(l->text, "Process ");
	say_process(l->text, j->r, o->pid, o->comm);
	say(l->text, " was ended by SIG%s after %s", abbrev ? abbrev : "?", fmt_ns(a, after(j->r, o->ts_ns)));
	if (sig != SIGKILL)
		return;
	say(l->text, "; the kernel has reported no OOM kill");
	say(l->next, "who sent it? A job's time or memory limit (its scheduler's log), systemd-oomd or earlyoom "
	    "(the system's log), or a person");
}

void say_exit(const struct judge *j, struct verdict_line *l)
{
	const struct judge of = j->r->procs_cnt > 1 ? of_all(j) : *j; /* its --pid comes */
	const struct facts_failed f = j->f->failed;
	char a[24];

	if (j->f->jobs.cnt > 1) {
		say(l->text, "Process ");
		say_process(l->text, j->r, f.proc->pid, NULL);
	} else {
		say(l->text, "The job");
	}
	say(l->text, " ended with exit code %d after %s", WEXITSTATUS((int)f.proc->exit_status),
	    fmt_ns(a, after(j->r, f.proc->exit_ts_ns)));
	if (f.first) {
		say(l->text, "; of what it started process ");
		say_process(l->text, j->r, f.first->pid, NULL);
		say(l->text, " failed first, with exit code %d after %s", WEXITSTATUS((int)f.first->exit_status),
		    fmt_ns(a, after(j->r, f.first->exit_ts_ns)));
	}
	if (f.others)
		say(l->text, "; %zu more ended with an error", f.others);
	say(l->next, "why is in its own output, by a traceback as a rule");
	if (j->r->procs_cnt > 1 && j->has_file) {
		say(l->next, "; what it held: ");
		say_report(&of, l, "--pid %u", f.first ? f.first->pid : f.proc->pid);
	}
}

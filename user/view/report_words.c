/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/report_words.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/text.h"
#include "event/event.h"
#include "timeline/report.h"
#include "verdict/verdict.h"

uint64_t report_peak_sum(const struct report *r)
{
	uint64_t sum = 0;
	int is_host_only = 1;

	for (size_t i = 0; i < r->devs_cnt; i++)
		is_host_only &= r->devs[i].dev == MT_DEV_HOST;
	for (size_t i = 0; i < r->devs_cnt; i++)
		if (is_host_only || r->devs[i].dev != MT_DEV_HOST)
			sum += r->devs[i].peak;
	return sum;
}

const struct report_dev *report_dev_main(const struct report *r)
{
	const struct report_dev *best = NULL;

	for (size_t i = 0; i < r->devs_cnt; i++)
		if (r->devs[i].dev >= MT_DEV_CUDA0 && (!best || r->devs[i].peak > best->peak))
			best = &r->devs[i];
	best = best ? best : report_dev_find(r, MT_DEV_CPU);
	return best ? best : report_dev_find(r, MT_DEV_HOST);
}

int report_has_source(const struct report *r, const char *source)
{
	for (size_t i = 0; i < r->probes.covers_cnt; i++)
		if (r->probes.covers[i].source && !strcmp(r->probes.covers[i].source, source) && r->probes.covers[i].attached)
			return 1;
	return 0;
}

uint64_t report_events_sum(const struct report *r)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < 256; i++)
		sum += r->run.events[i];
	return sum;
}

uint64_t report_sampled(const struct report *r)
{
	return r->run.lost[MT_LOSS_STACK_RATE];
}

uint64_t report_rss(const struct report *r, uint64_t *ret_peak)
{
	uint64_t rss = 0, peak = 0, together = 0;

	for (size_t i = 0; i < r->procs_cnt; i++) {
		if (r->procs[i].gone != 1)
			rss += r->procs[i].rss_total;
		peak += r->procs[i].rss_peak;
	}
	/* Peaks of single processes need not coincide: all together is known where there is a series. */
	for (size_t i = 0; i < r->kernel.rss.cnt; i++)
		together = r->kernel.rss.points[i].live_max > together ? r->kernel.rss.points[i].live_max : together;
	if (together)
		peak = together;
	*ret_peak = peak;
	return rss;
}

uint64_t report_framework_live(const struct report *r)
{
	const struct report_dev *d = report_dev_find(r, MT_DEV_CPU);

	return d ? d->live : 0;
}

int report_has_cats(const struct report *r)
{
	for (size_t i = 0; i < r->devs_cnt; i++)
		for (unsigned c = 1; c < CAT_MAX; c++)
			if (r->devs[i].cats[c].byte_ns || r->devs[i].cats[c].at_peak || r->devs[i].cats[c].live)
				return 1;
	return 0;
}

int report_has_use(const struct report *r)
{
	for (size_t i = 0; i < r->devs_cnt; i++) {
		const struct report_dev *d = &r->devs[i];

		for (unsigned c = 0; c < CAT_MAX; c++)
			if (d->cats[c].plain > (int64_t)(d->peak / 100) || -d->cats[c].plain > (int64_t)(d->peak / 100))
				return 1;
	}
	return 0;
}

const char report_words_use[] =
	"At peak in torch.profiler's words, which call some of it otherwise (what compiled code keeps PARAMETER or INPUT) or "
	"nothing. By use: what it is there for, as the verdict counts it; --classes extended has that everywhere.";

static const struct {
	const char *key, *words;
} progs[MT_PROG_MAX] = {
	[MT_PROG_FW_NEW] = { "fw_new", "tensor alloc" },
	[MT_PROG_FW_DELETE] = { "fw_delete", "tensor free" },
	[MT_PROG_FW_OOM] = { "fw_oom", "out of memory" },
	[MT_PROG_OP] = { "op", "operator" },
	[MT_PROG_NODE] = { "node", "backward node" },
	[MT_PROG_REGION_BEGIN] = { "region_begin", "region begin" },
	[MT_PROG_REGION_END] = { "region_end", "region end" },
	[MT_PROG_HOST_FREE] = { "host_free", "free()" },
	[MT_PROG_HOST_ENTER] = { "host_enter", "malloc() entry" },
	[MT_PROG_HOST_RET] = { "host_ret", "malloc() return" },
	[MT_PROG_HOST_EXIT] = { "host_exit", "operator new return" },
	[MT_PROG_USDT] = { "usdt", "USDT" },
	[MT_PROG_FLOW_OP] = { "flow_op", "operator with tensors" },
	[MT_PROG_FLOW_APPLY] = { "flow_apply", "node apply" },
	[MT_PROG_FLOW_ACC] = { "flow_acc", "gradient accumulation" },
	[MT_PROG_FLOW_BOXED] = { "flow_boxed", "boxed operator" },
	[MT_PROG_SYSCALL] = { "syscall", "system call" },
	[MT_PROG_RSS] = { "rss", "RSS change" },
	[MT_PROG_EXIT] = { "exit", "exit" },
	[MT_PROG_FW_USAGE] = { "fw_usage", "GPU tensor alloc or free" },
	[MT_PROG_FW_USAGE_OOM] = { "fw_usage_oom", "GPU out of memory" },
	[MT_PROG_SEG_ENTER] = { "seg_enter", "GPU memory API entry" },
	[MT_PROG_SEG_RET] = { "seg_ret", "GPU memory API return" },
	[MT_PROG_STACK] = { "stack", "stack of an allocation" },
	[MT_PROG_MODULE] = { "module", "module of an allocation" },
	[MT_PROG_LOOKUP] = { "lookup", "operator look-up" },
};

const char *prog_key(unsigned prog)
{
	return prog < MT_PROG_MAX && progs[prog].key ? progs[prog].key : "?";
}

const char *prog_words(unsigned prog)
{
	return prog < MT_PROG_MAX && progs[prog].words ? progs[prog].words : "?";
}

static const struct {
	const char *key, *words;
} tensor_kinds[EV_TENSOR_MAX] = {
	[EV_TENSOR_PARAMETER] = { "parameter", "parameter" },
	[EV_TENSOR_BUFFER] = { "buffer", "buffer" },
	[EV_TENSOR_GRADIENT] = { "gradient", "gradient" },
	[EV_TENSOR_STATE] = { "optimizer_state", "optimizer state" },
};

const char *tensor_kind_words(unsigned kind)
{
	return kind < EV_TENSOR_MAX && tensor_kinds[kind].words ? tensor_kinds[kind].words : "?";
}

const char *tensor_kind_key(unsigned kind)
{
	return kind < EV_TENSOR_MAX && tensor_kinds[kind].key ? tensor_kinds[kind].key : "?";
}

const char *report_end_word(const struct report *r)
{
	if (!r->run.ended)
		return "cut";
	return r->run.end_reason == EV_END_DETACHED	     ? "detached" :
	       r->run.end_reason == EV_END_TARGET_GONE   ? "target gone" :
	       r->run.end_reason == EV_END_WINDOW	     ? "a window of a trace that went on" :
							 "failed";
}

const char *report_words_traced(char buf[TRACED_MAX], const struct report *r)
{
	char all[24], part[24];

	fmt_ns(all, r->run.end_ts_ns - r->run.start_ts_ns);
	fmt_ns(part, report_traced_ns(r));
	if (strcmp(all, part))
		snprintf(buf, TRACED_MAX, "%s of %s traced", part, all);
	else
		snprintf(buf, TRACED_MAX, "%s traced", all);
	return buf;
}

const char *report_words_steps(char buf[STEPS_WORDS_MAX], const struct report *r)
{
	const struct report_sampling *s = &r->sampling;
	bool is_some = s->is_on && s->gaps_cnt && s->steps_seen;
	uint64_t steps = is_some ? s->steps_seen : r->marks.steps_total, ns = report_seen_ns(r);
	char a[24], b[24], traced[40] = "";

	buf[0] = '\0';
	if (is_some)
		snprintf(traced, sizeof(traced), ", %s traced", fmt_count(a, (double)s->steps_traced));
	if (steps)
		snprintf(buf, STEPS_WORDS_MAX, "%s steps (%s/s)%s", fmt_count(a, (double)steps),
			 fmt_count(b, ns ? (double)steps * 1e9 / (double)ns : 0), traced);
	return buf;
}

const char *proc_state(char *buf, const struct report_proc *p)
{
	int status = (int)p->exit_status;

	if (!p->gone)
		snprintf(buf, 32, "running");
	else if (p->gone == 2)
		snprintf(buf, 32, "detached");
	else if (WIFSIGNALED(status))
		snprintf(buf, 32, "signal %d", WTERMSIG(status));
	else
		snprintf(buf, 32, "exited %d", WEXITSTATUS(status));
	return buf;
}

const char *rss_word(unsigned kind)
{
	static const char *const words[MT_RSS_KINDS] = { "file", "anon", "swap", "shmem" };

	return kind < MT_RSS_KINDS ? words[kind] : "?";
}

const char *use_word(unsigned kind)
{
	static const char *const words[MT_USES] = {
		[MT_USE_RSS] = "rss",		  [MT_USE_PSS] = "pss",		  [MT_USE_PRIVATE] = "private",
		[MT_USE_SHARED] = "shared",	  [MT_USE_ANON] = "anon",	  [MT_USE_PSS_ANON] = "pss_anon",
		[MT_USE_PSS_FILE] = "pss_file",	  [MT_USE_PSS_SHMEM] = "pss_shmem", [MT_USE_HUGE] = "huge",
		[MT_USE_HUGETLB] = "hugetlb",	  [MT_USE_SWAP] = "swap",	  [MT_USE_LOCKED] = "locked",
		[MT_USE_PINNED] = "pinned",
	};

	return kind < MT_USES ? words[kind] : "?";
}

const char *proc_words(char *buf, size_t size, const struct report *r, uint32_t pid)
{
	uint32_t rank;

	for (size_t i = 0; i < r->procs_cnt; i++) {
		struct rank_label label;

		if (r->procs[i].pid != pid)
			continue;
		label = report_proc_label(&r->procs[i]);
		if (rank_label__rank(&label, &rank) == RANK_NONE)
			break;
		snprintf(buf, size, "rank %u", rank);
		return buf;
	}
	snprintf(buf, size, "%u", pid);
	return buf;
}

size_t report_words_jobs(const struct report *r)
{
	return verdict_jobs(r);
}

/* Behind Python and its options, except those that name what runs (-m, -c). */
static const char *what_runs(const char *text)
{
	size_t len = strcspn(text, " ");
	const char *slash = memrchr(text, '/', len), *p = text + len, *next;

	if (strncmp(slash ? slash + 1 : text, "python", 6))
		return text;
	for (; p[0] == ' ' && p[1] == '-' && p[2] && !strchr("mc", p[2]); p = next) {
		next = p + 1 + strcspn(p + 1, " ");
		if (strchr("XW", p[2]) && next == p + 3 && *next) /* its value is a separate word */
			next += 1 + strcspn(next + 1, " ");
	}
	return p[0] == ' ' && p[1] ? p + 1 : text;
}

const char *words_of_command(char buf[TEXT_BYTES_MAX], const char *cmdline)
{
	size_t at = 0, len;

	buf[0] = '\0';
	for (const char *p = what_runs(cmdline), *slash; *p && at < TEXT_BYTES_MAX - 1; p += len + (p[len] == ' ')) {
		len = strcspn(p, " ");
		slash = *p == '-' ? NULL : memrchr(p, '/', len);
		slash = slash && slash + 1 < p + len ? slash + 1 : p;
		at += (size_t)snprintf(buf + at, TEXT_BYTES_MAX - at, "%.*s%s", (int)(p + len - slash), slash,
				       p[len] ? " " : "");
	}
	return at < TEXT_BYTES_MAX ? buf : cmdline; /* else cut: as it is */
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "cmd/trace_opts.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "cmd/cmd.h"
#include "memtrace/shared.h"
#include "plan/plan.h"
#include "record/window.h"
#include "timeline/report.h"
#include "view/report_words.h"

#define STEPS_TRACED_DEFAULT 3

/* Not if Python is not to be read from outside; nor if all allocations have their stacks: nothing is left to catch. */
static unsigned catches(const struct options *o)
{
	int has_all = o->stacks & MT_STACKS_PYTHON && !o->stack_size;
	int has_allocs = !!(o->sources & (SRC_FRAMEWORK | SRC_HOST | SRC_USDT | SRC_SEGMENTS));

	return !o->no_names && has_allocs && !has_all ? MT_STACKS_CATCH : 0;
}

/*
 * The default wherever there is a budget, which it must fit. Of malloc's blocks traced steps do not tell what seeing all would
 * take: small ones are hit, and not reported.
 */
static int is_between_auto(const struct options *o)
{
	int is_default = o->between == BETWEEN_DEFAULT && !(o->sources & SRC_HOST);

	return o->max_overhead > 0 && (o->between == BETWEEN_AUTO || is_default);
}

void session_opts_from(struct session_opts *so, const struct options *o)
{
	*so = (struct session_opts){
		.pids = o->pids,
		.pids_cnt = o->pids_cnt,
		.launch = o->launch,
		.user = o->user,
		.all = o->all_jobs,
		.follow = !o->no_follow,
		.redact = o->redact,
		.quiet = o->quiet,
		.keep_idle = o->keep_idle,
		.names = !o->no_names,
		/* Once for each operator that Python calls: without operators, it would be at each allocation. */
		.modules = !o->no_modules && o->sources & (SRC_OPS | SRC_FLOW),
		.sources = o->sources,
		.classes = o->classes,
		.usdt = o->usdt,
		.usdt_cnt = o->usdt_cnt,
		.min_size = o->min_size,
		.stacks = o->stacks | catches(o),
		.stack_size = o->stack_size,
		.ring_bytes = o->ring_size,
		.duration_ns = o->duration_ns,
		.max_overhead = o->max_overhead,
		.is_budget_own = o->is_budget_own,
		.cadence = { .steps = o->steps ? o->steps : STEPS_TRACED_DEFAULT, .every_ns = o->every_ns,
			     .align_steps = o->align_steps, .align_ns = o->align_ns },
		.between = o->between == BETWEEN_BLOCKS ? MT_LEVEL_BLOCKS : MT_LEVEL_WATCH,
		.is_between_auto = is_between_auto(o),
		.force_perf = o->force_perf,
		.record_path = o->out,
		.how = outputs_of(o),
		.window_ns = o->window_ns,
		.window_bytes = o->window_size ? o->window_size : WINDOW_BYTES_DEFAULT,
		.new_peak = o->new_peak,
		.top = report_top(o),
	};
}

void recording_default_path(const struct options *o, char *buf, size_t size)
{
	char who[64], when[32];
	time_t now = time(NULL);
	struct tm tm;

	if (o->launch) {
		const char *base = strrchr(o->launch[0], '/');

		snprintf(who, sizeof(who), "%.40s", base ? base + 1 : o->launch[0]);
		for (char *p = who; *p; p++)
			if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
				*p = '_';
	} else if (o->all_jobs) {
		snprintf(who, sizeof(who), "all");
	} else {
		snprintf(who, sizeof(who), "%d", (int)o->pids[0]);
	}
	if (!localtime_r(&now, &tm) || !strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &tm))
		snprintf(when, sizeof(when), "0");
	if (o->pids_cnt)
		snprintf(buf, size, "memtrace-%s-%s.mtr", who, when);
	else /* many may start in one second, as of an MPI job; a process has one memtrace */
		snprintf(buf, size, "memtrace-%s-%s-%d.mtr", who, when, (int)getpid());
}

uint64_t file_bytes(const char *path)
{
	struct stat st;

	return !stat(path, &st) && st.st_size > 0 ? (uint64_t)st.st_size : 0;
}

void recording_say(const char *path, const struct report *r)
{
	uint64_t bytes = file_bytes(path), events = report_events_sum(r), lost = report_lost_events(r);
	char a[24], b[24], c[24], safe[TEXT_BYTES_MAX];

	fprintf(stderr, "recorded %s: %s events in %s, %s", safe_text(safe, path), fmt_count(a, (double)events),
		fmt_ns(b, r->run.end_ts_ns - r->run.start_ts_ns), fmt_bytes(c, bytes));
	if (events && !r->run.lost[MT_LOSS_RECORDING] && !r->run.lost[MT_LOSS_STALLED])
		fprintf(stderr, " (%.1f bytes an event)", (double)bytes / (double)events);
	if (lost)
		fprintf(stderr, ", LOST %s (the report says why)\n", fmt_count(a, (double)lost));
	else if (!r->devs_cnt)
		fprintf(stderr, report_probes__were_set(&r->probes) ? ", nothing to lose: no block was allocated or freed\n" :
			", nothing to lose: no probe was set\n");
	else
		fprintf(stderr, report_lost_sum(r) ? ", no event lost (details were: see the report)\n" : ", nothing lost\n");
	fprintf(stderr, "next: memtrace report %s\n", shell_word(safe, path));
}

int launched_say(const struct options *o, int wait_status)
{
	char safe[TEXT_BYTES_MAX];

	if (!o->launch || !wait_status)
		return 0;
	safe_text(safe, o->launch[0]);
	if (WIFSIGNALED(wait_status)) {
		fprintf(stderr, "memtrace: %s was killed by signal %d\n", safe, WTERMSIG(wait_status));
		return 128 + WTERMSIG(wait_status);
	}
	fprintf(stderr, "memtrace: %s ended with exit code %d\n", safe, WEXITSTATUS(wait_status));
	return WEXITSTATUS(wait_status);
}

void launched_say_on(const struct options *o, pid_t pid)
{
	char safe[TEXT_BYTES_MAX];

	if (o->launch && pid > 0 && !waitpid(pid, NULL, WNOHANG))
		fprintf(stderr, "%s (process %d) goes on, untraced\n", safe_text(safe, o->launch[0]), (int)pid);
}

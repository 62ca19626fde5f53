/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * export: the output file is opened only once the recording has proved readable, so that a mistyped
 * name never empties a file that was there.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "cmd/replay.h"
#include "timeline/report.h"
#include "view/text.h"

#define PROGRESS_AFTER_S 2

struct export_run {
	const struct options *o;
	const struct export_format *format;
	struct export_ctx *ctx;
	struct export_to to;
	FILE *out;
	struct err *err;
	uint64_t events;
	struct timespec start, said;
	int has_said;
};

static int run_format(struct export_run *x, const struct names *names)
{
	x->to = (struct export_to){ .out = x->out, .names = names, .dev = -1,
				    .path = x->out == stdout ? NULL : x->o->out };
	return x->format->begin(&x->ctx, &x->to);
}

static int run_begin(void *ctx, const struct names *names)
{
	struct export_run *x = ctx;
	struct stat in, out;

	if (!strcmp(x->o->out, "-")) {
		x->out = stdout;
		return run_format(x, names);
	}
	if (!stat(x->o->file, &in) && !stat(x->o->out, &out) && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
		return err_set(x->err, -EINVAL, "%s is the recording itself", x->o->out);
	x->out = fopen(x->o->out, "we");
	if (!x->out)
		return err_set(x->err, -errno, "cannot write %s: %s", x->o->out, strerror(errno));
	return run_format(x, names);
}

static int run_event(void *ctx, const struct tl_event *ev, int64_t epoch_off_ns)
{
	struct export_run *x = ctx;
	int r = x->format->event(x->ctx, ev, epoch_off_ns);

	x->events++;
	return r < 0 ? err_set(x->err, r, "writing %s: %s", x->o->out, strerror(-r)) : 0;
}

static void run_progress(void *ctx, double share)
{
	struct export_run *x = ctx;
	struct timespec now;
	char n[24];

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (x->o->quiet || now.tv_sec - x->start.tv_sec < PROGRESS_AFTER_S || now.tv_sec == x->said.tv_sec)
		return;
	x->said = now;
	x->has_said = isatty(STDERR_FILENO);
	fprintf(stderr, "%sexporting: %.0f %%, %s records%s", x->has_said ? "\r\x1b[K" : "", 100 * share,
		fmt_count(n, (double)x->events), x->has_said ? "" : "\n");
	fflush(stderr);
}

static int run_end(struct export_run *x, const struct report *rep, int r)
{
	int e = x->ctx ? x->format->end(x->ctx, rep) : 0;

	if (x->out && x->out != stdout && fclose(x->out) && !e)
		e = -errno;
	if (x->has_said)
		fputs("\r\x1b[K", stderr);
	if (!r && e < 0)
		r = err_set(x->err, e, "writing %s: %s", x->o->out, strerror(-e));
	return r;
}

int cmd_export(const struct options *o, struct err *err)
{
	struct err sink_err = { 0 };
	struct export_run x = { .o = o, .format = export_format_find(o->format), .err = &sink_err };
	struct replay_opts ro = { .top = 1, .begin = run_begin, .event = run_event, .progress = run_progress,
				  .with_ops = o->ops, .ctx = &x };
	struct report *rep = NULL;
	uint64_t cut = 0;
	int r;

	clock_gettime(CLOCK_MONOTONIC, &x.start);
	r = replay_run(o->file, &ro, &rep, &cut, err);
	r = run_end(&x, rep, r);
	if (r < 0 && sink_err.code)
		*err = sink_err;
	if (!r) {
		char n[24], name[TEXT_BYTES_MAX];

		if (cut && !o->quiet)
			replay_say_cut(o->file, cut);
		if (x.out != stdout && !o->quiet)
			fprintf(stderr, "%s: %s records\n", safe_text(name, o->out), fmt_count(n, (double)x.events));
		r = loss_exit_code(o, rep);
	}
	report__free(rep);
	return r;
}

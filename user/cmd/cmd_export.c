/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * export: the recording is read twice. A block's category is final only later (a gradient's bytes are
 * autograd's own until something takes them), so a first pass collects the final labels of all blocks,
 * and a second one writes. --labels live writes in one pass the labels known at each moment.
 *
 * The output gets its name when it is whole (base/outfile.h); only an existing pipe or terminal gets it piece by piece.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/outfile.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "replay/filter.h"
#include "replay/replay.h"
#include "timeline/labels.h"
#include "timeline/ranks.h"
#include "timeline/report.h"
#include "view/export/gzip.h"
#include "view/report_words.h"

#define PROGRESS_AFTER_S 2

struct export_run {
	const struct options *o;
	const struct export_format *format;
	struct export_ctx *ctx;
	struct export_to to;
	char recording[TEXT_BYTES_MAX]; /* to.recording */
	struct outfile file; /* unless it is stdout */
	FILE *out;
	struct err *err;
	unsigned pass, passes;
	struct timespec start, shown;
	int shows_progress;
	uint64_t bytes; /* in the end */
	struct names *names;   /* the first pass's: all, while the second one's are still being read; NULL: one pass */
	int is_part;	       /* filter's sieve stands before the format */
	int has_moment;	       /* … or the format shows the moment of --at in the whole */
	struct export_at at;
	struct filter filter;
	int64_t epoch_off_ns;
};

/* Bytes in the file so far, as they are there, compressed or not; 0: a stream that has no length. */
static uint64_t run_written(const struct export_run *x)
{
	struct stat st;

	if (x->file.fd < 0 || fstat(x->file.fd, &st))
		return 0;
	return (uint64_t)st.st_size;
}

static void run_progress(void *ctx, double share)
{
	struct export_run *x = ctx;
	uint64_t bytes = run_written(x);
	char n[24], written[40] = "";
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (x->o->quiet || now.tv_sec - x->start.tv_sec < PROGRESS_AFTER_S || now.tv_sec == x->shown.tv_sec)
		return;
	x->shown = now;
	x->shows_progress = isatty(STDERR_FILENO);
	if (bytes)
		snprintf(written, sizeof(written), ", %s written", fmt_bytes(n, bytes));
	fprintf(stderr, "%sexporting: %.0f %%%s%s", x->shows_progress ? "\r\x1b[K" : "",
		100 * (x->pass + share) / x->passes, written, x->shows_progress ? "" : "\n");
	fflush(stderr);
}

/* --- the file --------------------------------------------------------------------------------------- */

static int no_stream(const struct export_run *x)
{
	err_set(x->err, -EINVAL, "%s is not written to a stream", x->format->name);
	return err_hint(x->err, "give -o a file's name that does not end in .gz");
}

/* Checked first: an export that cannot be written is refused at once. */
static int run_open(struct export_run *x)
{
	enum outfile_kind kind = x->format->needs & EXPORT_FILE ? OUTFILE_NAMED : OUTFILE_WHOLE;
	struct outfile_how how = outputs_of(x->o);
	struct stat in, out;
	int r, fd;

	if (x->format->needs & EXPORT_FILE && (!strcmp(x->o->out, "-") || gzip_is_asked(x->o->out)))
		return no_stream(x);
	if (!strcmp(x->o->out, "-")) {
		x->out = stdout;
		return 0;
	}
	if (!stat(x->o->file, &in) && !stat(x->o->out, &out) && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
		return err_set(x->err, -EINVAL, "%s is the recording itself", x->o->out);
	r = outfile__open(&x->file, x->o->out, kind, &how, x->err);
	if (r < 0)
		return r;
	if (x->format->needs & EXPORT_FILE && x->file.is_stream)
		return no_stream(x);
	fd = fcntl(x->file.fd, F_DUPFD_CLOEXEC, 0); /* a FILE closes its own, and the other is synced then */
	if (fd >= 0)
		x->out = gzip_is_asked(x->o->out) ? gzip_open(fd) : fdopen(fd, "w");
	return x->out ? 0 : err_set(x->err, -errno, "cannot write %s: %s", x->o->out, strerror(errno));
}

/* Keeps the whole output, or removes it. */
static int run_close(struct export_run *x, int r)
{
	if (x->out && x->out != stdout && fclose(x->out) && !r)
		r = err_set(x->err, -errno, "writing %s: %s", x->o->out, strerror(errno));
	x->bytes = run_written(x);
	if (x->file.fd < 0)
		return r;
	if (!r)
		return outfile__finish(&x->file, x->err);
	outfile__drop(&x->file);
	return r;
}

/* --- the first pass -------------------------------------------------------------------------------- */

static int collect_event(void *ctx, const struct tl_event *ev, int64_t epoch_off_ns)
{
	struct export_run *x = ctx;
	int r = labels__event((struct labels *)x->to.labels, ev);

	(void)epoch_off_ns;
	if (r < 0)
		return err_set(x->err, r, "writing a temporary file for labels: %s", strerror(-r));
	return x->is_part || x->has_moment || x->filter.wants_one_step ? filter__learn(&x->filter, ev) : 0;
}

/* One rank alone is the whole. */
static void drop_one_rank(struct report *first)
{
	if (!first->ranks || first->ranks->cnt > 1)
		return;
	report_ranks__free(first->ranks);
	first->ranks = NULL;
}

/* As --at 12.5s is, and --at peak where the peak is in no step. */
static int one_moment(const struct export_run *x, struct err *err)
{
	err_set(err, -EINVAL, "%s is of a stretch of time, and that is one moment", x->format->name);
	return err_hint(err, "--from 12s --until 13s, or --at 'step 100'; memtrace report FILE --at 12.5s says what lived "
			"then"), -EINVAL;
}

static void settle_moment(struct export_run *x)
{
	uint8_t dev = (uint8_t)x->filter.sieve.dev;

	x->at = (struct export_at){ .text = x->o->at.text, .sieve = &x->filter.sieve, .dev = dev,
				    .peak_ns = report_peak_ts_ns(x->to.report, dev) };
	x->to.at = &x->at;
}

static int collect(struct export_run *x, struct labels **ret_labels, struct report **ret_report, struct err *err)
{
	int is_part = x->is_part || x->filter.wants_one_step;
	size_t top = is_part ? SIZE_MAX : x->format->needs & EXPORT_TABLES ? EXPORT_TABLE_ROWS : 1;
	struct replay_opts ro = { .top = top, .ranks_top = x->format->needs & EXPORT_RANKS ? 1 : 0, .event = collect_event,
				  .progress = run_progress, .with_nodes = 1, .classes = x->o->classes,
				  .names = &x->names, .ctx = x };
	struct replay_end end;
	int r = labels__new(ret_labels, err);

	if (r < 0)
		return r;
	x->to.labels = *ret_labels;
	r = replay_run(x->o->file, &ro, ret_report, &end, err);
	x->to.report = *ret_report;
	x->pass++;
	if (!r)
		drop_one_rank(*ret_report);
	if (!r && (is_part || x->has_moment))
		r = filter__settle(&x->filter, *ret_report, *ret_labels, x->names, err);
	x->is_part |= x->filter.one_step[0] != '\0';
	if (!r && x->format->needs & EXPORT_STRETCH && x->filter.sieve.span.from_ns == x->filter.sieve.span.to_ns)
		r = one_moment(x, err);
	if (!r && x->has_moment)
		settle_moment(x);
	x->filter.sieve.dev = x->o->dev; /* all of them, if none was named */
	if (x->o->labels_live && !(x->format->needs & EXPORT_LABELS))
		x->to.labels = NULL;
	return r;
}

/* --- the second one ----------------------------------------------------------------------------------- */

static int run_begin(void *ctx, const struct names *names)
{
	struct export_run *x = ctx;
	const char *slash = strrchr(x->o->file, '/');
	int r;

	x->to.out = x->out;
	x->to.names = x->names ? x->names : names;
	x->to.path = x->out == stdout ? NULL : x->file.part ? x->file.part : x->o->out;
	x->to.dev = x->o->dev;
	x->to.part = x->is_part ? &x->filter.shown : NULL;
	x->to.span = x->is_part ? &x->filter.sieve.span : NULL;
	x->to.pids = x->filter.sieve.pids;
	x->to.pids_cnt = x->filter.sieve.pids_cnt;
	x->to.ops = x->o->ops;
	x->to.sort = x->o->sort;
	if (strcmp(x->o->file, "-"))
		x->to.recording = shell_word(x->recording, slash ? slash + 1 : x->o->file);
	r = export_begin(x->format, &x->ctx, &x->to);
	return r < 0 ? err_set(x->err, r, "writing %s: %s", x->o->out, strerror(-r)) : r;
}

static int run_write(void *ctx, const struct tl_event *ev)
{
	struct export_run *x = ctx;
	int r = export_event(x->format, x->ctx, &x->to, ev, x->epoch_off_ns);

	return r < 0 ? err_set(x->err, r, "writing %s: %s", x->o->out, strerror(-r)) : 0;
}

static int run_event(void *ctx, const struct tl_event *ev, int64_t epoch_off_ns)
{
	struct export_run *x = ctx;
	struct tl_learned learned;
	struct tl_event known;

	x->epoch_off_ns = epoch_off_ns;
	if (x->to.labels && (ev->module_number || ev->kind == TL_CREATE || ev->kind == TL_DESTROY)) {
		known = *ev;
		if (ev->module_number) /* its name is known now */
			labels__module(x->to.labels, &known);
		if (ev->kind == TL_CREATE || ev->kind == TL_DESTROY) /* what it has learned in the end */
			labels__learn(x->to.labels, &known, &learned);
		ev = &known;
	}
	return x->is_part ? sieve__event(&x->filter.sieve, ev, run_write, x) : run_write(x, ev);
}

static int run_end(void *ctx, const struct report *rep, int r)
{
	struct export_run *x = ctx;
	int e;

	if (!r && rep && x->is_part)
		r = sieve__end(&x->filter.sieve, run_write, x);
	e = x->ctx ? export_end(x->format, x->ctx, rep) : 0;
	if (x->shows_progress)
		fputs("\r\x1b[K", stderr);
	if (!r && e < 0)
		r = err_set(x->err, e, "writing %s: %s", x->o->out, strerror(-e));
	return r;
}

static int write_out(struct export_run *x, struct report **ret_report, struct replay_end *ret_end, struct err *err)
{
	struct replay_opts ro = { .top = 1, .begin = run_begin, .event = run_event, .progress = run_progress,
				  .end = run_end, .with_ops = x->o->ops || x->format->needs & EXPORT_OPS,
				  .with_nodes = x->o->ops || x->format->needs & EXPORT_NODES,
				  .classes = x->o->classes, .ctx = x };

	return replay_run(x->o->file, &ro, ret_report, ret_end, err);
}

static bool has_at_alone(const struct options *o)
{
	struct options rest = *o;

	rest.at.kind = WHEN_NOT;
	return o->at.kind && !is_filtered(&rest);
}

#define OF_A_PART "jsonl, csv, torch-snapshot, perfetto, chrome, pprof, folded, trace-svg and op-trace can be of a part"

static int no_part(const struct options *o, const struct export_format *f, struct err *err)
{
	err_set(err, -EINVAL, "%s is of a whole recording: its sums would be wrong for a part", f->name);
	if (f->needs & EXPORT_MOMENT)
		return err_hint(err, "it shows one moment (--at WHEN alone, or with --device); %s; " OF_A_PART, f->chooses);
	if (has_at_alone(o))
		return err_hint(err, "memtrace report FILE --at '%.60s' says what lived then; html and sqlite show that moment",
				o->at.text);
	return err_hint(err, OF_A_PART);
}

/* "job.svg: 25.1 KiB from 1.2 k events, a part of them: step 12, which has the peak (all: --from 0s)" */
static void say_written(const struct export_run *x, const struct report *rep)
{
	const struct filter *f = &x->filter;
	char a[24], b[24], name[TEXT_BYTES_MAX];

	fprintf(stderr, "%s: %s from %s events%s", safe_text(name, x->o->out), fmt_bytes(a, x->bytes),
		fmt_count(b, (double)report_events_sum(rep)), x->is_part ? ", a part of them" : "");
	if (f->one_step[0])
		fprintf(stderr, ": %s, %s (all steps: --from 0s)", f->one_step,
			f->one_step_is_peaks ? "which has the peak" : "the last whole one, as the peak is in none");
	fputc('\n', stderr);
}

int cmd_export(const struct options *o, struct err *err)
{
	struct selection asked = selection_of(o);
	struct err sink_err = { 0 };
	struct export_run x = { .o = o, .format = export_format_find(o->format), .err = &sink_err, .passes = 1,
				.file = { .fd = -1 } };
	struct report *first = NULL, *rep = NULL;
	struct labels *labels = NULL;
	struct replay_end end = { 0 };
	int r = 0;

	if (x.format->missing && x.format->missing())
		return err_set(err, -ENOTSUP, "%s: %s", x.format->name, x.format->missing());
	x.has_moment = x.format->needs & EXPORT_MOMENT && has_at_alone(o);
	x.is_part = is_filtered(o) && !x.has_moment;
	if (x.is_part && !(x.format->needs & EXPORT_PART))
		return no_part(o, x.format, err);
	filter__init(&x.filter, &asked, o->file);
	x.filter.classes = o->classes;
	x.filter.wants_one_step = x.format->needs & EXPORT_ONE_STEP;
	clock_gettime(CLOCK_MONOTONIC, &x.start);
	r = run_open(&x);
	if (!r && (!o->labels_live || x.is_part || x.format->needs & EXPORT_LABELS)) {
		x.passes = 2;
		r = collect(&x, &labels, &first, err);
	}
	if (!r)
		r = has_device(o, first, err);
	if (!r)
		r = write_out(&x, &rep, &end, err);
	if (!r)
		r = has_device(o, rep, err);
	r = run_close(&x, r);
	if (r < 0 && sink_err.code)
		*err = sink_err;
	if (!r) {
		if (!o->quiet)
			replay_say(o->file, rep->run.lost[MT_LOSS_DAMAGED], &end);
		if (x.out != stdout && !o->quiet)
			say_written(&x, rep);
		r = loss_exit_code(o, rep);
	}
	report__free(first);
	report__free(rep);
	labels__free(labels);
	names__free(x.names);
	filter__done(&x.filter);
	return r;
}

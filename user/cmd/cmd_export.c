/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * export: a recording in another format (replay/exported.h). The output gets its name when it is whole (base/outfile.h); only
 * an existing pipe or terminal gets it piece by piece.
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
#include "replay/exported.h"
#include "timeline/report.h"
#include "view/export/gzip.h"
#include "view/report_words.h"

#define PROGRESS_AFTER_S 2

struct export_run {
	const struct options *o;
	const struct export_format *format;
	struct outfile file; /* unless it is stdout */
	FILE *out;
	struct timespec start, shown;
	int shows_progress;
	uint64_t bytes; /* in the end */
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
		100 * share, written, x->shows_progress ? "" : "\n");
	fflush(stderr);
}

/* --- the file --------------------------------------------------------------------------------------- */

static int no_stream(const struct export_run *x, struct err *err)
{
	err_set(err, -EINVAL, "%s is not written to a stream", x->format->name);
	return err_hint(err, "give -o a file's name that does not end in .gz");
}

/* Checked first: an export that cannot be written is refused at once. */
static int run_open(struct export_run *x, struct err *err)
{
	enum outfile_kind kind = x->format->needs & EXPORT_FILE ? OUTFILE_NAMED : OUTFILE_WHOLE;
	struct outfile_how how = outputs_of(x->o);
	struct stat in, out;
	int r, fd;

	if (x->format->needs & EXPORT_FILE && (!strcmp(x->o->out, "-") || gzip_is_asked(x->o->out)))
		return no_stream(x, err);
	if (!strcmp(x->o->out, "-")) {
		x->out = stdout;
		return 0;
	}
	if (!stat(x->o->file, &in) && !stat(x->o->out, &out) && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
		return err_set(err, -EINVAL, "%s is the recording itself", x->o->out);
	r = outfile__open(&x->file, x->o->out, kind, &how, err);
	if (r < 0)
		return r;
	if (x->format->needs & EXPORT_FILE && x->file.is_stream)
		return no_stream(x, err);
	fd = fcntl(x->file.fd, F_DUPFD_CLOEXEC, 0); /* a FILE closes its own, and the other is synced then */
	if (fd >= 0)
		x->out = gzip_is_asked(x->o->out) ? gzip_open(fd) : fdopen(fd, "w");
	return x->out ? 0 : err_set(err, -errno, "cannot write %s: %s", x->o->out, strerror(errno));
}

/* Keeps the whole output, or removes it. */
static int run_close(struct export_run *x, int r, struct err *err)
{
	if (x->out && x->out != stdout && fclose(x->out) && !r)
		r = err_set(err, -errno, "writing %s: %s", x->o->out, strerror(errno));
	x->bytes = run_written(x);
	if (x->file.fd < 0)
		return r;
	if (!r)
		return outfile__finish(&x->file, err);
	outfile__drop(&x->file);
	return r;
}

/* --- what is exported --------------------------------------------------------------------------------- */

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
static void say_written(const struct export_run *run, const struct exported *x)
{
	const struct filter *f = &x->filter;
	char a[24], b[24], name[TEXT_BYTES_MAX];

	fprintf(stderr, "%s: %s from %s events%s", safe_text(name, run->o->out), fmt_bytes(a, run->bytes),
		fmt_count(b, (double)report_events_sum(x->report)), x->is_part ? ", a part of them" : "");
	if (f->one_step[0])
		fprintf(stderr, ": %s, %s (all steps: --from 0s)", f->one_step,
			f->one_step_is_peaks ? "which has the peak" : "the last whole one, as the peak is in none");
	fputc('\n', stderr);
}

/* To the file, which is open. */
static int run_export(struct export_run *run, struct exported *x, struct err *err)
{
	const struct options *o = run->o;
	int r;

	x->to.out = run->out;
	x->to.path = run->out == stdout ? NULL : run->file.part ? run->file.part : o->out;
	r = x->passes > 1 ? exported__learn(x, err) : 0;
	if (!r)
		r = has_device(o, x->first, err);
	if (!r)
		r = exported__write(x, err);
	if (run->shows_progress)
		fputs("\r\x1b[K", stderr);
	return r ? r : has_device(o, x->report, err);
}

static int export_with(struct export_run *run, struct exported *x, struct err *err)
{
	const struct options *o = run->o;
	int r = run_open(run, err);

	if (!r)
		r = run_export(run, x, err);
	r = run_close(run, r, err);
	if (r)
		return r;
	if (!o->quiet)
		replay_say(o->file, x->report->run.lost[MT_LOSS_DAMAGED], &x->end);
	if (run->out != stdout && !o->quiet)
		say_written(run, x);
	return loss_exit_code(o, x->report);
}

int cmd_export(const struct options *o, struct err *err)
{
	const struct export_format *f = export_format_find(o->format);
	struct export_run run = { .o = o, .format = f, .file = { .fd = -1 } };
	char recording[TEXT_BYTES_MAX];
	const char *slash = strrchr(o->file, '/');
	struct exported x = { .path = o->file, .format = f, .out_name = o->out, .asked = selection_of(o), .classes = o->classes,
			      .has_live_labels = o->labels_live, .has_moment = f->needs & EXPORT_MOMENT && has_at_alone(o),
			      .to = { .ops = o->ops, .sort = o->sort }, .progress = run_progress, .ctx = &run };
	int r;

	if (f->missing && f->missing())
		return err_set(err, -ENOTSUP, "%s: %s", f->name, f->missing());
	x.is_part = is_filtered(o) && !x.has_moment;
	if (x.is_part && !(f->needs & EXPORT_PART))
		return no_part(o, f, err);
	if (strcmp(o->file, "-"))
		x.to.recording = shell_word(recording, slash ? slash + 1 : o->file);
	exported__init(&x);
	clock_gettime(CLOCK_MONOTONIC, &run.start);
	r = export_with(&run, &x, err);
	exported__done(&x);
	return r;
}

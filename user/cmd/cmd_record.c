/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/trace_opts.h"
#include "timeline/report.h"
#include "view/report_words.h"

struct record_run {
	const struct session_opts *so;
	int is_quiet, is_tty;
};

static int on_tick(void *ctx, struct report *now)
{
	const struct record_run *x = ctx;
	uint64_t lost = report_lost_events(now);
	char a[24], b[24], c[24], d[24];

	if (x->is_quiet)
		return 0;
	if (x->so->window_ns) {
		fprintf(stderr, "%swatching: %s, %s events, lost %s%s", x->is_tty ? "\r\x1b[K" : "",
			fmt_ns(a, now->run.end_ts_ns - now->run.start_ts_ns), fmt_count(b, (double)report_events_sum(now)),
			lost ? fmt_count(d, (double)lost) : "nothing", x->is_tty ? "" : "\n");
		fflush(stderr);
		return 0;
	}
	fprintf(stderr, "%srecording: %s, %s events, %s, lost %s%s", x->is_tty ? "\r\x1b[K" : "",
		fmt_ns(a, now->run.end_ts_ns - now->run.start_ts_ns), fmt_count(b, (double)report_events_sum(now)),
		fmt_bytes(c, file_bytes(x->so->record_path)), lost ? fmt_count(d, (double)lost) : "nothing",
		x->is_tty ? "" : "\n");
	fflush(stderr);
	return 0;
}

int cmd_record(const struct options *o, struct err *err)
{
	struct record_run x = { .is_quiet = o->quiet, .is_tty = isatty(STDERR_FILENO) };
	struct report *rep = NULL;
	struct session_opts so;
	char path[160];
	int r = rights_check(err), status = 0, launched;

	if (r < 0)
		return r;
	session_opts_from(&so, o);
	so.on_tick = on_tick;
	so.ctx = &x;
	x.so = &so;
	recording_default_path(o, path, sizeof(path));
	if (!so.record_path)
		so.record_path = path;
	r = session_run(&so, &rep, &status, err);
	if (rep && x.is_tty && !o->quiet)
		fputs("\r\x1b[K", stderr);
	launched = launched_say(o, status);
	if (rep && !o->quiet && !so.window_ns)
		recording_say(so.record_path, rep);
	if (rep && !o->quiet)
		launched_say_on(o, (pid_t)rep->run.pid);
	if (!r)
		r = launched ? launched : rep ? loss_exit_code(o, rep) : 0;
	report__free(rep);
	return r;
}

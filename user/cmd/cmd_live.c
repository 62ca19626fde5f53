/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The live view. While the table has the terminal, what is said on stderr would be written into it
 * and lost with it: stderr goes to a file in memory meanwhile, its last line stands at the table's
 * foot, and all of it is told once the table has gone.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "cmd/trace_opts.h"
#include "timeline/report.h"
#include "view/text.h"

#define TOP_LIVE 256 /* the table sorts by live bytes, a report by what counts at the peak */

struct live_run {
	const struct options *o;
	struct live_view *view;
	int is_tty;
	int held_fd; /* where stderr goes meanwhile, -1 = nowhere else */
	int stderr_fd;
};

static void stderr_hold(struct live_run *x)
{
	if (x->held_fd >= 0 || !x->is_tty || !isatty(STDERR_FILENO))
		return;
	fflush(stderr);
	x->held_fd = memfd_create("memtrace-stderr", MFD_CLOEXEC);
	x->stderr_fd = dup(STDERR_FILENO);
	if (x->held_fd < 0 || x->stderr_fd < 0 || dup2(x->held_fd, STDERR_FILENO) < 0) {
		if (x->held_fd >= 0)
			close(x->held_fd);
		x->held_fd = -1;
	}
}

static void stderr_release(struct live_run *x)
{
	char buf[4096];
	ssize_t n;
	off_t at = 0;

	if (x->held_fd < 0)
		return;
	fflush(stderr);
	dup2(x->stderr_fd, STDERR_FILENO);
	close(x->stderr_fd);
	while ((n = pread(x->held_fd, buf, sizeof(buf), at)) > 0) {
		(void)!write(STDERR_FILENO, buf, (size_t)n);
		at += n;
	}
	close(x->held_fd);
	x->held_fd = -1;
}

/* The last whole line that was held back, to the table. */
static void stderr_peek(struct live_run *x)
{
	off_t end = x->held_fd >= 0 ? lseek(x->held_fd, 0, SEEK_CUR) : 0; /* shared with stderr's writes */
	char buf[512];
	ssize_t n;
	char *line;

	if (end <= 0)
		return;
	n = pread(x->held_fd, buf, sizeof(buf) - 1, end > (off_t)sizeof(buf) - 1 ? end - (off_t)sizeof(buf) + 1 : 0);
	if (n <= 0)
		return;
	buf[n] = '\0';
	if (buf[n - 1] == '\n')
		buf[n - 1] = '\0';
	do {
		line = strrchr(buf, '\n');
		if (!line || strncmp(line + 1, "hint: ", 6))
			break;
		*line = '\0'; /* what it is a hint for says more */
	} while (1);
	live_view__message(x->view, line ? line + 1 : buf);
}

static int on_tick(void *ctx, const struct report *now)
{
	struct live_run *x = ctx;

	if (x->o->json || x->o->quiet)
		return 0;
	stderr_hold(x);
	stderr_peek(x);
	return live_view__draw(x->view, now);
}

int cmd_live(const struct options *o, struct err *err)
{
	struct live_run x = { .o = o, .held_fd = -1, .stderr_fd = -1 };
	const char *term = getenv("TERM");
	struct view_opts v = view_opts_of(o);
	struct report *rep = NULL;
	struct session_opts so;
	int r = rights_check(err), status = 0, w = 0;

	if (r < 0)
		return r;
	x.is_tty = isatty(STDOUT_FILENO) && !(term && !strcmp(term, "dumb"));
	x.view = live_view__new(stdout, x.is_tty, &v);
	if (!x.view)
		return err_set(err, -ENOMEM, "out of memory");
	session_opts_from(&so, o);
	if (!o->json && so.top < TOP_LIVE)
		so.top = TOP_LIVE;
	so.on_tick = on_tick;
	so.ctx = &x;
	r = session_run(&so, &rep, &status, err);
	live_view__free(x.view);
	stderr_release(&x);
	if (rep && r != -EPIPE)
		w = report_write(o, rep, r ? NULL : err);
	if (rep && o->out && !o->quiet)
		recording_say(o->out, rep);
	if (!r)
		r = w;
	if (!r && rep)
		r = loss_exit_code(o, rep);
	report__free(rep);
	return r;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The live view: the terminal interface, or plain lines where there is no terminal for it. While the
 * interface has the terminal, messages on stderr would be written into it and lost with it: stderr
 * goes to a file in memory meanwhile, its last new line stands at the screen's foot, and all of it is
 * printed once the screen is back.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/trace_opts.h"
#include "timeline/report.h"
#include "view/tui/tui.h"

#define TOP_LIVE 256 /* tables sort by any column, a report by bytes at the peak */
#define VIEW_MS 250  /* more often is not easier to read */

struct live_run {
	const struct options *o;
	struct live_view *lines; /* one of the two */
	struct tui *tui;
	int held_fd; /* where stderr goes meanwhile, -1 = nowhere else */
	int stderr_fd;
	off_t reported; /* of it, on the screen */
	char typed[TEXT_BYTES_MAX]; /* -o as a shell takes it */
	char late_path[160]; /* of the last recording that a key began; "" = none */
	int is_late;	     /* it goes on */
};

static void stderr_hold(struct live_run *x)
{
	if (x->held_fd >= 0 || !isatty(STDERR_FILENO))
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

/* The last line that was held back, to the screen, once. */
static void stderr_peek(struct live_run *x)
{
	off_t end = x->held_fd >= 0 ? lseek(x->held_fd, 0, SEEK_CUR) : 0; /* shared with stderr's writes */
	char buf[512];
	ssize_t n;
	char *line;

	if (end <= x->reported)
		return;
	x->reported = end;
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
		*line = '\0'; /* the message before the hint is more useful */
	} while (1);
	tui__message(x->tui, line ? line + 1 : buf);
}

/* One that failed is removed by the session. */
static int has_late(const struct live_run *x)
{
	return x->is_late && file_bytes(x->late_path);
}

static const char *late_path(void *ctx)
{
	struct live_run *x = ctx;

	recording_default_path(x->o, x->late_path, sizeof(x->late_path));
	x->is_late = 1;
	return x->late_path;
}

static int on_tick(void *ctx, struct report *now)
{
	struct live_run *x = ctx;
	int r;

	if (x->lines)
		return live_view__draw(x->lines, now);
	r = tui__open(x->tui);
	if (r < 0)
		return r;
	stderr_hold(x);
	stderr_peek(x);
	tui__recording(x->tui, x->o->out || has_late(x));
	r = tui__show(x->tui, now);
	return r < 0 ? r : 1;
}

static int on_input(void *ctx)
{
	struct live_run *x = ctx;
	int did = tui__input(x->tui), wish = 0;

	if (did < 0)
		return did;
	if (did & TUI_QUIT)
		wish |= SESSION_END;
	if (did & TUI_DO_MARK) {
		tui__mark(x->tui);
		wish |= SESSION_MARK;
	}
	if (did & TUI_DO_RECORD) {
		x->is_late = 0; /* if it is to begin now, its name will be asked for */
		wish |= SESSION_RECORD;
	}
	if (did & TUI_DO_TRACE)
		wish |= SESSION_TRACE;
	return wish;
}

static int live_run__init(struct live_run *x, struct session_opts *so, struct err *err)
{
	struct tui_opts t = { .is_live = 1, .color = view_opts_of(x->o).color,
			      .file = x->o->out ? shell_word(x->typed, x->o->out) : NULL };

	if (x->o->json || x->o->quiet)
		return 0;
	so->on_tick = on_tick;
	so->ctx = x;
	if (tui_fits()) {
		x->tui = tui__new(&t);
		so->on_input = on_input;
		so->late_path = late_path;
		so->view_ms = VIEW_MS;
	} else {
		x->lines = live_view__new(stdout);
	}
	if (so->top < TOP_LIVE)
		so->top = TOP_LIVE;
	return x->tui || x->lines ? 0 : err_set(err, -ENOMEM, "out of memory");
}

int cmd_live(const struct options *o, struct err *err)
{
	struct live_run x = { .o = o, .held_fd = -1, .stderr_fd = -1 };
	struct report *rep = NULL;
	struct session_opts so;
	int r = rights_check(err), status = 0, w = 0;

	if (r < 0)
		return r;
	session_opts_from(&so, o);
	r = live_run__init(&x, &so, err);
	if (!r)
		r = session_run(&so, &rep, &status, err);
	live_view__free(x.lines);
	tui__free(x.tui);
	stderr_release(&x);
	if (rep && r != -EPIPE)
		w = report_write(o, rep, r ? NULL : err);
	if (rep && o->out && !o->quiet)
		recording_say(o->out, rep);
	if (rep && has_late(&x))
		fprintf(stderr, "recorded %s, from the middle on\nnext: memtrace report %s\n", x.late_path, x.late_path);
	if (!r)
		r = w;
	if (!r && rep)
		r = loss_exit_code(o, rep);
	report__free(rep);
	return r;
}

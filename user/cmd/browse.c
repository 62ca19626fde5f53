/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* report --tui: a recording in the terminal interface: its end in the tables, its course in the chart. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/signals.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "record/replay.h"
#include "timeline/report.h"
#include "view/tui/tui.h"

#define TOP_BROWSE 1000

static int on_sample(void *ctx, const struct report *now)
{
	return tui__sample(ctx, now);
}

/* Until the user leaves, or a signal ends it. */
static int browse(struct tui *t)
{
	struct pollfd fds[2] = { { .fd = STDIN_FILENO, .events = POLLIN }, { .events = POLLIN } };
	sigset_t mask = signals_that_end();
	int r = 0;

	sigprocmask(SIG_BLOCK, &mask, NULL);
	fds[1].fd = signalfd(-1, &mask, SFD_CLOEXEC);
	if (fds[1].fd < 0)
		return -errno;
	while (r >= 0 && !(r & TUI_QUIT) && !fds[1].revents && !(fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			r = -errno;
		else
			r = tui__input(t); /* EINTR: the window has another size */
	}
	close(fds[1].fd);
	return r < 0 ? r : 0;
}

int report_browse(const struct options *o, struct err *err)
{
	struct replay_opts ro = { .top = o->top ? o->top : TOP_BROWSE, .classes = o->classes, .sample = on_sample };
	struct report *rep = NULL;
	uint64_t cut = 0, damaged = 0;
	char path[TEXT_BYTES_MAX];
	struct tui *t;
	int r, code = EXIT_OK;

	if (!tui_fits()) {
		err_set(err, -ENOTTY, "--tui needs a terminal of at least 40 columns and 8 lines");
		return err_hint(err, "memtrace report %s prints the same numbers", o->file);
	}
	t = ro.ctx = tui__new(&(struct tui_opts){ .color = view_opts_of(o).color, .file = shell_word(path, o->file) });
	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	r = replay_run(o->file, &ro, &rep, &cut, err);
	if (!r) {
		code = loss_exit_code(o, rep);
		damaged = rep->run.lost[MT_LOSS_DAMAGED];
		r = tui__open(t);
		r = r ? (report__free(rep), r) : tui__show(t, rep);
		r = r ? r : browse(t);
		if (r < 0)
			err_set(err, r, "the terminal: %s", strerror(-r));
	}
	tui__free(t);
	if (!o->quiet)
		replay_say(o->file, damaged, cut);
	return r < 0 ? r : code;
}

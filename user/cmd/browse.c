/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * report --tui: a recording in the terminal interface: its end in the tables, memory over time in the chart. For a moment
 * that is held in the chart the recording is read again, from its begin up to that moment; keys are answered meanwhile.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/signals.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "replay/chosen.h"
#include "replay/replay.h"
#include "timeline/report.h"
#include "view/tui/tui.h"

#define TOP_BROWSE 1000
#define LOOK_EVENTS 4096 /* between two looks for a key: a millisecond or so */
#define TELL_NS 500000000ull

static int on_sample(void *ctx, const struct report *now)
{
	return tui__sample(ctx, now);
}

struct browse {
	const struct options *o;
	const struct chosen *chosen;
	struct tui *tui;
	struct pollfd fds[2]; /* keys, and the signals that end it */
	uint64_t start_ns;    /* of the trace */
};

/* --- a held moment ---------------------------------------------------------------------------------------- */

struct moment_read {
	struct browse *b;
	struct report *then;
	uint64_t rel_ns, events, reported_ns;
	int did; /* of the user meanwhile, as tui__input() */
};

static int is_over(const struct browse *b)
{
	return b->fds[1].revents || b->fds[0].revents & (POLLHUP | POLLERR | POLLNVAL);
}

/* Handles the user's input meanwhile. -ECANCELED: this moment is no longer wanted. */
static int moment_look(void *ctx, uint64_t ts_ns)
{
	struct moment_read *m = ctx;
	uint64_t wanted_ns;

	if (++m->events % LOOK_EVENTS)
		return 0;
	if (poll(m->b->fds, 2, 0) > 0) {
		m->did = is_over(m->b) ? 0 : tui__input(m->b->tui);
		if (m->did || is_over(m->b) || !tui__wants(m->b->tui, &wanted_ns) || wanted_ns != m->rel_ns)
			return -ECANCELED;
	}
	if (now_ns() < m->reported_ns + TELL_NS || ts_ns < m->b->start_ns)
		return 0;
	m->reported_ns = now_ns();
	return tui__reading(m->b->tui, (unsigned)(100.0 * (double)(ts_ns - m->b->start_ns) / (double)(m->rel_ns + 1)));
}

static int moment_reached(void *ctx, struct report *then)
{
	struct moment_read *m = ctx;

	m->then = then;
	chosen__tell_cost(m->b->chosen, then);
	return -ECANCELED; /* later ones are not needed */
}

/* As tui__input(). */
static int read_moment(struct browse *b, uint64_t rel_ns)
{
	struct moment_read m = { .b = b, .rel_ns = rel_ns, .reported_ns = now_ns() };
	struct replay_opts ro = { .top = SIZE_MAX, .classes = b->o->classes, .look = moment_look, .mark = moment_reached,
				  .marks = { b->start_ns + rel_ns }, .marks_cnt = 1, .ctx = &m };
	struct report *rest = NULL;
	struct err why = { 0 };
	struct replay_end end;
	int r = chosen__run(b->chosen, b->o->file, &ro, &rest, &end, &why);

	report__free(rest);
	if (!m.then && r == -ECANCELED)
		return m.did;
	if (m.then && m.then->run.start_ts_ns != b->start_ns) {
		report__free(m.then);
		m.then = NULL;
		err_set(&why, 0, "another recording is in this file now: open it again");
	}
	if (!m.then)
		tui__message(b->tui, why.msg);
	return tui__then(b->tui, rel_ns, m.then);
}

/* Until the user leaves, or a signal ends it. */
static int browse(struct browse *b)
{
	sigset_t mask = signals_that_end();
	uint64_t rel_ns;
	int r = 0;

	sigprocmask(SIG_BLOCK, &mask, NULL);
	b->fds[1].fd = signalfd(-1, &mask, SFD_CLOEXEC);
	if (b->fds[1].fd < 0)
		return -errno;
	while (r >= 0 && !(r & TUI_QUIT) && !is_over(b)) {
		int wants = tui__wants(b->tui, &rel_ns), n = poll(b->fds, 2, wants ? 0 : -1);

		if (n < 0 && errno != EINTR)
			r = -errno;
		else
			r = wants && !n ? read_moment(b, rel_ns) : tui__input(b->tui); /* EINTR: the window has another size */
	}
	close(b->fds[1].fd);
	return r < 0 ? r : 0;
}

int report_browse(const struct options *o, const struct chosen *chosen, struct err *err)
{
	struct replay_opts ro = { .top = o->top ? o->top : TOP_BROWSE, .classes = o->classes, .sample = on_sample };
	struct report *rep = NULL;
	struct replay_end end = { 0 };
	uint64_t damaged = 0;
	char path[TEXT_BYTES_MAX];
	struct browse b = { .o = o, .chosen = chosen,
			    .fds = { { .fd = STDIN_FILENO, .events = POLLIN }, { .events = POLLIN } } };
	struct tui *t;
	int r, code = EXIT_OK;

	if (!tui_fits()) {
		err_set(err, -ENOTTY, "--tui needs a terminal of at least 40 columns and 8 lines");
		return err_hint(err, "memtrace report %s prints the same numbers", o->file);
	}
	t = ro.ctx = b.tui = tui__new(&(struct tui_opts){ .color = view_opts_of(o).color, .file = shell_word(path, o->file) });
	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	r = chosen__run(chosen, o->file, &ro, &rep, &end, err);
	if (!r) {
		code = loss_exit_code(o, rep);
		damaged = rep->run.lost[MT_LOSS_DAMAGED];
		b.start_ns = rep->run.start_ts_ns;
		r = tui__open(t);
		r = r ? (report__free(rep), r) : tui__show(t, rep);
		r = r ? r : browse(&b);
		if (r < 0)
			err_set(err, r, "the terminal: %s", strerror(-r));
	}
	tui__free(t);
	if (!o->quiet)
		replay_say(o->file, damaged, &end);
	return r < 0 ? r : code;
}

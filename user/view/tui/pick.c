/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tui/pick.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/signals.h"
#include "view/tui/canvas.h"
#include "view/tui/term.h"

void tui_pick__init(struct tui_pick *p, const char *title, char *const *lines, size_t lines_cnt, size_t rows_cnt, size_t first)
{
	*p = (struct tui_pick){ .title = title, .lines = lines, .lines_cnt = lines_cnt,
				  .rows_cnt = rows_cnt < lines_cnt ? rows_cnt : lines_cnt ? lines_cnt - 1 : 0 };
	p->rows.row = first;
	p->rows.rows = p->rows_cnt;
}

/* --- keys ------------------------------------------------------------------------------------------------- */

/* The cursor follows the typed number, if there is such a row. */
static void pick__type(struct tui_pick *p, uint32_t key)
{
	size_t len = strlen(p->typed);
	unsigned long number;

	if (key == TUI_KEY_BACKSPACE && len)
		p->typed[len - 1] = '\0';
	else if (key != TUI_KEY_BACKSPACE && len + 1 < sizeof(p->typed))
		p->typed[len] = (char)key;
	number = strtoul(p->typed, NULL, 10);
	if (number && number <= p->rows_cnt)
		p->rows.row = number - 1;
}

static enum tui_picked pick__enter(struct tui_pick *p)
{
	unsigned long number = strtoul(p->typed, NULL, 10);

	if (!p->typed[0] || (number && number <= p->rows_cnt))
		return TUI_PICKED;
	snprintf(p->wrong, sizeof(p->wrong), "'%s' is none of these numbers.", p->typed);
	memset(p->typed, 0, sizeof(p->typed));
	return TUI_PICK_GOES_ON;
}

enum tui_picked tui_pick__key(struct tui_pick *p, uint32_t key)
{
	if (key == TUI_KEY_RESIZE)
		return TUI_PICK_GOES_ON;
	p->wrong[0] = '\0';
	if (key == TUI_KEY_ENTER || key == '\r')
		return pick__enter(p);
	if (key == 'q' || key == 'Q' || key == TUI_KEY_ESC || key == TUI_KEY_F10)
		return TUI_PICK_LEFT;
	if ((key >= '0' && key <= '9') || key == TUI_KEY_BACKSPACE)
		pick__type(p, key);
	else if (tui_tab_state__move(&p->rows, key))
		memset(p->typed, 0, sizeof(p->typed));
	return TUI_PICK_GOES_ON;
}

/* --- drawing ---------------------------------------------------------------------------------------------- */

static void draw_keys(const struct tui_pick *p, struct canvas *c, unsigned y)
{
	unsigned x = 1;

	if (p->wrong[0]) {
		x += canvas__text(c, x, y, c->w, TUI_WARN, p->wrong) + 2;
	} else if (p->typed[0]) {
		x += canvas__text(c, x, y, c->w, TUI_BOLD, p->typed);
		x += canvas__text(c, x, y, c->w, TUI_BOLD, "\xe2\x96\x8f") + 2; /* ▏ */
	}
	x += canvas__text(c, x, y, c->w, TUI_KEY, "\xe2\x86\x91\xe2\x86\x93") + 1; /* ↑↓ */
	x += canvas__text(c, x, y, c->w, TUI_DIM, "or a number,") + 1;
	x += canvas__text(c, x, y, c->w, TUI_KEY, "Enter") + 1;
	x += canvas__text(c, x, y, c->w, TUI_DIM, "watches it,") + 1;
	x += canvas__text(c, x, y, c->w, TUI_KEY, "q") + 1;
	canvas__text(c, x, y, c->w, TUI_DIM, "leaves");
}

void tui_pick__draw(struct tui_pick *p, struct canvas *c)
{
	unsigned top = c->h > 6 ? 3 : 2, end = c->h ? c->h - 1 : 0, y = top;

	for (unsigned x = 0; x < c->w; x++)
		canvas__set(c, x, 0, ' ', TUI_TITLE, TUI_PLAIN);
	canvas__text(c, 1, 0, c->w, TUI_TITLE, p->title);
	canvas__text(c, 0, top - 1, c->w, TUI_HEAD, p->lines_cnt ? p->lines[0] : "");
	tui_tab_state__settle(&p->rows, p->rows_cnt, end > top ? end - top : 0, 1);
	for (size_t i = p->rows.top; i < p->rows_cnt && y < end; i++, y++) {
		canvas__text(c, 0, y, c->w, TUI_PLAIN, p->lines[1 + i]);
		if (i == p->rows.row)
			canvas__select(c, 0, y, c->w);
	}
	for (size_t i = 1 + p->rows_cnt; i < p->lines_cnt && ++y < end; i++)
		canvas__text(c, 0, y, c->w, TUI_DIM, p->lines[i]);
	draw_keys(p, c, end);
}

/* --- the terminal ------------------------------------------------------------------------------------------ */

static int pick__show(struct tui_pick *p)
{
	struct canvas c;
	unsigned w, h;

	tui_term_size(&w, &h);
	if (canvas__init(&c, w, h) < 0)
		return -ENOMEM;
	tui_pick__draw(p, &c);
	tui_term_show(&c);
	canvas__done(&c);
	return 0;
}

static int pick__ask(struct tui_pick *p, int signals)
{
	struct pollfd fds[2] = { { .fd = STDIN_FILENO, .events = POLLIN }, { .fd = signals, .events = POLLIN } };
	uint32_t key;
	int r;

	while (!(r = pick__show(p))) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR) /* EINTR: the window has another size */
			return -errno;
		while (!r && (key = tui_term_key()))
			r = (int)tui_pick__key(p, key);
		if (!r && (fds[1].revents || fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)))
			return TUI_PICK_LEFT;
		if (r)
			return r;
	}
	return r;
}

/*
 * A signal is noticed but stays pending: it acts once the terminal is restored and it is no longer blocked, with its usual
 * effect: ncurses has handlers of its own, which would end the program with an exit code.
 */
int tui_pick(struct tui_pick *p, int want_color)
{
	struct sigaction on_int, on_term;
	sigset_t mask = signals_that_end(), before;
	int signals, r;

	sigaction(SIGINT, NULL, &on_int);
	sigaction(SIGTERM, NULL, &on_term);
	sigprocmask(SIG_BLOCK, &mask, &before);
	signals = signalfd(-1, &mask, SFD_CLOEXEC);
	r = signals < 0 ? -errno : tui_term_open(want_color);
	if (!r) {
		r = pick__ask(p, signals);
		tui_term_close();
	}
	if (signals >= 0)
		(void)close(signals);
	sigaction(SIGINT, &on_int, NULL);
	sigaction(SIGTERM, &on_term, NULL);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return r;
}

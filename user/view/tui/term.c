/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#define NCURSES_WIDECHAR 1
#include "view/tui/term.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "view/tui/canvas.h"
#include "view/tui/palette.h"
#include "view/tui/ui.h"

#include <curses.h> /* last: with <term.h> it defines plain words as macros */
#include <term.h>

#define ESC_DELAY_MS 25 /* how long an Esc may be the beginning of an arrow key */
#define COLOR_NONE PALETTE_NONE

/* Of each style: its colour of 8 (of 256: palette.h), and what stands for it without any. */
static const struct style_look {
	short fg8, bg8;
	attr_t attr, attr_plain;
} looks[TUI_STYLES] = {
	[TUI_PLAIN] = { COLOR_NONE, COLOR_NONE, 0, 0 },
	[TUI_DIM] = { COLOR_NONE, COLOR_NONE, 0, A_DIM },
	[TUI_BOLD] = { COLOR_NONE, COLOR_NONE, A_BOLD, A_BOLD },
	[TUI_TITLE] = { COLOR_WHITE, COLOR_BLUE, 0, A_REVERSE },
	[TUI_TAB] = { COLOR_NONE, COLOR_NONE, 0, 0 },
	[TUI_TAB_ON] = { COLOR_WHITE, COLOR_BLUE, A_BOLD, A_REVERSE },
	[TUI_HEAD] = { COLOR_NONE, COLOR_NONE, 0, A_DIM },
	[TUI_HEAD_ON] = { COLOR_CYAN, COLOR_NONE, A_BOLD, A_BOLD },
	[TUI_KEY] = { COLOR_CYAN, COLOR_NONE, 0, A_BOLD },
	[TUI_GOOD] = { COLOR_GREEN, COLOR_NONE, 0, 0 },
	[TUI_WARN] = { COLOR_YELLOW, COLOR_NONE, A_BOLD, A_BOLD },
	[TUI_BAD] = { COLOR_RED, COLOR_NONE, A_BOLD, A_BOLD },
	[TUI_BAR] = { COLOR_BLUE, COLOR_NONE, 0, 0 },
	[TUI_MARK] = { COLOR_YELLOW, COLOR_NONE, A_BOLD, A_BOLD },
	[TUI_LIVE] = { COLOR_BLUE, COLOR_NONE, 0, 0 },
	[TUI_ENVELOPE] = { COLOR_WHITE, COLOR_NONE, 0, A_DIM },
	[TUI_CAT0 + CAT_UNKNOWN] = { COLOR_WHITE, COLOR_NONE, 0, 0 },
	[TUI_CAT0 + CAT_PARAMETER] = { COLOR_BLUE, COLOR_NONE, 0, 0 },
	[TUI_CAT0 + CAT_OPTIMIZER_STATE] = { COLOR_MAGENTA, COLOR_NONE, 0, 0 },
	[TUI_CAT0 + CAT_INPUT] = { COLOR_CYAN, COLOR_NONE, 0, 0 },
	[TUI_CAT0 + CAT_TEMPORARY] = { COLOR_WHITE, COLOR_NONE, 0, 0 },
	[TUI_CAT0 + CAT_ACTIVATION] = { COLOR_YELLOW, COLOR_NONE, 0, 0 },
	[TUI_CAT0 + CAT_GRADIENT] = { COLOR_GREEN, COLOR_NONE, 0, 0 },
	[TUI_CAT0 + CAT_AUTOGRAD_DETAIL] = { COLOR_RED, COLOR_NONE, 0, 0 },
	[TUI_CAT0 + CAT_FROZEN] = { COLOR_BLUE, COLOR_NONE, 0, 0 },
	[TUI_CAT0 + CAT_BUFFER] = { COLOR_CYAN, COLOR_NONE, 0, 0 },
	[TUI_CAT0 + CAT_DATALOADER] = { COLOR_CYAN, COLOR_NONE, 0, 0 },
	[TUI_CAT0 + CAT_COMMUNICATION] = { COLOR_MAGENTA, COLOR_NONE, 0, 0 },
	[TUI_CAT0 + CAT_WORKSPACE] = { COLOR_RED, COLOR_NONE, 0, 0 },
	[TUI_CAT0 + CAT_UNSHARDED] = { COLOR_BLUE, COLOR_NONE, 0, 0 },
};

static struct {
	SCREEN *screen;
	int has_color, is_256;
	const struct palette_color *palette;
	short pairs[TUI_STYLES][TUI_STYLES + 1]; /* by style and background; the last: selected */
	short pairs_cnt;
	struct termios before;
	char leave[128]; /* restores the screen, for a crash */
	size_t leave_len;
	struct sigaction stop, crash[5];
} term;

/* --- fit? ---------------------------------------------------------------------------------------------- */

/* sudo and containers often have no locale; today's terminals use UTF-8 even so. */
static int has_utf8(void)
{
	if (!setlocale(LC_CTYPE, ""))
		(void)setlocale(LC_CTYPE, "C");
	if (!strcmp(nl_langinfo(CODESET), "UTF-8"))
		return 1;
	return setlocale(LC_CTYPE, "C.UTF-8") && !strcmp(nl_langinfo(CODESET), "UTF-8");
}

int tui_term_fits(void)
{
	const char *name = getenv("TERM");
	unsigned w, h;
	int status;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !name || !strcmp(name, "dumb") || !has_utf8())
		return 0;
	tui_term_size(&w, &h);
	if (w < TUI_COLS_MIN || h < TUI_LINES_MIN)
		return 0;
	return setupterm(name, STDOUT_FILENO, &status) == OK && cursor_address;
}

void tui_term_size(unsigned *ret_w, unsigned *ret_h)
{
	struct winsize ws = { 0 };

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) < 0 || !ws.ws_col || !ws.ws_row)
		ws = (struct winsize){ .ws_col = 80, .ws_row = 24 };
	*ret_w = ws.ws_col < CANVAS_COLS_MAX ? ws.ws_col : CANVAS_COLS_MAX;
	*ret_h = ws.ws_row < CANVAS_LINES_MAX ? ws.ws_row : CANVAS_LINES_MAX;
}

/* --- a crash -------------------------------------------------------------------------------------------- */

static const int crash_signals[5] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL };

static void on_crash(int sig)
{
	(void)!write(STDOUT_FILENO, term.leave, term.leave_len);
	(void)tcsetattr(STDIN_FILENO, TCSANOW, &term.before);
	raise(sig); /* SA_RESETHAND: as if it had not been caught */
}

static void remember_string(const char *cap)
{
	size_t n = cap ? strlen(cap) : 0;

	if (n && n < sizeof(term.leave) - term.leave_len) {
		memcpy(term.leave + term.leave_len, cap, n);
		term.leave_len += n;
	}
}

static void crash_handlers(void)
{
	struct sigaction sa = { .sa_handler = on_crash, .sa_flags = (int)(SA_RESETHAND | SA_NODEFER) };

	term.leave_len = 0;
	remember_string(exit_attribute_mode);
	remember_string(cursor_normal);
	remember_string(keypad_local);
	remember_string(exit_ca_mode);
	for (unsigned i = 0; i < 5; i++)
		sigaction(crash_signals[i], &sa, &term.crash[i]);
	/* If it were stopped, memtrace's rings would overflow: Ctrl-Z is ignored. */
	sa = (struct sigaction){ .sa_handler = SIG_IGN };
	sigaction(SIGTSTP, &sa, &term.stop);
}

/* --- open and close --------------------------------------------------------------------------------------- */

int tui_term_open(int want_color)
{
	struct termios tty;

	if (term.screen)
		return 0;
	if (tcgetattr(STDIN_FILENO, &term.before) < 0)
		return -ENOTTY;
	term.screen = newterm(NULL, stdout, stdin);
	if (!term.screen)
		return -ENOTTY;
	set_term(term.screen);
	crash_handlers();
	cbreak(); /* Ctrl-C stays a signal */
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(ESC_DELAY_MS);
	curs_set(0);
	term.has_color = want_color && has_colors() && start_color() == OK;
	term.is_256 = COLORS >= 256;
	term.palette = palette_of(palette_is_light(getenv("COLORFGBG")));
	term.pairs_cnt = 0;
	memset(term.pairs, 0, sizeof(term.pairs));
	if (term.has_color)
		use_default_colors();
	if (!tcgetattr(STDIN_FILENO, &tty)) { /* Ctrl-S must not stop us either */
		tty.c_iflag &= ~(tcflag_t)IXON;
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &tty);
	}
	return 0;
}

void tui_term_close(void)
{
	if (!term.screen)
		return;
	endwin();
	delscreen(term.screen);
	term.screen = NULL;
	(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &term.before);
	for (unsigned i = 0; i < 5; i++)
		sigaction(crash_signals[i], &term.crash[i], NULL);
	sigaction(SIGTSTP, &term.stop, NULL);
}

int tui_term_has_color(void)
{
	return term.has_color;
}

/* The console of Linux has 512 glyphs, and few of these. */
int tui_term_has_eighths(void)
{
	const char *name = getenv("TERM");

	return !name || strcmp(name, "linux");
}

/* --- show ------------------------------------------------------------------------------------------------- */

static struct palette_color color_of(uint8_t style)
{
	return term.is_256 ? term.palette[style] : (struct palette_color){ looks[style].fg8, looks[style].bg8 };
}

/* behind: a style, or TUI_STYLES: selected. */
static struct palette_color colors_of(uint8_t style, unsigned behind)
{
	struct palette_color ret = color_of(style);
	struct palette_color selected = term.is_256 ? palette_selected : (struct palette_color){ COLOR_WHITE, COLOR_BLUE };

	if (behind == TUI_STYLES)
		return (struct palette_color){ palette_is_area(style) && term.is_256 ? ret.fg : selected.fg, selected.bg };
	if (behind)
		ret.bg = color_of((uint8_t)behind).fg;
	return ret;
}

static short color_pair(uint8_t style, unsigned behind)
{
	struct palette_color c = colors_of(style, behind);
	short *pair = &term.pairs[style][behind];

	if (*pair)
		return *pair;
	if (c.fg == COLOR_NONE && c.bg == COLOR_NONE)
		return 0;
	if (term.pairs_cnt + 1 >= COLOR_PAIRS || init_pair((short)(term.pairs_cnt + 1), c.fg, c.bg) != OK)
		return 0;
	return *pair = ++term.pairs_cnt;
}

static void cell_look(const struct tui_cell *cell, attr_t *ret_attr, short *ret_pair)
{
	uint8_t style = cell->style < TUI_STYLES ? cell->style : (uint8_t)TUI_PLAIN;

	*ret_pair = 0;
	if (!term.has_color) {
		*ret_attr = looks[style].attr_plain | (cell->is_on ? A_REVERSE : 0);
		return;
	}
	*ret_attr = looks[style].attr;
	*ret_pair = color_pair(style, cell->is_on ? TUI_STYLES : cell->back < TUI_STYLES ? cell->back : TUI_PLAIN);
}

static void show_line(const struct canvas *c, unsigned y)
{
	static cchar_t line[CANVAS_COLS_MAX];
	int n = 0;

	for (unsigned x = 0; x < c->w; x++) {
		const struct tui_cell *cell = canvas__at(c, x, y);
		wchar_t text[2] = { (wchar_t)cell->cp, 0 };
		attr_t attr;
		short pair;

		if (!cell->cp)
			continue; /* ncurses leaves room for the right half itself */
		cell_look(cell, &attr, &pair);
		if (setcchar(&line[n], text, attr, pair, NULL) == ERR) {
			text[0] = L'?';
			(void)setcchar(&line[n], text, attr, pair, NULL);
		}
		n++;
	}
	mvadd_wchnstr((int)y, 0, line, n);
}

void tui_term_show(const struct canvas *c)
{
	if (!term.screen)
		return;
	if (c->h != (unsigned)LINES || c->w != (unsigned)COLS)
		resizeterm((int)c->h, (int)c->w);
	erase();
	for (unsigned y = 0; y < c->h; y++)
		show_line(c, y);
	refresh();
}

/* --- keys ------------------------------------------------------------------------------------------------- */

uint32_t tui_term_key(void)
{
	static const struct {
		wint_t theirs;
		uint32_t ours;
	} keys[] = {
		{ KEY_UP, TUI_KEY_UP }, { KEY_DOWN, TUI_KEY_DOWN }, { KEY_LEFT, TUI_KEY_LEFT },
		{ KEY_RIGHT, TUI_KEY_RIGHT }, { KEY_PPAGE, TUI_KEY_PAGE_UP }, { KEY_NPAGE, TUI_KEY_PAGE_DOWN },
		{ KEY_HOME, TUI_KEY_HOME }, { KEY_END, TUI_KEY_END }, { KEY_BTAB, TUI_KEY_BACK_TAB },
		{ KEY_BACKSPACE, TUI_KEY_BACKSPACE }, { KEY_F(1), TUI_KEY_F1 }, { KEY_F(10), TUI_KEY_F10 },
		{ KEY_ENTER, TUI_KEY_ENTER },
	};
	wint_t ch;
	int r = term.screen ? get_wch(&ch) : ERR;

	if (r == ERR)
		return 0;
	if (r != KEY_CODE_YES)
		return ch == 0x7f || ch == 8 ? (uint32_t)TUI_KEY_BACKSPACE : ch ? (uint32_t)ch : (uint32_t)TUI_KEY_RESIZE;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i].theirs == ch)
			return keys[i].ours;
	return TUI_KEY_RESIZE; /* a key without a meaning: draw again */
}

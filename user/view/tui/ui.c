/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Keys follow htop and less where these have a key for it. */
#include "view/tui/ui.h"

#include <string.h>

#include "base/utf8.h"

static const uint64_t spans_s[] = { 0, 4 * 3600, 3600, 15 * 60, 5 * 60, 60, 15, 5, 1 };
#define SPANS (sizeof(spans_s) / sizeof(spans_s[0]))

uint64_t tui_span_ns(unsigned span)
{
	return span < SPANS ? spans_s[span] * 1000000000ull : 0;
}

/* The columns that sort at first: by bytes at the peak: live bytes change too fast to be read sorted. */
static const uint8_t sort_first[TUI_TABS] = {
	[TUI_OPS] = 2, [TUI_REGIONS] = 3, [TUI_PEAK] = 2, [TUI_BLOCKS] = 0, [TUI_THREADS] = 3, [TUI_PROCS] = 5,
	[TUI_SEGMENTS] = 2, [TUI_NAMES] = 2, [TUI_MODULES] = 2, [TUI_STEPS] = 0, [TUI_SAVED] = 3, [TUI_LEAKS] = 1,
	[TUI_STACKS] = 1,
};

/* Of a held moment: by bytes live then. */
static const uint8_t sort_then[TUI_TABS] = {
	[TUI_OPS] = 1, [TUI_REGIONS] = 2, [TUI_PROCS] = 4, [TUI_SEGMENTS] = 2, [TUI_NAMES] = 2, [TUI_MODULES] = 2,
	[TUI_STACKS] = 1,
};

void tui_ui__init(struct tui_ui *ui, int is_live)
{
	memset(ui, 0, sizeof(*ui));
	ui->is_live = is_live;
	ui->is_color = ui->is_fine = 1;
	for (unsigned i = 0; i < TUI_TABS; i++) {
		ui->tabs[i].sort = sort_first[i];
		ui->then_tabs[i].sort = sort_then[i];
	}
	ui->tab = is_live ? TUI_OPS : TUI_PEAK;
}

struct tui_tab_state *tui_ui__table(struct tui_ui *ui)
{
	return ui->is_then ? &ui->then_tabs[ui->tab] : &ui->tabs[ui->tab];
}

void tui_tab_state__settle(struct tui_tab_state *t, size_t rows, unsigned page, unsigned cols)
{
	t->rows = rows;
	t->page = page;
	t->cols = cols;
	if (t->row >= rows)
		t->row = rows ? rows - 1 : 0;
	if (t->top > t->row)
		t->top = t->row;
	if (page && t->row >= t->top + page)
		t->top = t->row - page + 1;
	if (t->top + page > rows)
		t->top = rows > page ? rows - page : 0;
}

void tui_tab_state__scroll(struct tui_tab_state *t, size_t lines, unsigned page)
{
	size_t last = lines > page ? lines - page : 0;

	t->page = page;
	t->rows = last + 1;
	t->row = t->row < last ? t->row : last;
	t->top = t->row;
}

/* --- keys --------------------------------------------------------------------------------------- */

static void ui__type(struct tui_ui *ui, uint32_t key)
{
	char utf8[4];
	size_t n;

	if (key == TUI_KEY_BACKSPACE) {
		while (ui->filter_len && ((unsigned char)ui->filter[--ui->filter_len] & 0xc0) == 0x80)
			;
		if (!ui->filter_len)
			ui->filter[0] = '\0';
	} else if (key == TUI_KEY_ESC) {
		ui->filter_len = 0;
		ui->is_typing = 0;
	} else if (key == TUI_KEY_ENTER || key == '\r') {
		ui->is_typing = 0;
	} else if (key >= ' ' && key < 0x110000 && key != 0x7f) {
		n = utf8_encode(key, utf8);
		if (ui->filter_len + n < TUI_FILTER_MAX) {
			memcpy(ui->filter + ui->filter_len, utf8, n);
			ui->filter_len += n;
		}
	}
	ui->filter[ui->filter_len] = '\0';
}

static void ui__go(struct tui_ui *ui, int by)
{
	ui->tab = (enum tui_tab)(((int)ui->tab + by + TUI_TABS) % TUI_TABS);
	ui->is_detail = 0;
}

static void tab__move(struct tui_tab_state *t, int64_t by)
{
	if (by < 0 && (size_t)-by > t->row)
		t->row = 0;
	else
		t->row = (size_t)((int64_t)t->row + by);
	if (t->row >= t->rows)
		t->row = t->rows ? t->rows - 1 : 0;
}

static void tab__sort(struct tui_tab_state *t, int by)
{
	if (!t->cols)
		return;
	t->sort = (unsigned)((int)t->sort + by + (int)t->cols) % t->cols;
	t->is_up = 0;
	t->row = t->top = 0;
}

int tui_tab_state__move(struct tui_tab_state *t, uint32_t key)
{
	int64_t page = t->page > 1 ? t->page - 1 : 1;

	switch (key) {
	case TUI_KEY_UP:
	case 'k':
		tab__move(t, -1);
		return 1;
	case TUI_KEY_DOWN:
	case 'j':
		tab__move(t, 1);
		return 1;
	case TUI_KEY_PAGE_UP:
		tab__move(t, -page);
		return 1;
	case TUI_KEY_PAGE_DOWN:
		tab__move(t, page);
		return 1;
	case TUI_KEY_HOME:
		t->row = 0;
		return 1;
	case TUI_KEY_END:
		t->row = t->rows ? t->rows - 1 : 0;
		return 1;
	default:
		return 0;
	}
}

/* A column back from now, or from the moment that is held; and forward, at last to now again. */
static void ui__hold(struct tui_ui *ui, int is_back)
{
	uint64_t from = ui->is_held ? ui->held_ns : ui->now_ns;

	if (!ui->col_ns || (!ui->is_held && !is_back))
		return;
	ui->is_held = 1;
	if (is_back)
		ui->held_ns = from > ui->col_ns ? from - ui->col_ns : 0;
	else
		ui->held_ns = from + ui->col_ns;
	if (ui->held_ns >= ui->now_ns)
		ui->is_held = 0;
}

/* A shorter span, or a longer one: spans longer than the trace would show nothing more, and are passed over. */
static void ui__span(struct tui_ui *ui, int by)
{
	unsigned span = ui->span;

	do {
		span += (unsigned)by;
	} while (span && span < SPANS && tui_span_ns(span) >= ui->now_ns);
	if (span >= SPANS)
		return;
	ui->span = span;
	/* A recording's end has little to show. */
	if (by > 0 && !ui->is_live && !ui->is_held && ui->peak_ns && ui->peak_ns < ui->now_ns) {
		ui->is_held = 1;
		ui->held_ns = ui->peak_ns;
	}
}

/* Keys for what is shown and how. 0: not such a key. */
static int ui__view_key(struct tui_ui *ui, uint32_t key)
{
	struct tui_tab_state *t = tui_ui__table(ui);

	if (key >= '0' && key <= '9') {
		ui__go(ui, (int)(key == '0' ? 9 : key - '1') - (int)ui->tab);
		return 1;
	}
	switch (key) {
	case '\t':
	case TUI_KEY_RIGHT:
		ui__go(ui, 1);
		break;
	case TUI_KEY_BACK_TAB:
	case TUI_KEY_LEFT:
		ui__go(ui, -1);
		break;
	case 'd':
	case 'D':
		if (ui->devs)
			ui->dev = (ui->dev + (key == 'd' ? 1 : ui->devs - 1)) % ui->devs;
		break;
	case 's':
	case '>':
		tab__sort(t, 1);
		break;
	case 'S':
	case '<':
		tab__sort(t, -1);
		break;
	case 'r':
		t->is_up = !t->is_up;
		break;
	case '+':
	case '=':
		ui__span(ui, 1);
		break;
	case '-':
		ui__span(ui, -1);
		break;
	case '[':
	case ']':
		ui__hold(ui, key == '[');
		break;
	case 'g':
		ui->chart = (enum tui_chart_size)((ui->chart + 1) % TUI_CHART_SIZES);
		break;
	case '/':
		ui->is_typing = 1;
		break;
	case TUI_KEY_ENTER:
	case '\r':
		ui->is_detail = !ui->is_detail;
		break;
	default:
		return 0;
	}
	return 1;
}

unsigned tui_ui__key(struct tui_ui *ui, uint32_t key)
{
	if (key == TUI_KEY_RESIZE)
		return 0;
	if (ui->is_typing) {
		ui__type(ui, key);
		return 0;
	}
	if (ui->is_verdict && tui_tab_state__move(&ui->verdict, key == ' ' ? TUI_KEY_PAGE_DOWN : key))
		return 0;
	if (ui->is_help || ui->is_verdict) { /* any other key goes back, q as in less */
		ui->is_help = ui->is_verdict = 0;
		return 0;
	}
	if (tui_tab_state__move(tui_ui__table(ui), key) || ui__view_key(ui, key))
		return 0;
	switch (key) {
	case 'q':
	case 'Q':
	case TUI_KEY_F10:
		return TUI_QUIT;
	case '?':
	case 'h':
	case TUI_KEY_F1:
		ui->is_help = 1;
		return 0;
	case 'v':
		ui->is_verdict = 1;
		ui->verdict.row = 0;
		return 0;
	case TUI_KEY_ESC: /* one thing after the other */
		if (ui->is_detail)
			ui->is_detail = 0;
		else if (ui->is_held)
			ui->is_held = 0;
		else
			ui->filter[ui->filter_len = 0] = '\0';
		return 0;
	case ' ':
		ui->is_paused = ui->is_live && !ui->is_paused;
		return 0;
	case 'm':
		return ui->is_live ? TUI_DO_MARK : 0;
	case 'w':
		return ui->is_live ? TUI_DO_RECORD : 0;
	case 't':
		return ui->is_live ? TUI_DO_TRACE : 0;
	default:
		return 0;
	}
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The terminal interface without a terminal: what stands where on screens of any size, what keys do,
 * and whole screens against tests/golden/tui_*.txt (MT_GOLDEN_UPDATE=1 build/tests/test_tui, and read
 * the difference before it is committed).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "unit/view_fix.h"
#include "view/tui/chart.h"
#include "view/tui/palette.h"
#include "view/tui/pick.h"
#include "view/tui/screen.h"
#include "view/tui/table.h"

#define S 1000000000ull

/* --- colours ------------------------------------------------------------------------------------------- */

static double linear(unsigned v)
{
	double c = v / 255.0;

	return c <= 0.03928 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4);
}

/* Relative luminance (WCAG 2.2) of red, green and blue. */
static double luminance(unsigned r, unsigned g, unsigned b)
{
	return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
}

/* Of one of xterm's 256, from 16 on: a cube of six by six by six, then 24 greys. */
static double luminance_of(short color)
{
	static const unsigned steps[] = { 0, 95, 135, 175, 215, 255 };
	unsigned i = (unsigned)color - 16, grey = 8 + 10 * ((unsigned)color - 232);

	assert_in_range(color, 16, 255);
	if (color >= 232)
		return luminance(grey, grey, grey);
	return luminance(steps[i / 36], steps[i / 6 % 6], steps[i % 6]);
}

static double contrast(double a, double b)
{
	return ((a > b ? a : b) + 0.05) / ((a > b ? b : a) + 0.05);
}

static void test_contrast(void **state)
{
	const double grounds[] = { luminance(0x1e, 0x1e, 0x1e), 1 };

	(void)state;
	for (int is_light = 0; is_light < 2; is_light++) {
		const struct palette_color *p = palette_of(is_light);

		for (unsigned s = 0; s < TUI_STYLES; s++) {
			double ground = p[s].bg == PALETTE_NONE ? grounds[is_light] : luminance_of(p[s].bg);
			double got = p[s].fg == PALETTE_NONE ? 21 : contrast(luminance_of(p[s].fg), ground);

			if (got < (palette_is_area((enum tui_style)s) ? 3 : 4.5))
				fail_msg("style %u, light %d: %.2f", s, is_light, got);
		}
	}
	assert_true(contrast(luminance_of(palette_selected.fg), luminance_of(palette_selected.bg)) >= 4.5);
}

static void test_light_or_dark(void **state)
{
	static const struct {
		const char *text;
		int is_light;
	} all[] = { { NULL, 0 }, { "", 0 }, { "15;0", 0 }, { "0;15", 1 }, { "0;default;15", 1 }, { "15;default;0", 0 },
		    { "0;7", 1 }, { "7;8", 0 }, { "default;default", 0 }, { "0;", 0 }, { ";15", 1 }, { "0;-1", 0 },
		    { "0;15x", 0 }, { "15", 0 }, { "0;99999999999999999999", 0 } };

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		assert_int_equal(palette_is_light(all[i].text), all[i].is_light);
}

/* --- layout ------------------------------------------------------------------------------------------- */

static void cover(uint8_t *seen, unsigned w, unsigned h, struct rect r)
{
	if (!r.w || !r.h)
		return;
	assert_true(r.x + r.w <= w);
	assert_true(r.y + r.h <= h);
	for (unsigned y = r.y; y < r.y + r.h; y++)
		for (unsigned x = r.x; x < r.x + r.w; x++)
			assert_int_equal(seen[y * w + x]++, 0);
}

static void test_layout_never_overlaps(void **state)
{
	static uint8_t seen[260 * 90];

	(void)state;
	for (unsigned w = 1; w < 260; w += w < 90 ? 1 : 13)
		for (unsigned h = 1; h < 90; h++)
			for (unsigned size = 0; size < TUI_CHART_SIZES; size++) {
				struct tui_layout l;

				tui_layout(&l, w, h, (enum tui_chart_size)size);
				memset(seen, 0, sizeof(seen));
				cover(seen, w, h, l.title);
				cover(seen, w, h, l.devs);
				cover(seen, w, h, l.verdict);
				cover(seen, w, h, l.chart);
				cover(seen, w, h, l.cats);
				cover(seen, w, h, l.tabs);
				cover(seen, w, h, l.table);
				cover(seen, w, h, l.coverage);
				cover(seen, w, h, l.keys);
				assert_true(l.devs.h == 1);
				assert_true(h < 2 || l.coverage.h == 1);
			}
}

static void test_layout_of_the_usual_terminal(void **state)
{
	struct tui_layout l;

	(void)state;
	tui_layout(&l, 80, 24, TUI_CHART_HALF);
	assert_int_equal(l.verdict.h, 5);
	assert_int_equal(l.chart.h, 5);
	assert_true(l.cats.w >= 38 && l.chart.w >= 38);
	assert_true(l.table.h >= 1 + 8); /* its head and eight rows */
	tui_layout(&l, 80, 24, TUI_CHART_HIDDEN);
	assert_int_equal(l.chart.h, 0);
	assert_true(l.table.h >= 14);
	tui_layout(&l, 80, 24, TUI_CHART_FULL);
	assert_int_equal(l.table.h, 0);
	assert_int_equal(l.coverage.h, 1);
}

/* --- history ------------------------------------------------------------------------------------------ */

static void add(struct tui_hist *h, uint64_t rel_ns, uint64_t parameter, uint64_t activation)
{
	uint64_t cats[CAT_MAX] = { [CAT_PARAMETER] = parameter, [CAT_ACTIVATION] = activation };

	tui_hist__add(h, rel_ns, cats);
}

static void test_hist_keeps_the_fullest_whole(void **state)
{
	struct tui_hist *h = tui_hist__new();
	struct tui_comp c;

	(void)state;
	assert_non_null(h);
	assert_int_equal(tui_hist__get(h, 0, S, &c), 0);
	add(h, 1 * S, 10, 5);
	add(h, 2 * S, 10, 90);
	add(h, 3 * S, 50, 20);
	assert_int_equal(tui_hist__get(h, 0, 10 * S, &c), 1);
	assert_int_equal(c.sum, 100);
	assert_int_equal(c.cats[CAT_PARAMETER], 10); /* of that moment, not the most of each */
	assert_int_equal(tui_hist__get(h, 3 * S, 4 * S, &c), 1);
	assert_int_equal(c.sum, 70);
	assert_int_equal(tui_hist__get(h, 5 * S, 5 * S + 1, &c), 1); /* the last holds for a while … */
	assert_int_equal(c.sum, 70);
	assert_int_equal(tui_hist__get(h, 60 * S, 61 * S, &c), 0); /* … but not for ever */
	assert_int_equal(tui_hist__get(h, 0, S, &c), 0);
	add(h, 100 * S, UINT64_MAX, UINT64_MAX);
	assert_int_equal(tui_hist__get(h, 99 * S, 101 * S, &c), 1);
	assert_int_equal(c.sum, UINT64_MAX);
	tui_hist__free(h);
}

/* A month, a look a minute: a chart of it has no hole and shows its highest moment. */
static void test_hist_is_bounded_and_reaches_back(void **state)
{
	struct tui_hist *h = tui_hist__new();
	uint64_t month = 30 * 86400 * S;
	struct tui_comp c;
	int is_seen = 0;

	(void)state;
	assert_non_null(h);
	for (uint64_t at = 0; at < month; at += 60 * S)
		add(h, at, 7, at == 86400 * S ? 1000 : 1);
	for (unsigned i = 0; i < 200; i++) {
		assert_int_equal(tui_hist__get(h, month / 200 * i, month / 200 * (i + 1), &c), 1);
		is_seen |= c.sum == 1007;
	}
	assert_true(is_seen);
	/* fine at its end: the last minute is still there to the moment */
	assert_int_equal(tui_hist__get(h, month - 60 * S, month - 59 * S, &c), 1);
	assert_int_equal(c.rel_ns, month - 60 * S);
	tui_hist__free(h);
}

/* --- chart ---------------------------------------------------------------------------------------------- */

static void test_scale_is_round(void **state)
{
	(void)state;
	assert_int_equal(tui_scale(0), 1024);
	assert_int_equal(tui_scale(1024), 1024);
	assert_int_equal(tui_scale(29 << 20), 32 << 20);
	assert_int_equal(tui_scale(801ull << 20), 1ull << 30);
	assert_int_equal(tui_scale(UINT64_MAX), UINT64_MAX);
	for (uint64_t v = 1; v < 1ull << 50; v += v / 3 + 1) {
		assert_true(tui_scale(v) >= v);
		assert_true(v < 1024 || tui_scale(v) <= 2 * v);
	}
}

static void check_cell(const struct canvas *c, unsigned y, uint32_t cp, unsigned style, unsigned back)
{
	const struct tui_cell *cell = canvas__at(c, 0, y);

	assert_int_equal(cell->cp, cp);
	assert_int_equal(cell->style, style);
	assert_int_equal(cell->back, back);
}

static void test_column_stacks(void **state)
{
	struct tui_column col = { .cats = { [CAT_PARAMETER] = 12, [CAT_GRADIENT] = 8 }, .top = 29 };
	struct tui_ui ui;
	struct canvas c;

	(void)state;
	tui_ui__init(&ui, 1);
	assert_int_equal(canvas__init(&c, 1, 4), 0);
	tui_chart__column(&c, 0, 0, 4, &col, 32, &ui, 1); /* a byte is an eighth of a line */
	check_cell(&c, 3, 0x2588, TUI_CAT0 + CAT_PARAMETER, TUI_PLAIN);
	check_cell(&c, 2, 0x2584, TUI_CAT0 + CAT_PARAMETER, TUI_CAT0 + CAT_GRADIENT);
	check_cell(&c, 1, 0x2584, TUI_CAT0 + CAT_GRADIENT, TUI_PLAIN);
	check_cell(&c, 0, 0x2500, TUI_ENVELOPE, TUI_PLAIN); /* 29: in the middle of the uppermost line */
	canvas__done(&c);

	ui.is_color = 0;
	assert_int_equal(canvas__init(&c, 1, 4), 0);
	tui_chart__column(&c, 0, 0, 4, &col, 32, &ui, 1);
	check_cell(&c, 3, 'P', TUI_CAT0 + CAT_PARAMETER, TUI_PLAIN);
	check_cell(&c, 1, 'G', TUI_CAT0 + CAT_GRADIENT, TUI_PLAIN);
	check_cell(&c, 0, '-', TUI_ENVELOPE, TUI_PLAIN);
	canvas__done(&c);
}

static void test_column_little_is_not_nothing(void **state)
{
	struct tui_column col = { .cats = { [CAT_PARAMETER] = 1 }, .top = 1 };
	struct tui_ui ui;
	struct canvas c;

	(void)state;
	tui_ui__init(&ui, 1);
	assert_int_equal(canvas__init(&c, 1, 2), 0);
	tui_chart__column(&c, 0, 0, 2, &col, 1 << 30, &ui, 1);
	assert_int_equal(canvas__at(&c, 0, 1)->cp, 0x2581);
	canvas__done(&c);
}

/* --- keys ------------------------------------------------------------------------------------------------- */

static void put_utf8(FILE *out, uint32_t cp)
{
	char utf8[4];

	fwrite(utf8, 1, utf8_encode(cp, utf8), out);
}

/* As text, blanks at the ends of lines left out. */
static void canvas__dump(const struct canvas *c, FILE *out)
{
	for (unsigned y = 0; y < c->h; y++) {
		unsigned end = c->w;

		while (end && canvas__at(c, end - 1, y)->cp == ' ')
			end--;
		for (unsigned x = 0; x < end; x++)
			if (canvas__at(c, x, y)->cp)
				put_utf8(out, canvas__at(c, x, y)->cp);
		fputc('\n', out);
	}
}

static char *tabs_text(unsigned w, struct tui_ui *ui, const struct tui_data *d)
{
	struct canvas c;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	assert_int_equal(canvas__init(&c, w, 1), 0);
	tui_tabs__draw(&c, (struct rect){ 0, 0, w, 1 }, ui, d);
	canvas__dump(&c, f);
	fclose(f);
	canvas__done(&c);
	return text;
}

static void type(struct tui_ui *ui, const char *keys)
{
	for (; *keys; keys++)
		assert_int_equal(tui_ui__key(ui, (uint32_t)(unsigned char)*keys), 0);
}

static void test_keys(void **state)
{
	struct tui_ui ui;

	(void)state;
	tui_ui__init(&ui, 1);
	type(&ui, "\t");
	assert_int_equal(ui.tab, TUI_STACKS);
	tui_ui__key(&ui, TUI_KEY_BACK_TAB);
	tui_ui__key(&ui, TUI_KEY_LEFT);
	assert_int_equal(ui.tab, TUI_MODULES);
	type(&ui, "1");
	assert_int_equal(ui.tab, TUI_PEAK);
	tui_ui__key(&ui, TUI_KEY_LEFT);
	assert_int_equal(ui.tab, TUI_PLACES);
	type(&ui, "2");
	assert_int_equal(ui.tab, TUI_LEAKS);
	type(&ui, "5");
	assert_int_equal(ui.tab, TUI_STACKS);
	type(&ui, "0");
	assert_int_equal(ui.tab, TUI_TRACE);
	type(&ui, "4");
	assert_int_equal(ui.tab, TUI_OPS);
	tui_tab_state__settle(&ui.tabs[TUI_OPS], 100, 10, 8);
	type(&ui, "jjjk");
	assert_int_equal(ui.tabs[TUI_OPS].row, 2);
	tui_ui__key(&ui, TUI_KEY_END);
	tui_tab_state__settle(&ui.tabs[TUI_OPS], 100, 10, 8);
	assert_int_equal(ui.tabs[TUI_OPS].top, 90);
	tui_ui__key(&ui, TUI_KEY_DOWN);
	assert_int_equal(ui.tabs[TUI_OPS].row, 99);
	tui_tab_state__settle(&ui.tabs[TUI_OPS], 3, 10, 8); /* rows that go take the cursor along */
	assert_int_equal(ui.tabs[TUI_OPS].row, 2);
	assert_int_equal(ui.tabs[TUI_OPS].top, 0);
	type(&ui, "S");
	assert_int_equal(ui.tabs[TUI_OPS].sort, 1);
	type(&ui, "SS");
	assert_int_equal(ui.tabs[TUI_OPS].sort, 7);
	type(&ui, "r");
	assert_int_equal(ui.tabs[TUI_OPS].is_up, 1);
	type(&ui, " ");
	assert_int_equal(ui.is_paused, 1);
	assert_int_equal(tui_ui__key(&ui, 'm'), TUI_DO_MARK);
	assert_int_equal(tui_ui__key(&ui, 'w'), TUI_DO_RECORD);
	assert_int_equal(tui_ui__key(&ui, 't'), TUI_DO_TRACE);
	assert_int_equal(tui_ui__key(&ui, TUI_KEY_F10), TUI_QUIT);
	type(&ui, "?");
	assert_int_equal(ui.is_help, 1);
	type(&ui, "q"); /* out of the help, not out of the program */
	assert_int_equal(ui.is_help, 0);
	ui.now_ns = 100000000000;
	type(&ui, "+"); /* the hours would show more than there is */
	assert_int_equal(tui_span_ns(ui.span), 60000000000);
	type(&ui, "+++++"); /* no nearer than a second */
	assert_int_equal(tui_span_ns(ui.span), 1000000000);
	type(&ui, "----");
	assert_int_equal(ui.span, 0);
	type(&ui, "-");
	assert_int_equal(ui.span, 0);
	ui.now_ns = 1000000000;
	type(&ui, "+");
	assert_int_equal(ui.span, 0);
	type(&ui, "v");
	assert_int_equal(ui.is_verdict, 1);
	type(&ui, "v");
	assert_int_equal(ui.is_verdict, 0);
	assert_int_equal(tui_ui__key(&ui, 'q'), TUI_QUIT);
	tui_ui__init(&ui, 0);
	assert_int_equal(tui_ui__key(&ui, 'm') | tui_ui__key(&ui, 'w') | tui_ui__key(&ui, 't') | tui_ui__key(&ui, ' '), 0);
	assert_int_equal(ui.is_paused, 0);
}

/* On any screen the chosen table is in the line, and each end of it says how many more there are. */
static void test_tabs_say_how_many_more(void **state)
{
	struct tui_data d = { .now = NULL };
	struct tui_ui ui;

	(void)state;
	tui_ui__init(&ui, 0);
	for (unsigned w = 30; w < 220; w++)
		for (unsigned tab = 0; tab < TUI_TABS; tab++) {
			unsigned seen = 0, before = 0, behind = 0;
			char *text, *more;

			ui.tab = (enum tui_tab)tab;
			text = tabs_text(w, &ui, &d);
			assert_non_null(strstr(text, tui_tables[tab].name));
			for (unsigned i = 0; i < TUI_TABS; i++)
				seen += strstr(text, tui_tables[i].name) != NULL;
			if (!strncmp(text, "\xe2\x80\xb9+", 4)) /* ‹ */
				before = (unsigned)atoi(text + 4);
			more = strrchr(text, '+');
			if (more && more > text + 4)
				behind = (unsigned)atoi(more + 1);
			if (before + seen + behind != TUI_TABS)
				print_message("%u columns: %s\n", w, text);
			assert_int_equal(before + seen + behind, TUI_TABS);
			free(text);
		}
	ui.tab = TUI_PEAK;
	for (unsigned i = 0; i < 5; i++) {
		char *text = tabs_text(79, &ui, &d);

		assert_non_null(strstr(text, tui_tables[i].name)); /* without a key */
		free(text);
	}
}

static void test_filter_is_typed(void **state)
{
	struct tui_ui ui;

	(void)state;
	tui_ui__init(&ui, 1);
	type(&ui, "/q?m");
	tui_ui__key(&ui, 0x5f35); /* 張 */
	assert_string_equal(ui.filter, "q?m\xe5\xbc\xb5");
	tui_ui__key(&ui, TUI_KEY_BACKSPACE);
	assert_string_equal(ui.filter, "q?m");
	type(&ui, "\n");
	assert_int_equal(ui.is_typing, 0);
	tui_ui__key(&ui, TUI_KEY_ESC);
	assert_string_equal(ui.filter, "");
	type(&ui, "/");
	for (unsigned i = 0; i < 500; i++)
		tui_ui__key(&ui, i % 2 ? 0x1f600 : 'x'); /* longer than it may get */
	assert_true(strlen(ui.filter) < TUI_FILTER_MAX);
	for (unsigned i = 0; i < 500; i++)
		tui_ui__key(&ui, TUI_KEY_BACKSPACE);
	assert_string_equal(ui.filter, "");
}

/* --- tables ----------------------------------------------------------------------------------------------- */

static void test_rows_sort_and_filter(void **state)
{
	struct report r = fix_report();
	struct tui_rows rows = { 0 };
	struct tui_ui ui;

	(void)state;
	tui_ui__init(&ui, 1);
	tui_rows__fill(&rows, &tui_tables[TUI_OPS], &r, &r.devs[0]);
	tui_rows__arrange(&rows, &tui_tables[TUI_OPS], &ui);
	assert_int_equal(rows.cnt, 6); /* the five and "no operator" */
	assert_string_equal(rows.rows[0].v[0].text, "aten::addmm");
	ui.tabs[TUI_OPS].sort = 1;
	tui_rows__arrange(&rows, &tui_tables[TUI_OPS], &ui);
	assert_int_equal(rows.rows[0].v[1].num, 64 << 20);
	ui.tabs[TUI_OPS].sort = 0; /* texts from a to z */
	tui_rows__arrange(&rows, &tui_tables[TUI_OPS], &ui);
	assert_string_equal(rows.rows[0].v[0].text, "(no operator open)");
	strcpy(ui.filter, "EMPTY");
	tui_rows__arrange(&rows, &tui_tables[TUI_OPS], &ui);
	assert_int_equal(rows.cnt, 1);
	assert_string_equal(rows.rows[0].v[0].text, "aten::empty");
	tui_rows__done(&rows);
}

static void test_trace_tells_losses_and_costs(void **state)
{
	struct report r = fix_report();
	struct tui_rows rows = { 0 };

	(void)state;
	r.run.lost[MT_LOSS_RING] = 17;
	tui_rows__fill(&rows, &tui_tables[TUI_TRACE], &r, NULL);
	assert_string_equal(rows.rows[0].v[1].text, "ring");
	assert_int_equal(rows.rows[0].v[2].num, 17);
	assert_int_equal(rows.rows[0].style, TUI_BAD);
	assert_string_equal(rows.rows[1].v[1].text, "tensor alloc");
	assert_int_equal(rows.rows[1].v[3].num, 111179700);
	tui_rows__done(&rows);
}

static void test_segments_tell_their_use(void **state)
{
	struct report_seg_row segs[] = {
		{ .addr = 0x7f00, .size = 20 << 20, .used = 8 << 20, .largest_free = 9 << 20, .pid = 7, .blocks = 3,
		  .dev = MT_DEV_CUDA0 + 1, .kind = MT_SEG_PHYSICAL, .is_cached = 1, .is_private = 1, .pool_id = { 0, 7 } },
		{ .addr = 0x9f00, .size = 4 << 20, .pid = 7, .dev = MT_DEV_CUDA0, .kind = MT_SEG_DEVICE, .is_comm = 1 },
	};
	struct report_pool pools[] = { /* the same number in another process, and the process's own */
		{ .id = { 0, 7 }, .pid = 8, .dev = MT_DEV_CUDA0 + 1, .graphs = 1, .first = { { 0, 0, 4 } }, .last.number = 4 },
		{ .id = { 0, 7 }, .pid = 7, .dev = MT_DEV_CUDA0 + 1, .graphs = 24, .first = { { 0, 0, 1 } },
		  .last.number = 24 },
	};
	struct report r = { .driver.rows = segs, .driver.cnt = 2, .driver.pools = pools, .driver.pools_cnt = 2 };
	struct tui_rows rows = { 0 };

	(void)state;
	tui_rows__fill(&rows, &tui_tables[TUI_SEGMENTS], &r, NULL);
	assert_int_equal(rows.cnt, 2);
	assert_string_equal(rows.rows[0].v[0].text, "cuda:1");
	assert_string_equal(rows.rows[0].v[1].text, "virtual memory API");
	assert_int_equal(rows.rows[0].v[4].num, 12 << 20);
	assert_string_equal(rows.rows[0].v[6].text, "25.0 %"); /* 1 - 9 / 12 */
	assert_string_equal(rows.rows[0].v[10].text, "0:7 graph 1 to 24");
	assert_string_equal(rows.rows[1].v[10].text, "-");
	assert_string_equal(rows.rows[1].v[1].text, "communication");
	assert_string_equal(rows.rows[1].v[3].text, "-"); /* a library's: nothing is known of its inside */
	tui_rows__done(&rows);
}

/* A block is called what Python calls it; its operator is in the details. */
static void test_names(void **state)
{
	struct report_tensor tensors[] = {
		{ .size = 4096, .ptr = 0x7f00, .pid = 7, .dev = MT_DEV_CPU, .kind = EV_TENSOR_PARAMETER,
		  .path = "layers.0.weight", .root = "Net", .type = "float32[32,32]", .key = "" },
		{ .size = 4096, .dev = 255, .kind = EV_TENSOR_STATE, .path = HOSTILE, .root = HOSTILE, .type = HOSTILE,
		  .key = "exp_avg" },
	};
	struct report_block block = { .size = 4096, .dev = MT_DEV_CPU, .op = "aten::empty", .name = "layers.0.weight" };
	struct report r = { .names.rows = tensors, .names.cnt = 2, .peak_blocks.rows = &block, .peak_blocks.cnt = 1 };
	struct tui_rows rows = { 0 };

	(void)state;
	tui_rows__fill(&rows, &tui_tables[TUI_NAMES], &r, NULL);
	assert_int_equal(rows.cnt, 2);
	assert_string_equal(rows.rows[0].v[0].text, "layers.0.weight");
	assert_string_equal(rows.rows[0].v[1].text, "parameter");
	assert_string_equal(rows.rows[0].v[3].text, "float32[32,32]");
	assert_string_equal(rows.rows[1].v[0].text, "exp_avg " HOSTILE);
	tui_rows__done(&rows);
	tui_rows__fill(&rows, &tui_tables[TUI_BLOCKS], &r, NULL);
	assert_string_equal(rows.rows[0].v[5].text, "layers.0.weight"); /* no GPU, so no column for the device */
	assert_string_equal(rows.rows[0].v[8].text, "aten::empty");
	tui_rows__done(&rows);
}

static void test_modules(void **state)
{
	struct report_module modules[] = {
		{ .name = "", .root = "Net", .class = "Net", .all = { .at_peak = 300 }, .own = { .at_peak = 100 },
		  .activation = 500 },
		{ .name = "a.b", .root = "Net", .class = HOSTILE, .parent = 1, .all = { .at_peak = 200 },
		  .own = { .at_peak = 200 } },
		{ .class = "", .root = "" },
	};
	struct report r = { .modules.rows = modules, .modules.cnt = 3 };
	struct tui_rows rows = { 0 };

	(void)state;
	tui_rows__fill(&rows, &tui_tables[TUI_MODULES], &r, NULL);
	assert_int_equal(rows.cnt, 3);
	assert_string_equal(rows.rows[0].v[0].text, "Net");
	assert_int_equal(rows.rows[0].v[2].num, 500);
	assert_string_equal(rows.rows[1].v[0].text, "Net.a.b");
	assert_int_equal(rows.rows[1].v[4].num, 200);
	assert_string_equal(rows.rows[2].v[0].text, "(no name)");
	tui_rows__done(&rows);
}

static void test_leaks_and_stacks(void **state)
{
	struct report_frame frames[] = {
		{ (char *)"malloc", (char *)"/lib/libc.so.6", 0, EV_FRAME_NATIVE },
		{ (char *)"step", (char *)"/home/me/train.py", 12, EV_FRAME_PYTHON },
		{ (char *)"main" HOSTILE, (char *)"train.py", 30, EV_FRAME_PYTHON },
	};
	struct report_leak leaks[] = {
		{ .op = (char *)"aten::tanh", .region = (char *)"", .sure = SURE_HIGH, .per_step = 1, .bytes_slope = 8192,
		  .live = 1 << 20, .blocks = 128, .held = HELD_ITSELF, .held_by = (char *)"losses", .held_kind = (char *)"list",
		  .held_where = (char *)"", .held_items = 7, .frames = frames, .frames_cnt = 3 },
		{ .op = (char *)"aten::exp", .region = (char *)"", .sure = SURE_LOW, .bytes_slope = 10 },
	};
	struct report_stack stack = { .frames = frames, .frames_cnt = 3, .at_peak = 4096 }, native = { .frames = frames,
												       .frames_cnt = 1 };
	struct report_stack stacks[] = { stack, native, { 0 } };
	struct report r = { .leaks = { .rows = leaks, .cnt = 2, .total = 2 }, .stacks.rows = stacks, .stacks.cnt = 3 };
	struct tui_rows rows = { 0 };

	(void)state;
	tui_rows__fill(&rows, &tui_tables[TUI_LEAKS], &r, NULL);
	assert_int_equal(rows.cnt, 2);
	assert_string_equal(rows.rows[0].v[0].text, "aten::tanh");
	assert_int_equal(rows.rows[0].v[1].num, 8192); /* sorts */
	assert_string_equal(rows.rows[0].v[1].text, "8.00 KiB a step");
	assert_string_equal(rows.rows[0].v[6].text, "held by losses, a list with 7 of them when it was looked at");
	assert_string_equal(rows.rows[0].v[7].text, "step (train.py:12) < main" HOSTILE " (train.py:30)");
	assert_int_equal(rows.rows[0].style, TUI_WARN);
	assert_string_equal(rows.rows[1].v[6].text, "");
	assert_int_equal(rows.rows[1].style, TUI_PLAIN);
	tui_rows__done(&rows);
	tui_rows__fill(&rows, &tui_tables[TUI_STACKS], &r, NULL);
	assert_int_equal(rows.cnt, 3);
	assert_string_equal(rows.rows[0].v[0].text, "step (train.py:12) < main" HOSTILE " (train.py:30)");
	assert_int_equal(rows.rows[0].v[1].num, 4096);
	assert_string_equal(rows.rows[1].v[0].text, "malloc (libc.so.6)"); /* no Python there */
	assert_string_equal(rows.rows[2].v[0].text, "");
	tui_rows__done(&rows);
	r.stacks.cnt = 0;
	tui_rows__fill(&rows, &tui_tables[TUI_STACKS], &r, NULL);
	assert_string_equal(rows.empty, "none were recorded but those of what grows, under leaks (--stacks)");
	tui_rows__done(&rows);
	leaks[0].frames_cnt = 0;
	tui_rows__fill(&rows, &tui_tables[TUI_STACKS], &r, NULL);
	assert_string_equal(rows.empty, "none were recorded (--stacks, --stack-size)");
	tui_rows__done(&rows);
}

/* --- screens ---------------------------------------------------------------------------------------------- */

static struct tui_data data_of(struct report *r)
{
	struct tui_data d = { .now = r, .steps_s = 34, .events_s = 41000, .marks = { S }, .marks_cnt = 1 };

	assert_int_equal(tui_data__sample(&d, r), 0);
	d.devs[0].allocs_s = 8972;
	d.devs[0].frees_s = 8970;
	return d;
}

static void data_done(struct tui_data *d)
{
	d->now = NULL; /* not of the heap */
	tui_data__done(d);
}

static void check_golden(const char *name, const struct canvas *c)
{
	char path[100], *text = NULL, *want = NULL;
	size_t len = 0, cap = 0;
	FILE *f = open_memstream(&text, &len);
	ssize_t n;

	assert_non_null(f);
	canvas__dump(c, f);
	fclose(f);
	snprintf(path, sizeof(path), "tests/golden/%s", name);
	if (getenv("MT_GOLDEN_UPDATE")) {
		f = fopen(path, "w");
		assert_non_null(f);
		assert_int_equal(fwrite(text, 1, len, f), len);
		fclose(f);
	}
	f = fopen(path, "r");
	if (!f)
		fail_msg("%s is missing: MT_GOLDEN_UPDATE=1 makes it", path);
	n = getdelim(&want, &cap, -1, f);
	fclose(f);
	if (n != (ssize_t)len || memcmp(text, want, len))
		fail_msg("differs from %s; it is now:\n%s", path, text);
	free(want);
	free(text);
}

static void golden(const char *name, unsigned w, unsigned h, struct tui_ui *ui, struct report *r)
{
	struct tui_words words = { "", 1, "job.mtr" };
	struct tui_data d = data_of(r);
	struct canvas c;

	assert_int_equal(canvas__init(&c, w, h), 0);
	assert_int_equal(tui_screen__draw(&c, ui, &d, r, &words), 0);
	check_golden(name, &c);
	canvas__done(&c);
	data_done(&d);
}

/* On the smallest usual terminal no line of the help is cut. */
static void help_is_whole(struct tui_ui *ui, struct report *r)
{
	struct tui_words words = { "", 1 };
	struct tui_data d = data_of(r);
	char *text = NULL;
	struct canvas c;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	assert_int_equal(canvas__init(&c, 80, 24), 0);
	assert_int_equal(tui_screen__draw(&c, ui, &d, r, &words), 0);
	canvas__dump(&c, f);
	fclose(f);
	assert_non_null(strstr(text, "highest total")); /* its last line */
	assert_null(strstr(text, "\xe2\x80\xa6"));	  /* an ellipsis */
	canvas__done(&c);
	data_done(&d);
	free(text);
}

/* Before all probes were set nothing is no value; what was seen before that is drawn. */
static void test_not_yet_traced_in_the_chart(void **state)
{
	static struct point points[] = { { FIX_T0, 0, 0 }, { FIX_T0 + 3 * S, 1000, 1000 }, { FIX_T0 + 6 * S, 0, 0 },
					 { FIX_T0 + 7 * S, 0, 0 } };
	struct report_dev dev = { .dev = MT_DEV_CPU, .peak = 1000, .peak_ts_ns = FIX_T0 + 3 * S, .series = { points, 4, S } };
	struct report_proc proc = { .pid = 1, .peak = 1000, .set_ts_ns = FIX_T0 + 5 * S };
	struct report r = { .devs = &dev, .devs_cnt = 1, .procs = &proc, .procs_cnt = 1,
			    .run = { .start_ts_ns = FIX_T0, .end_ts_ns = FIX_T0 + 10 * S } };
	struct tui_data d = { .now = &r };
	struct tui_comp held;
	struct tui_ui ui;
	struct canvas c;

	(void)state;
	tui_ui__init(&ui, 0);
	ui.is_color = 0;
	assert_int_equal(canvas__init(&c, 30, 11), 0); /* 10 columns of axis, 2 columns a second */
	tui_chart__draw(&c, (struct rect){ 0, 0, 30, 11 }, &ui, &d, &r, &dev, &held);
	for (unsigned x = 10; x < 10 + 6; x++)
		assert_int_equal(canvas__at(&c, x, 9)->cp, '.');
	assert_int_equal(canvas__at(&c, 10 + 6, 9)->cp, '#');
	assert_int_equal(canvas__at(&c, 10 + 14, 9)->cp, ' ');
	canvas__done(&c);
}

/* A series has no points where nothing was traced: what is drawn behind a gap stands where it was. */
static void test_gaps_in_the_chart(void **state)
{
	static struct point points[] = { { FIX_T0, 100, 100 }, { FIX_T0 + 1 * S, 100, 100 }, { FIX_T0 + 8 * S, 1000, 1000 },
					 { FIX_T0 + 9 * S, 500, 500 } };
	static struct report_gap gaps[] = { { FIX_T0 + 2 * S, FIX_T0 + 8 * S, 6 * S } };
	static struct point between[] = { { FIX_T0 + 3 * S, 600, 600 }, { FIX_T0 + 4 * S, 950, 950 } };
	struct report_dev dev = { .dev = MT_DEV_CPU, .live = 500, .peak = 1000, .peak_ts_ns = FIX_T0 + 8 * S,
				  .series = { points, 4, S } };
	struct report r = { .devs = &dev, .devs_cnt = 1, .run = { .start_ts_ns = FIX_T0, .end_ts_ns = FIX_T0 + 10 * S },
			    .sampling = { .is_on = 1, .gaps = gaps, .gaps_cnt = 1 } };
	struct tui_data d = { .now = &r };
	struct tui_comp held;
	struct tui_ui ui;
	struct canvas c;

	(void)state;
	tui_ui__init(&ui, 0);
	ui.is_color = 0;
	assert_int_equal(canvas__init(&c, 30, 11), 0); /* 10 columns of axis, 2 columns a second */
	tui_chart__draw(&c, (struct rect){ 0, 0, 30, 11 }, &ui, &d, &r, &dev, &held);
	assert_int_equal(canvas__at(&c, 10 + 2, 9)->cp, '#');
	assert_int_not_equal(canvas__at(&c, 10 + 2, 5)->cp, '#'); /* 100 of 1,000 */
	for (unsigned x = 10 + 4; x < 10 + 16; x++) { /* as high as it was before, but not as what was seen */
		assert_int_equal(canvas__at(&c, x, 9)->cp, ':');
		assert_int_equal(canvas__at(&c, x, 5)->cp, ' ');
	}
	assert_int_equal(canvas__at(&c, 10 + 16, 1)->cp, '#'); /* the peak, where it was */
	assert_int_equal(canvas__at(&c, 10 + 19, 6)->cp, '#');
	assert_int_not_equal(canvas__at(&c, 10 + 19, 1)->cp, '#');
	dev.between = (struct series){ between, 2, S }; /* allocations were seen from 3 s to 5 s: as high as that was */
	canvas__done(&c);
	assert_int_equal(canvas__init(&c, 30, 11), 0);
	tui_chart__draw(&c, (struct rect){ 0, 0, 30, 11 }, &ui, &d, &r, &dev, &held);
	assert_true(canvas__at(&c, 10 + 5, 9)->cp == ':' && canvas__at(&c, 10 + 5, 5)->cp == ' ');
	assert_true(canvas__at(&c, 10 + 6, 5)->cp == ':' && canvas__at(&c, 10 + 6, 1)->cp == ' ');
	assert_true(canvas__at(&c, 10 + 9, 1)->cp == ':' && canvas__at(&c, 10 + 9, 5)->cp == ':');
	assert_int_equal(canvas__at(&c, 10 + 10, 5)->cp, ' ');
	ui.is_held = 1;
	ui.held_ns = 3 * S + S / 2; /* how much it was is known, but not what */
	assert_false(tui_chart__draw(&c, (struct rect){ 0, 0, 30, 11 }, &ui, &d, &r, &dev, &held));
	ui.is_held = 0;
	dev.between.cnt = 0;
	r.sampling.gaps[0].begin_ns = FIX_T0; /* nothing before: the ground alone */
	r.sampling.gaps[0].lost_ns = 8 * S;
	canvas__done(&c);
	assert_int_equal(canvas__init(&c, 30, 11), 0);
	tui_chart__draw(&c, (struct rect){ 0, 0, 30, 11 }, &ui, &d, &r, &dev, &held);
	for (unsigned x = 10; x < 10 + 16; x++)
		assert_int_equal(canvas__at(&c, x, 9)->cp, '.');
	r.sampling.gaps[0].begin_ns = FIX_T0 + 2 * S;
	r.sampling.gaps[0].lost_ns = 6 * S;
	ui.is_held = 1;
	ui.held_ns = 3 * S; /* nobody knows what was live there */
	assert_false(tui_chart__draw(&c, (struct rect){ 0, 0, 30, 11 }, &ui, &d, &r, &dev, &held));
	ui.held_ns = S;
	assert_true(tui_chart__draw(&c, (struct rect){ 0, 0, 30, 11 }, &ui, &d, &r, &dev, &held) && held.sum == 100);
	canvas__done(&c);
}

/* Columns that are narrower than what is kept of a time: the last moment before one must not stand above what it reached. */
static void test_a_column_without_a_moment(void **state)
{
	static struct point points[20];
	struct report_dev dev = { .dev = MT_DEV_CPU, .live = 300, .peak = 1000, .peak_ts_ns = FIX_T0 + S,
				  .series = { points, 20, S / 10 } };
	struct report r = { .devs = &dev, .devs_cnt = 1, .run = { .start_ts_ns = FIX_T0, .end_ts_ns = FIX_T0 + 2 * S } };
	struct tui_hist *hist = tui_hist__new();
	struct tui_data d = { .now = &r, .devs = { { .dev = MT_DEV_CPU, .hist = hist } }, .devs_cnt = 1 };
	struct tui_comp held;
	struct tui_ui ui;
	struct canvas c;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		uint64_t live = i == 9 ? 1000 : 200;

		points[i] = (struct point){ FIX_T0 + i * (S / 10), live, 200 };
	}
	add(hist, 950000000, 100, 900);
	add(hist, 1240000000, 100, 100);
	tui_ui__init(&ui, 0);
	ui.is_color = 0;
	assert_int_equal(canvas__init(&c, 30, 11), 0); /* 20 columns of 100 ms */
	ui.is_held = 1;
	ui.held_ns = S + S / 20; /* in the quarter of a second whose highest moment comes later */
	assert_true(tui_chart__draw(&c, (struct rect){ 0, 0, 30, 11 }, &ui, &d, &r, &dev, &held));
	assert_int_equal(held.sum, 200);
	assert_int_equal(held.cats[CAT_PARAMETER], 100);
	assert_int_equal(held.cats[CAT_ACTIVATION], 100);
	ui.held_ns = S - S / 20;
	assert_true(tui_chart__draw(&c, (struct rect){ 0, 0, 30, 11 }, &ui, &d, &r, &dev, &held));
	assert_true(held.sum == 1000 && held.cats[CAT_ACTIVATION] == 900);
	canvas__done(&c);
	tui_hist__free(hist);
}

/* A chart that begins in a gap: as high as the window of tracing before that, not as what was before the window. */
static void test_a_gap_at_the_edge(void **state)
{
	static struct report_gap gaps[] = { { FIX_T0 + 10 * S, FIX_T0 + 50 * S, 40 * S },
					    { FIX_T0 + 51 * S, FIX_T0 + 90 * S, 39 * S } };
	struct report_dev dev = { .dev = MT_DEV_CPU, .live = 500, .peak = 1000, .peak_ts_ns = FIX_T0 + 5 * S };
	struct report r = { .devs = &dev, .devs_cnt = 1, .run = { .start_ts_ns = FIX_T0, .end_ts_ns = FIX_T0 + 85 * S },
			    .sampling = { .is_on = 1, .gaps = gaps, .gaps_cnt = 2 } };
	struct tui_hist *hist = tui_hist__new();
	struct tui_data d = { .now = &r, .devs = { { .dev = MT_DEV_CPU, .hist = hist } }, .devs_cnt = 1 };
	struct tui_comp held;
	struct tui_ui ui;
	struct canvas c;

	(void)state;
	add(hist, 5 * S, 100 << 10, 900 << 10);
	add(hist, 50 * S + S / 2, 100 << 10, 400 << 10);
	tui_ui__init(&ui, 0);
	ui.is_color = 0;
	while (tui_span_ns(ui.span) != 5 * S)
		ui.span++;
	assert_int_equal(canvas__init(&c, 30, 11), 0);
	tui_chart__draw(&c, (struct rect){ 0, 0, 30, 11 }, &ui, &d, &r, &dev, &held);
	assert_int_equal(canvas__at(&c, 15, 9)->cp, ':');
	assert_int_equal(canvas__at(&c, 15, 2)->cp, ':'); /* 500 of 600 KiB */
	assert_int_equal(canvas__at(&c, 15, 1)->cp, ' '); /* not 1,000 of 1,024 */
	canvas__done(&c);
	tui_hist__free(hist);
}

static char *screen_text(unsigned w, unsigned h, struct tui_ui *ui, const struct tui_data *d, const struct report *r,
			 const struct tui_words *words)
{
	struct canvas c;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	assert_int_equal(canvas__init(&c, w, h), 0);
	assert_int_equal(tui_screen__draw(&c, ui, d, r, words), 0);
	canvas__dump(&c, f);
	fclose(f);
	canvas__done(&c);
	return text;
}

/* [ goes back in the chart by a column, ] forward, at last to now; what is shown is of that column, and stays where it is. */
static void test_a_held_moment(void **state)
{
	static struct point points[] = { { FIX_T0, 100, 100 }, { FIX_T0 + 5 * S, 1000, 700 }, { FIX_T0 + 9 * S, 500, 500 } };
	static struct step_marks steps[] = { { .number = 7, .pid = 1, .begin_ts_ns = FIX_T0 + 5 * S, .is_settling = 1,
					       .at = { [MARK_STEP] = { FIX_T0 + 6 * S, 0, 1000 } } } };
	struct report_dev dev = { .dev = MT_DEV_CPU, .live = 500, .peak = 1000, .peak_ts_ns = FIX_T0 + 5 * S,
				  .series = { points, 3, S } };
	struct report r = { .devs = &dev, .devs_cnt = 1, .run = { .start_ts_ns = FIX_T0, .end_ts_ns = FIX_T0 + 10 * S },
			    .marks = { .steps = steps, .steps_cnt = 1 } };
	struct tui_data d = { .now = &r };
	struct tui_comp held = { 0 };
	const struct rect at = { 0, 0, 50, 11 }; /* 40 columns of a quarter of a second */
	struct tui_ui ui;
	struct canvas c;
	char *text = NULL;
	size_t len = 0;
	FILE *f;

	(void)state;
	tui_ui__init(&ui, 0);
	assert_int_equal(canvas__init(&c, 50, 11), 0);
	type(&ui, "["); /* nothing was drawn yet */
	assert_false(ui.is_held);
	tui_chart__draw(&c, at, &ui, &d, &r, &dev, &held);
	type(&ui, "]");
	assert_false(ui.is_held);
	for (unsigned i = 0; i < 18; i++)
		type(&ui, "[");
	assert_true(ui.is_held && ui.held_ns == 5 * S + S / 2);
	tui_chart__draw(&c, at, &ui, &d, &r, &dev, &held);
	assert_int_equal(held.sum, 1000);
	assert_int_equal(held.cats[CAT_UNKNOWN], 700); /* no moment of it is known: the last of that second */
	f = open_memstream(&text, &len);
	canvas__dump(&c, f);
	fclose(f);
	assert_non_null(strstr(text, "5.50 s, step 7, settling: 700 B\n")); /* what the tables of that moment sum up to */
	free(text);
	for (unsigned i = 0; i < 40; i++)
		type(&ui, "[");
	assert_true(ui.is_held && !ui.held_ns); /* no farther than the begin */
	r.run.end_ts_ns += 10 * S; /* later a column is half a second, and the moment is where it was */
	tui_chart__draw(&c, at, &ui, &d, &r, &dev, &held);
	assert_int_equal(held.sum, 100);
	for (unsigned i = 0; i < 40; i++)
		type(&ui, "]");
	assert_false(ui.is_held);
	type(&ui, "[");
	assert_true(ui.is_held);
	type(&ui, "\x1b");
	assert_false(ui.is_held);
	canvas__done(&c);
}

/* Of a recording, tables that a report has of a moment show it, with columns and a place in them of their own. */
static void test_tables_of_a_held_moment(void **state)
{
	struct report_op now_ops[] = { { .name = (char *)"aten::mul", .live = 100, .at_peak = 900, .alloc_count = 4 },
				       { .name = (char *)"aten::add", .live = 300, .at_peak = 50, .alloc_count = 4 } };
	struct report_op then_ops[] = { { .name = (char *)"aten::mul", .live = 0, .at_peak = 900, .alloc_count = 1 },
					{ .name = (char *)"aten::add", .live = 750, .at_peak = 50, .alloc_count = 2 } };
	struct report_module module = { .name = (char *)"fc", .root = (char *)"Net", .class = (char *)"Linear",
					.all = { .live = 512, .at_peak = 600 }, .own = { .live = 128, .at_peak = 600 } };
	static struct point points[] = { { FIX_T0, 100, 100 }, { FIX_T0 + 5 * S, 1000, 700 } };
	struct report_dev now_dev = { .dev = MT_DEV_CPU, .live = 400, .peak = 1000, .series = { points, 2, S } },
			  then_dev = { .dev = MT_DEV_CPU, .live = 750, .peak = 1000 };
	struct report r = { .devs = &now_dev, .devs_cnt = 1, .ops = { .rows = now_ops, .cnt = 2 }, .has_flow = 1,
			    .run = { .start_ts_ns = FIX_T0, .end_ts_ns = FIX_T0 + 10 * S } };
	struct report then = { .devs = &then_dev, .devs_cnt = 1, .ops = { .rows = then_ops, .cnt = 2 }, .has_flow = 1,
			       .modules = { .rows = &module, .cnt = 1 } };
	struct tui_data d = { .now = &r };
	const struct tui_words words = { "", 0, "F.mtr" };
	struct tui_ui ui;
	char *text;

	(void)state;
	now_dev.cats[CAT_ACTIVATION].at_peak = 1000;
	then_dev.cats[CAT_ACTIVATION].live = 750;
	tui_ui__init(&ui, 0);
	ui.tab = TUI_OPS;
	free(screen_text(100, 30, &ui, &d, &r, &words));
	type(&ui, "[[[[");
	text = screen_text(100, 30, &ui, &d, &r, &words); /* not read yet: says so */
	assert_non_null(strstr(text, "as of the end"));
	assert_non_null(strstr(text, "at peak\xe2\x96\xbe"));
	free(text);
	d.is_reading = 1;
	d.read_percent = 34;
	text = screen_text(100, 30, &ui, &d, &r, &words);
	assert_non_null(strstr(text, "as of the end, reading 34 %"));
	free(text);
	d.is_reading = 0;
	d.then = &then;
	d.has_then = 1;
	d.then_ns = ui.moment_ns;
	text = screen_text(100, 30, &ui, &d, &r, &words);
	assert_non_null(strstr(text, "then\xe2\x96\xbe")); /* sorts, what lived then first */
	assert_non_null(strstr(text, "aten::add"));
	assert_true(strstr(text, " aten::add  ") < strstr(text, " aten::mul  "));
	assert_non_null(strstr(text, "750 B  100.0 %"));
	assert_non_null(strstr(text, "ACTIVATION         750 B")); /* the panel is of the same moment */
	assert_null(strstr(text, "as of the end"));
	free(text);
	ui.tab = TUI_MODULES;
	text = screen_text(100, 30, &ui, &d, &r, &words);
	assert_non_null(strstr(text, "512 B     128 B"));
	free(text);
	ui.tab = TUI_PEAK; /* of the peak, whatever is held */
	text = screen_text(100, 30, &ui, &d, &r, &words);
	assert_null(strstr(text, "as of"));
	free(text);
	ui.tab = TUI_OPS;
	type(&ui, "\x1b");
	text = screen_text(100, 30, &ui, &d, &r, &words);
	assert_null(strstr(text, "as of"));
	assert_non_null(strstr(text, "at peak\xe2\x96\xbe"));
	free(text);
	tui_ui__init(&ui, 1); /* live: there is nothing that could be read */
	free(screen_text(100, 30, &ui, &d, &r, &words));
	type(&ui, "[[[[");
	d.has_then = 0;
	text = screen_text(100, 30, &ui, &d, &r, &words);
	assert_non_null(strstr(text, "as of now"));
	free(text);
}

/* On the usual terminal, in a chart of 10 s and in one of an hour, with a peak beside it; and in the table. */
static void test_where_a_job_settles(void **state)
{
	static struct step_marks steps[] = {
		{ .number = 1, .pid = 1, .begin_ts_ns = FIX_T0 + 2 * S, .is_settling = 1,
		  .at = { [MARK_STEP] = { FIX_T0 + 3 * S, 0, 9 } } },
		{ .number = 2, .pid = 1, .begin_ts_ns = FIX_T0 + 3 * S, .at = { [MARK_STEP] = { FIX_T0 + 4 * S, 0, 9 } } },
	};
	struct report_proc proc = { .pid = 1, .peak = 9, .settling_from_ns = FIX_T0 + 2 * S, .settling_to_ns = FIX_T0 + 3 * S };
	struct report_dev dev = { .dev = MT_DEV_CPU, .peak = 9, .peak_ts_ns = FIX_T0 + 9 * S };
	struct report r = { .devs = &dev, .devs_cnt = 1, .run = { .start_ts_ns = FIX_T0, .end_ts_ns = FIX_T0 + 10 * S },
			    .procs = &proc, .procs_cnt = 1 };
	struct tui_data d = { .now = &r };
	const struct tui_words words = { "", 0, "F.mtr" };
	struct tui_ui ui;
	char *text;

	(void)state;
	tui_ui__init(&ui, 0);
	text = screen_text(80, 24, &ui, &d, &r, &words);
	assert_non_null(strstr(text, "0 \u2500\u2500\u2500\u2500\u254c\u254c\u254c\u254c settles \u2500"));
	free(text);
	dev.peak_ts_ns = FIX_T0 + 93 * (S / 10); /* amid the last moment's time, which goes */
	text = screen_text(80, 24, &ui, &d, &r, &words);
	assert_non_null(strstr(text, "\u2500\u25b2\u2500"));
	free(text);
	dev.peak_ts_ns = FIX_T0 + 4 * S; /* no room behind it, nor, but for that, before */
	text = screen_text(80, 24, &ui, &d, &r, &words);
	assert_non_null(strstr(text, "\u254c\u254c\u2500\u2500\u25b2"));
	assert_null(strstr(text, "settles"));
	free(text);
	proc.settling_from_ns = FIX_T0 + 3 * S;
	text = screen_text(100, 24, &ui, &d, &r, &words);
	assert_non_null(strstr(text, "\u2500settles \u254c\u2500"));
	free(text);
	r.run.end_ts_ns = FIX_T0 + 3600 * S; /* … little of it is not nothing */
	text = screen_text(80, 24, &ui, &d, &r, &words);
	assert_non_null(strstr(text, "\u25b2\u254c settles \u2500"));
	free(text);
	r.marks = (struct report_marks){ .steps = steps, .steps_cnt = 2, .steps_total = 2 };
	ui.tab = TUI_STEPS;
	text = screen_text(80, 24, &ui, &d, &r, &words);
	assert_non_null(strstr(text, "\n        2  "));
	assert_non_null(strstr(text, "\n        1 \u254c "));
	free(text);
	text = screen_text(140, 24, &ui, &d, &r, &words);
	assert_non_null(strstr(text, " settling\n"));
	free(text);
}

/* Whose a row is, on the usual terminal: where there are several, and at the cost of other columns. */
static void test_rows_of_several_jobs(void **state)
{
	static struct step_marks steps[] = {
		{ .number = 1, .pid = 4194302, .begin_ts_ns = FIX_T0, .at = { [MARK_STEP] = { FIX_T0 + S, 77, 9 } } },
		{ .number = 1, .pid = 31, .begin_ts_ns = FIX_T0, .at = { [MARK_STEP] = { FIX_T0 + 2 * S, 88, 9 } } },
	};
	static struct report_module modules[] = {
		{ .name = (char *)"a", .root = (char *)"Net", .class = (char *)"Linear", .pid = 4194302, .all.at_peak = 9 },
		{ .name = (char *)"b", .root = (char *)"Net", .class = (char *)"Linear", .pid = 31, .all.at_peak = 9 },
	};
	struct report_proc procs[] = { { .pid = 4194302, .highest_step = steps[0] }, { .pid = 31, .highest_step = steps[1] } };
	struct report_dev dev = { .dev = MT_DEV_CPU, .peak = 9, .peak_ts_ns = FIX_T0 + S };
	struct report r = { .devs = &dev, .devs_cnt = 1, .run = { .start_ts_ns = FIX_T0, .end_ts_ns = FIX_T0 + 10 * S },
			    .procs = procs, .procs_cnt = 2, .marks = { .steps = steps, .steps_cnt = 2, .steps_total = 2 },
			    .modules = { .rows = modules, .cnt = 2 } };
	struct tui_data d = { .now = &r };
	const struct tui_words words = { "", 0, "F.mtr" };
	struct tui_ui ui;
	char *text;

	(void)state;
	tui_ui__init(&ui, 0);
	for (unsigned w = 80; w < 220; w++) {
		ui.tab = TUI_STEPS;
		text = screen_text(w, 24, &ui, &d, &r, &words);
		assert_non_null(strstr(text, " at end"));
		assert_non_null(strstr(text, " process"));
		assert_non_null(strstr(text, " 4194302"));
		assert_non_null(strstr(text, "      31"));
		free(text);
		ui.tab = TUI_MODULES;
		text = screen_text(w, 24, &ui, &d, &r, &words);
		assert_non_null(strstr(text, " at peak"));
		assert_non_null(strstr(text, " process"));
		assert_non_null(strstr(text, " 4194302"));
		assert_non_null(strstr(text, " 31"));
		free(text);
	}
	r.procs_cnt = r.marks.steps_cnt = r.modules.cnt = 1;
	ui.tab = TUI_STEPS;
	text = screen_text(80, 24, &ui, &d, &r, &words);
	assert_null(strstr(text, " process"));
	assert_non_null(strstr(text, " fw_start "));
	free(text);
}

/* Rows by number or arrow keys; a number that is none says so, and the cursor is always seen. */
static void test_pick(void **state)
{
	static char lines[12][16];
	char *texts[12];
	struct tui_pick p;
	struct canvas c;

	(void)state;
	for (unsigned i = 0; i < 12; i++) {
		snprintf(lines[i], sizeof(lines[i]), i ? "row %u" : "heads", i);
		texts[i] = lines[i];
	}
	tui_pick__init(&p, "which?", texts, 12, 10, 2);
	assert_int_equal(tui_pick__key(&p, TUI_KEY_DOWN), TUI_PICK_GOES_ON);
	assert_int_equal(tui_pick__key(&p, 'k'), TUI_PICK_GOES_ON);
	assert_int_equal(tui_pick__key(&p, TUI_KEY_ENTER), TUI_PICKED);
	assert_int_equal(p.rows.row, 2);
	tui_pick__key(&p, '1');
	assert_int_equal(p.rows.row, 0);
	tui_pick__key(&p, '0');
	assert_int_equal(p.rows.row, 9);
	assert_int_equal(canvas__init(&c, 30, 6), 0);
	tui_pick__draw(&p, &c);
	assert_int_equal(canvas__at(&c, 0, 4)->is_on, 1); /* the last row, scrolled to */
	canvas__done(&c);
	tui_pick__key(&p, TUI_KEY_BACKSPACE);
	assert_int_equal(p.rows.row, 0);
	tui_pick__key(&p, '1');
	assert_int_equal(tui_pick__key(&p, TUI_KEY_ENTER), TUI_PICK_GOES_ON);
	assert_string_equal(p.wrong, "'11' is none of these numbers.");
	tui_pick__key(&p, '0');
	assert_int_equal(tui_pick__key(&p, TUI_KEY_ENTER), TUI_PICK_GOES_ON);
	tui_pick__key(&p, '7');
	assert_int_equal(tui_pick__key(&p, '\r'), TUI_PICKED);
	assert_int_equal(p.rows.row, 6);
	assert_int_equal(tui_pick__key(&p, 'q'), TUI_PICK_LEFT);
	assert_int_equal(tui_pick__key(&p, TUI_KEY_ESC), TUI_PICK_LEFT);
}

/* Made by a library's function: the program's own line comes first, in the table and in the details, which cut nothing. */
static void test_the_line_of_a_leak(void **state)
{
	static const char torch[] = "/venv/lib/python3.11/site-packages/torch/nn/modules/module.py";
	struct report_frame frames[] = {
		{ (char *)"Tanh.forward", (char *)torch, 432, EV_FRAME_PYTHON },
		{ (char *)"Module._call_impl", (char *)torch, 1789, EV_FRAME_PYTHON },
		{ (char *)"Module._wrapped_call_impl", (char *)torch, 1778, EV_FRAME_PYTHON },
		{ (char *)"Sequential.forward", (char *)torch, 253, EV_FRAME_PYTHON },
		{ (char *)"Module._call_impl", (char *)torch, 1789, EV_FRAME_PYTHON },
		{ (char *)"Module._wrapped_call_impl", (char *)torch, 1778, EV_FRAME_PYTHON },
		{ (char *)"build.<locals>.step", (char *)"/home/me/planted.py", 38, EV_FRAME_PYTHON },
		{ (char *)"run", (char *)"/home/me/job.py", 61, EV_FRAME_PYTHON },
		{ (char *)"<module>", (char *)"/home/me/planted.py", 65, EV_FRAME_PYTHON },
	};
	struct report_leak leak = { .op = (char *)"aten::tanh", .region = (char *)"", .frames = frames, .frames_cnt = 9 };
	struct report r = fix_report();
	struct tui_data d = data_of(&r);
	const struct tui_words words = { "", 0, "job.mtr" };
	struct tui_ui ui;
	char *text;

	(void)state;
	r.leaks = (struct report_leaks){ .rows = &leak, .cnt = 1, .total = 1 };
	tui_ui__init(&ui, 0);
	ui.tab = TUI_LEAKS;
	text = screen_text(110, 24, &ui, &d, &r, &words);
	assert_non_null(strstr(text, " planted.py:38:\xe2\x80\xa6\n"));
	free(text);
	ui.is_detail = 1;
	text = screen_text(80, 24, &ui, &d, &r, &words);
	assert_non_null(strstr(text, "\n made at     planted.py:38: Tanh.forward (module.py:432) < Module._call_impl\n"));
	assert_non_null(strstr(text, "build.<locals>.step (planted.py:38) < run "));
	assert_non_null(strstr(text, "(planted.py:65)\n"));
	free(text);
	data_done(&d);
}

/* On the usual terminal: the peak and what to try, then each other entry in a line; what has no room is counted. */
static void test_the_first_lines_conclude(void **state)
{
	static const char long_name[] = "a_model_of_a_long_name.with_a_block_of_a_long_name.attention.of_many_heads";
	struct report_module module = { .name = (char *)long_name, .root = (char *)"Model", .all = { .at_peak = 60 << 20 } };
	struct report_proc proc = { .pid = 7, .peak = 100 << 20 };
	struct report_dev dev = { .dev = MT_DEV_CPU, .peak = 100 << 20, .peak_ts_ns = FIX_T0 + S };
	struct report r = { .devs = &dev, .devs_cnt = 1, .procs = &proc, .procs_cnt = 1,
			    .run = { .start_ts_ns = FIX_T0, .end_ts_ns = FIX_T0 + 10 * S, .is_live = 1, .pid = 7 },
			    .modules = { .rows = &module, .cnt = 1 } };
	struct tui_data d = { .now = &r };
	const struct tui_words words = { "", 0, "FILE" };
	struct tui_ui ui;
	char *text;

	(void)state;
	dev.cats[CAT_ACTIVATION].at_peak = 80 << 20;
	tui_ui__init(&ui, 1);
	text = screen_text(80, 24, &ui, &d, &r, &words);
	assert_non_null(strstr(text, "\n Peak 100 MiB on cpu after 1.00 s: 80 % activations; 60.0 MiB of it from\n"
				     "   Model.a_model_of_a_long_name.w\xe2\x80\xa6" "attention.of_many_heads\n"
				     " next: half the batch saves up to 40.0 MiB; which modules keep most: memtrace\n"
				     "   report FILE --by module\n"
				     " No tensors grow, in 0 half seconds without a step.\n"));
	free(text);
	r.run.lost[MT_LOSS_RING] = 5; /* one more: what is next is cut for it, and the lines that are missing are counted */
	text = screen_text(80, 24, &ui, &d, &r, &words);
	assert_non_null(strstr(text, "; which modules keep most: memtrace \xe2\x80\xa6\n"
				     " Incomplete: 5 losses (ring), numbers may be too low.\n"
				     " No tensors grow, in 0 half seconds without a step.            "
				     "\xe2\x80\xa6 v: 1 more line\n"));
	free(text);
}

/* Of processes that run one script the rank is told first, and the script before its interpreter. */
static void test_processes_by_name(void **state)
{
	struct report r = fix_report();
	struct tui_data d = data_of(&r);
	const struct tui_words words = { "", 0, "job.mtr" };
	struct tui_ui ui;
	char *text;

	(void)state;
	r.procs[0].cmdline = (char *)"/opt/venv/bin/python3 -u /work/train.py --lr 0.1";
	tui_ui__init(&ui, 0);
	type(&ui, "9");
	text = screen_text(80, 40, &ui, &d, &r, &words);
	assert_non_null(strstr(text, " 4242 rank 3: train.py --lr 0.1"));
	free(text);
	data_done(&d);
}

/* A verdict that is cut says how to see all of it; there it scrolls, and a command is one piece for a shell. */
static void test_all_of_the_verdict(void **state)
{
	struct report r = fix_report();
	struct tui_data d = data_of(&r);
	const struct tui_words words = { "", 0, "/data/recordings/of/a/long/path/job.mtr" };
	const struct tui_words quoted = { "", 0, "'a recording of a job.mtr'" };
	struct tui_ui ui;
	char *text, *first;

	(void)state;
	tui_ui__init(&ui, 0);
	text = screen_text(80, 24, &ui, &d, &r, &words);
	assert_non_null(strstr(text, "\xe2\x80\xa6 v: 7 more lines\n"));
	free(text);
	type(&ui, "v");
	text = screen_text(80, 24, &ui, &d, &r, &words);
	assert_non_null(strstr(text, "\n   memtrace report /data/recordings/of/a/long/path/job.mtr --leaks\n"));
	assert_non_null(strstr(text, "all of it is here"));
	free(text);
	first = screen_text(50, 11, &ui, &d, &r, &words);
	assert_null(strstr(first, "memtrace report"));
	assert_non_null(strstr(first, "lines from 1 of"));
	type(&ui, "j ");
	text = screen_text(50, 11, &ui, &d, &r, &words);
	assert_true(ui.is_verdict);
	assert_non_null(strstr(text, "   memtrace report \\\n   /data/recordings/of/a/long/path/job.mtr \\\n   --leaks\n"));
	free(text);
	tui_ui__key(&ui, TUI_KEY_END);
	free(screen_text(50, 11, &ui, &d, &r, &words));
	tui_ui__key(&ui, TUI_KEY_HOME);
	text = screen_text(50, 11, &ui, &d, &r, &words);
	assert_string_equal(text, first);
	free(text);
	free(first);
	/* neither blanks in quotes nor places within a word are ends of lines */
	text = screen_text(50, 30, &ui, &d, &r, &quoted);
	assert_non_null(strstr(text, "   memtrace report 'a recording of a job.mtr' \\\n   --leaks\n"));
	free(text);
	text = screen_text(40, 30, &ui, &d, &r, &words);
	assert_non_null(strstr(text, "   memtrace report \\\n   /data/recordings/of/a/long/path/jo\n   b.mtr \\\n"));
	free(text);
	type(&ui, "v");
	assert_false(ui.is_verdict);
	data_done(&d);
}

static char *drawn_near(struct tui_ui *ui, struct report *r, const struct report_dev *dev)
{
	const struct rect at = { 0, 0, 60, 11 }; /* 50 columns */
	struct tui_data d = { .now = r };
	struct tui_comp held;
	struct canvas c;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	assert_int_equal(canvas__init(&c, 60, 11), 0);
	tui_chart__draw(&c, at, ui, &d, r, dev, &held);
	canvas__dump(&c, f);
	fclose(f);
	canvas__done(&c);
	return text;
}

/* A recording is looked at around its peak, and what is held stays in the middle where there is room. */
static void test_nearer(void **state)
{
	static struct point points[] = { { FIX_T0, 100, 100 }, { FIX_T0 + 30 * S, 1000, 700 }, { FIX_T0 + 99 * S, 500, 500 } };
	struct report_dev dev = { .dev = MT_DEV_CPU, .live = 500, .peak = 1000, .peak_ts_ns = FIX_T0 + 30 * S,
				  .series = { points, 3, S } };
	struct report r = { .devs = &dev, .devs_cnt = 1, .run = { .start_ts_ns = FIX_T0, .end_ts_ns = FIX_T0 + 100 * S } };
	static const struct {
		uint64_t held_ns;
		const char *from;
	} moments[] = { { 29 * S, "26.5 s " }, { S, "0 " }, { 0, "" /* what is held stands there */ },
			{ 98 * S, "-5.00 s " }, { 97 * S, "1 min 34 s " } };
	struct tui_ui ui;

	(void)state;
	tui_ui__init(&ui, 0);
	free(drawn_near(&ui, &r, &dev));
	type(&ui, "+++");
	assert_true(ui.is_held && ui.held_ns == 30 * S && tui_span_ns(ui.span) == 5 * S);
	for (size_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++) {
		char from[40], *text;

		ui.held_ns = moments[i].held_ns;
		text = drawn_near(&ui, &r, &dev);
		snprintf(from, sizeof(from), "\xe2\x94\x94%s", moments[i].from); /* └ */
		if (!strstr(text, from))
			print_message("%s is not in\n%s\n", from, text);
		assert_non_null(strstr(text, from));
		free(text);
	}
	type(&ui, "\x1b+"); /* as near as may be: nothing more happens */
	assert_int_equal(tui_span_ns(ui.span), S);
	type(&ui, "\x1b+");
	assert_false(ui.is_held);
}

static void test_screens(void **state)
{
	static struct report_mark marks[] = { /* the second step ends, and the third begins, in one column */
		{ { FIX_T0 + 800000000, 0, 0 }, 0, 4242, 4242, MARK_FW_START },
		{ { FIX_T0 + 1400000000, 0, 0 }, 0, 4242, 4242, MARK_FW_BW_BOUNDARY },
		{ { FIX_T0 + 2200000000, 0, 0 }, 2, 4242, 4242, MARK_STEP },
		{ { FIX_T0 + 2200001000, 0, 0 }, 0, 4242, 4242, MARK_FW_START },
	};
	struct report r = fix_report();
	struct tui_ui ui;

	(void)state;
	tui_ui__init(&ui, 1);
	golden("tui_80x24.txt", 80, 24, &ui, &r);
	golden("tui_200x50.txt", 200, 50, &ui, &r);
	golden("tui_40x8.txt", 40, 8, &ui, &r);
	ui.tab = TUI_BLOCKS;
	ui.is_detail = 1;
	golden("tui_blocks_120x40.txt", 120, 40, &ui, &r);
	ui.tab = TUI_TRACE;
	ui.is_detail = 0;
	ui.is_paused = 1;
	golden("tui_trace_80x50.txt", 80, 50, &ui, &r);
	ui.tab = TUI_STEPS;
	golden("tui_steps_80x24.txt", 80, 24, &ui, &r);
	r.marks.rows = marks;
	golden("tui_steps_140x30.txt", 140, 30, &ui, &r);
	r.marks.rows = fix_marks;
	ui.tab = TUI_PLACES;
	ui.is_detail = 1;
	golden("tui_generated_160x40.txt", 160, 40, &ui, &r);
	ui.is_detail = 0;
	golden("tui_generated_80x24.txt", 80, 24, &ui, &r);
	ui.tab = TUI_PEAK;
	ui.is_color = 0;
	golden("tui_plain_80x24.txt", 80, 24, &ui, &r);
	ui.is_help = 1;
	golden("tui_help_80x24.txt", 80, 24, &ui, &r);
	help_is_whole(&ui, &r);
	ui.is_help = 0;
	ui.is_verdict = 1;
	golden("tui_verdict_80x24.txt", 80, 24, &ui, &r);
}

/* Where steps are left out the head says of how many what stands below it is. */
static void test_sampling_is_said(void **state)
{
	struct report r = fix_report();
	struct tui_ui ui;

	(void)state;
	tui_ui__init(&ui, 1);
	r.sampling.is_on = 1;
	r.sampling.steps_seen = 120;
	r.sampling.steps_traced = 3;
	r.sampling.price_ratio = 0.0187;
	golden("tui_sampled_100x24.txt", 100, 24, &ui, &r);
}

/* No byte of a target reaches a cell unless it is safe, and nothing is drawn outside. */
static void check_tame(const struct canvas *c)
{
	for (unsigned y = 0; y < c->h; y++)
		for (unsigned x = 0; x < c->w; x++) {
			const struct tui_cell *cell = canvas__at(c, x, y);

			assert_true(cell->style < TUI_STYLES && cell->back < TUI_STYLES);
			if (cell->cp)
				assert_false(utf8_is_unsafe(cell->cp));
			else /* the right half of a wide one */
				assert_true(x && utf8_cols(canvas__at(c, x - 1, y)->cp) == 2);
		}
}

static void test_any_size_any_key_any_target(void **state)
{
	struct report reports[] = { fix_report(), fix_hostile(), fix_empty() };
	uint32_t seed = 1;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct tui_data d = data_of(&reports[i]);
		struct tui_ui ui;

		tui_ui__init(&ui, 1);
		for (unsigned n = 0; n < 1500; n++) {
			static const uint32_t more[] = { '\t', '\n', TUI_KEY_ESC, 0x5f35, TUI_KEY_BACKSPACE };
			struct tui_words words = { n % 5 ? "" : HOSTILE, n & 1 };
			struct canvas c;
			uint32_t key;

			seed = seed * 1664525 + 1013904223;
			key = seed >> 8 & 1 ? ' ' + (seed >> 16) % 95 : seed >> 9 & 1 ? TUI_KEY_UP + (seed >> 16) % 12 :
										      more[(seed >> 16) % 5];
			tui_ui__key(&ui, key);
			ui.is_color = n & 1;
			ui.is_fine = n & 2;
			assert_int_equal(canvas__init(&c, (seed >> 10) % 220, (seed >> 20) % 60), 0);
			assert_int_equal(tui_screen__draw(&c, &ui, &d, n % 7 ? &reports[i] : NULL, &words), 0);
			check_tame(&c);
			canvas__done(&c);
		}
		data_done(&d);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_contrast),
		cmocka_unit_test(test_light_or_dark),
		cmocka_unit_test(test_layout_never_overlaps), cmocka_unit_test(test_layout_of_the_usual_terminal),
		cmocka_unit_test(test_hist_keeps_the_fullest_whole), cmocka_unit_test(test_hist_is_bounded_and_reaches_back),
		cmocka_unit_test(test_scale_is_round), cmocka_unit_test(test_column_stacks),
		cmocka_unit_test(test_column_little_is_not_nothing), cmocka_unit_test(test_keys),
		cmocka_unit_test(test_tabs_say_how_many_more),
		cmocka_unit_test(test_filter_is_typed), cmocka_unit_test(test_rows_sort_and_filter),
		cmocka_unit_test(test_trace_tells_losses_and_costs), cmocka_unit_test(test_segments_tell_their_use),
		cmocka_unit_test(test_names), cmocka_unit_test(test_modules),
		cmocka_unit_test(test_leaks_and_stacks), cmocka_unit_test(test_gaps_in_the_chart),
		cmocka_unit_test(test_not_yet_traced_in_the_chart),
		cmocka_unit_test(test_a_column_without_a_moment), cmocka_unit_test(test_a_gap_at_the_edge),
		cmocka_unit_test(test_the_first_lines_conclude),
		cmocka_unit_test(test_processes_by_name),
		cmocka_unit_test(test_all_of_the_verdict),
		cmocka_unit_test(test_where_a_job_settles), cmocka_unit_test(test_rows_of_several_jobs),
		cmocka_unit_test(test_pick),
		cmocka_unit_test(test_a_held_moment), cmocka_unit_test(test_the_line_of_a_leak),
		cmocka_unit_test(test_tables_of_a_held_moment), cmocka_unit_test(test_nearer), cmocka_unit_test(test_screens),
		cmocka_unit_test(test_sampling_is_said),
		cmocka_unit_test(test_any_size_any_key_any_target),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tui/screen.h"

#include "view/tui/chart.h"
#include "view/tui/table.h"

static int draw_table(struct canvas *c, const struct tui_layout *l, struct tui_ui *ui, const struct tui_data *d,
		      const struct report *r, const struct report_dev *dev)
{
	const struct tui_table *t = &tui_tables[ui->tab];
	const struct report *then = t->follows ? tui_data__then(d, ui) : NULL;
	struct tui_rows rows = { .is_then = then != NULL };
	unsigned top = l->devs.y + 1; /* details may cover the chart */
	struct rect room = { l->table.x, top, l->table.w, l->table.y + l->table.h - top };
	int err;

	ui->is_then = rows.is_then;
	tui_rows__fill(&rows, t, then ? then : r, dev);
	tui_rows__arrange(&rows, t, ui);
	tui_table__draw(c, l->table, t, &rows, ui);
	tui_tabs__draw(c, l->tabs, ui, d);
	tui_table__draw_detail(c, room, t, &rows, ui);
	err = rows.err;
	tui_rows__done(&rows);
	return err;
}

int tui_screen__draw(struct canvas *c, struct tui_ui *ui, const struct tui_data *d, const struct report *r,
		     const struct tui_words *words)
{
	struct tui_comp held = { 0 };
	const struct report_dev *dev;
	struct tui_layout l;
	int err = 0, is_held;

	tui_layout(&l, c->w, c->h, ui->chart);
	if (!r) {
		canvas__text(c, 1, c->h / 2, c->w ? c->w - 1 : 0, TUI_DIM, "waiting for the first events");
		tui_keys__draw(c, l.keys, ui, words);
		return 0;
	}
	ui->is_then = 0;
	ui->devs = r->devs_cnt;
	if (ui->dev >= r->devs_cnt)
		ui->dev = r->devs_cnt ? r->devs_cnt - 1 : 0;
	dev = r->devs_cnt ? &r->devs[ui->dev] : NULL;
	tui_title__draw(c, l.title, ui, d, r, words);
	tui_devs__draw(c, l.devs, ui, d, r);
	tui_coverage__draw(c, l.coverage, d, r);
	if (ui->is_help || ui->is_verdict) {
		unsigned top = l.devs.y + 2;
		struct rect room = { 0, top, c->w, l.coverage.y > top ? l.coverage.y - top : 0 };

		if (ui->is_help)
			tui_help__draw(c, room, ui);
		else
			err = tui_verdict__draw(c, (struct rect){ 1, top, c->w > 2 ? c->w - 2 : 0, room.h }, ui, r, words);
		tui_keys__draw(c, l.keys, ui, words); /* after the verdict, which sets its number of lines */
		return err;
	}
	err = tui_verdict__draw(c, l.verdict, ui, r, words);
	if (err)
		return err;
	is_held = tui_chart__draw(c, l.chart, ui, d, r, dev, &held);
	tui_cats__draw(c, l.cats, ui, r, dev, is_held ? &held : NULL);
	err = l.table.h ? draw_table(c, &l, ui, d, r, dev) : 0;
	tui_keys__draw(c, l.keys, ui, words); /* after the table, which sets the number of matching rows */
	return err;
}

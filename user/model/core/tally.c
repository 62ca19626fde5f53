/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Names are dense numbers, so an array finds a row where others would hash. Rows are far fewer than
 * names (a name is also a command line or a note), which keeps cells, one a row and device, small
 * and close together: a training step uses some sixty of them.
 */
#include "model/core/tally.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CELLS_MIN 64u

int tally__init(struct tally *t)
{
	t->cap = 64;
	t->rows = calloc(t->cap, sizeof(*t->rows));
	if (!t->rows)
		return -ENOMEM;
	t->cnt = 1;
	return 0;
}

void tally__done(struct tally *t)
{
	for (unsigned i = 0; i < TALLY_DEVS_MAX; i++)
		free(t->devs[i].cells);
	free(t->rows);
	free(t->row_of);
	memset(t, 0, sizeof(*t));
}

static int tally__grow_keys(struct tally *t, size_t key)
{
	size_t cnt = t->row_of_cnt ? t->row_of_cnt : 1024;
	uint32_t *row_of;

	while (cnt <= key)
		cnt *= 2;
	row_of = realloc(t->row_of, cnt * sizeof(*row_of));
	if (!row_of)
		return -ENOMEM;
	memset(row_of + t->row_of_cnt, 0, (cnt - t->row_of_cnt) * sizeof(*row_of));
	t->row_of = row_of;
	t->row_of_cnt = cnt;
	return 0;
}

static int tally__grow_rows(struct tally *t)
{
	struct tally_row *rows = realloc(t->rows, 2 * (size_t)t->cap * sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	t->rows = rows;
	t->cap *= 2;
	return 0;
}

static bool tally__has_key(struct tally *t, name_id name, size_t key)
{
	return name.v < NAMES_MAX && (key < t->row_of_cnt || !tally__grow_keys(t, key));
}

static bool tally__has_row(struct tally *t)
{
	return t->cnt < TALLY_ROWS_MAX && (t->cnt < t->cap || !tally__grow_rows(t));
}

uint32_t tally__add_row(struct tally *t, name_id name, bool is_node)
{
	size_t key = (size_t)name.v * 2 + is_node;

	if (!name.v)
		return 0;
	if (!tally__has_key(t, name, key) || !tally__has_row(t)) {
		t->overflow++;
		return 0;
	}
	t->rows[t->cnt] = (struct tally_row){ .name = name, .is_node = is_node };
	t->row_of[key] = t->cnt;
	return t->cnt++;
}

uint32_t tally__add_shadow(struct tally *t)
{
	if (!tally__has_row(t)) {
		t->overflow++;
		return 0;
	}
	t->rows[t->cnt] = (struct tally_row){ .is_shadow = true };
	return t->cnt++;
}

void tally__hide(struct tally *t)
{
	for (unsigned d = 0; d < TALLY_DEVS_MAX; d++)
		for (uint32_t i = 0; i < t->devs[d].cnt; i++)
			t->devs[d].cells[i].traced_live = t->devs[d].cells[i].live;
}

void tally__name_shadow(struct tally *t, uint32_t row, name_id name)
{
	struct tally_row *r = &t->rows[row];
	size_t key = (size_t)name.v * 2;

	if (!tally__has_key(t, name, key)) {
		t->overflow++;
		return;
	}
	r->name = name;
	r->shown_as = t->row_of[key];
	r->is_shadow = r->shown_as != 0;
	if (!r->is_shadow)
		t->row_of[key] = row;
}

int tally__add_dev(struct tally *t, unsigned dev_idx)
{
	if (t->devs[dev_idx].cnt)
		return 0;
	t->devs[dev_idx].cells = calloc(CELLS_MIN, sizeof(struct tally_cell));
	if (!t->devs[dev_idx].cells)
		return -ENOMEM;
	t->devs[dev_idx].cnt = CELLS_MIN;
	return 0;
}

uint32_t tally__grow_cells(struct tally *t, unsigned dev_idx, uint32_t row)
{
	uint32_t was = t->devs[dev_idx].cnt, cnt = was;
	struct tally_cell *cells;

	while (cnt <= row)
		cnt *= 2;
	cells = realloc(t->devs[dev_idx].cells, cnt * sizeof(*cells));
	if (!cells) {
		t->overflow++;
		return 0;
	}
	memset(cells + was, 0, (cnt - was) * sizeof(*cells));
	t->devs[dev_idx].cells = cells;
	t->devs[dev_idx].cnt = cnt;
	return row;
}

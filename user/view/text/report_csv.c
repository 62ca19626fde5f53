/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The main table of a report as CSV (view/csv.h): `opts->top` rows of it, in the order of the report for people. */
#include <errno.h>
#include <stdlib.h>

#include "timeline/ranks.h"
#include "timeline/report.h"
#include "view/csv.h"
#include "view/outbuf.h"
#include "view/tables/modules.h"
#include "view/tables/ranks.h"
#include "view/tables/tables.h"
#include "view/view.h"

struct list {
	const struct table *table;
	const void *rows;
	size_t cnt, size;
};

#define LIST(table, rows, cnt) (struct list){ &(table), rows, cnt, sizeof(*(rows)) }

static struct list main_table(const struct report *r, const struct view_opts *opts)
{
	switch (opts->by) {
	case BY_DEVICE:
		return LIST(dev_table, r->devs, r->devs_cnt);
	case BY_PROCESS:
		return LIST(proc_table, r->procs, r->procs_cnt);
	case BY_REGION:
		return LIST(region_table, r->regions.rows, r->regions.cnt);
	case BY_NAME:
		return LIST(tensor_table, r->names.rows, r->names.cnt);
	case BY_SYMBOL:
		return LIST(symbol_table, r->probes.symbols, r->probes.symbols_cnt);
	case BY_RANK:
		return LIST(rank_table, r->ranks->rows, r->ranks->cnt);
	case BY_MODULE:
		return opts->phase ? LIST(of_phase_table, r->modules.rows, r->modules.cnt) :
				     LIST(module_table, r->modules.rows, r->modules.cnt);
	default:
		return LIST(op_table, r->ops.rows, r->ops.cnt);
	}
}

/* Of all devices, one after the other. */
static int put_cats(struct outbuf *o, const struct report *r, const struct drawn *d)
{
	struct cat_row *rows = malloc((r->devs_cnt + 1) * CAT_MAX * sizeof(*rows));
	size_t cnt = 0;

	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < r->devs_cnt; i++)
		cnt += cat_rows(r, &r->devs[i], rows + cnt, 0);
	table__csv(o, &cat_csv_table, d, rows, cnt, sizeof(*rows));
	free(rows);
	return 0;
}

int view_report_csv(FILE *out, const struct report *r, const struct view_opts *opts)
{
	struct drawn d = drawn_as(AS_JSON, r);
	struct outbuf o;
	struct list l;
	int err = outbuf__init(&o, out), e;

	if (err)
		return err;
	if (opts->by == BY_CATEGORY) {
		err = put_cats(&o, r, &d);
	} else {
		l = main_table(r, opts);
		d.index = opts->by == BY_MODULE && opts->phase ? opts->phase - 1 : 0;
		table__csv(&o, l.table, &d, l.rows, l.cnt < opts->top ? l.cnt : opts->top, l.size);
	}
	e = outbuf__flush(&o);
	outbuf__done(&o);
	return err ? err : e;
}

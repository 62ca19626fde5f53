/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/tables/places.h"

#include <string.h>

#include "event/event.h"
#include "timeline/report.h"

static void graph(struct cell *c, const void *row)
{
	static const char *const words[] = { "", "forward", "backward", "inference" };

	c->text = words[((const struct report_place *)row)->made & EV_PLACE_GRAPH];
}

static void is_output(struct cell *c, const void *row)
{
	c->num = !!(((const struct report_place *)row)->made & EV_PLACE_OUTPUT);
}

/* The graph, and whether the line's result leaves it. */
static void graph_words(struct cell *c, const void *row)
{
	graph(c, row);
	if (((const struct report_place *)row)->made & EV_PLACE_OUTPUT)
		cell__say(c, "%s%sreturned", c->text, c->text[0] ? ", " : "");
}

/* All of the table are inductor's. */
static void kernel(struct cell *c, const void *row)
{
	const char *op = ((const struct report_place *)row)->op;

	c->text = strncmp(op, EV_GENERATED, strlen(EV_GENERATED)) ? op : op + strlen(EV_GENERATED);
}

static const struct column columns[] = {
	{ "bytes", "allocated", COL_BYTES, OF(report_place, bytes), TEXT(1, 9, .gap = 0), TUI(1, 10) },
	{ NULL, "of all", COL_SHARE, OF(report_place, bytes), TUI(2, 7, 100) },
	{ "count", "count", COL_COUNT, OF(report_place, count), TEXT(2, 7), TUI(3, 7) },
	{ "buffer", "buffer", COL_OR_NULL, OF(report_place, buffer), TEXT(3, 26, .gap = 2), TUI(4, 20, .wide = 1) },
	{ "op", NULL, COL_TEXT, OF(report_place, op) },
	{ NULL, "operator", COL_TEXT, VIA(kernel), .is_path = 1, TEXT(4, 20, .wide = 2, .gap = 2), TUI(5, 20, .wide = 2) },
	{ "nodes", "made of", COL_OR_NULL, OF(report_place, nodes), TEXT(5, 16, 100, 1, 2), TUI(6, 12, 100, 1) },
	{ NULL, "graph", COL_TEXT, VIA(graph_words), TUI(7, 18, 130) },
	{ "where", "line", COL_OR_NULL, OF(report_place, where), .is_path = 1, TUI(8, 14, 130, 1) },
	{ "graph", NULL, COL_OR_NULL, VIA(graph) },
	{ "returned", NULL, COL_BOOL, VIA(is_output) },
};

const struct table place_table = TABLE(columns);

void places_text(struct page *p, const struct report *r, size_t top)
{
	struct drawn d = drawn_as(AS_TEXT, r);
	size_t cnt = r->places.cnt < top ? r->places.cnt : top;

	if (!cnt)
		return;
	page__heading(p, "Lines of generated code (torch.compile), by what they allocated");
	table__text(p, &place_table, &d, r->places.rows, cnt, sizeof(r->places.rows[0]));
	page__more(p, cnt, r->places.total, "lines (--top)");
}

void places_json(struct json *j, const struct report *r, size_t top)
{
	struct drawn d = drawn_as(AS_JSON, r);

	if (!r->places.total)
		return;
	json__begin(j, "generated", '{');
	json__u64(j, "total", r->places.total);
	table__list(j, "list", &place_table, &d, r->places.rows, r->places.cnt < top ? r->places.cnt : top,
		    sizeof(r->places.rows[0]));
	json__end(j, '}');
}

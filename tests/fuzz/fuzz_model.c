/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Any bytes as events. Whatever they say: nothing breaks, every invariant holds, a report can be
 * made, and the same bytes make the same report again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/short_events.h"
#include "model/model.h"
#include "sim/dump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
	if (!ok)
		abort();
}

static int swallow(void *ctx, const struct tl_event *ev)
{
	uint64_t *last = ctx;

	for (uint32_t i = 0; i < ev->edges_cnt; i++)
		require(ev->edges[i].id && ev->edges[i].cat < CAT_MAX && ev->edges[i].out_cat < CAT_MAX);
	if (ev->kind == TL_NODE) { /* told long after it began */
		require(ev->edges_cnt);
		return 0;
	}
	require(!ev->edges_cnt && ev->cat < CAT_MAX && ev->ts_ns >= *last);
	*last = ev->ts_ns;
	return 0;
}

static char *run(const struct event *evs, size_t cnt, const struct names *names, size_t blocks_max,
		 int with_timeline)
{
	uint64_t last = 0;
	struct model_opts opts = {
		.blocks_max = blocks_max, .timeline = with_timeline ? swallow : NULL,
		.timeline_ctx = &last, .timeline_ops = 1, .timeline_nodes = with_timeline,
	};
	struct model *m = model__new(names, &opts);
	struct report *r = NULL;
	char *text;

	require(!!m);
	for (size_t i = 0; i < cnt; i++)
		require(model__handle(m, &evs[i]) == 0);
	model__check(m);
	require(model__end(m) == 0);
	model__check(m);
	require(model__report(m, 5, &r) == 0);
	text = report_dump(r);
	require(!!text);
	report__free(r);
	model__free(m);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct names *names = names__new();
	size_t cnt;
	struct event *evs = events_of(data, size, &cnt);
	size_t blocks_max = size ? data[0] >> 1 : 0;
	char *a, *b;

	require(names && evs);
	names__fill(names);
	a = run(evs, cnt, names, blocks_max, 1);
	b = run(evs, cnt, names, blocks_max, 0);
	require(!strcmp(a, b));
	free(a);
	free(b);
	free(evs);
	names__free(names);
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Any bytes as a document of graphs: refused with a message that says where, or estimated, and then every sum holds. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "estimate/estimate.h"
#include "estimate/graph_json.h"
#include "view/tables/estimate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
	if (!ok)
		abort();
}

static void check_profile(const struct est_profile *p)
{
	uint64_t alive = 0;

	for (size_t i = 0; i < p->alive_cnt; i++)
		alive += p->alive[i].bytes;
	for (size_t i = 0; i < p->cnt; i++)
		require(p->at[i] <= p->peak);
	require(p->at[p->peak_idx] == p->peak && p->at[0] == p->start && p->at[p->cnt - 1] == p->end);
	/* More is alive only after an `output` in the middle: what it makes is taken off, and never added, as in torch. */
	require(alive >= (uint64_t)p->peak);
}

static void check_views(const struct est_result *res)
{
	struct view_opts v = { .top = 3 };
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	require(f && !estimate_view_text(f, "x", res, &v) && !estimate_view_json(f, "x", res, &v));
	fclose(f);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct est_result res;
	struct err err = { 0 };
	struct est_doc d;

	require(!est_doc__init(&d));
	if (graph_json_read_mem(&d, data, size, "x", &err) < 0) {
		require(err.code < 0 && err.msg[0]);
	} else if (est_result__init(&res, &d, size & 1 ? ~0ull : est_not_cpu(&d), &err) < 0) {
		require(err.code < 0 && err.msg[0]);
	} else {
		for (size_t i = 0; i < d.graphs_cnt; i++)
			check_profile(&res.profiles[i]);
		check_views(&res);
		est_result__done(&res);
	}
	est_doc__done(&d);
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "estimate/estimate.h"
#include "estimate/graph_json.h"
#include "view/estimate_view.h"
#include "view/text.h"

/* Bits of the devices that count: 0 or -EINVAL. */
static int counts_of(const struct options *o, const struct est_doc *d, uint64_t *ret, struct err *err)
{
	char all[160] = "";

	*ret = 0;
	if (!o->count) {
		*ret = est_not_cpu(d);
		return 0;
	}
	for (size_t i = 0; i < d->devs_cnt; i++) {
		char safe[TEXT_BYTES_MAX];

		if (!strcmp(o->count, "all") || !strcmp(o->count, d->dev_names[i]))
			*ret |= 1ull << i;
		text_fit(safe, sizeof(safe), d->dev_names[i], 16);
		strncat(all, ", ", sizeof(all) - strlen(all) - 1);
		strncat(all, safe, sizeof(all) - strlen(all) - 1);
	}
	if (*ret || !d->devs_cnt)
		return 0;
	err_set(err, -EINVAL, "nothing of the graph is on '%.60s'", o->count);
	return err_hint(err, "all%s", all);
}

static int write_result(const struct options *o, const struct est_result *res, struct err *err)
{
	struct view_opts v = view_opts_of(o);
	int r;

	v.top = report_top(o);
	r = o->json ? estimate_view_json(stdout, o->file, res, &v) : estimate_view_text(stdout, o->file, res, &v);
	return r < 0 ? err_set(err, r, "writing: %s", strerror(-r)) : 0;
}

static int estimate_graph(const struct options *o, FILE *in, const char *name, struct err *err)
{
	struct est_result res = { 0 };
	struct est_doc d;
	uint64_t counts;
	int r = est_doc__init(&d);

	r = r ? err_set(err, r, "out of memory") : graph_json_read(&d, in, name, err);
	if (!r)
		r = counts_of(o, &d, &counts, err);
	if (!r)
		r = est_result__init(&res, &d, counts, err);
	if (!r)
		r = write_result(o, &res, err);
	est_result__done(&res);
	est_doc__done(&d);
	return r;
}

int cmd_estimate(const struct options *o, struct err *err)
{
	const char *name = strrchr(o->file, '/');
	FILE *in = fopen(o->file, "re");
	int r;

	if (!in)
		return err_set(err, -errno, "%s: %s", o->file, strerror(errno));
	r = estimate_graph(o, in, name ? name + 1 : o->file, err);
	(void)fclose(in);
	return r;
}

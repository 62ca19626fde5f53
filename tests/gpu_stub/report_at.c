/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The report (JSON, one after the other) as it was at times within a recording, and at its end:
 * report_at FILE.mtr [NS …], ascending, CLOCK_MONOTONIC.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "event/recording.h"
#include "model/model.h"
#include "timeline/report.h"
#include "view/view.h"

static int tell(const struct model *m)
{
	struct view_opts opts = { .top = 5 };
	struct report *r = NULL;
	int err = model__report(m, 5, &r);

	if (!err)
		err = view_report_json(stdout, r, &opts);
	report__free(r);
	model__check(m);
	return err;
}

int main(int argc, char **argv)
{
	const struct event *ev;
	struct err err = { 0 };
	struct rec_reader *r;
	struct model *m;
	size_t cnt;
	int at = 2, bad = 0;

	if (argc < 2 || rec_reader__open(&r, argv[1], &err) < 0) {
		fprintf(stderr, "usage: %s FILE.mtr [NS ...]\n%s\n", argv[0], err.msg);
		return 2;
	}
	m = model__new(rec_reader__names(r), NULL);
	while (m && !bad && rec_reader__next(r, &ev, &cnt, &err) == 1)
		for (size_t i = 0; i < cnt && !bad; i++) {
			for (; at < argc && ev[i].ts_ns > strtoull(argv[at], NULL, 10); at++)
				bad |= tell(m);
			bad |= model__handle(m, &ev[i]);
		}
	for (; m && at <= argc && !bad; at++)
		bad |= tell(m);
	model__free(m);
	rec_reader__free(r);
	return !m || bad;
}

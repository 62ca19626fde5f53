/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * window_of FULL.mtr SECONDS OUT.mtr: what a flight recorder of the same trace would have written at its end. A frame
 * ends once a second of the recording's own time, as in a live trace.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "record/window.h"
#include "event/recording.h"
#include "model/model.h"

#define NS_PER_S 1000000000ull

static int fail(const char *what)
{
	fprintf(stderr, "window_of: %s\n", what);
	return 1;
}

int main(int argc, char **argv)
{
	struct model_opts mo = { 0 };
	struct rec_reader *r;
	const struct event *evs;
	struct err err = { 0 };
	struct window *w;
	struct model *m;
	uint64_t tick_ns = 0;
	size_t cnt;
	int more;

	if (argc != 4)
		return fail("usage: window_of FULL.mtr SECONDS OUT.mtr");
	if (rec_reader__open(&r, argv[1], &err))
		return fail(err.msg);
	w = window__new(rec_reader__names(r), (uint64_t)atoi(argv[2]) * NS_PER_S, WINDOW_BYTES_DEFAULT);
	if (!w)
		return fail("out of memory");
	window__model_opts(w, &mo);
	m = model__new(rec_reader__names(r), &mo);
	if (!m)
		return fail("out of memory");
	while ((more = rec_reader__next(r, &evs, &cnt, &err)) > 0)
		for (size_t i = 0; i < cnt; i++) {
			if (model__handle(m, &evs[i]))
				return fail("model__handle");
			window__add(w, m, &evs[i]);
			if (evs[i].ts_ns < tick_ns)
				continue;
			tick_ns = evs[i].ts_ns + NS_PER_S;
			window__tick(w, m);
		}
	struct rec_writer_opts wo = { .names = rec_reader__names(r), .how.force = 1, .is_whole = 1 };

	if (more < 0 || window__write(w, m, argv[3], &wo, 1, &err))
		return fail(err.msg);
	model__check(m);
	model__free(m);
	window__free(w);
	rec_reader__free(r);
	return 0;
}

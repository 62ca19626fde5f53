/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What a new kind of event has at once (tests/new_kind/run adds EV_SCRATCH): a word, a recording, a place in a report. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/names.h"
#include "event/kinds.h"
#include "event/recording.h"
#include "model/model.h"
#include "timeline/report.h"

static void must(int is_true, const char *what)
{
	if (!is_true) {
		fprintf(stderr, "scratch: %s\n", what);
		exit(1);
	}
}

static void record(const char *path)
{
	struct names *names = names__new();
	struct rec_writer *w = NULL;
	struct err err = { 0 };
	struct event evs[] = {
		{ .ts_ns = 1, .kind = EV_BEGIN, .pid = 7, .size = 1 },
		{ .ts_ns = 2, .kind = EV_SCRATCH, .pid = 7, .size = 3, .name = names__add(names, "one") },
		{ .ts_ns = 3, .kind = EV_SCRATCH, .pid = 7, .size = 4, .name = names__add(names, "two") },
		{ .ts_ns = 4, .kind = EV_END },
	};

	must(!rec_writer__open(&w, path, &(struct rec_writer_opts){ .names = names, .how.force = 1 }, &err), err.msg);
	for (size_t i = 0; i < sizeof(evs) / sizeof(evs[0]); i++)
		must(!rec_writer__add(w, &evs[i], &err), err.msg);
	must(!rec_writer__close(w, &err), err.msg);
	names__free(names);
}

int main(int argc, char **argv)
{
	struct rec_reader *r = NULL;
	struct err err = { 0 };
	const struct event *evs;
	struct report *rep;
	struct model *m;
	size_t cnt;
	int seen = 0;

	must(argc == 2, "usage: scratch FILE.mtr");
	must(!strcmp(event_kind_name(EV_SCRATCH), "scratch"), "it has no word");
	record(argv[1]);
	must(!rec_reader__open(&r, argv[1], &err), err.msg);
	m = model__new(rec_reader__names(r), NULL);
	while (rec_reader__next(r, &evs, &cnt, &err) > 0) {
		for (size_t i = 0; i < cnt; i++) {
			const char *name = names__get(rec_reader__names(r), evs[i].name);

			model__handle(m, &evs[i]);
			if (evs[i].kind != EV_SCRATCH)
				continue;
			must(evs[i].size == 3u + (unsigned)seen && !strcmp(name, seen ? "two" : "one"), "it was misread");
			seen++;
		}
	}
	must(seen == 2, "it was not read");
	must(!model__report(m, 10, &rep) && rep->run.lost[MT_LOSS_ORDER] == 7, "the report has it not");
	report__free(rep);
	model__free(m);
	rec_reader__free(r);
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * gen_recording EVENTS PROCS OUT.mtr: a recording of a training job that never ran (gen_events.h), of any length.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "bench/gen_events.h"
#include "event/recording.h"

static int write_all(struct rec_writer *w, struct gen *g, unsigned long cnt, struct err *err)
{
	int r = 0;

	for (unsigned long i = 0; i < cnt && !r; i++) {
		struct event ev;

		gen__next(g, &ev);
		r = rec_writer__add(w, &ev, err);
	}
	return r;
}

int main(int argc, char **argv)
{
	struct names *names = names__new();
	struct rec_writer *w = NULL;
	struct err err = { 0 };
	struct gen *g;
	int r;

	if (argc != 4 || !names) {
		fprintf(stderr, "usage: gen_recording EVENTS PROCS OUT.mtr\n");
		return 2;
	}
	g = gen__new(1, (uint32_t)strtoul(argv[2], NULL, 10), names);
	r = g ? rec_writer__open(&w, argv[3], &(struct rec_writer_opts){ .names = names, .how.force = 1 }, &err) : -1;
	if (!r)
		r = write_all(w, g, strtoul(argv[1], NULL, 10), &err);
	if (!r)
		r = rec_writer__close(w, &err);
	if (r)
		fprintf(stderr, "gen_recording: %s\n", err.msg);
	gen__free(g);
	names__free(names);
	return r != 0;
}

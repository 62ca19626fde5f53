/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Prints every event of a recording as it stands there, one JSON object a line: events_json FILE.mtr [KIND …] */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "event/recording.h"

static int wanted(const char *kind, int argc, char **argv)
{
	for (int i = 2; i < argc; i++)
		if (!strcmp(kind, argv[i]))
			return 1;
	return argc == 2;
}

static void print_event(const struct names *names, const struct event *ev)
{
	char dev[16];

	printf("{\"ev\":\"%s\",\"t\":%" PRIu64 ",\"pid\":%u,\"tid\":%u,\"dev\":\"%s\",\"flags\":%u,\"addr\":%" PRIu64
	       ",\"size\":%" PRIu64 ",\"aux\":%u,\"depth\":%u,\"seq\":%u,\"name\":\"",
	       event_kind_name(ev->kind), ev->ts_ns, ev->pid, ev->tid, dev_name(ev->dev, dev), ev->flags, ev->addr, ev->size,
	       ev->aux, ev->depth, ev->seq);
	for (const char *p = ev->name.v ? names__get(names, ev->name) : ""; *p; p++)
		printf(*p == '"' || *p == '\\' ? "\\%c" : (unsigned char)*p < 32 ? "?" : "%c", *p);
	printf("\"}\n");
}

int main(int argc, char **argv)
{
	const struct event *ev;
	struct err err = { 0 };
	struct rec_reader *r;
	size_t cnt;
	int more;

	if (argc < 2) {
		fprintf(stderr, "usage: %s FILE.mtr [KIND ...]\n", argv[0]);
		return 2;
	}
	if (rec_reader__open(&r, argv[1], &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	while ((more = rec_reader__next(r, &ev, &cnt, &err)) == 1)
		for (size_t i = 0; i < cnt; i++)
			if (wanted(event_kind_name(ev[i].kind), argc, argv))
				print_event(rec_reader__names(r), &ev[i]);
	rec_reader__free(r);
	if (more < 0)
		fprintf(stderr, "%s\n", err.msg);
	return more < 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Any bytes as events, as fuzz_model has them, through the model and into every exporter as `export` does it: a pass for the
 * labels, and one that writes. Nothing breaks, no format gives up, and what says that it is JSON is.
 *
 * The second byte chooses the format, and whether there was a first pass.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz/short_events.h"
#include "model/model.h"
#include "model/ranks.h"
#include "timeline/labels.h"
#include "timeline/ranks.h"
#include "view/export.h"

#define TOP 20

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct run {
	const struct export_format *format; /* NULL: the first pass */
	struct export_to to;
	struct export_ctx *ctx;
	struct labels *labels;
	struct ranks *ranks;
};

static void require(int ok)
{
	if (!ok)
		abort();
}

static int on_event(void *ctx, const struct tl_event *ev)
{
	struct run *x = ctx;

	if (!x->format)
		return labels__event(x->labels, ev);
	return export_event(x->format, x->ctx, &x->to, ev, 1700000000000000000);
}

/* The events once; what they came to. */
static struct report *replay(struct run *x, const struct event *evs, size_t cnt, const struct names *names, int with_ops)
{
	struct model_opts opts = { .timeline = on_event, .timeline_ctx = x, .timeline_ops = with_ops,
				   .timeline_nodes = with_ops };
	struct model *m = model__new(names, &opts);
	struct report *r = NULL;

	require(!!m);
	for (size_t i = 0; i < cnt; i++) {
		require(model__handle(m, &evs[i]) == 0);
		require(!x->ranks || ranks__handle(x->ranks, &evs[i]) == 0);
	}
	require(model__end(m) == 0);
	require(model__report(m, TOP, &r) == 0);
	model__free(m);
	return r;
}

static struct report *first_pass(struct run *x, const struct event *evs, size_t cnt, const struct names *names)
{
	struct report *r;

	require(labels__new(&x->labels, NULL) == 0);
	x->ranks = ranks__new(names, CLASSES_COMPAT);
	require(!!x->ranks);
	r = replay(x, evs, cnt, names, 1);
	require(ranks__report(x->ranks, 1, &r->ranks) == 0);
	ranks__free(x->ranks);
	x->ranks = NULL;
	x->to.labels = x->labels;
	x->to.report = r;
	return r;
}

/* Numbers may have 64 bits, which jansson's integers have not. */
static void require_json(const char *name, const char *text, size_t len)
{
	json_error_t err;
	json_t *j = json_loadb(text, len, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &err);

	if (!j) {
		fprintf(stderr, "%s: %s at byte %d of %.*s\n", name, err.text, err.position, (int)len, text);
		abort();
	}
	json_decref(j);
}

/* A format that is JSON as a whole, or line by line. */
static void check_json(const char *name, char *text, size_t len)
{
	if (!strcmp(name, "jsonl"))
		for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
			require_json(name, line, strlen(line));
	else if (!strcmp(name, "chrome") || !strcmp(name, "torch-timeline"))
		require_json(name, text, len);
}

static void write_out(struct run *x, const struct event *evs, size_t cnt, const struct names *names)
{
	char path[64] = "/tmp/memtrace_fuzz.XXXXXX", *text = NULL;
	int fd = x->format->needs & EXPORT_FILE ? mkstemp(path) : -1;
	struct report *r;
	size_t len = 0;

	x->to.out = open_memstream(&text, &len);
	x->to.path = fd >= 0 ? path : NULL;
	require(!!x->to.out);
	require(export_begin(x->format, &x->ctx, &x->to) == 0);
	r = replay(x, evs, cnt, names, x->to.ops || x->format->needs & (EXPORT_OPS | EXPORT_NODES));
	require(export_end(x->format, x->ctx, r) == 0);
	fclose(x->to.out);
	check_json(x->format->name, text, len);
	free(text);
	if (fd >= 0) {
		unlink(path);
		close(fd);
	}
	report__free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct export_format *const *formats = export_formats();
	struct run x = { .to = { .dev = -1 } };
	struct report *first = NULL;
	struct names *names = names__new();
	size_t formats_cnt = 0, cnt;
	struct event *evs;
	uint8_t how;

	if (size < 2) {
		names__free(names);
		return 0;
	}
	how = data[0] >> 1;
	evs = events_of(data + 1, size - 1, &cnt);
	require(names && evs);
	names__fill(names);
	while (formats[formats_cnt])
		formats_cnt++;
	x.to.names = names;
	x.to.ops = data[0] & 1;
	if (how % 3 || formats[how % formats_cnt]->needs & EXPORT_LABELS)
		first = first_pass(&x, evs, cnt, names);
	x.format = formats[how % formats_cnt];
	if (!x.format->missing || !x.format->missing())
		write_out(&x, evs, cnt, names);
	report__free(first);
	labels__free(x.labels);
	free(evs);
	names__free(names);
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Exports that go by final labels, torch.profiler's timelines and the data-flow view, on decisions made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "timeline/labels.h"
#include "timeline/report.h"
#include "timeline/selection.h"
#include "view/export.h"
#include "view/export/gzip.h"
#include "view/fold/torch_actions.h"
#include "view/tables/flow.h"

#define CPU MT_DEV_CPU
#define CUDA MT_DEV_CUDA0

static struct names *names;
static struct labels *labels;

static int setup(void **state)
{
	(void)state;
	names = names__new();
	return !names || labels__new(&labels, NULL) < 0;
}

static int teardown(void **state)
{
	(void)state;
	names__free(names);
	labels__free(labels);
	return 0;
}

static void final(uint64_t id, uint32_t version, enum category cat)
{
	assert_int_equal(labels__event(labels, &(struct tl_event){ .kind = TL_FINAL, .id = id, .version = version,
								   .cat = (uint8_t)cat }), 0);
}

static void late(uint64_t id, uint8_t dev, uint64_t size)
{
	assert_int_equal(labels__event(labels, &(struct tl_event){ .kind = TL_PREEXISTING, .id = id, .dev = dev,
								   .size = size, .ptr = 0x1000 * id }), 0);
}

static struct tl_event block(uint8_t kind, uint64_t t, uint64_t id, uint64_t size)
{
	return (struct tl_event){ .kind = kind, .ts_ns = t, .id = id, .size = size, .dev = CPU, .pid = 1, .tid = 2,
				  .ptr = 0x1000 * id };
}

static char *export_text(const char *format, const struct export_to *like, const struct tl_event *evs, size_t cnt,
			 int64_t epoch)
{
	const struct export_format *f = export_format_find(format);
	struct export_to to = *like;
	struct export_ctx *c = NULL;
	char *text = NULL;
	size_t len;

	assert_non_null(f);
	to.out = open_memstream(&text, &len);
	to.names = names;
	assert_int_equal(export_begin(f, &c, &to), 0);
	for (size_t i = 0; i < cnt; i++)
		assert_int_equal(f->event(c, &evs[i], epoch), 0);
	assert_int_equal(export_end(f, c, NULL), 0);
	fclose(to.out);
	return text;
}

/* Both as JSON: what they mean is compared, not how it is spaced. */
static void same_json(char *got, const char *want)
{
	json_t *a = json_loads(got, 0, NULL), *b = json_loads(want, 0, NULL);

	assert_non_null(a);
	assert_non_null(b);
	if (!json_equal(a, b))
		print_message("got: %s\n", got);
	assert_true(json_equal(a, b));
	json_decref(a);
	json_decref(b);
	free(got);
}

/* --- torch.profiler's timelines ---------------------------------------------------------------------- */

static const struct tl_edge written[] = {
	{ .id = 1, .version = 0, .out_version = 1, .flags = TL_EDGE_IN | TL_EDGE_WRITTEN, .dev = CPU },
	{ .id = 3, .version = 0, .out_version = 1, .flags = TL_EDGE_IN | TL_EDGE_WRITTEN, .dev = CUDA },
	{ .id = 10, .flags = TL_EDGE_IN, .dev = CPU },
	{ .id = 9, .flags = TL_EDGE_ALLOCATED | TL_EDGE_WRITTEN, .dev = CPU },
	{ .id = 777, .flags = TL_EDGE_IN | TL_EDGE_WRITTEN, .dev = CPU }, /* nobody told of it */
};

static size_t a_job(struct tl_event *evs)
{
	size_t n = 0;

	late(10, CPU, 100);
	late(11, CPU, TL_SIZE_UNKNOWN);
	late(12, CUDA, 999);
	final(10, 0, CAT_PARAMETER);
	final(1, 0, CAT_AUTOGRAD_DETAIL);
	final(1, 1, CAT_GRADIENT);
	final(3, 0, CAT_INPUT);
	evs[n++] = block(TL_PREEXISTING, 4000, 10, 100);
	evs[n++] = block(TL_CREATE, 5000, 1, 64);
	evs[n++] = block(TL_CREATE, 5100, 3, 8);
	evs[n - 1].dev = CUDA;
	evs[n++] = block(TL_VERSION, 5300, 1, 64); /* when the node was closed */
	evs[n++] = block(TL_LABEL, 5350, 1, 64);
	evs[n++] = block(TL_CREATE, 5400, 2, 32);
	evs[n++] = block(TL_DESTROY, 9000, 2, 32);
	evs[n++] = block(TL_DESTROY, 9500, 11, TL_SIZE_UNKNOWN);
	evs[n++] = (struct tl_event){ .kind = TL_NODE, .ts_ns = 5200, .edges = written, .edges_cnt = 5 };
	evs[n++] = block(TL_DESTROY, 20000, 1, 64);
	return n;
}

static void test_torch_raw(void **state)
{
	struct export_to to = { .labels = labels, .dev = -1 };
	struct tl_event evs[16];
	size_t n = a_job(evs);

	(void)state;
	same_json(export_text("torch-raw", &to, evs, n, 1000000),
		  "[[-1, 1, 100, 0], [1005000, 2, 64, 6], [1005200, 3, -64, 6], [1005200, 3, 64, 5], [1005400, 2, 32, 7],"
		  " [1009000, 4, -32, 7], [1020000, 4, -64, 5]]");
	to.dev = CUDA;
	same_json(export_text("torch-raw", &to, evs, n, 0),
		  "[[-1, 1, 999, 7], [5100, 2, 8, 2], [5200, 3, -8, 2], [5200, 3, 8, 2]]");
	to.dev = CUDA + 1;
	same_json(export_text("torch-raw", &to, evs, n, 0), "[]");
}

static void test_torch_timeline(void **state)
{
	struct report_dev devs[] = { { .dev = CPU }, { .dev = CUDA } };
	struct report r = { .devs = devs, .devs_cnt = 2 };
	struct export_to to = { .labels = labels, .dev = -1 };
	struct tl_event evs[16];
	size_t n = a_job(evs);

	(void)state;
	same_json(export_text("torch-timeline", &to, evs, n, 0),
		  "[[5, 5, 9, 20], [[0, 100, 0, 0, 0, 0, 0, 0, 0], [0, 100, 0, 0, 0, 0, 64, 0, 32],"
		  " [0, 100, 0, 0, 0, 0, 64, 0, 0], [0, 100, 0, 0, 0, 0, 0, 0, 0]]]");
	to.report = &r; /* cuda:0 where there is one */
	same_json(export_text("torch-timeline", &to, evs, n, 0),
		  "[[5, 5], [[0, 0, 0, 0, 0, 0, 0, 0, 999], [0, 0, 0, 8, 0, 0, 0, 0, 999]]]");
	to.dev = CUDA + 1;
	same_json(export_text("torch-timeline", &to, evs, n, 0), "[[], []]");
	/* Python: int(1795235726996065999 / 1000), int(1795235726996065700 / 1000) */
	evs[0] = block(TL_CREATE, 1795235726996065700, 20, 1);
	evs[1] = block(TL_CREATE, 1795235726996065999, 21, 1);
	to = (struct export_to){ .labels = labels, .dev = MT_DEV_HOST };
	evs[0].dev = evs[1].dev = MT_DEV_HOST;
	same_json(export_text("torch-timeline", &to, evs, 2, 0),
		  "[[1795235726996065, 1795235726996066], [[0,0,0,0,0,0,0,0,1], [0,0,0,0,0,0,0,0,2]]]");
}

static void test_torch_needs_labels(void **state)
{
	struct export_to to = { .out = stdout, .names = names, .dev = -1 };
	struct export_ctx *c = NULL;

	(void)state;
	assert_int_equal(export_begin(&export_torch_raw, &c, &to), -EINVAL);
	assert_int_equal(export_begin(&export_torch_timeline, &c, &to), -EINVAL);
	assert_null(c);
}

struct sums {
	int64_t bytes[TORCH_CATEGORIES], last_ns;
	size_t cnt[5];
	uint8_t last_action;
	int all_wait; /* nothing was told too early */
};

static int sum_up(void *ctx, const struct torch_record *r)
{
	struct sums *s = ctx;

	s->cnt[r->action]++;
	s->bytes[r->index] += r->bytes;
	assert_true(s->bytes[r->index] >= 0);
	assert_true(r->t_ns >= s->last_ns);
	if (s->all_wait && r->t_ns == s->last_ns)
		assert_true(r->action >= s->last_action);
	s->last_ns = r->t_ns;
	s->last_action = r->action;
	return 0;
}

#define BLOCKS 20000u

/* Allocations and deaths in order, nodes told late: however many wait, sums hold; with all of them, the order too. */
static void random_job(uint32_t pending_max)
{
	struct sums s = { .last_ns = -1, .all_wait = !pending_max };
	struct export_to to = { .labels = labels, .dev = CPU };
	struct torch_actions *a;
	int64_t live = 0;
	uint64_t t = 1000;
	unsigned seed = 7;

	for (uint64_t id = 1; id <= BLOCKS; id += 3) {
		final(id, 0, (enum category)(id % CAT_MAX));
		final(id, 1, (enum category)(id / 3 % CAT_MAX));
	}
	assert_int_equal(torch_actions__new(&a, &to, pending_max, sum_up, &s), 0);
	for (uint64_t id = 1; id <= BLOCKS; id++) {
		struct tl_event ev = block(TL_CREATE, t, id, id);
		struct tl_edge e = { .id = id > 50 ? id - 50 : id, .out_version = 1, .flags = TL_EDGE_WRITTEN, .dev = CPU };

		t += (unsigned)rand_r(&seed) % 3;
		live += (int64_t)id;
		assert_int_equal(torch_actions__event(a, &ev, 0), 0);
		ev = (struct tl_event){ .kind = TL_NODE, .ts_ns = t - t / 50 % 40, .edges = &e, .edges_cnt = 1 };
		assert_int_equal(torch_actions__event(a, &ev, 0), 0);
		if (id % 2) {
			ev = block(TL_DESTROY, t, id, id);
			live -= (int64_t)id;
			assert_int_equal(torch_actions__event(a, &ev, 0), 0);
		}
	}
	assert_int_equal(torch_actions__flush(a), 0);
	torch_actions__free(a);
	for (unsigned i = 0; i < TORCH_CATEGORIES; i++)
		live -= s.bytes[i];
	assert_int_equal(live, 0);
	assert_int_equal(s.cnt[TORCH_CREATE], BLOCKS);
	assert_int_equal(s.cnt[TORCH_DESTROY], BLOCKS / 2);
	assert_true(s.cnt[TORCH_INCREMENT] > 0 && s.cnt[TORCH_INCREMENT] % 2 == 0);
}

static void test_sums_hold(void **state)
{
	(void)state;
	random_job(0);
}

static void test_sums_hold_when_nodes_are_late(void **state)
{
	(void)state;
	random_job(1);
	labels__free(labels);
	assert_int_equal(labels__new(&labels, NULL), 0);
	random_job(16);
}

/* --- labels ----------------------------------------------------------------------------------------------- */

static void test_final_labels(void **state)
{
	struct export_to to = { .labels = labels, .dev = -1 };
	struct tl_event evs[16];
	size_t n = a_job(evs);
	char *text;

	(void)state;
	evs[9].version = 1;
	text = export_text("jsonl", &to, evs, n, 0);
	assert_null(strstr(text, "\"label\""));
	assert_non_null(strstr(text, "{\"t\":5000,\"ev\":\"create\",\"dev\":\"cpu\",\"ptr\":\"0x1000\",\"size\":64,\"id\":1,"
				     "\"version\":0,\"cat\":\"AUTOGRAD_DETAIL\""));
	assert_non_null(strstr(text, "{\"t\":20000,\"ev\":\"destroy\",\"dev\":\"cpu\",\"ptr\":\"0x1000\",\"size\":64,\"id\":1,"
				     "\"version\":1,\"cat\":\"GRADIENT\""));
	assert_non_null(strstr(text, "\"ev\":\"node\""));
	free(text);
	text = export_text("csv", &to, evs, n, 0);
	assert_null(strstr(text, "label"));
	assert_null(strstr(text, "node"));
	assert_non_null(strstr(text, "5000,create,cpu,0x1000,64,1,0,AUTOGRAD_DETAIL,"));
	free(text);
	to.labels = NULL;
	text = export_text("csv", &to, evs, n, 0);
	assert_non_null(strstr(text, "5350,label,cpu,0x1000,64,1,0,unknown,"));
	free(text);
	to.dev = CUDA;
	text = export_text("csv", &to, evs, n, 0);
	assert_null(strstr(text, "cpu"));
	assert_non_null(strstr(text, "5100,create,cuda:0,"));
	free(text);
}

/* Of a text, the lines that begin with a word, one behind the other. */
static void starts_in_order(const char *text, const char *const *starts)
{
	for (; *starts; starts++, text = strchr(text, '\n') + 1)
		if (strncmp(text, *starts, strlen(*starts)))
			fail_msg("not %s: %s", *starts, text);
	assert_string_equal(text, "");
}

static char *sorted_text(const char *format, const char *sort, const struct tl_event *evs, size_t cnt)
{
	const struct export_format *f = export_format_find(format);
	struct export_to to = { .labels = labels, .dev = -1, .sort = sort, .names = names };
	struct export_ctx *c = NULL;
	struct report rep = { 0 };
	char *text = NULL;
	size_t len;

	to.out = open_memstream(&text, &len);
	assert_int_equal(export_begin(f, &c, &to), 0);
	for (size_t i = 0; i < cnt; i++)
		assert_int_equal(f->event(c, &evs[i], 0), 0);
	assert_int_equal(export_end(f, c, &rep), 0);
	fclose(to.out);
	return text;
}

static void test_sorted(void **state)
{
	static const struct {
		const char *sort;
		const char *const starts[9];
	} csv[] = { /* a size that is not known, or none: behind all */
		{ "time", { "t,", "2,", "3,", "4,", "5,gap_begin", "6,", "7,", "8,", NULL } },
		{ "size", { "t,", "3,", "6,", "2,", "8,", "4,", "5,gap_begin", "7,", NULL }},
		{ "op", { "t,", "4,", "8,", "2,", "6,", "3,", "5,gap_begin", "7,", NULL } },
		{ "module", { "t,", "6,", "2,", "3,", "4,", "5,gap_begin", "7,", "8,", NULL } },
		{ "name", { "t,", "8,", "2,", "3,", "4,", "5,gap_begin", "6,", "7,", NULL } },
	};
	static const char *const jsonl[] = { "{\"t\":1,\"ev\":\"stack\"", "{\"t\":3,", "{\"t\":6,", "{\"t\":2,", "{\"t\":8,",
					     "{\"t\":4,", "{\"t\":5,", "{\"t\":7,", NULL };
	struct tl_event evs[] = {
		{ .kind = TL_STACK, .ts_ns = 1, .id = 1 }, block(TL_CREATE, 2, 1, 8), block(TL_CREATE, 3, 2, 900),
		block(TL_PREEXISTING, 4, 3, TL_SIZE_UNKNOWN), { .kind = TL_GAP, .ts_ns = 5, .version = 1 },
		block(TL_DESTROY, 6, 2, 900), { .kind = TL_STEP, .ts_ns = 7, .ptr = 1 }, block(TL_TAG, 8, 4, 1),
	};

	(void)state;
	assert_int_equal(labels__event(labels, &(struct tl_event){ .kind = TL_NAME, .id = 4,
								   .op = names__add(names, "a") }), 0);
	evs[1].op = names__add(names, "mm");
	evs[1].module = names__add(names, "layers.1");
	evs[5].module = names__add(names, "layers.0");
	evs[1].root = evs[5].root = names__add(names, "Net");
	evs[5].op = evs[1].op;
	evs[3].op = evs[7].op = names__add(names, "add");
	for (size_t i = 0; i < sizeof(csv) / sizeof(csv[0]); i++) {
		char *text = sorted_text("csv", csv[i].sort, evs, 8);

		starts_in_order(text, csv[i].starts);
		free(text);
	}
	{
		char *text = sorted_text("jsonl", "size", evs, 8);

		starts_in_order(text, jsonl);
		free(text);
	}
}

/* A spreadsheet runs what looks like a formula: names do not look so, and can be had back. */
static void test_csv_formulas(void **state)
{
	static const struct {
		const char *name, *cell;
	} rows[] = {
		{ "=HYPERLINK(\"http://x\",\"y\")", ",\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\"," },
		{ "+1", ",'+1," },
		{ "-2+3", ",'-2+3," },
		{ "@SUM(A1)", ",'@SUM(A1)," },
		{ "'quoted", ",''quoted," },
		{ "\xef\xbc\x9d""1", ",'\xef\xbc\x9d""1," },
		{ "\t=1", ",\xef\xbf\xbd=1," },
		{ "aten::add-=+@'", ",aten::add-=+@'," },
	};
	struct export_to to = { .dev = -1, .ops = 1 };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct tl_event ev = { .kind = TL_CREATE, .ts_ns = 1, .ptr = 0x10, .size = 8, .id = 1, .pid = 1, .tid = 2,
				       .op = names__add(names, rows[i].name) };
		char *text = export_text("csv", &to, &ev, 1, 0);

		if (!strstr(text, rows[i].cell))
			fail_msg("%s: %s", rows[i].name, strchr(text, '\n'));
		free(text);
	}
}

/* --- the data-flow view ------------------------------------------------------------------------------------ */

static struct tl_event node(uint64_t t, const char *op, const struct tl_edge *edges, uint32_t cnt)
{
	return (struct tl_event){ .kind = TL_NODE, .ts_ns = t, .op = op ? names__add(names, op) : NAME_NONE, .pid = 1,
				  .tid = 2, .edges = edges, .edges_cnt = cnt };
}

static struct tl_event step_end(uint64_t t)
{
	return (struct tl_event){ .kind = TL_REGION_END, .ts_ns = t, .pid = 1, .tid = 2,
				  .region = names__add(names, "Optimizer.step#Adam.step") };
}

static char *flow_text(uint64_t steps, int json, const struct tl_event *evs, size_t cnt, uint64_t *ret_nodes)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	struct flow_view *v = flow_view__new(f, steps, json);

	assert_non_null(v);
	flow_view__names(v, names);
	for (size_t i = 0; i < cnt; i++)
		assert_int_equal(flow_view__scan(v, &evs[i]), 0);
	flow_view__names(v, names);
	for (size_t i = 0; i < cnt; i++)
		assert_int_equal(flow_view__event(v, &evs[i], 100), 0);
	assert_int_equal(flow_view__end(v, ret_nodes), 0);
	flow_view__free(v);
	fclose(f);
	return text;
}

static const struct tl_edge mul[] = {
	{ .id = 70, .cat = CAT_INPUT, .flags = TL_EDGE_IN, .dev = CPU },
	{ .id = 50, .cat = CAT_PARAMETER, .version = 3, .flags = TL_EDGE_IN, .dev = CPU },
	{ .id = 90, .out_cat = CAT_ACTIVATION, .flags = TL_EDGE_ALLOCATED, .dev = CPU },
	{ .id = 91, .out_cat = CAT_TEMPORARY, .flags = TL_EDGE_ALLOCATED | TL_EDGE_FREED, .dev = CPU },
};
static const struct tl_edge add_[] = {
	{ .id = 50, .cat = CAT_PARAMETER, .version = 3, .out_version = 4, .out_cat = CAT_PARAMETER,
	  .flags = TL_EDGE_IN | TL_EDGE_WRITTEN, .dev = CPU },
};
static const struct tl_edge gone[] = {
	{ .id = 90, .cat = CAT_ACTIVATION, .flags = TL_EDGE_IN | TL_EDGE_FREED, .dev = CPU },
};
static const struct tl_edge only_temporary[] = {
	{ .id = 95, .out_cat = CAT_TEMPORARY, .flags = TL_EDGE_ALLOCATED | TL_EDGE_FREED, .dev = CPU },
};

static void test_flow_lines(void **state)
{
	const struct tl_event evs[] = {
		node(10, "aten::mul.Tensor", mul, 4), node(20, "torch::autograd::AccumulateGrad", add_, 1),
		node(30, NULL, gone, 1),
		node(40, "aten::empty", only_temporary, 1), node(50, "aten::mul.Tensor", mul, 4),
	};
	uint64_t nodes;
	char *text = flow_text(2, 0, evs, 5, &nodes);

	(void)state;
	assert_int_equal(nodes, 5);
	assert_string_equal(text,
		"All of it: no step was seen\n"
		"aten::mul.Tensor                 T0(v0) INPUT, T1(v3) PARAMETER                        ->  T2(v0) ACTIVATION\n"
		"AccumulateGrad                   T1(v3) PARAMETER                                      ->  T1(v4) PARAMETER\n"
		"[memory]                         T2(v0*) ACTIVATION                                    ->\n"
		"aten::mul.Tensor                 T0(v0) INPUT, T1(v3) PARAMETER                      "
		"  ->  T3(v0) ACTIVATION\n");
	free(text);
}

static void test_flow_steps(void **state)
{
	struct tl_event evs[64];
	uint64_t nodes;
	size_t n = 0;
	char *text;

	(void)state;
	for (uint64_t s = 1; s <= 5; s++) {
		evs[n++] = step_end(1000 * s);
		if (s > 1) { /* told late */
			evs[n++] = node(1000 * (s - 1) + 500, "aten::add_", add_, 1);
			evs[n++] = node(1000 * (s - 1) - 1, "aten::late", add_, 1);
		}
	}
	evs[n++] = node(5500, "aten::after", add_, 1);
	text = flow_text(2, 0, evs, n, &nodes);
	assert_int_equal(nodes, 9);
	assert_string_equal(text,
		"Step 4, 1.00 \xc2\xb5s\n"
		"aten::add_                       T0(v3) PARAMETER                                      ->  T0(v4) PARAMETER\n"
		"\nStep 5, 1.00 \xc2\xb5s\n"
		"aten::add_                       T0(v3) PARAMETER                                      ->  T0(v4) PARAMETER\n"
		"aten::late                       T0(v3) PARAMETER                                    "
		"  ->  T0(v4) PARAMETER\n");
	free(text);
	text = flow_text(UINT64_MAX, 0, evs, n, &nodes);
	assert_non_null(strstr(text, "Step 2, 1.00"));
	assert_non_null(strstr(text, "\nStep 6, not whole\naten::after"));
	free(text);
	text = flow_text(100, 0, evs, n, &nodes);
	assert_non_null(strstr(text, "Step 2, 1.00"));
	assert_null(strstr(text, "aten::after"));
	free(text);
	/* A process with marks goes by them; one without any is not shown beside it. */
	evs[n] = (struct tl_event){ .kind = TL_STEP, .ts_ns = 1700, .pid = 1, .ptr = 40 };
	evs[n + 1] = (struct tl_event){ .kind = TL_STEP, .ts_ns = 2700, .pid = 1, .ptr = 41 };
	evs[n + 2] = node(2000, "aten::worker", add_, 1);
	evs[n + 2].pid = 9;
	text = flow_text(1, 0, evs, n + 3, &nodes);
	assert_string_equal(text,
		"Step 1, 1.00 \xc2\xb5s\n"
		"aten::add_                       T0(v3) PARAMETER                                      ->  T0(v4) PARAMETER\n"
		"aten::late                       T0(v3) PARAMETER                                    "
		"  ->  T0(v4) PARAMETER\n");
	free(text);
}

static void test_flow_json(void **state)
{
	const struct tl_event evs[] = { node(10, "aten::mul.Tensor", mul, 4), node(30, NULL, gone, 1) };
	uint64_t nodes;
	char *text = flow_text(2, 1, evs, 2, &nodes), *second = strchr(text, '\n');

	(void)state;
	assert_non_null(second);
	*second = '\0';
	same_json(strdup(text),
		  "{\"t\": 110, \"ev\": \"node\", \"step\": 1, \"op\": \"aten::mul.Tensor\", \"region\": null, "
		  "\"tid\": 2, \"pid\": 1,"
		  "\"inputs\": [{\"id\": 70, \"version\": 0, \"cat\": \"INPUT\", \"dev\": \"cpu\"},"
		  "{\"id\": 50, \"version\": 3, \"cat\": \"PARAMETER\", \"dev\": \"cpu\"}],"
		  "\"outputs\": [{\"id\": 90, \"version\": 0, \"cat\": \"ACTIVATION\", \"dev\": \"cpu\"}],"
		  "\"intermediates\": [{\"id\": 91, \"version\": 0, \"cat\": \"TEMPORARY\", \"dev\": \"cpu\"}],"
		  "\"deleted\": []}");
	same_json(strdup(second + 1),
		  "{\"t\": 130, \"ev\": \"node\", \"step\": 1, \"op\": null, \"region\": null, \"tid\": 2, \"pid\": 1,"
		  "\"inputs\": [{\"id\": 90, \"version\": 0, \"cat\": \"ACTIVATION\", \"dev\": \"cpu\"}], \"outputs\": [],"
		  "\"intermediates\": [],"
		  "\"deleted\": [{\"id\": 90, \"version\": 0, \"cat\": \"ACTIVATION\", \"dev\": \"cpu\"}]}");
	free(text);
}

/* --- what they stand on ---------------------------------------------------------------------------------- */

static void test_gzip(void **state)
{
	char path[] = "/tmp/mt-test-gzip-XXXXXX", line[64];
	int fd = mkstemp(path);
	FILE *f;
	gzFile gz;

	(void)state;
	assert_true(fd >= 0);
	f = gzip_open(fd);
	assert_non_null(f);
	for (int i = 0; i < 100000; i++)
		assert_true(fprintf(f, "line %d\n", i) > 0);
	assert_int_equal(fclose(f), 0);
	gz = gzopen(path, "rb");
	assert_non_null(gz);
	for (int i = 0; i < 100000; i++) {
		char want[64];

		snprintf(want, sizeof(want), "line %d\n", i);
		assert_non_null(gzgets(gz, line, sizeof(line)));
		assert_string_equal(line, want);
	}
	assert_false(gzdirect(gz)); /* it was compressed */
	assert_null(gzgets(gz, line, sizeof(line)));
	assert_int_equal(gzclose_r(gz), Z_OK);
	unlink(path);
	f = gzip_open(open("/dev/full", O_WRONLY | O_CLOEXEC));
	assert_non_null(f);
	fputs("text", f);
	assert_int_not_equal(fclose(f), 0);
	assert_int_equal(errno, ENOSPC);
	assert_true(gzip_is_asked("a.json.gz") && !gzip_is_asked(".gz") && !gzip_is_asked("a.gzip"));
}

/* --- memory after each operator ------------------------------------------------------------------------ */

static struct tl_event op_at(uint64_t t, const char *name, const char *region, uint8_t depth)
{
	return (struct tl_event){ .kind = TL_OP, .ts_ns = t, .pid = 1, .tid = 2, .depth = depth, .op = names__add(names, name),
				  .region = region ? names__add(names, region) : NAME_NONE };
}

static struct tl_event region_at(uint64_t t, const char *name, uint8_t kind)
{
	return (struct tl_event){ .kind = kind, .ts_ns = t, .pid = 1, .tid = 2, .region = names__add(names, name) };
}

static struct tl_event block_in(uint8_t kind, uint64_t t, uint64_t id, uint64_t size, uint8_t depth)
{
	struct tl_event ev = block(kind, t, id, size);

	ev.depth = depth;
	return ev;
}

static struct tl_event mark_at(uint64_t t, enum tl_mark kind, uint64_t number)
{
	return (struct tl_event){ .kind = TL_MARK, .ts_ns = t, .pid = 1, .tid = 2, .version = kind, .ptr = number };
}

/*
 * One step: linear with t and addmm in it, a backward node with mm, the optimizer; 100 bytes were there before, and are seen
 * late. As the model tells it: that it is a forward is known from the first allocation in it.
 */
static size_t a_step(struct tl_event *evs)
{
	size_t n = 0;

	(void)labels__event(labels, &(struct tl_event){ .kind = TL_PREEXISTING, .id = 10, .dev = CPU, .size = 100, .pid = 1 });
	evs[n++] = op_at(9, "aten::view", NULL, 0);
	evs[n++] = op_at(10, "aten::linear", NULL, 0);
	evs[n++] = block_in(TL_PREEXISTING, 10, 10, 100, 0);
	evs[n++] = op_at(10, "aten::t", NULL, 1);
	evs[n++] = op_at(11, "aten::addmm", NULL, 1);
	evs[n++] = mark_at(12, MARK_FW_START, 0);
	evs[n++] = block_in(TL_CREATE, 12, 1, 64, 2);
	evs[n - 1].phase = PHASE_FORWARD;
	evs[n++] = block_in(TL_CREATE, 13, 2, 8, 2);
	evs[n++] = block_in(TL_DESTROY, 14, 2, 8, 1); /* addmm is over, linear is not */
	evs[n++] = block_in(TL_CREATE, 15, 9, 1 << 20, 0); /* another process's */
	evs[n - 1].pid = 3;
	evs[n++] = mark_at(20, MARK_FW_BW_BOUNDARY, 0);
	evs[n - 1].tid = 3; /* autograd has a thread of its own for a GPU's nodes */
	evs[n++] = op_at(20, "AddmmBackward0", "AddmmBackward0", 0);
	evs[n - 1].phase = PHASE_BACKWARD;
	evs[n++] = op_at(21, "aten::mm", "AddmmBackward0", 1);
	evs[n - 1].phase = PHASE_BACKWARD;
	evs[n++] = block_in(TL_CREATE, 22, 3, 32, 2);
	evs[n - 1].phase = PHASE_RECOMPUTE;
	evs[n++] = block_in(TL_DESTROY, 23, 1, 64, 0); /* backward is over */
	evs[n++] = region_at(30, "Optimizer.step#SGD.step", TL_REGION);
	evs[n++] = op_at(31, "aten::add_", "Optimizer.step#SGD.step", 0);
	evs[n - 1].phase = PHASE_OPTIMIZER;
	evs[n++] = mark_at(32, MARK_STEP, 7);
	evs[n++] = region_at(32, "Optimizer.step#SGD.step", TL_REGION_END);
	evs[n++] = block_in(TL_DESTROY, 33, 10, 100, 0);
	evs[n++] = op_at(40, "aten::linear", NULL, 0);
	return n;
}

#define ROW(t, ev, i, name) "{\"t\":" t ",\"ev\":\"" ev "\",\"i\":" i ",\"name\":\"" name "\""
#define VALUES(a) ",\"allocated\":" a ",\"reserved\":" a ",\"tid\":2}\n"
#define OP(depth, phase, made) ",\"depth\":" depth ",\"phase\":\"" phase "\",\"created\":" made

static void test_op_trace(void **state)
{
	struct report_proc procs[] = { { .pid = 1, .peak = 200 }, { .pid = 3, .peak = 7 } };
	struct report rep = { .run.pid = 3, .procs = procs, .procs_cnt = 2, .run.cmdline = "<script>&" };
	struct export_to to = { .labels = labels, .dev = -1, .report = &rep };
	struct tl_event evs[32];
	size_t n = a_step(evs);
	char *text = export_text("op-trace", &to, evs, n, 0);

	(void)state;
	assert_string_equal(text,
		ROW("9", "op", "0", "aten::view") OP("0", "other", "0") VALUES("100")
		ROW("12", "mark", "1", "fw_start") VALUES("100")
		ROW("10", "op", "1", "aten::linear") OP("0", "forward", "72") VALUES("164")
		ROW("10", "op", "2", "aten::t") OP("1", "forward", "0") VALUES("100")
		ROW("11", "op", "3", "aten::addmm") OP("1", "forward", "72") VALUES("172")
		ROW("20", "mark", "4", "fw_bw_boundary") ",\"allocated\":164,\"reserved\":164,\"tid\":3}\n"
		ROW("20", "node", "4", "AddmmBackward0") OP("0", "backward", "32") VALUES("196")
		ROW("21", "op", "4", "aten::mm") OP("0", "recompute", "32") VALUES("196")
		ROW("30", "region", "5", "Optimizer.step#SGD.step") VALUES("132")
		ROW("31", "op", "5", "aten::add_") OP("0", "optimizer", "0") VALUES("132")
		ROW("32", "mark", "6", "step") ",\"step\":7" VALUES("132")
		ROW("32", "region_end", "6", "Optimizer.step#SGD.step") VALUES("132"));
	free(text);
}

/* A part has the sums of the whole: what was there from the beginning counts, whenever it is seen. */
static void test_op_trace_of_a_part(void **state)
{
	struct selection part = { .at.text = "step 7", .dev = -1, .category = -1, .rank = -1 };
	struct report_proc proc = { .pid = 1, .peak = 200 };
	struct report rep = { .run.pid = 1, .procs = &proc, .procs_cnt = 1 };
	struct export_to to = { .labels = labels, .dev = -1, .report = &rep, .part = &part };
	struct tl_event stack = { .kind = TL_STACK, .ts_ns = 3, .pid = 1, .tid = 2 };
	struct tl_event evs[] = { stack, block_in(TL_PREEXISTING, 20, 10, 100, 0), block_in(TL_PREEXISTING, 20, 11, 7, 0),
				  op_at(30, "aten::mm", NULL, 0), op_at(40, "aten::mm", NULL, 0),
				  block_in(TL_PREEXISTING, 45, 50, 1000, 0), op_at(50, "aten::mm", NULL, 0) };
	const struct tl_event late[] = { block_in(TL_PREEXISTING, 5, 10, 100, 0), evs[5],
					 block_in(TL_PREEXISTING, 99, 51, 10000, 0) };
	char *text;

	(void)state;
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(labels__event(labels, &late[i]), 0);
	text = export_text("op-trace", &to, evs, 7, 0);
	assert_non_null(strstr(text, ROW("30", "op", "0", "aten::mm") OP("0", "other", "0") VALUES("11107")));
	assert_non_null(strstr(text, ROW("40", "op", "1", "aten::mm") OP("0", "other", "0") VALUES("11107")));
	free(text);
	part.category = CAT_INPUT; /* of which category the later ones are is not known yet */
	text = export_text("op-trace", &to, evs, 7, 0);
	assert_non_null(strstr(text, ROW("30", "op", "0", "aten::mm") OP("0", "other", "0") VALUES("107")));
	assert_non_null(strstr(text, ROW("40", "op", "1", "aten::mm") OP("0", "other", "0") VALUES("1107")));
	free(text);
}

/* The caching allocator's own totals are the truth; the picture escapes what the job is called. */
static void test_trace_of_totals(void **state)
{
	struct report_proc proc = { .pid = 1, .peak = 200 };
	struct report rep = { .run.pid = 1, .procs = &proc, .procs_cnt = 1, .run.cmdline = "<script>&" };
	struct export_to to = { .labels = labels, .dev = CUDA, .report = &rep };
	struct tl_event evs[] = { op_at(1, "aten::mm", NULL, 0), block_in(TL_CREATE, 2, 1, 64, 1),
				  { .kind = TL_TOTALS, .ts_ns = 2, .pid = 1, .tid = 2, .dev = CUDA, .ptr = 512, .size = 4096 },
				  op_at(3, "aten::mm", NULL, 0) };
	const struct export_format *svg = export_format_find("trace-svg");
	struct export_ctx *c = NULL;
	char *text;
	size_t len;

	(void)state;
	evs[1].dev = CUDA;
	text = export_text("op-trace", &to, evs, 4, 0);
	assert_non_null(strstr(text, "\"created\":64,\"allocated\":512,\"reserved\":4096"));
	free(text);
	to.names = names;
	to.out = open_memstream(&text, &len);
	assert_int_equal(export_begin(svg, &c, &to), 0);
	for (int i = 0; i < 5000; i++) /* more than there are columns, and than there are marks */
		for (int k = 0; k < 4; k++)
			assert_int_equal(svg->event(c, &evs[k], 0), 0);
	for (uint64_t i = 0; i < 3000; i++)
		assert_int_equal(svg->event(c, &(struct tl_event){ .kind = TL_MARK, .version = MARK_STEP, .ts_ns = 9, .pid = 1,
								   .ptr = i }, 0), 0);
	assert_int_equal(export_end(svg, c, &rep), 0);
	fclose(to.out);
	assert_non_null(strstr(text, "<title>&lt;script&gt;&amp;</title>"));
	assert_null(strstr(text, "<script"));
	assert_non_null(strstr(text, "after each of 10000 outermost operators, highest 4.00 KiB; marks of each 4th step"));
	assert_true(len < 200000);
	free(text);
}

static uint64_t kinds; /* that a format got, a bit each */

static int note_kind(struct export_ctx *c, const struct tl_event *ev, int64_t epoch_off_ns)
{
	(void)c;
	(void)epoch_off_ns;
	kinds |= 1ull << ev->kind;
	return 0;
}

static uint64_t kinds_of(unsigned needs, const struct export_to *to)
{
	const struct export_format f = { .needs = needs, .event = note_kind };

	kinds = 0;
	for (uint8_t kind = TL_PREEXISTING; kind <= TL_TOTALS; kind++)
		assert_int_equal(export_event(&f, NULL, to, &(struct tl_event){ .kind = kind }, 0), 0);
	return kinds;
}

/* What a format does not say it knows is kept from it; what labels are made of is for none. */
static void test_kinds_of_formats(void **state)
{
	const struct export_to to = { .labels = NULL }, with_labels = { .labels = labels };
	uint64_t said = 1ull << TL_MARK | 1ull << TL_GAP | 1ull << TL_COMPILED | 1ull << TL_PINNED, all = kinds_of(~0u, &to);
	uint64_t of_labels = 1ull << TL_FINAL | 1ull << TL_NAME | 1ull << TL_LEARNED | 1ull << TL_MODULE;

	(void)state;
	assert_int_equal(all, ((2ull << TL_TOTALS) - 2) & ~of_labels);
	assert_int_equal(kinds_of(0, &to), all & ~said);
	assert_int_equal(kinds_of(EXPORT_MARKS, &to), all & ~(said & ~(1ull << TL_MARK)));
	assert_int_equal(kinds_of(EXPORT_GAPS, &to), all & ~(said & ~(1ull << TL_GAP)));
	assert_int_equal(kinds_of(EXPORT_COMPILES, &to), all & ~(said & ~(1ull << TL_COMPILED)));
	assert_int_equal(kinds_of(EXPORT_PINNED, &to), all & ~(said & ~(1ull << TL_PINNED)));
	assert_int_equal(kinds_of(~0u, &with_labels), all & ~(1ull << TL_LABEL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_op_trace, setup, teardown),
		cmocka_unit_test_setup_teardown(test_op_trace_of_a_part, setup, teardown),
		cmocka_unit_test_setup_teardown(test_trace_of_totals, setup, teardown),
		cmocka_unit_test_setup_teardown(test_torch_raw, setup, teardown),
		cmocka_unit_test_setup_teardown(test_torch_timeline, setup, teardown),
		cmocka_unit_test_setup_teardown(test_torch_needs_labels, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sums_hold, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sums_hold_when_nodes_are_late, setup, teardown),
		cmocka_unit_test_setup_teardown(test_csv_formulas, setup, teardown),
		cmocka_unit_test_setup_teardown(test_final_labels, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sorted, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flow_lines, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flow_steps, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flow_json, setup, teardown),
		cmocka_unit_test(test_gzip),
		cmocka_unit_test_setup_teardown(test_kinds_of_formats, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

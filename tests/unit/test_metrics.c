/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * docs/schema/metrics.json: every family of metrics, as a report that has everything writes them. After a change:
 * MT_GOLDEN_UPDATE=1 build/tests/test_metrics, and read the difference. tests/e2e/test_schema.py holds real jobs to it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/view_fix.h"
#include "view/metrics/metrics.h"
#include "view/outbuf.h"

#define LIST "docs/schema/metrics.json"

/* Every condition that metrics.c has for a family or a label is met. */
static char *metrics_of_everything(void)
{
	static char *labels[] = { "RANK=0",	     "POD_UID=u",	 "POD_NAME=p",
				  "POD_NAMESPACE=n", "CONTAINER_NAME=c", "CONTAINER_ID=i" };
	struct report_step_dev made = { .cats[CAT_PARAMETER] = { .mean = { 1, 1 }, .at_peak = { 1, 1 } } };
	struct point seen_last = { .live_end = 1 };
	struct report_gap gap = { .begin_ns = 1 };
	struct report_dev dev = { .live = 1, .cats[CAT_PARAMETER].at_peak = 1 };
	struct report_proc proc = { .pid = 7, .comm = "python", .labels = labels, .labels_cnt = 6, .use_ts_ns = 1 };
	struct report_lane lane = { .pid = 7, .cats[CAT_PARAMETER] = 1 };
	struct metrics_seen seen = { .cnt = 0 };
	struct metrics_opts opts = { .seen = &seen, .memory_bytes = 2, .memory_available_bytes = 1 };
	struct report r = fix_report();
	struct outbuf o;
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	dev.segs = (struct report_segments){ .seen = 1, .totals = 1, .nvml = 1, .nvml_total = 1 };
	proc.marks_cnt[MARK_STEP] = r.marks.total = 1;
	r.procs = &proc;
	r.devs = &dev;
	r.lanes.rows = &lane;
	r.procs_cnt = r.devs_cnt = r.lanes.cnt = 1;
	r.compiles.cnt = 1;
	dev.between = (struct series){ &seen_last, 1, 1 };
	seen_last.ts_ns = gap.seen_ns = gap.end_ns = r.run.end_ts_ns;
	r.sampling = (struct report_sampling){ .is_on = 1, .in_gap = 1, .gaps = &gap, .gaps_cnt = 1, .learned.is_on = 1,
					       .steps = { 2, 2, &made, 1 } };
	assert_int_equal(outbuf__init(&o, f), 0);
	metrics__write(&o, &r, &opts);
	assert_int_equal(outbuf__flush(&o), 0);
	outbuf__done(&o);
	fclose(f);
	return text;
}

/* Names of a sample's labels; all samples of a family here have the same. */
static void put_labels(FILE *f, const char *sample)
{
	const char *p = strpbrk(sample, "{ ");
	const char *sep = "";

	fputs("\"labels\": [", f);
	while (*p == '{' || *p == ',') {
		size_t len = strcspn(++p, "=");

		fprintf(f, "%s\"%.*s\"", sep, (int)len, p);
		sep = ", ";
		p = strchr(p + len + 2, '"') + 1;
	}
	fputs("]", f);
}

/* The lines "# TYPE name type", maybe "# UNIT name unit", "# HELP name help", and samples. */
static char *list_of(char *text)
{
	char *list = NULL, *type = NULL, *unit = NULL, *help = NULL;
	const char *sep = "";
	size_t len;
	FILE *f = open_memstream(&list, &len);

	fputs("{\n \"families\": [", f);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		if (!strncmp(line, "# TYPE ", 7)) {
			type = strchr(line + 7, ' ') + 1;
			unit = NULL;
		} else if (!strncmp(line, "# UNIT ", 7)) {
			unit = strchr(line + 7, ' ') + 1;
		} else if (!strncmp(line, "# HELP ", 7)) {
			help = strchr(line + 7, ' ') + 1;
		} else if (help) { /* the first sample */
			fprintf(f, "%s\n  {\"name\": \"%.*s\", \"type\": \"%s\", \"unit\": ", sep, (int)strcspn(line, "{ "),
				line, type);
			if (unit)
				fprintf(f, "\"%s\", ", unit);
			else
				fputs("null, ", f);
			put_labels(f, line);
			fprintf(f, ",\n   \"help\": \"%s\"}", help);
			sep = ",";
			help = NULL;
		}
	}
	fputs("\n ]\n}\n", f);
	fclose(f);
	return list;
}

static void test_list(void **state)
{
	char *text = metrics_of_everything(), *list = list_of(text), *want = NULL;
	size_t cap = 0;
	FILE *f;

	(void)state;
	if (getenv("MT_GOLDEN_UPDATE")) {
		f = fopen(LIST, "w");
		assert_non_null(f);
		fputs(list, f);
		fclose(f);
	}
	f = fopen(LIST, "r");
	assert_non_null(f);
	assert_true(getdelim(&want, &cap, -1, f) > 0);
	fclose(f);
	assert_string_equal(list, want);
	free(want);
	free(list);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_list) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

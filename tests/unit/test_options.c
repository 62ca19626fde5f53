/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The command line: what it takes, what it refuses and how, and that help and man page say what is
 * there. docs/memtrace.1 is made by: build/memtrace --man >docs/memtrace.1
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "cmd/options.h"
#include "cmd/options_table.h"
#include "cmd/values.h"
#include "cmd/words.h"
#include "plan/plan.h"

/* One string, split at blanks, as argv. */
static int parse(struct options *o, const char *line, struct err *err)
{
	static char copy[512], *argv[40];
	int argc = 1;

	*err = (struct err){ 0 };
	snprintf(copy, sizeof(copy), "%s", line);
	argv[0] = "memtrace";
	for (char *w = strtok(copy, " "); w && argc < 39; w = strtok(NULL, " "))
		argv[argc++] = w;
	argv[argc] = NULL;
	return options__parse(o, argc, argv, err);
}

static void test_live(void **state)
{
	struct options o;
	struct err e;

	(void)state;
	assert_int_equal(parse(&o, "-p 42", &e), 0);
	assert_int_equal(o.cmd, CMD_LIVE);
	assert_int_equal(o.pids_cnt, 1);
	assert_int_equal(o.pids[0], 42);
	assert_int_equal(o.sources, SRC_DEFAULT);
	assert_int_equal(o.max_loss, 0);
	assert_int_equal(parse(&o, "-p42 --pid=43 -vv -q -d 1.5 -o f.mtr --json --top 7 --by region --max-loss 9 "
				   "--min-size 2K --ring-size 64M --no-follow --force-perf-uprobes --no-color "
				   "--probes framework,host --usdt a:b --usdt=c:d:0=ptr", &e), 0);
	assert_int_equal(o.pids_cnt, 2);
	assert_int_equal(o.pids[1], 43);
	assert_int_equal(o.verbose, 2);
	assert_true(o.quiet && o.json && o.no_follow && o.force_perf && o.no_color);
	assert_int_equal(o.duration_ns, 1500000000);
	assert_string_equal(o.out, "f.mtr");
	assert_int_equal(o.top, 7);
	assert_int_equal(o.by, BY_REGION);
	assert_int_equal(o.max_loss, 9);
	assert_int_equal(o.min_size, 2048);
	assert_int_equal(o.ring_size, 64 << 20);
	assert_int_equal(o.sources, SRC_FRAMEWORK | SRC_HOST);
	assert_int_equal(o.usdt_cnt, 2);
	assert_string_equal(o.usdt[1], "c:d:0=ptr");
}

static void test_commands(void **state)
{
	struct options o;
	struct err e;

	(void)state;
	assert_int_equal(parse(&o, "record -o x.mtr -q -- python -c pass --json", &e), 0);
	assert_int_equal(o.cmd, CMD_RECORD);
	assert_string_equal(o.launch[0], "python");
	assert_string_equal(o.launch[3], "--json");
	assert_int_equal(o.json, 0);
	assert_int_equal(parse(&o, "report x.mtr --json", &e), 0);
	assert_int_equal(o.cmd, CMD_REPORT);
	assert_string_equal(o.file, "x.mtr");
	assert_int_equal(parse(&o, "report --json x.mtr", &e), 0);
	assert_string_equal(o.file, "x.mtr");
	assert_int_equal(parse(&o, "export x.mtr --to csv -o - --ops", &e), 0);
	assert_string_equal(o.out, "-");
	assert_string_equal(o.format, "csv");
	assert_true(o.ops);
	assert_int_equal(o.dev, -1);
	assert_false(o.labels_live);
	assert_int_equal(o.classes, CLASSES_COMPAT);
	assert_int_equal(parse(&o, "export x.mtr --to jsonl -o y --labels live --device cuda:3 --classes extended", &e), 0);
	assert_int_equal(o.dev, MT_DEV_CUDA0 + 3);
	assert_true(o.labels_live);
	assert_int_equal(o.classes, CLASSES_EXTENDED);
	assert_int_equal(parse(&o, "export x.mtr --to torch-timeline -o y.gz --labels final --device cpu", &e), 0);
	assert_int_equal(o.dev, MT_DEV_CPU);
	assert_int_equal(parse(&o, "report x.mtr --flow", &e), 0);
	assert_true(o.flow && !o.steps);
	assert_int_equal(parse(&o, "report x.mtr --flow --steps all --json", &e), 0);
	assert_true(o.steps == UINT64_MAX);
	assert_int_equal(parse(&o, "report x.mtr --flow --steps 7 --classes compat", &e), 0);
	assert_int_equal(o.steps, 7);
	assert_int_equal(parse(&o, "plan -p 1 --all", &e), 0);
	assert_int_equal(parse(&o, "estimate g.json --device cuda:0 --json --top 3", &e), 0);
	assert_int_equal(o.cmd, CMD_ESTIMATE);
	assert_string_equal(o.file, "g.json");
	assert_string_equal(o.count, "cuda:0");
	assert_int_equal(parse(&o, "doctor", &e), 0);
	assert_int_equal(parse(&o, "serve -p 1 -p 2 -o x.mtr -d 1m", &e), 0);
	assert_int_equal(o.cmd, CMD_SERVE);
	assert_string_equal(o.listen.text, LISTEN_DEFAULT);
	assert_int_equal(parse(&o, "serve -p 1 --listen [::]:80 --token-file t --allow-host a --allow-host b.c", &e), 0);
	assert_string_equal(o.token_file, "t");
	assert_int_equal(o.allow_hosts_cnt, 2);
	assert_string_equal(o.listen.text, "[::]:80");
	assert_int_equal(parse(&o, "serve -a", &e), 0);
	assert_true(o.all_jobs && !o.pids_cnt);
	assert_int_equal(parse(&o, "record -a -o x.mtr", &e), 0);
	assert_int_equal(parse(&o, "serve -a -p 1", &e), -EINVAL);
	assert_int_equal(parse(&o, "record -a -- true", &e), -EINVAL);
	assert_int_equal(parse(&o, "-a", &e), -EINVAL);
	assert_int_equal(parse(&o, "", &e), 0);
	assert_true(o.help);
	for (int c = 0; c < CMD_CNT; c++) {
		char line[64];

		snprintf(line, sizeof(line), "%s --help", command_name((enum command)c));
		assert_int_equal(parse(&o, line, &e), 0);
		assert_true(o.help);
		assert_int_equal(o.cmd, c);
	}
}

/* Each refused with a message, and where a word is given, with it in message or hint. */
static void test_refused(void **state)
{
	static const struct {
		const char *line, *word;
	} rows[] = {
		{ "--frobnicate", "--frobnicate" },
		{ "serve", "-p PID" },
		{ "serve -p 1 --listen 80", "127.0.0.1:9464" },
		{ "serve -p 1 --listen [::]:80", "--token-file" },
		{ "serve -p 1 --listen 10.0.0.1:80", "--token-file" },
		{ "serve -p 1 --socket-group root", "unix:NAME" },
		{ "serve -p 1 --listen unix:x --socket-group no-such-group", "getent" },
		{ "serve -p 1 --allow-host a:80", "without a port" },
		{ "-p 1 --listen 127.0.0.1:80", "--listen" },
		{ "record --frobnicate", "--frobnicate" },
		{ "frobnicate", "frobnicate" },
		{ "reprot x.mtr", "memtrace report" },
		{ "recrod -p 1", "memtrace record" },
		{ "report --jsno x.mtr", "--json" },
		{ "-p 12x", "12x" },
		{ "-p 0", "'0'" },
		{ "-p -1", "-1" },
		{ "-p 99999999999", "99999999999" },
		{ "-p", "-p PID" },
		{ "--json=1 -p 1", "--json" },
		{ "4242", "-p 4242" },
		{ "--json", "-p PID" },
		{ "-p 1 4242", "4242" },
		{ "-p 1 --probes framework,frob", "frob" },
		{ "-p 1 --probes segment", "segments" },
		{ "-p 1 --usdt nocolon", "PROVIDER:NAME" },
		{ "-p 1 -d -5", "-5" },
		{ "-p 1 -d 0", "'0'" },
		{ "-p 1 -d 5y", "5y" },
		{ "-p 1 -d inf", "inf" },
		{ "-p 1 --ring-size many", "many" },
		{ "-p 1 --ring-size 1", "4K" },
		{ "-p 1 --ring-size 99999999999G", "99999999999G" },
		{ "-p 1 --top 0", "--top" },
		{ "-p 1 --top x", "'x'" },
		{ "-p 1 --max-loss -1", "-1" },
		{ "-p 1 --ops", "--ops" },
		{ "report", "FILE.mtr" },
		{ "report a.mtr b.mtr", "b.mtr" },
		{ "report a.mtr --by stacks", "stacks" },
		{ "report a.mtr --by age", "category" },
		{ "diff a.mtr b.mtr --by name", "symbol or stack" },
		{ "diff a.mtr b.mtr --by process", "symbol or stack" },
		{ "-p 1 --by category --probes framework,ops", "--probes framework,flow" },
		{ "-p 1 --by module --probes framework", "--probes framework,flow" },
		{ "-p 1 --probes flow,regions", "framework" },
		{ "record -p 1 --probes flow", "framework" },
		{ "record -p 1 --stack-size 64K", "--stacks" },
		{ "record", "-p PID" },
		{ "record --", "--" },
		{ "record python x.py", "-- python" },
		{ "record -p 1 -- x", "not both" },
		{ "-p 1 -- x", "record" },
		{ "export", "FILE.mtr" },
		{ "export x.mtr -o y", "--to" },
		{ "export x.mtr --to csv", "-o OUT" },
		{ "export x.mtr --to frob -o y", "jsonl, csv" },
		{ "export x.mtr --to json -o y", "jsonl" },
		{ "export x.mtr --to csv -o y --labels best", "'best'" },
		{ "export x.mtr --to csv -o y --device gpu", "'gpu'" },
		{ "export x.mtr --to csv -o y --device cuda:64", "cuda:63" },
		{ "export x.mtr --to csv -o y --classes all", "'all'" },
		{ "export x.mtr --to torch-raw -o y --classes extended", "torch-raw" },
		{ "report x.mtr --steps 3", "--flow" },
		{ "report x.mtr --flow --by category", "--by" },
		{ "report x.mtr --by op --flow --tui", "--tui" },
		{ "report x.mtr --flow --steps 0", "--steps" },
		{ "report x.mtr --flow --steps few", "'few'" },
		{ "plan", "-p PID" },
	};
	struct options o;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int r = parse(&o, rows[i].line, &e);

		if (r >= 0 || !e.msg[0] || (!strstr(e.msg, rows[i].word) && !strstr(e.hint, rows[i].word))) {
			print_message("'%s': %d, %s, %s\n", rows[i].line, r, e.msg, e.hint);
			fail();
		}
	}
}

static void test_too_many(void **state)
{
	char *argv[2 * OPT_PIDS_MAX + 3] = { "memtrace" };
	struct err e = { 0 };
	struct options o;
	int argc = 1;

	(void)state;
	for (int i = 0; i <= OPT_PIDS_MAX; i++) {
		argv[argc++] = "-p";
		argv[argc++] = "1";
	}
	assert_int_equal(options__parse(&o, argc, argv, &e), -EINVAL);
	assert_int_equal(o.pids_cnt, OPT_PIDS_MAX);
}

static void test_sizes(void **state)
{
	static const struct {
		const char *text;
		uint64_t want;
	} good[] = { { "0", 0 },	   { "4096", 4096 },   { "1K", 1024 },	      { "1.5k", 1536 },
		     { "64M", 64 << 20 }, { "64MiB", 64 << 20 }, { "2GB", 2ull << 30 }, { "1T", 1ull << 40 } };
	static const char *const bad[] = { "", "K", ".5", "-1", "+1", "1e3", "0x10", "inf", "nan", "1KK", "1 K", "1.2.3",
					   "99999999999999999999", "16777216T", "1Kx" };
	uint64_t v = 7;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(parse_size(good[i].text, &v, NULL), 0);
		assert_int_equal(v, good[i].want);
	}
	v = 7;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		e = (struct err){ 0 };
		assert_int_equal(parse_size(bad[i], &v, &e), -EINVAL);
		assert_true(e.msg[0] && e.hint[0]);
		assert_int_equal(v, 7);
	}
}

static void test_durations(void **state)
{
	static const struct {
		const char *text;
		uint64_t want;
	} good[] = { { "10", 10000000000 }, { "0.5", 500000000 }, { "500ms", 500000000 },
		     { "2s", 2000000000 },  { "3m", 180000000000 }, { "1h", 3600000000000 } };
	static const char *const bad[] = { "", "s", ".5", "-1", "1d", "1 s", "1e3", "ms", "9999999999999h" };
	uint64_t v;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(parse_duration(good[i].text, &v, NULL), 0);
		assert_int_equal(v, good[i].want);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(parse_duration(bad[i], &v, NULL), -EINVAL);
}

static void test_nearest(void **state)
{
	struct nearest n;

	(void)state;
	nearest__init(&n, "exprot");
	nearest__try(&n, "export");
	nearest__try(&n, "report");
	assert_string_equal(nearest__get(&n), "export");
	nearest__init(&n, "rec");
	nearest__try(&n, "report");
	nearest__try(&n, "record");
	assert_string_equal(nearest__get(&n), "record");
	nearest__init(&n, "zzz");
	nearest__try(&n, "export");
	assert_null(nearest__get(&n));
	nearest__init(&n, "an overlong word that no table of words would ever hold");
	nearest__try(&n, "export");
	assert_null(nearest__get(&n));
}

static char *text_of(void (*write)(FILE *f, enum command c), enum command c)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	write(f, c);
	fclose(f);
	return text;
}

static void test_help(void **state)
{
	(void)state;
	for (int c = 0; c < CMD_CNT; c++) {
		char *help = text_of(options_help, (enum command)c);

		for (const struct option_def *d = option_defs; d->name; d++)
			if (d->cmds & (1u << c))
				assert_non_null(strstr(help, d->name));
		assert_non_null(strstr(help, "Examples:"));
		assert_non_null(strstr(help, "Exit codes:"));
		for (char *line = strtok(help, "\n"); line; line = strtok(NULL, "\n"))
			assert_true(strlen(line) <= 84); /* bytes; 80 columns */
		free(help);
	}
	/* Nothing twice: a name or letter means one thing a command. */
	for (const struct option_def *a = option_defs; a->name; a++)
		for (const struct option_def *b = a + 1; b->name; b++)
			if (a->cmds & b->cmds) {
				assert_string_not_equal(a->name, b->name);
				assert_false(a->letter && a->letter == b->letter);
			}
}

static void write_man(FILE *f, enum command unused)
{
	(void)unused;
	options_man(f, MT_VERSION);
}

static void test_man_page_is_current(void **state)
{
	char *want = text_of(write_man, CMD_LIVE), *have = NULL;
	FILE *f = fopen("docs/memtrace.1", "r");
	size_t cap = 0;

	(void)state;
	assert_non_null(f);
	assert_true(getdelim(&have, &cap, -1, f) > 0);
	fclose(f);
	if (strcmp(want, have))
		print_message("docs/memtrace.1 is old: build/memtrace --man >docs/memtrace.1\n");
	assert_string_equal(have, want);
	free(want);
	free(have);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_live),	  cmocka_unit_test(test_commands),
		cmocka_unit_test(test_refused),	  cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_sizes),	  cmocka_unit_test(test_durations),
		cmocka_unit_test(test_nearest),	  cmocka_unit_test(test_help),
		cmocka_unit_test(test_man_page_is_current),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

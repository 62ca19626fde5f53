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
#include <sys/stat.h>
#include <unistd.h>

#include <math.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/options_table.h"
#include "cmd/values.h"
#include "cmd/words.h"
#include "memtrace/shared.h"
#include "plan/plan.h"
#include "view/view.h"

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

/* The live view and serve have a budget that nobody asked for; record has none, nor who has said something else. */
static void test_own_budget(void **state)
{
	static const char *const with[] = { "-p 42", "serve -p 42", "--name x", "-a", "serve -a -o x.mtr", "-p 42 --steps 5",
					    "-p 42 --probes host", "-p 42 --align 100", "-p 42 -d 5 --json",
					    "-p 42 --between blocks" };
	static const char *const without[] = { "record -p 42", "record -- true", "-p 42 --max-overhead none",
					       "-p 42 --keep-idle",
					       "-p 42 --steps 3 --every 60s", "serve -p 42 --probes kernel,segments,regions",
					       "report x.mtr", "plan -p 1", "-p 42 --steps 3 --every 1s --between blocks" };
	struct options o;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(with) / sizeof(*with); i++) {
		assert_int_equal(parse(&o, with[i], &e), 0);
		assert_true(o.is_budget_own && o.max_overhead == 0.02);
	}
	for (size_t i = 0; i < sizeof(without) / sizeof(*without); i++) {
		assert_int_equal(parse(&o, without[i], &e), 0);
		assert_true(!o.is_budget_own && o.max_overhead == 0);
	}
	assert_int_equal(parse(&o, "-p 42 --max-overhead 2", &e), 0);
	assert_true(!o.is_budget_own && o.max_overhead == 0.02);
	assert_int_equal(parse(&o, "record -p 42 --max-overhead 2 --between blocks", &e), 0);
	assert_true(o.max_overhead == 0.02 && o.between == BETWEEN_BLOCKS);
	assert_true(parse(&o, "record -p 42 --steps 3 --every 9s --between auto", &e) < 0 && strstr(e.msg, "--max-overhead"));
	assert_true(parse(&o, "record -p 42 --between all", &e) < 0 && strstr(e.msg, "watch, blocks or auto"));
	assert_int_equal(parse(&o, "record -p 42 --max-overhead 2 --align 1000", &e), 0);
	assert_true(o.align_steps == 1000 && !o.align_ns);
	assert_int_equal(parse(&o, "record -p 42 --steps 3 --every 10s --align 30s", &e), 0);
	assert_true(!o.align_steps && o.align_ns == 30000000000ull);
	assert_int_equal(parse(&o, "merge a b -o c --align clock", &e), 0); /* of merge it is something else */
	assert_true(o.align_clock && !o.align_steps && !o.align_ns);
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
	assert_int_equal(parse(&o, "-p 42 --max-overhead 2% --steps 5", &e), 0);
	assert_true(o.max_overhead > 0.0199 && o.max_overhead < 0.0201 && o.steps == 5 && !o.every_ns);
	assert_int_equal(parse(&o, "-p 42 --max-overhead 2 --max-overhead 0.01", &e), 0); /* the last word counts */
	assert_true(fabs(o.max_overhead - 0.0001) < 1e-12);
	assert_int_equal(parse(&o, "-p 42 --max-overhead 100", &e), 0);
	assert_true(o.max_overhead == 1);
	assert_int_equal(parse(&o, "serve -p 42 --max-overhead 2 --max-overhead none", &e), 0);
	assert_true(o.max_overhead == 0);
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

static void parts_of_a_recording(void **state)
{
	struct options o;
	struct err e;

	(void)state;
	assert_int_equal(parse(&o, "report a.mtr --at step:100 --rank 3 --module b --category gradient --sort blocks", &e), 0);
	assert_true(o.at.kind == WHEN_STEP && o.at.num == 100 && o.rank == 3 && o.category == CAT_GRADIENT);
	assert_int_equal(parse(&o, "report a.mtr --from 300ms --to peak -p 7 --device cpu --op mm", &e), 0);
	assert_true(o.from.kind == WHEN_TIME && o.from.num == 300000000 && o.to.kind == WHEN_PEAK && o.pids[0] == 7);
	assert_int_equal(parse(&o, "export a.mtr --to csv --until 1.5s", &e), 0);
	assert_true(o.to.kind == WHEN_TIME && o.to.num == 1500000000 && !strcmp(o.format, "csv") && o.rank == -1 && !o.at.kind);
	assert_int_equal(parse(&o, "report a.mtr --at step", &e), -EINVAL);
	assert_int_equal(parse(&o, "report a.mtr --at -1s", &e), -EINVAL);
	assert_int_equal(parse(&o, "report a.mtr --at 1s --from 2s", &e), -EINVAL);
	assert_int_equal(parse(&o, "report a.mtr --rank 1 --pid 2", &e), -EINVAL);
	assert_int_equal(parse(&o, "report a.mtr --at peak --by symbol", &e), -EINVAL);
	assert_int_equal(parse(&o, "report a.mtr --pid 3 --by symbol", &e), 0);
	assert_true(is_of_processes(&o));
	assert_int_equal(parse(&o, "report a.mtr --rank 3 --by module --phase forward", &e), 0);
	assert_true(is_of_processes(&o));
	assert_int_equal(parse(&o, "report a.mtr --pid 3 --by module", &e), 0);
	assert_false(is_of_processes(&o));
	assert_int_equal(parse(&o, "report a.mtr --by stack --csv", &e), -EINVAL);
	assert_int_equal(parse(&o, "report a.mtr --at peak --by stack --csv", &e), 0);
	assert_int_equal(parse(&o, "report a.mtr --sort size", &e), -EINVAL);
}

static void order_of_an_export(void **state)
{
	struct options o;
	struct err e;

	(void)state;
	assert_int_equal(parse(&o, "export a.mtr --sort size --to csv --at peak", &e), 0);
	assert_string_equal(o.sort, "size");
	assert_int_equal(parse(&o, "export a.mtr --to folded --sort stack", &e), 0);
	assert_int_equal(parse(&o, "export a.mtr --to jsonl --sort time", &e), 0);
	assert_int_equal(parse(&o, "export a.mtr --to jsonl --sort bytes", &e), -EINVAL);
	assert_non_null(strstr(e.hint, "time, size, op, module, name"));
	assert_int_equal(parse(&o, "export a.mtr --to folded --sort size", &e), -EINVAL);
	assert_non_null(strstr(e.hint, "seen, bytes, stack"));
	assert_int_equal(parse(&o, "export a.mtr --to csv --sort=", &e), -EINVAL);
	assert_int_equal(parse(&o, "export a.mtr --to csv --sort siz", &e), -EINVAL);
	assert_int_equal(parse(&o, "export a.mtr --to csv --sort name --labels live", &e), -EINVAL);
	for (const struct export_format *const *f = export_formats(); *f; f++) {
		char line[100];

		if ((*f)->sorts)
			continue;
		snprintf(line, sizeof(line), "export a.mtr -o x --to %s --sort size", (*f)->name);
		assert_int_equal(parse(&o, line, &e), -EINVAL);
		assert_non_null(strstr(e.msg, (*f)->name));
		assert_non_null(strstr(e.hint, "jsonl, csv and folded"));
	}
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
	assert_int_equal(parse(&o, "check a.mtr --max-peak 20G --device cuda:1 --category activation --md", &e), 0);
	assert_true(o.cmd == CMD_CHECK && o.max_peak == 20ull << 30 && o.dev == MT_DEV_CUDA0 + 1 && o.md);
	assert_int_equal(o.category, CAT_ACTIVATION);
	assert_int_equal(parse(&o, "mcp a.mtr folder", &e), 0);
	assert_true(o.cmd == CMD_MCP && o.files_cnt == 2);
	assert_int_equal(parse(&o, "diff a.mtr b.mtr -o x.html --force", &e), 0);
	assert_true(!strcmp(o.out, "x.html") && o.force);
	assert_int_equal(parse(&o, "diff a.mtr b.mtr --by module --fail-if peak+7.5%", &e), 0);
	assert_true(o.fail_share > 0.0749 && o.fail_share < 0.0751 && !o.fail_bytes);
	assert_int_equal(parse(&o, "diff a.mtr b.mtr --fail-if peak+2M", &e), 0);
	assert_true(o.fail_share == 0 && o.fail_bytes == 2 << 20);
	assert_int_equal(parse(&o, "diff a.mtr b.mtr", &e), 0);
	assert_true(o.fail_share < 0);
	assert_int_equal(parse(&o, "ps --json --all", &e), 0);
	assert_true(o.cmd == CMD_PS && o.json && o.all);
	assert_int_equal(parse(&o, "record --name train.py --name b -o x.mtr", &e), 0);
	assert_true(o.names_cnt == 2 && !o.pids_cnt);
	assert_int_equal(parse(&o, "serve -a --name x", &e), -EINVAL);
	assert_int_equal(parse(&o, "serve -a -p 1", &e), -EINVAL);
	assert_int_equal(parse(&o, "record -a -- true", &e), -EINVAL);
	assert_int_equal(parse(&o, "-a", &e), 0); /* the live view, too */
	assert_true(o.all_jobs && o.cmd == CMD_LIVE);
	assert_int_equal(parse(&o, "plan -a", &e), -EINVAL);
	assert_int_equal(parse(&o, "", &e), 0);
	assert_true(o.help && o.is_bare);
	assert_string_equal(flow_layout_of("2.13.0+cpu"), "2.4 to 2.15");
	assert_string_equal(flow_layout_of("1.13"), "1.13");
	assert_null(flow_layout_of("2.16.0"));
	assert_null(flow_layout_of("2.3.9"));
	assert_null(flow_layout_of("abc"));
	for (int c = 0; c < CMD_CNT; c++) {
		char line[64];

		snprintf(line, sizeof(line), "%s --help", command_name((enum command)c));
		assert_int_equal(parse(&o, line, &e), 0);
		assert_true(o.help);
		assert_int_equal(o.cmd, c);
	}
}

static void test_one_of_several_jobs(void **state)
{
	struct options o;
	struct err e;

	(void)state;
	assert_int_equal(parse(&o, "diff a.mtr b.mtr --pid 1,2 -p 3", &e), 0);
	assert_true(o.pids_cnt == 2 && o.pids[0] == 1 && o.pids_b[0] == 2 && o.pids[1] == 3 && o.pids_b[1] == 3);
	assert_int_equal(parse(&o, "report a.mtr --pid 1 --leaks", &e), 0);
	assert_int_equal(parse(&o, "report a.mtr --rank 1 --tui", &e), 0);
	assert_int_equal(parse(&o, "report a.mtr --pid 1 --flow --steps 1", &e), 0);
}

static void test_words_about_it(void **state)
{
	struct options o;
	struct err e;

	(void)state;
	assert_int_equal(parse(&o, "help", &e), 0);
	assert_true(o.help && o.cmd == CMD_LIVE);
	assert_int_equal(parse(&o, "help diff", &e), 0);
	assert_true(o.help && o.cmd == CMD_DIFF);
	assert_int_equal(parse(&o, "help exprot", &e), -EINVAL);
	assert_non_null(strstr(e.hint, "memtrace export"));
	assert_int_equal(parse(&o, "help diff report", &e), -EINVAL);
	assert_int_equal(parse(&o, "hlep", &e), -EINVAL);
	assert_non_null(strstr(e.hint, "memtrace help"));
	assert_int_equal(parse(&o, "version", &e), 0);
	assert_true(o.version);
	assert_int_equal(parse(&o, "version 2", &e), -EINVAL);
	assert_int_equal(parse(&o, "-V", &e), 0);
	assert_true(o.version);
	assert_int_equal(parse(&o, "report -V", &e), 0);
	assert_true(o.version);
	assert_int_equal(parse(&o, "report -", &e), 0);
	assert_string_equal(o.file, "-");
}

/* Each refused with a message, and where a word is given, with it in message or hint. */
struct refused {
	const char *line, *word;
};

static void refuses(const struct refused *rows, size_t cnt)
{
	struct options o;
	struct err e;

	for (size_t i = 0; i < cnt; i++) {
		int r = parse(&o, rows[i].line, &e);

		if (r >= 0 || !e.msg[0] || (!strstr(e.msg, rows[i].word) && !strstr(e.hint, rows[i].word))) {
			print_message("'%s': %d, %s, %s\n", rows[i].line, r, e.msg, e.hint);
			fail();
		}
	}
}

static void test_refused(void **state)
{
	static const struct refused rows[] = {
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
		{ "train.py", "memtrace --name train.py" },
		{ "reprot x.mtr", "memtrace report" },
		{ "job.mtr", "memtrace report job.mtr" },
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
		{ "diff a.mtr b.mtr --by process", "symbol or stack" },
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
		{ "export x.mtr --to pprof", "-o OUT" },
		{ "export x.mtr --to frob -o y", "jsonl, csv" },
		{ "export x.mtr --to json -o y", "jsonl" },
		{ "export x.mtr --to csv -o y --labels best", "'best'" },
		{ "export x.mtr --to csv -o y --device gpu", "'gpu'" },
		{ "export x.mtr --to csv -o y --device cuda:64", "cuda:63" },
		{ "export x.mtr --to csv -o y --classes all", "'all'" },
		{ "export x.mtr --to torch-raw -o y --classes extended", "torch-raw" },
		{ "report x.mtr --steps 3", "--flow" },
		{ "record -p 1 --steps 3", "--max-overhead" },
		{ "record -p 1 --align 100", "--max-overhead" },
		{ "-p 1 --align 0", "nothing" },
		{ "-p 1 --align rank", "'rank'" },
		{ "-p 1 --every 3s", "--steps" },
		{ "record -p 1 --between blocks", "--max-overhead" },
		{ "-p 1 --max-overhead none --between blocks", "--between" },
		{ "-p 1 --max-overhead 2 --keep-idle", "--keep-idle" },
		{ "-p 1 --max-overhead 0", "'0'" },
		{ "-p 1 --max-overhead 0", "--max-overhead none" },
		{ "-p 1 --max-overhead -1", "'-1'" },
		{ "-p 1 --max-overhead 100.1", "'100.1'" },
		{ "-p 1 --max-overhead nan", "'nan'" },
		{ "-p 1 --max-overhead 2 --max-overhead 0", "'0'" },
		{ "-p 1 --max-overhead some", "'some'" },
		{ "report x.mtr --flow --by category", "--by" },
		{ "report x.mtr --by op --flow --tui", "--tui" },
		{ "report x.mtr --flow --steps 0", "--steps" },
		{ "report x.mtr --flow --steps few", "'few'" },
		{ "plan", "-p PID" },
	};

	(void)state;
	refuses(rows, sizeof(rows) / sizeof(rows[0]));
}

static void test_refused_gates(void **state)
{
	static const struct refused rows[] = {
		{ "diff a.mtr b.mtr --fail-if peak", "peak+5%" },
		{ "diff a.mtr b.mtr --fail-if peak+%", "peak+5%" },
		{ "diff a.mtr b.mtr --fail-if peak+5x%", "peak+5%" },
		{ "diff a.mtr b.mtr --fail-if live+5%", "peak+5%" },
		{ "diff a.mtr b.mtr --json --md", "--md" },
		{ "diff a.mtr b.mtr -o x.html --md", "-o writes a page" },
		{ "mcp", "which recordings?" },
		{ "mcp -", "'-'" },
		{ "diff a.mtr b.mtr --pid 1,", "'' is not a process id" },
		{ "diff a.mtr b.mtr --pid ,1", "'' is not a process id" },
		{ "diff a.mtr b.mtr --pid 1,2,3", "'2,3' is not a process id" },
		{ "diff a.mtr b.mtr --pid 1 --rank 0", "both name processes" },
		{ "check a.mtr --max-peak 1G --pid 1,2", "'1,2' is not a process id" },
		{ "estimate a.mtr --pid 1,2", "two recordings" },
		{ "report a.mtr --pid 1 --leaks --at peak", "another view" },
		{ "check a.mtr", "--max-peak" },
		{ "check --max-peak 1G", "FILE.mtr" },
		{ "check a.mtr --max-peak 0", "limit" },
		{ "check a.mtr --max-peak 1G --category x", "docs/categories.md" },
	};

	(void)state;
	refuses(rows, sizeof(rows) / sizeof(rows[0]));
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
		     { "2s", 2000000000 },  { "3m", 180000000000 }, { "1h", 3600000000000 },
		     { "4.220106873s", 4220106873 } /* a nanosecond less as a double */ };
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
	nearest__init(&n, "--bt");
	nearest__try(&n, "--at");
	nearest__try(&n, "--by");
	assert_string_equal(nearest__get(&n), "--by");
	nearest__init(&n, "rec");
	nearest__try(&n, "report");
	nearest__try(&n, "record");
	assert_string_equal(nearest__get(&n), "record");
	nearest__init(&n, "--foo"); /* two of three letters are other ones */
	nearest__try(&n, "--top");
	nearest__try(&n, "--flow");
	assert_null(nearest__get(&n));
	nearest__init(&n, "--tpo");
	nearest__try(&n, "--top");
	assert_string_equal(nearest__get(&n), "--top");
	nearest__init(&n, "--classe");
	nearest__try(&n, "--leaks");
	nearest__try(&n, "--classes");
	assert_string_equal(nearest__get(&n), "--classes");
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

/* Of each command those that it can end with. */
static const char *const codes_of[CMD_CNT] = {
	[CMD_LIVE] = "01234",	  [CMD_RECORD] = "01234N", [CMD_REPORT] = "0123", [CMD_EXPORT] = "0123", [CMD_DIFF] = "01235",
	[CMD_MERGE] = "012",	  [CMD_ESTIMATE] = "0123", [CMD_PLAN] = "012",	  [CMD_DOCTOR] = "012",	 [CMD_SERVE] = "01234",
	[CMD_PS] = "012",	  [CMD_COMPLETION] = "012", [CMD_CHECK] = "01235", [CMD_MCP] = "012",
};

static void check_codes(const char *help, const char *want)
{
	const char *p = strstr(help, "\nExit codes:\n");
	char got[16] = "";
	size_t n = 0;

	assert_non_null(p);
	for (p = strchr(p + 1, '\n') + 1; !strncmp(p, "  ", 2) && n + 1 < sizeof(got); p = strchr(p, '\n') + 1)
		got[n++] = p[2];
	assert_string_equal(got, want);
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
		check_codes(help, codes_of[c]);
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

static void write_completion(FILE *f, enum command which)
{
	static const char *const shells[] = { "bash", "zsh", "fish" };

	assert_int_equal(completion_write(f, shells[which]), 0);
}

/* Each option of each command is in each script, and what is offered as a value is one. */
static void test_completions(void **state)
{
	static struct options o;
	char line[200], copy[200];
	struct err e;

	(void)state;
	for (int shell = 0; shell < 3; shell++) {
		char *text = text_of(write_completion, (enum command)shell);

		for (const struct option_def *d = option_defs; d->name; d++)
			assert_non_null(strstr(text, d->name + 2));
		for (int c = CMD_LIVE + 1; c < CMD_CNT; c++)
			assert_non_null(strstr(text, command_name((enum command)c)));
		free(text);
	}
	for (const struct option_def *d = option_defs; d->name; d++) {
		if (!d->words)
			continue;
		snprintf(copy, sizeof(copy), "%s", d->words);
		for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
			o = (struct options){ .cmd = (enum command)__builtin_ctz(d->cmds) };
			assert_int_equal(d->parse(&o, word, &e), 0);
		}
		o = (struct options){ .cmd = (enum command)__builtin_ctz(d->cmds) };
		snprintf(line, sizeof(line), "%.100sx", d->words);
		if (strcmp(d->name, "--device") || !(d->cmds & 1u << CMD_ESTIMATE)) /* a graph's own names */
			assert_int_equal(d->parse(&o, line, &e), -EINVAL);
	}
	assert_int_equal(completion_write(NULL, "tcsh"), -EINVAL);
	assert_int_equal(parse(&o, "completion zsh", &e), 0);
	assert_int_equal(parse(&o, "completion", &e), -EINVAL);
	assert_int_equal(parse(&o, "completion tcsh", &e), -EINVAL);
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

/* --- files of defaults ------------------------------------------------------------------------------------ */

static char config_dir[] = "/tmp/memtrace-options-XXXXXX", config_path[96];

static void write_config(const char *text)
{
	FILE *f;

	if (!config_path[0]) {
		char sub[64];

		assert_non_null(mkdtemp(config_dir));
		snprintf(sub, sizeof(sub), "%s/memtrace", config_dir);
		assert_int_equal(mkdir(sub, 0700), 0);
		snprintf(config_path, sizeof(config_path), "%s/config", sub);
		assert_int_equal(setenv("XDG_CONFIG_HOME", config_dir, 1), 0);
	}
	f = fopen(config_path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void drop_config(struct options *o)
{
	for (unsigned i = 0; i < o->config_cnt; i++)
		free(o->config[i]);
}

/* Parses with that file there. */
static int parse_with(struct options *o, const char *text, const char *line, struct err *e)
{
	int r;

	write_config(text);
	r = parse(o, line, e);
	drop_config(o);
	return r;
}

static void test_config(void **state)
{
	struct options o;
	struct err e;

	(void)state;
	unsetenv("SUDO_UID"); /* of who runs the tests */
	assert_int_equal(parse_with(&o, "# mine\n\n max-overhead = 5 \ntop=7\nno-color = yes\nquiet = no\nstacks = python\n"
				    "by = module\nstack-size = 2M\n", "-p 42 --top 9", &e), 0);
	assert_true(o.max_overhead > 0.049 && o.max_overhead < 0.051);
	assert_int_equal(o.top, 9); /* what is typed wins */
	assert_true(o.no_color && !o.quiet);
	assert_int_equal(o.stacks, MT_STACKS_PYTHON);
	assert_int_equal(o.stack_size, 2 << 20);
	assert_int_equal(o.by, BY_MODULE);
	assert_int_equal(parse_with(&o, "by = module\nmax-overhead = 5\n", "report a.mtr --leaks", &e), 0); /* no wish */
	assert_int_equal(parse_with(&o, "json = yes\nstack-size = 2M\n", "-p 42", &e), 0);
	assert_true(o.json);
	assert_int_equal(parse_with(&o, "json = yes\n", "-p 42 --no-config", &e), 0);
	assert_false(o.json);
	assert_int_equal(parse_with(&o, "json = yes\n", "completion bash", &e), 0);
	assert_int_equal(parse_with(&o, "jsn = yes\n", "--help", &e), 0); /* help is there whatever the file says */
	assert_int_equal(parse_with(&o, "quiet = no", "", &e), 0); /* the last line has no end */
	assert_int_equal(setenv("SUDO_UID", "1000", 1), 0);
	assert_int_equal(parse_with(&o, "json = yes\n", "-p 42", &e), 0);
	assert_int_equal(o.json, geteuid() != 0); /* root reads no file that another's environment names */
	assert_int_equal(parse_with(&o, "root:$6$secret\n", "-p 42", &e), geteuid() ? -EINVAL : 0);
	unsetenv("SUDO_UID");
}

static void wrong_config(const char *text, const char *said, const char *hint)
{
	char line[300];
	struct options o;
	struct err e;

	assert_int_equal(parse_with(&o, text, "-p 42", &e), -EINVAL);
	snprintf(line, sizeof(line), "%s:%s", config_path, said);
	assert_string_equal(e.msg, line);
	assert_non_null(strstr(e.hint, hint));
}

static void test_wrong_config(void **state)
{
	(void)state;
	wrong_config("json = yes\n\nmax-overhed = 5\n", "3: unknown option 'max-overhed'", "did you mean max-overhead?");
	wrong_config("json\n", "1: no '=' in 'json'", "option = yes");
	wrong_config("json = maybe\n", "1: yes or no, not 'maybe'", "json = yes is --json");
	wrong_config("pid = 42\n", "1: only on the command line: 'pid'", "one run");
	wrong_config("output = /etc/passwd\n", "1: only on the command line: 'output'", "one run");
	wrong_config("top = many\n", "1: top: 'many' is not a number from 0 to 1000000", "");
	wrong_config(" = 5\n", "1: unknown option ''", "");
}

/* A default table is no wish: where there is none such, it is the usual one. */
static void test_default_table(void **state)
{
	static const struct {
		const char *by, *args;
	} none[] = { { "module", "-p 42 --probes framework" }, { "category", "-p 42 --probes framework" },
		     { "rank", "-p 42" }, { "rank", "report a.mtr --rank 2" }, { "process", "diff a.mtr b.mtr" },
		     { "stack", "report a.mtr --csv" }, { "symbol", "report a.mtr --at peak" } };
	struct options o;
	char line[40];
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
		snprintf(line, sizeof(line), "by = %s\n", none[i].by);
		assert_int_equal(parse_with(&o, line, none[i].args, &e), 0);
		assert_int_equal(o.by, BY_OP);
	}
	assert_int_equal(parse_with(&o, "by = module\n", "-p 42 --probes framework --by module", &e), -EINVAL);
	assert_int_equal(parse_with(&o, "by = symbol\n", "report a.mtr --pid 3", &e), 0);
	assert_int_equal(o.by, BY_SYMBOL);
}

/* One of two options that do not go together was typed: the hint says where the other one is. */
static void test_config_and_typed(void **state)
{
	struct options o;
	struct err e;

	(void)state;
	assert_int_equal(parse_with(&o, "json = yes\n", "report a.mtr --csv", &e), -EINVAL);
	assert_non_null(strstr(e.msg, "--json is about another view"));
	assert_non_null(strstr(e.hint, "--no-config"));
	assert_int_equal(parse_with(&o, "json = yes\n", "report a.mtr --csv --no-config", &e), 0);
	assert_int_equal(parse_with(&o, "top = 5\n", "report a.mtr --csv --json", &e), -EINVAL);
	assert_null(strstr(e.hint, "--no-config"));
}

/* What others could have written decides nothing. */
static void test_config_of_others(void **state)
{
	struct options o;
	struct err e;

	(void)state;
	write_config("json = yes\n");
	assert_int_equal(chmod(config_path, 0664), 0);
	assert_int_equal(parse(&o, "-p 42", &e), 0);
	assert_false(o.json);
	assert_int_equal(chmod(config_path, 0646), 0);
	assert_int_equal(parse(&o, "-p 42", &e), 0);
	assert_false(o.json);
	assert_int_equal(chmod(config_path, 0600), 0);
	if (!geteuid()) {
		assert_int_equal(chown(config_path, 1000, 1000), 0);
		assert_int_equal(parse(&o, "-p 42", &e), 0);
		assert_false(o.json);
		assert_int_equal(chown(config_path, 0, 0), 0);
	}
	assert_int_equal(parse(&o, "-p 42", &e), 0);
	assert_true(o.json);
	drop_config(&o);
	unlink(config_path);
	assert_int_equal(mkfifo(config_path, 0600), 0); /* nobody waits for one who writes */
	assert_int_equal(parse(&o, "-p 42", &e), 0);
	unlink(config_path);
	unsetenv("XDG_CONFIG_HOME");
	*strrchr(config_path, '/') = '\0';
	rmdir(config_path);
	rmdir(config_dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_config), cmocka_unit_test(test_wrong_config), cmocka_unit_test(test_config_and_typed),
		cmocka_unit_test(test_default_table),
		cmocka_unit_test(test_config_of_others),
		cmocka_unit_test(test_live), cmocka_unit_test(test_own_budget),	  cmocka_unit_test(test_commands),
		cmocka_unit_test(test_one_of_several_jobs), cmocka_unit_test(test_words_about_it),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_refused_gates),	  cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_sizes),	  cmocka_unit_test(test_durations),
		cmocka_unit_test(test_completions),
		cmocka_unit_test(test_nearest),	  cmocka_unit_test(test_help),
		cmocka_unit_test(parts_of_a_recording), cmocka_unit_test(order_of_an_export),
		cmocka_unit_test(test_man_page_is_current),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

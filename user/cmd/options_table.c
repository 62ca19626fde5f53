/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "cmd/options_table.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "memtrace/shared.h"
#include "record/window.h"
#include "cmd/values.h"
#include "cmd/words.h"
#include "event/event.h"
#include "plan/plan.h"

#define STEPS_MAX 1000000

/* --- parsers --------------------------------------------------------------------------------------- */

static int parse_pid(const char *value, pid_t *ret, struct err *err)
{
	uint64_t pid;

	if (parse_number(value, INT32_MAX, &pid, NULL) || !pid) {
		err_set(err, -EINVAL, "'%.100s' is not a process id", value);
		return err_hint(err, "a number; memtrace ps lists the processes with PyTorch, --name train.py finds one");
	}
	*ret = (pid_t)pid;
	return 0;
}

static int add_pid(struct options *o, const char *pid, const char *pid_b, struct err *err)
{
	int r;

	if (o->pids_cnt == OPT_PIDS_MAX)
		return err_set(err, -EINVAL, "more than %d processes", OPT_PIDS_MAX);
	r = parse_pid(pid, &o->pids[o->pids_cnt], err);
	if (!r)
		r = parse_pid(pid_b, &o->pids_b[o->pids_cnt], err);
	o->pids_cnt += !r;
	return r;
}

static int on_pid(struct options *o, const char *value, struct err *err)
{
	return add_pid(o, value, value, err);
}

/* "12,34": of two recordings, in which the same job has two pids. */
static int on_pid_of_each(struct options *o, const char *value, struct err *err)
{
	const char *second = strchr(value, ',');
	char first[32];

	snprintf(first, sizeof(first), "%.*s", (int)strcspn(value, ","), value);
	return add_pid(o, first, second ? second + 1 : value, err);
}

static int on_name(struct options *o, const char *value, struct err *err)
{
	if (!value[0] || strchr(value, ' ')) {
		err_set(err, -EINVAL, "'%.100s' is no word of a command line", value);
		return err_hint(err, "one of its words, such as train.py; memtrace ps shows them");
	}
	if (o->names_cnt == OPT_NAMES_MAX)
		return err_set(err, -EINVAL, "more than %d names", OPT_NAMES_MAX);
	o->names[o->names_cnt++] = value;
	return 0;
}

static int on_duration(struct options *o, const char *value, struct err *err)
{
	int r = parse_duration(value, &o->duration_ns, err);

	return !r && !o->duration_ns ? err_set(err, -EINVAL, "'%.100s' is no time at all", value) : r;
}

static int on_out(struct options *o, const char *value, struct err *err)
{
	if (!value[0])
		return err_set(err, -EINVAL, "an empty file name");
	if (!strcmp(value, "-") && o->cmd != CMD_EXPORT) { /* frames are written again where a disk was full */
		err_set(err, -EINVAL, "a recording is a file, it is not written to a stream");
		return err_hint(err, "-o FILE.mtr; a file of that very name is ./-");
	}
	o->out = value;
	return 0;
}

static int on_listen(struct options *o, const char *value, struct err *err)
{
	return listen_parse(value, &o->listen, err);
}

static int on_token_file(struct options *o, const char *value, struct err *err)
{
	if (!value[0])
		return err_set(err, -EINVAL, "an empty file name");
	o->token_file = value;
	return 0;
}

static int on_allow_host(struct options *o, const char *value, struct err *err)
{
	if (!host_is_name(value)) {
		err_set(err, -EINVAL, "'%.100s' is not the name of a host", value);
		return err_hint(err, "as it stands in the URL, without a port: --allow-host node1.example.org");
	}
	if (o->allow_hosts_cnt == GATE_HOSTS_MAX)
		return err_set(err, -EINVAL, "more than %d names of hosts", GATE_HOSTS_MAX);
	o->allow_hosts[o->allow_hosts_cnt++] = value;
	return 0;
}

static int on_socket_group(struct options *o, const char *value, struct err *err)
{
	const struct group *g = getgrnam(value);

	if (!g) {
		err_set(err, -EINVAL, "there is no group '%.100s'", value);
		return err_hint(err, "getent group lists them");
	}
	o->socket_group = g->gr_gid;
	o->has_socket_group = 1;
	return 0;
}

static int on_probes(struct options *o, const char *value, struct err *err)
{
	int r = sources_parse(value, &o->sources, err);

	if (!r && !o->sources)
		r = err_set(err, -EINVAL, "no source named");
	return r;
}

static int on_usdt(struct options *o, const char *value, struct err *err)
{
	if (!strchr(value, ':')) {
		err_set(err, -EINVAL, "'%.100s' is not PROVIDER:NAME", value);
		return err_hint(err, "such as --usdt pytorch:malloc, --usdt 'myalloc:new:0=ptr,1=size'");
	}
	if (o->usdt_cnt == OPT_USDT_MAX)
		return err_set(err, -EINVAL, "more than %d USDT probes", OPT_USDT_MAX);
	o->usdt[o->usdt_cnt++] = value;
	return 0;
}

static int on_min_size(struct options *o, const char *value, struct err *err)
{
	return parse_size(value, &o->min_size, err);
}

static int on_stacks(struct options *o, const char *value, struct err *err)
{
	if (!value || !strcmp(value, "all"))
		o->stacks = MT_STACKS_PYTHON | MT_STACKS_NATIVE;
	else if (!strcmp(value, "python"))
		o->stacks = MT_STACKS_PYTHON;
	else if (!strcmp(value, "native"))
		o->stacks = MT_STACKS_NATIVE;
	else {
		err_set(err, -EINVAL, "unknown stacks '%.100s'", value);
		return err_hint(err, "--stacks=python, --stacks=native, or --stacks for both");
	}
	return 0;
}

static int on_stack_size(struct options *o, const char *value, struct err *err)
{
	o->has_stack_size = 1;
	return parse_size(value, &o->stack_size, err);
}

static int on_ring_size(struct options *o, const char *value, struct err *err)
{
	uint64_t v;
	int r = parse_size(value, &v, err);

	if (r < 0)
		return r;
	if (v < 4096 || v > 16ull << 30) {
		err_set(err, -EINVAL, "'%.100s': a ring has from 4K to 16G", value);
		return err_hint(err, "all rings together; more room outlasts longer bursts, it costs memory of memtrace only");
	}
	o->ring_size = v;
	return 0;
}

static int on_window(struct options *o, const char *value, struct err *err)
{
	int r = parse_duration(value, &o->window_ns, err);

	if (!r && (o->window_ns < NS_PER_S || o->window_ns > 86400000000000ull)) {
		err_set(err, -EINVAL, "'%.100s': a window has from 1s to 24h", value);
		return err_hint(err, "a minute or so: --window 60s");
	}
	return r;
}

static int on_window_size(struct options *o, const char *value, struct err *err)
{
	int r = parse_size(value, &o->window_size, err);

	if (!r && o->window_size < WINDOW_BYTES_MIN) {
		err_set(err, -EINVAL, "'%.100s': a window needs 8M at least", value);
		return err_hint(err, "some 2 bytes an event: 64M hold a minute of half a million events a second");
	}
	return r;
}

static int on_top(struct options *o, const char *value, struct err *err)
{
	uint64_t v;
	int r = parse_number(value, 1000000, &v, err);

	if (!r && !v)
		r = err_set(err, -EINVAL, "a table has at least one row");
	if (!r)
		o->top = (size_t)v;
	return r;
}

static int on_max_loss(struct options *o, const char *value, struct err *err)
{
	return parse_number(value, UINT64_MAX, &o->max_loss, err);
}

static int on_max_overhead(struct options *o, const char *value, struct err *err)
{
	char *end;
	double v = strtod(value, &end);

	o->max_overhead = 0;
	o->has_max_overhead = 1;
	if (!strcmp(value, "none"))
		return 0;
	if (end == value || strcmp(*end == '%' ? end + 1 : end, "") || !(v > 0 && v <= 100)) {
		err_set(err, -EINVAL, "'%.100s': a share of time is above 0 and at most 100 percent, or none", value);
		return err_hint(err, "--max-overhead 2 traces some steps; --max-overhead none all of them");
	}
	o->max_overhead = v / 100;
	return 0;
}

static int on_new_peak(struct options *o, const char *value, struct err *err)
{
	char *end;
	double v = strtod(value, &end);

	if (end == value || strcmp(*end == '%' ? end + 1 : end, "") || !(v >= 1 && v <= 1000)) {
		err_set(err, -EINVAL, "'%.100s': a new peak is from 1 to 1000 percent above the last", value);
		return err_hint(err, "--on-new-peak 10");
	}
	o->new_peak = v / 100;
	return 0;
}

static int on_every(struct options *o, const char *value, struct err *err)
{
	int r = parse_duration(value, &o->every_ns, err);

	return !r && !o->every_ns ? err_set(err, -EINVAL, "'%.100s' is no time at all", value) : r;
}

static int on_between(struct options *o, const char *value, struct err *err)
{
	o->between = !strcmp(value, "watch")  ? BETWEEN_WATCH :
		     !strcmp(value, "blocks") ? BETWEEN_BLOCKS :
		     !strcmp(value, "auto")   ? BETWEEN_AUTO :
						BETWEEN_DEFAULT;
	return o->between ? 0 : err_set(err, -EINVAL, "unknown level '%.100s': watch, blocks or auto", value);
}

static int on_traced_steps(struct options *o, const char *value, struct err *err)
{
	int r = parse_number(value, STEPS_MAX, &o->steps, err);

	return !r && !o->steps ? err_set(err, -EINVAL, "no step at all") : r;
}

static int on_by(struct options *o, const char *value, struct err *err)
{
	static const char *const words[] = { [BY_OP] = "op", [BY_DEVICE] = "device", [BY_PROCESS] = "process",
					     [BY_REGION] = "region", [BY_CATEGORY] = "category",
					     [BY_SYMBOL] = "symbol", [BY_STACK] = "stack",
					     [BY_NAME] = "name", [BY_RANK] = "rank", [BY_MODULE] = "module" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(value, words[i])) {
			o->by = (enum view_by)i;
			o->has_by = 1;
			return 0;
		}
	err_set(err, -EINVAL, "unknown table '%.100s'", value);
	return err_hint(err, "one of op, category, device, module, name, process, rank, region, symbol, stack");
}

static int on_depth(struct options *o, const char *value, struct err *err)
{
	uint64_t v;
	int r = parse_number(value, 1000, &v, err);

	if (!r && !v)
		r = err_set(err, -EINVAL, "a tree has at least one level");
	if (!r)
		o->depth = (unsigned)v;
	return r;
}

static int on_phase(struct options *o, const char *value, struct err *err)
{
	for (int i = 0; i < PHASE_MAX; i++)
		if (!strcmp(value, phase_name((enum phase)i))) {
			o->phase = (unsigned)i + 1;
			return 0;
		}
	err_set(err, -EINVAL, "unknown phase '%.100s'", value);
	return err_hint(err, "one of forward, backward, optimizer, recompute, evaluation, other");
}

static int on_labels(struct options *o, const char *value, struct err *err)
{
	o->labels_live = !strcmp(value, "live");
	if (o->labels_live || !strcmp(value, "final"))
		return 0;
	err_set(err, -EINVAL, "unknown labels '%.100s'", value);
	return err_hint(err, "final: with hindsight; live: as they were known at the time");
}

static int on_classes(struct options *o, const char *value, struct err *err)
{
	o->classes = !strcmp(value, "extended") ? CLASSES_EXTENDED : CLASSES_COMPAT;
	if (o->classes == CLASSES_EXTENDED || !strcmp(value, "compat"))
		return 0;
	err_set(err, -EINVAL, "unknown classes '%.100s'", value);
	return err_hint(err, "compat: torch.profiler's categories; extended: six more");
}

static int on_align(struct options *o, const char *value, struct err *err)
{
	o->align_clock = !strcmp(value, "clock");
	if (o->align_clock || !strcmp(value, "steps"))
		return 0;
	err_set(err, -EINVAL, "unknown way '%.100s' to align clocks", value);
	return err_hint(err, "steps: by steps that both made, else by the clocks; clock: by the clocks alone");
}

/* "100": steps; with a unit, "30s": by the clock. */
static int on_align_to(struct options *o, const char *value, struct err *err)
{
	int r;

	o->align_steps = o->align_ns = 0;
	if (!parse_number(value, UINT32_MAX, &o->align_steps, NULL))
		r = 0;
	else
		r = parse_duration(value, &o->align_ns, err);
	if (r < 0 || o->align_steps || o->align_ns)
		return r < 0 ? err_hint(err, "steps: --align 1000; by the wall clock: --align 30s") : 0;
	return err_set(err, -EINVAL, "a multiple of nothing");
}

static int on_device(struct options *o, const char *value, struct err *err)
{
	char name[16];

	for (unsigned dev = 1; dev < MT_DEVS_MAX; dev++)
		if ((dev <= MT_DEV_HOST || dev >= MT_DEV_CUDA0) && !strcmp(value, dev_name((uint8_t)dev, name))) {
			o->dev = (int)dev;
			return 0;
		}
	err_set(err, -EINVAL, "unknown device '%.100s'", value);
	return err_hint(err, "cpu, cuda:0 to cuda:%d, or host", MT_DEV_CUDA_MAX - 1);
}

static int on_max_peak(struct options *o, const char *value, struct err *err)
{
	int r = parse_size(value, &o->max_peak, err);

	return !r && !o->max_peak ? err_set(err, -EINVAL, "a limit of no bytes allows nothing") : r;
}

static int on_category(struct options *o, const char *value, struct err *err)
{
	for (int c = 0; c < CAT_MAX; c++)
		if (!strcasecmp(value, category_name((enum category)c))) {
			o->category = c;
			return 0;
		}
	err_set(err, -EINVAL, "unknown category '%.60s'", value);
	return err_hint(err, "PARAMETER, GRADIENT, ACTIVATION, OPTIMIZER_STATE … (docs/categories.md); memtrace report F.mtr "
			     "--by category shows those of a recording");
}

/* peak+5% or peak+512M */
static int on_fail_if(struct options *o, const char *value, struct err *err)
{
	const char *by = strncmp(value, "peak+", 5) ? NULL : value + 5;
	size_t len = by ? strlen(by) : 0;
	char *end;

	if (len > 1 && by[len - 1] == '%') {
		o->fail_share = strtod(by, &end) / 100;
		if (end == by + len - 1 && isdigit((unsigned char)by[0]) && o->fail_share < 1e6)
			return 0;
	} else if (len && !parse_size(by, &o->fail_bytes, NULL)) {
		o->fail_share = 0;
		return 0;
	}
	err_set(err, -EINVAL, "'%.60s' is no limit of growth", value);
	return err_hint(err, "how much the peak may have grown: --fail-if peak+5%%, or peak+512M");
}

static int on_user(struct options *o, const char *value, struct err *err)
{
	o->user = value;
	return *value ? 0 : err_set(err, -EINVAL, "no user");
}

static int on_steps(struct options *o, const char *value, struct err *err)
{
	int r = 0;

	o->steps = UINT64_MAX;
	if (strcmp(value, "all"))
		r = parse_number(value, STEPS_MAX, &o->steps, err);
	return !r && !o->steps ? err_set(err, -EINVAL, "no step at all") : r;
}

static int on_format(struct options *o, const char *value, struct err *err)
{
	const struct export_format *const *f = export_formats();
	char all[200] = "";
	struct nearest n;

	o->format = value;
	if (export_format_find(value))
		return 0;
	nearest__init(&n, value);
	for (; *f; f++) {
		nearest__try(&n, (*f)->name);
		strncat(all, all[0] ? ", " : "", sizeof(all) - strlen(all) - 1);
		strncat(all, (*f)->name, sizeof(all) - strlen(all) - 1);
	}
	err_set(err, -EINVAL, "unknown format '%.100s'", value);
	return nearest__get(&n) ? err_hint(err, "did you mean %s? There are: %s", nearest__get(&n), all) :
				   err_hint(err, "there are: %s", all);
}

#define FLAG(fn, field, value)                                                                     \
	static int fn(struct options *o, const char *unused, struct err *err)                      \
	{                                                                                          \
		(void)unused;                                                                      \
		(void)err;                                                                         \
		o->field = value;                                                                  \
		return 0;                                                                          \
	}

FLAG(on_help, help, 1)
FLAG(on_no_names, no_names, 1)
FLAG(on_no_modules, no_modules, 1)
FLAG(on_keep_idle, keep_idle, 1)
FLAG(on_version, version, 1)
FLAG(on_man, man, 1)
FLAG(on_json, json, 1)
FLAG(on_md, md, 1)
FLAG(on_csv, csv, 1)
FLAG(on_force, force, 1)
FLAG(on_redact, redact, 1)
FLAG(on_flow, flow, 1)
FLAG(on_leaks, leaks, 1)
FLAG(on_tui, tui, 1)
FLAG(on_ops, ops, 1)
FLAG(on_all, all, 1)
FLAG(on_all_jobs, all_jobs, 1)
FLAG(on_no_follow, no_follow, 1)
FLAG(on_force_perf, force_perf, 1)
FLAG(on_no_color, no_color, 1)
FLAG(on_quiet, quiet, 1)
FLAG(on_verbose, verbose, o->verbose + 1)
FLAG(on_no_config, config_cnt, o->config_cnt) /* options.c has looked for it before all others */

/* --- the tables -------------------------------------------------------------------------------------- */

#define LIVE (1u << CMD_LIVE)
#define RECORD (1u << CMD_RECORD)
#define REPORT (1u << CMD_REPORT)
#define EXPORT (1u << CMD_EXPORT)
#define DIFF (1u << CMD_DIFF)
#define PLAN (1u << CMD_PLAN)
#define DOCTOR (1u << CMD_DOCTOR)
#define SERVE (1u << CMD_SERVE)
#define ESTIMATE (1u << CMD_ESTIMATE)
#define MERGE (1u << CMD_MERGE)
#define PS (1u << CMD_PS)
#define TRACING (LIVE | RECORD | SERVE)
#define CHECK (1u << CMD_CHECK)
#define MCP (1u << CMD_MCP)
#define COMPLETION (1u << CMD_COMPLETION)
#define ALL (TRACING | REPORT | EXPORT | DIFF | ESTIMATE | PLAN | DOCTOR | MERGE | PS | CHECK | MCP)

const struct option_def option_defs[] = {
	{ "--pid", 'p', "PID", "process to look into; may be given several times", TRACING | PLAN, on_pid },
	{ "--at", 0, "WHEN", "who held memory at one moment: a time since the start (12.5s), 'step N' or step:N (the "
	  "highest moment of that step), or peak; an export: that step alone (html, sqlite: all, with that moment)",
	  REPORT | EXPORT, on_at, "peak" },
	{ "--from", 0, "WHEN", "only what was after this, WHEN as for --at: a step counts from its start, peak from the start "
	  "of its step. A report is of the highest moment then, an export begins with the blocks that lived there",
	  REPORT | EXPORT, on_from, "peak" },
	{ "--until", 0, "WHEN", "only what was before this, WHEN as for --at: of a step its end", REPORT | EXPORT, on_until,
	  "peak" },
	{ "--to", 0, "WHEN", "the same as --until", REPORT, on_until, "peak" },
	{ "--pid", 'p', "PID", "blocks of this process alone; may be given several times", REPORT | EXPORT, on_pid },
	{ "--pid", 'p', "PID", "the peak of this process alone, of one job where a recording has several; may be given several "
	  "times", CHECK, on_pid },
	{ "--pid", 'p', "A[,B]", "of recordings of several jobs: process A of the first recording alone, and B of the second "
	  "one (default: A, too); may be given several times", DIFF | ESTIMATE, on_pid_of_each },
	{ "--rank", 0, "N", "blocks of this rank's processes alone", REPORT | EXPORT, on_rank },
	{ "--rank", 0, "N", "this rank's processes alone, in each recording", DIFF | CHECK | ESTIMATE, on_rank },
	{ "--module", 0, "MODULE", "blocks alone that this module's forward or backward made, or that are its parameters, with "
	  "all that is in it: layers.0, or a pattern: 'layers.*.mlp'", REPORT | EXPORT, on_module },
	{ "--op", 0, "OPERATOR", "blocks alone that this operator made: mm, aten::mm, or a pattern: '*attention*'",
	  REPORT | EXPORT, on_op },
	{ "--sort", 0, "COLUMN", "rows of a moment by this column: bytes (default), blocks, largest, alloc_bytes, allocs, name",
	  REPORT, on_sort, "bytes blocks largest alloc_bytes allocs name" },
	{ "--sort", 0, "WHICH", "order of lines. jsonl, csv: time (default), size (the largest first), op, module or name; "
	  "folded: seen (default), bytes (the most first) or stack; the others have an order of their own", EXPORT,
	  on_export_sort, "time size op module name seen bytes stack" },
	{ "--name", 0, "WORD", "in place of -p: the processes with PyTorch that have this word in their command line, such as "
	  "train.py; of parents and children the parents", TRACING | PLAN, on_name },
	{ "--all-jobs", 'a', NULL, "every process that has loaded PyTorch or a GPU's libraries, those that start later too; "
	  "goes on when none is left", TRACING, on_all_jobs },
	{ "--output", 'o', "FILE", "keep a recording there (record: default memtrace-WHAT-DATE-TIME.mtr, "
	  "WHAT being the pid, the command's name or \"all\")", TRACING, on_out },
	{ "--output", 'o', "OUT", "file to write, - is stdout (default for text, unless that is a terminal)", EXPORT, on_out },
	{ "--output", 'o', "OUT.html", "both as one page for a browser: memory over time, and tables of what grew", DIFF,
	  on_out },
	{ "--output", 'o', "OUT.mtr", "recording to write", MERGE, on_out },
	{ "--force", 0, NULL, "replace what is at -o: by a new file, once it is whole (a recording: with its first second)",
	  TRACING | EXPORT | MERGE | DIFF, on_force },
	{ "--align", 0, "WHICH", "clocks of several machines: steps, by the steps that both made, where these are known, "
	  "else by their wall clocks (default); clock, by their wall clocks alone", MERGE, on_align,
	  "steps clock" },
	{ "--listen", 0, "ADDRESS", "where to answer: ADDRESS:PORT (default " LISTEN_DEFAULT "; port 0: one that is free), or "
	  "unix:NAME, a socket in " LISTEN_DIR " that only you can open, or unix:/PATH. Every user of the machine reads what "
	  "a port of loopback shows, unless there is a token", SERVE, on_listen },
	{ "--token-file", 0, "FILE", "ask for the token that is in FILE (a line of 16 letters or more, readable by its owner "
	  "alone): as a Bearer token, or as a password. Beyond loopback there must be one", SERVE, on_token_file },
	{ "--allow-host", 0, "NAME", "let in requests that mean NAME (Host header), such as those through a proxy; may be "
	  "given several times", SERVE, on_allow_host },
	{ "--socket-group", 0, "GROUP", "a Unix socket is for this group, too", SERVE, on_socket_group },
	{ "--to", 0, "FORMAT", "jsonl, csv, torch-timeline, torch-raw, torch-snapshot, perfetto, chrome, pprof, folded, "
	  "openmetrics, sqlite, html, op-trace or trace-svg", EXPORT, on_format },
	{ "--labels", 0, "WHICH", "final: each record shows the category that its block's version has in the end (default); "
	  "live: as it was known at that moment, with a label record for each change. The torch formats are final always",
	  EXPORT, on_labels,
	  "final live" },
	{ "--device", 0, "DEVICE", "what was held on this device: cpu, cuda:N or host (default: the GPU with the highest peak, "
	  "else cpu, else host)", REPORT, on_device, "cpu cuda:0 host" },
	{ "--device", 0, "DEVICE", "blocks of this device alone: cpu, cuda:N or host (default all; torch formats: cuda:0 if "
	  "the recording has it, else cpu)", EXPORT, on_device,
	  "cpu cuda:0 host" },
	{ "--device", 0, "DEVICE", "storages of this device alone, as the graph calls it, or all (default: all but the CPU, as "
	  "torch's estimator counts; of a recording: the GPU with the highest peak, else cpu)", ESTIMATE, on_count,
	  "all cpu cuda:0" },
	{ "--max-peak", 0, "SIZE", "exit with 5 when the peak was above this; K, M, G", CHECK, on_max_peak },
	{ "--device", 0, "DEVICE", "the peak of this device: cpu, cuda:N or host (default: the GPU with the highest one, else "
	  "cpu, else host)", CHECK, on_device, "cpu cuda:0 host" },
	{ "--category", 0, "CATEGORY", "blocks alone while they are of this category", REPORT | EXPORT, on_category,
	  "INPUT TEMPORARY ACTIVATION GRADIENT AUTOGRAD_DETAIL PARAMETER OPTIMIZER_STATE" },
	{ "--category", 0, "CATEGORY", "what this category had at that peak alone", CHECK, on_category,
	  "INPUT TEMPORARY ACTIVATION GRADIENT AUTOGRAD_DETAIL PARAMETER OPTIMIZER_STATE" },
	{ "--fail-if", 0, "LIMIT", "exit with 5 when the peak of a device grew by more than that from A to B: peak+5%, or "
	  "peak+512M", DIFF, on_fail_if },
	{ "--batch", 0, "N", "what if a batch had N: of two recordings fitted, block by block; of one, activations go with it; "
	  "needs --batches", ESTIMATE, on_batch },
	{ "--batches", 0, "A[,B]", "how many a batch had in the recording, or in the first and in the second", ESTIMATE,
	  on_batches },
	{ "--budget", 0, "SIZE", "with --batches: the largest batch whose peak is not above this; with --checkpoint: the "
	  "modules that cost least time for it; K, M, G", ESTIMATE, on_budget },
	{ "--optimizer", 0, "WHICH", "what if the optimizer were sgd, momentum (sgd with it), adamw or 8bit (adamw with 8-bit "
	  "state)", ESTIMATE, on_optimizer,
	  "sgd momentum adamw 8bit" },
	{ "--dtype", 0, "WHICH", "what if model and inputs were bf16 or fp16 instead of float32", ESTIMATE, on_dtype,
	  "bf16 fp16" },
	{ "--shard", 0, "N", "what if N ranks shared the model (fully_shard), each with the recorded batch", ESTIMATE,
	  on_shard },
	{ "--units", 0, "PATTERN,…", "of --shard: modules that are sharded each on its own, layers.* say; `*` does not stop at "
	  "dots (default: the members of numbered lists); all else is the root's", ESTIMATE, on_units },
	{ "--checkpoint", 0, "MODULE,…", "what if these modules (patterns of paths) kept no activations and ran again in "
	  "backward: bytes against time", ESTIMATE, on_checkpoint },
	{ "--no-reshard", 0, NULL, "of --shard: parameters stay gathered from forward to backward", ESTIMATE, on_no_reshard },
	{ "--ops", 0, NULL, "every operator and region entered, and (jsonl) the data-flow graph's nodes, too: many more lines",
	  EXPORT, on_ops },
	{ "--duration", 'd', "SECONDS", "end after so long, attaching not counted; with ms, s, m or h other units (default: "
	  "until Ctrl-C)", TRACING, on_duration },
	{ "--json", 0, NULL, "the report as JSON, schema 1", LIVE | REPORT | DIFF | ESTIMATE | PLAN | PS | CHECK, on_json },
	{ "--csv", 0, NULL, "the main table (--by) as CSV, in bytes and ns: for spreadsheets, pandas, DuckDB", REPORT, on_csv },
	{ "--md", 0, NULL, "as Markdown, for a pull request; of a report the verdict and the short tables",
	  LIVE | REPORT | DIFF | CHECK, on_md },
	{ "--flow", 0, NULL, "the data-flow graph instead: a line a node, with its blocks, their versions and categories "
	  "(needs a recording with --probes flow); with --json one object a node", REPORT, on_flow },
	{ "--steps", 0, "N", "so many of the last whole steps with --flow, or all (default 2)", REPORT, on_steps },
	{ "--classes", 0, "WHICH", "categories: compat, those of torch.profiler (default); extended: also FROZEN (a parameter "
	  "that gets no gradient), BUFFER (a module's state that is no parameter), DATALOADER (batches from workers), "
	  "COMMUNICATION (buffers of collectives), UNSHARDED (parameters that FSDP has gathered), WORKSPACE (scratch memory of "
	  "libraries)", TRACING | REPORT | EXPORT | DIFF | CHECK, on_classes,
	  "compat extended" },
	{ "--leaks", 0, NULL, "what lives across steps and grows in number instead, by operator and region, with bytes a step "
	  "(docs/leaks.md); --json has it always", REPORT, on_leaks },
	{ "--tui", 0, NULL, "browse the recording on the terminal, as the live view does", REPORT, on_tui },
	{ "--by", 0, "WHAT", "main table: op, category, device, module, name, process, rank (report alone), region, symbol or "
	  "stack (default op)", LIVE | REPORT, on_by,
	  "op category device module name process rank region symbol stack" },
	{ "--depth", 0, "N", "of --by module: levels of the tree (default: all)", LIVE | REPORT, on_depth },
	{ "--phase", 0, "PHASE", "of --by module: what was allocated in that phase: forward, backward, optimizer, recompute, "
	  "evaluation or other", LIVE | REPORT, on_phase,
	  "forward backward optimizer recompute evaluation other" },
	{ "--by", 0, "WHAT", "rows: op, category, device, module, name, rank, region, symbol or stack (default op)",
	  DIFF, on_by,
	  "op category device module name rank region symbol stack" },
	{ "--top", 0, "N", "rows of a table (default 20; JSON 1000)", LIVE | REPORT | DIFF | ESTIMATE, on_top },
	{ "--all", 0, NULL, "every site, also on a terminal", PLAN, on_all },
	{ "--all", 0, NULL, "children that run the same command as their parent, too", PS, on_all },
	{ "--probes", 0, "SOURCES", "what to watch, with commas between: segments, framework, ops, views, flow, "
	  "regions, kernel, host, usdt (default: segments, framework, flow, regions, kernel, usdt). flow gives the "
	  "categories; ops in its place costs less; views beside it shows views in report --flow", TRACING | PLAN, on_probes,
	  "segments framework ops views flow regions kernel host usdt" },
	{ "--usdt", 0, "PROVIDER:NAME[:ARG=meaning,…]",
	  "a probe that a program ships itself; may be given several times. ARG is the argument's number, meaning one of "
	  "ptr, size, device, name, step; event=KIND says what it is (alloc, free, op_begin, op_end, region_begin, "
	  "region_end, step, tag) where that does not follow. These need neither: memtrace:*, pytorch:*, python:function__*",
	  TRACING | PLAN, on_usdt },
	{ "--redact", 0, NULL, "of the command lines of processes keep the program's name alone, of RANK, MASTER_ADDR and "
	  "the like from their environment what is a number: in reports, recordings and what serve answers",
	  TRACING, on_redact },
	{ "--min-size", 0, "SIZE", "host allocations below this many bytes are left out; K, M, G (default 0)", TRACING,
	  on_min_size },
	{ "--stacks", 0, "[=WHICH]", "where in the program each block of --stack-size and more was allocated: python "
	  "(functions and lines of CPython 3.10 to 3.13), native (C and C++ functions), or both merged, which is what --stacks "
	  "alone means (docs/stacks.md)", TRACING, on_stacks,
	  "python native all" },
	{ "--stack-size", 0, "SIZE", "with --stacks: smaller blocks get none; K, M, G (default 1M; 0: every block gets one)",
	  TRACING, on_stack_size },
	{ "--ring-size", 0, "SIZE", "buffer between kernel and memtrace, all CPUs together; K, M, G (default 8M a "
	  "CPU, 64M to 1G, a 1/256 of the memory at most)",
	  TRACING, on_ring_size },
	{ "--window", 0, "TIME", "a flight recorder: only the last while is kept, in memory, and written when the trace or the "
	  "target ends, when memory is refused, and on SIGUSR1 (to FILE-1.mtr, FILE-2.mtr …, and goes on)", RECORD, on_window },
	{ "--window-size", 0, "SIZE", "memory that the window may take; then it gets shorter; K, M, G (default 256M)", RECORD,
	  on_window_size },
	{ "--on-new-peak", 0, "PERCENT", "with --window: it is also written when a device holds so much more than ever "
	  "before (the first 10 s do not count): FILE-1.mtr …, a second after that peak", RECORD, on_new_peak },
	{ "--user", 0, "NAME", "who runs COMMAND: a name or a number (default: whom sudo was for; root only when asked for or "
	  "where there is no such user)", RECORD, on_user },
	{ "--no-follow", 0, NULL, "leave children alone", TRACING, on_no_follow },
	{ "--no-names", 0, NULL, "do not read the names of parameters, buffers and optimizer state from the memory of Python "
	  "(docs/names.md); nor who holds what grows, and which line makes it (docs/leaks.md)", TRACING, on_no_names },
	{ "--no-modules", 0, NULL, "do not find out which module's forward or backward made a block (docs/modules.md); nor "
	  "does --probes without flow and ops", TRACING, on_no_modules },
	{ "--keep-idle", 0, NULL, "keep the probes of operators that the job never calls; else they go when nothing new was "
	  "called for three steps, and come back with an operator's first call (docs/losses.md)", TRACING, on_keep_idle },
	{ "--force-perf-uprobes", 0, NULL, "one perf event a probe, as kernels before 6.6 need it: slow to attach",
	  TRACING | PLAN, on_force_perf },
	{ "--max-loss", 0, "N", "exit with 3 when more than N events were lost (default 0)",
	  TRACING | REPORT | EXPORT | DIFF | CHECK | ESTIMATE, on_max_loss },
	{ "--max-overhead", 0, "PERCENT", "trace some whole steps now and then, so that the job loses at most so much of its "
	  "time, from about half a minute on: what they cost is measured on its own steps (docs/sampling.md). Where this "
	  "kernel cannot do that all is traced; if that, or what stays set between windows, takes more for three seconds on "
	  "end: detach, and exit with 4. "
	  "none: trace all the time, the default of record; the live view and serve have 2, unless --every or --keep-idle is "
	  "given; for those 2 nothing is detached",
	  TRACING, on_max_overhead },
	{ "--steps", 0, "N", "with --every, or with --max-overhead (default 3): trace N whole steps, and one before them "
	  "to see what is there already; then take the probes away until the next window (docs/sampling.md)", TRACING,
	  on_traced_steps },
	{ "--every", 0, "TIME", "so long from the beginning of one window of traced steps (--steps) to that of the next; with "
	  "--max-overhead: at least", TRACING, on_every },
	{ "--align", 0, "R", "windows begin at steps whose number is a multiple of R, so that all ranks of a job trace the "
	  "same ones, or with a unit (30s) at multiples of that by the wall clock (docs/sampling.md)", TRACING, on_align_to },
	{ "--between", 0, "LEVEL", "what is seen between two windows: watch (steps, the driver's memory, names), blocks (also "
	  "allocations and frees; with --max-overhead only as long as they take half of it at most) or auto (blocks where "
	  "--max-overhead pays for them, else watch; the default with a budget, without host; else it is watch)",
	  TRACING, on_between },
	{ "--no-color", 0, NULL, "no colour on a terminal (NO_COLOR in the environment does the same)",
	  LIVE | REPORT | DIFF | ESTIMATE | PLAN | DOCTOR | PS, on_no_color },
	{ "--quiet", 'q', NULL, "no progress, no warnings; losses stay in the report", ALL, on_quiet },
	{ "--verbose", 'v', NULL, "tell more on stderr (twice: everything), and in a report all tables", ALL, on_verbose },
	{ "--no-config", 0, NULL, "read no file of defaults: neither /etc/memtrace.conf nor the user's", ALL, on_no_config },
	{ "--help", 'h', NULL, "this text", ALL | COMPLETION, on_help },
	{ "--version", 'V', NULL, "the version", ALL, on_version },
	{ "--man", 0, NULL, "the man page, as roff", LIVE, on_man },
	{ NULL },
};

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "cmd/options_table.h"

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
#include "estimate/whatif.h"
#include "event/event.h"
#include "plan/plan.h"
#include "trace/trace.h"

#define STEPS_MAX 1000000

/* --- parsers --------------------------------------------------------------------------------------- */

static int on_pid(struct options *o, const char *value, struct err *err)
{
	uint64_t pid;

	if (parse_number(value, INT32_MAX, &pid, NULL) || !pid) {
		err_set(err, -EINVAL, "'%.100s' is not a process id", value);
		return err_hint(err, "a number such as pgrep prints: memtrace -p $(pgrep -n python)");
	}
	if (o->pids_cnt == OPT_PIDS_MAX)
		return err_set(err, -EINVAL, "more than %d processes", OPT_PIDS_MAX);
	o->pids[o->pids_cnt++] = (pid_t)pid;
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

	if (end == value || strcmp(*end == '%' ? end + 1 : end, "") || !(v > 0 && v <= 100))
		return err_set(err, -EINVAL, "'%.100s': a share of CPU time is above 0 and at most 100 percent", value);
	o->max_overhead = v / 100;
	return 0;
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
	return err_hint(err, "final: with hindsight; live: as they were told at the time");
}

static int on_classes(struct options *o, const char *value, struct err *err)
{
	o->classes = !strcmp(value, "extended") ? CLASSES_EXTENDED : CLASSES_COMPAT;
	if (o->classes == CLASSES_EXTENDED || !strcmp(value, "compat"))
		return 0;
	err_set(err, -EINVAL, "unknown classes '%.100s'", value);
	return err_hint(err, "compat: torch.profiler's categories; extended: five more");
}

static int on_align(struct options *o, const char *value, struct err *err)
{
	o->align_clock = !strcmp(value, "clock");
	if (o->align_clock || !strcmp(value, "steps"))
		return 0;
	err_set(err, -EINVAL, "unknown way '%.100s' to align clocks", value);
	return err_hint(err, "steps: by steps that both made, else by the clocks; clock: by the clocks alone");
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

static int on_batch(struct options *o, const char *value, struct err *err)
{
	int r = parse_number(value, UINT32_MAX, &o->batch, err);

	return !r && !o->batch ? err_set(err, -EINVAL, "no batch at all") : r;
}

/* "16" or "16,32" */
static int on_batches(struct options *o, const char *value, struct err *err)
{
	const char *comma = strchr(value, ',');
	char first[24];

	snprintf(first, sizeof(first), "%.*s", (int)(comma ? comma - value : 23), value);
	if (!parse_number(first, UINT32_MAX, &o->batches[0], NULL) && o->batches[0] &&
	    (!comma || (!parse_number(comma + 1, UINT32_MAX, &o->batches[1], NULL) && o->batches[1] &&
			o->batches[0] != o->batches[1])))
		return 0;
	err_set(err, -EINVAL, "'%.60s' is not one batch or two different ones", value);
	return err_hint(err, "that of the first recording and that of the second: --batches 16,32");
}

static int on_budget(struct options *o, const char *value, struct err *err)
{
	int r = parse_size(value, &o->budget, err);

	return !r && !o->budget ? err_set(err, -EINVAL, "a budget of no bytes holds nothing") : r;
}

static int on_optimizer(struct options *o, const char *value, struct err *err)
{
	static const char *const words[] = { [WHATIF_SGD] = "sgd", [WHATIF_MOMENTUM] = "momentum", [WHATIF_ADAMW] = "adamw",
					     [WHATIF_8BIT] = "8bit" };

	for (size_t i = WHATIF_SGD; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(value, words[i])) {
			o->optimizer = (int)i;
			o->optimizer_name = words[i];
			return 0;
		}
	err_set(err, -EINVAL, "unknown optimizer '%.60s'", value);
	return err_hint(err, "sgd, momentum, adamw or 8bit");
}

static int on_dtype(struct options *o, const char *value, struct err *err)
{
	o->dtype = !strcmp(value, "bf16") || !strcmp(value, "fp16") ? 0.5 : 0;
	if (o->dtype > 0)
		return 0;
	err_set(err, -EINVAL, "unknown dtype '%.60s'", value);
	return err_hint(err, "bf16 or fp16, of what was recorded in float32");
}

static int on_shard(struct options *o, const char *value, struct err *err)
{
	int r = parse_number(value, SHARD_RANKS_MAX, &o->ranks, err);

	return !r && !o->ranks ? err_set(err, -EINVAL, "no rank at all") : r;
}

static int on_units(struct options *o, const char *value, struct err *err)
{
	(void)err;
	o->units = value;
	return 0;
}

static int on_checkpoint(struct options *o, const char *value, struct err *err)
{
	(void)err;
	o->checkpoint = value;
	return 0;
}

static int on_no_reshard(struct options *o, const char *value, struct err *err)
{
	(void)value;
	(void)err;
	o->no_reshard = 1;
	return 0;
}

static int on_user(struct options *o, const char *value, struct err *err)
{
	o->user = value;
	return *value ? 0 : err_set(err, -EINVAL, "no user");
}

static int on_count(struct options *o, const char *value, struct err *err)
{
	(void)err;
	o->count = value;
	return 0;
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
#define TRACING (LIVE | RECORD | SERVE)
#define ALL (TRACING | REPORT | EXPORT | DIFF | ESTIMATE | PLAN | DOCTOR | MERGE)

const struct option_def option_defs[] = {
	{ "--pid", 'p', "PID", "process to look into; may be given several times", TRACING | PLAN, on_pid },
	{ "--all-jobs", 'a', NULL, "every process that has loaded PyTorch or a GPU's libraries, those that start later too; "
	  "goes on when none is left", RECORD | SERVE, on_all_jobs },
	{ "--output", 'o', "FILE", "keep a recording there (record: default memtrace-WHAT-DATE-TIME.mtr, "
	  "WHAT being the pid, the command's name or \"all\")", TRACING, on_out },
	{ "--output", 'o', "OUT", "file to write, - is stdout", EXPORT, on_out },
	{ "--output", 'o', "OUT.mtr", "recording to write", MERGE, on_out },
	{ "--force", 0, NULL, "replace what is at -o: by a new file, once it is whole (a recording: with its first second)",
	  TRACING | EXPORT | MERGE, on_force },
	{ "--align", 0, "WHICH", "clocks of several machines: steps, by the steps that both made, where they can be told, else "
	  "by their wall clocks (default); clock, by their wall clocks alone", MERGE, on_align },
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
	  "live: as it was told at that moment, with a label record for each change. The torch formats are final always",
	  EXPORT, on_labels },
	{ "--device", 0, "DEVICE", "blocks of this device alone: cpu, cuda:N or host (default all; torch formats: cuda:0 if "
	  "the recording has it, else cpu)", EXPORT, on_device },
	{ "--device", 0, "DEVICE", "storages of this device alone, as the graph calls it, or all (default: all but the CPU, as "
	  "torch's estimator counts; of a recording: the GPU with the highest peak, else cpu)", ESTIMATE, on_count },
	{ "--batch", 0, "N", "what if a batch had N: of two recordings fitted, block by block; of one, activations go with it; "
	  "needs --batches", ESTIMATE, on_batch },
	{ "--batches", 0, "A[,B]", "how many a batch had in the recording, or in the first and in the second", ESTIMATE,
	  on_batches },
	{ "--budget", 0, "SIZE", "with --batches: the largest batch whose peak is not above this; with --checkpoint: the "
	  "modules that cost least time for it; K, M, G", ESTIMATE, on_budget },
	{ "--optimizer", 0, "WHICH", "what if the optimizer were sgd, momentum (sgd with it), adamw or 8bit (adamw with 8-bit "
	  "state)", ESTIMATE, on_optimizer },
	{ "--dtype", 0, "WHICH", "what if model and inputs were bf16 or fp16 instead of float32", ESTIMATE, on_dtype },
	{ "--shard", 0, "N", "what if N ranks shared the model (fully_shard), each with the recorded batch", ESTIMATE,
	  on_shard },
	{ "--units", 0, "PATTERN,…", "of --shard: modules that are sharded each on its own, layers.* say; `*` does not stop at "
	  "dots (default: the members of numbered lists); all else is the root's", ESTIMATE, on_units },
	{ "--checkpoint", 0, "MODULE,…", "what if these modules (patterns of paths) kept no activations and ran again in "
	  "backward: bytes against time", ESTIMATE, on_checkpoint },
	{ "--no-reshard", 0, NULL, "of --shard: parameters stay gathered from forward to backward", ESTIMATE, on_no_reshard },
	{ "--ops", 0, NULL, "every operator and region entered, and (jsonl) the data-flow graph's nodes, too: many more lines",
	  EXPORT, on_ops },
	{ "--duration", 'd', "SECONDS", "end after this time; with ms, s, m or h other units (default: until Ctrl-C)",
	  TRACING, on_duration },
	{ "--json", 0, NULL, "the report as JSON, schema 1", LIVE | REPORT | DIFF | ESTIMATE | PLAN, on_json },
	{ "--flow", 0, NULL, "the data-flow graph instead: a line a node, with its blocks, their versions and categories "
	  "(needs a recording with --probes flow); with --json one object a node", REPORT, on_flow },
	{ "--steps", 0, "N", "so many of the last whole steps with --flow, or all (default 2)", REPORT, on_steps },
	{ "--classes", 0, "WHICH", "categories: compat, those of torch.profiler (default); extended: also FROZEN (a parameter "
	  "that gets no gradient), BUFFER (a module's state that is no parameter), DATALOADER (batches from workers), "
	  "COMMUNICATION (buffers of collectives), UNSHARDED (parameters that FSDP has gathered), WORKSPACE (scratch memory of "
	  "libraries)", TRACING | REPORT | EXPORT | DIFF, on_classes },
	{ "--leaks", 0, NULL, "what lives across steps and grows in number instead, by operator and region, with bytes a step "
	  "(docs/leaks.md); --json has it always", REPORT, on_leaks },
	{ "--tui", 0, NULL, "browse the recording on the terminal, as the live view does", REPORT, on_tui },
	{ "--by", 0, "WHAT", "main table: op, category, device, module, name, process, rank (report alone), region, symbol or "
	  "stack (default op)", LIVE | REPORT, on_by },
	{ "--depth", 0, "N", "of --by module: levels of the tree (default: all)", LIVE | REPORT, on_depth },
	{ "--phase", 0, "PHASE", "of --by module: what was born in that phase: forward, backward, optimizer, recompute, "
	  "evaluation or other", LIVE | REPORT, on_phase },
	{ "--by", 0, "WHAT", "rows: op, category, device, region, symbol or stack (default op)", DIFF, on_by },
	{ "--top", 0, "N", "rows of a table (default 20; JSON 1000)", LIVE | REPORT | DIFF | ESTIMATE, on_top },
	{ "--all", 0, NULL, "every site, also on a terminal", PLAN, on_all },
	{ "--probes", 0, "SOURCES", "what to watch, with commas between: segments, framework, ops, views, flow, "
	  "regions, kernel, host, usdt (default: segments, framework, flow, regions, kernel, usdt). flow gives the "
	  "categories; ops in its place costs less; views beside it shows views in report --flow", TRACING | PLAN, on_probes },
	{ "--usdt", 0, "PROVIDER:NAME[:ARG=meaning,…]",
	  "a probe that a program ships itself; may be given several times. ARG is the argument's number, meaning one of "
	  "ptr, size, device, name, step; event=KIND says what it is (alloc, free, op_begin, op_end, region_begin, "
	  "region_end, step, tag) where that does not follow. Known without: memtrace:*, pytorch:*, python:function__*",
	  TRACING | PLAN, on_usdt },
	{ "--redact", 0, NULL, "of the command lines of processes keep the program's name alone, of RANK, MASTER_ADDR and "
	  "the like from their environment what is a number: in reports, recordings and what serve answers",
	  TRACING, on_redact },
	{ "--min-size", 0, "SIZE", "host allocations below this many bytes are left out; K, M, G (default 0)", TRACING,
	  on_min_size },
	{ "--stacks", 0, "[=WHICH]", "where in the program each block of --stack-size and more was allocated: python "
	  "(functions and lines of CPython 3.10 to 3.13), native (C and C++ functions), or both merged, which is "
	  "what --stacks alone "
	  "means (docs/stacks.md)", TRACING, on_stacks },
	{ "--stack-size", 0, "SIZE", "with --stacks: smaller blocks get none; K, M, G (default 1M; 0: every block gets one)",
	  TRACING, on_stack_size },
	{ "--ring-size", 0, "SIZE", "buffer between kernel and memtrace, all CPUs together; K, M, G (default 8M a "
	  "CPU, 32M to 1G, a 1/256 of the memory at most)",
	  TRACING, on_ring_size },
	{ "--window", 0, "TIME", "a flight recorder: only the last while is kept, in memory, and written when the trace or the "
	  "target ends, when memory is refused, and on SIGUSR1 (to FILE-1.mtr, FILE-2.mtr …, and goes on)", RECORD, on_window },
	{ "--window-size", 0, "SIZE", "memory that the window may take; then it gets shorter; K, M, G (default 256M)", RECORD,
	  on_window_size },
	{ "--user", 0, "NAME", "who runs COMMAND: a name or a number (default: whom sudo was for; root only when asked for or "
	  "where there is no such user)", RECORD, on_user },
	{ "--no-follow", 0, NULL, "leave children alone", TRACING, on_no_follow },
	{ "--no-names", 0, NULL, "do not read the names of parameters, buffers and optimizer state from the memory of Python "
	  "(docs/names.md)", TRACING, on_no_names },
	{ "--no-modules", 0, NULL, "do not find out which module's forward or backward made a block (docs/modules.md); nor "
	  "does --probes without flow and ops", TRACING, on_no_modules },
	{ "--keep-idle", 0, NULL, "keep the probes of operators that the job never calls; else they go when nothing new was "
	  "called for three steps, and come back with an operator's first call (docs/losses.md)", TRACING, on_keep_idle },
	{ "--force-perf-uprobes", 0, NULL, "one perf event a probe, as kernels before 6.6 need it: slow to attach",
	  TRACING | PLAN, on_force_perf },
	{ "--max-loss", 0, "N", "exit with 3 when more than N events were lost (default 0)",
	  TRACING | REPORT | EXPORT | DIFF, on_max_loss },
	{ "--max-overhead", 0, "PERCENT", "detach, and exit with 4, when the probes have taken more than that of the job's CPU "
	  "time for three seconds on end (default: no limit; each report says what they take)", TRACING, on_max_overhead },
	{ "--no-color", 0, NULL, "no colour on a terminal (NO_COLOR in the environment does the same)",
	  LIVE | REPORT | DIFF | ESTIMATE | PLAN | DOCTOR, on_no_color },
	{ "--quiet", 'q', NULL, "no progress, no warnings; losses stay in the report", ALL, on_quiet },
	{ "--verbose", 'v', NULL, "tell more on stderr; twice: everything", ALL, on_verbose },
	{ "--help", 'h', NULL, "this text", ALL, on_help },
	{ "--version", 0, NULL, "the version", LIVE, on_version },
	{ "--man", 0, NULL, "the man page, as roff", LIVE, on_man },
	{ NULL },
};

const struct command_def command_defs[CMD_CNT] = {
	[CMD_LIVE] = { "", "-p PID [OPTIONS]", "watch a process live; Ctrl-C detaches and prints the report",
		       "Attaches to a running PyTorch process, which needs no preparation and is not stopped, and shows "
		       "how much memory its tensors hold, which operators gave it out, what was lost and what the looking "
		       "costs. On a terminal a full screen with tables and a chart (? there tells the keys), in a pipe one "
		       "line of key=value fields a second. "
		       "Needs root, or " RIGHTS_NEEDED ".",
		       "memtrace -p 4242\twatch process 4242\n"
		       "memtrace -p 4242 -d 30 -o job.mtr\twatch it for 30 seconds and keep a recording\n" },
	[CMD_RECORD] = { "record", "-p PID|-a [-o F.mtr] [-d SECONDS] [OPTIONS]\n[-o F.mtr] [OPTIONS] -- COMMAND [ARGS…]",
			 "record a process, or a command from its start, to a file",
			 "Writes all events to a recording, a frame a second at least, synced to the disk a second later. When "
			 "memtrace is killed the last second or so is missing; when the machine crashes or loses power, what "
			 "came in the last two or three, and the time the disk took. On a full disk the recording is "
			 "cut back to its last whole frame and goes on when there is room; a disk that takes nothing holds "
			 "nobody up: 32 MiB wait for it, then events are lost (stalled). Ctrl-C waits for it about ten "
			 "seconds; what was put aside by then is written when the disk comes back (docs/losses.md). With "
			 "-- COMMAND starts a command and follows it from its first "
			 "instruction; otherwise attaches as the live view does.",
			 "memtrace record -p 4242 -d 1m -o job.mtr\tone minute of process 4242\n"
			 "memtrace record -p 4242 --window 60s -o job.mtr\tthe minute before the end, or before kill -USR1\n"
			 "memtrace record -o job.mtr -- python train.py\ta job from its start\n" },
	[CMD_REPORT] = { "report", "F.mtr [--json | --tui] [--by WHAT] [--top N]\nF.mtr --flow [--json] [--steps N]\n"
			 "F.mtr --leaks [--top N]",
			 "what a recording shows, as text or JSON",
			 "Replays a recording. The numbers are those that the live view ended with. Needs no root.",
			 "memtrace report job.mtr\tthe report, for people\n"
			 "memtrace report job.mtr --tui\tto look around in it\n"
			 "memtrace report job.mtr --json | jq .devices.cpu.peak\tone number\n"
			 "memtrace report job.mtr --leaks\twhat grows from step to step\n"
			 "memtrace report job.mtr --flow --steps 1\tthe data flow of the last whole step\n" },
	[CMD_EXPORT] = { "export",
			 "F.mtr --to FORMAT -o OUT [--labels WHICH] [--ops]\n"
			 "F.mtr --to torch-timeline -o OUT [--device DEVICE]",
			 "a recording's events for other programs",
			 "jsonl and csv: every decision about a block of memory (preexisting, create, version, destroy) with "
			 "its operator, region, thread and process, in time order, one a line. torch-timeline and torch-raw: "
			 "what torch.profiler's export_memory_timeline writes as .json and as .raw.json.gz. torch-snapshot: "
			 "for pytorch.org/memory_viz and python -m torch.cuda._memory_viz. perfetto and chrome: for "
			 "ui.perfetto.dev. pprof and folded: bytes by stack, for go tool pprof and flamegraph.pl. "
			 "openmetrics: how it ended, for Prometheus. sqlite: a database. html: one page for a "
			 "browser (docs/page.md). op-trace and trace-svg: memory after each operator. "
			 "docs/export.md tells what is in each. An OUT that ends in .gz is compressed. "
			 "Categories are known with hindsight, so the recording "
			 "is read twice.",
			 "memtrace export job.mtr --to jsonl -o job.jsonl\tone JSON object a line\n"
			 "memtrace export job.mtr --to csv -o - | head\tto stdout\n"
			 "memtrace export job.mtr --to torch-timeline -o job.json.gz\tbytes by category over time\n"
			 "memtrace export job.mtr --to torch-snapshot -o job.pickle\tto drop on pytorch.org/memory_viz\n"
			 "memtrace export job.mtr --to perfetto --ops -o job.pftrace\tto open in ui.perfetto.dev\n" },
	[CMD_DIFF] = { "diff", "A.mtr B.mtr [--by WHAT] [--json] [--top N]", "two recordings side by side: what grew",
		       "Replays both and compares, row by row, what lived on average over whole steps, at the peak and at the "
		       "end, and what was allocated a step, so that recordings of different length compare; without steps in "
		       "both, a second. The row that grew most comes first. Says what the two do not have in common: sources, "
		       "losses, steps. docs/leaks.md tells the numbers. Needs no root.",
		       "memtrace diff before.mtr after.mtr\tby operator\n"
		       "memtrace diff before.mtr after.mtr --by category\twhat the growth is for\n"
		       "memtrace diff before.mtr after.mtr --json | jq '.rows[0]'\tthe worst one\n" },
	[CMD_ESTIMATE] = { "estimate",
			   "GRAPH.json [--device DEVICE] [--json] [--top N]\nF.mtr [--device DEVICE] [--json] [--top N]\n"
			   "F.mtr [--optimizer WHICH] [--dtype WHICH] [--shard N]\n"
			   "F.mtr [--checkpoint MODULE,…] [--budget SIZE]\n"
			   "F.mtr [B.mtr] --batches A[,B] [--batch N] [--budget SIZE]",
			   "the peak of a graph before it runs; what was kept for nothing",
			   "Reads a graph of torch.fx or AOTAutograd that python -m memtrace.graph wrote, and says how much "
			   "memory it takes over its execution, where the peak is, and who is alive then: the numbers of "
			   "torch's own estimator (torch/_inductor/fx_passes/memory_estimator.py), views and writes in place "
			   "counted once. With a forward and a backward graph also the peak of both, one after the other. No "
			   "GPU, no tensors and no root: the model is traced, not run. Of a recording: bytes that were kept "
			   "past their last use, by operator, module and line, the lowest peak that freeing them could have "
			   "reached, an order of operators with a lower peak if one is found, and how far torch's estimator is "
			   "off (docs/estimate.md).",
			   "python -m memtrace.graph train:make --device cuda:0 -o graph.json\twrite the graphs of a model\n"
			   "memtrace estimate graph.json\tits peak, and who is alive then\n"
			   "memtrace estimate graph.json --json | jq .forward_backward.peak\tone number\n"
			   "memtrace estimate job.mtr\twhat was kept past its last use\n"
			   "memtrace estimate job.mtr --optimizer sgd --dtype bf16\twhat its peak would be\n"
			   "memtrace estimate job.mtr --shard 8 --units 'layers.*'\tthat of a rank of eight\n"
			   "memtrace estimate b16.mtr b32.mtr --batches 16,32 --budget 80G\twhat fits\n" },
	[CMD_MERGE] = { "merge", "A.mtr B.mtr… -o C.mtr [--align WHICH]", "recordings of several machines or ranks as one",
			"Writes one recording with the events of all, by time: for report --by rank and every other view. "
			"Clocks of machines are brought together by the training steps that their ranks made together, or by "
			"their wall clocks; recordings of one boot share a clock. Processes of the second machine and further "
			"ones get numbers of their own (pid + machine × 4194304), so that no two are one. Says what each clock "
			"was off by (of more than six files in sum; -v: of each), and which ranks are in no file "
			"(docs/ranks.md). Needs no root.",
			"memtrace merge node0.mtr node1.mtr -o job.mtr\tthen memtrace report job.mtr --by rank\n" },
	[CMD_PLAN] = { "plan", "-p PID [--probes SOURCES] [--json | --all]", "every probe that would be set, and its cost",
		       "Shows what attaching would do, and does none of it: library, symbol, offset in the file, the "
		       "instruction that is probed, the way, and the expected cost of one hit.",
		       "memtrace plan -p 4242\ta summary on a terminal, all sites in a pipe\n"
		       "memtrace plan -p 4242 --probes host --json\tthe malloc family's sites, for a program\n" },
	[CMD_DOCTOR] = { "doctor", "", "what this kernel and machine allow, with hints",
			 "Looks at the kernel, its type information, rights, limits and the ways to set probes, and "
			 "tries on itself which instructions can be probed without harm, and what a hit costs.",
			 "memtrace doctor\tas yourself: what is missing\n"
			 "sudo memtrace doctor\twith a trial of the probes\n" },
	[CMD_SERVE] = { "serve", "-p PID|-a [--listen ADDRESS] [-o F.mtr] [OPTIONS]",
			"metrics for Prometheus and a live page",
			"Attaches as the live view does and answers HTTP: /metrics in OpenMetrics 1.0 or in Prometheus' text "
			"format, / a page that shows the numbers as they come, /healthz 200 while a traced process is there "
			"and 503 when all have ended. Goes on with the last numbers then, until Ctrl-C, SIGTERM or the end "
			"of --duration. On this machine alone unless --listen says otherwise (docs/serve.md).",
			"memtrace serve -p 4242\thttp://127.0.0.1:9464/\n"
			"memtrace serve -a\tall jobs of the machine\n"
			"memtrace serve -p 4242 -p 4243 --listen 127.0.0.1:0 -o job.mtr\ttwo processes, a free port, and a "
			"recording\n"
			"memtrace serve -p 4242 --listen unix:job\tfor you alone: curl --unix-socket " LISTEN_DIR "/job "
			"http://localhost/metrics\n"
			"memtrace serve -p 4242 --listen 0.0.0.0:9464 --token-file token\tfor other machines\n" },
};

const char exit_codes[] = "0\tall went well\n"
			  "1\tit failed; a message says why and a hint what to do\n"
			  "2\tmistake in usage\n"
			  "3\tfinished, but more events were lost than --max-loss allows\n"
			  "4\tthe probes took more of the job's time than --max-overhead allows: detached\n";

const char *command_name(enum command cmd)
{
	return command_defs[cmd].name;
}

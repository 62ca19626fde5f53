/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A loop over argv instead of getopt_long: options come from a table with a mask of commands, the
 * error of a wrong one names the right one, and nothing is printed from here.
 */
#include "cmd/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "cmd/config.h"
#include "cmd/options_table.h"
#include "cmd/words.h"
#include "plan/plan.h"

/* --- argv ------------------------------------------------------------------------------------------ */

struct argv_walk {
	struct options *o;
	char *const *argv;
	int argc, at;
};

static int unknown_option(const struct options *o, const char *arg, struct err *err)
{
	const char *cmd = command_name(o->cmd);
	struct nearest n;

	err_set(err, -EINVAL, "unknown option %.100s%s%s", arg, cmd[0] ? " for " : "", cmd);
	nearest__init(&n, arg);
	for (const struct option_def *d = option_defs; d->name; d++)
		if (d->cmds & (1u << o->cmd))
			nearest__try(&n, d->name);
	if (nearest__get(&n))
		return err_hint(err, "did you mean %s? See memtrace %s%s--help", nearest__get(&n), cmd, cmd[0] ? " " : "");
	return err_hint(err, "see memtrace %s%s--help", cmd, cmd[0] ? " " : "");
}

/* The row of "--name" (len bytes) or of a letter; NULL if this command has none. */
static const struct option_def *option_find(enum command cmd, const char *name, size_t len, char letter)
{
	for (const struct option_def *d = option_defs; d->name; d++) {
		int is_it = letter ? d->letter == letter : strlen(d->name) == len && !memcmp(d->name, name, len);

		if (is_it && (d->cmds & (1u << cmd)))
			return d;
	}
	return NULL;
}

static int apply(struct argv_walk *w, const struct option_def *d, const char *shown, const char *value, struct err *err)
{
	int r;

	if (d->arg && !value) {
		if (w->at + 1 >= w->argc) {
			err_set(err, -EINVAL, "%s needs a value: %s %s", shown, shown, d->arg);
			return err_hint(err, "%s %s: %s", shown, d->arg, d->help);
		}
		value = w->argv[++w->at];
	}
	r = d->parse(w->o, value, err);
	if (r < 0 && err && strncmp(err->msg, shown, strlen(shown))) {
		char hint[sizeof(err->hint)];

		memcpy(hint, err->hint, sizeof(hint));
		err_wrap(err, r, "%s", shown);
		memcpy(err->hint, hint, sizeof(hint));
	}
	return r;
}

static int parse_long(struct argv_walk *w, const char *arg, struct err *err)
{
	const char *eq = strchr(arg, '=');
	size_t len = eq ? (size_t)(eq - arg) : strlen(arg);
	const struct option_def *d = option_find(w->o->cmd, arg, len, 0);

	if (!d)
		return unknown_option(w->o, arg, err);
	if (eq && !d->arg)
		return err_set(err, -EINVAL, "%s takes no value", d->name);
	if (!eq && option_value_is_optional(d))
		return d->parse(w->o, NULL, err);
	return apply(w, d, d->name, eq ? eq + 1 : NULL, err);
}

/* -vv, -pPID, -p PID */
static int parse_letters(struct argv_walk *w, const char *arg, struct err *err)
{
	int r = 0;

	for (const char *p = arg + 1; *p && !r; p++) {
		const struct option_def *d = option_find(w->o->cmd, NULL, 0, *p);
		char shown[3] = { '-', *p, '\0' };

		if (!d)
			return unknown_option(w->o, arg, err);
		if (d->arg)
			return apply(w, d, shown, p[1] ? p + 1 : NULL, err);
		r = apply(w, d, shown, NULL, err);
	}
	return r;
}

static int parse_word(struct options *o, const char *arg, struct err *err)
{
	if ((o->cmd == CMD_REPORT || o->cmd == CMD_EXPORT || o->cmd == CMD_ESTIMATE || o->cmd == CMD_CHECK) && !o->file) {
		o->file = arg;
		return 0;
	}
	if (o->cmd == CMD_COMPLETION && !o->shell) {
		o->shell = arg;
		return 0;
	}
	if ((o->cmd == CMD_MERGE || (o->cmd == CMD_MCP && strcmp(arg, "-"))) && o->files_cnt < OPT_FILES_MAX) {
		o->files[o->files_cnt++] = arg;
		return 0;
	}
	if ((o->cmd == CMD_DIFF || o->cmd == CMD_ESTIMATE) && !o->file_b) {
		*(o->file ? &o->file_b : &o->file) = arg;
		return 0;
	}
	err_set(err, -EINVAL, "unexpected '%.100s'", arg);
	if (o->cmd == CMD_RECORD)
		return err_hint(err, "to start a command: memtrace record [OPTIONS] -- %.100s …", arg);
	if (o->cmd == CMD_LIVE && isdigit((unsigned char)arg[0]))
		return err_hint(err, "a process is named with -p: memtrace -p %.20s", arg);
	if (o->cmd == CMD_LIVE)
		return err_hint(err, "a command stands first: memtrace COMMAND [OPTIONS]");
	return err_hint(err, "see memtrace %s --help", command_name(o->cmd));
}

static int ends_with(const char *word, const char *end)
{
	return strlen(word) > strlen(end) && !strcmp(word + strlen(word) - strlen(end), end);
}

static int command_find(const char *word, enum command *ret, struct err *err)
{
	struct nearest n;

	nearest__init(&n, word);
	for (int c = CMD_LIVE + 1; c < CMD_CNT; c++) {
		nearest__try(&n, command_name((enum command)c));
		if (!strcmp(word, command_name((enum command)c))) {
			*ret = (enum command)c;
			return 0;
		}
	}
	nearest__try(&n, "help");
	nearest__try(&n, "version");
	err_set(err, -EINVAL, "unknown command '%.100s'", word);
	if (isdigit((unsigned char)word[0]))
		return err_hint(err, "a process is named with -p: memtrace -p %.20s", word);
	if (ends_with(word, ".mtr"))
		return err_hint(err, "to read a recording: memtrace report %.200s", word);
	if (ends_with(word, ".py"))
		return err_hint(err, "to watch it: memtrace --name %.80s; to start it: memtrace record -- python %.80s",
				word, word);
	if (nearest__get(&n))
		return err_hint(err, "did you mean memtrace %s? memtrace --help lists all commands", nearest__get(&n));
	return err_hint(err, "memtrace --help lists all commands");
}

/* memtrace help [COMMAND], memtrace version: 1 if it is one of them. */
static int parse_about(struct options *o, int argc, char *const *argv, struct err *err)
{
	int is_help = !strcmp(argv[1], "help"), r;

	if (!is_help && strcmp(argv[1], "version"))
		return 0;
	if (argc > 2 + is_help) {
		err_set(err, -EINVAL, "unexpected '%.100s'", argv[2 + is_help]);
		return err_hint(err, is_help ? "memtrace help COMMAND" : "memtrace version stands alone");
	}
	o->help = is_help;
	o->version = !is_help;
	if (argc == 2 || !strcmp(argv[2], "help") || !strcmp(argv[2], "version"))
		return 1;
	r = command_find(argv[2], &o->cmd, err);
	return r < 0 ? r : 1;
}

/* Categories need the tensors of operators (flow) and every block's allocation and free (framework). */
static int has_sources(const struct options *o, struct err *err)
{
	if (o->cmd != CMD_LIVE && o->cmd != CMD_RECORD && o->cmd != CMD_SERVE)
		return 0;
	if (o->sources & SRC_FLOW && !(o->sources & SRC_FRAMEWORK))
		err_set(err, -EINVAL, "categories would be wrong: flow without framework misses allocations and frees");
	else if (o->by == BY_CATEGORY && !(o->sources & SRC_FLOW))
		err_set(err, -EINVAL, "no categories without the source flow");
	else if (o->by == BY_MODULE && !(o->sources & (SRC_OPS | SRC_FLOW)))
		err_set(err, -EINVAL, "no modules without operators: the source flow, or ops");
	else
		return 0;
	return err_hint(err, "--probes framework,flow,regions");
}

static int has_all_of_estimate(const struct options *o, struct err *err)
{
	static const char how[] = "memtrace estimate A.mtr [B.mtr] --batches 16[,32] --batch 64 --budget 80G";

	if (!o->file) {
		err_set(err, -EINVAL, "of what? GRAPH.json or F.mtr is missing");
		return err_hint(err, "memtrace estimate GRAPH.json; python -m memtrace.graph writes one (docs/estimate.md)");
	}
	if (!o->file_b && memcmp(o->pids, o->pids_b, sizeof(o->pids))) {
		err_set(err, -EINVAL, "--pid A,B needs two recordings");
		return err_hint(err, "of one: --pid A");
	}
	if (!o->file_b != !o->batches[1]) {
		err_set(err, -EINVAL, o->file_b ? "two recordings need --batches A,B" : "--batches A,B needs two recordings");
		return err_hint(err, "%s", how);
	}
	if (o->batch && !o->batches[0]) {
		err_set(err, -EINVAL, "--batch needs --batches: how many the recorded one had");
		return err_hint(err, "%s", how);
	}
	if (o->batches[0] && !o->batch && !o->budget) {
		err_set(err, -EINVAL, "--batches alone asks nothing: --batch or --budget is missing");
		return err_hint(err, "%s", how);
	}
	if (o->budget && !o->batches[0] && !o->checkpoint) {
		err_set(err, -EINVAL, "--budget needs --batches or --checkpoint: what is to fit into it");
		return err_hint(err, "%s", how);
	}
	if ((o->units || o->no_reshard) && !o->ranks) {
		err_set(err, -EINVAL, "%s is about --shard", o->units ? "--units" : "--no-reshard");
		return err_hint(err, "memtrace estimate F.mtr --shard 8 --units 'layers.*'");
	}
	return 0;
}

static int has_files(const struct options *o, struct err *err)
{
	if (o->cmd == CMD_MCP && !o->files_cnt) {
		err_set(err, -EINVAL, "which recordings? FILE.mtr or a directory of them is missing");
		return err_hint(err, "memtrace mcp DIRECTORY; nothing else can be asked about then");
	}
	if (o->cmd == CMD_MERGE && (o->files_cnt < 2 || !o->out)) {
		err_set(err, -EINVAL, "%s", o->out ? "which recordings? two at least" : "-o OUT.mtr is missing");
		return err_hint(err, "memtrace merge A.mtr B.mtr -o C.mtr");
	}
	return 0;
}

/* The command's subject is given, and is of a known kind. */
static int has_subject(const struct options *o, struct err *err)
{
	int is_named = o->pids_cnt || o->names_cnt;

	if (o->all_jobs && (is_named || o->launch)) {
		err_set(err, -EINVAL, "-a is all jobs: %s is one", o->launch ? "a command" : o->pids_cnt ? "-p PID" : "--name");
		return err_hint(err, "leave one of the two out");
	}
	if ((o->cmd == CMD_LIVE || o->cmd == CMD_PLAN || o->cmd == CMD_SERVE) && !is_named && !o->all_jobs) {
		err_set(err, -EINVAL, "which process? -p PID is missing");
		return err_hint(err, "memtrace %s%s-p PID, or --name train.py; memtrace ps lists those with PyTorch%s",
				command_name(o->cmd), o->cmd ? " " : "", o->cmd == CMD_PLAN ? "" : ", -a takes them all");
	}
	if (o->cmd == CMD_RECORD && !o->all_jobs && !is_named == !o->launch) {
		err_set(err, -EINVAL, o->launch ? "either -p PID or -- COMMAND, not both" : "which process? -p PID is missing");
		return err_hint(err, "memtrace record -p PID, or --name train.py, or memtrace record -- COMMAND ARGS…; "
				"memtrace ps lists the processes with PyTorch");
	}
	if ((o->cmd == CMD_REPORT || o->cmd == CMD_EXPORT || o->cmd == CMD_CHECK) && !o->file) {
		err_set(err, -EINVAL, "which recording? FILE.mtr is missing");
		return err_hint(err, "memtrace %s FILE.mtr; memtrace record -p PID makes one", command_name(o->cmd));
	}
	if (o->cmd == CMD_CHECK && !o->max_peak) {
		err_set(err, -EINVAL, "which limit? --max-peak SIZE is missing");
		return err_hint(err, "memtrace check F.mtr --max-peak 20G");
	}
	if (o->md && o->json) {
		err_set(err, -EINVAL, "--md and --json are two ways to write the same");
		return err_hint(err, "leave one of the two out");
	}
	if (o->cmd == CMD_DIFF && !o->file_b) {
		err_set(err, -EINVAL, "which recordings? %s missing", o->file ? "the second one is" : "A.mtr and B.mtr are");
		return err_hint(err, "memtrace diff A.mtr B.mtr; memtrace record -p PID makes one");
	}
	if (o->cmd == CMD_COMPLETION && (!o->shell || completion_write(NULL, o->shell))) {
		err_set(err, -EINVAL, o->shell ? "no completions for '%.100s'" : "for which shell?", o->shell);
		return err_hint(err, "memtrace completion bash, zsh or fish");
	}
	if (o->cmd == CMD_LIVE && o->by == BY_RANK) {
		err_set(err, -EINVAL, "ranks are compared after the fact, in a recording");
		return err_hint(err, "memtrace record -p PID -o F.mtr, then memtrace report F.mtr --by rank; "
				"serve has them live");
	}
	if (o->cmd == CMD_DIFF && o->by == BY_PROCESS) {
		err_set(err, -EINVAL, "processes of two traces are not the same ones");
		return err_hint(err, "--by rank, op, category, device, module, name, region, symbol or stack");
	}
	if (o->cmd == CMD_MERGE || o->cmd == CMD_MCP)
		return has_files(o, err);
	if (o->cmd == CMD_EXPORT && !o->format) {
		err_set(err, -EINVAL, "--to FORMAT is missing");
		return err_hint(err, "memtrace export F.mtr --to jsonl -o OUT (- is stdout)");
	}
	if (o->cmd == CMD_EXPORT && o->classes && export_format_find(o->format)->needs & EXPORT_COMPAT) {
		err_set(err, -EINVAL, "%s has torch.profiler's categories only, not --classes extended", o->format);
		return err_hint(err, "--to jsonl and csv have both");
	}
	return 0;
}

static int is_tracing(const struct options *o)
{
	return o->cmd == CMD_LIVE || o->cmd == CMD_RECORD || o->cmd == CMD_SERVE;
}

#define BUDGET_OWN 0.02
#define SRC_WINDOWS (SRC_FRAMEWORK | SRC_OPS | SRC_VIEWS | SRC_FLOW | SRC_HOST) /* sources that come and go with windows */

/*
 * A live view, or serving numbers for weeks, must not slow the job. A recording is of all steps unless an option says
 * otherwise, and so is a view whose probes were chosen to stay.
 */
static void options__set_budget(struct options *o)
{
	bool is_view = o->cmd == CMD_LIVE || o->cmd == CMD_SERVE;

	if (!is_view || o->has_max_overhead || o->every_ns || o->keep_idle || !(o->sources & SRC_WINDOWS))
		return;
	o->max_overhead = BUDGET_OWN;
	o->is_budget_own = 1;
}

/* Of tracing: --steps, --every, --between, --max-overhead. */
static int has_windows(const struct options *o, struct err *err)
{
	bool has_budget = o->max_overhead > 0;

	if (!has_budget && o->between == BETWEEN_AUTO) {
		err_set(err, -EINVAL, "--between auto goes by the budget: --max-overhead is missing");
		return err_hint(err, "--max-overhead 2 --between auto, or --between blocks");
	}
	if (!has_budget && (!o->steps != !o->every_ns || (o->between == BETWEEN_BLOCKS && !o->every_ns))) {
		err_set(err, -EINVAL, "%s needs %s", o->steps ? "--steps" : o->every_ns ? "--every" : "--between",
			o->steps || o->between == BETWEEN_BLOCKS ? "--every or --max-overhead" : "--steps");
		return err_hint(err, "--steps 3 --every 60s traces three whole steps a minute");
	}
	if ((o->align_steps || o->align_ns) && !has_budget && !o->every_ns) {
		err_set(err, -EINVAL, "--align is about windows: --every or --max-overhead is missing");
		return err_hint(err, "--max-overhead 2 --align 1000");
	}
	if ((o->every_ns || has_budget) && o->keep_idle) {
		err_set(err, -EINVAL, "--keep-idle keeps probes that %s takes away", has_budget ? "--max-overhead" : "--every");
		return err_hint(err, "leave one of the two out");
	}
	return 0;
}

/* The subject of each option is asked for, too. */
static int has_sense(const struct options *o, struct err *err)
{
	int r = is_tracing(o) ? has_windows(o, err) : 0;

	if (r < 0)
		return r;
	if ((o->depth || o->phase) && o->by != BY_MODULE) {
		err_set(err, -EINVAL, "%s is about the table of modules", o->depth ? "--depth" : "--phase");
		return err_hint(err, "memtrace report F.mtr --by module");
	}
	if (o->steps && !is_tracing(o) && !o->flow) {
		err_set(err, -EINVAL, "--steps is about the steps that --flow shows");
		return err_hint(err, "memtrace report F.mtr --flow --steps N");
	}
	if (o->cmd == CMD_DIFF && o->out && (o->json || o->md)) {
		err_set(err, -EINVAL, "-o writes a page: %s is another way to write the same", o->json ? "--json" : "--md");
		return err_hint(err, "leave one of the two out; %s goes to standard output", o->json ? "--json" : "--md");
	}
	if (o->flow && (o->has_by || o->tui)) {
		err_set(err, -EINVAL, "--flow prints nodes: %s is about another view", o->tui ? "--tui" : "--by");
		return err_hint(err, "leave one of the two out; --steps N says how much --flow shows");
	}
	if (o->new_peak > 0 && !o->window_ns) {
		err_set(err, -EINVAL, "--on-new-peak writes the window: how long is that?");
		return err_hint(err, "memtrace record -p PID --window 60s --on-new-peak 10");
	}
	if (o->window_size && !o->window_ns) {
		err_set(err, -EINVAL, "--window-size is about the memory of --window");
		return err_hint(err, "memtrace record -p PID --window 60s --window-size 64M");
	}
	if (o->has_stack_size && !o->stacks) {
		err_set(err, -EINVAL, "--stack-size is about the blocks that --stacks looks at");
		return err_hint(err, "memtrace record -p PID --stacks --stack-size 64K");
	}
	if (o->stacks && !(o->sources & (SRC_FRAMEWORK | SRC_HOST | SRC_USDT | SRC_SEGMENTS))) {
		err_set(err, -EINVAL, "--stacks: no source of allocations is watched, so no stack would come");
		return err_hint(err, "--probes framework,flow,regions, or host for malloc");
	}
	if (o->leaks && (o->has_by || o->tui || o->flow)) {
		err_set(err, -EINVAL, "--leaks is a table of its own: %s is about another view",
			o->has_by ? "--by" : o->tui ? "--tui" : "--flow");
		return err_hint(err, "leave one of the two out");
	}
	return 0;
}

static int has_csv_sense(const struct options *o, struct err *err)
{
	const char *other = o->json ? "--json" : o->tui ? "--tui" : o->flow ? "--flow" : o->leaks ? "--leaks" : NULL;

	if (o->md && (o->cmd == CMD_LIVE || o->cmd == CMD_REPORT) && (other || o->csv || (o->has_by && !is_filtered(o)))) {
		err_set(err, -EINVAL, "--md prints the verdict and its own tables: %s is about another view",
			other ? other : o->csv ? "--csv" : "--by");
		return err_hint(err, "leave one of the two out");
	}
	if (!o->csv || (!other && (o->by != BY_STACK || is_filtered(o))))
		return 0;
	if (other) {
		err_set(err, -EINVAL, "--csv prints the table of --by: %s is about another view", other);
		return err_hint(err, "leave one of the two out; --json has all tables");
	}
	err_set(err, -EINVAL, "a stack has many frames, and a line of CSV no place for them");
	return err_hint(err, "--json --by stack, or memtrace export F.mtr --to folded");
}

/* serve's data must not be open to everybody on a network. */
static int has_door(const struct options *o, struct err *err)
{
	if (!o->listen.is_loopback && !o->listen.is_unix && !o->token_file) {
		err_set(err, -EINVAL, "%s is reached by other machines: without a token everybody would read the job's numbers",
			o->listen.text);
		return err_hint(err, "--token-file FILE (umask 077; openssl rand -hex 32 >FILE), or --listen unix:NAME and "
				"ssh -L");
	}
	if (o->has_socket_group && !o->listen.is_unix) {
		err_set(err, -EINVAL, "--socket-group is about a Unix socket");
		return err_hint(err, "--listen unix:NAME --socket-group GROUP");
	}
	return 0;
}

/* Text goes where the shell sends it, but to a terminal only on request; binary formats never go to one. */
static int has_output(struct options *o, struct err *err)
{
	int is_binary = (export_format_find(o->format)->needs & EXPORT_BINARY) != 0, is_tty = isatty(STDOUT_FILENO);

	if (!o->out && !is_binary && !is_tty) {
		o->out = "-";
		return 0;
	}
	if (o->out && !(is_binary && is_tty && !strcmp(o->out, "-")))
		return 0;
	if (o->out)
		err_set(err, -EINVAL, "%s is no text, and standard output is a terminal", o->format);
	else if (is_tty)
		err_set(err, -EINVAL, "-o OUT is missing, and standard output is a terminal");
	else
		err_set(err, -EINVAL, "-o OUT is missing: %s is no text, which alone goes to standard output unasked",
			o->format);
	return err_hint(err, is_binary ? "memtrace export F.mtr --to %s -o OUT" :
					 "memtrace export F.mtr --to %s -o OUT (- is the terminal), or … | less", o->format);
}

/* A default --by that this command does not have gives way to op. */
static void drop_default_table(struct options *o)
{
	bool traces = is_tracing(o), flow = o->sources & SRC_FLOW, ops = o->sources & SRC_OPS;

	if (o->has_by)
		return;
	if ((o->by == BY_CATEGORY && traces && !flow) || (o->by == BY_MODULE && traces && !flow && !ops) ||
	    (o->by == BY_RANK && (o->cmd == CMD_LIVE || is_of_processes(o))) || (o->by == BY_PROCESS && o->cmd == CMD_DIFF) ||
	    (o->by == BY_STACK && o->csv) || (o->by == BY_SYMBOL && is_filtered(o) && !is_of_processes(o)))
		o->by = BY_OP;
}

static int has_all(struct options *o, struct err *err)
{
	int r;

	options__set_budget(o);
	drop_default_table(o);
	r = o->cmd == CMD_ESTIMATE ? has_all_of_estimate(o, err) : has_subject(o, err);
	if (!r)
		r = filter_has_sense(o, err);
	if (!r)
		r = has_sense(o, err);
	if (!r)
		r = has_csv_sense(o, err);
	if (!r)
		r = has_sources(o, err);
	if (!r && o->cmd == CMD_EXPORT)
		r = has_output(o, err);
	return !r && o->cmd == CMD_SERVE ? has_door(o, err) : r;
}

/* Of our own options, not of a command to start. */
static int is_typed(int argc, char *const *argv, const char *option)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		if (!strcmp(argv[i], option))
			return 1;
	return 0;
}

static int asks_for_no_config(int argc, char *const *argv)
{
	static const char *const words[] = { "--no-config", "--help", "-h", "--version", "-V", "--man" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (is_typed(argc, argv, words[i]))
			return 1;
	return 0;
}

static int parse(struct options *o, int argc, char *const *argv, int with_config, struct err *err);

/* Of two options that exclude each other one at most was typed: the message says that the other one is a default. */
static void blame_config(int argc, char *const *argv, struct err *err)
{
	struct options *typed = malloc(sizeof(*typed));

	if (typed && !parse(typed, argc, argv, 0, NULL))
		err_hint(err, "one of them is a default (" CONFIG_SYSTEM ", or the user's): --no-config reads none");
	free(typed);
}

static int parse(struct options *o, int argc, char *const *argv, int with_config, struct err *err)
{
	struct argv_walk w = { .o = o, .argv = argv, .argc = argc, .at = 1 };
	struct err unheard;
	int r = 0;

	err = err ? err : &unheard; /* err_hint returns 0 without one */
	*o = (struct options){ .sources = SRC_DEFAULT, .dev = -1, .category = -1, .rank = -1, .fail_share = -1,
			       .stack_size = STACK_SIZE_DEFAULT };
	(void)listen_parse(LISTEN_DEFAULT, &o->listen, NULL);
	if (argc < 2) {
		o->is_bare = o->help = 1;
		return with_config ? config_read(o, err) : 0;
	}
	r = parse_about(o, argc, argv, err);
	if (r)
		return r < 0 ? r : 0;
	if (argv[1][0] != '-') {
		r = command_find(argv[1], &o->cmd, err);
		w.at = 2;
	}
	if (!r && with_config && o->cmd != CMD_COMPLETION && !asks_for_no_config(argc, argv))
		r = config_read(o, err);
	for (; w.at < argc && !r; w.at++) {
		const char *arg = argv[w.at];

		if (!strcmp(arg, "--")) {
			if (o->cmd != CMD_RECORD || w.at + 1 >= argc) {
				err_set(err, -EINVAL, "-- stands before a command to start");
				return err_hint(err, "memtrace record [OPTIONS] -- COMMAND ARGS…");
			}
			o->launch = argv + w.at + 1;
			break;
		}
		r = arg[0] != '-' || !arg[1] ? parse_word(o, arg, err) :
		    arg[1] == '-'	      ? parse_long(&w, arg, err) :
						parse_letters(&w, arg, err);
	}
	if (!r && !o->help && !o->version && !o->man) {
		r = has_all(o, err);
		if (r < 0 && o->config_cnt)
			blame_config(argc, argv, err);
	}
	return r;
}

int options__parse(struct options *o, int argc, char *const *argv, struct err *err)
{
	return parse(o, argc, argv, 1, err);
}

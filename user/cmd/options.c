/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Our own walk over argv instead of getopt_long: options come from a table with a mask of commands,
 * a wrong one gets an answer that names the right one, and nothing is printed from here.
 */
#include "cmd/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "cmd/options_table.h"
#include "cmd/words.h"
#include "plan/plan.h"

/* --- argv ------------------------------------------------------------------------------------------ */

struct walk {
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

static int apply(struct walk *w, const struct option_def *d, const char *shown, const char *value, struct err *err)
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

static int parse_long(struct walk *w, const char *arg, struct err *err)
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
static int parse_letters(struct walk *w, const char *arg, struct err *err)
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
	if ((o->cmd == CMD_REPORT || o->cmd == CMD_EXPORT || o->cmd == CMD_ESTIMATE) && !o->file) {
		o->file = arg;
		return 0;
	}
	if (o->cmd == CMD_MERGE && o->files_cnt < OPT_FILES_MAX) {
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
	err_set(err, -EINVAL, "unknown command '%.100s'", word);
	if (isdigit((unsigned char)word[0]))
		return err_hint(err, "a process is named with -p: memtrace -p %.20s", word);
	if (nearest__get(&n))
		return err_hint(err, "did you mean memtrace %s? memtrace --help lists all commands", nearest__get(&n));
	return err_hint(err, "memtrace --help lists all commands");
}

/* Categories need the tensors of operators (flow) and every block's birth and free (framework). */
static int has_sources(const struct options *o, struct err *err)
{
	if (o->cmd != CMD_LIVE && o->cmd != CMD_RECORD && o->cmd != CMD_SERVE)
		return 0;
	if (o->sources & SRC_FLOW && !(o->sources & SRC_FRAMEWORK))
		err_set(err, -EINVAL, "categories would be wrong: flow without framework misses births and frees of blocks");
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

/* What the command is about is there, and is something that it knows. */
static int has_subject(const struct options *o, struct err *err)
{
	if (o->all_jobs && (o->pids_cnt || o->launch)) {
		err_set(err, -EINVAL, "-a is all jobs: %s is one", o->launch ? "a command" : "-p PID");
		return err_hint(err, "leave one of the two out");
	}
	if ((o->cmd == CMD_LIVE || o->cmd == CMD_PLAN || o->cmd == CMD_SERVE) && !o->pids_cnt && !o->all_jobs) {
		err_set(err, -EINVAL, "which process? -p PID is missing");
		return err_hint(err, "memtrace %s%s-p PID; memtrace --help tells more", command_name(o->cmd),
				o->cmd ? " " : "");
	}
	if (o->cmd == CMD_RECORD && !o->all_jobs && !o->pids_cnt == !o->launch) {
		err_set(err, -EINVAL, o->launch ? "either -p PID or -- COMMAND, not both" : "which process? -p PID is missing");
		return err_hint(err, "memtrace record -p PID, or memtrace record -- COMMAND ARGS…");
	}
	if ((o->cmd == CMD_REPORT || o->cmd == CMD_EXPORT) && !o->file) {
		err_set(err, -EINVAL, "which recording? FILE.mtr is missing");
		return err_hint(err, "memtrace %s FILE.mtr; memtrace record -p PID makes one", command_name(o->cmd));
	}
	if (o->cmd == CMD_DIFF && !o->file_b) {
		err_set(err, -EINVAL, "which recordings? %s missing", o->file ? "the second one is" : "A.mtr and B.mtr are");
		return err_hint(err, "memtrace diff A.mtr B.mtr; memtrace record -p PID makes one");
	}
	if (o->cmd == CMD_LIVE && o->by == BY_RANK) {
		err_set(err, -EINVAL, "ranks are compared after the fact, in a recording");
		return err_hint(err, "memtrace record -p PID -o F.mtr, then memtrace report F.mtr --by rank; "
				"serve has them live");
	}
	if (o->cmd == CMD_DIFF && (o->by == BY_PROCESS || o->by == BY_NAME || o->by == BY_RANK || o->by == BY_MODULE)) {
		err_set(err, -EINVAL, o->by == BY_NAME || o->by == BY_MODULE ? "names of two traces are not compared" :
						       "processes of two traces are not the same ones");
		return err_hint(err, "--by op, category, device, region, symbol or stack");
	}
	if (o->cmd == CMD_MERGE && (o->files_cnt < 2 || !o->out)) {
		err_set(err, -EINVAL, "%s", o->out ? "which recordings? two at least" : "-o OUT.mtr is missing");
		return err_hint(err, "memtrace merge A.mtr B.mtr -o C.mtr");
	}
	if (o->cmd == CMD_EXPORT && !(o->format && o->out)) {
		err_set(err, -EINVAL, "%s is missing", o->format ? "-o OUT" : "--to FORMAT");
		return err_hint(err, "memtrace export F.mtr --to jsonl -o OUT (- is stdout)");
	}
	if (o->cmd == CMD_EXPORT && o->classes && export_format_find(o->format)->needs & EXPORT_COMPAT) {
		err_set(err, -EINVAL, "%s has torch.profiler's categories only, not --classes extended", o->format);
		return err_hint(err, "--to jsonl and csv have both");
	}
	return 0;
}

/* What options are about is asked for, too. */
static int has_sense(const struct options *o, struct err *err)
{
	if ((o->depth || o->phase) && o->by != BY_MODULE) {
		err_set(err, -EINVAL, "%s is about the table of modules", o->depth ? "--depth" : "--phase");
		return err_hint(err, "memtrace report F.mtr --by module");
	}
	if (o->steps && !o->flow) {
		err_set(err, -EINVAL, "--steps is about the steps that --flow shows");
		return err_hint(err, "memtrace report F.mtr --flow --steps N");
	}
	if (o->flow && (o->has_by || o->tui)) {
		err_set(err, -EINVAL, "--flow prints nodes: %s is about another view", o->tui ? "--tui" : "--by");
		return err_hint(err, "leave one of the two out; --steps N says how much --flow shows");
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

/* What serve shows is not for everybody whom a network reaches. */
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

static int has_all(const struct options *o, struct err *err)
{
	int r;

	if (o->cmd == CMD_ESTIMATE)
		return has_all_of_estimate(o, err);
	r = has_subject(o, err);
	if (!r)
		r = has_sense(o, err);
	if (!r)
		r = has_sources(o, err);
	return !r && o->cmd == CMD_SERVE ? has_door(o, err) : r;
}

int options__parse(struct options *o, int argc, char *const *argv, struct err *err)
{
	struct walk w = { .o = o, .argv = argv, .argc = argc, .at = 1 };
	struct err unheard;
	int r = 0;

	err = err ? err : &unheard; /* err_hint returns 0 without one */
	*o = (struct options){ .sources = SRC_DEFAULT, .dev = -1, .stack_size = STACK_SIZE_DEFAULT };
	(void)listen_parse(LISTEN_DEFAULT, &o->listen, NULL);
	if (argc < 2) {
		o->help = 1;
		return 0;
	}
	if (argv[1][0] != '-') {
		r = command_find(argv[1], &o->cmd, err);
		w.at = 2;
	}
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
	if (!r && !o->help && !o->version && !o->man)
		r = has_all(o, err);
	return r;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * completion: scripts for shells, made of the tables of options and commands. All three work the same way: find the command,
 * offer the values of the option before the cursor, else its options behind a dash, else arguments without one.
 *
 * bash splits words at = and :, so --stacks=py arrives as three words, and values with a colon are offered whole, before it.
 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "cmd/options_table.h"

#define ABOUT_COLS 60

static const char completion_shells[] = "bash zsh fish";

enum value { VALUE_NONE, VALUE_WORDS, VALUE_PID, VALUE_FILE };

static enum value value_of(const struct option_def *d)
{
	if (d->words || !strcmp(d->arg, "FORMAT"))
		return VALUE_WORDS;
	if (!strcmp(d->arg, "PID"))
		return VALUE_PID;
	return !strcmp(d->arg, "FILE") || !strncmp(d->arg, "OUT", 3) ? VALUE_FILE : VALUE_NONE;
}

static void put_words(FILE *out, const struct option_def *d)
{
	if (d->words) {
		fputs(d->words, out);
		return;
	}
	for (const struct export_format *const *f = export_formats(); *f; f++)
		fprintf(out, "%s%s", f == export_formats() ? "" : " ", (*f)->name);
}

/* Arguments of a command line without a dash. */
enum words_of { WORDS_NONE, WORDS_RECORDING, WORDS_FILE, WORDS_SHELL };

static enum words_of words_of(enum command c)
{
	switch (c) {
	case CMD_CHECK:
	case CMD_REPORT:
	case CMD_EXPORT:
	case CMD_DIFF:
	case CMD_MERGE:
	case CMD_MCP:
		return WORDS_RECORDING;
	case CMD_ESTIMATE:
		return WORDS_FILE;
	case CMD_COMPLETION:
		return WORDS_SHELL;
	default:
		return WORDS_NONE;
	}
}

/* The beginning of an explanation, for a line of a list: in single quotes of all three shells, and without a colon (zsh). */
static void put_about(FILE *out, const char *help)
{
	size_t len = strcspn(help, ":;(");

	if (len > ABOUT_COLS)
		for (len = ABOUT_COLS; len > 1 && help[len] != ' ';)
			len--;
	while (len > 1 && (help[len - 1] == ' ' || help[len - 1] == ','))
		len--;
	for (size_t i = 0; i < len; i++)
		if (!strchr("'\\[]", help[i]))
			fputc(help[i], out);
}

static const char *case_name(enum command c)
{
	return c == CMD_LIVE ? "live" : command_name(c);
}

static void put_commands(FILE *out)
{
	for (int c = CMD_LIVE + 1; c < CMD_CNT; c++)
		fprintf(out, "%s ", command_name((enum command)c));
	fputs("help version", out);
}

/* --- bash ------------------------------------------------------------------------------------------------------ */

static void bash_values(FILE *out, enum command c)
{
	for (const struct option_def *d = option_defs; d->name; d++) {
		enum value v = d->cmds & 1u << c && d->arg ? value_of(d) : VALUE_NONE;

		if (!(d->cmds & 1u << c) || !d->arg)
			continue;
		fprintf(out, "\t\"%s %s\"", case_name(c), d->name);
		if (d->letter)
			fprintf(out, "|\"%s -%c\"", case_name(c), d->letter);
		fputs(") ", out);
		if (v == VALUE_WORDS) {
			fputs("COMPREPLY=($(compgen -W '", out);
			put_words(out, d);
			fputs("' -- \"$cur\"))", out);
		} else if (v == VALUE_PID) {
			fputs("COMPREPLY=($(compgen -W \"$(\"$1\" ps 2>/dev/null | awk '$1 ~ /^[0-9]+$/ { print $1 }')\" "
			      "-- \"$cur\"))", out);
		} else if (v == VALUE_FILE) {
			fputs("compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$cur\"))", out);
		}
		fputs(option_value_is_optional(d) ? "; [[ $is_value ]] || return 1 ;;\n" : " ;;\n", out);
	}
}

static void bash_options(FILE *out, enum command c)
{
	fprintf(out, "\t%s) echo '", case_name(c));
	for (const struct option_def *d = option_defs; d->name; d++)
		if (d->cmds & 1u << c)
			fprintf(out, "%s%s ", d->name, option_value_is_optional(d) ? "=" : "");
	fputs("' ;;\n", out);
}

static void bash_words(FILE *out)
{
	fputs("\tcase $cmd in\n\thelp) COMPREPLY=($(compgen -W '", out);
	put_commands(out);
	fputs("' -- \"$cur\")) ;;\n", out);
	for (int c = CMD_LIVE; c < CMD_CNT; c++) {
		enum words_of w = words_of((enum command)c);

		if (w == WORDS_SHELL)
			fprintf(out, "\t%s) COMPREPLY=($(compgen -W '%s' -- \"$cur\")) ;;\n", case_name((enum command)c),
				completion_shells);
		else if (w != WORDS_NONE)
			fprintf(out, "\t%s) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- \"$cur\") "
				"$(compgen -f %s -- \"$cur\")) ;;\n", case_name((enum command)c),
				w == WORDS_RECORDING ? "-X '!*.mtr'" : "");
	}
	fputs("\tesac\n", out);
}

static void write_bash(FILE *out)
{
	fputs("# bash completion for memtrace, made by: memtrace completion bash\n"
	      "_memtrace_options()\n{\n\tcase $1 in\n", out);
	for (int c = CMD_LIVE; c < CMD_CNT; c++)
		bash_options(out, (enum command)c);
	fputs("\tesac\n}\n\n# The value of an option: 1 if it is none of one.\n"
	      "_memtrace_value()\n{\n\tcase \"$cmd $prev\" in\n", out);
	for (int c = CMD_LIVE; c < CMD_CNT; c++)
		bash_values(out, (enum command)c);
	fputs("\t*) return 1 ;;\n\tesac\n}\n\n"
	      "_memtrace()\n{\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} cmd=live is_value= i\n"
	      "\tlocal commands='", out);
	put_commands(out);
	fputs("'\n"
	      "\tCOMPREPLY=()\n"
	      "\tif [[ $cur == = ]]; then cur= is_value=1\n"
	      "\telif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]} is_value=1; fi\n"
	      "\t[[ \" $commands \" == *\" ${COMP_WORDS[1]} \"* && $COMP_CWORD -gt 1 ]] && cmd=${COMP_WORDS[1]}\n"
	      "\tfor ((i = 2; i < COMP_CWORD; i++)); do\n"
	      "\t\tif [[ ${COMP_WORDS[i]} == -- ]]; then\n"
	      "\t\t\tif ((i + 1 == COMP_CWORD)); then COMPREPLY=($(compgen -c -- \"$cur\")); "
	      "else compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$cur\")); fi\n"
	      "\t\t\treturn\n\t\tfi\n\tdone\n"
	      "\tif _memtrace_value \"$1\"; then\n\t\t:\n"
	      "\telif [[ $cur == -* ]]; then\n"
	      "\t\tCOMPREPLY=($(compgen -W \"$(_memtrace_options $cmd)\" -- \"$cur\"))\n"
	      "\t\t[[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null\n"
	      "\telif ((COMP_CWORD == 1)); then\n"
	      "\t\tCOMPREPLY=($(compgen -W \"$commands\" -- \"$cur\"))\n"
	      "\telse\n", out);
	bash_words(out);
	fputs("\tfi\n\treturn 0\n}\n\ncomplete -F _memtrace memtrace\n", out);
}

/* --- zsh ------------------------------------------------------------------------------------------------------- */

static void zsh_values(FILE *out, enum command c)
{
	for (const struct option_def *d = option_defs; d->name; d++) {
		if (!(d->cmds & 1u << c) || !d->arg || option_value_is_optional(d))
			continue;
		fprintf(out, "\t('%s %s'", case_name(c), d->name);
		if (d->letter)
			fprintf(out, "|'%s -%c'", case_name(c), d->letter);
		fputs(") ", out);
		if (value_of(d) == VALUE_WORDS) {
			fputs("compadd -- ", out);
			put_words(out, d);
		} else if (value_of(d) == VALUE_PID) {
			fputs("compadd -- $($words[1] ps 2>/dev/null | awk '$1 ~ /^[0-9]+$/ { print $1 }')", out);
		} else if (value_of(d) == VALUE_FILE) {
			fputs("_files", out);
		} else {
			fprintf(out, "_message '%s'", d->arg);
		}
		fputs("; return ;;\n", out);
	}
}

static void zsh_options(FILE *out, enum command c)
{
	fprintf(out, "\t(%s) options=(", case_name(c));
	for (const struct option_def *d = option_defs; d->name; d++) {
		if (!(d->cmds & 1u << c))
			continue;
		fprintf(out, " '%s:", d->name);
		put_about(out, d->help);
		fputc('\'', out);
	}
	fputs(" ) ;;\n", out);
}

static void zsh_words(FILE *out)
{
	for (int c = CMD_LIVE; c < CMD_CNT; c++) {
		enum words_of w = words_of((enum command)c);

		if (w == WORDS_SHELL)
			fprintf(out, "\t(%s) compadd -- %s ;;\n", case_name((enum command)c), completion_shells);
		else if (w != WORDS_NONE)
			fprintf(out, "\t(%s) _files -g '%s' ;;\n", case_name((enum command)c),
				w == WORDS_RECORDING ? "*.mtr" : "*.(mtr|json)");
	}
}

static void write_zsh(FILE *out)
{
	fputs("#compdef memtrace\n# made by: memtrace completion zsh\n\n_memtrace()\n{\n"
	      "\tlocal cmd=live sep=${words[(i)--]}\n\tlocal -a options commands\n\tcommands=(", out);
	for (int c = CMD_LIVE + 1; c < CMD_CNT; c++) {
		fprintf(out, " '%s:", command_name((enum command)c));
		put_about(out, command_defs[c].summary);
		fputc('\'', out);
	}
	fputs(" 'help:says more of a command' 'version:the version' )\n"
	      "\tif ((CURRENT > 2)) && [[ $words[2] != -* ]]; then cmd=$words[2]; fi\n"
	      "\tif ((sep < CURRENT)); then\n\t\tshift $sep words; ((CURRENT -= sep)); _normal; return\n\tfi\n"
	      "\tcase \"$cmd $words[CURRENT-1]\" in\n", out);
	for (int c = CMD_LIVE; c < CMD_CNT; c++)
		zsh_values(out, (enum command)c);
	fputs("\tesac\n\tcase $cmd in\n", out);
	for (int c = CMD_LIVE; c < CMD_CNT; c++)
		zsh_options(out, (enum command)c);
	fputs("\tesac\n\tif [[ $PREFIX == -* ]]; then _describe -o option options; return; fi\n"
	      "\tif ((CURRENT == 2)); then _describe command commands; return; fi\n"
	      "\tcase $cmd in\n\t(help) _describe command commands ;;\n", out);
	zsh_words(out);
	fputs("\tesac\n}\n\n"
	      "if [[ $funcstack[1] == _memtrace ]]; then _memtrace \"$@\"; else compdef _memtrace memtrace; fi\n", out);
}

/* --- fish ------------------------------------------------------------------------------------------------------ */

static void fish_option(FILE *out, enum command c, const struct option_def *d)
{
	fprintf(out, "complete -c memtrace -n '__memtrace_is %s' -l %s", case_name(c), d->name + 2);
	if (d->letter)
		fprintf(out, " -s %c", d->letter);
	if (d->arg && value_of(d) == VALUE_FILE)
		fputs(" -r -F", out);
	else if (d->arg && !option_value_is_optional(d))
		fputs(" -x", out);
	if (d->arg && value_of(d) == VALUE_WORDS) {
		fputs(" -a '", out);
		put_words(out, d);
		fputc('\'', out);
	} else if (d->arg && value_of(d) == VALUE_PID) {
		fputs(" -a '(__memtrace_pids)'", out);
	}
	fputs(" -d '", out);
	put_about(out, d->help);
	fputs("'\n", out);
}

static void fish_words(FILE *out, enum command c)
{
	enum words_of w = words_of(c);

	if (w == WORDS_SHELL)
		fprintf(out, "complete -c memtrace -n '__memtrace_is %s' -a '%s'\n", case_name(c), completion_shells);
	else if (w == WORDS_RECORDING)
		fprintf(out, "complete -c memtrace -n '__memtrace_is %s' -k -a '(__fish_complete_suffix .mtr)'\n",
			case_name(c));
	else if (w == WORDS_FILE || c == CMD_RECORD)
		fprintf(out, "complete -c memtrace -n '__memtrace_is %s' -F\n", case_name(c));
}

static void write_fish(FILE *out)
{
	fputs("# fish completion for memtrace, made by: memtrace completion fish\n"
	      "function __memtrace_is\n\tset -l words (commandline -opc)\n\tset -l cmd live\n"
	      "\tif test (count $words) -gt 1; and not string match -q -- '-*' $words[2]\n\t\tset cmd $words[2]\n\tend\n"
	      "\ttest $cmd = $argv[1]\nend\n"
	      "function __memtrace_pids\n"
	      "\tmemtrace ps 2>/dev/null | string match -r '^ *([0-9]+) .*' | string match -r '[0-9]+' \nend\n"
	      "complete -c memtrace -f\n", out);
	for (int c = CMD_LIVE + 1; c < CMD_CNT; c++) {
		fprintf(out, "complete -c memtrace -n 'test (count (commandline -opc)) -eq 1' -a %s -d '",
			command_name((enum command)c));
		put_about(out, command_defs[c].summary);
		fputs("'\n", out);
	}
	fputs("complete -c memtrace -n 'test (count (commandline -opc)) -eq 1' -a 'help version'\n"
	      "complete -c memtrace -n '__memtrace_is help' -a '", out);
	put_commands(out);
	fputs("'\n", out);
	for (int c = CMD_LIVE; c < CMD_CNT; c++) {
		fish_words(out, (enum command)c);
		for (const struct option_def *d = option_defs; d->name; d++)
			if (d->cmds & 1u << c)
				fish_option(out, (enum command)c, d);
	}
}

/* --- which ------------------------------------------------------------------------------------------------------ */

int completion_write(FILE *out, const char *shell)
{
	static const struct {
		const char *name;
		void (*write)(FILE *out);
	} shells[] = { { "bash", write_bash }, { "zsh", write_zsh }, { "fish", write_fish } };

	for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++)
		if (!strcmp(shells[i].name, shell)) {
			if (out)
				shells[i].write(out);
			return 0;
		}
	return -EINVAL;
}

int cmd_completion(const struct options *o, struct err *err)
{
	(void)completion_write(stdout, o->shell); /* has_subject has checked it */
	return fflush(stdout) || ferror(stdout) ? err_set(err, -EIO, "writing the script failed") : EXIT_OK;
}

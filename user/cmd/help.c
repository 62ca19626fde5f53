/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* --help and the man page: two ways to write down the tables of options_table.c. */
#include <string.h>

#include "cmd/options_table.h"

#define HELP_COLS 80
#define OPTION_COLS 24

/* Words of text from column `at` on, wrapped, further lines indented. */
static void put_wrapped(FILE *out, const char *text, unsigned at, unsigned indent)
{
	unsigned is_first = 1;

	while (*text) {
		size_t len = strcspn(text, " ");

		if (!is_first && at + 1 + len > HELP_COLS) {
			fprintf(out, "\n%*s", (int)indent, "");
			at = indent;
			is_first = 1;
		}
		fprintf(out, "%s%.*s", is_first ? "" : " ", (int)len, text);
		at += (unsigned)len + !is_first;
		is_first = 0;
		text += len + (text[len] == ' ');
	}
	fputc('\n', out);
}

/* One line of a table of lines, each "first, tab, second"; NULL at the end. */
static const char *next_line(const char *lines, char *first, char *second, size_t size)
{
	size_t len = strcspn(lines, "\n"), tab = strcspn(lines, "\t\n");

	if (!len)
		return NULL;
	snprintf(first, size, "%.*s", (int)tab, lines);
	snprintf(second, size, "%.*s", (int)(tab < len ? len - tab - 1 : 0), lines + tab + (tab < len));
	return lines + len + (lines[len] == '\n');
}

static void option_title(const struct option_def *d, char *buf, size_t size)
{
	int n = d->letter ? snprintf(buf, size, "-%c, %s", d->letter, d->name) :
			    snprintf(buf, size, "    %s", d->name);

	if (d->arg && n > 0 && (size_t)n < size)
		snprintf(buf + n, size - (size_t)n, option_value_is_optional(d) ? "%s" : " %s", d->arg);
}

/* Options by subject; those of no group come last. */
static const struct {
	const char *title, *names;
} groups[] = {
	{ "What to look at", " --pid --name --all-jobs --user --no-follow --device --rank --category --module --op " },
	{ "At which time", " --at --from --until " },
	{ "What to see of it", " --probes --usdt --min-size --classes --stacks --stack-size --no-names --no-modules --redact "
			       "--labels --ops " },
	{ "How long, how much", " --duration --window --window-size --on-new-peak --steps --every --align --between "
				"--max-overhead --max-loss --ring-size --keep-idle --force-perf-uprobes " },
	{ "What if", " --batch --batches --budget --optimizer --dtype --shard --units --checkpoint --no-reshard " },
	{ "Limits", " --max-peak --fail-if " },
	{ "Where it goes", " --output --force --to --listen --token-file --allow-host --socket-group --json --csv --md --tui "
			   "--no-color " },
	{ "What is shown", " --by --depth --phase --sort --top --flow --leaks --all " },
	{ "Others", NULL },
};
#define GROUPS (sizeof(groups) / sizeof(groups[0]))

/* --to is a format of an export and a time of a report. */
static unsigned group_of(const struct option_def *d)
{
	int is_time = d->arg && !strcmp(d->arg, "WHEN");
	char word[80];

	snprintf(word, sizeof(word), " %.70s ", is_time ? "--until" : d->name);
	for (unsigned i = 0; i < GROUPS - 1; i++)
		if (strstr(groups[i].names, word))
			return i;
	return GROUPS - 1;
}

static void help_group(FILE *out, enum command cmd, unsigned group)
{
	int is_first = 1;

	for (const struct option_def *d = option_defs; d->name; d++) {
		char title[120];

		if (!(d->cmds & (1u << cmd)) || group_of(d) != group)
			continue;
		if (is_first)
			fprintf(out, "\n%s:\n", groups[group].title);
		is_first = 0;
		option_title(d, title, sizeof(title));
		fprintf(out, "  %s", title);
		if (strlen(title) + 2 >= OPTION_COLS)
			fprintf(out, "\n%*s", OPTION_COLS, "");
		else
			fprintf(out, "%*s", (int)(OPTION_COLS - 2 - strlen(title)), "");
		put_wrapped(out, d->help, OPTION_COLS, OPTION_COLS);
	}
}

static void help_synopsis(FILE *out, enum command cmd)
{
	const struct command_def *c = &command_defs[cmd];
	char line[200], rest[200];
	const char *p = c->synopsis;
	int is_first = 1;

	do {
		const char *next = next_line(p, line, rest, sizeof(line));

		fprintf(out, "%s memtrace%s%s%s%s\n", is_first ? "Usage:" : "      ", c->name[0] ? " " : "", c->name,
			next ? " " : "", next ? line : "");
		is_first = 0;
		p = next;
	} while (p && *p);
}

static void help_options(FILE *out, enum command cmd)
{
	for (unsigned i = 0; i < GROUPS; i++)
		help_group(out, cmd, i);
}

#define TRACES (1u << CMD_LIVE | 1u << CMD_RECORD | 1u << CMD_SERVE)
#define REPLAYS (1u << CMD_REPORT | 1u << CMD_EXPORT | 1u << CMD_DIFF | 1u << CMD_CHECK | 1u << CMD_ESTIMATE)

/* Where they can occur; others can everywhere. */
static int has_code(enum command cmd, const char *code)
{
	unsigned in = !strcmp(code, "3") ? TRACES | REPLAYS :
		      !strcmp(code, "4") ? TRACES :
		      !strcmp(code, "5") ? 1u << CMD_CHECK | 1u << CMD_DIFF :
		      !strcmp(code, "N") ? 1u << CMD_RECORD :
					   ~0u;

	return in >> cmd & 1;
}

static void help_examples(FILE *out, const struct command_def *c)
{
	char first[200], second[200];

	fputs("\nExamples:\n", out);
	for (const char *p = c->examples; (p = next_line(p, first, second, sizeof(first)));)
		fprintf(out, "  %s\n      %s\n", first, second);
}

void options_help(FILE *out, enum command cmd)
{
	const struct command_def *c = &command_defs[cmd];
	char first[200], second[200];

	help_synopsis(out, cmd);
	if (cmd == CMD_LIVE)
		fputs("       memtrace COMMAND [OPTIONS]\n", out);
	fputc('\n', out);
	put_wrapped(out, c->about, 0, 0);
	if (cmd == CMD_LIVE) { /* new users do not read a whole list of options */
		help_examples(out, c);
		fputs("\nCommands (memtrace help COMMAND says more):\n", out);
		for (int i = CMD_LIVE + 1; i < CMD_CNT; i++)
			fprintf(out, "  %-10s %s\n", command_defs[i].name, command_defs[i].summary);
	}
	help_options(out, cmd);
	if (cmd != CMD_LIVE)
		help_examples(out, c);
	fputs("\nExit codes:\n", out);
	for (const char *p = exit_codes; (p = next_line(p, first, second, sizeof(first)));)
		if (has_code(cmd, first))
			fprintf(out, "  %s  %s\n", first, second);
	if (cmd != CMD_COMPLETION)
		fputs("\nDefaults: /etc/memtrace.conf, then $XDG_CONFIG_HOME/memtrace/config (~/.config\nwithout it); "
		      "lines of option = value, such as max-overhead = 5\n", out);
}

/* --- man page --------------------------------------------------------------------------------------- */

/* roff: backslashes, hyphens and a point at a line's beginning have a meaning. */
static void roff(FILE *out, const char *text)
{
	if (*text == '.' || *text == '\'')
		fputs("\\&", out);
	for (; *text; text++) {
		if (*text == '\\')
			fputs("\\e", out);
		else if (*text == '-')
			fputs("\\-", out);
		else
			fputc(*text, out);
	}
}

static void man_command(FILE *out, enum command cmd)
{
	const struct command_def *c = &command_defs[cmd];
	char first[200], second[200];

	fputs(".SS ", out);
	if (c->name[0])
		roff(out, c->name);
	else
		fputs("live view", out);
	fputc('\n', out);
	for (const char *p = c->synopsis; p && *p; p = next_line(p, first, second, sizeof(first))) {
		next_line(p, first, second, sizeof(first));
		fprintf(out, ".B memtrace %s\n", c->name);
		roff(out, first);
		fputs("\n.br\n", out);
	}
	fputs(".PP\n", out);
	roff(out, c->about);
	fputs("\n", out);
	for (const struct option_def *d = option_defs; d->name; d++) {
		char title[120];

		if (!(d->cmds & (1u << cmd)))
			continue;
		option_title(d, title, sizeof(title));
		fputs(".TP\n.B ", out);
		roff(out, title + strspn(title, " "));
		fputc('\n', out);
		roff(out, d->help);
		fputs("\n", out);
	}
}

void options_man(FILE *out, const char *version)
{
	char first[200], second[200];

	fprintf(out, ".\\\" Made by: memtrace --man\n.TH MEMTRACE 1 \"\" \"memtrace %s\" \"User Commands\"\n", version);
	fputs(".SH NAME\nmemtrace \\- where the memory of a running PyTorch job is\n.SH SYNOPSIS\n", out);
	for (int i = 0; i < CMD_CNT; i++)
		for (const char *p = command_defs[i].synopsis; p;) {
			const char *next = next_line(p, first, second, sizeof(first));

			fprintf(out, ".B memtrace%s%s\n", command_defs[i].name[0] ? " " : "", command_defs[i].name);
			roff(out, next ? first : "");
			fputs(next ? "\n.br\n" : ".br\n", out);
			p = next && *next ? next : NULL;
		}
	fputs(".SH DESCRIPTION\n", out);
	roff(out, command_defs[CMD_LIVE].about);
	fputs("\n.SH COMMANDS\n", out);
	for (int i = 0; i < CMD_CNT; i++)
		man_command(out, (enum command)i);
	fputs(".SH EXIT STATUS\n", out);
	for (const char *p = exit_codes; (p = next_line(p, first, second, sizeof(first)));) {
		fprintf(out, ".TP\n.B %s\n", first);
		roff(out, second);
		fputc('\n', out);
	}
	fputs(".SH EXAMPLES\n", out);
	for (int i = 0; i < CMD_CNT; i++)
		for (const char *p = command_defs[i].examples; (p = next_line(p, first, second, sizeof(first)));) {
			fputs(".TP\n.B ", out);
			roff(out, first);
			fputc('\n', out);
			roff(out, second);
			fputc('\n', out);
		}
	fputs(".SH FILES\n.TP\n.B /etc/memtrace.conf\n.TP\n.B $XDG_CONFIG_HOME/memtrace/config\n"
	      "defaults for options (~/.config without that variable), the second after the first, the command line after "
	      "both: lines of option = value, by long names without \\-\\-; of options without a value yes or no. A file "
	      "that others could have written is passed over; root reads root's alone, and under sudo the first one alone. "
	      "\\-\\-no\\-config reads none\n", out);
	fputs(".SH ENVIRONMENT\n.TP\n.B NO_COLOR\nset and not empty: no colour\n"
	      ".TP\n.B COLORFGBG\n0;15: the terminal has a light ground, for the terminal interface (sudo drops it)\n", out);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* main: reads the command line, calls the command, prints errors. Nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/offline.h"

static int (*const commands[CMD_CNT])(const struct options *o, struct err *err) = {
	[CMD_LIVE] = cmd_live,	   [CMD_RECORD] = cmd_record, [CMD_REPORT] = cmd_report,
	[CMD_EXPORT] = cmd_export, [CMD_DIFF] = cmd_diff,   [CMD_PLAN] = cmd_plan,
	[CMD_DOCTOR] = cmd_doctor, [CMD_SERVE] = cmd_serve,  [CMD_ESTIMATE] = cmd_estimate,
	[CMD_MERGE] = cmd_merge,   [CMD_PS] = cmd_ps,
	[CMD_COMPLETION] = cmd_completion, [CMD_CHECK] = cmd_check, [CMD_MCP] = cmd_mcp,
};

static int fail(const struct err *err, int code)
{
	char safe[TEXT_BYTES_MAX];

	fflush(stdout);
	fprintf(stderr, "memtrace: %s\n", safe_text(safe, err->msg[0] ? err->msg : "failed"));
	if (err->hint[0])
		fprintf(stderr, "hint: %s\n", safe_text(safe, err->hint));
	return code;
}

/* If one of the three is closed, the next file opened gets its number: a recording that of stderr.
 * Read-only, so that writing to it fails as it should. */
static void fill_std_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && fd <= 2);
	if (fd > 2)
		(void)close(fd);
}

/* A table that only a file of defaults asks for gives way to the usual one. */
static int run(struct options *o, struct err *err)
{
	int r = commands[o->cmd](o, err);

	if (r != -NO_TABLE || o->by == BY_OP || o->has_by || o->flow)
		return r;
	log_warn("%s; by operator instead of the default --by", err->msg);
	o->by = BY_OP;
	return commands[o->cmd](o, err);
}

int main(int argc, char **argv)
{
	static struct options o; /* large */
	struct err err = { 0 };
	int r;

	fill_std_fds();
	clock_init();
	r = options__parse(&o, argc, argv, &err);
	if (r < 0)
		return fail(&err, EXIT_USAGE);
	asker__find(&o.asker);
	if (o.is_bare && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) {
		r = pick_job(&o, &err);
		if (r)
			return r < 0 ? fail(&err, EXIT_FAILED) : EXIT_OK;
	}
	if (o.help || o.version || o.man) {
		if (o.version)
			puts("memtrace " MT_VERSION);
		else if (o.man)
			options_man(stdout, MT_VERSION);
		else
			options_help(stdout, o.cmd);
		return fflush(stdout) ? EXIT_FAILED : argc < 2 ? EXIT_USAGE : EXIT_OK;
	}
	log_set_level(o.quiet ? LOG_QUIET : o.verbose > 1 ? LOG_DEBUG : o.verbose ? LOG_INFO : LOG_WARN);
	r = find_named(&o, &err);
	if (!r)
		r = offline_drop(&o, &err);
	if (!r)
		r = run(&o, &err);
	return r < 0 ? fail(&err, r == -ECANCELED ? EXIT_OVERHEAD : EXIT_FAILED) : r;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* mcp: lines from standard input, answers to standard output, until there are no more. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/mcp_tools.h"

/* All lines that have come. 0 or -errno. */
static int answer_all(struct mcp_tools *t)
{
	char *line, *text;
	size_t len;
	int r;

	while (!(r = mcp_inbox__take(&t->inbox, &line, &len)) && line) {
		text = mcp__answer(&t->mcp, line, len);
		free(line);
		if (text && (fputs(text, stdout) < 0 || fflush(stdout)))
			r = -errno;
		free(text);
		if (r)
			break;
	}
	return r;
}

/* Clients show it: a mistyped path is not a directory in which a recording is still to come. */
static void say_missing(const struct options *o)
{
	char safe[TEXT_BYTES_MAX];

	for (size_t i = 0; i < o->files_cnt; i++)
		if (access(o->files[i], F_OK))
			fprintf(stderr, "memtrace: %s: %s; each question looks for it again\n", safe_text(safe, o->files[i]),
				errno == ENOENT ? "it is not there yet" : strerror(errno));
}

int cmd_mcp(const struct options *o, struct err *err)
{
	struct mcp_tools *t = calloc(1, sizeof(*t));
	int r = t ? 0 : -ENOMEM;

	say_missing(o);
	if (t)
		mcp_tools__init(t, o);
	while (!r && !t->inbox.is_ended) {
		r = mcp_inbox__fill(&t->inbox, STDIN_FILENO);
		if (!r)
			r = answer_all(t);
	}
	free(t);
	return r < 0 ? err_set(err, r, "talking to the client: %s", strerror(-r)) : EXIT_OK;
}

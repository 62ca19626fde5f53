/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* mcp: lines from standard input, answers to standard output, until there are no more. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "cmd/mcp_tools.h"

/* A line as long as they may be, and one byte that tells that it is longer. */
struct lines {
	char buf[MCP_LINE_MAX + 1];
	size_t len;
};

static int answer(struct mcp *m, struct lines *l)
{
	char *text = mcp__answer(m, l->buf, l->len);
	int r = 0;

	l->len = 0;
	if (text && (fputs(text, stdout) < 0 || fflush(stdout)))
		r = -errno;
	free(text);
	return r;
}

static int lines__take(struct lines *l, struct mcp *m, const char *in, size_t len)
{
	int r = 0;

	for (size_t i = 0; i < len && !r; i++) {
		if (in[i] == '\n')
			r = answer(m, l);
		else if (l->len < sizeof(l->buf))
			l->buf[l->len++] = in[i];
	}
	return r;
}

int cmd_mcp(const struct options *o, struct err *err)
{
	struct lines *l = calloc(1, sizeof(*l));
	char in[16 << 10];
	struct mcp m;
	ssize_t n = 1;
	int r = l ? 0 : -ENOMEM;

	mcp_tools__init(&m, o);
	while (!r && (n = read(STDIN_FILENO, in, sizeof(in))) != 0) {
		if (n > 0)
			r = lines__take(l, &m, in, (size_t)n);
		else if (errno != EINTR)
			r = -errno;
	}
	if (!r && l->len)
		r = answer(&m, l);
	free(l);
	return r < 0 ? err_set(err, r, "talking to the client: %s", strerror(-r)) : EXIT_OK;
}

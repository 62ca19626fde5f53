/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * mcp_inbox: lines of a client that have come and are not answered yet. While a tool runs they wait, but for those that
 * cannot: a ping is answered, and a cancelled request is dropped.
 *
 * Holds MCP_INBOX_MAX bytes; what comes after them stays in the pipe. Of too long a line it keeps enough to know so.
 */
#ifndef MT_SERVE_MCP_INBOX_H
#define MT_SERVE_MCP_INBOX_H

#include <stdio.h>

#include "serve/mcp.h"

#define MCP_INBOX_MAX (2 * MCP_LINE_MAX)

struct mcp_inbox {
	char text[MCP_INBOX_MAX];
	size_t len;
	size_t seen;	 /* bytes of whole lines that can all wait */
	size_t last_len; /* of the line whose end has not come */
	int is_ended;	 /* no more will come */
};

/* Reads once, which may wait. 0 or -errno; there has to be room. */
int mcp_inbox__fill(struct mcp_inbox *in, int fd);
int mcp_inbox__has_room(const struct mcp_inbox *in);
/* The first line that waits, to be freed; *ret NULL: none does. 0 or -ENOMEM. */
int mcp_inbox__take(struct mcp_inbox *in, char **ret, size_t *ret_len);
/* To call while a tool of m runs. Answers go to out. 0, -ECANCELED: its request was cancelled, or -errno. */
int mcp_inbox__meanwhile(struct mcp_inbox *in, struct mcp *m, FILE *out);

#endif

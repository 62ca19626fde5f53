/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * mcp_tools: a model's queries of recordings. Each call is a report or a diff as JSON, made by a process of its own that has
 * the filter of such a command (offline.h): no recording can end the server, and no client waits longer than CALL_S, or than
 * it wants to: cancelling a request ends its process.
 */
#ifndef MT_CMD_MCP_TOOLS_H
#define MT_CMD_MCP_TOOLS_H

#include "cmd/options.h"
#include "serve/mcp.h"
#include "serve/mcp_inbox.h"

struct mcp_tools {
	const struct options *o;
	struct mcp mcp;
	struct mcp_inbox inbox; /* of standard input, which is looked at while a tool runs; large */
};

/* *t is zeroed. Borrows o: its files, and directories of files, are all that can be asked about. */
void mcp_tools__init(struct mcp_tools *t, const struct options *o);

#endif

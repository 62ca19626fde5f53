/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * mcp_tools: what a model can ask of recordings. Each call is a report or a diff as JSON, made by a process of its own that has
 * the filter of such a command (offline.h): no client of ours dies of a recording, and none waits longer than CALL_S.
 */
#ifndef MT_CMD_MCP_TOOLS_H
#define MT_CMD_MCP_TOOLS_H

#include "cmd/options.h"
#include "serve/mcp.h"

/* Borrows o: its files, and directories of files, are all that can be asked about. */
void mcp_tools__init(struct mcp *m, const struct options *o);

#endif

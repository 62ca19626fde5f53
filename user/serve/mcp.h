/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * mcp: the Model Context Protocol's messages for a server that has tools and nothing else: one line of JSON-RPC 2.0 in, one
 * out. Revisions 2024-11-05 to 2025-11-25 (initialize comes first) and 2026-07-28 (no session: each request names its
 * revision).
 *
 * Enters: bytes of any client. Leaves: UTF-8 on one line. Tools are the caller's; arguments that reach them are
 * known, of the right type and, where words are listed, one of those.
 */
#ifndef MT_SERVE_MCP_H
#define MT_SERVE_MCP_H

#include <stddef.h>

#define MCP_LINE_MAX  (256u << 10) /* bytes of a message; a call has some hundred */
#define MCP_DEPTH_MAX 16
#define MCP_BATCH_MAX 32
#define MCP_ARGS_MAX  10

struct json_t;

struct mcp_arg {
	const char *name; /* NULL ends the list */
	const char *help;
	const char *words; /* it is one of these, blanks between; NULL: any text */
	long min, max;	   /* max above 0: a whole number between them, handed on as text */
	int is_required;
};

struct mcp_tool {
	const char *name, *title, *about;
	struct mcp_arg args[MCP_ARGS_MAX + 1];
};

/*
 * values: of the tool's arguments, in their order, NULL where none was given; good until it returns. 0: *ret is an object as
 * JSON, on one line or on several; else a sentence about what went wrong. To be freed; NULL: out of memory. -ECANCELED: the
 * client has cancelled the request, and gets no answer.
 */
typedef int (*mcp_call_fn)(void *ctx, const struct mcp_tool *tool, const char *const *values, char **ret);

struct mcp {
	const struct mcp_tool *tools;
	size_t tools_cnt;
	const char *instructions; /* instructions for models, about all of them */
	const char *version;	  /* ours, not the protocol's */
	mcp_call_fn call;
	void *ctx;
	const char *agreed;	      /* the revision, after initialize */
	const struct json_t *running; /* the id of the request whose tool runs; NULL: none */
};

/*
 * The answer to one line (with or without its end), to be freed: a line with its end. NULL: there is none to give, or no
 * memory. A line above MCP_LINE_MAX is refused unread, so readers of lines may cut them there.
 */
char *mcp__answer(struct mcp *m, const char *text, size_t len);
/* NULL: not JSON, too long, too deep, or no memory. */
struct json_t *mcp_parse(const char *text, size_t len);

#endif

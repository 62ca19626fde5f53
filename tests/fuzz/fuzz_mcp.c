/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Any lines to a server of the Model Context Protocol: each answer is one line of JSON with an id, and a tool gets what it may.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/mcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
	if (!ok)
		abort();
}

static int call(void *ctx, const struct mcp_tool *tool, const char *const *values, char **ret)
{
	(void)ctx;
	require(!tool->args[0].name || (values[0] && values[0][0]));
	for (size_t i = 0; tool->args[i].name; i++) {
		const struct mcp_arg *a = &tool->args[i];

		require(!values[i] || !a->max || (atol(values[i]) >= a->min && atol(values[i]) <= a->max));
		require(!values[i] || !a->words || strstr(a->words, values[i]));
	}
	*ret = strdup("{\n \"a\": 1 }");
	return values[0] && values[0][0] == 'x';
}

static const struct mcp_tool tools[] = {
	{ "t",
	  "T",
	  "tells",
	  { { .name = "x", .help = "text", .is_required = 1 },
	    { .name = "y", .help = "word", .words = "a bc" },
	    { .name = "n", .help = "number", .min = -3, .max = 9 } } },
	{ "u", "U", "none", { { .name = NULL } } },
};

static void check(const char *answer)
{
	const char *end = strchr(answer, '\n');
	json_t *v = json_loads(answer, JSON_REJECT_DUPLICATES, NULL);

	require(v && end && !end[1]);
	for (size_t i = 0; i < (json_is_array(v) ? json_array_size(v) : 1); i++) {
		const json_t *one = json_is_array(v) ? json_array_get(v, i) : v;

		require(json_object_get(one, "id") && !json_object_get(one, "result") != !json_object_get(one, "error"));
	}
	json_decref(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mcp m = { .tools = tools, .tools_cnt = 2, .instructions = "", .version = "0", .call = call };
	const char *text = (const char *)data, *end = text + size;

	while (text < end) {
		const char *eol = memchr(text, '\n', (size_t)(end - text));
		size_t len = (size_t)((eol ? eol : end) - text);
		char *answer = mcp__answer(&m, text, len);

		if (answer)
			check(answer);
		free(answer);
		text += len + 1;
	}
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The Model Context Protocol's messages, read back by jansson; and which names of recordings are known. */
#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "replay/shelf.h"
#include "serve/mcp.h"
#include "serve/mcp_inbox.h"

static const struct mcp_tool tools[] = {
	{ "echo",
	  "Echo",
	  "says \"what\" it was given",
	  { { .name = "text", .help = "any", .is_required = 1 },
	    { .name = "by", .help = "one", .words = "op module" },
	    { .name = "limit", .help = "rows", .min = 0, .max = 100 } } },
	{ "break", "Break", "fails", { { .name = NULL } } },
};

static int call(void *ctx, const struct mcp_tool *tool, const char *const *values, char **ret)
{
	(*(int *)ctx)++;
	if (tool == &tools[1]) {
		*ret = strdup("it broke");
		return -5;
	}
	return asprintf(ret, "{\n \"text\": \"%s\", \"by\": \"%s\", \"limit\": %s, \"large\": 18446744073709551615\n}\n",
			values[0], values[1] ? values[1] : "", values[2] ? values[2] : "-1") < 0;
}

static int calls;
static struct mcp server(void)
{
	return (struct mcp){
		.tools = tools, .tools_cnt = 2, .instructions = "ask", .version = "1", .call = call, .ctx = &calls
	};
}

/* NULL: no answer. */
static json_t *ask_bytes(struct mcp *m, const char *text, size_t len)
{
	char *answer = mcp__answer(m, text, len);
	json_t *v;

	if (!answer)
		return NULL;
	assert_non_null(strchr(answer, '\n'));
	assert_true(strchr(answer, '\n')[1] == '\0');
	v = json_loads(answer, JSON_DECODE_INT_AS_REAL | JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(v);
	free(answer);
	return v;
}

static json_t *ask(struct mcp *m, const char *text)
{
	return ask_bytes(m, text, strlen(text));
}

static const char *text_at(const json_t *v, const char *a, const char *b)
{
	return json_string_value(json_object_get(json_object_get(v, a), b));
}

static int error_of(json_t *v)
{
	int code = (int)json_number_value(json_object_get(json_object_get(v, "error"), "code"));

	json_decref(v);
	return code;
}

static void begin(struct mcp *m, const char *version)
{
	char text[200];
	json_t *v;

	*m = server();
	snprintf(text, sizeof(text),
		 "{\"jsonrpc\":\"2.0\",\"id\":\"i\",\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"%s\"}}",
		 version);
	v = ask(m, text);
	assert_string_equal(json_string_value(json_object_get(v, "id")), "i");
	assert_non_null(text_at(v, "result", "protocolVersion"));
	json_decref(v);
}

#define REQUEST(method, params) "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"" method "\",\"params\":" params "}"

static void test_revisions(void **state)
{
	static const char *const known[] = { "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25" };
	struct mcp m = server();
	json_t *v;

	(void)state;
	assert_int_equal(error_of(ask(&m, REQUEST("tools/list", "{}"))), -32602);
	assert_int_equal(error_of(ask(&m, REQUEST("initialize", "{}"))), -32602);
	for (size_t i = 0; i < 4; i++) {
		begin(&m, known[i]);
		assert_string_equal(m.agreed, known[i]);
	}
	begin(&m, "2031-01-01");
	assert_string_equal(m.agreed, "2025-11-25");
	assert_null(ask(&m, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"));
	v = ask(&m, REQUEST("ping", "{}"));
	assert_int_equal(json_object_size(json_object_get(v, "result")), 0);
	json_decref(v);

	m = server(); /* without a session */
	v = ask(&m, REQUEST("server/discover", "{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}"));
	assert_string_equal(text_at(v, "result", "resultType"), "complete");
	assert_int_equal(json_array_size(json_object_get(json_object_get(v, "result"), "supportedVersions")), 1);
	json_decref(v);
	v = ask(&m, REQUEST("tools/list", "{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}"));
	assert_string_equal(text_at(v, "result", "cacheScope"), "private");
	assert_non_null(
		json_object_get(json_object_get(json_object_get(v, "result"), "_meta"), "io.modelcontextprotocol/serverInfo"));
	json_decref(v);
	assert_int_equal(
		error_of(ask(&m, REQUEST("ping", "{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}"))),
		-32601);
	assert_int_equal(
		error_of(ask(&m, REQUEST("tools/list", "{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"x\"}}"))),
		-32022);
}

static void test_list(void **state)
{
	struct mcp m;
	const json_t *list, *schema;
	json_t *v;

	(void)state;
	begin(&m, "2025-06-18");
	v = ask(&m, REQUEST("tools/list", "{}"));
	list = json_object_get(json_object_get(v, "result"), "tools");
	assert_int_equal(json_array_size(list), 2);
	assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "description")),
			    "says \"what\" it was given");
	schema = json_object_get(json_array_get(list, 0), "inputSchema");
	assert_int_equal(json_array_size(json_object_get(schema, "required")), 1);
	schema = json_object_get(schema, "properties");
	assert_int_equal(json_object_size(schema), 3);
	assert_int_equal(json_array_size(json_object_get(json_object_get(schema, "by"), "enum")), 2);
	assert_int_equal((int)json_number_value(json_object_get(json_object_get(schema, "limit"), "maximum")), 100);
	json_decref(v);
}

/* What a call says: 1 if it went well. */
static int said(struct mcp *m, const char *params, const char *words)
{
	char text[500];
	const json_t *result;
	const char *content;
	int is_error, has_data;
	json_t *v;

	snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":%s}", params);
	v = ask(m, text);
	result = json_object_get(v, "result");
	content = json_string_value(json_object_get(json_array_get(json_object_get(result, "content"), 0), "text"));
	is_error = json_is_true(json_object_get(result, "isError"));
	has_data = json_is_object(json_object_get(result, "structuredContent"));
	assert_non_null(content);
	if (!strstr(content, words))
		fail_msg("%s: %s", params, content);
	assert_true(is_error != has_data);
	json_decref(v);
	return !is_error;
}

static void test_calls(void **state)
{
	struct mcp m;
	int before;

	(void)state;
	begin(&m, "2025-11-25");
	assert_true(
		said(&m, "{\"name\":\"echo\",\"arguments\":{\"text\":\"hi\",\"by\":\"module\",\"limit\":0}}", "\"limit\": 0"));
	assert_true(said(&m, "{\"name\":\"echo\",\"arguments\":{\"text\":\"hi\",\"by\":null}}", "18446744073709551615"));
	assert_false(said(&m, "{\"name\":\"break\"}", "it broke"));
	before = calls;
	assert_false(said(&m, "{\"name\":\"echo\"}", "text is missing"));
	assert_false(said(&m, "{\"name\":\"echo\",\"arguments\":{\"text\":\"\"}}", "not empty"));
	assert_false(said(&m, "{\"name\":\"echo\",\"arguments\":{\"text\":7}}", "text is a text"));
	assert_false(said(&m, "{\"name\":\"echo\",\"arguments\":{\"text\":\"a\",\"by\":\"mod\"}}", "one of: op module"));
	assert_false(said(&m, "{\"name\":\"echo\",\"arguments\":{\"text\":\"a\",\"by\":\"op module\"}}", "one of: op module"));
	assert_false(said(&m, "{\"name\":\"echo\",\"arguments\":{\"text\":\"a\",\"limit\":101}}", "from 0 to 100"));
	assert_false(said(&m, "{\"name\":\"echo\",\"arguments\":{\"text\":\"a\",\"limit\":\"7\"}}", "whole number"));
	assert_false(said(&m, "{\"name\":\"echo\",\"arguments\":{\"text\":\"a\",\"other\":1}}", "other arguments"));
	assert_int_equal(calls, before);
	assert_int_equal(error_of(ask(&m, REQUEST("tools/call", "{\"name\":\"ech\"}"))), -32602);
	assert_int_equal(error_of(ask(&m, REQUEST("tools/call", "{\"name\":\"echo\",\"arguments\":[1]}"))), -32602);
}

static void test_wrong(void **state)
{
	static const struct {
		const char *text;
		int code;
	} wrong[] = {
		{ "nonsense", -32700 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,", -32700 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}", -32700 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\xfe\",\"method\":\"ping\"}", -32700 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":\"\\ud800\",\"method\":\"ping\"}", -32700 },
		{ "7", -32600 },
		{ "{}", -32600 },
		{ "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", -32600 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", -32600 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", -32600 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}", -32600 },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/list\"}", -32601 },
		{ "[]", -32600 },
		{ "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32600 },
		{ "[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]", -32600 },
	};
	char *large = malloc(MCP_LINE_MAX + 1);
	struct mcp m;

	(void)state;
	begin(&m, "2025-06-18");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(error_of(ask(&m, wrong[i].text)), wrong[i].code);
	memset(large, ' ', MCP_LINE_MAX + 1);
	memcpy(large, "{}", 2);
	large[MCP_LINE_MAX] = 'x';
	assert_int_equal(error_of(ask_bytes(&m, large, MCP_LINE_MAX + 1)), -32600);
	free(large);
	assert_int_equal(error_of(ask_bytes(&m, "{}\0{}", 5)), -32700);
	assert_null(ask(&m, ""));
	assert_null(ask(&m, "\r\n"));
	assert_null(ask(&m, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"));
}

static void test_batches(void **state)
{
	struct mcp m;
	json_t *v;

	(void)state;
	begin(&m, "2025-03-26");
	v = ask(&m, "[{\"jsonrpc\":\"2.0\",\"method\":\"a\"},{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},"
		    "{\"jsonrpc\":\"2.0\",\"method\":\"b\"},{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"no\"},4]");
	assert_int_equal(json_array_size(v), 3);
	assert_int_equal((int)json_number_value(json_object_get(json_array_get(v, 1), "id")), 2);
	json_decref(v);
	assert_null(ask(&m, "[{\"jsonrpc\":\"2.0\",\"method\":\"a\"}]"));
	assert_int_equal(error_of(ask(&m, "[]")), -32600);
	assert_int_equal(error_of(ask(&m, "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]")), -32600);
}

/* What has come while a tool runs, on *in; what is answered meanwhile. */
struct meanwhile {
	struct mcp *m;
	struct mcp_inbox *in;
	char *said;
	size_t said_len;
};

static int call_and_look(void *ctx, const struct mcp_tool *tool, const char *const *values, char **ret)
{
	struct meanwhile *w = ctx;
	FILE *out = open_memstream(&w->said, &w->said_len);
	int r;

	(void)tool;
	assert_non_null(out);
	assert_non_null(w->m->running);
	r = mcp_inbox__meanwhile(w->in, w->m, out);
	fclose(out);
	*ret = strdup(values[0]);
	return r;
}

static void come(struct mcp_inbox *in, const char *text, size_t len)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	for (size_t n; len; text += n, len -= n) {
		n = len < 4096 ? len : 4096;
		assert_int_equal(write(fds[1], text, n), n);
		assert_true(mcp_inbox__has_room(in));
		assert_int_equal(mcp_inbox__fill(in, fds[0]), 0);
	}
	close(fds[0]);
	close(fds[1]);
}

/* Of the first line that waits its answer, or NULL. */
static char *answer_to_first(struct mcp *m, struct mcp_inbox *in)
{
	size_t len;
	char *line, *answer;

	assert_int_equal(mcp_inbox__take(in, &line, &len), 0);
	assert_non_null(line);
	answer = mcp__answer(m, line, len);
	free(line);
	return answer;
}

#define CALL(id) \
	"{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"echo\"," \
	"\"arguments\":{\"text\":\"{}\"}}}\n"
#define CANCEL(id) \
	"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":" id "," \
	"\"reason\":\"late\"}}\n"
#define PING "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}\n"

static void test_meanwhile(void **state)
{
	static const char waits[] = CALL("1") CALL("2") "nonsense\n" CALL("\"2\"") PING CANCEL("2")
		CANCEL("77") CANCEL("null") CALL("3");
	static const char cancels[] = PING CANCEL("\"2\"") CANCEL("3");
	struct mcp_inbox *in = calloc(1, sizeof(*in));
	struct mcp m;
	struct meanwhile w = { &m, in, NULL, 0 };
	char *answer;

	(void)state;
	begin(&m, "2025-06-18");
	m.call = call_and_look;
	m.ctx = &w;
	come(in, waits, sizeof(waits) - 5); /* the last one's end is still to come */
	answer = answer_to_first(&m, in);
	assert_non_null(strstr(answer, "\"id\":1,"));
	assert_string_equal(w.said, "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"result\":{}}\n");
	free(answer);
	free(w.said);
	answer = answer_to_first(&m, in); /* 2 is gone */
	assert_non_null(strstr(answer, "-32700"));
	free(answer);
	come(in, waits + sizeof(waits) - 5, 4);
	come(in, cancels, sizeof(cancels) - 1);
	assert_null(answer_to_first(&m, in)); /* "2", which is not 2, was cancelled while it ran */
	assert_null(m.running);
	assert_non_null(strstr(w.said, "\"p\""));
	free(w.said);
	w.said = NULL;
	assert_null(answer_to_first(&m, in)); /* 3, whose cancelling came before it began */
	assert_int_equal(in->len, 0);
	free(w.said);
	free(in);
}

static void test_inbox_is_bounded(void **state)
{
	static char large[MCP_INBOX_MAX + 100];
	struct mcp_inbox *in = calloc(1, sizeof(*in));
	char *line;
	size_t len, cnt = 0;

	(void)state;
	memset(large, 'x', sizeof(large));
	come(in, large, sizeof(large)); /* one line: what is too much of it is not kept */
	come(in, "\n", 1);
	assert_int_equal(mcp_inbox__take(in, &line, &len), 0);
	assert_int_equal(len, MCP_LINE_MAX + 2);
	free(line);
	for (; mcp_inbox__has_room(in); cnt++)
		come(in, "12345678901234567890123456789012345678901234567890123456789012\n\n", 64);
	assert_int_equal(cnt, MCP_INBOX_MAX / 64);
	assert_int_equal(mcp_inbox__take(in, &line, &len), 0);
	assert_int_equal(len, 63);
	free(line);
	assert_true(mcp_inbox__has_room(in));
	free(in);
}

static void touch(const char *path)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs("123", f);
	fclose(f);
}

static void test_shelf(void **state)
{
	char dir[] = "/tmp/shelf-XXXXXX", inner[64], path[5][80], by_name[80];
	const char *paths[] = { dir, inner, "/nowhere.mtr" };
	struct shelf s;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(inner, sizeof(inner), "%s/inner", dir);
	assert_int_equal(mkdir(inner, 0700), 0);
	snprintf(path[0], sizeof(path[0]), "%s/a.mtr", dir);
	snprintf(path[1], sizeof(path[1]), "%s/b.mtr", dir);
	snprintf(path[2], sizeof(path[2]), "%s/notes.txt", dir);
	snprintf(path[3], sizeof(path[3]), "%s/b.mtr", inner);
	snprintf(path[4], sizeof(path[4]), "%s/link.mtr", dir);
	for (int i = 0; i < 4; i++)
		touch(path[i]);
	assert_int_equal(symlink("/etc/passwd", path[4]), 0);

	assert_int_equal(shelf__fill(&s, paths, 1), 0);
	assert_int_equal(s.cnt, 2);
	assert_int_equal(s.rows[0].bytes, 3);
	assert_string_equal(shelf__find(&s, path[0]), path[0]);
	assert_string_equal(shelf__find(&s, "b.mtr"), path[1]);
	assert_null(shelf__find(&s, NULL));
	assert_null(shelf__find(&s, "notes.txt"));
	assert_null(shelf__find(&s, "link.mtr"));
	assert_null(shelf__find(&s, "/etc/passwd"));
	snprintf(by_name, sizeof(by_name), "%s/../%s/a.mtr", dir, dir + 5);
	assert_null(shelf__find(&s, by_name));
	shelf__done(&s);

	assert_int_equal(shelf__fill(&s, paths, 3), 0);
	assert_int_equal(s.cnt, 3);
	assert_null(shelf__find(&s, "b.mtr")); /* two have it */
	shelf__done(&s);
	paths[0] = path[2]; /* a file that is named is one, whatever its name */
	assert_int_equal(shelf__fill(&s, paths, 1), 0);
	assert_string_equal(shelf__find(&s, NULL), path[2]);
	shelf__done(&s);
	for (int i = 0; i < 5; i++)
		unlink(path[i]);
	rmdir(inner);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest all[] = {
		cmocka_unit_test(test_revisions), cmocka_unit_test(test_list),	  cmocka_unit_test(test_calls),
		cmocka_unit_test(test_wrong),	  cmocka_unit_test(test_batches), cmocka_unit_test(test_shelf),
		cmocka_unit_test(test_meanwhile), cmocka_unit_test(test_inbox_is_bounded),
	};

	return cmocka_run_group_tests(all, NULL, NULL);
}

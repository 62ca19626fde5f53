/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Requests are read by jansson, after a check of their depth; answers are put together as text, so that a tool's JSON goes
 * through as it is, with numbers that jansson has no room for.
 */
#include "serve/mcp.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define META	     "io.modelcontextprotocol/"
#define NEWEST	     "2025-11-25"
#define STATELESS    "2026-07-28"
#define WITH_BATCHES "2025-03-26"

enum {
	PARSE_ERROR = -32700,
	INVALID_REQUEST = -32600,
	UNKNOWN_METHOD = -32601,
	INVALID_PARAMS = -32602,
	INTERNAL_ERROR = -32603,
	UNSUPPORTED_VERSION = -32022
};

static const char *const agreed_versions[] = { "2024-11-05", WITH_BATCHES, "2025-06-18", NEWEST };

struct request {
	FILE *out;
	const json_t *id; /* NULL: a notification, which nothing answers */
	const json_t *params;
	int is_stateless;
};

/* --- writing ---------------------------------------------------------------------------------------------- */

static void put_json(FILE *out, const json_t *v)
{
	if (!v || json_dumpf(v, out, JSON_ENCODE_ANY | JSON_COMPACT) < 0)
		fputs("null", out);
}

static void put_text(FILE *out, const char *text)
{
	json_t *s = json_string(text);

	put_json(out, s ? s : json_null());
	json_decref(s);
}

/* A tool's text on our line: its line ends stand between tokens alone. */
static void put_raw(FILE *out, const char *text)
{
	for (; *text; text++)
		if (*text != '\n' && *text != '\r')
			fputc(*text, out);
}

static void begin(const struct request *q, const char *what)
{
	fputs("{\"jsonrpc\":\"2.0\",\"id\":", q->out);
	put_json(q->out, q->id);
	fprintf(q->out, ",\"%s\":{", what);
}

static void put_name(const struct mcp *m, FILE *out)
{
	fputs("{\"name\":\"memtrace\",\"version\":", out);
	put_text(out, m->version);
	fputc('}', out);
}

/* Without a session each answer has its type and the server's name. Another member follows. */
static void begin_result(const struct mcp *m, const struct request *q)
{
	begin(q, "result");
	if (!q->is_stateless)
		return;
	fputs("\"resultType\":\"complete\",\"_meta\":{\"" META "serverInfo\":", q->out);
	put_name(m, q->out);
	fputs("},", q->out);
}

/* Tools are the same as long as the server runs; one of them lists the recordings. */
static void put_caching(const struct request *q)
{
	if (q->is_stateless)
		fputs(",\"ttlMs\":3600000,\"cacheScope\":\"private\"", q->out);
}

static void fail(const struct request *q, int code, const char *message)
{
	begin(q, "error");
	fprintf(q->out, "\"code\":%d,\"message\":", code);
	put_text(q->out, message);
	fputs("}}", q->out);
}

/* --- this server ------------------------------------------------------------------------------------------ */

static void put_self(const struct mcp *m, FILE *out)
{
	fputs("\"capabilities\":{\"tools\":{}},\"instructions\":", out);
	put_text(out, m->instructions);
}

static void initialize(struct mcp *m, const struct request *q)
{
	const char *wanted = json_string_value(json_object_get(q->params, "protocolVersion"));

	if (!wanted) {
		fail(q, INVALID_PARAMS, "protocolVersion is missing");
		return;
	}
	m->agreed = NEWEST;
	for (size_t i = 0; i < sizeof(agreed_versions) / sizeof(agreed_versions[0]); i++)
		if (!strcmp(wanted, agreed_versions[i]))
			m->agreed = agreed_versions[i];
	begin_result(m, q);
	fprintf(q->out, "\"protocolVersion\":\"%s\",\"serverInfo\":", m->agreed);
	put_name(m, q->out);
	fputc(',', q->out);
	put_self(m, q->out);
	fputs("}}", q->out);
}

static void put_versions(FILE *out)
{
	for (size_t i = 0; i < sizeof(agreed_versions) / sizeof(agreed_versions[0]); i++)
		fprintf(out, "\"%s\",", agreed_versions[i]);
	fputs("\"" STATELESS "\"", out);
}

/* Requests that name their revision cannot use the others, which begin with initialize. */
static void discover(const struct mcp *m, const struct request *q)
{
	begin_result(m, q);
	fputs("\"supportedVersions\":[\"" STATELESS "\"],", q->out);
	put_self(m, q->out);
	put_caching(q);
	fputs("}}", q->out);
}

static void unsupported(const struct request *q, const char *wanted)
{
	begin(q, "error");
	fprintf(q->out, "\"code\":%d,\"message\":\"unsupported protocol version\",\"data\":{\"supported\":[",
		UNSUPPORTED_VERSION);
	put_versions(q->out);
	fputs("],\"requested\":", q->out);
	put_text(q->out, wanted);
	fputs("}}}", q->out);
}

/* --- tools ------------------------------------------------------------------------------------------------ */

static void put_words(FILE *out, const char *words)
{
	const char *sep = ",\"enum\":[";

	for (size_t len; *words; words += len + (words[len] == ' ')) {
		len = strcspn(words, " ");
		fprintf(out, "%s\"%.*s\"", sep, (int)len, words);
		sep = ",";
	}
	fputc(']', out);
}

static void put_arg(FILE *out, const struct mcp_arg *a, const char *sep)
{
	fprintf(out, "%s\"%s\":{\"type\":\"%s\",\"description\":", sep, a->name, a->max ? "integer" : "string");
	put_text(out, a->help);
	if (a->max)
		fprintf(out, ",\"minimum\":%ld,\"maximum\":%ld", a->min, a->max);
	if (a->words)
		put_words(out, a->words);
	fputc('}', out);
}

static void put_tool(FILE *out, const struct mcp_tool *t)
{
	const char *sep = "";

	fprintf(out, "{\"name\":\"%s\",\"title\":\"%s\",\"description\":", t->name, t->title);
	put_text(out, t->about);
	fputs(",\"inputSchema\":{\"type\":\"object\",\"properties\":{", out);
	for (const struct mcp_arg *a = t->args; a->name; a++, sep = ",")
		put_arg(out, a, sep);
	fputs("},\"required\":[", out);
	sep = "";
	for (const struct mcp_arg *a = t->args; a->name; a++)
		if (a->is_required) {
			fprintf(out, "%s\"%s\"", sep, a->name);
			sep = ",";
		}
	fputs("],\"additionalProperties\":false},\"annotations\":{\"readOnlyHint\":true,\"openWorldHint\":false}}", out);
}

static void tools_list(const struct mcp *m, const struct request *q)
{
	begin_result(m, q);
	fputs("\"tools\":[", q->out);
	for (size_t i = 0; i < m->tools_cnt; i++) {
		if (i)
			fputc(',', q->out);
		put_tool(q->out, &m->tools[i]);
	}
	fputc(']', q->out);
	put_caching(q);
	fputs("}}", q->out);
}

static int is_word(const char *words, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = words; (p = strstr(p, word)); p++)
		if (len && (p == words || p[-1] == ' ') && (p[len] == ' ' || !p[len]) && !strchr(word, ' '))
			return 1;
	return 0;
}

/* An argument's value as text, in `number` if it is one. If it is wrong: the reason, to `why`. */
static const char *value_of(const struct mcp_arg *a, const json_t *v, char *number, size_t size, char *why, size_t why_size)
{
	const char *text = json_string_value(v);

	if (a->max) {
		json_int_t n = json_integer_value(v);

		if (json_is_integer(v) && n >= a->min && n <= a->max) {
			snprintf(number, size, "%lld", (long long)n);
			return number;
		}
		snprintf(why, why_size, "%s is a whole number from %ld to %ld", a->name, a->min, a->max);
		return NULL;
	}
	if (!text || !*text)
		snprintf(why, why_size, "%s is a text that is not empty", a->name);
	else if (a->words && !is_word(a->words, text))
		snprintf(why, why_size, "%s is one of: %s", a->name, a->words);
	else
		return text;
	return NULL;
}

struct values {
	const char *of[MCP_ARGS_MAX];
	char numbers[MCP_ARGS_MAX][24];
	char why[1000]; /* "": all are right */
};

static void values_read(struct values *v, const struct mcp_tool *t, const json_t *args)
{
	size_t known = 0;

	*v = (struct values){ .why = "" };
	for (size_t i = 0; t->args[i].name && !v->why[0]; i++) {
		const struct mcp_arg *a = &t->args[i];
		const json_t *given = json_object_get(args, a->name);

		known += given != NULL;
		if (given && !json_is_null(given))
			v->of[i] = value_of(a, given, v->numbers[i], sizeof(v->numbers[i]), v->why, sizeof(v->why));
		else if (a->is_required)
			snprintf(v->why, sizeof(v->why), "%s is missing: %s", a->name, a->help);
	}
	if (!v->why[0] && known != json_object_size(args)) {
		snprintf(v->why, sizeof(v->why), "%s has other arguments:", t->name);
		for (const struct mcp_arg *a = t->args; a->name; a++)
			snprintf(v->why + strlen(v->why), sizeof(v->why) - strlen(v->why), " %s", a->name);
	}
}

/* Errors go to the model, which may do better; JSON as text too, for clients that know no other. */
static void tools_call(struct mcp *m, const struct request *q)
{
	const char *name = json_string_value(json_object_get(q->params, "name"));
	const json_t *args = json_object_get(q->params, "arguments");
	const struct mcp_tool *t = NULL;
	struct values v;
	char *said = NULL;
	int r = -1;

	for (size_t i = 0; i < m->tools_cnt && name; i++)
		if (!strcmp(m->tools[i].name, name))
			t = &m->tools[i];
	if (!t || (args && !json_is_object(args))) {
		fail(q, INVALID_PARAMS, t ? "arguments is an object" : "unknown tool; tools/list names those that there are");
		return;
	}
	values_read(&v, t, args);
	if (!v.why[0]) {
		m->running = q->id;
		r = m->call(m->ctx, t, v.of, &said);
		m->running = NULL;
	}
	if (r == -ECANCELED) {
		free(said);
		return;
	}
	begin_result(m, q);
	fputs("\"content\":[{\"type\":\"text\",\"text\":", q->out);
	put_text(q->out, v.why[0] ? v.why : said ? said : "out of memory");
	fputs("}]", q->out);
	if (!r && said) {
		fputs(",\"structuredContent\":", q->out);
		put_raw(q->out, said);
	}
	fprintf(q->out, ",\"isError\":%s}}", !r && said ? "false" : "true");
	free(said);
}

/* --- requests --------------------------------------------------------------------------------------------- */

static void handle(struct mcp *m, const struct request *q, const char *method)
{
	if (!strcmp(method, "server/discover")) {
		discover(m, q);
	} else if (!strcmp(method, "ping") && !q->is_stateless) {
		begin_result(m, q);
		fputs("}}", q->out);
	} else if (!strcmp(method, "initialize") && !q->is_stateless) {
		initialize(m, q);
	} else if (!q->is_stateless && !m->agreed) {
		fail(q, INVALID_PARAMS, "which protocol version? initialize first, or name it in _meta");
	} else if (!strcmp(method, "tools/list")) {
		tools_list(m, q);
	} else if (!strcmp(method, "tools/call")) {
		tools_call(m, q);
	} else {
		fail(q, UNKNOWN_METHOD, "unknown method: this server has tools, and nothing else");
	}
}

/* Of one message, an answer or nothing to out. */
static void message(struct mcp *m, const json_t *msg, FILE *out)
{
	const json_t *id = json_object_get(msg, "id");
	struct request q = { .out = out, .id = id, .params = json_object_get(msg, "params") };
	const char *version = json_string_value(json_object_get(msg, "jsonrpc")), *wanted;
	const json_t *method = json_object_get(msg, "method");

	if (json_is_object(msg) && !method && (json_object_get(msg, "result") || json_object_get(msg, "error")))
		return; /* an answer, to no request of ours */
	if (!version || strcmp(version, "2.0") || !json_is_string(method) ||
	    (id && !json_is_string(id) && !json_is_integer(id)) || (q.params && !json_is_object(q.params))) {
		q.id = json_is_string(id) || json_is_integer(id) ? id : NULL;
		fail(&q, INVALID_REQUEST, "no request of JSON-RPC 2.0 as this protocol has them");
		return;
	}
	if (!id)
		return;
	wanted = json_string_value(json_object_get(json_object_get(q.params, "_meta"), META "protocolVersion"));
	q.is_stateless = wanted && !strcmp(wanted, STATELESS);
	if (wanted && !q.is_stateless)
		unsupported(&q, wanted);
	else
		handle(m, &q, json_string_value(method));
}

static void batch(struct mcp *m, const json_t *all, FILE *out)
{
	const struct request none = { .out = out };
	size_t cnt = json_array_size(all);
	long at, begin_at = ftell(out);

	if (!m->agreed || strcmp(m->agreed, WITH_BATCHES) || !cnt || cnt > MCP_BATCH_MAX) {
		fail(&none, INVALID_REQUEST, "one message a line: batches are of revision " WITH_BATCHES " alone, and short");
		return;
	}
	for (size_t i = 0; i < cnt; i++) {
		at = ftell(out);
		fputc(at == begin_at ? '[' : ',', out);
		message(m, json_array_get(all, i), out);
		if (ftell(out) == at + 1)
			(void)fseek(out, at, SEEK_SET); /* a notification */
	}
	if (ftell(out) > begin_at)
		fputc(']', out);
}

/* The depth of brackets, for each of which a parser would nest a call. */
static int is_deep(const char *text, size_t len)
{
	unsigned depth = 0;
	int in_string = 0;

	for (size_t i = 0; i < len; i++) {
		if (in_string && text[i] == '\\')
			i++;
		else if (text[i] == '"')
			in_string = !in_string;
		else if (!in_string && (text[i] == '{' || text[i] == '['))
			depth++;
		else if (!in_string && (text[i] == '}' || text[i] == ']') && depth)
			depth--;
		if (depth > MCP_DEPTH_MAX)
			return 1;
	}
	return 0;
}

json_t *mcp_parse(const char *text, size_t len)
{
	if (len > MCP_LINE_MAX || is_deep(text, len))
		return NULL;
	return json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
}

static void line(struct mcp *m, const char *text, size_t len, FILE *out)
{
	const struct request none = { .out = out };
	json_t *msg = mcp_parse(text, len);

	if (!msg && len > MCP_LINE_MAX)
		fail(&none, INVALID_REQUEST, "the message is too long");
	else if (!msg && is_deep(text, len))
		fail(&none, INVALID_REQUEST, "the message is too deep");
	else if (!msg)
		fail(&none, PARSE_ERROR, "the line is not JSON in UTF-8");
	else if (json_is_array(msg))
		batch(m, msg, out);
	else
		message(m, msg, out);
	json_decref(msg);
}

char *mcp__answer(struct mcp *m, const char *text, size_t len)
{
	char *answer = NULL;
	size_t answer_len = 0;
	FILE *out;
	long end;

	while (len && strchr("\r\n\t ", text[len - 1]) && text[len - 1])
		len--;
	out = len ? open_memstream(&answer, &answer_len) : NULL;
	if (!out)
		return NULL;
	line(m, text, len, out);
	end = ftell(out);
	fputc('\n', out);
	fputc('\0', out);
	if (fclose(out) || end <= 0) {
		free(answer);
		return NULL;
	}
	return answer;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * yajl calls back for every value; a value stands in one of a few places, each with one parent. A tree of the document
 * (jansson) took 1.4 KB a node and seconds for a million nodes; this takes only the arrays' memory.
 *
 * yajl's own stack takes a byte for each bracket that is open: nesting deeper than the format has is refused at once.
 */
#include "estimate/graph_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "base/err.h"

#define CHUNK_BYTES (1u << 16)
#define DEPTH_MAX 64 /* of what is passed over */
#define VERSION 1
#define FORMAT "memtrace-graph"

enum json_place { AT_TOP = 0, AT_DOC, AT_GRAPHS, AT_GRAPH, AT_NODES, AT_NODE, AT_INS, AT_OUTS, AT_SCHEDULE, AT_DEVICES,
		  AT_STORAGES, AT_STORAGE, AT_END };

enum key { KEY_NONE = 0, KEY_OTHER, KEY_FORMAT, KEY_VERSION, KEY_TORCH, KEY_GRAPHS, KEY_STORAGES, KEY_NAME, KEY_NODES,
	   KEY_SCHEDULE, KEY_OP, KEY_TARGET, KEY_INPUTS, KEY_OUTPUTS, KEY_DEVICES };

#define KEY(word, at, key, opens, to) { word, sizeof(word) - 1, at, key, opens, to }
static const struct {
	const char *word;
	uint8_t len, place, key;
	char opens; /* 's' a string, 'n' a number, '[' a list */
	uint8_t to; /* the place inside of it */
} keys[] = {
	KEY("name", AT_NODE, KEY_NAME, 's', 0),
	KEY("op", AT_NODE, KEY_OP, 's', 0),
	KEY("target", AT_NODE, KEY_TARGET, 's', 0),
	KEY("inputs", AT_NODE, KEY_INPUTS, '[', AT_INS),
	KEY("outputs", AT_NODE, KEY_OUTPUTS, '[', AT_OUTS),
	KEY("format", AT_DOC, KEY_FORMAT, 's', 0),
	KEY("version", AT_DOC, KEY_VERSION, 'n', 0),
	KEY("torch", AT_DOC, KEY_TORCH, 's', 0),
	KEY("graphs", AT_DOC, KEY_GRAPHS, '[', AT_GRAPHS),
	KEY("devices", AT_DOC, KEY_DEVICES, '[', AT_DEVICES),
	KEY("storages", AT_DOC, KEY_STORAGES, '[', AT_STORAGES),
	KEY("name", AT_GRAPH, KEY_NAME, 's', 0),
	KEY("nodes", AT_GRAPH, KEY_NODES, '[', AT_NODES),
	KEY("schedule", AT_GRAPH, KEY_SCHEDULE, '[', AT_SCHEDULE),
};
#define KEYS (sizeof(keys) / sizeof(keys[0]))

static const uint8_t parent[] = {
	[AT_DOC] = AT_END,     [AT_GRAPHS] = AT_DOC, [AT_GRAPH] = AT_GRAPHS,	[AT_NODES] = AT_GRAPH, [AT_NODE] = AT_NODES,
	[AT_INS] = AT_NODE,    [AT_OUTS] = AT_NODE,  [AT_SCHEDULE] = AT_GRAPH, [AT_DEVICES] = AT_DOC,
	[AT_STORAGES] = AT_DOC, [AT_STORAGE] = AT_STORAGES,
};

struct reader {
	struct est_doc *d;
	struct est_graph *g;
	yajl_handle yajl;
	const char *name;
	struct err *err;
	int result; /* what a callback refused with */
	const char *chunk;
	uint64_t line, line_begin, chunk_begin, counted; /* counted: offset up to which newlines are */
	enum json_place at;
	unsigned key;	 /* index of keys + 1; 0: none is open, KEYS + 1: one that is passed over */
	unsigned depth;	 /* inside a value that is passed over */
	unsigned seen;	 /* keys of the innermost object so far, by bits of enum key */
	unsigned seen_doc, seen_graph;
	struct est_node node;
	char node_name[EST_NAME_MAX];
	size_t node_name_len;
	uint64_t storage[2]; /* device, bytes */
	unsigned storage_cnt;
};

/* --- where we are ---------------------------------------------------------------------------------------- */

/* Counts newlines up to the byte that is read. */
static void reader__locate(struct reader *p)
{
	uint64_t now = p->chunk_begin + (p->yajl ? yajl_get_bytes_consumed(p->yajl) : 0);

	while (p->counted < now) {
		const char *from = p->chunk + (p->counted - p->chunk_begin);
		const char *nl = memchr(from, '\n', now - p->counted);

		if (!nl) {
			p->counted = now;
			return;
		}
		p->counted += (uint64_t)(nl - from) + 1;
		p->line++;
		p->line_begin = p->counted;
	}
}

static int refuse(struct reader *p, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Ends the reading: returns 0, which stops yajl. */
static int refuse(struct reader *p, int code, const char *fmt, ...)
{
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	reader__locate(p);
	p->result = err_set(p->err, code, "%.60s:%" PRIu64 ":%" PRIu64 ": %s", p->name, p->line,
			    p->counted > p->line_begin ? p->counted - p->line_begin : 1, text);
	return 0;
}

static int took(struct reader *p, int r)
{
	if (!r)
		return 1;
	return r == -ENOMEM ? refuse(p, r, "out of memory") : refuse(p, r, "more than memtrace takes (docs/estimate.md)");
}

static int wrong_kind(struct reader *p, const char *got)
{
	char wants = p->key && p->key <= KEYS ? keys[p->key - 1].opens : 0;

	if (wants)
		return refuse(p, -EINVAL, "\"%s\" is %s, it should be %s", keys[p->key - 1].word, got,
			      wants == 's' ? "a string" : wants == 'n' ? "a whole number" : "a list");
	switch (p->at) {
	case AT_TOP:
		refuse(p, -EINVAL, "%s, and not an object: no graph", got);
		return 0;
	case AT_INS: case AT_SCHEDULE:
		return refuse(p, -EINVAL, "%s, where the number of a node should be", got);
	case AT_STORAGE:
		return refuse(p, -EINVAL, "%s in a storage, which is a list of two numbers: its device and its bytes", got);
	case AT_STORAGES:
		return refuse(p, -EINVAL, "%s, where a storage should be: [number of its device, bytes]", got);
	case AT_DEVICES:
		return refuse(p, -EINVAL, "%s, where the name of a device should be", got);
	case AT_OUTS:
		return refuse(p, -EINVAL, "%s, where the number of a storage should be", got);
	default:
		return refuse(p, -EINVAL, "%s, where an object should be", got);
	}
}

/* A value was taken or passed over: the key is done with. 1. */
static int next_value(struct reader *p)
{
	p->key = 0;
	return 1;
}

/* --- values ------------------------------------------------------------------------------------------------ */

static int on_word(struct reader *p, const char *text, size_t len)
{
	static const struct {
		const char *word;
		size_t len;
		enum est_op op;
	} ops[] = {
		{ "call_function", 13, EST_COMPUTE },	{ "call_method", 11, EST_COMPUTE }, { "call_module", 11, EST_COMPUTE },
		{ "placeholder", 11, EST_PLACEHOLDER }, { "get_attr", 8, EST_GET_ATTR },    { "output", 6, EST_OUTPUT },
	};

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (ops[i].len == len && !memcmp(ops[i].word, text, len)) {
			p->node.op = ops[i].op;
			return next_value(p);
		}
	refuse(p, -EINVAL, "unknown op '%.*s'", (int)(len < 60 ? len : 60), text);
	err_hint(p->err, "placeholder, get_attr, call_function, call_method, call_module or output, as in torch.fx");
	return 0;
}

static int on_name(struct reader *p, const char *text, size_t len)
{
	if (len >= sizeof(p->node_name))
		return refuse(p, -EINVAL, "a name of %zu bytes; the longest are %d", len, EST_NAME_MAX - 1);
	if (memchr(text, '\0', len))
		return refuse(p, -EINVAL, "a name with a NUL in it");
	memcpy(p->node_name, text, len);
	p->node_name_len = len;
	return next_value(p);
}

static int on_string(void *ctx, const unsigned char *bytes, size_t len)
{
	const char *text = (const char *)bytes;
	struct reader *p = ctx;

	if (p->depth || p->key > KEYS)
		return p->depth ? 1 : next_value(p);
	if (!p->key && p->at == AT_DEVICES) {
		if (!len || len > EST_DEV_MAX || memchr(text, '\0', len))
			return refuse(p, -EINVAL, "a device's name of %zu bytes", len);
		return took(p, est_doc__device(p->d, text, len));
	}
	if (!p->key || keys[p->key - 1].opens != 's')
		return wrong_kind(p, "a string");
	switch ((enum key)keys[p->key - 1].key) {
	case KEY_NAME:
		if (p->at == AT_GRAPH) {
			p->g->name = names__add_len(p->d->words, text, len);
			return next_value(p);
		}
		return on_name(p, text, len);
	case KEY_OP:
		return on_word(p, text, len);
	case KEY_TARGET:
		p->node.target = names__add_len(p->d->words, text, len);
		return next_value(p);
	case KEY_TORCH:
		free(p->d->torch);
		p->d->torch = strndup(text, len < 64 ? len : 64);
		return p->d->torch ? next_value(p) : took(p, -ENOMEM);
	default: /* format */
		if (len != strlen(FORMAT) || memcmp(text, FORMAT, len))
			return refuse(p, -EINVAL, "its format is not " FORMAT);
		return next_value(p);
	}
}

/* Digits and nothing else, up to max. */
static int whole_number(struct reader *p, const char *text, size_t len, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;

	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return refuse(p, -EINVAL, "%.*s is not a whole number from 0 on", (int)(len < 40 ? len : 40), text);
		v = v * 10 + (uint64_t)(text[i] - '0');
		if (v > max)
			return refuse(p, -EINVAL, "%.*s is too large: at most %" PRIu64, (int)(len < 40 ? len : 40), text, max);
	}
	*ret = v;
	return 1;
}

static int on_number(void *ctx, const char *text, size_t len)
{
	struct reader *p = ctx;
	uint64_t v;

	if (p->depth || p->key > KEYS)
		return p->depth ? 1 : next_value(p);
	switch (p->key ? AT_END : p->at) {
	case AT_INS:
		return whole_number(p, text, len, EST_NODES_MAX, &v) && took(p, est_graph__in(p->g, (uint32_t)v));
	case AT_OUTS:
		return whole_number(p, text, len, EST_STORAGES_MAX, &v) && took(p, est_graph__out(p->g, (uint32_t)v));
	case AT_SCHEDULE:
		return whole_number(p, text, len, EST_NODES_MAX, &v) && took(p, est_graph__next(p->g, (uint32_t)v));
	case AT_STORAGE:
		if (p->storage_cnt == 2)
			return refuse(p, -EINVAL, "a storage with more than its device and its bytes");
		v = p->storage_cnt++;
		return whole_number(p, text, len, v ? EST_BYTES_MAX : EST_DEVS_MAX, &p->storage[v]);
	default:
		break;
	}
	if (!p->key || keys[p->key - 1].opens != 'n')
		return wrong_kind(p, "a number");
	if (!whole_number(p, text, len, UINT32_MAX, &v))
		return 0;
	if (v != VERSION)
		return refuse(p, -ENOTSUP, "version %" PRIu64 " of the format; this memtrace reads version %d", v, VERSION);
	return next_value(p);
}

static int on_null(void *ctx)
{
	struct reader *p = ctx;

	if (p->depth || p->key > KEYS)
		return p->depth ? 1 : next_value(p);
	return wrong_kind(p, "null");
}

static int on_boolean(void *ctx, int value)
{
	struct reader *p = ctx;

	(void)value;
	if (p->depth || p->key > KEYS)
		return p->depth ? 1 : next_value(p);
	return wrong_kind(p, "true or false");
}

/* --- brackets ------------------------------------------------------------------------------------------------ */

static int open_any(struct reader *p)
{
	if (p->depth++ < DEPTH_MAX)
		return 1;
	return refuse(p, -EINVAL, "nested deeper than %d", DEPTH_MAX);
}

static int close_any(struct reader *p)
{
	p->depth--;
	return p->depth ? 1 : next_value(p);
}

static int enter(struct reader *p, enum json_place place)
{
	p->at = place;
	p->key = 0;
	return 1;
}

static int on_start_map(void *ctx)
{
	struct reader *p = ctx;
	int r;

	if (p->depth || p->key > KEYS)
		return open_any(p);
	if (p->key)
		return wrong_kind(p, "an object");
	switch (p->at) {
	case AT_TOP:
		return enter(p, AT_DOC);
	case AT_GRAPHS:
		r = est_doc__graph(p->d, &p->g);
		if (r < 0)
			return refuse(p, r, "more than %d graphs", EST_GRAPHS_MAX);
		p->seen_graph = 0;
		return enter(p, AT_GRAPH);
	case AT_NODES:
		p->node = (struct est_node){ 0 };
		p->seen = 0;
		reader__locate(p);
		p->node.line = p->line < UINT32_MAX ? (uint32_t)p->line : 0;
		return enter(p, AT_NODE);
	default:
		return wrong_kind(p, "an object");
	}
}

static int on_start_array(void *ctx)
{
	struct reader *p = ctx;

	if (p->depth || p->key > KEYS)
		return open_any(p);
	if (!p->key && p->at == AT_STORAGES) {
		p->storage_cnt = 0;
		return enter(p, AT_STORAGE);
	}
	if (!p->key || keys[p->key - 1].opens != '[')
		return wrong_kind(p, "a list");
	if (keys[p->key - 1].to == AT_SCHEDULE)
		p->g->has_schedule = 1;
	return enter(p, (enum json_place)keys[p->key - 1].to);
}

static int end_storage(struct reader *p)
{
	if (p->storage_cnt == 2)
		return took(p, est_doc__storage(p->d, p->storage[1], (uint16_t)p->storage[0]));
	refuse(p, -EINVAL, "a storage without %s", p->storage_cnt ? "a size" : "anything in it");
	err_hint(p->err, "[number of its device, bytes]: python -m memtrace.graph writes sizes, also of dynamic shapes");
	return 0;
}

static int on_end_array(void *ctx)
{
	struct reader *p = ctx;

	if (p->depth)
		return close_any(p);
	if (p->at == AT_STORAGE && !end_storage(p))
		return 0;
	return enter(p, (enum json_place)parent[p->at]);
}

static int has_key(struct reader *p, unsigned seen, enum key key, const char *what, const char *word)
{
	return seen & 1u << key ? 1 : refuse(p, -EINVAL, "a %s without \"%s\"", what, word);
}

static int on_end_map(void *ctx)
{
	struct reader *p = ctx;
	int go_on = 1;

	if (p->depth)
		return close_any(p);
	if (p->at == AT_NODE)
		go_on = has_key(p, p->seen, KEY_NAME, "node", "name") && has_key(p, p->seen, KEY_OP, "node", "op") &&
			took(p, est_doc__node(p->d, p->g, &p->node, p->node_name, p->node_name_len));
	else if (p->at == AT_GRAPH)
		go_on = has_key(p, p->seen_graph, KEY_NODES, "graph", "nodes");
	else
		go_on = has_key(p, p->seen_doc, KEY_FORMAT, "document", "format") &&
			has_key(p, p->seen_doc, KEY_VERSION, "document", "version") &&
			has_key(p, p->seen_doc, KEY_GRAPHS, "document", "graphs") &&
			has_key(p, p->seen_doc, KEY_DEVICES, "document", "devices") &&
			has_key(p, p->seen_doc, KEY_STORAGES, "document", "storages");
	return go_on && enter(p, (enum json_place)parent[p->at]);
}

static int on_key(void *ctx, const unsigned char *bytes, size_t len)
{
	struct reader *p = ctx;
	unsigned *seen = p->at == AT_DOC ? &p->seen_doc : p->at == AT_GRAPH ? &p->seen_graph : &p->seen;

	if (p->depth)
		return 1;
	for (unsigned i = 0; i < KEYS; i++)
		if (keys[i].place == p->at && keys[i].len == len && !memcmp(keys[i].word, bytes, len)) {
			if (*seen & 1u << keys[i].key)
				return refuse(p, -EINVAL, "\"%s\" a second time", keys[i].word);
			*seen |= 1u << keys[i].key;
			p->key = i + 1;
			return 1;
		}
	p->key = KEYS + 1;
	return 1;
}

/* --- the stream ------------------------------------------------------------------------------------------------ */

static const yajl_callbacks callbacks = {
	.yajl_null = on_null,
	.yajl_boolean = on_boolean,
	.yajl_number = on_number,
	.yajl_string = on_string,
	.yajl_start_map = on_start_map,
	.yajl_map_key = on_key,
	.yajl_end_map = on_end_map,
	.yajl_start_array = on_start_array,
	.yajl_end_array = on_end_array,
};

/* yajl's own message, on one line. */
static int broken(struct reader *p)
{
	unsigned char *why = yajl_get_error(p->yajl, 0, NULL, 0);
	char text[160];

	snprintf(text, sizeof(text), "%s", why ? (char *)why : "broken");
	yajl_free_error(p->yajl, why);
	text[strcspn(text, "\n")] = '\0';
	refuse(p, -EINVAL, "not JSON: %s", text);
	if (strstr(text, "premature EOF"))
		err_hint(p->err, "the file ends in the middle of the graph: write it again");
	return p->result;
}

static int reader__status(struct reader *p, yajl_status status)
{
	if (status == yajl_status_ok)
		return 0;
	return status == yajl_status_client_canceled ? p->result : broken(p);
}

static int reader__feed(struct reader *p, const char *data, size_t len)
{
	int r;

	p->chunk = data;
	r = reader__status(p, yajl_parse(p->yajl, (const unsigned char *)data, len));
	if (r)
		return r;
	reader__locate(p);
	p->chunk_begin += len;
	return 0;
}

static int reader__end(struct reader *p)
{
	int r;

	if (p->at == AT_TOP && !p->chunk_begin)
		return err_set(p->err, -EINVAL, "%.100s is empty: no graph", p->name);
	/* At the end nothing is consumed any more: the place is the end of the last piece. */
	p->chunk = "";
	r = reader__status(p, yajl_complete_parse(p->yajl));
	return r ? r : est_doc__finish(p->d, p->err);
}

static int reader__begin(struct reader *p, struct est_doc *d, const char *name, struct err *err)
{
	*p = (struct reader){ .d = d, .name = name, .err = err, .line = 1 };
	p->yajl = yajl_alloc(&callbacks, NULL, p);
	return p->yajl ? 0 : err_set(err, -ENOMEM, "out of memory");
}

int graph_json_read(struct est_doc *d, FILE *in, const char *name, struct err *err)
{
	char *chunk = malloc(CHUNK_BYTES);
	struct reader p;
	int r = reader__begin(&p, d, name, err);
	size_t n;

	if (!r && !chunk)
		r = err_set(err, -ENOMEM, "out of memory");
	while (!r && (n = fread(chunk, 1, CHUNK_BYTES, in)))
		r = reader__feed(&p, chunk, n);
	if (!r && ferror(in))
		r = err_set(err, -EIO, "reading %.100s: %s", name, strerror(errno));
	if (!r)
		r = reader__end(&p);
	if (p.yajl)
		yajl_free(p.yajl);
	free(chunk);
	return r;
}

int graph_json_read_mem(struct est_doc *d, const void *data, size_t len, const char *name, struct err *err)
{
	struct reader p;
	int r = reader__begin(&p, d, name, err);

	if (!r && len)
		r = reader__feed(&p, data, len);
	if (!r)
		r = reader__end(&p);
	if (p.yajl)
		yajl_free(p.yajl);
	return r;
}

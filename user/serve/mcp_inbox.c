/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "serve/mcp_inbox.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int mcp_inbox__has_room(const struct mcp_inbox *in)
{
	return !in->is_ended && in->len < sizeof(in->text);
}

int mcp_inbox__fill(struct mcp_inbox *in, int fd)
{
	char bytes[16 << 10];
	size_t room = sizeof(in->text) - in->len;
	ssize_t n = read(fd, bytes, room < sizeof(bytes) ? room : sizeof(bytes));

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	in->is_ended = !n;
	for (ssize_t i = 0; i < n; i++) {
		if (bytes[i] == '\n')
			in->last_len = 0;
		else if (in->last_len++ > MCP_LINE_MAX)
			continue;
		in->text[in->len++] = bytes[i];
	}
	return 0;
}

static void drop(struct mcp_inbox *in, size_t at, size_t len)
{
	memmove(in->text + at, in->text + at + len, in->len - at - len);
	in->len -= len;
	if (at < in->seen)
		in->seen -= len < in->seen ? len : in->seen;
}

/* The line at that byte, with its end; 0: its end has not come. */
static size_t line_len(const struct mcp_inbox *in, size_t at)
{
	const char *end = memchr(in->text + at, '\n', in->len - at);

	return end ? (size_t)(end - in->text) - at + 1 : 0;
}

int mcp_inbox__take(struct mcp_inbox *in, char **ret, size_t *ret_len)
{
	size_t len = line_len(in, 0);

	*ret = NULL;
	if (!len && in->is_ended)
		len = in->len;
	if (!len)
		return 0;
	*ret = malloc(len);
	if (!*ret)
		return -ENOMEM;
	memcpy(*ret, in->text, len);
	*ret_len = len;
	drop(in, 0, len);
	return 0;
}

/* Of those that wait. */
static void drop_request(struct mcp_inbox *in, const json_t *id)
{
	for (size_t at = 0, len; at < in->seen; at += len) {
		json_t *msg;
		int is_it;

		len = line_len(in, at);
		msg = mcp_parse(in->text + at, len);
		is_it = json_equal(json_object_get(msg, "id"), id);
		json_decref(msg);
		if (is_it) {
			drop(in, at, len);
			return;
		}
	}
}

static int say(struct mcp *m, const char *line, size_t len, FILE *out)
{
	char *answer = mcp__answer(m, line, len);
	int r = answer && (fputs(answer, out) < 0 || fflush(out)) ? -errno : 0;

	free(answer);
	return r;
}

int mcp_inbox__meanwhile(struct mcp_inbox *in, struct mcp *m, FILE *out)
{
	size_t len;
	int r = 0;

	while (!r && (len = line_len(in, in->seen))) {
		json_t *msg = mcp_parse(in->text + in->seen, len);
		const json_t *wanted = json_object_get(json_object_get(msg, "params"), "requestId");
		const char *method = json_string_value(json_object_get(msg, "method"));

		if (method && !strcmp(method, "ping")) {
			r = say(m, in->text + in->seen, len, out);
			drop(in, in->seen, len);
		} else if (method && !strcmp(method, "notifications/cancelled")) {
			drop(in, in->seen, len);
			if (json_equal(wanted, m->running))
				r = -ECANCELED;
			else
				drop_request(in, wanted);
		} else {
			in->seen += len;
		}
		json_decref(msg);
	}
	return r;
}

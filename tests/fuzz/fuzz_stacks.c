/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Any bytes as the kernel side's records of stacks, of processes that are followed, unknown or have ended, resolved as session
 * does it; and as frames and lists of them. Input: records as (one byte what, one byte length / 16, that many bytes).
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "stack/capture.h"
#include "stack/intern.h"

#define PIDS 3
#define NOBODY (1 << 30) /* above what the kernel gives */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct street {
	struct capture *c;
	struct intern *in;
	uint32_t nodes; /* told: the highest */
};

static void require(int ok)
{
	if (!ok)
		abort();
}

static int python(void *ctx, pid_t pid, const struct mt_py_proc *how)
{
	(void)ctx;
	(void)pid;
	(void)how;
	return 0;
}

static void note(void *ctx, pid_t pid, const char *text)
{
	(void)ctx;
	(void)pid;
	require(text && *text);
}

/* A node comes after the one that it hangs on. */
static int on_node(void *ctx, const struct event *ev)
{
	struct street *s = ctx;

	require(ev->kind == EV_STACK && ev->size < ev->seq && ev->seq == s->nodes + 1);
	s->nodes = ev->seq;
	return 0;
}

static void record(struct street *s, const uint8_t *bytes, size_t len, uint8_t what)
{
	struct mt_hdr *rec = malloc(len ? len : 1); /* of its own: reading past it is seen */
	struct event ev;

	memcpy(rec, bytes, len);
	if (len >= sizeof(*rec)) {
		rec->kind = (uint8_t)(MT_EV_STACK + (what & 3) % 3);
		rec->pid = NOBODY + (what >> 2) % PIDS;
	}
	if (capture__wants(rec, len) && capture__record(s->c, rec, len, &ev))
		(void)capture__resolve(s->c, &ev, on_node, s);
	free(rec);
}

static void frames(struct intern *in, const uint8_t *bytes, size_t len, uint8_t what)
{
	uint32_t words[256], list, parent = 0;
	size_t cnt = len / 4, got;
	int is_cut, is_new;

	intern__by(in, what % PIDS);
	memcpy(words, bytes, cnt * 4);
	for (size_t i = 0; i < cnt; i++) {
		struct ev_frame frame = { { words[i] & 0xff }, { words[i] >> 8 & 0xff }, words[i] >> 16, 1 };
		uint32_t f = intern__frame(in, &frame);

		require(!f || intern__frame_at(in, f)->line == words[i] >> 16);
		parent = f ? intern__node(in, parent, f, &is_new) : parent;
		intern__keep_pair(in, words[i], parent, f);
		require(!f || intern__pair(in, words[i], parent) == f || !intern__pair(in, words[i], parent));
	}
	list = intern__list(in, words, cnt, what & 1);
	if (list) {
		const uint32_t *at = intern__list_at(in, list, &got, &is_cut);

		require(got == cnt && is_cut == (what & 1) && !memcmp(at, words, cnt * 4));
	}
	if (what & 2)
		intern__drop_owner(in, what % PIDS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct names *names = names__new();
	struct capture_env env = { .names = names, .python = python, .note = note, .native = 1 };
	struct street s = { .c = capture__new(&env), .in = intern__new() };

	require(names && s.c && s.in);
	while (size > 2) {
		size_t len = data[1] * 16u < size - 2 ? data[1] * 16u : size - 2;
		uint8_t what = data[0];

		if (what >= 0xf0)
			capture__begin(s.c, NOBODY + what % PIDS);
		else if (what >= 0xe0)
			capture__end(s.c, NOBODY + what % PIDS);
		else if (what & 0x80)
			frames(s.in, data + 2, len < 1024 ? len : 1024, what);
		else
			record(&s, data + 2, len, what);
		data += len + 2;
		size -= len + 2;
	}
	capture__retry(s.c);
	(void)capture__next_over(s.c);
	capture__free(s.c);
	intern__free(s.in);
	names__free(names);
	return 0;
}

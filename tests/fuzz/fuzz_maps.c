/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Any bytes as each of the /proc texts: maps, stat, cmdline, environ, cgroup. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "target/container.h"
#include "target/proc_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct ctx {
	const char *text;
	size_t len;
};

static void require(int ok)
{
	if (!ok)
		abort();
}

static int each_line(void *arg, const struct maps_line *m)
{
	struct ctx *c = arg;
	char path[64];
	size_t n;

	require(m->start < m->end);
	require(m->path >= c->text && m->path_len <= c->len && m->path + m->path_len <= c->text + c->len);
	require(!m->path_len || m->path[0] != ' ');
	n = maps_path_unescape(m->path, m->path_len, path, sizeof(path));
	require(n < sizeof(path) && path[n] == '\0' && n <= m->path_len);
	return 0;
}

static int each_label(void *arg, const char *label)
{
	struct ctx *c = arg;

	require(label >= c->text && label + strlen(label) < c->text + c->len);
	require(strchr(label, '=') != NULL && strlen(label) < 512);
	return 0;
}

static int each_container_label(void *ctx, const char *label)
{
	(void)ctx;
	require(strchr(label, '=') != NULL && strlen(label) < CONTAINER_LABEL_BYTES + CONTAINER_NAME_MAX);
	require(!label[strspn(label, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_=abcdefghijklmnopqrstuvwxyz0123456789.-")]);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ctx c = { (const char *)data, size };
	struct proc_stat st;
	struct container box;
	char line[100];
	size_t n, bad;

	(void)maps_each(c.text, size, each_line, &c, &bad);
	require(bad <= size);
	if (proc_stat_parse(c.text, size, &st) == 0)
		require(memchr(st.comm, '\0', sizeof(st.comm)) != NULL && st.ppid >= 0);
	n = cmdline_join(c.text, size, line, sizeof(line));
	require(n < sizeof(line) && n <= size && strlen(line) == n);
	for (size_t i = 0; i < n; i++)
		require((unsigned char)line[i] >= 32 && line[i] != 127);
	(void)environ_labels(c.text, size, each_label, &c);
	if (container_of(c.text, size, &box))
		(void)container_labels(&box, c.text, size, each_container_label, NULL);
	return 0;
}

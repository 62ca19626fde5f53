/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Parsers of /proc text. Written by hand rather than with sscanf: the text is not NUL-terminated,
 * sscanf's number overflow is undefined, and a process can put anything into its names (a comm of
 * ") R 1 1" is legal, which is why stat is split at its *last* parenthesis).
 */
#include "target/proc_text.h"

#include <errno.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/clock.h"

#define DELETED " (deleted)"

/* --- numbers ------------------------------------------------------------------------------------- */

struct cursor {
	const char *at, *end;
};

static int take_number(struct cursor *c, unsigned base, uint64_t *ret)
{
	const char *from = c->at;
	uint64_t v = 0;

	for (; c->at < c->end; c->at++) {
		char ch = *c->at;
		unsigned d;

		if (ch >= '0' && ch <= '9')
			d = (unsigned)(ch - '0');
		else if (base == 16 && ch >= 'a' && ch <= 'f')
			d = (unsigned)(ch - 'a') + 10;
		else
			break;
		if (d >= base || __builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, d, &v))
			return -EINVAL;
	}
	if (c->at == from)
		return -EINVAL;
	*ret = v;
	return 0;
}

static int take_char(struct cursor *c, char ch)
{
	if (c->at == c->end || *c->at != ch)
		return -EINVAL;
	c->at++;
	return 0;
}

/* --- maps ------------------------------------------------------------------------------------------ */

static int take_perms(struct cursor *c, struct maps_line *m)
{
	if (c->end - c->at < 4)
		return -EINVAL;
	for (int i = 0; i < 4; i++)
		if (!memchr(i == 0 ? "r-" : i == 1 ? "w-" : i == 2 ? "x-" : "ps", c->at[i], 2))
			return -EINVAL;
	m->exec = c->at[2] == 'x';
	m->is_closed = !memcmp(c->at, "---", 3);
	m->is_shared = c->at[3] == 's';
	c->at += 4;
	return 0;
}

int maps_line_parse(const char *line, size_t len, struct maps_line *ret)
{
	struct cursor c = { line, line + len };
	struct maps_line m = { 0 };
	uint64_t major_nr, minor_nr;

	if (take_number(&c, 16, &m.start) || take_char(&c, '-') || take_number(&c, 16, &m.end) ||
	    take_char(&c, ' ') || take_perms(&c, &m) || take_char(&c, ' ') ||
	    take_number(&c, 16, &m.off) || take_char(&c, ' ') || take_number(&c, 16, &major_nr) ||
	    take_char(&c, ':') || take_number(&c, 16, &minor_nr) || take_char(&c, ' ') ||
	    take_number(&c, 10, &m.ino))
		return -EINVAL;
	if (m.start >= m.end || major_nr > UINT32_MAX || minor_nr > UINT32_MAX)
		return -EINVAL;
	m.dev = makedev((unsigned)major_nr, (unsigned)minor_nr);
	if (c.at < c.end && *c.at != ' ')
		return -EINVAL;
	while (c.at < c.end && *c.at == ' ')
		c.at++;
	m.path = c.at;
	m.path_len = (size_t)(c.end - c.at);
	if (m.path_len > strlen(DELETED) && !memcmp(c.end - strlen(DELETED), DELETED, strlen(DELETED))) {
		m.path_len -= strlen(DELETED);
		m.deleted = 1;
	}
	*ret = m;
	return 0;
}

int maps_each(const char *text, size_t len, int (*fn)(void *ctx, const struct maps_line *line), void *ctx,
	      size_t *ret_bad)
{
	const char *at = text, *end = text + len;
	size_t bad = 0;
	int r = 0;

	while (at < end && r == 0) {
		const char *nl = memchr(at, '\n', (size_t)(end - at));
		struct maps_line m;

		if (!nl)
			break;
		if (maps_line_parse(at, (size_t)(nl - at), &m) == 0)
			r = fn(ctx, &m);
		else
			bad++;
		at = nl + 1;
	}
	if (ret_bad)
		*ret_bad = bad;
	return r;
}

static int is_octal(char c)
{
	return c >= '0' && c <= '7';
}

size_t maps_path_unescape(const char *path, size_t len, char *buf, size_t size)
{
	size_t n = 0;

	if (!size)
		return 0;
	for (size_t i = 0; i < len && n + 1 < size; i++) {
		if (path[i] == '\\' && len - i > 3 && is_octal(path[i + 1]) && is_octal(path[i + 2]) &&
		    is_octal(path[i + 3])) {
			int v = (path[i + 1] - '0') * 64 + (path[i + 2] - '0') * 8 + path[i + 3] - '0';

			if (v > 0 && v < 256) {
				buf[n++] = (char)v;
				i += 3;
				continue;
			}
		}
		buf[n++] = path[i];
	}
	buf[n] = '\0';
	return n;
}

/* --- stat ------------------------------------------------------------------------------------------ */

/* Fields are numbered as in proc(5): 3 is the state, the first after the name. */
static int stat_field(struct cursor *c, int nr, struct proc_stat *st)
{
	uint64_t v = 0;
	int r = 0;

	if (nr == 3) {
		st->state = *c->at++;
		return 0;
	}
	if (c->at < c->end && *c->at == '-')
		while (c->at < c->end && *c->at != ' ')
			c->at++; /* negative: priorities, tpgid; we use none of them */
	else
		r = take_number(c, 10, &v);
	if (r < 0)
		return r;
	switch (nr) {
	case 4:
		if (v > INT32_MAX)
			return -EINVAL;
		st->ppid = (int)v;
		break;
	case 14: st->utime_ticks = v; break;
	case 15: st->stime_ticks = v; break;
	case 20: st->threads = v; break;
	case 22: st->start_ticks = v; break;
	case 24: st->rss_pages = v; break;
	}
	return 0;
}

uint64_t proc_ticks_ns(uint64_t ticks)
{
	long hz = sysconf(_SC_CLK_TCK);
	uint64_t per = NS_PER_S / (uint64_t)(hz > 0 ? hz : 100);

	return ticks > UINT64_MAX / per ? UINT64_MAX : ticks * per;
}

int proc_stat_parse(const char *text, size_t len, struct proc_stat *ret)
{
	const char *open = len ? memchr(text, '(', len) : NULL;
	const char *close = len ? memrchr(text, ')', len) : NULL;
	struct cursor c = { close ? close + 1 : text, text + len };
	struct proc_stat st = { 0 };
	size_t n;

	if (!open || !close || close < open)
		return -EINVAL;
	n = (size_t)(close - open - 1);
	if (n >= sizeof(st.comm))
		n = sizeof(st.comm) - 1;
	for (size_t i = 0; i < n; i++)
		st.comm[i] = open[1 + i] ? open[1 + i] : '?';
	for (int nr = 3; nr <= 24; nr++)
		if (take_char(&c, ' ') || c.at == c.end || stat_field(&c, nr, &st))
			return -EINVAL;
	*ret = st;
	return 0;
}

/* --- cmdline, environ ------------------------------------------------------------------------------ */

size_t cmdline_join(const char *text, size_t len, char *buf, size_t size)
{
	size_t n = 0;

	if (!size)
		return 0;
	while (len && !text[len - 1])
		len--;
	for (size_t i = 0; i < len && n + 1 < size; i++) {
		unsigned char ch = (unsigned char)text[i];

		buf[n++] = ch == 0 ? ' ' : ch < 32 || ch == 127 ? '?' : (char)ch;
	}
	buf[n] = '\0';
	return n;
}

/* Set by torchrun, SLURM, MPI launchers, Ray, Kubernetes operators and Horovod. */
static const char *const label_names[] = {
	"RANK",		 "LOCAL_RANK",		"WORLD_SIZE",		"LOCAL_WORLD_SIZE",
	"GROUP_RANK",	 "ROLE_RANK",		"MASTER_ADDR",		"MASTER_PORT",
	"NODE_RANK",	 "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID",		"SLURM_PROCID",
	"SLURM_LOCALID", "SLURM_NODEID",	"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
	"PMI_RANK",	 "HOROVOD_RANK",	"RAY_JOB_ID",		"CUDA_VISIBLE_DEVICES",
	"PMI_SIZE",	 "HOROVOD_SIZE",	"HOROVOD_LOCAL_RANK",	"GROUP_WORLD_SIZE",
	"SLURM_NTASKS",	 "SLURM_NNODES",	"SLURMD_NODENAME",	"OMPI_COMM_WORLD_SIZE",
	"OMPI_COMM_WORLD_LOCAL_SIZE",
};

static int is_label(const char *text)
{
	for (size_t i = 0; i < sizeof(label_names) / sizeof(*label_names); i++) {
		size_t n = strlen(label_names[i]);

		if (!strncmp(text, label_names[i], n) && text[n] == '=')
			return strnlen(text + n, 256) < 256;
	}
	return 0;
}

int environ_labels(const char *text, size_t len, int (*fn)(void *ctx, const char *label), void *ctx)
{
	const char *at = text, *end = text + len;

	while (at < end) {
		const char *nul = memchr(at, '\0', (size_t)(end - at));
		int r;

		if (!nul)
			break;
		if (is_label(at)) {
			r = fn(ctx, at);
			if (r)
				return r;
		}
		at = nul + 1;
	}
	return 0;
}

int proc_line_has_word(const char *text, const char *line, const char *word)
{
	size_t line_len = strlen(line), len = strlen(word), n;
	const char *at = text;

	while (strncmp(at, line, line_len)) {
		at = strchr(at, '\n');
		if (!at++)
			return 0;
	}
	for (at += line_len; *at && *at != '\n'; at += n + (n == 0)) {
		n = strcspn(at, " \t\n");
		if (n == len && !memcmp(at, word, len))
			return 1;
	}
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A failure belongs to a process: another one may have the file where this one has none. But that a text, true to its name's
 * hash, is no graph holds for all: such a file is kept like the others, with no content.
 */
#include "live/generated_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/index.h"
#include "base/seed.h"
#include "target/script.h"
#include "target/script_read.h"

struct kept_file {
	char name[SCRIPT_NAME_LEN];
	struct generated_file *file; /* NULL: … */
	int why;		     /* … and this is why */
	size_t bytes;
	uint64_t used; /* by generated_files.tick */
};

struct failed_file {
	char name[SCRIPT_NAME_LEN];
	pid_t pid;
	int why; /* 0: a free place */
	uint64_t again_ns, pause_ns;
};

struct generated_files {
	struct kept_file kept[GENERATED_FILES_MAX];
	uint32_t kept_cnt;
	struct index places; /* of those, by name */
	size_t bytes;
	uint64_t tick;
	struct failed_file failed[GENERATED_FAILED_MAX];
	uint32_t failed_next;
	int64_t ahead_ns; /* time that reading may still take */
	uint64_t since_ns;
	struct generated_files_counts counts;
	uint64_t (*clock_ns)(void);
	generated_files_reader read;
};

static uint64_t clock_now_ns(void)
{
	return now_ns();
}

struct generated_files *generated_files__new(void)
{
	struct generated_files *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->ahead_ns = GENERATED_READ_AHEAD_NS;
	generated_files__use(g, clock_now_ns, script_read);
	return g;
}

void generated_files__use(struct generated_files *g, uint64_t (*clock_ns)(void), generated_files_reader read)
{
	g->clock_ns = clock_ns;
	g->since_ns = clock_ns();
	g->read = read;
}

void generated_files__free(struct generated_files *g)
{
	if (!g)
		return;
	for (uint32_t i = 0; i < g->kept_cnt; i++)
		generated__free(g->kept[i].file);
	index__done(&g->places);
	free(g);
}

static uint64_t hash_of(const char *name)
{
	return hash_bytes(name, SCRIPT_NAME_LEN);
}

static int is_name(const char *a, const char *b)
{
	return !memcmp(a, b, SCRIPT_NAME_LEN);
}

/* ---- what is kept ---- */

static struct kept_file *find(struct generated_files *g, const char *name)
{
	uint32_t at = index_find(&g->places, hash_of(name), i, is_name(g->kept[i].name, name));

	if (at == INDEX_NONE)
		return NULL;
	g->kept[at].used = ++g->tick;
	return &g->kept[at];
}

/* The last entry moves to the place of the removed one. */
static void drop_oldest(struct generated_files *g)
{
	uint32_t at = 0, last = g->kept_cnt - 1;

	for (uint32_t i = 1; i < g->kept_cnt; i++) {
		if (g->kept[i].used < g->kept[at].used)
			at = i;
	}
	generated__free(g->kept[at].file);
	g->bytes -= g->kept[at].bytes;
	g->counts.dropped++;
	index__remove(&g->places, hash_of(g->kept[at].name), at);
	if (at != last) {
		index__renumber(&g->places, hash_of(g->kept[last].name), last, at);
		g->kept[at] = g->kept[last];
	}
	g->kept_cnt--;
}

/* NULL: no memory; the file is freed then. */
static struct kept_file *keep(struct generated_files *g, const char *name, struct generated_file *file, int why)
{
	struct kept_file *k;
	size_t bytes = sizeof(*k) + (file ? generated__bytes(file) : 0);

	while (g->kept_cnt && (g->kept_cnt == GENERATED_FILES_MAX || g->bytes + bytes > GENERATED_FILES_BYTES_MAX))
		drop_oldest(g);
	if (index__add(&g->places, hash_of(name), g->kept_cnt)) {
		generated__free(file);
		return NULL;
	}
	k = &g->kept[g->kept_cnt++];
	*k = (struct kept_file){ .file = file, .why = why, .bytes = bytes, .used = ++g->tick };
	memcpy(k->name, name, SCRIPT_NAME_LEN);
	g->bytes += bytes;
	return k;
}

/* ---- what failed ---- */

static struct failed_file *find_failed(struct generated_files *g, pid_t pid, const char *name)
{
	for (uint32_t i = 0; i < GENERATED_FAILED_MAX; i++) {
		struct failed_file *f = &g->failed[i];

		if (f->why && f->pid == pid && is_name(f->name, name))
			return f;
	}
	return NULL;
}

/* `f`: its entry if it failed before. After a reader was held up, the pause is the longest. */
static int fail(struct generated_files *g, struct failed_file *f, pid_t pid, const char *name, int why)
{
	uint64_t pause_ns = f ? 2 * f->pause_ns : GENERATED_RETRY_MIN_NS;

	if (pause_ns > GENERATED_RETRY_MAX_NS || why == -ETIMEDOUT)
		pause_ns = GENERATED_RETRY_MAX_NS;
	if (!f)
		f = &g->failed[g->failed_next++ % GENERATED_FAILED_MAX];
	*f = (struct failed_file){ .pid = pid, .why = why, .again_ns = g->clock_ns() + pause_ns, .pause_ns = pause_ns };
	memcpy(f->name, name, SCRIPT_NAME_LEN);
	g->counts.refused++;
	g->counts.edited += why == -ESTALE;
	return why;
}

/* ---- reading ---- */

static int has_time(struct generated_files *g)
{
	uint64_t now = g->clock_ns(), gone = now - g->since_ns;

	g->since_ns = now;
	if (gone > GENERATED_READ_AHEAD_NS * GENERATED_READ_PART)
		gone = GENERATED_READ_AHEAD_NS * GENERATED_READ_PART;
	g->ahead_ns += (int64_t)(gone / GENERATED_READ_PART);
	if (g->ahead_ns > (int64_t)GENERATED_READ_AHEAD_NS)
		g->ahead_ns = GENERATED_READ_AHEAD_NS;
	return g->ahead_ns > 0;
}

/* *ret: the parsed file, or NULL where its text, which is the true one, has no graph: `*ret_why`. */
static int read_parsed(struct generated_files *g, pid_t pid, const char *path, struct generated_file **ret, int *ret_why)
{
	char *text;
	size_t len;
	int r = g->read(pid, path, &text, &len);

	if (r < 0)
		return r == -ENOENT || r == -ENOTDIR ? -ENOLINK : r;
	if (script_is_true(script_name(path), text, len))
		*ret_why = generated__parse(text, len, ret);
	else
		r = len ? -ESTALE : -EAGAIN; /* not written yet */
	free(text);
	return !r && *ret_why == -ENOMEM ? -ENOMEM : r;
}

static int load(struct generated_files *g, pid_t pid, const char *path, struct kept_file **ret)
{
	const char *name = script_name(path);
	struct failed_file *failed = find_failed(g, pid, name);
	struct generated_file *file = NULL;
	uint64_t before = g->clock_ns();
	int why = 0, r;

	if (failed && before < failed->again_ns)
		return failed->why;
	if (!has_time(g)) {
		g->counts.put_off++;
		return -EAGAIN;
	}
	r = read_parsed(g, pid, path, &file, &why);
	g->ahead_ns -= (int64_t)(g->clock_ns() - before);
	if (r < 0)
		return fail(g, failed, pid, name, r);
	if (failed)
		failed->why = 0;
	g->counts.read += !why;
	*ret = keep(g, name, file, why);
	return *ret ? 0 : -ENOMEM;
}

static int get(struct generated_files *g, pid_t pid, const char *path, const struct generated_file **ret)
{
	const char *name = script_name(path);
	struct kept_file *k = name ? find(g, name) : NULL;
	int r = !name ? -EPERM : k ? 0 : load(g, pid, path, &k);

	if (r < 0)
		return r;
	if (k->why)
		return k->why;
	*ret = k->file;
	return 0;
}

int generated_files__line(struct generated_files *g, pid_t pid, const char *path, unsigned line, struct generated_line *ret)
{
	const struct generated_file *f = NULL;
	int r = get(g, pid, path, &f);

	return r < 0 ? r : generated__line(f, line, ret);
}

struct generated_files_counts generated_files__counts(const struct generated_files *g)
{
	return g->counts;
}

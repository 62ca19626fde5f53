/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The libraries of a process, and the very file of each. Called through target.h; target.c begins and ends it.
 *
 * Libraries are known by (device, inode), not by path: the path in maps may be deleted, be in another mount namespace, or be
 * chosen by the process. Only files with an executable mapping count; a job may map thousands of data files. Everything ever
 * seen stays in a sorted list, so that a library that is unloaded and loaded again is not taken for a new one: probes belong to
 * the inode.
 *
 * Cannot see: the mappings of a process whose first thread has ended while others run (the kernel shows none); files of a
 * kernel without CONFIG_CHECKPOINT_RESTORE that are deleted (no map_files).
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/err.h"
#include "target/target_state.h"

#define SEEN_MAX (4u * TARGET_LIBS_MAX)

/* --- libraries seen before ------------------------------------------------------------------------ */

static int file_id_cmp(const void *a, const void *b)
{
	const struct file_id *x = a, *y = b;

	return cmp_up(x->dev, y->dev) ?: cmp_up(x->ino, y->ino);
}

int target__see_as(struct target *t, const struct target *parent)
{
	size_t bytes = parent->seen_cnt * sizeof(*t->seen);

	t->seen = malloc(bytes + 1);
	if (!t->seen)
		return -ENOMEM;
	memcpy(t->seen, parent->seen, bytes);
	t->seen_cnt = parent->seen_cnt;
	return 0;
}

static void libs_free(struct lib *libs, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		free((char *)libs[i].path);
	free(libs);
}

void target__drop_libs(struct target *t)
{
	libs_free(t->libs, t->libs_cnt);
	free(t->seen);
}

/* --- libraries present now ------------------------------------------------------------------------ */

struct scan {
	struct lib *libs;
	size_t cnt, cap;
	size_t unseen; /* mappings of files without room for them */
};

static struct lib *scan__find(struct scan *s, uint64_t dev, uint64_t ino)
{
	/* neighbours in maps are mostly of the same file: search from the last one backwards */
	for (size_t i = s->cnt; i--;)
		if (s->libs[i].ino == ino && s->libs[i].dev == dev)
			return &s->libs[i];
	return NULL;
}

/* First pass: files with an executable mapping. */
static int scan_exec(void *ctx, const struct maps_line *m)
{
	struct scan *s = ctx;
	char path[PATH_MAX];
	struct lib *l;

	if (!m->exec || !m->ino || !m->path_len || m->path[0] != '/' || scan__find(s, m->dev, m->ino))
		return 0;
	if (s->cnt == TARGET_LIBS_MAX) {
		s->unseen++;
		return 0;
	}
	if (!array_has_room(s->libs, s->cnt, s->cap, 64))
		return -ENOMEM;
	maps_path_unescape(m->path, m->path_len, path, sizeof(path));
	l = &s->libs[s->cnt];
	*l = (struct lib){ .dev = m->dev, .ino = m->ino, .deleted = m->deleted };
	l->exec_start = m->start;
	l->exec_end = m->end;
	l->exec_off = m->off;
	l->load_start = UINT64_MAX;
	l->path = strdup(path);
	if (!l->path)
		return -ENOMEM;
	l->base = strrchr(l->path, '/') + 1;
	s->cnt++;
	return 0;
}

/* Second pass: where each of them begins. */
static int scan_load(void *ctx, const struct maps_line *m)
{
	struct lib *l = m->ino ? scan__find(ctx, m->dev, m->ino) : NULL;

	if (l && m->start < l->load_start)
		l->load_start = m->start;
	return 0;
}

/* Marks the new ones and remembers them. Returns how many, or -ENOMEM. */
static int target__mark_new(struct target *t, struct lib *libs, size_t cnt)
{
	size_t old = t->seen_cnt, n = old;
	struct file_id *seen = realloc(t->seen, (old + cnt + 1) * sizeof(*seen));

	if (!seen)
		return -ENOMEM;
	t->seen = seen;
	for (size_t i = 0; i < cnt; i++) {
		struct file_id id = { libs[i].dev, libs[i].ino };

		if (bsearch(&id, seen, old, sizeof(id), file_id_cmp))
			continue;
		libs[i].is_new = 1;
		seen[n++] = id;
	}
	qsort(seen, n, sizeof(*seen), file_id_cmp);
	t->seen_cnt = n < SEEN_MAX ? n : SEEN_MAX;
	return (int)(n - old);
}

/* Finds the program among the libraries: by inode, or by path where stat reports another device than maps. */
static void target__mark_exe(const struct target *t, struct lib *libs, size_t cnt)
{
	struct door_exe exe;

	if (door_exe(t->pid, &exe) < 0)
		return;
	for (size_t i = 0; i < cnt; i++)
		libs[i].is_exe = libs[i].ino == exe.ino && (libs[i].dev == exe.dev || !strcmp(libs[i].path, exe.path));
}

int target__refresh(struct target *t, struct err *err)
{
	struct scan s = { 0 };
	char *text;
	size_t len;
	int r = target__read_file(t, DOOR_MAPS, MAPS_BYTES_MAX, &text, &len);

	if (r < 0)
		return target__fail(t, r, "maps", err);
	r = maps_each(text, len, scan_exec, &s, NULL);
	if (r >= 0)
		r = maps_each(text, len, scan_load, &s, NULL);
	free(text);
	if (r >= 0 && !s.cnt && !target__alive(t))
		r = -ESRCH;
	if (r >= 0)
		r = target__mark_new(t, s.libs, s.cnt);
	if (r < 0) {
		libs_free(s.libs, s.cnt);
		return r == -ESRCH ? target__no_such(t->pid, err) : err_set(err, r, "out of memory");
	}
	target__mark_exe(t, s.libs, s.cnt);
	libs_free(t->libs, t->libs_cnt);
	t->libs = s.libs;
	t->libs_cnt = s.cnt;
	t->unseen = s.unseen + (len >= MAPS_BYTES_MAX);
	return r;
}

size_t target__unseen(const struct target *t)
{
	return t->unseen;
}

size_t target__libs(const struct target *t, const struct lib **ret)
{
	*ret = t->libs;
	return t->libs_cnt;
}

/* --- opening them ---------------------------------------------------------------------------------- */

struct lib_range {
	const struct lib *lib;
	uint64_t start, end;
};

static int find_range(void *ctx, const struct maps_line *m)
{
	struct lib_range *f = ctx;

	if (m->ino != f->lib->ino || m->dev != f->lib->dev)
		return 0;
	f->start = m->start;
	f->end = m->end;
	return 1;
}

/* A present mapping of the file: the known one may have been split or merged since. */
static int target__range_now(const struct target *t, const struct lib *l, struct lib_range *ret)
{
	char *text;
	size_t len;
	int r = target__read_file(t, DOOR_MAPS, MAPS_BYTES_MAX, &text, &len);

	if (r < 0)
		return r;
	ret->lib = l;
	r = maps_each(text, len, find_range, ret, NULL);
	free(text);
	return r ? 0 : -ENOENT;
}

int target__open_lib(const struct target *t, const struct lib *lib, struct err *err)
{
	struct lib_range at = { lib, lib->exec_start, lib->exec_end };
	struct door_lib l = { lib->dev, lib->ino, at.start, at.end, lib->path };
	int r = door_lib(t->pid, &l);

	if (r < 0 && !target__range_now(t, lib, &at)) {
		l.start = at.start;
		l.end = at.end;
		r = door_lib(t->pid, &l);
	}
	if (r >= 0)
		return r;
	if (!target__alive(t))
		return target__no_such(t->pid, err);
	err_set(err, r, "opening %s as process %d has it mapped: %s", lib->path, (int)t->pid,
		r == -ESTALE	  ? "another file has its name now" :
		r == -EWOULDBLOCK ? "its owner has a lease on it, and would have to be waited for" :
				    strerror(-r));
	if (r == -EPERM || r == -EACCES)
		err_hint(err, "run memtrace as root (sudo): replaced and deleted files can be reached only "
			      "through map_files");
	return r;
}

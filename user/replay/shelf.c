/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "replay/shelf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* Takes path. */
static int add(struct shelf *s, char *path, const struct stat *st)
{
	struct shelf_row *rows = path && s->cnt < SHELF_MAX ? reallocarray(s->rows, s->cnt + 1, sizeof(*rows)) : NULL;

	if (!rows) {
		s->is_cut |= s->cnt == SHELF_MAX;
		free(path);
		return s->is_cut ? 0 : -ENOMEM;
	}
	s->rows = rows;
	s->rows[s->cnt++] = (struct shelf_row){ path, (uint64_t)st->st_size, (int64_t)(time(NULL) - st->st_mtime) };
	return 0;
}

static int is_recording(const char *name)
{
	size_t len = strlen(name);

	return len > 4 && name[0] != '.' && !strcmp(name + len - 4, ".mtr");
}

/* A link leads out of the directory that was named: not one of its files. */
static int add_dir(struct shelf *s, const char *path)
{
	DIR *dir = opendir(path);
	size_t len = strlen(path);
	int r = 0;

	for (struct dirent *e; dir && !r && !s->is_cut && (e = readdir(dir));) {
		struct stat st;
		char *full;

		if (!is_recording(e->d_name) || fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		r = asprintf(&full, "%s%s%s", path, len && path[len - 1] == '/' ? "" : "/", e->d_name) < 0 ? -ENOMEM
													   : add(s, full, &st);
	}
	if (dir)
		(void)closedir(dir);
	return r;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct shelf_row *)a)->path, ((const struct shelf_row *)b)->path);
}

int shelf__fill(struct shelf *s, const char *const *paths, size_t cnt)
{
	int r = 0;

	*s = (struct shelf){ .cnt = 0 };
	for (size_t i = 0; i < cnt && !r; i++) {
		struct stat st;

		if (stat(paths[i], &st) < 0)
			continue;
		r = S_ISDIR(st.st_mode) ? add_dir(s, paths[i]) : add(s, strdup(paths[i]), &st);
	}
	if (s->cnt)
		qsort(s->rows, s->cnt, sizeof(*s->rows), by_path);
	return r;
}

void shelf__done(struct shelf *s)
{
	for (size_t i = 0; i < s->cnt; i++)
		free(s->rows[i].path);
	free(s->rows);
	*s = (struct shelf){ .cnt = 0 };
}

const char *shelf__find(const struct shelf *s, const char *name)
{
	const char *found = NULL;

	if (!name)
		return s->cnt == 1 ? s->rows[0].path : NULL;
	for (size_t i = 0; i < s->cnt; i++)
		if (!strcmp(s->rows[i].path, name))
			return s->rows[i].path;
	for (size_t i = 0; i < s->cnt; i++) {
		const char *slash = strrchr(s->rows[i].path, '/');

		if (!slash || strcmp(slash + 1, name))
			continue;
		if (found)
			return NULL;
		found = s->rows[i].path;
	}
	return found;
}

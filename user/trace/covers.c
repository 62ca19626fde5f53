/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "trace/covers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "trace/closer.h"
#include "trace/link.h"

#define SITE_NS 3000 /* closing one, at a place without a breakpoint: measured */

struct probe_place {
	uint64_t offset, ref;
	size_t at; /* in the order of the plan */
};

static int place_cmp(const void *pa, const void *pb)
{
	const struct probe_place *a = pa, *b = pb;

	return cmp_up(a->offset, b->offset) ?: cmp_up(a->at, b->at);
}

int covers__has(const struct covers *c, int file_fd, uint64_t offset)
{
	for (size_t i = 0; i < c->cnt; i++)
		if (c->v[i].file_fd == file_fd &&
		    bsearch(&offset, c->v[i].offsets, c->v[i].cnt, sizeof(offset), u64_cmp))
			return 1;
	return 0;
}

/* Ascending, each once: of two that differ in their counter the kernel takes the first. */
static size_t places_sort(struct probe_place *v, size_t cnt)
{
	size_t kept = 0;

	qsort(v, cnt, sizeof(*v), place_cmp);
	for (size_t i = 0; i < cnt; i++)
		if (!kept || v[i].offset != v[kept - 1].offset)
			v[kept++] = v[i];
	return kept;
}

static int covers__link(struct covers *c, int prog_fd, int file_fd, const char *path, const struct probe_place *v, size_t cnt)
{
	uint64_t *offsets = malloc(2 * cnt * sizeof(*offsets));
	int fd;

	if (!offsets || !array_has_room(c->v, c->cnt, c->cap, 16)) {
		free(offsets);
		return -ENOMEM;
	}
	for (size_t i = 0; i < cnt; i++) {
		offsets[i] = v[i].offset;
		offsets[cnt + i] = v[i].ref;
	}
	fd = link_uprobe_multi(prog_fd, path, offsets, offsets + cnt, NULL, cnt, 0, getpid());
	if (fd < 0)
		free(offsets);
	else
		c->v[c->cnt++] = (struct cover){ file_fd, fd, offsets, cnt };
	return fd < 0 ? fd : 0;
}

int covers__add(struct covers *c, int prog_fd, int file_fd, const char *path, const uint64_t *offsets, const uint64_t *refs,
		size_t cnt)
{
	struct probe_place *v = malloc((cnt + 1) * sizeof(*v));
	size_t n = 0;
	int r = 0;

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < cnt; i++)
		if (!covers__has(c, file_fd, offsets[i]))
			v[n++] = (struct probe_place){ offsets[i], refs ? refs[i] : 0, i };
	n = places_sort(v, n);
	if (n)
		r = covers__link(c, prog_fd, file_fd, path, v, n);
	free(v);
	return r;
}

void covers__forget(struct covers *c, int file_fd)
{
	for (size_t i = 0; i < c->cnt; i++)
		if (c->v[i].file_fd == file_fd)
			c->v[i].file_fd = -1;
}

void covers__drop_forgotten(struct covers *c, struct closer *closer)
{
	struct closing *fds = malloc((c->cnt + 1) * sizeof(*fds));
	size_t kept = 0, cnt = 0;

	for (size_t i = 0; i < c->cnt; i++) {
		if (c->v[i].file_fd >= 0) {
			c->v[kept++] = c->v[i];
			continue;
		}
		if (fds)
			fds[cnt++] = (struct closing){ c->v[i].link_fd, c->v[i].cnt * SITE_NS };
		else
			close(c->v[i].link_fd);
		free(c->v[i].offsets);
	}
	c->cnt = kept;
	if (cnt)
		closer__add(closer, fds, cnt, CLOSER_THREADS);
	free(fds);
}

void covers__done(struct covers *c)
{
	struct closer *closer = closer__new();

	for (size_t i = 0; i < c->cnt; i++)
		c->v[i].file_fd = -1;
	covers__drop_forgotten(c, closer);
	closer__free(closer);
	free(c->v);
	*c = (struct covers){ 0 };
}

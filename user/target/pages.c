/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Why not PAGEMAP_SCAN (kernel 6.7), which skips empty pages: it has no category for pages that no other process maps, so the
 * entries would have to be read anyway. Reading empty pages takes 1 ms of CPU a GiB, present ones 10 ms and more, which is
 * about as much as smaps_rollup takes.
 */
#include "target/pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/door.h"
#include "target/proc_text.h"
#include "target/target.h"

#define TEXT_BYTES 16384 /* of maps: 400 lines at most, since none is shorter than 41 bytes */

struct pages_walk {
	const struct target *t;
	int maps_fd;
	int is_long; /* in the middle of a line that is too long for the text; its mapping is known */
	int is_read; /* all of maps */
	uint64_t space, own;
	struct iovec ranges[DOOR_PAGE_RANGES_MAX];
	size_t ranges_cnt;
	size_t text_len;
	char text[TEXT_BYTES];
};

int pages_walk__new(struct pages_walk **ret, const struct target *t)
{
	struct pages_walk *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->t = t;
	w->maps_fd = door_file(target__pid(t), DOOR_MAPS);
	if (w->maps_fd < 0) {
		int r = w->maps_fd == -ENOENT ? -ESRCH : w->maps_fd;

		free(w);
		return r;
	}
	*ret = w;
	return 0;
}

void pages_walk__free(struct pages_walk *w)
{
	if (!w)
		return;
	close(w->maps_fd);
	free(w);
}

static int is_hugetlb(const struct maps_line *m)
{
	static const char name[] = "/anon_hugepage";

	return m->path_len == sizeof(name) - 1 && !memcmp(m->path, name, m->path_len);
}

static int add_range(void *ctx, const struct maps_line *m)
{
	struct pages_walk *w = ctx;
	struct iovec *last = w->ranges_cnt ? &w->ranges[w->ranges_cnt - 1] : NULL;

	if (m->is_closed || m->end > INT64_MAX || is_hugetlb(m))
		return 0;
	w->space += m->end - m->start;
	if (w->space > PAGES_SPACE_MAX)
		return -EFBIG;
	if (last && (uintptr_t)last->iov_base + last->iov_len == m->start)
		last->iov_len += m->end - m->start;
	else if (w->ranges_cnt < DOOR_PAGE_RANGES_MAX)
		w->ranges[w->ranges_cnt++] = (struct iovec){ (void *)(uintptr_t)m->start, m->end - m->start };
	else
		return -EPROTO;
	return 0;
}

/* A line that fills the text: its mapping counts, the rest of its name does not. */
static int begin_long(struct pages_walk *w)
{
	struct maps_line m;

	w->is_long = 1;
	return maps_line_parse(w->text, TEXT_BYTES, &m) ? 0 : add_range(w, &m);
}

/* Takes whole lines; what follows the last of them stays. */
static int take_lines(struct pages_walk *w)
{
	char *nl = memrchr(w->text, '\n', w->text_len);
	const char *from = w->text;
	size_t rest;
	int r = 0;

	if (!nl) {
		if (w->text_len == TEXT_BYTES) {
			r = w->is_long ? 0 : begin_long(w);
			w->text_len = 0;
		}
		return r;
	}
	if (w->is_long)
		from = (const char *)memchr(w->text, '\n', w->text_len) + 1;
	w->is_long = 0;
	rest = w->text_len - (size_t)(nl + 1 - w->text);
	r = maps_each(from, (size_t)(nl + 1 - from), add_range, w, NULL);
	memmove(w->text, nl + 1, rest);
	w->text_len = rest;
	return r;
}

static int read_ranges(struct pages_walk *w)
{
	ssize_t n = read(w->maps_fd, w->text + w->text_len, TEXT_BYTES - w->text_len);

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	w->is_read = !n;
	w->text_len += (size_t)n;
	return take_lines(w);
}

/* As many ranges as one look may have; the last of them in part. */
static int look(struct pages_walk *w)
{
	uint64_t room = DOOR_PAGES_BYTES_MAX, own = 0, cut = 0;
	size_t cnt = 0;
	int r;

	while (cnt < w->ranges_cnt && w->ranges[cnt].iov_len <= room)
		room -= w->ranges[cnt++].iov_len;
	if (cnt < w->ranges_cnt && room) {
		cut = w->ranges[cnt].iov_len;
		w->ranges[cnt++].iov_len = room;
	}
	r = door_pages(target__pid(w->t), w->ranges, cnt, &own);
	if (r < 0)
		return r;
	w->own += own;
	if (cut) {
		struct iovec *last = &w->ranges[--cnt];

		*last = (struct iovec){ (char *)last->iov_base + room, cut - room };
	}
	w->ranges_cnt -= cnt;
	memmove(w->ranges, w->ranges + cnt, w->ranges_cnt * sizeof(w->ranges[0]));
	return 0;
}

int pages_walk__go(struct pages_walk *w, uint64_t until_ns, uint64_t *ret_own)
{
	int r = 0;

	do {
		if (!w->ranges_cnt && w->is_read) {
			if (!target__alive(w->t) || target__has_execed(w->t))
				return -ESRCH;
			*ret_own = w->own;
			return 1;
		}
		r = w->ranges_cnt ? look(w) : read_ranges(w);
	} while (!r && now_ns() < until_ns);
	return r;
}

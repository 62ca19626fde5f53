/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/fold/line_sort.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "base/heap.h"
#include "base/spool.h"

#define GIVE_BACK (1u << 20) /* of a run that was read, at a time: a multiple of any page */

/* The head of a line, in memory and in the file. Its key's text follows, then the line, then zeros up to 8 bytes. */
struct line_head {
	uint64_t num, seq; /* equal keys: as they came */
	uint32_t text_len, line_len;
	uint8_t place;
};

/* A part of the file, sorted. */
struct sorted_run {
	uint64_t at, end;
};

struct line_sort {
	struct outbuf *o;
	FILE *was, *lines; /* where it wrote, and writes */
	char *line;	   /* lines' bytes, as of its last flush */
	size_t line_len;
	char *buf; /* rows */
	size_t len, cap, max;
	size_t *rows; /* where they begin in buf */
	size_t rows_cnt, rows_cap;
	uint64_t seq;
	int fd; /* -1: all is in memory */
	uint64_t file_bytes;
	struct sorted_run *runs; /* in the end a heap: the run with the next row is the first */
	size_t runs_cnt, runs_cap;
	char *map;
};

struct line_sort *line_sort__new(struct outbuf *o, size_t bytes)
{
	struct line_sort *s = calloc(1, sizeof(*s));

	if (!s || outbuf__flush(o)) {
		free(s);
		return NULL;
	}
	s->lines = open_memstream(&s->line, &s->line_len);
	if (!s->lines) {
		free(s);
		return NULL;
	}
	s->o = o;
	s->was = o->f;
	o->f = s->lines;
	s->max = bytes ? bytes : LINE_SORT_BYTES;
	s->fd = -1;
	return s;
}

void line_sort__free(struct line_sort *s)
{
	if (!s)
		return;
	s->o->f = s->was;
	fclose(s->lines);
	free(s->line);
	if (s->map)
		munmap(s->map, s->file_bytes);
	if (s->fd >= 0)
		close(s->fd);
	free(s->runs);
	free(s->rows);
	free(s->buf);
	free(s);
}

static size_t size_of(const struct line_head *r)
{
	return (sizeof(*r) + r->text_len + r->line_len + 7) & ~(size_t)7;
}

static int compare(const struct line_head *a, const struct line_head *b)
{
	size_t least = a->text_len < b->text_len ? a->text_len : b->text_len;

	return cmp_up(a->place, b->place) ?: cmp_down(a->num, b->num) ?: (least ? memcmp(a + 1, b + 1, least) : 0) ?:
	       cmp_up(a->text_len, b->text_len) ?: cmp_up(a->seq, b->seq);
}

static int compare_at(const void *a, const void *b, void *buf)
{
	return compare((const struct line_head *)((char *)buf + *(const size_t *)a),
		       (const struct line_head *)((char *)buf + *(const size_t *)b));
}

static int write_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Writes the lines in memory as a run of the file. */
static int spill(struct line_sort *s)
{
	size_t filled = 0;
	char chunk[1 << 16];
	int r = 0;

	if (!array_has_room(s->runs, s->runs_cnt, s->runs_cap, 16))
		return -ENOMEM;
	if (s->fd < 0)
		s->fd = spool_open();
	if (s->fd < 0)
		return s->fd;
	qsort_r(s->rows, s->rows_cnt, sizeof(*s->rows), compare_at, s->buf);
	for (size_t i = 0; i < s->rows_cnt && !r; i++) {
		const char *row = s->buf + s->rows[i];
		size_t len = size_of((const struct line_head *)row);

		if (filled + len > sizeof(chunk)) {
			r = write_all(s->fd, chunk, filled);
			filled = 0;
		}
		if (len > sizeof(chunk)) {
			r = r ? r : write_all(s->fd, row, len);
			continue;
		}
		memcpy(chunk + filled, row, len);
		filled += len;
	}
	r = r ? r : write_all(s->fd, chunk, filled);
	s->runs[s->runs_cnt++] = (struct sorted_run){ .at = s->file_bytes, .end = s->file_bytes + s->len };
	s->file_bytes += s->len;
	s->len = s->rows_cnt = 0;
	return r;
}

static int add(struct line_sort *s, const struct line_key *key, const char *line, size_t len)
{
	struct line_head row = { .num = key->num, .seq = s->seq++, .text_len = (uint32_t)key->len, .line_len = (uint32_t)len,
				 .place = key->place };
	size_t size = size_of(&row);
	char *to;
	int r = s->rows_cnt && s->len + size > s->max ? spill(s) : 0;

	if (r)
		return r;
	if (!array_has_room_for(s->buf, s->len, size, s->cap, 1u << 16) ||
	    !array_has_room(s->rows, s->rows_cnt, s->rows_cap, 1024))
		return -ENOMEM;
	to = s->buf + s->len;
	memset(to + size - 8, 0, 8);
	memcpy(to, &row, sizeof(row));
	memcpy(to + sizeof(row), key->text, key->len);
	memcpy(to + sizeof(row) + key->len, line, len);
	s->rows[s->rows_cnt++] = s->len;
	s->len += size;
	return 0;
}

int line_sort__put(struct line_sort *s, const struct line_key *key)
{
	struct line_key by = *key;
	int r = outbuf__flush(s->o);

	if (r || !s->line_len)
		return r;
	if (s->line_len > INT32_MAX)
		return -EOVERFLOW;
	if (by.text == LINE_ITSELF) {
		by.text = s->line;
		by.len = s->line_len;
	}
	r = add(s, &by, s->line, s->line_len);
	rewind(s->lines);
	return r;
}

static void put(struct outbuf *out, const struct line_head *r)
{
	outbuf__put(out, (const char *)(r + 1) + r->text_len, r->line_len);
}

/* --- runs, side by side --------------------------------------------------------------------------------------- */

static const struct line_head *next_of(const struct sorted_run *run, const char *map)
{
	return (const struct line_head *)(map + run->at);
}

static int goes_first(const struct sorted_run *a, const struct sorted_run *b, const char *map)
{
	return compare(next_of(a, map), next_of(b, map)) < 0;
}

/* Gives pages that were read back to the kernel: of each run only the next ones stay. */
static void give_back(struct line_sort *s, uint64_t from, uint64_t to)
{
	if (from / GIVE_BACK != to / GIVE_BACK && to / GIVE_BACK)
		(void)madvise(s->map + (to / GIVE_BACK - 1) * GIVE_BACK, GIVE_BACK, MADV_DONTNEED);
}

static int merge(struct line_sort *s, struct outbuf *out)
{
	s->map = mmap(NULL, s->file_bytes, PROT_READ, MAP_SHARED, s->fd, 0);
	if (s->map == MAP_FAILED) {
		s->map = NULL;
		return -errno;
	}
	heap_make(s->runs, s->runs_cnt, goes_first, s->map);
	while (s->runs_cnt && !out->err) {
		struct sorted_run *run = &s->runs[0];
		uint64_t was = run->at;

		put(out, next_of(run, s->map));
		run->at += size_of(next_of(run, s->map));
		give_back(s, was, run->at);
		if (run->at == run->end)
			*run = s->runs[--s->runs_cnt];
		heap_down(s->runs, s->runs_cnt, 0, goes_first, s->map);
	}
	return out->err;
}

int line_sort__end(struct line_sort *s)
{
	struct outbuf *o = s->o;
	int r;

	o->f = s->was;
	if (s->fd >= 0) {
		r = s->rows_cnt ? spill(s) : 0;
		return r ? r : merge(s, o);
	}
	if (s->rows_cnt)
		qsort_r(s->rows, s->rows_cnt, sizeof(*s->rows), compare_at, s->buf);
	for (size_t i = 0; i < s->rows_cnt && !o->err; i++)
		put(o, (const struct line_head *)(s->buf + s->rows[i]));
	return o->err;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Any bytes as what lies in perf's rings of two CPUs, wherever a record begins: reading ends, comes in order of time from one
 * ring, and texts end within their record.
 */
#include "../../user/target/sideband.c"

#define PAGE 4096u
#define TURNS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	size_t cnt;
	uint64_t stop_at;
};

static void require(int ok)
{
	if (!ok)
		abort();
}

static int on_record(void *ctx, const struct sb_record *rec)
{
	struct seen *s = ctx;

	require(rec->kind >= SB_MMAP && rec->kind <= SB_LOST && rec->text);
	require(strlen(rec->text) < RECORD_BYTES_MAX);
	require(rec->kind != SB_MMAP || rec->ino);
	return ++s->cnt == s->stop_at ? -ECANCELED : 0;
}

/* A page of head and tail, and one or four of data. */
static void make_ring(struct cpu_ring *c, const uint8_t *data, size_t size, uint32_t pages, uint64_t at)
{
	uint8_t *map = calloc(1 + pages, PAGE);
	size_t len = size < pages * PAGE ? size : pages * PAGE;

	require(!!map);
	*c = (struct cpu_ring){ .fd = -1, .page = (void *)map, .data = map + PAGE, .mask = pages * PAGE - 1 };
	for (size_t i = 0; i < len; i++)
		map[PAGE + ((at + i) & c->mask)] = data[i];
	c->page->data_tail = at;
	c->page->data_head = at + len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sideband *s = calloc(1, sizeof(*s));
	struct cpu_ring rings[2];
	struct seen seen = { 0 };
	size_t half;
	int r;

	require(!!s);
	if (size < 8) {
		free(s);
		return 0;
	}
	half = 4 + (size - 4) * data[0] / 256;
	seen.stop_at = data[1];
	make_ring(&rings[0], data + 4, half - 4, 1, (uint64_t)data[2] << 4);
	make_ring(&rings[1], data + half, size - half, 4, UINT64_MAX - data[3] * 64); /* counts wrap around */
	s->cpus = rings;
	s->cpus_cnt = 2;
	for (int i = 0; i < TURNS_MAX; i++) {
		r = sideband__drain(s, on_record, &seen);
		require(r >= 0 || r == -ECANCELED);
		if (!r)
			break;
	}
	for (size_t i = 0; i < 2; i++) {
		/* nothing is read that is not there */
		require((int64_t)(rings[i].page->data_head - rings[i].page->data_tail) >= 0);
		free(rings[i].page);
	}
	free(s);
	return 0;
}

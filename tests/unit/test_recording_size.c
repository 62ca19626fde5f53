/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* A small file may not take much memory: what was read of it is in proportion to its bytes. */
#include "unit/recording_help.h"

#include <zstd.h>

#include "fuzz/mtr_fix.h"

static uint8_t *file;
static size_t file_len;

static void load(void)
{
	FILE *f = fopen(path, "rb");
	struct stat st;

	assert_non_null(f);
	assert_int_equal(fstat(fileno(f), &st), 0);
	file_len = (size_t)st.st_size;
	file = malloc(file_len);
	assert_int_equal(fread(file, 1, file_len, f), file_len);
	fclose(f);
}

/* All columns compressed as far as they can be, as who forges a file would. */
static void squeeze(void)
{
	uint8_t *from = file + sizeof(struct mtr_file), *to = from, *end = file + file_len;
	static uint8_t body[MTR_FRAME_RAW_MAX + 4096];

	while (from < end) {
		struct mtr_frame h;
		struct mtr_column cols[MTR_COLUMNS];
		const uint8_t *at = from + sizeof(h) + sizeof(cols);
		size_t len = sizeof(cols);

		memcpy(&h, from, sizeof(h));
		memcpy(cols, from + sizeof(h), sizeof(cols));
		from += sizeof(h) + h.body_bytes;
		for (int c = 0; c < MTR_COLUMNS; c++) {
			uint32_t raw = cols[c].raw_bytes, stored = cols[c].stored_bytes;
			size_t n = raw;

			if (raw > 100 && stored == raw)
				n = ZSTD_compress(body + len, sizeof(body) - len, at, raw, 19);
			if (n < raw)
				cols[c].stored_bytes = (uint32_t)n;
			else
				memcpy(body + len, at, stored);
			at += stored;
			len += cols[c].stored_bytes;
		}
		memcpy(body, cols, sizeof(cols));
		h.body_bytes = (uint32_t)len;
		memcpy(to, &h, sizeof(h));
		memcpy(to + sizeof(h), body, len);
		to += sizeof(h) + len;
	}
	file_len = (size_t)(to - file);
	mtr_fix_checksums(file, file_len);
}

/* What a reader takes of it: bytes of names, and events. */
static void read_all(uint64_t *ret_names, uint64_t *ret_events, int *ret_is_whole)
{
	struct rec_reader *r;
	const struct event *ev;
	struct err err = { 0 };
	uint64_t left;
	size_t cnt;

	assert_int_equal(rec_reader__open_mem(&r, file, file_len, &err), 0);
	*ret_names = *ret_events = 0;
	while (rec_reader__next(r, &ev, &cnt, &err) > 0)
		*ret_events += cnt;
	for (uint32_t id = 1; id <= names__last(rec_reader__names(r)); id++)
		*ret_names += names__len(rec_reader__names(r), (name_id){ id });
	*ret_is_whole = !rec_reader__truncated(r, &left);
	rec_reader__free(r);
	free(file);
	file = NULL;
}

/* 4 KiB each, of which four bytes tell them apart. */
static void write_names(unsigned cnt)
{
	struct names *names = names__new();
	struct rec_writer *w = open_writer(names);
	char text[NAME_BYTES_MAX];
	struct err err = { 0 };

	memset(text, 'x', sizeof(text));
	for (unsigned i = 0; i < cnt; i++) {
		struct event ev = { .ts_ns = i + 1, .pid = 7, .kind = EV_COMM };

		text[snprintf(text, sizeof(text), "%08x", i)] = 'x';
		ev.name = names__add_len(names, text, sizeof(text));
		assert_int_equal(rec_writer__add(w, &ev, &err), 0);
	}
	assert_int_equal(rec_writer__close(w, &err), 0);
	names__free(names);
	load();
}

/* Blocks one behind the other, one each nanosecond. */
static void write_allocs(unsigned cnt)
{
	struct names *names = names__new();
	struct rec_writer *w = open_writer(names);
	struct err err = { 0 };

	for (unsigned i = 0; i < cnt; i++)
		assert_int_equal(rec_writer__add(w, &(struct event){ .ts_ns = i + 1, .pid = 7, .tid = 7, .kind = MT_EV_ALLOC,
								     .addr = 4096ull * (i + 1), .size = 64 }, &err), 0);
	assert_int_equal(rec_writer__close(w, &err), 0);
	names__free(names);
	load();
}

static void test_names_of_a_small_file(void **state)
{
	uint64_t names, events;
	size_t len;
	int is_whole;

	(void)state;
	write_names(20000); /* what a writer made is read, however alike names are */
	read_all(&names, &events, &is_whole);
	assert_true(is_whole && events == 20000 && names == 20000ull * NAME_BYTES_MAX);
	write_names(20000);
	squeeze();
	len = file_len;
	assert_in_range(len, 1, 200000);
	read_all(&names, &events, &is_whole);
	assert_false(is_whole);
	assert_in_range(names, 1, MTR_DENSE_NAMES_MAX + MTR_NAMES_RATIO_MAX * len);
}

static void test_events_of_a_small_file(void **state)
{
	uint64_t names, events;
	size_t len;
	int is_whole;

	(void)state;
	write_allocs(2000000);
	assert_in_range(file_len, 2000000 / MTR_EVENTS_RATIO_MAX, 3000000);
	read_all(&names, &events, &is_whole);
	assert_true(is_whole && events == 2000000);
	write_allocs(2000000);
	squeeze();
	len = file_len;
	assert_in_range(len, 1, 20000);
	read_all(&names, &events, &is_whole);
	assert_false(is_whole);
	assert_in_range(events, 1, MTR_DENSE_EVENTS_MAX + MTR_EVENTS_RATIO_MAX * len);
}

/* Two frames that say that a million names are missing between them. */
static void test_names_that_are_missing(void **state)
{
	struct mtr_frame h;
	uint64_t names, events;
	int is_whole;
	uint8_t *second;

	(void)state;
	write_allocs(FRAME + 1);
	memcpy(&h, file + sizeof(struct mtr_file), sizeof(h));
	second = file + sizeof(struct mtr_file) + sizeof(h) + h.body_bytes;
	memcpy(&h, second, sizeof(h));
	h.frame_no += 1;
	h.name_first = NAMES_MAX - 10;
	memcpy(second, &h, sizeof(h));
	mtr_fix_checksums(file, file_len);
	read_all(&names, &events, &is_whole);
	assert_false(is_whole);
	assert_int_equal(events, FRAME);
	assert_in_range(names, 0, MTR_DENSE_NAMES_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_of_a_small_file),
		cmocka_unit_test(test_events_of_a_small_file),
		cmocka_unit_test(test_names_that_are_missing),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}

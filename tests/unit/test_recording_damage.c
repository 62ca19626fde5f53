/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Recordings that are cut, damaged or forged: no harm, and what is good before it is read. */
#include <errno.h>

#include "fuzz/mtr_fix.h"
#include "unit/recording_help.h"

/* Where frame `no` begins; SMALL_FRAMES is the end mark, one more the end of the file. */
static size_t frame_off(const uint8_t *data, int no)
{
	size_t off = sizeof(struct mtr_file);
	struct mtr_frame h;

	for (; no > 0; no--) {
		memcpy(&h, data + off, sizeof(h));
		off += sizeof(h) + h.body_bytes;
	}
	return off;
}

static void test_cut_at_every_byte(void **state)
{
	size_t len, done;
	uint8_t *data = small_file(&len);

	(void)state;
	assert_int_equal(frame_off(data, SMALL_FRAMES + 1), len);
	for (size_t cut = 0; cut <= len; cut++) {
		uint8_t *copy = malloc(cut ? cut : 1); /* its end is guarded */
		struct rec_reader *r = NULL;
		struct err err = { 0 };
		size_t whole = 0, from_file;
		uint64_t left = 0;
		int res;

		memcpy(copy, data, cut);
		while (whole < SMALL_FRAMES && frame_off(data, (int)whole + 1) <= cut)
			whole++;
		res = rec_reader__open_mem(&r, copy, cut, &err);
		if (!whole) {
			assert_int_equal(res, -ENODATA);
			assert_true(err.msg[0] && err.hint[0]);
			free(copy);
			continue;
		}
		assert_int_equal(res, 0);
		done = read_back(r, small_evs, SMALL);
		assert_int_equal(done, whole * SMALL / SMALL_FRAMES);
		assert_int_equal(rec_reader__truncated(r, &left), cut != len);
		from_file = cut == len ? len : frame_off(data, (int)whole);
		assert_int_equal(left, cut - from_file);
		rec_reader__free(r);
		free(copy);
	}
	free(data);
}

/* The frame at `from`, of `bytes`, cannot be read: the others can, and what is missing is counted. */
static void check_one_missing(struct rec_reader *r, size_t len, size_t frame, size_t from, size_t bytes)
{
	int is_data = frame < SMALL_FRAMES;
	struct rec_damage damage;
	uint64_t left;

	assert_int_equal(read_back(r, small_evs, SMALL), SMALL - is_data * SMALL / SMALL_FRAMES);
	rec_reader__damage(r, &damage);
	assert_int_equal(damage.places, is_data);
	assert_int_equal(damage.events, is_data * SMALL / SMALL_FRAMES);
	assert_int_equal(damage.bytes, is_data ? bytes : 0);
	assert_int_equal(rec_reader__truncated(r, &left), !is_data);
	assert_int_equal(left, is_data ? 0 : len - from);
}

static void test_every_bit_flipped(void **state)
{
	size_t len;
	uint8_t *data = small_file(&len);

	(void)state;
	for (size_t bit = 0; bit < len * 8; bit++) {
		struct rec_reader *r = NULL;
		struct err err = { 0 };
		size_t frame = 0, from, bytes;
		int res;

		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		res = rec_reader__open_mem(&r, data, len, &err);
		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		while (bit / 8 >= frame_off(data, (int)frame + 1))
			frame++;
		if (frame == 0) {
			assert_true(res == -EINVAL || res == -ENOTSUP || res == -ENODATA);
			assert_true(err.msg[0] && err.hint[0]);
			continue;
		}
		assert_int_equal(res, 0);
		from = frame_off(data, (int)frame);
		bytes = frame_off(data, (int)frame + 1) - from;
		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		check_one_missing(r, len, frame, from, bytes);
		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		rec_reader__free(r);
	}
	free(data);
}

/* Whatever is forged: no crash (sanitizers watch), and the promises of the reader hold. */
static void check_promises(uint8_t *data, size_t len)
{
	struct rec_reader *r = NULL;
	const struct event *evs;
	uint64_t last_ns = 0, left;
	struct rec_damage damage;
	size_t cnt;

	mtr_fix_checksums(data, len);
	if (rec_reader__open_mem(&r, data, len, NULL) < 0)
		return;
	while (rec_reader__next(r, &evs, &cnt, NULL) == 1) {
		for (size_t i = 0; i < cnt; i++) {
			assert_true(evs[i].ts_ns >= last_ns);
			assert_true(evs[i].name.v <= names__last(rec_reader__names(r)));
			last_ns = evs[i].ts_ns;
		}
	}
	(void)rec_reader__truncated(r, &left);
	rec_reader__damage(r, &damage);
	assert_true(left <= len && damage.bytes <= len - left);
	rec_reader__free(r);
}

static void test_forged_with_right_checksums(void **state)
{
	size_t len;
	uint8_t *data = small_file(&len), *copy = malloc(len);

	(void)state;
	for (size_t bit = 0; bit < len * 8; bit++) {
		memcpy(copy, data, len);
		copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
		check_promises(copy, len);
	}
	rng = 9;
	for (int round = 0; round < 20000; round++) {
		memcpy(copy, data, len);
		for (uint64_t n = 1 + below(4); n; n--) {
			uint64_t v = number();
			size_t at = below(len - 8);

			memcpy(copy + at, &v, 1u << below(4));
		}
		check_promises(copy, len);
	}
	free(copy);
	free(data);
}

static void forge_head(uint8_t *data, size_t len, size_t field, uint32_t v)
{
	uint8_t *copy = malloc(len);
	struct rec_reader *r = NULL;
	struct err err = { 0 };

	memcpy(copy, data, len);
	memcpy(copy + sizeof(struct mtr_file) + field, &v, sizeof(v));
	mtr_fix_checksums(copy, len);
	if (rec_reader__open_mem(&r, copy, len, &err) == 0)
		assert_int_equal(read_back(r, small_evs, SMALL), 0);
	rec_reader__free(r);
	free(copy);
}

static void test_forged_counts(void **state)
{
	static const uint32_t bad[] = { 0, 1, 29, 31, 65535, 65536, 65537, 1u << 20, 1u << 31,
					UINT32_MAX };
	size_t len;
	uint8_t *data = small_file(&len);

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		forge_head(data, len, offsetof(struct mtr_frame, events), bad[i]);
		forge_head(data, len, offsetof(struct mtr_frame, body_bytes), bad[i]);
		if (bad[i])
			forge_head(data, len, offsetof(struct mtr_frame, frame_no), bad[i]);
		if (bad[i] != 1)
			forge_head(data, len, offsetof(struct mtr_frame, name_first), bad[i]);
		forge_head(data, len, offsetof(struct mtr_frame, names), bad[i]);
		for (size_t col = 0; col < MTR_COLUMNS; col++) {
			size_t at = sizeof(struct mtr_frame) + col * sizeof(struct mtr_column);
			uint32_t raw;

			memcpy(&raw, data + sizeof(struct mtr_file) + at, sizeof(raw));
			if (raw != bad[i])
				forge_head(data, len, at, bad[i]);
		}
	}
	free(data);
}

static void test_frames_missing_or_moved(void **state)
{
	size_t len, one, two, three;
	uint8_t *data = small_file(&len), *copy = malloc(2 * len + 1000);
	struct rec_reader *r = NULL;
	struct rec_damage damage;
	uint64_t left;

	(void)state;
	one = frame_off(data, 1);
	two = frame_off(data, 2);
	three = frame_off(data, 3);
	/* The middle one cut out. */
	memcpy(copy, data, one);
	memcpy(copy + one, data + two, len - two);
	assert_int_equal(rec_reader__open_mem(&r, copy, len - (two - one), NULL), 0);
	assert_int_equal(read_back(r, small_evs, SMALL), 60);
	rec_reader__damage(r, &damage);
	assert_true(damage.places == 1 && !damage.bytes && damage.events == 30);
	assert_int_equal(rec_reader__truncated(r, &left), 0);
	rec_reader__free(r);
	/* The last two in turn: the later one is read, the earlier one then is none that may come. */
	memcpy(copy, data, two);
	memcpy(copy + two, data + three, len - three);
	memcpy(copy + two + (len - three), data + two, three - two);
	assert_int_equal(rec_reader__open_mem(&r, copy, len, NULL), 0);
	assert_int_equal(read_back(r, small_evs, SMALL), 60);
	rec_reader__damage(r, &damage);
	assert_int_equal(damage.events, 30);
	assert_int_equal(rec_reader__truncated(r, &left), 1);
	assert_int_equal(left, three - two);
	rec_reader__free(r);
	/* Something that is none of ours between two frames: nothing is missing, but it is told. */
	memcpy(copy, data, two);
	memset(copy + two, 'M', 1000);
	memcpy(copy + two + 1000, data + two, len - two);
	assert_int_equal(rec_reader__open_mem(&r, copy, len + 1000, NULL), 0);
	assert_int_equal(read_back(r, small_evs, SMALL), SMALL);
	rec_reader__damage(r, &damage);
	assert_true(damage.places == 1 && damage.bytes == 1000 && !damage.events);
	assert_int_equal(rec_reader__truncated(r, &left), 0);
	rec_reader__free(r);
	/* No end mark, though every frame is whole: the recorder was killed. */
	assert_int_equal(rec_reader__open_mem(&r, data, three, NULL), 0);
	assert_int_equal(read_back(r, small_evs, SMALL), SMALL);
	assert_int_equal(rec_reader__truncated(r, &left), 1);
	assert_int_equal(left, 0);
	rec_reader__free(r);
	/* Two recordings in one file: the first is read, the rest is named. */
	memcpy(copy, data, len);
	memcpy(copy + len, data, len);
	assert_int_equal(rec_reader__open_mem(&r, copy, 2 * len, NULL), 0);
	assert_int_equal(read_back(r, small_evs, SMALL), SMALL);
	assert_int_equal(rec_reader__truncated(r, &left), 1);
	assert_int_equal(left, len);
	rec_reader__free(r);
	free(copy);
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut_at_every_byte),
		cmocka_unit_test(test_every_bit_flipped),
		cmocka_unit_test(test_forged_with_right_checksums),
		cmocka_unit_test(test_forged_counts),
		cmocka_unit_test(test_frames_missing_or_moved),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}

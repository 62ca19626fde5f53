/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* torch.compile's list of compilations, in a made-up CPython (python_image.h), whole and torn. A real one:
 * tests/e2e/test_recompiles.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "python/compiles.h"
#include "unit/python_image.h"

#define BEGIN_US 1795493282294591ull
#define FIELDS_MAX 10

static struct image im;
static struct py p;
static struct py_compiles_seen seen;
static struct py_compiles got;
static uint64_t deque, deque_type, int_type, float_type, record_type, none;

static uint64_t number(uint64_t v)
{
	uint64_t at = image_obj(&im, int_type, 40), cnt = !v ? 0 : v >> 60 ? 3 : v >> 30 ? 2 : 1;

	poke(&im, at + 16, im.at->minor >= 12 ? cnt << 3 | !cnt : cnt);
	poke(&im, at + 24, (v & 0x3fffffff) | (v >> 30 & 0x3fffffff) << 32);
	poke(&im, at + 32, v >> 60);
	return at;
}

/* A record is a dict of ten names at most, more than python_image.h makes. */
static uint64_t big_dict(unsigned cnt, const uint64_t *keys, const uint64_t *values)
{
	unsigned old = im.at->keys_are_old, size = old ? 24 : 16, head = old ? 56 : 48;
	uint64_t at = image_take(&im, head + FIELDS_MAX * size), dict = image_obj(&im, im.dict, 48);

	if (old) {
		poke(&im, at + 8, 16);
		poke(&im, at + 24, FIELDS_MAX - cnt);
		poke(&im, at + 32, cnt);
	} else {
		poke(&im, at + 8, 4 | 4 << 8 | 1 << 16);
		poke(&im, at + 16, FIELDS_MAX - cnt);
		poke(&im, at + 24, cnt);
	}
	for (unsigned i = 0; i < cnt; i++) {
		poke(&im, at + head + i * size + size - 16, keys[i]);
		poke(&im, at + head + i * size + size - 8, values[i]);
	}
	poke(&im, dict + 16, cnt);
	poke(&im, dict + 32, at);
	return dict;
}

struct said {
	const char *id, *name, *file, *reason, *failed;
	uint64_t begin_us, took_us;
	int has_end, is_backward;
};

static uint64_t str_or_none(const char *text)
{
	return text ? image_str(&im, text) : none;
}

static uint64_t record(const struct said *s)
{
	uint64_t at = image_instance(&im, record_type, 0, 0, NULL, NULL);
	uint64_t keys[FIELDS_MAX] = { image_str(&im, "compile_id"), image_str(&im, "co_name"), image_str(&im, "co_filename"),
				      image_str(&im, "co_firstlineno"), image_str(&im, "is_forward"),
				      image_str(&im, "recompile_reason"), image_str(&im, "fail_reason"),
				      image_str(&im, "start_time_us"),
				      image_str(&im, s->has_end ? "end_time_us" : "duration_us") };
	uint64_t values[FIELDS_MAX] = { str_or_none(s->id), str_or_none(s->name), str_or_none(s->file),
					s->file ? number(6) : none, s->is_backward ? number(0) : none, str_or_none(s->reason),
					str_or_none(s->failed), number(s->begin_us),
					number(s->has_end ? s->begin_us + s->took_us : s->took_us) };
	uint64_t dict = big_dict(9, keys, values);

	poke(&im, im.at->dict_place == PY_DICT_BY_OFFSET ? at + 16 : at - 24, dict);
	return at;
}

static uint64_t real(double v)
{
	uint64_t at = image_obj(&im, float_type, 24), word;

	memcpy(&word, &v, sizeof(word));
	poke(&im, at + 16, word);
	return at;
}

/* As torch 2.4 and 2.5 have them. took_s < 0: None. */
static uint64_t old_record(const char *id, const char *failed, double begin_s, double took_s, double wasted_s)
{
	uint64_t at = image_instance(&im, record_type, 0, 0, NULL, NULL);
	uint64_t keys[] = { image_str(&im, "compile_id"), image_str(&im, "co_name"), image_str(&im, "co_filename"),
			    image_str(&im, "co_firstlineno"), image_str(&im, "fail_reason"), image_str(&im, "start_time"),
			    image_str(&im, "entire_frame_compile_time_s"), image_str(&im, "dynamo_time_before_restart_s") };
	uint64_t values[] = { image_str(&im, id), image_str(&im, "forward"), image_str(&im, "/home/me/train.py"), number(6),
			      str_or_none(failed), real(begin_s), took_s < 0 ? none : real(took_s), real(wasted_s) };
	uint64_t dict = big_dict(8, keys, values);

	poke(&im, im.at->dict_place == PY_DICT_BY_OFFSET ? at + 16 : at - 24, dict);
	return at;
}

static const struct said forward = { .id = "0/1", .name = "forward", .file = "/home/me/train.py", .begin_us = BEGIN_US,
				     .took_us = 168656, .has_end = 1,
				     .reason = "0/0: tensor 'x' size mismatch at index 0. expected 8, actual 9\n0/1: other" };
static const struct said backward = { .id = "0/1", .begin_us = BEGIN_US + 200000, .took_us = 2065, .has_end = 1,
				      .is_backward = 1 };
static const struct said gave_up = { .id = "0/4", .begin_us = BEGIN_US + 300000, .took_us = 11400, .reason = "0/3: other",
				     .failed = "Dynamo recompile limit exceeded\n  Explanation: long" };

/* One block; the first item at index 3. changes: how often something was added. */
static void fill(uint64_t cnt, const uint64_t *items, uint64_t changes)
{
	uint64_t block = peek(&im, deque + 24);

	poke(&im, deque + 16, cnt);
	poke(&im, deque + 40, 3);
	poke(&im, deque + 56, changes);
	for (uint64_t i = 0; i < cnt && i < 61; i++)
		poke(&im, block + 8 * (4 + i), items[i]);
}

static void put_in_dynamo(void)
{
	uint64_t modules = im.interp + im.at->interp_modules, old = peek(&im, peek(&im, modules) + 32), keys[4], values[4];
	unsigned size = im.at->keys_are_old ? 24 : 16, head = im.at->keys_are_old ? 48 : 40;

	for (unsigned i = 0; i < 3; i++) {
		keys[i] = peek(&im, old + head + i * size + size - 16);
		values[i] = peek(&im, old + head + i * size + size - 8);
	}
	keys[3] = image_str(&im, "torch._dynamo.utils");
	values[3] = image_module(&im, "_compilation_metrics", deque);
	poke(&im, modules, image_dict(&im, 1, 4, keys, values));
}

static void begin(unsigned minor)
{
	image__init(&im, minor, 0);
	im.len = im.used;
	int_type = image_type(&im, "int", 0, PY_IS_INT);
	float_type = image_type(&im, "float", 0, 0);
	record_type = image_type(&im, "torch._dynamo.utils.CompilationMetrics", 0, 0);
	deque_type = image_type(&im, "collections.deque", 0, 0);
	none = image_obj(&im, image_type(&im, "NoneType", 0, 0), 16);
	deque = image_obj(&im, deque_type, 80);
	poke(&im, deque + 24, image_take(&im, 66 * 8));
	put_in_dynamo();
	seen = (struct py_compiles_seen){ 0 };
}

static void end(void)
{
	im.used = im.len;
	im.len = IMAGE_BYTES;
	assert_int_equal(py__init(&p, &(struct py_mem){ image_read, &im }, im.at->minor), 0);
	p.interp = im.interp;
}

static int look(void)
{
	return py_compiles__look(&p, deque, &seen, &got);
}

static int teardown(void **state)
{
	(void)state;
	py__done(&p);
	return 0;
}

static void expect_forward(const struct py_compile *c)
{
	assert_string_equal(c->id, "0/1");
	assert_string_equal(c->function, "forward (train.py:6)");
	assert_string_equal(c->reason, "tensor 'x' size mismatch at index 0. expected 8, actual 9");
	assert_string_equal(c->failed, "");
	assert_int_equal(c->begin_ns, BEGIN_US * 1000);
	assert_int_equal(c->end_ns, (BEGIN_US + 168656) * 1000);
	assert_int_equal(c->is_backward, 0);
}

static void test_records(void **state)
{
	(void)state;
	for (unsigned minor = 10; minor <= 13; minor++) {
		uint64_t items[3];

		begin(minor);
		items[0] = record(&forward);
		items[1] = record(&backward);
		items[2] = record(&gave_up);
		fill(2, items, 2);
		end();
		assert_int_equal(py_compiles__find(&p), deque);
		assert_int_equal(look(), 0);
		assert_int_equal(got.cnt, 2);
		assert_int_equal(got.missed, 0);
		expect_forward(&got.v[0]);
		assert_string_equal(got.v[1].id, "0/1");
		assert_string_equal(got.v[1].function, "");
		assert_string_equal(got.v[1].reason, "");
		assert_int_equal(got.v[1].is_backward, 1);
		assert_int_equal(look(), 0); /* nothing new */
		assert_int_equal(got.cnt, 0);
		fill(3, items, 3);
		assert_int_equal(look(), 0);
		assert_int_equal(got.cnt, 1);
		assert_string_equal(got.v[0].failed, "Dynamo recompile limit exceeded");
		assert_string_equal(got.v[0].reason, "other");
		assert_int_equal(got.v[0].end_ns - got.v[0].begin_ns, 11400 * 1000);
		py__done(&p);
	}
}

/* Until torch 2.5: floats of seconds; what failed has another one; a backward has none and is not missed. */
static void test_older_records(void **state)
{
	(void)state;
	for (unsigned minor = 10; minor <= 13; minor++) {
		uint64_t items[6], keys[2], values[2];

		begin(minor);
		items[0] = old_record("0/0", NULL, BEGIN_US / 1e6, 0.25, 0.125);
		items[1] = old_record("0/1", "AssertionError", BEGIN_US / 1e6 + 1, -1, 0.5);
		keys[0] = image_str(&im, "compile_id");
		keys[1] = image_str(&im, "inductor_compile_time_s");
		values[0] = image_str(&im, "0/0");
		values[1] = real(0.5);
		items[2] = image_instance(&im, image_type(&im, "torch._dynamo.utils.BwdCompilationMetrics", 0, 0), 0, 2, keys,
					  values);
		items[3] = old_record("0/2", NULL, -1, 1, 0);
		items[4] = old_record("0/3", NULL, 0.0 / 0.0, 1, 0);
		items[5] = old_record("0/4", NULL, 1e300, 1, 0);
		fill(6, items, 6);
		end();
		assert_int_equal(look(), 0);
		assert_int_equal(got.cnt, 2);
		assert_int_equal(got.missed, 3);
		assert_string_equal(got.v[0].function, "forward (train.py:6)");
		assert_in_range(got.v[0].begin_ns, (BEGIN_US - 1) * 1000, (BEGIN_US + 1) * 1000);
		assert_int_equal(got.v[0].end_ns - got.v[0].begin_ns, 250000000);
		assert_string_equal(got.v[0].reason, "");
		assert_string_equal(got.v[1].failed, "AssertionError");
		assert_int_equal(got.v[1].end_ns - got.v[1].begin_ns, 500000000);
		py__done(&p);
	}
}

/* The list is full: it has those that came last, and the count says how many came in between. */
static void test_missed(void **state)
{
	uint64_t items[60];

	(void)state;
	begin(11);
	items[0] = record(&forward);
	for (unsigned i = 1; i < 60; i++)
		items[i] = items[0];
	fill(60, items, 75);
	end();
	assert_int_equal(look(), 0);
	assert_int_equal(got.cnt, 60);
	assert_int_equal(got.missed, 15); /* before the first look */
	fill(60, items, 75 + 100);
	assert_int_equal(look(), 0);
	assert_int_equal(got.cnt, 60);
	assert_int_equal(got.missed, 40);
	fill(60, items, 75 + 100 + 7);
	assert_int_equal(look(), 0);
	assert_int_equal(got.cnt, 7);
	assert_int_equal(got.missed, 0);
	fill(2, items, 75 + 100 + 7 + 3); /* cleared, and two since */
	assert_int_equal(look(), 0);
	assert_int_equal(got.cnt, 2);
	assert_int_equal(got.missed, 0);
	items[1] = none;
	fill(2, items, 75 + 100 + 7 + 4); /* no record */
	assert_int_equal(look(), 0);
	assert_int_equal(got.cnt, 0);
	assert_int_equal(got.missed, 1);
}

/* set_compilation_metrics_limit() makes another list of the old one's records. */
static void test_another_list(void **state)
{
	uint64_t items[2], old;

	(void)state;
	begin(12);
	items[0] = record(&forward);
	items[1] = record(&backward);
	fill(1, items, 1);
	old = deque;
	deque = image_obj(&im, deque_type, 80);
	poke(&im, deque + 24, image_take(&im, 66 * 8));
	fill(2, items, 2);
	end();
	seen = (struct py_compiles_seen){ 0 };
	assert_int_equal(py_compiles__look(&p, old, &seen, &got), 0);
	assert_int_equal(got.cnt, 1);
	assert_int_equal(look(), 0);
	assert_int_equal(got.cnt, 1);
	assert_int_equal(got.v[0].is_backward, 1);
}

static void test_numbers(void **state)
{
	static const uint64_t values[] = { 0, 1, 0x3fffffff, 0x40000000, BEGIN_US, (1ull << 63) - 1 };

	(void)state;
	for (unsigned minor = 10; minor <= 13; minor++) {
		uint64_t at[6], v, minus;

		begin(minor);
		for (unsigned i = 0; i < 6; i++)
			at[i] = number(values[i]);
		minus = number(5);
		poke(&im, minus + 16, minor >= 12 ? 1 << 3 | 2 : UINT64_MAX);
		end();
		for (unsigned i = 0; i < 6; i++) {
			assert_int_equal(py__number(&p, at[i], &v), 0);
			assert_int_equal(v, values[i]);
		}
		assert_int_equal(py__number(&p, minus, &v), -EAGAIN);
		assert_int_equal(py__number(&p, none, &v), -EAGAIN);
		py__done(&p);
	}
}

static void test_first_line(void **state)
{
	char text[PY_TEXT_MAX], made[600];
	uint64_t at[6];

	(void)state;
	begin(13);
	memset(made, 'x', sizeof(made) - 1);
	made[sizeof(made) - 1] = '\0';
	at[0] = image_str(&im, made);
	at[1] = image_str(&im, "one\ntwo");
	at[2] = image_str(&im, "a\tb\x1b[31m");
	at[3] = image_str(&im, "\nsecond");
	at[4] = image_str(&im, "GLOBAL_STATE changed: grad_mode \t\nsecond"); /* as torch writes it */
	at[5] = image_str(&im, " \nsecond");
	end();
	assert_int_equal(py__first_line(&p, at[0], text), 0);
	assert_in_range(strlen(text), PY_TEXT_MAX - 8, PY_TEXT_MAX - 1);
	assert_string_equal(text + strlen(text) - 3, "\xe2\x80\xa6");
	assert_int_equal(py__first_line(&p, at[1], text), 0);
	assert_string_equal(text, "one");
	assert_int_equal(py__first_line(&p, at[2], text), 0);
	assert_string_equal(text, "a b [31m");
	assert_int_equal(py__first_line(&p, at[3], text), -EAGAIN);
	assert_int_equal(py__first_line(&p, at[4], text), 0);
	assert_string_equal(text, "GLOBAL_STATE changed: grad_mode");
	assert_int_equal(py__first_line(&p, at[5], text), -EAGAIN);
	assert_int_equal(py__first_line(&p, none, text), -EAGAIN);
}

/* Through a reader: a look at all finds the list; without torch._dynamo nothing is read. */
static void test_reader(void **state)
{
	struct py_reader *reader;
	struct py_look all;
	uint64_t item;

	(void)state;
	begin(11);
	item = record(&forward);
	fill(1, &item, 1);
	end();
	assert_int_equal(image_reader(&im, &reader), 0);
	assert_int_equal(py_reader__has_compiles(reader), 0);
	assert_int_equal(py_reader__compiles(reader, &seen, &got), 0);
	assert_int_equal(got.cnt, 0);
	assert_int_equal(py_reader__look(reader, PY_LOOK_ALL, &all), 0);
	assert_int_equal(py_reader__has_compiles(reader), 1);
	assert_int_equal(py_reader__compiles(reader, &seen, &got), 0);
	assert_int_equal(got.cnt, 1);
	expect_forward(&got.v[0]);
	py_reader__free(reader);
	image__init(&im, 11, 0);
	assert_int_equal(image_reader(&im, &reader), 0);
	assert_int_equal(py_reader__look(reader, PY_LOOK_ALL, &all), 0);
	assert_int_equal(py_reader__has_compiles(reader), 0);
	py_reader__free(reader);
}

/* Every word of it made another one, in turn: it ends, and what is told is within bounds. */
static void test_every_word_torn(void **state)
{
	static const uint64_t others[] = { 0, UINT64_MAX, IMAGE_BASE, 0x100010 };

	(void)state;
	for (unsigned minor = 10; minor <= 13; minor++) {
		uint64_t items[3];

		begin(minor);
		items[0] = record(&forward);
		items[1] = record(&backward);
		items[2] = record(&gave_up);
		fill(3, items, 3);
		end();
		for (uint64_t at = IMAGE_BASE + 16; at < IMAGE_BASE + im.used; at += 8) {
			uint64_t was = peek(&im, at);

			for (unsigned i = 0; i < 4 && was; i++) {
				poke(&im, at, others[i]);
				seen = (struct py_compiles_seen){ 0 };
				(void)look();
				assert_true(got.cnt <= 3);
				for (size_t k = 0; k < got.cnt; k++)
					assert_true(got.v[k].id[0] && got.v[k].begin_ns <= got.v[k].end_ns);
			}
			poke(&im, at, was);
		}
		for (im.fail_every = 2; im.fail_every < 40; im.fail_every++)
			(void)look();
		py__done(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_records, teardown),
		cmocka_unit_test_teardown(test_older_records, teardown),
		cmocka_unit_test_teardown(test_missed, teardown),
		cmocka_unit_test_teardown(test_another_list, teardown),
		cmocka_unit_test_teardown(test_numbers, teardown),
		cmocka_unit_test_teardown(test_first_line, teardown),
		cmocka_unit_test_teardown(test_reader, teardown),
		cmocka_unit_test_teardown(test_every_word_torn, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

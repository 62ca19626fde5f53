/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Any bytes as the memory of a process with a Python in it. The first byte says which version, whether reads fail
 * now and then, and whether the memory changes between looks; the rest lies at IMAGE_BASE. Seeds are whole
 * interpreters (unit/python_image.h). Nothing breaks, no look goes on for ever, what is told is within bounds, and the same
 * as a reader tells that walks at every look.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "python/compiles.h"
#include "python/gc.h"
#include "python/reader.h"
#include "unit/python_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
	if (!ok)
		abort();
}

static void check_look(const struct py_reader *r, const struct py_look *look)
{
	for (size_t i = 0; i < look->reported_cnt; i++) {
		const struct py_reported *t = &look->reported[i];
		char type[PY_TYPE_TEXT_MAX];

		py_storage__type_text(&t->name->at, type);
		require(strlen(type) < sizeof(type) && t->root[0]);
		require(strlen(py_reader__text(r, t->name->path)) < WALK_PATH_MAX + PY_TEXT_MAX);
		require(strlen(py_reader__text(r, t->name->key)) < PY_TEXT_MAX + 24);
		require(t->name->kind >= EV_TENSOR_PARAMETER && t->name->kind <= EV_TENSOR_STATE);
		require(t->name->at.data && t->name->at.bytes && t->name->at.dev != MT_DEV_NONE);
	}
}

static void check_compiles(const struct py_compiles *c)
{
	require(c->cnt <= PY_COMPILES_MAX);
	for (size_t i = 0; i < c->cnt; i++)
		require(c->v[i].id[0] && strlen(c->v[i].id) < PY_COMPILE_ID_MAX && strlen(c->v[i].function) < PY_TEXT_MAX &&
			strlen(c->v[i].reason) < PY_TEXT_MAX && strlen(c->v[i].failed) < PY_TEXT_MAX &&
			c->v[i].begin_ns <= c->v[i].end_ns);
}

static void compare(const struct py_look *a, const struct py_look *b)
{
	require(a->reported_cnt == b->reported_cnt && a->reported_modules_cnt == b->reported_modules_cnt);
	require(a->held_back == b->held_back && a->changed == b->changed && a->torn == b->torn && a->full == b->full);
	for (size_t i = 0; i < a->reported_cnt; i++)
		require(a->reported[i].hash == b->reported[i].hash && !strcmp(a->reported[i].root, b->reported[i].root));
	for (size_t i = 0; i < a->reported_modules_cnt; i++)
		require(a->reported_modules[i].hash == b->reported_modules[i].hash);
}

/* One word becomes another one of those that are there, where the input says. */
static void change_word(struct image *im, const uint8_t *data, size_t size, unsigned turn)
{
	uint64_t words = im->len / 8, at = 0, from = 0;

	if (!words || size < 8)
		return;
	memcpy(&at, data + size - 4 - turn % 2, 3);
	memcpy(&from, data + size - 8 + turn % 2, 3);
	memcpy(im->bytes + at % words * 8, im->bytes + from % words * 8, 8);
}

static int count_item(void *ctx, uint64_t key, uint64_t value)
{
	(void)key;
	(void)value;
	return ++*(unsigned *)ctx > 1000;
}

/* The parts that a torn start would not let us reach. */
static void read_parts(struct image *im, unsigned minor)
{
	struct py p;
	struct gc_found found;
	unsigned items = 0;
	char text[PY_TEXT_MAX];
	struct py_compiles compiles;

	require(!py__init(&p, &(struct py_mem){ image_read, im }, minor));
	p.interp = IMAGE_BASE;
	for (uint64_t at = IMAGE_BASE; at < IMAGE_BASE + im->len && at < IMAGE_BASE + 4096; at += 8) {
		struct py_compiles_seen seen = { 0 };
		uint64_t number;

		if (!py_compiles__look(&p, at, &seen, &compiles))
			check_compiles(&compiles);
		if (!py__first_line(&p, at, text))
			require(text[0] && strlen(text) < PY_TEXT_MAX);
		if (!py__number(&p, at, &number))
			require(number < 1ull << 63);
		(void)py__each_item(&p, at, count_item, &items);
		(void)py__each_attr(&p, at, count_item, &items);
		if (!py__text(&p, at, text))
			require(strlen(text) < PY_TEXT_MAX);
		p.bases[WALK_MODULE] = at;
	}
	(void)gc__find(&p, 1, &found);
	free(found.objs);
	py__done(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct image *im = calloc(1, sizeof(*im));
	unsigned how = size ? data[0] : 0, minor = 10 + how % 4;
	struct py_reader *r = NULL, *walking = NULL;
	struct py_reader_opts opts;
	struct py_look look, walked;
	struct py_compiles_seen seen = { 0 };
	struct py_compiles compiles;

	require(im != NULL);
	im->at = py_object_offsets(minor);
	im->len = size ? size - 1 : 0;
	if (im->len > IMAGE_BYTES)
		im->len = IMAGE_BYTES;
	if (im->len)
		memcpy(im->bytes, data + 1, im->len);
	im->len = (im->len + 16383) & ~16383ul; /* pieces are read whole */
	im->fail_every = how & 4 ? 7 : 0;
	require(!image_reader(im, &r));
	opts = image_opts(im);
	opts.walks_always = 1;
	require(!py_reader__new(&walking, &opts, NULL));
	for (unsigned i = 0; i < 5; i++) {
		enum py_look_kind kind = i == 2 ? PY_LOOK_ALL : PY_LOOK_KNOWN;
		int e = py_reader__look(r, kind, &look);

		if (!e)
			check_look(r, &look);
		if (!py_reader__compiles(r, &seen, &compiles))
			check_compiles(&compiles);
		if (!im->fail_every) { /* whose reads fail at other times for each */
			require(py_reader__look(walking, kind, &walked) == e);
			if (!e)
				compare(&look, &walked);
		}
		if (how & 32)
			change_word(im, data, size, i);
		if (how & 8 && im->len > 64) /* another memory at the next look */
			memmove(im->bytes + 32, im->bytes + 40, im->len - 40);
	}
	if (how & 16)
		read_parts(im, minor);
	py_reader__free(r);
	py_reader__free(walking);
	free(im);
	return 0;
}

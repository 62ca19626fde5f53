/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Names from a made-up CPython (python_image.h), whole and torn. Real ones: tests/e2e/test_names.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "python/gc.h"
#include "unit/python_image.h"

static struct image im;
static struct py_reader *reader;
static struct py_look look;

static void begin(unsigned minor, int inline_values)
{
	image__init(&im, minor, inline_values);
	assert_int_equal(image_reader(&im, &reader), 0);
}

static int teardown(void **state)
{
	(void)state;
	py_reader__free(reader);
	reader = NULL;
	return 0;
}

static int look_again(enum py_look_kind kind)
{
	return py_reader__look(reader, kind, &look);
}

static const struct py_reported *reported_at(uint64_t data)
{
	for (size_t i = 0; i < look.reported_cnt; i++)
		if (look.reported[i].name->at.data == data)
			return &look.reported[i];
	return NULL;
}

static void expect(uint64_t data, enum ev_tensor kind, const char *root, const char *path, const char *key, const char *type)
{
	const struct py_reported *t = reported_at(data);
	char text[PY_TYPE_TEXT_MAX];

	assert_non_null(t);
	assert_int_equal(t->name->kind, kind);
	assert_string_equal(t->root, root);
	assert_string_equal(py_reader__text(reader, t->name->path), path);
	assert_string_equal(py_reader__text(reader, t->name->key), key);
	py_storage__type_text(&t->name->at, text);
	assert_string_equal(text, type);
}

static void expect_all(void)
{
	assert_int_equal(look.reported_cnt, 4);
	expect(0xa000, EV_TENSOR_PARAMETER, "Net", "inner.weight", "", "float32[8,4]");
	expect(0xb000, EV_TENSOR_GRADIENT, "Net", "inner.weight", "", "float32[8,4]");
	expect(0xc000, EV_TENSOR_BUFFER, "Net", "inner.scale", "", "float32[1,4]");
	expect(0xd000, EV_TENSOR_STATE, "SGD", "inner.weight", "momentum_buffer", "float32[8,4]");
	assert_int_equal(look.torn, 0);
	assert_int_equal(look.modules, 2);
	assert_int_equal(look.roots, 1);
	assert_int_equal(look.optimizers, 1);
}

static void test_whole(void **state)
{
	(void)state;
	for (unsigned minor = 10; minor <= 13; minor++)
		for (int inline_values = 0; inline_values < 2; inline_values++) {
			begin(minor, inline_values);
			assert_int_equal(look_again(PY_LOOK_KNOWN), 0); /* the first is of all, and two */
			expect_all();
			assert_int_equal(look.objects, 3);
			assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
			expect_all();
			assert_int_equal(look_again(PY_LOOK_ALL), 0);
			expect_all();
			teardown(NULL);
		}
}

static void test_unknown_version(void **state)
{
	(void)state;
	image__init(&im, 11, 0);
	assert_int_equal(py_reader__new(&reader, &(struct py_reader_opts){ .mem = { image_read, &im }, .minor = 14 }, NULL),
			 -ENOTSUP);
	reader = NULL;
}

static void test_not_imported_and_not_there(void **state)
{
	(void)state;
	begin(11, 0);
	poke(&im, im.interp + im.at->interp_modules, 0);
	assert_int_equal(look_again(PY_LOOK_KNOWN), -ENOENT);
	poke(&im, IMAGE_BASE, 0x7fff00001000); /* nothing is there */
	assert_int_equal(look_again(PY_LOOK_KNOWN), -ENOENT);
	poke(&im, IMAGE_BASE, 3);
	assert_int_equal(look_again(PY_LOOK_KNOWN), -EAGAIN);
}

/* The newest interpreter is the first of the list; torch is in the oldest that has it. */
static void test_several_interpreters(void **state)
{
	uint64_t newer;

	(void)state;
	for (unsigned minor = 10; minor <= 13; minor++) {
		begin(minor, 0);
		newer = (IMAGE_BASE + im.used + 15) & ~15ull;
		poke(&im, newer + IMAGE_INTERP_NEXT, im.interp);
		poke(&im, IMAGE_BASE, newer); /* without torch, and without any modules */
		assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
		expect_all();
		assert_int_equal(look.others, 0);
		poke(&im, newer + im.at->interp_modules, peek(&im, im.interp + im.at->interp_modules)); /* it has it, too */
		assert_int_equal(look_again(PY_LOOK_ALL), 0);
		expect_all();
		assert_int_equal(look.others, 1);
		poke(&im, im.interp + IMAGE_INTERP_NEXT, newer); /* a circle of them has an end */
		assert_int_equal(look_again(PY_LOOK_ALL), 0);
		poke(&im, IMAGE_BASE, 0);
		assert_int_equal(look_again(PY_LOOK_ALL), -EAGAIN);
		teardown(NULL);
	}
}

/* What is seen for the first time is told by the second look that sees it. */
static void test_new_storage_waits_for_a_second_look(void **state)
{
	uint64_t storage;

	(void)state;
	begin(12, 0);
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	storage = peek(&im, peek(&im, im.weight + 16) + 16);
	poke(&im, storage + 16, 0xe000);
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	assert_null(reported_at(0xa000));
	assert_null(reported_at(0xe000));
	assert_int_equal(look.changed, 1);
	assert_int_equal(look.held_back, 1);
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	expect(0xe000, EV_TENSOR_PARAMETER, "Net", "inner.weight", "", "float32[8,4]");
}

static void test_torn_dict_gives_no_names(void **state)
{
	uint64_t keys;

	(void)state;
	begin(11, 0);
	keys = peek(&im, im.params + 32);
	poke(&im, im.params + 16, 1); /* two entries, and it says one */
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	assert_int_equal(look.torn, 1);
	assert_null(reported_at(0xa000));
	assert_null(reported_at(0xb000));
	poke(&im, im.params + 16, 2);
	poke(&im, keys + 24, 6); /* more than there is room for */
	assert_int_equal(look_again(PY_LOOK_ALL), 0);
	assert_int_equal(look.torn, 1);
	poke(&im, keys + 24, UINT64_MAX);
	assert_int_equal(look_again(PY_LOOK_ALL), 0);
	assert_int_equal(look.torn, 1);
	poke(&im, keys + 24, 2);
	assert_int_equal(look_again(PY_LOOK_ALL), 0);
	assert_int_equal(look_again(PY_LOOK_ALL), 0);
	expect_all();
}

/* With its parent unreadable a layer looks like a root: that is no name. */
static void test_child_of_a_torn_module_is_no_root(void **state)
{
	(void)state;
	begin(11, 0);
	poke(&im, im.modules + 16, 5);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(look_again(PY_LOOK_ALL), 0);
		assert_int_equal(look.torn, 1);
		assert_null(reported_at(0xa000));
		assert_null(reported_at(0xc000));
	}
}

static void test_sizes_that_do_not_multiply(void **state)
{
	(void)state;
	begin(13, 1);
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	poke(&im, peek(&im, im.weight + 16) + 64, 9);
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	assert_null(reported_at(0xa000));
	assert_int_equal(look.torn, 1);
	poke(&im, peek(&im, im.weight + 16) + 64, 1ull << 63);
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	assert_null(reported_at(0xa000));
	poke(&im, peek(&im, im.weight + 16), 0x1234); /* a vtable of nobody */
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	assert_null(reported_at(0xa000));
}

/* A freed object has its old type still, and no references. */
/* A root without tensors gives way to a module around it: the kernel side is told so. */
static void test_root_without_tensors_is_bare(void **state)
{
	uint64_t keys;

	(void)state;
	for (unsigned minor = 10; minor <= 13; minor++) {
		begin(minor, 0);
		keys = peek(&im, im.modules + 32);
		poke(&im, im.modules + 16, 0); /* Net has its Linear no more: two roots, the first of them empty */
		poke(&im, keys + (im.at->keys_are_old ? 32 : 24), 0);
		assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
		assert_int_equal(look.roots, 2);
		assert_int_equal(look.reported_modules_cnt, 2);
		for (size_t i = 0; i < 2; i++)
			assert_int_equal(look.reported_modules[i].at->is_bare, look.reported_modules[i].at->obj == im.model);
		teardown(NULL);
	}
}

/* Two looks that each could not read another module are as good as one that read all. */
static void test_torn_in_turn(void **state)
{
	(void)state;
	begin(12, 0);
	poke(&im, im.params + 16, 1); /* two entries, and it says one */
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	assert_int_equal(look.reported_modules_cnt, 0);
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	assert_int_equal(look.reported_modules_cnt, 0);
	poke(&im, im.params + 16, 2);
	poke(&im, im.modules + 16, 0); /* one entry, and it says none */
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	assert_int_equal(look.torn, 1);
	assert_int_equal(look.reported_modules_cnt, 1); /* its Linear may be a part of it */
	assert_int_equal(look.reported_modules[0].at->obj, im.model);
	assert_null(reported_at(0xa000));
}

/* A key of `cnt` characters of `width` bytes, in the place of the name that the buffer has. */
static void rename_scale(unsigned width, const uint32_t *chars, size_t cnt)
{
	uint64_t at = IMAGE_BASE + im.used, keys = peek(&im, im.buffers + 32); /* what is not used is there */

	poke(&im, at, 1);
	poke(&im, at + 8, im.str);
	poke(&im, at + 16, cnt);
	poke(&im, at + 32, width << 2 | 1u << 5);
	for (size_t i = 0; i < cnt; i++)
		memcpy(im.bytes + (at + im.at->str_other + i * width - IMAGE_BASE), &chars[i], width);
	poke(&im, keys + (im.at->keys_are_old ? 56 : 40), at);
}

static void test_names_in_other_scripts(void **state)
{
	static const struct {
		unsigned width;
		uint32_t chars[3];
		const char *path; /* NULL: cannot be told */
	} cases[] = {
		{ 1, { 0xdf, 'x', 0xe9 }, "inner.\xc3\x9fx\xc3\xa9" },
		{ 2, { 0x5c64, 0x3b1, 'a' }, "inner.\xe5\xb1\xa4\xce\xb1" "a" },
		{ 4, { 0x1f600, 'a', 'b' }, "inner.\xf0\x9f\x98\x80" "ab" },
		{ 2, { 0xd800, 'a', 'b' }, NULL },
		{ 1, { 0x85, 'a', 'b' }, NULL },
		{ 4, { 0x110000, 'a', 'b' }, NULL },
	};

	(void)state;
	for (unsigned minor = 10; minor <= 13; minor++)
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			begin(minor, 0);
			rename_scale(cases[i].width, cases[i].chars, 3);
			assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
			assert_int_equal(look.torn, 0);
			assert_int_equal(look.nameless, cases[i].path ? 0 : 1);
			if (cases[i].path)
				expect(0xc000, EV_TENSOR_BUFFER, "Net", cases[i].path, "", "float32[1,4]");
			else
				assert_null(reported_at(0xc000));
			expect(0xa000, EV_TENSOR_PARAMETER, "Net", "inner.weight", "", "float32[8,4]");
			teardown(NULL);
		}
}

static void test_freed(void **state)
{
	(void)state;
	begin(10, 0);
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	poke(&im, im.model, 0);
	poke(&im, im.layer, 0);
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	assert_int_equal(look.modules, 0);
	assert_null(reported_at(0xc000));
}

static void test_circle_of_modules_has_no_names(void **state)
{
	(void)state;
	begin(11, 0);
	poke(&im, peek(&im, im.modules + 32) + 40 + 16, im.model); /* the model's child is the model */
	assert_int_equal(look_again(PY_LOOK_ALL), 0);
	assert_int_equal(look.circles, 1);
	expect(0xa000, EV_TENSOR_PARAMETER, "Linear", "weight", "", "float32[8,4]"); /* nobody's child now */
}

/* What is behind the place where the lists were changed is missed, but for what was found before. */
static void test_a_search_that_is_cut(void **state)
{
	uint64_t head;

	(void)state;
	begin(12, 0);
	head = im.interp + im.at->interp_gc + 72;
	assert_int_equal(look_again(PY_LOOK_ALL), 0);
	assert_false(look.is_cut);
	expect_all();
	poke(&im, peek(&im, head) & ~3ull, 7); /* the first one leads nowhere */
	assert_int_equal(look_again(PY_LOOK_ALL), 0);
	assert_true(look.is_cut);
	expect_all();
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	assert_false(look.is_cut);
	teardown(NULL);
	assert_int_equal(image_reader(&im, &reader), 0);
	assert_int_equal(look_again(PY_LOOK_ALL), 0);
	assert_true(look.is_cut);
	assert_int_equal(look.optimizers, 0);
}

static void begin_gc(struct py *p, int (*read)(void *ctx, uint64_t addr, void *buf, size_t len))
{
	image__init(&im, 12, 0);
	assert_int_equal(py__init(p, &(struct py_mem){ read, &im }, 12), 0);
	p->interp = im.interp;
	p->bases[WALK_MODULE] = im.base_module;
}

static void test_gc_lists_that_lead_nowhere(void **state)
{
	struct gc_found found;
	struct py p;
	uint64_t head, node;

	(void)state;
	begin_gc(&p, image_read);
	assert_int_equal(gc__find(&p, 1, &found), 0);
	assert_int_equal(found.cnt, 2);
	assert_true(found.is_whole);
	free(found.objs);
	head = im.interp + im.at->interp_gc;
	node = im.layer - 16;
	for (int how = 0; how < 4; how++) {
		const uint64_t ends[] = { node /* a circle */, 0x6000000 /* a fault */, 7, head + 24 /* another head */ };

		poke(&im, im.model - 16, ends[how]);
		py__fresh(&p);
		assert_int_equal(gc__find(&p, 1, &found), 0);
		assert_int_equal(found.cnt, 2);
		assert_false(found.is_whole);
		assert_true(found.nodes < 1000);
		free(found.objs);
	}
	poke(&im, head + 72, 0);
	py__fresh(&p);
	assert_int_equal(gc__find(&p, 1, &found), -EAGAIN);
	py__done(&p);
}

#define YOUNG_LIST 24

static int reads_until_whole;

/* The interpreter frees an object of the youngest list while that is read, as often as is said. */
static int read_while_it_changes(void *ctx, uint64_t addr, void *buf, size_t len)
{
	int r = image_read(ctx, addr, buf, len);

	if (!r && im.layer - 16 - addr < len && !--reads_until_whole)
		poke(&im, im.layer - 16, im.interp + im.at->interp_gc + YOUNG_LIST);
	return r;
}

static void test_a_young_list_is_read_anew(void **state)
{
	const int least[] = { 1, 3, 4 };
	struct gc_found found;
	struct py p;
	uint64_t node, young;

	(void)state;
	begin_gc(&p, read_while_it_changes);
	node = im.layer - 16;
	young = im.interp + im.at->interp_gc + YOUNG_LIST;
	poke(&im, peek(&im, node + 8), peek(&im, node)); /* out of the old list */
	poke(&im, young, node);
	for (unsigned i = 0; i < 3; i++) {
		poke(&im, node, 7); /* leads nowhere */
		reads_until_whole = least[i];
		py__fresh(&p);
		assert_int_equal(gc__find(&p, 1, &found), 0);
		assert_int_equal(found.is_whole, least[i] < 4); /* what the last of four tries read was cut, too */
		assert_true(found.nodes < 20);
		assert_int_equal(found.cnt, 2);
		assert_int_equal(found.objs[0], im.model); /* the older one */
		assert_int_equal(found.objs[1], im.layer);
		free(found.objs);
	}
	py__done(&p);
}

static void test_pieces_with_holes(void **state)
{
	struct py_snap *s;
	uint64_t v;

	(void)state;
	image__init(&im, 12, 0);
	im.len = 0x5000; /* the second piece has one page */
	s = py_snap__new(&(struct py_mem){ image_read, &im });
	assert_int_equal(py_snap__read(s, IMAGE_BASE + 0x4ff8, &v, 8), 0);
	assert_int_equal(py_snap__read(s, IMAGE_BASE + 0x4ffc, &v, 8), -EFAULT);
	assert_int_equal(py_snap__read(s, IMAGE_BASE + 0x3ffc, &v, 8), 0); /* over two pieces */
	assert_int_equal(py_snap__read(s, UINT64_MAX - 3, &v, 8), -EFAULT);
	assert_int_equal(py_snap__read(s, 0, &v, 8), -EFAULT);
	poke(&im, IMAGE_BASE + 0x100, 77);
	assert_int_equal(py_snap__word(s, IMAGE_BASE + 0x100), 0); /* of the same look */
	py_snap__forget(s, IMAGE_BASE + 0x100, 8);
	assert_int_equal(py_snap__word(s, IMAGE_BASE + 0x100), 77);
	poke(&im, IMAGE_BASE + 0x100, 78);
	py_snap__fresh(s);
	assert_int_equal(py_snap__word(s, IMAGE_BASE + 0x100), 78);
	py_snap__free(s);
}

/* Reads that fail at any time: fewer names, never another one. */
static void test_reads_that_fail(void **state)
{
	(void)state;
	begin(11, 1);
	for (unsigned every = 2; every < 60; every++) {
		im.fail_every = every;
		if (look_again(every % 2 ? PY_LOOK_ALL : PY_LOOK_KNOWN))
			continue;
		for (size_t i = 0; i < look.reported_cnt; i++)
			assert_memory_equal(py_reader__text(reader, look.reported[i].name->path), "inner.", 6);
	}
}

/* Every word of it made another one, in turn: nothing breaks, and a storage never has the name of another one. */
static void test_every_word_torn(void **state)
{
	static const uint64_t others[] = { 0, UINT64_MAX, IMAGE_BASE, 0x100010 };

	(void)state;
	begin(12, 0);
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	for (uint64_t at = IMAGE_BASE + 8192; at < IMAGE_BASE + 0x7000; at += 8) {
		uint64_t was = peek(&im, at);

		if (!was)
			continue;
		for (unsigned i = 0; i < 4; i++) {
			poke(&im, at, others[i]);
			if (look_again(PY_LOOK_KNOWN))
				continue;
			for (size_t k = 0; k < look.reported_cnt; k++) {
				uint64_t data = look.reported[k].name->at.data;

				assert_true((data >= 0xa000 && data <= 0xd000) || data == others[i]);
			}
		}
		poke(&im, at, was);
	}
	assert_int_equal(look_again(PY_LOOK_ALL), 0);
	assert_int_equal(look_again(PY_LOOK_ALL), 0);
	expect_all();
}

/* What a look that does not walk tells is what one tells that does: after each change of each word, and when it is undone. */
static void compare_looks(struct py_reader *walking)
{
	struct py_look walked;
	int r = look_again(PY_LOOK_KNOWN);

	assert_int_equal(py_reader__look(walking, PY_LOOK_KNOWN, &walked), r);
	if (r)
		return;
	assert_false(walked.is_same);
	assert_int_equal(look.reported_cnt, walked.reported_cnt);
	assert_int_equal(look.held_back, walked.held_back);
	assert_int_equal(look.changed, walked.changed);
	assert_int_equal(look.torn, walked.torn);
	assert_int_equal(look.reported_modules_cnt, walked.reported_modules_cnt);
	for (size_t i = 0; i < look.reported_cnt; i++) {
		const struct py_reported *a = &look.reported[i], *b = &walked.reported[i];

		assert_true(a->hash == b->hash && a->name->at.data == b->name->at.data && a->name->kind == b->name->kind);
		assert_string_equal(a->root, b->root);
		assert_string_equal(py_reader__text(reader, a->name->path), py_reader__text(walking, b->name->path));
	}
	for (size_t i = 0; i < look.reported_modules_cnt; i++)
		assert_true(look.reported_modules[i].hash == walked.reported_modules[i].hash);
}

static void test_same_as_walking(void **state)
{
	unsigned same = 0, walked = 0;

	(void)state;
	for (unsigned minor = 10; minor <= 13; minor++) {
		struct py_reader_opts opts;
		struct py_reader *walking;

		begin(minor, minor % 2);
		opts = image_opts(&im);
		opts.walks_always = 1;
		assert_int_equal(py_reader__new(&walking, &opts, NULL), 0);
		for (uint64_t at = IMAGE_BASE; at < IMAGE_BASE + im.used; at += 8) {
			uint64_t was = peek(&im, at), others[] = { 0, was + 8, UINT64_MAX, im.model };

			for (unsigned i = 0; was && i < 4; i++) {
				poke(&im, at, others[i]);
				compare_looks(walking);
				same += look.is_same;
				walked += !look.is_same;
				poke(&im, at, was);
				compare_looks(walking);
			}
		}
		py_reader__free(walking);
		teardown(NULL);
	}
	assert_true(same > 100); /* of references, and of what is of no name */
	assert_true(walked > 100);
}

/* What changes all the time in a job that trains is no reason to walk; what a name rests on is. */
static void test_what_is_walked_for(void **state)
{
	uint64_t storage, keys;

	(void)state;
	for (unsigned minor = 10; minor <= 13; minor++) {
		begin(minor, 0);
		assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
		assert_true(look.is_same); /* two in one */
		poke(&im, im.weight, 77);
		poke(&im, im.model, 78);
		assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
		assert_true(look.is_same);
		expect_all();
		storage = peek(&im, peek(&im, im.weight + 16) + 16);
		poke(&im, storage + 16, 0xe000);
		assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
		assert_false(look.is_same);
		assert_null(reported_at(0xe000));
		assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
		assert_true(look.is_same);
		expect(0xe000, EV_TENSOR_PARAMETER, "Net", "inner.weight", "", "float32[8,4]");
		keys = peek(&im, im.params + 32);
		poke(&im, keys + (im.at->keys_are_old ? 32 : 24), 0); /* entries */
		assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
		assert_false(look.is_same);
		assert_null(reported_at(0xe000));
		teardown(NULL);
	}
}

/* --- a heap without end ------------------------------------------------------------------------------------- */

/* Beside the image: a dict of `cnt` parameters with names of `text` bytes, made up as it is read. */
#define CROWD_KEYS 0x1000000000ull
#define CROWD_STRS 0x2000000000ull
#define CROWD_TENSORS 0x3000000000ull
#define CROWD_EACH 512ull
#define CROWD_IMPL 64
#define CROWD_STORAGE 256
#define CROWD_LOG2 20

static struct {
	uint64_t cnt, text;
	int are_one; /* all are the weight */
} crowd;

static uint64_t crowd_keys(uint64_t off)
{
	const uint64_t entries = 32 + (4ull << CROWD_LOG2), i = (off - entries) / 16;

	if (off < entries)
		return off == 8 ? CROWD_LOG2 | (CROWD_LOG2 + 2) << 8 | 1 << 16 : off == 24 ? crowd.cnt : 0;
	if (i >= crowd.cnt)
		return 0;
	if ((off - entries) % 16 == 0)
		return CROWD_STRS + i * CROWD_EACH;
	return crowd.are_one ? im.weight : CROWD_TENSORS + i * CROWD_EACH;
}

static uint64_t crowd_str(uint64_t i, uint64_t off)
{
	uint64_t digits = 0;

	if (off < 40 || off < im.at->str_ascii)
		return off == 0 ? 1 : off == 8 ? im.str : off == 16 ? crowd.text : off == 32 ? 1u << 2 | 1u << 5 | 1u << 6 : 0;
	if (off >= im.at->str_ascii + crowd.text)
		return 0;
	for (unsigned k = 0; k < 8; k++)
		digits |= (uint64_t)('a' + (off == im.at->str_ascii ? i >> 4 * k & 15 : 0)) << 8 * k;
	return digits;
}

static uint64_t crowd_tensor(uint64_t i, uint64_t off)
{
	const uint64_t at = CROWD_TENSORS + i * CROWD_EACH;

	switch (off) {
	case 0: return 1;
	case 8: return im.parameter;
	case 16: return at + CROWD_IMPL;
	case CROWD_IMPL: return IMAGE_IMPL;
	case CROWD_IMPL + 16: return at + CROWD_STORAGE;
	case CROWD_IMPL + 56: return 2; /* dimensions: 4 × 4 floats */
	case CROWD_IMPL + 64: return 4;
	case CROWD_IMPL + 72: return 4;
	case CROWD_IMPL + 152: return 16;
	case CROWD_IMPL + 160: return 6;
	case CROWD_STORAGE: return IMAGE_STORAGE;
	case CROWD_STORAGE + 16: return 0x5000000000 + i * 64;
	case CROWD_STORAGE + 48: return 64;
	default: return 0;
	}
}

static uint64_t crowd_word(uint64_t addr)
{
	if (addr < CROWD_STRS)
		return crowd_keys(addr - CROWD_KEYS);
	if (addr < CROWD_TENSORS)
		return crowd_str((addr - CROWD_STRS) / CROWD_EACH, addr % CROWD_EACH);
	return crowd_tensor((addr - CROWD_TENSORS) / CROWD_EACH, addr % CROWD_EACH);
}

static int crowd_read(void *ctx, uint64_t addr, void *buf, size_t len)
{
	char *to = buf;

	if (addr < CROWD_KEYS)
		return image_read(ctx, addr, buf, len);
	for (uint64_t end = addr + len; addr < end; addr += 8, to += 8) {
		uint64_t v = crowd_word(addr);

		memcpy(to, &v, 8);
	}
	return 0;
}

static void begin_crowd(uint64_t cnt, uint64_t text, int are_one)
{
	struct py_reader_opts opts;

	crowd.cnt = cnt;
	crowd.text = text;
	crowd.are_one = are_one;
	image__init(&im, 12, 0);
	poke(&im, im.params + 16, cnt);
	poke(&im, im.params + 32, CROWD_KEYS);
	opts = image_opts(&im);
	opts.mem.read = crowd_read;
	assert_int_equal(py_reader__new(&reader, &opts, NULL), 0);
}

/* 200 MB of names in a heap that need not be larger than a tensor: what is kept has an end, what is left out is counted. */
static void test_more_than_is_kept(void **state)
{
	(void)state;
	begin_crowd(400000, 248, 1);
	assert_int_equal(look_again(PY_LOOK_ALL), 0);
	assert_true(look.full > 0);
	assert_in_range(look.kept_bytes, WALK_BYTES_MAX / 2, WALK_BYTES_MAX + (64u << 20));
	for (size_t i = 0; i < look.reported_cnt; i++) /* what is told is true */
		assert_string_equal(look.reported[i].root, "Net");
	crowd.cnt = 2; /* it is an honest one from now on */
	poke(&im, im.params + 16, 2);
	assert_int_equal(look_again(PY_LOOK_ALL), 0);
	assert_int_equal(look_again(PY_LOOK_ALL), 0);
	assert_int_equal(look.full, 0);
	assert_non_null(reported_at(0xc000));
	assert_non_null(reported_at(0xd000));
	assert_in_range(look.kept_bytes, 1, 1u << 20);
}

/* All parameters of the largest honest job. */
static void test_many_are_not_cut(void **state)
{
	(void)state;
	begin_crowd(100000, 64, 0);
	assert_int_equal(look_again(PY_LOOK_ALL), 0);
	assert_int_equal(look.full, 0);
	assert_int_equal(look.reported_cnt, 100000 + 4); /* and what the module and the optimizer had before */
	assert_in_range(look.kept_bytes, 100000 * 300, WALK_BYTES_MAX);
}

/* --- tensors that wrap others ------------------------------------------------------------------------------------ */

static struct py_name name_at(uint64_t data)
{
	const struct py_reported *t = reported_at(data);

	assert_non_null(t);
	return *t->name;
}

/* The module's, instead of the one that it has. */
static void put_weight(uint64_t weight)
{
	uint64_t key = image_str(&im, "weight");

	poke(&im, im.params + 32, image_keys(&im, 1, 1, &key, &weight));
	poke(&im, im.params + 16, 1);
}

/* The image's weight (returned) and its gradient become DTensors; its momentum one around a tensor that is waited for. */
static uint64_t wrap(void)
{
	uint64_t dtensor = image_slotted(&im, "DTensor", "_local_tensor");
	uint64_t waiting = image_slotted(&im, "AsyncCollectiveTensor", "elem");
	uint64_t momentum = image_str(&im, "momentum_buffer"), weight, grad, state, group, all;

	weight = image_wrapper(&im, dtensor, image_tensor(&im, im.base_tensor, 0x1a000, 8, 4));
	grad = image_wrapper(&im, dtensor, image_tensor(&im, im.base_tensor, 0x1b000, 8, 4));
	image_grad(&im, weight, grad);
	put_weight(weight);
	state = image_wrapper(&im, dtensor, image_wrapper(&im, waiting, image_tensor(&im, im.base_tensor, 0x1d000, 8, 4)));
	group = image_dict(&im, 1, 1, LIST(image_str(&im, "params")), LIST(image_list(&im, 1, LIST(weight))));
	all = image_dict(&im, 0, 1, LIST(weight), LIST(image_dict(&im, 1, 1, LIST(momentum), LIST(state))));
	image_instance(&im, im.sgd, 0, 2, LIST(image_str(&im, "state"), image_str(&im, "param_groups")),
		       LIST(all, image_list(&im, 1, LIST(group))));
	return weight;
}

static void test_wrappers(void **state)
{
	static const unsigned minors[] = { 10, 11, 12, 13 };

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		begin(minors[i], 0);
		im.len = im.used;
		wrap();
		im.len = IMAGE_BYTES;
		assert_int_equal(look_again(PY_LOOK_ALL), 0);
		assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
		expect(0x1a000, EV_TENSOR_PARAMETER, "Net", "inner.weight", "", "float32[8,4]");
		expect(0x1b000, EV_TENSOR_GRADIENT, "Net", "inner.weight", "", "float32[8,4]");
		expect(0x1d000, EV_TENSOR_STATE, "SGD#2", "inner.weight", "momentum_buffer", "float32[8,4]");
		assert_true(name_at(0x1a000).is_inner && name_at(0x1b000).is_inner && name_at(0x1d000).is_inner);
		assert_true(name_at(0x1a000).at.is_own);
		assert_false(name_at(0x1a000).rests); /* it has a gradient */
		assert_false(name_at(0xc000).is_inner); /* a buffer as ever */
		teardown(NULL);
	}
}

/* fully_shard: a module has its shard in one look, what is gathered from all ranks' shards in the next. */
static void test_wrappers_that_come_and_go(void **state)
{
	uint64_t shard, gathered, other;

	(void)state;
	begin(11, 0);
	im.len = im.used;
	shard = wrap();
	other = image_wrapper(&im, image_slotted(&im, "DTensor", "_local_tensor"),
			      image_tensor(&im, im.base_tensor, 0x2b000, 8, 4));
	gathered = image_tensor(&im, im.base_tensor, 0x2a000, 8, 4);
	im.used = im.len;
	im.len = IMAGE_BYTES;
	assert_int_equal(look_again(PY_LOOK_ALL), 0);
	for (unsigned i = 0; i < 6; i++) {
		expect(0x1a000, EV_TENSOR_PARAMETER, "Net", "inner.weight", "", "float32[8,4]");
		expect(0x1d000, EV_TENSOR_STATE, "SGD#2", "inner.weight", "momentum_buffer", "float32[8,4]");
		im.len = im.used;
		put_weight(i % 3 ? gathered : shard);
		im.used = im.len;
		im.len = IMAGE_BYTES;
		assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	}
	expect(0x2a000, EV_TENSOR_PARAMETER, "Net", "inner.weight", "", "float32[8,4]");
	/* The shard is gone, and the optimizer has another tensor, at the same address. */
	poke(&im, shard + 16, peek(&im, other + 16));
	poke(&im, peek(&im, other + 16) + 48, shard);
	poke(&im, shard + 32, peek(&im, other + 32));
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	expect(0x2b000, EV_TENSOR_PARAMETER, "SGD#2", "param_groups.0.0", "", "float32[8,4]");
}

#define MODULE_KEYS LIST(image_str(&im, "_parameters"), image_str(&im, "_buffers"), image_str(&im, "_modules"))

/* A module with a module in it, called `name`. */
static uint64_t around(const char *name, uint64_t inner)
{
	uint64_t empty = image_dict(&im, 1, 0, NULL, NULL);

	return image_instance(&im, im.net, 0, 3, MODULE_KEYS,
			      LIST(empty, empty, image_dict(&im, 0, 1, LIST(image_str(&im, name)), LIST(inner))));
}

/* A layer whose weight is a DTensor that no optimizer has. */
static uint64_t layer_at(uint64_t data)
{
	uint64_t weight = image_wrapper(&im, image_slotted(&im, "DTensor", "_local_tensor"),
					image_tensor(&im, im.base_tensor, data, 8, 4));
	uint64_t empty = image_dict(&im, 1, 0, NULL, NULL);

	image_grad(&im, weight, im.weight); /* it asks for one */
	return image_instance(&im, im.linear, 0, 3, MODULE_KEYS,
			      LIST(image_dict(&im, 1, 1, LIST(image_str(&im, "weight")), LIST(weight)), empty, empty));
}

/*
 * Averages of weights ask for gradients, but the optimizer has the model's: the same path, alone or below "module.". What has
 * another one may be trained by an optimizer that was not found, or by master copies.
 */
static void test_wrappers_that_rest(void **state)
{
	(void)state;
	begin(11, 0);
	im.len = im.used;
	wrap();
	around("inner", layer_at(0x1e000));
	around("module", around("inner", layer_at(0x1f000)));
	around("outer", layer_at(0x2a000));
	im.len = IMAGE_BYTES;
	assert_int_equal(look_again(PY_LOOK_ALL), 0);
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	assert_true(name_at(0x1e000).is_inner && name_at(0x1e000).rests);
	assert_true(name_at(0x1f000).is_inner && name_at(0x1f000).rests);
	assert_true(name_at(0x2a000).is_inner && !name_at(0x2a000).rests);
	assert_false(name_at(0x1a000).rests); /* the optimizer's own */
}

/* The weight's gradient is sparse. Returns its TensorImpl. */
static uint64_t make_sparse(void)
{
	uint64_t grad = image_sparse(&im, 0x1e000, 0x1f000, 8, 4, 3);

	image_grad(&im, im.weight, grad);
	return peek(&im, grad + 16);
}

static void test_sparse_gradients(void **state)
{
	uint64_t impl, storage;

	(void)state;
	begin(11, 0);
	im.len = im.used;
	impl = make_sparse();
	im.used = im.len;
	im.len = IMAGE_BYTES;
	assert_int_equal(look_again(PY_LOOK_ALL), 0);
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	expect(0x1e000, EV_TENSOR_GRADIENT, "Net", "inner.weight.indices", "", "int64[1,3]");
	expect(0x1f000, EV_TENSOR_GRADIENT, "Net", "inner.weight.values", "", "float32[3,4]");
	assert_null(reported_at(0xb000)); /* the one before it */

	/* indices that are a part of a whole data set */
	storage = peek(&im, peek(&im, impl + 192) + 16);
	poke(&im, storage + 48, 1000 * 8);
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	assert_null(reported_at(0x1e000));
	assert_non_null(reported_at(0x1f000));
	poke(&im, storage + 48, 3 * 8);

	/* parts that do not fit: each word in turn */
	static const uint64_t words[] = { 176, 184, 192, 200 };

	for (unsigned i = 0; i < 4; i++)
		for (unsigned k = 0; k < 4; k++) {
			uint64_t was = peek(&im, impl + words[i]);

			poke(&im, impl + words[i], (const uint64_t[]){ 0, 2, UINT64_MAX, impl }[k]);
			assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
			assert_null(reported_at(0x1e000));
			assert_null(reported_at(0x1f000));
			poke(&im, impl + words[i], was);
		}
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	assert_non_null(reported_at(0x1e000));
}

/* A quantised weight has several parts: which attributes they are is said by nobody, so those that are tensors are. */
static void test_parts_of_a_flat_tensor(void **state)
{
	uint64_t flat, obj, impl, meta, flatten, codes, scale, grad, group, keys[3];

	(void)state;
	begin(11, 0);
	im.len = im.used;
	flat = image_type(&im, "Quantized", im.base_tensor, 0);
	flatten = image_str(&im, "__tensor_flatten__");
	poke(&im, flat + 264, image_dict(&im, 1, 1, &flatten, &flat));
	codes = image_tensor(&im, im.base_tensor, 0x2a000, 8, 4);
	scale = image_tensor(&im, im.base_tensor, 0x2b000, 8, 1);
	grad = image_tensor(&im, im.base_tensor, 0x2c000, 8, 4);
	keys[0] = image_str(&im, "codes");
	keys[1] = image_str(&im, "scale");
	keys[2] = image_str(&im, "main_grad");
	obj = image_instance(&im, flat, 0, 3, keys, LIST(codes, scale, grad));
	impl = image_take(&im, 176);
	meta = image_take(&im, 48);
	poke(&im, impl, IMAGE_IMPL);
	poke(&im, obj + 16, impl);
	poke(&im, im.params + 32,
	     image_keys(&im, 1, 2, LIST(image_str(&im, "weight"), image_str(&im, "q")), LIST(im.weight, obj)));
	group = image_dict(&im, 1, 1, LIST(image_str(&im, "params")), LIST(image_list(&im, 1, LIST(obj))));
	image_instance(&im, im.sgd, 0, 2, LIST(image_str(&im, "state"), image_str(&im, "param_groups")),
		       LIST(image_dict(&im, 1, 0, NULL, NULL), image_list(&im, 1, LIST(group))));
	im.len = IMAGE_BYTES;
	assert_int_equal(look_again(PY_LOOK_ALL), 0);
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	expect(0x2a000, EV_TENSOR_PARAMETER, "Net", "inner.q.codes", "", "float32[8,4]");
	expect(0x2b000, EV_TENSOR_PARAMETER, "Net", "inner.q.scale", "", "float32[8,1]");
	assert_null(reported_at(0x2c000));
	expect(0xa000, EV_TENSOR_PARAMETER, "Net", "inner.weight", "", "float32[8,4]");
	assert_true(name_at(0x2a000).rests && name_at(0x2b000).rests);
	poke(&im, impl + image_layout.impl_autograd_meta, meta); /* a gradient is asked for */
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	assert_false(name_at(0x2a000).rests || name_at(0x2b000).rests);
}

/* The module that torch.compile makes of an optimizer's step has the state as its buffers: that is no other word for it. */
static void test_state_that_a_module_has_too(void **state)
{
	uint64_t keys[3], dicts[3], empty, opt, held;

	(void)state;
	begin(11, 0);
	im.len = im.used;
	held = image_tensor(&im, im.parameter, 0xd000, 8, 4);
	empty = image_dict(&im, 1, 0, NULL, NULL);
	keys[0] = image_str(&im, "_parameters");
	keys[1] = image_str(&im, "_buffers");
	keys[2] = image_str(&im, "_modules");
	dicts[0] = dicts[2] = empty;
	opt = image_str(&im, "l_self_state_0");
	dicts[1] = image_dict(&im, 1, 1, &opt, &held);
	image_instance(&im, im.linear, 0, 3, keys, dicts);
	im.len = IMAGE_BYTES;
	assert_int_equal(look_again(PY_LOOK_ALL), 0);
	assert_int_equal(look_again(PY_LOOK_KNOWN), 0);
	expect(0xd000, EV_TENSOR_STATE, "SGD", "inner.weight", "momentum_buffer", "float32[8,4]");
}

/* A wrapper around itself, and slots that lead elsewhere. */
static void test_wrappers_that_lead_nowhere(void **state)
{
	uint64_t type, self, key;

	(void)state;
	begin(12, 0);
	im.len = im.used;
	type = image_slotted(&im, "DTensor", "_local_tensor");
	self = image_wrapper(&im, type, 0);
	poke(&im, self + 32, self);
	key = image_str(&im, "weight");
	poke(&im, im.params + 32, image_keys(&im, 1, 1, &key, &self));
	poke(&im, im.params + 16, 1);
	im.len = IMAGE_BYTES;
	for (unsigned i = 0; i < 4; i++) {
		static const uint64_t leads[] = { 0, 0x7000, IMAGE_BASE + 8, IMAGE_BASE + IMAGE_BYTES - 8 };

		assert_int_equal(look_again(PY_LOOK_ALL), 0);
		assert_int_equal(look.reported_cnt, 4); /* the buffer, and what the optimizer has */
		poke(&im, self + 32, leads[i]);
	}
}

/* `test_python_names seed FILE MINOR`: what fuzzing begins with. */
static int write_seed(const char *path, unsigned minor)
{
	FILE *f = fopen(path, "wb");
	int ok;

	if (!f)
		return 1;
	image__init(&im, minor, minor % 2);
	im.len = im.used;
	if (minor == 13)
		wrap();
	if (minor == 12)
		make_sparse();
	im.used = im.len;
	ok = putc((int)minor - 10, f) != EOF && fwrite(im.bytes, 1, im.used, f) == im.used;
	return fclose(f) || !ok;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_whole, teardown),
		cmocka_unit_test_teardown(test_unknown_version, teardown),
		cmocka_unit_test_teardown(test_not_imported_and_not_there, teardown),
		cmocka_unit_test_teardown(test_several_interpreters, teardown),
		cmocka_unit_test_teardown(test_new_storage_waits_for_a_second_look, teardown),
		cmocka_unit_test_teardown(test_torn_dict_gives_no_names, teardown),
		cmocka_unit_test_teardown(test_child_of_a_torn_module_is_no_root, teardown),
		cmocka_unit_test_teardown(test_sizes_that_do_not_multiply, teardown),
		cmocka_unit_test_teardown(test_root_without_tensors_is_bare, teardown),
		cmocka_unit_test_teardown(test_torn_in_turn, teardown),
		cmocka_unit_test_teardown(test_names_in_other_scripts, teardown),
		cmocka_unit_test_teardown(test_freed, teardown),
		cmocka_unit_test_teardown(test_circle_of_modules_has_no_names, teardown),
		cmocka_unit_test_teardown(test_a_search_that_is_cut, teardown),
		cmocka_unit_test_teardown(test_gc_lists_that_lead_nowhere, teardown),
		cmocka_unit_test_teardown(test_a_young_list_is_read_anew, teardown),
		cmocka_unit_test_teardown(test_pieces_with_holes, teardown),
		cmocka_unit_test_teardown(test_reads_that_fail, teardown),
		cmocka_unit_test_teardown(test_every_word_torn, teardown),
		cmocka_unit_test_teardown(test_same_as_walking, teardown),
		cmocka_unit_test_teardown(test_what_is_walked_for, teardown),
		cmocka_unit_test_teardown(test_more_than_is_kept, teardown),
		cmocka_unit_test_teardown(test_many_are_not_cut, teardown),
		cmocka_unit_test_teardown(test_wrappers, teardown),
		cmocka_unit_test_teardown(test_wrappers_that_come_and_go, teardown),
		cmocka_unit_test_teardown(test_sparse_gradients, teardown),
		cmocka_unit_test_teardown(test_wrappers_that_rest, teardown),
		cmocka_unit_test_teardown(test_parts_of_a_flat_tensor, teardown),
		cmocka_unit_test_teardown(test_state_that_a_module_has_too, teardown),
		cmocka_unit_test_teardown(test_wrappers_that_lead_nowhere, teardown),
	};

	if (argc == 4 && !strcmp(argv[1], "seed"))
		return write_seed(argv[2], (unsigned)atoi(argv[3]));
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Who holds tensors, in a made-up CPython (python_image.h), whole and torn. Real ones: tests/e2e/test_leaks.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "python/holders.h"
#include "unit/python_image.h"

#define TENSORS 8u
#define DATA(i) (0x500000ull + (i) * 0x1000)

static struct image im;
static struct py p;
static struct py_torch torch;
static struct py_holder found[PY_HELD_SETS];
static uint64_t tensors[TENSORS];

/* An object that the collector knows: its head lies before it. */
static uint64_t known(uint64_t (*make)(void))
{
	uint64_t obj;

	image_take(&im, 16);
	obj = make();
	image_gc_add(&im, obj);
	return obj;
}

static uint64_t next_data;

static uint64_t make_tensor(void)
{
	return image_tensor(&im, im.parameter, next_data, 8, 4);
}

static uint64_t make_list(void)
{
	return image_list(&im, TENSORS, tensors);
}

static void begin(unsigned minor)
{
	image__init(&im, minor, 0);
	im.len = im.used;
	for (unsigned i = 0; i < TENSORS; i++) {
		next_data = DATA(i);
		tensors[i] = known(make_tensor);
	}
}

static void end(void)
{
	im.used = im.len;
	im.len = IMAGE_BYTES;
	assert_int_equal(py__init(&p, &(struct py_mem){ image_read, &im }, im.at->minor), 0);
	p.interp = im.interp;
	p.bases[WALK_TENSOR] = im.base_tensor;
	torch = (struct py_torch){ .at = image_layout, .vtables = image_vtables,
				   .vtables_cnt = sizeof(image_vtables) / sizeof(image_vtables[0]) };
}

static int find(void)
{
	struct py_held held[TENSORS];

	for (unsigned i = 0; i < TENSORS; i++)
		held[i] = (struct py_held){ DATA(i), 1 };
	py__fresh(&p);
	return py_holders__find(&p, &torch, py_frame_offsets(im.at->minor), held, TENSORS, found);
}

static uint64_t in_main, in_main_name; /* made before: what is made first lies behind the head */

static uint64_t make_globals(void)
{
	return image_dict(&im, 1, 1, LIST(in_main_name), LIST(in_main));
}

/* __main__ has it as `losses`. */
static void put_in_main(uint64_t obj)
{
	uint64_t modules = im.interp + im.at->interp_modules, main, old = peek(&im, peek(&im, modules) + 32);
	unsigned size = im.at->keys_are_old ? 24 : 16, head = im.at->keys_are_old ? 48 : 40;
	uint64_t keys[4], values[4];

	in_main = obj;
	in_main_name = image_str(&im, "losses");
	main = image_obj(&im, im.mod, 24);
	poke(&im, main + 16, known(make_globals));
	for (unsigned i = 0; i < 3; i++) {
		keys[i] = peek(&im, old + head + i * size + size - 16);
		values[i] = peek(&im, old + head + i * size + size - 8);
	}
	keys[3] = image_str(&im, "__main__");
	values[3] = main;
	poke(&im, modules, image_dict(&im, 1, 4, keys, values));
}

static int teardown(void **state)
{
	(void)state;
	py__done(&p);
	return 0;
}

static void test_global(void **state)
{
	(void)state;
	for (unsigned minor = 10; minor <= 13; minor++) {
		begin(minor);
		put_in_main(known(make_list));
		end();
		assert_int_equal(find(), 0);
		assert_int_equal(found[1].items, TENSORS);
		assert_int_equal(found[1].tensors, TENSORS);
		assert_string_equal(found[1].kind, "list");
		assert_string_equal(found[1].path, "__main__.losses");
		assert_string_equal(found[1].where, "");
		assert_int_equal(found[0].items, 0);
		py__done(&p);
	}
}

static uint64_t keeper_of;

static uint64_t make_attr_list(void)
{
	return image_list(&im, 1, LIST(keeper_of));
}

/* Each tensor in a list of its own, all of these in one: that is the container. */
static uint64_t lists[TENSORS];

static uint64_t make_outer(void)
{
	return image_list(&im, TENSORS, lists);
}

static void test_small_containers(void **state)
{
	(void)state;
	begin(12);
	for (unsigned i = 0; i < TENSORS; i++) {
		keeper_of = tensors[i];
		lists[i] = known(make_attr_list);
	}
	put_in_main(known(make_outer));
	end();
	assert_int_equal(find(), 0);
	assert_int_equal(found[1].items, TENSORS);
	assert_string_equal(found[1].path, "__main__.losses");
	py__done(&p);
}

/* An attribute of an object that nobody can be seen to hold. */
static void test_attribute(void **state)
{
	(void)state;
	for (unsigned minor = 10; minor <= 13; minor++)
		for (int inline_values = 0; inline_values < 2; inline_values++) {
			uint64_t list;

			begin(minor);
			list = known(make_list);
			image_instance(&im, image_type(&im, "train.Trainer", 0, 0), inline_values, 1,
				       LIST(image_str(&im, "history")), LIST(list));
			end();
			assert_int_equal(find(), 0);
			assert_int_equal(found[1].items, TENSORS);
			assert_string_equal(found[1].path, "Trainer.history");
			py__done(&p);
		}
}

/* --- closures ------------------------------------------------------------------------------------------------ */

static uint64_t static_type(const char *name)
{
	uint64_t type = image_type(&im, name, 0, 0);

	poke(&im, type + 168, peek(&im, type + 168) & ~(1ull << 9));
	return type;
}

static uint64_t tuple_of(uint64_t cnt, const uint64_t *items)
{
	uint64_t at = image_obj(&im, im.tuple, 24 + 8 * cnt);

	poke(&im, at + 16, cnt);
	for (uint64_t i = 0; i < cnt; i++)
		poke(&im, at + 24 + 8 * i, items[i]);
	return at;
}

static uint64_t function_type;

static uint64_t make_function(void)
{
	return image_obj(&im, function_type, 120);
}

/* def step(): … of build(), which has `losses` in its second cell. */
static void put_in_closure(uint64_t list)
{
	const struct py_frame_offsets *at = py_frame_offsets(im.at->minor);
	uint64_t cell_type = static_type("cell"), code = image_obj(&im, static_type("code"), 256), function;
	uint64_t cells[2] = { image_obj(&im, cell_type, 24), image_obj(&im, cell_type, 24) };
	uint64_t names[3] = { image_str(&im, "out"), image_str(&im, "model"), image_str(&im, "losses") };

	function_type = static_type("function");
	function = known(make_function);
	poke(&im, cells[0] + 16, im.model);
	poke(&im, cells[1] + 16, list);
	poke(&im, function + 48, code);
	poke(&im, function + 72, tuple_of(2, cells));
	if (im.at->minor == 10)
		poke(&im, code + 80, tuple_of(2, names + 1));
	else
		poke(&im, code + 96, tuple_of(3, names));
	poke(&im, code + at->code_filename, image_str(&im, "/home/me/train.py"));
	poke(&im, code + at->code_qualname, image_str(&im, "build.<locals>.step"));
	poke(&im, code + at->code_firstlineno, peek(&im, code + at->code_firstlineno) | 31);
}

static void test_closure(void **state)
{
	(void)state;
	for (unsigned minor = 10; minor <= 13; minor++) {
		begin(minor);
		put_in_closure(known(make_list));
		end();
		assert_int_equal(find(), 0);
		assert_int_equal(found[1].items, TENSORS);
		assert_string_equal(found[1].path, "losses");
		assert_string_equal(found[1].where, "build.<locals>.step (train.py:31)");
		py__done(&p);
	}
}

/* --- frames ------------------------------------------------------------------------------------------------------ */

static void put_in_frame(uint64_t list)
{
	const struct py_frame_offsets *at = py_frame_offsets(im.at->minor);
	uint64_t code = image_obj(&im, static_type("code"), 256), frame = image_take(&im, 512), tstate = image_take(&im, 256);
	uint64_t names[2] = { image_str(&im, "epoch"), image_str(&im, "kept") }, first = frame, none = tuple_of(0, NULL);

	if (at->has_cframe) {
		first = image_take(&im, 32);
		poke(&im, first + at->cframe_frame, frame);
	}
	poke(&im, im.interp + at->interp_threads, tstate);
	poke(&im, tstate + at->tstate_frame, first);
	poke(&im, frame + at->frame_code, code);
	poke(&im, frame + at->frame_self, im.model);
	poke(&im, frame + at->frame_self + 8, list);
	poke(&im, code + (im.at->minor == 10 ? 72 : 96), tuple_of(2, names));
	if (im.at->minor == 10) {
		poke(&im, code + 80, none);
		poke(&im, code + 88, none);
	}
	poke(&im, code + at->code_filename, image_str(&im, "train.py"));
	poke(&im, code + at->code_qualname, image_str(&im, "main"));
	poke(&im, code + at->code_firstlineno, peek(&im, code + at->code_firstlineno) | 7);
}

static void test_local_variable(void **state)
{
	(void)state;
	for (unsigned minor = 10; minor <= 13; minor++) {
		begin(minor);
		put_in_frame(known(make_list));
		end();
		assert_int_equal(find(), 0);
		assert_int_equal(found[1].items, TENSORS);
		assert_string_equal(found[1].path, "kept");
		assert_string_equal(found[1].where, "main (train.py:7)");
		py__done(&p);
	}
}

/* --- a deque ----------------------------------------------------------------------------------------------------- */

static uint64_t deque_type;

static uint64_t make_deque(void)
{
	return image_obj(&im, deque_type, 64);
}

/* The first two items are the last two of a block, the others in the next one. */
static void test_deque(void **state)
{
	uint64_t deque, blocks[2];

	(void)state;
	begin(11);
	deque_type = static_type("collections.deque");
	deque = known(make_deque);
	for (unsigned i = 0; i < 2; i++)
		blocks[i] = image_take(&im, 66 * 8);
	poke(&im, deque + 16, TENSORS);
	poke(&im, deque + 24, blocks[0]);
	poke(&im, deque + 32, blocks[1]);
	poke(&im, deque + 40, 62);
	poke(&im, blocks[0] + 65 * 8, blocks[1]);
	for (unsigned i = 0; i < TENSORS; i++)
		poke(&im, i < 2 ? blocks[0] + 8 * (63 + i) : blocks[1] + 8 * (i - 1), tensors[i]);
	put_in_main(deque);
	end();
	assert_int_equal(find(), 0);
	assert_int_equal(found[1].items, TENSORS);
	assert_string_equal(found[1].kind, "deque");
	assert_string_equal(found[1].path, "__main__.losses");
	py__done(&p);
}

/* --- nobody, and what is torn ------------------------------------------------------------------------------------- */

static void test_nobody(void **state)
{
	(void)state;
	begin(11);
	end();
	assert_int_equal(find(), 0);
	assert_int_equal(found[1].tensors, TENSORS);
	assert_int_equal(found[1].items, 0); /* C++ alone refers to them */
	assert_string_equal(found[1].path, "");
	py__done(&p);
}

/* Every word of it made another one, in turn: it ends, and the container is the list or none. */
static void test_every_word_torn(void **state)
{
	static const uint64_t others[] = { 0, UINT64_MAX, IMAGE_BASE, 0x100010 };

	(void)state;
	for (unsigned minor = 10; minor <= 13; minor++) {
		uint64_t list;

		begin(minor);
		list = known(make_list);
		put_in_closure(list);
		put_in_frame(list);
		put_in_main(list);
		end();
		for (uint64_t at = IMAGE_BASE + 16; at < IMAGE_BASE + im.used; at += 8) {
			uint64_t was = peek(&im, at);

			if (!was)
				continue;
			for (unsigned i = 0; i < 4; i++) {
				poke(&im, at, others[i]);
				(void)find();
				assert_true(found[1].items <= TENSORS && found[1].tensors <= TENSORS);
				assert_int_equal(found[0].items, 0);
			}
			poke(&im, at, was);
		}
		for (im.fail_every = 2; im.fail_every < 40; im.fail_every++)
			(void)find();
		py__done(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_global, teardown),
		cmocka_unit_test_teardown(test_small_containers, teardown),
		cmocka_unit_test_teardown(test_attribute, teardown),
		cmocka_unit_test_teardown(test_closure, teardown),
		cmocka_unit_test_teardown(test_local_variable, teardown),
		cmocka_unit_test_teardown(test_deque, teardown),
		cmocka_unit_test_teardown(test_nobody, teardown),
		cmocka_unit_test_teardown(test_every_word_torn, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

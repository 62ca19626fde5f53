/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* stacks in the model and in what views make of them: events in, report, jsonl, folded and pprof out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "model/model.h"
#include "model/core/stackset.h"
#include "timeline/report.h"
#include "view/export.h"

#define KEPT_MAX 64

static struct names *names;
static struct model *m;
static struct tl_event kept[KEPT_MAX];
static size_t kept_cnt;
static uint64_t now;

static int keep(void *ctx, const struct tl_event *ev)
{
	(void)ctx;
	assert_true(kept_cnt < KEPT_MAX);
	kept[kept_cnt++] = *ev;
	return 0;
}

static int setup(void **state)
{
	(void)state;
	kept_cnt = 0;
	now = 1000;
	names = names__new();
	m = model__new(names, &(struct model_opts){ .timeline = keep });
	return !names || !m;
}

static int teardown(void **state)
{
	(void)state;
	model__check(m);
	model__free(m);
	names__free(names);
	return 0;
}

static void event(struct event ev)
{
	ev.ts_ns = now++;
	ev.pid = 10;
	ev.tid = ev.tid ? ev.tid : 10;
	assert_int_equal(model__handle(m, &ev), 0);
	model__check(m);
}

static void node(uint32_t number, uint32_t parent, const char *function, uint8_t kind, uint32_t line)
{
	event((struct event){ .kind = EV_STACK, .seq = number, .size = parent, .name = names__add(names, function),
			      .addr = names__add(names, kind == EV_FRAME_PYTHON ? "/job/train.py" : "libtorch_cpu.so").v,
			      .aux = line, .flags = kind });
}

static void at(uint64_t ptr, uint32_t stack, uint32_t tid)
{
	event((struct event){ .kind = EV_STACK_AT, .dev = MT_DEV_CPU, .addr = ptr, .size = stack, .tid = tid });
}

static void allocated(uint64_t ptr, uint64_t size, uint32_t tid)
{
	event((struct event){ .kind = MT_EV_ALLOC, .dev = MT_DEV_CPU, .addr = ptr, .size = size, .tid = tid });
}

static void freed(uint64_t ptr)
{
	event((struct event){ .kind = MT_EV_FREE, .dev = MT_DEV_CPU, .addr = ptr });
}

static void a_tree(void)
{
	node(1, 0, "<module>", EV_FRAME_PYTHON, 3);
	node(2, 1, "step", EV_FRAME_PYTHON, 12);
	node(3, 2, "at::empty", EV_FRAME_NATIVE, 0);
	node(4, 1, "load", EV_FRAME_PYTHON, 20);
}

static uint32_t stack_of(uint64_t ptr)
{
	for (size_t i = kept_cnt; i-- > 0;)
		if (kept[i].kind == TL_CREATE && kept[i].ptr == ptr)
			return kept[i].stack;
	fail_msg("no create of %llx", (unsigned long long)ptr);
	return 0;
}

static void test_allocation_has_its_stack(void **state)
{
	(void)state;
	a_tree();
	at(0x1000, 3, 10);
	at(0x2000, 4, 11); /* another thread, in between */
	allocated(0x1000, 100, 10);
	allocated(0x2000, 200, 11);
	allocated(0x3000, 300, 10); /* has none */
	at(0x4000, 3, 10);
	allocated(0x5000, 400, 10); /* the one that was told never came */
	assert_int_equal(stack_of(0x1000), 3);
	assert_int_equal(stack_of(0x2000), 4);
	assert_int_equal(stack_of(0x3000), 0);
	assert_int_equal(stack_of(0x5000), 0);
	allocated(0x4000, 1, 10); /* … and is not told of a later one */
	assert_int_equal(stack_of(0x4000), 0);
}

static void test_report(void **state)
{
	struct report *r;

	(void)state;
	a_tree();
	at(0x1000, 3, 10);
	allocated(0x1000, 100, 10);
	at(0x2000, 4, 10);
	allocated(0x2000, 200, 10);
	at(0x3000, 3, 10);
	allocated(0x3000, 50, 10);
	allocated(0x4000, 7, 10); /* the peak: 357 */
	freed(0x2000);
	freed(0x4000);
	at(0x2000, 4, 10);
	allocated(0x2000, 20, 10);
	assert_int_equal(model__report(m, 10, &r), 0);
	assert_int_equal(r->stacks.total, 2);
	assert_int_equal(r->stacks.cnt, 2);
	assert_int_equal(r->stacks.rows[0].at_peak, 200);
	assert_int_equal(r->stacks.rows[0].live, 20);
	assert_int_equal(r->stacks.rows[0].alloc_bytes, 220);
	assert_int_equal(r->stacks.rows[0].alloc_count, 2);
	assert_string_equal(r->stacks.rows[0].frames[0].function, "load");
	assert_int_equal(r->stacks.rows[0].frames[0].line, 20);
	assert_string_equal(r->stacks.rows[0].frames[1].function, "<module>");
	assert_int_equal(r->stacks.rows[1].at_peak, 150);
	assert_int_equal(r->stacks.rows[1].live_count, 2);
	assert_int_equal(r->stacks.rows[1].frames_cnt, 3);
	assert_string_equal(r->stacks.rows[1].frames[0].file, "libtorch_cpu.so");
	assert_int_equal(r->stacks.none.at_peak, 7);
	assert_int_equal(r->stacks.none.live, 0);
	assert_int_equal(r->stacks.none.alloc_count, 1);
	report__free(r);
	assert_int_equal(model__report(m, 1, &r), 0);
	assert_int_equal(r->stacks.cnt, 1);
	assert_int_equal(r->stacks.total, 2);
	report__free(r);
}

static uint64_t lost(void)
{
	struct report *r;
	uint64_t n;

	assert_int_equal(model__report(m, 1, &r), 0);
	n = r->run.lost[MT_LOSS_STACKS];
	report__free(r);
	return n;
}

static void test_hostile_trees(void **state)
{
	(void)state;
	node(2, 0, "too early", EV_FRAME_PYTHON, 1);
	assert_int_equal(lost(), 1);
	node(1, 1, "its own parent", EV_FRAME_PYTHON, 1);
	assert_int_equal(lost(), 2);
	node(1, 0, "root", 77, 1);
	node(1, 0, "root again", EV_FRAME_PYTHON, 1); /* a recording that began later has them twice */
	assert_int_equal(lost(), 2);
	node(2, 0xffffffff, "from nowhere", EV_FRAME_PYTHON, 1);
	assert_int_equal(lost(), 3);
	at(0x1000, 5, 10); /* of a node that was never told */
	assert_int_equal(lost(), 4);
	allocated(0x1000, 10, 10);
	assert_int_equal(stack_of(0x1000), 0);
	at(0x2000, 1, 10);
	allocated(0x2000, 10, 10);
	at(0x2000, 1, 10);
	allocated(0x2000, 20, 10); /* at a live key */
	freed(0x2000);
}

static void test_many_blocks(void **state)
{
	struct stackset s = { 0 };

	(void)state;
	assert_int_equal(stackset__init(&s), 0);
	assert_int_equal(tally__add_dev(&s.tally, 0), 0);
	for (uint64_t round = 0; round < 3; round++) {
		for (uint64_t id = 1; id <= 5000; id++)
			assert_true(stackset__allocated(&s, round * 100000 + id, (uint32_t)(id % 50) + 1, 0, id, 0));
		for (uint64_t id = 5000; id > 0; id -= 1 + (id > 1 && round == 2))
			stackset__freed(&s, round * 100000 + id, 0, id, 0);
		stackset__freed(&s, 12345678, 0, 1, 0); /* one without */
	}
	assert_int_equal(s.allocated.cnt, 2500); /* the odd ones of the last round, all of them still to be found */
	for (uint64_t id = 1; id <= 5000; id += 2)
		stackset__freed(&s, 200000 + id, 0, id, 0);
	assert_int_equal(s.allocated.cnt, 0);
	for (uint32_t row = 0; row < s.tally.devs[0].cnt; row++)
		assert_int_equal(s.tally.devs[0].cells[row].live, 0);
	stackset__done(&s);
}

/* --- views ------------------------------------------------------------------------------------------------ */

static char *export_to_text(const char *format, const char *path, size_t *ret_len)
{
	struct report *r;
	const struct export_format *fmt = export_format_find(format);
	struct export_to to = { .names = names, .path = path, .dev = -1 };
	struct export_ctx *c = NULL;
	char *text = NULL;

	assert_int_equal(model__report(m, 100, &r), 0);
	to.report = r;
	to.out = open_memstream(&text, ret_len);
	assert_int_equal(export_begin(fmt, &c, &to), 0);
	for (size_t i = 0; i < kept_cnt; i++)
		assert_int_equal(fmt->event(c, &kept[i], 0), 0);
	assert_int_equal(export_end(fmt, c, r), 0);
	fclose(to.out);
	report__free(r);
	return text;
}

static void two_blocks(void)
{
	a_tree();
	at(0x1000, 3, 10);
	allocated(0x1000, 100, 10);
	at(0x2000, 4, 10);
	allocated(0x2000, 200, 10);
	allocated(0x3000, 7, 10);
}

static void test_folded(void **state)
{
	size_t len;
	char *text;

	(void)state;
	two_blocks();
	text = export_to_text("folded", "a", &len);
	assert_non_null(strstr(text, "process 10;<module> (train.py:3);step (train.py:12);at::empty 100\n"));
	assert_non_null(strstr(text, "process 10;<module> (train.py:3);load (train.py:20) 200\n"));
	assert_non_null(strstr(text, "process 10 7\n"));
	free(text);
}

static void test_jsonl(void **state)
{
	size_t len, stacks = 0, creates = 0;
	char *text, *line, *save;

	(void)state;
	two_blocks();
	text = export_to_text("jsonl", "a", &len);
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		json_t *o = json_loads(line, 0, NULL);
		const char *ev = json_string_value(json_object_get(o, "ev"));
		json_int_t stack = json_integer_value(json_object_get(o, "stack"));

		assert_non_null(o);
		if (!strcmp(ev, "stack") && stack == 2) {
			assert_int_equal(json_integer_value(json_object_get(o, "parent")), 1);
			assert_int_equal(json_integer_value(json_object_get(o, "line")), 12);
			assert_string_equal(json_string_value(json_object_get(o, "function")), "step");
			assert_string_equal(json_string_value(json_object_get(o, "file")), "/job/train.py");
			assert_string_equal(json_string_value(json_object_get(o, "kind")), "python");
		}
		if (!strcmp(ev, "create"))
			assert_int_equal(stack, creates == 0 ? 3 : creates == 1 ? 4 : 0);
		stacks += !strcmp(ev, "stack");
		creates += !strcmp(ev, "create");
		json_decref(o);
	}
	assert_int_equal(stacks, 4);
	assert_int_equal(creates, 3);
	free(text);
}

static void test_pprof_has_files(void **state)
{
	char *text, *raw = calloc(1, 1 << 20);
	z_stream z = { .next_out = (Bytef *)raw, .avail_out = 1 << 20 };
	size_t len;

	(void)state;
	two_blocks();
	text = export_to_text("pprof", "a", &len);
	z.next_in = (Bytef *)text;
	z.avail_in = (uInt)len;
	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	assert_non_null(memmem(raw, z.total_out, "step", 4));
	assert_non_null(memmem(raw, z.total_out, "/job/train.py", 13));
	assert_non_null(memmem(raw, z.total_out, "at::empty", 9));
	inflateEnd(&z);
	free(raw);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_allocation_has_its_stack, setup, teardown),
		cmocka_unit_test_setup_teardown(test_report, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hostile_trees, setup, teardown),
		cmocka_unit_test(test_many_blocks),
		cmocka_unit_test_setup_teardown(test_folded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_jsonl, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pprof_has_files, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

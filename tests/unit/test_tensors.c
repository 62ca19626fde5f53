/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Names of blocks: which block a name is of, and when it is of none. */
#include <errno.h>

#include "model/core/freed.h"
#include "model/core/tensors.h"
#include "unit/model_help.h"

#define PID 100u
#define MS 1000000ull

static uint64_t now;
static unsigned reported;

static int keep(void *ctx, const struct tl_event *ev)
{
	(void)ctx;
	reported += ev->kind == TL_NAME;
	return 0;
}

static int setup(void **state)
{
	(void)state;
	now = 1000 * MS;
	reported = 0;
	return model_begin(&(struct model_opts){ .timeline = keep, .timeline_nodes = 1 });
}

static void send(struct event ev)
{
	ev.ts_ns = now;
	ev.pid = ev.pid ? ev.pid : PID;
	ev.dev = ev.dev ? ev.dev : MT_DEV_CPU;
	if (ev.kind != EV_TENSOR)
		ev.tid = ev.tid ? ev.tid : ev.pid;
	assert_int_equal(model__handle(m, &ev), 0);
}

static void alloc(uint64_t ptr, uint64_t size)
{
	send((struct event){ .kind = MT_EV_ALLOC, .addr = ptr, .size = size });
}

static void free_block(uint64_t ptr)
{
	send((struct event){ .kind = MT_EV_FREE, .addr = ptr });
}

/* An operator is given a storage: that makes a block of one from before the attach. */
static void use(uint64_t ptr, uint64_t size)
{
	send((struct event){ .kind = MT_EV_OP, .name = names__add(names, "aten::add"), .seq = 1 });
	send((struct event){ .kind = EV_ARG, .addr = ptr, .size = size, .seq = 1, .depth = 1, .flags = MT_CLASS_PLAIN });
}

static void name_as(uint64_t ptr, uint64_t size, const char *path, uint8_t kind, unsigned age_ms)
{
	send((struct event){ .kind = EV_TENSOR, .addr = ptr, .size = size, .name = names__add(names, path), .flags = kind,
			     .tid = names__add(names, "Net").v, .seq = names__add(names, "float32[4]").v,
			     .aux = kind == EV_TENSOR_STATE ? names__add(names, "exp_avg").v : 0,
			     .depth = (uint8_t)(age_ms / 8) });
}

/* All that tells what becomes of tensors is seen from now on. */
static void cover(void)
{
	send((struct event){ .kind = EV_PROC, .name = names__add(names, "python"), .size = 1 });
	send((struct event){ .kind = EV_COVER, .name = names__add(names, "framework"), .addr = 3, .size = 3 });
	send((struct event){ .kind = EV_COVER, .name = names__add(names, "flow"), .addr = 3, .size = 3 });
	alloc(0xff0, 16); /* the graph begins with it */
	now += 100 * MS;
}

static const struct report *report(void)
{
	report__free(rep);
	rep = NULL;
	assert_int_equal(model__report(m, 10, &rep), 0);
	return rep;
}

static void a_living_block_gets_its_name(void **state)
{
	(void)state;
	alloc(0x10, 16);
	alloc(0x20, 32);
	now += 100 * MS;
	name_as(0x10, 16, "a.weight", EV_TENSOR_PARAMETER, 40);
	name_as(0x20, 32, "a.weight", EV_TENSOR_STATE, 40);
	assert_int_equal(report()->names.total, 2);
	assert_string_equal(rep->names.rows[0].path, "a.weight");
	assert_string_equal(rep->names.rows[0].key, "exp_avg");
	assert_string_equal(rep->names.rows[1].root, "Net");
	assert_string_equal(rep->names.rows[1].type, "float32[4]");
	assert_string_equal(rep->names.rows[1].key, "");
	assert_int_equal(rep->names.by_kind[EV_TENSOR_STATE].bytes, 32);
	assert_int_equal(reported, 2);
	name_as(0x10, 16, "b.weight", EV_TENSOR_PARAMETER, 40); /* renamed */
	assert_string_equal(report()->names.rows[1].path, "b.weight");
	assert_int_equal(rep->names.total, 2);
	free_block(0x10);
	assert_int_equal(report()->names.total, 1);
}

/* Read before the block was allocated, it was of what lay there then. */
/* A job that has ended: at its peak the blocks are told by the names that they had. */
static void a_name_stays_at_the_peak(void **state)
{
	(void)state;
	alloc(0x1000, 64);
	alloc(0x2000, 32);
	alloc(0x3000, 16);
	now += 100 * MS;
	name_as(0x1000, 64, "a.weight", EV_TENSOR_PARAMETER, 40);
	name_as(0x3000, 16, "b.weight", EV_TENSOR_PARAMETER, 40);
	free_block(0x3000);
	free_block(0x2000);
	free_block(0x1000);
	alloc(0x3000, 16); /* another one, after the peak */
	assert_int_equal(report()->peak_blocks.cnt, 3);
	assert_string_equal(rep->peak_blocks.rows[0].name, "a.weight");
	assert_null(rep->peak_blocks.rows[1].name);
	assert_string_equal(rep->peak_blocks.rows[2].name, "b.weight");
	assert_int_equal(rep->names.total, 0);
}

static void a_younger_block_does_not(void **state)
{
	(void)state;
	alloc(0x10, 16);
	now += 30 * MS;
	name_as(0x10, 16, "old.weight", EV_TENSOR_PARAMETER, 40);
	assert_int_equal(report()->names.total, 0);
	now += 30 * MS;
	name_as(0x10, 16, "new.weight", EV_TENSOR_PARAMETER, 40);
	assert_int_equal(report()->names.total, 1);
	free_block(0x10);
	alloc(0x10, 16);
	assert_int_equal(report()->names.total, 0);
}

static void another_size_is_another_storage(void **state)
{
	struct tensor t;

	(void)state;
	alloc(0x10, 16);
	now += 100 * MS;
	name_as(0x10, 32, "a", EV_TENSOR_PARAMETER, 8);
	name_as(0x10, 8, "a", EV_TENSOR_PARAMETER, 8);
	assert_int_equal(report()->names.total, 0);
	assert_int_equal(model__tensor_at(m, PID, 0x10, 32, &t), -ENOENT);
	assert_int_equal(model__tensor_at(m, PID, 0x10, 16, &t), 0);
	send((struct event){ .kind = MT_EV_ALLOC, .dev = MT_DEV_CUDA0, .addr = 0x70, .size = 512 });
	now += 100 * MS;
	name_as(0x70, 400, "a", EV_TENSOR_PARAMETER, 8); /* the GPU's allocator rounds up */
	assert_int_equal(report()->names.total, 1);
	assert_int_equal(model__tensor_at(m, PID, 0x70, 400, &t), 1);
}

static void a_name_waits_for_a_storage_from_before(void **state)
{
	struct tensor t;

	(void)state;
	name_as(0x10, 16, "a.weight", EV_TENSOR_PARAMETER, 8);
	name_as(0x30, 16, "c.weight", EV_TENSOR_PARAMETER, 8);
	name_as(0x40, 16, "d.weight", EV_TENSOR_PARAMETER, 8);
	name_as(0x50, 16, "e.weight", EV_TENSOR_PARAMETER, 8);
	assert_int_equal(report()->names.total, 0);
	assert_int_equal(model__tensor_at(m, PID, 0x10, 16, &t), 1);
	free_block(0x30);
	alloc(0x40, 16);
	for (unsigned i = 1; i <= 4; i++)
		use(0x10 * i, 16);
	use(0x50, 24); /* grown: another storage */
	assert_int_equal(report()->names.total, 1);
	assert_string_equal(rep->names.rows[0].path, "a.weight");
	assert_string_equal(rep->names.rows[0].key, "");
	assert_int_equal(model__tensor_at(m, PID, 0x30, 16, &t), 0);
}

#define OWN EV_TENSOR_OWN

static const char *cat(uint64_t ptr)
{
	for (size_t i = 0; i < report()->names.cnt; i++)
		if (rep->names.rows[i].ptr == ptr)
			return category_name(rep->names.rows[i].cat);
	return "not there";
}

/* What no operator was ever given is seen by its name: live, of the kind that Python says, and nobody's allocation. */
static void a_name_shows_a_storage_that_no_operator_was_given(void **state)
{
	(void)state;
	cover();
	name_as(0x10, 16, "a.weight", EV_TENSOR_PARAMETER | OWN, 8);
	name_as(0x20, 32, "a.weight", EV_TENSOR_STATE | OWN, 8);
	name_as(0x50, 64, "a.weight", EV_TENSOR_GRADIENT | OWN, 8);
	name_as(0xa0, 128, "a.table", EV_TENSOR_BUFFER | OWN, 8);
	assert_int_equal(report()->names.total, 4);
	assert_int_equal(rep->devs[0].live, 16 + 16 + 32 + 64 + 128);
	assert_int_equal(rep->devs[0].preexisting_blocks, 4);
	assert_int_equal(rep->devs[0].preexisting_bytes, 240);
	assert_int_equal(rep->devs[0].allocs, 1);
	assert_string_equal(cat(0x10), "PARAMETER");
	assert_string_equal(cat(0x20), "OPTIMIZER_STATE");
	assert_string_equal(cat(0x50), "GRADIENT");
	assert_string_equal(cat(0xa0), "unknown"); /* torch.profiler has no word for it */
	model__check(m);
	free_block(0x20);
	assert_int_equal(report()->names.total, 3);
	assert_int_equal(rep->devs[0].live, 224);
	assert_int_equal(rep->devs[0].preexisting_frees, 0);
	name_as(0x20, 32, "a.weight", EV_TENSOR_STATE | OWN, 8); /* read before it was freed */
	assert_int_equal(report()->devs[0].live, 224);
	now += 100 * MS;
	name_as(0x20, 32, "a.weight", EV_TENSOR_STATE | OWN, 8);
	assert_int_equal(report()->devs[0].live, 256);
}

/* Others' memory is freed unseen; what was read before there were probes may be gone. */
static void a_name_shows_nothing_whose_end_would_not_be_seen(void **state)
{
	struct tensor t;

	(void)state;
	cover();
	name_as(0x10, 16, "a.weight", EV_TENSOR_PARAMETER, 8);
	name_as(0x20, 16, "b.weight", EV_TENSOR_PARAMETER | OWN, 160);
	assert_int_equal(report()->names.total, 0);
	assert_int_equal(model__tensor_at(m, PID, 0x10, 16, &t), 1);
	assert_int_equal(model__tensor_at(m, PID, 0x20, 16, &t), 0); /* is to be said again */
	name_as(0x20, 16, "b.weight", EV_TENSOR_PARAMETER | OWN, 8);
	assert_int_equal(report()->names.total, 1);
	use(0x10, 16);
	assert_int_equal(report()->names.total, 2);
}

static void a_name_shows_nothing_without_probes(void **state)
{
	struct tensor t;

	(void)state;
	send((struct event){ .kind = EV_PROC, .name = names__add(names, "python"), .size = 1 });
	send((struct event){ .kind = EV_COVER, .name = names__add(names, "flow"), .addr = 3, .size = 3 });
	alloc(0xff0, 16);
	now += 100 * MS;
	name_as(0x10, 16, "a.weight", EV_TENSOR_PARAMETER | OWN, 8);
	assert_int_equal(report()->names.total, 0);
	assert_int_equal(model__tensor_at(m, PID, 0x10, 16, &t), 1);
	cover();
	assert_int_equal(model__tensor_at(m, PID, 0x10, 16, &t), 0);
	name_as(0x10, 16, "a.weight", EV_TENSOR_PARAMETER | OWN, 8);
	assert_int_equal(report()->names.total, 1);
	send((struct event){ .kind = EV_PROC, .name = names__add(names, "python"), .size = 1, .flags = EV_PROC_EXECED });
	now += 100 * MS;
	name_as(0x10, 16, "a.weight", EV_TENSOR_PARAMETER | OWN, 8); /* another program */
	assert_int_equal(report()->names.total, 0);
}

static void said_by(uint32_t pid, uint64_t ptr)
{
	struct event ev = { .kind = EV_TENSOR, .dev = MT_DEV_CPU, .addr = ptr, .size = 16, .flags = EV_TENSOR_PARAMETER | OWN,
			    .depth = 8, .name = names__add(names, "a.weight"), .pid = pid, .ts_ns = now };

	now += MS;
	assert_int_equal(model__handle(m, &ev), 0);
}

static void begin_child(uint32_t pid, uint8_t how)
{
	struct event ev = { .kind = EV_PROC, .name = names__add(names, "python"), .size = pid, .aux = PID, .flags = how,
			    .pid = pid, .ts_ns = now };

	assert_int_equal(model__handle(m, &ev), 0);
	ev = (struct event){ .kind = EV_COVER, .addr = 3, .size = 3, .pid = pid, .ts_ns = now };
	ev.name = names__add(names, "flow");
	assert_int_equal(model__handle(m, &ev), 0);
	ev.name = names__add(names, "framework");
	assert_int_equal(model__handle(m, &ev), 0);
	now += 100 * MS;
}

/* A loader's worker has the whole model, whose pages it shares: they are its parent's, who may have freed some since. */
static void a_name_in_a_forked_child_shows_nothing_of_its_parent(void **state)
{
	enum { FORKED = PID + 1, WORKER = PID + 2 };

	(void)state;
	send((struct event){ .kind = EV_PROC, .name = names__add(names, "python"), .size = 1 });
	cover();
	alloc(0x10, 16);
	alloc(0x30, 16);
	name_as(0x50, 16, "seen later", EV_TENSOR_PARAMETER, 8);
	now += 100 * MS;
	begin_child(FORKED, EV_PROC_FORKED);
	begin_child(WORKER, EV_PROC_ATTACHED); /* perhaps a fork, perhaps another program */
	free_block(0x30);
	for (uint64_t ptr = 0x10; ptr <= 0x50; ptr += 0x20) {
		said_by(FORKED, ptr);
		said_by(WORKER, ptr);
	}
	said_by(FORKED, 0x70);
	assert_int_equal(report()->devs[0].live, 16 + 16);
	said_by(WORKER, 0x70);
	assert_int_equal(report()->devs[0].live, 16 + 16 + 16);
	send((struct event){ .kind = EV_GONE });
	said_by(FORKED, 0x10);
	assert_int_equal(report()->devs[0].live, 16 + 16);
	model__check(m);
}

/* A rank is its launcher's child, and has nothing of its memory: what that freed says nothing. */
static void a_name_in_another_program_is_its_own(void **state)
{
	enum { RANK = PID + 1 };
	struct event rank = { .kind = EV_PROC, .name = names__add(names, "python"), .size = RANK, .aux = PID,
			      .addr = names__add(names, "python train.py").v, .pid = RANK };

	(void)state;
	send((struct event){ .kind = EV_PROC, .name = names__add(names, "python"), .size = 1,
			     .addr = names__add(names, "torchrun train.py").v });
	cover();
	begin_child(RANK, EV_PROC_ATTACHED);
	rank.ts_ns = now;
	assert_int_equal(model__handle(m, &rank), 0);
	alloc(0x10, 16);
	free_block(0x10);
	said_by(RANK, 0x10);
	assert_int_equal(report()->devs[0].live, 16 + 16); /* and what cover() has */
}

/* Two cannot have one place: who was seen to be allocated has it. */
static void a_name_shows_nothing_where_a_block_lies(void **state)
{
	struct tensor t;

	(void)state;
	cover();
	alloc(0x100, 256);
	now += 100 * MS;
	name_as(0x140, 16, "inside", EV_TENSOR_PARAMETER | OWN, 8);
	name_as(0xf0, 32, "around", EV_TENSOR_PARAMETER | OWN, 8);
	assert_int_equal(report()->names.total, 0);
	assert_int_equal(model__tensor_at(m, PID, 0xf0, 32, &t), 0); /* is to be said again: that block may go */
	name_as(0xf0, 16, "before", EV_TENSOR_PARAMETER | OWN, 8);
	name_as(0x200, 16, "behind", EV_TENSOR_PARAMETER | OWN, 8);
	assert_int_equal(report()->names.total, 2);
	alloc(0xf8, 4); /* its free was lost */
	assert_int_equal(report()->names.total, 1);
}

/* Many addresses share a time of the last free: that errs to the side that shows less, and a later look shows it. */
static void when_something_was_freed_last(void **state)
{
	struct freed f = { 0 };
	unsigned wrong = 0;

	(void)state;
	assert_true(freed__since(&f, PID, 0x10, 5 * MS));
	freed__begin(&f);
	assert_false(freed__since(&f, PID, 0x10, 5 * MS));
	freed__note(&f, PID, 0x10, 50 * MS);
	assert_true(freed__since(&f, PID, 0x10, 5 * MS));
	assert_true(freed__since(&f, PID, 0x10, 50 * MS));
	assert_false(freed__since(&f, PID, 0x10, 52 * MS));
	assert_false(freed__since(&f, PID + 1, 0x10, 5 * MS));
	for (uint64_t i = 1; i <= 2000; i++)
		freed__note(&f, PID, i << 12, 60 * MS);
	for (uint64_t i = 1; i <= 2000; i++) {
		assert_true(freed__since(&f, PID, i << 12, 60 * MS));
		wrong += freed__since(&f, PID, (i << 12) + 64, 60 * MS);
	}
	assert_int_equal(wrong, 0); /* a state that has such an address would never be seen */
	for (uint64_t i = 1; i <= 8000; i++) /* of two ranks */
		freed__note(&f, PID + i % 2, i << 8, 70 * MS);
	for (uint64_t i = 1; i <= 8000; i++)
		wrong += freed__since(&f, PID + i % 2, (i << 8) + 64, 70 * MS);
	assert_true(wrong <= 6);
	freed__done(&f);
}

static void a_process_takes_its_names_with_it(void **state)
{
	struct tensor t;

	(void)state;
	send((struct event){ .kind = EV_PROC, .name = names__add(names, "python"), .size = 1 });
	alloc(0x10, 16);
	now += 100 * MS;
	name_as(0x10, 16, "a", EV_TENSOR_PARAMETER, 8);
	name_as(0x20, 16, "b", EV_TENSOR_PARAMETER, 8);
	send((struct event){ .kind = EV_GONE });
	assert_int_equal(report()->names.total, 0);
	assert_int_equal(model__tensor_at(m, PID, 0x20, 16, &t), 0);
	name_as(0x20, 16, "b", EV_TENSOR_PARAMETER, 8); /* the look ended later than the process */
	assert_int_equal(model__tensor_at(m, PID, 0x20, 16, &t), 0);
}

static void nonsense_is_no_name(void **state)
{
	(void)state;
	alloc(0x10, 16);
	now += 100 * MS;
	name_as(0x10, 16, "a", 0, 8);
	name_as(0x10, 16, "a", EV_TENSOR_MAX, 8);
	name_as(0x10, 16, "", EV_TENSOR_PARAMETER, 8);
	name_as(0, 16, "a", EV_TENSOR_PARAMETER, 8);
	assert_int_equal(report()->names.total, 0);
	send((struct event){ .kind = EV_TENSOR, .addr = 0x10, .size = 16, .name = names__add(names, "a"), .flags = 1,
			     .tid = UINT32_MAX, .seq = UINT32_MAX, .aux = UINT32_MAX, .depth = 1 });
	assert_int_equal(report()->names.total, 1);
	assert_string_equal(rep->names.rows[0].root, "");
}

static int tell_again(void *ctx, const struct model_was *was)
{
	for (unsigned i = 0; i < was->cnt; i++) {
		struct event ev = was->ev[i];

		ev.ts_ns = now;
		if (ev.kind != EV_TENSOR)
			ev.seq = 500;
		assert_int_equal(model__handle(ctx, &ev), 0);
	}
	return 0;
}

/* A recording that begins in the middle is told the names, too. */
static void a_model_that_begins_later_has_the_names(void **state)
{
	struct model *later = model__new(names, NULL);

	(void)state;
	alloc(0x10, 16);
	alloc(0x20, 32);
	now += 100 * MS;
	name_as(0x20, 32, "b.weight", EV_TENSOR_STATE, 8);
	assert_int_equal(model__each_was(m, UINT64_MAX, tell_again, later), 0);
	model__check(later);
	report__free(rep);
	assert_int_equal(model__report(later, 10, &rep), 0);
	model__free(later);
	assert_int_equal(rep->names.total, 1);
	assert_string_equal(rep->names.rows[0].path, "b.weight");
	assert_string_equal(rep->names.rows[0].key, "exp_avg");
	assert_string_equal(rep->names.rows[0].type, "float32[4]");
}

/* Many come and go: the table finds each, and only those. */
static void the_table_under_load(void **state)
{
	struct tensors t = { 0 };
	struct tensor *one;

	(void)state;
	for (uint64_t i = 1; i <= 20000; i++) {
		one = tensors__put(&t, 0, i * 7);
		assert_non_null(one);
		one->kind = 1;
		one->size = i;
		if (i % 3 == 0)
			tensors__remove(&t, 0, (i / 2) * 7);
	}
	tensors__check(&t);
	for (uint64_t i = 1; i <= 20000; i++) {
		one = tensors__find(&t, 0, i * 7);
		if (one)
			assert_int_equal(one->size, i);
		tensors__remove(&t, 0, i * 7);
		assert_null(tensors__find(&t, 0, i * 7));
	}
	assert_int_equal(t.cnt, 0);
	tensors__check(&t);
	tensors__done(&t);
}

static void the_table_is_bounded(void **state)
{
	struct tensors t = { 0 };

	(void)state;
	for (uint64_t i = 1; i <= TENSORS_MAX; i++)
		tensors__put(&t, 0, i)->kind = 1;
	assert_null(tensors__put(&t, 0, TENSORS_MAX + 1));
	assert_non_null(tensors__put(&t, 0, 7));
	tensors__done(&t);
}

/* Names that no block came for: a process that makes them up leaves room, and has all of it again later. */
static void names_that_wait_are_shared(void **state)
{
	struct tensors t = { 0 };
	struct tensor *one;
	uint64_t cnt = 0;

	(void)state;
	for (; (one = tensors__put(&t, 5, cnt + 1)); cnt++)
		one->kind = 1;
	assert_int_equal(cnt, TENSORS_MAX / 2);
	assert_non_null(tensors__put(&t, 5, 7)); /* is there */
	for (uint64_t i = 1; i <= 50000; i++) {
		tensors__put(&t, 6, i)->kind = 1;
		tensors__put(&t, 0, i)->kind = 1;
	}
	assert_null(tensors__put(&t, 5, cnt + 1));
	tensors__drop_pid(&t, 6);
	assert_int_equal(t.cnt, cnt + 50000);
	for (uint64_t i = 1; i <= cnt; i++)
		tensors__remove(&t, 5, i);
	tensors__check(&t);
	assert_int_equal(t.cnt, 50000);
	for (uint32_t i = 0; i < TENSORS_WAITERS; i++)
		assert_int_equal(t.waits[i], 0);
	tensors__done(&t);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_living_block_gets_its_name),
		TEST(a_name_stays_at_the_peak),
		TEST(a_younger_block_does_not),
		TEST(another_size_is_another_storage),
		TEST(a_name_waits_for_a_storage_from_before),
		TEST(a_name_shows_a_storage_that_no_operator_was_given),
		TEST(a_name_shows_nothing_whose_end_would_not_be_seen),
		TEST(a_name_shows_nothing_without_probes),
		TEST(a_name_shows_nothing_where_a_block_lies),
		TEST(a_name_in_a_forked_child_shows_nothing_of_its_parent),
		TEST(a_name_in_another_program_is_its_own),
		TEST(when_something_was_freed_last),
		TEST(a_process_takes_its_names_with_it),
		TEST(nonsense_is_no_name),
		TEST(a_model_that_begins_later_has_the_names),
		TEST(the_table_under_load),
		TEST(the_table_is_bounded), TEST(names_that_wait_are_shared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

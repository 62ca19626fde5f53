/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Labels of allocations that were seen while no operator was: planted steps, whose labels are known. */
#include "event/packed.h"
#include "model/core/learned.h"
#include "model/state.h"
#include "unit/levels_help.h"
#include "view/view.h"

/* An allocation as it is made: its size, what it is; whether it dies in its step. */
struct plan {
	uint64_t size;
	uint8_t cat;
	uint16_t op;
	bool dies;
	uint32_t tid; /* 0: that of most */
};

#define PLAN_MAX 200000
static struct plan plan[PLAN_MAX];
static uint8_t cats[4 * PLAN_MAX], said_cat[4 * PLAN_MAX];
static uint16_t said_op[4 * PLAN_MAX];
static bool said[4 * PLAN_MAX];
static uint64_t last_id, clock_ns;
static struct learned *l;
static struct learned_proc *p;
static size_t guessed;

static uint8_t cat_of(void *ctx, uint64_t id, uint8_t cat)
{
	(void)ctx;
	(void)cat;
	return cats[id];
}

static void reported(void *ctx, const struct learned_alloc *b)
{
	(void)ctx;
	said[b->id] = true;
	said_cat[b->id] = b->what.cat;
	said_op[b->id] = b->what.op;
}

static int begin(void **state)
{
	(void)state;
	last_id = clock_ns = 0;
	memset(said, 0, sizeof(said));
	l = learned__new(NULL, cat_of, reported);
	p = l ? learned__add(l) : NULL;
	if (!p)
		return 1;
	learned__runs(l, true, 0);
	learned__step(p, false, false, 0, 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	learned_proc__check(p);
	learned_proc__free(p);
	assert_true(!l->open && !l->items && !l->kinds);
	learned__free(l);
	return 0;
}

/* A step; the id of its first allocation. */
static uint64_t make(size_t cnt, bool is_traced)
{
	uint64_t first = last_id + 1;

	guessed = 0;
	for (size_t i = 0; i < cnt; i++) {
		struct learned_what what = { .op = plan[i].op, .cat = plan[i].cat };
		struct learned_alloc b = { .id = ++last_id, .size = plan[i].size, .since_ns = clock_ns, .blind = !is_traced };
		const struct learned_what *guess;

		cats[last_id] = plan[i].cat;
		b.what = is_traced ? what : (struct learned_what){ 0 };
		guess = learned__allocated(p, &b, plan[i].tid ? plan[i].tid : 7);
		guessed += guess && guess->cat == plan[i].cat && guess->op == plan[i].op;
	}
	for (size_t i = 0; i < cnt; i++)
		if (plan[i].dies)
			learned__freed(p, first + i, &(struct learned_what){ is_traced ? plan[i].op : 0, 0, 0, plan[i].cat, 0 },
				      clock_ns);
	learned__step(p, true, is_traced, 0, clock_ns);
	learned_proc__check(p);
	return first;
}

/* Of a step, how many have the labels of the plan, and how many have others. */
static size_t right(uint64_t first, size_t cnt, size_t *ret_wrong)
{
	size_t ret = 0;

	*ret_wrong = 0;
	for (size_t i = 0; i < cnt; i++) {
		bool is_right = said[first + i] && said_cat[first + i] == plan[i].cat && said_op[first + i] == plan[i].op;

		ret += is_right;
		*ret_wrong += said[first + i] && !is_right;
	}
	return ret;
}

/* Layers of a network, each like the one before: forward, and backward from the last one on. */
static size_t network(unsigned layers, uint64_t scale)
{
	size_t cnt = 0;

	for (unsigned i = 0; i < layers; i++) {
		plan[cnt++] = (struct plan){ 400 * scale, CAT_ACTIVATION, 1, true, 0 };
		plan[cnt++] = (struct plan){ 100 * scale, CAT_TEMPORARY, 2, true, 0 };
		plan[cnt++] = (struct plan){ 400 * scale + 64 * i, CAT_ACTIVATION, (uint16_t)(3 + i % 2), true, 0 };
	}
	for (unsigned i = layers; i--;) {
		plan[cnt++] = (struct plan){ 400 * scale, CAT_AUTOGRAD_DETAIL, 5, true, 0 };
		plan[cnt++] = (struct plan){ 5000 + i, CAT_GRADIENT, 6, false, 0 };
	}
	return cnt;
}

static void put(size_t *cnt, size_t at, struct plan what)
{
	memmove(&plan[at + 1], &plan[at], (*cnt - at) * sizeof(*plan));
	plan[at] = what;
	++*cnt;
}

static void cut(size_t *cnt, size_t at, size_t of)
{
	memmove(&plan[at], &plan[at + of], (*cnt - at - of) * sizeof(*plan));
	*cnt -= of;
}

static void learn(size_t cnt)
{
	make(cnt, true);
	learned__settle(p);
}

static void a_step_that_repeats_has_all_labels(void **state)
{
	size_t cnt = network(12, 10), wrong;
	uint64_t first;

	(void)state;
	first = make(cnt, false);
	assert_int_equal(right(first, cnt, &wrong), 0); /* nothing was learned yet */
	assert_true(!wrong && l->counts.unlike == 1);
	learn(cnt);
	for (int i = 0; i < 5; i++) {
		first = make(cnt, false);
		assert_int_equal(right(first, cnt, &wrong), cnt);
		assert_int_equal(guessed, cnt); /* at once, too */
	}
	assert_true(l->counts.steps == 5 && l->counts.learnt == 1 && p->kinds_cnt == 1);
}

static void a_few_more_or_fewer_shift_nothing(void **state)
{
	size_t cnt = network(12, 10), wrong;
	uint64_t first;

	(void)state;
	learn(cnt);
	put(&cnt, 5, (struct plan){ 77, CAT_INPUT, 9, true, 0 });
	put(&cnt, 6, (struct plan){ 78, CAT_INPUT, 9, true, 0 });
	first = make(cnt, false);
	assert_int_equal(right(first, cnt, &wrong), cnt - 2); /* of the two nothing is said */
	assert_int_equal(wrong, 0);
	assert_true(guessed > cnt * 9 / 10);
	cnt = network(12, 10);
	cut(&cnt, 20, 3);
	first = make(cnt, false);
	assert_true(right(first, cnt, &wrong) >= cnt - 3 && wrong <= 3);
	cnt = network(12, 10);
	plan[10].size = 12345; /* one of another size is in the place of that one */
	first = make(cnt, false);
	assert_int_equal(right(first, cnt, &wrong), cnt);
}

/* A loop that goes on for longer, or is over sooner: far more than lies near. */
static void a_loop_that_ends_sooner_shifts_nothing(void **state)
{
	size_t cnt = network(300, 10), wrong;
	uint64_t first;

	(void)state;
	learn(cnt);
	cut(&cnt, 300, 450); /* layers 100 to 249 make nothing in the forward pass */
	first = make(cnt, false);
	assert_int_equal(right(first, cnt, &wrong), cnt);
}

static void other_sizes_in_the_same_places(void **state)
{
	size_t cnt = network(12, 10), wrong;
	uint64_t first;

	(void)state;
	learn(cnt);
	for (uint64_t scale = 11; scale < 40; scale++) { /* it grows, too */
		network(12, scale);
		first = make(cnt, false);
		assert_int_equal(right(first, cnt, &wrong), cnt);
		assert_true(scale == 11 || guessed == cnt);
	}
	network(12, 40);
	learn(cnt); /* it is no kind of its own */
	assert_true(p->kinds_cnt == 1 && l->counts.checks == 1 && !l->counts.again);
}

static size_t evaluation(void)
{
	for (size_t i = 0; i < 30; i++)
		plan[i] = (struct plan){ 400 + 16 * i, CAT_TEMPORARY, (uint16_t)(20 + i), true, 0 };
	return 30;
}

/* Two kinds, of which one comes now and then: each is learned when it is traced, and known again. */
static void kinds_are_reported_apart(void **state)
{
	size_t cnt, wrong;
	uint64_t first;

	(void)state;
	learn(network(12, 10));
	cnt = evaluation();
	first = make(cnt, false);
	assert_true(!right(first, cnt, &wrong) && !wrong);
	learn(cnt);
	for (int i = 0; i < 20; i++) {
		cnt = i % 3 ? network(12, 10) : evaluation();
		first = make(cnt, false);
		assert_int_equal(right(first, cnt, &wrong), cnt);
		assert_int_equal(guessed, cnt);
	}
	assert_true(p->kinds_cnt == 2 && !l->counts.checks);
	for (int i = 0; i < 3 * LEARNED_KINDS; i++) { /* the one that is needed goes last */
		cnt = network(2 + (unsigned)i, 100 + 50 * (uint64_t)i);
		learn(cnt);
		cnt = evaluation();
		first = make(cnt, false);
		assert_int_equal(right(first, cnt, &wrong), cnt);
	}
	assert_int_equal(p->kinds_cnt, LEARNED_KINDS);
}

/* One is the other less a twelfth: what is traced of the short one must not take labels from the long one. */
static void kinds_that_are_nearly_alike(void **state)
{
	size_t cnt, wrong;
	uint64_t first;

	(void)state;
	learn(network(12, 10));
	learn(network(11, 10));
	assert_true(p->kinds_cnt == 2 && l->counts.checks == 1);
	for (unsigned i = 0; i < 6; i++) {
		cnt = network(12 - i % 2, 10);
		first = make(cnt, false);
		assert_int_equal(right(first, cnt, &wrong), cnt);
	}
	learn(network(12, 10));
	assert_true(p->kinds_cnt == 2 && l->counts.checks == 2);
}

static void a_drift_is_noticed_and_learned(void **state)
{
	size_t cnt = network(12, 10), wrong, bytes = 0, changed = 0;
	uint64_t first;

	(void)state;
	learn(cnt);
	learn(cnt);
	assert_true(l->counts.checks == 1 && !l->counts.again && !l->counts.wrong);
	for (size_t i = 0; i < cnt; i++) { /* the same sizes, by another operator */
		plan[i].op = plan[i].op == 1 ? 31 : plan[i].op;
		changed += plan[i].op == 31 ? plan[i].size : 0;
		bytes += plan[i].size;
	}
	first = make(cnt, false);
	assert_int_equal(right(first, cnt, &wrong), cnt - 12); /* nobody can know */
	learn(cnt);
	assert_true(l->counts.checks == 2 && l->counts.again == 1 && l->counts.check_bytes == 2 * bytes);
	assert_true(l->counts.wrong == changed && l->counts.wrong_op == changed);
	assert_true(!l->counts.wrong_cat && !l->counts.wrong_none);
	first = make(cnt, false);
	assert_int_equal(right(first, cnt, &wrong), cnt);
}

/* Two threads, each in its own order, between each other as it comes. */
static void threads_do_not_shift_each_other(void **state)
{
	static struct plan lanes[2][300];
	size_t cnt[2], all, wrong;
	uint64_t first, dice = 5;

	(void)state;
	for (unsigned t = 0; t < 2; t++) {
		cnt[t] = network(12 - 5 * t, 10 + 7 * (uint64_t)t);
		memcpy(lanes[t], plan, cnt[t] * sizeof(*plan));
	}
	for (int round = 0; round < 20; round++) {
		size_t at[2] = { 0 };

		all = 0;
		while (at[0] < cnt[0] || at[1] < cnt[1]) {
			unsigned t;

			dice = dice * 6364136223846793005u + 1442695040888963407u;
			t = at[0] == cnt[0] || (at[1] < cnt[1] && dice >> 63);
			plan[all] = lanes[t][at[t]++];
			plan[all++].tid = 7 + t + (t && round > 10 ? 50 : 0); /* a thread is another one from then on */
		}
		if (!round) {
			learn(all);
			continue;
		}
		first = make(all, false);
		assert_int_equal(right(first, all, &wrong), all);
	}
}

static void bytes_by_time_by_hand(void **state)
{
	static struct learned_sums sums[LEARNED_DEVS];
	struct learned_op ops[300] = { 0 };

	(void)state;
	plan[0] = (struct plan){ 100, CAT_ACTIVATION, 4, true, 0 };
	plan[1] = (struct plan){ 10, CAT_GRADIENT, 5, false, 0 };
	plan[2] = (struct plan){ 1, CAT_GRADIENT, 5, false, 0 };
	learn(3);
	for (int i = 0; i < 3; i++)
		learned__allocated(p, &(struct learned_alloc){ .id = ++last_id, .size = plan[i].size, .blind = 1 }, 7);
	learned__freed(p, last_id - 2, &(struct learned_what){ 0 }, 5);
	learned__measured(p, last_id, 7); /* Python has a name for the last one */
	learned__step(p, true, false, 0, 20);
	memcpy(sums, l->devs, sizeof(sums));
	memcpy(ops, l->ops, l->ops_cnt * sizeof(*ops));
	learned_proc__sum(p, 30, sums, ops);
	assert_true(sums[0].byte_ns[CAT_ACTIVATION] == 500 && sums[0].byte_ns[CAT_GRADIENT] == 10 * 30 + 7 && !sums[0].none_ns);
	assert_true(ops[4].byte_ns == 500 && ops[5].byte_ns == 307 && ops[4].cnt == 1 && ops[5].cnt == 2);
	assert_true(!learned__find(p, last_id) && learned__find(p, last_id - 1)->cat == CAT_GRADIENT);
	learned__freed(p, last_id - 1, &(struct learned_what){ 0 }, 40);
	learned__step(p, true, false, 0, 90);
	assert_true(l->devs[0].byte_ns[CAT_GRADIENT] == 10 * 40 + 7);
}

/* Blocks that live on are weighed when they end, not at the next boundary: a step's work is that of its own allocations. */
static void what_lives_on_is_weighed_at_its_end(void **state)
{
	uint64_t first;

	(void)state;
	for (size_t i = 0; i < 1000; i++)
		plan[i] = (struct plan){ 10, CAT_GRADIENT, 5, false, 0 };
	learn(1000);
	first = make(1000, false);
	assert_int_equal(p->living.cnt, 1000);
	learned__freed(p, first, &(struct learned_what){ 0 }, 7);
	assert_true(l->devs[0].byte_ns[CAT_GRADIENT] == 70);
	learned__measured(p, first + 1, 9);
	learned__freed(p, first + 1, &(struct learned_what){ 0 }, 20); /* known since, and not counted again */
	assert_true(l->devs[0].byte_ns[CAT_GRADIENT] == 160 && p->living_gone == 2);
	for (uint64_t i = 2; i < 600; i++)
		learned__freed(p, first + i, &(struct learned_what){ 0 }, 20);
	assert_true(l->devs[0].byte_ns[CAT_GRADIENT] == 160 + 598 * 200);
	learned__step(p, true, false, 0, 30);
	assert_true(p->living.cnt == 400 && !p->living_gone);
	learned__gone(p, 50);
	assert_true(l->devs[0].byte_ns[CAT_GRADIENT] == 160 + 598 * 200 + 400 * 500 && !p->living.cnt);
}

/* What a step has too many of, and blocks that live on beyond a process's room, are counted. */
static void what_there_is_no_room_for_is_counted(void **state)
{
	const size_t cnt = LEARNED_ALLOCS + 1000;

	(void)state;
	for (size_t i = 0; i < cnt; i++)
		plan[i] = (struct plan){ 10, CAT_GRADIENT, 5, false, 0 };
	make(cnt, true);
	assert_true(!l->counts.no_room && !l->counts.no_room_bytes); /* all of it is measured */
	make(cnt, false);
	assert_true(l->counts.no_room == 1000 && l->counts.no_room_bytes == 10000);
	assert_int_equal(p->living.cnt, LEARNED_ALLOCS);
	make(cnt, false);
	assert_int_equal(p->living.cnt + l->counts.no_room, 2 * cnt);
	make(100, false);
	assert_int_equal(p->living.cnt + l->counts.no_room, 2 * cnt + 100);
	assert_true(l->counts.no_room > 2000 && l->counts.no_room_bytes == 10 * l->counts.no_room);
}

/* Whatever comes, memory and work are bounded: sizes at random, far more than there is room for. */
static void hostile_steps_stay_within_bounds(void **state)
{
	uint64_t dice = 9;

	(void)state;
	for (int round = 0; round < 8; round++) {
		size_t cnt = round & 1 ? LEARNED_ALLOCS + 1000 : LEARNED_ALLOCS - 1000;

		last_id = 0; /* ids of a process grow: begin as another one */
		learned_proc__free(p);
		p = learned__add(l);
		learned__step(p, false, false, 0, 0);
		for (size_t i = 0; i < cnt; i++) {
			dice = dice * 6364136223846793005u + 1442695040888963407u;
			plan[i] = (struct plan){ 1 + (dice >> (round < 4 ? 62 : 40)), CAT_INPUT, (uint16_t)(dice >> 48),
						 dice >> 63, 1 + (uint32_t)(dice >> 33) % (round & 2 ? 40 : 1) };
		}
		make(cnt, true);
		for (size_t i = 0; i + 7 < cnt; i += 5)
			plan[i] = plan[i + 7];
		make(cnt, false);
		make(cnt, false);
	}
	assert_true(l->items <= LEARNED_MAX && l->open <= LEARNED_OPEN);
}

/* --- in a model -------------------------------------------------------------------------------------------------- */

/* One step of a job: an activation and a gradient by operators, that die when the next one makes them. */
static void job_step(bool is_seen)
{
	static uint32_t seq;

	for (uint64_t i = 0; i < 3; i++) {
		if (is_seen)
			SEND(.kind = MT_EV_OP, .name = names__add(names, i ? "aten::mm" : "aten::relu"), .seq = ++seq);
		SEND(.kind = MT_EV_ALLOC, .addr = 0x1000 * (i + 1), .size = 100 * (i + 1), .dev = MT_DEV_CPU, .depth = is_seen,
		     .seq = is_seen ? seq : 0);
		ts += 10;
	}
	for (uint64_t i = 0; i < 3; i++)
		free_block(0x1000 * (i + 1));
	step();
}

static void to_window(void)
{
	level(EV_LEVEL_GAP, MT_LEVEL_BLOCKS, 2);
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 2);
	for (int i = 0; i < 5; i++)
		job_step(true);
	level(EV_LEVEL_GAP, MT_LEVEL_BLOCKS, 2);
	level(EV_LEVEL_REST, MT_LEVEL_BLOCKS, 2);
}

static void a_report_says_what_is_learned(void **state)
{
	const struct report_learned *r;

	(void)state;
	level(EV_LEVEL_GAP, MT_LEVEL_WATCH, 2);
	for (int i = 0; i < 3; i++)
		job_step(false);
	to_window();
	assert_false(report()->sampling.learned.is_on);
	for (int i = 0; i < 10; i++)
		job_step(false);
	r = &report()->sampling.learned;
	assert_true(r->is_on && r->steps == 10 && r->unlike == 0 && r->kinds == 1 && r->learnt == 2);
	assert_true(r->checks == 1 && !r->wrong_bytes && !r->again && r->ops_cnt == 2);
	assert_string_equal(r->ops[0].name, "aten::mm");
	assert_true(r->ops[0].cnt == 20 && r->ops[1].cnt == 10);
	assert_true(r->devs_cnt == 1 && !r->devs[0].none_ns && report_learned__share(r) == 1);
	assert_true(r->ops[0].byte_ns == 10 * (200 * 20 + 300 * 10) && r->ops[1].byte_ns == 10 * 100 * 30);
	assert_true(report()->sampling.steps_traced == 2);
	to_window();
	r = &report()->sampling.learned;
	assert_true(r->checks == 3 && !r->wrong_bytes);
}

static bool says(int (*view)(FILE *, const struct report *, const struct view_opts *), const char *words)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	bool is_there;

	assert_non_null(f);
	assert_int_equal(view(f, report(), &(struct view_opts){ .top = 5, .width = 1000, .is_verbose = 1 }), 0);
	assert_int_equal(fclose(f), 0);
	is_there = strstr(text, words) != NULL;
	if (!is_there)
		print_message("%s\n", text);
	free(text);
	return is_there;
}

/* One step between windows that has 500 allocations more than there is room for. */
static void a_report_says_what_there_was_no_room_for(void **state)
{
	(void)state;
	to_window();
	for (uint64_t i = 0; i < LEARNED_ALLOCS + 500; i++)
		assert_int_equal(model__handle(m, &(struct event){ .ts_ns = ++ts, .kind = MT_EV_ALLOC, .pid = PID, .tid = PID,
								   .addr = 16 * i + 16, .size = 16, .dev = MT_DEV_CPU }), 0);
	step();
	assert_true(report()->sampling.learned.is_on);
	assert_int_equal(rep->sampling.learned.no_room, 500);
	assert_int_equal(rep->sampling.learned.no_room_bytes, 500 * 16);
	assert_true(says(view_report_text, "; 500 allocations (7.81 KiB) there was no room for: that share is without them"));
	assert_true(says(view_report_json, "\"no_room\": 500,"));
}

/* Steps that were seen in part, while probes went or came, have no labels; what was learned stays. */
static void what_is_only_watched_has_no_labels(void **state)
{
	uint64_t steps;

	(void)state;
	to_window();
	job_step(false);
	assert_int_equal(learned_reported, 3);
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 2);
	for (int i = 0; i < 5; i++)
		job_step(true);
	learned_reported = 0;
	steps = report()->sampling.learned.steps;
	level(EV_LEVEL_GAP, MT_LEVEL_WATCH, 2);
	for (int i = 0; i < 3; i++)
		job_step(false);
	assert_false(learned_reported);
	level(EV_LEVEL_REST, MT_LEVEL_WATCH, 2);
	assert_int_equal(report()->sampling.learned.steps, steps);
	level(EV_LEVEL_GAP, MT_LEVEL_WATCH, 2);
	for (int i = 0; i < 3; i++)
		job_step(false);
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 2);
	assert_false(learned_reported);
	assert_int_equal(report()->sampling.learned.steps, steps);
}

/* Where steps were only watched so far, those that were traced are known when allocations are seen, too. */
static void blocks_that_are_seen_later_have_labels(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 2);
		for (int k = 0; k < 5; k++)
			job_step(true);
		level(EV_LEVEL_GAP, i ? MT_LEVEL_BLOCKS : MT_LEVEL_WATCH, 2);
		job_step(false);
		level(EV_LEVEL_REST, i ? MT_LEVEL_BLOCKS : MT_LEVEL_WATCH, 2);
		job_step(false);
		assert_int_equal(!!learned_reported, i);
		assert_int_equal(report()->sampling.learned.is_on, i);
	}
}

/* Where allocations are not seen between windows nothing has a label. */
static void nothing_is_learned_of_what_is_only_watched(void **state)
{
	(void)state;
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 2);
	for (int i = 0; i < 5; i++)
		job_step(true);
	go_down();
	step();
	step();
	assert_false(report()->sampling.learned.is_on);
}

/* … nor for steps that see everything, and wait for the one whose number is asked for. */
static void steps_that_wait_have_no_labels(void **state)
{
	(void)state;
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, 2);
	for (int i = 0; i < 5; i++)
		job_step(true);
	go_down();
	for (uint64_t i = 0; i < 4; i++) {
		SEND(.kind = EV_STEPS, .size = 1000 + i);
		job_step(false);
	}
	assert_int_equal(model__step_no(m, PID), 1004);
	level(EV_LEVEL_ARMED, MT_LEVEL_FULL, event_level_size(2, 5000));
	for (int i = 0; i < 9; i++)
		job_step(true);
	assert_int_equal(report()->sampling.steps_traced, 2);
	assert_false(learned_reported);
	assert_false(rep->sampling.learned.is_on);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_step_that_repeats_has_all_labels, begin, end),
		cmocka_unit_test_setup_teardown(a_few_more_or_fewer_shift_nothing, begin, end),
		cmocka_unit_test_setup_teardown(a_loop_that_ends_sooner_shifts_nothing, begin, end),
		cmocka_unit_test_setup_teardown(other_sizes_in_the_same_places, begin, end),
		cmocka_unit_test_setup_teardown(kinds_are_reported_apart, begin, end),
		cmocka_unit_test_setup_teardown(kinds_that_are_nearly_alike, begin, end),
		cmocka_unit_test_setup_teardown(a_drift_is_noticed_and_learned, begin, end),
		cmocka_unit_test_setup_teardown(threads_do_not_shift_each_other, begin, end),
		cmocka_unit_test_setup_teardown(bytes_by_time_by_hand, begin, end),
		cmocka_unit_test_setup_teardown(what_lives_on_is_weighed_at_its_end, begin, end),
		cmocka_unit_test_setup_teardown(what_there_is_no_room_for_is_counted, begin, end),
		cmocka_unit_test_setup_teardown(hostile_steps_stay_within_bounds, begin, end),
		cmocka_unit_test_setup_teardown(a_report_says_what_is_learned, setup, teardown),
		cmocka_unit_test_setup_teardown(a_report_says_what_there_was_no_room_for, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_only_watched_has_no_labels, setup, teardown),
		cmocka_unit_test_setup_teardown(blocks_that_are_seen_later_have_labels, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_is_learned_of_what_is_only_watched, setup, teardown),
		cmocka_unit_test_setup_teardown(steps_that_wait_have_no_labels, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Who finds room among the processes that are followed, and what is read of them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/names.h"
#include "base/quota.h"
#include "event/event.h"
#include "live/followed.h"
#include "live/gpu_counters.h"
#include "live/usage.h"
#include "target/target.h"
#include "unit/maps_fix.h"

#define PID 5000000 /* above what the kernel gives: nobody's, so each is the first of its tree */

static struct followed f;
static pid_t next_pid;

static int setup(void **state)
{
	(void)state;
	f = (struct followed){ 0 };
	next_pid = PID;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	followed__done(&f);
	return 0;
}

static struct process *add(const struct process *parent, int may_have_others)
{
	struct process *p;
	int r = process__new(&p, &f, next_pid++, parent, may_have_others);

	if (r == -ENOSPC)
		return NULL;
	assert_int_equal(r, 0);
	followed__add(&f, p);
	return p;
}

/* A process that forks all it can. */
static unsigned storm(const struct process *parent, int may_have_others)
{
	unsigned cnt = 1;

	for (struct process *p; (p = add(parent, may_have_others)); cnt++)
		parent = p; /* children of children are of the same tree */
	return cnt;
}

static void a_tree_alone_has_all(void **state)
{
	(void)state;
	assert_int_equal(storm(add(NULL, 0), 0), FOLLOW_PROCS_MAX);
}

static void a_tree_leaves_room_for_others(void **state)
{
	struct process *root, *job;

	(void)state;
	root = add(NULL, 1);
	assert_int_equal(storm(root, 1), FOLLOW_PROCS_MAX / 2);
	assert_int_equal(storm(add(NULL, 1), 1), FOLLOW_PROCS_MAX / 4); /* a second one that does the same */
	job = add(NULL, 1);
	assert_non_null(job);
	for (int i = 0; i < 100; i++)
		assert_non_null(add(job, 1));
	process__free(followed__take(&f, root->index));
	assert_non_null(add(job, 1));
}

/* Two that were named: neither may take what the other needs. */
static void named_trees_share(void **state)
{
	struct process *a, *b;

	(void)state;
	a = add(NULL, 0);
	b = add(NULL, 0);
	assert_in_range(storm(a, 0), FOLLOW_PROCS_MAX / 2 - 1, FOLLOW_PROCS_MAX / 2);
	for (int i = 0; i < 200; i++)
		assert_non_null(add(b, 0));
}

#define HALF (FOLLOW_PLACES_MAX / 2)

static int may(const struct process *p, uint64_t places)
{
	return followed__may_probe(&f, p, places, FOLLOW_PLACES_MAX, 1);
}

/* One that loads library after library, and its children, who have them all, too. */
static void probed_places_are_shared(void **state)
{
	struct process *root, *child, *second, *job;

	(void)state;
	root = add(NULL, 1);
	assert_true(followed__may_probe(&f, root, FOLLOW_PLACES_MAX, FOLLOW_PLACES_MAX, 0)); /* nobody else can come */
	assert_true(may(root, HALF));
	assert_false(may(root, HALF + 1));
	assert_false(may(root, UINT64_MAX));
	root->places = HALF - 4000;
	child = add(root, 1);
	assert_true(may(child, 4000));
	child->places = 4000;
	assert_false(may(root, 1));
	assert_false(may(child, 1));
	second = add(NULL, 1);
	assert_true(may(second, HALF / 2)); /* that does the same */
	second->places = HALF / 2;
	assert_false(may(second, 1));
	job = add(NULL, 1);
	assert_true(may(job, 70 * 3650));
	process__free(followed__take(&f, root->index));
	assert_true(may(child, HALF / 2));
}

static void places_of_a_plan(void **state)
{
	struct site sites[] = { { .lib = 0 }, { .lib = 0 }, { .lib = 3 }, { .lib = 3 } };
	const struct plan plan = { .sites = sites, .sites_cnt = 4 };
	const uint8_t wanted[] = { 0, 0, 1, 0 };
	uint64_t cnt;

	(void)state;
	assert_int_equal(plan_places(&plan, NULL, &cnt), 2 * FOLLOW_PLACES_FILE);
	assert_int_equal(cnt, 4);
	assert_int_equal(plan_places(&plan, wanted, &cnt), FOLLOW_PLACES_FILE);
	assert_int_equal(cnt, 1);
}

static void parts_of_what_others_leave(void **state)
{
	(void)state;
	assert_true(quota_allows(0, 0, 1, 1));
	assert_false(quota_allows(1, 1, 1, 1));
	assert_true(quota_allows(49, 49, 100, 2));
	assert_false(quota_allows(50, 50, 100, 2));
	assert_true(quota_allows(24, 74, 100, 2));
	assert_false(quota_allows(25, 75, 100, 2));
	assert_false(quota_allows(0, 100, 100, 2));
	assert_true(quota_allows(5, 3, 100, 2)); /* shared with others: counted once */
}

/* --- what they use -------------------------------------------------------------------------------------- */

static unsigned uses, unknown, notes, counters;
static uint64_t use_of[MT_USES];

static void count(void *ctx, struct event ev)
{
	(void)ctx;
	uses += ev.kind == EV_USE;
	unknown += ev.kind == EV_USE && ev.flags;
	if (ev.kind == EV_USE && ev.aux < MT_USES)
		use_of[ev.aux] = ev.size;
	notes += ev.kind == EV_NOTE;
	counters += ev.kind == EV_COUNTERS;
}

/* With so much memory of small pages. */
static pid_t start_with(size_t bytes)
{
	int ready[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED || madvise(p, bytes, MADV_NOHUGEPAGE))
			_exit(1);
		memset(p, 1, bytes);
		(void)!write(ready[1], "r", 1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static unsigned turns; /* that counted pages */

static void read_twice(size_t bytes, struct usage *u)
{
	pid_t pid = start_with(bytes);
	struct process *p;

	next_pid = pid;
	p = add(NULL, 0);
	assert_non_null(p);
	assert_int_equal(target__open_bare(&p->target, pid, NULL, NULL), 0);
	uses = unknown = notes = turns = 0;
	for (int i = 0; i < 2; i++) {
		p->usage.use_at_ns = 0;
		usage__push_uses(u, 0);
		while (p->usage.walk) {
			uint64_t begin = now_ns();

			usage__turn(u);
			turns += u->pages_at_ns > begin;
			assert_true(!p->usage.walk || u->pages_at_ns >= begin + (now_ns() - begin) / 2);
			u->pages_at_ns = 0; /* as if it had rested */
		}
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	process__free(followed__take(&f, p->index));
}

static unsigned looks;

static int late_once(void *ctx, pid_t pid, const struct iovec *ranges, size_t cnt, uint64_t *ret_own)
{
	(void)ctx;
	return looks++ ? door_own.pages(NULL, pid, ranges, cnt, ret_own) : -ETIMEDOUT;
}

/* What holds up one reading does not end all of them. */
static void a_late_count_is_tried_again(void **state)
{
	struct usage u = { .followed = &f, .tell = { .names = names__new(), .push = count }, .has_kernel = 1 };

	(void)state;
	use_door_without_shadow()->pages = late_once;
	looks = 0;
	read_twice(520u << 20, &u);
	door_use(&door_own);
	assert_int_equal(uses, MT_USES); /* of the second */
	assert_int_equal(notes, 1);
	names__free(u.tell.names);
}

/* As on a machine where each part takes longer than a slice. */
static int slowly(void *ctx, pid_t pid, const struct iovec *ranges, size_t cnt, uint64_t *ret_own)
{
	(void)ctx;
	usleep(2000);
	return door_own.pages(NULL, pid, ranges, cnt, ret_own);
}

/* A walk over its page tables would hold up its mmap for longer than memtrace may: they are counted in slices. */
static void large_processes_are_counted_in_slices(void **state)
{
	struct usage u = { .followed = &f, .tell = { .names = names__new(), .push = count }, .has_kernel = 1 };

	(void)state;
	use_door_without_shadow()->pages = slowly;
	read_twice(8u << 20, &u);
	assert_true(uses == 2 * MT_USES && !unknown && !notes && !turns);
	read_twice(520u << 20, &u);
	assert_true(uses == 2 * MT_USES && unknown == 2 * 6 && !notes);
	assert_true(turns > 8); /* of 128 MiB at most */
	assert_in_range(use_of[MT_USE_PRIVATE], 520u << 20, 540u << 20);
	door_use(&door_own); /* with the sanitizer's own mappings it is none that can be counted, which is said once */
	read_twice(520u << 20, &u);
	assert_true(!uses && notes == 1);
	assert_int_equal(use_of[MT_USE_PRIVATE] + use_of[MT_USE_SHARED], use_of[MT_USE_RSS]);
	names__free(u.tell.names);
}

/* --- what their CUDA allocators count ----------------------------------------------------------------------- */

/* As a child has them from us, at the same addresses: each three words a vector of one device, which has counted nothing. */
static uint64_t object[16 * 512], vector[sizeof(object) / 8 + 1], device[256], global;

static struct process *add_child(void)
{
	pid_t pid = start_with(4096);
	struct process *p;

	next_pid = pid;
	p = add(NULL, 0);
	assert_non_null(p);
	assert_int_equal(target__open_bare(&p->target, pid, NULL, NULL), 0);
	gpu_counters__know(p, (uint64_t)(uintptr_t)&global);
	return p;
}

static void end_child(struct process *p)
{
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	process__free(followed__take(&f, p->index));
}

static void set_hostile(void)
{
	global = (uint64_t)(uintptr_t)object;
	for (size_t i = 0; i < sizeof(object) / sizeof(*object); i++) {
		object[i] = (uint64_t)(uintptr_t)&vector[i];
		vector[i] = (uint64_t)(uintptr_t)device;
	}
}

/* Whose allocator has no shape of one is looked at less and less often, and takes nobody else's turn. */
static void hostile_counters_rest(void **state)
{
	struct gpu_counters g = { .followed = &f, .tell = { .push = count } };
	uint64_t wait_ns = 250000000, begin;
	struct process *p, *q;

	(void)state;
	set_hostile();
	p = add_child();
	q = add_child();
	for (int i = 0; i < 10; i++) {
		g.find_ns = p->counters.find_ns = p->counters.at_ns = 0;
		q->counters.at_ns = g.turn = 0;
		begin = now_ns();
		gpu_counters__turn(&g, 0);
		assert_int_equal(p->counters.wait_ns, wait_ns);
		assert_true(p->counters.find_ns >= begin + wait_ns && p->counters.at_ns >= begin + 100000000);
		assert_int_equal(g.turn, 1); /* 2,000 reads take longer than a turn may */
		wait_ns = wait_ns < 16000000000 / 2 ? wait_ns * 2 : 16000000000;
	}
	g.find_ns = UINT64_MAX; /* all rest after a look */
	gpu_counters__turn(&g, 0);
	assert_int_equal(q->counters.wait_ns, 0);
	g.find_ns = q->counters.at_ns = 0;
	gpu_counters__turn(&g, 1);
	assert_int_equal(q->counters.wait_ns, 250000000);
	assert_true(g.find_ns > now_ns());
	end_child(p);
	end_child(q);
}

/* Three kinds of words of an array: the sum, small blocks, large ones; of each what is, was at most, came and went. */
static void counters_of_a_program(void **state)
{
	struct gpu_counters g = { .followed = &f, .tell = { .push = count } };
	struct process *p;

	(void)state;
	memset(object, 0, sizeof(object));
	global = (uint64_t)(uintptr_t)object;
	object[700] = (uint64_t)(uintptr_t)vector;
	object[701] = object[702] = object[700] + 8;
	vector[0] = (uint64_t)(uintptr_t)device;
	for (unsigned i = 0; i < 72; i++)
		device[5 + i] = (const uint64_t[]){ 3, 5, 9, 6, 1, 1, 4, 3, 2, 2, 5, 3 }[i % 12];
	device[0] = device[4] = ~0ull;
	p = add_child();
	counters = 0;
	gpu_counters__turn(&g, 0);
	assert_true(p->counters.places && counters == 2);
	p->counters.at_ns = 0;
	gpu_counters__turn(&g, 0);
	assert_int_equal(counters, 2); /* nothing has changed */
	p->counters.at_ns = 0;
	p->image_ns++; /* an exec: where that program has them is not known yet */
	gpu_counters__turn(&g, 1);
	assert_true(!p->counters.places && !p->counters.global && counters == 2);
	g.find_ns = 0;
	gpu_counters__know(p, (uint64_t)(uintptr_t)&global);
	gpu_counters__know(p, 0);
	gpu_counters__turn(&g, 1);
	assert_true(p->counters.places && counters == 4);
	end_child(p);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	static const struct CMUnitTest tests[] = {
		T(a_tree_alone_has_all), T(a_tree_leaves_room_for_others), T(named_trees_share), T(probed_places_are_shared),
		T(places_of_a_plan), T(parts_of_what_others_leave),
		T(a_late_count_is_tried_again), T(large_processes_are_counted_in_slices),
		T(hostile_counters_rest), T(counters_of_a_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

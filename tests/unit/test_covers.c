/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Second links at the places of sites: made in the slices of the sites, each place once, before its site. The kernel is one of
 * paper: links are files, and making one takes the time that was measured.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define cookies__begin paper_begin
#define cookies__of    paper_of
#include "../../user/trace/probes.c"

#define SITES	 3650
#define COVER_NS 1000ull
#define SET_NS	 17000ull
#define BUDGET_NS 2000000ull
#define JOB	 1 /* not us */

static uint8_t covered[SITES], set[SITES];
static uint64_t call_ns; /* that the job waited in this call */
static size_t covers_made, links_made;
static int refused; /* -errno for covers */
static uint64_t perf_ns; /* one perf uprobe */

int paper_begin(struct cookies *c, pid_t pid, const struct plan *plan, uint32_t *ret_left_out)
{
	(void)c;
	(void)pid;
	(void)plan;
	(void)ret_left_out;
	return 0;
}

int paper_of(struct cookies *c, const struct plan *plan, const struct site *s, uint64_t *ret)
{
	(void)c;
	(void)plan;
	*ret = s->offset;
	return 0;
}

static void spend(uint64_t ns)
{
	uint64_t end = cpu_ns() + ns;

	call_ns += ns;
	while (cpu_ns() < end)
		;
}

int link_uprobe_multi(int prog_fd, const char *path, const uint64_t *offsets, const uint64_t *ref_ctrs, const uint64_t *cookies,
		      size_t cnt, int is_ret, pid_t pid)
{
	(void)prog_fd;
	(void)path;
	(void)ref_ctrs;
	(void)is_ret;
	assert_true(pid == JOB || pid == getpid());
	if (pid != JOB && refused)
		return refused;
	for (size_t i = 0; i < cnt; i++) {
		assert_true(offsets[i] < SITES);
		assert_false(pid == JOB ? set[offsets[i]]++ : covered[offsets[i]]++);
		assert_true(pid != JOB || covered[offsets[i]]);
		assert_true(pid != JOB || cookies);
	}
	covers_made += pid != JOB;
	links_made += pid == JOB;
	spend(cnt * (pid == JOB ? SET_NS : COVER_NS));
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int link_perf_uprobe(int prog_fd, const char *path, uint64_t offset, uint64_t ref_ctr, uint64_t cookie, int is_ret, pid_t pid,
		     int ret_fds[2])
{
	(void)prog_fd;
	(void)path;
	(void)ref_ctr;
	(void)cookie;
	(void)is_ret;
	(void)pid;
	assert_false(covered[offset]);
	set[offset]++;
	spend(perf_ns);
	ret_fds[0] = ret_fds[1] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ret_fds[1] = dup(ret_fds[0]);
	return 0;
}

struct rig {
	struct mt_bpf *skel;
	struct probes p;
	struct plan plan;
	struct plan_lib lib;
	uint8_t wanted[SITES];
};

/* Of two programs, as operators are; places are not in order, as they are in no library. */
static void rig__init(struct rig *r, int use_perf)
{
	*r = (struct rig){ .skel = calloc(1, sizeof(*r->skel)),
			   .lib = { .dev = 1, .ino = 2, .fd = open("/dev/null", O_RDONLY) },
			   .plan = { .sites = calloc(SITES, sizeof(struct site)), .sites_cnt = SITES, .libs_cnt = 1 } };
	assert_true(r->skel && r->plan.sites && r->lib.fd >= 0);
	r->skel->bss = calloc(1, sizeof(*r->skel->bss));
	assert_non_null(r->skel->bss);
	r->plan.libs = &r->lib;
	for (size_t i = 0; i < SITES; i++) {
		r->plan.sites[i].prog = i < SITES / 2 ? MT_PROG_FLOW_OP : MT_PROG_OP;
		r->plan.sites[i].source = SRC_OPS;
		r->plan.sites[i].offset = i * 7 % SITES;
	}
	memset(r->wanted, 1, SITES);
	memset(covered, 0, SITES);
	memset(set, 0, SITES);
	covers_made = links_made = 0;
	refused = 0;
	probes__init(&r->p, r->skel, use_perf);
}

static void rig__done(struct rig *r)
{
	probes__done(&r->p);
	close(r->lib.fd);
	free(r->skel->bss);
	free(r->skel);
	free(r->plan.sites);
}

/* Until all are set: how many calls it took, and what the job waited in the longest. */
static size_t attach(struct rig *r, uint64_t budget_ns, uint64_t *ret_longest)
{
	struct attach_stats st = { .budget_ns = budget_ns, .wanted = r->wanted };
	struct err err = { 0 };
	size_t calls = 0;
	int more;

	*ret_longest = 0;
	do {
		call_ns = 0;
		more = probes__attach(&r->p, JOB, &r->plan, &st, &err);
		assert_true(more >= 0);
		*ret_longest = call_ns > *ret_longest ? call_ns : *ret_longest;
		assert_true(++calls < SITES);
	} while (more);
	assert_int_equal(st.failed, refused ? SITES : 0);
	return calls;
}

static size_t cnt_of(const uint8_t *v)
{
	size_t n = 0;

	for (size_t i = 0; i < SITES; i++)
		n += v[i];
	return n;
}

static void they_are_made_in_slices(void **state)
{
	uint64_t longest;
	size_t calls;
	struct rig r;

	(void)state;
	rig__init(&r, 0);
	calls = attach(&r, BUDGET_NS, &longest);
	assert_int_equal(cnt_of(covered), SITES);
	assert_int_equal(cnt_of(set), SITES);
	print_message("%zu calls, %zu covers, %zu links, longest %llu us\n", calls, covers_made, links_made,
		      (unsigned long long)longest / 1000);
	/* One that is amid its covers may set as many as it always may. */
	assert_true(longest <= BUDGET_NS * 5 / 4 + SLICE_SITES_MIN * SET_NS);
	assert_true(calls >= SITES * SET_NS / BUDGET_NS);
	/* Each link is a grace period where memtrace is killed. */
	assert_true(covers_made <= 2 * (SITES + COVERS_AHEAD - 1) / COVERS_AHEAD);
	assert_true(links_made <= 2 * calls);
	rig__done(&r);
}

/* A caller that came late: so many slices in one call, with rests between them. */
static void some_slices_in_one_call(void **state)
{
	struct attach_stats st = { .budget_ns = BUDGET_NS, .more = 3, .rest_ns = 2000000 };
	struct err err = { 0 };
	uint64_t begin = now_ns();
	struct rig r;

	(void)state;
	rig__init(&r, 0);
	st.wanted = r.wanted;
	assert_int_equal(probes__attach(&r.p, JOB, &r.plan, &st, &err), 1);
	assert_int_equal(st.slices, 4);
	assert_int_equal(st.more, 0);
	assert_true(now_ns() - begin >= 3 * st.rest_ns && cnt_of(set) < SITES);
	rig__done(&r);
}

static void those_that_are_wanted_have_one(void **state)
{
	uint64_t longest;
	struct rig r;

	(void)state;
	rig__init(&r, 0);
	for (size_t i = 0; i < SITES; i++)
		r.wanted[i] = i % 10 == 3;
	attach(&r, BUDGET_NS, &longest);
	assert_int_equal(cnt_of(covered), SITES / 10);
	assert_int_equal(cnt_of(set), SITES / 10);
	memset(r.wanted, 1, SITES); /* the others are called after all; asserts that none gets a second one */
	attach(&r, BUDGET_NS, &longest);
	assert_int_equal(cnt_of(covered), SITES);
	assert_int_equal(cnt_of(set), SITES);
	rig__done(&r);
}

/* The file's number is the next file's: what was covered there says nothing about it. */
static void a_file_that_goes_takes_its_own_along(void **state)
{
	uint64_t longest;
	struct rig r;
	int fd;

	(void)state;
	rig__init(&r, 0);
	attach(&r, 0, &longest);
	fd = r.p.files[0].fd;
	assert_true(covers__has(&r.p.covers, fd, 0));
	probes__detach(&r.p, JOB);
	assert_int_equal(r.p.files_cnt, 0);
	assert_false(covers__has(&r.p.covers, fd, 0));
	memset(covered, 0, SITES);
	memset(set, 0, SITES);
	r.lib.ino++;
	attach(&r, 0, &longest);
	assert_int_equal(cnt_of(covered), SITES);
	for (int i = 0; i < 20000 && !closer__is_idle(r.p.closer); i++)
		usleep(1000);
	assert_int_equal(r.p.covers.cnt, covers_made);
	probes__detach(&r.p, 12345); /* the first file's covers go with the next process that ends */
	assert_int_equal(r.p.covers.cnt, covers_made / 2);
	rig__done(&r);
}

static void without_one_nothing_is_set(void **state)
{
	struct attach_stats st = { .budget_ns = 0 };
	struct err err = { 0 };
	struct rig r;

	(void)state;
	rig__init(&r, 0);
	refused = -EPERM;
	assert_int_equal(probes__attach(&r.p, JOB, &r.plan, &st, &err), -EPERM);
	assert_int_equal(cnt_of(set), 0);
	rig__done(&r);
}

/* They have none. While others are closed one waits for a grace period or two, and who asked for it drains no ring. */
static void perf_uprobes_are_set_one_by_one(void **state)
{
	uint64_t longest;
	struct rig r;

	(void)state;
	rig__init(&r, 1);
	r.plan.sites_cnt = 40;
	perf_ns = 20000000;
	assert_int_equal(attach(&r, BUDGET_NS, &longest), 40);
	assert_int_equal(longest, perf_ns);
	assert_int_equal(cnt_of(set), 40);
	perf_ns = 10000; /* nobody closes any */
	r.plan.sites_cnt = 400;
	assert_true(attach(&r, BUDGET_NS, &longest) < 180 && longest <= BUDGET_NS);
	assert_int_equal(cnt_of(set), 400);
	assert_int_equal(cnt_of(covered), 0);
	perf_ns = 0;
	rig__done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(they_are_made_in_slices),
		cmocka_unit_test(some_slices_in_one_call),
		cmocka_unit_test(those_that_are_wanted_have_one),
		cmocka_unit_test(a_file_that_goes_takes_its_own_along),
		cmocka_unit_test(without_one_nothing_is_set),
		cmocka_unit_test(perf_uprobes_are_set_one_by_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

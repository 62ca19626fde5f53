/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/usage.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "live/followed.h"
#include "event/event.h"
#include "target/pages.h"
#include "target/target.h"

/*
 * RSS is read, not traced: the kernel's tracepoint is hit twice for every page (bpf/kernel.bpf.c). A reading takes 20 us, so a
 * turn (every 10 ms) ends after RSS_TURN_NS, and many processes are each read less often. A peak between two readings is known
 * from the kernel's high-water mark; it is reported as anonymous, as such memory mostly is.
 */
#define RSS_EVERY_NS 100000000ull
#define RSS_SELDOM_NS 500000000ull /* between windows of tracing */
#define RSS_TURN_NS 500000ull
#define RSS_STEP (1u << 20) /* a smaller change is reported only at the end */

static void usage__push_rss_kind(const struct usage *u, const struct process *p, unsigned kind, uint64_t bytes)
{
	tell__event(&u->tell, (struct event){ .kind = MT_EV_RSS, .pid = (uint32_t)p->pid, .tid = (uint32_t)p->pid,
					.addr = kind, .size = bytes });
}

static bool is_step(uint64_t a, uint64_t b)
{
	return (a > b ? a - b : b - a) >= RSS_STEP;
}

void usage__push_rss(const struct usage *u, struct process *p, int all)
{
	struct target_rss now;
	uint64_t bytes[MT_RSS_KINDS], total;
	bool is_peak;

	p->usage.rss_at_ns = now_ns() + (u->is_seldom ? RSS_SELDOM_NS : RSS_EVERY_NS);
	if (!u->has_kernel || target__rss(p->target, &now) < 0)
		return;
	bytes[MT_RSS_FILE] = now.file;
	bytes[MT_RSS_ANON] = now.anon;
	bytes[MT_RSS_SWAP] = now.swap;
	bytes[MT_RSS_SHMEM] = now.shmem;
	total = now.anon + now.file + now.shmem;
	is_peak = p->usage.rss_high && now.high > p->usage.rss_high && now.high > total && is_step(now.high, total);
	p->usage.rss_high = now.high;
	for (unsigned i = 0; i < MT_RSS_KINDS; i++) {
		if (!all && !is_peak && !is_step(bytes[i], p->usage.rss_reported[i]))
			continue;
		usage__push_rss_kind(u, p, i, bytes[i]);
		p->usage.rss_reported[i] = bytes[i];
	}
	if (!is_peak)
		return;
	usage__push_rss_kind(u, p, MT_RSS_ANON, now.anon + (now.high - total));
	usage__push_rss_kind(u, p, MT_RSS_ANON, now.anon);
}

static void usage__turn_resident(struct usage *u, int all)
{
	uint64_t begin = now_ns();

	for (size_t i = 0; u->has_kernel && i < u->followed->procs_cnt && (all || now_ns() - begin < RSS_TURN_NS); i++) {
		struct process *p = u->followed->procs[(u->rss_turn + i) % u->followed->procs_cnt];

		if (p && (all || begin >= p->usage.rss_at_ns))
			usage__push_rss(u, p, all);
	}
	u->rss_turn = u->followed->procs_cnt ? (u->rss_turn + 1) % u->followed->procs_cnt : 0;
}

/*
 * smaps_rollup walks the page tables of a process under its mmap lock: 12 to 18 ms for a GiB of small pages (0.15 ms of huge
 * ones). The kernel releases the lock between two mappings if somebody waits for it, but not within one: a mmap waited 35 ms
 * while a single mapping of 3 GiB was read, and the heap of a job soon has that size. So where a process has more of one kind
 * than one mapping may have for a wait of less than 10 ms, its pages are counted instead (target/pages.h). The time between two
 * readings is USE_REST times the duration of the last one, which keeps the lock taken for half a percent of the time; a turn
 * ends after USE_TURN_NS, because rings are not drained meanwhile.
 */
#define USE_EVERY_NS 2000000000ull
#define USE_REST 200
#define USE_TURN_NS 20000000ull
#define USE_END_NS 300000000ull /* at the end there is nothing to drain for */
#define USE_MAPPING_MAX (512ull << 20) /* 6 to 9 ms */

/*
 * Pages are counted in slices, one process after the other, and after each slice nothing is counted for PAGES_REST times as
 * long: 2 % of a CPU for all processes together. What is left of a slice is carried over to the next.
 */
#define PAGES_SLICE_NS 1000000ull
#define PAGES_REST 50
#define USE_WIDE_NS 60000000000ull /* the pause for a process that has mapped too much */

static int is_large(const struct target_rss *rss)
{
	return rss->anon > USE_MAPPING_MAX || rss->file > USE_MAPPING_MAX || rss->shmem > USE_MAPPING_MAX;
}

static void usage__push_kinds(const struct usage *u, const struct process *p, const uint64_t use[MT_USES], uint32_t known)
{
	uint64_t ts_ns = now_ns();

	for (unsigned i = 0; i < MT_USES; i++)
		tell__event(&u->tell, (struct event){ .ts_ns = ts_ns, .kind = EV_USE, .pid = (uint32_t)p->pid, .aux = i,
						.size = use[i], .flags = !(known & 1u << i) });
}

/* A process that has ended needs no note. */
static void usage__not_counted(const struct usage *u, struct process *p, int why)
{
	char text[128];

	if (p->usage.is_use_noted || why == -ESRCH)
		return;
	snprintf(text, sizeof(text), "private and shared bytes are not read: %s",
		 why == -EFBIG ? "the process has mapped more than 1 TiB" : strerror(-why));
	tell__note(&u->tell, p->pid, text);
	p->usage.is_use_noted = 1;
}

static void usage__count_pages(const struct usage *u, struct process *p, uint64_t until_ns)
{
	uint64_t use[MT_USES] = { 0 }, own;
	uint32_t known;
	int r = pages_walk__go(p->usage.walk, until_ns, &own);

	if (!r)
		return;
	pages_walk__free(p->usage.walk);
	p->usage.walk = NULL;
	p->usage.use_at_ns = now_ns() + (r == -EFBIG ? USE_WIDE_NS : USE_EVERY_NS);
	if (r < 0)
		usage__not_counted(u, p, r);
	else if (!target__use_of_pages(p->target, own, use, &known))
		usage__push_kinds(u, p, use, known);
}

static void usage__turn_pages(struct usage *u)
{
	size_t cnt = u->followed->procs_cnt;
	uint64_t begin = now_ns();

	if (begin < u->pages_at_ns)
		return;
	for (size_t i = 0; i < cnt; i++) {
		size_t at = (u->pages_turn + i) % cnt;
		struct process *p = u->followed->procs[at];

		if (!p || !p->usage.walk)
			continue;
		usage__count_pages(u, p, begin + PAGES_SLICE_NS);
		u->pages_turn = at + !p->usage.walk;
		u->pages_at_ns = begin + (now_ns() - begin) * PAGES_REST;
		return;
	}
}

void usage__turn(struct usage *u)
{
	usage__turn_resident(u, 0);
	usage__turn_pages(u);
}

void usage__push_resident(struct usage *u)
{
	usage__turn_resident(u, 1);
}

static void usage__begin_pages(const struct usage *u, struct process *p)
{
	int r = pages_walk__new(&p->usage.walk, p->target);

	if (r < 0)
		usage__not_counted(u, p, r);
}

static void usage__push_use(const struct usage *u, struct process *p)
{
	uint64_t use[MT_USES] = { 0 }, begin = now_ns(), took;
	struct target_rss rss;

	p->usage.use_at_ns = begin + USE_EVERY_NS;
	if (target__rss(p->target, &rss) < 0)
		return;
	if (is_large(&rss)) {
		usage__begin_pages(u, p);
		return;
	}
	if (target__use(p->target, use) < 0)
		return;
	took = now_ns() - begin;
	p->usage.use_took_ns = took;
	if (took > USE_EVERY_NS / USE_REST)
		p->usage.use_at_ns = begin + took * USE_REST;
	usage__push_kinds(u, p, use, UINT32_MAX);
}

void usage__push_uses(struct usage *u, int all)
{
	uint64_t begin = now_ns(), turn_ns = all ? USE_END_NS : USE_TURN_NS;

	for (size_t i = 0; u->has_kernel && i < u->followed->procs_cnt && now_ns() - begin < turn_ns; i++) {
		struct process *p = u->followed->procs[(u->use_turn + i) % u->followed->procs_cnt];

		if (!p || (!all && begin < p->usage.use_at_ns) || (all && p->usage.use_took_ns > turn_ns))
			continue;
		if (!p->usage.walk)
			usage__push_use(u, p);
		if (all && p->usage.walk)
			usage__count_pages(u, p, begin + turn_ns);
	}
	u->use_turn = u->followed->procs_cnt ? (u->use_turn + 1) % u->followed->procs_cnt : 0;
}

/* Taken at the attach: its share of costs is counted from the first reading. */
void usage__push_cpu(const struct usage *u, const struct process *p)
{
	uint64_t cpu_ns, rss;
	unsigned threads;

	if (!target__usage(p->target, &cpu_ns, &rss, &threads))
		tell__event(&u->tell, (struct event){ .kind = EV_CPU, .pid = (uint32_t)p->pid, .size = cpu_ns });
}

void usage__push_cpus(const struct usage *u)
{
	const struct process *p;

	for (size_t at = 0; (p = followed__next(u->followed, &at));)
		usage__push_cpu(u, p);
}

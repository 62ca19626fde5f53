/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "trace/taps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "memtrace/shared.h"
#include "memtrace.skel.h"

struct taps {
	struct taps_desc desc;
	struct taps_progs progs;
	struct rings rings;
	struct mt_bpf__bss *bss;
	uint32_t live_over_reported;
	int epoll_fd;
};

/* --- sums ------------------------------------------------------------------------------------ */

unsigned costs_of(const struct costs *c, enum mt_prog prog)
{
	enum insn_class class;

	if (prog == MT_PROG_HOST_EXIT)
		return calib__cost_ns(c->calib, c->classes, MT_PROG_HOST_FREE, INSN_RET); /* the two are alike */
	if (prog == MT_PROG_SYSCALL || prog == MT_PROG_EXIT)
		return c->kernel_ns;
	class = c->progs.class[prog] ? (enum insn_class)c->progs.class[prog] : INSN_PUSH;
	/* A look-up does as little as a region's end, and is as rare. */
	return calib__cost_ns(c->calib, c->classes, prog == MT_PROG_LOOKUP ? MT_PROG_REGION_END : prog, class);
}

void counters_sum(const struct mt_counters *per_cpu, const struct costs *costs, struct trace_counters *ret)
{
	uint64_t stack_ns = 0, module_ns = 0;

	memset(ret, 0, sizeof(*ret));
	for (size_t cpu = 0; cpu < MT_CPUS_MAX; cpu++) {
		const struct mt_counters *c = &per_cpu[cpu];

		stack_ns += __atomic_load_n(&c->stack_ns, __ATOMIC_RELAXED);
		module_ns += __atomic_load_n(&c->module_ns, __ATOMIC_RELAXED);
		for (unsigned i = 0; i < MT_PROG_MAX; i++)
			ret->hits[i] += __atomic_load_n(&c->hits[i], __ATOMIC_RELAXED);
		for (unsigned i = 0; i < MT_LOSS_MAX; i++)
			ret->loss[i] += __atomic_load_n(&c->loss[i], __ATOMIC_RELAXED);
	}
	ret->loss[MT_LOSS_SITES] += costs->progs.failed_cnt;
	for (unsigned i = 0; i < MT_PROG_MAX; i++)
		ret->cost_ns[i] = i == MT_PROG_STACK  ? stack_ns :
				  i == MT_PROG_MODULE ? module_ns :
							ret->hits[i] * costs_of(costs, (enum mt_prog)i);
}

/* --- life ------------------------------------------------------------------------------------ */

/* Takes ownership of fds[0, n) in any case: n is returned in *ret_taken. */
static int taps__map(struct taps *t, const int *fds, unsigned *ret_taken, struct err *err)
{
	void *p;

	for (unsigned i = 0; i < t->desc.rings_cnt; i++) {
		struct epoll_event ev = { .events = EPOLLIN, .data.u32 = i };
		int r = rings__add(&t->rings, fds[i], t->desc.ring_bytes);

		*ret_taken = i + 1;
		if (r < 0)
			return err_set(err, r, "mapping a ring buffer: %s", strerror(-r));
		if (epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fds[i], &ev) < 0)
			return err_set(err, -errno, "setting up ring %u: %s", i, strerror(errno));
	}
	/*
	 * Writable, because the kernel maps such a map shared or not at all, and shared needs a writable descriptor. Its
	 * content decides what is reported, never where the programs read or write.
	 */
	p = mmap(NULL, t->desc.bss_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[t->desc.rings_cnt], 0);
	if (p == MAP_FAILED)
		return err_set(err, -errno, "mapping the counters: %s", strerror(errno));
	t->bss = p;
	return 0;
}

int taps__new(struct taps **ret, const struct taps_desc *desc, const int *fds, size_t fds_cnt, struct err *err)
{
	struct taps *t = calloc(1, sizeof(*t));
	unsigned taken = 0;
	int r = t ? 0 : err_set(err, -ENOMEM, "out of memory");

	if (!r && (desc->rings_cnt > MT_RINGS_MAX || fds_cnt != desc->rings_cnt + 1u ||
		   desc->bss_bytes < sizeof(struct mt_bpf__bss)))
		r = err_set(err, -EPROTO, "%zu descriptors for %u rings", fds_cnt, desc->rings_cnt);
	if (t) {
		t->desc = *desc;
		t->epoll_fd = -1;
		rings__init(&t->rings);
	}
	if (!r) {
		t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		r = t->epoll_fd < 0 ? err_set(err, -errno, "epoll: %s", strerror(errno)) : taps__map(t, fds, &taken, err);
	}
	for (size_t i = taken; i < fds_cnt; i++)
		close(fds[i]);
	if (r < 0) {
		taps__free(t);
		return r;
	}
	*ret = t;
	return 0;
}

void taps__free(struct taps *t)
{
	if (!t)
		return;
	rings__done(&t->rings);
	if (t->bss)
		munmap(t->bss, t->desc.bss_bytes);
	if (t->epoll_fd >= 0)
		close(t->epoll_fd);
	free(t);
}

void taps__set_progs(struct taps *t, const struct taps_progs *progs)
{
	t->progs = *progs;
	for (unsigned i = 0; i < MT_PROG_MAX; i++)
		if (t->progs.class[i] >= INSN_CLASSES)
			t->progs.class[i] = INSN_STEPPED;
}

/* --- data ------------------------------------------------------------------------------------ */

int taps__tells_victims(const struct taps *t)
{
	return t->desc.tells_victims != 0;
}

const struct insn_classes *taps__insn_classes(const struct taps *t)
{
	return &t->desc.classes;
}

int taps__fd(const struct taps *t)
{
	return t->epoll_fd;
}

int taps__drain(struct taps *t, uint64_t budget_ns, int (*fn)(void *ctx, const void *rec, size_t len), void *ctx,
		struct drained *ret)
{
	long n = rings__drain(&t->rings, budget_ns, fn, ctx, ret);

	return n > INT32_MAX ? INT32_MAX : (int)n;
}

void taps__counters(const struct taps *t, struct trace_counters *ret)
{
	struct costs c = { &t->desc.calib, &t->desc.classes, t->desc.kernel_ns, t->progs };

	counters_sum(t->bss->mt_counters, &c, ret);
}

const struct mt_shares *taps__shares(const struct taps *t, size_t *ret_cnt)
{
	*ret_cnt = t->desc.rings_cnt;
	return t->bss->mt_shares;
}

pid_t taps__next_live_over(struct taps *t)
{
	uint32_t cnt = __atomic_load_n(&t->bss->mt_live_over_cnt, __ATOMIC_ACQUIRE);

	if (cnt - t->live_over_reported > MT_LIVE_OVER_MAX)
		t->live_over_reported = cnt - MT_LIVE_OVER_MAX;
	return t->live_over_reported == cnt ? 0 : (pid_t)t->bss->mt_live_over[t->live_over_reported++ % MT_LIVE_OVER_MAX];
}

uint64_t taps__looked_up(const struct taps *t)
{
	return __atomic_exchange_n(&t->bss->mt_looked_up_ns, 0, __ATOMIC_ACQ_REL);
}

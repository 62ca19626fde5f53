/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#define LOG_MODULE "trace"
#include "trace/probes.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "memtrace.skel.h"
#include "trace/closer.h"
#include "trace/link.h"
#include "trace/trace.h"

#define SITE_NS 50000ull      /* measured: 40 to 50 us each while a job runs; more where many processes share the file */
#define SITE_NS_MIN 15000ull  /* where a cover was there before: the first few cost less than the rest */
#define SLICE_SITES_MIN 8     /* however long they take: there is always progress */
#define SLICE_SITES_PERF 1    /* while others are closed one takes 40 ms and more: the drain waits for that */
/*
 * One link cannot be set or closed in part, and a site may suddenly cost five times as much as those before (7 to 40 us where a
 * thread of the job maps memory all the time).
 */
#define LINK_SITES_MAX 64
#define COVERS_AHEAD 512      /* 0.5 to 3 us each, less than a slice; a link is a grace period where memtrace is killed */

static struct bpf_program *prog_of(const struct mt_bpf *skel, enum mt_prog prog)
{
	switch (prog) {
	case MT_PROG_FW_NEW: return skel->progs.mt_fw_new;
	case MT_PROG_FW_DELETE: return skel->progs.mt_fw_delete;
	case MT_PROG_FW_OOM: return skel->progs.mt_fw_oom;
	case MT_PROG_OP: return skel->progs.mt_op;
	case MT_PROG_NODE: return skel->progs.mt_node;
	case MT_PROG_REGION_BEGIN: return skel->progs.mt_region_begin;
	case MT_PROG_REGION_END: return skel->progs.mt_region_end;
	case MT_PROG_HOST_FREE: return skel->progs.mt_host_free;
	case MT_PROG_HOST_ENTER: return skel->progs.mt_host_enter;
	case MT_PROG_HOST_RET: return skel->progs.mt_host_ret;
	case MT_PROG_HOST_EXIT: return skel->progs.mt_host_exit;
	case MT_PROG_USDT: return skel->progs.mt_usdt;
	case MT_PROG_FLOW_OP: return skel->progs.mt_flow_op;
	case MT_PROG_FLOW_APPLY: return skel->progs.mt_flow_apply;
	case MT_PROG_FLOW_ACC: return skel->progs.mt_flow_acc;
	case MT_PROG_FLOW_BOXED: return skel->progs.mt_flow_boxed;
	case MT_PROG_FW_USAGE: return skel->progs.mt_fw_usage;
	case MT_PROG_FW_USAGE_OOM: return skel->progs.mt_fw_usage_oom;
	case MT_PROG_SEG_ENTER: return skel->progs.mt_seg_enter;
	case MT_PROG_SEG_RET: return skel->progs.mt_seg_ret;
	case MT_PROG_LOOKUP: return skel->progs.mt_lookup;
	default: return NULL;
	}
}

/* A descriptor of that file, kept for later plans of forked children; -errno. */
static int probes__file(struct probes *p, const struct plan_lib *lib)
{
	int fd;

	for (size_t i = 0; i < p->files_cnt; i++)
		if (p->files[i].dev == lib->dev && p->files[i].ino == lib->ino)
			return p->files[i].fd;
	fd = fcntl(lib->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (!array_has_room(p->files, p->files_cnt, p->files_cap, 16)) {
		close(fd);
		return -ENOMEM;
	}
	p->files[p->files_cnt++] = (struct file){ lib->dev, lib->ino, fd };
	return fd;
}

/*
 * Time without the time spent waiting for a CPU: a tracer that is preempted all the time would otherwise set only a few sites a
 * slice, for a minute (seen at nice 15 beside two busy loops).
 */
static uint64_t work_ns(void)
{
	FILE *f = fopen("/proc/thread-self/schedstat", "re");
	uint64_t waited = 0;

	if (f) {
		if (fscanf(f, "%*u %" SCNu64, &waited) != 1)
			waited = 0; /* not supported by this kernel */
		fclose(f);
	}
	return now_ns() - waited;
}

/* Updates the time per site. The first of a file waits for a grace period, so a much higher value counts only in steps. */
static void probes__took(struct probes *p, uint64_t ns, size_t cnt)
{
	uint64_t each = ns / cnt;

	if (each > 2 * p->site_ns)
		each = 2 * p->site_ns;
	p->site_ns = (p->site_ns + each) / 2;
	if (p->site_ns < SITE_NS_MIN)
		p->site_ns = SITE_NS_MIN;
}

/* How many more sites a call begun then may set. A link, with its grace period, is too expensive for the last few. */
static size_t probes__room(const struct probes *p, uint64_t budget_ns, uint64_t begin)
{
	uint64_t spent = work_ns() - begin;

	if (!budget_ns)
		return SIZE_MAX;
	return spent < budget_ns - budget_ns / 4 ? (size_t)((budget_ns - spent) / p->site_ns) : 0;
}

/* How many sites the next link may have, at least `least`. Without a budget (the process does not run) all of them. */
static size_t link_max(uint64_t budget_ns, size_t room, size_t least)
{
	if (budget_ns && room > LINK_SITES_MAX)
		room = LINK_SITES_MAX;
	return room > least ? room : least;
}

static int cover_prog(const struct probes *p)
{
	return bpf_program__fd(p->skel->progs.mt_cover);
}

int probes__link(struct probes *p, const struct link_key *k, int is_first, const char *path, const uint64_t *offsets,
		 const uint64_t *refs, const uint64_t *cookies, size_t cnt)
{
	int prog_fd = bpf_program__fd(prog_of(p->skel, k->prog)), fds[2], r;

	if (!p->use_perf) {
		r = 0;
		if (k->file_fd >= 0 && k->pid != getpid())
			r = covers__add(&p->covers, cover_prog(p), k->file_fd, path, offsets, refs, cnt);
		if (r < 0)
			return r;
		r = link_uprobe_multi(prog_fd, path, offsets, refs, cookies, cnt, k->is_ret, k->pid);
		return r < 0 ? r : links__add(&p->links, k, is_first, (int[]){ r, -1 }, offsets, cnt);
	}
	for (size_t i = 0; i < cnt; i++) {
		r = link_perf_uprobe(prog_fd, path, offsets[i], refs ? refs[i] : 0, cookies[i], k->is_ret, k->pid,
				     fds);
		if (!r)
			r = links__add(&p->links, k, is_first, fds, offsets + i, 1);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Sites of a plan with the same file and program. */
struct site_group {
	const struct site *sites;
	size_t sites_cnt;
	size_t max; /* how many may be set now: the group ends there */
	const uint8_t *wanted; /* of the group's first site, or NULL */
	uint8_t *failed; /* likewise */
	int is_first;
	/* those that are to be set */
	size_t cnt;
	uint64_t *offsets, *refs, *cookies;
	uint32_t *at; /* index into sites */
	struct link_key key;
	int has_refs;
};

static struct link_key site_group__key(const struct site_group *g, pid_t pid, int fd)
{
	return (struct link_key){ pid, fd, (enum mt_prog)g->sites->prog, g->sites->is_ret, site__level(g->sites) };
}

static int is_operator(uint32_t prog)
{
	return prog == MT_PROG_OP || prog == MT_PROG_FLOW_OP;
}

static int source_index(enum source s)
{
	return __builtin_ctz((unsigned)s);
}

static void site_group__fail(struct site_group *g, size_t from, size_t to, int code, struct attach_stats *st,
			     int *first_err)
{
	st->failed += to - from;
	for (size_t i = from; i < to; i++) {
		/* The kernel has one reference counter per place: the first probe there decided that it has none. */
		st->clashed += code == -EINVAL && g->sites[g->at[i]].ref_ctr_offset != 0;
		if (g->failed)
			g->failed[g->at[i]] = 1;
	}
	if (!*first_err)
		*first_err = code;
}

/* A site without room for its spec fails alone, without the others. 0. */
static int site_group__fail_one(struct site_group *g, size_t i, struct attach_stats *st)
{
	st->failed++;
	if (g->failed)
		g->failed[i] = 1;
	return 0;
}

/* Counts a site that was set. */
static void probes__attached(struct probes *p, const struct site *s, struct attach_stats *st)
{
	enum insn_class *c = &p->prog_class[s->prog];

	if (!*c || s->insn_class < *c)
		*c = s->insn_class;
	st->attached_by_source[source_index(s->source)]++;
	st->attached++;
}

/* Attaches group[from, to); a link refused as a whole is split until the failing sites are alone. */
static void probes__attach_range(struct probes *p, const char *path, struct site_group *g, size_t from, size_t to,
				 struct attach_stats *st, int *first_err)
{
	uint64_t begin = work_ns();
	int r = probes__link(p, &g->key, g->is_first, path, g->offsets + from, g->has_refs ? g->refs + from : NULL,
			     g->cookies + from, to - from);

	if (r == 0) {
		probes__took(p, work_ns() - begin, to - from);
		st->set += (uint32_t)(to - from);
		for (size_t i = from; i < to; i++)
			probes__attached(p, &g->sites[g->at[i]], st);
		return;
	}
	if (to - from > 1 && r != -ESRCH) {
		size_t mid = from + (to - from) / 2;

		probes__attach_range(p, path, g, from, mid, st, first_err);
		probes__attach_range(p, path, g, mid, to, st, first_err);
		return;
	}
	log_debug("%s+0x%llx: %s", path, (unsigned long long)g->offsets[from], strerror(-r));
	site_group__fail(g, from, to, r, st, first_err);
}

static int is_in(const uint64_t *sorted, size_t cnt, uint64_t v)
{
	size_t lo = 0, hi = cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (sorted[mid] < v)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < cnt && sorted[lo] == v;
}

/* Adds site i of the group to those to be set. */
static int probes__choose(struct probes *p, const struct plan *plan, struct site_group *g, size_t i)
{
	const struct site *s = &g->sites[i];
	int r = cookies__of(&p->cookies, plan, s, &g->cookies[g->cnt]);

	if (r < 0)
		return r;
	if (g->is_first)
		g->cookies[g->cnt] |= MT_COOKIE_FIRST;
	g->offsets[g->cnt] = s->offset;
	g->refs[g->cnt] = s->ref_ctr_offset;
	g->has_refs |= s->ref_ctr_offset != 0;
	g->at[g->cnt++] = (uint32_t)i;
	return 0;
}

/* An exec keeps the probes of a process, and two plans may contain the same library: each place is set once. */
static int probes__choose_all(struct probes *p, const struct plan *plan, struct site_group *g, struct attach_stats *st)
{
	uint64_t *have;
	size_t have_cnt;
	int r = links__offsets(&p->links, &g->key, LINKS_ALL, &have, &have_cnt);

	if (r < 0)
		return r;
	for (size_t i = 0; i < g->sites_cnt && !r; i++) {
		if (g->cnt == g->max) {
			g->sites_cnt = i;
			break;
		}
		if (g->wanted && !g->wanted[i])
			continue;
		st->found_by_source[source_index(g->sites[i].source)]++;
		if (is_in(have, have_cnt, g->sites[i].offset))
			probes__attached(p, &g->sites[i], st);
		else
			r = probes__choose(p, plan, g, i);
		if (r == -ENOSPC) /* no room for its spec: there may be for the others' */
			r = site_group__fail_one(g, i, st);
	}
	free(have);
	return r;
}

static void probes__attach_group(struct probes *p, pid_t pid, const struct plan *plan, struct site_group *g,
				 struct attach_stats *st, int *first_err)
{
	int fd = probes__file(p, &plan->libs[g->sites->lib]), r;
	char path[64];

	g->key = site_group__key(g, pid, fd);
	g->is_first = !g->wanted && is_operator(g->sites->prog);
	g->cnt = 0;
	g->has_refs = 0;
	r = fd < 0 ? fd : probes__choose_all(p, plan, g, st);
	if (r < 0) {
		for (size_t i = 0; i < g->sites_cnt; i++)
			g->at[i] = (uint32_t)i;
		site_group__fail(g, 0, g->sites_cnt, r, st, first_err);
		return;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (g->cnt)
		probes__attach_range(p, path, g, 0, g->cnt, st, first_err);
}

static int site_group__init(struct site_group *g, size_t sites_cnt)
{
	size_t n = sites_cnt ? sites_cnt : 1;

	*g = (struct site_group){ .max = SIZE_MAX };
	g->offsets = malloc(n * (3 * sizeof(*g->offsets) + sizeof(*g->at)));
	if (!g->offsets)
		return -ENOMEM;
	g->refs = g->offsets + n;
	g->cookies = g->refs + n;
	g->at = (uint32_t *)(g->cookies + n);
	return 0;
}

/* Selects the plan's sites from i on that form one group. */
static size_t site_group__begin(struct site_group *g, const struct plan *plan, size_t i)
{
	const struct site *s = &plan->sites[i];
	size_t n = 0;

	while (i + n < plan->sites_cnt && s[n].lib == s->lib && s[n].prog == s->prog && s[n].is_ret == s->is_ret &&
	       site__level(&s[n]) == site__level(s))
		n++;
	g->sites = s;
	g->sites_cnt = n;
	return n;
}

static int probes__is_partial(const struct probes *p, pid_t pid)
{
	uint32_t key = (uint32_t)pid;
	uint8_t one;

	return !bpf_map_lookup_elem(bpf_map__fd(p->skel->maps.partial), &key, &one);
}

/* Stops (on), or resumes, reporting operators of a process: see is_partial in bpf/lib/frames.h. */
static void probes__set_partial(struct probes *p, pid_t pid, int on)
{
	int fd = bpf_map__fd(p->skel->maps.partial);
	uint32_t key = (uint32_t)pid;
	uint8_t one = 1;

	/* If the map is full, they are reported. */
	if (on && !bpf_map_update_elem(fd, &key, &one, BPF_NOEXIST))
		p->skel->bss->mt_partial_cnt++;
	else if (!on && !bpf_map_delete_elem(fd, &key))
		p->skel->bss->mt_partial_cnt--;
}

/* The result, once all of the plan's sites had their turn. */
static int probes__attach_end(struct probes *p, pid_t pid, struct attach_stats *st, struct err *err)
{
	if (st->first_err != -ESRCH) /* nothing is missing of a process that has ended */
		p->failed_cnt += st->failed;
	if (st->attached || !st->failed)
		return 0;
	st->first_err = st->first_err ? st->first_err : -ENOSPC;
	err_set(err, st->first_err, "none of %u probes could be set in process %d: %s", st->failed, (int)pid,
		strerror(-st->first_err));
	return err_hint(err, st->first_err == -ESRCH ? "the process has ended" :
						       "try -vv for the reason of each, or memtrace doctor");
}

/*
 * Covers places from st->at on before their sites are set, of which `room` may be: the job waits while many are covered, too,
 * and one link for each slice of sites would be too many. A process that probes itself (tests) needs none. A failure here is
 * reported when the site is set.
 */
static void probes__cover(struct probes *p, pid_t pid, const struct plan *plan, const struct attach_stats *st, size_t room,
			  struct site_group *g)
{
	const struct site *first = &plan->sites[st->at], *end = &plan->sites[plan->sites_cnt];
	int fd = p->use_perf || pid == getpid() ? -1 : probes__file(p, &plan->libs[first->lib]), is_covered = 1;
	char path[64];

	if (fd < 0)
		return;
	g->cnt = 0;
	for (const struct site *s = first; s < end && s->lib == first->lib && g->cnt < COVERS_AHEAD; s++) {
		if (site__is_mark(s) != site__is_mark(first))
			break;
		if (st->wanted && !st->wanted[s - plan->sites])
			continue;
		is_covered &= g->cnt >= room || covers__has(&p->covers, fd, s->offset);
		g->offsets[g->cnt] = s->offset;
		g->refs[g->cnt++] = s->ref_ctr_offset;
	}
	if (is_covered)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	(void)covers__add(&p->covers, cover_prog(p), fd, path, g->offsets, g->refs, g->cnt);
}

/* Marks of steps; other sites; operators: the caller may pause between these stages. */
static int site__stage(const struct site *s)
{
	return site__is_mark(s) ? 0 : is_operator(s->prog) ? 2 : 1;
}

/* A call that has set sites of one stage does not go on to the next. */
static int attach_stats__may_rest(const struct attach_stats *st, size_t from, const struct plan *plan)
{
	return st->budget_ns && st->at > from && site__stage(&plan->sites[st->at]) != site__stage(&plan->sites[st->at - 1]);
}

static int probes__attach_slice(struct probes *p, pid_t pid, const struct plan *plan, struct attach_stats *ret,
				struct err *err)
{
	uint64_t begin, worked, took;
	struct attach_stats st = *ret;
	int r = cookies__begin(&p->cookies, pid, plan, st.at ? NULL : &st.classes_left_out);
	size_t room, least = p->use_perf ? SLICE_SITES_PERF : SLICE_SITES_MIN;
	struct site_group g;

	if (!r)
		r = site_group__init(&g, plan->sites_cnt);
	if (r < 0) {
		if (st.is_partial)
			probes__set_partial(p, pid, 0);
		return err_set(err, r, "places of operators and tensors: %s", strerror(-r));
	}
	begin = now_ns();
	worked = work_ns();
	st.way = p->use_perf;
	/* An attach that was given up in the middle (exec) has left it partial. */
	if (!st.at && st.budget_ns && (probes__is_partial(p, pid) || !links__has_operators(&p->links, pid))) {
		probes__set_partial(p, pid, 1);
		st.is_partial = 1;
	}
	while (st.at < plan->sites_cnt && !attach_stats__may_rest(&st, ret->at, plan)) {
		room = probes__room(p, st.budget_ns, worked);
		if (!room && !least)
			break;
		probes__cover(p, pid, plan, &st, room > least ? room : least, &g);
		room = probes__room(p, st.budget_ns, worked);
		site_group__begin(&g, plan, st.at);
		g.max = p->use_perf ? SLICE_SITES_PERF : link_max(st.budget_ns, room, least);
		g.wanted = st.wanted ? st.wanted + st.at : NULL;
		g.failed = st.site_failed ? st.site_failed + st.at : NULL;
		probes__attach_group(p, pid, plan, &g, &st, &st.first_err);
		st.at += g.sites_cnt;
		least -= least < g.cnt ? least : g.cnt;
	}
	free(g.offsets);
	took = now_ns() - begin;
	st.took_ns += took;
	st.longest_ns = took > st.longest_ns ? took : st.longest_ns;
	st.slices++;
	st.slots_left_out += p->cookies.slots_left_out;
	*ret = st;
	if (st.at < plan->sites_cnt)
		return 1;
	if (st.is_partial)
		probes__set_partial(p, pid, 0);
	return probes__attach_end(p, pid, &st, err);
}

int probes__attach(struct probes *p, pid_t pid, const struct plan *plan, struct attach_stats *ret, struct err *err)
{
	for (;;) {
		size_t from = ret->at;
		int r = probes__attach_slice(p, pid, plan, ret, err);

		if (r != 1 || !ret->more || attach_stats__may_rest(ret, from, plan))
			return r;
		ret->more--;
		sleep_until(now_ns() + ret->rest_ns);
	}
}

/* --- what is no longer wanted ------------------------------------------------------------------ */

/* Number of the group's wanted sites that are in a sorted list. */
static size_t site_group__wanted_in(const struct site_group *g, const uint64_t *offsets, size_t cnt)
{
	size_t n = 0;

	for (size_t i = 0; i < g->sites_cnt; i++)
		n += g->wanted[i] && is_in(offsets, cnt, g->sites[i].offset);
	return n;
}

/* Links whose sites are all wanted stay as they are. */
static void probes__keep_whole(struct probes *p, const struct site_group *g)
{
	for (size_t i = 0; i < p->links.cnt; i++) {
		struct link *l = &p->links.v[i];

		if (l->is_first && link_key_same(&l->key, &g->key) &&
		    site_group__wanted_in(g, l->offsets, l->offsets_cnt) == l->offsets_cnt)
			l->is_first = 0;
	}
}

/* Sets the wanted sites again, in a link without the others. 1: some are left. */
static int probes__set_anew(struct probes *p, const struct plan *plan, struct site_group *g, const uint64_t *first,
			    size_t first_cnt)
{
	uint64_t *have, begin = work_ns();
	size_t have_cnt;
	char path[64];
	int r = links__offsets(&p->links, &g->key, LINKS_LATER, &have, &have_cnt), more = 0;

	if (r < 0)
		return r;
	g->cnt = 0;
	g->has_refs = g->is_first = 0;
	for (size_t i = 0; i < g->sites_cnt && !r && !more; i++) {
		uint64_t at = g->sites[i].offset;

		if (!g->wanted[i] || !is_in(first, first_cnt, at) || is_in(have, have_cnt, at))
			continue;
		more = g->cnt == g->max;
		r = more ? 0 : probes__choose(p, plan, g, i);
	}
	free(have);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", g->key.file_fd);
	if (!r && g->cnt)
		r = probes__link(p, &g->key, 0, path, g->offsets, NULL, g->cookies, g->cnt);
	if (!r && g->cnt)
		probes__took(p, work_ns() - begin, g->cnt);
	return r < 0 ? r : more;
}

/* The first links are closed only when all wanted sites have a new one. */
static int probes__retire_group(struct probes *p, pid_t pid, const struct plan *plan, struct site_group *g,
				struct retire_stats *st)
{
	int fd = probes__file(p, &plan->libs[g->sites->lib]), r;
	size_t first_cnt, kept;
	uint64_t *first;

	if (fd < 0)
		return fd;
	g->key = site_group__key(g, pid, fd);
	probes__keep_whole(p, g);
	r = links__offsets(&p->links, &g->key, LINKS_FIRST, &first, &first_cnt);
	if (r < 0)
		return r;
	r = probes__set_anew(p, plan, g, first, first_cnt);
	kept = site_group__wanted_in(g, first, first_cnt);
	free(first);
	if (r)
		return r;
	st->kept += (uint32_t)kept;
	st->taken += (uint32_t)(first_cnt - kept);
	for (size_t i = 0; i < p->links.cnt; i++)
		if (p->links.v[i].is_first && link_key_same(&p->links.v[i].key, &g->key))
			p->links.v[i].key.pid = 0;
	return 0;
}

int probes__retire(struct probes *p, pid_t pid, const struct plan *plan, const uint8_t *wanted,
		   struct retire_stats *ret)
{
	struct retire_stats st = *ret;
	uint64_t begin = now_ns(), worked = work_ns();
	struct site_group g;
	int r = cookies__begin(&p->cookies, pid, plan, NULL);

	if (!r)
		r = site_group__init(&g, plan->sites_cnt);
	if (r < 0)
		return r;
	for (size_t i = 0, n; i < plan->sites_cnt && !r; i += n) {
		n = site_group__begin(&g, plan, i);
		g.wanted = wanted + i;
		g.max = link_max(st.budget_ns, probes__room(p, st.budget_ns, worked), SLICE_SITES_MIN);
		if (is_operator(g.sites->prog))
			r = probes__retire_group(p, pid, plan, &g, &st);
	}
	free(g.offsets);
	links__close_marked(&p->links, p->closer, p->site_ns);
	st.took_ns += now_ns() - begin;
	*ret = st;
	return r;
}

/*
 * A place that is set again while an older link of it is being closed would be reported twice: so the caller asks again until
 * all are closed before it raises the level.
 */
int probes__lower(struct probes *p, pid_t pid, enum mt_level level, uint64_t *ret_taken)
{
	*ret_taken = 0;
	if (p->use_perf)
		return -EOPNOTSUPP;
	*ret_taken = links__mark_above(&p->links, pid, level);
	if (*ret_taken)
		links__close_marked(&p->links, p->closer, p->site_ns);
	return !closer__is_idle(p->closer);
}

/* Closes files without a probe: there is no bound to them in a trace of weeks, and deleted ones take disk space. */
static void probes__close_files(struct probes *p)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->files_cnt; i++) {
		if (links__has_file(&p->links, p->files[i].fd)) {
			p->files[kept++] = p->files[i];
			continue;
		}
		covers__forget(&p->covers, p->files[i].fd);
		close(p->files[i].fd);
	}
	p->files_cnt = kept;
}

void probes__detach(struct probes *p, pid_t pid)
{
	if (closer__is_idle(p->closer))
		covers__drop_forgotten(&p->covers, p->closer);
	links__close_pid(&p->links, pid, p->closer, p->site_ns);
	probes__close_files(p);
	probes__set_partial(p, pid, 0);
	cookies__drop_pid(&p->cookies, pid);
}

void probes__init(struct probes *p, const struct mt_bpf *skel, int use_perf)
{
	*p = (struct probes){ .skel = skel, .use_perf = use_perf, .site_ns = SITE_NS,
			       .closer = closer__new() };
	cookies__init(&p->cookies, skel);
}

void probes__done(struct probes *p)
{
	links__close_pid(&p->links, 0, p->closer, p->site_ns);
	closer__free(p->closer);
	covers__done(&p->covers);
	links__done(&p->links);
	cookies__done(&p->cookies);
	for (size_t i = 0; i < p->files_cnt; i++)
		close(p->files[i].fd);
	free(p->files);
	*p = (struct probes){ 0 };
}

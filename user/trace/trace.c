/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * One skeleton, loaded once (twice where uprobe_multi turns out to be unusable), calibrated on our own process, and the maps by
 * which its programs know processes.
 */
#define LOG_MODULE "trace"
#include "trace/trace.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "memtrace/shared.h"
#include "memtrace.skel.h"
#include "plan/plan.h"
#include "trace/calib.h"
#include "trace/kernel.h"
#include "trace/link.h"
#include "trace/live.h"
#include "trace/probes.h"
#include "trace/rings.h"
#include "trace/selftest.h"
#include "trace/taps.h"
#include "base/urgent.h"

#define FILES_LEAST (128 + MT_RINGS_MAX) /* programs, maps, and descriptors for trying and calibrating: 100 on two CPUs */

struct tracer {
	struct tracer_opts opts;
	struct mt_bpf *skel;
	struct rings rings;
	struct rings_size size;
	int use_perf;
	struct probes probes;
	struct calib calib;
	struct insn_classes classes;
	unsigned kernel_ns; /* one hit of a kernel-side program */
	unsigned catches_cnt; /* processes in the map */
};

/* --- programs ------------------------------------------------------------------------------- */

static int tracer__make_ring(struct tracer *t, uint32_t i, struct err *err)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "mt_ring", 0, 0, (uint32_t)t->size.bytes, NULL);
	int r;

	if (fd < 0) {
		err_set(err, fd, "%u ring buffers of %zu bytes: %s", t->size.cnt, t->size.bytes, strerror(-fd));
		return err_hint(err, "choose a smaller --ring-size");
	}
	r = rings__add(&t->rings, fd, t->size.bytes);
	if (r < 0)
		return err_set(err, r, "mapping a ring buffer: %s", strerror(-r));
	if (bpf_map_update_elem(bpf_map__fd(t->skel->maps.rings), &i, &fd, BPF_ANY) < 0)
		return err_set(err, -errno, "setting up ring %u: %s", i, strerror(errno));
	return 0;
}

static int tracer__make_rings(struct tracer *t, struct err *err)
{
	int r = 0;

	for (uint32_t i = 0; i < t->size.cnt && !r; i++)
		r = tracer__make_ring(t, i, err);
	return r;
}

static int tracer__load(struct tracer *t, struct err *err)
{
	struct bpf_program *prog;
	int r;

	t->skel = mt_bpf__open();
	if (!t->skel)
		return kernel__refused(err, -errno);
	t->skel->rodata->mt_config.min_size = t->opts.min_size;
	t->skel->rodata->mt_config.ring_bytes = t->size.bytes;
	t->skel->rodata->mt_config.ring_mask = t->size.cnt - 1;
	t->skel->rodata->mt_config.wake_bytes = (uint32_t)(t->size.bytes / 4);
	t->skel->rodata->mt_config.stacks = t->opts.stacks;
	t->skel->rodata->mt_config.stack_size = t->opts.stack_size;
	t->skel->rodata->mt_config.stack_gap_ns = t->opts.stack_rate ? 1000000000ull / t->opts.stack_rate : 0;
	if (t->opts.min_size)
		live_init(t->skel);
	bpf_object__for_each_program(prog, t->skel->obj) {
		int is_uprobe = bpf_program__type(prog) == BPF_PROG_TYPE_KPROBE;

		if (is_uprobe && !t->use_perf)
			bpf_program__set_expected_attach_type(prog, LINK_ATTACH_UPROBE_MULTI);
		if (!is_uprobe && !t->opts.kernel && prog != t->skel->progs.mt_process_exec)
			bpf_program__set_autoload(prog, false);
	}
	r = mt_bpf__load(t->skel);
	if (r < 0)
		return kernel__refused(err, r);
	probes__init(&t->probes, t->skel, t->use_perf);
	return tracer__make_rings(t, err);
}

static void tracer__unload(struct tracer *t)
{
	probes__done(&t->probes);
	rings__done(&t->rings);
	mt_bpf__destroy(t->skel);
	t->skel = NULL;
}

/* --- calibration ---------------------------------------------------------------------------- */

static int discard_record(void *ctx, const void *rec, size_t len)
{
	(void)ctx;
	(void)rec;
	(void)len;
	return 0;
}

static void calib_discard(void *ctx)
{
	struct drained d;

	(void)tracer__drain(ctx, UINT64_MAX, discard_record, NULL, &d);
}

static uint64_t calib_hits(void *ctx, enum mt_prog prog)
{
	struct trace_counters c;

	tracer__counters(ctx, &c);
	return c.hits[prog];
}

static int calib_attach(void *ctx, enum mt_prog prog, const char *path, uint64_t offset, int is_ret)
{
	struct tracer *t = ctx;
	uint64_t cookie = 0;

	if (prog == MT_PROG_HOST_ENTER)
		cookie = MT_HOST_MALLOC;
	if (prog == MT_PROG_USDT)
		cookie = SPEC_CALIB;
	if (prog == MT_PROG_SEG_ENTER || prog == MT_PROG_SEG_RET)
		cookie = SEG_SPEC_CALIB;
	return probes__link(&t->probes, &(struct link_key){ getpid(), -1, prog, is_ret }, 0, path, &offset, NULL,
			    &cookie, 1);
}

static int try_attach(void *ctx, pid_t pid, const char *path, const uint64_t *offsets, size_t cnt, int is_ret)
{
	static const uint64_t no_cookies[32];
	struct tracer *t = ctx;
	struct link_key key = { pid, -1, is_ret ? MT_PROG_HOST_RET : MT_PROG_OP, is_ret };

	if (cnt > sizeof(no_cookies) / sizeof(*no_cookies))
		return -E2BIG;
	return probes__link(&t->probes, &key, 0, path, offsets, NULL, no_cookies, cnt);
}

static void try_detach(void *ctx, pid_t pid)
{
	tracer__detach(ctx, pid);
}

static int tracer__try_classes(struct tracer *t, struct err *err)
{
	struct selftest_ops ops = { try_attach, try_detach, calib_discard, t };
	int r = selftest_run(&t->classes, &ops);

	if (r < 0)
		return err_set(err, r, "trying probes on ourselves: %s", strerror(-r));
	for (int c = INSN_NOP5; c < INSN_CLASSES; c++)
		log_debug("a probe on %s: %s, %u ns", insn_class_name(c), insn_verdict_text(t->classes.of[c].verdict),
			  t->classes.of[c].hit_ns);
	if (t->classes.of[INSN_OWN].is_usable)
		return 0;
	/* The basis of everything else. Our own functions are not probed to see how expensive it is. */
	err_set(err, -ENOTSUP, "a probe on a %s, on this kernel: %s", insn_class_name(INSN_OWN),
		insn_verdict_text(t->classes.of[INSN_OWN].verdict));
	return err_hint(err, "memtrace probes nothing here: it would harm the program");
}

static void tracer__calibrate_kernel(struct tracer *t)
{
	unsigned with, without;
	uint32_t self = (uint32_t)getpid();
	uint8_t one = 1;

	if (!t->opts.kernel)
		return;
	without = calib_time_mmap();
	(void)bpf_map_update_elem(bpf_map__fd(t->skel->maps.targets), &self, &one, BPF_ANY);
	t->skel->links.mt_sys_exit = bpf_program__attach(t->skel->progs.mt_sys_exit);
	with = calib_time_mmap();
	(void)bpf_map_delete_elem(bpf_map__fd(t->skel->maps.targets), &self);
	t->kernel_ns = with > without ? with - without : 0;
}

/* Spec and layout 0 (cookie 0): those of the first target overwrite them. */
static int tracer__calibrate_flow(struct tracer *t, bool on)
{
	int fd = bpf_map__fd(t->skel->maps.flow_classes), r = 0;
	uint32_t at = 0;

	for (size_t i = 0; i < sizeof(calib_flow_vtables) / sizeof(calib_flow_vtables[0]) && !r; i++) {
		const struct flow_vtable *v = &calib_flow_vtables[i];
		struct mt_class_key k = { .vtable = v->addr, .pid = (uint64_t)getpid() };

		if (on)
			r = bpf_map_update_elem(fd, &k, &v->class, BPF_ANY);
		else
			(void)bpf_map_delete_elem(fd, &k);
	}
	if (!on || r < 0)
		return r;
	t->skel->bss->mt_flow_layouts[0] = calib_flow_layout;
	return bpf_map_update_elem(bpf_map__fd(t->skel->maps.flow_specs), &at, &calib_flow_spec, BPF_ANY);
}

static int tracer__calibrate(struct tracer *t)
{
	struct calib_ops ops = { calib_attach, calib_discard, calib_hits, t };
	struct mt_usdt_spec spec = {
		.kind = MT_EV_ALLOC,
		.ptr = { .form = MT_ARG_REG, .reg = MT_REG_ARG0, .bytes = 8 },
		.size = { .form = MT_ARG_REG, .reg = MT_REG_ARG1, .bytes = 8 },
		.device = { .form = MT_ARG_CONST, .value = -1, .bytes = 4, .is_signed = 1 },
	};
	struct mt_seg_spec seg = {
		.kind = MT_EV_SEG_FREE,
		.addr = { .form = MT_SEG_ARG, .bytes = 8 },
		.size = { { .form = MT_SEG_ARG, .where = 1, .bytes = 8 } },
	};
	uint32_t at = SPEC_CALIB, seg_at = SEG_SPEC_CALIB;
	int r;

	r = bpf_map_update_elem(bpf_map__fd(t->skel->maps.specs), &at, &spec, BPF_ANY);
	if (!r)
		r = bpf_map_update_elem(bpf_map__fd(t->skel->maps.seg_specs), &seg_at, &seg, BPF_ANY);
	if (!r)
		r = tracer__calibrate_flow(t, true);
	if (r < 0)
		return r;
	r = calib_run(&t->calib, &ops);
	(void)tracer__calibrate_flow(t, false);
	if (!r)
		tracer__calibrate_kernel(t);
	tracer__detach(t, getpid());
	if (r < 0)
		return r;
	calib_discard(t);
	memset(t->skel->bss->mt_counters, 0, sizeof(t->skel->bss->mt_counters));
	return 0;
}

/* --- life ----------------------------------------------------------------------------------- */

/* 0: there are enough to start. Running out of them later fails in obscure ways. */
static int raise_nofile(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl))
		return 0;
	rl.rlim_cur = rl.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &rl);
	return rl.rlim_max < FILES_LEAST ? -EMFILE : 0;
}

static void attach_error(struct err *err, int r)
{
	err_set(err, r, "attaching a uprobe to ourselves: %s", strerror(-r));
	if (r == -EPERM || r == -EACCES)
		err_hint(err, "run as root (sudo), or with " RIGHTS_NEEDED);
}

static int tracer__start(struct tracer *t, struct err *err)
{
	int r = tracer__load(t, err);

	if (!r) {
		r = tracer__try_classes(t, err);
		if (!r) {
			r = tracer__calibrate(t);
			if (r)
				attach_error(err, r);
		}
		if (!r)
			t->skel->bss->mt_stacks_on = MT_STACKS_ON_ALL; /* mt_modules_on: with the first process */
	}
	if (r)
		tracer__unload(t);
	return r;
}

/* The kernel takes the rings' memory at once: if it has less, smaller rings are tried, unless a size was requested. */
static int tracer__start_sized(struct tracer *t, struct err *err)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	int r;

	t->size = rings_size(t->opts.ring_bytes, cpus > 0 ? (unsigned)cpus : 1, rings_memory());
	for (;;) {
		uint64_t total = t->size.cnt * (uint64_t)t->size.bytes;

		r = tracer__start(t, err);
		if (r != -ENOMEM || t->opts.ring_bytes || total <= TRACE_RING_BYTES_LEAST)
			return r;
		log_warn("no memory for rings of %llu MiB together: half of it is tried", (unsigned long long)(total >> 20));
		t->size.bytes /= 2;
	}
}

static int tracer__attach_kernel(struct tracer *t, struct err *err)
{
	struct mt_bpf *s = t->skel;

	s->links.mt_process_exec = bpf_program__attach(s->progs.mt_process_exec);
	if (!s->links.mt_process_exec)
		return err_set(err, -errno, "attaching the exec tracepoint: %s", strerror(errno));
	if (!t->opts.kernel)
		return 0;
	s->links.mt_process_exit = bpf_program__attach(s->progs.mt_process_exit);
	if (!s->links.mt_process_exit || !s->links.mt_sys_exit)
		return err_set(err, -errno, "attaching the kernel tracepoints: %s", strerror(errno));
	s->links.mt_oom_victim = bpf_program__attach(s->progs.mt_oom_victim);
	if (!s->links.mt_oom_victim)
		log_info("the kernel does not tell whom its OOM killer takes: ends are put down to it by their time");
	return 0;
}

int tracer__new(struct tracer **ret, const struct tracer_opts *opts, struct err *err)
{
	struct tracer *t;
	int r = arch__ready(err);

	if (r < 0)
		return r;
	t = calloc(1, sizeof(*t));
	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	libbpf_set_print(kernel__words);
	if (raise_nofile() < 0) {
		free(t);
		return kernel__few_descriptors(err);
	}
	t->opts = *opts;
	t->use_perf = opts->force_perf;
	rings__init(&t->rings);
	r = tracer__start_sized(t, err);
	if (r == -EMFILE)
		kernel__few_descriptors(err);
	if (r < 0 && r != -EPERM && r != -EMFILE && !t->use_perf) {
		log_info("no usable uprobe_multi on this kernel (%s): one perf uprobe a site instead",
			 strerror(-r));
		t->use_perf = 1;
		r = tracer__start(t, err);
	}
	if (!r)
		r = tracer__attach_kernel(t, err);
	if (r < 0) {
		tracer__free(t);
		return r;
	}
	log_debug("calibrated: operator %u ns, with tensors %u, new %u, delete %u, usdt %u, malloc %u, mark %u, single step "
		  "%u, kernel %u",
		  t->calib.prog_ns[MT_PROG_OP], t->calib.prog_ns[MT_PROG_FLOW_OP], t->calib.prog_ns[MT_PROG_FW_NEW],
		  t->calib.prog_ns[MT_PROG_FW_DELETE], t->calib.prog_ns[MT_PROG_USDT],
		  t->calib.prog_ns[MT_PROG_HOST_ENTER] + t->calib.prog_ns[MT_PROG_HOST_RET],
		  t->calib.prog_ns[MT_PROG_REGION_BEGIN], t->classes.of[INSN_STEPPED].hit_ns, t->kernel_ns);
	*ret = t;
	return 0;
}

void tracer__free(struct tracer *t)
{
	if (!t)
		return;
	if (t->skel)
		tracer__unload(t);
	free(t);
}

/* --- attach --------------------------------------------------------------------------------- */

/* For threads that begin after this, all choices of a device are seen. */
static void tracer__segments_since(struct tracer *t, pid_t pid, const struct plan *plan)
{
	int fd = bpf_map__fd(t->skel->maps.seg_procs);
	struct mt_seg_proc p = { 0 };
	uint32_t key = (uint32_t)pid;

	(void)bpf_map_lookup_elem(fd, &key, &p); /* the library of an earlier plan */
	p.since_ns = now_ns();
	if (plan->comm_end) {
		p.comm_start = plan->comm_start;
		p.comm_end = plan->comm_end;
	}
	/* If the table is full, the devices of new threads are unknown, like those of old ones. */
	(void)bpf_map_update_elem(fd, &key, &p, BPF_ANY);
}

int tracer__attach(struct tracer *t, pid_t pid, const struct plan *plan, struct attach_stats *ret,
		   struct err *err)
{
	int nice = urgent_begin(), r = probes__attach(&t->probes, pid, plan, ret, err);

	urgent_end(nice);
	if (!r && plan->seg_specs_cnt)
		tracer__segments_since(t, pid, plan);
	return r;
}

int tracer__retire(struct tracer *t, pid_t pid, const struct plan *plan, const uint8_t *wanted,
		   struct retire_stats *ret)
{
	int nice = urgent_begin(), r = probes__retire(&t->probes, pid, plan, wanted, ret);

	urgent_end(nice);
	return r;
}

int tracer__lower(struct tracer *t, pid_t pid, enum mt_level level, uint64_t *ret_taken)
{
	return probes__lower(&t->probes, pid, level, ret_taken);
}

const struct insn_classes *tracer__insn_classes(const struct tracer *t)
{
	return &t->classes;
}

size_t tracer__classes_cnt(const struct tracer *t)
{
	return t->probes.cookies.classes_cnt;
}

uint64_t tracer__looked_up(struct tracer *t)
{
	return __atomic_exchange_n(&t->skel->bss->mt_looked_up_ns, 0, __ATOMIC_ACQ_REL);
}

void tracer__detach(struct tracer *t, pid_t pid)
{
	uint32_t key = (uint32_t)pid;

	probes__detach(&t->probes, pid);
	live_forget(t->skel, pid);
	(void)tracer__catch(t, pid, NULL);
	(void)tracer__python(t, pid, NULL);
	(void)tracer__modules(t, pid, NULL);
	(void)bpf_map_delete_elem(bpf_map__fd(t->skel->maps.targets), &key);
	(void)bpf_map_delete_elem(bpf_map__fd(t->skel->maps.seg_procs), &key);
}

int tracer__python(struct tracer *t, pid_t pid, const struct mt_py_proc *how)
{
	int fd = bpf_map__fd(t->skel->maps.py_procs);
	uint32_t key = (uint32_t)pid;

	return how ? bpf_map_update_elem(fd, &key, how, BPF_ANY) : bpf_map_delete_elem(fd, &key);
}

/* The caller may be compromised: its request is bounded in number, length and time. */
static int catch_is_odd(const struct mt_catch *what)
{
	int64_t left = 0;

	if (!what->cnt || what->cnt > MT_CATCH_SORTS_MAX || what->until_ns > now_ns() + MT_CATCH_NS_MAX)
		return 1;
	for (size_t i = 0; i < what->cnt; i++) {
		if (what->sorts[i].left < 1)
			return 1;
		left += what->sorts[i].left;
	}
	return left > MT_CATCH_LEFT_MAX;
}

static void tracer__count_catches(struct tracer *t, int more)
{
	t->catches_cnt += (unsigned)more;
	t->skel->bss->mt_stacks_on = MT_STACKS_ON_ALL | (t->catches_cnt ? MT_STACKS_ON_CATCH : 0);
}

int tracer__catch(struct tracer *t, pid_t pid, const struct mt_catch *what)
{
	int fd = bpf_map__fd(t->skel->maps.catches), r;
	uint32_t key = (uint32_t)pid;

	if (!what) {
		r = t->catches_cnt ? bpf_map_delete_elem(fd, &key) : -ENOENT;
		if (!r)
			tracer__count_catches(t, -1);
		return r;
	}
	if (!(t->opts.stacks & MT_STACKS_CATCH) || catch_is_odd(what))
		return -EINVAL;
	r = bpf_map_update_elem(fd, &key, what, BPF_NOEXIST);
	if (!r)
		tracer__count_catches(t, 1);
	return r == -EEXIST ? bpf_map_update_elem(fd, &key, what, BPF_ANY) : r;
}

int tracer__modules(struct tracer *t, pid_t pid, const struct mt_module_proc *how)
{
	int fd = bpf_map__fd(t->skel->maps.module_procs);
	uint32_t key = (uint32_t)pid;

	if (!how)
		return bpf_map_delete_elem(fd, &key);
	t->skel->bss->mt_modules_on = 1;
	return bpf_map_update_elem(fd, &key, how, BPF_ANY);
}

int tracer__plain_place(struct tracer *t, uint64_t hash)
{
	uint8_t plain = MT_PLACE_PLAIN;

	return bpf_map_update_elem(bpf_map__fd(t->skel->maps.places_reported), &hash, &plain, BPF_ANY);
}

int tracer__module(struct tracer *t, pid_t pid, uint64_t obj, int has_name)
{
	struct mt_module_key key = { obj, (uint64_t)pid };
	int fd = bpf_map__fd(t->skel->maps.modules_named);
	uint8_t one = 1;

	return has_name ? bpf_map_update_elem(fd, &key, &one, BPF_ANY) : bpf_map_delete_elem(fd, &key);
}

int tracer__follow(struct tracer *t, pid_t pid, struct err *err)
{
	uint32_t key = (uint32_t)pid;
	uint8_t one = 1;

	if (bpf_map_update_elem(bpf_map__fd(t->skel->maps.targets), &key, &one, BPF_ANY) < 0)
		return err_set(err, -errno, "following process %d: %s", (int)pid, strerror(errno));
	return 0;
}

/* --- data ----------------------------------------------------------------------------------- */

uint64_t trace_ring_bytes(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	struct rings_size s = rings_size(0, cpus > 0 ? (unsigned)cpus : 1, rings_memory());

	return s.cnt * (uint64_t)s.bytes;
}

int tracer__drain(struct tracer *t, uint64_t budget_ns, int (*fn)(void *ctx, const void *rec, size_t len), void *ctx,
		  struct drained *ret)
{
	long n = rings__drain(&t->rings, budget_ns, fn, ctx, ret);

	return n > INT32_MAX ? INT32_MAX : (int)n;
}

void tracer__progs(const struct tracer *t, struct taps_progs *ret)
{
	*ret = (struct taps_progs){ .failed_cnt = t->probes.failed_cnt };
	for (unsigned i = 0; i < MT_PROG_MAX; i++)
		ret->class[i] = (uint8_t)t->probes.prog_class[i];
}

static struct costs tracer__costs(const struct tracer *t)
{
	struct costs c = { .calib = &t->calib, .classes = &t->classes, .kernel_ns = t->kernel_ns };

	tracer__progs(t, &c.progs);
	return c;
}

void tracer__counters(const struct tracer *t, struct trace_counters *ret)
{
	struct costs c = tracer__costs(t);

	counters_sum(t->skel->bss->mt_counters, &c, ret);
}

int tracer__each_fired(const struct tracer *t, void (*fn)(void *ctx, name_id sym, uint64_t cnt), void *ctx)
{
	struct trace_counters c;

	tracer__counters(t, &c);
	return cookies__each_fired(&t->probes.cookies, c.hits, fn, ctx);
}

unsigned tracer__cost_ns(const struct tracer *t, enum mt_prog prog)
{
	struct costs c = tracer__costs(t);

	return costs_of(&c, prog);
}

void tracer__taps(struct tracer *t, struct taps_desc *ret, int *fds)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	*ret = (struct taps_desc){ .ring_bytes = t->size.bytes,
				   .bss_bytes = (bpf_map__value_size(t->skel->maps.bss) + page - 1) & ~(page - 1),
				   .rings_cnt = t->rings.cnt, .use_perf = (uint32_t)t->use_perf,
				   .tells_victims = t->skel->links.mt_oom_victim != NULL, .kernel_ns = t->kernel_ns,
				   .calib = t->calib, .classes = t->classes };
	for (unsigned i = 0; i < t->rings.cnt; i++) {
		fds[i] = t->rings.v[i].fd;
		ring__unmap(&t->rings.v[i]); /* 32 MiB and more, which would count for both processes */
	}
	fds[t->rings.cnt] = bpf_map__fd(t->skel->maps.bss);
}

int trace_insn_classes(struct insn_classes *ret, struct err *err)
{
	struct tracer_opts opts = { .ring_bytes = 64 << 10 };
	struct tracer *t;
	int r = tracer__new(&t, &opts, err);

	if (r < 0)
		return r;
	*ret = t->classes;
	tracer__free(t);
	return 0;
}

const char *trace_libbpf_version(void)
{
	return libbpf_version_string();
}

int trace_probe_features(struct trace_features *ret)
{
	struct tracer_opts opts = { .ring_bytes = 64 << 10, .kernel = 1 };
	struct tracer *t = NULL;
	struct err err = { 0 };

	memset(ret, 0, sizeof(*ret));
	if (!tracer__new(&t, &opts, &err)) {
		ret->has_uprobe_multi = !t->use_perf;
		ret->classes = t->classes;
		ret->has_perf_uprobe = t->use_perf;
	} else {
		snprintf(ret->error, sizeof(ret->error), "%.255s", err.msg);
	}
	tracer__free(t);
	t = NULL;
	opts.force_perf = 1;
	opts.kernel = 0;
	if (!ret->has_perf_uprobe && !tracer__new(&t, &opts, &err)) {
		ret->has_perf_uprobe = 1;
		tracer__free(t);
	}
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * One skeleton, loaded once; one link (uprobe_multi) or one pair of descriptors a site (perf) per
 * group of sites of a plan with the same file and program. Files are kept open by (device, inode)
 * and named to the kernel as /proc/self/fd/N: a forked child is attached with its parent's plan even
 * when the parent, and with it /proc/PID/map_files, is gone, and deleted files work.
 */
#define LOG_MODULE "trace"
#include "trace/trace.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "bpf/lib/shared.h"
#include "memtrace.skel.h"
#include "plan/plan.h"
#include "trace/calib.h"
#include "trace/closer.h"
#include "trace/link.h"
#include "trace/links.h"
#include "trace/ring.h"

#define RINGS_MAX 16
#define LIVE_MAX (1u << 20)
#define SPEC_CALIB (MT_USDT_SPECS_MAX - 1)
#define SEG_SPEC_CALIB (MT_SEG_SPECS_MAX - 1)

struct file {
	uint64_t dev, ino;
	int fd;
};

struct tracer {
	struct tracer_opts opts;
	struct mt_bpf *skel;
	struct ring rings[RINGS_MAX];
	unsigned rings_cnt;
	size_t ring_size;
	int epoll_fd;
	int use_perf;
	struct closer *closer;
	struct links links;
	struct file *files;
	size_t files_cnt, files_cap;
	struct mt_usdt_spec specs[MT_USDT_SPECS_MAX];
	uint32_t specs_cnt;
	struct mt_seg_spec seg_specs[MT_SEG_SPECS_MAX];
	uint32_t seg_specs_cnt;
	struct mt_flow_spec flow_specs[MT_FLOW_SPECS_MAX];
	uint32_t flow_specs_cnt;
	uint32_t *flow_index; /* of the plan being attached: its spec number → ours + 1, 0 = not asked yet */
	uint32_t flow_layout; /* … and its layout's number */
	uint32_t flow_layouts_cnt;
	struct mt_class_key *classes; /* in the map of classes */
	size_t classes_cnt, classes_cap;
	struct {
		name_id sym;
		enum mt_prog prog;
	} fired[MT_FIRED_MAX]; /* [slot]; slot 0 is nobody's */
	uint32_t fired_cnt;
	name_id prog_sym[MT_PROG_MAX]; /* of programs that serve one symbol */
	struct calib calib;
	unsigned kernel_ns; /* one hit of a kernel-side program */
	enum insn_class prog_class[MT_PROG_MAX]; /* cheapest class among the sites set */
	uint64_t sites_failed;
};

static int libbpf_print(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	char line[512];

	if (level == LIBBPF_DEBUG || log_get_level() < LOG_DEBUG)
		return 0;
	vsnprintf(line, sizeof(line), fmt, ap);
	log_debug("libbpf: %s", line);
	return 0;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* --- programs ------------------------------------------------------------------------------- */

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
	case MT_PROG_FW_USAGE: return skel->progs.mt_fw_usage;
	case MT_PROG_FW_USAGE_OOM: return skel->progs.mt_fw_usage_oom;
	case MT_PROG_SEG_ENTER: return skel->progs.mt_seg_enter;
	case MT_PROG_SEG_RET: return skel->progs.mt_seg_ret;
	case MT_PROG_LOOKUP: return skel->progs.mt_lookup;
	default: return NULL;
	}
}

static unsigned pow2_down(uint64_t v)
{
	unsigned p = 1;

	while ((uint64_t)p * 2 <= v && p < 1u << 30)
		p *= 2;
	return p;
}

/* How many rings and how large each: one for every group of CPUs, 16 at most. */
static void tracer__size_rings(struct tracer *t)
{
	uint64_t total = t->opts.ring_bytes ? t->opts.ring_bytes : TRACE_RING_BYTES_DEFAULT;
	unsigned page = (unsigned)sysconf(_SC_PAGESIZE), rings = 1;
	long cpus = sysconf(_SC_NPROCESSORS_CONF);

	while (rings < RINGS_MAX && (long)rings < cpus)
		rings *= 2;
	while (rings > 1 && total / rings < page)
		rings /= 2;
	t->rings_cnt = rings;
	t->ring_size = pow2_down(total / rings);
	if (t->ring_size < page)
		t->ring_size = page;
}

static int tracer__make_rings(struct tracer *t, struct err *err)
{
	int outer = bpf_map__fd(t->skel->maps.rings);

	for (uint32_t i = 0; i < t->rings_cnt; i++) {
		struct epoll_event ev = { .events = EPOLLIN, .data.u32 = i };
		int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "mt_ring", 0, 0, (uint32_t)t->ring_size, NULL);
		int r;

		if (fd < 0) {
			err_set(err, fd, "ring buffer of %zu bytes: %s", t->ring_size, strerror(-fd));
			return err_hint(err, "choose a smaller --ring-size");
		}
		r = ring__init(&t->rings[i], fd, t->ring_size);
		if (r < 0)
			return err_set(err, r, "mapping a ring buffer: %s", strerror(-r));
		if (bpf_map_update_elem(outer, &i, &fd, BPF_ANY) < 0 ||
		    epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
			return err_set(err, -errno, "setting up ring %u: %s", i, strerror(errno));
	}
	return 0;
}

static int load_error(struct err *err, int r)
{
	if (r == -EPERM || r == -EACCES) {
		err_set(err, r, "the kernel does not let us load BPF programs: %s", strerror(-r));
		return err_hint(err, "run as root (sudo), or with " RIGHTS_NEEDED);
	}
	if (access("/sys/kernel/btf/vmlinux", R_OK) != 0) {
		err_set(err, -ENOTSUP, "this kernel has no BTF (/sys/kernel/btf/vmlinux is missing)");
		return err_hint(err, "a kernel with CONFIG_DEBUG_INFO_BTF=y is needed; see memtrace doctor");
	}
	err_set(err, r, "loading the BPF programs: %s", strerror(-r));
	return err_hint(err, "try again with -vv to see the kernel's words; kernel 5.15 or newer is needed");
}

/* Offset of the pid in records of oom:mark_victim; 0: this kernel has none, or tracefs is not there. */
static uint32_t victim_offset(void)
{
	static const char *const paths[] = { "/sys/kernel/tracing/events/oom/mark_victim/format",
					     "/sys/kernel/debug/tracing/events/oom/mark_victim/format" };
	unsigned offset = 0, size = 0;
	char line[256];
	FILE *f = NULL;

	for (size_t i = 0; !f && i < sizeof(paths) / sizeof(paths[0]); i++)
		f = fopen(paths[i], "re");
	while (f && size != sizeof(uint32_t) && fgets(line, sizeof(line), f))
		if (sscanf(line, " field:int pid; offset:%u; size:%u;", &offset, &size) != 2)
			size = 0;
	if (f)
		fclose(f);
	return size == sizeof(uint32_t) && offset < 256 ? offset : 0;
}

static int tracer__load(struct tracer *t, struct err *err)
{
	struct bpf_program *prog;
	int r;

	t->skel = mt_bpf__open();
	if (!t->skel)
		return load_error(err, -errno);
	t->skel->rodata->mt_config.min_size = t->opts.min_size;
	t->skel->rodata->mt_config.ring_mask = t->rings_cnt - 1;
	t->skel->rodata->mt_config.wake_bytes = (uint32_t)(t->ring_size / 4);
	t->skel->rodata->mt_config.victim_at = victim_offset();
	t->skel->rodata->mt_config.stacks = t->opts.stacks;
	t->skel->rodata->mt_config.stack_size = t->opts.stack_size;
	t->skel->rodata->mt_config.stack_gap_ns = t->opts.stack_rate ? 1000000000ull / t->opts.stack_rate : 0;
	if (t->opts.min_size)
		bpf_map__set_max_entries(t->skel->maps.live, LIVE_MAX);
	bpf_object__for_each_program(prog, t->skel->obj) {
		int is_uprobe = bpf_program__type(prog) == BPF_PROG_TYPE_KPROBE;

		if (is_uprobe && !t->use_perf)
			bpf_program__set_expected_attach_type(prog, LINK_ATTACH_UPROBE_MULTI);
		if (!is_uprobe && !t->opts.kernel && prog != t->skel->progs.mt_process_exec)
			bpf_program__set_autoload(prog, false);
	}
	r = mt_bpf__load(t->skel);
	if (r < 0)
		return load_error(err, r);
	return tracer__make_rings(t, err);
}

static void tracer__unload(struct tracer *t)
{
	for (unsigned i = 0; i < t->rings_cnt; i++)
		ring__done(&t->rings[i]);
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
	int more;

	(void)tracer__drain(ctx, SIZE_MAX, discard_record, NULL, &more);
}

static uint64_t calib_hits(void *ctx, enum mt_prog prog)
{
	struct trace_counters c;

	tracer__counters(ctx, &c);
	return c.hits[prog];
}

/* One site or many of one file: 0 or -errno. is_first: see links.h. */
static int tracer__link(struct tracer *t, const struct link_key *k, int is_first, const char *path,
			const uint64_t *offsets, const uint64_t *refs, const uint64_t *cookies, size_t cnt)
{
	int prog_fd = bpf_program__fd(prog_of(t->skel, k->prog)), fds[2], r;

	if (!t->use_perf) {
		r = link_uprobe_multi(prog_fd, path, offsets, refs, cookies, cnt, k->is_ret, k->pid);
		return r < 0 ? r : links__add(&t->links, k, is_first, (int[]){ r, -1 }, offsets, cnt);
	}
	for (size_t i = 0; i < cnt; i++) {
		r = link_perf_uprobe(prog_fd, path, offsets[i], refs ? refs[i] : 0, cookies[i], k->is_ret, k->pid,
				     fds);
		if (!r)
			r = links__add(&t->links, k, is_first, fds, offsets + i, 1);
		if (r < 0)
			return r;
	}
	return 0;
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
	return tracer__link(t, &(struct link_key){ getpid(), -1, prog, is_ret }, 0, path, &offset, NULL,
			    &cookie, 1);
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

/* Spec and layout 0 (cookie 0): the first ones of a target overwrite them. */
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
		.ptr = { .form = MT_ARG_REG, .reg = MT_REG_RDI, .bytes = 8 },
		.size = { .form = MT_ARG_REG, .reg = MT_REG_RSI, .bytes = 8 },
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

static void raise_nofile(void)
{
	struct rlimit rl;

	if (!getrlimit(RLIMIT_NOFILE, &rl)) {
		rl.rlim_cur = rl.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &rl);
	}
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
		r = tracer__calibrate(t);
		if (r)
			attach_error(err, r);
		else
			t->skel->bss->mt_stacks_on = 1; /* mt_modules_on: with the first process */
	}
	if (r)
		tracer__unload(t);
	return r;
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
	if (s->rodata->mt_config.victim_at)
		s->links.mt_oom_victim = bpf_program__attach(s->progs.mt_oom_victim);
	if (!s->links.mt_oom_victim)
		log_info("the kernel does not tell whom its OOM killer takes: deaths are put down to it by their time");
	return 0;
}

int tracer__new(struct tracer **ret, const struct tracer_opts *opts, struct err *err)
{
	struct tracer *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	libbpf_set_print(libbpf_print);
	raise_nofile();
	t->opts = *opts;
	t->use_perf = opts->force_perf;
	t->closer = closer__new();
	for (unsigned i = 0; i < RINGS_MAX; i++)
		t->rings[i].fd = -1;
	t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (t->epoll_fd < 0) {
		r = err_set(err, -errno, "epoll: %s", strerror(errno));
		goto out;
	}
	tracer__size_rings(t);
	r = tracer__start(t, err);
	if (r < 0 && r != -EPERM && !t->use_perf) {
		log_info("no usable uprobe_multi on this kernel (%s): one perf uprobe a site instead",
			 strerror(-r));
		t->use_perf = 1;
		r = tracer__start(t, err);
	}
	if (!r)
		r = tracer__attach_kernel(t, err);
out:
	if (r < 0) {
		tracer__free(t);
		return r;
	}
	log_debug("calibrated: operator %u ns, with tensors %u, new %u, delete %u, usdt %u, malloc %u, single step %u, "
		  "kernel %u",
		  t->calib.prog_ns[MT_PROG_OP], t->calib.prog_ns[MT_PROG_FLOW_OP], t->calib.prog_ns[MT_PROG_FW_NEW],
		  t->calib.prog_ns[MT_PROG_FW_DELETE], t->calib.prog_ns[MT_PROG_USDT],
		  t->calib.prog_ns[MT_PROG_HOST_ENTER] + t->calib.prog_ns[MT_PROG_HOST_RET],
		  t->calib.class_ns[INSN_STEPPED], t->kernel_ns);
	*ret = t;
	return 0;
}

void tracer__free(struct tracer *t)
{
	if (!t)
		return;
	links__close_pid(&t->links, 0, t->closer);
	closer__free(t->closer);
	for (size_t i = 0; i < t->files_cnt; i++)
		close(t->files[i].fd);
	if (t->skel)
		tracer__unload(t);
	if (t->epoll_fd >= 0)
		close(t->epoll_fd);
	free(t->flow_index);
	free(t->classes);
	links__done(&t->links);
	free(t->files);
	free(t);
}

/* --- attach --------------------------------------------------------------------------------- */

/* An fd on the very file, kept for later plans of forked children; -errno. */
static int tracer__file(struct tracer *t, const struct plan_lib *lib)
{
	int fd;

	for (size_t i = 0; i < t->files_cnt; i++)
		if (t->files[i].dev == lib->dev && t->files[i].ino == lib->ino)
			return t->files[i].fd;
	fd = fcntl(lib->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (t->files_cnt == t->files_cap) {
		size_t cap = t->files_cap ? 2 * t->files_cap : 16;
		struct file *f = realloc(t->files, cap * sizeof(*f));

		if (!f) {
			close(fd);
			return -ENOMEM;
		}
		t->files = f;
		t->files_cap = cap;
	}
	t->files[t->files_cnt++] = (struct file){ lib->dev, lib->ino, fd };
	return fd;
}

/* Index in the map of specs of one equal to `s`, added if need be; -ENOSPC. */
static int tracer__spec(struct tracer *t, const struct mt_usdt_spec *s)
{
	uint32_t i;

	for (i = 0; i < t->specs_cnt; i++)
		if (!memcmp(&t->specs[i], s, sizeof(*s)))
			return (int)i;
	if (i >= SPEC_CALIB)
		return -ENOSPC;
	if (bpf_map_update_elem(bpf_map__fd(t->skel->maps.specs), &i, s, BPF_ANY) < 0)
		return -errno;
	t->specs[i] = *s;
	t->specs_cnt++;
	return (int)i;
}

/* The same for the functions of a GPU's memory API. */
static int tracer__seg_spec(struct tracer *t, const struct mt_seg_spec *s)
{
	uint32_t i;

	for (i = 0; i < t->seg_specs_cnt; i++)
		if (!memcmp(&t->seg_specs[i], s, sizeof(*s)))
			return (int)i;
	if (i >= SEG_SPEC_CALIB)
		return -ENOSPC;
	if (bpf_map_update_elem(bpf_map__fd(t->skel->maps.seg_specs), &i, s, BPF_ANY) < 0)
		return -errno;
	t->seg_specs[i] = *s;
	t->seg_specs_cnt++;
	return (int)i;
}

/* Number in the map of flow specs of one equal to `s`, added if need be; -ENOSPC. */
static int tracer__flow_spec(struct tracer *t, const struct mt_flow_spec *s)
{
	uint32_t i;

	for (i = 0; i < t->flow_specs_cnt; i++)
		if (!memcmp(&t->flow_specs[i], s, sizeof(*s)))
			return (int)i;
	if (i >= MT_FLOW_SPECS_MAX)
		return -ENOSPC;
	if (bpf_map_update_elem(bpf_map__fd(t->skel->maps.flow_specs), &i, s, BPF_ANY) < 0)
		return -errno;
	t->flow_specs[i] = *s;
	t->flow_specs_cnt++;
	return (int)i;
}

/* Number of a layout equal to `l`, added if need be; -ENOSPC. */
static int tracer__flow_layout(struct tracer *t, const struct mt_flow_layout *l)
{
	struct mt_flow_layout *all = t->skel->bss->mt_flow_layouts;
	uint32_t i;

	for (i = 0; i < t->flow_layouts_cnt; i++)
		if (!memcmp(&all[i], l, sizeof(*l)))
			return (int)i;
	if (i >= MT_FLOW_LAYOUTS_MAX)
		return -ENOSPC;
	all[i] = *l;
	t->flow_layouts_cnt++;
	return (int)i;
}

/* A class of the process's objects; kept once more here, to be taken out of the map when it goes. */
static int tracer__flow_class(struct tracer *t, pid_t pid, const struct flow_vtable *v)
{
	struct mt_class_key k = { .vtable = v->addr, .pid = (uint64_t)pid };

	if (!bpf_map_update_elem(bpf_map__fd(t->skel->maps.flow_classes), &k, &v->class, BPF_EXIST))
		return 0;
	if (t->classes_cnt == t->classes_cap) {
		size_t cap = t->classes_cap ? 2 * t->classes_cap : 64;
		struct mt_class_key *p = realloc(t->classes, cap * sizeof(*p));

		if (!p)
			return -ENOMEM;
		t->classes = p;
		t->classes_cap = cap;
	}
	if (bpf_map_update_elem(bpf_map__fd(t->skel->maps.flow_classes), &k, &v->class, BPF_ANY) < 0)
		return -errno;
	t->classes[t->classes_cnt++] = k;
	return 0;
}

static void tracer__drop_classes(struct tracer *t, pid_t pid)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->classes_cnt; i++) {
		if (t->classes[i].pid == (uint64_t)pid)
			(void)bpf_map_delete_elem(bpf_map__fd(t->skel->maps.flow_classes), &t->classes[i]);
		else
			t->classes[kept++] = t->classes[i];
	}
	t->classes_cnt = kept;
}

size_t tracer__classes_cnt(const struct tracer *t)
{
	return t->classes_cnt;
}

/* Layout and classes of a plan, before its sites. 0 or -errno. */
static int tracer__attach_flow(struct tracer *t, pid_t pid, const struct plan *plan)
{
	int layout;

	layout = plan->flow_layout.torch ? tracer__flow_layout(t, &plan->flow_layout.at) : 0;
	if (layout < 0)
		return layout;
	t->flow_layout = (uint32_t)layout;
	free(t->flow_index);
	t->flow_index = calloc(plan->flow_specs_cnt + 1, sizeof(*t->flow_index));
	if (!t->flow_index)
		return -ENOMEM;
	for (size_t i = 0; i < plan->flow_vtables_cnt; i++) {
		int r = tracer__flow_class(t, pid, &plan->flow_vtables[i]);

		if (r < 0)
			return r;
	}
	return 0;
}

/* Slot of a symbol in the map of fired counts; 0 (nobody's) when there are too many. */
static uint32_t tracer__fired_slot(struct tracer *t, enum mt_prog prog, name_id sym)
{
	for (uint32_t i = 1; i <= t->fired_cnt; i++)
		if (t->fired[i].sym.v == sym.v && t->fired[i].prog == prog)
			return i;
	if (t->fired_cnt + 1 >= MT_FIRED_MAX)
		return 0;
	t->fired[++t->fired_cnt].sym = sym;
	t->fired[t->fired_cnt].prog = prog;
	return t->fired_cnt;
}

/* Number in the map of flow specs of the plan's; -errno. */
static int tracer__flow_index(struct tracer *t, const struct plan *plan, uint64_t spec)
{
	int r;

	if (spec >= plan->flow_specs_cnt)
		return -EINVAL;
	if (t->flow_index[spec])
		return (int)t->flow_index[spec] - 1;
	r = tracer__flow_spec(t, &plan->flow_specs[spec]);
	if (r >= 0)
		t->flow_index[spec] = (uint32_t)r + 1;
	return r;
}

/* What the site's program gets as its cookie; -errno. */
static int tracer__cookie(struct tracer *t, const struct plan *plan, const struct site *s, uint64_t *ret)
{
	int spec;

	switch (s->prog) {
	case MT_PROG_USDT:
		spec = s->cookie < plan->specs_cnt ? tracer__spec(t, &plan->specs[s->cookie]) : -EINVAL;
		if (spec < 0)
			return spec;
		*ret = MT_COOKIE(spec, tracer__fired_slot(t, MT_PROG_USDT, s->sym));
		return 0;
	case MT_PROG_SEG_ENTER:
	case MT_PROG_SEG_RET:
		spec = s->cookie < plan->seg_specs_cnt ? tracer__seg_spec(t, &plan->seg_specs[s->cookie]) : -EINVAL;
		if (spec < 0)
			return spec;
		*ret = MT_COOKIE(spec, tracer__fired_slot(t, MT_PROG_SEG_ENTER, s->sym));
		return 0;
	case MT_PROG_HOST_FREE:
	case MT_PROG_HOST_ENTER:
		*ret = MT_COOKIE(s->cookie, tracer__fired_slot(t, (enum mt_prog)s->prog, s->sym));
		return 0;
	case MT_PROG_FLOW_OP:
		spec = tracer__flow_index(t, plan, s->cookie >> 32);
		if (spec < 0)
			return spec;
		*ret = MT_FLOW_COOKIE((uint64_t)spec << 32 | (uint32_t)s->cookie, t->flow_layout);
		return 0;
	case MT_PROG_FLOW_APPLY:
	case MT_PROG_FLOW_ACC:
		*ret = MT_FLOW_COOKIE(0, t->flow_layout);
		t->prog_sym[s->prog] = s->sym;
		return 0;
	default:
		t->prog_sym[s->prog] = s->sym;
		*ret = s->cookie;
		return 0;
	}
}

/* Sites of a plan with the same file and program. */
struct group {
	const struct site *sites;
	size_t sites_cnt;
	const uint8_t *wanted; /* of the group's first site, or NULL */
	uint8_t *failed; /* the same */
	int is_first;
	/* those that are to be set */
	size_t cnt;
	uint64_t *offsets, *refs, *cookies;
	uint32_t *at; /* index into sites */
	struct link_key key;
	int has_refs;
};

static int is_operator(uint32_t prog)
{
	return prog == MT_PROG_OP || prog == MT_PROG_FLOW_OP;
}

static int source_index(enum source s)
{
	return __builtin_ctz((unsigned)s);
}

static void group__fail(struct group *g, size_t from, size_t to, int code, struct attach_stats *st,
			int *first_err)
{
	st->failed += to - from;
	for (size_t i = from; i < to; i++) {
		/* The kernel keeps one reference counter a place: the first to come decided that there is none. */
		st->clashed += code == -EINVAL && g->sites[g->at[i]].ref_ctr_offset != 0;
		if (g->failed)
			g->failed[g->at[i]] = 1;
	}
	if (!*first_err)
		*first_err = code;
}

/* A site is set. */
static void tracer__attached(struct tracer *t, const struct site *s, struct attach_stats *st)
{
	enum insn_class *c = &t->prog_class[s->prog];

	if (!*c || s->insn_class < *c)
		*c = s->insn_class;
	st->attached_by_source[source_index(s->source)]++;
	st->attached++;
}

/* Attaches group[from, to); a link refused as a whole is split until the culprits are alone. */
static void tracer__attach_range(struct tracer *t, const char *path, struct group *g, size_t from, size_t to,
				 struct attach_stats *st, int *first_err)
{
	int r = tracer__link(t, &g->key, g->is_first, path, g->offsets + from, g->has_refs ? g->refs + from : NULL,
			     g->cookies + from, to - from);

	if (r == 0) {
		for (size_t i = from; i < to; i++)
			tracer__attached(t, &g->sites[g->at[i]], st);
		return;
	}
	if (to - from > 1 && r != -ESRCH) {
		size_t mid = from + (to - from) / 2;

		tracer__attach_range(t, path, g, from, mid, st, first_err);
		tracer__attach_range(t, path, g, mid, to, st, first_err);
		return;
	}
	log_debug("%s+0x%llx: %s", path, (unsigned long long)g->offsets[from], strerror(-r));
	group__fail(g, from, to, r, st, first_err);
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

/* Site i of the group is to be set. */
static int tracer__choose(struct tracer *t, const struct plan *plan, struct group *g, size_t i)
{
	const struct site *s = &g->sites[i];
	int r = tracer__cookie(t, plan, s, &g->cookies[g->cnt]);

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

/* An exec keeps the probes of a process, and two plans may meet the same library: once is enough. */
static int tracer__choose_all(struct tracer *t, const struct plan *plan, struct group *g, struct attach_stats *st)
{
	uint64_t *have;
	size_t have_cnt;
	int r = links__offsets(&t->links, &g->key, &have, &have_cnt);

	if (r < 0)
		return r;
	for (size_t i = 0; i < g->sites_cnt && !r; i++) {
		if (g->wanted && !g->wanted[i])
			continue;
		st->found_by_source[source_index(g->sites[i].source)]++;
		if (is_in(have, have_cnt, g->sites[i].offset))
			tracer__attached(t, &g->sites[i], st);
		else
			r = tracer__choose(t, plan, g, i);
	}
	free(have);
	return r;
}

static void tracer__attach_group(struct tracer *t, pid_t pid, const struct plan *plan, struct group *g,
				struct attach_stats *st, int *first_err)
{
	int fd = tracer__file(t, &plan->libs[g->sites->lib]), r;
	char path[64];

	g->key = (struct link_key){ pid, fd, (enum mt_prog)g->sites->prog, g->sites->is_ret };
	g->is_first = !g->wanted && is_operator(g->sites->prog);
	g->cnt = 0;
	g->has_refs = 0;
	r = fd < 0 ? fd : tracer__choose_all(t, plan, g, st);
	if (r < 0) {
		for (size_t i = 0; i < g->sites_cnt; i++)
			g->at[i] = (uint32_t)i;
		group__fail(g, 0, g->sites_cnt, r, st, first_err);
		return;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (g->cnt)
		tracer__attach_range(t, path, g, 0, g->cnt, st, first_err);
}

static int group__init(struct group *g, size_t sites_cnt)
{
	size_t n = sites_cnt ? sites_cnt : 1;

	*g = (struct group){ 0 };
	g->offsets = malloc(n * (3 * sizeof(*g->offsets) + sizeof(*g->at)));
	if (!g->offsets)
		return -ENOMEM;
	g->refs = g->offsets + n;
	g->cookies = g->refs + n;
	g->at = (uint32_t *)(g->cookies + n);
	return 0;
}

/* The plan's sites from i on that are of one group; 0: there are none. */
static size_t group__begin(struct group *g, const struct plan *plan, size_t i)
{
	const struct site *s = &plan->sites[i];
	size_t n = 0;

	while (i + n < plan->sites_cnt && s[n].lib == s->lib && s[n].prog == s->prog && s[n].is_ret == s->is_ret)
		n++;
	g->sites = s;
	g->sites_cnt = n;
	return n;
}

/* Threads that begin after this have all their choices of a device seen. */
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
	/* A full table: the devices of new threads are not known, as those of old ones are not. */
	(void)bpf_map_update_elem(fd, &key, &p, BPF_ANY);
}

int tracer__attach(struct tracer *t, pid_t pid, const struct plan *plan, struct attach_stats *ret,
		   struct err *err)
{
	struct attach_stats st = { .way = t->use_perf, .site_failed = ret->site_failed, .wanted = ret->wanted };
	uint64_t t0 = now_ns();
	int first_err = tracer__attach_flow(t, pid, plan);
	struct group g;

	if (first_err < 0)
		return err_set(err, first_err, "tensor arguments: %s", strerror(-first_err));
	if (group__init(&g, plan->sites_cnt) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0, n; i < plan->sites_cnt; i += n) {
		n = group__begin(&g, plan, i);
		g.wanted = st.wanted ? st.wanted + i : NULL;
		g.failed = st.site_failed ? st.site_failed + i : NULL;
		tracer__attach_group(t, pid, plan, &g, &st, &first_err);
	}
	free(g.offsets);
	if (plan->seg_specs_cnt)
		tracer__segments_since(t, pid, plan);
	st.took_ns = now_ns() - t0;
	if (first_err != -ESRCH) /* of a process that is gone nothing is missing */
		t->sites_failed += st.failed;
	*ret = st;
	if (!st.attached && st.failed) {
		err_set(err, first_err, "none of %u probes could be set in process %d: %s", st.failed, (int)pid,
			strerror(-first_err));
		return err_hint(err, first_err == -ESRCH ? "the process has ended" :
						     "try -vv for the reason of each, or memtrace doctor");
	}
	return 0;
}

/* A link of the group that has other sites than those wanted makes room for one that has not. */
static int tracer__shrink(struct tracer *t, const struct plan *plan, struct group *g, size_t link,
			  struct retire_stats *st)
{
	struct link_key key = t->links.v[link].key;
	char path[64];
	int r = 0;

	g->cnt = 0;
	g->has_refs = g->is_first = 0;
	for (size_t i = 0; i < g->sites_cnt && !r; i++)
		if (g->wanted[i] && is_in(t->links.v[link].offsets, t->links.v[link].offsets_cnt, g->sites[i].offset))
			r = tracer__choose(t, plan, g, i);
	if (r < 0)
		return r;
	if (g->cnt == t->links.v[link].offsets_cnt) {
		t->links.v[link].is_first = 0; /* as it is */
		return 0;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", key.file_fd);
	if (g->cnt)
		r = tracer__link(t, &key, 0, path, g->offsets, NULL, g->cookies, g->cnt);
	if (r < 0)
		return r;
	st->taken += (uint32_t)(t->links.v[link].offsets_cnt - g->cnt);
	st->kept += (uint32_t)g->cnt;
	t->links.v[link].key.pid = 0;
	return 0;
}

static int tracer__retire_group(struct tracer *t, pid_t pid, const struct plan *plan, struct group *g,
				struct retire_stats *st)
{
	int fd = tracer__file(t, &plan->libs[g->sites->lib]), r = fd < 0 ? fd : 0;
	struct link_key key = { pid, fd, (enum mt_prog)g->sites->prog, g->sites->is_ret };
	size_t cnt = t->links.cnt;

	for (size_t i = 0; i < cnt && !r; i++)
		if (t->links.v[i].is_first && link_key_same(&t->links.v[i].key, &key))
			r = tracer__shrink(t, plan, g, i, st);
	return r;
}

int tracer__retire(struct tracer *t, pid_t pid, const struct plan *plan, const uint8_t *wanted,
		   struct retire_stats *ret)
{
	struct retire_stats st = { 0 };
	uint64_t t0 = now_ns();
	struct group g;
	int r = tracer__attach_flow(t, pid, plan);

	if (!r)
		r = group__init(&g, plan->sites_cnt);
	if (r < 0)
		return r;
	for (size_t i = 0, n; i < plan->sites_cnt && !r; i += n) {
		n = group__begin(&g, plan, i);
		g.wanted = wanted + i;
		if (is_operator(g.sites->prog))
			r = tracer__retire_group(t, pid, plan, &g, &st);
	}
	free(g.offsets);
	links__close_marked(&t->links, t->closer);
	st.took_ns = now_ns() - t0;
	*ret = st;
	return r;
}

uint64_t tracer__looked_up(struct tracer *t)
{
	return __atomic_exchange_n(&t->skel->bss->mt_looked_up_ns, 0, __ATOMIC_ACQ_REL);
}

void tracer__detach(struct tracer *t, pid_t pid)
{
	uint32_t key = (uint32_t)pid;

	links__close_pid(&t->links, pid, t->closer);
	tracer__drop_classes(t, pid);
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

int tracer__modules(struct tracer *t, pid_t pid, const struct mt_module_proc *how)
{
	int fd = bpf_map__fd(t->skel->maps.module_procs);
	uint32_t key = (uint32_t)pid;

	if (!how)
		return bpf_map_delete_elem(fd, &key);
	t->skel->bss->mt_modules_on = 1;
	return bpf_map_update_elem(fd, &key, how, BPF_ANY);
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

int tracer__tells_victims(const struct tracer *t)
{
	return t->skel->links.mt_oom_victim != NULL;
}

int tracer__fd(const struct tracer *t)
{
	return t->epoll_fd;
}

int tracer__drain(struct tracer *t, size_t max, int (*fn)(void *ctx, const void *rec, size_t len), void *ctx,
		  int *ret_more)
{
	long n = 0;

	*ret_more = 0;
	for (unsigned i = 0; i < t->rings_cnt; i++) {
		long r = ring__drain(&t->rings[i], max, fn, ctx);

		if (r < 0)
			return (int)r;
		n += r;
		if ((size_t)r >= max)
			*ret_more = 1;
	}
	return n > INT32_MAX ? INT32_MAX : (int)n;
}

void tracer__counters(const struct tracer *t, struct trace_counters *ret)
{
	uint64_t stack_ns = 0, module_ns = 0;

	memset(ret, 0, sizeof(*ret));
	for (size_t cpu = 0; cpu < MT_CPUS_MAX; cpu++) {
		const struct mt_counters *c = &t->skel->bss->mt_counters[cpu];

		stack_ns += __atomic_load_n(&c->stack_ns, __ATOMIC_RELAXED);
		module_ns += __atomic_load_n(&c->module_ns, __ATOMIC_RELAXED);
		for (unsigned i = 0; i < MT_PROG_MAX; i++)
			ret->hits[i] += __atomic_load_n(&c->hits[i], __ATOMIC_RELAXED);
		for (unsigned i = 0; i < MT_LOSS_MAX; i++)
			ret->loss[i] += __atomic_load_n(&c->loss[i], __ATOMIC_RELAXED);
	}
	ret->loss[MT_LOSS_SITES] += t->sites_failed;
	for (unsigned i = 0; i < MT_PROG_MAX; i++)
		ret->cost_ns[i] = i == MT_PROG_STACK  ? stack_ns :
				  i == MT_PROG_MODULE ? module_ns :
							ret->hits[i] * tracer__cost_ns(t, (enum mt_prog)i);
}

int tracer__each_fired(const struct tracer *t, void (*fn)(void *ctx, name_id sym, uint64_t cnt), void *ctx)
{
	int cpus = libbpf_num_possible_cpus(), map = bpf_map__fd(t->skel->maps.fired);
	uint64_t *each = cpus > 0 ? calloc((size_t)cpus, sizeof(*each)) : NULL;
	struct trace_counters c;

	if (!each)
		return -ENOMEM;
	for (uint32_t i = 1; i <= t->fired_cnt; i++) {
		uint64_t sum = 0;

		if (bpf_map_lookup_elem(map, &i, each) < 0)
			continue;
		for (int k = 0; k < cpus; k++)
			sum += each[k];
		fn(ctx, t->fired[i].sym, sum);
	}
	free(each);
	tracer__counters(t, &c);
	for (unsigned i = 1; i < MT_PROG_MAX; i++)
		if (t->prog_sym[i].v && i != MT_PROG_OP && i != MT_PROG_FLOW_OP && i != MT_PROG_HOST_RET &&
		    i != MT_PROG_HOST_EXIT)
			fn(ctx, t->prog_sym[i], c.hits[i]);
	return 0;
}

unsigned tracer__cost_ns(const struct tracer *t, enum mt_prog prog)
{
	if (prog == MT_PROG_HOST_EXIT)
		return calib__cost_ns(&t->calib, MT_PROG_HOST_FREE, INSN_STEPPED); /* alike, at a ret */
	if (prog == MT_PROG_SYSCALL || prog == MT_PROG_EXIT)
		return t->kernel_ns;
	if (prog == MT_PROG_LOOKUP) /* does as little, and is as rare */
		return calib__cost_ns(&t->calib, MT_PROG_REGION_END, t->prog_class[prog] ? t->prog_class[prog] : INSN_EMULATED);
	return calib__cost_ns(&t->calib, prog, t->prog_class[prog] ? t->prog_class[prog] : INSN_EMULATED);
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
	ret->is_root = geteuid() == 0;
	ret->has_btf = access("/sys/kernel/btf/vmlinux", R_OK) == 0;
	if (!tracer__new(&t, &opts, &err)) {
		ret->has_uprobe_multi = !t->use_perf;
		ret->ns_emulated = t->calib.class_ns[INSN_EMULATED];
		ret->ns_stepped = t->calib.class_ns[INSN_STEPPED];
		ret->ns_nop = t->calib.class_ns[INSN_NOP];
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

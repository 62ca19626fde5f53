/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Putting a plan together: each mapped file is opened once, asked for everything that the sources
 * want of it, and closed again. A file that cannot be opened or is no ELF file costs a note at most;
 * the plan fails only when the process is gone, memory is short, or nothing at all was found.
 */
#include "plan/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOG_MODULE "plan"
#include "base/err.h"
#include "base/log.h"
#include "plan/builder.h"

/* --- names of things --------------------------------------------------------------------------------- */

static const struct {
	enum source source;
	const char *name;
} source_names[] = {
	{ SRC_FRAMEWORK, "framework" }, { SRC_OPS, "ops" },   { SRC_REGIONS, "regions" },
	{ SRC_KERNEL, "kernel" },	{ SRC_HOST, "host" }, { SRC_USDT, "usdt" },
	{ SRC_VIEWS, "views" },		{ SRC_FLOW, "flow" }, { SRC_SEGMENTS, "segments" },
};
#define SOURCES_CNT (sizeof(source_names) / sizeof(*source_names))

const char *source_name(enum source one)
{
	for (size_t i = 0; i < SOURCES_CNT; i++)
		if (source_names[i].source == one)
			return source_names[i].name;
	return "?";
}

const char *prog_name(enum mt_prog prog)
{
	static const char *const prog_names[MT_PROG_MAX] = {
		[MT_PROG_FW_NEW] = "framework new",
		[MT_PROG_FW_DELETE] = "framework delete",
		[MT_PROG_FW_OOM] = "framework out of memory",
		[MT_PROG_OP] = "op",
		[MT_PROG_NODE] = "backward node",
		[MT_PROG_REGION_BEGIN] = "region begin",
		[MT_PROG_REGION_END] = "region end",
		[MT_PROG_HOST_FREE] = "host free",
		[MT_PROG_HOST_ENTER] = "host enter",
		[MT_PROG_HOST_RET] = "host return",
		[MT_PROG_HOST_EXIT] = "host ret",
		[MT_PROG_USDT] = "usdt",
		[MT_PROG_FLOW_OP] = "op with its tensors",
		[MT_PROG_FLOW_APPLY] = "node apply",
		[MT_PROG_FLOW_ACC] = "gradient accumulation",
		[MT_PROG_SYSCALL] = "syscall",
		[MT_PROG_RSS] = "rss",
		[MT_PROG_EXIT] = "exit",
		[MT_PROG_FW_USAGE] = "framework usage",
		[MT_PROG_FW_USAGE_OOM] = "framework usage, out of memory",
		[MT_PROG_SEG_ENTER] = "segment enter",
		[MT_PROG_SEG_RET] = "segment return",
		[MT_PROG_STACK] = "stack",
		[MT_PROG_MODULE] = "module",
		[MT_PROG_LOOKUP] = "operator look-up",
	};

	return (unsigned)prog < MT_PROG_MAX && prog_names[prog] ? prog_names[prog] : "?";
}

static int source_parse(const char *name, size_t len, unsigned *mask, struct err *err)
{
	for (size_t i = 0; i < SOURCES_CNT; i++)
		if (strlen(source_names[i].name) == len && !memcmp(source_names[i].name, name, len)) {
			*mask |= source_names[i].source;
			return 0;
		}
	err_set(err, -EINVAL, "--probes: there is no source \"%.*s\"", (int)(len < 40 ? len : 40), name);
	err_hint(err, "one or more of segments,framework,ops,views,flow,regions,kernel,host,usdt, separated by commas");
	return -EINVAL;
}

int sources_parse(const char *text, unsigned *ret_mask, struct err *err)
{
	unsigned mask = 0;

	for (;;) {
		size_t len = strcspn(text, ",");
		int r = source_parse(text, len, &mask, err);

		if (r < 0)
			return r;
		if (!text[len])
			break;
		text += len + 1;
	}
	*ret_mask = mask;
	return 0;
}

/* --- the plan ------------------------------------------------------------------------------------------
 */

void plan__free(struct plan *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->libs_cnt; i++) {
		free(p->libs[i].path);
		if (p->libs[i].fd >= 0)
			close(p->libs[i].fd);
	}
	for (size_t i = 0; i < p->notes_cnt; i++)
		free(p->notes[i]);
	free(p->libs);
	free(p->sites);
	free(p->guards);
	free(p->vtables);
	free(p->specs);
	free(p->seg_specs);
	free(p->flow_specs);
	free(p->flow_vtables);
	free(p->notes);
	free(p);
}

const struct vtable *plan__find_vtable(const struct plan *p, uint64_t addr)
{
	size_t lo = 0, hi = p->vtables_cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (p->vtables[mid].addr < addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < p->vtables_cnt && p->vtables[lo].addr == addr ? &p->vtables[lo] : NULL;
}

static int vtable_cmp(const void *pa, const void *pb)
{
	const struct vtable *a = pa, *b = pb;

	return a->addr < b->addr ? -1 : a->addr > b->addr;
}

/*
 * The order in which sites are set, across libraries; it matters while a busy job goes on, most of all with
 * perf uprobes, which take long. What frees comes first: a free whose block was not seen is harmless,
 * a block whose free was not looks lost. Then returns and the ends of regions: a call whose return is not seen
 * looks lost, a region without its end stays open.
 * Then births, before the thousands of operators: an operator's argument whose birth was not seen is taken
 * for a block from before the attach, and in the time that setting takes a busy job makes hundreds. Operators are last.
 */
static int site_rank(const struct site *s)
{
	if (s->prog == MT_PROG_FW_DELETE || s->prog == MT_PROG_HOST_FREE)
		return 0;
	if (s->is_ret || s->prog == MT_PROG_HOST_EXIT || s->prog == MT_PROG_REGION_END)
		return 1;
	if (s->prog == MT_PROG_FW_NEW || s->prog == MT_PROG_FW_OOM || s->prog == MT_PROG_FW_USAGE)
		return 2;
	return s->prog == MT_PROG_OP || s->prog == MT_PROG_FLOW_OP ? 4 : 3;
}

static int site_cmp(const void *pa, const void *pb)
{
	const struct site *a = pa, *b = pb;

	if (site_rank(a) != site_rank(b))
		return site_rank(a) - site_rank(b);
	if (a->lib != b->lib)
		return a->lib < b->lib ? -1 : 1;
	if (a->prog != b->prog)
		return a->prog < b->prog ? -1 : 1;
	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	return a->cookie < b->cookie ? -1 : a->cookie > b->cookie;
}

/*
 * Sorts, and drops a second site of one program at one place: aliases (memalign and aligned_alloc of
 * glibc are one function), functions that the linker has folded.
 */
static void plan__sort(struct plan *p)
{
	size_t n = 0;

	if (p->vtables_cnt)
		qsort(p->vtables, p->vtables_cnt, sizeof(*p->vtables), vtable_cmp);
	if (p->sites_cnt)
		qsort(p->sites, p->sites_cnt, sizeof(*p->sites), site_cmp);
	for (size_t i = 0; i < p->sites_cnt; i++) {
		const struct site *s = &p->sites[i], *last = n ? &p->sites[n - 1] : NULL;

		if (last && last->lib == s->lib && last->prog == s->prog && last->offset == s->offset)
			continue;
		p->sites[n++] = *s;
	}
	p->sites_cnt = n;
}

static int guard_cmp(const void *pa, const void *pb)
{
	const struct plan_guard *a = pa, *b = pb;

	return a->addr < b->addr ? -1 : a->addr > b->addr;
}

/* After the sorting of sites. 0 or -ENOMEM. */
static int plan__list_guards(struct plan *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->sites_cnt; i++)
		n += p->sites[i].guard != 0;
	p->guards = n ? malloc(n * sizeof(*p->guards)) : NULL;
	if (n && !p->guards)
		return -ENOMEM;
	for (size_t i = 0; i < p->sites_cnt; i++)
		if (p->sites[i].guard)
			p->guards[p->guards_cnt++] = (struct plan_guard){ p->sites[i].guard, (uint32_t)i };
	if (n)
		qsort(p->guards, n, sizeof(*p->guards), guard_cmp);
	return 0;
}

/* --- builder ---------------------------------------------------------------------------------------------
 */

void builder__note(struct builder *b, const char *fmt, ...)
{
	struct plan *p = b->plan;
	char **notes, *text;
	va_list ap;
	int n;

	if (p->notes_cnt == PLAN_NOTES_MAX)
		return;
	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	notes = realloc(p->notes, (p->notes_cnt + 1) * sizeof(*notes));
	if (!notes) {
		free(text);
		return;
	}
	p->notes = notes;
	notes[p->notes_cnt++] = text;
}

void builder__cover(struct builder *b, enum source source, uint32_t wanted, uint32_t found)
{
	struct plan *p = b->plan;

	if (p->covers_cnt < sizeof(p->covers) / sizeof(*p->covers))
		p->covers[p->covers_cnt++] = (struct plan_cover){ source, wanted, found };
}

/* The current library's entry in plan->libs, made at its first site. */
static int builder__use_lib(struct builder *b)
{
	struct plan *p = b->plan;
	struct plan_lib *libs, l = { .dev = b->lib->dev, .ino = b->lib->ino };

	if (b->lib_at != UINT32_MAX)
		return 0;
	libs = realloc(p->libs, (p->libs_cnt + 1) * sizeof(*libs));
	if (!libs)
		return -ENOMEM;
	p->libs = libs;
	l.path = strdup(b->lib->path);
	if (!l.path)
		return -ENOMEM;
	l.fd = b->lib_fd;
	b->lib_fd = -1;
	b->lib_at = (uint32_t)p->libs_cnt;
	libs[p->libs_cnt++] = l;
	return 0;
}

int builder__add_site(struct builder *b, const struct site *site, const char *sym)
{
	struct plan *p = b->plan;
	int r = builder__use_lib(b);

	if (r < 0)
		return r;
	if (p->sites_cnt == b->sites_cap) {
		size_t cap = b->sites_cap ? b->sites_cap * 2 : 512;
		struct site *sites;

		if (cap > PLAN_SITES_MAX) {
			builder__note(b, "%s: more than %u probe sites; the rest is not watched",
				      b->lib->base, PLAN_SITES_MAX);
			return 0;
		}
		sites = realloc(p->sites, cap * sizeof(*sites));
		if (!sites)
			return -ENOMEM;
		p->sites = sites;
		b->sites_cap = cap;
	}
	p->sites[p->sites_cnt] = *site;
	p->sites[p->sites_cnt].lib = b->lib_at;
	p->sites[p->sites_cnt].sym = names__add(b->names, sym);
	p->sites_cnt++;
	return 0;
}

static int builder__plan_elf(struct builder *b)
{
	int r = catalog__plan_lib(b);

	if (r == 0 && (b->sources & SRC_SEGMENTS))
		r = gpu__plan_lib(b);
	if (b->lib->is_exe) {
		b->exe_is_static = (uint32_t)elf__is_static(b->elf);
		b->exe_is_stripped = (uint32_t)elf__is_stripped(b->elf);
	}
	if (r == 0 && (b->sources & (SRC_OPS | SRC_VIEWS | SRC_FLOW | SRC_REGIONS)))
		r = ops__plan_lib(b);
	if (r == 0 && (b->sources & SRC_USDT))
		r = usdt__plan_lib(b);
	builder__note_left_out(b);
	return r;
}

/* 0 also for a file that has to be left out. */
static int builder__plan_lib(struct builder *b, const struct lib *lib, struct err *err)
{
	struct err why = { 0 };
	struct elf *e;
	int fd = target__open_lib(b->target, lib, &why), r;

	if (fd == -ESRCH) {
		if (err)
			*err = why;
		return fd;
	}
	if (fd < 0) {
		builder__note(b, "%s", why.msg);
		return 0;
	}
	b->lib_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	r = b->lib_fd < 0 ? -errno : elf__open(&e, fd, lib->path, &why);
	if (b->lib_fd < 0)
		close(fd);
	if (r < 0) {
		if (b->lib_fd >= 0)
			close(b->lib_fd);
		log_debug("%s", why.msg);
		return r == -ENOMEM ? err_set(err, r, "out of memory") : 0;
	}
	b->lib = lib;
	b->elf = e;
	b->lib_at = UINT32_MAX;
	r = builder__plan_elf(b);
	elf__free(e);
	b->elf = NULL;
	if (b->lib_fd >= 0)
		close(b->lib_fd);
	if (r < 0)
		return err_set(err, r, "planning %s: %s", lib->path, strerror(-r));
	return 0;
}

static int builder__read_usdt(struct builder *b, const struct plan_opts *opts, struct err *err)
{
	const struct usdt_pattern *always;
	size_t always_cnt = usdt_patterns_known(&always);

	b->patterns = calloc(opts->usdt_cnt + always_cnt, sizeof(*b->patterns));
	if (!b->patterns)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < opts->usdt_cnt; i++) {
		int r = usdt_pattern_parse(opts->usdt[i], &b->patterns[i], err);

		if (r < 0)
			return r;
	}
	memcpy(b->patterns + opts->usdt_cnt, always, always_cnt * sizeof(*always));
	b->patterns_cnt = opts->usdt_cnt + always_cnt;
	return 0;
}

/* --- nothing found ---------------------------------------------------------------------------------------
 */

static const char *exe_path(const struct target *t)
{
	const struct lib *libs;
	size_t cnt = target__libs(t, &libs);

	for (size_t i = 0; i < cnt; i++)
		if (libs[i].is_exe)
			return libs[i].path;
	return target__comm(t);
}

static const struct usdt_pattern *users_pattern(const struct builder *b)
{
	return b->patterns_cnt && b->patterns[0].is_users ? &b->patterns[0] : NULL;
}

static int nothing_found(const struct builder *b, struct err *err)
{
	const struct lib *libs;
	size_t cnt = target__libs(b->target, &libs);
	int pid = (int)target__pid(b->target);
	const char *exe = exe_path(b->target);

	if (!cnt) {
		err_set(err, -ENOENT,
			"process %d has no program mapped: it is a kernel thread or just ending", pid);
		return -ENOENT;
	}
	if (b->exe_is_static && b->exe_is_stripped) {
		err_set(err, -ENOENT, "process %d: %.200s is a static program without symbols", pid, exe);
		err_hint(err, "what its allocator does cannot be seen from outside; --probes kernel shows "
			      "the memory "
			      "that the kernel gives it");
		return -ENOENT;
	}
	if (b->plan->unsafe_cnt) {
		err_set(err, -ENOENT, "process %d: on this kernel a probe could change the program's data at each of its "
			"%u known sites", pid, b->plan->unsafe_cnt);
		err_hint(err, "memtrace doctor says which instructions can be probed here");
		return -ENOENT;
	}
	err_set(err, -ENOENT, "process %d: no known allocator symbol in %.200s%s", pid, exe,
		b->exe_is_static ? ", a static program" : " and its libraries");
	if (users_pattern(b))
		err_hint(err,
			 "the USDT probe %s:%s is not there either; readelf -n FILE lists what a file has",
			 users_pattern(b)->provider, users_pattern(b)->name);
	else if (!(b->sources & SRC_HOST))
		err_hint(err, "%s--probes host watches malloc and free",
			 b->exe_is_static ? "" : "it has not loaded PyTorch (yet?); ");
	else
		err_hint(
			err,
			"is it a program with an allocator of its own? memtrace/usdt.h makes that visible; "
			"--probes kernel shows the memory that the kernel gives it");
	return -ENOENT;
}

static void builder__finish(struct builder *b)
{
	catalog__cover(b);
	if (b->sources & SRC_SEGMENTS)
		gpu__cover(b);
	if (b->sources & SRC_OPS)
		builder__cover(b, SRC_OPS, b->ops_found, b->ops_found);
	if ((b->sources & SRC_VIEWS) && !(b->sources & SRC_FLOW))
		builder__cover(b, SRC_VIEWS, b->views_found, b->views_found);
	if (b->sources & SRC_FLOW)
		builder__cover(b, SRC_FLOW, b->flow_wanted, b->flow_found);
	if (b->sources & SRC_USDT)
		usdt__cover(b);
	if (b->plan->flow_args_unread)
		builder__note(b, "%u operators have a signature that is not understood: their tensors are "
				 "not read",
			      b->plan->flow_args_unread);
	if ((b->sources & (SRC_FRAMEWORK | SRC_OPS | SRC_FLOW)) && !b->ops_found && !b->flow_found &&
	    !b->rows_found[0])
		builder__note(b, "PyTorch is not loaded: tensors and operators become visible when it is");
	if ((b->sources & SRC_HOST) && !b->host_lib)
		builder__note(b, "no library defines malloc and free: host memory is not visible");
	if (b->exe_is_static)
		builder__note(b, "the program is static%s: only what is linked into it can be seen",
			      b->exe_is_stripped ? " and stripped" : "");
	plan__sort(b->plan);
}

static int builder__wants(const struct builder *b, const struct lib *lib, int only_new)
{
	int is_torch = strstr(lib->base, "torch") != NULL;

	if (b->flow_waits && is_torch)
		return 0;
	return !only_new || lib->is_new || (b->flow_late && is_torch);
}

static int builder__run(struct builder *b, const struct plan_opts *opts, struct err *err)
{
	const struct lib *libs;
	size_t cnt = target__libs(b->target, &libs);
	int r = builder__read_usdt(b, opts, err);

	if (r == 0 && (b->sources & SRC_HOST))
		r = catalog__choose_host(b, err);
	if (r == 0 && (b->sources & SRC_FLOW))
		r = flow__begin(b, err);
	for (size_t i = 0; r == 0 && i < cnt; i++)
		if (builder__wants(b, &libs[i], opts->only_new_libs))
			r = builder__plan_lib(b, &libs[i], err);
	if (r < 0)
		return r;
	if (!target__alive(b->target)) {
		err_set(err, -ESRCH, "process %d ended while it was looked at",
			(int)target__pid(b->target));
		return -ESRCH;
	}
	if (!b->plan->sites_cnt && !opts->only_new_libs && (b->sources & ~(unsigned)SRC_KERNEL))
		return nothing_found(b, err);
	if (!opts->only_new_libs)
		builder__finish(b);
	else
		plan__sort(b->plan);
	return plan__list_guards(b->plan) < 0 ? err_set(err, -ENOMEM, "out of memory") : 0;
}

/*
 * An emulated call pushes its return address on one stack of two, and the function that it calls dies of its return (mended in
 * 2026, abf08854d224). A program that is just loading may get its second stack yet. Return probes exchange the return address
 * on one of them; kernels between 6.6 and 6.10 did not mind the other.
 */
static void builder__mind_shadow_stacks(struct builder *b)
{
	int has = target__has_shadow_stack(b->target);

	if (has || machine_has_shadow_stacks())
		b->classes.of[INSN_CALL].is_usable = 0;
	if (has)
		b->classes.of[INSN_RETURN].is_usable = 0;
}

int plan__build(struct plan **ret, struct target *t, const struct plan_opts *opts, struct names *names,
		struct err *err)
{
	struct builder b = {
		.plan = calloc(1, sizeof(*b.plan)),
		.target = t,
		.names = names,
		.sources = opts->sources | (opts->usdt_cnt ? SRC_USDT : 0),
		.classes = opts->classes ? *opts->classes : insn_classes_assumed(),
		.has_guards = !opts->keep_idle,
	};
	int r;

	if (!b.plan)
		return err_set(err, -ENOMEM, "out of memory");
	if (b.sources & SRC_FLOW) /* which needs the regions, and says all that ops says */
		b.sources = (b.sources | SRC_REGIONS) & ~(unsigned)SRC_OPS;
	b.plan->is_tried = b.classes.is_tried;
	builder__mind_shadow_stacks(&b);
	r = builder__run(&b, opts, err);
	free(b.patterns);
	free(b.flow_slots);
	if (r < 0) {
		plan__free(b.plan);
		return r;
	}
	*ret = b.plan;
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * A plan as a whole. Each mapped file is searched for everything that the sources want of it (files.c). A file that cannot be
 * opened or is no ELF file costs a note at most; the plan fails only when the process has ended, memory is short, or nothing at
 * all was found.
 */
#include "plan/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOG_MODULE "plan"
#include "base/err.h"
#include "base/log.h"
#include "plan/cache.h"

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

/* --- making one --------------------------------------------------------------------------------------------- */

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
	if (b->plan->files_left_out)
		err_hint(err, "%s", b->plan->notes_cnt ? b->plan->notes[0] : "files were left out");
	else if (users_pattern(b))
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
		r = host__choose(b, err);
	if (r == 0 && (b->sources & SRC_FLOW))
		r = flow__begin(b, err);
	for (size_t i = 0; r == 0 && i < cnt; i++)
		if (builder__wants(b, &libs[i], opts->only_new_libs))
			r = builder__plan_lib(b, &libs[i], err);
	if (r < 0)
		return r;
	boxed__take_regions(b->plan, opts->by_windows);
	if (target__unseen(b->target)) {
		b->plan->files_left_out += (uint32_t)target__unseen(b->target);
		builder__note(b, "more than %u libraries: %zu further mappings of code are not looked at", TARGET_LIBS_MAX,
			      target__unseen(b->target));
	}
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
 * An emulated call pushes its return address on only one of the two stacks, so the return from the called function is fatal
 * (fixed in 2026, abf08854d224). A program that is just loading may still get its second stack. Return probes exchange the
 * return address on one of them; kernels between 6.6 and 6.10 did not mind the other.
 */
static void builder__mind_shadow_stacks(struct builder *b)
{
	int has = target__has_shadow_stack(b->target);

	if (has || machine_has_shadow_stacks())
		b->classes.of[INSN_CALL].is_usable = 0;
	if (has)
		b->classes.of[INSN_RETURN].is_usable = 0;
}

/* Makes a plan with `run`, with a cache of its own if none is given. */
static int builder__make(struct builder *b, int (*run)(struct builder *b, const struct plan_opts *opts, struct err *err),
			 const struct plan_opts *opts, struct plan **ret, struct err *err)
{
	struct plan_cache *own = opts->cache ? NULL : plan_cache__new();
	int r = arch__ready(err);

	if (r < 0) {
		plan_cache__free(own);
		return r;
	}
	b->plan = calloc(1, sizeof(*b->plan));
	b->cache = opts->cache ? opts->cache : own;
	b->stop = opts->stop;
	if (b->plan && b->cache) {
		b->plan->is_tried = b->classes.is_tried;
		plan_cache__begin(b->cache);
		r = run(b, opts, err);
	} else {
		r = err_set(err, -ENOMEM, "out of memory");
	}
	builder__close_all(b);
	plan_cache__free(own);
	free(b->patterns);
	index__done(&b->by_flow_spec);
	if (r < 0) {
		plan__free(b->plan);
		return r;
	}
	*ret = b->plan;
	return 0;
}

int plan__build(struct plan **ret, struct target *t, const struct plan_opts *opts, struct names *names,
		struct err *err)
{
	struct builder b = {
		.target = t,
		.names = names,
		.sources = opts->sources | (opts->usdt_cnt ? SRC_USDT : 0),
		.classes = opts->classes ? *opts->classes : insn_classes_assumed(),
		.has_guards = !opts->keep_idle,
	};

	if (b.sources & SRC_FLOW) /* flow needs the regions, and includes all of ops */
		b.sources = (b.sources | SRC_REGIONS) & ~(unsigned)SRC_OPS;
	builder__mind_shadow_stacks(&b);
	return builder__make(&b, builder__run, opts, ret, err);
}

static int builder__run_tensors(struct builder *b, const struct plan_opts *opts, struct err *err)
{
	int r = flow__begin(b, err);

	(void)opts;
	if (r < 0 || b->plan->flow_layout.torch)
		return r;
	return b->plan->notes_cnt ? err_set(err, -ENOTSUP, "%s", b->plan->notes[0]) :
				    err_set(err, -ENOENT, "no torch is mapped");
}

int plan__tensors(struct plan **ret, struct target *t, struct err *err)
{
	struct builder b = { .target = t, .sources = SRC_FLOW };

	return builder__make(&b, builder__run_tensors, &(struct plan_opts){ 0 }, ret, err);
}

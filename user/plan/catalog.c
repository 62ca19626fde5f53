/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The catalog: the functions that show what happens to memory, and what must still be in which register when the probe on them
 * fires.
 *
 * A row names the library that usually has the symbol, for people. The symbol is taken from whichever mapped file defines it:
 * wheels rename libraries, and some programs link the framework statically. A look-up through the hash table costs
 * microseconds, a wrong guess about names costs all data.
 *
 * The malloc family is different: every process has several libraries that define malloc, and calls go to the one that the
 * dynamic linker found first. See host.c.
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "plan/builder.h"
#include "plan/exits.h"

struct catalog_row {
	const char *lib; /* where it usually is */
	const char *symbol;
	const char *shown;
	enum source source;
	enum mt_prog prog;
	struct prologue_need need;
	uint64_t cookie;
};

static const struct catalog_row rows[] = {
#define REPORTS(sym, name, prog, args) { "libc10.so", sym, "c10::" name, SRC_FRAMEWORK, prog, { args, 0 }, 0 }
	REPORTS("_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm", "ProfiledCPUMemoryReporter::New", MT_PROG_FW_NEW,
		ARG_BIT(1) | ARG_BIT(2)),
	REPORTS("_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv", "ProfiledCPUMemoryReporter::Delete", MT_PROG_FW_DELETE,
		ARG_BIT(1)),
	REPORTS("_ZN3c1025ProfiledCPUMemoryReporter11OutOfMemoryEm", "ProfiledCPUMemoryReporter::OutOfMemory", MT_PROG_FW_OOM,
		ARG_BIT(1)),
	REPORTS("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE", "reportMemoryUsageToProfiler", MT_PROG_FW_USAGE,
		ARG_BIT(0) | ARG_BIT(1) | ARG_BIT(2) | ARG_BIT(3) | ARG_BIT(4)),
	REPORTS("_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE", "reportOutOfMemoryToProfiler", MT_PROG_FW_USAGE_OOM,
		ARG_BIT(0) | ARG_BIT(3)),
#define MARKS(lib, sym, name, prog, args, needs_ret_addr, cookie) \
	{ lib, sym, "torch::autograd::" name, SRC_REGIONS, prog, { args, needs_ret_addr }, cookie }
	MARKS("libtorch_cpu.so",
	      "_ZN5torch8autograd8profiler25record_function_enter_newERKNSt7__cxx1112basic_stringIcSt11char_"
	      "traitsIcESaIcEEERKSt8optionalIS7_E",
	      "profiler::record_function_enter_new", MT_PROG_REGION_BEGIN, ARG_BEHIND_RESULT(0), 0, 0),
	MARKS("libtorch_cpu.so", "_ZN5torch8autograd8profiler25record_function_enter_newERKSsRKSt8optionalISsE",
	      "profiler::record_function_enter_new", MT_PROG_REGION_BEGIN, ARG_BEHIND_RESULT(0), 0, MT_REGION_OLD_STRING),
	/*
	 * The operator _record_function_exit has no exported function of its own, but the function that takes its argument from
	 * the dispatcher's stack is exported, from each library that uses it (calls go to the first of them), and serves
	 * nothing else. RecordFunction::end is called for every backward node and operator, too: 47 hits a step in the 64-wide
	 * MLP, of which 2 are regions.
	 */
	MARKS("libtorch_python.so",
	      "_ZNO3c106IValue13toCustomClassIN5torch8autograd8profiler20PythonRecordFunctionEEENS_13intrusive_ptrIT_NS_"
	      "6detail34intrusive_target_default_null_typeIS7_EEEEv",
	      "profiler::record_function_exit", MT_PROG_REGION_END, 0, 0, MT_REGION_ONCE),
	MARKS("libtorch_cpu.so", "_ZN2at14RecordFunction3endEv", "profiler::record_function_exit", MT_PROG_REGION_END,
	      ARG_BIT(0), 0, MT_REGION_TWICE),
	MARKS("libtorch_cpu.so",
	      "_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_"
	      "11InputBufferERKS2_INS0_10ReadyQueueEE",
	      "Engine::evaluate_function", MT_PROG_NODE, ARG_BIT(2), 1, 0),
	/* HOST_ENTER records the stack pointer, its return probe replaces the return address: both need it */
#define HOST_GIVES(sym, name, fn, regs) { NULL, sym, name, SRC_HOST, MT_PROG_HOST_ENTER, { regs, 1 }, fn }
#define HOST_TAKES(sym, name, fn) { NULL, sym, name, SRC_HOST, MT_PROG_HOST_FREE, { ARG_BIT(0), 0 }, fn }
	HOST_TAKES("free", "free", MT_HOST_FREE),
	HOST_GIVES("malloc", "malloc", MT_HOST_MALLOC, ARG_BIT(0)),
	HOST_GIVES("calloc", "calloc", MT_HOST_CALLOC, ARG_BIT(0) | ARG_BIT(1)),
	HOST_GIVES("realloc", "realloc", MT_HOST_REALLOC, ARG_BIT(0) | ARG_BIT(1)),
	HOST_GIVES("reallocarray", "reallocarray", MT_HOST_REALLOCARRAY, ARG_BIT(0) | ARG_BIT(1) | ARG_BIT(2)),
	HOST_GIVES("posix_memalign", "posix_memalign", MT_HOST_POSIX_MEMALIGN, ARG_BIT(0) | ARG_BIT(2)),
	HOST_GIVES("aligned_alloc", "aligned_alloc", MT_HOST_MEMALIGN, ARG_BIT(1)),
	HOST_GIVES("memalign", "memalign", MT_HOST_MEMALIGN, ARG_BIT(1)),
	HOST_GIVES("valloc", "valloc", MT_HOST_MALLOC, ARG_BIT(0)),
	HOST_GIVES("pvalloc", "pvalloc", MT_HOST_MALLOC, ARG_BIT(0)),
	HOST_TAKES("cfree", "cfree", MT_HOST_CFREE),
	HOST_TAKES("free_sized", "free_sized", MT_HOST_FREE_SIZED),
	HOST_TAKES("free_aligned_sized", "free_aligned_sized", MT_HOST_FREE_SIZED_ALIGNED),
	/* jemalloc's own */
	HOST_GIVES("mallocx", "mallocx", MT_HOST_MALLOC, ARG_BIT(0)),
	HOST_GIVES("rallocx", "rallocx", MT_HOST_REALLOC, ARG_BIT(0) | ARG_BIT(1)),
	HOST_TAKES("dallocx", "dallocx", MT_HOST_DALLOCX),
	HOST_TAKES("sdallocx", "sdallocx", MT_HOST_SDALLOCX),
	/* mimalloc's own; the others are aliases of the C library's names or go through them */
	HOST_GIVES("mi_malloc", "mi_malloc", MT_HOST_MALLOC, ARG_BIT(0)),
	HOST_GIVES("mi_malloc_small", "mi_malloc_small", MT_HOST_MALLOC, ARG_BIT(0)),
	HOST_GIVES("mi_zalloc", "mi_zalloc", MT_HOST_MALLOC, ARG_BIT(0)),
	HOST_GIVES("mi_zalloc_small", "mi_zalloc_small", MT_HOST_MALLOC, ARG_BIT(0)),
	HOST_GIVES("mi_calloc", "mi_calloc", MT_HOST_CALLOC, ARG_BIT(0) | ARG_BIT(1)),
	HOST_GIVES("mi_mallocn", "mi_mallocn", MT_HOST_CALLOC, ARG_BIT(0) | ARG_BIT(1)),
	HOST_GIVES("mi_realloc", "mi_realloc", MT_HOST_REALLOC, ARG_BIT(0) | ARG_BIT(1)),
	HOST_GIVES("mi_reallocn", "mi_reallocn", MT_HOST_REALLOCARRAY, ARG_BIT(0) | ARG_BIT(1) | ARG_BIT(2)),
	HOST_GIVES("mi_malloc_aligned", "mi_malloc_aligned", MT_HOST_MALLOC, ARG_BIT(0)),
	HOST_GIVES("mi_zalloc_aligned", "mi_zalloc_aligned", MT_HOST_MALLOC, ARG_BIT(0)),
	HOST_GIVES("mi_calloc_aligned", "mi_calloc_aligned", MT_HOST_CALLOC, ARG_BIT(0) | ARG_BIT(1)),
	HOST_GIVES("mi_realloc_aligned", "mi_realloc_aligned", MT_HOST_REALLOC, ARG_BIT(0) | ARG_BIT(1)),
	HOST_GIVES("mi_new", "mi_new", MT_HOST_MI_NEW, ARG_BIT(0)),
	HOST_GIVES("mi_new_nothrow", "mi_new_nothrow", MT_HOST_MALLOC, ARG_BIT(0)),
	HOST_GIVES("mi_new_aligned", "mi_new_aligned", MT_HOST_MI_NEW_ALIGNED, ARG_BIT(0)),
	HOST_GIVES("mi_new_aligned_nothrow", "mi_new_aligned_nothrow", MT_HOST_MALLOC, ARG_BIT(0)),
	HOST_TAKES("mi_free", "mi_free", MT_HOST_FREE),
	HOST_TAKES("mi_free_size", "mi_free_size", MT_HOST_FREE_SIZED),
	HOST_TAKES("mi_free_aligned", "mi_free_aligned", MT_HOST_FREE_SIZED_ALIGNED),
	HOST_TAKES("mi_free_size_aligned", "mi_free_size_aligned", MT_HOST_FREE_SIZED_ALIGNED),
	/* operator new and delete, where the allocator brings its own */
#define HOST_NEW(tail, how, fn, array)                                                                              \
	HOST_GIVES("_Znwm" tail, "operator new" how, fn, ARG_BIT(0)),                                                      \
		HOST_GIVES("_Znam" tail, "operator new[]" how, array, ARG_BIT(0))
	HOST_NEW("", "", MT_HOST_NEW, MT_HOST_NEW_ARRAY),
	HOST_NEW("RKSt9nothrow_t", " (nothrow)", MT_HOST_MALLOC, MT_HOST_MALLOC),
	HOST_NEW("St11align_val_t", " (aligned)", MT_HOST_NEW_ALIGNED, MT_HOST_NEW_ARRAY_ALIGNED),
	HOST_NEW("St11align_val_tRKSt9nothrow_t", " (aligned, nothrow)", MT_HOST_MALLOC, MT_HOST_MALLOC),
#define HOST_DELETE(tail, how, fn)                                                                                  \
	HOST_TAKES("_ZdlPv" tail, "operator delete" how, fn),                                                       \
		HOST_TAKES("_ZdaPv" tail, "operator delete[]" how, (fn) + MT_HOST_DELETE_ARRAY)
	HOST_DELETE("", "", MT_HOST_DELETE),
	HOST_DELETE("m", " (sized)", MT_HOST_DELETE_SIZED),
	HOST_DELETE("RKSt9nothrow_t", " (nothrow)", MT_HOST_DELETE_NOTHROW),
	HOST_DELETE("St11align_val_t", " (aligned)", MT_HOST_DELETE_ALIGNED),
	HOST_DELETE("mSt11align_val_t", " (sized, aligned)", MT_HOST_DELETE_SIZED_ALIGNED),
	HOST_DELETE("St11align_val_tRKSt9nothrow_t", " (aligned, nothrow)", MT_HOST_DELETE_ALIGNED_NOTHROW),
};
#define ROWS_CNT (sizeof(rows) / sizeof(*rows))

_Static_assert(ROWS_CNT <= CATALOG_ROWS_MAX, "rows_found has a byte for each");

/* --- sites ---------------------------------------------------------------------------------------------
 */

/*
 * The return probe of a malloc-like function is on the same instruction as its entry probe: the kernel takes the return address
 * from where it was at the entry, which `needs_ret_addr` has kept valid, and one trap then serves both.
 */
static int add_return(struct builder *b, struct site site, const char *shown)
{
	site.prog = MT_PROG_HOST_RET;
	site.is_ret = 1;
	site.cost_ns = b->classes.of[site.insn_class].pair_ns;
	return builder__add_site(b, &site, shown);
}

/* A function that may throw gets no return probe, see exits.c: its rets are probed. */
static int add_exits(struct builder *b, const struct elf_sym *sym, const char *shown)
{
	uint64_t rets[EXITS_MAX];
	int cnt = exits_find(b->elf, sym->vaddr, rets), r = 0;

	if (cnt == -ENOMEM)
		return cnt;
	if (cnt <= 0)
		builder__note(b, "%s: how %s ends is not understood: its blocks are not seen", b->lib->base, shown);
	for (int i = 0; i < cnt && !r; i++) {
		struct site site = {
			.prog = MT_PROG_HOST_EXIT,
			.offset = rets[i],
			.source = SRC_HOST,
			.insn_class = INSN_RET,
			.cost_ns = b->classes.of[INSN_RET].hit_ns,
			.insn = "ret",
		};

		r = builder__add_site(b, &site, shown);
	}
	return cnt <= 0 ? -ENOTSUP : r;
}

static int add_row(struct builder *b, size_t i, const struct elf_sym *sym, const char *shown)
{
	const struct catalog_row *row = &rows[i];
	struct site site = { .prog = row->prog, .cookie = row->cookie, .source = row->source };
	int r = builder__place(b, sym, shown, &row->need, &site);

	if (r < 0) {
		if (r == -EINVAL)
			builder__note(b, "%s: the code of %s cannot be read", b->lib->base, shown);
		return 0;
	}
	if (row->prog == MT_PROG_HOST_ENTER &&
	    !b->classes.of[MT_HOST_MAY_THROW(row->cookie) ? INSN_RET : INSN_RETURN].is_usable) {
		builder__leave_out(b, shown);
		return 0;
	}
	if (row->prog == MT_PROG_HOST_ENTER && MT_HOST_MAY_THROW(row->cookie)) {
		r = add_exits(b, sym, shown);
		if (r < 0)
			return r == -ENOTSUP ? 0 : r;
	}
	b->rows_found[i] = 1;
	r = builder__add_site(b, &site, shown);
	if (r == 0 && row->prog == MT_PROG_HOST_ENTER && !MT_HOST_MAY_THROW(row->cookie))
		r = add_return(b, site, shown);
	return r;
}

/* A program's own functions that none of its libraries uses are only in .symtab. */
static int find_function(const struct builder *b, const char *name, struct elf_sym *ret)
{
	int r = elf__find_symbol(b->elf, name, ret);

	if (r < 0 && b->lib->is_exe && (b->sources & SRC_HOST))
		r = elf__find_local(b->elf, name, ret);
	return r < 0 || ret->type != STT_FUNC || !ret->is_exec ? -ENOENT : 0;
}

/* Is row i to be looked for in this library under its own name? */
static int is_wanted(const struct builder *b, const struct catalog_row *row)
{
	if (!(b->sources & row->source))
		return 0;
	if (row->source != SRC_HOST || b->lib == b->host_lib || !strncmp(row->symbol, "mi_", 3))
		return 1;
	return b->lib == b->reallocarray_lib && row->cookie == MT_HOST_REALLOCARRAY;
}

/* jemalloc built with a prefix: a second allocator besides the process's own. */
static int plan_prefixed(struct builder *b, const char *prefix)
{
	char name[64];
	struct elf_sym sym;

	snprintf(name, sizeof(name), "%smalloc", prefix);
	if (find_function(b, name, &sym) < 0)
		return 0;
	for (size_t i = 0; i < ROWS_CNT; i++) {
		int r = 0;

		if (rows[i].source != SRC_HOST || !strncmp(rows[i].symbol, "mi_", 3) || rows[i].symbol[0] == '_')
			continue;
		snprintf(name, sizeof(name), "%s%s", prefix, rows[i].symbol);
		if (!find_function(b, name, &sym))
			r = add_row(b, i, &sym, name);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Rows for variants of one function are adjacent: the first that a library has is taken. */
static int is_same_as_before(size_t i)
{
	return i && !strcmp(rows[i].shown, rows[i - 1].shown);
}

int catalog__plan_lib(struct builder *b)
{
	int r = 0, has_shape = 0;

	for (size_t i = 0; i < ROWS_CNT && !r; i++) {
		struct elf_sym sym;

		if (!is_same_as_before(i))
			has_shape = 0;
		if (has_shape || !is_wanted(b, &rows[i]) || find_function(b, rows[i].symbol, &sym))
			continue;
		has_shape = 1;
		r = add_row(b, i, &sym, rows[i].shown);
	}
	if (!r && (b->sources & SRC_HOST))
		r = plan_prefixed(b, "je_");
	if (!r && (b->sources & SRC_HOST))
		r = plan_prefixed(b, "_rjem_");
	return r;
}

static int is_row_found(const struct builder *b, size_t i)
{
	int found = b->rows_found[i];

	while (++i < ROWS_CNT && is_same_as_before(i))
		found |= b->rows_found[i];
	return found;
}

static void cover_source(struct builder *b, enum source source)
{
	uint32_t wanted = 0, found = 0;

	if (!(b->sources & source))
		return;
	for (size_t i = 0; i < ROWS_CNT; i++) {
		if (rows[i].source != source || is_same_as_before(i))
			continue;
		wanted++;
		found += (uint32_t)is_row_found(b, i);
	}
	if (source == SRC_HOST && found) /* allocators differ in the functions that they have */
		wanted = found;
	builder__cover(b, source, wanted, found);
	for (size_t i = 0; found && i < ROWS_CNT; i++)
		if (rows[i].source == source && source != SRC_HOST && !is_same_as_before(i) && !is_row_found(b, i))
			builder__note(b, "%s has no %s: another version of PyTorch?", rows[i].lib,
				      rows[i].shown);
}

void catalog__cover(struct builder *b)
{
	cover_source(b, SRC_FRAMEWORK);
	cover_source(b, SRC_REGIONS);
	cover_source(b, SRC_HOST);
}

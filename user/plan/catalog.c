/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The catalog: which functions tell about memory, and what must still be in which register when
 * the probe on them fires.
 *
 * A row names the library that usually has the symbol, for people. The symbol is taken from whichever
 * mapped file defines it: wheels rename libraries, and some programs link the framework statically. A
 * look-up through the hash table costs microseconds, a wrong guess about names costs all data.
 *
 * The malloc family is different: every process has several libraries that define malloc, and calls
 * go to the one that the dynamic linker found first. See catalog__choose_host.
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "plan/builder.h"

#define RDI REG_BIT(MT_REG_RDI)
#define RSI REG_BIT(MT_REG_RSI)
#define RDX REG_BIT(MT_REG_RDX)
#define RCX REG_BIT(MT_REG_RCX)
#define R8  REG_BIT(MT_REG_R8)

struct row {
	const char *lib; /* where it lives as a rule */
	const char *symbol;
	const char *shown;
	enum source source;
	enum mt_prog prog;
	struct prologue_need need;
	uint64_t cookie;
};

static const struct row rows[] = {
	{ "libc10.so",
	  "_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm",
	  "c10::ProfiledCPUMemoryReporter::New",
	  SRC_FRAMEWORK,
	  MT_PROG_FW_NEW,
	  { RSI | RDX, 0 },
	  0 },
	{ "libc10.so",
	  "_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv",
	  "c10::ProfiledCPUMemoryReporter::Delete",
	  SRC_FRAMEWORK,
	  MT_PROG_FW_DELETE,
	  { RSI, 0 },
	  0 },
	{ "libc10.so",
	  "_ZN3c1025ProfiledCPUMemoryReporter11OutOfMemoryEm",
	  "c10::ProfiledCPUMemoryReporter::OutOfMemory",
	  SRC_FRAMEWORK,
	  MT_PROG_FW_OOM,
	  { RSI, 0 },
	  0 },
	{ "libc10.so",
	  "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
	  "c10::reportMemoryUsageToProfiler",
	  SRC_FRAMEWORK,
	  MT_PROG_FW_USAGE,
	  { RDI | RSI | RDX | RCX | R8, 0 },
	  0 },
	{ "libc10.so",
	  "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE",
	  "c10::reportOutOfMemoryToProfiler",
	  SRC_FRAMEWORK,
	  MT_PROG_FW_USAGE_OOM,
	  { RDI | RCX, 0 },
	  0 },
	{ "libtorch_cpu.so",
	  "_ZN5torch8autograd8profiler25record_function_enter_newERKNSt7__cxx1112basic_stringIcSt11char_"
	  "traitsIcESaIcEEERKSt8optionalIS7_E",
	  "torch::autograd::profiler::record_function_enter_new",
	  SRC_REGIONS,
	  MT_PROG_REGION_BEGIN,
	  { RSI, 0 },
	  0 },
	{ "libtorch_cpu.so",
	  "_ZN5torch8autograd8profiler25record_function_enter_newERKSsRKSt8optionalISsE",
	  "torch::autograd::profiler::record_function_enter_new",
	  SRC_REGIONS,
	  MT_PROG_REGION_BEGIN,
	  { RSI, 0 },
	  MT_REGION_OLD_STRING },
	{ "libtorch_cpu.so",
	  "_ZN2at14RecordFunction3endEv",
	  "at::RecordFunction::end",
	  SRC_REGIONS,
	  MT_PROG_REGION_END,
	  { RDI, 0 },
	  0 },
	{ "libtorch_cpu.so",
	  "_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_"
	  "11InputBufferERKS2_INS0_10ReadyQueueEE",
	  "torch::autograd::Engine::evaluate_function",
	  SRC_REGIONS,
	  MT_PROG_NODE,
	  { RDX, 1 },
	  0 },
	/* HOST_ENTER notes the stack pointer, its return probe replaces the return address: both need it */
	{ "libc.so.6", "free", "free", SRC_HOST, MT_PROG_HOST_FREE, { RDI, 0 }, 0 },
	{ "libc.so.6", "malloc", "malloc", SRC_HOST, MT_PROG_HOST_ENTER, { RDI, 1 }, MT_HOST_MALLOC },
	{ "libc.so.6", "calloc", "calloc", SRC_HOST, MT_PROG_HOST_ENTER, { RDI | RSI, 1 }, MT_HOST_CALLOC },
	{ "libc.so.6",
	  "realloc",
	  "realloc",
	  SRC_HOST,
	  MT_PROG_HOST_ENTER,
	  { RDI | RSI, 1 },
	  MT_HOST_REALLOC },
	{ "libc.so.6",
	  "reallocarray",
	  "reallocarray",
	  SRC_HOST,
	  MT_PROG_HOST_ENTER,
	  { RDI | RSI | RDX, 1 },
	  MT_HOST_REALLOCARRAY },
	{ "libc.so.6",
	  "posix_memalign",
	  "posix_memalign",
	  SRC_HOST,
	  MT_PROG_HOST_ENTER,
	  { RDI | RDX, 1 },
	  MT_HOST_POSIX_MEMALIGN },
	{ "libc.so.6",
	  "aligned_alloc",
	  "aligned_alloc",
	  SRC_HOST,
	  MT_PROG_HOST_ENTER,
	  { RSI, 1 },
	  MT_HOST_MEMALIGN },
	{ "libc.so.6", "memalign", "memalign", SRC_HOST, MT_PROG_HOST_ENTER, { RSI, 1 }, MT_HOST_MEMALIGN },
	{ "libc.so.6", "valloc", "valloc", SRC_HOST, MT_PROG_HOST_ENTER, { RDI, 1 }, MT_HOST_VALLOC },
	{ "libc.so.6", "pvalloc", "pvalloc", SRC_HOST, MT_PROG_HOST_ENTER, { RDI, 1 }, MT_HOST_VALLOC },
};
#define ROWS_CNT (sizeof(rows) / sizeof(*rows))

_Static_assert(ROWS_CNT <= 32, "rows_found has a bit for each");

/* --- sites ---------------------------------------------------------------------------------------------
 */

/*
 * The return probe of a malloc-like function sits on the same instruction as its entry probe: the
 * kernel takes the return address from where rsp points, which `needs_ret_addr` has kept valid, and
 * one trap then serves both.
 */
static int add_return(struct builder *b, const struct row *row, struct site site)
{
	site.prog = MT_PROG_HOST_RET;
	site.is_ret = 1;
	site.cost_ns = (uint16_t)insn_class_cost_ns((enum insn_class)site.insn_class, 1);
	return builder__add_site(b, &site, row->shown);
}

static int add_row(struct builder *b, size_t i, const struct elf_sym *sym)
{
	const struct row *row = &rows[i];
	struct prologue_site at;
	const uint8_t *code;
	struct site site;
	size_t len;
	int r;

	code = elf__bytes(b->elf, sym->offset, &len);
	if (!code || prologue_pick(code, len, sym->size, sym->offset, &row->need, b->has_nop5, &at) < 0) {
		builder__note(b, "%s: the code of %s cannot be read", b->lib->base, row->shown);
		return 0;
	}
	site = (struct site){
		.prog = row->prog,
		.offset = sym->offset + at.skipped,
		.cookie = row->cookie,
		.source = row->source,
		.insn_class = (uint8_t)at.insn_class,
		.skipped = (uint8_t)at.skipped,
		.cost_ns = (uint16_t)insn_class_cost_ns(at.insn_class, 0),
	};
	memcpy(site.insn, at.insn, sizeof(site.insn));
	b->rows_found |= 1u << i;
	r = builder__add_site(b, &site, row->shown);
	if (r == 0 && row->prog == MT_PROG_HOST_ENTER)
		r = add_return(b, row, site);
	return r;
}

int catalog__plan_lib(struct builder *b)
{
	for (size_t i = 0; i < ROWS_CNT; i++) {
		struct elf_sym sym;
		int r;

		if (!(b->sources & rows[i].source) || (rows[i].source == SRC_HOST && b->lib != b->host_lib))
			continue;
		if (elf__find_symbol(b->elf, rows[i].symbol, &sym) < 0 || sym.type != STT_FUNC ||
		    !sym.is_exec)
			continue;
		r = add_row(b, i, &sym);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Rows of one function in different shapes follow one another: a library has one of them. */
static int is_same_as_before(size_t i)
{
	return i && !strcmp(rows[i].shown, rows[i - 1].shown);
}

static int is_row_found(const struct builder *b, size_t i)
{
	int found = b->rows_found >> i & 1;

	while (++i < ROWS_CNT && is_same_as_before(i))
		found |= b->rows_found >> i & 1;
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

/* --- who provides malloc ---------------------------------------------------------------------------------
 */

static int has_malloc(const struct target *t, const struct lib *lib, int *ret_is_libc)
{
	struct elf_sym sym;
	struct elf *e;
	int fd = target__open_lib(t, lib, NULL), has;

	if (fd < 0 || elf__open(&e, fd, lib->base, NULL) < 0)
		return 0;
	has = elf__find_symbol(e, "malloc", &sym) == 0 && sym.type == STT_FUNC && sym.is_exec &&
	      elf__find_symbol(e, "free", &sym) == 0 && sym.type == STT_FUNC;
	*ret_is_libc = elf__find_symbol(e, "__libc_start_main", &sym) == 0;
	elf__free(e);
	return has;
}

static int is_known_allocator(const char *base)
{
	static const char *const known[] = { "jemalloc", "tcmalloc", "mimalloc",
					     "snmalloc", "scudo",    "hoard" };

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (strstr(base, known[i]))
			return 1;
	return 0;
}

/*
 * The first definition in the linker's order wins: the program, preloaded libraries, needed ones. That
 * order is not in maps, but libraries are mapped from the top down: one that was there before the C
 * library lies above it. One that lies below was loaded later and serves only itself, unless it is
 * an allocator by name (address space layouts differ).
 */
int catalog__choose_host(struct builder *b, struct err *err)
{
	const struct lib *libs, *libc = NULL, *other = NULL, *exe = NULL, *known = NULL;
	size_t cnt = target__libs(b->target, &libs);

	for (size_t i = 0; i < cnt; i++) {
		int is_libc = 0;

		if (!strncmp(libs[i].base, "ld-", 3) || !has_malloc(b->target, &libs[i], &is_libc))
			continue;
		if (libs[i].is_exe)
			exe = &libs[i];
		else if (is_known_allocator(libs[i].base))
			known = &libs[i];
		else if (is_libc)
			libc = &libs[i];
		else
			other = &libs[i]; /* the highest one: the first loaded */
	}
	if (!target__alive(b->target))
		return err_set(err, -ESRCH, "process %d has ended", (int)target__pid(b->target));
	if (exe)
		b->host_lib = exe;
	else if (known)
		b->host_lib = known;
	else if (other && (!libc || other->exec_start > libc->exec_start))
		b->host_lib = other;
	else
		b->host_lib = libc;
	return 0;
}

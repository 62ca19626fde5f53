/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The GPUs' memory API in a plan: the table holds together, sites are found in libraries and in .symtab. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "plan/catalog_gpu.h"
#include "plan/plan.h"
#include "target/target.h"
#include "unit/fixture.h"

static void rows_make_sense(void **state)
{
	const struct gpu_row *rows;
	size_t cnt = gpu_rows(&rows);

	(void)state;
	assert_true(cnt > 100);
	for (size_t i = 0; i < cnt; i++) {
		const struct mt_seg_spec *s = &rows[i].spec;
		int is_handle = s->kind == MT_EV_SEG_ALLOC && s->size[0].form == MT_SEG_NO;

		for (size_t k = 0; k < i; k++)
			if (!strcmp(rows[i].symbol, rows[k].symbol))
				fail_msg("%s twice", rows[i].symbol);
		if (!s->kind) {
			assert_true(s->sets != MT_SEG_SETS_NOTHING);
			continue;
		}
		if (s->kind < MT_EV_SEG_ALLOC || (s->kind > MT_EV_SEG_TRIM && s->kind < MT_EV_SEG_COMM) ||
		    (s->kind > MT_EV_SEG_POOL && s->kind != MT_EV_STREAM) || s->seg >= MT_SEG_MAX)
			fail_msg("%s: kind %d, segment %d", rows[i].symbol, s->kind, s->seg);
		if (s->kind <= MT_EV_SEG_UNMAP && s->addr.form == MT_SEG_NO)
			fail_msg("%s: no pointer", rows[i].symbol);
		/* What a failure could not have is told as well: from the arguments, or from what stands for it. */
		for (int k = 0; k < MT_SEG_FACTORS; k++)
			if (s->size[k].form == MT_SEG_OUT && s->asked.form == MT_SEG_NO)
				fail_msg("%s: size after failure", rows[i].symbol);
		if (is_handle && s->seg != MT_SEG_IMPORTED && s->seg != MT_SEG_PHYSICAL)
			fail_msg("%s: no size", rows[i].symbol);
		if (s->whose == MT_SEG_DEV_ARG || s->whose == MT_SEG_DEV_LOCATION)
			assert_int_not_equal(s->dev.form, MT_SEG_NO);
	}
}

static int has_row(const struct gpu_row *rows, size_t cnt, const char *prefix, const char *rest)
{
	for (size_t i = 0; i < cnt; i++)
		if (!strncmp(rows[i].symbol, prefix, strlen(prefix)) && !strcmp(rows[i].symbol + strlen(prefix), rest))
			return 1;
	return 0;
}

/* HIP's functions are named as the runtime's. */
static void hip_has_what_the_runtime_has(void **state)
{
	const struct gpu_row *rows;
	size_t cnt = gpu_rows(&rows);

	(void)state;
	for (size_t i = 0; i < cnt; i++)
		if (!strncmp(rows[i].symbol, "cuda", 4) && !strstr(rows[i].symbol, "_ptsz") &&
		    !has_row(rows, cnt, "hip", rows[i].symbol + 4))
			fail_msg("%s has no counterpart", rows[i].symbol);
}

/* Structures that functions are given, as CUDA's headers have them (cuda.h, driver_types.h of 12.9). */
struct location {
	int type, id;
};
struct alloc_prop { /* CUmemAllocationProp */
	int type, handle_types;
	struct location location;
};
struct pool_props { /* CUmemPoolProps */
	int type, handle_types;
	struct location location;
	void *security;
	size_t max_size;
	unsigned char reserved[56];
};
struct alloc_node { /* CUDA_MEM_ALLOC_NODE_PARAMS */
	struct pool_props pool;
	const void *descs;
	size_t descs_cnt, bytes;
	void *ptr;
};
struct handle_desc { /* cudaExternalMemoryHandleDesc */
	int type;
	union {
		int fd;
		struct {
			void *handle;
			const void *name;
		} win32;
	} handle;
	unsigned long long size;
	unsigned flags;
};
struct buffer_desc { /* cudaExternalMemoryBufferDesc */
	unsigned long long offset, size;
	unsigned flags;
};
struct array_desc { /* CUDA_ARRAY_DESCRIPTOR */
	size_t width, height;
	unsigned format, channels;
};
struct array3d_desc { /* CUDA_ARRAY3D_DESCRIPTOR */
	size_t width, height, depth;
	unsigned format, channels, flags;
};
struct pitched_ptr { /* cudaPitchedPtr */
	void *ptr;
	size_t pitch, xsize, ysize;
};

#define FIELD(fn, spec_field, where_at, type, field)                                                        \
	{ fn, offsetof(struct mt_seg_spec, spec_field), where_at, offsetof(struct type, field),             \
	  sizeof(((struct type *)0)->field) }

static void reads_structures_where_they_have_it(void **state)
{
	static const struct {
		const char *fn;
		size_t spec_at;
		unsigned where;
		size_t off, bytes;
	} want[] = {
		FIELD("cudaExternalMemoryGetMappedBuffer", size[0], 2, buffer_desc, size),
		FIELD("cuExternalMemoryGetMappedBuffer", size[0], 2, buffer_desc, size),
		FIELD("cudaImportExternalMemory", size[0], 1, handle_desc, size),
		FIELD("cuImportExternalMemory", size[0], 1, handle_desc, size),
		FIELD("cuMemCreate", dev, 2, alloc_prop, location),
		FIELD("cuMemPoolCreate", dev, 1, pool_props, location),
		FIELD("cudaGraphAddMemAllocNode", addr, 4, alloc_node, ptr),
		FIELD("cudaGraphAddMemAllocNode", dev, 4, alloc_node, pool.location),
		FIELD("cudaGraphAddMemAllocNode", size[0], 4, alloc_node, bytes),
		FIELD("cuArrayCreate_v2", size[0], 1, array_desc, width),
		FIELD("cuArrayCreate_v2", size[1], 1, array_desc, height),
		FIELD("cuArrayCreate_v2", size[2], 1, array_desc, format),
		FIELD("cuArrayCreate_v2", size[3], 1, array_desc, channels),
		FIELD("cuArray3DCreate_v2", size[2], 1, array3d_desc, depth),
		FIELD("cuArray3DCreate_v2", size[3], 1, array3d_desc, format),
		FIELD("cuArray3DCreate_v2", size[4], 1, array3d_desc, channels),
		FIELD("cuMipmappedArrayCreate", size[6], 1, array3d_desc, flags),
		FIELD("cudaMalloc3D", addr, 0, pitched_ptr, ptr),
		FIELD("cudaMalloc3D", size[0], 0, pitched_ptr, pitch),
	};
	const struct gpu_row *rows;
	size_t cnt = gpu_rows(&rows);

	(void)state;
	for (size_t k = 0; k < sizeof(want) / sizeof(*want); k++) {
		struct mt_seg_arg a = { 0 };

		for (size_t i = 0; i < cnt; i++)
			if (!strcmp(rows[i].symbol, want[k].fn))
				memcpy(&a, (const char *)&rows[i].spec + want[k].spec_at, sizeof(a));
		if ((a.form != MT_SEG_IN && a.form != MT_SEG_OUT) || a.where != want[k].where || a.off != want[k].off ||
		    a.bytes != want[k].bytes)
			fail_msg("%s: %u bytes at argument %u + %u, and not %zu at %u + %zu", want[k].fn, a.bytes, a.where,
				 a.off, want[k].bytes, want[k].where, want[k].off);
	}
}

#define BODY "{ static volatile long n; n += a + b + c; asm volatile(\"\" ::: \"rbx\", \"r12\"); return n; }\n"

struct planned {
	struct target *t;
	struct names *names;
	struct plan *p;
};

static struct planned make_plan(pid_t pid)
{
	struct plan_opts opts = { .sources = SRC_SEGMENTS };
	struct planned x = { .names = names__new() };
	struct err err = { 0 };

	assert_int_equal(target__open(&x.t, pid, &err), 0);
	if (plan__build(&x.p, x.t, &opts, x.names, &err) < 0)
		fail_msg("%s", err.msg);
	return x;
}

static void drop_plan(struct planned *x)
{
	plan__free(x->p);
	names__free(x->names);
	target__free(x->t);
}

static const struct site *find_site(const struct planned *x, const char *sym, int is_ret)
{
	for (size_t i = 0; i < x->p->sites_cnt; i++)
		if (!strcmp(names__get(x->names, x->p->sites[i].sym), sym) && x->p->sites[i].is_ret == is_ret)
			return &x->p->sites[i];
	return NULL;
}

static void check_pair(const struct planned *x, const char *sym)
{
	const struct site *in = find_site(x, sym, 0), *out = find_site(x, sym, 1);

	if (!in || !out)
		fail_msg("%s is not planned", sym);
	assert_true(in->prog == MT_PROG_SEG_ENTER && out->prog == MT_PROG_SEG_RET);
	assert_true(in->offset == out->offset && in->cookie == out->cookie && in->cookie < x->p->seg_specs_cnt);
	assert_string_equal(names__get(x->names, (name_id){ x->p->seg_specs[in->cookie].api }), sym);
	assert_true(out < in); /* a call whose return is not seen would look lost: returns are set first */
}

static void plans_a_library(void **state)
{
	const char *path = fixture_build("libcudart.so.13", "-shared -fPIC",
					 "long cudaMalloc(long a, long b, long c)\n" BODY
					 "long cudaFree(long a, long b, long c)\n" BODY
					 "long cudaMallocAsync_ptsz(long a, long b, long c)\n" BODY
					 "long cudaMalloc3D = 5;\nlong cudaUnknown(long a, long b, long c)\n" BODY);
	void *h = dlopen(path, RTLD_NOW);
	struct planned x;

	(void)state;
	assert_non_null(h);
	x = make_plan(getpid());
	assert_int_equal(x.p->sites_cnt, 6); /* a variable of that name is no function */
	check_pair(&x, "cudaMalloc");
	check_pair(&x, "cudaFree");
	check_pair(&x, "cudaMallocAsync_ptsz");
	assert_int_equal(x.p->seg_specs[find_site(&x, "cudaFree", 0)->cookie].kind, MT_EV_SEG_FREE);
	assert_int_equal(x.p->covers_cnt, 1);
	assert_true(x.p->covers[0].source == SRC_SEGMENTS && x.p->covers[0].found == 3);
	drop_plan(&x);
	dlclose(h);
}

/* The driver's entries: cmp (single-stepped), je, jmp. The je is taken, and rsp is still the caller's. */
static void takes_the_drivers_je(void **state)
{
	const char *path = fixture_build("libcuda.so.1", "-shared -fPIC",
					 "int state; long (*impl)(long);\n"
					 "__asm__(\".text\\n.globl cuMemFree_v2\\n.type cuMemFree_v2, @function\\n\"\n"
					 "\"cuMemFree_v2:\\ncmpl $0x321cba00, magic(%rip)\\nje 1f\\njmp *inner(%rip)\\n\"\n"
					 "\"1: mov $4, %eax\\nret\\n.size cuMemFree_v2, . - cuMemFree_v2\\n\"\n"
					 "\".data\\nmagic: .long 0\\ninner: .quad 0\\n.text\\n\");\n");
	void *h = dlopen(path, RTLD_NOW);
	struct planned x;

	(void)state;
	assert_non_null(h);
	x = make_plan(getpid());
	assert_int_equal(x.p->sites_cnt, 2);
	check_pair(&x, "cuMemFree_v2");
	assert_int_equal(x.p->sites[0].skipped, 10);
	assert_int_equal(x.p->sites[0].insn_class, INSN_JUMP);
	drop_plan(&x);
	dlclose(h);
}

/* A runtime that was linked into a library or a program: local symbols, unless stripped. */
static void finds_a_static_runtime(void **state)
{
	static const char source[] =
		"static __attribute__((noinline, used)) long cudaMalloc(long a, long b, long c)\n" BODY
		"static __attribute__((noinline, used)) long cudaFree(long a, long b, long c)\n" BODY
		"long work(void) { return cudaMalloc(1, 2, 3) + cudaFree(4, 5, 6); }\n";
	const char *path = fixture_build("libnccl_like.so", "-shared -fPIC", source);
	void *h = dlopen(path, RTLD_NOW);
	char cmd[512];
	struct planned x;
	struct err err = { 0 };
	struct plan_opts opts = { .sources = SRC_SEGMENTS };

	(void)state;
	assert_non_null(h);
	x = make_plan(getpid());
	assert_int_equal(x.p->sites_cnt, 4);
	check_pair(&x, "cudaMalloc");
	check_pair(&x, "cudaFree");
	drop_plan(&x);
	dlclose(h);
	snprintf(cmd, sizeof(cmd), "strip -o %s %s", fixture_path("libstripped.so"), path);
	assert_int_equal(system(cmd), 0);
	h = dlopen(fixture_path("libstripped.so"), RTLD_NOW);
	assert_non_null(h);
	x = (struct planned){ .names = names__new() };
	assert_int_equal(target__open(&x.t, getpid(), &err), 0);
	assert_int_equal(plan__build(&x.p, x.t, &opts, x.names, &err), -ENOENT);
	drop_plan(&x);
	dlclose(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_make_sense),
		cmocka_unit_test(hip_has_what_the_runtime_has),
		cmocka_unit_test(reads_structures_where_they_have_it),
		cmocka_unit_test(plans_a_library),
		cmocka_unit_test(takes_the_drivers_je),
		cmocka_unit_test(finds_a_static_runtime),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}

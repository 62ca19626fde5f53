/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "python/runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "base/err.h"
#include "target/elf.h"
#include "target/target.h"

#define THREADS_TRIED 64
#define TSD_TABLE_MAX 8192
#define TSD_BLOCKS 32	      /* tables of … */
#define TSD_SLOTS 32	      /* keys each */

static int read_process(void *ctx, uint64_t addr, void *buf, size_t len)
{
	return target__read(ctx, addr, buf, len) ? -EFAULT : 0;
}

static int read_process_ranges(void *ctx, const struct iovec *ranges, size_t cnt, void *buf, size_t len)
{
	return target__read_ranges(ctx, ranges, cnt, buf, len) ? -EFAULT : 0;
}

struct py_mem py_mem_of(const struct target *t)
{
	return (struct py_mem){ read_process, (void *)(uintptr_t)t, read_process_ranges };
}

/* --- which interpreter ------------------------------------------------------------------------------- */

static uint64_t address_of(const struct elf *e, uint64_t bias, const char *name)
{
	struct elf_sym s;

	return elf__find_symbol(e, name, &s) ? 0 : s.vaddr + bias;
}

/* "python3.10", "libpython3.10.so.1.0": the version, for which 3.10 has no symbol. */
static uint32_t version_of_name(const char *base)
{
	unsigned minor;

	if (!strncmp(base, "lib", 3))
		base += 3;
	return sscanf(base, "python3.%2u", &minor) == 1 ? 3u << 24 | minor << 16 : 0;
}

static int is_free_threaded(uint64_t runtime, const struct py_mem *mem)
{
	struct {
		char cookie[8];
		uint64_t version, free_threaded;
	} head;

	return !py_mem__read(mem, runtime, &head, sizeof(head)) && !memcmp(head.cookie, "xdebugpy", 8) && head.free_threaded;
}

/* The local symbol where the file has it: no library exports the function. */
static void find_eval(struct py_runtime *ret, const struct elf *e, uint64_t bias)
{
	struct elf_sym s;

	if (elf__find_symbol(e, "_PyEval_EvalFrameDefault", &s) && elf__find_local(e, "_PyEval_EvalFrameDefault", &s))
		return;
	ret->eval_start = s.vaddr + bias;
	ret->eval_end = ret->eval_start + s.size;
}

static int runtime_of(struct py_runtime *ret, const struct lib *lib, const struct elf *e, const struct py_mem *mem,
		      struct err *err)
{
	struct py_runtime rt = { .lib = lib };
	uint64_t version;

	if (elf__load_bias(e, lib->exec_start, lib->exec_off, &rt.bias))
		return -ENOENT;
	rt.addr = address_of(e, rt.bias, "_PyRuntime");
	rt.code_type = address_of(e, rt.bias, "PyCode_Type");
	if (!rt.addr || !rt.code_type)
		return -ENOENT;
	version = address_of(e, rt.bias, "Py_Version");
	if (!version)
		rt.version = version_of_name(lib->base);
	else if (py_mem__read(mem, version, &rt.version, sizeof(rt.version)))
		return err_set(err, -EFAULT, "%s: its version cannot be read", lib->base);
	rt.at = rt.version >> 24 == 3 ? py_frame_offsets(rt.version >> 16 & 0xff) : NULL;
	if (!rt.at)
		return err_set(err, -ENOTSUP, "%s: Python %u.%u, known are 3.%u to 3.%u", lib->base, rt.version >> 24,
			       rt.version >> 16 & 0xff, PY_MINOR_MIN, PY_MINOR_MAX);
	if (rt.at->minor >= 13 && is_free_threaded(rt.addr, mem))
		return err_set(err, -ENOTSUP, "%s: a Python without a GIL, whose objects look different", lib->base);
	find_eval(&rt, e, rt.bias);
	*ret = rt;
	return 0;
}

static int may_be_python(const struct lib *lib)
{
	return lib->exec_start && (lib->is_exe || !strncmp(lib->base, "libpython3", 10));
}

int py_runtime__find(struct py_runtime *ret, const struct target *t, const struct py_mem *mem, struct err *err)
{
	const struct lib *libs;
	size_t cnt = target__libs(t, &libs);
	int r = -ENOENT;

	for (size_t i = 0; i < cnt && r == -ENOENT; i++) {
		struct elf *e;
		int fd;

		if (!may_be_python(&libs[i]))
			continue;
		fd = target__open_lib(t, &libs[i], NULL);
		if (fd < 0 || elf__open(&e, fd, libs[i].base, NULL))
			continue;
		r = runtime_of(ret, &libs[i], e, mem, err);
		elf__free(e);
	}
	return r;
}

/* --- a thread's state ---------------------------------------------------------------------------------- */

int py_runtime__first_thread(const struct py_runtime *rt, const struct py_mem *mem, uint64_t interp, uint64_t *ret_tstate)
{
	uint64_t tstate = py_mem__ptr(mem, interp + rt->at->interp_threads);

	if (!tstate || py_mem__ptr(mem, tstate + rt->at->tstate_interp) != interp)
		return -EAGAIN;
	*ret_tstate = tstate;
	return 0;
}

static int find_key(const struct py_mem *mem, uint64_t thread, uint32_t table, uint64_t tstate, uint32_t *ret_key)
{
	uint64_t blocks[TSD_BLOCKS], slots[TSD_SLOTS][2];

	if (py_mem__read(mem, thread + table, blocks, sizeof(blocks)))
		return -EAGAIN;
	for (uint32_t b = 0; b < TSD_BLOCKS; b++) {
		if (!py_plausible(blocks[b]) || py_mem__read(mem, blocks[b], slots, sizeof(slots)))
			continue;
		for (uint32_t i = 0; i < TSD_SLOTS; i++) {
			if (slots[i][1] != tstate)
				continue;
			*ret_key = b * TSD_SLOTS + i;
			return 0;
		}
	}
	return -EAGAIN;
}

/* libc's description for debuggers: struct pthread's specific[] as {bits of an element, elements, offset}. */
static uint32_t table_of_libc(const struct target *t, const struct py_mem *mem)
{
	const struct lib *libs;
	size_t cnt = target__libs(t, &libs);
	uint32_t desc[3] = { 0 };

	for (size_t i = 0; i < cnt; i++) {
		uint64_t bias, addr = 0;
		struct elf *e;
		int fd;

		if (strncmp(libs[i].base, "libc.so", 7) && strncmp(libs[i].base, "libc-2", 6))
			continue;
		fd = target__open_lib(t, &libs[i], NULL);
		if (fd < 0 || elf__open(&e, fd, libs[i].base, NULL))
			continue;
		if (libs[i].exec_start && !elf__load_bias(e, libs[i].exec_start, libs[i].exec_off, &bias))
			addr = address_of(e, bias, "_thread_db_pthread_specific");
		elf__free(e);
		if (addr && !py_mem__read(mem, addr, desc, sizeof(desc)) && desc[2] < TSD_TABLE_MAX && !(desc[2] & 7))
			return desc[2];
	}
	return arch.pthread_specific;
}

static int find_key_of(const struct py_runtime *rt, const struct py_mem *mem, uint64_t interp, uint32_t table,
		       uint32_t *ret_key)
{
	uint64_t tstate, thread;
	int r = py_runtime__first_thread(rt, mem, interp, &tstate);

	for (unsigned i = 0; !r && tstate && i < THREADS_TRIED; i++) {
		thread = py_mem__ptr(mem, tstate + rt->at->tstate_thread_id);
		if (thread && !find_key(mem, thread, table, tstate, ret_key))
			return 0;
		tstate = py_mem__ptr(mem, tstate + rt->at->tstate_next);
	}
	return -EAGAIN;
}

int py_runtime__tsd(const struct py_runtime *rt, const struct target *t, const struct py_mem *mem, struct py_tsd *ret)
{
	uint32_t table = table_of_libc(t, mem), key;
	uint64_t interp = py_mem__ptr(mem, rt->addr + rt->at->interp_head);

	/* a new interpreter has a thread's state that no thread has taken yet */
	for (unsigned i = 0; interp && i < PY_INTERPS_MAX; i++) {
		if (!find_key_of(rt, mem, interp, table, &key)) {
			*ret = (struct py_tsd){ table, key };
			return 0;
		}
		interp = py_mem__ptr(mem, interp + rt->at->interp_next);
	}
	return -EAGAIN;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The address of the caching allocator's global, by symbols of mapped files. */
#include <string.h>

#include "target/counters.h"
#include "target/elf.h"
#include "target/target.h"

static uint64_t global_of(const struct target *t, const struct lib *lib)
{
	uint64_t bias, addr = 0;
	struct elf_sym s;
	struct elf *e;
	int fd = target__open_lib(t, lib, NULL);

	if (fd < 0 || elf__open(&e, fd, lib->base, NULL))
		return 0;
	if (!elf__load_bias(e, lib->exec_start, lib->exec_off, &bias) && !elf__find_symbol(e, COUNTERS_GLOBAL, &s))
		addr = s.vaddr + bias;
	elf__free(e);
	return addr;
}

/* A program that uses the variable has it in its own memory (a copy relocation) instead of the library's. */
uint64_t counters__global(const struct target *t, int only_new)
{
	const struct lib *libs, *own = NULL, *exe = NULL;
	size_t cnt = target__libs(t, &libs);
	uint64_t addr = 0;

	for (size_t i = 0; i < cnt; i++) {
		if (libs[i].is_exe)
			exe = &libs[i];
		else if (!strncmp(libs[i].base, "libc10_cuda", 11))
			own = &libs[i];
	}
	if (!own || (only_new && !own->is_new))
		return 0;
	if (exe)
		addr = global_of(t, exe);
	return addr ? addr : global_of(t, own);
}

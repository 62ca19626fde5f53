/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Which malloc the process uses. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "plan/builder.h"

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
 * The first definition in the linker's order wins: the program, preloaded libraries, needed ones. That order is not in maps,
 * but libraries are mapped from the top down: one that was loaded before the C library is above it. One below was loaded later
 * and serves only itself, unless its name is that of an allocator (address space layouts differ).
 */
int host__choose(struct builder *b, struct err *err)
{
	const struct lib *libs, *libc = NULL, *other = NULL, *exe = NULL, *known = NULL;
	size_t cnt = target__libs(b->target, &libs);

	for (size_t i = 0; i < cnt; i++) {
		const struct file_facts *file = NULL;

		if (strncmp(libs[i].base, "ld-", 3))
			file = builder__facts(b, &libs[i]);
		if (!file || !file->host.has_malloc)
			continue;
		if (libs[i].is_exe)
			exe = &libs[i];
		else if (is_known_allocator(libs[i].base))
			known = &libs[i];
		else if (file->host.is_libc)
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
	if (b->host_lib && !builder__facts(b, b->host_lib)->host.has_reallocarray)
		b->reallocarray_lib = libc;
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* kernel_version: whether the kernel is new enough, as `memtrace doctor` and `plan` ask. */
#ifndef MT_CMD_KERNEL_VERSION_H
#define MT_CMD_KERNEL_VERSION_H

#include <stdio.h>
#include <sys/utsname.h>

/* Is the running kernel at least major.minor? By uname(). */
static inline int kernel_at_least(unsigned major, unsigned minor)
{
	unsigned have_major = 0, have_minor = 0;
	struct utsname u;

	if (uname(&u) || sscanf(u.release, "%u.%u", &have_major, &have_minor) != 2)
		return 0;
	return have_major > major || (have_major == major && have_minor >= minor);
}

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "base/clock.h"

#include <stdio.h>

int64_t clock_shift_ns;

void clock_init(void)
{
	FILE *f = fopen("/proc/self/timens_offsets", "re");
	long long s, ns;
	char line[128];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "monotonic %lld %lld", &s, &ns) == 2)
			clock_shift_ns = s * 1000000000ll + ns;
	if (f)
		fclose(f);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "base/self.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"

void self_usage(uint64_t *ret_cpu_ns, uint64_t *ret_rss)
{
	FILE *f = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;
	struct rusage ru;

	if (f) {
		if (fscanf(f, "%*u %lu", &pages) != 1)
			pages = 0;
		fclose(f);
	}
	getrusage(RUSAGE_SELF, &ru); /* never fails for the process itself */
	*ret_cpu_ns = (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * NS_PER_S +
		      (uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) * 1000;
	*ret_rss = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

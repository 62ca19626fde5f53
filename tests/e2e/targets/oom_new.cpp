// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
// Dies of a std::bad_alloc that nobody catches, with 1000 blocks live. Waits for a line on stdin first.
#include <csignal>
#include <cstdio>
#include <sys/resource.h>

static char *volatile kept[1000];

int main()
{
	const rlimit no_core = {0, 0};
	char line[16];

	setrlimit(RLIMIT_CORE, &no_core);
	std::printf("ready \n");
	std::fflush(stdout);
	if (!std::fgets(line, sizeof(line), stdin))
		return 1;
	for (auto &p : kept)
		p = new char[12345];
	kept[0] = new char[1ull << 50];
	return 0;
}

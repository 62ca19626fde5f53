// SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
/*
 * `memtrace` of the bundle: starts lib/memtrace.bin by the bundle's own loader, with its own libraries
 * before all others. Static, so that it needs none itself. A path in the program's header (PT_INTERP) must
 * be absolute, so a program that may be unpacked anywhere has to be started like this.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 4096

int main(int argc, char **argv)
{
	static char self[PATH_BYTES], loader[PATH_BYTES + 64], libs[PATH_BYTES + 64], bin[PATH_BYTES + 64];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char **args, *end;
	int at = 0;

	if (n <= 0) {
		fprintf(stderr, "memtrace: /proc is not mounted here\n");
		return 1;
	}
	self[n] = '\0';
	end = strrchr(self, '/');
	*end = '\0';
	snprintf(loader, sizeof(loader), "%s/lib/ld-linux-x86-64.so.2", self);
	snprintf(libs, sizeof(libs), "%s/lib", self);
	snprintf(bin, sizeof(bin), "%s/lib/memtrace.bin", self);
	args = calloc((size_t)argc + 8, sizeof(*args));
	if (!args)
		return 1;
	args[at++] = loader;
	args[at++] = "--library-path";
	args[at++] = libs;
	args[at++] = "--argv0";
	args[at++] = argv[0] ? argv[0] : "memtrace";
	args[at++] = bin;
	for (int i = 1; i < argc; i++)
		args[at++] = argv[i];
	execv(loader, args);
	fprintf(stderr, "memtrace: %s: %s\n", loader, strerror(errno));
	return 1;
}

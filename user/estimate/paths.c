/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "estimate/paths.h"

#include <fnmatch.h>
#include <string.h>

#define PATH_BYTES_MAX 1024

static int is_number(const char *text, size_t len)
{
	size_t digits = strspn(text, "0123456789");

	return digits && digits >= len;
}

static int is_like(const char *module, const char *patterns)
{
	char one[PATH_BYTES_MAX];

	for (const char *at = patterns; *at; at += strspn(at, ",")) {
		size_t len = strcspn(at, ",");

		if (len && len < sizeof(one)) {
			memcpy(one, at, len);
			one[len] = '\0';
			if (!fnmatch(one, module, 0))
				return 1;
		}
		at += len;
	}
	return 0;
}

size_t paths__unit(const char *path, const char *patterns)
{
	char module[PATH_BYTES_MAX];
	size_t from = 0;

	while (path[from]) {
		size_t end = from + strcspn(path + from, ".");

		if (end >= sizeof(module))
			return 0;
		memcpy(module, path, end);
		module[end] = '\0';
		if (patterns ? is_like(module, patterns) : is_number(module + from, end - from))
			return end;
		from = end + (path[end] == '.');
	}
	return 0;
}

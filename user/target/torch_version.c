/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "target/torch_version.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libtorch_cpu.so"

static const char version_chars[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.+-_";

int is_torch_version_file(const char *path)
{
	static const char end[] = "/torch/version.py";
	size_t len = strlen(path);

	return path[0] == '/' && len >= sizeof(end) - 1 && !strcmp(path + len - (sizeof(end) - 1), end);
}

int torch_version_file(const char *lib, char *buf, size_t size)
{
	static const char end[] = "/torch/lib/" LIBRARY;
	size_t len = strlen(lib), keep = len - (sizeof(end) - 1) + strlen("/torch");

	if (len < sizeof(end) - 1 || strcmp(lib + len - (sizeof(end) - 1), end))
		return -ENOENT;
	return (size_t)snprintf(buf, size, "%.*s/version.py", (int)keep, lib) < size ? 0 : -ENOENT;
}

/* The whole of `text`, if it looks like a version. */
static int take(const char *text, size_t len, char *ret)
{
	if (!len || len >= TORCH_VERSION_BYTES || text[0] < '0' || text[0] > '9')
		return -ENOENT;
	for (size_t i = 0; i < len; i++)
		if (!text[i] || !strchr(version_chars, text[i]))
			return -ENOENT;
	memcpy(ret, text, len);
	ret[len] = '\0';
	return 0;
}

int torch_version_parse(const char *text, size_t len, char *ret)
{
	static const char word[] = "__version__";
	const char *end = text + len, *line = text;

	while (line < end) {
		const char *newline = memchr(line, '\n', (size_t)(end - line)), *to = newline ? newline : end, *at, *close;

		if ((size_t)(to - line) > sizeof(word) && !memcmp(line, word, sizeof(word) - 1)) {
			at = line + sizeof(word) - 1;
			while (at < to && (*at == ' ' || *at == '='))
				at++;
			if (at < to && (*at == '\'' || *at == '"')) {
				close = memchr(at + 1, *at, (size_t)(to - at - 1));
				return close ? take(at + 1, (size_t)(close - at - 1), ret) : -ENOENT;
			}
		}
		line = to + 1;
	}
	return -ENOENT;
}

int torch_version_of_name(const char *lib, char *ret)
{
	const char *slash = strrchr(lib, '/'), *base = slash ? slash + 1 : lib;

	if (strncmp(base, LIBRARY ".", sizeof(LIBRARY)))
		return -ENOENT;
	return take(base + sizeof(LIBRARY), strlen(base + sizeof(LIBRARY)), ret);
}

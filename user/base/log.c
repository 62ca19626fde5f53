/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "base/log.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static enum log_level log_level = LOG_WARN;

void log_set_level(enum log_level level)
{
	log_level = level;
}

enum log_level log_get_level(void)
{
	return log_level;
}

/* Text may contain names from the target: they must not control the terminal, nor may C1 (0x9b is "ESC ["). */
static void make_safe(char *line)
{
	size_t left = strlen(line), n;
	char *out = line;
	uint32_t cp;

	for (const char *at = line; left; at += n, left -= n) {
		n = utf8_decode(at, left, &cp);
		if ((cp == UTF8_BAD && n == 1) || utf8_is_unsafe(cp)) {
			*out++ = '?';
			continue;
		}
		memmove(out, at, n);
		out += n;
	}
	*out = '\0';
}

void log_write(enum log_level level, const char *module, const char *fmt, ...)
{
	char line[1024];
	va_list ap;
	int n;

	if (level > log_level)
		return;
	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n > 0 && (size_t)n < sizeof(line) && line[n - 1] == '\n')
		line[n - 1] = '\0';
	make_safe(line);
	if (level >= LOG_DEBUG)
		fprintf(stderr, "memtrace: %s: %s\n", module, line);
	else
		fprintf(stderr, "memtrace: %s\n", line);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

static enum log_level log_level = LOG_WARN;

void log_set_level(enum log_level level)
{
	log_level = level;
}

enum log_level log_get_level(void)
{
	return log_level;
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
	/* Names in it may come from the target: nothing of theirs may steer the terminal. */
	for (char *c = line; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	if (level >= LOG_DEBUG)
		fprintf(stderr, "memtrace: %s: %s\n", module, line);
	else
		fprintf(stderr, "memtrace: %s\n", line);
}

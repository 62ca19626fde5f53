/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "live/redact.h"

#include <stdio.h>
#include <string.h>

const char *redact_cmdline(char *buf, size_t size, const char *cmdline)
{
	size_t len = strcspn(cmdline, " "), at = len; /* a title that a program gave itself is one argument with blanks */

	while (at && cmdline[at - 1] != '/')
		at--;
	snprintf(buf, size, "%.*s", (int)(len - at), cmdline + at);
	return buf;
}

int redact_keeps_label(const char *label)
{
	const char *value = strchr(label, '=');

	return value && value[1] && !value[1 + strspn(value + 1, "0123456789,")];
}

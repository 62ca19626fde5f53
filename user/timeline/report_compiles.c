/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "timeline/report_compiles.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* "train.py:5 in forward" of "  # if self.k == 0:  # src/train.py:5 in forward (HINT: …"; its length, 0: there is none. */
static size_t place_of(const char *rest, const char **ret)
{
	const char *at = rest, *next, *in;

	while ((next = strstr(at, "# ")))
		at = next + 2;
	in = strstr(at, " in ");
	if (at == rest || !in)
		return 0;
	for (const char *slash; (slash = memchr(at, '/', (size_t)(in - at)));)
		at = slash + 1;
	*ret = at;
	in += strlen(" in ");
	return (size_t)(in - at) + strcspn(in, " ");
}

const char *recompile_reason(char buf[RECOMPILE_REASON_BYTES], const char *reason, unsigned cols)
{
	const char *source = strstr(reason, "  # "), *place = NULL;
	size_t guard = source ? (size_t)(source - reason) : strlen(reason), len = source ? place_of(source, &place) : 0;
	char text[RECOMPILE_REASON_BYTES];

	while (guard && reason[guard - 1] == ' ')
		guard--;
	if (len)
		snprintf(text, sizeof(text), "%.*s (%.*s)", (int)guard, reason, (int)len, place);
	else
		snprintf(text, sizeof(text), "%.*s", (int)guard, reason);
	text_fit(buf, RECOMPILE_REASON_BYTES, text, cols);
	return buf;
}

/* Equal except for numbers. */
static bool is_same_reason(const char *a, const char *b)
{
	for (;; a++, b++) {
		if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
			a += strspn(a, "0123456789");
			b += strspn(b, "0123456789");
		}
		if (*a != *b)
			return false;
		if (!*a)
			return true;
	}
}

bool recompile_is_alike(const struct report_recompile *a, const struct report_recompile *b)
{
	return !strcmp(a->function, b->function) && is_same_reason(a->reason, b->reason);
}

int recompile_gave_up(const struct report_recompile *k)
{
	static const char *const words[] = { "recompile limit", "recompile_limit", "cache_size_limit" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(k->failed, words[i]))
			return 1;
	return 0;
}

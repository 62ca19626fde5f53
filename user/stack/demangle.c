/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "stack/demangle.h"

#include <string.h>

#include "base/demangle.h"

#define TEXT_MAX 8192

/* Index of the last parameter list: ") const", ")::{lambda()#1}::operator()() const" … */
static size_t without_parameters(const char *text, size_t len)
{
	size_t end = len;
	int depth = 0;

	while (end && text[end - 1] != ')')
		end--;
	if (!end)
		return len;
	for (size_t i = end; i-- > 0;) {
		depth += text[i] == ')';
		depth -= text[i] == '(';
		if (!depth)
			return i ? i : len;
	}
	return len;
}

#define DOTS "<…>"

/* "a<b, c<d> >::e" -> "a<…>::e". Names with operator<, -> and the like are not changed. */
static size_t without_arguments(char *text, size_t len)
{
	char shorter[DEMANGLE_MAX];
	size_t n = 0, depth = 0;

	if (len <= DEMANGLE_LONG || memmem(text, len, "operator", 8))
		return len;
	for (size_t i = 0; i < len && n + sizeof(DOTS) < sizeof(shorter); i++) {
		if (text[i] == '>') {
			depth -= depth > 0;
		} else if (text[i] == '<') {
			if (!depth++) {
				memcpy(shorter + n, DOTS, sizeof(DOTS) - 1);
				n += sizeof(DOTS) - 1;
			}
		} else if (!depth) {
			shorter[n++] = text[i];
		}
	}
	memcpy(text, shorter, n);
	return n;
}

void demangle(char *buf, const char *name)
{
	char whole[TEXT_MAX];
	size_t n = demangle_whole(whole, sizeof(whole), name);
	const char *text = n ? whole : name;

	n = n ? without_arguments(whole, without_parameters(whole, n)) : strnlen(name, DEMANGLE_MAX);
	if (n >= DEMANGLE_MAX)
		n = DEMANGLE_MAX - 1;
	memcpy(buf, text, n);
	buf[n] = '\0';
}

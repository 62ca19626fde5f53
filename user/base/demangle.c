/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * libstdc++'s demangler, through the one entry that takes no memory: it passes the text on in pieces, and a name whose text
 * explodes (substitutions can double it at every step) is abandoned by a longjmp once the text is too long.
 */
#include "base/demangle.h"

#include <setjmp.h>
#include <string.h>

#define MANGLED_MAX 4096

int __gcclibcxx_demangle_callback(const char *name, void (*fn)(const char *text, size_t len, void *ctx), void *ctx);

struct demangled {
	char *text;
	size_t size, len;
	jmp_buf full;
};

static void add(const char *text, size_t len, void *ctx)
{
	struct demangled *o = ctx;

	if (len >= o->size - o->len)
		longjmp(o->full, 1);
	memcpy(o->text + o->len, text, len);
	o->len += len;
}

size_t demangle_whole(char *buf, size_t size, const char *mangled)
{
	struct demangled o = { .text = buf, .size = size };

	if (!size || strncmp(mangled, "_Z", 2) || strnlen(mangled, MANGLED_MAX) == MANGLED_MAX)
		return 0;
	if (setjmp(o.full))
		return 0;
	if (__gcclibcxx_demangle_callback(mangled, add, &o))
		return 0;
	buf[o.len] = '\0';
	return o.len;
}

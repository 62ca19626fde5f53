/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * libstdc++'s demangler, by the one entry that takes no memory: it hands out pieces, and a name whose
 * text explodes (substitutions can double it at every step) is left by a jump once the text is too long.
 */
#include "stack/demangle.h"

#include <setjmp.h>
#include <string.h>

#define MANGLED_MAX 4096
#define TEXT_MAX 8192

int __gcclibcxx_demangle_callback(const char *name, void (*fn)(const char *text, size_t len, void *ctx), void *ctx);

struct out {
	char text[TEXT_MAX];
	size_t len;
	jmp_buf full;
};

static void add(const char *text, size_t len, void *ctx)
{
	struct out *o = ctx;

	if (len >= sizeof(o->text) - o->len)
		longjmp(o->full, 1);
	memcpy(o->text + o->len, text, len);
	o->len += len;
}

/* Where the last parameter list begins: ") const", ")::{lambda()#1}::operator()() const" … */
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

/* "a<b, c<d> >::e" -> "a<…>::e". Names with operator<, -> and the like are left alone. */
static size_t without_arguments(struct out *o, size_t len)
{
	char shorter[DEMANGLE_MAX];
	size_t n = 0, depth = 0;

	if (len <= DEMANGLE_LONG || memmem(o->text, len, "operator", 8))
		return len;
	for (size_t i = 0; i < len && n + sizeof(DOTS) < sizeof(shorter); i++) {
		if (o->text[i] == '>') {
			depth -= depth > 0;
		} else if (o->text[i] == '<') {
			if (!depth++) {
				memcpy(shorter + n, DOTS, sizeof(DOTS) - 1);
				n += sizeof(DOTS) - 1;
			}
		} else if (!depth) {
			shorter[n++] = o->text[i];
		}
	}
	memcpy(o->text, shorter, n);
	return n;
}

static size_t demangle_to(struct out *o, const char *name)
{
	if (setjmp(o->full))
		return 0;
	if (__gcclibcxx_demangle_callback(name, add, o))
		return 0;
	return without_arguments(o, without_parameters(o->text, o->len));
}

void demangle(char *buf, const char *name)
{
	size_t len = strnlen(name, MANGLED_MAX);
	struct out o = { .len = 0 };
	size_t n = name[0] == '_' && name[1] == 'Z' && len < MANGLED_MAX ? demangle_to(&o, name) : 0;
	const char *text = n ? o.text : name;

	if (!n)
		n = len;
	if (n >= DEMANGLE_MAX)
		n = DEMANGLE_MAX - 1;
	memcpy(buf, text, n);
	buf[n] = '\0';
}

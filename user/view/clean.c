/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "view/clean.h"

#include <string.h>

#include "base/text.h"

size_t clean_text(char *buf, size_t size, const char *text, size_t len)
{
	size_t out = 0;

	while (len) {
		uint32_t cp;
		size_t n = utf8_decode(text, len, &cp);
		int bad = (cp == UTF8_BAD && n == 1) || utf8_is_unsafe(cp);

		if (out + (bad ? 3 : n) >= size)
			break;
		memcpy(buf + out, bad ? "\xef\xbf\xbd" : text, bad ? 3 : n);
		out += bad ? 3 : n;
		text += n;
		len -= n;
	}
	buf[out] = '\0';
	return out;
}

size_t clean_name(char buf[CLEAN_BYTES_MAX], const struct names *names, name_id id)
{
	return clean_text(buf, CLEAN_BYTES_MAX, names__get(names, id), names__len(names, id));
}

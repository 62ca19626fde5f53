/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "target/script.h"

#include <string.h>

#include "base/sha256.h"

static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";

const char *script_name(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	if (*path != '/' || name[0] != 'c' || strlen(name) != SCRIPT_NAME_LEN + 3 || strcmp(name + SCRIPT_NAME_LEN, ".py"))
		return NULL;
	return strspn(name, letters) == SCRIPT_NAME_LEN ? name : NULL;
}

/* Like Python's str.strip(), for ASCII. */
static int is_blank(char c)
{
	return (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= ' ');
}

int script_is_true(const char *name, const char *text, size_t len)
{
	uint8_t sum[SHA256_BYTES + 1] = { 0 };

	while (len && is_blank(*text)) {
		text++;
		len--;
	}
	while (len && is_blank(text[len - 1]))
		len--;
	sha256(text, len, sum);
	for (unsigned i = 0; i < SCRIPT_NAME_LEN - 1; i++) {
		unsigned bit = 5 * i, pair = (unsigned)sum[bit / 8] << 8 | sum[bit / 8 + 1];

		if (name[1 + i] != letters[pair >> (11 - bit % 8) & 31])
			return 0;
	}
	return 1;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "target/script_read.h"

#include <errno.h>
#include <stdlib.h>

#include "target/door.h"

static int is_same(const struct door_script *a, const struct door_script *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->mtime_ns == b->mtime_ns;
}

int script_read(pid_t pid, const char *path, char **ret, size_t *ret_len)
{
	struct door_script first, now;
	int n = door_script(pid, path, 0, NULL, 0, &first);
	char *text;
	size_t len = 0;

	if (n < 0)
		return n;
	if (first.size > DOOR_SCRIPT_BYTES_MAX)
		return -EFBIG;
	text = malloc(first.size + 1);
	if (!text)
		return -ENOMEM;
	while (n >= 0 && len < first.size) {
		size_t part = first.size - len < DOOR_SCRIPT_PART ? first.size - len : DOOR_SCRIPT_PART;

		n = door_script(pid, path, len, text + len, part, &now);
		if (n == 0 || (n > 0 && !is_same(&first, &now)))
			n = -EAGAIN;
		len += n > 0 ? (size_t)n : 0;
	}
	if (n < 0) {
		free(text);
		return n;
	}
	text[len] = '\0';
	*ret = text;
	*ret_len = len;
	return 0;
}

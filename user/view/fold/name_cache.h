/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * name_cache: names in the form that one export format writes, made once per name. A name is quoted
 * some thousand times less often than it is written.
 */
#ifndef MT_VIEW_FOLD_NAME_CACHE_H
#define MT_VIEW_FOLD_NAME_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "base/names.h"
#include "view/outbuf.h"

struct name_form {
	char *text;
	uint32_t len;
};

struct name_cache {
	const struct names *names; /* borrowed */
	struct name_form *forms;
	uint32_t cnt;
	/* Writes one name in this format; text is not NUL-terminated at len. */
	void (*quote)(struct outbuf *o, const char *text, size_t len);
	char dev_names[256][16];
};

void name_cache__init(struct name_cache *c, const struct names *names,
		      void (*quote)(struct outbuf *o, const char *text, size_t len));
void name_cache__done(struct name_cache *c);
void name_cache__put(struct name_cache *c, struct outbuf *o, name_id id);

#endif

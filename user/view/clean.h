/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * clean: a string of the target for files that other programs parse: valid UTF-8, without characters
 * that control a terminal, reverse or hide text. Every other byte or character becomes U+FFFD.
 */
#ifndef MT_VIEW_CLEAN_H
#define MT_VIEW_CLEAN_H

#include <stddef.h>

#include "base/names.h"

#define CLEAN_BYTES_MAX (3 * NAME_BYTES_MAX + 1) /* any name fits, NUL included */

/* Cut at a character where buf ends. The bytes before the NUL. */
size_t clean_text(char *buf, size_t size, const char *text, size_t len);
size_t clean_name(char buf[CLEAN_BYTES_MAX], const struct names *names, name_id id);

#endif

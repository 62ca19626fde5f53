/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * script: the Python files that torch.compile's inductor wrote for a process (python/generated.h), from its own root.
 *
 * Inductor names a file after its content: "c", and the first 51 letters of base 32 of the SHA-256 of its text without the
 * blanks around it, and ".py" (torch/_inductor/codecache.py: write, code_hash; cache_key.py; 2.4.1, 2.8.0, 2.13.0 and 2.15.0).
 * So a file that was edited while the process runs is recognized as another one, whatever its times are.
 */
#ifndef MT_TARGET_SCRIPT_H
#define MT_TARGET_SCRIPT_H

#include <stddef.h>

#define SCRIPT_NAME_LEN 52 /* "c" and 51 letters */

/* The start of its name in a path, SCRIPT_NAME_LEN letters without the ".py"; NULL: inductor names no file so. */
const char *script_name(const char *path);
/* Is this the text from which a file of that name was written? 1 or 0. */
int script_is_true(const char *name, const char *text, size_t len);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * script: the Python files that torch.compile's inductor wrote for a process (python/generated.h), from its own root.
 *
 * Inductor calls a file by what is in it: "c", and the first 51 letters of base 32 of the SHA-256 of its text without the
 * blanks around it, and ".py" (torch/_inductor/codecache.py: write, code_hash; cache_key.py; 2.4.1, 2.8.0, 2.13.0 and 2.15.0).
 * So a file that was edited behind the process's back is told from the one that it runs, whatever its times say.
 */
#ifndef MT_TARGET_SCRIPT_H
#define MT_TARGET_SCRIPT_H

#include <stddef.h>

#define SCRIPT_NAME_LEN 52 /* "c" and 51 letters */

/* Where in a path its name begins, SCRIPT_NAME_LEN letters without the ".py"; NULL: inductor calls no file so. */
const char *script_name(const char *path);
/* Is this the text that a file of that name had when it was written? 1 or 0. */
int script_is_true(const char *name, const char *text, size_t len);

#endif

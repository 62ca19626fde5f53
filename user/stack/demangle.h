/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* demangle: names of C++ functions for people. Names come from the target's files: hostile. */
#ifndef MT_STACK_DEMANGLE_H
#define MT_STACK_DEMANGLE_H

#include <stddef.h>

#define DEMANGLE_LONG 120
#define DEMANGLE_MAX 512 /* bytes, with the NUL; longer names are cut */

/*
 * "at::native::add_out": without parameters, which make lines long and only distinguish overloads; a name longer than
 * DEMANGLE_LONG has <…> for template arguments. A name that is not C++ is copied.
 */
void demangle(char *buf, const char *name);

#endif

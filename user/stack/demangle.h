/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* demangle: names of C++ functions for people. Names come from the target's files: hostile. */
#ifndef MT_STACK_DEMANGLE_H
#define MT_STACK_DEMANGLE_H

#include <stddef.h>

#define DEMANGLE_LONG 120
#define DEMANGLE_MAX 512 /* bytes, NUL included; what is longer is cut */

/*
 * "at::native::add_out": without parameters, which make lines long and tell overloads apart that nobody
 * asks about; of a name longer than DEMANGLE_LONG, with <…> for template arguments. What is no C++ name is copied.
 */
void demangle(char *buf, const char *name);

#endif

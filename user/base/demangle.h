/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* demangle: C++ names as text. Names come from the target's files: hostile. */
#ifndef MT_BASE_DEMANGLE_H
#define MT_BASE_DEMANGLE_H

#include <stddef.h>

/*
 * "at::Tensor::item(bool) const" for its mangled name. The length of the text; 0: it is no C++ name, or the text does not fit;
 * the content of buf is undefined then.
 */
size_t demangle_whole(char *buf, size_t size, const char *mangled);

#endif

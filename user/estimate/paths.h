/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* paths: modules by their paths ("encoder.layers.0.linear1"). */
#ifndef MT_ESTIMATE_PATHS_H
#define MT_ESTIMATE_PATHS_H

#include <stddef.h>

/*
 * Bytes of the shortest beginning of a path that one of `patterns` (by commas, as in a shell; `*` does not stop at dots)
 * takes; patterns NULL: that ends in a number. 0: none.
 */
size_t paths__unit(const char *path, const char *patterns);

#endif

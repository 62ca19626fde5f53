/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#ifndef MT_TARGETS_TRUTH_PLUGIN_H
#define MT_TARGETS_TRUTH_PLUGIN_H

#include <stddef.h>

const volatile unsigned short *plugin_counter(int i); /* of its four probes, 0 to 3 */
void plugin_op_begin(const char *name);
void plugin_op_end(void);
void plugin_alloc(void *ptr, size_t size);
void plugin_free(void *ptr);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* private_pools: memory that the caching allocator keeps apart for CUDA graphs and torch.cuda.MemPool (docs/gpu.md). */
#ifndef MT_VIEW_TABLES_PRIVATE_POOLS_H
#define MT_VIEW_TABLES_PRIVATE_POOLS_H

#include <stddef.h>
#include <stdint.h>

struct json;
struct page;
struct report;
struct report_dev;
struct report_pool;

/* "1 to 3, 7": the graphs that were captured into it, "" where there are none; buf at least 80 bytes. Returns buf. */
const char *pool_graphs(char *buf, const struct report_pool *v);
/* A line of those of a device, if it has any; verbose: and a line each. */
void private_pools_text(struct page *p, const struct report *r, const struct report_dev *d, int is_verbose);
void private_pools_json(struct json *j, const struct report *r, uint8_t dev); /* "private_pools": an array, also an empty one */

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * State → the parts of a report, each by its own file (model_report.c puts them together). All: 0 or -ENOMEM. The report owns
 * what they fill, also after a failure, and frees it (report__free); `top`: rows at most.
 */
#ifndef MT_MODEL_REPORTS_H
#define MT_MODEL_REPORTS_H

#include <stddef.h>
#include <stdint.h>

struct model;
struct report;
struct report_block;
struct report_blocks;
struct report_compiles;
struct report_places;
struct report_dev;
struct report_driver;
struct report_frame;
struct report_lanes;
struct report_learned;
struct report_names;
struct report_sampling;
struct peak_freed;
struct report_saved;
struct report_seg_row;
struct report_stacks;

int model__gpu_report(const struct model *m, uint8_t dev, struct report_dev *ret);
/* As segments__rows. */
int model__gpu_rows(const struct model *m, uint32_t pid, int dev, size_t top, struct report_seg_row **ret, size_t *ret_cnt);
int model__gpu_pools(const struct model *m, size_t top, struct report_driver *ret); /* as segments__pools */
int model__gpu_report_unknown(const struct model *m, struct report *ret);
int model__oom_report(const struct model *m, struct report *ret);
int growth__report(const struct model *m, size_t top, struct report *r);
int model__report_lanes(const struct model *m, struct report_lanes *ret);
int model__report_stacks(const struct model *m, size_t top, struct report_stacks *r);
/* A node's stack, innermost frame first. -ENOMEM: what is there is the caller's. */
int model__frames(const struct model *m, uint32_t node, struct report_frame **ret, size_t *ret_cnt);
int model__report_tensors(const struct model *m, size_t top, struct report_names *r);
int model__report_modules(const struct model *m, struct report *r);
int model__report_saved(const struct model *m, size_t top, struct report_saved *r);
int model__report_compiles(const struct model *m, struct report_compiles *r);
int model__report_places(const struct model *m, struct report_places *r);
int model__report_peak_blocks(const struct model *m, size_t top, struct report_blocks *r);
int model__report_block(const struct model *m, const struct peak_freed *f, struct report_block *ret);
int model__report_learned(const struct model *m, struct report_learned *ret); /* part of the next one */
int model__report_sampling(const struct model *m, struct report_sampling *ret);
int model__report_steps(const struct model *m, struct report_sampling *ret); /* part of the last one */

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Python's names of blocks (model_tensors.c), and the block of a name (model_named.c). */
#ifndef MT_MODEL_MODEL_TENSORS_H
#define MT_MODEL_MODEL_TENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "event/event.h"

struct block;
struct model;
struct peak_freed;
struct tensor;

/* model_named.c: EV_TENSOR, EV_TENSOR_OF */
void model__tensor(struct model *m, const struct event *ev);
void model__tensor_of(struct model *m, const struct event *ev);
bool model__name_fits(const struct block *b, uint64_t bytes); /* of a storage; the GPU's allocator rounds up */
void model__name_block(struct model *m, struct block *b, const struct tensor *name);
void model__tensor_late(struct model *m, struct block *b); /* a block from before the attach is known now */
/* A named block was freed; returns its name, if known. */
void model__unname(struct model *m, const struct block *b, name_id *ret_key, name_id *ret_path);
void model__not_held(struct model *m, const struct block *b); /* a module has made a named block */
struct peak_freed model__with_name(const struct model *m, const struct block *b); /* one that lives */
/* Its EV_TENSOR_OF and EV_TENSOR, as far as there are any: how many. */
unsigned model__tensor_memory(const struct model *m, const struct block *b, struct event ret[2]);

#endif

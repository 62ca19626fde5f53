/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * tensors: Python's names of live blocks (EV_TENSOR), and names that wait for their blocks: of storages
 * from before the attach that no operator has been given yet.
 *
 * Holds TENSORS_MAX of both together, 64 bytes each; of the waiting names a process may have half of what the others leave
 * (a hostile heap may have any number). Further ones are refused and counted by the caller.
 */
#ifndef MT_MODEL_TENSORS_H
#define MT_MODEL_TENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/index.h"
#include "base/names.h"

#define TENSORS_MAX (1u << 19)
#define TENSORS_WAITERS 1024 /* buckets of a hash of the pid: a power of two */

struct block;

struct tensor {
	uint64_t a, b;	      /* key: 0 and the block's id; or pid and address */
	uint64_t size;	      /* of a storage that is waited for */
	const struct block *block; /* NULL: it is waited for */
	name_id path, root, type, key;
	name_id of;   /* of an optimizer's state: root of its parameter */
	uint8_t kind; /* enum ev_tensor, without the bits */
	uint8_t bits; /* its bits */
	bool early;   /* waits, and was reported before its storage's uses and frees could be seen */
	uint16_t module; /* row that its bytes are counted for; 0: none */
	bool held;	 /* … and that has it, as none made it (modules__hold) */
};

struct tensors {
	struct tensor *all;
	uint32_t cnt, cap;
	struct index by_key;
	uint32_t waits[TENSORS_WAITERS]; /* names that wait, by their process */
	struct {
		uint64_t addr;
		uint32_t pid;
		name_id root;
	} of; /* the parameter of the next name: tensors__of() */
};

void tensors__done(struct tensors *t);
struct tensor *tensors__find(const struct tensors *t, uint64_t a, uint64_t b); /* NULL: none */
/* Made if need be, then all but the key is 0. NULL: full, or no memory. Good until the next put or remove. */
struct tensor *tensors__put(struct tensors *t, uint64_t a, uint64_t b);
void tensors__remove(struct tensors *t, uint64_t a, uint64_t b);
/* The next name is of an optimizer's state at that address: root of its parameter (EV_TENSOR_OF). */
void tensors__of(struct tensors *t, uint32_t pid, uint64_t addr, name_id root);
/* That root for the name at this address; given once, and only to the next one. 0: none. */
name_id tensors__take_of(struct tensors *t, uint32_t pid, uint64_t addr);
void tensors__drop_pid(struct tensors *t, uint32_t pid); /* those that wait */
/* One by one; *pos starts at 0, NULL ends it. */
const struct tensor *tensors__next(const struct tensors *t, size_t *pos);
void tensors__check(const struct tensors *t);

#endif

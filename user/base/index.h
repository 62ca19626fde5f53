/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * index: the places of things in an array, by the hash of each; the array is its owner's.
 *
 *	uint32_t at = index_find(&places, hash_two(a, b), i, things[i].a == a && things[i].b == b);
 *
 *	if (at == INDEX_NONE && array_has_room(things, cnt, cap, 64) && !index__add(&places, hash_two(a, b), cnt))
 *		things[cnt++] = …;
 *
 * All 0 is an empty index. Hashes are those of base/seed.h: keys come from targets and files, and with a known function keys
 * could be chosen that all fall into one place. It grows without bound, by doubling: an owner whose entries come from others
 * has a limit of its own, and counts what is left out. For keys of 64 bits there is base/map.h.
 */
#ifndef MT_BASE_INDEX_H
#define MT_BASE_INDEX_H

#include <stddef.h>
#include <stdint.h>

#define INDEX_NONE UINT32_MAX /* none */

struct index_slot {
	uint32_t hash;	 /* its low half */
	uint32_t number; /* + 1; 0: free */
};

struct index {
	struct index_slot *slots;
	uint32_t mask, cnt;
};

/* The number with that hash for which `is_it` holds, an expression that uses it as `i`; INDEX_NONE: none. */
#define index_find(x, its_hash, i, is_it)                                                      \
	__extension__({                                                                        \
		const struct index *index_ = (x);                                              \
		uint32_t hash_ = (uint32_t)(its_hash), at_ = hash_ & index_->mask, i = INDEX_NONE; \
                                                                                               \
		for (; index_->slots; at_ = (at_ + 1) & index_->mask) {                        \
			i = index_->slots[at_].number - 1; /* INDEX_NONE in a free one */      \
			if (i == INDEX_NONE || (index_->slots[at_].hash == hash_ && (is_it)))  \
				break;                                                         \
		}                                                                              \
		i;                                                                             \
	})

/* The number must not be there yet. 0, or -ENOMEM: then nothing is changed. */
int index__add(struct index *x, uint64_t hash, uint32_t number);
/* The number must be there, with that hash. */
void index__remove(struct index *x, uint64_t hash, uint32_t number);
/* Changes a number that is there, with that hash, to another one. */
void index__renumber(struct index *x, uint64_t hash, uint32_t number, uint32_t now);
void index__clear(struct index *x); /* empty; keeps its memory */
void index__done(struct index *x);

static inline uint32_t index__slots(const struct index *x)
{
	return x->slots ? x->mask + 1 : 0;
}

/* The number of bytes that the next addition will take. */
size_t index__growth(const struct index *x);

static inline size_t index__bytes(const struct index *x)
{
	return index__slots(x) * sizeof(*x->slots);
}

#endif

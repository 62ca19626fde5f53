/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * seed: random numbers for the hashes of this process's tables.
 *
 * Keys come from targets, files and the network: pointers, ids, names. With a known function keys can be chosen that all fall
 * into one place, and a table then takes a step for each of them: 32,768 such pointers in a recording of 911 bytes cost 0.95 s,
 * quadratically more if there are more. With two secret random numbers no such keys can be found. They are drawn before main,
 * and differ from run to run: so no order of a hash table may reach an output.
 *
 * The hash is two multiplications, each folded: its high half onto its low one (as in wyhash and mum). A single one with a
 * secret factor keeps evenly spaced keys evenly spaced, and one in some hundred factors spaces them badly: 161 steps a key
 * instead of a half (tests/unit/test_seed.c). An xor with a seed and a known multiplication would be worse: keys that differ
 * only in their highest bits would collide under any seed.
 */
#ifndef MT_BASE_SEED_H
#define MT_BASE_SEED_H

#include <stddef.h>
#include <stdint.h>

extern uint64_t seed_words[4]; /* all but the first are odd */

static inline uint64_t seed_fold(uint64_t a, uint64_t b)
{
	unsigned __int128 wide = (unsigned __int128)a * b;

	return (uint64_t)wide ^ (uint64_t)(wide >> 64);
}

static inline uint64_t hash_u64(uint64_t key)
{
	return seed_fold(seed_fold(key ^ seed_words[0], seed_words[1]), seed_words[2]);
}

static inline uint64_t hash_two(uint64_t a, uint64_t b)
{
	uint64_t one = seed_fold(a ^ seed_words[0], seed_words[3]), other = seed_fold(b ^ seed_words[0], seed_words[1]);

	return seed_fold(one ^ other, seed_words[2]); /* in parallel: no slower than for one word */
}

uint64_t hash_bytes(const void *bytes, size_t len);
/* Only for tests, and before there are tables: all of them from one number. */
void seed_set(uint64_t seed);

#endif

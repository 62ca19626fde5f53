/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "base/seed.h"

#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <xxhash.h>

uint64_t seed_words[4];

void seed_set(uint64_t seed)
{
	for (uint64_t i = 0; i < 4; i++)
		seed_words[i] = XXH3_64bits_withSeed(&i, sizeof(i), seed) | (i != 0);
}

/* Before main: no table is older. If getrandom is not ready yet (early boot), AT_RANDOM is used, which the kernel provides. */
__attribute__((constructor)) static void seed_draw(void)
{
	const void *gift = (const void *)getauxval(AT_RANDOM); /* 16 bytes */
	uint64_t seed = 0;

	if (getrandom(seed_words, sizeof(seed_words), GRND_NONBLOCK) == (ssize_t)sizeof(seed_words)) {
		for (int i = 1; i < 4; i++)
			seed_words[i] |= 1;
		return;
	}
	if (gift)
		memcpy(&seed, (const char *)gift + 8, sizeof(seed));
	seed_set(seed);
}

uint64_t hash_bytes(const void *bytes, size_t len)
{
	return XXH3_64bits_withSeed(bytes, len, seed_words[0]);
}

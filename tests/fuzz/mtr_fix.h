/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * Makes the checksums of a damaged recording right again, so that tests and the fuzzer get past
 * them and into the decoder, as somebody who forges a file would.
 */
#ifndef MT_TESTS_MTR_FIX_H
#define MT_TESTS_MTR_FIX_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <xxhash.h>

#include "memtrace/recording.h"

static inline void mtr_fix_checksums(uint8_t *data, size_t len)
{
	const size_t head = offsetof(struct mtr_frame, checksum);
	size_t off = sizeof(struct mtr_file);
	struct mtr_frame h;
	uint64_t sum;

	if (len < off)
		return;
	sum = XXH3_64bits(data, offsetof(struct mtr_file, checksum));
	memcpy(data + offsetof(struct mtr_file, checksum), &sum, sizeof(sum));
	while (len - off >= sizeof(h)) {
		memcpy(&h, data + off, sizeof(h));
		if (h.body_bytes > len - off - sizeof(h))
			return;
		sum = XXH3_64bits_withSeed(data + off + sizeof(h), h.body_bytes,
					   XXH3_64bits(data + off, head));
		memcpy(data + off + head, &sum, sizeof(sum));
		off += sizeof(h) + h.body_bytes;
	}
}

#endif

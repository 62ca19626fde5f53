/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* sha256: of FIPS 180-4, for bytes in memory: some 200 MB/s. For names made from contents; no secrets. */
#ifndef MT_BASE_SHA256_H
#define MT_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32

void sha256(const void *bytes, size_t len, uint8_t ret[SHA256_BYTES]);

#endif

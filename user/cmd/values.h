/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* values: numbers, sizes and times as people type them. Each 0, or -EINVAL with a message that names the expected form. */
#ifndef MT_CMD_VALUES_H
#define MT_CMD_VALUES_H

#include <stdint.h>

struct err;

/* "64M", "1.5G", "4096": bytes, K M G T are powers of 1024. */
int parse_size(const char *text, uint64_t *ret, struct err *err);
/* "10", "0.5", "500ms", "2m", "1h": ns; without a unit seconds. */
int parse_duration(const char *text, uint64_t *ret, struct err *err);
/* Digits alone, max at most. */
int parse_number(const char *text, uint64_t max, uint64_t *ret, struct err *err);

#endif

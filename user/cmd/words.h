/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* words: "did you mean": the nearest of some words to one that was mistyped. */
#ifndef MT_CMD_WORDS_H
#define MT_CMD_WORDS_H

#include <stddef.h>

struct nearest {
	const char *word, *best;
	unsigned distance;
};

void nearest__init(struct nearest *n, const char *word);
void nearest__try(struct nearest *n, const char *candidate);
/* NULL: none is near enough to be a typing mistake. */
const char *nearest__get(const struct nearest *n);

#endif

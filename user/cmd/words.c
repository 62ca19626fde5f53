/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Edit distance with swaps of neighbours (optimal string alignment), three rows. */
#include "cmd/words.h"

#include <limits.h>
#include <string.h>

#define WORD_MAX 40

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;

	return m < c ? m : c;
}

static unsigned distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b);
	unsigned rows[3][WORD_MAX + 1];

	if (la > WORD_MAX || lb > WORD_MAX)
		return UINT_MAX;
	for (size_t k = 0; k <= lb; k++)
		rows[0][k] = (unsigned)k;
	for (size_t i = 1; i <= la; i++) {
		unsigned *now = rows[i % 3];
		const unsigned *prev = rows[(i - 1) % 3], *before = rows[(i + 1) % 3];

		now[0] = (unsigned)i;
		for (size_t k = 1; k <= lb; k++) {
			now[k] = min3(prev[k] + 1, now[k - 1] + 1, prev[k - 1] + (a[i - 1] != b[k - 1]));
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] && before[k - 2] + 1 < now[k])
				now[k] = before[k - 2] + 1;
		}
	}
	return rows[la % 3][lb];
}

static char first_letter(const char *word)
{
	return word[strspn(word, "-")];
}

/* Breaks ties: people rarely mistype the first letter, and then they swap two rather than leave one out. */
static int likeness(const char *word, const char *candidate)
{
	return 2 * (first_letter(word) == first_letter(candidate)) + (strlen(word) == strlen(candidate));
}

void nearest__init(struct nearest *n, const char *word)
{
	*n = (struct nearest){ .word = word, .distance = UINT_MAX };
}

void nearest__try(struct nearest *n, const char *candidate)
{
	size_t len = strlen(n->word);
	unsigned d = len >= 3 && !strncmp(n->word, candidate, len) ? 1 : distance(n->word, candidate);

	if (d < n->distance || (n->best && d == n->distance && likeness(n->word, candidate) > likeness(n->word, n->best))) {
		n->distance = d;
		n->best = candidate;
	}
}

const char *nearest__get(const struct nearest *n)
{
	size_t letters = strlen(n->word) - strspn(n->word, "-"); /* dashes do not count */

	return n->best && letters > 1 && n->distance <= (letters + 3) / 4 ? n->best : NULL;
}

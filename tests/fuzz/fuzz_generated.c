/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Any bytes as a file that inductor generated, as they are and behind what makes them one. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "python/generated.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
	if (!ok)
		abort();
}

static void check_text(const char *text)
{
	size_t len = 0;

	if (!text)
		return;
	for (; text[len]; len++)
		require(text[len] >= ' ' && text[len] <= '~');
	require(len > 0 && len < GENERATED_TEXT_MAX);
}

static void check_line(const struct generated_line *l, unsigned lines)
{
	char op[GENERATED_OP_MAX];

	check_text(l->buffer);
	check_text(l->kernel);
	check_text(l->ops);
	check_text(l->nodes);
	check_text(l->shape);
	for (size_t size = 1; size <= sizeof(op); size += 1 + size / 3) {
		size_t len = generated__op_text(l, op, size);

		require(len < size && strlen(op) == len);
	}
	require(l->kernel_line <= lines);
	require(l->is_reuse <= 1 && l->is_output <= 1);
	require(!l->is_reuse || l->buffer);
	require(l->kernel_line || (!l->kernel && !l->ops && !l->nodes));
}

static void parse(const char *text, size_t len)
{
	struct generated_file *f = NULL;
	unsigned lines = 1, said = 0;

	for (size_t i = 0; i < len; i++)
		lines += text[i] == '\n';
	if (generated__parse(text, len, &f))
		return;
	require(generated__bytes(f) < 4 * len + 65536);
	for (unsigned line = 0; line <= lines + 1; line++) {
		struct generated_line l;

		if (generated__line(f, line, &l))
			continue;
		require(line >= 1 && line <= lines);
		check_line(&l, lines);
		said++;
	}
	require(said <= lines);
	generated__free(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char head[] = "from torch._inductor\nasync_compile = AsyncCompile()\ndef call():\n ";
	size_t len = sizeof(head) - 1 + size;
	char *text = malloc(len);

	parse((const char *)data, size);
	if (!text)
		return 0;
	memcpy(text, head, sizeof(head) - 1);
	if (size)
		memcpy(text + sizeof(head) - 1, data, size);
	parse(text, len);
	free(text);
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Any bytes as a schema, and as read-only data full of schemas. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plan/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
	if (!ok)
		abort();
}

static void check_text(struct schema_text t, const char *data, size_t size)
{
	require(!t.len || (t.at >= data && t.len <= size && t.at + t.len <= data + size));
}

static void check_value(const struct schema_value *v, const char *data, size_t size)
{
	check_text(v->type, data, size);
	check_text(v->name, data, size);
	require(v->type.len > 0);
	require(!v->is_written || v->is_alias);
	require(!v->is_alias || v->is_tensor);
}

struct input {
	const uint8_t *data;
	size_t size;
};

/* The bytes are code, too, that stands right behind them. */
static int code_of(void *ctx, struct schema_code *ret)
{
	const struct input *in = ctx;

	*ret = (struct schema_code){ in->data, in->size, in->size, 0 };
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	const char *text = (const char *)data;
	struct schema_index *x;
	struct schema s;
	struct schema_text found;

	if (schema_parse(text, size, &s) == 0) {
		check_text(s.ns, text, size);
		check_text(s.name, text, size);
		check_text(s.overload, text, size);
		require(s.name.len && s.args_cnt <= SCHEMA_ARGS_MAX && s.rets_cnt <= SCHEMA_RETS_MAX);
		for (size_t i = 0; i < s.args_cnt; i++) {
			check_value(&s.args[i], text, size);
			require(s.args[i].name.len > 0);
		}
		for (size_t i = 0; i < s.rets_cnt; i++)
			check_value(&s.rets[i], text, size);
		(void)schema__effect(&s);
	}
	x = schema_index__new(data, size);
	if (!x)
		return 0;
	require(schema_index__cnt(x) <= size / 6);
	schema_index__when_in_doubt(x, code_of, &in);
	if (schema_index__find(x, text, size < 16 ? size : 16, &found) == 0)
		check_text(found, text, size);
	if (schema_index__find(x, "add_Tensor", 10, &found) == 0) {
		check_text(found, text, size);
		require(found.len > 10 && memcmp(found.at, "qu", 2));
	}
	schema_index__free(x);
	return 0;
}

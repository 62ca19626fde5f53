/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Any bytes as a mangled name, a NUL, and a schema. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plan/callconv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = size ? memchr(data, '\0', size) : NULL;
	const char *name = (const char *)data;
	struct mt_flow_spec spec;
	struct schema s;

	if (!nul)
		return 0;
	(void)callconv__is_node_apply(name);
	if (schema_parse((const char *)nul + 1, size - (size_t)(nul + 1 - data), &s) < 0)
		return 0;
	for (int opt = CALLCONV_STD; opt <= CALLCONV_OWN_OPTIONAL; opt++) {
		int r = callconv__spec(name, &s, (enum callconv_optional)opt, &spec);

		require(r <= 0 && (r == 0 || !spec.args_cnt) && spec.args_cnt <= MT_FLOW_SPEC_ARGS_MAX);
		for (uint32_t i = 0; i < spec.args_cnt; i++) {
			const struct mt_flow_spec_arg *a = &spec.args[i];

			require(a->form > MT_FLOW_NONE && a->form <= MT_FLOW_VECTOR);
			require(a->where < 6 || a->where >= 16);
			require(a->index < s.args_cnt && s.args[a->index].is_tensor);
			require(!i || a->index > spec.args[i - 1].index);
			/* two words lie side by side: both in registers or both on the stack */
			require(a->form != MT_FLOW_LIST || a->where != 5);
		}
	}
	return 0;
}

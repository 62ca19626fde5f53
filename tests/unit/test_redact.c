/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "live/redact.h"

static void test_cmdline(void **state)
{
	static const struct { const char *whole, *left; } rows[] = {
		{ "/opt/py/bin/python train.py --token x", "python" }, { "python", "python" }, { "", "" },
		{ "worker: /data/of/jane", "worker:" }, { "/opt/of jane/python", "of" }, { "dir/", "" }, { " secret", "" },
	};
	char buf[32];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_string_equal(redact_cmdline(buf, sizeof(buf), rows[i].whole), rows[i].left);
	assert_string_equal(redact_cmdline(buf, 4, "/bin/python3 x"), "pyt");
}

static void test_labels(void **state)
{
	(void)state;
	assert_true(redact_keeps_label("RANK=3"));
	assert_true(redact_keeps_label("CUDA_VISIBLE_DEVICES=0,1"));
	assert_false(redact_keeps_label("CUDA_VISIBLE_DEVICES=GPU-8932f937"));
	assert_false(redact_keeps_label("MASTER_ADDR=10.0.0.1"));
	assert_false(redact_keeps_label("RAY_JOB_ID=of-jane"));
	assert_false(redact_keeps_label("RANK="));
	assert_false(redact_keeps_label("RANK"));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_cmdline), cmocka_unit_test(test_labels) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* NVML by a library of our own with the same names: what it says must come out as events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>

#include "live/nvml.h"
#include "unit/fixture.h"

/* Two devices; the caller and pid 1 are on the second, nobody is on the first. */
static const char stub[] =
	"#include <string.h>\n#include <unistd.h>\n"
	"struct mem { unsigned long long total, free, used; };\n"
	"struct proc { unsigned pid; unsigned long long used; unsigned a, b; };\n"
	"int nvmlInit_v2(void) { return 0; }\n"
	"int nvmlShutdown(void) { return 0; }\n"
	"int nvmlDeviceGetCount_v2(unsigned *n) { *n = 3; return 0; }\n"
	"int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void *)(i + 1L); return i == 2 ? 4 : 0; }\n"
	"int nvmlDeviceGetUUID(void *d, char *s, unsigned n)\n"
	"{\n\tstrncpy(s, d == (void *)1 ? \"GPU-aaa\" : \"GPU-bbb\", n);\n\treturn 0;\n}\n"
	"int nvmlDeviceGetMemoryInfo(void *d, struct mem *m) { m->total = 1000; m->used = 700; return 0; }\n"
	"int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, struct proc *p)\n"
	"{\n\tif (d == (void *)1) { *n = 0; return 0; }\n"
	"\tp[0] = (struct proc){ getpid(), 300 };\n\tp[1] = (struct proc){ 1, 50 };\n\t*n = 2;\n\treturn 0;\n}\n";

static struct event got[8];
static size_t got_cnt;

static void keep(void *ctx, struct event ev)
{
	(void)ctx;
	assert_true(got_cnt < 8);
	got[got_cnt++] = ev;
}

static void test_absent(void **state)
{
	(void)state;
	assert_null(nvml__open()); /* no such library on a machine without the driver */
	nvml__close(NULL);
}

static void test_stub(void **state)
{
	void *lib = dlopen(fixture_build("libnvidia-ml.so.1", "-shared -fPIC -Wl,-soname,libnvidia-ml.so.1", stub), RTLD_NOW);
	const pid_t self = getpid();
	struct nvml *n;

	(void)state;
	assert_non_null(lib); /* nvml.c finds it by its name */
	n = nvml__open();
	assert_non_null(n);
	nvml__read(n, &self, 1, &(struct tell){ .push = keep });
	assert_int_equal(got_cnt, 2); /* not pid 1, which nobody follows */
	assert_int_equal(got[0].kind, EV_NVML);
	assert_int_equal(got[0].pid, self);
	assert_int_equal(got[0].dev, MT_DEV_CUDA0 + 1);
	assert_int_equal(got[0].size, 300);
	assert_int_equal(got[1].pid, 0);
	assert_int_equal(got[1].size, 700);
	assert_int_equal(got[1].addr, 1000);
	nvml__close(n);
	dlclose(lib);
}

static void test_ordinals(void **state)
{
	(void)state;
	assert_int_equal(nvml_ordinal(NULL, 3, "GPU-a"), 3);
	assert_int_equal(nvml_ordinal("3,1", 3, "GPU-a"), 0);
	assert_int_equal(nvml_ordinal("3,1", 1, "GPU-a"), 1);
	assert_int_equal(nvml_ordinal("3,1", 0, "GPU-a"), -1);
	assert_int_equal(nvml_ordinal("GPU-xy,GPU-ab", 5, "GPU-abc"), 1);
	assert_int_equal(nvml_ordinal("GPU-abcd", 5, "GPU-abc"), -1);
	assert_int_equal(nvml_ordinal("", 0, "GPU-abc"), -1);
	assert_int_equal(nvml_ordinal("-1,0", 0, "GPU-abc"), -1);
	assert_int_equal(nvml_ordinal("0x,1", 1, "GPU-abc"), -1);
	assert_int_equal(nvml_ordinal(",,,,1", 1, ""), -1);
	assert_int_equal(nvml_ordinal("99999999999999999999999", 1, ""), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_absent), cmocka_unit_test(test_stub),
					    cmocka_unit_test(test_ordinals) };

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}

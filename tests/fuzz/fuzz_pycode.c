/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Any bytes as the memory of a Python: a code object at each place where one could be, with its check right. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "memtrace/event.h"
#include "python/code.h"
#include "python/linetable.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BASE 0x10000ull

struct bytes {
	const uint8_t *data;
	size_t size;
};

static int read_bytes(void *ctx, uint64_t addr, void *buf, size_t len)
{
	const struct bytes *b = ctx;

	if (addr < BASE || addr - BASE > b->size || len > b->size - (addr - BASE))
		return -EFAULT;
	memcpy(buf, b->data + (addr - BASE), len);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes b = { data, size };
	struct py_mem mem = { read_bytes, &b };

	for (unsigned minor = PY_MINOR_MIN; minor <= PY_MINOR_MAX; minor++) {
		struct py_runtime rt = { .at = py_frame_offsets(minor), .addr = BASE };
		uint64_t tstate;

		(void)py_runtime__first_thread(&rt, &mem, BASE, &tstate);
		for (uint64_t at = BASE; at < BASE + size && at < BASE + 256; at += 8) {
			__u64 words[MT_PY_CHECK_WORDS] = { 0 };
			struct py_code c;

			(void)read_bytes(&b, at + 8, &rt.code_type, 8);
			(void)read_bytes(&b, at + rt.at->code_check, words, sizeof(words));
			if (py_code__read(&c, &rt, &mem, at, mt_py_check(words)))
				continue;
			if (strlen(c.file) >= PY_CODE_TEXT_MAX || strlen(c.function) >= PY_CODE_TEXT_MAX)
				abort();
			for (uint64_t i = 0; i < 64; i++)
				(void)py_code__line(&c, minor, c.first_instr + i);
			py_code__done(&c);
		}
		(void)py_line(minor, data, size, 1, size);
	}
	return 0;
}

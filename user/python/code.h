/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * code: function, file and lines of instructions of a process's code object.
 *
 * A code object may be gone by now, with another one in its place. Its address was captured with a check of
 * the object's pointers (mt_py_check): an object without that check, or of another type, is not read. The
 * result is the code that ran, or nothing.
 */
#ifndef MT_PYTHON_CODE_H
#define MT_PYTHON_CODE_H

#include <stddef.h>
#include <stdint.h>

#include "python/mem.h"
#include "python/runtime.h"

#define PY_CODE_TEXT_MAX 512 /* bytes of a name or path, its NUL included; longer ones lose their beginning */
#define PY_LINETABLE_MAX (64 << 10)

struct py_code {
	char function[PY_CODE_TEXT_MAX]; /* qualified where Python has that: 3.11 and later */
	char file[PY_CODE_TEXT_MAX];
	uint32_t firstlineno;
	uint64_t first_instr;
	uint8_t *table; /* malloc'ed; may be NULL: no lines */
	size_t table_len;
};

/* 0, or -ESTALE: not (or no longer) the code object of that check; -ENOMEM. */
int py_code__read(struct py_code *ret, const struct py_runtime *rt, const struct py_mem *mem, uint64_t addr,
		  uint64_t check);
void py_code__done(struct py_code *c);
/* `instr` as a frame has it. 0: not known. */
uint32_t py_code__line(const struct py_code *c, unsigned minor, uint64_t instr);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * code: what a code object of a process is: function, file, line of an instruction.
 *
 * A code object may be gone by now, and another one lie there. Whoever captured its address also took a
 * check of the object's pointers (mt_py_check): what does not have that check, or is no code object, is not
 * read. So what is told is what ran, or nothing.
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

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * linetable: the line of an instruction, from co_linetable as 3.10 (PEP 626) and as 3.11 and later
 * (Objects/locations.md) write it. Any bytes are taken; nothing outside of them is read.
 */
#ifndef MT_PYTHON_LINETABLE_H
#define MT_PYTHON_LINETABLE_H

#include <stddef.h>
#include <stdint.h>

/*
 * `at`: bytes from the first instruction. 0: the table has no line for it (or ends before it); else the
 * line, which is 1 or more.
 */
uint32_t py_line(unsigned minor, const uint8_t *table, size_t len, uint32_t firstlineno, uint64_t at);

#endif

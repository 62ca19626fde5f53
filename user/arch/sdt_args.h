/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * sdt_args: the argument string of an SDT note, "8@%rdi -4@$3 8@-56(%rbp,%rax,8)".
 *
 * It is the text of the compiler's assembler operands, x86-64 AT&T syntax. Operands relative to a symbol or to rip
 * ("8@counter(%rip)") are refused, because the note does not contain the symbol's address.
 */
#ifndef MT_ARCH_SDT_ARGS_H
#define MT_ARCH_SDT_ARGS_H

#include <stddef.h>

#include "memtrace/event.h"

#define SDT_ARGS_MAX 12

/*
 * Number of arguments, or -EINVAL for an invalid argument string. An argument that is well-formed but not readable (symbol,
 * rip, floating point register) gets MT_ARG_NONE: it matters only if it is used.
 */
int sdt_args_parse(const char *text, struct mt_usdt_arg args[SDT_ARGS_MAX]);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* kernel: why the running kernel does not load our programs, and where its records have their fields. */
#ifndef MT_TRACE_KERNEL_H
#define MT_TRACE_KERNEL_H

#include <bpf/libbpf.h>
#include <stdarg.h>

struct err;

/* libbpf's messages, for -vv: libbpf_set_print. */
int kernel__words(enum libbpf_print_level level, const char *fmt, va_list ap);
/* Why loading the programs failed with r, and a hint. Returns the matching error. */
int kernel__refused(struct err *err, int r);
int kernel__few_descriptors(struct err *err); /* -EMFILE */

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* kernel: what the running kernel says when it does not load our programs, and where its records have things. */
#ifndef MT_TRACE_KERNEL_H
#define MT_TRACE_KERNEL_H

#include <bpf/libbpf.h>
#include <stdarg.h>

struct err;

/* libbpf's words, for -vv: libbpf_set_print. */
int kernel__words(enum libbpf_print_level level, const char *fmt, va_list ap);
/* Why loading the programs failed with r, and what helps. Returns r's kind of error. */
int kernel__refused(struct err *err, int r);
int kernel__few_descriptors(struct err *err); /* -EMFILE */

#endif

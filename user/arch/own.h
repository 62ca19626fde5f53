/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* own: functions of our own, probed and called to measure costs, and code to fill a cache with. */
#ifndef MT_ARCH_OWN_H
#define MT_ARCH_OWN_H

#include <stddef.h>
#include <stdint.h>

#define OWN_SITES 15
#define OWN_LINE 64
#define OWN_LINES 1024 /* 64 KiB: no first-level instruction cache is larger */

/* They do nothing, and begin with an instruction of class INSN_OWN. */
const void *own_site(unsigned n);
void own_site_call(unsigned n, const void *a, const void *b, const void *c);
/* Runs through code on this many cache lines, one jump on each to the next, and back. */
void own_code_run(size_t lines);

#endif

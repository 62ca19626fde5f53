/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * arch: shared facts on the processor that memtrace is built for: registers by number, and how many arguments come in them.
 * make's ARCH says which (as -D__TARGET_ARCH_…, the name that libbpf's headers go by); without it it is the compiler's.
 */
#ifndef MT_ARCH_H
#define MT_ARCH_H

/* An argument's place in specs: the integer argument register of that number; from here on words of the stack. */
#define MT_ARG_STACK 16

#if defined(__TARGET_ARCH_x86) || (!defined(__TARGET_ARCH_arm64) && defined(__x86_64__))
#include "memtrace/arch/x86_64.h"
#elif defined(__TARGET_ARCH_arm64) || defined(__aarch64__)
#include "memtrace/arch/arm64.h"
#else
#error "make ARCH=…: user/README.md says what a processor takes"
#endif

#endif

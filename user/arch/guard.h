/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * guard: the place of the byte that shows whether a function was ever called.
 *
 * An operator's at::_ops::X::call looks its schema up once, for a static variable of its own. The guard of that variable is 0
 * until the first call in the process has begun: operators that a job does not use need no probe.
 *
 * Pure over bytes; a guard is recognized by the code that takes it (__cxa_guard_acquire), not by symbols.
 */
#ifndef MT_ARCH_GUARD_H
#define MT_ARCH_GUARD_H

#include <stddef.h>
#include <stdint.h>

/*
 * code: the function's bytes, len of them; vaddr: address of the first one. 0, or -ENOENT: there is none, or the code has
 * another form.
 */
int guard_find(const uint8_t *code, size_t len, uint64_t vaddr, uint64_t *ret_vaddr);

#endif

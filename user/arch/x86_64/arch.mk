# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
ARCH_MACRO     := -D__TARGET_ARCH_x86
ARCH_HARDEN    := -fcf-protection=full
ARCH_HARDEN_LD := -Wl,-z,shstk
ARCH_LIBS      := -lZydis
CROSS          := x86_64-linux-gnu

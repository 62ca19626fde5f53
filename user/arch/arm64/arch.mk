# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
ARCH_MACRO     := -D__TARGET_ARCH_arm64
ARCH_HARDEN    := -mbranch-protection=standard
CROSS          := aarch64-linux-gnu

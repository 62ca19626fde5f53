// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The program of covers (user/trace/covers.h). It runs in memtrace alone, where that has a probed file mapped itself: libc. */
#include "lib/state.h"

SEC("uprobe")
int mt_cover(struct pt_regs *ctx)
{
	return 0;
}

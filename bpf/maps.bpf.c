// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The one definition of what lib/state.h declares. */
#define MT_DEFINE
#include "lib/state.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The one definition of what lib/state.h and lib/flow.h declare. */
#define MT_DEFINE
#include "lib/flow.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* capabilities: those that <linux/capability.h> of Debian 11 and older lacks. */
#ifndef MT_BASE_CAPABILITIES_H
#define MT_BASE_CAPABILITIES_H

#include <linux/capability.h>

#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif
#ifndef CAP_BPF
#define CAP_BPF 39
#endif
#ifndef CAP_CHECKPOINT_RESTORE
#define CAP_CHECKPOINT_RESTORE 40
#endif

#endif

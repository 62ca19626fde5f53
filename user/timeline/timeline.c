/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* The words for categories, in torch.profiler's spelling. */
#include "timeline/timeline.h"

static const char *const category_names[CAT_MAX] = {
	[CAT_UNKNOWN] = "unknown",
	[CAT_PARAMETER] = "PARAMETER",
	[CAT_OPTIMIZER_STATE] = "OPTIMIZER_STATE",
	[CAT_INPUT] = "INPUT",
	[CAT_TEMPORARY] = "TEMPORARY",
	[CAT_ACTIVATION] = "ACTIVATION",
	[CAT_GRADIENT] = "GRADIENT",
	[CAT_AUTOGRAD_DETAIL] = "AUTOGRAD_DETAIL",
	[CAT_FROZEN] = "FROZEN",
	[CAT_BUFFER] = "BUFFER",
	[CAT_DATALOADER] = "DATALOADER",
	[CAT_COMMUNICATION] = "COMMUNICATION",
	[CAT_WORKSPACE] = "WORKSPACE",
};

const char *category_name(enum category c)
{
	return (unsigned)c < CAT_MAX ? category_names[c] : "unknown";
}

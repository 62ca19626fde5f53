/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Names of categories, in torch.profiler's spelling, of phases and of marks. */
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
	[CAT_UNSHARDED] = "UNSHARDED",
};

const char *category_name(enum category c)
{
	return (unsigned)c < CAT_MAX ? category_names[c] : "unknown";
}

const char *phase_name(enum phase p)
{
	static const char *const names[PHASE_MAX] = {
		[PHASE_OTHER] = "other", [PHASE_FORWARD] = "forward", [PHASE_BACKWARD] = "backward",
		[PHASE_OPTIMIZER] = "optimizer", [PHASE_RECOMPUTE] = "recompute", [PHASE_EVALUATION] = "evaluation",
	};

	return (unsigned)p < PHASE_MAX ? names[p] : "other";
}

const char *mark_name(enum tl_mark m)
{
	static const char *const names[MARK_MAX] = { [MARK_FW_START] = "fw_start", [MARK_FW_BW_BOUNDARY] = "fw_bw_boundary",
						     [MARK_STEP] = "step" };

	return (unsigned)m < MARK_MAX && names[m] ? names[m] : "?";
}

uint64_t step_marks__peak(const struct step_marks *s)
{
	uint64_t forward = s->at[MARK_FW_BW_BOUNDARY].peak, after = s->at[MARK_STEP].peak;

	return forward > after ? forward : after;
}

void step_marks__add(struct step_marks *s, enum tl_mark kind, const struct mark_at *at)
{
	struct mark_at *has = &s->at[kind];
	uint64_t peak = has->peak > at->peak ? has->peak : at->peak;

	if (!has->ts_ns || at->live >= has->live)
		*has = *at;
	has->peak = peak;
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * What a version of a block is called, from what is known of the block: torch.profiler's word, and the extended classes
 * that lie over it. Changes nothing; who learns something new of a block calls fblock__refresh.
 */
#include "model/flow/flow_state.h"

/* Of what FSDP moves; CAT_MAX: it is none of that. */
static uint8_t class_of_fsdp(const struct fblock *f)
{
	if (f->marks & FM_SHARD)
		return CAT_PARAMETER;
	if (f->marks & FM_UNSHARDED)
		return CAT_UNSHARDED;
	if (f->marks & FM_REDUCED)
		return CAT_GRADIENT;
	return f->marks & FM_GATHERED && !(f->flags & (FB_GRAD | FB_STATE)) ? CAT_COMMUNICATION : CAT_MAX;
}

/*
 * An empty tensor that the forward pass fills, or what it makes of parameters alone and backward needs (the -exp(A_log) of
 * a state-space model): for torch.profiler a parameter, as nothing else names what it was.
 */
static bool is_made(const struct fblock *f, uint8_t cat)
{
	return cat == CAT_PARAMETER && (f->ver || f->flags & FB_SAVED) && !(f->flags & (FB_PARAM | FB_ACC | FB_USED | FB_MET));
}

static bool is_updated_data(const struct fblock *f)
{
	return f->marks & (FM_RUNNING | FM_WRITTEN);
}

/* Of blocks that an operator was given. In order: who has a role, who is named, who lasts. */
static uint8_t class_of(const struct fblock *f, const struct span *s, uint8_t cat)
{
	bool trained = f->flags & FB_ACC, role = f->flags & KNOWN_BY_ROLE;

	if (f->marks & FM_BUCKET && !(f->flags & (FB_PARAM | FB_STATE)))
		return CAT_COMMUNICATION;
	if (cat == CAT_OPTIMIZER_STATE) /* a closure's loss lives on after the step */
		return f->marks & FM_IN_STEP && !(f->marks & FM_ARITH) && s->cat == CAT_ACTIVATION ? CAT_ACTIVATION : cat;
	if (f->marks & FM_BY_HAND && !trained && !(f->flags & FB_GRAD))
		return CAT_OPTIMIZER_STATE;
	if (is_updated_data(f) && !trained && !(f->flags & FB_GRAD))
		return CAT_BUFFER;
	if (f->marks & FM_FROZEN && !trained)
		return CAT_FROZEN;
	if (role)
		return cat;
	if (f->marks & FM_ARITH && f->marks & FM_IN_STEP)
		return CAT_TEMPORARY;
	if (f->marks & FM_LOADER && cat == CAT_INPUT)
		return CAT_DATALOADER;
	if (f->marks & FM_READ && !(f->flags & FB_FLOWS) && !(f->marks & FM_LOADER))
		return CAT_BUFFER;
	if (is_made(f, cat))
		return CAT_ACTIVATION;
	return cat == CAT_UNKNOWN && f->flags & FB_FLOWS && f->flags & FB_SAVED ? CAT_ACTIVATION : cat;
}

static uint8_t fblock__class(const struct fblock *f, const struct span *s, uint8_t cat)
{
	uint8_t moved = f->marks & FM_FSDP ? class_of_fsdp(f) : CAT_MAX;

	if (moved != CAT_MAX)
		return moved;
	if (f->flags & FB_TOUCHED)
		return class_of(f, s, cat);
	return f->flags & FB_TEMP ? CAT_WORKSPACE : cat; /* born and freed in one node */
}

/* torch.profiler's word. */
static uint8_t fblock__compat(const struct fblock *f, const struct span *s)
{
	uint32_t fl = f->flags;

	if (!(fl & FB_TOUCHED) && (!f->blk || (fl & FB_STALE)))
		return CAT_UNKNOWN;
	if (fl & FB_STATE)
		return CAT_OPTIMIZER_STATE;
	if (fl & (FB_PARAM | FB_WEAK))
		return CAT_PARAMETER;
	if (fl & FB_GRAD)
		return CAT_GRADIENT;
	if (fl & FB_TEMP)
		return CAT_TEMPORARY;
	if (f->expected && f->blk)
		return (uint8_t)(f->expected - 1);
	return s->cat ? s->cat : s->guess;
}

uint8_t fblock__cat(const struct fblock *f, const struct span *s)
{
	uint8_t cat = fblock__compat(f, s);

	return f->marks ? fblock__class(f, s, cat) : cat;
}

uint8_t fblock__settled(const struct fblock *f, const struct span *s)
{
	struct fblock sure = *f;
	struct span label = *s;

	sure.flags |= FB_STALE;
	sure.expected = 0;
	label.guess = CAT_UNKNOWN;
	return fblock__cat(&sure, &label);
}

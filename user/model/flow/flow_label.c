/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The label of a version of a block, from what is known of the block: torch.profiler's category, and the extended classes
 * that lie over it. Changes nothing; the caller that learns something new of a block calls fblock__refresh.
 *
 * Python's word (fblock.py_kind) is about the whole block. torch.profiler, too, reads from Python that a block is optimizer
 * state or a .grad. That it is a parameter, it reads only for modules that are called and optimizers that step: in its
 * categories Python's word counts where data flow has none, or takes it for state because an optimizer wrote it, and for parts
 * of other tensors (DTensor), of which torch.profiler reads nothing. In the extended classes it always counts.
 */
#include "model/flow/flow_state.h"

/* --- from generated code's file (flow_made.c) ----------------------------------------------------------- */

static uint8_t fblock__made_cat(const struct fblock *f)
{
	if (!(f->made & EV_PLACE_GRAPH))
		return f->made & (MADE_LEFT | MADE_OF_PARTS) ? CAT_ACTIVATION : f->made & MADE_GIVEN ? CAT_INPUT : CAT_UNKNOWN;
	if (!(f->made & EV_PLACE_OUTPUT))
		return CAT_TEMPORARY;
	return (f->made & EV_PLACE_GRAPH) == EV_PLACE_BACKWARD ? CAT_AUTOGRAD_DETAIL : CAT_ACTIVATION;
}

uint8_t fblock__made_rule(const struct fblock *f)
{
	uint8_t cat = f->marks || f->made & MADE_OF_PARTS ? fblock__made_cat(f) : CAT_UNKNOWN;

	if (cat != CAT_TEMPORARY)
		return cat;
	return (f->made & EV_PLACE_GRAPH) == EV_PLACE_BACKWARD ? CAT_AUTOGRAD_DETAIL : CAT_ACTIVATION;
}

/* --- the extended classes ------------------------------------------------------------------------------- */

/* Of FSDP's blocks; CAT_MAX: it is none of them. */
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
 * An empty tensor that the forward pass fills, or one that it makes from parameters alone and backward needs (the -exp(A_log)
 * of a state-space model): for torch.profiler a parameter, for want of a better category.
 */
static bool is_made(const struct fblock *f, uint8_t cat)
{
	return cat == CAT_PARAMETER && (f->ver || f->flags & FB_SAVED) && !(f->flags & (FB_PARAM | FB_ACC | FB_USED | FB_LATE));
}

static bool is_updated_data(const struct fblock *f)
{
	return f->marks & (FM_RUNNING | FM_WRITTEN);
}

/* Of blocks that an operator was given. In order: those with a role, named ones, lasting ones. */
static uint8_t class_of(const struct fblock *f, const struct label_span *s, uint8_t cat)
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
	if (f->marks & FM_RECEIVED && !f->round_stepped && !f->py_kind)
		return CAT_INPUT;
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
	if (cat == CAT_UNKNOWN && f->flags & FB_FLOWS && f->flags & FB_SAVED)
		return CAT_ACTIVATION;
	/* the engine adds up what several nodes sent, in place and outside of them: no node made that version */
	return cat == CAT_UNKNOWN && f->spans[0].bwd ? CAT_AUTOGRAD_DETAIL : cat;
}

/* Python's word; CAT_MAX: none, or an incomplete one: a bucket of gradients is of many parameters. */
static uint8_t class_of_py_kind(const struct fblock *f)
{
	bool trained = f->flags & FB_ACC || (f->py_inner && !f->py_rests);

	switch (f->py_kind) {
	case EV_TENSOR_STATE:
		return CAT_OPTIMIZER_STATE;
	case EV_TENSOR_GRADIENT:
		return f->marks & FM_BUCKET ? CAT_COMMUNICATION : CAT_GRADIENT;
	case EV_TENSOR_BUFFER:
		return CAT_BUFFER;
	case EV_TENSOR_PARAMETER:
		if (!trained && is_updated_data(f))
			return CAT_BUFFER; /* an average of weights */
		return !trained && f->marks & FM_FROZEN ? CAT_FROZEN : CAT_PARAMETER;
	default:
		return f->indices ? CAT_GRADIENT : CAT_MAX;
	}
}

/* Of blocks that generated code allocated: those with a role by data flow, all others by the file. */
static uint8_t class_of_made(const struct fblock *f, uint8_t cat)
{
	bool is_sure = (f->made & EV_PLACE_GRAPH) != EV_PLACE_INFERENCE || !(f->made & EV_PLACE_OUTPUT);

	if (f->marks & FM_BUCKET && !(f->flags & (FB_PARAM | FB_STATE)))
		return CAT_COMMUNICATION;
	if (f->flags & KNOWN_BY_ROLE || (!is_sure && cat != CAT_UNKNOWN))
		return cat;
	return fblock__made_cat(f);
}

uint8_t fblock__plain(const struct fblock *f, uint8_t cat)
{
	if (f->marks)
		return cat;
	if (cat == CAT_UNKNOWN && (f->flags & (FB_TEMP | FB_TOUCHED)) == FB_TEMP)
		return CAT_WORKSPACE;
	if ((cat == CAT_INPUT || cat == CAT_ACTIVATION) && f->py_kind == EV_TENSOR_PARAMETER)
		return CAT_PARAMETER; /* of a model that is not trained: a teacher, also an average of weights */
	if (f->py_kind || !(f->made & (EV_PLACE_GRAPH | MADE_LEFT)) || (cat != CAT_PARAMETER && cat != CAT_INPUT))
		return cat;
	return class_of_made(f, cat);
}

static uint8_t fblock__class(const struct fblock *f, const struct label_span *s, uint8_t cat)
{
	uint8_t is = f->marks & FM_FSDP ? class_of_fsdp(f) : CAT_MAX;

	if (is == CAT_MAX)
		is = class_of_py_kind(f);
	if (is != CAT_MAX)
		return is;
	if (f->made & EV_PLACE_GRAPH)
		return class_of_made(f, cat);
	if (f->flags & FB_TOUCHED)
		return class_of(f, s, cat);
	/* allocated and freed in one node, or kept for such */
	return f->flags & FB_TEMP || f->made & MADE_KEPT ? CAT_WORKSPACE : cat;
}

/* By the data flow. */
static uint8_t flow_cat(const struct fblock *f, const struct label_span *s)
{
	uint8_t made = fblock__made_cat(f);
	uint32_t fl = f->flags;

	if (!(fl & FB_TOUCHED) && (!f->blk || (fl & FB_STALE)))
		return made;
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
	return s->cat ? s->cat : made ? made : s->guess;
}

/* torch.profiler's category. */
static uint8_t fblock__compat(const struct fblock *f, const struct label_span *s)
{
	uint8_t cat = flow_cat(f, s);

	if (f->py_kind == EV_TENSOR_STATE)
		return CAT_OPTIMIZER_STATE;
	if (f->py_kind == EV_TENSOR_GRADIENT || (f->indices && !f->py_kind))
		return CAT_GRADIENT;
	if (f->py_kind == EV_TENSOR_PARAMETER && (cat == CAT_UNKNOWN || cat == CAT_OPTIMIZER_STATE))
		return CAT_PARAMETER;
	return cat;
}

uint8_t fblock__cat(const struct fblock *f, const struct label_span *s)
{
	uint8_t cat = fblock__compat(f, s);

	return f->marks ? fblock__class(f, s, cat) : cat;
}

uint8_t fblock__settled(const struct fblock *f, const struct label_span *s)
{
	struct fblock sure = *f;
	struct label_span label = *s;

	sure.flags |= FB_STALE;
	sure.expected = 0;
	label.guess = CAT_UNKNOWN;
	return fblock__cat(&sure, &label);
}

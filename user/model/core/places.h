/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * places: lines of Python at which blocks were allocated while no operator was open, and the operators that stand for them
 * (EV_PLACE), which may be reported after the first blocks.
 *
 * Until then a place has a row of its own in the tally of operators, which is shown as "none". Then that row becomes the
 * operator's, or is shown with its existing row: so labels are back-dated, and no block is changed.
 */
#ifndef MT_MODEL_PLACES_H
#define MT_MODEL_PLACES_H

#include <stdbool.h>

#include "base/map.h"
#include "event/event.h"
#include "model/core/tally.h"

#define PLACES_MAX (1u << 16)
#define PLACES_ROWS_MAX (1u << 14) /* of places that are not reported yet, or were reported too late to have a row */

struct place_row {
	uint64_t key; /* id of its name */
	name_id op;   /* 0: none stands for it */
	uint32_t row; /* until it is reported; 0: none */
	bool is_reported;
	uint8_t made; /* enum ev_place: of what is allocated there */
	uint64_t code; /* the code object, which is its file's; 0: not known */
	name_id buffer, nodes, where; /* as EV_PLACE has them */
	uint64_t count, bytes;	      /* that were allocated there */
};

struct place_code {
	uint64_t key; /* one that computes gradients */
};

struct places {
	struct map map; /* struct place_row */
	struct map backwards; /* struct place_code */
	uint32_t rows_cnt;
};

void places__init(struct places *p);
void places__done(struct places *p);
/* So much was allocated there: the row of the tally for it; 0: none, or no room. */
uint32_t places__row(struct places *p, struct tally *ops, name_id place, uint64_t size);
/* EV_PLACE. The first one of a place counts: returns whether this was it. */
bool places__reported(struct places *p, struct tally *ops, const struct event *ev);
/* The operator of this name stands for a place. Looks at all of them. */
bool places__stands(const struct places *p, name_id op);
uint8_t places__made(const struct places *p, name_id place); /* EV_PLACE_UNREPORTED: not reported */
/*
 * A graph that is an inference by its file has returned a gradient: it is a backward pass, compiled as a whole (compiled
 * autograd), which its file does not show.
 */
void places__is_backward(struct places *p, name_id place);
uint8_t places__graph(const struct places *p, name_id place); /* enum ev_place, including that; 0: not known */

#endif

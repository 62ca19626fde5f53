/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * holders: the containers that hold growing memory (EV_HELD), one block each. The block's growing place is looked up when a
 * report is made. At most HOLDERS_MAX; then the oldest is dropped.
 */
#ifndef MT_MODEL_HOLDERS_H
#define MT_MODEL_HOLDERS_H

#include <stddef.h>

#include "event/event.h"
#include "model/core/growth.h"

#define HOLDERS_MAX 128

struct holder {
	struct growth_key of; /* of the row that the block was in then; pid 0: in none */
	uint64_t ts_ns, addr, items;
	uint32_t pid;
	uint8_t dev, unseen;
	name_id path, kind, where;
};

struct holders {
	struct holder v[HOLDERS_MAX];
	size_t cnt, hand;
};

void holders__reported(struct holders *h, const struct event *ev, const struct growth_key *of); /* of: may be NULL */

#endif

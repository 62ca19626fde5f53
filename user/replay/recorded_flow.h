/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * recorded_flow: the data-flow graph of a recording's last steps, to a view (view/tables/flow.h). It is read twice: for where
 * these steps begin, then for their nodes.
 */
#ifndef MT_REPLAY_RECORDED_FLOW_H
#define MT_REPLAY_RECORDED_FLOW_H

#include "replay/chosen.h"
#include "replay/replay.h"

struct flow_view;

struct recorded_flow {
	const char *path; /* borrowed, as chosen */
	const struct chosen *chosen;
	enum classes classes;
	struct report *report; /* of the second reading; the caller's, as all below */
	struct replay_end end;
	uint64_t nodes; /* that there are, shown or not */
};

int recorded_flow__write(struct recorded_flow *f, struct flow_view *v, struct err *err); /* 0 or -errno */

#endif

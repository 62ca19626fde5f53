/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * snaphost: a snapshot's host_segments and host_traces, as torch 2.14 writes them with record_pinned_host_memory: host memory
 * that the driver has pinned. What torch's host allocator gives out of it and takes back is not seen: entries are only
 * segment_alloc and segment_free.
 */
#ifndef MT_VIEW_EXPORT_SNAPHOST_H
#define MT_VIEW_EXPORT_SNAPHOST_H

#include "base/map.h"
#include "view/export/snapframes.h"

struct snaphost {
	struct snapframes *frames; /* borrowed */
	uint32_t *next_ref;
	int is_pickle;
	struct map pinned; /* pinned now */
	FILE *spool;	   /* entries of host_traces; NULL: none yet */
	struct snapwrite w;
};

void snaphost__init(struct snaphost *h, struct snapframes *frames, int is_pickle, uint32_t *next_ref);
void snaphost__done(struct snaphost *h);
int snaphost__event(struct snaphost *h, const struct tl_event *ev, uint64_t us); /* TL_PINNED. 0 or -errno */
int snaphost__put(struct snaphost *h, struct snapwrite *w); /* both lists, with their keys. 0 or -errno */

#endif

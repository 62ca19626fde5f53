/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * packed: fields of events that hold more than one thing: put together and taken apart here alone. They are in recordings, so
 * the meaning of a bit never changes.
 */
#ifndef MT_EVENT_PACKED_H
#define MT_EVENT_PACKED_H

#include "event/event.h"

/* EV_ARG and MT_EV_SAVED: aux is the tensor's place in the frame's arguments, its enum mt_flow_flag and its place in a list. */
static inline uint32_t event_arg_aux(uint8_t index, uint8_t flags, uint16_t item)
{
	return index | (uint32_t)flags << 8 | (uint32_t)item << 16;
}
static inline uint8_t event_arg_index(const struct event *ev)
{
	return (uint8_t)ev->aux;
}
static inline uint8_t event_arg_flags(const struct event *ev)
{
	return (uint8_t)(ev->aux >> 8);
}
static inline uint16_t event_arg_item(const struct event *ev)
{
	return (uint16_t)(ev->aux >> 16);
}

#define EV_ARG_INSIDE UINT8_MAX /* a place: of an operator in that frame that may be over where a recording begins */

/* EV_LEVEL: size is whole steps to trace, and the divisor of the first one's number (0: any); seq is a budget. */
#define EV_LEVEL_STEPS_BITS 32
#define EV_LEVEL_BUDGET 1000000u /* parts of seq; as many or more: no limit */
static inline uint64_t event_level_size(uint64_t steps, uint64_t align)
{
	return steps | align << EV_LEVEL_STEPS_BITS;
}
static inline uint64_t event_level_steps(const struct event *ev)
{
	return ev->size & ((1ull << EV_LEVEL_STEPS_BITS) - 1);
}
static inline uint64_t event_level_align(const struct event *ev)
{
	return ev->size >> EV_LEVEL_STEPS_BITS;
}
static inline uint32_t event_level_seq(double share)
{
	return (uint32_t)(share * EV_LEVEL_BUDGET + 0.5);
}
static inline double event_level_share(const struct event *ev)
{
	return ev->seq < EV_LEVEL_BUDGET ? (double)ev->seq / EV_LEVEL_BUDGET : 1;
}

/* EV_COMPILED: when that began. */
static inline uint64_t event_began_ns(const struct event *ev)
{
	return ev->ago_ns < ev->ts_ns ? ev->ts_ns - ev->ago_ns : 0;
}

/* EV_WAS: aux is the id of the region's name, and enum block_from (model/core/blocks.h). */
#define EV_REGION_BITS 0xfffffu
static inline uint32_t event_was_aux(uint32_t region, uint32_t from)
{
	return (region & EV_REGION_BITS) | from << 20;
}
static inline uint32_t event_region(const struct event *ev)
{
	return ev->aux & EV_REGION_BITS;
}
static inline uint32_t event_from(const struct event *ev)
{
	return ev->aux >> 20 & 3;
}

/* EV_WAS_FLOW: size and aux are what a graph knows of a block (model/flow/flow_state.h). */
struct ev_was_flow {
	uint32_t flags;
	uint32_t marks; /* 24 bits: those above the first 16 came to the format later, and lie behind `made` */
	uint8_t made;
	uint8_t category, shown; /* enum category; the one that is shown meanwhile */
	uint8_t by_backward;
};
static inline void event_put_was_flow(struct event *ev, const struct ev_was_flow *w)
{
	ev->size = w->flags | (uint64_t)(w->marks & 0xffff) << 32 | (uint64_t)w->made << 48 | (uint64_t)(w->marks >> 16) << 56;
	ev->aux = w->category | (uint32_t)w->shown << 4 | (uint32_t)w->by_backward << 8;
}
static inline struct ev_was_flow event_was_flow(const struct event *ev)
{
	return (struct ev_was_flow){
		.flags = (uint32_t)ev->size,
		.marks = (uint32_t)((ev->size >> 32 & 0xffff) | ev->size >> 56 << 16),
		.made = (uint8_t)(ev->size >> 48),
		.category = ev->aux & 15, .shown = ev->aux >> 4 & 15, .by_backward = ev->aux >> 8 & 1,
	};
}

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * kinds: what rooms must know of a kind of event besides what the model makes of it, in one row each (kinds.c): the length of
 * its record in a ring, which fields hold ids of names and of processes, what of it is kept for later, how counters of several
 * files add up, what differs in each event of a recording. A new kind is a row there, its number, and a case in the model.
 */
#ifndef MT_EVENT_KINDS_H
#define MT_EVENT_KINDS_H

#include "event/event.h"

/* Fields of struct event, as bits. */
enum ev_in {
	EV_IN_ADDR = 1,
	EV_IN_SIZE = 2,
	EV_IN_TID = 4,
	EV_IN_SEQ = 8,
	EV_IN_AUX = 16,
	EV_IN_NAME = 32,
	EV_IN_REGION = 64, /* the low bits of aux: event_region() */
};

/* The record in a ring (memtrace/event.h). NONE: its own room reads it, or it is made on the user side. */
enum ev_wire { EV_WIRE_NONE, EV_WIRE_ADDR, EV_WIRE_MEM, EV_WIRE_SEG, EV_WIRE_NAME, EV_WIRE_AT, EV_WIRE_PLACE };

/* For a recording that begins in the middle of a trace: */
enum ev_keep {
	EV_KEEP_NOT,
	EV_KEEP_ALL,  /* they add up */
	EV_KEEP_LAST, /* the last one of a process, device and thing replaces those before it */
};

/* How a counter's field is combined from several files: */
enum ev_sum {
	EV_SUM_NOT,
	EV_SUM_COUNTER, /* "so far": what was added since it was last reported */
	EV_SUM_LEVEL,	/* the sum of the current values */
	EV_SUM_MAX,
};

/* Which of a counter's events only gives the value that it began with. */
enum ev_base {
	EV_BASE_NONE,
	EV_BASE_FLAG, /* those with EV_F_BASE */
	EV_BASE_FIRST,
};

struct ev_kind_row {
	const char *name; /* NULL: no such kind */
	uint8_t wire;	  /* enum ev_wire */
	uint8_t is_frame; /* opens one */
	uint8_t names;	  /* fields that hold ids of names, beside `name` */
	uint8_t pids;	  /* … numbers of processes, beside `pid` and, if it is no name, `tid` */
	uint8_t keep;	  /* enum ev_keep */
	uint8_t thing;	  /* the field that distinguishes two of a kind; 0: none does */
	uint8_t sum_addr, sum_size; /* enum ev_sum; both EV_SUM_NOT: no counter */
	uint8_t base;	  /* enum ev_base */
	uint8_t ago;	  /* EV_IN_ADDR: that is so many ns before it, and more where it is reported again later; or 0 */
	uint8_t varies;	  /* of addr and size those that differ in nearly each event of a recording */
	uint8_t steady;	  /* … and those that never do */
};

extern const struct ev_kind_row ev_kind_rows[256];

static inline const struct ev_kind_row *event_row(uint8_t kind)
{
	return &ev_kind_rows[kind];
}

/* Bytes of its record; 0: none of a fixed length. */
size_t event_wire_bytes(uint8_t kind);

static inline uint64_t event_thing(const struct event *ev)
{
	switch (event_row(ev->kind)->thing) {
	case EV_IN_ADDR:
		return ev->addr;
	case EV_IN_TID:
		return ev->tid;
	case EV_IN_AUX:
		return ev->aux;
	case EV_IN_NAME:
		return ev->name.v;
	default:
		return 0;
	}
}

static inline int event_is_counter(uint8_t kind)
{
	return event_row(kind)->sum_addr || event_row(kind)->sum_size;
}

#endif

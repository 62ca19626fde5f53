/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * recording_frame: one frame of a recording to bytes and back (format: memtrace/recording.h).
 * Inside of recording alone, and of the tests and benchmarks that look at single frames.
 */
#ifndef MT_EVENT_RECORDING_FRAME_H
#define MT_EVENT_RECORDING_FRAME_H

#include "event/event.h"
#include "memtrace/recording.h"

struct rec_enc;
struct rec_dec;

struct rec_frame_in {
	const struct event *events; /* in order; name ids below name_first + name_cnt */
	uint32_t event_cnt;	    /* at most MTR_FRAME_EVENTS_MAX */
	const struct names *names;  /* only read for name_cnt > 0 */
	uint32_t name_first, name_cnt; /* their raw bytes at most MTR_FRAME_NAMES_BYTES_MAX */
	uint32_t frame_no;
	uint16_t flags; /* enum mtr_frame_flag */
	uint64_t events_before, dropped_before;
};

struct rec_enc *rec_enc__new(int zstd_level); /* NULL: no memory; level 0: the default */
void rec_enc__free(struct rec_enc *e);
/* The frame, header included; good until the next call. Cannot fail. */
void rec_enc__frame(struct rec_enc *e, const struct rec_frame_in *in, const void **ret,
		    size_t *ret_len);

/* A frame of names_cnt 0 takes another place in a file: header only, the body is as it was. */
void mtr_frame__move(struct mtr_frame *h, const void *body, uint32_t frame_no, uint32_t name_first, uint64_t events_before,
		     uint64_t dropped_before);
/*
 * Checks all that the header alone allows: magic, counts, caps, checksum of the body.
 * -EINVAL: damaged.
 */
int mtr_frame__check_header(const struct mtr_frame *h);
int mtr_frame__check_body(const struct mtr_frame *h, const void *body);

struct rec_dec *rec_dec__new(void); /* NULL: no memory */
void rec_dec__free(struct rec_dec *d); /* NULL is fine */
/*
 * Decodes a body whose checksum is right (anybody can make one: every index and length is checked
 * again). Adds the names to `names`. 0, -EINVAL (against the format) or -ENOMEM. The events are good
 * until the next call.
 */
int rec_dec__frame(struct rec_dec *d, const struct mtr_frame *h, const void *body,
		   struct names *names, const struct event **ret);

/* --- shared by both sides -------------------------------------------------------------------- */

/* A thread of the frame, and where its events stand among those that are sorted by thread. */
struct frame_thread {
	uint32_t pid, tid;
	uint32_t cnt, pos;
};

static inline int kind_is_frame(uint8_t kind)
{
	return kind == MT_EV_OP || kind == MT_EV_NODE || kind == MT_EV_OP_BEGIN;
}

/* Sequence numbers as both sides expect them (SEQ in memtrace/recording.h). */
struct seq_model {
	uint32_t last;
	uint32_t stack[256];
};

static inline uint32_t seq_model__expect(const struct seq_model *m, uint8_t kind, uint8_t depth)
{
	if (kind_is_frame(kind))
		return m->last + 1;
	return depth ? m->stack[depth - 1] : 0;
}

static inline void seq_model__update(struct seq_model *m, uint8_t kind, uint8_t depth, uint32_t seq)
{
	if (kind_is_frame(kind))
		m->last = m->stack[depth] = seq;
}

static inline uint64_t zigzag(uint64_t d)
{
	return (d << 1) ^ (uint64_t)((int64_t)d >> 63);
}

static inline uint64_t unzigzag(uint64_t v)
{
	return (v >> 1) ^ (0 - (v & 1));
}

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * stream: from the rings to the model and the recording: every event of a session, the kernel side's and our own, in order.
 *
 *   rings ─► share ─► decode, capture ─┐
 *   stream__tell (what live knows) ────┴► order ─► names, stacks, pairs ─► model and recorder
 *
 * Called by session.c, in each turn of its loop; all other files of live send events through stream__tell (live/tell.h).
 */
#ifndef MT_LIVE_STREAM_H
#define MT_LIVE_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "event/event.h"
#include "live/share.h"
#include "live/tell.h"
#include "model/model.h"
#include "record/recorder.h"

struct capture;
struct decode;
struct keeper;
struct order;
struct pairing;
struct placing;
struct session_opts;

struct stream {
	struct names *names;
	struct model_opts model_opts;
	struct model *model;
	struct recorder recorder;
	struct keeper *keeper;
	struct decode *decode;
	struct capture *capture; /* NULL: stacks are neither requested nor caught */
	int is_capture_late;	 /* it begins a process once something is to be caught there; else with the process */
	struct placing *placing; /* borrowed; NULL: lines of Python are not looked at */
	struct order *order;
	struct pairing *pairing;
	struct share share;
	size_t window;	    /* size of order's */
	uint64_t read_ns;   /* the rings were read until then */
	uint64_t passed_ns; /* everything up to this time may have been passed on */
	uint64_t detach_ns; /* later events are no part of the trace: probes are removed one by one; UINT64_MAX: not yet */
	void (*on_late)(void *ctx, const struct event *ev); /* gets those; NULL: they are dropped */
	void *late_ctx;
	int has_more;	    /* rings hold more than was read: the turn's time was over */
	int has_backlog;    /* not all of what was read was passed on */
	uint32_t full[16];  /* pids without room for names, not reported yet */
	size_t full_cnt;
};

/*
 * Opens the recording's file, with the rights that we started with: root without sudo may write where root owns nothing. A
 * window's file is named at the end, so that is tried once the rights are given away. stream__done after failures, too.
 */
int stream__open(struct stream *st, const struct session_opts *o, struct err *err);
int stream__init(struct stream *st, const struct session_opts *o, struct keeper *keeper, struct err *err);
void stream__done(struct stream *st);
struct tell stream__tell(struct stream *st);
/* 1: Python frames of the process can be read from now on. 0: not yet, or never (noted). */
int stream__reads_python(struct stream *st, pid_t pid);
/* Reads the present content of the rings and passes on what is complete, within the turn's time. */
int stream__drain(struct stream *st);
/* Reads what the rings still hold when all probes are gone; stream__end follows after the last event. */
int stream__drain_rest(struct stream *st);
int stream__end(struct stream *st);
/* Number of events that may wait in order, for this size of rings (0: the default). */
size_t stream_window(uint64_t ring_bytes);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * stream: from the rings to the model and the recording: every event of a session, the kernel side's and our own, in order.
 *
 *   rings ─► share ─► decode, capture ─┐
 *   stream__tell (what live knows) ────┴► order ─► names, stacks, pairs ─► model and recorder
 *
 * Called by session.c, which says when there is time for it; everyone else in live tells through stream__tell (live/tell.h).
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
	struct capture *capture; /* NULL: no stacks are asked for, nor caught */
	int is_capture_late;	 /* it begins a process when something is to be caught there; else with the process */
	struct placing *placing; /* borrowed; NULL: lines of Python are not looked at */
	struct order *order;
	struct pairing *pairing;
	struct share share;
	size_t window;	    /* of order */
	uint64_t read_ns;   /* the rings were read until then */
	uint64_t passed_ns; /* all until then may have been passed on */
	uint64_t detach_ns; /* what happens later is no part of the trace: probes go one after the other; UINT64_MAX: not yet */
	int has_more;	    /* rings hold more than was read: the time was over */
	int has_backlog;    /* what was read was not all passed on */
	uint32_t full[16];  /* pids without room for names, not told yet */
	size_t full_cnt;
};

/*
 * The recording's file, with the rights that we came with: root without sudo may write where nothing is root's. A window's
 * file gets its name at the end, so whether it can is tried when the rights are gone. stream__done after failures, too.
 */
int stream__open(struct stream *st, const struct session_opts *o, struct err *err);
int stream__init(struct stream *st, const struct session_opts *o, struct keeper *keeper, struct err *err);
void stream__done(struct stream *st);
struct tell stream__tell(struct stream *st);
/* Python frames of the process can be told from now on: 1. 0: not yet, or never (noted). */
int stream__reads_python(struct stream *st, pid_t pid);
/* Reads the rings as of now and passes on what is complete, as far as the turn's time goes. */
int stream__drain(struct stream *st);
/* What the rings still hold when all probes are gone; then stream__end, when that is told which comes last. */
int stream__drain_rest(struct stream *st);
int stream__end(struct stream *st);
/* Events that may wait to be put in order with so much for rings (0: the default). */
size_t stream_window(uint64_t ring_bytes);

#endif

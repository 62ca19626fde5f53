/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * recording: ordered events to a .mtr file and back. The bytes are described in
 * include/memtrace/recording.h; this is the code.
 *
 * Writer: events are collected and written a frame at a time (by count or by age), each frame whole
 * or not at all, so that a crash of either side loses at most the frame in memory.
 * Reader: hostile input. A frame that is torn or fails its checksum is left out; reading goes on at the next one that is
 * whole, if there is any, and what is missing is counted.
 */
#ifndef MT_EVENT_RECORDING_H
#define MT_EVENT_RECORDING_H

#include <stdio.h>

#include "base/outfile.h"
#include "event/event.h"

struct err;
struct rec_writer;
struct rec_reader;
struct rec_disk;

#define MTR_CLOSE_NS 2000000000ull

struct rec_writer_opts {
	const struct names *names; /* borrowed: new ids are written with the frame that first may use them */
	struct outfile_how how;
	int is_whole; /* the file has no name before it is closed, and none if that fails; else from the first frame on */
	struct rec_disk *disk; /* borrowed: its process writes (recording_disk.h); NULL: we do, at once. Not for whole ones */
};

/* -EINVAL: not a file that can be sought in; else as outfile__open. */
int rec_writer__open(struct rec_writer **ret, const char *path, const struct rec_writer_opts *o, struct err *err);
/*
 * 0 or -errno (-ENOSPC …, message in err of the call that failed). After a failure the events of
 * that frame are dropped and counted, and the next frame is tried again. Events must come ordered:
 * a time before the last one's is recorded as the last one's. With a disk an error is returned by a later call, and more may be
 * dropped: what was on its way by then. -EAGAIN: the disk takes nothing, and there is no room to wait in: counted apart.
 */
int rec_writer__add(struct rec_writer *w, const struct event *ev, struct err *err);
/* Writes the pending frame now (once a second in live use). */
int rec_writer__flush(struct rec_writer *w, struct err *err);
/*
 * A frame that was encoded before (recording_frame.h), without names, as the next one: its events must not be older than
 * what was added, and its names must be in the table. As rec_writer__add.
 */
int rec_writer__add_frame(struct rec_writer *w, const void *frame, size_t len, struct err *err);
/*
 * With a disk: waits until all that was flushed is written and synced. 0, -ETIMEDOUT, or a write's error. Without: 0.
 */
int rec_writer__wait(struct rec_writer *w, uint64_t wait_ns, struct err *err);
/*
 * Flush, end mark, fsync, close, free. NULL is fine. -ETIMEDOUT: the disk has taken nothing for MTR_CLOSE_NS; frames given to
 * it are written when it does.
 */
int rec_writer__close(struct rec_writer *w, struct err *err);
/* Instead of close, after a failure: writes nothing; a file that open created is removed, an old one stays. */
void rec_writer__drop(struct rec_writer *w);
uint64_t rec_writer__bytes(const struct rec_writer *w);	  /* in the file so far */
uint64_t rec_writer__dropped(const struct rec_writer *w); /* not written because of an error, or a disk that stalled */
uint64_t rec_writer__stalled(const struct rec_writer *w); /* … of these, the latter */

/* -EINVAL foreign file, -EISDIR, -ENOTSUP newer version, -ENODATA no whole frame; each with message and hint. */
int rec_reader__open(struct rec_reader **ret, const char *path, struct err *err);
int rec_reader__open_mem(struct rec_reader **ret, const void *data, size_t len, struct err *err);
void rec_reader__free(struct rec_reader *r);
/*
 * The next frame's events, already in order: pointer and count, good until the next call. Returns
 * 1, 0 at the end, or -errno. Names are added to rec_reader__names() before the frame is returned.
 */
int rec_reader__next(struct rec_reader *r, const struct event **ret, size_t *ret_cnt, struct err *err);
struct names *rec_reader__names(struct rec_reader *r);
/* The same, the caller's from now on: the last call before rec_reader__free. */
struct names *rec_reader__take_names(struct rec_reader *r);
/* What was left out in the middle; for what is missing at the end see rec_reader__truncated(). */
struct rec_damage {
	uint64_t places, bytes, events;
};
void rec_reader__damage(const struct rec_reader *r, struct rec_damage *ret);
/* After the end: 1 if the file was cut or its end is damaged (bytes not read in *ret_bytes), 0 if it ended well. */
int rec_reader__truncated(const struct rec_reader *r, uint64_t *ret_bytes);
/* Events that the writer could not write (disk full), as far as read. */
uint64_t rec_reader__dropped(const struct rec_reader *r);
/* 0..1 of the file read so far: for progress lines. */
double rec_reader__progress(const struct rec_reader *r);

#endif

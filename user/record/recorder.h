/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * recorder: writes the events of a session to disk: from the start, from a key on (record/past.h), or only the latest stretch
 * on request (record/window.h). Without any of these it does nothing.
 *
 * A recording that fails in the middle is no error of the trace: it is printed once on stderr, and the trace goes on.
 */
#ifndef MT_RECORD_RECORDER_H
#define MT_RECORD_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/outfile.h"
#include "event/event.h"
#include "memtrace/loss.h"
#include "record/new_peak.h"

struct past;
struct model;
struct dump;
struct model_opts;
struct names;
struct rec_disk;
struct rec_writer;
struct window;

struct recorder_opts {
	const char *path;      /* NULL: none, or from late_path */
	struct outfile_how how;
	uint64_t window_ns;    /* path gets the last while; 0: all of it */
	uint64_t window_bytes; /* of memory, for that */
	double new_peak;       /* the window is written when a device holds this share more than ever before; 0: it is not */
	uint64_t disk_wait_ns; /* a disk that takes nothing is waited for, at the beginning and the end; 0: ten seconds */
	const char *(*late_path)(void *ctx); /* for recorder__begin_late; good as long as the trace. NULL: that never comes */
	void *ctx;
};

struct recorder {
	struct names *names;
	struct rec_writer *writer; /* NULL: nothing is recorded yet, or only the window */
	struct window *window;	   /* NULL: all is recorded, or nothing */
	struct rec_disk *disk;	   /* the process that writes it */
	struct past *past;	   /* NULL: recorded from the start, or never */
	struct recorder_opts opts;
	const char *path; /* of what is recorded, or will be */
	unsigned windows_cnt; /* files of the window that are not the last one */
	unsigned peaks_cnt;   /* … of them those of new peaks, which may be half of the most */
	int peaks_are_reported;	      /* that this limit is reached was printed */
	struct dump *dump;    /* … one that is on its way to the disk; NULL: none is */
	uint64_t dump_span_ns;
	const char *dump_why, *next_why; /* next: it is written again when that one is done; NULL: it is not */
	struct new_peak new_peak;
	uint64_t flushed_ns;  /* when the recording last was */
	uint64_t last_ns;     /* time of the last event */
	int has_failed;
	struct err err;
};

/* names are borrowed; *ret_model: what the model must be asked for. 0 or -ENOMEM; recorder__done in either case. */
int recorder__init(struct recorder *r, const struct recorder_opts *o, struct names *names, struct model_opts *ret_model,
		   struct err *err);
void recorder__done(struct recorder *r);
/* Opens the file, or checks that it can be written: a bad name fails now, not when it is needed. */
int recorder__open(struct recorder *r, struct err *err);

/* Each event, after the model has handled it. */
void recorder__add(struct recorder *r, struct model *m, const struct event *ev);

/* The attach is over: 0 or, where nothing can be written, -errno. Failures after the first frame are printed on stderr. */
int recorder__begin(struct recorder *r, struct err *err);
/* From time to time; flushes at most every every_ns. */
void recorder__tick(struct recorder *r, struct model *m, uint64_t every_ns);
/*
 * Records from now on, where nothing is recorded yet; that it does, or why not, is printed on stderr. what: "all steps". Such
 * a recording may end before the trace does; that is printed, too, and another one may begin.
 */
bool recorder__begin_late(struct recorder *r, struct model *m, const char *what);
void recorder__end_late(struct recorder *r);
static inline bool recorder__is_late(const struct recorder *r)
{
	return r->past && r->writer;
}
/* Writes the window to a file of its own, beside the loop; the outcome is printed on stderr. why: static. */
void recorder__dump(struct recorder *r, struct model *m, const char *why);
uint64_t recorder__cpu_ns(const struct recorder *r); /* of the process of the disk */
/* Events that are not in the file, so far: MT_LOSS_RECORDING, for an error; MT_LOSS_STALLED, for a disk that took nothing. */
uint64_t recorder__lost(const struct recorder *r, enum mt_loss reason);

/* lost: the last report's, by reason; gets what was lost since the session asked. NULL: there is no report. */
int recorder__close(struct recorder *r, struct model *m, const char *why, uint64_t *lost, struct err *err);
/* Instead: it came to nothing. An older recording of that name stays. */
void recorder__drop(struct recorder *r);

#endif

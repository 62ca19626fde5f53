/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * recording: the .mtr file format, version 1, byte by byte.
 *
 * All integers are little-endian. "varint" is LEB128 of an unsigned 64-bit number (7 bits a byte,
 * lowest first, top bit = more follows, at most 10 bytes); "zigzag" is a varint of
 * (d << 1) ^ (d >> 63) of a signed difference d, differences wrap modulo 2^64.
 *
 *   file   = struct mtr_file, then frames until the end of the file
 *   frame  = struct mtr_frame, then body_bytes of body
 *   body   = MTR_COLUMNS times struct mtr_column, then the stored bytes of each column in turn
 *
 * A frame is whole or it is not there: a reader checks magic, lengths and checksum. One that fails is
 * left out: the next one that is whole is found by its magic and checksum, and its frame_no,
 * events_before and name_first show what is missing. Frames are read in order: a frame needs
 * the names of the earlier ones, and nothing else of them. The last frame of a recording that was
 * closed has MTR_FRAME_END set; without it the recording was cut.
 *
 * Each column is compressed alone (a zstd frame) when that makes it smaller (but see
 * MTR_NAMES_RATIO_MAX), else stored as it is: stored_bytes == raw_bytes means as it is. An empty
 * column has both 0.
 *
 * Events. An event has 13 fields (struct event of user/event/event.h; kinds in memtrace/event.h):
 *   ts_ns u64, addr u64, size u64, pid u32, tid u32, seq u32, name u32, aux u32, and kind, dev,
 *   depth, flags u8.
 * The events of a frame are written thread by thread (threads in order of first appearance), and
 * within a thread in order; MTR_COL_ORDER puts them back. What repeats is a *shape*: kind, dev,
 * depth, flags, name, aux, and size and addr where these are constant. An event is the index of its
 * shape, a time, and what its shape's mode says is explicit:
 *
 *   NAMES    for each name: varint length, bytes. Ids name_first, name_first + 1 …; distinct, not
 *            empty.
 *   THREADS  for each thread: zigzag pid - previous pid (0 at first), zigzag tid - pid, varint
 *            number of its events (at least 1; together: events)
 *   ORDER    empty with one thread; else the thread (index) of each event in final order, u8 with
 *            at most 256 threads, else u16
 *   SHAPES   for each shape, where it is first used: u8 kind, u8 mode, u8 dev, u8 depth, u8 flags,
 *            varint name, varint aux, varint size, varint addr (the last two: start value, when the
 *            mode makes them explicit)
 *   SHAPE    u16 for each event: index of its shape; the number of shapes so far = a new one
 *   TIME_LO  u8 for each event: low byte of d = ts_ns - ts_ns of the thread's previous event (of
 *            the frame's first event for the thread's first)
 *   TIME_HI  u8 for each event: d >> 8, or 255: all of d is in TIME_BIG and TIME_LO is 0
 *   TIME_BIG varint for each d >= 255 * 256
 *   SEQ      zigzag seq - expected, where the mode has MTR_MODE_SEQ (else: as expected). Each
 *            thread starts the frame with last = 0 and a stack of 256 zeros. Kinds 4, 5, 6
 *            (frames): expected is last + 1, then last = stack[depth] = seq. Other kinds: expected
 *            is stack[depth - 1], 0 at depth 0. Modulo 2^32.
 *   BACK     u16 where the mode has MTR_MODE_ADDR. Addresses of such events are numbered through
 *            the frame; BACK counts back to the last one that is equal. 0: none, see ADDR.
 *   ADDR     zigzag addr - start value of the shape for each BACK of 0; then start value = addr
 *   SIZE     zigzag size - start value of the shape, where the mode has MTR_MODE_SIZE; then start
 *            value = size
 *
 * Times never decrease in a recording. Event names are ids of names in this or an earlier frame.
 */
#ifndef MT_RECORDING_H
#define MT_RECORDING_H

#include <stdint.h>

#define MTR_MAGIC "\x89MTR\r\n\x1a\n" /* 8 bytes: not text, and damaged by line-end conversion */
#define MTR_VERSION 1		      /* readers refuse newer ones */
#define MTR_FRAME_MAGIC 0x4652544du   /* "MTRF" */

/* Limits; a reader treats a frame beyond them as damaged. */
#define MTR_FRAME_EVENTS_MAX 65536u
#define MTR_FRAME_NAMES_BYTES_MAX (1u << 20) /* raw bytes of MTR_COL_NAMES */
#define MTR_FRAME_RAW_MAX (8u << 20)	     /* raw bytes of all columns together */
#define MTR_NAME_BYTES_MAX 4096u
#define MTR_NAMES_BYTES_MAX (256u << 20) /* of all names of a recording, 1 byte each added */
/*
 * These bound the memory that reading takes by the file's size: a column of names is at most MTR_NAMES_RATIO_MAX times as
 * long as its stored bytes, and a frame has at most MTR_EVENTS_RATIO_MAX events a stored byte of TIME_LO. A column that
 * compresses better is stored as it is. Older writers did not: a reader takes MTR_DENSE_… of such in all.
 */
#define MTR_NAMES_RATIO_MAX 64u
#define MTR_EVENTS_RATIO_MAX 4u
#define MTR_DENSE_NAMES_MAX (16u << 20) /* bytes */
#define MTR_DENSE_EVENTS_MAX (512u << 10)

enum mtr_frame_flag {
	MTR_FRAME_END = 1, /* the last frame; no events, no names */
};

enum mtr_mode {
	MTR_MODE_SEQ = 1,
	MTR_MODE_ADDR = 2,
	MTR_MODE_SIZE = 4,
	MTR_MODE_MASK = 7,
};

enum mtr_col {
	MTR_COL_NAMES,
	MTR_COL_THREADS,
	MTR_COL_ORDER,
	MTR_COL_SHAPES,
	MTR_COL_SHAPE,
	MTR_COL_TIME_LO,
	MTR_COL_TIME_HI,
	MTR_COL_TIME_BIG,
	MTR_COL_SEQ,
	MTR_COL_BACK,
	MTR_COL_ADDR,
	MTR_COL_SIZE,
	MTR_COLUMNS,
};

struct mtr_file {
	uint8_t magic[8];
	uint16_t version;
	uint16_t header_bytes; /* 32; frames start here */
	uint32_t zero;
	uint64_t zero2;
	uint64_t checksum; /* XXH3-64 of the 24 bytes before it */
};

struct mtr_frame {
	uint32_t magic;
	uint16_t flags;	  /* enum mtr_frame_flag */
	uint16_t columns; /* MTR_COLUMNS */
	uint32_t frame_no; /* 0, 1, 2 … without a gap */
	uint32_t body_bytes;
	uint32_t events;
	uint32_t names;	     /* in MTR_COL_NAMES */
	uint32_t name_first; /* id of the first, also without any: highest id so far + 1 */
	uint32_t threads;
	uint64_t first_ts_ns; /* of its events; 0 without any */
	uint64_t last_ts_ns;
	uint64_t events_before;	 /* in the frames before this one */
	uint64_t dropped_before; /* events that could not be written (disk full) so far */
	uint64_t checksum; /* XXH3-64 of the body, seeded with XXH3-64 of the 64 bytes before it */
};

struct mtr_column {
	uint32_t raw_bytes;
	uint32_t stored_bytes;
};

#ifndef __cplusplus
_Static_assert(sizeof(struct mtr_file) == 32, "file format");
_Static_assert(sizeof(struct mtr_frame) == 72, "file format");
_Static_assert(sizeof(struct mtr_column) == 8, "file format");
#endif

#endif

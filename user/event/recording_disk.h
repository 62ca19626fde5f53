/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * recording_disk: a process of its own that puts frames on the disk, so that a disk that stalls stalls nobody else.
 *
 * Frames go through a ring of shared memory. The process has no rights but the descriptors that it is given; it writes what
 * is in the ring when its parent is killed, and then ends. Why a process and not a thread: who waits for a frozen file
 * system cannot be killed, and a process ends when its last thread does: Ctrl-C would end nothing.
 *
 * A frame that cannot be written is cut off again, and with it goes everything that was put behind it, because frames are
 * numbered: rec_disk__failed says where to go on.
 */
#ifndef MT_EVENT_RECORDING_DISK_H
#define MT_EVENT_RECORDING_DISK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct asker;
struct err;
struct rec_disk;

#define REC_DISK_RING_BYTES (32u << 20) /* ten seconds of a million events a second */
#define REC_DISK_SYNC_NS 1000000000ull

/* Where the writer stood before a frame: to go back to. */
struct rec_mark {
	uint32_t frame_no, names_last;
	uint64_t names_bytes, written;
	uint64_t has_head;
};

/*
 * Early, before there are threads and probes: it is forked. asker: whom it becomes; NULL: nobody else. confine: gives away what
 * rights there are, in the new process, 0 or -errno; NULL: its capabilities alone.
 */
int rec_disk__new(struct rec_disk **ret, size_t ring_bytes, const struct asker *asker, int (*confine)(void), struct err *err);
/* The file, and its directory (-1: none), are written and synced by it from now on; both stay the caller's. 0 or -errno. */
int rec_disk__begin(struct rec_disk *d, int fd, int dir_fd);
/* 0; -EAGAIN: there is no room, the disk takes nothing; -EPIPE: the process is gone. */
int rec_disk__put(struct rec_disk *d, const void *head, size_t head_len, const void *data, size_t len,
		  const struct rec_mark *before);
/* 0, or what went wrong (-ENOSPC …) with the frame that *ret was the mark of: what was put since is gone. Told once. */
int rec_disk__failed(struct rec_disk *d, struct rec_mark *ret);
/* Until all that was put is on the disk and synced: 0, -ETIMEDOUT, -EPIPE, or a failure that rec_disk__failed will tell. */
int rec_disk__wait(struct rec_disk *d, uint64_t wait_ns);
uint64_t rec_disk__bytes(const struct rec_disk *d); /* whole frames in the file */
int rec_disk__sync_error(const struct rec_disk *d); /* of a sync, so far: 0 or -errno */
pid_t rec_disk__pid(const struct rec_disk *d);
uint64_t rec_disk__cpu_ns(const struct rec_disk *d); /* that it has used; NULL is fine */
void rec_disk__free(struct rec_disk *d); /* it ends when it has written what it has; NULL is fine */

#endif

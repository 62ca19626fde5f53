/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * recording_disk: a process of its own that writes frames to the disk, so that a disk that stalls delays nothing else.
 *
 * Frames go through a ring of shared memory. The process has no rights but the descriptors that it is given; when its parent
 * is killed it writes what is in the ring, and then ends. Why a process and not a thread: a thread that waits for a frozen file
 * system cannot be killed, and a process ends when its last thread does: Ctrl-C would not end memtrace.
 *
 * A frame that cannot be written is cut off again, together with all frames put after it, because frames are numbered:
 * rec_disk__failed returns where to go on.
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
 * Early, before there are threads and probes: it is forked. asker: the user it becomes; NULL: the same. confine: drops all
 * rights, in the new process, 0 or -errno; NULL: its capabilities alone.
 */
int rec_disk__new(struct rec_disk **ret, size_t ring_bytes, const struct asker *asker, int (*confine)(void), struct err *err);
/* The file, and its directory (-1: none), are written and synced by it from now on; both stay the caller's. 0 or -errno. */
int rec_disk__begin(struct rec_disk *d, int fd, int dir_fd);
/* 0; -EAGAIN: there is no room, the disk takes nothing; -EPIPE: the process is gone. */
int rec_disk__put(struct rec_disk *d, const void *head, size_t head_len, const void *data, size_t len,
		  const struct rec_mark *before);
/* 0, or the error (-ENOSPC …) of the frame whose mark is *ret: all put since is lost. Returned once. */
int rec_disk__failed(struct rec_disk *d, struct rec_mark *ret);
/* Waits until all frames are on the disk and synced: 0, -ETIMEDOUT, -EPIPE, or a failure that rec_disk__failed returns. */
int rec_disk__wait(struct rec_disk *d, uint64_t wait_ns);
uint64_t rec_disk__bytes(const struct rec_disk *d); /* whole frames in the file */
int rec_disk__sync_error(const struct rec_disk *d); /* of a sync, so far: 0 or -errno */
pid_t rec_disk__pid(const struct rec_disk *d);
uint64_t rec_disk__cpu_ns(const struct rec_disk *d); /* used so far; NULL is fine */
void rec_disk__free(struct rec_disk *d); /* it ends when it has written what it has; NULL is fine */

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * covers: restores the job's instructions when memtrace is killed while it sets or closes probes.
 *
 * A thread with a SIGKILL pending is refused every page of others' memory (__get_user_pages), so a link that it is making or
 * closing would leave its breakpoints behind, for good ("failed to unregister, leaking uprobe"). But when a process closes its
 * descriptors at its end, no signal is pending any more; and the last link on a place to be closed restores the instruction in
 * all processes that have it. So each place has a second link, made before the first and closed after it, for probes in
 * memtrace alone: it changes nothing in the job, and when memtrace ends, whenever and however, the end of the process closes
 * it. Measured on 6.18: of 24 keepers killed at such moments 5 left 1 to 12 pages of the job changed; of 53 with covers, to 26
 * of which the kernel had refused it, none.
 *
 * For uprobe_multi. Links of many places, made while sites are set, in the same slices; they stay as long as any process has a
 * probe in the file. A perf uprobe is one place, and is not covered: they are closed one after the other, and a kill leaves at
 * most the one that is being closed (links.c).
 */
#ifndef MT_TRACE_COVERS_H
#define MT_TRACE_COVERS_H

#include <stddef.h>
#include <stdint.h>

struct closer;

struct cover {
	int file_fd; /* one of the tracer's files; -1: it is closed */
	int link_fd;
	uint64_t *offsets; /* ascending, each once */
	size_t cnt;
};

struct covers {
	struct cover *v;
	size_t cnt, cap;
};

int covers__has(const struct covers *c, int file_fd, uint64_t offset);
/* Gives those of a file's places a cover that have none; path is for the kernel. refs: NULL, or cnt of them. 0 or -errno. */
int covers__add(struct covers *c, int prog_fd, int file_fd, const char *path, const uint64_t *offsets, const uint64_t *refs,
		size_t cnt);
/* The tracer closes a file; another one may get its number. */
void covers__forget(struct covers *c, int file_fd);
/* Closes those of closed files, in the background: not while links are being made. */
void covers__drop_forgotten(struct covers *c, struct closer *closer);
/* When no link is left: closes all of them, and waits until they are gone. */
void covers__done(struct covers *c);

#endif

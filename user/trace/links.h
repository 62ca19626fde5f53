/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * links: the links of a tracer, each with its places in the file, so that a place is set once in a process and can be removed
 * again.
 */
#ifndef MT_TRACE_LINKS_H
#define MT_TRACE_LINKS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "memtrace/event.h"

struct closer;

/* What a link covers: one program on one file's sites, entries or returns, in one process. */
struct link_key {
	pid_t pid;
	int file_fd; /* one of the tracer's files; -1: our own program */
	enum mt_prog prog;
	int is_ret;
	enum mt_level level; /* of its sites */
};

struct link {
	struct link_key key;
	int fds[2]; /* link, or perf event and link; -1 = none */
	int is_first; /* operators set all together, before any is known to be called: MT_COOKIE_FIRST */
	uint64_t *offsets; /* ascending */
	size_t offsets_cnt;
};

struct links {
	struct link *v;
	size_t cnt, cap;
};

/* Takes ownership of the descriptors, also on failure. 0 or -ENOMEM. */
int links__add(struct links *l, const struct link_key *key, int is_first, const int fds[2], const uint64_t *offsets,
	       size_t offsets_cnt);
/* For links__offsets. */
enum which_links { LINKS_ALL, LINKS_FIRST, LINKS_LATER };
/* The places that are set already, ascending; the caller's. -ENOMEM. */
int links__offsets(const struct links *l, const struct link_key *key, enum which_links which, uint64_t **ret,
		   size_t *ret_cnt);
int links__has_operators(const struct links *l, pid_t pid); /* some are set in the process */
int links__has_file(const struct links *l, int file_fd);
int link_key_same(const struct link_key *a, const struct link_key *b);
/* Closes, in the background, those of one process, or all (pid 0). site_ns: how long others wait for one site. */
void links__close_pid(struct links *l, pid_t pid, struct closer *closer, uint64_t site_ns);
/* … those whose pid is 0, which marks a link to be closed. */
void links__close_marked(struct links *l, struct closer *closer, uint64_t site_ns);
/* Marks those of a process with a higher level to be closed; returns their number of sites. */
size_t links__mark_above(struct links *l, pid_t pid, enum mt_level level);
void links__done(struct links *l); /* after all are closed */

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * serve: the privileged half, private to keeper/: answers the requests of protocol.h until the other half is gone. Reads
 * nothing that the target, a file or the network wrote, except the bytes that it passes on.
 */
#ifndef MT_KEEPER_SERVE_H
#define MT_KEEPER_SERVE_H

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>

#include "keeper/channel.h"
#include "keeper/keeper.h"

struct err;

/* Mapped files that the other half was given: probes may only be set in these. */
#define KEEP_LIBS_MAX 4096

struct kept_lib {
	uint64_t dev, ino; /* as the other half names the file */
	int fd;
};

struct kept_libs {
	struct kept_lib v[KEEP_LIBS_MAX]; /* the oldest is overwritten */
	size_t cnt, next;
	pthread_mutex_t lock;
};

#define KEEP_CPUS_MAX 8192 /* more than a kernel can have */

struct kept_ring {
	void *at; /* NULL: none */
	size_t len;
};

struct keep {
	struct channel probes, looks;
	struct kept_libs libs;
	struct kept_ring rings[KEEP_CPUS_MAX]; /* of sideband records, by CPU */
	struct tracer *tracer;
	struct wards_opts who;
	struct wards *wards;
	int checks; /* the caller is not root: only processes that the caller may trace without us */
	keep_lock *lock;
	void (*at_end)(const void *ctx);
	const void *end_ctx;
};

/* Until the other half is gone. In a process of its own; *k from calloc, with channels. */
void keep__serve(struct keep *k);

/* Answers one request; ret_fds has room for TAPS_FDS_MAX. *ret_close: close them once they are sent. */
void keep__probes(struct keep *k, const struct keep_request *q, struct keep_reply *ret, int *ret_fds, int *ret_close);
/* answer: KEEP_READ_MAX bytes, of which ret->len belong at KEEP_ANSWER. ret_fds: one, to be closed once it is sent. */
void keep__looks(struct keep *k, const struct keep_request *q, char *answer, struct keep_reply *ret, int *ret_fds);

/*
 * What is done about a process happens between these two: it may be served (wards.h), and if the caller is not root, the caller
 * may look at it without us: ptrace's own rule, checked by the kernel. Both must still hold afterwards, for the same process,
 * or the result is discarded: it may run another program by then, or its number may be another's.
 */
struct keep_hold {
	pid_t pid;
	int fd; /* -1: a read of a known one, which takes less than 0.3 s: numbers do not wrap around within that */
};

/* 0 or -EPERM, -ESRCH, -E2BIG. */
int keep__hold(const struct keep *k, const struct keep_request *q, struct keep_hold *ret);
/* 0, or why the result must be discarded. may_be_dead: it may have ended, as long as its number is no other's. */
int keep__release(const struct keep *k, struct keep_hold *h, int may_be_dead);
/* The error for a refusal, with text. Returns r. */
int keep_refused(struct err *err, pid_t pid, int r);
/* Keeps a copy of fd, which stays the caller's. */
void kept_libs__add(struct kept_libs *l, uint64_t dev, uint64_t ino, int fd);
/* A copy, for the caller to close; -ESTALE: it was not handed out, or too many were since. */
int kept_libs__get(struct kept_libs *l, uint64_t dev, uint64_t ino);

#endif

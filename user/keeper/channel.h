/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* channel: one end of a pair of sockets, with its area; whole messages; descriptors are only sent by the keeper. */
#ifndef MT_KEEPER_CHANNEL_H
#define MT_KEEPER_CHANNEL_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "keeper/protocol.h"

struct channel {
	int fd;
	char *area;
	size_t area_bytes;
	/* Tickets, in order of arrival: a mutex would favour the thread that locks it all the time. */
	pthread_mutex_t lock;
	pthread_cond_t given;
	uint64_t came, served;
};

/* Two ends of one area. 0 or -errno; call channel__done for both in any case. */
int channel_pair(struct channel *ours, struct channel *theirs, size_t area_bytes);
void channel__done(struct channel *c); /* zeroed with fd -1 is fine */

/* From any thread: between the two calls the area, and one request with its reply, are the caller's. */
void channel__take(struct channel *c);
void channel__give(struct channel *c);

/* 1; 0: the other end is gone; -errno. */
int channel__get_request(const struct channel *c, struct keep_request *ret);
/* fds stay the caller's. 0 or -errno. */
int channel__put_reply(const struct channel *c, const struct keep_reply *reply, const int *fds);
/*
 * Sends a request and waits. *reply->r is the answer; ret_fds: room for fds_max, reply->fds_cnt of them are the caller's.
 * -EPIPE: the keeper is gone. Descriptors beyond fds_max are closed.
 */
int channel__ask(const struct channel *c, const struct keep_request *req, struct keep_reply *reply, int *ret_fds,
		 size_t fds_max);

#endif

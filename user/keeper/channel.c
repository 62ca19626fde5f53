/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "keeper/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_BYTES offsetof(struct keep_reply, err)

union fds_room {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(TAPS_FDS_MAX * sizeof(int))];
};

int channel_pair(struct channel *ours, struct channel *theirs, size_t area_bytes)
{
	int fds[2] = { -1, -1 };
	void *p;

	*ours = *theirs = (struct channel){ .fd = -1 };
	/* MAP_SHARED without a file: neither end can truncate it. */
	p = mmap(NULL, area_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return -errno;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0) {
		int r = -errno;

		munmap(p, area_bytes);
		return r;
	}
	*ours = (struct channel){ .fd = fds[0], .area = p, .area_bytes = area_bytes };
	*theirs = (struct channel){ .fd = fds[1], .area = p, .area_bytes = area_bytes };
	pthread_mutex_init(&ours->lock, NULL);
	pthread_mutex_init(&theirs->lock, NULL);
	pthread_cond_init(&ours->given, NULL);
	pthread_cond_init(&theirs->given, NULL);
	return 0;
}

void channel__take(struct channel *c)
{
	uint64_t ticket;

	pthread_mutex_lock(&c->lock);
	ticket = c->came++;
	while (c->served != ticket)
		pthread_cond_wait(&c->given, &c->lock);
	pthread_mutex_unlock(&c->lock);
}

void channel__give(struct channel *c)
{
	pthread_mutex_lock(&c->lock);
	c->served++;
	pthread_cond_broadcast(&c->given);
	pthread_mutex_unlock(&c->lock);
}

void channel__done(struct channel *c)
{
	if (c->fd < 0)
		return;
	close(c->fd);
	munmap(c->area, c->area_bytes);
	*c = (struct channel){ .fd = -1 };
}

int channel__get_request(const struct channel *c, struct keep_request *ret)
{
	ssize_t n;

	do
		n = recv(c->fd, ret, sizeof(*ret), 0);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : 0;
	return n == sizeof(*ret) && ret->len <= c->area_bytes ? 1 : -EPROTO;
}

int channel__put_reply(const struct channel *c, const struct keep_reply *reply, const int *fds)
{
	struct iovec part = { (void *)reply, reply->r < 0 ? sizeof(*reply) : HEAD_BYTES };
	struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };
	union fds_room room = { 0 };
	ssize_t n;

	if (reply->fds_cnt) {
		m.msg_control = &room;
		m.msg_controllen = CMSG_SPACE(reply->fds_cnt * sizeof(int));
		room.head = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
					      .cmsg_len = CMSG_LEN(reply->fds_cnt * sizeof(int)) };
		memcpy(CMSG_DATA(&room.head), fds, reply->fds_cnt * sizeof(int));
	}
	do
		n = sendmsg(c->fd, &m, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

static size_t take_fds(struct msghdr *m, int *ret, size_t max)
{
	size_t cnt = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			if (cnt < max)
				ret[cnt++] = fd;
			else
				close(fd);
		}
	}
	return cnt;
}

int channel__ask(const struct channel *c, const struct keep_request *req, struct keep_reply *reply, int *ret_fds,
		 size_t fds_max)
{
	struct iovec part = { reply, sizeof(*reply) };
	union fds_room room;
	struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof(room) };
	ssize_t n;

	do
		n = send(c->fd, req, sizeof(*req), MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	do
		n = recvmsg(c->fd, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 && errno != ECONNRESET ? -errno : -EPIPE;
	reply->fds_cnt = (uint32_t)take_fds(&m, ret_fds, fds_max);
	return (size_t)n >= HEAD_BYTES && (reply->r >= 0 || (size_t)n == sizeof(*reply)) ? 0 : -EPROTO;
}

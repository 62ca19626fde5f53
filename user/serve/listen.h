/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* listen: the address, a port or a Unix socket. Opening is apart from accepting, so that rights can be given away between. */
#ifndef MT_SERVE_LISTEN_H
#define MT_SERVE_LISTEN_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>

struct asker;
struct err;

#define LISTEN_DEFAULT "127.0.0.1:9464"
#define LISTEN_DIR "/run/memtrace" /* of sockets that are given by name alone */

struct listen_addr {
	struct sockaddr_storage sa;
	socklen_t len;
	int is_loopback, is_unix;
	char text[120]; /* "127.0.0.1:9464", "[::1]:9464", "unix:/run/memtrace/job" */
	dev_t dev;	/* of the Unix socket that listen_open made */
	ino_t ino;
};

/*
 * ADDR:PORT, [ADDR6]:PORT, localhost:PORT; numbers only, no name is resolved. unix:NAME, unix:/PATH. 0 or -EINVAL. Port 0: any
 * that is free.
 */
int listen_parse(const char *text, struct listen_addr *ret, struct err *err);
/*
 * A socket that listens there, and in *a the port it got. A Unix socket is owned by `who`, for that user only, or for
 * a group too ((gid_t)-1: none); it is only made where nobody else can put another in its place, and replaces one
 * that a killed memtrace left. -errno: the address is in use, or another error.
 */
int listen_open(struct listen_addr *a, const struct asker *who, gid_t group, struct err *err);
/* The Unix socket that listen_open made has no name any more. Nothing for ports. */
void listen_unlink(const struct listen_addr *a);

int is_loopback4(struct in_addr a);

#endif

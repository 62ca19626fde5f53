/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* listen: the address to listen on, and whether a request means us. */
#ifndef MT_SERVE_LISTEN_H
#define MT_SERVE_LISTEN_H

#include <sys/socket.h>

struct err;

#define LISTEN_DEFAULT "127.0.0.1:9464"

struct listen_addr {
	struct sockaddr_storage sa;
	socklen_t len;
	int is_loopback;
	char text[64]; /* "127.0.0.1:9464", "[::1]:9464" */
};

/* ADDR:PORT, [ADDR6]:PORT, localhost:PORT; numbers only, nobody is asked. 0 or -EINVAL. Port 0: any that is free. */
int listen_parse(const char *text, struct listen_addr *ret, struct err *err);
/* A socket that listens there, and in *a the port it got. -errno: who has it, or what else is wrong. */
int listen_open(struct listen_addr *a, struct err *err);
/*
 * Does a Host header name this machine's loopback? A page of another site that got its own name to resolve to 127.0.0.1
 * (DNS rebinding) sends that name. NULL (HTTP/1.0, no browser does that) is fine.
 */
int host_is_loopback(const char *host);

#endif

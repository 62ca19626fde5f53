/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * server: the HTTP side of `memtrace serve`: GET and HEAD of four paths, no file, no state but the connections.
 *
 *	/metrics   the text of `metrics`, in the form that the client prefers
 *	/healthz   by `health`: 200 or 503
 *	/          the page, which listens to
 *	/events    server-sent events: each message that is pushed, whole, or the latest one if the client is slow
 *
 * Runs on the thread that calls server__run, which does what can be done without waiting. A client cannot hold it up: reads and
 * writes never block, headers have SERVER_HEADER_BYTES and SERVER_WAIT_S, an answer SERVER_SEND_S, and of
 * SERVER_CLIENTS_MAX connections, when all but a few are taken, one makes room for each that comes (place.h). So each request
 * for /metrics is answered, whatever others do with their connections. Metrics are made once for all clients.
 */
#ifndef MT_SERVE_SERVER_H
#define MT_SERVE_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "view/metrics/metrics.h"

struct gate;
struct err;
struct server;

#define SERVER_CLIENTS_MAX 64
#define SERVER_CLIENTS_EASY 48 /* from here on a new one costs an old one its place */
#define SERVER_LISTENERS_MAX 16
#define SERVER_HEADER_BYTES (16u << 10)
#define SERVER_WAIT_S 20 /* for a request, whole; above 15, Prometheus' usual interval, so that it keeps its connection */
#define SERVER_SEND_S 30
#define SERVER_SAME_S 1

struct server_opts {
	int fd; /* it listens; the server's from here on, also after a failure */
	const struct gate *gate; /* which requests are let in; borrowed */
	/* Changes with the text of metrics. While it is the same, one answer serves all clients, for SERVER_SAME_S at most. */
	uint64_t (*number)(void *ctx);
	/* Text for free(), or NULL: cannot be made now. */
	char *(*metrics)(void *ctx, enum metrics_form form, size_t *ret_len);
	char *(*health)(void *ctx, int *ret_is_well, size_t *ret_len);
	/* The first or the only listener has come: push a message. */
	void (*listener)(void *ctx);
	void *ctx;
};

/* 0, or -errno with *err; *ret is the caller's, for server__stop, and untouched on failure. */
int server__start(struct server **ret, const struct server_opts *opts, struct err *err);
void server__stop(struct server *s); /* NULL is fine */
int server__fd(const struct server *s); /* can be read: call server__run */
void server__run(struct server *s);
size_t server__listeners(const struct server *s);
/* The latest message for all listeners, as one event: text of one line. -ENOMEM. */
int server__push(struct server *s, const char *text, size_t len);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * gate: which requests are let in, by their headers.
 *
 * Host: a page of another site that got its own name to resolve to this address (DNS rebinding) sends that name. So on
 * loopback only names of loopback are let in, and those of --allow-host. Beyond, the token keeps such a page out; the header
 * is looked at where --allow-host was given. On a Unix socket no browser comes by itself.
 *
 * Token: "Authorization: Bearer TOKEN" (Prometheus: credentials_file), or Basic with any name and the token as password,
 * which browsers ask for. Compared in a time that does not depend on where it differs.
 */
#ifndef MT_SERVE_GATE_H
#define MT_SERVE_GATE_H

#include <stddef.h>

struct err;
struct listen_addr;

#define GATE_HOSTS_MAX 16
#define TOKEN_LEN_MIN 16
#define TOKEN_LEN_MAX 512

struct gate {
	int checks_host, is_loopback, has_token;
	const char *const *hosts; /* --allow-host; borrowed */
	size_t hosts_cnt;
	char token[TOKEN_LEN_MAX + 1]; /* zeroes behind it */
};

enum gate_says { GATE_OPEN = 0, GATE_OTHER_HOST, GATE_NO_TOKEN };

void gate__init(struct gate *ret, const struct listen_addr *a, const char *const *hosts, size_t hosts_cnt);
/* From here on the file's one line is required. -EINVAL, -EPERM (others can read it) or open's error, with a hint. */
int gate__take_token(struct gate *d, const char *path, struct err *err);
void gate__done(struct gate *d); /* nothing of the token is left in memory */

/* Headers as they came, NULL: none was sent. */
enum gate_says gate__ask(const struct gate *d, const char *host, const char *authorization);

/* NAME or an address, without a port, as --allow-host takes it. */
int host_is_name(const char *text);
/* Does a Host header name this machine's loopback? NULL (HTTP/1.0, no browser does that) is fine. */
int host_is_loopback(const char *host);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "serve/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/err.h"

#define BACKLOG 128
#define SEND_BYTES (64 << 10) /* of a client that does not read, the kernel keeps so much, twice */

static int refuse(const char *text, struct err *err)
{
	err_set(err, -EINVAL, "'%.100s' is not ADDRESS:PORT", text);
	return err_hint(err, "such as " LISTEN_DEFAULT ", [::1]:9464, localhost:9464, or 0.0.0.0:9464 for all of the network");
}

/* The address in front of the last ':', without its brackets. 0: too long, or there is none. */
static size_t host_part(const char *text, char *buf, size_t size, const char **ret_port)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;

	if (len > 2 && text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
	} else if (memchr(text, ':', len)) {
		return 0; /* IPv6 without brackets: where would the port begin? */
	}
	if (!len || len >= size)
		return 0;
	memcpy(buf, text, len);
	buf[len] = '\0';
	*ret_port = colon + 1;
	return len;
}

static int is_loopback4(struct in_addr a)
{
	return (ntohl(a.s_addr) >> 24) == 127;
}

static void put_text(struct listen_addr *a)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&a->sa;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&a->sa;
	char host[INET6_ADDRSTRLEN] = "";

	if (a->sa.ss_family == AF_INET)
		inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
	else
		inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
	snprintf(a->text, sizeof(a->text), a->sa.ss_family == AF_INET ? "%s:%u" : "[%s]:%u", host,
		 ntohs(a->sa.ss_family == AF_INET ? v4->sin_port : v6->sin6_port));
}

int listen_parse(const char *text, struct listen_addr *ret, struct err *err)
{
	struct listen_addr a = { 0 };
	struct sockaddr_in *v4 = (struct sockaddr_in *)&a.sa;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a.sa;
	char host[INET6_ADDRSTRLEN];
	const char *port;
	unsigned long number;

	if (!host_part(text, host, sizeof(host), &port) || !port[0] || strspn(port, "0123456789") != strlen(port) ||
	    strlen(port) > 5)
		return refuse(text, err);
	number = strtoul(port, NULL, 10);
	if (number > 65535)
		return refuse(text, err);
	if (!strcasecmp(host, "localhost"))
		strcpy(host, "127.0.0.1");
	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)number);
		a.len = sizeof(*v4);
		a.is_loopback = is_loopback4(v4->sin_addr);
	} else if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)number);
		a.len = sizeof(*v6);
		a.is_loopback = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
	} else {
		return refuse(text, err);
	}
	put_text(&a);
	*ret = a;
	return 0;
}

int listen_open(struct listen_addr *a, struct err *err)
{
	int fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1, room = SEND_BYTES, e;

	if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) &&
	    !setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) && /* accepted ones inherit it */
	    !bind(fd, (struct sockaddr *)&a->sa, a->len) && !listen(fd, BACKLOG) &&
	    !getsockname(fd, (struct sockaddr *)&a->sa, &a->len)) {
		put_text(a);
		return fd;
	}
	e = errno;
	if (fd >= 0)
		close(fd);
	err_set(err, -e, "listening on %s: %s", a->text, strerror(e));
	if (e == EADDRINUSE)
		err_hint(err, "something else has this port (ss -ltnp names it); --listen ADDRESS:PORT takes another");
	else if (e == EADDRNOTAVAIL)
		err_hint(err, "no interface of this machine has that address (ip address lists them)");
	return -e;
}

int host_is_loopback(const char *host)
{
	char name[INET6_ADDRSTRLEN];
	size_t len;
	struct in_addr v4;
	struct in6_addr v6;

	if (!host)
		return 1;
	if (host[0] == '[') {
		len = strcspn(host + 1, "]");
		host++;
		if (host[len] != ']' || (host[len + 1] && host[len + 1] != ':') || len >= sizeof(name))
			return 0;
		memcpy(name, host, len);
		name[len] = '\0';
		return inet_pton(AF_INET6, name, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
	}
	len = strcspn(host, ":");
	if (len >= sizeof(name))
		return 0;
	memcpy(name, host, len);
	name[len] = '\0';
	return !strcasecmp(name, "localhost") || (inet_pton(AF_INET, name, &v4) == 1 && is_loopback4(v4));
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "serve/gate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/asker.h"
#include "base/err.h"
#include "serve/listen.h"

#define HOST_BYTES 256
#define BASIC_BYTES 1024 /* of name and password, unpacked */

/* --- Host ------------------------------------------------------------------------------------------------ */

/* The header without its port, and an IPv6 address without its brackets. 0, or -EINVAL. */
static int host_split(const char *host, char *buf, int *ret_is_v6)
{
	size_t len;

	*ret_is_v6 = host[0] == '[';
	host += *ret_is_v6;
	len = strcspn(host, *ret_is_v6 ? "]" : ":");
	if (len >= HOST_BYTES || (*ret_is_v6 && (host[len] != ']' || (host[len + 1] && host[len + 1] != ':'))))
		return -EINVAL;
	memcpy(buf, host, len);
	buf[len] = '\0';
	return 0;
}

int host_is_loopback(const char *host)
{
	char name[HOST_BYTES];
	struct in_addr v4;
	struct in6_addr v6;
	int is_v6;

	if (!host)
		return 1;
	if (host_split(host, name, &is_v6))
		return 0;
	if (is_v6)
		return inet_pton(AF_INET6, name, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
	return !strcasecmp(name, "localhost") || (inet_pton(AF_INET, name, &v4) == 1 && is_loopback4(v4));
}

/* An address, not a name that somebody else may have resolve to us. */
static int host_is_address(const char *host)
{
	char name[HOST_BYTES];
	struct in6_addr any;
	int is_v6;

	return !host_split(host, name, &is_v6) && inet_pton(is_v6 ? AF_INET6 : AF_INET, name, &any) == 1;
}

int host_is_name(const char *text)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

	return text[0] && strlen(text) < HOST_BYTES && strspn(text, plain) == strlen(text);
}

static int host_is_let_in(const struct gate *d, const char *host)
{
	char name[HOST_BYTES];
	int is_v6;

	if (!d->checks_host || host_is_loopback(host) || (!d->is_loopback && host_is_address(host)))
		return 1;
	for (size_t i = 0; i < d->hosts_cnt && !host_split(host, name, &is_v6); i++)
		if (!is_v6 && !strcasecmp(name, d->hosts[i]))
			return 1;
	return 0;
}

/* --- token ----------------------------------------------------------------------------------------------- */

static int is_token(const char *given, size_t len, const struct gate *d)
{
	char padded[TOKEN_LEN_MAX + 1] = { 0 };
	volatile unsigned char differs = len > TOKEN_LEN_MAX;

	memcpy(padded, given, differs ? TOKEN_LEN_MAX : len);
	for (size_t i = 0; i < sizeof(padded); i++)
		differs |= (unsigned char)(padded[i] ^ d->token[i]);
	return !differs;
}

static int base64_digit(char c)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* Bytes, or -1: not base64, or too much of it. */
static int base64_read(const char *text, unsigned char *buf, int size)
{
	unsigned bits = 0;
	int n = 0, cnt = 0, digit;

	for (; (digit = base64_digit(*text)) >= 0; text++) {
		bits = bits << 6 | (unsigned)digit;
		if (++cnt % 4 == 1)
			continue;
		if (n == size)
			return -1;
		buf[n++] = (unsigned char)(bits >> (6 - 2 * ((cnt - 1) % 4)));
	}
	text += strspn(text, "=");
	return cnt % 4 == 1 || *text ? -1 : n;
}

/* The text behind the scheme's name, or NULL: another scheme. */
static const char *after_scheme(const char *header, const char *scheme)
{
	size_t len = strlen(scheme);

	if (strncasecmp(header, scheme, len) != 0 || header[len] != ' ')
		return NULL;
	return header + len + strspn(header + len, " ");
}

static int has_shown_token(const struct gate *d, const char *header)
{
	unsigned char pair[BASIC_BYTES], *colon;
	const char *given = header ? after_scheme(header, "Bearer") : NULL;
	int n;

	if (given)
		return is_token(given, strlen(given), d);
	given = header ? after_scheme(header, "Basic") : NULL;
	n = given ? base64_read(given, pair, sizeof(pair)) : -1;
	colon = n > 0 ? memchr(pair, ':', (size_t)n) : NULL;
	return colon && is_token((const char *)colon + 1, (size_t)(pair + n - colon - 1), d);
}

/* Not for everybody: root's group may read it, which is how systemd hands out a credential. */
static int is_private(const struct stat *st)
{
	struct asker who;

	asker__find(&who);
	return (!st->st_uid || st->st_uid == geteuid() || st->st_uid == who.uid) && !(st->st_mode & (S_IRWXO | S_IWGRP)) &&
	       (!st->st_gid || !(st->st_mode & S_IRGRP));
}

static int token_parse(struct gate *d, char *text, size_t len, const char *path, struct err *err)
{
	while (len && strchr(" \t\r\n", text[len - 1]))
		text[--len] = '\0';
	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] > '~')
			len = 0; /* not a single word */
	if (len < TOKEN_LEN_MIN || len > TOKEN_LEN_MAX) {
		err_set(err, -EINVAL, "%.200s holds no token: one line of %d to %d letters, digits or signs", path,
			TOKEN_LEN_MIN, TOKEN_LEN_MAX);
		return err_hint(err, "(umask 077; openssl rand -hex 32 >FILE)");
	}
	memcpy(d->token, text, len);
	d->has_token = 1;
	return 0;
}

int gate__take_token(struct gate *d, const char *path, struct err *err)
{
	char text[TOKEN_LEN_MAX + 64];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), r;
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0) {
		r = err_set(err, -errno, "the token file %.200s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return r;
	}
	n = S_ISREG(st.st_mode) && is_private(&st) ? read(fd, text, sizeof(text) - 1) : 0;
	close(fd);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "the token file %.200s is no file", path);
	if (!is_private(&st)) {
		err_set(err, -EPERM, "the token file %.200s is not yours alone: others can read or change it", path);
		return err_hint(err, "chmod 600 FILE, and make another token: this one may be known");
	}
	if (n < 0)
		return err_set(err, -EIO, "the token file %.200s cannot be read", path);
	text[n] = '\0';
	r = token_parse(d, text, (size_t)n, path, err);
	explicit_bzero(text, sizeof(text));
	return r;
}

/* --- both ------------------------------------------------------------------------------------------------ */

void gate__init(struct gate *ret, const struct listen_addr *a, const char *const *hosts, size_t hosts_cnt)
{
	*ret = (struct gate){ .checks_host = a->is_loopback || hosts_cnt, .is_loopback = a->is_loopback, .hosts = hosts,
			      .hosts_cnt = hosts_cnt };
}

void gate__done(struct gate *d)
{
	explicit_bzero(d->token, sizeof(d->token));
}

enum gate_says gate__ask(const struct gate *d, const char *host, const char *authorization)
{
	if (!host_is_let_in(d, host))
		return GATE_OTHER_HOST;
	return d->has_token && !has_shown_token(d, authorization) ? GATE_NO_TOKEN : GATE_OPEN;
}

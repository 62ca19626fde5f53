/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "serve/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/asker.h"
#include "base/err.h"

#define BACKLOG 4096 /* a flood of connections must not fill it: a client that finds it full tries again after a second */
#define SEND_BYTES (64 << 10) /* the kernel keeps twice this for a client that does not read */

static int refuse(const char *text, struct err *err)
{
	err_set(err, -EINVAL, "'%.100s' is not ADDRESS:PORT", text);
	return err_hint(err, "such as " LISTEN_DEFAULT ", [::1]:9464, localhost:9464, 0.0.0.0:9464 for all of the network, or "
			"unix:NAME for a socket in " LISTEN_DIR);
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

int is_loopback4(struct in_addr a)
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

static int refuse_unix(const char *text, struct err *err)
{
	err_set(err, -EINVAL, "'unix:%.100s' is neither unix:NAME nor unix:/PATH, of %zu bytes at most", text,
		sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
	return err_hint(err, "unix:job is " LISTEN_DIR "/job");
}

/* The text behind "unix:". */
static int unix_parse(const char *text, struct listen_addr *ret, struct err *err)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	struct listen_addr a = { .is_unix = 1, .len = sizeof(struct sockaddr_un) };
	struct sockaddr_un *un = (struct sockaddr_un *)&a.sa;
	int is_name = text[0] && text[0] != '.' && strspn(text, plain) == strlen(text), n;

	if (!is_name && (text[0] != '/' || text[strlen(text) - 1] == '/'))
		return refuse_unix(text, err);
	n = snprintf(un->sun_path, sizeof(un->sun_path), "%s%s", is_name ? LISTEN_DIR "/" : "", text);
	if (n < 0 || (size_t)n >= sizeof(un->sun_path))
		return refuse_unix(text, err);
	un->sun_family = AF_UNIX;
	snprintf(a.text, sizeof(a.text), "unix:%s", un->sun_path);
	*ret = a;
	return 0;
}

int listen_parse(const char *text, struct listen_addr *ret, struct err *err)
{
	struct listen_addr a = { 0 };
	struct sockaddr_in *v4 = (struct sockaddr_in *)&a.sa;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a.sa;
	char host[INET6_ADDRSTRLEN];
	const char *port;
	unsigned long number;

	if (!strncmp(text, "unix:", 5))
		return unix_parse(text + 5, ret, err);
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

/* --- Unix sockets ---------------------------------------------------------------------------------------- */

/* The folder that a Unix socket is to be in, open; *ret_name: its name there. -errno with a message. */
static int unix_dir(const struct listen_addr *a, const struct asker *who, const char **ret_name, struct err *err)
{
	const char *path = ((const struct sockaddr_un *)&a->sa)->sun_path, *slash = strrchr(path, '/');
	char dir[sizeof(((struct sockaddr_un *)0)->sun_path)];
	int fd, is_new, is_ours;
	struct stat st;

	snprintf(dir, sizeof(dir), "%.*s", slash == path ? 1 : (int)(slash - path), path);
	is_ours = !strcmp(dir, LISTEN_DIR);
	is_new = is_ours && !mkdir(dir, 0755);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || (is_new && fchmod(fd, 0755) < 0) || fstat(fd, &st) < 0) {
		int e = errno;

		if (fd >= 0)
			close(fd);
		return err_set(err, -e, "listening on %s: the folder %s: %s", a->text, dir, strerror(e));
	}
	*ret_name = slash + 1;
	if ((st.st_uid && st.st_uid != geteuid()) || st.st_mode & (S_IWGRP | S_IWOTH)) {
		close(fd);
		err_set(err, -EPERM, "listening on %s: others than us can change what is in %s", a->text, dir);
		return err_hint(err, "unix:NAME makes it in " LISTEN_DIR);
	}
	if (who->is_other && !is_ours) { /* root makes no names where the asker could not */
		close(fd);
		err_set(err, -EPERM, "listening on %s: as root for another user, in " LISTEN_DIR " alone", a->text);
		return err_hint(err, "unix:NAME makes it there, and it is that user's; --socket-group lets others in");
	}
	return fd;
}

/* Removes a socket of that name without a listener: its memtrace was killed. 0: it is gone. */
static int unix_take_over(const struct listen_addr *a, int dir, const char *name)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), r = -EADDRINUSE;
	struct stat st;

	if (fd >= 0 && !fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISSOCK(st.st_mode) &&
	    connect(fd, (const struct sockaddr *)&a->sa, a->len) < 0 && errno == ECONNREFUSED && !unlinkat(dir, name, 0))
		r = 0;
	if (fd >= 0)
		close(fd);
	return r;
}

/* The mode that the socket has before it is bound is that of its name: at no moment is it for others. 0 or -errno. */
static int unix_bind(struct listen_addr *a, int fd, int dir, const char *name, const struct asker *who, gid_t group)
{
	int has_group = group != (gid_t)-1, r;
	struct stat st;

	r = fchmod(fd, 0600) < 0 || bind(fd, (struct sockaddr *)&a->sa, a->len) < 0 ? -errno : 0;
	if (r == -EADDRINUSE && !unix_take_over(a, dir, name))
		r = bind(fd, (struct sockaddr *)&a->sa, a->len) < 0 ? -errno : 0;
	if (r)
		return r;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	a->dev = st.st_dev;
	a->ino = st.st_ino;
	/* By name, as a socket has no other way: only this process can have changed it since (unix_dir). */
	if (who->is_other && fchownat(dir, name, who->uid, who->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (has_group && (fchownat(dir, name, (uid_t)-1, group, AT_SYMLINK_NOFOLLOW) < 0 || fchmodat(dir, name, 0660, 0) < 0))
		return -errno;
	return 0;
}

static int unix_open(struct listen_addr *a, int fd, const struct asker *who, gid_t group, struct err *err)
{
	const char *name;
	int dir = unix_dir(a, who, &name, err), r;

	if (dir < 0)
		return dir;
	r = unix_bind(a, fd, dir, name, who, group);
	close(dir);
	if (r < 0)
		err_set(err, r, "listening on %s: %s", a->text, r == -EADDRINUSE ? "something has that name" : strerror(-r));
	if (r == -EADDRINUSE)
		err_hint(err, "another memtrace listens there, or it is no socket: take another name");
	else if (r == -EPERM)
		err_hint(err, "--socket-group: a group that you are in, or as root");
	return r;
}

void listen_unlink(const struct listen_addr *a)
{
	const char *path = ((const struct sockaddr_un *)&a->sa)->sun_path;
	struct stat st;

	if (a->is_unix && a->ino && !lstat(path, &st) && st.st_dev == a->dev && st.st_ino == a->ino)
		(void)unlink(path);
}

/* --- both ------------------------------------------------------------------------------------------------ */

static int port_open(struct listen_addr *a, int fd, struct err *err)
{
	int one = 1, e;

	if (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) && !bind(fd, (struct sockaddr *)&a->sa, a->len))
		return 0;
	e = errno;
	err_set(err, -e, "listening on %s: %s", a->text, strerror(e));
	if (e == EADDRINUSE)
		err_hint(err, "something else has this port (ss -ltnp names it); --listen ADDRESS:PORT takes another");
	else if (e == EADDRNOTAVAIL)
		err_hint(err, "no interface of this machine has that address (ip address lists them)");
	return -e;
}

int listen_open(struct listen_addr *a, const struct asker *who, gid_t group, struct err *err)
{
	int fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), room = SEND_BYTES, r;

	if (fd < 0) {
		r = err_set(err, -errno, "listening on %s: %s", a->text, strerror(errno));
		if (r == -EAFNOSUPPORT)
			err_hint(err, "in memtrace-serve@.service it is memtrace-port@.socket that has the port");
		return r;
	}
	r = a->is_unix ? unix_open(a, fd, who, group, err) : port_open(a, fd, err);
	/* accepted ones inherit the room */
	if (!r && (setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) < 0 || listen(fd, BACKLOG) < 0 ||
		   (!a->is_unix && getsockname(fd, (struct sockaddr *)&a->sa, &a->len) < 0)))
		r = err_set(err, -errno, "listening on %s: %s", a->text, strerror(errno));
	if (r < 0) {
		listen_unlink(a);
		close(fd);
		return r;
	}
	if (!a->is_unix)
		put_text(a);
	return fd;
}

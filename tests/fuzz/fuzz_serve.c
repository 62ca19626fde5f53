/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * The server as its clients meet it: some connect, send any bytes in any pieces, read or do not, leave, while messages are
 * pushed and time passes. Whatever they do: what is counted is so, nobody without the token sees what is behind it, and when
 * all have left nothing of them is left. (libmicrohttpd itself is as the system has it.)
 */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "../../user/serve/server.c"

#define CLIENTS 6
#define STEPS_MAX 200
#define TURNS_MAX 100
#define SECRET "memtrace_secret 4711\n"
#define MESSAGE_BYTES 100000 /* more than a socket takes that nobody reads, after a few */
#define LATE_NS (31 * NS_PER_S)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char token[] = "d34db33f-0123456789";
static struct gate the_gate;
static struct sockaddr_un address;
static socklen_t address_len;
static struct server *server;
static uint64_t number;

static void require(int ok)
{
	if (!ok)
		abort();
}

/* --- what is served ----------------------------------------------------------------------------------------- */

static uint64_t on_number(void *ctx)
{
	(void)ctx;
	return number;
}

static char *on_metrics(void *ctx, enum metrics_form form, size_t *ret_len)
{
	(void)ctx;
	(void)form;
	*ret_len = sizeof(SECRET) - 1;
	return number % 8 == 7 ? NULL : strdup(SECRET); /* at times there are none */
}

static char *on_health(void *ctx, int *ret_is_well, size_t *ret_len)
{
	(void)ctx;
	*ret_is_well = number & 1;
	*ret_len = sizeof(SECRET) - 1;
	return strdup(SECRET);
}

static void push(size_t len)
{
	static char text[MESSAGE_BYTES] = SECRET;

	require(!server__push(server, text, len));
}

static void on_listener(void *ctx)
{
	(void)ctx;
	push(sizeof(SECRET) - 1);
}

static void start(void)
{
	struct server_opts o = { .gate = &the_gate, .number = on_number, .metrics = on_metrics, .health = on_health,
				 .listener = on_listener };

	address.sun_family = AF_UNIX;
	address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				  (size_t)snprintf(address.sun_path + 1, 40, "mt-fuzz-serve-%d", (int)getpid()));
	o.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	require(o.fd >= 0 && !bind(o.fd, (struct sockaddr *)&address, address_len) && !listen(o.fd, 64));
	require(!server__start(&server, &o, NULL));
}

static void check(void)
{
	size_t clients = 0, listeners = 0, places = 0;

	for (size_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
		const struct client *c = &server->clients[i];

		clients += c->conn != NULL;
		places += server->places[i].state != PLACE_FREE;
		listeners += server->places[i].state == LISTENS;
		require(!c->conn || (c->s == server && c->place == &server->places[i]));
		require(!c->msg || c->at <= c->msg->len);
		require(c->conn || (!c->msg && !c->is_suspended));
	}
	require(clients == places && clients == server->clients_cnt && listeners == server__listeners(server));
	require(listeners <= SERVER_LISTENERS_MAX);
}

/* --- clients ------------------------------------------------------------------------------------------------ */

static int ends[CLIENTS];

/* What is there for it; nothing behind the gate, where it is closed. */
static void read_some(int fd, int may_see)
{
	char buf[4096 + 1];
	ssize_t n = recv(fd, buf, sizeof(buf) - 1, MSG_DONTWAIT);

	if (n <= 0 || may_see)
		return;
	require(!memmem(buf, (size_t)n, SECRET, sizeof(SECRET) - 2));
}

static void leave(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void come(int *fd)
{
	leave(fd);
	*fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	require(*fd >= 0);
	(void)connect(*fd, (struct sockaddr *)&address, address_len);
}

static void time_passes(void)
{
	server->swept_ns = 0;
	for (size_t i = 0; i < SERVER_CLIENTS_MAX; i++)
		if (server->places[i].state != PLACE_FREE)
			server->places[i].since_ns -= LATE_NS;
}

/* A step is a byte that says who and what, of some a second one that says how much. */
static size_t step(const uint8_t *data, size_t size, int may_see)
{
	int *fd = &ends[data[0] % CLIENTS];
	size_t n = size > 1 ? data[1] + 1u : 0, left = size > 2 ? size - 2 : 0;

	switch (data[0] / CLIENTS % 8) {
	case 0: come(fd); return 1;
	case 1: leave(fd); return 1;
	case 2: read_some(*fd, may_see); return 1;
	case 3: time_passes(); return 1;
	case 4: number++; return 1;
	case 5: push(data[0] % CLIENTS ? MESSAGE_BYTES : sizeof(SECRET)); return 1;
	default: break;
	}
	n = n < left ? n : left;
	if (*fd < 0)
		come(fd);
	if (n)
		(void)send(*fd, data + 2, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	return 2 + n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int may_see;

	if (!server)
		start();
	if (!size)
		return 0;
	the_gate = (struct gate){ .checks_host = data[0] & 1, .is_loopback = 1, .has_token = data[0] >> 1 & 1 };
	memcpy(the_gate.token, token, sizeof(token));
	may_see = !the_gate.has_token || memmem(data, size, token, 8);
	memset(ends, -1, sizeof(ends));
	number = data[0];
	for (size_t at = 1, steps = 0; at < size && steps < STEPS_MAX; steps++) {
		at += step(data + at, size - at, may_see);
		server__run(server);
		check();
	}
	for (size_t i = 0; i < CLIENTS; i++) {
		read_some(ends[i], may_see);
		leave(&ends[i]);
	}
	for (int i = 0; i < TURNS_MAX && server->clients_cnt; i++) {
		/* who waits for a message learns with it that the other end is gone */
		push(1);
		server__run(server);
		check();
	}
	require(!server->clients_cnt && !server__listeners(server));
	return 0;
}

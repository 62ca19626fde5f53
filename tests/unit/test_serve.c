/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * What serve decides by itself: which form a client gets, whom a Host header means, where to listen; metrics of hostile and of
 * many processes; the page's documents over weeks. HTTP itself: tests/e2e/test_serve.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zlib.h>

#include "base/asker.h"
#include "base/clock.h"
#include "base/err.h"
#include "event/event.h"
#include "serve/accept.h"
#include "serve/gate.h"
#include "serve/listen.h"
#include "serve/pace.h"
#include "serve/pack.h"
#include "serve/place.h"
#include "unit/view_fix.h"
#include "view/metrics/metrics.h"
#include "view/outbuf.h"
#include "view/page/page_feed.h"
#include "view/view.h"

static void test_accept(void **state)
{
	static const struct {
		const char *header;
		enum metrics_form form;
	} rows[] = {
		{ NULL, METRICS_TEXT },
		{ "", METRICS_TEXT },
		{ "*/*", METRICS_TEXT },
		{ "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", METRICS_TEXT },
		{ "application/openmetrics-text", METRICS_OPENMETRICS },
		{ "application/openmetrics-text; version=1.0.0", METRICS_OPENMETRICS },
		{ "Application/OpenMetrics-Text ; Version=\"1.0.0\" ; charset=utf-8", METRICS_OPENMETRICS },
		{ "application/openmetrics-text;version=2.0.0", METRICS_TEXT },
		{ "application/openmetrics-text;version=2.0.0,application/openmetrics-text;version=0.0.1;q=0.1",
		  METRICS_OPENMETRICS },
		{ "application/openmetrics-text;q=0", METRICS_TEXT },
		{ "application/openmetrics-text;q=0.5,text/plain;q=0.4", METRICS_OPENMETRICS },
		{ "application/openmetrics-text;q=0.4,text/plain;q=0.5", METRICS_TEXT },
		{ "text/plain;version=0.0.4;q=0.5,application/openmetrics-text;q=0.6", METRICS_OPENMETRICS },
		{ "text/plain;version=1.0.0,application/openmetrics-text;q=0.001", METRICS_OPENMETRICS },
		{ "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
		  "text/plain;version=0.0.4;q=0.3,*/*;q=0.1", METRICS_OPENMETRICS }, /* Prometheus 2.42 */
		{ "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
		  "application/openmetrics-text;version=0.0.1;q=0.4,"
		  "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
		  METRICS_OPENMETRICS }, /* 3 */
		{ "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,"
		  "text/plain;version=0.0.4;q=0.3", METRICS_TEXT },
		{ "application/json", METRICS_TEXT },
		{ "application/*", METRICS_OPENMETRICS },
		{ "text/*;q=0.5,application/*;q=0.4", METRICS_TEXT },
		{ "application/openmetrics-text;q=1.1", METRICS_TEXT },
		{ "application/openmetrics-text;q=0.5555", METRICS_TEXT },
		{ "application/openmetrics-text;q=x", METRICS_TEXT },
		{ "application/openmetrics-text;q=0.1x", METRICS_TEXT },
		{ "application/openmetrics-text;q=", METRICS_TEXT },
		{ ",,;;=;q=1,, application/openmetrics-text", METRICS_OPENMETRICS },
		{ "x=\",application/openmetrics-text,\"", METRICS_TEXT },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (accept_form(rows[i].header) != rows[i].form)
			fail_msg("Accept: %s", rows[i].header);
}

static void test_gzip(void **state)
{
	static const struct {
		const char *header;
		int takes;
	} rows[] = {
		{ NULL, 0 }, { "", 0 }, { "gzip", 1 }, { "gzip, deflate, br", 1 }, { "deflate", 0 }, { "GZIP;q=0.1", 1 },
		{ "gzip;q=0", 0 }, { "gzip;q=0, *", 0 }, { "*", 1 }, { "*;q=0", 0 }, { "identity, *;q=0", 0 }, { "x-gzip", 1 },
		{ "gzipped", 0 }, { "gzip;q=", 0 }, { "gzip;q=2", 0 }, { ";;,,", 0 },
	};
	static char text[20000], back[sizeof(text)];
	size_t len;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (accept_gzip(rows[i].header) != rows[i].takes)
			fail_msg("%s", rows[i].header);
	for (size_t size = 0; size <= sizeof(text); size += 4000) {
		z_stream z = { .next_out = (Bytef *)back, .avail_out = sizeof(back) };
		char *packed;

		for (size_t i = 0; i < size; i++)
			text[i] = (char)(i * i % 251);
		packed = pack_gzip(text, size, size ? PACK_QUICKLY : PACK_WELL, &len);
		assert_non_null(packed);
		z.next_in = (Bytef *)packed;
		z.avail_in = (uInt)len;
		assert_int_equal(inflateInit2(&z, MAX_WBITS | 16), Z_OK);
		assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
		assert_int_equal(z.total_out, size);
		assert_memory_equal(back, text, size);
		inflateEnd(&z);
		free(packed);
	}
}

static void test_hosts(void **state)
{
	static const char *const ours[] = { "localhost", "LocalHost:9464", "127.0.0.1", "127.0.0.1:9464",
					    "127.200.1.2:1", "[::1]", "[::1]:9464", "[0:0:0:0:0:0:0:1]:80" };
	static const char *const others[] = { "", ":9464", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example",
					      "127.0.0.1@evil", "10.0.0.1", "[::2]:1", "[::1", "[::1]evil", "127.1",
					      "2130706433",
					      "[::ffff:127.0.0.1]", "localhost ", "xlocalhost" };

	(void)state;
	assert_true(host_is_loopback(NULL));
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (!host_is_loopback(ours[i]))
			fail_msg("%s is not ours", ours[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (host_is_loopback(others[i]))
			fail_msg("%s is ours", others[i]);
}

static void test_addresses(void **state)
{
	static const struct {
		const char *text, *is;
		int loopback;
	} good[] = {
		{ "127.0.0.1:9464", "127.0.0.1:9464", 1 },
		{ "localhost:80", "127.0.0.1:80", 1 },
		{ "0.0.0.0:1", "0.0.0.0:1", 0 },
		{ "[::1]:9464", "[::1]:9464", 1 },
		{ "[::]:9464", "[::]:9464", 0 },
		{ "127.3.2.1:0", "127.3.2.1:0", 1 },
		{ "10.1.2.3:65535", "10.1.2.3:65535", 0 },
	};
	static const char *const bad[] = { "", ":", "9464", "127.0.0.1", "127.0.0.1:", ":9464", "127.0.0.1:65536",
					   "127.0.0.1:-1", "127.0.0.1:+1", "127.0.0.1:1 ", "::1:80", "[::1]", "[]:80",
					   "[127.0.0.1:80", "example.org:80",
					   "1.2.3:80", "127.0.0.1:999999999999", "[fe80::1%eth0]:80",
					   "1111111111111111111111111111111111111111111111111111111111111111:1" };
	struct listen_addr a;
	struct err err;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(listen_parse(good[i].text, &a, &err), 0);
		assert_string_equal(a.text, good[i].is);
		assert_int_equal(a.is_loopback, good[i].loopback);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		err = (struct err){ 0 };
		if (listen_parse(bad[i], &a, &err) != -EINVAL || !err.msg[0] || !strstr(err.hint, LISTEN_DEFAULT))
			fail_msg("'%s' is taken", bad[i]);
	}
}

static const struct asker me; /* not another */

static void test_port_in_use(void **state)
{
	struct listen_addr a, b;
	struct err err = { 0 };
	int fd;

	(void)state;
	assert_int_equal(listen_parse("127.0.0.1:0", &a, NULL), 0);
	fd = listen_open(&a, &me, (gid_t)-1, &err);
	assert_true(fd >= 0);
	assert_string_not_equal(a.text, "127.0.0.1:0");
	assert_int_equal(listen_parse(a.text, &b, NULL), 0);
	assert_int_equal(listen_open(&b, &me, (gid_t)-1, &err), -EADDRINUSE);
	assert_non_null(strstr(err.msg, a.text));
	assert_non_null(strstr(err.hint, "--listen"));
	close(fd);
}

static void test_unix_addresses(void **state)
{
	static const struct {
		const char *text, *is;
	} good[] = {
		{ "unix:job", "unix:/run/memtrace/job" },
		{ "unix:a.b-c_1", "unix:/run/memtrace/a.b-c_1" },
		{ "unix:/srv/x/job", "unix:/srv/x/job" },
		{ "unix:/job", "unix:/job" },
	};
	static const char *const bad[] = { "unix:", "unix:a/b", "unix:../job", "unix:.job", "unix:/srv/", "unix:/", "unix:@job",
					   "unix:a b", "UNIX:job",
					   "unix:/0123456789012345678901234567890123456789012345678901234567890123456789"
					   "01234567890123456789012345678901234567890" };
	struct listen_addr a;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(listen_parse(good[i].text, &a, NULL), 0);
		assert_string_equal(a.text, good[i].is);
		assert_true(a.is_unix && !a.is_loopback);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err err = { 0 };

		if (listen_parse(bad[i], &a, &err) != -EINVAL || !err.msg[0] || !err.hint[0])
			fail_msg("'%s' is taken", bad[i]);
	}
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st.st_mode;
}

/* Ours alone from the first moment; the name of one that was killed is taken, no other; nothing where others have a hand. */
static void test_unix_socket(void **state)
{
	char dir[] = "/tmp/mt-serve-XXXXXX", text[80];
	struct listen_addr a, b;
	struct err err = { 0 };
	int fd, dead;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(text, sizeof(text), "unix:%s/job", dir);
	const char *path = text + 5;

	assert_int_equal(listen_parse(text, &a, NULL), 0);
	umask(0);
	dead = listen_open(&a, &me, (gid_t)-1, &err);
	assert_true(dead >= 0);
	assert_int_equal(mode_of(path), S_IFSOCK | 0600);
	b = a;
	b.ino = 0;
	assert_int_equal(listen_open(&b, &me, (gid_t)-1, &err), -EADDRINUSE);
	assert_non_null(strstr(err.msg, path));
	assert_int_equal(mode_of(path), S_IFSOCK | 0600); /* the other one's: left alone */
	close(dead); /* as a kill does: the name stays */
	umask(022);
	fd = listen_open(&b, &me, getgid(), &err);
	assert_true(fd >= 0);
	assert_int_equal(mode_of(path), S_IFSOCK | 0660);
	a = b;
	a.ino++;
	listen_unlink(&a); /* it is another's now */
	assert_int_equal(mode_of(path), S_IFSOCK | 0660);
	listen_unlink(&b);
	assert_int_equal(access(path, F_OK), -1);
	close(fd);

	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fclose(f);
	assert_int_equal(listen_open(&a, &me, (gid_t)-1, &err), -EADDRINUSE);
	assert_int_equal(mode_of(path) & S_IFMT, S_IFREG);
	unlink(path);
	chmod(dir, 01777);
	assert_int_equal(listen_open(&a, &me, (gid_t)-1, &err), -EPERM);
	assert_non_null(strstr(err.hint, LISTEN_DIR));
	chmod(dir, 0700);
	assert_int_equal(listen_open(&a, &(struct asker){ .uid = 1000, .is_other = 1 }, (gid_t)-1, &err), -EPERM);
	assert_int_equal(access(path, F_OK), -1);
	rmdir(dir);
	assert_int_equal(listen_open(&a, &me, (gid_t)-1, &err), -ENOENT);
}

/* --- who is let in --------------------------------------------------------------------------------------- */

static void test_door_hosts(void **state)
{
	static const char *const names[] = { "node1.example.org", "10.1.2.3" };
	struct listen_addr loopback, all, socket;
	struct gate d;

	(void)state;
	listen_parse("127.0.0.1:1", &loopback, NULL);
	listen_parse("0.0.0.0:1", &all, NULL);
	listen_parse("unix:x", &socket, NULL);
	gate__init(&d, &loopback, NULL, 0);
	assert_int_equal(gate__ask(&d, "localhost:9464", NULL), GATE_OPEN);
	assert_int_equal(gate__ask(&d, "node1.example.org", NULL), GATE_OTHER_HOST);
	assert_int_equal(gate__ask(&d, "10.1.2.3", NULL), GATE_OTHER_HOST);
	gate__init(&d, &loopback, names, 2);
	assert_int_equal(gate__ask(&d, "localhost:9464", NULL), GATE_OPEN);
	assert_int_equal(gate__ask(&d, "Node1.Example.org:443", NULL), GATE_OPEN);
	assert_int_equal(gate__ask(&d, "10.1.2.3:80", NULL), GATE_OPEN);
	assert_int_equal(gate__ask(&d, "node1.example.org.evil", NULL), GATE_OTHER_HOST);
	assert_int_equal(gate__ask(&d, "[node1.example.org]", NULL), GATE_OTHER_HOST);
	assert_int_equal(gate__ask(&d, "10.1.2.4", NULL), GATE_OTHER_HOST);
	assert_int_equal(gate__ask(&d, "", NULL), GATE_OTHER_HOST);
	gate__init(&d, &all, NULL, 0); /* the token decides */
	assert_int_equal(gate__ask(&d, "evil.example", NULL), GATE_OPEN);
	gate__init(&d, &all, names, 1);
	assert_int_equal(gate__ask(&d, "evil.example", NULL), GATE_OTHER_HOST);
	assert_int_equal(gate__ask(&d, "node1.example.org", NULL), GATE_OPEN);
	assert_int_equal(gate__ask(&d, "192.0.2.7:9464", NULL), GATE_OPEN); /* no name: nobody's to resolve */
	assert_int_equal(gate__ask(&d, "[2001:db8::1]:9464", NULL), GATE_OPEN);
	gate__init(&d, &socket, NULL, 0);
	assert_int_equal(gate__ask(&d, "anything", NULL), GATE_OPEN);
	assert_true(host_is_name("a-b.c_9") && !host_is_name("a:1") && !host_is_name("") && !host_is_name("a/b"));
}

static void put_file(const char *path, const char *text, mode_t mode)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	assert_int_equal(chmod(path, mode), 0);
}

static void test_token_file(void **state)
{
	static const char *const bad[] = { "", "\n", "short", "0123456789abcde\n", "0123456789abcdef 0123456789abcdef\n",
					   "0123456789abcdef\n0123456789abcdef\n", "0123456789\xc3\xa4""bcdefgh" };
	static const mode_t open_modes[] = { 0604, 0644, 0620, 0602, 0601, 0660 };
	char path[] = "/tmp/mt-token-XXXXXX";
	static char huge[2000];
	struct listen_addr a;
	struct err err = { 0 };
	struct gate d;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	listen_parse(LISTEN_DEFAULT, &a, NULL);
	gate__init(&d, &a, NULL, 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		put_file(path, bad[i], 0600);
		if (gate__take_token(&d, path, &err) != -EINVAL || !err.hint[0] || (bad[i][0] && strstr(err.msg, bad[i])))
			fail_msg("'%s' is taken, or told", bad[i]);
	}
	memset(huge, 'x', sizeof(huge) - 1);
	put_file(path, huge, 0600);
	assert_int_equal(gate__take_token(&d, path, &err), -EINVAL);
	for (size_t i = 0; i < sizeof(open_modes) / sizeof(open_modes[0]); i++) {
		put_file(path, "0123456789abcdef\n", open_modes[i]);
		assert_int_equal(gate__take_token(&d, path, &err), -EPERM);
	}
	assert_int_equal(gate__take_token(&d, "/dev/zero", &err), -EINVAL);
	assert_int_equal(gate__take_token(&d, "/tmp", &err), -EINVAL);
	assert_int_equal(gate__take_token(&d, "/no/such", &err), -ENOENT);
	assert_false(d.has_token);
	put_file(path, "0123456789abcdef\r\n", 0400);
	assert_int_equal(gate__take_token(&d, path, &err), 0);
	assert_string_equal(d.token, "0123456789abcdef");
	gate__done(&d);
	assert_string_equal(d.token, "");
	unlink(path);
}

static void test_token(void **state)
{
	static const char *const good[] = { "Bearer 0123456789abcdef", "bearer   0123456789abcdef",
					    "Basic OjAxMjM0NTY3ODlhYmNkZWY=",		 /* :0123456789abcdef */
					    "basic bWU6MDEyMzQ1Njc4OWFiY2RlZg==" };	 /* me: */
	static const char *const bad[] = { "", "Bearer", "Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdeg",
					   "Bearer 0123456789abcdef0", "Bearer 0123456789abcdef ", "Token 0123456789abcdef",
					   "0123456789abcdef", "Basic", "Basic ", "Basic =", "Basic MDEyMzQ1Njc4OWFiY2RlZg==",
					   "Basic bWU6MDEyMzQ1Njc4OWFiY2RlZg==x", "Basic bWU6MDEyMzQ1Njc4OWFiY2RlZ",
					   "Basic bWU6MDEyMzQ1Njc4OWFiY2Rl", "Bearer\t0123456789abcdef" };
	static char huge[20000];
	struct gate d = { .has_token = 1, .token = "0123456789abcdef" };

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (gate__ask(&d, "localhost", good[i]) != GATE_OPEN)
			fail_msg("%s is refused", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (gate__ask(&d, "localhost", bad[i]) != GATE_NO_TOKEN)
			fail_msg("%s is let in", bad[i]);
	assert_int_equal(gate__ask(&d, "localhost", NULL), GATE_NO_TOKEN);
	memset(huge, 'A', sizeof(huge) - 1);
	memcpy(huge, "Bearer ", 7);
	assert_int_equal(gate__ask(&d, "localhost", huge), GATE_NO_TOKEN);
	memcpy(huge, "Basic  ", 7);
	assert_int_equal(gate__ask(&d, "localhost", huge), GATE_NO_TOKEN);
}

static void test_places(void **state)
{
	static struct place p[8];
	struct peer one = { { 1 } }, two = { { 2 } };

	(void)state;
	assert_int_equal(place_to_clear(p, 8), 8);
	for (size_t i = 0; i < 6; i++)
		p[i] = (struct place){ .state = i % 2 ? IS_ANSWERED : WAITS, .since_ns = 100 - i, .peer = i < 2 ? one : two };
	assert_int_equal(place_to_clear(p, 8), 5); /* of the peer with four, who has been longest in what it does */
	p[5].state = LISTENS;
	assert_int_equal(place_to_clear(p, 8), 4);
	p[4].state = LEAVES;
	assert_int_equal(place_to_clear(p, 8), 3);
	for (size_t i = 2; i < 6; i++)
		p[i].is_known = 1;
	assert_int_equal(place_to_clear(p, 8), 1); /* a flood without the token costs nobody who has it */
	p[0].is_known = p[1].is_known = 1;
	assert_int_equal(place_to_clear(p, 8), 3);
	for (size_t i = 0; i < 8; i++)
		p[i].state = i % 2 ? LISTENS : LEAVES;
	assert_int_equal(place_to_clear(p, 8), 8);
}

/* --- metrics --------------------------------------------------------------------------------------------- */

static char *metrics_of(const struct report *r, const struct metrics_opts *opts)
{
	struct outbuf o;
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_int_equal(outbuf__init(&o, f), 0);
	metrics__write(&o, r, opts);
	assert_int_equal(outbuf__flush(&o), 0);
	outbuf__done(&o);
	fclose(f);
	assert_int_equal(strlen(text), len);
	return text;
}

static size_t count(const char *text, const char *what)
{
	size_t cnt = 0;

	for (const char *p = text; (p = strstr(p, what)); p++)
		cnt++;
	return cnt;
}

/* Each line is a comment of ours, or name, labels whose values are closed, one blank and a number. */
static void check_lines(const char *text)
{
	for (const char *p = text; *p; p += strcspn(p, "\n") + 1) {
		const char *q = p + strspn(p, "abcdefghijklmnopqrstuvwxyz_");

		if (*p == '#')
			continue;
		assert_int_equal(strncmp(p, "memtrace_", 9), 0);
		if (*q == '{') {
			do {
				q++;
				q += strspn(q, "abcdefghijklmnopqrstuvwxyz_");
				assert_int_equal(strncmp(q, "=\"", 2), 0);
				for (q += 2; *q != '"'; q++) {
					assert_true((unsigned char)*q >= ' ');
					q += *q == '\\';
				}
				q++;
			} while (*q == ',');
			assert_int_equal(*q++, '}');
		}
		assert_int_equal(*q++, ' ');
		q += strspn(q, "0123456789.e+-");
		assert_int_equal(*q, '\n');
	}
}

static void test_forms(void **state)
{
	struct report r = fix_report();
	struct metrics_seen seen = { .cnt = 0 };
	char *om = metrics_of(&r, &(struct metrics_opts){ .form = METRICS_OPENMETRICS, .seen = &seen, .age_ns = 1500000000 });
	char *text = metrics_of(&r, &(struct metrics_opts){ .form = METRICS_TEXT, .seen = &seen, .memory_bytes = 5 });
	char *dated = metrics_of(&r, &(struct metrics_opts){ .form = METRICS_OPENMETRICS, .at_ms = 1700000000123 });

	(void)state;
	check_lines(om);
	check_lines(text);
	assert_non_null(strstr(om, "# TYPE memtrace_allocated_bytes counter\n# UNIT memtrace_allocated_bytes bytes\n"));
	assert_non_null(strstr(om, "# TYPE memtrace_target info\n"));
	assert_string_equal(om + strlen(om) - 6, "# EOF\n");
	assert_non_null(strstr(text, "# TYPE memtrace_allocated_bytes_total counter\n# HELP memtrace_allocated_bytes_total "));
	assert_non_null(strstr(text, "# TYPE memtrace_target_info gauge\n"));
	assert_non_null(strstr(text, "\nmemtrace_host_memory_bytes 5\n"));
	assert_int_equal(count(text, "# UNIT") + count(text, "# EOF"), 0);
	assert_non_null(strstr(dated, " 1700000000.123\n"));
	assert_int_equal(count(dated, "memtrace_up "), 0);
	assert_int_equal(count(om, "\nmemtrace_up "), 1);
	assert_non_null(strstr(om, "\nmemtrace_report_age_seconds 1.5\n"));
	assert_int_equal(count(dated, "memtrace_report_age"), 0);
	free(om);
	free(text);
	free(dated);
}

static void test_hostile(void **state)
{
	struct report r = fix_hostile();
	static char huge[5000];
	char *labels[] = { "RANK=\"} 1\n# EOF\n", huge }, *text;

	(void)state;
	memset(huge, '\\', sizeof(huge) - 1);
	for (size_t i = 0; i < r.procs_cnt; i++) {
		r.procs[i].labels = labels + i % 2;
		r.procs[i].labels_cnt = 1;
		r.procs[i].pid = 7 + (uint32_t)i;
		r.procs[i].comm = huge;
	}
	memcpy(huge, "RANK=", 5);
	for (int form = 0; form < 2; form++) {
		struct metrics_seen seen = { .cnt = 0 };
		size_t in_names;

		text = metrics_of(&r, &(struct metrics_opts){ .form = (enum metrics_form)form, .seen = &seen });
		check_lines(text);
		in_names = count(text, "\xbf\xbd# EOF\xef");
		assert_true(in_names > 0);
		assert_int_equal(count(text, "# EOF"), in_names + (form == METRICS_OPENMETRICS));
		for (const char *p = text; *p; p += strcspn(p, "\n") + 1)
			assert_in_range(strcspn(p, "\n"), 1, 6 * METRICS_LABEL_BYTES + 200);
		free(text);
	}
}

/* A report of `procs` processes that hold 100 bytes of two categories on each of `devs` devices. */
struct crowd {
	struct report r;
	struct report_proc *procs;
	struct report_lane *lanes;
	struct report_dev devs[8];
};

static void crowd_init(struct crowd *c, uint32_t procs, uint32_t devs, uint32_t gone)
{
	memset(c, 0, sizeof(*c));
	c->procs = calloc(procs, sizeof(*c->procs));
	c->lanes = calloc((size_t)procs * devs, sizeof(*c->lanes));
	for (uint32_t i = 0; i < procs; i++) {
		c->procs[i] = (struct report_proc){ .pid = 1000 + i, .comm = (char *)"x", .live = 100 * devs, .peak = 200 + i,
						    .gone = i < gone };
		for (unsigned kind = 1; kind < MARK_MAX; kind++) {
			c->procs[i].marks_cnt[kind] = kind;
			c->procs[i].marks[kind] = (struct mark_at){ 1, 10 * i + kind, 20 * i + kind };
		}
		for (uint32_t d = 0; d < devs && i >= gone; d++)
			c->lanes[c->r.lanes.cnt++] = (struct report_lane){ .pid = 1000 + i, .dev = (uint8_t)(MT_DEV_CUDA0 + d),
									   .cats = { [CAT_PARAMETER] = 60, [CAT_INPUT] = 40 } };
	}
	for (uint32_t d = 0; d < devs; d++)
		c->devs[d] = (struct report_dev){ .dev = (uint8_t)(MT_DEV_CUDA0 + d), .live = 100 * (procs - gone) };
	c->r.procs = c->procs;
	c->r.procs_cnt = procs;
	c->r.marks.total = 6 * procs;
	c->r.lanes.rows = c->lanes;
	c->r.devs = c->devs;
	c->r.devs_cnt = devs;
}

static void crowd_done(struct crowd *c)
{
	free(c->procs);
	free(c->lanes);
}

static uint64_t sum_of(const char *text, const char *name)
{
	uint64_t sum = 0;

	for (const char *p = text; *p; p += strcspn(p, "\n") + 1)
		if (!strncmp(p, name, strlen(name)) && p[strlen(name)] == '{')
			sum += strtoull(strstr(p, "} ") + 2, NULL, 10);
	return sum;
}

/* However many there are: bounded, and no byte is left out. */
static void test_cardinality(void **state)
{
	struct crowd c;

	(void)state;
	for (uint32_t devs = 1; devs <= 8; devs *= 2) {
		char *text;
		size_t lines;

		crowd_init(&c, 5000, devs, 1000);
		text = metrics_of(&c.r, &(struct metrics_opts){ .seen = &(struct metrics_seen){ .cnt = 0 } });
		check_lines(text);
		lines = count(text, "\n");
		assert_in_range(lines, 500, METRICS_SERIES_MAX);
		assert_in_range(count(text, "\nmemtrace_process_up{"), METRICS_PROCS_MAX, METRICS_PROCS_MAX + METRICS_GONE_MAX);
		assert_int_equal(sum_of(text, "memtrace_live_bytes"), 4000 * 100 * devs);
		assert_int_equal(count(text, "memtrace_live_bytes{pid=\"other\""), 2 * devs);
		assert_int_equal(sum_of(text, "memtrace_process_live_bytes"), 5000ull * 100 * devs);
		assert_non_null(strstr(text, "memtrace_process_peak_bytes{pid=\"other\",rank=\"\"} 5199\n"));
		assert_int_equal(sum_of(text, "memtrace_marks_total"), 6 * 5000);
		assert_non_null(strstr(text, "memtrace_mark_live_bytes{pid=\"other\",rank=\"\",mark=\"step\"} 49993\n"));
		free(text);
		crowd_done(&c);
	}
}

/* A series that was there stays, with 0; and keeps its own name as long as there is room. */
static void test_series_stay(void **state)
{
	struct metrics_seen seen = { .cnt = 0 };
	struct crowd c;
	char *text;

	(void)state;
	crowd_init(&c, 3, 1, 0);
	free(metrics_of(&c.r, &(struct metrics_opts){ .seen = &seen }));
	c.lanes[1].cats[CAT_INPUT] = 0;
	c.r.lanes.cnt = 2;
	c.procs[2].gone = 1;
	text = metrics_of(&c.r, &(struct metrics_opts){ .seen = &seen });
	assert_non_null(strstr(text, "{pid=\"1001\",rank=\"\",device=\"cuda:0\",category=\"INPUT\"} 0\n"));
	assert_non_null(strstr(text, "{pid=\"1002\",rank=\"\",device=\"cuda:0\",category=\"PARAMETER\"} 0\n"));
	assert_non_null(strstr(text, "memtrace_process_up{pid=\"1002\",rank=\"\"} 0\n"));
	assert_int_equal(count(text, "\nmemtrace_live_bytes{"), 6);
	free(text);
	text = metrics_of(&c.r, &(struct metrics_opts){ .form = METRICS_OPENMETRICS });
	assert_int_equal(count(text, "\nmemtrace_live_bytes{"), 3); /* how it ended: what is there */
	free(text);
	crowd_done(&c);
}

/* Of each process its last mark of each kind; none, no series. */
static void test_marks(void **state)
{
	struct crowd c;
	char *text;

	(void)state;
	crowd_init(&c, 2, 1, 0);
	c.procs[0].marks_cnt[MARK_FW_START] = 0;
	text = metrics_of(&c.r, &(struct metrics_opts){ .form = METRICS_TEXT });
	assert_non_null(strstr(text, "# TYPE memtrace_marks_total counter\n"));
	assert_non_null(strstr(text, "memtrace_marks_total{pid=\"1001\",rank=\"\",mark=\"fw_bw_boundary\"} 2\n"));
	assert_non_null(strstr(text, "memtrace_mark_live_bytes{pid=\"1001\",rank=\"\",mark=\"fw_start\"} 11\n"));
	assert_non_null(strstr(text, "memtrace_mark_peak_bytes{pid=\"1001\",rank=\"\",mark=\"step\"} 23\n"));
	assert_null(strstr(text, "{pid=\"1000\",rank=\"\",mark=\"fw_start\"}"));
	assert_int_equal(count(text, "\nmemtrace_mark_live_bytes{"), 5);
	free(text);
	c.r.marks.total = 0;
	text = metrics_of(&c.r, &(struct metrics_opts){ .form = METRICS_TEXT });
	assert_null(strstr(text, "memtrace_mark"));
	free(text);
	crowd_done(&c);
}

static void test_ranks(void **state)
{
	static char *lists[][2] = { { "LOCAL_RANK=1", "RANK=9" },
				    { "WORLD_SIZE=4", "SLURM_PROCID=7" },
				    { "LOCAL_RANK=2", "MASTER_ADDR=x" } };
	static const char *const wanted[] = { "9", "7", "2" };
	struct crowd c;
	char *text, line[80];

	(void)state;
	crowd_init(&c, 3, 1, 0);
	for (int i = 0; i < 3; i++) {
		c.procs[i].labels = lists[i];
		c.procs[i].labels_cnt = 2;
	}
	text = metrics_of(&c.r, &(struct metrics_opts){ .seen = &(struct metrics_seen){ .cnt = 0 } });
	for (int i = 0; i < 3; i++) {
		snprintf(line, sizeof(line), "memtrace_process_up{pid=\"%d\",rank=\"%s\"} 1\n", 1000 + i, wanted[i]);
		assert_non_null(strstr(text, line));
	}
	free(text);
	crowd_done(&c);
}

/* In the info alone, and only what is known; HOSTNAME is a machine's where there is no pod. */
static void test_containers(void **state)
{
	static char *lists[][4] = { { "POD_UID=u-1", "CONTAINER_ID=abc", "HOSTNAME=train-0", "POD_NAMESPACE=ml" },
				    { "CONTAINER_ID=def", "HOSTNAME=box", "CONTAINER_NAME=train", "RANK=1" },
				    { "POD_UID=u-2", "HOSTNAME=chosen", "POD_NAME=train-2", "CONTAINER_ID=\"} 1\n# EOF" } };
	static const char *const wanted[] = { "pod=\"train-0\",namespace=\"ml\",pod_uid=\"u-1\",container_id=\"abc\"",
					      "container=\"train\",container_id=\"def\"",
					      "pod=\"train-2\",pod_uid=\"u-2\",container_id=\"" };
	struct crowd c;
	char *text, line[160];

	(void)state;
	crowd_init(&c, 4, 1, 0);
	for (int i = 0; i < 3; i++) {
		c.procs[i].labels = lists[i];
		c.procs[i].labels_cnt = 4;
	}
	text = metrics_of(&c.r, &(struct metrics_opts){ .seen = &(struct metrics_seen){ .cnt = 0 } });
	check_lines(text);
	for (int i = 0; i < 3; i++) {
		snprintf(line, sizeof(line), "memtrace_process_info{pid=\"%d\",rank=\"%s\",comm=\"x\",%s%s", 1000 + i,
			 i == 1 ? "1" : "", wanted[i], i < 2 ? "} 1\n" : "");
		assert_non_null(strstr(text, line));
	}
	assert_non_null(strstr(text, "memtrace_process_info{pid=\"1003\",rank=\"\",comm=\"x\"} 1\n"));
	assert_int_equal(count(text, "pod="), 2);
	free(text);
	crowd_done(&c);
}

/* --- the page's documents -------------------------------------------------------------------------------- */

static json_t *document_of(struct page_feed *f, const struct report *r, size_t *ret_len)
{
	char *text = page_feed__document(f, r, ret_len);
	json_error_t e;
	json_t *doc;

	assert_non_null(text);
	assert_int_equal(strlen(text), *ret_len);
	assert_null(strpbrk(text, "<>&\n\r"));
	doc = json_loads(text, JSON_DECODE_INT_AS_REAL, &e);
	assert_non_null(doc);
	free(text);
	return doc;
}

static double last_of(const json_t *list)
{
	double v = 0;

	for (size_t i = 0; i < json_array_size(list); i++)
		v += json_number_value(json_array_get(list, i));
	return v;
}

/* Weeks at a sample a second in a few turns of the loop: bounded, in time order, now and the peak exact. */
static void test_weeks(void **state)
{
	struct page_feed *f = page_feed__new();
	struct point seen[] = { { 1000, 70, 60 }, { 1500, 50, 50 } };
	struct crowd c;
	uint64_t t = 0, step = 1000000000;
	size_t len = 0;

	(void)state;
	crowd_init(&c, 30, 2, 0);
	c.r.run.host = c.r.run.comm = c.r.run.cmdline = c.r.ops.none.name = (char *)"";
	for (int i = 0; i < 4000; i++, t += step) {
		step = i < 1000 ? 1000000000ull : 1000000000ull * (1 + (unsigned)i / 10);
		c.r.run.end_ts_ns = t;
		c.devs[0].cats[CAT_PARAMETER].live = 60 * 30 + (uint64_t)i % 7;
		c.devs[0].cats[CAT_INPUT].live = 40 * 30;
		c.devs[0].live = c.devs[0].cats[CAT_PARAMETER].live + 40 * 30;
		if (i == 1500) {
			c.devs[0].peak = 100000;
			c.devs[0].peak_ts_ns = t + 17;
			c.devs[0].cats[CAT_ACTIVATION].at_peak = 100000;
		}
		page_feed__sample(f, &c.r);
	}
	c.devs[0].between = (struct series){ seen, 2, 500 };
	json_t *doc = document_of(f, &c.r, &len), *lanes = json_object_get(doc, "lanes");

	assert_in_range(len, 10000, 1000000);
	assert_int_equal(json_array_size(lanes), PAGE_FEED_LANES);
	assert_true(json_number_value(json_object_get(doc, "lanes_left_out")) > 0);
	for (size_t i = 0; i < json_array_size(lanes); i++) {
		const json_t *lane = json_array_get(lanes, i), *times = json_object_get(lane, "t");
		size_t cnt = json_array_size(times);

		assert_in_range(cnt, 50, PAGE_FEED_LANE_POINTS + 3);
		assert_int_equal(last_of(times), c.r.run.end_ts_ns);
		for (size_t k = 1; k < cnt; k++)
			assert_true(json_number_value(json_array_get(times, k)) > 0);
	}
	const json_t *first = json_array_get(lanes, 0), *cats = json_object_get(first, "cats");
	double high = 0, v = 0;

	assert_int_equal(json_number_value(json_object_get(first, "peak")), 100000);
	assert_int_equal(last_of(json_object_get(cats, "PARAMETER")), c.devs[0].cats[CAT_PARAMETER].live);
	for (size_t i = 0; i < json_array_size(json_object_get(cats, "ACTIVATION")); i++) {
		v += json_number_value(json_array_get(json_object_get(cats, "ACTIVATION"), i));
		high = v > high ? v : high;
	}
	assert_int_equal(high, 100000);
	const json_t *between = json_object_get(first, "between"), *rows = json_object_get(between, "rows");

	assert_int_equal(json_number_value(json_object_get(between, "bucket")), 500);
	assert_int_equal(json_array_size(rows), 4);
	assert_int_equal(last_of(rows), 1500 + 50);
	assert_null(json_object_get(json_array_get(lanes, 1), "between"));
	json_decref(doc);
	page_feed__free(f);
	page_feed__free(NULL);
	crowd_done(&c);
}

/* Reports as they come, hostile ones too; nothing at all. */
static void test_documents(void **state)
{
	struct page_feed *f = page_feed__new();
	struct report fixed[] = { fix_report(), fix_hostile() };
	size_t len;

	(void)state;
	for (int i = 0; i < 2; i++) {
		json_t *doc = document_of(f, &fixed[i], &len), *report;

		page_feed__sample(f, &fixed[i]);
		json_decref(doc);
		doc = document_of(f, &fixed[i], &len);
		report = json_object_get(doc, "report");
		assert_int_equal(json_number_value(json_object_get(doc, "schema")), 1);
		assert_null(json_object_get(doc, "icicle"));
		assert_null(json_object_get(doc, "growth"));
		assert_null(json_object_get(doc, "blocks"));
		assert_true(json_array_size(json_object_get(doc, "honesty")) > 5);
		assert_true(json_array_size(json_object_get(report, "processes")) <= VIEW_BRIEF_PROCS);
		assert_null(json_object_get(json_object_get(json_object_get(report, "devices"), "cpu"), "series"));
		json_decref(doc);
	}
	page_feed__free(f);
}

#define MS 1000000ull

/* A report that others kept the CPU from is no dear one; one that used it is. */
static void test_pace(void **state)
{
	struct pace p = { 0 };
	uint64_t until;

	(void)state;
	assert_true(pace__may(&p, 0));
	pace__begin(&p);
	usleep(100000); /* by the clock alone it would be 20 s */
	pace__made(&p);
	assert_true(now_ns() - p.made_ns < 1000 * MS);
	assert_false(pace__may(&p, 0));
	assert_true(pace__may(&p, 2000 * MS));
	pace__begin(&p);
	for (until = cpu_ns() + 10 * MS; cpu_ns() < until;)
		;
	pace__made(&p);
	assert_false(pace__may(&p, 10 * MS * PACE_FACTOR - 1));
	assert_true(pace__may(&p, p.cost_ns * PACE_FACTOR));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accept),     cmocka_unit_test(test_gzip),
		cmocka_unit_test(test_hosts),	    cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_port_in_use), cmocka_unit_test(test_unix_addresses), cmocka_unit_test(test_unix_socket),
		cmocka_unit_test(test_door_hosts), cmocka_unit_test(test_token_file), cmocka_unit_test(test_token),
		cmocka_unit_test(test_places),	    cmocka_unit_test(test_forms),  cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_cardinality), cmocka_unit_test(test_series_stay), cmocka_unit_test(test_marks),
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_containers),
		cmocka_unit_test(test_weeks),	    cmocka_unit_test(test_documents), cmocka_unit_test(test_pace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* What reaches the terminal of a message with names of the target in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

static char said[4096];

/* log_warn's line, as it arrives. */
static const char *say(const char *text)
{
	FILE *f = tmpfile();
	int was = dup(STDERR_FILENO);
	ssize_t n;

	assert_non_null(f);
	fflush(stderr);
	dup2(fileno(f), STDERR_FILENO);
	log_warn("%s", text);
	fflush(stderr);
	dup2(was, STDERR_FILENO);
	close(was);
	n = pread(fileno(f), said, sizeof(said) - 1, 0);
	fclose(f);
	assert_true(n >= 0);
	said[n] = '\0';
	return said;
}

static void test_control_characters(void **state)
{
	static const struct {
		const char *text, *reported;
	} rows[] = {
		{ "plain", "plain" },
		{ "\x1b[2Jx\x7f\r\ty", "?[2Jx???y" },
		{ "a\x9b""31m\x90q\x9d""0;t\x9c", "a?31m?q?0;t?" },			  /* C1 as bytes: CSI, DCS, OSC */
		{ "a\xc2\x9b""31m\xc2\x9d""0;t\xc2\x9c\xc2\x80", "a?31m?0;t??" },	  /* and as UTF-8 */
		{ "\xe2\x80\xae""cod.exe\xe2\x80\x8b", "?cod.exe?" },			  /* turned around, not seen */
		{ "\xc3\x9f \xe5\xb1\x82 \xf0\x9f\x94\xa5", "\xc3\x9f \xe5\xb1\x82 \xf0\x9f\x94\xa5" },
		{ "\xc3", "?" }, { "\xc3\x9b", "\xc3\x9b" }, { "\xe0\x82\x9b""x", "???x" }, /* 0x9b, three bytes long */
		{ "\xff\xfe\xef\xbf\xbd", "??\xef\xbf\xbd" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char line[300];

		snprintf(line, sizeof(line), "memtrace: %s\n", rows[i].reported);
		assert_string_equal(say(rows[i].text), line);
	}
}

/* A message that is cut within a character. */
static void test_long(void **state)
{
	char text[3000] = "x";

	(void)state;
	while (strlen(text) < sizeof(text) - 3)
		strcat(text, "\xc2\xa9");
	say(text);
	assert_in_range(strlen(said), 1000, 1100);
	for (const char *p = said + strlen("memtrace: x"); *p != '\n'; p += *p == '?' ? 1 : 2)
		assert_true(!strncmp(p, "\xc2\xa9", 2) || (*p == '?' && p[1] == '\n'));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_control_characters),
		cmocka_unit_test(test_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* Who asked, and what is left of root's rights. Changes are made in children: they are for good. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/asker.h"
#include "base/err.h"

static int in_child(int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(fn());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void need_root(void)
{
	if (geteuid())
		skip();
}

static void without_sudo_it_is_ourselves(void **state)
{
	static const char *const odd[] = { NULL, "", "-1", "4294967295", "99999999999", "12x", " 12", "0" };
	struct asker a;

	(void)state;
	setenv("SUDO_GID", "1234", 1);
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		if (odd[i])
			setenv("SUDO_UID", odd[i], 1);
		else
			unsetenv("SUDO_UID");
		asker__find(&a);
		assert_int_equal(a.uid, getuid());
		assert_int_equal(a.gid, getgid());
		assert_false(a.is_other);
		assert_true(a.groups_cnt >= 1);
	}
}

/* Not root, because a group is not told. */
static void a_user_needs_no_group(void **state)
{
	static const char *const odd[] = { NULL, "", "-1", "x" };
	struct asker a;

	(void)state;
	need_root();
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		if (odd[i])
			setenv("SUDO_GID", odd[i], 1);
		else
			unsetenv("SUDO_GID");
		setenv("SUDO_UID", "1", 1); /* daemon */
		asker__find(&a);
		assert_true(a.is_other && a.uid == 1);
		assert_int_equal(a.gid, 1);
		setenv("SUDO_UID", "54321", 1); /* nobody's */
		asker__find(&a);
		assert_true(a.is_other && a.uid == 54321);
		assert_int_equal(a.gid, 65534);
	}
}

static int become_sudo_user(void)
{
	struct asker a;
	gid_t groups[8];

	setenv("SUDO_UID", "54321", 1);
	setenv("SUDO_GID", "54322", 1);
	asker__find(&a);
	if (!a.is_other || asker__become(&a, NULL) < 0)
		return 1;
	if (getuid() != 54321 || geteuid() != 54321 || getgid() != 54322 || getegid() != 54322)
		return 2;
	if (getgroups(8, groups) != 1 || groups[0] != 54322)
		return 3;
	if (!setuid(0) || !access("/etc/shadow", R_OK))
		return 4;
	return 0;
}

static void sudo_user_is_become_for_good(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(in_child(become_sudo_user), 0);
}

static void user_by_name_or_number(void **state)
{
	struct err err = { 0 };
	struct asker a, b;

	(void)state;
	assert_int_equal(asker__of(&a, "daemon", &err), 0);
	assert_string_equal(a.name, "daemon");
	assert_int_equal(asker__of(&b, "1", &err), 0);
	assert_int_equal(a.uid, b.uid);
	assert_true(asker__of(&a, "no such user", &err) < 0);
	assert_true(strstr(err.msg, "no such user") != NULL);
	assert_true(err.hint[0] != '\0');
}

static int drop_all(void)
{
	static const char *const empty[] = { "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:" };
	char line[256];
	FILE *f;
	int seen = 0, nnp = 0;

	if (privs_drop() < 0)
		return 1;
	f = fopen("/proc/self/status", "r");
	if (!f)
		return 2;
	while (fgets(line, sizeof(line), f)) {
		for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++)
			if (!strncmp(line, empty[i], 7)) {
				if (strtoull(line + 7, NULL, 16))
					return 3;
				seen++;
			}
		nnp |= !strcmp(line, "NoNewPrivs:\t1\n");
	}
	fclose(f);
	return seen == 5 && nnp ? 0 : 4;
}

static void nothing_is_left_after_a_drop(void **state)
{
	(void)state;
	need_root();
	assert_int_equal(in_child(drop_all), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_sudo_it_is_ourselves),
		cmocka_unit_test(a_user_needs_no_group), cmocka_unit_test(sudo_user_is_become_for_good),
		cmocka_unit_test(user_by_name_or_number),	cmocka_unit_test(nothing_is_left_after_a_drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

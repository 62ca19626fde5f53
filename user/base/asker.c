/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
#include "base/asker.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"

#define GID_NOBODY 65534

/* A decimal number of a user or group; -1 is excluded, as system calls take it for "no change". */
static int id_parse(const char *text, unsigned *ret)
{
	unsigned long v;
	char *end;

	if (!text || *text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	v = strtoul(text, &end, 10);
	if (errno || *end || v >= UINT_MAX)
		return -EINVAL;
	*ret = (unsigned)v;
	return 0;
}

/*
 * Groups of another user come from the name service, which loads the machine's libraries for that: also into a bundle, which
 * has its own C library. Those of this process come from the kernel.
 */
static void asker__fill_groups(struct asker *a)
{
	int n = ASKER_GROUPS_MAX;

	a->groups[0] = a->gid;
	a->groups_cnt = 1;
	if (!a->is_other) {
		n = getgroups(n - 1, a->groups + 1);
		a->groups_cnt += n > 0 ? (size_t)n : 0;
	} else if (a->name[0] && getgrouplist(a->name, a->gid, a->groups, &n) >= 0 && n > 0) {
		a->groups_cnt = (size_t)n;
	}
}

static void asker__from_passwd(struct asker *a, const struct passwd *pw)
{
	if (pw)
		snprintf(a->name, sizeof(a->name), "%s", pw->pw_name);
	asker__fill_groups(a);
}

void asker__find(struct asker *ret)
{
	const struct passwd *pw;
	unsigned uid, gid;

	*ret = (struct asker){ .uid = getuid(), .gid = getgid() };
	if (!getuid() && !geteuid() && !id_parse(getenv("SUDO_UID"), &uid) && uid) {
		ret->uid = uid;
		ret->is_other = 1;
	}
	pw = getpwuid(ret->uid);
	if (ret->is_other) /* a user with an unknown group still is that user, and not root */
		ret->gid = !id_parse(getenv("SUDO_GID"), &gid) ? gid : pw ? pw->pw_gid : GID_NOBODY;
	asker__from_passwd(ret, pw);
}

int asker__of(struct asker *ret, const char *name, struct err *err)
{
	struct passwd *pw = getpwnam(name);
	unsigned uid;

	if (!pw && !id_parse(name, &uid))
		pw = getpwuid(uid);
	if (!pw) {
		err_set(err, -ENOENT, "there is no user \"%.60s\"", name);
		return err_hint(err, "--user takes a name or a number that getent passwd knows");
	}
	*ret = (struct asker){ .uid = pw->pw_uid, .gid = pw->pw_gid, .is_other = !geteuid() && pw->pw_uid };
	asker__from_passwd(ret, pw);
	return 0;
}

int asker__become(const struct asker *a, struct err *err)
{
	if (!a->is_other)
		return 0;
	if (setgroups(a->groups_cnt, a->groups) < 0 || setresgid(a->gid, a->gid, a->gid) < 0 ||
	    setresuid(a->uid, a->uid, a->uid) < 0)
		return err_set(err, -errno, "becoming user %u: %s", (unsigned)a->uid, strerror(errno));
	if (!setresuid(0, 0, 0)) /* must no longer work */
		return err_set(err, -EPERM, "becoming user %u: root can still be had", (unsigned)a->uid);
	return 0;
}

void privs_drop_bounds(uint64_t kept)
{
	for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (!(kept & 1ull << cap) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			break;
}

int privs_drop(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

	privs_drop_bounds(0);
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capset, &head, none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return 0;
}

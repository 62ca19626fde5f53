/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * asker: the user on whose behalf this process runs, and how it gives away rights that it does not need.
 *
 * `sudo memtrace …` is root for another user: files belong to that user, launched commands run as that user. Without sudo the
 * asker is the user who runs us. Changes made here are for good and for all threads: call them before there are any.
 */
#ifndef MT_BASE_ASKER_H
#define MT_BASE_ASKER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

#define ASKER_GROUPS_MAX 256
#define ASKER_NAME_MAX 64

struct asker {
	uid_t uid;
	gid_t gid;
	gid_t groups[ASKER_GROUPS_MAX]; /* includes the primary one */
	size_t groups_cnt;
	int is_other;		   /* we are root, and the asker is not */
	char name[ASKER_NAME_MAX]; /* "" if the uid has none */
};

/* SUDO_UID and SUDO_GID (sudo, doas with keepenv) if we are root and the first is a user's number; else ourselves. */
void asker__find(struct asker *ret);
/* A user by name or number, for --user. -ENOENT with a hint. */
int asker__of(struct asker *ret, const char *name, struct err *err);
/* uid, gid and groups become the asker's, real, effective and saved; capabilities are lost. Nothing if !is_other. */
int asker__become(const struct asker *a, struct err *err);

/*
 * Drops all capabilities, the bounding and ambient ones too; no later exec brings one back (no_new_privs). The uid stays. 0 or
 * -errno.
 */
int privs_drop(void);
/*
 * Drops what an exec could bring back from now on, except `kept` (a bit per capability). Before changing to another user:
 * without CAP_SETPCAP all stay, and only no_new_privs makes them useless.
 */
void privs_drop_bounds(uint64_t kept);

#endif

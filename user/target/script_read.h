/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* script_read: a whole file that inductor wrote for a process (script.h). */
#ifndef MT_TARGET_SCRIPT_READ_H
#define MT_TARGET_SCRIPT_READ_H

#include <stddef.h>
#include <sys/types.h>

/*
 * The whole file, malloc'ed; the caller frees it. Through the door, which refuses some (door.h: script); -EAGAIN: it changed
 * while it was read.
 */
int script_read(pid_t pid, const char *path, char **ret, size_t *ret_len);

#endif

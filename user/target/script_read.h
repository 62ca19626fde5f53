/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* script_read: a file that inductor wrote for a process (script.h), whole. */
#ifndef MT_TARGET_SCRIPT_READ_H
#define MT_TARGET_SCRIPT_READ_H

#include <stddef.h>
#include <sys/types.h>

/*
 * The file, whole, malloc'ed; the caller frees it. Through the door, which says what is refused (door.h: script); -EAGAIN: it
 * changed while it was read.
 */
int script_read(pid_t pid, const char *path, char **ret, size_t *ret_len);

#endif

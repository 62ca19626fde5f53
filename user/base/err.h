/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * err: why something failed, printed once, by cmd/, as "memtrace: <msg>" and "hint: <hint>".
 *
 * Owned by the caller, on its stack, zero-initialised; a NULL err is allowed everywhere. Library
 * rooms fill it and return -errno; they never print and never exit.
 */
#ifndef MT_BASE_ERR_H
#define MT_BASE_ERR_H

struct err {
	int code; /* -errno of the first failure, 0 = none */
	char msg[384];
	char hint[256];
};

/* Sets code and message, keeps an earlier hint out; returns code, so: return err_set(err, -EIO, …). */
int err_set(struct err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Puts "<context>: " before the message. Returns code. */
int err_wrap(struct err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* What the user can do about it. Returns err->code (-EIO for NULL), so: return err_hint(err, …). */
int err_hint(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* usdt: which USDT probes are wanted and what their arguments mean; private to plan/. */
#ifndef MT_PLAN_USDT_H
#define MT_PLAN_USDT_H

#include <stddef.h>
#include <stdint.h>

#include "memtrace/event.h"

struct err;
struct builder;

#define USDT_NAME_MAX 64
#define USDT_NO_ARG   (-1)

struct usdt_pattern {
	char provider[USDT_NAME_MAX], name[USDT_NAME_MAX];
	uint8_t kind;			/* enum mt_kind */
	int8_t ptr, size, device, text; /* argument numbers or USDT_NO_ARG; STEP: ptr is the number */
	uint8_t is_users;		/* from --usdt */
	uint32_t sites, left_out;	/* planned; not planned, because a probe there could do harm */
};

/* "PROVIDER:NAME[:ARG=meaning,…]": 0, or -EINVAL with a message that explains the syntax. */
int usdt_pattern_parse(const char *text, struct usdt_pattern *ret, struct err *err);
/* The patterns that are always wanted; returns how many. */
size_t usdt_patterns_known(const struct usdt_pattern **ret);
/* Sites of the current library. */
int usdt__plan_lib(struct builder *b);
void usdt__cover(struct builder *b);

#endif

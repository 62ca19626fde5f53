/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* what_if: estimate of a recording under another batch, optimizer or dtype (user/estimate/whatif.h). */
#ifndef MT_CMD_WHAT_IF_H
#define MT_CMD_WHAT_IF_H

struct options;
struct err;
struct recorded;

int is_what_if(const struct options *o);
int estimate_what_if(const struct options *o, struct err *err);
/* The device that --device asks for, or the recording's own: 0 or -ENODATA with a message. */
int estimate_dev(const struct options *o, const struct recorded *r, unsigned char *ret, struct err *err);

#endif

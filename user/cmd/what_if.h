/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/* what_if: estimate of a recording under another batch, optimizer or dtype (user/estimate/whatif.h). */
#ifndef MT_CMD_WHAT_IF_H
#define MT_CMD_WHAT_IF_H

struct options;
struct err;
struct recorded;
struct recorded_kept;
struct report;

int is_what_if(const struct options *o); /* an option asks for that */
/* Prints it. An exit code (cmd.h), or -errno with *err. */
int estimate_what_if(const struct options *o, struct err *err);
/* The report's time base and moment of the peak. Before estimate_kept(). */
void recorded_as_reported(struct recorded *r, const struct report *rep);
/*
 * The blocks that a recording, read to its end, kept at the peak of the device asked for, or of its own. `unknown`: what is
 * unknown of it without data flow. 0, or -errno with *err; *ret is the caller's, for recorded_kept__done.
 */
int estimate_kept(const struct options *o, const char *path, struct recorded *r, const char *unknown, struct recorded_kept *ret,
		  struct err *err);

#endif

/* SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause */
/*
 * survey: looks for the jobs of this machine (timeline/survey.h), in a process of its own, which gives its rights away before
 * it reads what the jobs wrote, and has half a minute: a process can delay whoever reads its arguments.
 */
#ifndef MT_LIVE_SURVEY_H
#define MT_LIVE_SURVEY_H

#include "timeline/survey.h"

struct asker;
struct err;

/*
 * may_look: we have CAP_SYS_PTRACE. name: the text for is_named: an argument of the command line, or its end after a slash;
 * NULL. 0 or -errno.
 */
int survey_make(struct survey *ret, const struct asker *as, int may_look, const char *name, struct err *err);
void survey__done(struct survey *s);

#endif
